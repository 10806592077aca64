"""Ray's door: `Searcher` for Ray Tune, `GapStopper` to end an experiment by certificate, and `RayExecutor` for
`minimize(n_jobs=...)`.

A trial that crashes, or reports NaN or no metric, is told to the method as a failure: nothing stays pending for ever.
`save` and `restore` keep the whole state without a pickle, and a restored search proposes what an uninterrupted one
would have.
"""

from __future__ import annotations

import math
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.tune.result import DEFAULT_METRIC
from ray.tune.search import Searcher as RaySearcher
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.stopper import Stopper

from regretless.basics.options import in_range, one_of
from regretless.basics.statefile import read_state, write_state
from regretless.basics.streams import checked_seed
from regretless.doors.ray.spaces import RaySpace, read_space
from regretless.files.codec import MethodLike
from regretless.method import gains_by_repeating
from regretless.optimizer import Optimizer, Trial, is_exhausted
from regretless.outlook.stopping import StopRule, probes_for
from regretless.run.front import Front
from regretless.run.result import Result
from regretless.space import SpaceLike
from regretless.task import Direction, Task, objectives_of

FILE_KIND = "regretless-ray-4"
"""Marks the files `Searcher.save` writes."""


# ---------------------------------------------------------------- the searcher


class Searcher(RaySearcher):
    """Proposes the trials of a Ray Tune experiment by a method of this library.

        tuner = tune.Tuner(train, param_space={"lr": tune.loguniform(1e-5, 1e-1)},
                           tune_config=tune.TuneConfig(search_alg=Searcher(seed=0), metric="loss", mode="min",
                           num_samples=50))

    Args:
        space: a Ray search space (nested dicts and lists of `tune.uniform` and the like) or anything
            `regretless.Space` takes; left out, Ray passes the experiment's `param_space`.
        metric: the reported number to optimise; left out, Ray passes the experiment's. A list of several makes the
            search one for their front, which is `searcher.front`; Ray itself takes one metric, so the list goes here
            and not to the Tuner.
        mode: "min" or "max", or a list with one for each metric; left out, Ray passes the experiment's.
        method: a name (`regretless list` shows them), a recipe or "auto".
        seed: makes the search repeatable, up to the order in which concurrent trials end.
        budget: the number of trials planned, when known.
        points_to_evaluate: settings to try first; the method proposes the parameters that a setting leaves out.
        stop: a rule such as `GapBelow(0.01)`; once it holds no new trial starts (`GapStopper` also ends the running
            ones). "auto" then takes a method whose certificate shrinks.
        probes: the share of the trials that are independent uniform draws, for `Certificate.share`; None: 0, or 0.2
            with a rule that speaks of a certificate.
        floor, ceiling: a value that no setting can fall below (mode "min") or exceed (mode "max").
        noise_bound: how far noise can carry a value from the truth at most, where that is known.
        noisy: whether values are noisy, where that is known; None: the values have to show it.
        reference: of several metrics, the value that each has to be better than to be of interest, by name.
    """

    _metric: str | None
    _mode: str | None

    def __init__(
        self,
        space: Mapping[str, Any] | SpaceLike | None = None,
        *,
        metric: str | Sequence[str] | None = None,
        mode: str | Sequence[str] | None = None,
        method: MethodLike = "auto",
        seed: int | None = None,
        budget: int | None = None,
        points_to_evaluate: list[dict[str, Any]] | None = None,
        stop: StopRule | None = None,
        probes: float | None = None,
        floor: float | None = None,
        ceiling: float | None = None,
        noise_bound: float | None = None,
        noisy: bool | None = None,
        reference: Mapping[str, float] | None = None,
    ) -> None:
        self._several = several_metrics(metric, mode)
        """The metrics of a search for a front, and the direction of each; empty where there is one."""
        super().__init__(metric=next(iter(self._several), metric), mode=_first_mode(mode))
        in_range("[0, inf) or None", noise_bound=noise_bound)
        one_of((None, True, False), noisy=noisy)
        self._method, self._budget, self._stop = method, budget, stop
        self._seed = secrets.randbits(32) if seed is None else checked_seed(seed)
        self._probes, self._floor, self._ceiling = probes_for(stop, probes), floor, ceiling
        self._noise_bound, self._noisy, self._reference = float(noise_bound or 0.0), noisy, reference
        self._first = list(points_to_evaluate or [])
        self._space: RaySpace | None = None
        self._live: dict[str, int] = {}
        """Ray's ids of running trials -> our numbers."""
        self.optimizer: Optimizer | None = None
        """The optimizer behind the search, once the space and the mode are known."""
        if space is not None:
            self._space = read_space(space)
            self._begin()

    # -- Ray's hooks

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        if self._space is not None and config and parse_spec_vars(config)[1]:
            return False
        if several_metrics(metric, mode):
            raise ValueError(
                f"Ray's Tuner takes one metric: Searcher(metric={list(metric or ())}, mode=...) takes several"
            )
        if not self._several:
            self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._space is None:
            self._space = read_space(config)
        self._begin()
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        optimizer, space = self._begun()
        if trial_id not in self._live:
            over = is_exhausted(optimizer) and not gains_by_repeating(optimizer.method, optimizer.history)
            if over or (self._stop is not None and self._stop(optimizer) is not None):
                return str(RaySearcher.FINISHED)
            trial = self._adopt(self._first.pop(0)) if self._first else optimizer.ask()
            self._live[trial_id] = trial.number
        return space.config(optimizer.trials[self._live[trial_id]].params)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        number = self._live.pop(trial_id, None)
        if number is None or self.optimizer is None:
            return
        values = [(result or {}).get(name) for name in self._several or (self.metric,)]
        if not error and not result:
            self.optimizer.forget(number)  # stopped before it reported anything: nobody knows what it is worth
        elif error or any(value is None or not math.isfinite(value) for value in values):
            self.optimizer.tell(number, failed=True)
        else:
            told: Any = list(map(float, values))  # type: ignore[arg-type] # none of them is None
            took = None if result is None else result.get("time_total_s")
            self.optimizer.tell(number, told if self._several else told[0], seconds=took)

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float | Sequence[float],
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        self._begun()[0].tell(self._adopt(parameters), None if error else value, failed=error)

    def on_pause(self, trial_id: str) -> None:
        """Asked by the BOHB scheduler alone."""
        raise RuntimeError("HyperBandForBOHB works with TuneBOHB only: use HyperBandScheduler or ASHAScheduler here")

    def save(self, checkpoint_path: str) -> None:
        """Writes the state to a file, without a pickle."""
        write_state(checkpoint_path, self._state())

    def restore(self, checkpoint_path: str) -> None:
        """Reads a file of `save` and goes on as if never interrupted; the constructor's options must be the same."""
        state = read_state(checkpoint_path)
        if state.get("kind") != FILE_KIND:
            raise ValueError(f"{checkpoint_path} is not a file of Searcher.save (kind {state.get('kind')!r})")
        try:
            self._adopt_state(state)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{checkpoint_path} is damaged: {type(error).__name__}: {error}") from None

    def __getstate__(self) -> dict[str, Any]:
        """Ray pickles searchers into its own experiment file; the optimizer travels as its checkpoint."""
        return {**vars(self), "optimizer": None, "_saved": self._state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("_saved")
        self.__dict__.update(state)
        self._adopt_state(saved)

    @property
    def front(self) -> Front:
        """The settings of which none is better in all metrics, of a search with several."""
        optimizer, _ = self._begun()
        return Result.of(optimizer).front

    # -- inside

    def _begin(self) -> None:
        if self.optimizer is not None or self._space is None or not self._mode:
            return
        self._metric = self._metric or DEFAULT_METRIC
        task = Task(
            self._space.space, tuple(self._several.values()) or (_direction(self._mode),), self._budget, self._seed,
            objectives=tuple(self._several), probes=self._probes, floor=self._floor, ceiling=self._ceiling,
            noise_bound=self._noise_bound, noisy=self._noisy, reference=self._reference,
        )  # fmt: skip
        self.optimizer = Optimizer(task, self._method, certify=self._stop is not None and self._stop.asks_gap)

    def _begun(self) -> tuple[Optimizer, RaySpace]:
        if self.optimizer is None or self._space is None:
            raise RuntimeError("the search needs a space and a mode: pass space= and mode=, or both to the Tuner")
        return self.optimizer, self._space

    def _adopt(self, point: Mapping[str, Any]) -> Trial:
        """A trial at a setting in Ray's terms; what it leaves out is proposed."""
        optimizer, space = self._begun()
        given = space.params(point)
        if any(exists and name not in given for name, exists in optimizer.space.active(given).items()):
            return optimizer.ask(fixed=given)
        return optimizer.adopt(given)

    def _state(self) -> dict[str, Any]:
        optimizer = np.empty(0, dtype=np.uint8)
        if self.optimizer is not None:
            with tempfile.TemporaryDirectory() as folder:
                self.optimizer.save(Path(folder) / "optimizer")
                optimizer = np.frombuffer((Path(folder) / "optimizer").read_bytes(), dtype=np.uint8)
        return {
            "kind": FILE_KIND, "metric": self._metric, "mode": self._mode, "live": self._live,
            "metrics": dict(self._several),
            "left": len(self._first), "optimizer": optimizer, "stop": {} if self._stop is None else self._stop.state(),
            "space": None if self._space is None else self._space.description(),
        }  # fmt: skip

    def _adopt_state(self, state: Mapping[str, Any]) -> None:
        self._metric, self._mode = state["metric"] or self._metric, state["mode"] or self._mode
        self._several = {str(name): _direction_named(way) for name, way in state["metrics"].items()}
        self._live = {str(trial_id): int(number) for trial_id, number in state["live"].items()}
        self._first = self._first[len(self._first) - int(state["left"]) :] if self._first else []
        if self._stop is not None:
            self._stop.load(state["stop"])
        content = state["optimizer"].tobytes()
        if content:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "optimizer").write_bytes(content)
                given = None if isinstance(self._method, str) else self._method
                own = None if self._space is None else self._space.space
                self.optimizer = Optimizer.load(Path(folder) / "optimizer", space=own, method=given)
            if self._space is None:  # Ray restores experiments without telling the space again
                self._space = RaySpace.from_description(self.optimizer.space, state["space"])
        self._begin()


def several_metrics(metric: Any, mode: Any) -> dict[str, Direction]:
    """The direction of each of several metrics; empty where there is one, or none yet."""
    if not isinstance(metric, list | tuple):
        if isinstance(mode, list | tuple):
            raise ValueError(f"mode is a list where metric is one, got metric={metric!r} and mode={list(mode)}")
        return {}
    modes = list(mode) if isinstance(mode, list | tuple) else [mode] * len(metric)
    if len(metric) < 2 or len(modes) != len(metric) or not all(way in ("min", "max") for way in modes):
        raise ValueError(
            f'several metrics need a mode for each, "min" or "max", got metric={list(metric)} and mode={mode!r}'
        )
    names, _ = objectives_of(metric, "minimize")
    return {name: _direction(way) for name, way in zip(names, modes, strict=True)}


def _direction(mode: str) -> Direction:
    return "maximize" if mode == "max" else "minimize"


def _direction_named(name: Any) -> Direction:
    """The direction that a file holds."""
    return "maximize" if name == "maximize" else "minimize"


def _first_mode(mode: str | Sequence[str] | None) -> str | None:
    """The mode that Ray sees."""
    return mode if mode is None or isinstance(mode, str) else mode[0]


class GapStopper(Stopper):
    """Ends a whole experiment, running trials included, when the rule holds for the search.

    searcher = Searcher(seed=0)
    tune.RunConfig(stop=GapStopper(GapBelow(0.01), searcher))
    """

    def __init__(self, rule: StopRule, searcher: Any) -> None:
        self.rule = rule
        self.searcher = searcher

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        searcher = self.searcher
        while not hasattr(searcher, "optimizer") and hasattr(searcher, "searcher"):
            searcher = searcher.searcher  # it is inside a ConcurrencyLimiter or the like
        return searcher.optimizer is not None and self.rule(searcher.optimizer) is not None


# ---------------------------------------------------------------- executor


class RayExecutor(Executor):
    """Runs calls as Ray tasks, for `minimize(..., n_jobs=RayExecutor())`; calls lost with a node are repeated by Ray on
    another.

    Args:
        max_workers: calls at once; the cluster's CPUs divided by `num_cpus` when not given.
        num_cpus: CPUs each call needs.
        num_gpus: GPUs each call needs.
        max_retries: how often a call whose worker or node died is repeated.
    """

    def __init__(
        self, max_workers: int | None = None, *, num_cpus: float = 1.0, num_gpus: float = 0.0, max_retries: int = 3
    ) -> None:
        if not ray.is_initialized():
            ray.init(ignore_reinit_error=True)
        available = ray.cluster_resources()
        room = int(available.get("CPU", 1) / num_cpus) if num_cpus else int(available.get("CPU", 1))
        if num_gpus:
            room = min(room, int(available.get("GPU", 0) / num_gpus))
        self._max_workers = max_workers or room
        if self._max_workers < 1:
            needed = f"num_cpus={num_cpus} and num_gpus={num_gpus}"
            raise ValueError(f"the Ray cluster has no room for a call with {needed}; it has {available}")
        self._call = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_retries=max_retries)(_call)
        self._running: dict[Future[Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        reference = self._call.remote(fn, args, kwargs)
        future: Future[Any] = reference.future()
        self._running[future] = reference
        future.add_done_callback(lambda done: self._running.pop(done, None))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future, reference in list(self._running.items()):
            if cancel_futures:
                ray.cancel(reference)
            elif wait:
                future.exception()


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)
