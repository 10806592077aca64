"""The side length of a trust region: it doubles after successes and halves after failures (Eriksson, Pearce, Gardner,
Turner and Poloczek, NeurIPS 2019, App. B).

The caller says what a success is and what a collapse brings: TuRBO restarts elsewhere, `tangent-region` opens the
region again.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_LENGTH, SHORTEST, LONGEST = 0.8, 2.0**-7, 1.6  # side lengths, as a share of the cube's (App. B)
SUCCESSES = 3  # successes in a row that double the length, tau_s (App. B)
LEAST_FAILURES = 4  # failures in a row that halve the length, tau_f: as many as dimensions, at least this many (App. B)
PERTURBED = 20  # coordinates of a candidate that differ from the centre, on average, in high dimensions (App. B)


@dataclass(frozen=True)
class TrustRegion:
    """The side length and the run of successes or failures behind it."""

    length: float = FIRST_LENGTH
    successes: int = 0
    failures: int = 0

    def after(self, success: bool, dim: int) -> TrustRegion:
        """The region after one more value."""
        if success and self.successes + 1 == SUCCESSES:
            return TrustRegion(min(2.0 * self.length, LONGEST))
        if success:
            return TrustRegion(self.length, self.successes + 1)
        halves = self.failures + 1 == max(LEAST_FAILURES, dim)
        return TrustRegion(self.length / 2.0) if halves else TrustRegion(self.length, 0, self.failures + 1)

    @property
    def collapsed(self) -> bool:
        return self.length < SHORTEST
