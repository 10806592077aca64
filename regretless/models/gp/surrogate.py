"""From values to a fitted Gaussian process, for every method that models its whole history.

`Surrogate.gp(X, y, yvar, pending)` clips low values, standardises, fits and conditions. Its result depends on its
arguments alone; the cache inside only saves time. The same values give the same posterior bit for bit, whether they
came one by one, in bulk or from a file, because the history alone decides two things.
- When hyper-parameters are fitted: at the scheduled sizes s_0 = 1 < s_1 < ..., each from the fit before it, except for
  some fresh ones (`is_fresh`), so that a replay needs few fits and a poor optimum is left again.
- How the covariance is factorised: in full at a scheduled size, and row by row for the values after it.

Values are to be maximised, in the caller's units. Low ones are raised to 2 median - max, because they would drown the
rest. Mean, scale and signal variance are those of all values or, where a noise variance is known, of the last fit.
"""

import bisect
import contextlib
import hashlib
import math
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np

from regretless.basics.machine import machine
from regretless.basics.options import in_range
from regretless.basics.statefile import State
from regretless.history import LARGEST
from regretless.models.gp.fit import Prior, fit
from regretless.models.gp.frame import turn_axes
from regretless.models.gp.kernels import Hyper, KernelKind, kernel_of
from regretless.models.gp.posterior import GP, Factor, in_units_of, relative_noise
from regretless.space import Cube
from regretless.space.parameters import Array

TURNED_DIMS = (3, 20)  # where axes are turned: fewer gain nothing (docs/lab/gp-engine.md), more need too much data
MOST_FITTED = 200
"""The most values a fit takes, spread evenly over the history: more of them move the hyper-parameters little and cost
their cube, so that one ask would take ten times the others (docs/lab/gp-engine.md). Every fit beyond is fresh, so that
a replay needs one."""
GAP = 16  # a scheduled size is followed by the one larger by 1/GAP, at least 1; 1/25 gains nothing (docs/lab)
MOST_VALUES = 2**40  # no memory holds a history of so many values
SURPRISE = 3.0  # sds from its prediction at which a value says that the fit before it was wrong (docs/lab/spaces.md)
LEAST_SCALE = float(np.finfo(np.float64).tiny)  # the smallest number with all its digits: one can divide by it

SIZES = [1]  # the scheduled sizes s_0, s_1, ...: all there can be, because a model may come from another process
while SIZES[-1] < MOST_VALUES:
    SIZES.append(SIZES[-1] + max(1, SIZES[-1] // GAP))


def scheduled(n: int) -> tuple[int, int]:
    """The index k and size s_k of the last scheduled fit for n >= 1 values."""
    k = bisect.bisect_right(SIZES, n) - 1
    return k, SIZES[k]


def is_fresh(k: int) -> bool:
    """Whether scheduled fit k knows nothing of those before it."""
    # 10: every tenth scheduled fit starts afresh; it costs up to five warm ones
    return SIZES[k] > MOST_FITTED or k % 10 == 0


def agreeing_values(a: tuple[Array, Array, Array], b: tuple[Array, Array, Array]) -> int:
    """The number of first values in which two histories (points, values, noise variances) agree."""
    common = min(len(a[1]), len(b[1]))
    same = (a[0][:common] == b[0][:common]).all(axis=1) & (a[1][:common] == b[1][:common])
    same &= (a[2][:common] == b[2][:common]) | (np.isnan(a[2][:common]) & np.isnan(b[2][:common]))
    return common if same.all() else int(np.argmin(same))


def median(y: Array) -> float:
    """The median of y (n), to the last bit NumPy's, which takes ten times as long for a hundred values."""
    ordered, half = np.sort(y), len(y) // 2
    return float(ordered[half]) if len(y) % 2 else (float(ordered[half - 1]) + float(ordered[half])) / 2


def clipped(y: Array) -> Array:
    """y (n) with values below 2 median - max raised to it; as it is when over half of the values equal the best."""
    middle, top = median(y), float(y.max())
    return np.maximum(y, middle - (top - middle)) if top > middle else y


def compressed(observed: Array, y: Array) -> tuple[Array, Array]:
    """Values y (k) with low ones compressed, and the slope of that map at each (k): y above the median c of the
    observed values (n), c - s log(1 + (c - y) / s) below it, s = max - c. A long tail of low values would drown the
    rest."""
    middle, top = median(observed), float(observed.max())
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
    """y (n) times a power of two that brings its largest size near 1: exact, and squares stay within floats."""
    return np.asarray(np.ldexp(y, -math.frexp(float(np.abs(y).max(initial=0.0)))[1]))


class SharedFits:
    """Fits of processes that see the same values, by a digest of all that they follow from: the same digest means the
    same fit, bit for bit."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        """Fits of others, as plain values."""
        self.made: dict[str, Any] = {}
        """The latest fits that were made here."""

    def learn(self, fits: Mapping[str, Any]) -> None:
        """Takes in what others have made."""
        self.known.update(fits)
        _forget_all_but(100, self.known)  # 100: fits of others that are remembered; a fit is of use for a few asks

    def keep(self, digest: str, fit: Any) -> None:
        """Takes in what was made here."""
        self.made[digest] = fit
        _forget_all_but(2, self.made)  # 2: fits that are worth telling others, whose next ones begin with them


def _forget_all_but(count: int, fits: dict[str, Any]) -> None:
    while len(fits) > count:
        del fits[next(iter(fits))]


_SHARED: ContextVar[SharedFits | None] = ContextVar("shared fits", default=None)
"""What `sharing` holds at the moment."""


@contextlib.contextmanager
def sharing(fits: SharedFits) -> Iterator[None]:
    """Lets all models that are asked inside use and keep shared fits."""
    token = _SHARED.set(fits)
    try:
        yield
    finally:
        _SHARED.reset(token)


class Surrogate:
    """A Gaussian process on a cube, fitted to a history; see the module's text.

    Args:
        cube: what is known of the space; choices get the Hamming part of the kernel.
        kernel: "matern52" or "se".
        ard: one length-scale per coordinate; None: yes up to 100 dimensions.
        quadratic: add the quadratic trend; None: up to 20 dimensions.
        noise_var: a known noise variance of the values that come without one, in their own units; None: fit it.
        clip: clip low values before fitting. compress: model `compressed` values instead.
        rotate: let every fifth fit turn the axes of the length-scales, where that explains the values better (`frame`).
        restart: fit afresh when a value lies SURPRISE sds from what the last fit predicts: a constraint can be flat
            but for a thin layer, which a fit that began before it was met may never find (docs/lab/spaces.md).
        shorten: the posterior has the fitted length-scales times this; below 1 it is more conservative than the fit.
        fresh_only: make only those scheduled fits that know nothing of earlier ones. This is for a model that is rarely
            asked: a warm fit needs all fits before it up to the last fresh one.
    """

    def __init__(
        self,
        cube: Cube,
        *,
        kernel: KernelKind = "matern52",
        ard: bool | None = None,
        quadratic: bool | None = None,
        noise_var: float | None = None,
        clip: bool = True,
        compress: bool = False,
        rotate: bool = False,
        restart: bool = False,
        shorten: float = 1.0,
        fresh_only: bool = False,
    ) -> None:
        in_range("[0, inf) or None", noise_var=noise_var)
        if clip and compress:
            raise ValueError("values are either clipped or compressed, not both")
        self.cube = cube
        self.kernel = kernel_of(cube, kernel)
        # 100: the largest dimension in which a length-scale per coordinate is fitted by default
        self.ard = cube.dim <= 100 if ard is None else ard
        # 20: the largest dimension with the quadratic trend by default; in 100 it loses (docs/lab)
        quadratic = cube.dim <= 20 if quadratic is None else quadratic
        self.prior = Prior.scaled(cube.dim, quadratic=quadratic and len(self.kernel.lines) > 0)
        self.noise_var, self.clip, self.compress = noise_var, clip, compress
        self.restart, self.shorten, self.fresh_only = restart, shorten, fresh_only
        self.rotate = rotate and self.ard and TURNED_DIMS[0] <= len(self.kernel.lines) <= TURNED_DIMS[1]
        self._seen: tuple[Array, Array, Array] = (np.empty((0, cube.dim)), np.empty(0), np.empty(0))
        self._fits: dict[int, tuple[Hyper, float]] = {}  # index of a scheduled fit -> hyper-parameters and scale
        self._factor: tuple[int, Factor] | None = None  # index of its fit, and the factor of the longest prefix

    def gp(self, X: Array, y: Array, yvar: Array | None = None, pending: Array | None = None) -> GP:
        """The posterior of values y (n >= 1) with variances yvar (n, NaN unknown) at X (n x d), pending: p x d."""
        if len(y) == 0:
            raise ValueError("a surrogate needs at least one value")
        X, y, yvar = self._observe(X, y, yvar)
        k, size = self._last_fit(len(y))
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

    def _last_fit(self, n: int) -> tuple[int, int]:
        """The index and the size of the last fit that is made for n values."""
        k, size = scheduled(n)
        while self.fresh_only and not is_fresh(k):
            k, size = k - 1, SIZES[k - 1]
        return k, size

    def seen_as(self, observed: Array, y: Array) -> tuple[Array, Array]:
        """Values y (k) as the model of the observed ones (n) sees them, and the slope of that map (k); of a clip, 1."""
        return compressed(observed, y) if self.compress else (clipped(y) if self.clip else y, np.ones(len(y)))

    def latest_fit(self, X: Array, y: Array, yvar: Array) -> State:
        """The last hyper-parameters fitted to a part of this history; empty when there are none."""
        self._observe(X, y, yvar)
        if not self._fits:
            return {}
        k, (hyper, scale) = max(self._fits.items(), key=lambda item: item[0])
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
        hyper = Hyper(lengthscale, numbers["noise"], numbers["signal"], numbers["quadratic"], rotation)
        sound = 1 <= size <= len(y) and size == scheduled(size)[1] and self._sound(hyper, numbers["scale"])
        if not sound:
            raise ValueError(f"the state is damaged: it holds no fit of this model to {len(y)} values")
        self._observe(X, y, yvar)
        self._fits[scheduled(size)[0]] = hyper, numbers["scale"]

    def _sound(self, hyper: Hyper, scale: float) -> bool:
        """Whether hyper-parameters can be those of a fit of this model."""
        numbers, lines, axes = (
            (scale, hyper.noise, hyper.signal, hyper.quadratic),
            len(self.kernel.lines),
            hyper.rotation,
        )
        return (
            hyper.lengthscale.shape == (self.cube.dim if self.ard else 1,)
            and bool((np.isfinite(hyper.lengthscale) & (hyper.lengthscale > 0)).all())
            and all(math.isfinite(number) and number >= 0 for number in numbers)
            and min(scale, hyper.noise, hyper.signal) > 0
            and (axes is None or (self.rotate and axes.shape == (lines, lines)))
            and (axes is None or bool((np.abs(axes @ axes.T - np.eye(lines)) < 1e-6).all()))
        )

    def _digest(self, k: int, X: Array, y: Array, yvar: Array) -> str:
        """Of all that scheduled fit k follows from, with the machine on which its last bits do."""
        kernel, cube = self.kernel, self.cube
        how = (machine(), kernel.kind, kernel.choices, cube.dim, cube.axes, cube.gates, self.prior, self.noise_var)
        found = hashlib.blake2b(repr((k, how, self.ard, self.clip, self.compress, self.restart, self.rotate)).encode())
        for part in (X, y, yvar):
            found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()[:32]

    def _shared(self, fit: Any) -> tuple[Hyper, float] | None:
        """A fit that another process has made; None where it is none of this model."""
        try:
            scale, noise, signal, quadratic, lengthscale, rotation = fit
            axes = None if rotation is None else np.array(rotation, dtype=np.float64)
            hyper = Hyper(np.array(lengthscale, dtype=np.float64), float(noise), float(signal), float(quadratic), axes)
            return (hyper, float(scale)) if self._sound(hyper, float(scale)) else None
        except (TypeError, ValueError, OverflowError):
            return None

    def _observe(self, X: Array, y: Array, yvar: Array | None) -> tuple[Array, Array, Array]:
        """The history in the form in which it is modelled; drops what the cache holds about others."""
        X, y = np.asarray(X, dtype=np.float64), np.clip(np.asarray(y, dtype=np.float64), -LARGEST, LARGEST)
        yvar = np.full(len(y), np.nan) if yvar is None else np.asarray(yvar, dtype=np.float64)
        if self.noise_var is not None:
            yvar = np.where(np.isnan(yvar), self.noise_var, yvar)
        agree = agreeing_values(self._seen, (X, y, yvar))
        self._fits = {k: fitted for k, fitted in self._fits.items() if SIZES[k] <= agree}
        if self._factor is not None and self._factor[1].n > agree:
            self._factor = None
        if len(y) != len(self._seen[1]) or agree < len(y):
            self._seen = X.copy(), y.copy(), yvar.copy()
        return X, y, yvar

    def _fitted(self, k: int, size: int, X: Array, y: Array, yvar: Array) -> tuple[Hyper, float]:
        """Hyper-parameters and scale of scheduled fit k, of the first `size` values."""
        shared = _SHARED.get() if k not in self._fits else None
        digest = "" if shared is None else self._digest(k, X[:size], y[:size], yvar[:size])
        if shared is not None and (fit_of_others := self._shared(shared.known.get(digest))) is not None:
            self._fits[k] = fit_of_others
        if k not in self._fits:
            values, slope = self.seen_as(y[:size], y[:size])
            offset, scale = standardisation(values)
            warm = None if is_fresh(k) else self._fitted(k - 1, SIZES[k - 1], X, y, yvar)[0]
            variances = in_units_of(scale, yvar[:size] * slope**2)
            standard = (values - offset) / scale
            if self.restart and warm is not None and self._surprised(warm, X[:size], standard, variances, SIZES[k - 1]):
                warm = None
            # 20, 15: evaluations in each stage of a fresh fit, in a fit that starts from the last one
            rounds = 20 if warm is None else 15
            part = np.linspace(0, size - 1, min(size, MOST_FITTED)).astype(np.intp)
            data = self.kernel, X[part], standard[part], variances[part]
            hyper = fit(*data, ard=self.ard, prior=self.prior, warm=warm, rounds=rounds)
            # 5: every fifth scheduled fit may turn the axes; every second costs more and gains nothing (docs/lab)
            if self.rotate and (warm is None or k % 5 == 0):
                hyper = turn_axes(*data, hyper, prior=self.prior, rounds=rounds)
            self._fits[k] = hyper, scale
            if shared is not None:
                axes = None if hyper.rotation is None else hyper.rotation.tolist()
                numbers = scale, hyper.noise, hyper.signal, hyper.quadratic
                shared.keep(digest, [*map(float, numbers), hyper.lengthscale.tolist(), axes])
        return self._fits[k]

    def _surprised(self, hyper: Hyper, X: Array, y: Array, yvar: Array, before: int) -> bool:
        """Whether a value after the first `before` lies far from what those before it predict; y (n) standardised."""
        gp = GP.exact(self.kernel, hyper, X, y, yvar)
        away, variance = gp.steps()
        return bool((away[before:] ** 2 > SURPRISE**2 * gp.signal * variance[before:]).any())
