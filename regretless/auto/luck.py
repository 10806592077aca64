"""How much of a good noisy value is luck: what settings that were evaluated twice say about it.

A smooth model takes fine ripples of the function for noise. Its mean then passes over the best places of such a
function, although their values are no luck. Second evaluations tell the two apart: the values of one setting differ by
noise alone, while a setting differs from the model's mean by the ripples too.

Notation
    v       the variance that the model takes for noise
    s       the variance between values of the same setting; so v - s is that of the ripples
    k       the number of values of a setting, y their mean and m the model's mean there; then the best guess of the
            function there is m + w (y - m) with w = (v - s) / (v - s + s / k), as for a sum of two independent parts
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regretless.history import History
from regretless.method import is_taken
from regretless.models.gp.posterior import GP
from regretless.models.gp.surrogate import near_one
from regretless.space.parameters import Array

TWICE = 5
"""The best settings that are evaluated a second time in the last tenth of a noisy budget; 8 are level, and without them
the best places of functions with ripples are taken for luck (docs/lab/auto.md)."""


@dataclass(frozen=True)
class DistinctSettings:
    """The different settings of a history of n values, in the order of their first values."""

    rows: NDArray[np.intp]
    """The row of the first value of each, k."""
    values: Array
    """The mean value of each, k."""
    largest: Array
    """The largest value of each, k."""
    counts: NDArray[np.intp]
    """The number of values of each, k."""
    within: float
    """The variance between values of the same setting; infinite while each has one value."""

    @classmethod
    def of(cls, X: Array, y: Array) -> "DistinctSettings":
        """The settings of values y (n) at X (n x d)."""
        numbers: dict[bytes, int] = {}
        setting = np.array([numbers.setdefault(x.tobytes(), len(numbers)) for x in X])
        counts = np.bincount(setting)
        values = np.bincount(setting, weights=y) / counts
        largest = np.full(len(counts), -np.inf)
        np.maximum.at(largest, setting, y)
        spare = len(y) - len(counts)
        within = float(((y - values[setting]) ** 2).sum()) / spare if spare else np.inf
        return cls(np.unique(setting, return_index=True)[1], values, largest, counts, within)

    def best_once(self, most: int) -> list[int]:
        """The rows of those that have one value and are among the `most` settings with the largest ones, largest
        first."""
        best = np.argsort(-self.largest, kind="stable")[:most]
        return [int(self.rows[i]) for i in best if self.counts[i] == 1]

    def believed(self, mean: Array, fitted: float) -> Array:
        """The best guesses of the function at the settings, k, from the model's means (k) and fitted noise variance."""
        ripples = fitted - self.within
        if ripples <= 0:
            return mean
        return np.asarray(mean + ripples / (ripples + self.within / self.counts) * (self.values - mean))


def noise_is_guessed(history: History) -> bool:
    """Whether the size of certain noise is the model's guess, and nothing is promised by a point's own values."""
    return not (np.isfinite(history.yvar).all() or history.n_constraints or history.noise_bound)


def to_repeat(history: History) -> Array | None:
    """The best of the settings, d, that are to be evaluated a second time; None when all of them were, whether or not
    that evaluation failed."""
    rows = DistinctSettings.of(history.X, near_one(history.y)).best_once(TWICE)
    return next((np.array(history.X[row]) for row in rows if not is_taken(history, history.X[row])), None)


def best_of_the_better(gp: GP, history: History) -> Array:
    """The point with a value, d, that is believed best of those whose own values are among the best; gp: the posterior
    of the values."""
    own = (gp.y[gp.n - len(history) :] - gp.offset) / gp.scale  # as the model sees them
    settings = DistinctSettings.of(history.X, own)
    # 0.2: the part of the noisy values, the best ones, whose points may be recommended: the mean decides between
    # them, and a mean that mistakes ripples for noise cannot choose a point with a poor value (docs/lab/auto.md)
    better = np.argsort(-settings.values, kind="stable")[: max(3, math.ceil(0.2 * len(history)))]
    points = history.X[settings.rows]
    believed = settings.believed(gp.mean_at(points), float(gp.factor.noise.mean() * gp.signal))
    return np.asarray(points[better[int(np.argmax(believed[better]))]])
