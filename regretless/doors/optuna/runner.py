"""`tune_in_storage`: runs in an Optuna storage, with any number of workers, which may be killed at any moment.

A worker signs every trial at its creation. The next worker on the same machine finds the trials of dead workers and
finishes them under their own numbers. With one worker the study then has the same trials, bit for bit, as if nobody had
been killed. The operating system gives locks back when a process dies, and workers end when their parent does. Workers
wait for a storage that does not answer, such as a database that restarts, and then tell the value they have computed.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import multiprocessing.connection
import os
import tempfile
import threading
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import TrialState
from tqdm.auto import tqdm

from regretless.basics.options import whole_number
from regretless.doors.optuna.distributions import as_distributions, distribution_of
from regretless.doors.optuna.replica import named_constraints
from regretless.doors.optuna.rules import CONSTRAINTS, COST, check_study
from regretless.doors.optuna.sampler import ERROR, Sampler
from regretless.doors.optuna.settings import StudySettings, check_space, objective_changed
from regretless.doors.optuna.trials import VARIANCE, all_evaluated, direction_of
from regretless.doors.optuna.urls import open_storage, patiently, quiet
from regretless.doors.optuna.workers import OWNER, Sightings, exclusive, is_dead, lost_after, signature
from regretless.files.codec import method_named
from regretless.outlook.stopping import StopRule, probes_for
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
from regretless.task import Direction, Task
from regretless.trial import last_line

STOP_RULE = "regretless:stop-rule"
"""The study attribute that names the rule which ended it; another rule looks for itself."""
ATTEMPTS = 2
"""A trial whose worker died this many times while the run itself lived on is told as failed: it is probably what kills
them."""
ERROR_LENGTH = 2000
"""Letters of an error's end that a trial keeps; relational storages of older Optunas take 2045."""
POLL_SECONDS = 0.2
"""How often the parent looks at its workers."""


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
        trials: how many trials the study should hold in all, those of former runs included.
        workers: processes on this machine; further ones may join from other machines under the same study name.
        method: a name; "auto" keeps the method of an existing study.
        direction: "minimize" or "maximize".
        seed: makes the run repeatable; an existing study keeps its own.
        stop: a rule such as `regretless.GapBelow(0.01)`; all workers count for it. "auto" then begins a study with a
            method whose certificate shrinks.
        probes, floor, ceiling, noise_bound: as in `minimize` and `maximize`; an existing study keeps its own.
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
    task = Task(Space(space), (direction,), trials, floor=floor, ceiling=ceiling, **known)
    _check_space(task.space, kept=isinstance(storage, str))
    opened = open_storage(storage) if isinstance(storage, str) else storage
    with quiet():
        found = patiently(
            lambda: optuna.create_study(storage=opened, study_name=study, direction=direction, load_if_exists=True)
        )
    if direction_of(found) != direction:
        raise ValueError(f"study {study!r} exists and its direction is {direction_of(found)}, not {direction}")
    check_space(found, as_distributions(task.space), task.space.conditional)
    settings = StudySettings.of(task, method, certify=stop is not None and stop.asks_gap)
    named = {"method": method, "seed": seed, "probes": probes, "limit": task.limit, "noise_bound": noise_bound}
    settings = StudySettings.agree(found, settings, named)
    task = settings.task(task.space, direction)
    found.sampler = sampler = Sampler(
        method_named(settings.method), seed=task.seed, search_space=task.space, budget=task.budget,
        certify=settings.certify,
        probes=task.probes, floor=task.floor, ceiling=task.ceiling, noise_bound=task.noise_bound,
    )  # fmt: skip
    settings.write(found)  # after the checks, so that a call that is refused leaves the study as it was
    if objective_changed(found, objective):
        words = f"the source of the objective has changed since study {study!r} began: old and new values are mixed"
        warnings.warn(words, RuntimeWarning, stacklevel=2)
    worker = _Worker(
        objective, sampler.search_space or {}, task.space, trials, stop,
        None if timeout is None else time.time() + timeout, catch, max_failures, _lock_file(storage, study),
        bool(task.noise_bound),
    )  # fmt: skip
    done = sum(t.state.is_finished() for t in found.get_trials(deepcopy=False))
    with tqdm(total=trials, initial=min(done, trials), disable=not progress, unit="trial", desc=settings.method) as bar:
        if workers == 1:
            worker.work(found, bar.update)
        else:
            _work_in_processes(worker, found, str(storage), workers, bar.update)
    return found


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


@dataclass(eq=False)
class _Worker:
    """One process's loop over trials; it is sent to its process before it has a study."""

    objective: Objective
    space: Mapping[str, BaseDistribution]
    own: Space
    trials: int
    rule: StopRule | None
    deadline: float | None
    catch: Catch
    max_failures: float | None
    lock: Path
    """The file whose lock makes the workers of one machine take trials one at a time."""
    bounded: bool
    """Whether a bound of the noise was stated, so that a finite space is not used up by one value of each setting."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names this call of `tune_in_storage`."""
    study: Study = field(init=False)
    sightings: Sightings = field(default_factory=Sightings)
    ended: list[bool] = field(default_factory=list)
    """Of each trial this worker finished: whether it succeeded."""
    last_error: str = ""

    def work(self, study: Study, advance: Callable[[], object]) -> None:
        """Takes and finishes trials until there are enough, the time is up or the stop rule holds."""
        self.study = study
        while not self._should_stop() and (trial := self._take()) is not None:
            self._finish(trial)
            advance()
            failures = too_many_failures(self.ended, self.last_error, self.max_failures)
            if failures:
                raise ObjectiveError(failures, self.last_error)

    def _should_stop(self) -> bool:
        if self.deadline is not None and time.time() >= self.deadline:
            return True
        if self.rule is None:
            return False
        if self.study.user_attrs.get(STOP_RULE) == repr(self.rule):
            return True
        reason = check_study(self.rule, self.study)
        if reason is not None:
            self.study.set_user_attr(STOP_RULE, repr(self.rule))
        return reason is not None

    def _take(self) -> optuna.Trial | None:
        """A trial of a dead worker, else an enqueued one, else a new one; None when the study holds enough."""
        token = {**signature(), "run": self.run, "token": uuid.uuid4().hex}
        with exclusive(self.lock):
            trial_id = patiently(lambda: self._claim(token))
        if trial_id is None:
            return None

        def suggest() -> optuna.Trial:
            trial = optuna.Trial(self.study, trial_id)
            for name in (*self.own.names, *self.own.conditional):  # a parent has its value before its children
                if name not in trial.params and self.own.active(trial.params)[name]:
                    trial._suggest(name, self.space[name])
            return trial

        return patiently(suggest)

    def _claim(self, token: dict[str, Any]) -> int | None:
        """The id of a trial that this worker has signed; None when the study holds enough."""
        storage, study_id = self.study._storage, self.study._study_id
        trials = self.study.get_trials(deepcopy=False)
        owners = [(t, t.system_attrs.get(OWNER)) for t in trials if t.state == TrialState.RUNNING]
        signed = [(t, by) for t, by in owners if isinstance(by, dict) and isinstance(by.get("pid"), int)]
        for t, owner in signed:
            if owner.get("token") == token["token"]:
                return t._trial_id  # created before the storage went away in mid-answer
        ttl = lost_after(trials)
        for t, owner in signed:
            dead = is_dead(owner)
            if not dead and (dead is not None or self.sightings.seconds(t) <= ttl):
                continue  # its worker lives on this machine, or has not been silent for long on another
            attempts = int(owner.get("attempt", 1)) if owner.get("run") == self.run else 0
            if attempts >= ATTEMPTS:
                self.study.tell(t.number, state=TrialState.FAIL, skip_if_finished=True)
                continue
            try:
                storage.set_trial_system_attr(t._trial_id, OWNER, {**token, "attempt": attempts + 1})
            except UpdateFinishedTrialError:  # its worker ended it, and then itself, since the trials were read
                continue
            return t._trial_id
        waiting = self.study._pop_waiting_trial_id()
        if waiting is not None:
            storage.set_trial_system_attr(waiting, OWNER, token)
            return waiting
        ended = [t for t in trials if t.state.is_finished()]
        enough = sum(t.state != TrialState.WAITING for t in trials) >= self.trials
        if enough or all_evaluated(self.own.cube().size, ended, bounded=self.bounded):
            return None
        template = optuna.trial.create_trial(state=TrialState.RUNNING, system_attrs={OWNER: token})
        return storage.create_new_trial(study_id, template)  # one transaction: no trial without a signature

    def _finish(self, trial: optuna.Trial) -> None:
        try:
            outcome = evaluate(self.objective, trial.params, self.catch)
        except Exception:
            patiently(lambda: self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True))
            raise
        except BaseException:  # interrupted: nothing is known of the setting, and the next run finishes the trial
            self.study._storage.set_trial_system_attr(trial._trial_id, OWNER, {**signature(), "born": "interrupted"})
            raise
        self.ended.append(outcome.value is not None)
        if outcome.value is None:
            if not self.last_error:
                warnings.warn(f"trial {trial.number} failed: {last_line(outcome.error)}", RuntimeWarning, stacklevel=2)
            self.last_error = outcome.error
            patiently(lambda: trial.set_user_attr(ERROR, outcome.error[-ERROR_LENGTH:]))
            patiently(lambda: self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True))
            return
        for name, value in named_constraints(outcome.constraints).items():
            key = f"{CONSTRAINTS}:{name}"
            patiently(lambda: self.study._storage.set_trial_system_attr(trial._trial_id, key, value))  # noqa: B023
        for key, number in ((VARIANCE, outcome.var), (COST, outcome.cost)):
            if number is not None:
                plain = list(number) if isinstance(number, tuple) else float(number)
                patiently(lambda: trial.set_user_attr(key, plain))  # noqa: B023
        patiently(lambda: self.study.tell(trial, outcome.value, skip_if_finished=True))


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
            multiprocessing.connection.wait([p.sentinel for p in running], timeout=POLL_SECONDS)
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
                elif process.exitcode:
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
        study = patiently(lambda: optuna.load_study(study_name=name, storage=open_storage(url), sampler=sampler))
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


def _lock_file(storage: str | BaseStorage, study: str) -> Path:
    """A file in the system's folder for temporary files, the same for all workers of a study on this machine."""
    where = storage if isinstance(storage, str) else f"{os.getpid()}-{id(storage)}"
    digest = hashlib.blake2b(f"{where}\n{study}".encode(), digest_size=12).hexdigest()
    return Path(tempfile.gettempdir()) / f"regretless-{os.getuid() if hasattr(os, 'getuid') else 0}" / f"{digest}.lock"
