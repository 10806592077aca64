"""What embeddings share: a low-dimensional box that a map carries into the cube, its design and its search."""

from collections.abc import Callable

import numpy as np

from regretless.basics.options import whole_number
from regretless.history import History
from regretless.models.gp.acquisition import kept_from_failures, through
from regretless.models.gp.design import BUDGET_SHARE, away_from_known
from regretless.models.gp.maximiser import Acquisition, maximise
from regretless.models.gp.sobol import sobol_points
from regretless.models.gp.step import INCUMBENTS, HasMean, best_by_mean
from regretless.space import Cube
from regretless.space.parameters import Array

LOW_POINTS = 20  # initial points in a low-dimensional box, as in the comparison of Tran-The et al. (AAAI 2020)


def checked_low_dim(low_dim: int, dim: int) -> int:
    """The dimension of a subspace of a cube with `dim` coordinates: low_dim, or dim where that is smaller."""
    whole_number(low_dim=low_dim)
    return min(low_dim, dim)


class LowDesign:
    """Scrambled Sobol points of a box that a map carries into the cube: `initial`, 20, or a quarter of the budget."""

    def __init__(self, low_dim: int, initial: int | None, budget: int | None, rng: np.random.Generator) -> None:
        if initial is None:
            initial = LOW_POINTS if budget is None else max(2, min(LOW_POINTS, budget // BUDGET_SHARE))
        whole_number(initial=initial)
        self._low_dim, self.points = low_dim, sobol_points(initial, low_dim, rng)

    def next_point(self, history: History, rng: np.random.Generator) -> Array | None:
        """The next point of the box (low_dim); None when the design is complete. While every evaluation has failed
        there is nothing to model: then a uniform draw."""
        known = history.evaluations
        if known < len(self.points):
            return np.asarray(self.points[known])
        return rng.random(self._low_dim) if len(history) == 0 else None


def step_through(
    history: History,
    cube: Cube,
    acquisition: Acquisition,
    to_cube: Callable[[Array], tuple[Array, Array]],
    matrix: Array,
    rng: np.random.Generator,
) -> Array:
    """The point of the cube that maximises an acquisition among the images of a low box, off the known points, D;
    to_cube and matrix (D x low_dim) describe the map as for `through`."""
    low_dim = matrix.shape[1]
    low = through(acquisition, to_cube, matrix)
    y = maximise(low, Cube.box(low_dim), rng, incumbents=np.empty((0, low_dim)))
    return away_from_known(to_cube(y[None])[0][0], history, cube, rng)


def best_point(
    gp: HasMean,
    acquisition: Acquisition,
    X: Array,
    failed: Array,
    cube: Cube,
    rng: np.random.Generator,
    *,
    logarithmic: bool = False,
) -> Array:
    """The point of a cube that maximises an acquisition, kept from failed points (k x d), d; X: evaluated points,
    n x d."""
    kept = kept_from_failures(acquisition, X, failed, logarithmic=logarithmic)
    return maximise(kept, cube, rng, incumbents=best_by_mean(gp, X, INCUMBENTS))
