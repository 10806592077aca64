"""Twenty thousand inputs that nobody should write: each is taken as what it says, or refused in one line; none changes
a run in silence."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from damage import SPITE, damaged, spoiled, spoiled_state
from regretless_bench.finding import Finding
from regretless_bench.record import read_record
from regretless_bench.runner import run_from_names
from sizes import count, sizes

import regretless as rg
from regretless.auto import others
from regretless.basics.statefile import StateError, pack, read_state, sealed
from regretless.cli import main
from regretless.space import Space

METHODS = {**rg.METHODS, **rg.CLASSICS, **others()}
SPACE = {
    "lr": rg.Float(1e-5, 1e-1, log=True),
    "far": rg.Float(1e3, 1e3 + 0.7),
    "k": rg.Int(-7, 50, step=3),
    "act": rg.Choice(["relu", "tanh"]),
}
PLANE = {"lr": SPACE["lr"], "far": SPACE["far"]}


def refused(call: Callable[[], Any]) -> bool:
    """Whether a call was refused by a ValueError or a TypeError of one line; any other exception goes through."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except (ValueError, TypeError) as error:
        message = str(error)
    else:
        return False
    assert message.strip(), "refused without a word"
    assert len(message.strip().splitlines()) == 1, f"refused in several lines: {message!r}"
    return True


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Where two trees differ: arrays by shape and numbers, everything else by type and text, so that 1, 1.0 and True
    are told apart. Parts that only b has do not count."""
    if isinstance(a, dict) and isinstance(b, dict):
        return [line for key in a for line in differences(a[key], b.get(key, ...), f"{where}/{key}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return [line for i, pair in enumerate(zip(a, b)) for line in differences(*pair, f"{where}/{i}")]
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        equal = a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
    else:
        equal = type(a) is type(b) and repr(a) == repr(b)
    return [] if equal else [f"{where}: {b!r} became {a!r}"]


# ---------------------------------------------------------------- checkpoints


def checkpoint(path: Path, method: str) -> bytes:
    """A run with values, failures, known variances, a setting of the user's own and a pending trial."""
    traits = METHODS[method].method.traits
    space = SPACE if Space(SPACE).cube(traits.choices).dim <= traits.max_dim else PLANE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = rg.Optimizer(space, method=method, seed=3, budget=20)
        optimizer.adopt(
            {
                name: value
                for name, value in {"lr": 1e-3, "far": 1e3 + 0.1, "k": 2, "act": "tanh"}.items()
                if name in space
            }
        )
        optimizer.tell(0, 1.5, var=0.01)
        for i in range(13):
            trial = optimizer.ask()
            optimizer.tell(trial, math.sin(i)) if i % 5 else optimizer.tell(trial, failed=True, error="no")
        optimizer.ask(2)
        optimizer.book.record.source = "abc"
        optimizer.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    for method in METHODS:
        checkpoint(folder / method, method)
    return {method: folder / method for method in METHODS}


@sizes
def test_wounds_of_checkpoints_are_always_noticed(long: bool, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    rng = random.Random(1)
    for i in range(count(long, 200, 6000)):
        method = list(METHODS)[i % len(METHODS)]
        valid = checkpoints[method].read_bytes()
        wound = damaged(valid, rng)
        if wound == valid:
            continue
        (tmp_path / "run").write_bytes(wound)
        assert refused(lambda: rg.Optimizer.load(tmp_path / "run")), f"{method}: a changed file was taken"


@sizes
def test_wounds_under_a_new_digest(long: bool, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    rng = random.Random(2)
    for i in range(count(long, 60, 2000)):
        method = list(METHODS)[i % len(METHODS)]
        (tmp_path / "run").write_bytes(sealed(damaged(checkpoints[method].read_bytes()[:-32], rng)))
        loaded_as_written(tmp_path / "run", method)


@sizes
def test_structures_under_a_new_digest(long: bool, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    rng, states = random.Random(3), {method: read_state(path) for method, path in checkpoints.items()}
    for i in range(count(long, 112, 3500)):
        method = list(METHODS)[i % len(METHODS)]
        bad = spoiled_state(states[method], rng)
        try:
            (tmp_path / "run").write_bytes(pack(bad))
        except StateError:
            continue  # nothing that could be written
        loaded_as_written(tmp_path / "run", method)


def loaded_as_written(path: Path, method: str) -> None:
    """A file is refused, or the run that it gives is what the file says, part by part, and goes on inside the space."""
    loaded: list[rg.Optimizer] = []
    if refused(lambda: loaded.append(rg.Optimizer.load(path))):
        return
    optimizer, written = loaded[0], read_state(path)
    now = optimizer._state()
    differing = differences(now, written)
    assert not differing, f"{method}: loaded differently in silence: {differing}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial = optimizer.ask()
    assert optimizer.space.decode(optimizer.space.encode(trial.params)) == trial.params


# ---------------------------------------------------------------- records and findings


@sizes
def test_records(long: bool, tmp_path: Path) -> None:
    rng = random.Random(4)
    run_from_names(["random"], ["branin"], seeds=1, budget=5, out=tmp_path / "runs", jobs=1)
    valid = next(path for path in (tmp_path / "runs").glob("*.jsonl"))
    original, lines = read_record(valid), [json.loads(line) for line in valid.read_text().splitlines()]
    for i in range(count(long, 150, 2500)):
        if i % 2:
            content = damaged(valid.read_bytes(), rng)
        else:
            at = rng.randrange(len(lines))
            content = "\n".join(map(json.dumps, [*lines[:at], spoiled(lines[at], rng), *lines[at + 1 :]])).encode()
        path = tmp_path / valid.name
        path.write_bytes(content)
        if refused(lambda path=path: read_record(path)):
            continue
        found = read_record(path)
        assert found.x.shape == (len(found.y), found.facts["dim"])
        assert len(found.value) == len(found.y) == len(found.seconds_ask)
        if content == valid.read_bytes():
            assert np.array_equal(found.x, original.x)


@sizes
def test_findings(long: bool, tmp_path: Path) -> None:
    rng = random.Random(5)
    line = {"name": "ours", "kind": "line", "dash": False, "x": [[1.0, 2.0]], "y": [{"mid": [3.0, 2.0]}]}
    chart = {"x": [{"name": "n", "log": False}], "y": [{"name": "regret", "log": True}], "series": [line]}
    table = {"title": "t", "columns": ["a", "b"], "rows": [["x", 1.0], ["y", None]], "best": {"b": "min"}}
    tree = {
        "paper": "ms-ucb",
        "figure": "fig1",
        "title": "t",
        "claim": "c",
        "verdict": "holds",
        "sentence": "s",
        "settings": {"seeds": 5},
        "charts": [["bowl", chart]],
        "tables": [table],
        "seconds": 1.0,
        "around": {},
    }
    path = tmp_path / "finding.json"
    path.write_text(json.dumps(tree))
    assert not refused(lambda: Finding.read(path))
    valid = path.read_bytes()
    for i in range(count(long, 150, 1500)):
        path.write_bytes(damaged(valid, rng) if i % 2 else json.dumps(spoiled(tree, rng)).encode())
        refused(lambda: Finding.read(path))


# ---------------------------------------------------------------- spaces


NUMBERS = [
    0,
    1,
    -1,
    7,
    0.5,
    -0.0,
    1e-300,
    5e-324,
    1e308,
    -1e308,
    1.7976931348623157e308,
    2**53,
    2**60,
    2**70,
    10**400,
    math.nan,
    math.inf,
    -math.inf,
    1e-9,
    True,
    None,
    "3",
    [],
    np.float32(0.1),
    np.int8(-3),
    np.float64(math.nan),
    Fraction(1, 3),
    Decimal("0.1"),
    1 + 2j,
]


def random_parameter(rng: random.Random) -> Any:
    kind = rng.randrange(6)
    low, high = rng.choice(NUMBERS), rng.choice(NUMBERS)
    if rng.random() < 0.7:  # bounds that are odd and right
        low = rng.choice([-1, 1, 1, 1]) * rng.uniform(1, 10) * 10.0 ** rng.randint(-12, 12)
        high = low + rng.uniform(0, 1) * 10.0 ** rng.randint(-12, 15)
        low, high = (math.floor(low), math.ceil(high)) if kind in (2, 3) else (low, high)
    options = {
        k: rng.choice([True, False, 1, "yes", None] if k == "log" else NUMBERS)
        for k in ("log", "step")
        if rng.random() < 0.3
    }
    if kind <= 1:
        return rg.Float(low, high, **options)
    if kind <= 3:
        return rg.Int(low, high, **options)
    if kind == 4:
        labels = [rng.choice([*NUMBERS, *SPITE]) for _ in range(rng.randrange(4))]
        return rg.Choice(rng.choice([labels, tuple(labels), "abc", {1, 2}, None, labels * 2]))
    return rng.choice([*NUMBERS, *SPITE, (low, high), [low, high]])


def check_space(space: Space, rng: random.Random) -> None:
    """Settings of a space lead to their points and back."""
    for choices in ("shares", "onehot"):
        cube = space.cube(choices)
        for u in (np.zeros(cube.dim), np.ones(cube.dim), np.array([rng.random() for _ in range(cube.dim)])):
            params = space.decode(cube.snap(u), choices)
            for name, p in space.parameters.items():
                if isinstance(p, rg.Choice):
                    assert any(params[name] is label for label in p.labels)
                else:
                    assert p.low <= params[name] <= p.high
            place = space.encode(params, choices)
            assert np.array_equal(place, cube.snap(place)), "an encoded setting is off its own point"
            assert not differences(space.decode(place, choices), params), (
                f"{space}: {params} came back as another setting"
            )


@sizes
def test_spaces(long: bool) -> None:
    rng, taken = random.Random(6), 0
    for _ in range(count(long, 300, 3000)):

        def build() -> Space:
            parameters = [random_parameter(rng) for _ in range(rng.randint(1, 3))]
            names = [rng.choice(["x", "x2", "x10", "", "é", "a b", 3, None]) for _ in parameters]
            return Space(rng.choice([dict(zip(names, parameters)), parameters, tuple(parameters)]))

        built: list[Space] = []
        if not refused(lambda build=build, built=built: built.append(build())):
            taken += 1
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                check_space(built[0], rng)
    assert taken > 10


@sizes
def test_spaces_in_files(long: bool, tmp_path: Path) -> None:
    rng, path = random.Random(7), tmp_path / "space.toml"
    words = [
        "0",
        "1",
        "-1",
        "0.5",
        "1e-300",
        "1e308",
        "nan",
        "inf",
        "-inf",
        "true",
        '"3"',
        "[]",
        "[1, 2]",
        '["a", "b"]',
        "[1, 1.0]",
        "9" * 30,
        "0x10",
        "1979-05-27",
        "{}",
        "5e-324",
        '["a", {}]',
    ]
    valid = (
        '[lr]\ntype = "float"\nlow = 1e-5\nhigh = 1e-1\nlog = true\n[act]\ntype = "choice"\nlabels = ["relu", "tanh"]\n'
    )
    for i in range(count(long, 150, 1500)):
        text = ""
        for name in rng.sample(["lr", '"x 2"', "a.b", "n", '""'], rng.randint(1, 3)):
            keys = rng.sample(["low", "high", "log", "step", "labels", "type", "levels"], rng.randint(1, 5))
            kind = rng.choice(["float", "int", "choice", "bool", ""])
            text += f"[{name}]\ntype = {kind!r}\nlow = 0\nhigh = 9\n" if rng.random() < 0.5 else f"[{name}]\n"
            text += "".join(f"{key} = {rng.choice(words)}\n" for key in keys if key not in text.rpartition("[")[2])
        path.write_bytes(damaged(valid.encode(), rng) if i % 3 == 0 else text.encode())
        if not refused(lambda: Space(path)):
            space = Space(path)
            check_space(space, rng)
            if all(
                isinstance(label, str | int | float | bool)
                for p in space.parameters.values()
                if isinstance(p, rg.Choice)
                for label in p.labels
            ):
                assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space


# ---------------------------------------------------------------- values


class Strange:
    """Says it is a number and then fails."""

    def __float__(self) -> float:
        raise ZeroDivisionError("not today")


def random_value(rng: random.Random) -> Any:
    """What an objective might return."""
    number = rng.choice(
        [
            0,
            1.5,
            -3,
            1e300,
            -1e-300,
            2**80,
            10**400,
            -(10**400),
            math.nan,
            math.inf,
            -math.inf,
            5e-324,
            True,
            "1.5",
            "",
            b"1",
            None,
            1 + 0j,
            1 + 2j,
            [],
            {},
            Strange(),
            object,
            ...,
            Decimal("1.5"),
            Decimal("NaN"),
            Fraction(1, 7),
            Decimal("1e999"),
            Fraction(10**400),
        ]
    )
    kind = rng.randrange(7)
    if kind == 0:
        return rg.Value(
            number,
            var=rng.choice([None, 0.1, 0, -1, math.nan, math.inf, "x", [], True, 10**400, 1e308, np.float64(0.2), 1j]),
        )
    if kind == 1:
        dtype = rng.choice([np.float16, np.float32, np.float64, np.int64, np.bool_, np.complex128, np.str_, object])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return np.array(rng.choice([number, [number], [[number]], [number, number], [[1.0, 2.0]] * 9])).astype(
                    dtype
                )
        except (ValueError, TypeError, OverflowError, ZeroDivisionError):
            return number
    if kind == 2:
        return rng.choice(
            [
                np.float32(0.1),
                np.int8(-3),
                np.bool_(True),
                np.complex128(1 + 2j),
                np.str_("2"),
                np.datetime64("2020"),
                np.float64(math.inf),
                np.longdouble("1e4000"),
                np.float16(7),
            ]
        )
    if kind == 3:
        return rng.choice([(number,), [number, number], {"value": number}, lambda: number, (number, 0.1)])
    return number


def meant(value: Any) -> float | None:
    """The finite number that a returned object is, by the rules of the documentation; None when it is none."""
    if isinstance(value, np.ndarray):
        if value.size != 1 or value.dtype.kind not in "fiuO":
            return None
        value = value.reshape(-1)[0]
    if isinstance(value, bool | np.bool_ | str | bytes | complex | np.complexfloating | np.datetime64 | type(None)):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return None
    return number if math.isfinite(number) else None


@sizes
def test_values(long: bool) -> None:
    """A value is kept to the last digit, is a failure (not finite), or is refused in one line."""
    rng = random.Random(8)
    for i in range(count(long, 200, 1500)):
        value = random_value(rng)
        inner = value.value if isinstance(value, rg.Value) else value
        results: list[rg.Result] = []

        def run(value: Any = value, results: list[rg.Result] = results, i: int = i) -> None:
            search = rg.maximize if i % 2 else rg.minimize
            results.append(
                search(
                    lambda lr, far: value,
                    PLANE,
                    trials=2,
                    method="random",
                    seed=i,
                    progress=False,
                    max_failures=math.inf,
                )
            )

        if refused(run):
            variance = value.var if isinstance(value, rg.Value) else None
            assert meant(inner) is None or not (
                variance is None or (meant(variance) is not None and meant(variance) >= 0)
            ), f"{value!r} was refused"
            continue
        for trial in results[0].trials:
            if trial.value is None:
                assert meant(inner) is None, f"{value!r} was taken for a failure"
            else:
                assert trial.value == meant(inner), f"{value!r} became {trial.value!r}"
        told = rg.Optimizer(PLANE, method="random", seed=0)
        if not isinstance(value, rg.Value) and not refused(lambda told=told, value=value: told.tell(told.ask(), value)):
            assert told.trials[0].value == meant(value), f"tell took {value!r} for {told.trials[0].value!r}"


# ---------------------------------------------------------------- command lines


WORDS = [
    "",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1e9",
    "nan",
    "inf",
    "x",
    "auto",
    "random",
    "sobol",
    "no-such",
    "../up",
    "/",
    "--",
    "-h",
    "\0",
    "é" * 300,
    "sqlite:///",
    "journal:",
    "postgres://u:secret@nowhere/x",
    "grpc://x",
    "{run}",
    "{good}",
    "{bad}",
    "{train}:cost",
    "{train}:none",
    "{train}:broken",
    "{train}",
    "{folder}",
    "{folder}/new",
    "true",
    "[]",
]
OPTIONS = [
    "--space",
    "--trials",
    "--method",
    "--maximize",
    "--seed",
    "--jobs",
    "--checkpoint",
    "--timeout",
    "--until-gap",
    "--report",
    "--storage",
    "--study",
    "--workers",
    "--help",
    "--out",
    "--methods",
    "--problems",
    "--budget",
    "--seeds",
    "--no-such",
    "-h",
]


def random_command(rng: random.Random) -> list[str]:
    """A command that is right but for a few words, or wrong altogether."""
    start = rng.choice([
        ["tune", "{train}:cost", "--space", "{good}", "--trials", "2", "--method", "random"],
        ["tune", "{train}:cost", "--space", "{good}", "--trials", "2", "--checkpoint", "{run}"],
        ["tune", "{train}:cost", "--space", "{good}", "--trials", "2", "--storage", "sqlite:///{folder}/s.db"],
        ["export", "regretless", "--storage", "sqlite:///{folder}/s.db", "--out", "{folder}/out"],
        ["report", "{folder}"], ["list"], ["data", "list"], ["data", "check", "{folder}"],
        ["bench", "plot", "{folder}"],
        ["reproduce", "no-such", "fig1"], ["bench", "run", "--methods", "no-such", "--problems", "branin"], [],
    ])  # fmt: skip
    words = list(start)
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(words) + 1)
        kind = rng.randrange(4)
        if kind == 0 and words:
            words[at % len(words)] = rng.choice(WORDS)
        elif kind == 1 and words:
            del words[at % len(words)]
        elif kind == 2:
            words[at:at] = [rng.choice(OPTIONS), rng.choice(WORDS)]
        else:
            words.append(rng.choice([*WORDS, *OPTIONS]))
    return words


@sizes
def test_command_lines(long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, folder = random.Random(9), tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("regretless.doors.optuna.urls.CREATION_PATIENCE", 0.1)
    monkeypatch.setattr("regretless.doors.optuna.urls.PATIENCE", 0.1)
    files = {name: tmp_path / name for name in ("train.py", "good.toml", "bad.toml", "run.npz")}
    files["train.py"].write_text("def cost(a):\n    return a\n\ndef broken(a):\n    raise KeyError('gone')\n")
    files["good.toml"].write_text('[a]\ntype = "float"\nlow = 0\nhigh = 1\n')
    files["bad.toml"].write_text("[a\n")
    places = {
        "{folder}": folder,
        "{train}": files["train.py"],
        "{good}": files["good.toml"],
        "{bad}": files["bad.toml"],
        "{run}": files["run.npz"],
    }
    for _ in range(count(long, 80, 1500)):
        words = random_command(rng)
        for name, place in places.items():
            words = [word.replace(name, str(place)) for word in words]
        if too_long(words):
            continue
        if rng.random() < 0.1:
            files["run.npz"].write_bytes(rng.randbytes(99))
        elif rng.random() < 0.3:
            files["run.npz"].unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(main, words)
        assert result.exception is None or isinstance(result.exception, SystemExit), f"{words}: {result.exception!r}"
        assert result.exit_code in (0, 1, 2), f"{words}: exit code {result.exit_code}"
        assert "Traceback" not in result.output, words
        assert "secret" not in result.output, words
        if result.exit_code == 2 and result.output and not result.output.startswith("Usage"):
            assert "regretless: " in result.output.strip().splitlines()[-1], f"{words}: {result.output}"


def too_long(words: list[str]) -> bool:
    """Commands that would work for long: a million trials, many processes, the benchmark."""
    return "1e9" in words or "--workers" in words or ("bench" in words and "no-such" not in words and "run" in words)
