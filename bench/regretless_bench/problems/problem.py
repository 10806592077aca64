"""What is optimised: `Problem` (space, direction, optimum, noise of its own) and `Function`, a formula on a box.

The noise of an evaluation comes from a generator keyed on (seed, number of the evaluation), so two methods that run on
the same problem with the same seed meet the same draws at the same evaluation, whatever points they choose: comparisons
are paired in the noise too.

    problem = make_problem("levy", dim=20, shift=0.6, noise_sd=0.1, seed=3)
    y = problem.evaluate({"x0": 1.0, ...})       # noisy
    problem.true(params), problem.regret(params)  # noiseless

A family is a factory in a file of this package: a function with keyword options that returns a Problem. Its one line in
`regretless_bench.problems.PROBLEMS` gives it a name.
"""

from __future__ import annotations

import importlib
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from regretless.method import keyed_generator
from regretless.models.gp.sobol import sobol_points
from regretless.space import Space
from regretless.space.parameters import Array
from regretless_bench.streams import BenchStream

Direction: TypeAlias = Literal["minimize", "maximize"]
Rows: TypeAlias = Callable[[Array], Array]
"""A formula: points n x d in the problem's own units to values n."""

SPREAD_POINTS = 8192
"""Sobol points over which the standard deviation of a function is measured (NeuralBO's code uses 10,000)."""


class Observation(NamedTuple):
    """One evaluation: what the optimiser sees and what it would have seen without noise (NaN where nobody knows)."""

    y: float
    value: float


class Problem(ABC):
    """A black box with what is known about it; final subclasses give `_true`, and perhaps `_observe` and `_true_unit`.

    Args:
        name: how it is called in records.
        space: its parameters.
        direction: "minimize" or "maximize".
        optimum: the best noiseless value, when known.
        optima: settings that reach it, when known.
        noise_sd: standard deviation of the additive Gaussian noise.
        seed: keys the noise.
    """

    def __init__(
        self,
        name: str,
        space: Space,
        *,
        direction: Direction = "minimize",
        optimum: float | None = None,
        optima: Sequence[Mapping[str, Any]] = (),
        noise_sd: float = 0.0,
        seed: int = 0,
    ) -> None:
        if direction not in ("minimize", "maximize"):
            raise ValueError(f"direction must be 'minimize' or 'maximize', got {direction!r}")
        if not (math.isfinite(noise_sd) and noise_sd >= 0):
            raise ValueError(f"noise_sd is a standard deviation and must be at least 0, got {noise_sd!r}")
        self.name = name
        self.space = space
        self.direction: Direction = direction
        self.optimum = optimum
        self.optima = [dict(point) for point in optima]
        self.noise_sd = float(noise_sd)
        self.seed = int(seed)
        self.evaluations = 0
        """Evaluations so far: the key of the next one's noise."""

    @property
    def sign(self) -> float:
        """1 when the problem is maximised, -1 when minimised: sign * value is what a Method maximises."""
        return 1.0 if self.direction == "maximize" else -1.0

    # -- one setting

    def observe(self, params: Mapping[str, Any] | Sequence[float] | Array) -> Observation:
        """Evaluates once: the noisy value and the noiseless one."""
        rng = self._next_generator()
        return self._observe(self._named(params), rng)

    def evaluate(self, params: Mapping[str, Any] | Sequence[float] | Array) -> float:
        """The noisy value, the objective an optimiser is given."""
        return self.observe(params).y

    def true(self, params: Mapping[str, Any] | Sequence[float] | Array) -> float:
        """The noiseless value."""
        return self._true(self._named(params))

    def regret(self, params: Mapping[str, Any] | Sequence[float] | Array) -> float:
        """How far the noiseless value is from the optimum, at least 0 up to rounding; NaN when the optimum is not
        known."""
        return math.nan if self.optimum is None else self.sign * (self.optimum - self.true(params))

    # -- points of the unit cube (choices as equal shares)

    def true_unit(self, U: Array) -> Array:
        """Noiseless values of cube points n x d, n."""
        return self._true_unit(np.atleast_2d(np.asarray(U, dtype=np.float64)))

    def observe_unit(self, u: Array) -> Observation:
        """Evaluates one cube point, d."""
        return self.observe(self.space.decode(u))

    def evaluate_unit(self, U: Array) -> Array:
        """Noisy values of cube points n x d, n; each row is one evaluation, in order."""
        U = np.atleast_2d(np.asarray(U, dtype=np.float64))
        if type(self)._observe is not Problem._observe:
            return np.array([self.observe_unit(u).y for u in U])
        values = self.true_unit(U)
        return (
            values + self.noise_sd * np.array([self._next_generator().standard_normal() for _ in U])
            if self.noise_sd
            else values
        )

    # -- what a subclass gives

    @abstractmethod
    def _true(self, params: dict[str, Any]) -> float:
        """The noiseless value of a complete setting."""

    def _observe(self, params: dict[str, Any], rng: np.random.Generator) -> Observation:
        """One evaluation; overridden where noise is more than an additive Gaussian. Randomness comes from rng only."""
        value = self._true(params)
        return Observation(value + self.noise_sd * float(rng.standard_normal()) if self.noise_sd else value, value)

    def _true_unit(self, U: Array) -> Array:
        return np.array([self._true(self.space.decode(u)) for u in U])

    # -- inside

    def _next_generator(self) -> np.random.Generator:
        rng = keyed_generator(self.seed, self.evaluations, stream=BenchStream.NOISE)
        self.evaluations += 1
        return rng

    def _named(self, params: Mapping[str, Any] | Sequence[float] | Array) -> dict[str, Any]:
        if isinstance(params, Mapping):
            return dict(params)
        if len(params) != len(self.space):
            raise ValueError(f"{self.name} has {len(self.space)} parameters, got {len(params)} values")
        return dict(zip(self.space.names, params, strict=True))

    def __repr__(self) -> str:
        what = f"{self.direction} {len(self.space)} parameters, optimum {self.optimum}, noise_sd {self.noise_sd:g}"
        return f"<{self.name}: {what}>"


class Function(Problem):
    """A formula on a box: `rows` maps points n x d in the box to values n.

    Args:
        bounds: d x 2, the lower and upper ends.
        points: optimal points, k x d, in the box's units.
        everywhere: the formula holds on all of R^d with the same optimum, so that the box may be shifted over it.
    """

    def __init__(
        self,
        name: str,
        rows: Rows,
        bounds: Array,
        *,
        direction: Direction = "minimize",
        optimum: float | None = None,
        points: Array | None = None,
        everywhere: bool = False,
        noise_sd: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.bounds = np.asarray(bounds, dtype=np.float64).reshape(-1, 2)
        space = Space([(low, high) for low, high in self.bounds])
        self.points = (
            np.empty((0, len(self.bounds))) if points is None else np.atleast_2d(np.asarray(points, dtype=np.float64))
        )
        optima = [dict(zip(space.names, point.tolist(), strict=True)) for point in self.points]
        super().__init__(name, space, direction=direction, optimum=optimum, optima=optima, noise_sd=noise_sd, seed=seed)
        self.rows = rows
        self.everywhere = everywhere

    def _true(self, params: dict[str, Any]) -> float:
        x = np.array([params[name] for name in self.space.names], dtype=np.float64)
        return float(self.rows(x[None, :])[0])

    def _true_unit(self, U: Array) -> Array:
        low, high = self.bounds.T
        return self.rows((1 - U) * low + U * high)


# ---------------------------------------------------------------- wrappers


def shifted(problem: Function, share: float, seed: int) -> Function:
    """The same formula moved so that its first optimum lies uniformly within `share` of the half-width around the box's
    centre.

    Methods that map the origin to the centre look miraculous on centred optima; a shift takes that credit away.
    """
    if not 0 < share <= 1:
        raise ValueError(
            f"shift must be in (0, 1]: the share of the half-width within which the optimum moves; got {share!r}"
        )
    if not isinstance(problem, Function) or not problem.everywhere or not len(problem.points):
        raise ValueError(
            f"{problem.name} cannot be shifted: its formula has another optimum outside its box, or none that is known"
        )
    low, high = problem.bounds.T
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    target = (low + high) / 2 + share * (high - low) / 2 * rng.uniform(-1, 1, len(low))
    move = target - problem.points[0]
    rows = problem.rows
    points = problem.points + move
    inside = ((points >= low) & (points <= high)).all(axis=1)
    return Function(
        problem.name, lambda X: rows(X - move), problem.bounds, direction=problem.direction, optimum=problem.optimum,
        points=points[inside], everywhere=True, noise_sd=problem.noise_sd, seed=problem.seed,
    )  # fmt: skip


def embedded(problem: Function, dim: int, seed: int) -> Function:
    """The problem's coordinates at random places among `dim`; the others range over [-1, 1] and do not matter."""
    d = len(problem.space)
    if not isinstance(problem, Function) or dim < d:
        raise ValueError(
            f"embed must be at least the {d} coordinates of {problem.name} (a formula on a box), got {dim!r}"
        )
    places = keyed_generator(seed, 1, stream=BenchStream.INSTANCE).permutation(dim)[:d]
    bounds = np.tile([-1.0, 1.0], (dim, 1))
    bounds[places] = problem.bounds
    points = np.zeros((len(problem.points), dim))
    points[:, places] = problem.points
    rows = problem.rows
    return Function(
        problem.name, lambda X: rows(X[:, places]), bounds, direction=problem.direction, optimum=problem.optimum,
        points=points, everywhere=problem.everywhere, noise_sd=problem.noise_sd, seed=problem.seed,
    )  # fmt: skip


def spread(problem: Problem, points: int = SPREAD_POINTS) -> float:
    """The standard deviation of the noiseless value over Sobol points of the space."""
    cube = problem.space.cube()
    U = cube.snap(sobol_points(points, cube.dim, keyed_generator(0, 0, stream=BenchStream.SPREAD)))
    return float(np.std(problem.true_unit(U)))


# ---------------------------------------------------------------- names


class Factory:
    """A named family of problems: an importable function with keyword options; its module is imported on first use."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self._path = path

    @property
    def function(self) -> Callable[..., Problem]:
        module, _, name = self._path.partition(":")
        found: Callable[..., Problem] = getattr(importlib.import_module(module), name)
        return found

    @property
    def summary(self) -> str:
        """The first paragraph of the factory's docstring, in one line."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split()).rstrip(".")

    @property
    def options(self) -> list[str]:
        return [name for name in inspect.signature(self.function).parameters if name != "seed"]

    def __call__(self, *, seed: int = 0, **options: Any) -> Problem:
        for option in options:
            if option in RENAMED:
                raise ValueError(f"problem {self.name!r}: the option {option!r} is called {RENAMED[option]!r}")
            if option not in self.options:
                raise ValueError(
                    f"problem {self.name!r} has no option {option!r}; it takes {', '.join([*self.options, *COMMON])}"
                )
        takes_seed = "seed" in inspect.signature(self.function).parameters
        problem = self.function(**options, **({"seed": seed} if takes_seed else {}))
        problem.seed = seed
        return problem

    def __repr__(self) -> str:
        return f"Factory({self.name!r}, {self._path!r})"


RENAMED = {"noise": "noise_sd"}
"""Former names of options, and the present ones."""
COMMON = ("seed", "shift", "embed", "noise_sd", "noise_share")
"""Options that `make_problem` understands for every family."""


def wrapped(
    problem: Problem,
    *,
    shift: float = 0.0,
    embed: int = 0,
    noise_sd: float | None = None,
    noise_share: float | None = None,
) -> Problem:
    """The problem with its optimum shifted, its coordinates embedded and its noise set, in this order."""
    if (shift or embed) and not isinstance(problem, Function):
        raise ValueError(f"{problem.name} is no formula on a box; it can be neither shifted nor embedded")
    if shift and isinstance(problem, Function):
        problem = shifted(problem, shift, problem.seed)
    if embed and isinstance(problem, Function):
        problem = embedded(problem, embed, problem.seed)
    if noise_sd is not None and noise_share is not None:
        raise ValueError(
            "give noise_sd (a standard deviation) or noise_share (a share of the function's own), not both"
        )
    given = noise_sd if noise_share is None else noise_share * spread(problem)
    if given is not None:
        if not (math.isfinite(given) and given >= 0):
            raise ValueError(f"noise_sd is a standard deviation and must be at least 0, got {given!r}")
        problem.noise_sd = float(given)
    return problem
