"""`minimize`, `maximize` and their `Result`: the scipy-like way in, with a progress bar, checkpoints, parallel
evaluation and a reason to stop."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from tqdm.auto import tqdm

from regretless.auto import choose_method
from regretless.certificate import Certificate
from regretless.extras import optional
from regretless.method import Recipe
from regretless.optimizer import Direction, Optimizer, Trial
from regretless.parameters import Array
from regretless.space import Space, SpaceLike
from regretless.statefile import check_writable

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Objective: TypeAlias = Callable[..., Any]
"""fun(**params), or fun(x) for a space given as a list; returns a number, or a pair (value, noise variance)."""
Callback: TypeAlias = Callable[[Optimizer, Trial], Any]
"""Called after every told trial; a true return value stops the run."""
StopRule: TypeAlias = Callable[[Optimizer], str | None]
"""Asked after every told trial; returns the reason to stop, or None."""

POLL_SECONDS = 0.5
"""How often a parallel run looks at the clock while every worker is busy."""


# ---------------------------------------------------------------- what comes back


@dataclass(frozen=True)
class Result:
    """The outcome of `minimize` or `maximize`.

    `params` is the setting the model recommends and `value` the mean of the values observed there (NaN if it was never
    evaluated itself); `best` is the trial with the best single value, which under noise may only be the luckiest.
    """

    params: dict[str, Any]
    value: float
    certificate: Certificate
    trials: list[Trial]
    message: str
    """Why the run ended."""
    success: bool
    """Whether it ended by evaluating all trials or by its stop rule."""
    optimizer: Optimizer

    @classmethod
    def of(cls, optimizer: Optimizer, message: str, *, success: bool) -> Result:
        """The result of what an optimizer knows now; a run without a single success has NaN for a value."""
        if not any(t.value is not None for t in optimizer.trials):
            nothing = Certificate.none("no evaluation succeeded", 0.05)
            return cls(
                {}, float("nan"), nothing, optimizer.trials, f"{message}; no evaluation succeeded", False, optimizer
            )
        params = optimizer.recommend()
        return cls(
            params, optimizer.observed(params), optimizer.certificate(), optimizer.trials, message, success, optimizer
        )

    # -- scipy's names

    @property
    def x(self) -> Any:
        """The recommended setting: an array for a space given as a list, else the parameters."""
        return np.array(list(self.params.values())) if self.optimizer.space.as_array else self.params

    @property
    def fun(self) -> float:
        return self.value

    @property
    def nfev(self) -> int:
        """Evaluations that ended, failed ones included."""
        return sum(t.state != "pending" for t in self.trials)

    @property
    def nit(self) -> int:
        return self.nfev

    @property
    def best(self) -> Trial:
        return self.optimizer.best

    def __getitem__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self, name):
            raise KeyError(name)
        return getattr(self, name)

    def __str__(self) -> str:
        lines = [f"{self.message} ({self.nfev} evaluation{'s' if self.nfev != 1 else ''}, {self.optimizer.recipe})"]
        lines += [f"  {name} = {value!r}" for name, value in self.params.items()]
        return "\n".join([*lines, f"  value {self.value:.6g}", f"  {self.certificate}"])

    # -- to look at

    def best_so_far(self) -> Array:
        """The best value after each trial that ended, NaN before the first success."""
        sign = 1.0 if self.optimizer.direction == "maximize" else -1.0
        values = np.array([-np.inf if t.value is None else sign * t.value for t in self.trials if t.state != "pending"])
        running = np.maximum.accumulate(values) if len(values) else values
        return np.where(np.isfinite(running), sign * running, np.nan)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per trial: number, state, value, variance and parameters (needs pandas)."""
        rows = [{"number": t.number, "state": t.state, "value": t.value, "var": t.var, **t.params} for t in self.trials]
        table: pandas.DataFrame = optional("pandas", "plot").DataFrame(rows)
        return table

    def plot(self) -> Figure:
        """Every value and the best so far, and the value against each parameter (needs matplotlib)."""
        from regretless.report.run_page import figure

        return figure(self)

    def report(self, path: str | Path) -> Path:
        """Writes one self-contained HTML page with the result, its certificate and its plots; returns its path."""
        from regretless.report.run_page import write_page

        return write_page(self, Path(path))


# ---------------------------------------------------------------- the way in


def minimize(
    fun: Objective,
    space: SpaceLike,
    *,
    trials: int,
    method: str | Recipe = "auto",
    seed: int | None = None,
    n_jobs: int | Executor = 1,
    timeout: float | None = None,
    callback: Callback | None = None,
    catch: type[Exception] | tuple[type[Exception], ...] = (),
    progress: bool = True,
    checkpoint: str | Path | None = None,
    x0: Mapping[str, Any] | Sequence[Any] | None = None,
    stop: StopRule | None = None,
) -> Result:
    """Finds the setting with the smallest value of fun.

        result = minimize(train, {"lr": Float(1e-5, 1e-1, log=True), "layers": Int(1, 6)}, trials=80)
        print(result.params, result.value, result.certificate)

    Args:
        fun: called as fun(**params) for a space with names, fun(x) for a list of (low, high) pairs; returns a number,
            or a pair (value, variance) when the noise variance of the value is known. NaN and infinities count as
            failed evaluations.
        space: the parameters; see `regretless.Space`.
        trials: how many evaluations in all, those of a resumed checkpoint included.
        method: a name, a recipe or "auto"; a resumed run keeps what "auto" chose when it began.
        seed: makes the run repeatable.
        n_jobs: how many evaluations run at once, in threads; or any `concurrent.futures.Executor` (processes, Dask,
            MPI, Ray).
        timeout: seconds after which no new evaluation starts.
        callback: called as callback(optimizer, trial) after every evaluation; a true return value stops the run.
        catch: exceptions of fun that count as failed evaluations; all others end the run.
        progress: whether to show a progress bar.
        checkpoint: a file written after every evaluation; when it exists the run resumes from it, with the same points
            as if never interrupted.
        x0: a setting, or a list of settings, to evaluate first.
        stop: a rule such as `regretless.GapBelow(0.01)`, asked after every evaluation.
    """
    return _optimize(
        "minimize", fun, space, trials, method, seed, n_jobs, timeout, callback, catch, progress, checkpoint, x0, stop
    )


def maximize(
    fun: Objective,
    space: SpaceLike,
    *,
    trials: int,
    method: str | Recipe = "auto",
    seed: int | None = None,
    n_jobs: int | Executor = 1,
    timeout: float | None = None,
    callback: Callback | None = None,
    catch: type[Exception] | tuple[type[Exception], ...] = (),
    progress: bool = True,
    checkpoint: str | Path | None = None,
    x0: Mapping[str, Any] | Sequence[Any] | None = None,
    stop: StopRule | None = None,
) -> Result:
    """Finds the setting with the largest value of fun; the arguments are those of `minimize`."""
    return _optimize(
        "maximize", fun, space, trials, method, seed, n_jobs, timeout, callback, catch, progress, checkpoint, x0, stop
    )


def _optimize(
    direction: Direction,
    fun: Objective,
    space_like: SpaceLike,
    trials: int,
    method: str | Recipe,
    seed: int | None,
    n_jobs: int | Executor,
    timeout: float | None,
    callback: Callback | None,
    catch: type[Exception] | tuple[type[Exception], ...],
    progress: bool,
    checkpoint: str | Path | None,
    x0: Mapping[str, Any] | Sequence[Any] | None,
    stop: StopRule | None,
) -> Result:
    space = Space(space_like)
    if isinstance(trials, bool) or not isinstance(trials, int | np.integer) or trials < 1:
        raise ValueError(f"trials must be a whole number of at least 1, got {trials!r}")
    if not isinstance(n_jobs, Executor) and (not isinstance(n_jobs, int) or n_jobs < 1):
        raise ValueError(f"n_jobs must be a whole number of at least 1 or an Executor, got {n_jobs!r}")
    _check_signature(fun, space)
    _check_rules(timeout, callback, catch, stop)
    settings = _settings(x0)
    if len(settings) > trials:
        raise ValueError(f"x0 holds {len(settings)} settings, more than trials={trials} allows")
    if checkpoint is not None:
        check_writable(checkpoint)
    optimizer = _start_or_resume(space, direction, int(trials), method, seed, checkpoint, certify=stop is not None)
    if not optimizer.trials:  # a resumed run has adopted them already
        for params in settings:
            optimizer.adopt(params)
    with _Bar(optimizer, int(trials), progress) as bar:
        run = _Run(optimizer, fun, int(trials), timeout, callback, catch, checkpoint, stop, bar)
        if isinstance(n_jobs, Executor):
            message = run.parallel(n_jobs, _width(n_jobs) or int(trials))
        elif n_jobs > 1:
            with ThreadPoolExecutor(n_jobs) as pool:
                message = run.parallel(pool, n_jobs)
        else:
            message = run.one_by_one()
    return Result.of(optimizer, message, success=message == run.COMPLETE or run.rule_held)


class _Run:
    """One run's loop: starts trials, takes in their values, and knows why it ended."""

    COMPLETE = "all trials were evaluated"

    def __init__(
        self,
        optimizer: Optimizer,
        fun: Objective,
        trials: int,
        timeout: float | None,
        callback: Callback | None,
        catch: type[Exception] | tuple[type[Exception], ...],
        checkpoint: str | Path | None,
        stop: StopRule | None,
        bar: _Bar,
    ) -> None:
        self.optimizer, self.fun, self.trials, self.callback, self.catch = optimizer, fun, trials, callback, catch
        self.checkpoint, self.stop, self.bar = checkpoint, stop, bar
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.queue = list(optimizer.pending)
        """Trials that wait for their evaluation: settings of the caller's, and those a checkpoint found unfinished."""
        self.rule_held = False

    def one_by_one(self) -> str:
        """Evaluates in this thread until something ends the run; returns what."""
        message = ""
        try:
            while not message:
                message = self._reason_not_to_start()
                if message:
                    break
                trial = self._next_trial()
                message = self._take(trial, partial(evaluate, self.fun, self._argument(trial)))
        except KeyboardInterrupt:
            message = "interrupted; this is what was known by then"
        return message

    def parallel(self, pool: Executor, workers: int) -> str:
        """Keeps `workers` evaluations running until something ends the run; returns what."""
        running: dict[Future[Any], Trial] = {}
        message = ""
        try:
            while running or not message:
                while not message and len(running) < workers:
                    message = self._reason_not_to_start()
                    if not message:
                        trial = self._next_trial()
                        running[pool.submit(evaluate, self.fun, self._argument(trial))] = trial
                done = wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done if running else set()
                for future in sorted(done, key=lambda f: running[f].number):
                    message = self._take(running.pop(future), future.result) or message
        except KeyboardInterrupt:
            message = "interrupted; this is what was known by then"
        finally:
            for future in running:
                future.cancel()
        return message

    def _argument(self, trial: Trial) -> Any:
        return trial.x if self.optimizer.space.as_array else trial.params

    def _next_trial(self) -> Trial:
        return self.queue.pop(0) if self.queue else self.optimizer.ask()

    def _reason_not_to_start(self) -> str:
        if not self.queue and len(self.optimizer.trials) >= self.trials:
            return self.COMPLETE
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "the time was up"
        return ""

    def _take(self, trial: Trial, outcome: Callable[[], Any]) -> str:
        """Tells a finished trial; returns the reason to stop, if there is one now."""
        try:
            value, var = outcome()
        except self.catch:
            self.optimizer.tell(trial, failed=True)
        else:
            self.optimizer.tell(trial, returned(value, trial.params), var=var)
        if self.checkpoint is not None:
            self.optimizer.save(self.checkpoint)
        self.bar.advance(trial)
        if self.callback is not None and self.callback(self.optimizer, trial):
            return "the callback stopped the run"
        reason = self.stop(self.optimizer) if self.stop is not None else None
        self.rule_held = self.rule_held or reason is not None
        return reason or ""


class _Bar:
    """A progress bar with the best value so far."""

    def __init__(self, optimizer: Optimizer, trials: int, shown: bool) -> None:
        self.better = max if optimizer.direction == "maximize" else min
        self.best = self.better((t.value for t in optimizer.trials if t.value is not None), default=None)
        told = sum(t.state != "pending" for t in optimizer.trials)
        self.bar = tqdm(
            total=trials, initial=min(told, trials), disable=not shown, unit="trial", desc=optimizer.recipe.name
        )

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def advance(self, trial: Trial) -> None:
        if trial.value is not None:
            self.best = trial.value if self.best is None else self.better(self.best, trial.value)
        if not self.bar.disable and self.best is not None:
            self.bar.set_postfix_str(f"best {self.best:.6g}", refresh=False)
        self.bar.update()


def evaluate(fun: Objective, argument: Any) -> tuple[Any, Any]:
    """Calls fun on a setting; a module-level function, so that process pools can send it. Returns (value, variance or
    None)."""
    out = fun(**argument) if isinstance(argument, Mapping) else fun(argument)
    return (out[0], out[1]) if isinstance(out, tuple) and len(out) == 2 else (out, None)


def returned(value: Any, params: Mapping[str, Any]) -> Any:
    """The value, unless the objective returned nothing: that is a slip and no failed evaluation, so no `catch` takes
    it."""
    if value is None:
        raise ValueError(
            f"the objective returned None at {dict(params)}; it must return a number, or a pair (value, variance)"
        )
    return value


def _width(pool: Executor) -> int | None:
    """How many calls an executor runs at once, where it can be known: pools of the standard library and ours say so,
    Dask's has a client."""
    workers: int | None = getattr(pool, "_max_workers", None)
    client: Any = getattr(pool, "_client", None)
    return sum(client.nthreads().values()) if workers is None and client is not None else workers


def _check_signature(fun: Objective, space: Space) -> None:
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {fun!r}")
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # built-ins without a signature: the first call will tell
        return
    try:
        signature.bind(*([None] if space.as_array else []), **({} if space.as_array else dict.fromkeys(space.names)))
    except TypeError as error:
        how = "fun(x) with one array" if space.as_array else f"fun({', '.join(f'{n}=...' for n in space.names)})"
        raise TypeError(f"fun is called as {how}, but it has the signature {signature}: {error}") from None


def _check_rules(timeout: Any, callback: Any, catch: Any, stop: Any) -> None:
    """Whatever would fail only after the first evaluation fails now."""
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float | np.number) or not timeout >= 0
    ):
        raise ValueError(f"timeout must be a number of seconds of at least 0, or None, got {timeout!r}")
    for name, rule in (("callback", callback), ("stop", stop)):
        if rule is not None and not callable(rule):
            raise TypeError(f"{name} must be callable, got {rule!r}")
    classes = catch if isinstance(catch, tuple) else (catch,)
    if not all(isinstance(c, type) and issubclass(c, BaseException) for c in classes):
        raise TypeError(f"catch must be an exception class or a tuple of them, got {catch!r}")


def _settings(x0: Mapping[str, Any] | Sequence[Any] | None) -> list[Any]:
    if x0 is None:
        return []
    if isinstance(x0, Mapping):
        return [x0]
    settings = list(x0)
    return settings if settings and isinstance(settings[0], Mapping | Iterable) else [settings]


def _start_or_resume(
    space: Space,
    direction: Direction,
    trials: int,
    method: str | Recipe,
    seed: int | None,
    checkpoint: str | Path | None,
    *,
    certify: bool,
) -> Optimizer:
    recipe, why = choose_method(space, trials, certify=certify) if method == "auto" else (method, "given")
    fresh = Optimizer(space, method=recipe, direction=direction, budget=trials, seed=seed)
    fresh.why = why
    if checkpoint is None or not Path(checkpoint).exists():
        return fresh
    try:  # what "auto" chose when the run began stays, whatever it would choose now
        resumed = Optimizer.load(checkpoint, space=space, method=None if method == "auto" else fresh.recipe)
    except ValueError as error:
        raise ValueError(f"checkpoint {checkpoint} belongs to another run or is damaged: {error}") from None
    stored, asked = (resumed.direction, resumed.seed), (fresh.direction, resumed.seed if seed is None else seed)
    if stored != asked:
        raise ValueError(
            f"checkpoint {checkpoint} belongs to another run: it holds (direction, seed) {stored}, this run asks for {asked}"
        )
    return resumed
