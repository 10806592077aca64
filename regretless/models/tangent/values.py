"""Told values in the units a net is trained in: finite arithmetic for every finite value, mean 0 and deviation 1.

The square of 1e160 is no float, so values are first divided by a power of two near the largest of them; such a division
changes no digit.
"""

import math
from typing import NamedTuple, Self

import numpy as np

from regretless.space.parameters import Array

ROUNDING = 1e-13  # a spread below this share of the mean is the rounding error of equal values


def exact_unit(y: Array) -> float:
    """The power of two that brings the largest |y| (n) into [1, 2); 1 where all are zero."""
    largest = float(np.abs(y).max(initial=0.0))
    # -1022: the least exponent of the floats of full precision: neither the unit nor its inverse leaves the floats
    return math.ldexp(1.0, max(math.frexp(largest)[1] - 1, -1022)) if largest else 1.0


def times_unit(values: Array, unit: float) -> Array:
    """values (n) times such a unit, cut off at the largest float."""
    most = np.finfo(np.float64).max / unit if unit > 1 else np.inf
    return np.clip(values, -most, most) * unit


def standardisation(y: Array, *, of_equal: float = 1.0) -> tuple[float, float]:
    """Mean and sd of y (n), whose squares must be floats; of equal values `of_equal` or their rounding error."""
    centre, spread = float(y.mean()), float(y.std())
    rounding = ROUNDING * abs(centre)
    return centre, spread if spread > rounding else max(of_equal, rounding)


class TargetScale(NamedTuple):
    """How told values become targets: divided by the unit, less the centre, divided by the spread."""

    unit: float = 1.0
    centre: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, y: Array) -> Self:
        """The scale on which y (n), whatever its size, has mean 0 and deviation 1."""
        unit = exact_unit(y)
        return cls(unit, *standardisation(y / unit))

    def targets(self, y: Array) -> Array:
        return np.asarray((y / self.unit - self.centre) / self.spread)

    def values(self, targets: Array) -> Array:
        """Targets (n) in the units told."""
        return times_unit(self.centre + self.spread * targets, self.unit)


def standardised(y: Array) -> Array:
    """y (n) with mean 0 and deviation 1, whatever its size; zeros where all values are equal."""
    return TargetScale.of(y).targets(y)
