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

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from regretless.certificate import Certificate
from regretless.fingerprint import fingerprint, same_content
from regretless.noise import shows_noise
from regretless.parameters import Array
from regretless.rows import Rows
from regretless.space import Cube, Encoding, Space
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
FORMER_PRESETS = {"practical": "default"}
"""Former names of presets, and the present ones."""
FIXED_DRAWS = 2**63
"""The step that keys what is drawn once for the whole run."""


# ---------------------------------------------------------------- randomness


def keyed_generator(seed: int, step: int, stream: int = 0) -> np.random.Generator:
    """The generator of (seed, step, stream): counter-based, so any step can be had without the ones before."""
    key = np.array([seed & 0xFFFFFFFFFFFFFFFF, step & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, stream], dtype=np.uint64)))


def checked_seed(seed: Any) -> int:
    """The seed, if it is one."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
    return int(seed)


class _Draws:
    """One generator that is set to the start of any step: a tenth of the cost of a new one, and the numbers of
    `keyed_generator(seed, step)`."""

    def __init__(self, seed: int) -> None:
        self._generator = keyed_generator(seed, 0)
        self._start: Any = self._generator.bit_generator.state

    def at(self, step: int) -> np.random.Generator:
        """The generator of this step; the one of an earlier step is no longer valid."""
        self._start["state"]["key"][1] = step & 0xFFFFFFFFFFFFFFFF
        self._generator.bit_generator.state = self._start
        return self._generator


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
    max_dim: ClassVar[int] = 1_000_000
    """The largest dimension this method accepts."""
    model_free: ClassVar[bool] = False
    """Whether this is a floor to measure from, which learns nothing and need not beat random search."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Former names of options, and the present ones; `Recipe` answers a former name with the present one."""

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        self.cube = cube if isinstance(cube, Cube) else Cube.box(cube)
        self.dim = self.cube.dim
        if self.dim > self.max_dim:
            raise ValueError(f"{type(self).__name__} works in at most {self.max_dim} dimensions, got {self.dim}")
        self.seed = checked_seed(seed)
        if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget < 1):
            raise ValueError(f"budget must be a whole number of at least 1 or None, got {budget!r}")
        self.budget = None if budget is None else int(budget)
        self.step = 0
        """The number of asks so far: the key of the next proposal."""
        self._draws = _Draws(self.seed)
        self._told = Rows(self.dim)
        self._failed = Rows(self.dim)
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

    def ask(self, n: int = 1, *, step: int | None = None) -> Array:
        """n points to evaluate next, n x d; legal at any time. They are pending until told or forgotten.

        `step` sets the key of the first proposal; a caller that numbers its own trials passes the number, others leave
        it.
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n must be a whole number of at least 1, got {n!r}")
        if step is not None:
            self.step = int(step)
        first = len(self._pending)
        with threads_for(self.model_free):
            for _ in range(n):
                rng = self._draws.at(self.step)
                proposal = np.asarray(self._propose(rng), dtype=np.float64).reshape(self.dim)
                self._pend(self._distinct(self.cube.snap(proposal), rng), canonical=True)
                self.step += 1
        return np.array(self._pending[first:])

    def tell(self, X: ArrayLike, y: ArrayLike, *, yvar: ArrayLike | None = None) -> None:
        """Values y (n) of the points X (n x d), asked or not; NaN and infinite values mean that the evaluation failed.

        yvar: the known noise variance of each value, where there is one.
        """
        points, values, variances = self._checked(X, y, yvar)
        for x in points:
            self._settled.add(self._unpend(x))
        good = np.isfinite(values)
        if not good.all():
            self._failed.append(points[~good])
            points, values, variances = points[good], values[good], None if variances is None else variances[good]
        if len(values):
            values = np.clip(values, -LARGEST, LARGEST)
            self._told.append(points, values, np.nan if variances is None else variances)
            with threads_for(self.model_free):
                self._update(points, values)

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
        if self._noise_shown[0] != len(self.y):
            known = None if (self.yvar > 0).any() else self._known_noise()
            self._noise_shown = len(self.y), shows_noise(self.X, self.y, self.yvar) if known is None else known
        return self._noise_shown[1]

    def recommend(self) -> Array:
        """The point to report, d: the best value seen or, when the values show noise, the best by the model, because
        the best value seen may be the luckiest."""
        if len(self.y) == 0:
            raise RuntimeError("recommend() needs at least one successful evaluation; none has been told yet")
        if not self.shows_noise():
            return np.array(self.X[int(np.argmax(self.y))])
        with threads_for(self.model_free):
            best = np.asarray(self._recommend(), dtype=np.float64).reshape(self.dim)
        return self.cube.snap(best)

    def certificate(self, delta: float = 0.05) -> Certificate:
        """Bounds on f* - f(recommend()) that hold with probability 1 - delta, or "not certified" and why."""
        if not 0 < delta < 1:
            raise ValueError(f"delta must be between 0 and 1, got {delta!r}")
        if len(self.y) == 0:
            return Certificate.none("nothing has been evaluated yet", delta)
        if np.abs(self.y).max() >= LARGEST:
            return Certificate.none(f"values of {LARGEST:g} and more are at the end of the range of floats", delta)
        with threads_for(self.model_free):
            return self._certificate(delta)

    def state_dict(self) -> State:
        """Everything that `load_state_dict` needs to go on as if never interrupted."""
        return {
            "X": self.X.copy(), "y": self.y.copy(), "yvar": self.yvar.copy(), "failed": self.failed.copy(),
            "pending": self.pending.copy(), "step": self.step, "own": self._state(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a state of a Method with the same options, seed and cube; only legal before anything was told."""
        if len(self.y) or len(self.failed) or self._pending:
            raise RuntimeError("load_state_dict() needs a fresh method; this one has been used")
        try:
            X, y, yvar, failed, pending = (state[k] for k in ("X", "y", "yvar", "failed", "pending"))
            step, own = state["step"], state["own"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of a method: {error!r}") from None
        if any(not isinstance(a, np.ndarray) or a.dtype != np.float64 for a in (X, y, yvar, failed, pending)):
            raise ValueError("the state is damaged: points, values and variances must be arrays of float64")
        if isinstance(step, bool) or not isinstance(step, int) or not isinstance(own, Mapping):
            raise ValueError(f"the state is damaged: its step is {step!r}, its own part a {type(own).__name__}")
        n = y.size
        if (
            y.ndim != 1
            or X.shape != (n, self.dim)
            or yvar.shape != (n,)
            or failed.shape[1:] != (self.dim,)
            or pending.shape[1:] != (self.dim,)
        ):
            raise ValueError(f"the state holds {X.shape[-1] if X.ndim else 0} coordinates, this method has {self.dim}")
        points = np.concatenate([X, failed, pending])
        if not ((points >= 0) & (points <= 1)).all():  # NaN is neither
            raise ValueError("the state is damaged: every point must lie in the unit cube")
        if not np.isfinite(y).all() or (yvar < 0).any() or step < 0:
            raise ValueError("the state is damaged: values must be finite, variances and the step at least 0")
        self._failed.append(failed)
        self._told.append(X, y, yvar)
        for x in pending:
            self._pend(x)
        self._settled.update(self.cube.key(x) for x in (*X, *failed))
        self.step = step
        with threads_for(self.model_free):
            self._load(own)

    # -- what a subclass gives

    def bind(self, space: Space, sign: float) -> None:  # noqa: B027 - a hook that may stay empty
        """Shows the user's own space, and the sign that turns told values into the user's, to methods whose model works
        in those units."""

    @abstractmethod
    def _propose(self, rng: np.random.Generator) -> Array:
        """The next point, d, from the history, the pending points and rng alone; rng is not kept beyond the call."""

    def _update(self, X: Array, y: Array) -> None:  # noqa: B027 - a hook that may stay empty
        """Takes in new finite values (already in self.X and self.y); draws nothing at random."""

    def _known_noise(self) -> bool | None:
        """Whether the values are noisy, where options say so (`stated_noise`); None: the values have to show it."""
        return None

    def _recommend(self) -> Array:
        """The point to report, d; called with at least one told value when the values are noisy."""
        best: Array = self.X[int(np.argmax(self.y))]
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
        """x, or a fresh draw when x is already pending or next to a failure and the space has room for another."""
        if not self._is_taken(x) or len(self._pending) + len(self._failed) >= self.cube.size:
            return x
        for _ in range(REDRAWS):
            other = self.cube.snap(rng.random(self.dim))
            if not self._is_taken(other):
                return other
        return x

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


# ---------------------------------------------------------------- recipes


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

    def __call__(self, **options: Any) -> Recipe:
        known = [
            p.name
            for p in inspect.signature(self.method).parameters.values()
            if p.name not in ("cube", "seed", "budget")
        ]
        for option in options:
            if option in self.method.renamed:
                raise TypeError(f"{self._title}: the option {option!r} is called {self.method.renamed[option]!r}")
            if option == "preset" and options[option] in FORMER_PRESETS:
                now = FORMER_PRESETS[options[option]]
                raise ValueError(f"{self._title}: the preset {options[option]!r} is called {now!r}")
            if option not in known:
                raise TypeError(f"{self._title} has no option {option!r}; it takes {', '.join(known) or 'none'}")
        return Recipe(self.name, self._path, {**self.options, **options})

    def build(self, space: int | Cube | Space, *, seed: int, budget: int | None = None, sign: float = 1.0) -> Method:
        """The Method for a space, whose user sees sign * f; for a number of coordinates or a bare cube there is no user
        to bind to."""
        cube = space.cube(self.method.choices) if isinstance(space, Space) else space
        method = self.method(cube, seed=seed, budget=budget, **self.options)
        if isinstance(space, Space):
            method.bind(space, sign)
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
        plain = {
            k: v if v is None or type(v) in (str, int, float, bool) else {"fingerprint": fingerprint(v)}
            for k, v in self.options.items()
        }
        return {"name": self.name, "options": plain}
