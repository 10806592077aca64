"""Points chosen without a model: the initial design, and the step away from a point that is known already."""

from __future__ import annotations

import numpy as np

from regretless.gp.sobol import sobol_points
from regretless.space import Array, Cube

MOST = 32
"""An initial design is never larger: in many dimensions no affordable number of points fills the cube."""
BUDGET_SHARE = 4
"""Nor does it take more than a 1/BUDGET_SHARE of a known budget."""
SPARE = 32
"""Further points of the sequence, for designs whose points were told by others, coincide, or all failed."""
FIRST_STEP = 1e-3
"""The sd of the first step away from a known point; doubled each time it is not enough."""


def design_size(dim: int, budget: int | None) -> int:
    """2 d + 2 points, or fewer where that is too many."""
    size = min(2 * dim + 2, MOST)
    return size if budget is None else min(size, max(2, budget // BUDGET_SHARE))


class Design:
    """The centre of the cube (unless not wanted), then scrambled Sobol points; fixed for a run by its generator."""

    def __init__(self, cube: Cube, size: int, rng: np.random.Generator, *, centre: bool = True) -> None:
        self.size = size
        first = np.full((int(centre), cube.dim), 0.5)
        self.points = cube.snap(np.concatenate([first, sobol_points(size + SPARE, cube.dim, rng)]))

    def next_point(self, X: Array, failed: Array, pending: Array) -> Array | None:
        """The first design point that is neither told, failed nor pending; None when the design is complete, whoever
        chose the points."""
        known = len(X) + len(failed) + len(pending)
        if known >= self.size and len(X):
            return None
        for point in self.points:
            if not any((others == point).all(axis=1).any() for others in (X, failed, pending)):
                chosen: Array = point
                return chosen
        return None


def away_from_known(x: Array, cube: Cube, known: Array, rng: np.random.Generator) -> Array:
    """x, or where it is among the known points (k x d) a legal one a small normal step away from it.

    When the cube has no other point within reach of a few dozen steps, x itself.
    """
    step, point = FIRST_STEP, x
    for _ in range(64):
        if not (known == point).all(axis=1).any():
            return point
        point = cube.snap(x + step * rng.standard_normal(cube.dim))
        step = min(2.0 * step, 1.0)
    return x
