"""Runs that live in an Optuna storage: `tune_in_storage` works on a study with any number of workers, `export_study`
writes one to files.

A worker may be killed at any moment. It signs every trial at its creation, so whoever comes next on the same machine
finds the trials of the dead, finishes them under their own numbers, and the study goes on as if nothing had happened:
with one worker, bit for bit. A storage that is away for a while (a database that restarts) is waited for; a value that
was computed is told when it is back.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import multiprocessing
import os
import secrets
import socket
import threading
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from tqdm.auto import tqdm

from regretless.auto import choose_method, find_recipe
from regretless.doors.distributions import as_space
from regretless.doors.optuna import VARIANCE, Sampler, lost_after
from regretless.optimizer import Direction, Optimizer
from regretless.run import Objective, Result, evaluate, returned
from regretless.space import Space, SpaceLike
from regretless.statefile import write_whole
from regretless.stopping import STOP_NOTE, GapBelow

T = TypeVar("T")

OWNER = "regretless:worker"
"""The trial attribute that holds its worker's signature."""
SETTINGS = "regretless:settings"
"""The study attribute that holds the method and the seed (and what "auto" was to choose for), so that a resumed run has
the same."""
ATTEMPTS = 2
"""A trial whose worker died this many times while the run itself lived on is told as failed: it is probably what kills
them."""
PATIENCE = 300.0
"""Seconds a storage may be away before a worker gives up."""
FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0
"""Seconds between two tries to reach a storage: doubled from the first to the longest."""
POLL_SECONDS = 0.2
"""How often the parent looks at its workers."""


# ---------------------------------------------------------------- tuning


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
    until_gap: float | None = None,
    timeout: float | None = None,
    catch: type[Exception] | tuple[type[Exception], ...] = (),
    progress: bool = True,
) -> Study:
    """Works on a study until it holds `trials` trials; creates it, or goes on with what is there.

    Args:
        objective: called as objective(**params); returns a number, or a pair (value, noise variance). With several
            workers it must be picklable.
        space: the parameters; see `regretless.Space`. That of an existing study must be the same.
        storage: a URL (see `open_storage`) or, with one worker, an Optuna storage.
        study: the study's name.
        trials: how many trials the study should hold in all, those of former runs included.
        workers: processes on this machine; further ones may join from other machines under the same study name.
        method: a name; "auto" keeps the method of an existing study.
        direction: "minimize" or "maximize".
        seed: makes the run repeatable; an existing study keeps its own.
        until_gap: stop once the certified regret is at most this; "auto" then begins a study with a method whose
            certificate shrinks.
        timeout: seconds after which no new trial starts.
        catch: exceptions of the objective that count as failed trials; all others end the run.
        progress: whether to show a progress bar.
    """
    for name, number in (("trials", trials), ("workers", workers)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
    if workers > 1 and not isinstance(storage, str):
        raise ValueError(
            "several workers need a storage URL that each of them can open; an open storage serves one worker"
        )
    opened = open_storage(storage) if isinstance(storage, str) else storage
    with _quiet():
        found = optuna.create_study(storage=opened, study_name=study, direction=direction, load_if_exists=True)
    if found.direction.name.lower() != direction:
        raise ValueError(
            f"study {study!r} is there already and its direction is {found.direction.name.lower()}, not {direction}"
        )
    method, seed, certify = _settings(found, method, seed, until_gap is not None)
    found.sampler = Sampler(method, seed=seed, search_space=Space(space), budget=trials, certify=certify)
    _check_space(found, found.sampler.search_space or {})
    job = _Job(
        objective,
        found.sampler.search_space or {},
        trials,
        until_gap,
        None if timeout is None else time.time() + timeout,
        catch,
        uuid.uuid4().hex,
    )
    done = sum(t.state.is_finished() for t in found.get_trials(deepcopy=False))
    with tqdm(total=trials, initial=min(done, trials), disable=not progress, unit="trial", desc=method) as bar:
        if workers == 1:
            _Worker(job, found, threading.Lock()).work(bar.update)
        else:
            _work_in_processes(job, found, str(storage), workers, bar.update)
    return found


@dataclass(frozen=True)
class _Job:
    """What every worker of a run has to know."""

    objective: Objective
    space: Mapping[str, BaseDistribution]
    trials: int
    until_gap: float | None
    deadline: float | None
    catch: type[Exception] | tuple[type[Exception], ...]
    run: str
    """Names this call of `tune_in_storage`."""


class _Worker:
    """One process's loop over trials; `lock` makes the workers of one machine take trials one at a time."""

    def __init__(self, job: _Job, study: Study, lock: Any) -> None:
        self.job, self.study, self.lock = job, study, lock
        self.rule = None if job.until_gap is None else GapBelow(job.until_gap)

    def work(self, advance: Callable[[], object]) -> None:
        """Takes and finishes trials until there are enough, the time is up or the stop rule holds."""
        while not self._should_stop():
            trial = self._take()
            if trial is None:
                return
            self._finish(trial)
            advance()

    def certificate(self, delta: float) -> Any:
        return self.study.sampler.certificate(self.study, delta)  # type: ignore[union-attr]

    def _should_stop(self) -> bool:
        if self.job.deadline is not None and time.time() >= self.job.deadline:
            return True
        if self.rule is None:
            return False
        done = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        reason = self.rule.check(self, [t.values[0] for t in done])
        if reason is not None:
            self.study.set_user_attr(STOP_NOTE, reason)
        return STOP_NOTE in self.study.user_attrs

    def _take(self) -> optuna.Trial | None:
        """A trial of a dead worker, else an enqueued one, else a new one; None when the study holds enough."""
        token = _signature(self.job.run)
        with self.lock:
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
        for t in _orphans(trials):
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
        if sum(t.state != TrialState.WAITING for t in trials) >= self.job.trials:
            return None
        signed = optuna.trial.create_trial(state=TrialState.RUNNING, system_attrs={OWNER: token})
        return storage.create_new_trial(
            study_id, template_trial=signed
        )  # one transaction: no trial without a signature

    def _finish(self, trial: optuna.Trial) -> None:
        try:
            try:
                value, var = evaluate(self.job.objective, trial.params)
            except self.job.catch:
                value, var = math.nan, None
            value = float(returned(value, trial.params))
        except BaseException:
            patiently(lambda: self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True))
            raise
        if var is not None:
            patiently(lambda: trial.set_user_attr(VARIANCE, float(var)))
        if math.isfinite(value):
            patiently(lambda: self.study.tell(trial, value, skip_if_finished=True))
        else:
            patiently(lambda: self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True))


def _work_in_processes(job: _Job, study: Study, url: str, workers: int, advance: Callable[[int], object]) -> None:
    """Runs the workers, starts a new one for each that is killed, and passes on the first error of an objective."""
    context = multiprocessing.get_context("spawn")
    lock, errors = context.Lock(), context.SimpleQueue()
    finished = context.Value("i", 0)
    arguments = (job, url, study.study_name, study.sampler, lock, finished, errors)
    running = [context.Process(target=_process, args=arguments) for _ in range(workers)]
    for process in running:
        process.start()
    shown, killed = 0, 0
    try:
        while running:
            time.sleep(POLL_SECONDS)
            advance(finished.value - shown)
            shown = finished.value
            for process in [p for p in running if not p.is_alive()]:
                process.join()
                running.remove(process)
                if not errors.empty():
                    raise RuntimeError(errors.get())
                if process.exitcode and process.exitcode < 0:
                    killed += 1
                    if killed > ATTEMPTS * job.trials:
                        raise RuntimeError(f"{killed} workers were killed (last signal {-process.exitcode}); giving up")
                    running.append(context.Process(target=_process, args=arguments))
                    running[-1].start()
                elif process.exitcode:
                    raise RuntimeError(
                        f"a worker could not start (exit code {process.exitcode}); see its message above"
                    )
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join()


def _process(job: _Job, url: str, name: str, sampler: Sampler, lock: Any, finished: Any, errors: Any) -> None:
    def advance() -> None:
        with finished.get_lock():
            finished.value += 1

    try:
        study = patiently(lambda: optuna.load_study(study_name=name, storage=open_storage(url), sampler=sampler))
        _Worker(job, study, lock).work(advance)
    except KeyboardInterrupt:
        pass
    except Exception as error:
        traceback.print_exc()
        errors.put(f"{type(error).__name__}: {error}")


# ---------------------------------------------------------------- workers and storages


def open_storage(url: str) -> BaseStorage:
    """The storage of a URL: `sqlite:///file.db`, `postgresql://...`, `mysql://...`, `journal:FILE` (a shared file
    system) or `grpc://HOST:PORT`."""
    if url.startswith("journal:"):
        from optuna.storages.journal import JournalFileBackend

        return optuna.storages.JournalStorage(JournalFileBackend(url.removeprefix("journal:").removeprefix("//")))
    if url.startswith("grpc://"):
        host, _, port = url.removeprefix("grpc://").partition(":")
        if not host or not port.isdigit():
            raise ValueError(f"a gRPC storage is written grpc://HOST:PORT, got {url!r}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.storages.GrpcStorageProxy(host=host, port=int(port))
    if "://" not in url:
        raise ValueError(
            f"a storage is written sqlite:///FILE, postgresql://..., mysql://..., journal:FILE or grpc://HOST:PORT, got {url!r}"
        )
    import sqlalchemy.exc

    options: dict[str, Any] = {"pool_pre_ping": True}  # connections that a restarted server dropped are replaced
    if url.startswith("sqlite"):
        options["connect_args"] = {"timeout": 60}  # seconds to wait for another worker's lock
    try:
        with _quiet():
            return optuna.storages.get_storage(optuna.storages.RDBStorage(url, engine_kwargs=options))
    except (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.NoSuchModuleError, ImportError) as error:
        raise ValueError(f"the storage {url!r} cannot be opened: {error}") from None
    except (sqlalchemy.exc.DatabaseError, optuna.exceptions.StorageInternalError) as error:
        raise ConnectionError(f"the storage {url!r} cannot be reached: {error.__cause__ or error}") from None
    except RuntimeError as error:  # tables of another version, or of something else
        raise ValueError(f"the storage {url!r} cannot be used: {error}") from None


def patiently(call: Callable[[], T]) -> T:
    """Calls until the storage answers, for `PATIENCE` seconds at most; the call must be harmless to repeat."""
    import sqlalchemy.exc

    away: list[type[BaseException]] = [
        optuna.exceptions.StorageInternalError,
        sqlalchemy.exc.OperationalError,
        sqlalchemy.exc.InterfaceError,
    ]
    away.append(ConnectionError)
    with contextlib.suppress(ImportError):
        import grpc  # type: ignore[import-untyped]

        away.append(grpc.RpcError)
    deadline, wait = time.monotonic() + PATIENCE, FIRST_WAIT
    while True:
        try:
            return call()
        except tuple(away):
            if time.monotonic() + wait > deadline:
                raise
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _signature(run: str) -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "born": _born(os.getpid()),
        "run": run,
        "token": uuid.uuid4().hex,
    }


def _born(pid: int) -> str:
    """When a process started, so that a recycled process number is not taken for the old process; "" where the system
    does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _alive(owner: Mapping[str, Any]) -> bool:
    pid = owner["pid"]
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return _born(pid) == str(owner.get("born"))


def _orphans(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """Running trials whose worker is dead (on this machine), or has been silent for too long (on another)."""
    ttl = lost_after(trials)
    found = []
    for t in trials:
        owner = t.system_attrs.get(OWNER)
        if (
            t.state != TrialState.RUNNING
            or not isinstance(owner, dict)
            or not isinstance(owner.get("pid"), int)
            or t.datetime_start is None
        ):
            continue
        if owner.get("host") == socket.gethostname():
            dead = not _alive(owner)
        else:
            dead = (datetime.now() - t.datetime_start).total_seconds() > ttl
        if dead:
            found.append(t)
    return found


def _settings(study: Study, method: str, seed: int | None, certify: bool) -> tuple[str, int, bool]:
    """Method and seed of a study, and whether it was begun to end by a certificate: those it has, or the ones given,
    which are written into it."""
    stored = study.user_attrs.get(SETTINGS)
    if (
        not isinstance(stored, dict)
        or not isinstance(stored.get("method"), str)
        or not isinstance(stored.get("seed"), int)
    ):
        if method != "auto":
            find_recipe(method)
        stored = {"method": method, "seed": secrets.randbits(32) if seed is None else seed, "certify": certify}
        study.set_user_attr(SETTINGS, stored)
    if method not in ("auto", stored["method"]) or seed not in (None, stored["seed"]):
        raise ValueError(
            f"study {study.study_name!r} runs with method {stored['method']!r} and seed {stored['seed']}, not {method!r} and {seed}; "
            "leave them out to resume it, or choose another study name"
        )
    return str(stored["method"]), int(stored["seed"]), stored.get("certify") is True


def _check_space(study: Study, space: Mapping[str, BaseDistribution]) -> None:
    """Refuses a space other than the one the study was begun with: its trials would share only some of their
    parameters."""
    for t in study.get_trials(deepcopy=False):
        begun = (
            t.distributions if t.state == TrialState.COMPLETE else {**space, **t.distributions}
        )  # others may have been cut short
        for name in [n for n in (*space, *begun) if begun and space.get(n) != begun.get(n)]:
            raise ValueError(
                f"study {study.study_name!r} has trials with {name} = {begun.get(name)}, the space now has {space.get(name)}; "
                "go on with the space it was begun with, or choose another study name"
            )


@contextlib.contextmanager
def _quiet() -> Any:
    """Keeps Optuna from announcing studies it creates or finds."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(level, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(level)


# ---------------------------------------------------------------- export


def result_of_study(study: Study, *, method: str | None = None) -> Result:
    """A `Result` of any single-objective study: its completed and failed trials, told to a method on the parameters
    they share.

    The method is the one the study was tuned with by `tune_in_storage`, unless one is given, else "auto".
    """
    settings = study.user_attrs.get(SETTINGS)
    settings = settings if isinstance(settings, dict) else {}
    method = method or str(settings.get("method", "auto"))
    space = optuna.search_space.intersection_search_space(study.get_trials(deepcopy=False))
    if not space:
        raise ValueError(
            f"study {study.study_name!r} has no completed trials with parameters in common; there is nothing to report"
        )
    direction: Direction = "maximize" if study.direction.name == "MAXIMIZE" else "minimize"
    certify = settings.get("certify") is True
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
    recipe = (
        choose_method(as_space(space), len(trials), certify=certify)[0] if method == "auto" else find_recipe(method)
    )
    optimizer = Optimizer(as_space(space), method=recipe, direction=direction, seed=0)
    for t in trials:
        if not all(name in t.params and d._contains(d.to_internal_repr(t.params[name])) for name, d in space.items()):
            continue
        trial = optimizer.adopt({name: t.params[name] for name in optimizer.space.names})
        if t.state == TrialState.COMPLETE:
            optimizer.tell(trial, t.values[0], var=t.user_attrs.get(VARIANCE))
        else:
            optimizer.tell(trial, failed=True)
    note = study.user_attrs.get(STOP_NOTE)
    return Result.of(optimizer, str(note) if note else f"study {study.study_name}", success=True)


def export_study(storage: str | BaseStorage, study: str, out: str | Path) -> list[Path]:
    """Writes a study of any Optuna storage as `trials.csv`, `study.json` and `report.html` into a folder; returns the
    paths."""
    opened = open_storage(storage) if isinstance(storage, str) else storage
    try:
        found = optuna.load_study(study_name=study, storage=opened)
    except KeyError:
        names = sorted(optuna.get_all_study_names(opened))
        raise ValueError(f"there is no study {study!r} in the storage; it has {', '.join(names) or 'none'}") from None
    if len(found.directions) > 1:
        raise ValueError(
            f"study {study!r} has {len(found.directions)} objectives; only studies with one can be exported"
        )
    out = Path(out)
    trials = found.get_trials(deepcopy=False)
    names = sorted({name for t in trials for name in t.params})
    out.mkdir(parents=True, exist_ok=True)
    table = out / "trials.csv"
    with open(table, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "state", "value", "started", "completed", *names])
        for t in trials:
            times = (t.datetime_start, t.datetime_complete)
            writer.writerow(
                [
                    t.number,
                    t.state.name,
                    _value(t),
                    *("" if d is None else d.isoformat() for d in times),
                    *(t.params.get(n, "") for n in names),
                ]
            )
    page = out / "study.json"
    write_whole(page, json.dumps(_description(found, trials), indent=1, default=str).encode())
    return [table, page, result_of_study(found).report(out / "report.html")]


def _value(trial: FrozenTrial) -> float | str:
    return "" if not trial.values else trial.values[0]


def _description(study: Study, trials: list[FrozenTrial]) -> dict[str, Any]:
    rows = [
        {
            "number": t.number, "state": t.state.name, "value": t.values[0] if t.values else None, "params": t.params,
            "distributions": {name: json.loads(optuna.distributions.distribution_to_json(d)) for name, d in t.distributions.items()},
            "intermediate": {str(step): value for step, value in t.intermediate_values.items()}, "user_attrs": t.user_attrs,
            "started": t.datetime_start, "completed": t.datetime_complete,
        }
        for t in trials
    ]  # fmt: skip
    return {
        "name": study.study_name,
        "direction": study.direction.name.lower(),
        "user_attrs": study.user_attrs,
        "trials": rows,
    }
