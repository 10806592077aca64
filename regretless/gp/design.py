"""Points chosen without a model: the initial design, and the step away from a point that is known already."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from regretless.gp.sobol import sobol_points
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

MOST = 32
"""An initial design is never larger, because in many dimensions no affordable number of points fills the cube."""
BUDGET_SHARE = 4
"""A design takes at most the share 1/BUDGET_SHARE of a known budget; the rest is for the model."""
SPARE = 32
"""The number of further points of the sequence, for designs whose points were told by others, coincide, or all
failed: as many as the largest design."""
FIRST_STEP = 1e-3
"""The sd of the first step away from a known point, a thousandth of the cube's side; it doubles each time it is not
enough."""
STEPS = 64
"""The steps tried: after ten doublings the step spans the cube, and the others are draws from anywhere."""


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

    def next_point(self, history: Method, rng: np.random.Generator) -> Array | None:
        """The first design point that is not known; None when the design is complete, whoever chose the points.

        While every evaluation has failed there is nothing to model: once the design is used up, a uniform draw.
        """
        if len(history.y) and len(history.y) + len(history.failed) + len(history.pending) >= self.size:
            return None
        for point in self.points:
            if not history.is_known(point):
                chosen: Array = point
                return chosen
        return rng.random(len(self.points[0])) if len(history.y) == 0 else None


def away_from_known(x: Array, history: Method, rng: np.random.Generator, *, also: Collection[bytes] = ()) -> Array:
    """x, or where it is known a legal point a small normal step away from it; `also`: identities of further known ones.

    When the cube has no other point within reach of a few dozen steps, x itself.
    """
    step, point = FIRST_STEP, x
    for _ in range(STEPS):
        if not history.is_known(point) and not (also and history.cube.key(point) in also):
            return point
        point = history.cube.snap(x + step * rng.standard_normal(len(x)))
        step = min(2.0 * step, 1.0)
    return x
