"""From told values to a fitted Gaussian process: clipping, standardisation, the schedule of fits and pending points, in
one place.

`Surrogate.gp(X, y, yvar, pending)` is a pure function of its arguments (a cache only saves time), and its arithmetic is
defined by the history alone:
- Hyper-parameters are fitted at the scheduled sizes s_0 = 1 < s_1 < ..., each gap a small share of the size. Fit k
  starts from fit k - 1, except that some are fresh and know nothing of those before (`is_fresh`): a replay needs few
  fits, and a poor optimum is left again.
- At a scheduled size the covariance is factorised in full; values told since are appended row by row.
So telling one by one, telling in bulk and replaying a stored history give the same posterior bit for bit. A saved run
takes its latest fit along (`latest_fit`, `take_fit`), so that loading it costs one factorisation and no fit.

Values are to be maximised. Low ones are raised to 2 median - max: a value far below the median says where not to look,
and how far below it lies would only drown the rest. The mean, the scale and the signal variance are then recomputed in
O(n^2) for every n; only where a noise variance is known, which is an absolute quantity, do the constants stay as they
were at the last scheduled size.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from regretless.gp.fit import MANY, Prior, fit
from regretless.gp.frame import turn_axes
from regretless.gp.posterior import GP, Factor, Hyper, Kernel, Kind, in_units_of, relative_noise
from regretless.method import LARGEST, State
from regretless.parameters import Array
from regretless.space import Cube

TURN_EVERY = 5
"""Every fifth scheduled fit may turn the axes, because a turn costs up to two more fits."""
TURNED_DIMS = (3, 20)
"""The dimensions in which axes are turned: in the plane it gained nothing (docs/gp-engine.md), and in many dimensions
the directions are not known well enough from affordable data."""
FRESH_EVERY = 10
"""Every tenth scheduled fit starts afresh, up to MANY values; a fresh fit costs up to five warm ones there."""
FRESH_EVERY_LATE = 3
"""Beyond MANY values every third one does: a fresh fit costs little more than a warm one there, and a history told in
bulk is then replayed in three fits."""
GAP = 16
"""A scheduled size is followed by the one larger by 1/GAP of it, at least 1: every tell up to 32, every sixth at 100;
fits at every 1/25 gained nothing (docs/gp-engine.md)."""
ISOTROPIC_ABOVE = 100
"""The dimension beyond which a length-scale per coordinate is no longer fitted by default."""
QUADRATIC_UP_TO = 20
"""The largest dimension in which the quadratic trend is used by default; in 100 it loses (docs/gp-engine.md)."""
WARM_ROUNDS, FRESH_ROUNDS = 15, 20
"""Evaluations of the likelihood in a fit that starts from the last one, and for each stage of a fresh one; a warm start
is close to its optimum."""
LEAST_SCALE = float(np.finfo(np.float64).tiny)
"""The least scale of values, the smallest number with all its digits: one can divide by it."""

SIZES = [1]
"""The scheduled sizes s_0, s_1, ... as far as anybody asked."""


def scheduled(n: int) -> tuple[int, int]:
    """The index k and size s_k of the last scheduled fit for n >= 1 values."""
    while SIZES[-1] <= n:
        SIZES.append(SIZES[-1] + max(1, SIZES[-1] // GAP))
    k = bisect.bisect_right(SIZES, n) - 1
    return k, SIZES[k]


def is_fresh(k: int) -> bool:
    """Whether scheduled fit k knows nothing of those before it."""
    return k % (FRESH_EVERY if SIZES[k] <= MANY else FRESH_EVERY_LATE) == 0


def agreeing_values(a: tuple[Array, Array, Array], b: tuple[Array, Array, Array]) -> int:
    """The number of first values in which two histories (points, values, noise variances) agree."""
    common = min(len(a[1]), len(b[1]))
    same = (a[0][:common] == b[0][:common]).all(axis=1) & (a[1][:common] == b[1][:common])
    same &= (a[2][:common] == b[2][:common]) | (np.isnan(a[2][:common]) & np.isnan(b[2][:common]))
    return common if same.all() else int(np.argmin(same))


def tamed(y: Array) -> Array:
    """y with values below 2 median - max raised to it (n); left alone when more than half of the values equal the
    best."""
    middle, top = float(np.median(y)), float(y.max())
    return np.maximum(y, middle - (top - middle)) if top > middle else y


def softened(told: Array, y: Array) -> tuple[Array, Array]:
    """Values y (k) with low ones drawn in, and the slope of that map at each (k).

    y itself above the median c of the told values, c - s log(1 + (c - y) / s) below it, s = max - c. How far below the
    median a value lies says little about the optimum, and a long tail of such values drowns the rest.
    """
    middle, top = float(np.median(told)), float(told.max())
    span = top - middle
    if not span > 1e-12 * (abs(top) + abs(middle)):
        return np.array(y), np.ones(len(y))
    below = np.maximum(middle - y, 0.0) / span
    return np.where(y < middle, middle - span * np.log1p(below), y), 1.0 / (1.0 + below)


def standardisation(y: Array) -> tuple[float, float]:
    """Offset and scale that bring y to mean 0 and variance 1; the scale of constant values is their size or 1."""
    size = float(np.abs(y).max())
    if size == 0.0:
        return 0.0, 1.0
    unit = y / size  # so that neither 1e300 nor 1e-300 leaves the range of floats
    offset, spread = float(unit.mean()), float(unit.std())
    return offset * size, max((spread if spread > 1e-12 else 1.0) * size, LEAST_SCALE)


def near_one(y: Array) -> Array:
    """y times a power of two that brings its largest size near 1, n: an exact scaling, after which squares and sums
    stay in the range of floats."""
    scaled: Array = np.ldexp(y, -math.frexp(float(np.abs(y).max(initial=0.0)))[1])
    return scaled


class Surrogate:
    """A Gaussian process on a cube, fitted to a history; see the module's text.

    Args:
        cube: what is known of the space; choices get the Hamming part of the kernel.
        kernel: "matern52" or "se".
        ard: one length-scale per coordinate; None: yes up to 100 dimensions.
        quadratic: add the quadratic trend; None: up to 20 dimensions.
        noise_var: a known noise variance of all values in their own units, or None to fit it; values told with their
            own variance keep that.
        tame: clip low values before fitting.
        soften: model `softened` values instead.
        rotate: let every fifth fit turn the axes of the length-scales, where that explains the values better (see
            `frame`).
        shorten: the posterior has the fitted length-scales times this; below 1 it is warier than the fit.
    """

    def __init__(
        self,
        cube: Cube,
        *,
        kernel: Kind = "matern52",
        ard: bool | None = None,
        quadratic: bool | None = None,
        noise_var: float | None = None,
        tame: bool = True,
        soften: bool = False,
        rotate: bool = False,
        shorten: float = 1.0,
    ) -> None:
        if noise_var is not None and not (noise_var >= 0 and math.isfinite(noise_var)):
            raise ValueError(f"noise_var must be a variance of at least 0 or None, got {noise_var!r}")
        if tame and soften:
            raise ValueError("values are either clipped (tame) or drawn in (soften), not both")
        self.cube = cube
        self.kernel = Kernel(kernel, cube.dim, np.array([axis.levels if axis.categorical else 0 for axis in cube.axes]))
        self.ard = cube.dim <= ISOTROPIC_ABOVE if ard is None else ard
        quadratic = cube.dim <= QUADRATIC_UP_TO if quadratic is None else quadratic
        self.prior = Prior.scaled(cube.dim, quadratic=quadratic and len(self.kernel.lines) > 0)
        self.noise_var, self.tame, self.soften, self.shorten = noise_var, tame, soften, shorten
        self.rotate = rotate and self.ard and TURNED_DIMS[0] <= len(self.kernel.lines) <= TURNED_DIMS[1]
        self._seen: tuple[Array, Array, Array] = (np.empty((0, cube.dim)), np.empty(0), np.empty(0))
        self._fits: dict[int, tuple[Hyper, float]] = {}  # index of a scheduled fit -> hyper-parameters and scale
        self._factor: tuple[int, Factor] | None = None  # index of its fit, and the factor of the longest prefix

    @classmethod
    def by_preset(
        cls,
        preset: Literal["default", "paper"],
        cube: Cube,
        *,
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        tame: bool | None = None,
        rotate: bool = False,
    ) -> Surrogate:
        """The model of a GP method: "paper" is a plain SE kernel on the values as told; "default" is Matern-5/2 with
        the trend on clipped values."""
        if preset not in ("default", "paper"):
            raise ValueError(f"preset must be 'default' or 'paper', got {preset!r}")
        paper = preset == "paper"
        return cls(
            cube,
            kernel=kernel or ("se" if paper else "matern52"),
            ard=ard,
            quadratic=False if paper and quadratic is None else quadratic,
            noise_var=noise_var,
            tame=not paper if tame is None else tame,
            rotate=rotate,
        )

    def gp(self, X: Array, y: Array, yvar: Array | None = None, pending: Array | None = None) -> GP:
        """The posterior for points X (n x d, n >= 1), values y (n) and noise variances yvar (n, NaN unknown), pending
        points (p x d) hallucinated."""
        if len(y) == 0:
            raise ValueError("a surrogate needs at least one value")
        X, y, yvar = self._take_in(X, y, yvar)
        k, size = scheduled(len(y))
        hyper, scale = self._fitted(k, size, X, y, yvar)
        if self.shorten != 1.0:
            hyper = replace(hyper, lengthscale=hyper.lengthscale * self.shorten)
        known = not np.isnan(yvar).all()
        values, slope = self.seen_as(y[:size] if known else y, y)
        offset, current = standardisation(values)
        scale = scale if known else current
        noise = relative_noise(hyper, len(y), yvar * slope**2, scale)
        if self._factor is None or self._factor[0] != k:
            self._factor = k, Factor(self.kernel, hyper, X[:size], noise[:size])
        done = self._factor[1].n
        if done < len(y):
            self._factor = k, self._factor[1].extended(X[done:], noise[done:])
        gp = GP(self._factor[1], values, offset=offset, scale=scale, profile=not known)
        return gp if pending is None or len(pending) == 0 else gp.condition(pending)

    def seen_as(self, told: Array, y: Array) -> tuple[Array, Array]:
        """Values y (k) as the model of the told ones (n) sees them, and the slope of that map at each (k); a clip, of
        all values, has none."""
        return softened(told, y) if self.soften else (tamed(y) if self.tame else y, np.ones(len(y)))

    # -- the latest fit, for saved runs

    def latest_fit(self, X: Array, y: Array, yvar: Array) -> State:
        """The last hyper-parameters fitted to a part of this history, as arrays and numbers; empty when there are
        none."""
        self._take_in(X, y, yvar)
        if not self._fits:
            return {}
        k = max(self._fits)
        hyper, scale = self._fits[k]
        state = {"size": SIZES[k], "scale": scale, "lengthscale": hyper.lengthscale.copy(), "noise": hyper.noise}
        state |= {"signal": hyper.signal, "quadratic": hyper.quadratic}
        return state if hyper.rotation is None else {**state, "rotation": hyper.rotation.copy()}

    def take_fit(self, X: Array, y: Array, yvar: Array, state: Mapping[str, Any]) -> None:
        """Takes over what `latest_fit` gave for this history; raises ValueError when it cannot be its fit."""
        try:
            size, lengthscale = int(state["size"]), np.array(state["lengthscale"], dtype=np.float64)
            numbers = {name: state[name] for name in ("scale", "noise", "signal", "quadratic")}
            if not all(isinstance(number, float) for number in numbers.values()):
                raise TypeError(f"{numbers} are not all floats")
            rotation = np.array(state["rotation"], dtype=np.float64) if "rotation" in state else None
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: the fit of the model is not readable ({error!r})") from None
        lines = len(self.kernel.lines)
        sound = (
            1 <= size <= len(y)
            and size == scheduled(size)[1]
            and lengthscale.shape == (self.cube.dim if self.ard else 1,)
            and bool((np.isfinite(lengthscale) & (lengthscale > 0)).all())
            and all(math.isfinite(number) and number >= 0 for number in numbers.values())
            and min(numbers["scale"], numbers["signal"], numbers["noise"]) > 0
            and (rotation is None or (self.rotate and rotation.shape == (lines, lines)))
            and (rotation is None or bool((np.abs(rotation @ rotation.T - np.eye(lines)) < 1e-6).all()))
        )
        if not sound:
            raise ValueError(f"the state is damaged: it holds no fit of this model to {len(y)} values")
        self._take_in(X, y, yvar)
        hyper = Hyper(lengthscale, numbers["noise"], numbers["signal"], numbers["quadratic"], rotation)
        self._fits[scheduled(size)[0]] = hyper, numbers["scale"]

    # -- inside

    def _take_in(self, X: Array, y: Array, yvar: Array | None) -> tuple[Array, Array, Array]:
        """The history in the form in which it is modelled; drops what the cache holds about others."""
        X, y = np.asarray(X, dtype=np.float64), np.clip(np.asarray(y, dtype=np.float64), -LARGEST, LARGEST)
        yvar = np.full(len(y), np.nan) if yvar is None else np.asarray(yvar, dtype=np.float64)
        if self.noise_var is not None:
            yvar = np.where(np.isnan(yvar), self.noise_var, yvar)
        self._forget_what_differs(X, y, yvar)
        return X, y, yvar

    def _fitted(self, k: int, size: int, X: Array, y: Array, yvar: Array) -> tuple[Hyper, float]:
        """Hyper-parameters and scale of scheduled fit k, of the first `size` values."""
        if k not in self._fits:
            values, slope = self.seen_as(y[:size], y[:size])
            offset, scale = standardisation(values)
            warm = None if is_fresh(k) else self._fitted(k - 1, SIZES[k - 1], X, y, yvar)[0]
            variances = in_units_of(scale, yvar[:size] * slope**2)
            standard = (values - offset) / scale
            rounds = FRESH_ROUNDS if warm is None else WARM_ROUNDS
            hyper = fit(
                self.kernel, X[:size], standard, variances, ard=self.ard, prior=self.prior, warm=warm, rounds=rounds
            )
            if self.rotate and (warm is None or k % TURN_EVERY == 0):
                hyper = turn_axes(self.kernel, X[:size], standard, variances, hyper, prior=self.prior, rounds=rounds)
            self._fits[k] = hyper, scale
        return self._fits[k]

    def _forget_what_differs(self, X: Array, y: Array, yvar: Array) -> None:
        """Drops what the cache holds about histories of which this one is no continuation."""
        agree = agreeing_values(self._seen, (X, y, yvar))
        self._fits = {k: fitted for k, fitted in self._fits.items() if SIZES[k] <= agree}
        if self._factor is not None and self._factor[1].n > agree:
            self._factor = None
        if len(y) != len(self._seen[1]) or agree < len(y):
            self._seen = X.copy(), y.copy(), yvar.copy()
