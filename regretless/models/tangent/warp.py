"""The warp: an increasing map from told values to targets of a net, which compresses bad values.

A net of fixed capacity spends itself on the largest differences, which lie between bad values; a search needs those
between good ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from regretless.models.tangent.values import ROUNDING, standardisation
from regretless.space.parameters import Array

Warping: TypeAlias = Literal["strong", "gentle", "none"]
WARPINGS: dict[Warping, float] = {"strong": 0.0, "none": -2.0}
"""Warps the evidence chooses among, and the logarithms of their prior odds, our choice (docs/lab/tangent-region.md)."""
BEND = 0.5  # the gentle warp compresses values that lie more than this many deviations below the median; our choice
LARGEST_EXPONENT = 700.0  # exp of this is a float, with room for a factor of 10,000


@dataclass(frozen=True)
class Warp:
    """The increasing map from values to targets of mean 0 and deviation 1: linear down to `middle` - `unit`,
    logarithmic below. "strong" compresses all values below the median, in units of the best value's lead on it;
    "gentle" those more than BEND deviations below the median; "none" no value."""

    middle: float = 0.0
    unit: float = 1.0
    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, y: Array, warping: Warping, *, of_equal: float = 1.0) -> Warp:
        """The warp that standardises y (n); `of_equal` is the deviation of equal values."""
        middle, spread = float(np.median(y)), standardisation(y, of_equal=of_equal)[1]
        # 4.5: the gentle warp's deviation is at most this many median absolute deviations, for outliers; our choice
        lead, robust = float(y.max()) - middle, 4.5 * float(np.median(np.abs(y - middle)))
        rounding = ROUNDING * float(np.abs(y).max())
        if warping == "strong":
            unit = lead if lead > rounding else spread
            middle += unit
        elif warping == "gentle":
            unit = BEND * (robust if rounding < robust < spread else spread)
        else:
            unit = 2 * max(middle - float(y.min()), spread)
        return cls(middle, unit, *standardisation(_bend((y - middle) / unit)))

    def __call__(self, y: Array) -> Array:
        return (_bend((y - self.middle) / self.unit) - self.centre) / self.scale

    def log_jacobian(self, y: Array) -> float:
        """The sum over y of the logarithms of the slope."""
        below = np.maximum((self.middle - y) / self.unit, 1.0)
        return -float(np.log(below).sum()) - len(y) * math.log(self.unit * self.scale)

    def inverse(self, targets: Array) -> Array:
        """The values of targets (n); none lies further below than exp(LARGEST_EXPONENT) units."""
        t = targets * self.scale + self.centre
        exponent = np.clip(-t - 1, 0.0, LARGEST_EXPONENT)
        return np.asarray(self.middle + self.unit * np.where(t < -1, -np.exp(exponent), t))


def _bend(z: Array) -> Array:
    """z, below -1 replaced by -1 - log(-z), which continues it with the same slope."""
    return np.asarray(np.where(z < -1, -1 - np.log(np.maximum(-z, 1.0)), z))
