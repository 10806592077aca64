"""From told values to a fitted Gaussian process: taming, standardisation, the refit schedule and pending points, in one
place.

`Surrogate.gp(X, y, yvar, pending)` is a pure function of its arguments (a cache only saves time), and its arithmetic is
defined by the history alone:
- Hyper-parameters are fitted at the scheduled sizes s_0 = 1 < s_1 < ..., each gap a small share of the size. Fit k
  starts from fit k - 1, except that every tenth is a fresh one that knows nothing of those before: a replay needs at
  most ten fits, and a poor optimum is left again.
- At a scheduled size the covariance is factorised in full; values told since are appended row by row.
So telling one by one, telling in bulk and replaying a stored history give the same posterior bit for bit.

Values are to be maximised. Low ones are tamed by a clip at 2 median - max: what is far below the median says where not
to look, not how far below it lies. The mean, the scale and the signal variance are then recomputed in O(n^2) for every
n; only where a noise variance is known, which is an absolute quantity, do the constants stay as they were at the last
scheduled size.
"""

from __future__ import annotations

import bisect
import math
from typing import Literal

import numpy as np

from regretless.gp.fit import Prior, fit
from regretless.gp.frame import turned
from regretless.gp.posterior import GP, Factor, Hyper, Kernel, Kind, relative_noise
from regretless.parameters import Array
from regretless.space import Cube

TURN_EVERY = 5
"""Scheduled fits between two that may turn the axes."""
ROTATED = (3, 20)
"""Dimensions in which axes are turned: in the plane it gained nothing, and in many the directions are not known well
enough from affordable data."""
FRESH_EVERY = 10
"""Scheduled fits between two that start afresh."""
GAP = 16
"""A scheduled size is followed by the one larger by 1/GAP of it, at least 1: every tell up to 32, every sixth at
100."""
ISOTROPIC_ABOVE = 100
"""Dimensions beyond which a length-scale per coordinate is no longer fitted by default."""
QUADRATIC_UP_TO = 20
"""Dimensions up to which the quadratic trend is used by default; it was tuned for d <= 10."""
WARM_ROUNDS = 15
FRESH_ROUNDS = 20


SIZES = [1]
"""The scheduled sizes s_0, s_1, ... as far as anybody asked."""


def scheduled(n: int) -> tuple[int, int]:
    """The index k and size s_k of the last scheduled fit for n >= 1 values."""
    while SIZES[-1] <= n:
        SIZES.append(SIZES[-1] + max(1, SIZES[-1] // GAP))
    k = bisect.bisect_right(SIZES, n) - 1
    return k, SIZES[k]


def shared_prefix(told: tuple[Array, Array, Array], seen: tuple[Array, Array, Array]) -> int:
    """How many points (n x d), values (n) and noise variances (n, NaN unknown) two histories begin with alike."""
    n = min(len(told[1]), len(seen[1]))
    (X, y, yvar), (A, b, bvar) = ([array[:n] for array in history] for history in (told, seen))
    same = (X == A).all(axis=1) & (y == b) & ((yvar == bvar) | (np.isnan(yvar) & np.isnan(bvar)))
    return n if same.all() else int(np.argmin(same))


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
    return offset * size, (spread if spread > 1e-12 else 1.0) * size


class Surrogate:
    """A Gaussian process on a cube, fitted to a history; see the module's text.

    Args:
        cube: what is known of the space; choices get the Hamming part of the kernel.
        seed: kept for surrogates that draw; this one fits without randomness.
        kernel: "matern52" or "se".
        ard: one length-scale per coordinate; None: yes up to 100 dimensions.
        quadratic: add the quadratic trend; None: up to 20 dimensions.
        noise: a known noise variance of all values in their own units, or None to fit it; values told with their own
            variance keep that.
        prior: priors on the hyper-parameters; None: the dimension-scaled default.
        tame: clip low values before fitting.
        soften: model `softened` values instead.
        hyper: fixed hyper-parameters; nothing is fitted then.
        rotate: let every fifth fit turn the axes of the length-scales, where that explains the values better (see
            `frame`).
    """

    def __init__(
        self,
        cube: Cube,
        *,
        seed: int,
        kernel: Kind = "matern52",
        ard: bool | None = None,
        quadratic: bool | None = None,
        noise: float | None = None,
        prior: Prior | None = None,
        tame: bool = True,
        soften: bool = False,
        hyper: Hyper | None = None,
        rotate: bool = False,
    ) -> None:
        if noise is not None and not (noise >= 0 and math.isfinite(noise)):
            raise ValueError(f"noise must be a variance of at least 0 or None, got {noise!r}")
        if tame and soften:
            raise ValueError("values are either clipped (tame) or drawn in (soften), not both")
        self.cube, self.seed = cube, seed
        self.kernel = Kernel(kernel, cube.dim, np.array([axis.levels if axis.categorical else 0 for axis in cube.axes]))
        self.ard = cube.dim <= ISOTROPIC_ABOVE if ard is None else ard
        quadratic = cube.dim <= QUADRATIC_UP_TO if quadratic is None else quadratic
        self.prior = prior or Prior.scaled(cube.dim, quadratic=quadratic and len(self.kernel.lines) > 0)
        self.noise, self.tame, self.soften, self.hyper = noise, tame, soften, hyper
        self.rotate = rotate and self.ard and ROTATED[0] <= len(self.kernel.lines) <= ROTATED[1]
        self._seen: tuple[Array, Array, Array] = (np.empty((0, cube.dim)), np.empty(0), np.empty(0))
        self._fits: dict[int, tuple[Hyper, float]] = {}  # index of a scheduled fit -> hyper-parameters and scale
        self._factor: tuple[int, Factor] | None = None  # index of its fit, and the factor of the longest prefix

    @classmethod
    def by_preset(
        cls,
        preset: Literal["default", "paper"],
        cube: Cube,
        *,
        seed: int,
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise: float | None = None,
        quadratic: bool | None = None,
        tame: bool | None = None,
        rotate: bool = False,
    ) -> Surrogate:
        """The model of a GP method: "paper" is a plain SE kernel on the values as told; "default" is Matern-5/2 with
        the trend on tamed values."""
        if preset not in ("default", "paper"):
            raise ValueError(f"preset must be 'default' or 'paper', got {preset!r}")
        paper = preset == "paper"
        return cls(
            cube,
            seed=seed,
            kernel=kernel or ("se" if paper else "matern52"),
            ard=ard,
            quadratic=False if paper and quadratic is None else quadratic,
            noise=noise,
            tame=not paper if tame is None else tame,
            rotate=rotate,
        )

    def gp(self, X: Array, y: Array, yvar: Array | None = None, pending: Array | None = None) -> GP:
        """The posterior for points X (n x d, n >= 1), values y (n) and noise variances yvar (n, NaN unknown), pending
        points (p x d) hallucinated."""
        if len(y) == 0:
            raise ValueError("a surrogate needs at least one value")
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        yvar = np.full(len(y), np.nan) if yvar is None else np.asarray(yvar, dtype=np.float64)
        if self.noise is not None:
            yvar = np.where(np.isnan(yvar), self.noise, yvar)
        self._forget_what_differs(X, y, yvar)
        k, size = scheduled(len(y))
        hyper, scale = self._fitted(k, size, X, y, yvar)
        known = not np.isnan(yvar).all()
        values, slope = self.seen_as(y[:size] if known else y, y)
        offset, current = standardisation(values)
        scale = scale if known else current
        noise = relative_noise(hyper, len(y), yvar * slope**2, scale)
        if self._factor is None or self._factor[0] != k:
            self._factor = k, Factor(self.kernel, hyper, X[:size], noise[:size])
        done = self._factor[1].n
        for i in range(done, len(y)):
            self._factor = k, self._factor[1].extended(X[i : i + 1], noise[i : i + 1])
        gp = GP(self._factor[1], values, offset=offset, scale=scale, profile=not known)
        return gp if pending is None or len(pending) == 0 else gp.condition(pending)

    def seen_as(self, told: Array, y: Array) -> tuple[Array, Array]:
        """Values y (k) as the model of the told ones (n) sees them, and the slope of that map at each (k); a clip, of
        all values, has none."""
        return softened(told, y) if self.soften else (tamed(y) if self.tame else y, np.ones(len(y)))

    def _fitted(self, k: int, size: int, X: Array, y: Array, yvar: Array) -> tuple[Hyper, float]:
        """Hyper-parameters and scale of scheduled fit k, of the first `size` values."""
        if k not in self._fits:
            values, slope = self.seen_as(y[:size], y[:size])
            offset, scale = standardisation(values)
            if self.hyper is not None:
                self._fits[k] = self.hyper, scale
                return self._fits[k]
            warm = None
            if k % FRESH_EVERY:
                warm = self._fitted(k - 1, SIZES[k - 1], X, y, yvar)[0]
            variances = yvar[:size] * slope**2 / (scale * scale)
            standard = (values - offset) / scale
            rounds = FRESH_ROUNDS if warm is None else WARM_ROUNDS
            hyper = fit(
                self.kernel, X[:size], standard, variances, ard=self.ard, prior=self.prior, warm=warm, rounds=rounds
            )
            if self.rotate and k % TURN_EVERY == 0:
                hyper = turned(self.kernel, X[:size], standard, variances, hyper, prior=self.prior, rounds=rounds)
            self._fits[k] = hyper, scale
        return self._fits[k]

    def _forget_what_differs(self, X: Array, y: Array, yvar: Array) -> None:
        """Drops what the cache holds about histories of which this one is no continuation."""
        agree = shared_prefix((X, y, yvar), self._seen)
        self._fits = {k: fitted for k, fitted in self._fits.items() if SIZES[k] <= agree}
        if self._factor is not None and self._factor[1].n > agree:
            self._factor = None
        if len(y) != len(self._seen[1]) or agree < len(y):
            self._seen = X.copy(), y.copy(), yvar.copy()
