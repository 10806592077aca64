"""`tune_in_storage`: runs in an Optuna storage, with any number of workers, which may be killed at any moment.

A worker signs every trial at its creation. The next worker on the same machine finds the trials of dead workers and
finishes them under their own numbers. With one worker the study then has the same trials, bit for bit, as if nobody had
been killed. The operating system gives locks back when a process dies, and workers end when their parent does. Workers
wait for a storage that does not answer, such as a database that restarts, and then tell the value they have computed.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import math
import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
import threading
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from tqdm.auto import tqdm

from regretless.basics.options import whole_number
from regretless.doors.optuna.distributions import as_distributions, distribution_of, only_value, searchable
from regretless.doors.optuna.presence import LEASE_SECONDS, Line, presence_in
from regretless.doors.optuna.replica import named_constraints
from regretless.doors.optuna.rules import CONSTRAINTS, COST, check_study
from regretless.doors.optuna.sampler import ERROR, Sampler
from regretless.doors.optuna.settings import StudySettings, check_space, objective_changed
from regretless.doors.optuna.trials import VARIANCE, all_evaluated, directions_of, fixed_in, keep, kept
from regretless.doors.optuna.urls import open_storage, patiently, quiet
from regretless.doors.optuna.workers import OWNER, Sightings, exclusive, lost_after
from regretless.files.codec import method_named
from regretless.outlook.stopping import StopRule, check_objectives, probes_for
from regretless.run.evaluation import (
    Catch,
    Objective,
    ObjectiveError,
    check_catch,
    evaluate,
    too_many_failures,
)
from regretless.space import Space, SpaceLike
from regretless.space.parameters import Choice
from regretless.task import Direction, Reference, Task, objectives_of
from regretless.trial import last_line

STOP_RULE = "regretless:stop-rule"
"""The study attribute that names the rule which ended it; another rule looks for itself."""
ATTEMPTS = 2
"""A trial whose worker died this many times while the run itself lived on is told as failed: it is probably what kills
them."""
NOT_REACHED = 3
"""How a worker ends that could not reach the storage: where others can, they do its work."""
LOOK_SECONDS = 1.0
"""How often a worker that waits for a sign of life looks for one."""
FINISHED = (getattr(optuna.exceptions, "UpdateFinishedTrialError", RuntimeError),)
"""What storages raise when a trial has ended already; releases of Optuna before 4.3 have no name for it."""


def tune_in_storage(
    objective: Objective,
    space: SpaceLike,
    *,
    storage: str | BaseStorage,
    study: str,
    trials: int,
    workers: int = 1,
    method: str = "auto",
    direction: Direction = "minimize",
    seed: int | None = None,
    stop: StopRule | None = None,
    probes: float | None = None,
    floor: float | None = None,
    ceiling: float | None = None,
    noise_bound: float | None = None,
    noisy: bool | None = None,
    objectives: Sequence[str] | Mapping[str, Direction] | None = None,
    reference: Reference | None = None,
    timeout: float | None = None,
    catch: Catch = Exception,
    max_failures: float | None = None,
    progress: bool = True,
) -> Study:
    """Works on a study until it holds `trials` trials; creates it, or goes on with what is there.

    Args:
        objective: called as objective(**params); returns a number or a `Value`. With several workers it must be
            picklable.
        space: the parameters; see `regretless.Space`. That of an existing study must be the same.
        storage: a URL (see `open_storage`) or, with one worker, an Optuna storage.
        study: the study's name.
        trials: how many trials the study should hold in all, those of earlier runs included.
        workers: processes on this machine; further ones may join from other machines under the same study name.
        method: a name; "auto" keeps the method of an existing study.
        direction: "minimize" or "maximize".
        seed: makes the run repeatable; an existing study keeps its own.
        stop: a rule such as `regretless.GapBelow(0.01)`; all workers count for it. "auto" then begins a study with a
            method whose certificate shrinks.
        probes, floor, ceiling, noise_bound, noisy: as in `minimize` and `maximize`; an existing study keeps its own.
        objectives: the names of several objectives, or a mapping of names to directions, as in `minimize`; the front is
            `study.best_trials`, or that of `regretless.doors.optuna.export.result_of_study(study)`.
        reference: as in `minimize`.
        timeout: seconds after which no new trial starts.
        catch: exceptions of the objective that count as failed trials, which keep the error's text; all others end the
            run.
        max_failures: so many failures in a row end the run (`math.inf`: never); None: 20, or 5 before any success.
        progress: whether to show a progress bar.
    """
    whole_number(trials=trials, workers=workers)
    if workers > 1 and not isinstance(storage, str):
        raise ValueError("several workers need a storage URL that each can open; an open storage serves one worker")
    check_catch(catch)
    whole_number(also=(None, math.inf), max_failures=max_failures)
    known: dict[str, Any] = {"seed": seed, "probes": probes_for(stop, probes), "noise_bound": noise_bound}
    known["noisy"] = noisy
    names, directions = objectives_of(objectives, direction)
    task = Task(
        Space(space), directions, trials, floor=floor, ceiling=ceiling, objectives=names, reference=reference, **known
    )
    if stop is not None:
        check_objectives(stop, len(directions))
    _check_space(task.space, kept=isinstance(storage, str))
    opened = open_storage(storage) if isinstance(storage, str) else storage
    with quiet():
        found = patiently(
            lambda: optuna.create_study(
                storage=opened, study_name=study, directions=list(directions), load_if_exists=True
            )
        )
    if (own := directions_of(found)) != directions:
        raise ValueError(
            f"study {study!r} exists and its direction is {' and '.join(own)}, not {' and '.join(directions)}"
        )
    check_space(found, as_distributions(task.space), task.space.conditional)
    settings = StudySettings.of(task, method, certify=stop is not None and stop.asks_gap)
    named = {"method": method, "seed": seed, "probes": probes, "limit": task.limit, "noise_bound": noise_bound}
    named["noisy"] = noisy
    settings = StudySettings.agree(found, settings, named)
    task = settings.task(task.space, directions)
    found.sampler = sampler = Sampler(
        method_named(settings.method), seed=task.seed, search_space=task.space, budget=task.budget,
        certify=settings.certify,
        probes=task.probes, floor=task.floor, ceiling=task.ceiling, noise_bound=task.noise_bound,
        noisy=task.noisy, reference=task.reference,
    )  # fmt: skip
    settings.write(found)  # after the checks, so that a call that is refused leaves the study as it was
    if objective_changed(found, objective):
        words = f"the source of the objective has changed since study {study!r} began: old and new values are mixed"
        warnings.warn(words, RuntimeWarning, stacklevel=2)
    worker = _Worker(
        objective, sampler.search_space or {}, task.space, sampler, trials, stop,
        None if timeout is None else time.time() + timeout, catch, max_failures, _lock_file(storage, study),
        bool(task.noise_bound), task.objectives * task.several,
    )  # fmt: skip
    done = sum(t.state.is_finished() for t in found.get_trials(deepcopy=False))
    with tqdm(total=trials, initial=min(done, trials), disable=not progress, unit="trial", desc=settings.method) as bar:

        def advance(_: int = 1) -> None:
            if progress:
                _show(bar, found)

        if workers == 1:
            worker.work(found, advance)
        else:
            _work_in_processes(worker, found, str(storage), workers, advance)
    return found


def _show(bar: Any, study: Study) -> None:
    """Brings a progress bar to what the study holds, the trials of other command lines included."""
    ended = [t for t in study.get_trials(deepcopy=False) if t.state.is_finished()]
    values = [float(t.values[0]) for t in ended if t.values]
    failed = len(ended) - len(values)
    ways = directions_of(study)
    best = (max if ways[0] == "maximize" else min)(values) if values and len(ways) == 1 else None
    words = [] if best is None else [f"best seen {best:.6g}"]
    words += [f"{failed} failed"] * bool(failed)
    bar.set_postfix_str(", ".join(words), refresh=False)
    bar.update(max(min(len(ended), bar.total) - bar.n, 0))


def _check_space(space: Space, *, kept: bool) -> None:
    """Raises ValueError, before a study is made, where Optuna cannot hold the space, or a file or database its
    labels."""
    for name, parameter in space.parameters.items():
        for label in parameter.labels if kept and isinstance(parameter, Choice) else ():
            if label is not None and not isinstance(label, str | int | float):
                raise ValueError(
                    f"parameter {name!r}: storages keep texts, numbers, truth values and None, not the label {label!r}"
                )
        distribution_of(parameter)


@dataclass(frozen=True)
class Claim:
    """A trial that this worker has signed, and the lines and trials of the study as they were just before."""

    trial: FrozenTrial
    trials: Sequence[FrozenTrial]
    lines: Mapping[str, Line]


@dataclass(frozen=True)
class Wait:
    """A claim that has to be tried again, and why, where that is worth saying."""

    seconds: float
    why: str = ""


@dataclass(eq=False)
class _Worker:
    """One process's loop over trials; it is sent to its process before it has a study."""

    objective: Objective
    space: Mapping[str, BaseDistribution]
    own: Space
    sampler: Sampler
    trials: int
    rule: StopRule | None
    deadline: float | None
    catch: Catch
    max_failures: float | None
    lock: Path
    """The file whose lock makes the workers of one machine take trials one at a time."""
    bounded: bool
    """Whether a bound of the noise was stated, so that a finite space is not used up by one value of each setting."""
    objectives: tuple[str, ...] = ()
    """The names of several objectives."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names this call of `tune_in_storage`."""
    study: Study = field(init=False)
    sightings: Sightings = field(default_factory=Sightings)
    ended: list[bool] = field(default_factory=list)
    """Of each trial this worker finished: whether it succeeded."""
    last_error: str = ""
    begun: bool = False
    """Whether it has taken a trial."""
    said: set[str] = field(default_factory=set)

    def work(self, study: Study, advance: Callable[[], object]) -> None:
        """Takes and finishes trials until there are enough, the time is up or the stop rule holds."""
        self.study = study
        patiently(lambda: presence_in(study).write(study._storage))  # who looks from now on sees this process
        while not self._should_stop() and (trial := self._take()) is not None:
            self.begun = True
            self._finish(trial)
            advance()
            failures = too_many_failures(self.ended, self.last_error, self.max_failures)
            if failures:
                raise ObjectiveError(failures, self.last_error)

    def _should_stop(self) -> bool:
        if self._time_is_up():
            return True
        if self.rule is None:
            return False
        if kept(self.study).get(STOP_RULE) == repr(self.rule):
            return True
        reason = check_study(self.rule, self.study)
        if reason is not None:
            keep(self.study, STOP_RULE, repr(self.rule))
        return reason is not None

    def _time_is_up(self) -> bool:
        return self.deadline is not None and time.time() >= self.deadline

    def _take(self) -> FrozenTrial | None:
        """A trial of a dead worker, else an enqueued one, else a new one, with its parameters; None when the study
        holds enough, or the time is up while it is not known whether others live."""
        presence = presence_in(self.study)
        owner = {"worker": presence.name, "run": self.run, "token": uuid.uuid4().hex}
        while True:
            with exclusive(self.lock):
                claim = patiently(lambda: self._claim(owner))
            if not isinstance(claim, Wait):
                break
            self._say_that_it_waits(claim)
            if self._time_is_up():
                return None
            time.sleep(claim.seconds)
        return None if claim is None else patiently(lambda: self._with_params(claim))

    def _say_that_it_waits(self, wait: Wait) -> None:
        if wait.why and wait.why not in self.said:
            self.said.add(wait.why)
            tqdm.write(wait.why, file=sys.stderr)

    def _claim(self, owner: dict[str, Any]) -> Claim | Wait | None:
        """A trial that this worker has signed, with what it saw just before; None when the study holds enough."""
        storage, presence = self.study._storage, presence_in(self.study)
        lines = presence.look(storage)  # before the trials: who has created one by now is seen there
        trials = self.study.get_trials(deepcopy=False)
        taken, unknown = self._taken_over(trials, lines, owner)
        if taken is not None:
            return Claim(taken, trials, lines)
        for t in trials:
            if t.state == TrialState.WAITING and self._took_enqueued(t, owner):
                return Claim(t, trials, lines)
        presence.sweep(storage, lines, trials)
        missing = self.trials - sum(t.state != TrialState.WAITING for t in trials)
        ended = [t for t in trials if t.state.is_finished()]
        used_up = all_evaluated(self.own.cube().size, ended, bounded=self.bounded)
        if unknown and (missing <= 0 or used_up or not self.begun):
            words = f"waiting for up to {LEASE_SECONDS:.0f} s: it is not known yet whether the worker of trial "
            return Wait(LOOK_SECONDS, f"{words}{unknown[0].number} lives")
        if missing <= 0 or used_up:
            return self._give_up_turn(None)
        if missing <= 1 + sum(not presence.has_ended(*line) for line in lines.items()) and (wait := self._turn(lines)):
            return wait
        template = optuna.trial.create_trial(state=TrialState.RUNNING, system_attrs={OWNER: owner})
        created = storage.create_new_trial(self.study._study_id, template)  # one transaction: none without a signature
        presence.creating = False
        template.number, template._trial_id = _number_of(self.study, created, len(trials)), created
        presence.begin(storage, template.number)
        return Claim(template, trials, lines)

    def _took_enqueued(self, trial: FrozenTrial, owner: dict[str, Any]) -> bool:
        """Takes a waiting trial, unless another worker is faster; it is signed before it runs, so that no kill leaves
        it without a signature, and once more in case others have signed it meanwhile."""
        with contextlib.suppress(*FINISHED):
            self._signed(trial, owner)
            if self.study._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
                self._signed(trial, owner)
                return True
        presence_in(self.study).end(trial.number)
        return False

    def _taken_over(
        self, trials: Sequence[FrozenTrial], lines: Mapping[str, Line], owner: dict[str, Any]
    ) -> tuple[FrozenTrial | None, list[FrozenTrial]]:
        """A trial of a dead worker, which is ours now; and those of which it is not known whether their workers
        live."""
        unknown: list[FrozenTrial] = []
        for t in trials:
            by: Any = t.system_attrs.get(OWNER)
            if t.state != TrialState.RUNNING or not isinstance(by, Mapping):
                continue
            if by.get("token") == owner["token"]:
                return t, []  # signed before the storage went away in mid-answer
            ended = self._worker_ended(t, by, trials, lines)
            if ended is None:
                unknown.append(t)
            if not ended:
                continue
            attempts = _whole(by.get("attempt"), 1) if by.get("run") == self.run else 0
            if attempts >= ATTEMPTS:
                self.study.tell(t.number, state=TrialState.FAIL, skip_if_finished=True)
                continue
            with contextlib.suppress(*FINISHED):  # its worker ended it, and then itself, since the trials were read
                return self._signed(t, {**owner, "attempt": attempts + 1}), unknown
        return None, unknown

    def _worker_ended(
        self, trial: FrozenTrial, by: Mapping[str, Any], trials: Sequence[FrozenTrial], lines: Mapping[str, Line]
    ) -> bool | None:
        """Whether the worker that signed a trial is dead; None while that is not known."""
        presence, name = presence_in(self.study), by.get("worker")
        if by.get("left") is True:
            return True
        if name == presence.name:
            return trial.number not in presence.under_way
        line = lines.get(name) if isinstance(name, str) else None
        if line is None:  # signed by nobody that can be watched
            return self.sightings.seconds(trial) > lost_after(trials)
        return presence.has_ended(str(name), line)

    def _signed(self, trial: FrozenTrial, owner: dict[str, Any]) -> FrozenTrial:
        self.study._storage.set_trial_system_attr(trial._trial_id, OWNER, owner)
        presence_in(self.study).begin(self.study._storage, trial.number)
        return trial

    def _turn(self, lines: Mapping[str, Line]) -> Wait | None:
        """Near the end of a run only one worker at a time may create a trial: each says that it is about to, and goes
        on when it then sees nobody else who is. Of several the first by name waits for the others to step back."""
        turn_seconds = 0.05  # how often a worker looks whether it may create one of the last trials
        presence = presence_in(self.study)
        others = [n for n, line in lines.items() if line.creating and not presence.has_ended(n, line)]
        others = [n for n in others if n != presence.name]
        if not presence.creating:
            presence.creating = not others or presence.name < min(others)
            if presence.creating:
                presence.write(self.study._storage)
            return Wait(0.0 if presence.creating else turn_seconds)
        if others and presence.name > min(others):
            return self._give_up_turn(Wait(turn_seconds))
        return Wait(turn_seconds) if others else None

    def _give_up_turn(self, answer: Wait | None) -> Wait | None:
        presence = presence_in(self.study)
        if presence.creating:
            presence.creating = False
            presence.write(self.study._storage)
        return answer

    def _with_params(self, claim: Claim) -> FrozenTrial:
        """A trial that has all its parameters: those it had already, those enqueued with it, and proposed ones."""
        storage, sampler, trial = self.study._storage, self.sampler, claim.trial
        proposed = sampler.propose(self.study, trial, searchable(self.space), claim.trials, claim.lines)
        known, distributions = dict(trial.params), dict(trial.distributions)
        fixed = fixed_in(trial, self.space)
        for name in (*self.own.names, *self.own.conditional):  # a parent has its value before its children
            if name in known or not self.own.active(known)[name]:
                continue
            distribution = self.space[name]
            if name in fixed and distribution._contains(_stored(distribution, fixed[name])):
                known[name] = fixed[name]
            elif distribution.single():
                known[name] = only_value(distribution)
            elif name in proposed:
                known[name] = proposed[name]
            else:  # a child whose parent was enqueued with another value than proposed
                known[name] = sampler.sample_independent(self.study, trial, name, distribution)
            storage.set_trial_param(trial._trial_id, name, distribution.to_internal_repr(known[name]), distribution)
            distributions[name] = distribution
        found = copy.copy(trial)
        # in the order of the space, which a proxy does not keep: sums of an objective may depend on it in the last bit
        ordered = {name: known[name] for name in self.own.names if name in known}
        found.params, found.distributions = ordered | known, distributions
        return found

    def _finish(self, trial: FrozenTrial) -> None:
        try:
            outcome = evaluate(self.objective, trial.params, self.catch, objectives=self.objectives)
        except Exception:
            self._tell(trial, TrialState.FAIL)
            raise
        except BaseException:  # interrupted: nothing is known of the setting, and the next run finishes the trial
            self.study._storage.set_trial_system_attr(trial._trial_id, OWNER, {"left": True})
            presence_in(self.study).end(trial.number)
            raise
        self.ended.append(outcome.value is not None)
        if outcome.value is None:
            if not self.last_error:
                warnings.warn(f"trial {trial.number} failed: {last_line(outcome.error)}", RuntimeWarning, stacklevel=2)
            self.last_error = outcome.error
            # 2000: letters of an error's end that a trial keeps; relational storages of older Optunas take 2045
            self._tell(trial, TrialState.FAIL, user={ERROR: outcome.error[-2000:]})
            return
        named = named_constraints(outcome.constraints).items()
        numbers = {VARIANCE: outcome.var, COST: outcome.cost}
        self._tell(
            trial, TrialState.COMPLETE, outcome.value,
            system={f"{CONSTRAINTS}:{name}": value for name, value in named},
            user={key: _plain(number) for key, number in numbers.items() if number is not None},
        )  # fmt: skip

    def _tell(
        self, trial: FrozenTrial, state: TrialState, value: float | Sequence[float] | None = None,
        *, system: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Ends a trial with all that is known of it, once the storage answers. A worker that stood still for so long
        that another one has ended its trial meanwhile adds nothing to it."""
        storage, values = self.study._storage, None if value is None else np.atleast_1d(value).tolist()

        def told() -> None:
            for key, given in (system or {}).items():
                storage.set_trial_system_attr(trial._trial_id, key, given)
            for key, given in (user or {}).items():
                storage.set_trial_user_attr(trial._trial_id, key, given)
            self.sampler.after_trial(self.study, trial, state, values)
            storage.set_trial_state_values(trial._trial_id, state, values)

        with contextlib.suppress(*FINISHED):
            patiently(told)


# ---------------------------------------------------------------- several processes


def _work_in_processes(worker: _Worker, study: Study, url: str, workers: int, advance: Callable[[int], object]) -> None:
    """Runs the workers, starts a new one for each that is killed, and passes on the first error of an objective."""
    context = multiprocessing.get_context("spawn")
    running: dict[Any, Any] = {}

    def start() -> None:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_process, args=(worker, url, study.study_name, study.sampler, theirs))
        process.start()
        theirs.close()
        running[process] = ours

    for _ in range(workers):
        start()
    killed = 0
    try:
        while running:
            # 0.2: how often the parent looks at its workers
            multiprocessing.connection.wait([p.sentinel for p in running], timeout=0.2)
            for process, pipe in list(running.items()):
                alive = process.is_alive()  # asked first, so that what a worker sent before its end is heard
                error = _listen(pipe, advance)
                if error:
                    raise RuntimeError(error)
                if alive:
                    continue
                process.join()
                del running[process]
                if process.exitcode and process.exitcode < 0:
                    killed += 1
                    if killed > ATTEMPTS * worker.trials:
                        raise RuntimeError(f"{killed} workers were killed (last signal {-process.exitcode}); giving up")
                    start()
                elif process.exitcode and not (process.exitcode == NOT_REACHED and running):
                    raise RuntimeError(f"a worker did not start (exit code {process.exitcode}); see its message above")
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join()


def _listen(pipe: Any, advance: Callable[[int], object]) -> str:
    """Counts the trials a worker has finished; returns the error it ended with, or ""."""
    try:
        while pipe.poll():
            message = pipe.recv_bytes()
            if message:
                return str(message.decode())
            advance(1)
    except (EOFError, OSError):  # the worker is gone, perhaps in the middle of a word
        pass
    return ""


def _process(worker: _Worker, url: str, name: str, sampler: Sampler, pipe: Any) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        try:
            study = patiently(lambda: optuna.load_study(study_name=name, storage=open_storage(url), sampler=sampler))
        except ConnectionError as error:
            tqdm.write(f"a worker ends: {error}", file=sys.stderr)
            sys.exit(NOT_REACHED)
        worker.work(study, lambda: pipe.send_bytes(b""))
    except KeyboardInterrupt:
        pass
    except Exception as error:
        traceback.print_exc()
        pipe.send_bytes(f"{type(error).__name__}: {error}".encode())


def _end_with_parent() -> None:
    """Ends this process when its parent has ended: its trial is then found and finished by the next run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _number_of(study: Study, trial_id: int, least: int) -> int:
    """The number of a trial that was just created; storages know it without a query."""
    found = study._storage.get_trial_id_from_study_id_trial_number
    return next(n for n in itertools.count(least) if found(study._study_id, n) == trial_id)


def _stored(distribution: BaseDistribution, value: Any) -> float:
    try:
        return distribution.to_internal_repr(value)
    except (ValueError, TypeError):
        return math.nan


def _plain(number: Any) -> Any:
    return list(number) if isinstance(number, tuple) else float(number)


def _whole(value: Any, default: int) -> int:
    return value if type(value) is int else default


def _lock_file(storage: str | BaseStorage, study: str) -> Path:
    """A file in the system's folder for temporary files, the same for all workers of a study on this machine."""
    where = storage if isinstance(storage, str) else f"{os.getpid()}-{id(storage)}"
    digest = hashlib.blake2b(f"{where}\n{study}".encode(), digest_size=12).hexdigest()
    return Path(tempfile.gettempdir()) / f"regretless-{os.getuid() if hasattr(os, 'getuid') else 0}" / f"{digest}.lock"
