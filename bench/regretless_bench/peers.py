"""Other libraries as methods (extra "bench"), so that every comparison can include them under the same seeds, points
and noise.

Each peer gets the cube's coordinates with their true kinds (a line, whole numbers, unordered labels), not a relaxation,
where the library knows kinds. Initial points and other foreign ones are told to it in its own way. Unlike our methods
the peers keep state of their own, so a run cannot be resumed from its history; records of whole runs are all the bench
needs. What reads a global random stream runs inside `_own_stream`, which seeds it from (seed, step) and puts it back.
BoTorch's and Nevergrad's choices are documented at their classes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import random
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

import numpy as np

from regretless.gp.sobol import sobol_points
from regretless.method import Method, Recipe, keyed_generator
from regretless.parameters import Array, Axis
from regretless.space import Cube
from regretless_bench.quick_fit import fit_quickly

T = TypeVar("T")

PEERS = {
    recipe.name: recipe
    for recipe in (
        Recipe("optuna-tpe", "regretless_bench.peers:OptunaPeer", {"sampler": "tpe"}),
        Recipe("optuna-gp", "regretless_bench.peers:OptunaPeer", {"sampler": "gp"}),
        Recipe("optuna-cmaes", "regretless_bench.peers:OptunaPeer", {"sampler": "cmaes"}),
        Recipe("botorch-logei", "regretless_bench.peers:BoTorchLogEI"),
        Recipe("smac", "regretless_bench.peers:SMAC3"),
        Recipe("nevergrad-ngopt", "regretless_bench.peers:NGOpt"),
        Recipe("cma", "regretless_bench.peers:PyCMA"),
    )
}

LIBRARIES = {
    "optuna-tpe": "optuna", "optuna-gp": "optuna", "optuna-cmaes": "cmaes", "botorch-logei": "botorch", "smac": "smac",
    "nevergrad-ngopt": "nevergrad", "cma": "cma",
}  # fmt: skip
"""The module each peer needs."""

STREAM = 301
"""Stream of the generators that seed the libraries."""
SEED_BITS = 2**31 - 1


def installed(name: str) -> bool:
    """Whether the library of a peer is there; any other method needs none."""
    return name not in LIBRARIES or importlib.util.find_spec(LIBRARIES[name]) is not None


# ---------------------------------------------------------------- shared by the peers


class _Open:
    """What a library calls the points it has proposed and not yet heard about, by the point."""

    def __init__(self) -> None:
        self._handles: dict[bytes, list[Any]] = {}

    def put(self, x: Array, handle: Any) -> None:
        self._handles.setdefault(x.tobytes(), []).append(handle)

    def take(self, x: Array) -> Any:
        """The oldest handle of the point; None for a foreign one."""
        found = self._handles.get(np.ascontiguousarray(x).tobytes())
        return found.pop(0) if found else None


def _library_seed(seed: int, step: int = 0) -> int:
    return int(keyed_generator(seed, step, stream=STREAM).integers(SEED_BITS))


@contextlib.contextmanager
def _own_stream(seed: int, step: int, *, torch: bool = False) -> Iterator[None]:
    """Seeds the global streams from (seed, step) and restores them; warnings and log lines of the library are kept
    quiet."""
    number = _library_seed(seed, step)
    before_python, before_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - to put it back
    level = logging.root.manager.disable
    with contextlib.ExitStack() as stack:
        if torch:
            import torch as torch_library

            stack.enter_context(torch_library.random.fork_rng(devices=[]))
            torch_library.manual_seed(number)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        random.seed(number)
        np.random.seed(number)  # noqa: NPY002 - restored below
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(level)
            random.setstate(before_python)
            np.random.set_state(before_numpy)  # noqa: NPY002


def _label(axis: Axis, u: float) -> int:
    """The whole number a library calls the position of a discrete coordinate: its index, counted from log_low on log
    axes."""
    return int(axis.index(np.array([u]))[0]) + axis.log_low


def _place(axis: Axis, label: int) -> float:
    return float(axis.centre(np.array([label - axis.log_low]))[0])


def _needs(library: str) -> ImportError:
    return ImportError(f"this peer needs {library}: pip install 'regretless[bench]'")


# ---------------------------------------------------------------- Optuna


class OptunaPeer(Method):
    """Optuna's samplers with their defaults: TPE, GPSampler or CMA-ES.

    Args:
        sampler: "tpe", "gp" or "cmaes".
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, sampler: Literal["tpe", "gp", "cmaes"] = "tpe"
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        try:
            import optuna
        except ImportError:
            raise _needs("optuna") from None
        kinds: dict[str, Any] = {
            "tpe": optuna.samplers.TPESampler,
            "gp": optuna.samplers.GPSampler,
            "cmaes": optuna.samplers.CmaEsSampler,
        }
        if sampler not in kinds:
            raise ValueError(f"sampler must be one of {sorted(kinds)}, got {sampler!r}")
        self._distributions = {f"x{i}": _optuna_distribution(axis) for i, axis in enumerate(self.cube.axes)}
        self._gp = sampler == "gp"
        with _own_stream(self.seed, 0):
            self._study = optuna.create_study(
                direction="maximize", sampler=kinds[sampler](seed=_library_seed(self.seed))
            )
        self._open = _Open()
        self._failures = 0

    def _propose(self, rng: np.random.Generator) -> Array:
        import optuna

        with _own_stream(self.seed, self.step, torch=self._gp):
            for x in self.failed[self._failures :]:
                trial = self._open.take(x)
                if trial is not None:
                    self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            self._failures = len(self.failed)
            trial = self._study.ask(self._distributions)
        values = [trial.params[f"x{i}"] for i in range(self.dim)]
        x = np.array(
            [_place(axis, value) if axis.levels else value for axis, value in zip(self.cube.axes, values, strict=True)]
        )
        self._open.put(self.cube.snap(x), trial)
        return x

    def _update(self, X: Array, y: Array) -> None:
        import optuna

        with _own_stream(self.seed, self.step, torch=self._gp):
            for x, value in zip(X, y.tolist(), strict=True):
                trial = self._open.take(x)
                if trial is not None:
                    self._study.tell(trial, value)
                    continue
                params = {
                    f"x{i}": _label(axis, x[i]) if axis.levels else float(x[i]) for i, axis in enumerate(self.cube.axes)
                }
                self._study.add_trial(
                    optuna.trial.create_trial(params=params, distributions=self._distributions, value=value)
                )


def _optuna_distribution(axis: Axis) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.categorical:
        return CategoricalDistribution(list(range(axis.levels)))
    if axis.levels:
        return IntDistribution(axis.log_low, axis.log_low + axis.levels - 1, log=axis.log_low > 0)
    return FloatDistribution(0.0, 1.0)


# ---------------------------------------------------------------- BoTorch


class BoTorchLogEI(Method):
    """BoTorch as its documentation shows it: SingleTaskGP with default priors, LogEI, optimize_acqf; one-hot choices.

    The model is fitted afresh at every ask. The best observed value is the incumbent, also under noise. Points asked
    while others are pending only keep apart from them.

    Args:
        restarts: starts of the acquisition's ascent.
        raw: quasi-random points the starts are picked from.
        initial: Sobol points before the model; by default Ax's rule, max(5, min(budget / 5, 2 d)).
        quick: find the hyper-parameters of its model with our minimiser: the same density, as high a value or higher, a
            hundredth of the time (BoTorch's own fit takes a thousand and more evaluations in 50 dimensions, which is
            all that keeps it from long runs there).
    """

    choices = "onehot"

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        restarts: int = 8,
        raw: int = 256,
        initial: int | None = None,
        quick: bool = False,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.restarts, self.raw, self.quick = restarts, raw, quick
        share = 2 * self.dim if self.budget is None else min(self.budget // 5, 2 * self.dim)
        self.initial = max(5, share) if initial is None else initial
        self._start = sobol_points(self.initial, self.dim, self.fixed_generator())

    def _propose(self, rng: np.random.Generator) -> Array:
        if len(self.y) < self.initial:
            return self._start[self.step] if self.step < self.initial else rng.random(self.dim)
        try:
            import torch
            from botorch.acquisition import LogExpectedImprovement
            from botorch.fit import fit_gpytorch_mll
            from botorch.models import SingleTaskGP
            from botorch.optim import optimize_acqf
            from gpytorch.mlls import ExactMarginalLogLikelihood
        except ImportError:
            raise _needs("botorch") from None
        with _own_stream(self.seed, self.step, torch=True):
            X, y = torch.tensor(np.array(self.X)), torch.tensor(np.array(self.y))[:, None]
            model = SingleTaskGP(X, y)
            if self.quick:
                fit_quickly(model)
            else:
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, self.dim)
            acquisition = LogExpectedImprovement(model, best_f=y.max())
            point, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=self.restarts, raw_samples=self.raw)
        best: Array = point[0].numpy()
        return best


# ---------------------------------------------------------------- SMAC3


class SMAC3(Method):
    """SMAC3's facades with their defaults: "hpo" (random forest, log EI) or "blackbox" (Gaussian process, EI).

    Args:
        facade: "hpo" or "blackbox".
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, facade: Literal["hpo", "blackbox"] = "hpo"
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        try:
            import ConfigSpace
            from smac import BlackBoxFacade, HyperparameterOptimizationFacade, Scenario
        except ImportError:
            raise _needs("smac") from None
        if facade not in ("hpo", "blackbox"):
            raise ValueError(f"facade must be 'hpo' or 'blackbox', got {facade!r}")
        kind = BlackBoxFacade if facade == "blackbox" else HyperparameterOptimizationFacade
        self._folder = tempfile.TemporaryDirectory(prefix="regretless-smac-")
        with _own_stream(self.seed, 0):
            space = ConfigSpace.ConfigurationSpace(seed=_library_seed(self.seed))
            for i, axis in enumerate(self.cube.axes):
                space.add(_smac_parameter(f"x{i}", axis))
            scenario = Scenario(
                space,
                deterministic=True,
                n_trials=self.budget or 100,
                seed=_library_seed(self.seed),
                output_directory=self._folder.name,
            )
            self._smac = kind(scenario, _never_called, overwrite=True, logging_level=False)
        self._space = space
        self._open = _Open()

    def _propose(self, rng: np.random.Generator) -> Array:
        with _own_stream(self.seed, self.step):
            info = self._smac.ask()
        values = [info.config[f"x{i}"] for i in range(self.dim)]
        x = np.array(
            [
                _place(axis, int(value)) if axis.levels else value
                for axis, value in zip(self.cube.axes, values, strict=True)
            ]
        )
        self._open.put(self.cube.snap(x), info)
        return x

    def _update(self, X: Array, y: Array) -> None:
        import ConfigSpace
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        with _own_stream(self.seed, self.step):
            for x, value in zip(X, y.tolist(), strict=True):
                info = self._open.take(x)
                if info is None:
                    labels = {
                        f"x{i}": _label(axis, x[i]) if axis.levels else float(x[i])
                        for i, axis in enumerate(self.cube.axes)
                    }
                    info = TrialInfo(ConfigSpace.Configuration(self._space, values=labels), seed=0)
                self._smac.tell(info, TrialValue(cost=-value), save=False)


def _never_called(config: Any, seed: int = 0) -> float:
    """SMAC wants a target function even when it is only asked and told."""
    raise RuntimeError("SMAC called its target function although it is only asked and told")


def _smac_parameter(name: str, axis: Axis) -> Any:
    import ConfigSpace

    if axis.categorical:
        return ConfigSpace.Categorical(name, list(range(axis.levels)))
    if axis.levels > 1:
        return ConfigSpace.Integer(name, (axis.log_low, axis.log_low + axis.levels - 1), log=axis.log_low > 0)
    return ConfigSpace.Constant(name, axis.log_low) if axis.levels else ConfigSpace.Float(name, (0.0, 1.0))


# ---------------------------------------------------------------- Nevergrad


class NGOpt(Method):
    """Nevergrad's NGOpt, its choice among many optimisers by dimension, budget and kinds of variables.

    At small budgets NGOpt runs a library loop in a thread that would keep the process from ending when the run is
    abandoned; it is started from a daemon thread and so becomes one. Foreign points cannot be told to such an
    optimiser: the best of those told before the first ask becomes the start, the others are kept but not used. What is
        asked while its candidate is pending is drawn uniformly.
    """

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        warnings.filterwarnings(
            "ignore", message="COBYLA: Invalid RHOEND"
        )  # said from its thread, after our own silence has ended
        self._optimizer: Any = None
        self._out: tuple[Array, Any] | None = None
        """The candidate the optimiser waits for: its optimisers for small budgets take one at a time."""

    def _build(self) -> Any:
        try:
            import nevergrad as ng
        except ImportError:
            raise _needs("nevergrad") from None
        start = self.X[int(np.argmax(self.y))] if len(self.y) else np.full(self.dim, 0.5)
        if self.cube.plain:
            space = ng.p.Array(init=start, lower=0.0, upper=1.0).set_mutation(
                sigma=1 / 6
            )  # nevergrad's own sigma for a bounded array
        else:
            space = ng.p.Tuple(
                *(_nevergrad_parameter(axis, u) for axis, u in zip(self.cube.axes, start.tolist(), strict=True))
            )
        space.random_state = np.random.RandomState(_library_seed(self.seed))
        return ng.optimizers.NGOpt(parametrization=space, budget=max(2, self.budget or 100), num_workers=1)

    def _propose(self, rng: np.random.Generator) -> Array:
        with _own_stream(self.seed, self.step):
            if self._optimizer is None:
                self._optimizer = self._build()
            if self._out is not None and self._is_pending(self._out[0]):
                return rng.random(self.dim)
            if self._out is not None:  # failed or forgotten
                self._tell(float(np.min(self.y, initial=0.0)) - 1.0)
            candidate = _in_daemon(self._optimizer.ask)
        values = np.asarray(candidate.value).tolist()
        x = np.array(
            [_place(axis, int(v)) if axis.levels else v for axis, v in zip(self.cube.axes, values, strict=True)]
        )
        self._out = self.cube.snap(x), candidate
        return x

    def _update(self, X: Array, y: Array) -> None:
        for x, value in zip(X, y.tolist(), strict=True):
            if self._out is not None and np.array_equal(x, self._out[0]):
                with _own_stream(self.seed, self.step):
                    self._tell(value)

    def _tell(self, value: float) -> None:
        assert self._out is not None
        candidate, self._out = self._out[1], None
        _in_daemon(lambda: self._optimizer.tell(candidate, -value))


def _nevergrad_parameter(axis: Axis, start: float) -> Any:
    """Unordered labels as a choice, whole numbers as whole numbers, so that NGOpt sees what it chooses an optimiser
    for."""
    import nevergrad as ng

    if axis.categorical:
        return ng.p.Choice(list(range(axis.levels)))
    if not axis.levels:
        return ng.p.Scalar(init=start, lower=0.0, upper=1.0).set_mutation(sigma=1 / 6)
    low, high = axis.log_low, axis.log_low + axis.levels - 1
    kind = ng.p.Log if axis.log_low else ng.p.Scalar
    return kind(init=_label(axis, start), lower=low, upper=high).set_integer_casting()


def _in_daemon(call: Callable[[], T]) -> T:
    """The call's result from a short-lived daemon thread: threads it starts inherit that they need not be waited
    for."""
    result: list[T] = []
    error: list[BaseException] = []

    def work() -> None:
        try:
            result.append(call())
        except BaseException as caught:
            error.append(caught)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if error:
        raise error[0]
    return result[0]


# ---------------------------------------------------------------- pycma


class PyCMA(Method):
    """CMA-ES by its author's library, restarted with twice the population when it stops (IPOP, Auger and Hansen 2005).

    Starts at the centre, or at the best point told before the first ask; positions of discrete coordinates are rounded
    by the cube.

    Args:
        sigma: the first step size, as a share of the cube's side.
    """

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, sigma: float = 0.25) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        try:
            import cma  # noqa: F401
        except ImportError:
            raise _needs("cma") from None
        self.sigma = sigma
        self._normal = np.random.Generator(np.random.Philox(_library_seed(self.seed)))
        self._strategy: Any = None
        self._population = 0
        self._restarts = 0
        self._batch: list[Array] = []
        """Points of the present generation as the library gave them."""
        self._places: list[Array] = []
        """The same as asked: within the cube and snapped."""
        self._values: list[float] = []
        self._next = 0

    def _new_strategy(self, rng: np.random.Generator) -> Any:
        import cma

        if self._restarts:
            start = rng.random(self.dim)
        else:
            start = np.clip(self.X[int(np.argmax(self.y))], 0.01, 0.99) if len(self.y) else np.full(self.dim, 0.5)
        options = {
            "bounds": [0, 1],
            "randn": lambda *shape: self._normal.standard_normal(shape),
            "seed": float("nan"),
            "verbose": -9,
        }
        if self._population:
            options["popsize"] = self._population
        padded = (
            self.dim == 1
        )  # the library refuses one dimension; a second coordinate that nothing depends on is added
        strategy = cma.CMAEvolutionStrategy(np.append(start, 0.5) if padded else start, self.sigma, options)
        self._population = 2 * strategy.popsize
        return strategy

    def _propose(self, rng: np.random.Generator) -> Array:
        with _own_stream(self.seed, self.step):
            if self._strategy is None or self._strategy.stop():
                self._restarts += self._strategy is not None
                self._strategy = self._new_strategy(rng)
                self._begin()
            if self._next < len(self._batch):
                x = self._places[self._next]
                self._next += 1
                return x
            extra: Array = np.clip(
                self._strategy.ask(1)[0][: self.dim], 0, 1
            )  # the whole generation is pending: one more from the same law
            return extra

    def _begin(self) -> None:
        self._batch = self._strategy.ask()
        self._places = [self.cube.snap(np.asarray(x)[: self.dim]) for x in self._batch]
        self._values = [np.nan] * len(self._batch)
        self._next = 0

    def _update(self, X: Array, y: Array) -> None:
        for x, value in zip(X, y.tolist(), strict=True):
            for i, place in enumerate(self._places[: self._next]):
                if np.isnan(self._values[i]) and np.array_equal(place, x):
                    self._values[i] = -value
                    break
        told = ~np.isnan(self._values)
        missing = [i for i in np.flatnonzero(~told) if i < self._next and not self._is_pending(self._places[i])]
        if (
            self._batch
            and self._next == len(self._batch)
            and told.sum() + len(missing) == len(self._batch)
            and told.any()
        ):
            worst = float(np.nanmax(self._values))
            losses = [worst if np.isnan(v) else v for v in self._values]  # points that failed rank with the worst
            with _own_stream(self.seed, self.step):
                self._strategy.tell(self._batch, losses)
                self._begin()
