"""The scale of noisy values: shift, standard deviation, length-scale and noise of one isotropic Gaussian process, by
maximum likelihood.

Meant for loops that cannot afford a full fit: a grid of length-scales and noises on a few dozen values, with mean and
variance in closed form. One eigendecomposition per length-scale serves every noise. `grouped` averages values at the
same point, `merged` close neighbours too; values of known variance carry weights, the inverse of their variance in
units of the common noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regretless.grid.posterior import KernelName, correlation
from regretless.parameters import Array

MOST_VALUES = 72
"""Values a fit uses: half of them spread over the whole history, half the latest."""
LENGTHSCALES = np.geomspace(0.05, 2.0, 10)
NOISES = np.geomspace(1e-6, 1.0, 25)
"""Candidates; noises are variances relative to the signal's."""
TYPICAL, SPREAD = 0.3, 1.0
"""Centre (at d = 2, growing like sqrt(d)) and log-sd of the prior on the length-scale: it decides only while there are
few values."""

LEAST_VARIANCE = 1e-6
"""A told variance counts as at least this share of the common noise: no single value outweighs a million others."""
LEAST_NOISE = 1e-6
"""Of a variance in standardised units, so that exact values leave a posterior well conditioned."""


@dataclass(frozen=True)
class Scale:
    """y = shift + sd * g with g a process of unit variance with the given length-scale, seen with noise of the given
    variance."""

    shift: float
    sd: float
    lengthscale: float
    noise: float

    def inside(self, y: Array) -> Array:
        """Values in standardised units."""
        return (y - self.shift) / self.sd

    def noise_inside(self, variance: float) -> float | None:
        """A told noise variance in standardised units; None where it is unknown (NaN)."""
        return None if math.isnan(variance) else max(variance / self.sd**2, LEAST_NOISE)

    @property
    def noise_variance(self) -> float:
        """Of a value whose own variance is unknown, in the units of the values squared."""
        return self.noise * self.sd**2


def fit_scale(
    X: Array,
    y: Array,
    kernel: KernelName,
    *,
    yvar: Array | None = None,
    lengthscale: float | None = None,
    noise: float | None = None,
) -> Scale:
    """The maximum-likelihood scale of values y (n) at X (n x d); a given length-scale or noise (a standard deviation,
    in the units of y) is kept.

    yvar: noise variances, n, NaN where unknown; when all are known, the noise is the root of their mean.
    """
    n = len(y)
    if yvar is not None and not np.isnan(yvar).any():
        noise = float(np.sqrt(yvar.mean()))
    if n > MOST_VALUES:
        half = MOST_VALUES // 2
        pick = np.concatenate([np.linspace(0, n - half - 1, half).astype(np.intp), np.arange(n - half, n)])
        X, y = X[pick], y[pick]
    size = float(np.abs(y - y.mean()).max())
    typical = TYPICAL * np.sqrt(X.shape[1] / 2)
    if len(y) < 2 or size <= 1e-12 * abs(float(y.mean())):
        sd = noise or 1.0
        return Scale(float(y.mean()), sd, lengthscale or typical, NOISES[-1] if noise else NOISES[len(NOISES) // 2])
    z = (y - y.mean()) / size
    best = (-np.inf, 0.0, 1.0, 0.0, 0.0)
    for length in [lengthscale] if lengthscale is not None else LENGTHSCALES * np.sqrt(X.shape[1] / 2):
        values, vectors = np.linalg.eigh(correlation(kernel, X, X, float(length)))
        u, v = vectors.T @ z, vectors.sum(axis=0)
        spectrum = np.maximum(values, 0.0) + NOISES[:, None]
        mean = (u * v / spectrum).sum(axis=1) / (v * v / spectrum).sum(axis=1)
        signal = np.maximum(((u - mean[:, None] * v) ** 2 / spectrum).mean(axis=1), 1e-14)
        evidence = (
            -0.5 * (np.log(spectrum).sum(axis=1) + len(z) * np.log(signal))
            - 0.5 * (np.log(length / typical) / SPREAD) ** 2
        )
        if noise:  # only the ratio whose noise is the known one, in absolute terms
            at = int(np.argmin(np.abs(np.log(signal * NOISES) - 2 * np.log(noise / size))))
        else:
            at = int(np.argmax(evidence))
        if evidence[at] > best[0]:
            best = (float(evidence[at]), float(mean[at]), float(np.sqrt(signal[at])), float(length), float(NOISES[at]))
    _, mean0, sd, length, ratio = best
    sd *= size
    return Scale(float(y.mean()) + size * mean0, sd, length, max((noise / sd) ** 2, NOISES[0]) if noise else ratio)


def weights(yvar: Array, noise: float) -> Array | None:
    """The weights noise / yvar (n) of values with variances yvar (n), 1 where unknown (NaN); None when all are
    unknown."""
    unknown = np.isnan(yvar)
    if unknown.all():
        return None
    return np.where(unknown, 1.0, noise / np.maximum(yvar, LEAST_VARIANCE * noise))


def grouped(X: Array, y: Array, weight: Array | None = None) -> tuple[Array, Array, Array]:
    """The distinct points (m x d) in lexicographic order, the averages of their values (m) and their total weights (m;
    1 per value unless given)."""
    order = np.lexsort(X.T)
    X, y = X[order], y[order]
    first = np.flatnonzero(np.concatenate([[True], (X[1:] != X[:-1]).any(axis=1)]))
    if weight is None:
        total = np.diff(np.append(first, len(y))).astype(np.float64)
    else:
        y, total = y * weight[order], np.add.reduceat(weight[order], first)
    return X[first], np.add.reduceat(y, first) / total, total


def merged(X: Array, y: Array, most: int, weight: Array | None = None) -> tuple[Array, Array, Array]:
    """At most about `most` points (m x d), values (m) and weights (m): averages over the finest dyadic boxes of which
    few enough are occupied."""
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
    return centres, np.bincount(label, weights=y * weight) / total, total
