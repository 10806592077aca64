"""`Certificate`: how much regret may be left, under which assumptions, or why that is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Certificate:
    """How much regret may be left: with probability at least 1 - delta, f* - f(recommended) <= gap.

    `lower` and `upper` bracket the optimal value f*. `kind` is "theory" (the bounds follow from stated, known
    constants), "fitted" (the model was fitted to the data; coverage is an empirical fact, measured and published in the
    docs) or "none": not certified, and `reason` says why. Values are in the caller's units; in a minimisation `lower <=
    f* <= upper` still brackets the optimum.
    """

    gap: float
    lower: float
    upper: float
    delta: float
    kind: Literal["theory", "fitted", "none"]
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    feasible: float | None = None
    """With constraints: the probability that the recommended setting satisfies them; the bounds then speak of settings
    that do."""

    @property
    def certified(self) -> bool:
        return self.kind != "none"

    @classmethod
    def none(cls, reason: str, delta: float) -> Certificate:
        """The honest answer when the model cannot be trusted."""
        return cls(gap=math.inf, lower=-math.inf, upper=math.inf, delta=delta, kind="none", reason=reason)

    def scaled(self, sign: float) -> Certificate:
        """The same statement about sign * f, sign being 1 or -1."""
        return self if sign > 0 else replace(self, lower=-self.upper, upper=-self.lower)

    def __str__(self) -> str:
        if not self.certified:
            return f"not certified: {self.reason}"
        rests = f"; assumes {', '.join(self.assumptions)}" if self.assumptions else ""
        among = "" if self.feasible is None else f" among feasible settings, itself feasible with {self.feasible:.3g},"
        return f"regret at most {self.gap:.4g}{among} with probability {1 - self.delta:.2g} ({self.kind}{rests})"
