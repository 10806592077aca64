"""The contract every optimiser keeps: `Method`, and the `Recipe` that builds it.

A method maximises on the unit cube. It is a function of its arguments: what it proposes follows from the history, the
cube and the draws of one ask, bit for bit; `Optimizer` turns signs and units and keeps the history. Whatever else a
method holds is a cache that may be dropped at any moment. Runs resume by this law, and workers that share a storage
agree by it.

To write a method, subclass `Method` and give `propose`, and perhaps `_recommend` and `_certificate`:

    class Coin(Method):
        def propose(self, history, cube, rng):
            return rng.random(cube.dim)
"""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from regretless.basics.fingerprint import in_plain, same_content
from regretless.basics.options import in_range, whole_number
from regretless.basics.statefile import State as State
from regretless.basics.streams import Draws, Stream
from regretless.basics.streams import checked_seed as checked_seed
from regretless.basics.streams import keyed_generator as keyed_generator
from regretless.basics.threads import threads_for
from regretless.certificate import Certificate
from regretless.fronts.choice import compromise, of_interest
from regretless.fronts.dominance import nondominated
from regretless.history import LARGEST as LARGEST
from regretless.history import History
from regretless.space import Cube, Encoding, Space
from regretless.space.parameters import Array

REDRAWS = 64
"""Fresh uniform draws tried when a proposal coincides with a pending or failed point; only small finite spaces ever
need more than one."""
SPREAD_FROM = 32
"""So many points may be under way before the next one keeps its distance from them: as many refine one place together
without loss (docs/lab/crowds.md)."""
APART = 0.1
"""The distance in the unit cube that proposals beside very many others keep from them."""
BELIEVED = 5
"""A prior decides 5 / (10 + n) of the proposals after n values of a method that cannot weigh it; chosen by hand."""


@dataclass(frozen=True)
class Traits:
    """What a method can work with."""

    choices: Encoding = "shares"
    """How it wants choices encoded."""
    max_dim: int = 1_000_000
    """The largest number of coordinates it accepts."""
    model_free: bool = False
    """Whether it is a floor to measure from, which learns nothing and need not beat random search."""
    keeps_apart: bool = True
    """Whether its asks keep their distance from many points under way; a search whose own spread says how close its
    points lie does not."""
    constraints: bool = False
    """Whether it learns the values of constraints; others see infeasible points as failures."""
    cost: bool = False
    """Whether it can weigh what a point promises by what it costs."""
    outside: bool = False
    """Whether its model uses values at points outside the cube."""
    objectives: bool = False
    """Whether it searches the front of several objectives."""
    belief: bool = False
    """Whether it weighs its acquisition by where the user expects good values."""


@dataclass(frozen=True)
class Noise:
    """What is known of the noise of values."""

    stated: bool | None
    """Whether there is any, where options or the run say so."""
    shows: bool
    """Whether there is any, as far as options, a bound, told variances or two values of one setting show it."""


class Method(ABC):
    """An optimiser of one black box on the unit cube, maximising; see the module's text for the law it keeps.

    Args:
        cube: the number of coordinates, or a `Cube` that also says which of them are discrete.
        seed: keys every random draw.
        budget: the number of evaluations planned, when known.
    """

    traits: Traits = Traits()
    _noisy: bool | None = None
    """Whether the values are noisy, where options (`stated_noise`) or the run say so; None: they have to show it."""

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        self.cube = cube if isinstance(cube, Cube) else Cube.box(cube)
        self.dim = self.cube.dim
        if self.dim > self.traits.max_dim:
            raise ValueError(f"{type(self).__name__} works in at most {self.traits.max_dim} dimensions, got {self.dim}")
        self.seed = checked_seed(seed)
        whole_number(also=(None,), budget=budget)
        self.budget = None if budget is None else int(budget)
        self._draws = Draws(self.seed)
        self._seen: History | None = None
        """The history that `_update` was last shown."""

    # -- the contract

    @abstractmethod
    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        """The next point to evaluate, d.

        history: what is known, and what is being evaluated elsewhere.
        cube: the method's own cube or, when the caller holds some coordinates, the part of it that is left.
        rng: the draws of this ask, not to be kept beyond the call; `rng.step` is the number of the ask.
        """

    def recommend(self, history: History) -> Array:
        """The point to report, d: the best value seen or, when the values show noise, the best by the model, because
        the best value seen may be the luckiest."""
        if len(history) == 0:
            raise RuntimeError("recommend() needs at least one successful evaluation; none has been told yet")
        if history.objectives > 1:
            rows, values, _ = self.front(history)
            good = of_interest(values, history.reference)
            return np.array(history.X[rows[good][compromise(values[good])]])
        if not self.noise(history).shows:
            return np.array(history.X[history.best_row()])
        with threads_for(self.traits.model_free):
            best = np.asarray(self._recommend(history), dtype=np.float64).reshape(self.dim)
        return self.cube.snap(best)

    def front(self, history: History) -> tuple[NDArray[np.intp], Array, Array]:
        """The rows of the front's members, m, in the order of their evaluation and one for each setting, the values
        that they are taken to have, to be maximised, and the sds of these, m x k each; NaN: not known."""
        values, sds = self._estimates(history) if self.noise(history).shows else (history.Y, np.full_like(history.Y, 0))
        firsts: dict[bytes, int] = {}
        for i, x in enumerate(history.X):
            if not history.n_constraints or history.feasible[i]:
                firsts.setdefault(x.tobytes(), i)
        rows = np.array(sorted(firsts.values()), dtype=np.intp) if firsts else np.array([history.best_row()])
        rows = rows[nondominated(values[rows])]
        return rows, values[rows], sds[rows]

    def certificate(self, history: History, delta: float = 0.05) -> Certificate:
        """Bounds on f* - f(recommended) that hold with probability 1 - delta, or "not certified" and why."""
        in_range("(0, 1)", delta=delta)
        if len(history) == 0:
            return Certificate.none("nothing has been evaluated yet", delta)
        if history.objectives > 1:
            return Certificate.none("a gap speaks of one objective, and this run has several", delta)
        if np.abs(history.y).max() >= LARGEST:
            return Certificate.none(f"values of {LARGEST:g} and more are at the end of the range of floats", delta)
        with threads_for(self.traits.model_free):
            return self._certificate(history, delta)

    def why(self, history: History) -> str:
        """Why the method searches this history as it does, for methods that choose; else empty."""
        return ""

    def uses_outside(self, history: History) -> bool:
        """Whether a model that searches this history uses values at points outside the cube."""
        return self.traits.outside

    def noise(self, history: History) -> Noise:
        """What is known of the noise of these values; a told variance goes before what options say."""
        stated = None if (history.Yvar > 0).any() else self._noisy
        shows = history.values_differ if stated is None else stated
        return Noise(self._noisy, shows=history.noise_bound > 0 or shows)

    def bind(self, space: Space, sign: float) -> None:  # noqa: B027 - a hook that may stay empty
        """Shows the user's own space, and the sign that turns told values into the user's, to methods whose model works
        in those units."""

    def warm(self, history: History) -> State:
        """What it would cost time to find again from this history, such as fitted hyper-parameters."""
        return {}

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Takes over what `warm` gave for this history; raises ValueError when it cannot be that."""

    # -- what a subclass gives, beside `propose`

    def _recommend(self, history: History) -> Array:
        """The point to report, d; called with at least one value when the values are noisy."""
        best: Array = history.X[history.best_row()]
        return best

    def _estimates(self, history: History) -> tuple[Array, Array]:
        """The values that evaluated points are taken to have where values are noisy, and the sds of these, n x k; by
        default the mean of the values of a setting, whose sd is known where all their variances were told."""
        keys = np.unique(history.X, axis=0, return_inverse=True)[1].ravel()
        counts = np.bincount(keys)[keys][:, None]
        variances = np.column_stack([np.bincount(keys, weights=column)[keys] for column in history.Yvar.T])
        means = np.column_stack([np.bincount(keys, weights=column)[keys] for column in history.Y.T]) / counts
        return means, np.sqrt(variances) / counts

    def _certificate(self, history: History, delta: float) -> Certificate:
        return Certificate.none(f"{type(self).__name__} keeps no model that could bound the regret", delta)

    def _repeats(self, history: History) -> bool:
        """Whether this method may propose a known point of a finite space again, because its values are noisy."""
        return False

    def _keeps_apart(self, history: History, cube: Cube, step: int) -> bool:
        """Whether this ask keeps its distance from many points under way."""
        return self.traits.keeps_apart and not self.traits.model_free

    def _weighs_belief(self, history: History) -> bool:
        """Whether proposals for this history weigh the user's prior."""
        return self.traits.belief

    # -- for subclasses that keep what they learnt

    def _catch_up(self, history: History) -> None:
        """Brings what the method keeps up to date: `_update` is shown the values since the last call. A history that
        does not go on from the last one, or an interrupted call before this one, begins anew with `_begin`."""
        seen, self._seen = self._seen, None
        if seen is None or not history.extends(seen):
            seen = None
            self._begin()
        first = 0 if seen is None else len(seen)
        if first < len(history):
            with threads_for(self.traits.model_free):
                self._update(history, first)
        self._seen = history

    def _begin(self) -> None:  # noqa: B027 - a hook that may stay empty
        """Forgets all values."""

    def _update(self, history: History, first: int) -> None:  # noqa: B027 - a hook that may stay empty
        """Takes in the values from row `first` on; draws nothing at random but by keys of the history."""

    def _fixed_generator(self) -> np.random.Generator:
        """The generator for what is drawn once and kept for the whole run."""
        # 2**63: the step that keys what is drawn once for the whole run
        return keyed_generator(self.seed, 2**63)


# ---------------------------------------------------------------- one ask


def next_points(method: Method, history: History, n: int = 1, *, step: int, cube: Cube | None = None) -> Array:
    """n points to evaluate next, each beside those before it, n x d, canonical in the method's cube.

    step: the key of the first proposal's draws.
    cube: the part of the method's cube in which to propose, where coordinates are held.
    """
    whole_number(n=n)
    part, points = cube or method.cube, []
    with threads_for(method.traits.model_free):
        for i in range(n):
            rng = method._draws.at(int(step) + i)
            proposal = np.asarray(_believed(method, history, part, rng), dtype=np.float64).reshape(method.dim)
            x = part.allowed(proposal[None])[0]
            if len(history.pending) > SPREAD_FROM and method._keeps_apart(history, part, rng.step):
                x = _away_from_pending(x, history, part, rng)
            x = _distinct(x, history, part, rng)
            x = x if cube is None else method.cube.snap(x)  # pins may make other parts follow
            points.append(x)
            if i + 1 < n:
                history = history.with_pending(x)
    return np.array(points)


def gains_by_repeating(method: Method, history: History) -> bool:
    """Whether further values of known settings are worth having: noise was told or bounded, or values differ and no
    option says that they are exact."""
    exact = method._noisy is False and not (history.Yvar > 0).any()
    return method._repeats(history) or history.noise_bound > 0 or (not exact and history.values_differ)


def _believed(method: Method, history: History, cube: Cube, rng: Draws) -> Array:
    """The method's proposal or, for a method that cannot weigh a prior itself, now and then a draw from it, d."""
    if cube.belief is not None and not method._weighs_belief(history):
        draws = keyed_generator(method.seed, rng.step, Stream.BELIEF)
        if draws.random() < BELIEVED / (2.0 * BELIEVED + len(history)):
            return np.asarray(cube.belief.drawn(draws.random((1, cube.dim)))[0])
    return method.propose(history, cube, rng)


def _away_from_pending(x: Array, history: History, cube: Cube, rng: np.random.Generator) -> Array:
    """A canonical point near x (d) that keeps its distance from the many points under way; x itself where it does, is
    evaluated again on purpose, or has no line to move along."""
    free = ~cube.held(x)
    apart = room_between(x, history, int(free.sum()))
    if history.is_settled(x) or apart == 0.0:
        return x
    point = x
    # 64, 1.1: how often a point away from the pending ones is looked for, and how much further each time
    for step in range(64):
        if _distances(history.pending, point).min() >= apart:
            return point
        aside = np.where(free, rng.standard_normal(len(x)), 0.0)
        aside *= apart * 1.1**step / np.sqrt((aside**2).sum())
        point = cube.allowed((x + aside)[None])[0]
    return x


def room_between(x: Array, history: History, lines: int) -> float:
    """How far from all points under way the next one lies that was to be x (d), of which so many coordinates are free
    lines.

    Few workers refine one place together, which is worth their evaluations; many of them repeat it. Where values
    lie close to each other already, the next ones may lie closer: x has its neighbour number `lines` + 1 among them as
    far away as the values around it tell apart.
    """
    pending = len(history.pending)
    if pending <= SPREAD_FROM or lines == 0:
        return 0.0
    # 0.25: in few dimensions the distance is at most this share of what so many evenly spread points would have
    room: float = (1.0 - SPREAD_FROM / pending) * min(APART, 0.25 * pending ** (-1.0 / lines))
    if lines < len(history):
        nearest = np.partition(_distances(history.X, x), lines)[lines]
        # 0.25: beside values so far apart as this one's neighbours, points at half of that distance still tell
        # something new
        room = min(room, 0.25 * float(nearest))
    return room


def _distances(X: Array, x: Array) -> Array:
    """How far each of X (n x d) lies from x (d), n."""
    return np.asarray(np.sqrt(((X - x) ** 2).sum(axis=1)))


def _distinct(x: Array, history: History, cube: Cube, rng: np.random.Generator) -> Array:
    """Replaces a proposal x (d) that would waste an evaluation.

    A point is taken when it is under way or lies next to a failure. If x is taken, up to REDRAWS uniform draws are
    tried: the first that is new wins. If all free draws have values, one of them is returned, but only when x itself is
    known: a finite space may hold nothing else.
    """
    if not is_taken(history, x) or len(history.pending) + len(history.failed) >= cube.size:
        return x
    told: Array | None = None
    for _ in range(REDRAWS):
        other = cube.draw(rng)
        if not is_taken(history, other):
            if not history.is_known(other):
                return other
            told = other if told is None else told
    return x if told is None or not history.is_known(x) else told


def is_taken(history: History, x: Array) -> bool:
    """Whether the canonical point x (d) is under way, or an evaluation next to it failed: it would only fail again."""
    if history.is_pending(x):
        return True
    # 1e-3: how close, in every coordinate, a proposal may come to a failed point; the border between failures and
    # successes can still be traced finely
    return len(history.failed) > 0 and bool((np.abs(history.failed - x).max(axis=1) < 1e-3).any())


# ---------------------------------------------------------------- recipes


class _OfMethod:
    """An attribute that a recipe has from its method, while the class `Recipe` has its own."""

    def __init__(self, own: Any, found: Callable[[Recipe], Any]) -> None:
        self.own, self.found = own, found

    def __get__(self, recipe: Recipe | None, owner: type[Recipe]) -> Any:
        return self.own if recipe is None else self.found(recipe)


class Recipe:
    """A Method with its options and without a space: what users name and records store.

    `path` is "module:class", or a Method class itself. A recipe is called with options to make another: `GPUCB` is the
    default, `GPUCB(kappa=2)` the same with kappa = 2. It prints itself, compares equal to its like, and `build` makes
    the Method for a space, seed and budget. The method's module is imported on first use.
    """

    def __init__(self, name: str, path: str | type[Method], options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        """The name used on the command line and in records."""
        self._path = path
        self.options: dict[str, Any] = dict(options or {})

    @property
    def method(self) -> type[Method]:
        """The Method class, imported on first use."""
        if not isinstance(self._path, str):
            return self._path
        module, _, name = self._path.partition(":")
        found: type[Method] = getattr(importlib.import_module(module), name)
        return found

    @property
    def summary(self) -> str:
        """The first paragraph of the method's docstring, in one line."""
        return " ".join((inspect.getdoc(self.method) or "").split("\n\n")[0].split()).rstrip(".")

    @property
    def signature(self) -> inspect.Signature:
        """The options of the method with their defaults; the cube, seed and budget come with a run."""
        own = inspect.signature(self.method)
        options = [p for p in own.parameters.values() if p.name not in ("cube", "seed", "budget")]
        return inspect.Signature(options)

    def __call__(self, *unnamed: Any, **options: Any) -> Self:
        known = self.signature.parameters
        if unnamed:
            raise TypeError(f"options of {self._title} are given by name ({', '.join(known)}), got {unnamed[0]!r}")
        for option in options:
            if option not in known:
                raise TypeError(f"{self._title} has no option {option!r}; it takes {', '.join(known) or 'none'}")
        return type(self)(self.name, self._path, {**self.options, **options})

    def build(
        self,
        space: int | Cube | Space,
        *,
        seed: int,
        budget: int | None = None,
        sign: float = 1.0,
        noisy: bool | None = None,
    ) -> Method:
        """The Method for a space, whose user sees sign * f and may know whether values are noisy; for a number of
        coordinates or a bare cube there is no user to bind to."""
        cube = space.cube(self.method.traits.choices) if isinstance(space, Space) else space
        method = self.method(cube, seed=seed, budget=budget, **self.options)
        if isinstance(space, Space):
            method.bind(space, sign)
        if method._noisy is None:
            method._noisy = noisy
        return method

    @property
    def _title(self) -> str:
        return self._path.rpartition(":")[2] if isinstance(self._path, str) else self._path.__name__

    def __str__(self) -> str:
        """As people name it: auto, gp-ucb(verify=2)."""
        options = ", ".join(f"{option}={value!r}" for option, value in self.options.items())
        return f"{self.name}({options})" if options else self.name

    def __repr__(self) -> str:
        return f"{self._title}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"

    def __eq__(self, other: object) -> bool:
        """Recipes are equal by content: arrays by their numbers, functions by identity."""
        if not isinstance(other, Recipe) or (self.name, self._path) != (other.name, other._path):
            return False
        return same_content(self.options, other.options)

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.options))))

    def to_json(self) -> dict[str, Any]:
        """The name and the options; options that are no plain values stand as their fingerprints, to be compared
        with."""
        return {"name": self.name, "options": {option: in_plain(value) for option, value in self.options.items()}}

    def _help(self) -> str:
        return f"{self._title}{self.signature}\n\n{inspect.getdoc(self.method) or ''}"

    __signature__ = _OfMethod(None, lambda recipe: recipe.signature)


Recipe.__doc__ = _OfMethod(Recipe.__doc__, Recipe._help)  # type: ignore[assignment] # help(GPUCB) shows its options
