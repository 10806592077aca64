"""What a user knows of the values beforehand: a floor of a minimisation, a ceiling of a maximisation, and how far noise
can carry a value at most."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

from regretless.certificate import Certificate
from regretless.options import in_range

ROUNDED = 1e-12
"""How far, relative to a known bound, rounding alone may carry a value beyond it."""
BEYOND = 6.0
"""Told standard deviations by which a value may lie beyond a known bound: noise reaches six once in a billion."""


def checked_noise_bound(noise_bound: Any) -> float:
    """The largest size of the noise, if it is one; None: 0, nothing is known."""
    in_range("[0, inf) or None", noise_bound=noise_bound)
    return float(noise_bound or 0.0)


class KnownBound:
    """The bound on the side where the optimum lies: `floor` to minimize, `ceiling` to maximize, None: not known."""

    def __init__(self, direction: str, floor: Any, ceiling: Any, *, noise_bound: float = 0.0) -> None:
        self.name, value, other, wrong = "floor", floor, "ceiling", ceiling
        if direction == "maximize":
            self.name, value, other, wrong = other, wrong, self.name, value
        if wrong is not None:
            raise ValueError(f"to {direction}, the bound that helps is {self.name}=, got {other}={wrong!r}")
        in_range("(-inf, inf) or None", **{self.name: value})
        self.value = None if value is None else float(value)
        self._sign = 1.0 if direction == "maximize" else -1.0
        self._noise_bound = noise_bound
        self.broken: float | None = None
        """The first value told beyond the bound: then the bound was wrong."""

    @classmethod
    def of(cls, direction: str, value: Any, *, noise_bound: float = 0.0) -> KnownBound:
        """The bound of a run in this direction."""
        floor, ceiling = (value, None) if direction == "minimize" else (None, value)
        return cls(direction, floor, ceiling, noise_bound=noise_bound)

    @property
    def floor(self) -> float | None:
        return self.value if self.name == "floor" else None

    @property
    def ceiling(self) -> float | None:
        return self.value if self.name == "ceiling" else None

    def check(self, values: Iterable[float], variances: Iterable[float]) -> None:
        """Warns once when a value told lies beyond the bound by more than its told noise (NaN: none) explains."""
        if self.value is None or self.broken is not None:
            return
        for value, var in zip(values, variances, strict=True):
            noise = max(BEYOND * math.sqrt(var) if var > 0 else 0.0, self._noise_bound)
            if self._sign * (value - self.value) > max(noise, ROUNDED * abs(self.value)):
                self.broken = float(value)
                words = f"{self.name}={self.value:g} was wrong: a value of {value:g} was told"
                warnings.warn(f"{words}; certificates go on without it", RuntimeWarning, stacklevel=4)
                return

    def applied(self, found: Certificate, best: float | None) -> Certificate:
        """A certificate of the maximisation of sign * f with what the bound adds; best: what the recommended setting
        is worth at least, as a method sees it, where that is certain."""
        if self.value is None or self.broken is not None:
            return found
        side = "above" if self._sign > 0 else "below"
        return found.below(self._sign * self.value, best, f"no value lies {side} {self.name}={self.value:g}")
