"""The units of noisy values, for methods on grids: shift, sd, length-scale and noise of one isotropic process.

`fit_scale` finds them by maximum likelihood in milliseconds: it tries a grid of length-scales and noises on at most 72
values, and one eigendecomposition per length-scale serves every noise. A value of known variance has as its weight the
common noise variance divided by its own.
"""

import math
import sys
from dataclasses import dataclass

import numpy as np

from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import correlation
from regretless.space.parameters import Array

FIRST_FIT, REFIT = 4, 1.5  # the values at which grid methods fit their scale first, and the growth between two fits
NOISE_RATIOS = np.geomspace(1e-6, 1.0, 25)  # noises tried relative to the signal's; the least is well conditioned
LEAST_NOISE_VAR = 1e-6  # the least noise variance in standardised units: exact values leave a posterior conditioned
MOST_INSIDE = 1e150  # values in standardised units are clipped here, so that their squares stay finite


@dataclass(frozen=True)
class ProcessScale:
    """y = shift + sd * g, g a process of unit variance with this length-scale, seen with noise of this variance."""

    shift: float
    sd: float
    lengthscale: float
    noise_var: float

    def inside(self, y: Array) -> Array:
        """Values in standardised units, n."""
        with np.errstate(over="ignore"):
            return np.clip((y - self.shift) / self.sd, -MOST_INSIDE, MOST_INSIDE)

    def value_inside(self, y: float) -> float:
        """One value in standardised units."""
        return max(-MOST_INSIDE, min((y - self.shift) / self.sd, MOST_INSIDE))

    def noise_var_inside(self, variance: float) -> float | None:
        """A told noise variance in standardised units; None where it is unknown (NaN)."""
        return None if math.isnan(variance) else max(variance / (self.sd * self.sd), LEAST_NOISE_VAR)

    def grouped(self, X: Array, y: Array, yvar: Array) -> tuple[Array, Array, Array]:
        """The distinct points (m x d), the averages of their values in standardised units (m) and their weights (m)."""
        points, values, total = grouped(X, y, weights(yvar, self.observed_noise_var))
        return points, self.inside(values), total

    @property
    def observed_noise_var(self) -> float:
        """The noise variance of a value whose own is unknown, in the values' units squared; at most a float."""
        return min(self.noise_var * (self.sd * self.sd), sys.float_info.max)


def fit_scale(
    X: Array,
    y: Array,
    kernel: KernelKind,
    *,
    yvar: Array | None = None,
    lengthscale: float | None = None,
    noise_sd: float | None = None,
) -> ProcessScale:
    """The maximum-likelihood scale of values y (n) at X (n x d); a given length-scale or noise sd (in the units of y)
    is kept. yvar: noise variances, n, NaN unknown; when all are known, the noise sd is the root of their mean."""
    lengthscales = np.geomspace(0.05, 2.0, 10)  # tried by a fit in two dimensions; they grow like sqrt(d)
    most_values = 72  # a fit uses at most this many values, half of them spread over the history and half the latest
    n = len(y)
    unit = 2.0 ** max(math.frexp(float(np.abs(y).max()))[1] - 1, -500)  # division by it is exact; no sum overflows then
    y = y / unit
    if yvar is not None and not np.isnan(yvar).any():
        noise_sd = float(np.sqrt((yvar / unit / unit).mean()))
    elif noise_sd is not None:
        noise_sd /= unit
    if n > most_values:
        half = most_values // 2
        pick = np.concatenate([np.linspace(0, n - half - 1, half).astype(np.intp), np.arange(n - half, n)])
        X, y = X[pick], y[pick]
    size = float(np.abs(y - y.mean()).max())
    # 0.3: the centre (in the plane, growing like sqrt(d)), and a log-sd of 1, of the length-scale's wide prior
    typical = 0.3 * np.sqrt(X.shape[1] / 2)
    # 1e-12: values that differ by less than this share of their mean count as constant: the rest is rounding
    if len(y) < 2 or size <= 1e-12 * abs(float(y.mean())):
        sd, ratio = (unit * noise_sd, NOISE_RATIOS[-1]) if noise_sd else (1.0, NOISE_RATIOS[len(NOISE_RATIOS) // 2])
        return ProcessScale(unit * float(y.mean()), sd, lengthscale or typical, ratio)
    z = (y - y.mean()) / size
    best: tuple[float, ...] = (-np.inf, 0.0, 1.0, 0.0, 0.0)
    for length in [lengthscale] if lengthscale is not None else lengthscales * np.sqrt(X.shape[1] / 2):
        values, vectors = np.linalg.eigh(correlation(kernel, X, X, float(length)))
        u, v = vectors.T @ z, vectors.sum(axis=0)
        spectrum = np.maximum(values, 0.0) + NOISE_RATIOS[:, None]
        mean = (u * v / spectrum).sum(axis=1) / (v * v / spectrum).sum(axis=1)
        # 1e-14: the least fitted signal variance, by the largest deviation squared: its logarithm is taken
        signal = np.maximum(((u - mean[:, None] * v) ** 2 / spectrum).mean(axis=1), 1e-14)
        evidence = -0.5 * (np.log(spectrum).sum(axis=1) + len(z) * np.log(signal))
        evidence -= 0.5 * np.log(length / typical) ** 2
        if noise_sd:  # only the ratio whose noise is the known one, in absolute terms
            at = int(np.argmin(np.abs(np.log(signal * NOISE_RATIOS) - 2 * np.log(noise_sd / size))))
        else:
            at = int(np.argmax(evidence))
        if evidence[at] > best[0]:
            found = evidence[at], mean[at], np.sqrt(signal[at]), length, NOISE_RATIOS[at]
            best = tuple(map(float, found))
    _, middle, sd, length, ratio = best
    sd *= size
    # 1e6: a known noise sd counts as at most this many sd of the signal, so that its square stays finite
    ratio = max(min(noise_sd / sd, 1e6) ** 2, NOISE_RATIOS[0]) if noise_sd else ratio
    most = sys.float_info.max
    shift = max(-most, min(unit * (float(y.mean()) + size * middle), most))
    return ProcessScale(shift, min(unit * sd, most), length, ratio)


def weights(yvar: Array, noise_var: float) -> Array | None:
    """The weights noise_var / yvar (n), 1 where yvar (n) is unknown (NaN); None when all are."""
    unknown = np.isnan(yvar)
    if unknown.all():
        return None
    # 1e-6: a told variance counts as at least this share of the common one: none outweighs a million others
    return np.where(unknown, 1.0, noise_var / np.maximum(yvar, 1e-6 * noise_var))


def grouped(X: Array, y: Array, weight: Array | None = None) -> tuple[Array, Array, Array]:
    """The distinct points (m x d), sorted, the averages of their values (m) and their total weights (m)."""
    order = np.lexsort(X.T)
    X, y = X[order], y[order]
    first = np.flatnonzero(np.concatenate([[True], (X[1:] != X[:-1]).any(axis=1)]))
    sizes = np.diff(np.append(first, len(y)))
    if weight is None:
        weight, total = np.ones(len(y)), sizes.astype(np.float64)
    else:
        weight, total = weight[order], np.add.reduceat(weight[order], first)
    shares = weight / np.repeat(total, sizes)  # of an average, whose sum is no larger than its largest value
    return X[first], np.add.reduceat(y * shares, first), total


def merged(X: Array, y: Array, most: int, weight: Array | None = None) -> tuple[Array, Array, Array]:
    """About `most` points (m x d), values (m) and weights (m): averages over the finest dyadic boxes few enough."""
    weight = np.ones(len(y)) if weight is None else weight
    if len(y) <= most:
        return X, y, weight
    label = np.zeros(len(y), dtype=np.intp)
    for level in range(1, 31):
        _, finer = np.unique(np.floor(X * 2.0**level), axis=0, return_inverse=True)
        if int(finer.max()) >= most:
            break
        label = finer.reshape(-1)
    total = np.bincount(label, weights=weight).astype(np.float64)
    centres = np.stack([np.bincount(label, weights=x * weight) / total for x in X.T], axis=1)
    return centres, np.bincount(label, weights=y * (weight / total[label])).astype(np.float64), total
