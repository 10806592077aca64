"""A study's folder after damage: it is refused by a StateError that names the file, or ends with the same result."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regretless import GOUCB
from regretless.basics.statefile import StateError
from regretless.bilevel import Bilevel, BilevelResult, minimize_bilevel
from regretless.space.parameters import Float

SPACE = {"rate": Float(0.01, 0.9, log=True), "start": Float(-4.0, 8.0)}
BUDGET = 120
STOP = 25
"""Stretches after which the study is stopped; a third of its states have been superseded or dropped by then."""


def init(params: dict[str, Any], seed: int) -> dict[str, Any]:
    return {"theta": np.full(2, params["start"]), "rate": params["rate"], "rng": np.random.default_rng(seed)}


def step(state: dict[str, Any]) -> dict[str, Any]:
    state["theta"] = state["theta"] - state["rate"] * (state["theta"] - 2.0 + 0.3 * state["rng"].standard_normal(2))
    return state


PROBLEM = Bilevel(init, step, lambda state: float(((state["theta"] - 2.0) ** 2).mean()) + 0.05)


def study(folder: Path | None = None, **options: Any) -> BilevelResult:
    return minimize_bilevel(
        PROBLEM, SPACE, budget_steps=BUDGET, seed=1, method="random", keep=5, progress=False, folder=folder, **options
    )


def facts(result: BilevelResult) -> Any:
    runs = [(r.params, r.steps, r.curve, r.status, r.thawable, r.log) for r in result.runs]
    return result.params, result.value, result.state["theta"].tolist(), result.steps, result.spent, runs


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that was stopped half-way."""
    folder = tmp_path_factory.mktemp("study")
    stretches: list[int] = []
    early = study(folder, callback=lambda run: stretches.append(1) or len(stretches) == STOP)
    assert not early.success
    return folder


@pytest.fixture(scope="module")
def whole() -> Any:
    return facts(study())


def resumed_or_refused(folder: Path, whole: Any) -> bool:
    """Whether the folder was refused by a StateError that names a file; otherwise the study must end as if unharmed."""
    try:
        result = study(folder)
    except StateError as error:
        message = str(error)
    else:
        assert facts(result) == whole
        return False
    assert str(folder) in message
    return True


def wound(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    kind = rng.randrange(5)
    if kind == 0:
        return data[:at] + data[at + rng.randint(1, 9) :]
    if kind == 1:
        return data[:at] + rng.randbytes(3) + data[at:]
    if kind == 2:
        return data[:at]
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]  # the usual one


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("name", "times"), [("journal.jsonl", 150), ("study.json", 100), ("states", 25)])
def test_no_wound_gives_another_study(stopped: Path, whole: Any, tmp_path: Path, name: str, times: int) -> None:
    rng, refused = random.Random(0), 0
    for i in range(times):
        folder = tmp_path / str(i)
        shutil.copytree(stopped, folder)
        files = sorted((folder / name).iterdir()) if name == "states" else [folder / name]
        path = rng.choice(files)
        path.write_bytes(wound(path.read_bytes(), rng))
        refused += resumed_or_refused(folder, whole)
        shutil.rmtree(folder)
    assert refused > times / 5, "most wounds of the journal and of states that are read should be noticed"


@pytest.mark.parametrize(
    "harm",
    [
        lambda lines: [*lines[:4], lines[3], *lines[4:]],
        lambda lines: [*lines[:4], *lines[5:]],
        lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
        lambda lines: lines[1:],
    ],
    ids=["doubled", "missing", "swapped", "beheaded"],
)
def test_lines_out_of_order_are_refused(
    stopped: Path, tmp_path: Path, harm: Callable[[list[bytes]], list[bytes]]
) -> None:
    shutil.copytree(stopped, tmp_path / "study")
    path = tmp_path / "study" / "journal.jsonl"
    path.write_bytes(b"".join(harm(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(StateError, match=r"journal\.jsonl, line \d+, does not follow"):
        study(tmp_path / "study")


def test_a_journal_that_lost_its_end_never_gives_another_study(stopped: Path, whole: Any, tmp_path: Path) -> None:
    lines = (stopped / "journal.jsonl").read_bytes().splitlines(keepends=True)
    outcomes = set()
    for n in range(len(lines)):
        folder = tmp_path / str(n)
        shutil.copytree(stopped, folder)
        (folder / "journal.jsonl").write_bytes(b"".join(lines[:n]))
        outcomes.add(resumed_or_refused(folder, whole))
    assert outcomes == {True, False}


def test_a_missing_state_or_one_of_another_run_is_refused(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "study")
    first, second, *_ = sorted((tmp_path / "study" / "states").iterdir())
    first.write_bytes(second.read_bytes())
    with pytest.raises(StateError, match=f"{first.stem}|{first.name}"):
        study(tmp_path / "study")
    first.unlink()
    with pytest.raises(StateError, match=f"{first.name} is missing or damaged"):
        study(tmp_path / "study")


def test_files_of_another_study_are_refused(stopped: Path, tmp_path: Path) -> None:
    """A journal and states without their study.json are not taken for those of a study with other arguments."""
    shutil.copytree(stopped, tmp_path / "study")
    (tmp_path / "study" / "study.json").unlink()
    with pytest.raises(StateError, match="another study"):
        study(tmp_path / "study", cap=3.0)


def test_the_study_file_says_what_differs(stopped: Path) -> None:
    assert json.loads((stopped / "study.json").read_text())["study"]["seed"] == 1
    with pytest.raises(ValueError, match="holds another study: cap differ"):
        study(stopped, cap=3.0)


def test_functions_among_the_options_are_known_by_their_content(tmp_path: Path) -> None:
    """Another process has another address for the same function."""

    def model(power: float) -> Any:
        return lambda w, x: w[0] + w[1] * x[:, 0] ** power

    def go(power: float) -> BilevelResult:
        method = GOUCB(model=model(power), w_bounds=[(-3.0, 3.0)] * 2)
        space = {"start": Float(1.0, 8.0)}
        problem = Bilevel(lambda p, seed: [p["start"]], lambda s: [0.9 * s[0]], lambda s: float(s[0]))
        return minimize_bilevel(
            problem, space, trials=3, horizon=2, method=method, seed=0, folder=tmp_path, progress=False
        )

    assert go(1.0).params == go(1.0).params
    with pytest.raises(ValueError, match="holds another study: method differ"):
        go(2.0)
