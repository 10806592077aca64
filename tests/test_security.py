"""Hostile files: every loader answers with a ValueError in one sentence; no code runs, nothing hangs, no traceback
reaches the command line.

Two thousand damaged inputs, a sample of the twenty thousand of `make test-hostile`: bytes flipped, cut, doubled and
spliced into valid files, JSON and TOML trees with values of the wrong kind.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from click.testing import CliRunner
from damage import SPITE, damaged, spoiled, survives
from regretless_bench.record import read_record
from regretless_bench.runner import run_from_names

from regretless.basics.statefile import pack, read_state, sealed, unpack, write_state
from regretless.cli import main
from regretless.doors.optuna.distributions import as_distributions
from regretless.doors.optuna.presence import LINE
from regretless.doors.optuna.sampler import Sampler
from regretless.doors.optuna.trials import VARIANCE
from regretless.doors.optuna.workers import OWNER, signature
from regretless.optimizer import Optimizer
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int

SPACE = """
[lr]
type = "float"
low = 1e-5
high = 1e-1
log = true
[n]
type = "int"
low = 1
high = 9
[act]
type = "choice"
labels = ["relu", "tanh"]
"""


class Bomb:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.timeout(120)
def test_spaces(tmp_path: Path) -> None:
    rng = random.Random(1)
    inputs = [damaged(SPACE.encode(), rng) for _ in range(400)]
    assert survives(Space, tmp_path / "space.toml", inputs) > 170
    (tmp_path / "good.toml").write_text(SPACE)
    description = Space(tmp_path / "good.toml").to_json()

    def load(path: Path) -> Space:
        return Space.from_json(json.loads(path.read_text()))

    trees = [json.dumps(spoiled(description, rng)).encode() for _ in range(200)]
    assert survives(load, tmp_path / "space.json", trees) > 90


def checkpoint(path: Path) -> bytes:
    optimizer = Optimizer({"x": Float(-5, 10), "k": Int(1, 5), "c": Choice(["a", "b"])}, method="random", seed=0)
    for i in range(6):
        trial = optimizer.ask()
        optimizer.tell(trial, float(i)) if i % 3 else optimizer.tell(trial, failed=True)
    optimizer.ask()
    optimizer.save(path)
    return path.read_bytes()


@pytest.mark.timeout(180)
def test_checkpoints(tmp_path: Path) -> None:
    rng = random.Random(2)
    valid = checkpoint(tmp_path / "valid")
    assert survives(Optimizer.load, tmp_path / "bad", [damaged(valid, rng) for _ in range(250)]) > 135
    state = read_state(tmp_path / "valid")
    for _ in range(100):
        bad = spoiled(state, rng)
        try:
            write_state(tmp_path / "bad", bad if isinstance(bad, dict) else {"kind": bad})
        except ValueError:
            continue  # nothing that could be written
        assert survives(Optimizer.load, tmp_path / "bad", [(tmp_path / "bad").read_bytes()]) in (0, 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": (2, np.inf)}, "the value of trial 2 is infinite"),
        ({"cost": (2, np.inf)}, "the cost of trial 2 is infinite"),
        ({"value": (6, 7.0)}, "a trial has a value and has not ended"),
        ({"ended": (1, 6)}, "a trial has a value and has not ended"),
        ({"ended": (1, 0)}, "the order in which its trials ended is none"),
        ({"ended": (1, 7)}, "the order in which its trials ended is none"),
        ({"var": (2, -1.0)}, "yvar must not be negative"),
        ({"unit": (2, 2.0)}, "the point of trial 2 does not lie in the unit cube"),
        ({"unit": (2, 0.25)}, "its unit cannot be taken as written"),
        ({"own": ("2", {"x": 1.0, "k": 2, "c": "a"})}, "the parameters of trial 2 do not belong to its point"),
        ({"record": ("numbers", [1])}, "it numbers other trials than it holds"),
    ],
)
def test_checkpoints_that_say_the_impossible(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    checkpoint(tmp_path / "valid")
    state = read_state(tmp_path / "valid")
    for key, (at, value) in changes.items():
        state[key][at] = value
    write_state(tmp_path / "bad", state)
    with pytest.raises(ValueError, match=words):
        Optimizer.load(tmp_path / "bad")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("grid-ei", {"points_per_axis": 10**9}),
        ("grid-ei", {"points_per_axis": 4000}),
        ("neural-bo", {"width": 10**9}),
        ("tangent-region", {"width": 10**9}),
        ("neural-bo", {"width": 4096, "depth": 4096}),
        ("neural-bo", {"n_candidates": 10**15}),
    ],
)
def test_options_of_a_file_cannot_ask_for_all_memory(method: str, options: dict[str, int], tmp_path: Path) -> None:
    Optimizer({"x": Float(-5, 10), "y": Float(1e-3, 1, log=True)}, method=method, seed=0).save(tmp_path / "honest")
    state = read_state(tmp_path / "honest")
    state["recipe"]["options"] = options
    write_state(tmp_path / "crafted", state)
    with pytest.raises(ValueError, match=r"pass method=|points, more than|weights"):
        Optimizer.load(tmp_path / "crafted")


def test_checkpoints_never_run_code(tmp_path: Path) -> None:
    trap = tmp_path / "trapped"
    bombs = [pickle.dumps(Bomb(trap))]
    for entry in ("json.npy", "array0.npy"):  # an array of objects, which NumPy would unpickle if it were allowed to
        buffer, array = io.BytesIO(), io.BytesIO()
        np.save(array, np.array([Bomb(trap)], dtype=object), allow_pickle=True)
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(entry, array.getvalue())
        bombs.append(buffer.getvalue())
    plain = io.BytesIO()
    np.save(plain, np.array([Bomb(trap)], dtype=object), allow_pickle=True)
    bombs.append(plain.getvalue())
    bombs += [sealed(bomb) for bomb in bombs]  # with the digest of an honest file
    for load in (Optimizer.load, read_state, read_record, lambda p: unpack(p.read_bytes())):
        assert survives(load, tmp_path / "bomb", bombs) == len(bombs)
    assert not trap.exists()


def test_a_checkpoint_that_claims_to_be_huge_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
        header += b" " * (118 - len(header)) + b"\n"
        archive.writestr("json.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    path.write_bytes(sealed(path.read_bytes()))
    with pytest.raises(ValueError, match="not a readable state file: ValueError: an entry is compressed"):
        Optimizer.load(path)


@pytest.mark.timeout(180)
def test_records(tmp_path: Path) -> None:
    rng = random.Random(3)
    run_from_names(["random"], ["branin"], seeds=1, budget=5, out=tmp_path / "runs", jobs=1)
    valid = next(path for path in (tmp_path / "runs").rglob("*") if path.is_file() and path.stat().st_size)
    lines = [json.loads(line) for line in valid.read_text().splitlines()]
    inputs = [damaged(valid.read_bytes(), rng) for _ in range(350)]
    for _ in range(250):
        i = rng.randrange(len(lines))
        inputs.append(
            "\n".join(json.dumps(line) for line in [*lines[:i], spoiled(lines[i], rng), *lines[i + 1 :]]).encode()
        )
    assert survives(read_record, tmp_path / valid.name, inputs) > 150


@pytest.mark.timeout(120)
def test_inner_states(tmp_path: Path) -> None:
    rng = random.Random(4)
    valid = pack({"w": np.arange(6.0).reshape(2, 3), "step": 3, "list": [1, "a", None]})
    wounds = [wound for wound in (damaged(valid, rng) for _ in range(300)) if wound != valid]
    assert survives(lambda path: unpack(path.read_bytes()), tmp_path / "state", wounds) == len(wounds)
    resealed = [sealed(damaged(valid[:-32], rng)) for _ in range(300)]
    assert survives(lambda path: unpack(path.read_bytes()), tmp_path / "state", resealed) > 150


def test_attributes_of_a_storage() -> None:
    """Another worker, or anybody with access to the database, may write anything into a study's attributes."""
    rng = random.Random(5)
    space = as_distributions({"x": Float(0, 1), "c": Choice(["a", "b"])})
    study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=space))
    for number in range(30):
        asks = rng.choice([*SPITE, spoiled({"x": 0.5, "c": 1.0}, rng), {"c": 1e9, "x": 0.1}, {"x": [[]]}])
        by = rng.choice([*SPITE, {}, {**signature(), "pid": rng.choice([*SPITE, -1, 10**30])}])
        line = {"by": by, "count": rng.choice([1, *SPITE]), "asks": rng.choice([{str(2 * number): asks}, *SPITE])}
        attributes = {OWNER: rng.choice([*SPITE, {"worker": rng.choice(SPITE)}])} if number % 2 else {}
        running = optuna.trial.create_trial(state=optuna.trial.TrialState.RUNNING, system_attrs=attributes)
        study._storage.create_new_trial(study._study_id, template_trial=running)
        study._storage.set_study_system_attr(study._study_id, f"{LINE}{number}", rng.choice([line, line, *SPITE]))
        study.add_trial(
            optuna.create_trial(
                params={"x": 0.5, "c": "a"}, distributions=space, value=1.0, user_attrs={VARIANCE: rng.choice(SPITE)}
            )
        )
    for _ in range(3):
        trial = study.ask(space)
        assert 0 <= trial.params["x"] <= 1
        study.tell(trial, 1.0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"[a\n",
        b"a = 1",
        b'[a]\ntype = "float"\nlow = 2\nhigh = 1',
        b"x = " + b"[" * 5000,
        pickle.dumps({}),
    ],
)
def test_the_command_line_shows_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def cost(a):\n    return a\n")
    (tmp_path / "space.toml").write_bytes(content)
    (tmp_path / "good.toml").write_text('[a]\ntype = "float"\nlow = 0\nhigh = 1\n')
    (tmp_path / "run.npz").write_bytes(content or b"x")
    objective = f"{tmp_path}/train.py:cost"
    for arguments in (
        ["--space", f"{tmp_path}/space.toml"],
        ["--space", f"{tmp_path}/good.toml", "--checkpoint", f"{tmp_path}/run.npz"],
    ):
        result = CliRunner().invoke(main, ["tune", objective, "--trials", "2", *arguments])
        assert result.exit_code == 2
        assert "Traceback" not in result.output
        assert len(result.output.strip().splitlines()) == 1
