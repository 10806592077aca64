"""A run kept as an Optuna study, written as it happens: dashboards, exports and Optuna's own loops see its trials.

Each trial of the run is a trial of the study, under the same number. Beside its parameters, values and state it keeps
what the law needs: the point, what its proposal had seen (`Trial.seen`), and in which order trials ended. So the run is
read from the study bit for bit, and a process that is killed between two writes leaves a run that goes on.

One process at a time writes to a storage: the one with the `StorageLease`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from io import BytesIO
from typing import Any, cast

import optuna
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from regretless.basics.extras import masked
from regretless.doors.optuna.distributions import distribution_of
from regretless.doors.optuna.export import find_study, result_of_study
from regretless.doors.optuna.rules import CONSTRAINTS, COST
from regretless.doors.optuna.runner import FINISHED
from regretless.doors.optuna.sampler import ERROR
from regretless.doors.optuna.settings import StudySettings
from regretless.doors.optuna.trials import VARIANCE, ended_at, keep, kept
from regretless.doors.optuna.urls import open_storage, quiet
from regretless.doors.optuna.workers import is_dead, signature
from regretless.files.book import Book
from regretless.files.checkpoint import LINE_DIGEST, Checkpoint, Position, chained, change_since, position
from regretless.method import Method
from regretless.optimizer import Optimizer
from regretless.space import Space
from regretless.task import Task
from regretless.trial import Trial

BEGUN, RECORD = "regretless:begun", "regretless:record"
"""The study attributes that hold the run as it began (a file of `Optimizer.save`, in base64), and the facts of it
(`Record`)."""
OTHERS = "regretless:ended-by-others"
"""The study attribute that holds which trials other programs have ended, and as which ones they did."""
ASKED, CLIENT, ENDED = "regretless:asked", "regretless:client", "regretless:ended"
"""The trial attributes that hold the point of a trial and what its proposal had seen, to whom it was given, and how and
as which one it ended."""
LEASE, BEAT, FROM = "regretless-service", "regretless:beat", "regretless:owner"
"""The study whose trials are the owners of a storage, and what each of them writes: its sign of life and who it is."""
LEASE_SECONDS, BEAT_SECONDS = 10.0, 2.0
"""After how long without a sign of life an owner counts as dead, and how often it gives one."""


class StudyLog:
    """The log of a run in an Optuna study.

    Args:
        storage: where the study is.
        name: what it is called.
        lease: what lets this process write.
    """

    def __init__(self, storage: BaseStorage, name: str, lease: StorageLease) -> None:
        self.storage, self.name, self.lease = storage, name, lease
        self._rows, self._at = _Rows(self), cast("Position | None", None)
        self._ids: list[int] = []
        """Optuna's ids of the trials, by number."""

    def close(self) -> None:
        """Nothing to do: the storage is open for others."""

    def read(self) -> Optimizer | None:
        """The run that the study holds; None where it holds none yet."""
        found = self._study()
        if found is None or BEGUN not in kept(found):
            return None
        optimizer = read_study(found)
        self._take_over(found, optimizer)
        return optimizer

    def begin(self, optimizer: Optimizer) -> Optimizer:
        """Begins a run, and returns it as it is in the study: trials that others have made there are its first."""
        task, content = optimizer.task, BytesIO()
        optimizer.save(content)
        self.lease.check()
        directions = [StudyDirection.MINIMIZE if d == "minimize" else StudyDirection.MAXIMIZE for d in task.directions]
        with quiet():
            study = optuna.create_study(
                storage=self.storage, study_name=self.name, directions=directions, load_if_exists=True
            )
        if list(study.directions) != directions:
            raise ValueError(f"study {self.name!r} exists, and its directions are others")
        begun = base64.b64encode(content.getvalue()).decode()
        run = read_run(begun, kept(study), study.get_trials(deepcopy=False))  # it raises where the study does not fit
        if not task.several:
            StudySettings.of(task, optimizer.recipe.name, certify=False).write(study)
        if task.objectives:
            with quiet():
                study.set_metric_names(list(task.objectives))
        keep(study, BEGUN, begun)
        self._take_over(study, run)
        return run

    def write(self, optimizer: Optimizer) -> None:
        """Writes what has happened; when this returns it is on the disk, in an order that a kill cannot spoil."""
        self.lease.check()
        optimizer.save(self._rows)

    def check_corrections(self) -> None:
        """Raises ValueError: Optuna takes nothing back."""
        raise ValueError("an Optuna study keeps what was told: corrections need a run in a file")

    def grow(self, book: Book, task: Task, method: Method) -> None:
        """Adds to the study what it lacks of a book."""
        at = self._at
        assert at is not None, "read or begin comes first"
        change = change_since(at, book, task, method)
        clients: dict[int, Any] = {
            number: [k, client] for k, (number, client) in enumerate(book.handed) if k >= at.handed
        }
        ended = at.ended
        for trial, asked in zip(book.trials[at.asked :], change.get("asked", []), strict=True):
            while trial.seen is not None and ended < trial.seen[0]:
                self._write_end(book, task, ended, change["ended"][ended - at.ended])
                ended += 1
            mark = [trial.number, *asked, trial.number in book.probe_steps]
            self._write_ask(trial, task.space, mark, clients.pop(trial.number, None))
        for number, client in clients.items():
            if book.trials[number].state == "pending":
                self.storage.set_trial_system_attr(self._ids[number], CLIENT, client)
        for order in range(ended, len(book.ended)):
            self._write_end(book, task, order, change["ended"][order - at.ended])
        if "record" in change:
            self.storage.set_study_system_attr(self._study_id, RECORD, asdict(book.record))
        self._at = _position(book)

    # -- inside

    def _study(self) -> Study | None:
        with quiet(), contextlib.suppress(KeyError):
            return optuna.load_study(study_name=self.name, storage=self.storage)
        return None

    def _take_over(self, study: Study, optimizer: Optimizer) -> None:
        """Brings the study to what was read from it: what a killed process had begun is finished, and what others did
        gets its place."""
        self._study_id, self._at = study._study_id, _position(optimizer.book)
        trials, others = study.get_trials(deepcopy=False), kept(study).get(OTHERS, [])
        self._ids = [t._trial_id for t in trials]
        known = {number for _, number in others}
        for order, number in enumerate(optimizer.book.ended):
            if trials[number].state == TrialState.RUNNING:
                self._write_end(optimizer.book, optimizer.task, order, None)
            elif ENDED not in trials[number].system_attrs and number not in known:
                others = [*others, [order, number]]
        if len(others) > len(known):
            self.storage.set_study_system_attr(self._study_id, OTHERS, others)

    def _write_ask(self, trial: Trial, space: Space, mark: list[Any], client: list[Any] | None) -> None:
        template = create_trial(
            state=TrialState.RUNNING, params=dict(trial.given),
            distributions={name: distribution_of(space.parameters[name]) for name in trial.given},
            system_attrs={ASKED: mark} | ({} if client is None else {CLIENT: client}),
        )  # fmt: skip
        template.datetime_start = datetime.now()
        made = self.storage.create_new_trial(self._study_id, template_trial=template)
        if self.storage.get_trial_number_from_id(made) != trial.number:
            raise OSError(f"another program adds trials to study {self.name!r}")
        self._ids.append(made)

    def _write_end(self, book: Book, task: Task, order: int, end: list[Any] | None) -> None:
        """Writes how a trial ended, first what the law needs (None: it is there already) and then what Optuna shows."""
        trial = book.trials[book.ended[order]]
        at = self._ids[trial.number]
        try:
            if end is not None:
                self.storage.set_trial_system_attr(at, ENDED, [order, *end])
                for name, value in _shown(trial, task).items():
                    self.storage.set_trial_user_attr(at, name, value)
                if trial.constraints:
                    self.storage.set_trial_system_attr(at, CONSTRAINTS, list(trial.constraints))
            state = TrialState.FAIL if trial.value is None else TrialState.COMPLETE
            self.storage.set_trial_state_values(at, state, list(trial.values) or None)
        except FINISHED:
            raise OSError(f"another program has ended trial {trial.number} of study {self.name!r}") from None


class _Rows(Checkpoint):
    """Takes what happens to a run from `Optimizer.save`, as a file that grows does."""

    def __init__(self, log: StudyLog) -> None:
        super().__init__(log.name)
        self._log = log

    def can_grow(self, book: Book) -> bool:
        return True

    def growth(self, book: Book, task: Task, method: Method) -> Callable[[], None]:
        self._log.grow(book, task, method)
        return lambda: None


def read_study(study: Study) -> Optimizer:
    """The run that a study holds, with what others have added since; raises ValueError where it holds none."""
    attrs = kept(study)
    if BEGUN not in attrs:
        raise ValueError(f"study {study.study_name!r} holds no run of ask and tell")
    return read_run(attrs[BEGUN], attrs, study.get_trials(deepcopy=False))


def read_run(begun: str, attrs: Mapping[str, Any], trials: Sequence[FrozenTrial]) -> Optimizer:
    """The run that began like this, with the trials of its study."""
    content = base64.b64decode(begun)
    bare = Optimizer.load(content)
    handed = sorted([*t.system_attrs[CLIENT], t.number] for t in trials if CLIENT in t.system_attrs)
    change = {
        "asked": [_asked(t, bare) for t in trials],
        "ended": _ends(trials, attrs.get(OTHERS, []), bare),
        "probe_steps": [t.number for t in trials if _is_own(t) and t.system_attrs[ASKED][4]],
        "handed": [[number, client] for _, client, number in handed],
        "record": attrs.get(RECORD, {}),
    }
    text = json.dumps(change).encode()
    digest = chained(content[-LINE_DIGEST:].decode("latin-1"), text).encode()
    return Optimizer.load(content + text + digest + b"\n")


def _ends(trials: Sequence[FrozenTrial], others: Sequence[Any], bare: Optimizer) -> list[list[Any]]:
    """How trials ended, in the order in which they did; those that others ended come last until they have a place."""
    marks = [(t.system_attrs[ENDED][0], t.system_attrs[ENDED][1:]) for t in trials if ENDED in t.system_attrs]
    marks += [(order, _end_by_others(trials[number], bare)) for order, number in others]
    placed = {mark[0] for _, mark in marks}
    fresh = sorted((t for t in trials if t.state.is_finished() and t.number not in placed), key=ended_at)
    return [mark for _, mark in sorted(marks, key=lambda m: m[0])] + [_end_by_others(t, bare) for t in fresh]


def _end_by_others(trial: FrozenTrial, bare: Optimizer) -> list[Any]:
    """How a trial ended that another program has ended, as a line of a checkpoint says it."""
    task, limits = bare.task, trial.system_attrs.get(CONSTRAINTS)
    told = trial.state == TrialState.COMPLETE and (not task.n_constraints or len(limits or ()) == task.n_constraints)
    if not told or trial.values is None:
        why = str(trial.user_attrs.get(ERROR, f"another program ended it as {trial.state.name.lower()}"))
        return [trial.number, None, None, [], None, None, [], [], why, False]
    first, *further = map(float, trial.values)
    limits = [float(c) for c in limits or ()] if task.n_constraints else []
    return [trial.number, first, None, limits, None, None, further, [None] * len(further), "", False]


def _is_own(trial: FrozenTrial) -> bool:
    """Whether a run made a trial, under the number that it has."""
    mark = trial.system_attrs.get(ASKED)
    return mark is not None and mark[0] == trial.number


def _asked(trial: FrozenTrial, bare: Optimizer) -> list[Any]:
    """The point of a trial, its own parameters and what its proposal had seen."""
    if _is_own(trial):
        return list(trial.system_attrs[ASKED][1:4])
    try:
        params = {name: trial.params[name] for name in bare.space.names if name in trial.params}
        bare.space.check(params)
        return [bare.space.encode(params, bare.method.traits.choices).tolist(), params, None]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"trial {trial.number} of the study is of another space: {error}") from None


def _shown(trial: Trial, task: Task) -> dict[str, Any]:
    """What is known of a trial beside its values, under the names by which readers of studies know it."""
    var: Any = list(trial.variances) if task.several else trial.var
    known = any(v is not None for v in trial.variances)
    # 2000: letters of the end of an error that a trial keeps; relational storages of older Optunas take 2045
    facts = {VARIANCE: var if known else None, COST: trial.cost, ERROR: trial.error[-2000:] or None}
    return {name: fact for name, fact in facts.items() if fact is not None}


def _position(book: Book) -> Position:
    return position(book, 0, 0, "")


# ---------------------------------------------------------------- all studies of a storage


class Storage:
    """The studies of an Optuna storage, which this process owns.

    Args:
        url: the storage.
        seconds: how long to wait for another owner; None: as long as it takes.
    """

    def __init__(self, url: str, seconds: float | None = 0.0) -> None:
        self.storage = open_storage(url)
        self.lease = StorageLease(self.storage, masked(url), seconds)

    def names(self) -> list[str]:
        """The studies that hold a run."""
        return sorted(
            s.study_name for s in self.storage.get_all_studies() if BEGUN in s.system_attrs and s.study_name != LEASE
        )

    def log(self, name: str) -> StudyLog:
        """The log of a study, which need not be there."""
        if name == LEASE:
            raise ValueError(f"{name!r} is the name of the study that says who owns the storage")
        return StudyLog(self.storage, name, self.lease)

    def close(self) -> None:
        """Gives the storage back."""
        self.lease.close()


class StorageLease:
    """One owner at a time for an Optuna storage, over all machines that reach it.

    Owners are trials of a study of their own, because every storage numbers trials one by one: who wants to own the
    storage makes the next trial, and only the one whose number came right behind that of a dead owner has it. An owner
    gives a sign of life every few seconds. One that was held up for longer than `LEASE_SECONDS` writes nothing before
    it has seen that nobody took its place.
    """

    def __init__(self, storage: BaseStorage, url: str, seconds: float | None = 0.0) -> None:
        self.storage, self.url = storage, url
        with quiet():
            self._study = optuna.create_study(storage=storage, study_name=LEASE, load_if_exists=True)
        self._lock, self._beats, self._ended = threading.Lock(), 0, threading.Event()
        self._own = self._acquired(seconds)
        self._until = time.monotonic() + LEASE_SECONDS
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises BlockingIOError where another process has taken over."""
        if time.monotonic() > self._until:
            self._beat()

    def close(self) -> None:
        """Gives the storage back."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(*FINISHED):
            self.storage.set_trial_state_values(self._own._trial_id, TrialState.COMPLETE, [0.0])

    def _acquired(self, seconds: float | None) -> FrozenTrial:
        deadline = None if seconds is None else time.monotonic() + seconds
        seen: tuple[int, Any] | None = None
        since, looks = time.monotonic(), 0
        while True:
            trials = self._study.get_trials(deepcopy=False)
            owner = next((t for t in reversed(trials) if t.state == TrialState.RUNNING), None)
            if owner is None or is_dead(owner.system_attrs.get(FROM)) or time.monotonic() - since > LEASE_SECONDS:
                if (made := self._taken(len(trials))) is not None:
                    return made
                seen = None
            elif seen != (owner.number, owner.system_attrs.get(BEAT)):
                seen, since = (owner.number, owner.system_attrs.get(BEAT)), time.monotonic()
                if deadline is not None and time.monotonic() >= deadline and looks:
                    by = owner.system_attrs.get(FROM, {})
                    where = f"process {by.get('pid')} of {by.get('host')}"
                    raise BlockingIOError(f"{self.url} is in use by {where}; end that one first, or work through it")
            looks += 1
            time.sleep(BEAT_SECONDS / 4)

    def _taken(self, number: int) -> FrozenTrial | None:
        """The trial that owns the storage, if it has this number: nobody came between."""
        own = {**signature(), "host": socket.gethostname(), "pid": os.getpid()}
        template = create_trial(state=TrialState.WAITING, system_attrs={FROM: own})
        made = self.storage.create_new_trial(self._study._study_id, template_trial=template)
        if self.storage.get_trial_number_from_id(made) == number:
            self.storage.set_trial_state_values(made, TrialState.RUNNING)
            return self.storage.get_trial(made)
        self.storage.set_trial_state_values(made, TrialState.FAIL)
        return None

    def _beat(self) -> None:
        with self._lock:
            now = time.monotonic()
            trials = self._study.get_trials(deepcopy=False)
            if any(t.number > self._own.number and t.state == TrialState.RUNNING for t in trials):
                raise BlockingIOError(f"another process has taken {self.url} over")
            self._beats += 1
            self.storage.set_trial_system_attr(self._own._trial_id, BEAT, self._beats)
            self._until = now + LEASE_SECONDS

    def _go_on(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with contextlib.suppress(Exception):  # it is away: the next write looks again
                self._beat()


def has_run(url: str, name: str) -> bool:
    """Whether the study of a name holds a run of ask and tell."""
    return BEGUN in kept(find_study(url, name))


def run_of(url: str, name: str) -> Optimizer:
    """What is known of a study: its run of ask and tell or, of a sampler's study, what a method makes of its trials."""
    return StudyReader(url, name).load()


class StudyReader:
    """A study that others write, to be read again and again."""

    def __init__(self, url: str, name: str) -> None:
        self._study = find_study(url, name)

    def load(self) -> Optimizer:
        """What is known of it (`run_of`)."""
        own = BEGUN in kept(self._study)
        return read_study(self._study) if own else result_of_study(self._study).optimizer

    def mark(self) -> list[Any]:
        """The states of its trials, which change when something happens."""
        return [t.state for t in self._study.get_trials(deepcopy=False)]
