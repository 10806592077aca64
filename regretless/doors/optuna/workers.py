"""How processes that share an Optuna study see each other: signatures, locks and announcements.

A worker writes its host, its process number and the start of that process into each trial it takes. Others on the same
machine can then tell a dead worker from a slow one. A worker of another machine counts as dead when its trial has run
for much longer than any completed one. A worker also announces each proposal, so that the others propose other points.
"""

import contextlib
import functools
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.doors.optuna.distributions import Distributions

OWNER = "regretless:worker"
"""The trial attribute by which `tune_in_storage` signs its trials; the next worker finishes those of the dead."""
PROBE = "regretless:probe"
"""Marks the trials that are uniform probes: the seed and the step of the draw, and the names of the parameters it is
drawn over."""
ANNOUNCED = "regretless:params"
"""System attributes under which a trial tells other workers its proposal before Optuna stores the parameters one by
one."""
ATTRIBUTE_LENGTH = 2000
"""Characters per attribute; relational storages of older Optunas take 2045."""
LONGEST_TIMES = 10.0
"""A running trial of another machine counts as lost once it was seen running this many times longer than the longest
completed one took ..."""
LOST_SECONDS = 60.0
"""... and at least this long: the first ask of a worker imports libraries, and machines stall."""
CLOCKS_DIFFER = 600.0
"""Seconds by which the clocks of two machines may differ; machines without a time service drift by minutes."""


def signature() -> dict[str, Any]:
    """This process, in plain values."""
    return _signature_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _signature_of(pid: int) -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": pid, "born": _born(pid)}


def is_dead(signed: Any) -> bool | None:
    """Whether the process of a signature has ended; None when that cannot be seen from this machine."""
    if not isinstance(signed, Mapping) or signed.get("host") != socket.gethostname():
        return None
    pid = signed.get("pid")
    if isinstance(pid, bool) or not isinstance(pid, int) or pid <= 0:
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return _born(pid) != str(signed.get("born"))


def _born(pid: int) -> str:
    """When a process started, so that a recycled process number is not taken for the old process; "" where the system
    does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "ended" if fields[0] in ("Z", "X") else fields[19]  # a zombie only waits to be counted
    except (OSError, IndexError):
        return ""


class Sightings:
    """How long running trials have surely been running, whatever the clocks of other machines say."""

    def __init__(self) -> None:
        self._first: dict[int, float] = {}

    def seconds(self, trial: FrozenTrial) -> float:
        """The longer of the time this process has seen it run, and its age by the clocks less the most they may
        differ."""
        seen = time.monotonic() - self._first.setdefault(trial._trial_id, time.monotonic())
        if trial.datetime_start is None:
            return seen
        return max(seen, (datetime.now() - trial.datetime_start).total_seconds() - CLOCKS_DIFFER)


def lost_after(trials: Iterable[FrozenTrial]) -> float:
    """Seconds after which a running trial is probably lost, by the longest completed one; infinite without one."""
    durations = [
        t.duration.total_seconds() for t in trials if t.state == TrialState.COMPLETE and t.duration is not None
    ]
    return max(LONGEST_TIMES * max(durations), LOST_SECONDS) if durations else float("inf")


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds a lock on a file; the system gives it back when the process dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        _lock(file.fileno())
        yield  # closing the file gives the lock back


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
                return
            except OSError:  # it gives up after ten seconds
                continue
    fcntl.flock(descriptor, fcntl.LOCK_EX)


# ---------------------------------------------------------------- announcements


def announce(study: Study, trial: FrozenTrial, space: Distributions, params: Mapping[str, Any], former: int) -> int:
    """Shares a proposal with the other workers, in attributes short enough for every storage; blanks what is left of
    `former` pieces."""
    inner = {name: v if type(v) is float else float(space[name].to_internal_repr(v)) for name, v in params.items()}
    text = json.dumps({"by": signature(), "params": inner})
    pieces = [text[i : i + ATTRIBUTE_LENGTH] for i in range(0, len(text), ATTRIBUTE_LENGTH)]
    pieces += [""] * (former - len(pieces))
    for i, piece in enumerate(pieces):
        study._storage.set_trial_system_attr(trial._trial_id, f"{ANNOUNCED}:{i}", piece)
    return len(pieces)


def announcement(trial: FrozenTrial) -> dict[str, Any]:
    """What a running trial has announced: who works on it, and its proposal; nothing while it is only half written."""
    pieces: list[str] = []
    while isinstance(piece := trial.system_attrs.get(f"{ANNOUNCED}:{len(pieces)}"), str):
        pieces.append(piece)
    try:
        found = json.loads("".join(pieces))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def announced(trial: FrozenTrial, space: Distributions) -> dict[str, Any]:
    """The proposal a running trial has announced, in the study's terms."""
    params = announcement(trial).get("params")
    try:
        return {name: space[name].to_external_repr(value) for name, value in params.items() if name in space}  # type: ignore[union-attr]
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
        return {}


# ---------------------------------------------------------------- probes


def mark_probe(study: Study, trial: FrozenTrial, seed: int, step: int, space: Distributions) -> None:
    """Writes down that a trial is the uniform probe of a seed and a step."""
    if PROBE not in study._storage.get_trial(trial._trial_id).system_attrs:
        mark: dict[str, Any] = {"seed": seed, "step": step, "over": sorted(space)}
        study._storage.set_trial_system_attr(trial._trial_id, PROBE, mark)


def probe_steps(trials: Iterable[FrozenTrial], space: Iterable[str], seed: int) -> list[int]:
    """The steps of the probes of this seed that were drawn over these parameters, each once; marks of earlier releases
    name no seed."""
    return sorted({step for step, _ in drawn_probes(trials, space, seed)})


def drawn_probes(trials: Iterable[FrozenTrial], space: Iterable[str], seed: int) -> list[tuple[int, int]]:
    """The step of each of these probes, and the number of its trial in the study."""
    names, found = sorted(space), []
    for t in trials:
        mark = t.system_attrs.get(PROBE)
        if isinstance(mark, dict) and mark.get("over") == names and mark.get("seed", seed) == seed:
            step = mark.get("step")
            found += [(step, t.number)] if isinstance(step, int) and step >= 0 else []
    return found


def probe_seed(trials: Iterable[FrozenTrial]) -> int:
    """The seed of the first probe of a study, for readers who did not draw it; 0 where there is none."""
    marks = [t.system_attrs.get(PROBE) for t in trials]
    seeds = [mark.get("seed") for mark in marks if isinstance(mark, dict)]
    return next((seed for seed in seeds if type(seed) is int and seed >= 0), 0)


def ran_together(trials: Iterable[FrozenTrial]) -> bool:
    """Whether a trial began before one with a smaller number had ended."""
    begun = sorted((t for t in trials if t.datetime_start is not None), key=lambda t: t.number)
    latest = datetime.min
    for trial in begun:
        if trial.datetime_start is not None and trial.datetime_start < latest:
            return True
        latest = max(latest, trial.datetime_complete or datetime.max)
    return False
