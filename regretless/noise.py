"""Whether values show noise: told variances, repeated evaluations, or near settings whose values differ as far ones do.

A fitted model cannot tell noise from ripples finer than its data. Pairs of neighbours can: without noise the difference
of two values shrinks with the distance of their settings, about in proportion or faster; with noise it does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[np.float64]

REACH = 0.03
"""The near quarter of the pairs must be this much closer than the far quarter, in the median: with less, ripples and
noise look the same. Chosen on gp-ucb runs of 12 classic functions: at 0.03 no noise-free run was taken for noisy after
8 or 20 evaluations per parameter, at 0.05 one in seventeen was (docs/certificates.md)."""
SHRINKS = 0.7
"""Differences that shrink with less than this power of the distance show noise. Noise-free runs had powers of 0.78 to
2.4, noisy ones below 0.7 in 19 of 20 (the same runs)."""
ROUNDING = 1e-9
"""Values of one setting that differ by less than this share of their size differ by rounding alone."""
LEAST_PAIRS = 4
"""The fewest pairs in each quarter."""
NEAREST = (1, 2)
"""Neighbours of each setting that are paired with it; the second serves settings that lie in twos."""
MOST_POINTS = 2000
"""The last values that are looked at, so that a look costs little whatever the length of the run."""


def stated_noise(paper: bool, noise: float | None) -> bool | None:
    """What options say of the noise: a paper's preset assumes it, a known sd or variance settles it; None: nothing."""
    return True if paper else None if noise is None else noise > 0


def shows_noise(X: Array, y: Array, yvar: Array) -> bool:
    """Whether values y (n) at settings X (n x d) with told noise variances yvar (n, NaN unknown) show noise."""
    if (yvar > 0).any():
        return True
    if np.isfinite(yvar).all():  # all told to be exact
        return False
    repeated = _repeated(X, y)
    if repeated is not None:
        return repeated
    return any(_rough_nearby(X[-MOST_POINTS:], y[-MOST_POINTS:], nearest) for nearest in NEAREST)


def _repeated(X: Array, y: Array) -> bool | None:
    """Whether evaluations of one setting differ; None when none was repeated."""
    first: dict[bytes, float] = {}
    again = False
    for x, value in zip(X, y.tolist(), strict=True):
        key = x.tobytes()
        if key in first:
            if abs(first[key] - value) > ROUNDING * max(abs(first[key]), abs(value)):
                return True
            again = True
        first.setdefault(key, value)
    return False if again else None


def _rough_nearby(X: Array, y: Array, nearest: int) -> bool:
    """Whether, among the pairs of each setting and its nearest ones, the values of near settings differ nearly as much
    as those of far ones."""
    if len(y) < 2 * LEAST_PAIRS:
        return False
    others = np.asarray(cKDTree(X).query(X, k=nearest + 1)[1])[:, 1:]
    ends = np.stack([np.repeat(np.arange(len(y)), nearest), others.ravel()], axis=1)
    pairs = np.unique(np.sort(ends, axis=1), axis=0)
    distance = np.sqrt(((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1))
    size = float(np.abs(y).max()) or 1.0  # so that no difference leaves the range of floats
    difference = np.abs(y[pairs[:, 0]] / size - y[pairs[:, 1]] / size)
    order = np.argsort(distance, kind="stable")
    quarter = max(LEAST_PAIRS, len(order) // 4)
    if len(order) < 2 * quarter:
        return False
    near, far = (float(np.median(distance[part])) for part in (order[:quarter], order[-quarter:]))
    below, above = (float(np.median(difference[part])) for part in (order[:quarter], order[-quarter:]))
    return 0 < near <= REACH * far and below > above * (near / far) ** SHRINKS
