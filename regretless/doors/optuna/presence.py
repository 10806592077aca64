"""How the processes that share an Optuna study know of each other.

A process keeps one line in the study, a system attribute of its own. The line names the process and holds the proposals
of its trials, before Optuna stores their parameters one by one. It also holds a count that the process raises while its
trials run. A reader never compares clocks: a process lives when its count rises while the reader's own monotonic clock
runs, and counts as dead when the count stands still for a lease. Only where both surely see the same processes of the
same machine is the end of one known at once.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.doors.optuna.distributions import Distributions
from regretless.doors.optuna.trials import remembered
from regretless.doors.optuna.workers import OWNER, is_dead, signature
from regretless.models.gp.surrogate import SharedFits

LINE = "regretless:worker:"
"""How the names of the study's system attributes begin that hold the lines of processes."""
LEASE_SECONDS = 60.0
"""How long a count may stand still before its process counts as dead: six renewals, because machines stall."""
KEPT_ASKS = 3
"""How many proposals of ended trials stay in a line, for those who have read the trials shortly before the line."""


@dataclass(frozen=True)
class Line:
    """What a process says of itself in a study."""

    by: Mapping[str, Any]
    count: int
    asks: Mapping[int, Mapping[str, float]]
    """The proposals of its latest trials by number, with values as Optuna stores them."""
    creating: bool
    """Whether it is about to create one of the last trials of a run."""
    past: tuple[int, ...] = ()
    """Numbers of the ended trials that it let go last. Whoever has seen these end has seen all end that it let go."""
    fits: Mapping[str, Any] = field(default_factory=dict)
    """The latest fits of its models (`SharedFits`)."""

    @classmethod
    def read(cls, stored: Any) -> Line | None:
        """The line in an attribute; None for one that was given up, or that makes no sense."""
        if not isinstance(stored, Mapping):
            return None
        by, count, asks = stored.get("by"), stored.get("count"), stored.get("asks")
        if not isinstance(by, Mapping) or type(count) is not int or not isinstance(asks, Mapping):
            return None
        try:
            numbers = {int(number): ask for number, ask in asks.items() if isinstance(ask, Mapping)}
        except ValueError:
            return None
        past = stored.get("past")
        gone = tuple(n for n in past if type(n) is int) if isinstance(past, list) else ()
        fits = stored.get("fits")
        made = fits if isinstance(fits, Mapping) else {}
        return cls(by, count, numbers, stored.get("creating") is True, gone, made)


@dataclass
class Sighting:
    """How long a count has stood still, by the clock of this process."""

    count: int
    still: float
    looked: float
    risen: bool = False
    """Whether the count has risen before the eyes of this process."""


class Leases:
    """Which processes live, by their lines."""

    def __init__(self) -> None:
        self._seen: dict[str, Sighting] = {}
        self._dead: set[tuple[str, int]] = set()

    def look(self, lines: Mapping[str, Line]) -> None:
        """Takes notice of the present counts. Between two looks at most half a lease counts as having been watched, so
        that a reader that stood still itself, or could not read, takes nobody for dead."""
        now = time.monotonic()
        for name, line in lines.items():
            seen = self._seen.get(name)
            if seen is None:
                self._seen[name] = Sighting(line.count, 0.0, now)
            elif seen.count != line.count:
                self._seen[name] = Sighting(line.count, 0.0, now, risen=True)
            else:
                seen.still, seen.looked = seen.still + min(now - seen.looked, LEASE_SECONDS / 2), now
        for name in self._seen.keys() - lines.keys():
            del self._seen[name]

    def has_ended(self, name: str, line: Line, lease: float | None = None) -> bool | None:
        """Whether the process of a line is dead; None while that is not known."""
        known = is_dead(line.by)
        if known is not None:
            return known
        seen = self._seen.get(name)
        if seen is None:
            return None
        if seen.still >= (LEASE_SECONDS if lease is None else lease):
            return True
        return False if seen.risen else None


@dataclass(eq=False)
class Presence:
    """The line of this process in a study, and what it knows of the others."""

    name: str
    study_id: int
    lease: Leases = field(default_factory=Leases)
    under_way: set[int] = field(default_factory=set)
    """Numbers of the trials of this process that have not ended: while there are some, the line is renewed."""
    creating: bool = False
    lines: Mapping[str, Line] = field(default_factory=dict)
    """The lines as they were read last."""
    fits: SharedFits = field(default_factory=SharedFits)
    lost: set[int] = field(default_factory=set)
    """Numbers of the trials that still ran when they were read after the end of their process."""
    alone: bool = True
    """Whether no other process was seen to work at the last proposal, so that nobody wants this one's fits."""
    _begun: dict[int, float] = field(default_factory=dict)
    """When trials of this process began, as long as none of its trials has ended since."""
    _past: list[int] = field(default_factory=list)
    _read: dict[str, tuple[Any, Line | None]] = field(default_factory=dict)
    """The attributes of lines as they were read last, and what they say: most have not changed since."""
    _dead: set[str] = field(default_factory=set)
    """The names of the lines that the last sweep found dead and idle."""
    _asks: dict[int, Mapping[str, float]] = field(default_factory=dict)
    _count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def created(self, number: int) -> None:
        """Takes notice that Optuna has just read the trials and created this one."""
        self._begun[number] = time.monotonic()

    def just_read(self, study: Study, number: int) -> list[FrozenTrial] | None:
        """The trials of a study as they were read just before this one was created; None where that is not known, or
        longer ago than a second, or trials of this process have ended since."""
        # 1.0: an objective that works before its first suggestion is proposed what is known by then
        if time.monotonic() - self._begun.get(number, -math.inf) < 1.0:
            return remembered(study)
        return None

    def begin(self, storage: BaseStorage, number: int) -> None:
        """Takes a trial under this process's lease."""
        self.under_way.add(number)
        if self._thread is None and not isinstance(storage, InMemoryStorage):
            self._thread = threading.Thread(target=_renew, args=(self, weakref.ref(storage)), daemon=True)
            self._thread.start()

    def end(self, number: int) -> None:
        """The proposal stays in the line until the next one, for those who read it together with older trials."""
        self.under_way.discard(number)
        self._begun.clear()

    def announce(
        self, study: Study, number: int, space: Distributions, params: Mapping[str, Any], trials: Sequence[FrozenTrial]
    ) -> None:
        """Shares a proposal with the other processes; most of `trials` that have ended need no proposal any more."""
        idle = self._asks.keys() - self.under_way
        ended = sorted(n for n in idle if is_ended(trials, n))[:-KEPT_ASKS]
        with self._lock:
            gone = [n for n in ended if self._asks.pop(n, None) is not None]
            self._past = gone or self._past
            self._asks[number] = _internal_of(params, space)
        self.begin(study._storage, number)
        self.write(study._storage)

    def write(self, storage: BaseStorage) -> None:
        """Writes the line, with a count that is one higher."""
        with self._lock:  # also while it writes: an older line must not come after a newer one
            self._count += 1
            asks = {str(number): ask for number, ask in self._asks.items()}
            line: dict[str, Any] = {"by": signature(), "count": self._count, "asks": asks, "past": self._past}
            if self.creating:
                line["creating"] = True
            if not self.alone:
                line["fits"] = dict(self.fits.made)
            storage.set_study_system_attr(self.study_id, LINE + self.name, line)

    def look(self, storage: BaseStorage) -> dict[str, Line]:
        """The lines of all processes by name, that of this one among them; one that has not changed is the same
        object as before."""
        lines = {}
        for key, stored in storage.get_study_system_attrs(self.study_id).items():
            if not key.startswith(LINE):
                continue
            read = self._read.get(key)
            if read is None or (read[0] is not stored and read[0] != stored):
                read = self._read[key] = stored, Line.read(stored)
                self.fits.learn(read[1].fits if read[1] is not None else {})
            if read[1] is not None:
                lines[key.removeprefix(LINE)] = read[1]
        if self.name in lines:
            lines.update(self.own_line())
        self.lease.look(lines)
        self.lines = lines
        return lines

    def own_line(self) -> dict[str, Line]:
        """The line of this process by its name, without a look into the storage."""
        with self._lock:
            return {self.name: Line(signature(), self._count, dict(self._asks), self.creating)}

    def has_ended(self, name: str, line: Line, lease: float | None = None) -> bool | None:
        return False if name == self.name else self.lease.has_ended(name, line, lease)

    def sweep(self, storage: BaseStorage, lines: Mapping[str, Line], trials: Sequence[FrozenTrial]) -> None:
        """Blanks the lines of the dead that no running trial needs any more: readers pay for each. They were dead at
        the last sweep already, so `trials`, which were read since, show all that they have begun."""
        idle = {name for name, line in lines.items() if all(is_ended(trials, n) for n in line.asks)} - {self.name}
        dead = {name for name in idle if self.has_ended(name, lines[name])}
        if gone := dead & self._dead:
            owners: list[Any] = [t.system_attrs.get(OWNER) for t in trials if t.state == TrialState.RUNNING]
            needed = {str(by.get("worker")) for by in owners if isinstance(by, Mapping)}
            for name in gone - needed:
                storage.set_study_system_attr(self.study_id, LINE + name, None)
        self._dead = dead

    def close(self) -> None:
        """Ends the thread: a process that ends inside a write may leave a lock behind."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)


def _renew(presence: Presence, storage: Callable[[], BaseStorage | None]) -> None:
    """Renews a line while trials of it run, and watches the others meanwhile; a storage that is away is tried again."""
    # 10.0: how often a process whose trials run raises its count
    while not presence._stop.wait(10.0):
        kept = storage()
        if kept is None:
            return
        if presence.under_way:
            with contextlib.suppress(Exception):
                presence.write(kept)
                presence.look(kept)
        del kept


# ---------------------------------------------------------------- one presence per storage and study

_present: weakref.WeakKeyDictionary[BaseStorage, dict[int, Presence]] = weakref.WeakKeyDictionary()
_free: list[str] = []
"""Names of lines whose storage was closed, for the next ones of this process."""
_guard = threading.Lock()


def presence_in(study: Study) -> Presence:
    """The presence of this process in a study."""
    storage = study._storage
    with _guard:
        found = _present.setdefault(storage, {})
        if not found:
            weakref.finalize(storage, _give_back, os.getpid(), found)
        if study._study_id not in found:
            name = _free.pop() if _free else uuid.uuid4().hex[:12]
            found[study._study_id] = Presence(name, study._study_id)
        return found[study._study_id]


def _give_back(pid: int, found: dict[int, Presence]) -> None:
    for presence in found.values():
        presence._stop.set()
        if pid == os.getpid():
            _free.append(presence.name)


def _start_anew() -> None:
    """A forked child is another process: it has lines of its own, and no threads."""
    global _guard
    _guard = threading.Lock()
    _present.clear()
    _free.clear()


def _close_all() -> None:
    for found in list(_present.values()):
        for presence in found.values():
            presence.close()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


# ---------------------------------------------------------------- what lines say of trials


def unseen(lines: Mapping[str, Line], trials: Sequence[FrozenTrial], known: Container[int] = ()) -> bool:
    """Whether lines have let go of a trial whose end, and whose point, these trials do not show; `known`: numbers of
    those whose points are known otherwise."""
    return any(n not in known and not is_ended(trials, n) for line in lines.values() for n in line.past)


def is_ended(trials: Sequence[FrozenTrial], number: int) -> bool:
    """Whether the trial of a number is among all trials of a study, and has ended."""
    return 0 <= number < len(trials) and trials[number].number == number and trials[number].state.is_finished()


class LivingWorkers:
    """Who works on which trials, by the lines of a study."""

    def __init__(self, presence: Presence, lines: Mapping[str, Line]) -> None:
        self._presence, self._lines = presence, lines
        self.asks: dict[int, Mapping[str, float]] = {}
        """Proposals by the number of the trial; of several who name one, that of the process that lives."""
        self._names: dict[int, str] = {}
        self._ended: dict[float | None, set[int]] = {}
        for name, line in lines.items():
            asks = line.asks
            if not self.asks.keys().isdisjoint(asks):
                asks = {n: ask for n, ask in asks.items() if n not in self.asks or self._has_ended(self._names[n])}
            self.asks.update(asks)
            self._names.update(dict.fromkeys(asks, name))

    def ended(self, lease: float | None = None) -> set[int]:
        """The numbers of the trials whose processes are dead."""
        if lease not in self._ended:
            names = {name for name in set(self._names.values()) if self._has_ended(name, lease)}
            self._ended[lease] = {n for n, name in self._names.items() if name in names} if names else set()
        return self._ended[lease]

    def _has_ended(self, name: str, lease: float | None = None) -> bool | None:
        return self._presence.has_ended(name, self._lines[name], lease)


def external_of(ask: Mapping[str, Any], space: Distributions) -> dict[str, Any]:
    """An announced proposal in the study's terms; nothing when it makes no sense."""
    try:
        return {name: space[name].to_external_repr(value) for name, value in ask.items() if name in space}
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
        return {}


def _internal_of(params: Mapping[str, Any], space: Distributions) -> dict[str, float]:
    """A proposal as Optuna stores it, without values that were enqueued and lie in no distribution."""
    found = {}
    for name, value in params.items():
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            found[name] = value if type(value) is float else float(space[name].to_internal_repr(value))
    return found
