"""`minimize` and `maximize`: one call that asks a method for settings, evaluates the user's function and returns a
`Result`.

They are for users who have a function and want its best setting. They add to `Optimizer` what a run needs: a progress
bar, checkpoints, evaluations in parallel, and rules that end the run.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import pickle
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias

import numpy as np

from regretless.basics.fingerprint import source_fingerprint
from regretless.basics.options import in_range, whole_number
from regretless.basics.statefile import check_writable
from regretless.files.checkpoint import Checkpoint
from regretless.files.codec import MethodLike
from regretless.method import gains_by_repeating
from regretless.optimizer import Optimizer, Trial, is_exhausted
from regretless.outlook.stopping import StopRule, check_objectives, probes_for
from regretless.run.evaluation import (
    Catch,
    Objective,
    ObjectiveError,
    Outcome,
    check_catch,
    check_signature,
    evaluate,
    too_many_failures,
)
from regretless.run.result import Result
from regretless.space import Space, SpaceLike
from regretless.task import CostKind, Direction, Reference, Task, objectives_of
from regretless.trial import last_line

P = ParamSpec("P")
Callback: TypeAlias = Callable[[Optimizer, Trial], Any]
"""Called after every told trial; a true return value stops the run."""
StopCheck: TypeAlias = Callable[[Optimizer], str | bool | None]
"""Asked after every told trial; returns the reason to stop, or None."""

POOL_BROKE = "a process of the pool died, and the pool with it; what was running counts as failed"
"""Why a run ends whose executor can take no further calls."""
ELSEWHERE = {
    "n_trials": "trials=",
    "n_calls": "trials=",
    "n_iter": "trials=",
    "max_evals": "trials=",
    "random_state": "seed=",
    "callbacks": "callback=",
    "sampler": "method=",
    "storage": "checkpoint= for a file, or regretless.doors.optuna.runner.tune_in_storage for a database",
    "direction": "regretless.minimize or regretless.maximize",
}
"""What other libraries call our arguments, and how they are written here."""


def _hinted(door: Callable[P, Result]) -> Callable[P, Result]:
    """Answers arguments of other libraries with our own; what is right passes through."""

    @functools.wraps(door)
    def called(*args: P.args, **kwargs: P.kwargs) -> Result:
        if len(args) > 2:
            raise TypeError(f"{door.__name__} takes fun and space by position; write trials={args[2]!r}")
        if len(args) == 2 and callable(args[1]) and not callable(args[0]):
            raise TypeError(f"{door.__name__} takes the objective first, then the space: {door.__name__}(fun, space)")
        for name in kwargs:
            if name in ELSEWHERE:
                raise TypeError(f"{door.__name__} has no argument {name!r}; here it is {ELSEWHERE[name]}")
        return door(*args, **kwargs)

    return called


def _signed_as(other: Callable[P, Result]) -> Callable[[Callable[..., Result]], Callable[P, Result]]:
    """Gives a function the signature of another one, for help and for type checkers."""

    def signed(door: Callable[..., Result]) -> Callable[P, Result]:
        door.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return door

    return signed


@_hinted
def minimize(
    fun: Objective,
    space: SpaceLike,
    *,
    trials: int,
    method: MethodLike = "auto",
    seed: int | None = None,
    n_jobs: int | Executor = 1,
    timeout: float | None = None,
    callback: Callback | None = None,
    catch: Catch = Exception,
    max_failures: float | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    x0: Mapping[str, Any] | Sequence[Any] | None = None,
    stop: StopCheck | None = None,
    constraints: int | Sequence[str] = 0,
    cost: CostKind | None = None,
    earlier: Any = None,
    floor: float | None = None,
    ceiling: float | None = None,
    probes: float | None = None,
    noise_bound: float | None = None,
    objectives: Sequence[str] | Mapping[str, Direction] | None = None,
    noisy: bool | None = None,
    reference: Reference | None = None,
    repeat: int = 1,
) -> Result:
    """Finds the setting with the smallest value of fun, or the front of several objectives.

        result = minimize(train, {"lr": Float(1e-5, 1e-1, log=True), "layers": Int(1, 6)}, trials=80)
        print(result.params, result.value, result.certificate)

    Args:
        fun: called as fun(**params) for a space with names, fun(x) for a list of (low, high) pairs; returns a number,
            or `Value(value, var=...)` when the noise variance of the value is known. An exception, NaN and infinities
            are failed evaluations: they are kept with their error, the method keeps away, and the run goes on.
        space: the parameters; see `regretless.Space`.
        trials: how many evaluations in all, those of a resumed checkpoint included.
        method: a name, a recipe, a Method class or "auto"; a resumed run keeps what "auto" chose when it began.
        seed: makes the run repeatable.
        n_jobs: how many evaluations run at once, in threads, -1 for as many as there are cores; or any
            `concurrent.futures.Executor` (processes, Dask, MPI, Ray).
        timeout: seconds after which no new evaluation starts.
        callback: called as callback(optimizer, trial) after every evaluation; a true return value stops the run.
        catch: exceptions of fun that count as failed evaluations; all others end the run.
        max_failures: so many failures in a row end the run (`math.inf`: never); None: 20, or 5 before any success.
        progress: whether to show a progress bar.
        checkpoint: a file written after every evaluation; when it exists the run resumes from it, with the same points
            as if never interrupted.
        x0: a setting, or a list of settings, to evaluate first.
        stop: a rule such as `regretless.StopWhen(gain_below=0.001)`, asked after every evaluation.
        constraints: how many constraints there are, or their names; fun then returns
            `Value(value, constraints=[...])`, each at most 0 where it holds, and the result is the best feasible
            setting.
        cost: "seconds" to weigh what a proposal promises by how long it takes, "told" when fun returns
            `Value(value, cost=...)`.
        earlier: evaluations made before, which are no trials of this run; see `Optimizer.learn` for what it takes.
        floor: a value that no setting can fall below, such as 0.0 for a loss: the certified gap is never larger than
            what lies between. For `minimize`.
        ceiling: a value that no setting can exceed, such as 1.0 for an accuracy. For `maximize`.
        probes: the share of the trials that are independent uniform draws of the space, such as 0.2; they prove how
            much of it can be better. None: 0, or 0.2 with a stop rule that speaks of a certificate (`GapBelow`).
        noise_bound: how far noise can carry a value from the truth at most, where that is known.
        objectives: the names of several objectives, all to be minimised, or a mapping of names to "minimize" and
            "maximize". fun then returns a mapping of these names to numbers, or the numbers in this order; the front is
            `result.front`, and `result.params` a compromise (`result.pick`).
        noisy: whether values are noisy, where that is known. True: the model decides from the beginning, not the
            luckiest value; False: nothing is evaluated twice to find out. None: it is found out.
        reference: of several objectives, the value that each has to be better than to be of interest, such as
            {"loss": 0.5, "ms": 50}; None: the values say from where on hypervolume counts.
        repeat: how often fun is called for each trial; the value is the mean, and its variance is told with it.

    Raises ObjectiveError, a RuntimeError, when the run ends by failures and no evaluation ever succeeded.
    """
    return _Run("minimize", **locals()).result()


@_hinted
@_signed_as(minimize)
def maximize(*args: Any, **arguments: Any) -> Result:
    """Finds the setting with the largest value of fun; the arguments are those of `minimize`."""
    given = inspect.signature(minimize).bind(*args, **arguments)
    given.apply_defaults()
    return _Run("maximize", **given.arguments).result()


@dataclass(eq=False)
class _Run:
    """One run: its arguments are those of `minimize`; its loop starts trials, takes in their values, and knows why it
    ended."""

    direction: Direction
    fun: Objective
    space: SpaceLike
    trials: int
    method: MethodLike
    seed: int | None
    n_jobs: int | Executor
    timeout: float | None
    callback: Callback | None
    catch: Catch
    max_failures: float | None
    progress: bool
    checkpoint: str | Path | None
    x0: Mapping[str, Any] | Sequence[Any] | None
    stop: StopCheck | None
    constraints: int | Sequence[str]
    cost: CostKind | None
    earlier: Any
    floor: float | None
    ceiling: float | None
    probes: float | None
    noise_bound: float | None
    objectives: Sequence[str] | Mapping[str, Direction] | None
    noisy: bool | None
    reference: Reference | None
    repeat: int

    def __post_init__(self) -> None:
        """Checks the arguments and begins the run, or takes up that of the checkpoint."""
        task, self.n_jobs = self._task(), _workers(self.n_jobs)
        self.rule = self.stop if isinstance(self.stop, StopRule) else None
        """The stop rule, where it is one of ours, whose count a checkpoint keeps, and no function of the caller's."""
        if self.rule is not None:
            check_objectives(self.rule, len(task.directions))
        check_signature(self.fun, task.space)
        _check_rules(self.timeout, self.callback, self.stop)
        check_catch(self.catch)
        whole_number(also=(None, math.inf), max_failures=self.max_failures)
        settings = _settings(self.x0)
        if len(settings) > self.trials:
            raise ValueError(f"x0 holds {len(settings)} settings, more than trials={self.trials} allows")
        self.optimizer = Optimizer(
            task, self.method, certify=self.stop is not None and (self.rule is None or self.rule.asks_gap)
        )
        self.file = None if self.checkpoint is None else Checkpoint(self.checkpoint)
        if self.file is not None:
            check_writable(self.file.path)
            if self.file.path.exists():
                self.optimizer = self._resumed(self.file)
        book = self.optimizer.book
        record = book.record
        if self.rule is not None:
            self.rule.load(record.rule or {})
            record.rule = self.rule.state()
        elif self.stop is not None and record.rule is None:
            record.rule = {}
        record.source, record.name = source_fingerprint(self.fun), _name_of(self.fun)
        self.clock = Clock()
        record.began = self.clock.now() if record.began is None else record.began
        if not self.optimizer.trials:  # a resumed run has adopted them already
            if self.earlier is not None:
                self.optimizer.learn(self.earlier)
            for params in settings:
                self.optimizer.adopt(params)
        self.deadline = None if self.timeout is None else time.monotonic() + self.timeout
        self.queue = list(self.optimizer.pending)
        """Trials that wait for their evaluation: settings of the caller's, and those a checkpoint found unfinished."""
        before = [book.trials[number] for number in book.ended if number not in book.forgotten]
        self.ended = [trial.value is not None for trial in before]
        """Of each evaluation of the run, in order: whether it succeeded."""
        self.last_error = next((trial.error for trial in reversed(before) if trial.value is None), "")
        self.evaluated = 0
        """The evaluations of this call."""
        self.succeeded = self.gave_up = False

    def _task(self) -> Task:
        """What the arguments ask for."""
        whole_number(trials=self.trials, repeat=self.repeat)
        names, directions = objectives_of(self.objectives, self.direction)
        return Task(
            Space(self.space), directions, int(self.trials), self.seed, self.constraints, self.cost,
            probes_for(self.stop, self.probes), self.floor, self.ceiling, self.noise_bound, names,
            self.noisy, self.reference,
        )  # fmt: skip

    def result(self) -> Result:
        """Evaluates until something ends the run."""
        with _Bar(self.optimizer, self.trials, self.progress) as self.bar:
            if isinstance(self.n_jobs, Executor):
                message = self.parallel(self.n_jobs, _width(self.n_jobs) or self.trials)
            elif self.n_jobs > 1:
                with ThreadPoolExecutor(self.n_jobs) as pool:
                    message = self.parallel(pool, self.n_jobs)
            else:
                message = self.one_by_one()
        if self.gave_up and not any(t.value is not None for t in self.optimizer.trials):
            raise ObjectiveError(message, self.last_error)
        far = "" if self.rule is None else self.rule.how_far
        return Result.of(self.optimizer, f"{message}; {far}" if far else message, success=self.succeeded)

    def _resumed(self, file: Checkpoint) -> Optimizer:
        """The run of a checkpoint, when it is the one that this call would begin."""
        fresh, given = self.optimizer, None if self.method == "auto" else self.optimizer.recipe
        try:  # what "auto" chose when the run began stays, whatever it would choose now
            resumed = Optimizer.load(file.path, space=fresh.space, method=given)
        except ValueError as error:
            raise ValueError(f"checkpoint {self.checkpoint} belongs to another run or is damaged: {error}") from None
        stored, asked = resumed.task, fresh.task
        if self.seed is None:
            asked = replace(asked, seed=stored.seed)
        if self.probes is None:
            asked = replace(asked, probes=stored.probes)
        if differs := stored.differs_from(asked):
            raise ValueError(f"checkpoint {self.checkpoint} belongs to another run: {differs}")
        if resumed.book.record.source not in ("", source_fingerprint(self.fun)):
            warnings.warn(
                f"the source of the objective has changed since checkpoint {self.checkpoint} was written: old and new "
                "values are mixed; start with another checkpoint if they are not comparable",
                RuntimeWarning,
                stacklevel=6,
            )
        file.go_on_from(resumed.book)
        return resumed

    def one_by_one(self) -> str:
        """Evaluates in this thread until something ends the run; returns what."""
        message = ""
        try:
            while not message:
                message = self._reason_not_to_start()
                if message:
                    break
                trial = self._next_trial()
                outcome = self._call()(self.fun, self._argument(trial), self.catch)
                message = self._take(trial, outcome)
        except KeyboardInterrupt:
            message = "interrupted; this is what was known by then"
        return message

    def parallel(self, pool: Executor, workers: int) -> str:
        """Keeps `workers` evaluations running until something ends the run; returns what."""
        running: dict[Future[Outcome], Trial] = {}
        message = ""
        try:
            while running or not message:
                while not message and len(running) < workers:
                    message = self._reason_not_to_start()
                    if not message:
                        trial = self._next_trial()
                        running[pool.submit(self._call(), self.fun, self._argument(trial), self.catch)] = trial
                # 0.5: how often a parallel run looks at the clock while every worker is busy
                done = wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done if running else set()
                for future in sorted(done, key=lambda f: running[f].number):
                    broken = isinstance(future.exception(), BrokenExecutor)
                    message = self._take(running.pop(future), _result_of(future)) or (POOL_BROKE if broken else message)
        except KeyboardInterrupt:
            message = "interrupted; this is what was known by then"
        finally:
            for future in running:
                future.cancel()
        return message

    def _variance(self, outcome: Outcome) -> Any:
        """The noise variance of a value. That of a mean of few is itself a mean over the trials so far, because the
        differences of two or three values alone may be small by accident. It goes on from the last one told, so a
        resumed run tells the same."""
        if not outcome.spread:
            return outcome.var
        book = self.optimizer.book
        told = [
            t for t in (book.trials[number] for number in book.ended) if t.value is not None and None not in t.variances
        ]
        before = [v or 0.0 for v in told[-1].variances] if told else [0.0] * len(outcome.spread)
        pooled = tuple(v + (own - v) / (len(told) + 1) for v, own in zip(before, outcome.spread, strict=True))
        return pooled if self.optimizer.task.several else pooled[0]

    def _call(self) -> Callable[[Objective, Any, Catch], Outcome]:
        """What evaluates a setting now."""
        task = self.optimizer.task
        return functools.partial(
            evaluate, objectives=task.objectives * task.several, lenient=any(self.ended), repeat=self.repeat
        )

    def _argument(self, trial: Trial) -> Any:
        return trial.x if self.optimizer.space.as_array else trial.params

    def _next_trial(self) -> Trial:
        return self.queue.pop(0) if self.queue else self.optimizer.ask()

    def _reason_not_to_start(self) -> str:
        if self.rule is not None and self.rule.reason is not None and not self.evaluated:
            self.succeeded = True  # the rule ended the run before it was started again
            return self.rule.reason
        if not self.queue:
            if len(self.optimizer.trials) >= self.trials:
                self.succeeded = True
                return "all trials were evaluated"
            if is_exhausted(self.optimizer) and not gains_by_repeating(self.optimizer.method, self.optimizer.history):
                self.succeeded = True
                size = int(self.optimizer.method.cube.size)
                whole = f"all {size} settings of the space were" if size > 1 else "the only setting of the space was"
                return f"{whole} evaluated"
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "the time was up"
        return ""

    def _take(self, trial: Trial, outcome: Outcome) -> str:
        """Tells a finished trial; returns the reason to stop, if there is one now."""
        if outcome.value is None:
            self.optimizer.tell(trial, failed=True, error=outcome.error, cost=outcome.cost, seconds=outcome.seconds)
            if not self.last_error:
                words = f"trial {trial.number} failed: {last_line(outcome.error)}"
                warnings.warn(words, RuntimeWarning, stacklevel=6)  # the line that called `minimize`
            self.last_error = outcome.error
        else:
            self.optimizer.tell(
                trial, outcome.value, var=self._variance(outcome), constraints=outcome.constraints, cost=outcome.cost,
                seconds=outcome.seconds,
            )  # fmt: skip
        self.ended.append(outcome.value is not None)
        self.evaluated += 1
        self.optimizer.book.record.ended = self.clock.now()
        self.bar.advance(trial)
        reason = self.stop(self.optimizer) if self.stop is not None else None
        if self.file is not None:
            if not self.file.is_own():
                raise ValueError(
                    f"checkpoint {self.checkpoint} was written by another process: this run ends, because two that "
                    "share a file evaluate the same settings; what the other one wrote stays"
                )
            self.optimizer.save(self.file)
        if reason:  # a function of the caller's may answer True and False
            self.succeeded = True
            return reason if isinstance(reason, str) else "the stop rule ended the run"
        failures = too_many_failures(self.ended, self.last_error, self.max_failures)
        self.gave_up = bool(failures)
        if not failures and self.callback is not None and self.callback(self.optimizer, trial):
            return "the callback stopped the run"
        return failures


def _result_of(future: Future[Outcome]) -> Outcome:
    try:
        return future.result()
    except BrokenExecutor as error:
        return Outcome(None, error=f"a process of the pool died: {error}")
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        if not any(words in str(error).lower() for words in ("pickle", "local object")):  # Python 3.13 says the latter
            raise
        raise TypeError(
            f"fun cannot be sent to another process ({error}); define it at the top level of a module, or use threads: "
            "n_jobs=4"
        ) from None


class Clock:
    """Moments in seconds since 1970 that never run backwards while a run lasts, whatever happens to the system's
    clock."""

    def __init__(self) -> None:
        self._began = time.time() - time.monotonic()

    def now(self) -> float:
        return self._began + time.monotonic()


class _Bar:
    """A progress bar with the best value so far, what the trials that are left would bring, and the number of
    failures. The outlook takes at most a fiftieth of the time of the run."""

    def __init__(self, optimizer: Optimizer, trials: int, shown: bool) -> None:
        from tqdm.auto import tqdm  # it brings asyncio along, which `import regretless` need not wait for

        self.better, self.several = max if optimizer.direction == "maximize" else min, optimizer.task.several
        self.best = self.better((t.value for t in optimizer.trials if t.value is not None and t.feasible), default=None)
        self.failed, self.trials, self.optimizer, self.ahead, self.next_look = 0, trials, optimizer, "", 0.0
        told = sum(t.state != "pending" for t in optimizer.trials)
        self.bar = tqdm(
            total=trials, initial=min(told, trials), disable=not shown, unit="trial", desc=optimizer.recipe.name
        )

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def advance(self, trial: Trial) -> None:
        self.failed += trial.value is None
        if trial.value is not None and trial.feasible:
            self.best = trial.value if self.best is None else self.better(self.best, trial.value)
        if not self.bar.disable:
            words = [] if self.best is None or self.several else [f"best seen {self.best:.6g}", *self._ahead()]
            self.bar.set_postfix_str(", ".join(words + [f"{self.failed} failed"] * bool(self.failed)), refresh=False)
        self.bar.update()

    def _ahead(self) -> list[str]:
        """What the trials after this one would bring, as it was when there was last time for that."""
        from regretless.outlook.outlook import LEAST_VALUES  # it brings SciPy along

        now, left = time.monotonic(), self.trials - int(self.bar.n) - 1
        if left < 1:
            return []
        if now >= self.next_look and self.bar.n + 1 >= LEAST_VALUES:
            middle = self.optimizer.forecast(left).middle
            self.ahead = f"trials {self.trials - left + 1} to {self.trials}: {middle}" if middle else ""
            self.next_look = now + 50.0 * (time.monotonic() - now)
        return [self.ahead] * bool(self.ahead)


# ---------------------------------------------------------------- arguments


def _workers(n_jobs: Any) -> int | Executor:
    if isinstance(n_jobs, Executor):
        return n_jobs
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < -1 or n_jobs == 0:
        raise ValueError(
            f"n_jobs must be a whole number of at least 1, -1 for all cores, or an Executor, got {n_jobs!r}"
        )
    return int(n_jobs) if n_jobs > 0 else os.cpu_count() or 1


def _name_of(fun: Objective) -> str:
    """What the objective is called, for its page; "" where it has no name."""
    name = str(getattr(fun, "__name__", type(fun).__name__))
    return "" if name == "<lambda>" else name


def _width(pool: Executor) -> int | None:
    """How many calls an executor runs at once, where it can be known: pools of the standard library and ours say so,
    Dask's has a client."""
    workers: int | None = getattr(pool, "_max_workers", None)
    client: Any = getattr(pool, "_client", None)
    return sum(client.nthreads().values()) if workers is None and client is not None else workers


def _check_rules(timeout: Any, callback: Any, stop: Any) -> None:
    """Whatever would fail only after the first evaluation fails now."""
    in_range("[0, inf] or None", timeout=timeout)
    for name, rule in (("callback", callback), ("stop", stop)):
        if rule is not None and not callable(rule):
            raise TypeError(f"{name} must be callable, got {rule!r}")
    if isinstance(stop, type):
        raise TypeError(f"stop is a rule with what it asks for, {stop.__name__}(...), got the class itself")


def _settings(x0: Mapping[str, Any] | Sequence[Any] | None) -> list[Any]:
    if x0 is None:
        return []
    if isinstance(x0, Mapping):
        return [x0]
    settings = list(x0)
    return settings if settings and isinstance(settings[0], Mapping | Iterable) else [settings]
