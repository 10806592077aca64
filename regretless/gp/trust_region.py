"""The side length of a trust region: it doubles after successes and halves after failures (Eriksson, Pearce, Gardner,
Turner and Poloczek, NeurIPS 2019, App. B).

The caller says what a success is and what follows when the region has collapsed, and the two users differ there.
TuRBO asks a value to beat the best since the last restart by a share of that best's size, and a collapse restarts the
search elsewhere. NeuralBO asks it to beat the best of all by a share of the range seen, which does not depend on where
zero is, and a collapse opens the region again around the same history.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_LENGTH, SHORTEST, LONGEST = 0.8, 2.0**-7, 1.6
"""Initial, smallest and largest side length, as a share of the cube's side (App. B)."""
SUCCESSES = 3
"""Successes in a row that double the length, tau_s (App. B)."""
LEAST_FAILURES = 4
"""Failures in a row that halve the length are as many as dimensions, tau_f for one point at a time, and at least this
many (App. B)."""
PERTURBED = 20
"""Coordinates of a candidate that differ from the region's centre, on average, in high dimensions (App. B)."""


@dataclass(frozen=True)
class TrustRegion:
    """The side length and the run of successes or failures behind it."""

    length: float = FIRST_LENGTH
    successes: int = 0
    failures: int = 0

    def after(self, success: bool, dim: int) -> TrustRegion:
        """The region after one more value."""
        if success:
            doubles = self.successes + 1 == SUCCESSES
            return (
                TrustRegion(min(2.0 * self.length, LONGEST))
                if doubles
                else TrustRegion(self.length, self.successes + 1)
            )
        halves = self.failures + 1 == max(LEAST_FAILURES, dim)
        return TrustRegion(self.length / 2.0) if halves else TrustRegion(self.length, 0, self.failures + 1)

    @property
    def collapsed(self) -> bool:
        return self.length < SHORTEST
