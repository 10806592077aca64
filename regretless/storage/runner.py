"""`tune_in_storage`: works on a study of an Optuna storage with any number of workers.

A worker may be killed at any moment. It signs every trial at its creation, so whoever comes next on the same machine
finds the trials of the dead, finishes them under their own numbers, and the study goes on as if nothing had happened:
with one worker, bit for bit. Locks are the system's, which gives them back when a process dies; workers end when their
parent does. A storage that is away for a while (a database that restarts) is waited for; a value that was computed is
told when it is back.
"""

from __future__ import annotations

import hashlib
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from tqdm.auto import tqdm

from regretless.bounds import KnownBound
from regretless.doors.distributions import cube_space
from regretless.doors.optuna import ERROR, Sampler
from regretless.doors.trials import VARIANCE
from regretless.doors.workers import OWNER, Sightings, exclusive, is_dead, lost_after, signature
from regretless.evaluation import (
    Catch,
    Objective,
    ObjectiveError,
    check_catch,
    check_max_failures,
    evaluate,
    last_line,
    too_many_failures,
)
from regretless.optimizer import Direction
from regretless.space import Space, SpaceLike
from regretless.stopping import Rule, probes_for
from regretless.storage.settings import Settings, check_space, objective_changed
from regretless.storage.urls import open_storage, patiently, quiet

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
    stop: Rule | None = None,
    probes: float | None = None,
    floor: float | None = None,
    ceiling: float | None = None,
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
        probes, floor, ceiling: as in `minimize` and `maximize`; an existing study keeps its own.
        timeout: seconds after which no new trial starts.
        catch: exceptions of the objective that count as failed trials, which keep the error's text; all others end the
            run.
        max_failures: so many failures in a row end the run (`math.inf`: never); None: 20, or 5 before any success.
        progress: whether to show a progress bar.
    """
    for name, number in (("trials", trials), ("workers", workers)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
    if workers > 1 and not isinstance(storage, str):
        raise ValueError(
            "several workers need a storage URL that each of them can open; an open storage serves one worker"
        )
    check_catch(catch)
    check_max_failures(max_failures)
    opened = open_storage(storage) if isinstance(storage, str) else storage
    with quiet():
        found = patiently(
            lambda: optuna.create_study(storage=opened, study_name=study, direction=direction, load_if_exists=True)
        )
    if found.direction.name.lower() != direction:
        raise ValueError(
            f"study {study!r} is there already and its direction is {found.direction.name.lower()}, not {direction}"
        )
    bound = KnownBound(direction, floor, ceiling).value
    rate = probes_for(stop, probes) if probes is not None or stop is not None else None
    certify = stop is not None and stop.asks_gap
    settings = Settings.agree(found, method, seed, certify, trials, probes=rate, bound=bound)
    found.sampler = sampler = Sampler(
        settings.method,
        seed=settings.seed,
        search_space=Space(space),
        budget=settings.budget,
        certify=settings.certify,
        probes=settings.probes,
        **{KnownBound(direction, None, None).name: settings.bound},
    )
    check_space(found, sampler.search_space or {})
    if objective_changed(found, objective):
        words = (
            "the source of the objective has changed since the study was last worked on: old and new values are mixed"
        )
        warnings.warn(f"study {study!r}: {words}", RuntimeWarning, stacklevel=2)
    job = _Job(
        objective=objective,
        space=sampler.search_space or {},
        trials=trials,
        stop=stop,
        deadline=None if timeout is None else time.time() + timeout,
        catch=catch,
        max_failures=max_failures,
        run=uuid.uuid4().hex,
        lock=_lock_file(storage, study),
    )
    done = sum(t.state.is_finished() for t in found.get_trials(deepcopy=False))
    with tqdm(total=trials, initial=min(done, trials), disable=not progress, unit="trial", desc=settings.method) as bar:
        if workers == 1:
            _Worker(job, found).work(bar.update)
        else:
            _work_in_processes(job, found, str(storage), workers, bar.update)
    return found


@dataclass(frozen=True)
class _Job:
    """What every worker of a run has to know."""

    objective: Objective
    space: Mapping[str, BaseDistribution]
    trials: int
    stop: Rule | None
    deadline: float | None
    catch: Catch
    max_failures: float | None
    run: str
    """Names this call of `tune_in_storage`."""
    lock: Path
    """The file whose lock makes the workers of one machine take trials one at a time."""


class _Worker:
    """One process's loop over trials."""

    def __init__(self, job: _Job, study: Study) -> None:
        self.job, self.study = job, study
        self.rule = job.stop
        self.sightings = Sightings()
        self.size = cube_space(dict(job.space)).cube().size
        self.ended: list[bool] = []
        """Of each trial this worker finished: whether it succeeded."""
        self.last_error = ""

    def work(self, advance: Callable[[], object]) -> None:
        """Takes and finishes trials until there are enough, the time is up or the stop rule holds."""
        while not self._should_stop():
            trial = self._take()
            if trial is None:
                return
            self._finish(trial)
            advance()
            failures = too_many_failures(self.ended, self.last_error, self.job.max_failures)
            if failures:
                raise ObjectiveError(failures, self.last_error)

    def _should_stop(self) -> bool:
        if self.job.deadline is not None and time.time() >= self.job.deadline:
            return True
        if self.rule is None:
            return False
        if self.study.user_attrs.get(STOP_RULE) == repr(self.rule):
            return True
        reason = self.rule.check_study(self.study)
        if reason is not None:
            self.study.set_user_attr(STOP_RULE, repr(self.rule))
        return reason is not None

    def _take(self) -> optuna.Trial | None:
        """A trial of a dead worker, else an enqueued one, else a new one; None when the study holds enough."""
        token = {**signature(), "run": self.job.run, "token": uuid.uuid4().hex}
        with exclusive(self.job.lock):
            trial_id = patiently(lambda: self._claim(token))
        if trial_id is None:
            return None

        def suggest() -> optuna.Trial:
            trial = optuna.Trial(self.study, trial_id)
            for name, distribution in self.job.space.items():
                trial._suggest(name, distribution)
            return trial

        return patiently(suggest)

    def _claim(self, token: dict[str, Any]) -> int | None:
        storage, study_id = self.study._storage, self.study._study_id
        trials = self.study.get_trials(deepcopy=False)
        for t in trials:
            owner = t.system_attrs.get(OWNER)
            if t.state == TrialState.RUNNING and isinstance(owner, dict) and owner.get("token") == token["token"]:
                return t._trial_id  # created before the storage went away in mid-answer
        for t in self._orphans(trials):
            owner = t.system_attrs[OWNER]
            attempts = int(owner.get("attempt", 1)) if owner.get("run") == self.job.run else 0
            if attempts >= ATTEMPTS:
                self.study.tell(t.number, state=TrialState.FAIL, skip_if_finished=True)
                continue
            storage.set_trial_system_attr(t._trial_id, OWNER, {**token, "attempt": attempts + 1})
            return t._trial_id
        waiting = self.study._pop_waiting_trial_id()
        if waiting is not None:
            storage.set_trial_system_attr(waiting, OWNER, token)
            return waiting
        if sum(t.state != TrialState.WAITING for t in trials) >= self.job.trials or self._exhausted(trials):
            return None
        signed = optuna.trial.create_trial(state=TrialState.RUNNING, system_attrs={OWNER: token})
        return storage.create_new_trial(
            study_id, template_trial=signed
        )  # one transaction: no trial without a signature

    def _exhausted(self, trials: list[FrozenTrial]) -> bool:
        """Whether the space is finite and every setting of it has been evaluated."""
        if len(trials) < self.size:
            return False
        return len({repr(sorted(t.params.items())) for t in trials if t.state.is_finished()}) >= self.size

    def _orphans(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        """Running trials whose worker is dead (on this machine), or has been silent for too long (on another)."""
        ttl = lost_after(trials)
        found = []
        for t in trials:
            owner = t.system_attrs.get(OWNER)
            if t.state != TrialState.RUNNING or not isinstance(owner, dict) or not isinstance(owner.get("pid"), int):
                continue
            dead = is_dead(owner)
            if dead or (dead is None and self.sightings.seconds(t) > ttl):
                found.append(t)
        return found

    def _finish(self, trial: optuna.Trial) -> None:
        try:
            outcome = evaluate(self.job.objective, trial.params, self.job.catch)
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
        if outcome.var is not None:
            patiently(lambda: trial.set_user_attr(VARIANCE, float(outcome.var)))  # type: ignore[arg-type]
        patiently(lambda: self.study.tell(trial, outcome.value, skip_if_finished=True))


# ---------------------------------------------------------------- several processes


def _work_in_processes(job: _Job, study: Study, url: str, workers: int, advance: Callable[[int], object]) -> None:
    """Runs the workers, starts a new one for each that is killed, and passes on the first error of an objective."""
    context = multiprocessing.get_context("spawn")
    running: dict[Any, Any] = {}

    def start() -> None:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_process, args=(job, url, study.study_name, study.sampler, theirs))
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
                error = _listen(pipe, advance)
                if error:
                    raise RuntimeError(error)
                if process.is_alive():
                    continue
                process.join()
                error = _listen(pipe, advance)
                del running[process]
                if error:
                    raise RuntimeError(error)
                if process.exitcode and process.exitcode < 0:
                    killed += 1
                    if killed > ATTEMPTS * job.trials:
                        raise RuntimeError(f"{killed} workers were killed (last signal {-process.exitcode}); giving up")
                    start()
                elif process.exitcode:
                    raise RuntimeError(
                        f"a worker could not start (exit code {process.exitcode}); see its message above"
                    )
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


def _process(job: _Job, url: str, name: str, sampler: Sampler, pipe: Any) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        study = patiently(lambda: optuna.load_study(study_name=name, storage=open_storage(url), sampler=sampler))
        _Worker(job, study).work(lambda: pipe.send_bytes(b""))
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
