"""Trust regions: the side length doubles after successes and halves after failures (Eriksson, Pearce, Gardner, Turner
and Poloczek, NeurIPS 2019, App. B).

`TrustRegion` leaves open what a success is and what a collapse brings: TuRBO restarts elsewhere (`Restarts`),
`tangent-region` opens the region again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regretless.basics.streams import Stream, keyed_generator
from regretless.history import History
from regretless.models.gp.posterior import GP
from regretless.models.gp.sobol import sobol_points
from regretless.models.gp.step import best_evaluated
from regretless.space import Cube
from regretless.space.parameters import Array

FIRST_LENGTH, SHORTEST, LONGEST = 0.8, 2.0**-7, 1.6  # side lengths, as a share of the cube's (App. B)
PERTURBED = 20  # coordinates of a candidate that differ from the centre, on average, in high dimensions (App. B)
LOCAL = "a trust region looks at one part of the space only; nothing is known of the rest"
"""Why a trust region certifies nothing."""


@dataclass(frozen=True)
class TrustRegion:
    """The side length and the run of successes or failures behind it."""

    length: float = FIRST_LENGTH
    successes: int = 0
    failures: int = 0

    def after(self, success: bool, dim: int) -> TrustRegion:
        """The region after one more value."""
        # 3: successes in a row that double the length, tau_s (App. B)
        if success and self.successes + 1 == 3:
            return TrustRegion(min(2.0 * self.length, LONGEST))
        if success:
            return TrustRegion(self.length, self.successes + 1)
        # 4: failures in a row that halve the length, tau_f: as many as dimensions, at least this many (App. B)
        halves = self.failures + 1 == max(4, dim)
        return TrustRegion(self.length / 2.0) if halves else TrustRegion(self.length, 0, self.failures + 1)

    @property
    def collapsed(self) -> bool:
        return self.length < SHORTEST


class Restarts:
    """The trust regions of a run of TuRBO, one after the other, as they follow from the values (Sec. 3).

    Args:
        dim: the number of coordinates.
        initial: the number of values with which each region begins, before successes and failures count.
    """

    def __init__(self, dim: int, initial: int) -> None:
        self._dim, self._initial = dim, initial
        self.number = 0
        """How many regions have collapsed."""
        self.start = 0
        """The number of values that came before the present region."""
        self.region = TrustRegion()

    def observe(self, y: Array, first: int) -> None:
        """The values from row `first` of y (n) on."""
        for n in range(first, len(y)):
            if n < self.start + self._initial:
                continue
            best, value = float(y[self.start : n].max()), float(y[n])
            # 1e-3: a success improves the best value by more than this share of its size (the authors' settings)
            self.region = self.region.after(value > best + 1e-3 * abs(best), self._dim)
            if self.region.collapsed:
                self.number, self.start, self.region = self.number + 1, n + 1, TrustRegion()

    def design_point(self, seed: int, history: History, rng: np.random.Generator) -> Array | None:
        """The next initial point of the present region, d; None when there are enough. Uniform draws follow the design
        while it has given no value."""
        values, pending = len(history) - self.start, len(history.pending)
        if values > 0 and values + pending >= self._initial:
            return None
        draws = keyed_generator(seed, self.number, stream=Stream.TURBO_RESTART)
        design = sobol_points(self._initial + 1, self._dim, draws)
        return np.asarray(design[values + pending] if values + pending < len(design) else rng.random(self._dim))

    def values(self, history: History) -> tuple[Array, Array, Array]:
        """Points (n x d), values (n) and noise variances (n) of the present region."""
        return history.X[self.start :], history.y[self.start :], history.yvar[self.start :]


def thompson_step(gp: GP, X: Array, length: float, cube: Cube, rng: np.random.Generator) -> Array:
    """The candidate in a region around the best of X (n x d) where a function drawn from the posterior is
    largest, d."""
    centre = best_evaluated(gp, X)
    candidates = cube.snap(trust_region_candidates(centre, length, gp.hyper.lengthscale, rng))
    candidates = candidates[(candidates != centre).any(axis=1)]
    if len(candidates) == 0:  # a small finite space can be exhausted by its trust region
        return rng.random(cube.dim)
    return np.asarray(candidates[int(np.argmax(gp.path(rng).values(candidates)))])


def trust_region_candidates(centre: Array, length: float, lengthscale: Array, rng: np.random.Generator) -> Array:
    """Sobol points of the box around centre (d) whose sides follow the length-scales, some coordinates left, c x d."""
    d = len(centre)
    weights = np.ones(d) if lengthscale.size == 1 else lengthscale / math.exp(float(np.log(lengthscale).mean()))
    low, high = np.clip(centre - weights * length / 2, 0.0, 1.0), np.clip(centre + weights * length / 2, 0.0, 1.0)
    # 100, 5000: candidates of a Thompson draw: min(100 d, 5000) (App. B)
    count = min(100 * d, 5000)
    points = low + (high - low) * sobol_points(count, d, rng)
    moved = rng.random((count, d)) < min(PERTURBED / d, 1.0)
    moved[np.arange(count), rng.integers(d, size=count)] = True
    return np.where(moved, points, centre)
