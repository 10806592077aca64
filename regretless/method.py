"""The contract every optimiser keeps: `Method`, and the `Recipe` that builds it.

A method maximises on the unit cube; `Optimizer` and `Problem` turn signs and units. A proposal is a function of
(history, seed, step). The history is the sequence of told points and the set of points that were asked and not yet
told. The step is the number of the ask, and every random draw comes from a generator keyed on (seed, step). So a fresh
method that is told the same history proposes the same points, bit for bit. Runs resume by this law, and workers that
share a storage agree by it.

To write a method, subclass `Method`, give `_propose`, and perhaps `_update`, `_recommend`, `_certificate`, `_state` and
`_load`:

    class Coin(Method):
        def _propose(self, rng):
            return rng.random(self.dim)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regretless.certificate import Certificate
from regretless.noise import shows_noise
from regretless.options import in_range, whole_number
from regretless.parameters import Array
from regretless.recipe import Recipe as Recipe
from regretless.rows import Rows, checked_history
from regretless.space import Cube, Encoding, Space
from regretless.streams import Draws, Stream
from regretless.streams import checked_seed as checked_seed
from regretless.streams import keyed_generator as keyed_generator
from regretless.threads import threads_for

State: TypeAlias = dict[str, Any]
"""Names to arrays, numbers, text, truth values, None or further states: what can be written without a pickle."""

REDRAWS = 64
"""Fresh uniform draws tried when a proposal coincides with a pending or failed point; only small finite spaces ever
need more than one."""
FAILED_NEARBY = 1e-3
"""How close, in every coordinate, a proposal may come to a failed point; the border between failures and successes can
still be traced finely."""
LARGEST = 1e307
"""Methods see values beyond this as this: differences and sums of a few of them would leave the range of floats, which
ends at 1.8e308."""
BELIEVED = 5
"""A prior decides 5 / (10 + n) of the proposals after n values of a method that cannot weigh it; chosen by hand."""
FIXED_DRAWS = 2**63
"""The step that keys what is drawn once for the whole run."""

# ---------------------------------------------------------------- method


class Method(ABC):
    """An optimiser of one black box on the unit cube, maximising; see the module's text for the laws it keeps.

    Args:
        cube: the number of coordinates, or a `Cube` that also says which of them are discrete.
        seed: keys every random draw.
        budget: the number of evaluations planned, when known.
    """

    choices: ClassVar[Encoding] = "shares"
    """How this method wants choices encoded."""
    noise_bound: float = 0.0
    """How far a told value may lie from the noiseless one, where the caller knows that; 0: nothing is known."""
    known_noise: bool | None = None
    """Whether the values are noisy, where options say so (`stated_noise`); None: the values have to show it."""
    max_dim: ClassVar[int] = 1_000_000
    """The largest dimension this method accepts."""
    model_free: ClassVar[bool] = False
    """Whether this is a floor to measure from, which learns nothing and need not beat random search."""
    models_constraints: ClassVar[bool] = False
    """Whether this method learns the values of constraints; others are told infeasible points as failures."""
    weighs_cost: ClassVar[bool] = False
    """Whether this method can weigh what a point promises by what it costs."""
    uses_outside: bool = False
    """Whether this method's model uses values at points outside the cube."""
    weighs_belief: bool = False
    """Whether this method weighs its acquisition by where the user expects good values."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Former names of options, and the present ones; `Recipe` answers a former name with the present one."""
    moved: ClassVar[Mapping[str, str]] = {}
    """Former options that belong to another method now, and the name of that method."""
    version: ClassVar[int] = 1
    """Grows when the default of this name becomes another method or proposes other points; files of earlier versions
    are refused."""
    former: ClassVar[str] = ""
    """The present name of what the default was before `version`, if it has one."""

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        self.cube = cube if isinstance(cube, Cube) else Cube.box(cube)
        self.dim = self.cube.dim
        if self.dim > self.max_dim:
            raise ValueError(f"{type(self).__name__} works in at most {self.max_dim} dimensions, got {self.dim}")
        self.seed = checked_seed(seed)
        whole_number(also=(None,), budget=budget)
        self.budget = None if budget is None else int(budget)
        self.n_constraints, self.has_cost, self._n_sides = 0, False, 0
        """How many values of constraints are told with every value, and whether a cost is."""
        self.step = 0
        """The number of asks so far: the key of the next proposal."""
        self._draws = Draws(self.seed)
        self._told = Rows(self.dim)
        self._failed = Rows(self.dim)
        self._outside = Rows(self.dim)
        self._pending: list[Array] = []
        self._pending_keys: list[bytes] = []
        self._settled: set[bytes] = set()
        """Identities of the points told or failed."""
        self._noise_shown: tuple[int, bool] = 0, False
        """After how many values noise was looked for, and whether there was any."""

    # -- what a subclass sees

    @property
    def X(self) -> Array:
        """Told points with finite values in the order told, n x d."""
        return self._told.X

    @property
    def y(self) -> Array:
        """Their values, n."""
        return self._told.column(0)

    @property
    def yvar(self) -> Array:
        """The known noise variance of each value, NaN where unknown, n."""
        return self._told.column(1)

    @property
    def constraints(self) -> Array:
        """The values of the constraints at the told points, at most 0 where they hold, n x m."""
        return self._told.columns(2, 2 + self.n_constraints)

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether all constraints hold at each told point, n."""
        return np.asarray((self.constraints <= 0).all(axis=1))

    def best_row(self) -> int:
        """The row of the best value told among feasible points; while there are none, of the point that breaks the
        constraints least, each in units of its median size."""
        if self.n_constraints == 0:
            return int(np.argmax(self.y))
        if self.feasible.any():
            return int(np.argmax(np.where(self.feasible, self.y, -np.inf)))
        sizes = np.median(np.abs(self.constraints), axis=0)
        broken: Array = np.maximum(self.constraints, 0.0) / np.where(sizes > 0, sizes, 1.0)
        return int(np.argmin(broken.sum(axis=1)))

    @property
    def costs(self) -> Array:
        """What the evaluation of each told point cost, n; without costs there are none."""
        return self._told.column(2 + self.n_constraints)

    @property
    def basis(self) -> tuple[Array, Array, Array]:
        """Points, values and noise variances for a model: what lies outside the cube, then what was told."""
        if len(self._outside) == 0:
            return self.X, self.y, self.yvar
        pairs = zip((self._outside.X, self._outside.column(0), self._outside.column(1)), (self.X, self.y, self.yvar))
        X, y, yvar = (np.concatenate(pair) for pair in pairs)
        return X, y, yvar

    @property
    def failed(self) -> Array:
        """Points whose evaluation failed, in the order told, k x d."""
        return self._failed.X

    @property
    def pending(self) -> Array:
        """Points asked and neither told nor forgotten, in the order asked, p x d."""
        return np.array(self._pending).reshape(-1, self.dim)

    @property
    def known(self) -> Array:
        """Points told, failed or pending, in this order, m x d."""
        return np.concatenate([self.X, self.failed, self.pending])

    def is_known(self, x: Array) -> bool:
        """Whether the point x (d) was told, failed or is pending: its identity is looked up, no numbers are
        compared."""
        key = self.cube.key(x)
        return key in self._settled or key in self._pending_keys

    @property
    def why(self) -> str:
        """Why the method searches as it does at present, for methods that choose; else empty."""
        return ""

    def fixed_generator(self) -> np.random.Generator:
        """The generator for what is drawn once and kept for the whole run."""
        return keyed_generator(self.seed, FIXED_DRAWS)

    # -- the contract

    def expect(self, *, constraints: int = 0, cost: bool = False) -> None:
        """Says, before anything is told, how many constraints, and whether a cost, come with every value."""
        if (constraints and not self.models_constraints) or (cost and not self.weighs_cost):
            raise ValueError(f"{type(self).__name__} learns no {'constraints' if constraints else 'costs'}")
        self.n_constraints, self.has_cost, self._n_sides = constraints, cost, constraints + cost
        self._told = Rows(self.dim, 2 + constraints + cost)
        self._expect()

    def ask(self, n: int = 1, *, step: int | None = None, pins: Mapping[int, float] | None = None) -> Array:
        """n points to evaluate next, n x d; legal at any time. They are pending until told or forgotten.

        `step` sets the key of the first proposal; a caller that numbers its own trials passes the number, others leave
        it. `pins` holds coordinates at canonical places.
        """
        whole_number(n=n)
        if step is not None:
            self.step = int(step)
        first, whole = len(self._pending), self.cube
        self.cube = whole.pinned(pins) if pins else whole
        try:
            with threads_for(self.model_free):
                for _ in range(n):
                    rng = self._draws.at(self.step)
                    proposal = np.asarray(self._believed(rng), dtype=np.float64).reshape(self.dim)
                    x = self._distinct(self.cube.allowed(proposal[None])[0], rng)
                    self._pend(whole.snap(x) if pins else x, canonical=True)  # pins may make other parts follow
                    self.step += 1
        finally:
            self.cube = whole
        return np.array(self._pending[first:])

    def _believed(self, rng: np.random.Generator) -> Array:
        """The method's proposal or, for a method that cannot weigh a prior itself, now and then a draw from it."""
        if self.cube.belief is not None and not self.weighs_belief:
            draws = keyed_generator(self.seed, self.step, Stream.BELIEF)
            if draws.random() < BELIEVED / (2.0 * BELIEVED + len(self.y)):
                return np.asarray(self.cube.belief.drawn(draws.random((1, self.dim)))[0])
        return self._propose(rng)

    def tell(
        self, X: ArrayLike, y: ArrayLike, *, yvar: ArrayLike | None = None, sides: ArrayLike | None = None
    ) -> None:
        """Values y (n) of the points X (n x d), asked or not; NaN and infinite values mean that the evaluation failed.

        yvar: the known noise variance of each value, where there is one.
        sides: what `expect` announced: the values of the constraints and then the cost, n x k.
        """
        points, values, variances = self._checked(X, y, yvar)
        good = np.isfinite(values)
        told = sides is not None or good.any()  # a failure needs none
        more = self._checked_sides(sides, len(points)) if told else np.empty((len(points), self._n_sides))
        for x in points:
            self._settled.add(self._unpend(x))
        if not good.all():
            self._failed.append(points[~good])
            points, values, variances = points[good], values[good], None if variances is None else variances[good]
            more = more[good]
        if len(values):
            values = np.clip(values, -LARGEST, LARGEST)
            self._told.append(points, values, np.nan if variances is None else variances, *more.T)
            with threads_for(self.model_free):
                self._update(points, values)

    def inform(self, X: Array, y: Array, yvar: Array) -> None:
        """Values y (n) known at points X (n x d) outside the cube, for models; nothing is proposed there."""
        self._outside.append(np.asarray(X, dtype=np.float64), np.clip(y, -LARGEST, LARGEST), yvar)

    def forget(self, X: ArrayLike) -> None:
        """Drops pending points that will never be told (crashed, timed out); points that are not pending are
        ignored."""
        for x in self._points(X):
            self._unpend(x)

    def wait_for(self, X: ArrayLike) -> None:
        """Adds points that somebody else has asked and not yet told, so that proposals keep away from them."""
        for x in self._points(X):
            self._pend(x.copy())

    def follow(self, other: Method) -> None:
        """Reads the history of another method from now on, so that this one can propose and recommend in its place;
        only legal before anything was told."""
        if len(self.y) or len(self.failed) or self._pending:
            raise RuntimeError("follow() needs a fresh method; this one has been used")
        self._told, self._failed, self._settled = other._told, other._failed, other._settled
        self._pending, self._pending_keys = other._pending, other._pending_keys

    def shows_noise(self) -> bool:
        """Whether the values are noisy, as far as told variances, options or repeated settings show it."""
        if self.noise_bound > 0:
            return True
        if self._noise_shown[0] != len(self.y):
            known = None if (self.yvar > 0).any() else self.known_noise
            self._noise_shown = len(self.y), shows_noise(self.X, self.y, self.yvar) if known is None else known
        return self._noise_shown[1]

    def gains_by_repeating(self) -> bool:
        """Whether further values of known settings are worth having: noise was told or bounded, or values differ and no
        option says that they are exact."""
        exact = self.known_noise is False and not (self.yvar > 0).any()
        return self._repeats or self.noise_bound > 0 or (not exact and shows_noise(self.X, self.y, self.yvar))

    def recommend(self) -> Array:
        """The point to report, d: the best value seen or, when the values show noise, the best by the model, because
        the best value seen may be the luckiest."""
        if len(self.y) == 0:
            raise RuntimeError("recommend() needs at least one successful evaluation; none has been told yet")
        if not self.shows_noise():
            return np.array(self.X[self.best_row()])
        with threads_for(self.model_free):
            best = np.asarray(self._recommend(), dtype=np.float64).reshape(self.dim)
        return self.cube.snap(best)

    def certificate(self, delta: float = 0.05) -> Certificate:
        """Bounds on f* - f(recommend()) that hold with probability 1 - delta, or "not certified" and why."""
        in_range("(0, 1)", delta=delta)
        if len(self.y) == 0:
            return Certificate.none("nothing has been evaluated yet", delta)
        if np.abs(self.y).max() >= LARGEST:
            return Certificate.none(f"values of {LARGEST:g} and more are at the end of the range of floats", delta)
        with threads_for(self.model_free):
            return self._certificate(delta)

    def state_dict(self) -> State:
        """Everything that `load_state_dict` needs to go on as if never interrupted."""
        sides = {"sides": self._told.columns(2, 2 + self._n_sides).copy()} if self._n_sides else {}
        if len(self._outside):
            sides["outside"] = np.concatenate([self._outside.X, self._outside.columns(0, 2)], axis=1)
        return {
            "X": self.X.copy(), "y": self.y.copy(), "yvar": self.yvar.copy(), "failed": self.failed.copy(), **sides,
            "pending": self.pending.copy(), "step": self.step, "own": self._state(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a state of a Method with the same options, seed and cube; only legal before anything was told."""
        if len(self.y) or len(self.failed) or self._pending:
            raise RuntimeError("load_state_dict() needs a fresh method; this one has been used")
        X, y, yvar, failed, pending, sides, outside = checked_history(state, self.dim, self._n_sides)
        self._outside.append(outside[:, :-2], outside[:, -2], outside[:, -1])
        self._failed.append(failed)
        self._told.append(X, y, yvar, *sides.T)
        for x in pending:
            self._pend(x)
        self._settled.update(x.tobytes() for x in self.cube.snap(np.concatenate([X, failed])))
        self.step = state["step"]
        with threads_for(self.model_free):
            self._load(state["own"])

    # -- what a subclass gives

    def bind(self, space: Space, sign: float) -> None:  # noqa: B027 - a hook that may stay empty
        """Shows the user's own space, and the sign that turns told values into the user's, to methods whose model works
        in those units."""

    def _expect(self) -> None:  # noqa: B027 - a hook that may stay empty
        """Makes ready for the constraints and costs that `expect` announced."""

    @abstractmethod
    def _propose(self, rng: np.random.Generator) -> Array:
        """The next point, d, from the history, the pending points and rng alone; rng is not kept beyond the call."""

    def _update(self, X: Array, y: Array) -> None:  # noqa: B027 - a hook that may stay empty
        """Takes in new finite values (already in self.X and self.y); draws nothing at random."""

    @property
    def _repeats(self) -> bool:
        """Whether this method may propose a known point of a finite space again, because its values are noisy."""
        return False

    def _recommend(self) -> Array:
        """The point to report, d; called with at least one told value when the values are noisy."""
        best: Array = self.X[self.best_row()]
        return best

    def _certificate(self, delta: float) -> Certificate:
        return Certificate.none(f"{type(self).__name__} keeps no model that could bound the regret", delta)

    def _state(self) -> State:
        """State beyond the history; a method whose state follows from the history alone has none."""
        return {}

    def _load(self, state: Mapping[str, Any]) -> None:
        """Takes over what `_state` gave, with the history in place; by default the history is taken in as if told just
        now."""
        if len(self.y):
            self._update(self.X, self.y)

    # -- inside

    def _distinct(self, x: Array, rng: np.random.Generator) -> Array:
        """x, or a fresh draw when x is already pending or next to a failure and the space has room for another; a draw
        that was told is taken only where x is known too, because a finite space may hold nothing else."""
        if not self._is_taken(x) or len(self._pending) + len(self._failed) >= self.cube.size:
            return x
        told: Array | None = None
        for _ in range(REDRAWS):
            other = self.cube.draw(rng)
            if not self._is_taken(other):
                if not self.is_known(other):
                    return other
                told = other if told is None else told
        return x if told is None or not self.is_known(x) else told

    def _is_taken(self, x: Array) -> bool:
        """Whether x is pending, or an evaluation next to it failed: it would only fail again."""
        if self._pending and self.cube.key(x) in self._pending_keys:
            return True
        return len(self._failed) > 0 and bool((np.abs(self._failed.X - x).max(axis=1) < FAILED_NEARBY).any())

    def _pend(self, x: Array, *, canonical: bool = False) -> None:
        self._pending.append(x)
        self._pending_keys.append(x.tobytes() if canonical else self.cube.key(x))

    def _unpend(self, x: Array) -> bytes:
        """Takes x off the pending points, if it is one of them; returns its identity."""
        key = x.tobytes()
        if key not in self._pending_keys:  # it may still be one of them in another guise
            key = self.cube.key(x)
        if key in self._pending_keys:
            i = self._pending_keys.index(key)
            del self._pending[i], self._pending_keys[i]
        return key

    def _points(self, X: ArrayLike) -> Array:
        points = np.asarray(X, dtype=np.float64)
        if points.ndim < 2:
            points = points.reshape(1, -1)
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"X must be n x {self.dim}, got shape {points.shape}")
        if len(points) and not (
            np.minimum.reduce(points, axis=None) >= 0 and np.maximum.reduce(points, axis=None) <= 1
        ):  # NaN fails both
            raise ValueError("X must lie in the unit cube; a coordinate is outside [0, 1] or NaN")
        return points

    def _checked_sides(self, sides: ArrayLike | None, n: int) -> Array:
        """Values of constraints and costs, n x k; costs are positive."""
        more = np.empty((n, 0)) if sides is None else np.asarray(sides, dtype=np.float64).reshape(n, -1)
        if more.shape[1] != self._n_sides:
            raise ValueError(
                f"every value comes with {self.n_constraints} constraints{' and a cost' * self.has_cost}, got "
                f"{more.shape[1]} numbers"
            )
        return more

    def _checked(self, X: ArrayLike, y: ArrayLike, yvar: ArrayLike | None) -> tuple[Array, Array, Array | None]:
        points = self._points(X)
        n = len(points)
        values = np.asarray(y, dtype=np.float64)
        if values.ndim == 0:
            values = values.reshape(1)
        if values.shape != (n,):
            raise ValueError(f"y must hold one value per point: X has {n} points, y has shape {values.shape}")
        if yvar is None:
            return points, values, None
        var = np.atleast_1d(np.asarray(yvar, dtype=np.float64))
        if var.shape != (n,):
            raise ValueError(f"yvar must hold one variance per point: X has {n} points, yvar has shape {var.shape}")
        if not ((var >= 0) | np.isnan(var)).all():
            raise ValueError(f"yvar must not be negative, got {np.nanmin(var)}")
        return points, values, np.where(np.isinf(var), np.nan, var)
