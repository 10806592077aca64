"""Search in a low-dimensional box whose points a map carries into the cube: its first points, and a step in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regretless.gp.acquisition import through
from regretless.gp.design import BUDGET_SHARE, away_from_known
from regretless.gp.maximiser import Acquisition, maximise
from regretless.gp.sobol import sobol_points
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

INITIAL = 20
"""Initial points, as in the comparison of Tran-The et al. (AAAI 2020); a known budget lowers it to a quarter of it."""


def checked_low_dim(low_dim: int, dim: int) -> int:
    """The dimension of a subspace of a cube with `dim` coordinates: low_dim, or dim where that is smaller."""
    if low_dim < 1:
        raise ValueError(f"low_dim must be at least 1, got {low_dim!r}")
    return min(low_dim, dim)


class LowDesign:
    """Scrambled Sobol points of the box [0, 1]^low_dim, fixed for a run by the generator.

    Args:
        low_dim: the dimension of the box.
        initial: how many points; None: `INITIAL`, or fewer for a small budget.
        budget: the number of evaluations planned, when known.
        rng: every random draw.
    """

    def __init__(self, low_dim: int, initial: int | None, budget: int | None, rng: np.random.Generator) -> None:
        if initial is None:
            initial = INITIAL if budget is None else max(2, min(INITIAL, budget // BUDGET_SHARE))
        if initial < 1:
            raise ValueError(f"initial must be at least 1, got {initial!r}")
        self._low_dim, self._points = low_dim, sobol_points(initial, low_dim, rng)

    def next_point(self, history: Method, rng: np.random.Generator) -> Array | None:
        """The next point of the box (low_dim); None when the design is complete, whoever chose the points.

        While every evaluation has failed there is nothing to model: once the design is used up, a uniform draw.
        """
        known = len(history.known)
        if known < len(self._points):
            point: Array = self._points[known]
            return point
        return rng.random(self._low_dim) if len(history.y) == 0 else None


def step_through(
    history: Method,
    acquisition: Acquisition,
    to_cube: Callable[[Array], tuple[Array, Array]],
    matrix: Array,
    rng: np.random.Generator,
) -> Array:
    """The point of the cube that maximises an acquisition among the images of the box, off the known points, D.

    to_cube and matrix (D x low_dim) describe the map as for `through`.
    """
    low_dim = matrix.shape[1]
    low = through(acquisition, to_cube, matrix)
    y = maximise(low, Cube.box(low_dim), rng, incumbents=np.empty((0, low_dim)))
    return away_from_known(to_cube(y[None])[0][0], history, rng)
