"""What tells one process from another: signatures, the locks of a machine, and the marks of probes."""

import contextlib
import functools
import os
import socket
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.doors.optuna.distributions import Distributions

OWNER = "regretless:worker"
"""The trial attribute that names the worker of `tune_in_storage` who has a trial; others finish those of the dead."""
PROBE = "regretless:probe"
"""Marks the trials that are uniform probes: the seed and the step of the draw, and the names of the parameters it is
drawn over."""


def signature() -> dict[str, Any]:
    """This process, in plain values."""
    return dict(_signature_of(os.getpid()))


@functools.lru_cache(maxsize=1)
def _signature_of(pid: int) -> dict[str, Any]:
    return {"place": _place(pid), "pid": pid, "born": _born(pid)}


def _place(pid: int) -> str:
    """The machine since its start, and the view of its processes that a container has; "" where the system does not
    say. Within one such place a process number and the start of the process name one process."""
    try:
        if os.readlink("/proc/self") != str(pid):
            return ""  # what is mounted here shows the processes of another view
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        views = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "time") if _has_view(kind)]
    except OSError:
        return ""
    return " ".join([socket.gethostname(), boot, *views])


def _has_view(kind: str) -> bool:
    return kind == "pid" or Path(f"/proc/self/ns/{kind}").is_symlink()


def is_dead(signed: Any) -> bool | None:
    """Whether the process of a signature has ended; None when that cannot surely be seen from here."""
    place = _signature_of(os.getpid())["place"]
    if not place or not isinstance(signed, dict) or signed.get("place") != place:
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
    born = _born(pid)
    return born != signed.get("born") if born else None


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
        # 600.0: seconds by which the clocks of two machines may differ; machines without a time service drift by
        # minutes
        return max(seen, (datetime.now() - trial.datetime_start).total_seconds() - 600.0)


def lost_after(trials: Iterable[FrozenTrial]) -> float:
    """Seconds after which a running trial is probably lost, by the longest completed one; infinite without one."""
    durations = [
        t.duration.total_seconds() for t in trials if t.state == TrialState.COMPLETE and t.duration is not None
    ]
    # 10.0, 60.0: a running trial that no process names, such as one of another sampler, counts as lost once it was seen
    # running so many times longer than the longest completed one took, and at least so many seconds: the first ask of
    # a worker imports libraries, and machines stall
    return max(10.0 * max(durations), 60.0) if durations else float("inf")


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


# ---------------------------------------------------------------- probes


def mark_probe(study: Study, trial: FrozenTrial, seed: int, step: int, space: Distributions) -> None:
    """Writes down that a trial is the uniform probe of a seed and a step."""
    if PROBE not in trial.system_attrs:
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


def ran_at_once(trials: Iterable[FrozenTrial]) -> bool:
    """Whether a trial began before one with a smaller number had ended."""
    begun = sorted((t for t in trials if t.datetime_start is not None), key=lambda t: t.number)
    latest = datetime.min
    for trial in begun:
        if trial.datetime_start is not None and trial.datetime_start < latest:
            return True
        latest = max(latest, trial.datetime_complete or datetime.max)
    return False
