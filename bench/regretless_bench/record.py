"""What a run leaves behind: one append-only file of JSON lines, and `Record`, which reads it back as arrays.

The first line holds the settings, the problem's facts, the versions and the commit; then one line per evaluation,
written as it happens; then checkpoints (the recommendation and the certificate at that moment) and a last line that
says how the run ended. A run writes to a file that ends in .part and renames it when it is over, so whatever is killed,
the records that are there are whole.
"""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import json
import math
import operator
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import regretless
import regretless_bench
from regretless.certificate import Certificate
from regretless.space.parameters import Array
from regretless_bench.problems.problem import RENAMED
from regretless_bench.settings import Run, called

KIND = "regretless-record-1"
"""Marks the first line; the number grows when the layout changes."""
SUFFIX, UNFINISHED = ".jsonl", ".part"
LAST_LINE = 256
"""More bytes than the last line of a run that ended well has."""
PLAIN_DIM = 100
"""Up to this many coordinates a point is a list of numbers; beyond, base64 of its little-endian float64 bytes, a third
of the size."""
PACKAGES = (
    "regretless",
    "numpy",
    "scipy",
    "torch",
    "optuna",
    "botorch",
    "gpytorch",
    "cma",
    "nevergrad",
    "smac",
    "scikit-learn",
    "coco-experiment",
)
"""Packages whose versions a record names, where installed."""
MADE = "made"
"""Where a JSON record of an experiment's own kind says what made it."""
COMMIT = "REGRETLESS_COMMIT"
"""Names the commit of a copy of the tree that has no history of its own."""


# ---------------------------------------------------------------- reading


@dataclass(frozen=True)
class Checkpoint:
    """The recommendation and the certificate after `n` evaluations; `value` is the recommendation's noiseless value."""

    n: int
    x: Array
    value: float
    certificate: Certificate | None
    seconds: float


@dataclass(frozen=True)
class Record:
    """A run as arrays over its evaluations, in the problem's own units; x lies in the unit cube (choices as equal
    shares).

    `value` is the noiseless value at the evaluated point, `y` what the method was told. Failed evaluations are NaN.
    """

    settings: dict[str, Any]
    facts: dict[str, Any]
    """The problem's title, direction, optimum, noise_sd, dim; versions and commit."""
    x: Array
    y: Array
    value: Array
    seconds_ask: Array
    seconds_tell: Array
    seconds_evaluate: Array
    cpu: Array
    """Processor seconds in ask and tell: what they cost however busy the machine was."""
    checkpoints: tuple[Checkpoint, ...] = ()
    error: str | None = None
    """The traceback of a run that failed."""
    path: Path | None = None

    @property
    def label(self) -> str:
        return str(self.settings["label"])

    @property
    def problem(self) -> str:
        """The problem's name with its options."""
        return called(self.settings["problem"], self.settings["options"])

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @property
    def sign(self) -> float:
        """1 when maximised, -1 when minimised."""
        return 1.0 if self.facts["direction"] == "maximize" else -1.0

    @property
    def optimum(self) -> float | None:
        known: float | None = self.facts["optimum"]
        return known

    @property
    def recommended(self) -> float:
        """The noiseless value of the final recommendation; NaN when there was none."""
        return self.checkpoints[-1].value if self.checkpoints else math.nan

    @property
    def seconds(self) -> Array:
        """Seconds spent inside the method up to each evaluation, n."""
        return np.cumsum(self.seconds_ask + self.seconds_tell)

    def best(self) -> Array:
        """The best noiseless value so far, n."""
        return self.sign * np.fmax.accumulate(self.sign * self.value)

    def regret(self, optimum: float | None = None) -> Array:
        """The regret of each evaluation, n; `optimum` stands in where the problem's is not known."""
        known = self.optimum if optimum is None else optimum
        if known is None:
            raise ValueError(f"{self.problem} has no known optimum; pass one to compare against")
        return self.sign * (known - self.value)

    def simple_regret(self, optimum: float | None = None) -> Array:
        """The smallest regret so far, n."""
        return np.fmin.accumulate(self.regret(optimum))

    def cumulative_regret(self, optimum: float | None = None) -> Array:
        """The sum of regrets so far, n; a failed evaluation counts as the worst regret so far."""
        regret = self.regret(optimum)
        worst = np.fmax.accumulate(regret)
        return np.cumsum(np.where(np.isnan(regret), np.where(np.isnan(worst), 0.0, worst), regret))

    def average_regret(self, optimum: float | None = None) -> Array:
        """The mean regret so far, n."""
        return self.cumulative_regret(optimum) / np.arange(1, len(self.value) + 1)

    def recommended_regret(self, optimum: float | None = None) -> float:
        """The regret of the final recommendation."""
        known = self.optimum if optimum is None else optimum
        return math.nan if known is None else self.sign * (known - self.recommended)


def read_record(path: str | Path) -> Record:
    """The record in a file; ValueError when it is none."""
    path = Path(path)
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return _record(lines, path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a record: {type(error).__name__}: {' '.join(str(error).split())}") from None
    except (ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path} is not a record: {type(error).__name__}") from None


def _record(lines: list[Any], path: Path) -> Record:
    head, last = lines[0], lines[-1]
    if head["kind"] != KIND:
        raise ValueError(f"its kind is {head['kind']!r}, expected {KIND!r}")
    settings, facts, error = _current_settings(head["settings"]), _current_facts(head["facts"]), last.get("error")
    _check_kinds(settings, {"label": str, "problem": str, "options": dict, "seed": int, "budget": int, "init": int})
    _check_kinds(facts, {"title": str, "dim": int, "noise_sd": (int, float)})
    _check_kinds({"commit": "", "versions": {}, **facts}, {"commit": (str, type(None)), "versions": dict})
    _check_kinds({"error": error}, {"error": (str, type(None))})
    if facts["direction"] not in ("minimize", "maximize"):
        raise ValueError(f"its direction is {facts['direction']!r}")
    if facts["optimum"] is not None and not math.isfinite(facts["optimum"]):
        raise ValueError(f"its optimum is {facts['optimum']!r}")
    steps = [line for line in lines if "y" in line]
    if not steps and error is None:
        raise ValueError("it has no evaluations")

    def numbers(name: str, default: float | None = None) -> Array:
        return np.array(
            [step[name] if default is None else step.get(name, default) for step in steps], dtype=np.float64
        )

    return Record(
        settings=settings,
        facts=facts,
        x=np.array([_point(step["x"]) for step in steps]).reshape(len(steps), facts["dim"]),
        y=numbers("y"),
        value=numbers("value"),
        seconds_ask=numbers("ask"),
        seconds_tell=numbers("tell"),
        seconds_evaluate=numbers("evaluate"),
        cpu=numbers("cpu", math.nan),
        checkpoints=tuple(_checkpoint(line) for line in lines if "checkpoint" in line),
        error=error,
        path=path,
    )


def _current_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a stored run under their present names."""
    return {RENAMED.get(k, k): v for k, v in facts.items()}


def _current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a stored run with the problem's options under their present names."""
    return {**settings, "options": {RENAMED.get(k, k): v for k, v in settings["options"].items()}}


def _check_kinds(table: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    for name, kind in kinds.items():
        if not isinstance(table[name], kind):
            raise TypeError(f"its {name} is {table[name]!r}")


def ended_well(path: Path) -> bool:
    """Whether a record is there and its run came to its end; looks at the last line only."""
    try:
        with open(path, "rb") as file:
            file.seek(-min(LAST_LINE, path.stat().st_size), 2)
            last = file.read().splitlines()[-1]
        return bool(json.loads(last).get("end") == "done")
    except (OSError, ValueError, LookupError, AttributeError):
        return False


def failures(records: Iterable[Record]) -> list[str]:
    """A line for each method and problem whose runs failed, with what the last of them says; none where all went
    well."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record.label, record.problem), []).append(record)
    lines = []
    for (label, problem), runs in found.items():
        broken = [record for record in runs if record.error is not None]
        if broken:
            what = (broken[-1].error or "").strip().splitlines()[-1]
            lines.append(f"failed: {label} on {problem}, {len(broken)} of {len(runs)} runs: {what}")
    return lines


def load_records(out: str | Path, *, failed: bool = False) -> list[Record]:
    """The records in a folder, by name; those of runs that failed only when asked for."""
    if not Path(out).is_dir():
        raise ValueError(f"there is no folder {str(out)!r} to read records from")
    records = [read_record(path) for path in sorted(Path(out).glob(f"*{SUFFIX}"))]
    return [record for record in records if failed or record.error is None]


def naturally(problem: str) -> list[tuple[float, str]]:
    """Sorts names by the numbers in them: levy(dim=20) comes before levy(dim=100)."""
    pieces = re.split(r"(\d+(?:\.\d+)?)", problem)
    return [(float(piece), "") if i % 2 else (-1.0, piece) for i, piece in enumerate(pieces)]


def by_problem(
    records: Iterable[Record], problem: Callable[[Record], str] = operator.attrgetter("problem")
) -> dict[str, dict[str, list[Record]]]:
    """Problem -> method label -> records ordered by seed; `problem` names a record's problem."""
    groups: dict[str, dict[str, list[Record]]] = {}
    for record in sorted(records, key=lambda r: (naturally(problem(r)), r.label, r.seed)):
        groups.setdefault(problem(record), {}).setdefault(record.label, []).append(record)
    return groups


def _checkpoint(line: dict[str, Any]) -> Checkpoint:
    found = line["certificate"]
    certificate = None if found is None else Certificate(**{**found, "assumptions": tuple(found["assumptions"])})
    return Checkpoint(
        int(line["checkpoint"]), _point(line["x"]), float(line["value"]), certificate, float(line["seconds"])
    )


def _point(stored: str | list[float]) -> Array:
    return (
        np.frombuffer(base64.b64decode(stored), dtype="<f8")
        if isinstance(stored, str)
        else np.array(stored, dtype=np.float64)
    )


# ---------------------------------------------------------------- writing


class RecordWriter:
    """Writes one record line by line; `finish` or `fail` ends it and makes it visible."""

    def __init__(self, run: Run, out: Path, facts: dict[str, Any]) -> None:
        self.path = out / f"{run.key}{SUFFIX}"
        self._part = self.path.with_suffix(UNFINISHED)
        self._file: TextIO = open(self._part, "w", encoding="utf-8")  # noqa: SIM115 - closed by finish or fail
        self._write({"kind": KIND, "settings": run.settings, "facts": facts})

    def step(self, x: Array, y: float, value: float, ask: float, evaluate: float, tell: float, cpu: float) -> None:
        seconds = {"ask": round(ask, 7), "evaluate": round(evaluate, 7), "tell": round(tell, 7), "cpu": round(cpu, 7)}
        self._write({"x": stored(x), "y": y, "value": value, **seconds})

    def checkpoint(self, n: int, x: Array, value: float, certificate: Certificate | None, seconds: float) -> None:
        bound = None if certificate is None else {**vars(certificate), "assumptions": list(certificate.assumptions)}
        self._write(
            {"checkpoint": n, "x": stored(x), "value": value, "certificate": bound, "seconds": round(seconds, 7)}
        )

    def finish(self, seconds: float) -> None:
        self._end({"end": "done", "seconds": round(seconds, 3)})

    def fail(self, error: str) -> None:
        self._end({"end": "failed", "error": error})

    def _end(self, line: dict[str, Any]) -> None:
        self._write(line)
        self._file.close()
        self._part.replace(self.path)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":"), default=repr) + "\n")
        self._file.flush()


def stored(x: Array) -> str | list[float]:
    """A point as JSON keeps it."""
    return x.tolist() if len(x) <= PLAIN_DIM else base64.b64encode(x.astype("<f8").tobytes()).decode()


def stamped(record: Mapping[str, Any]) -> bytes:
    """A record of an experiment's own kind as JSON, with what made it: versions and commit."""
    return json.dumps({**record, MADE: surroundings()}).encode()


@functools.cache
def surroundings() -> dict[str, Any]:
    """Python, package versions, the processor and the commit of the checkout, for the first line of a record."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"versions": versions, "commit": _commit(), "machine": platform.machine(), "system": platform.system()}


def _commit() -> str | None:
    """The commit the packages run from, with a plus sign when files of theirs were changed; outside a checkout what
    COMMIT says, or None."""
    folders = [package.__path__[0] for package in (regretless, regretless_bench)]

    def git(*words: str) -> str:
        command = ["git", "-C", folders[1], *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", __file__)  # an environment inside somebody's repository is not part of it
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *folders)
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return os.environ.get(COMMIT)


__all__ = [
    "Checkpoint",
    "Record",
    "RecordWriter",
    "Run",
    "by_problem",
    "called",
    "ended_well",
    "failures",
    "load_records",
    "read_record",
    "stamped",
    "surroundings",
]
