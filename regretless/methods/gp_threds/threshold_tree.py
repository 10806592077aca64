"""The tree of a thresholded search: cells of the cube, the test that runs in one of them, and the record of both.

A cell is a box, and its children halve every side. `ThresholdTree` is the part that a user reads.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import RowPosterior, correlation, product_grid
from regretless.space import Cube
from regretless.space.parameters import Array

REACH = 0.75  # samples count for a cell when every coordinate is within this many sides of its centre
SMALLEST = 1e-6  # the least side of cells: grid points of smaller ones are closer than most objectives resolve
POINTS_PER_AXIS = {1: 64, 2: 20, 3: 8, 4: 5, 5: 4, 6: 3}  # of a cell's grid; 20 in the plane as in the authors' code


class DimensionWarning(UserWarning):
    """GP-ThreDS in a dimension where its grids are too coarse to be of much use."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A box in the cube: its centre and its sides, d each."""

    centre: Array
    sides: Array

    @classmethod
    def whole(cls, dim: int) -> Cell:
        return cls(np.full(dim, 0.5), np.ones(dim))

    def child(self, number: int) -> Cell:
        """The child whose place on axis i is the upper half when bit i of the number is set."""
        upper = np.array([(number >> i) & 1 for i in range(len(self.centre))])
        return Cell(self.centre + (upper - 0.5) * self.sides / 2, self.sides / 2)

    def half(self, axis: int, upper: bool) -> Cell:
        """One of the two halves along an axis."""
        centre, sides = self.centre.copy(), self.sides.copy()
        sides[axis] /= 2
        centre[axis] += sides[axis] / 2 if upper else -sides[axis] / 2
        return Cell(centre, sides)

    def near(self, X: Array) -> NDArray[np.bool_]:
        """Which of n points are in the cell or its margin, n."""
        return self._within(X, REACH * self.sides)

    def contains(self, X: Array) -> NDArray[np.bool_]:
        """Which of n points are in the cell, n."""
        inside = 0.5 * (1 + 1e-9)  # of a side, from the centre; the excess over one half is for rounding
        return self._within(X, inside * self.sides)

    def _within(self, X: Array, reach: Array) -> NDArray[np.bool_]:
        inside = np.ones(len(X), dtype=np.bool_)
        for x, centre, r in zip(X.T, self.centre, reach, strict=True):  # six times faster than a reduction over rows
            inside &= np.abs(x - centre) <= r
        return inside


@dataclass
class ThresholdTree:
    """What is known of where the optimum is: `live` cells, the interval of f*, its threshold, the cells given up."""

    interval: tuple[float, float]
    """[a_k, b_k]: where the search believes f* to be. It steers; it is no guarantee (`certificate` is)."""
    live: list[Cell]
    pruned: list[tuple[Cell, int]] = field(default_factory=list)  # cells given up, each with the epoch in which it was
    epoch: int = 1
    depth: int = 0  # halvings of the live cells
    thresholds: list[float] = field(default_factory=list)  # tau_k of every epoch so far
    by_bound: int = 0  # cells accepted because a lower bound passed the threshold
    by_time: int = 0  # cells accepted because the test ran out of samples
    contradictions: int = 0  # how often a lower bound passed b_k, so that the interval had to be moved up
    stopped: str = ""  # why the domain shrinks no further; empty while it does

    @property
    def threshold(self) -> float:
        """tau_k, the middle of the interval."""
        return 0.5 * (self.interval[0] + self.interval[1])

    @property
    def side(self) -> float:
        """The side of the live cells."""
        return 2.0**-self.depth

    def halve(self, targets: list[list[int]]) -> bool:
        """Replaces every live cell by its children of these numbers; says whether it did. Cells that would become
        smaller than SMALLEST stay."""
        if self.side / 2 < SMALLEST:
            self.stopped = f"cells of side {self.side:.2g} are not halved further"
            return False
        pairs = list(zip(self.live, targets, strict=True))
        self.live = [cell.child(i) for cell, children in pairs for i in children]
        dropped = [cell.child(i) for cell, kept in pairs for i in range(2 ** len(cell.sides)) if i not in kept]
        self.pruned += [(cell, self.epoch) for cell in dropped]
        self.depth += 1
        return True

    def begin_again(self) -> None:
        """Makes the whole cube live again; the record of epochs goes on."""
        self.live, self.depth, self.pruned, self.stopped = [Cell.whole(len(self.live[0].sides))], 0, [], ""


class GridPriors:
    """The covariance of a cell's grid under a stationary kernel: one n x n matrix per cell size."""

    def __init__(
        self, cube: Cube, points_per_axis: int | tuple[int, ...] | None, rng: np.random.Generator | None = None
    ) -> None:
        self.cube, self.shape = cube, checked_shape(points_per_axis, cube.dim)
        self.unit = product_grid([np.linspace(-0.5, 0.5, m) for m in self.shape])
        """The grid of the cell of side 1 around 0, n x d."""
        self.children = (self.unit > 0) @ (1 << np.arange(cube.dim))
        """The child each grid point lies in, n; points on the border belong to the lower one."""
        # 1e-9, 9: bounds this close are level: rounding separates points equal by symmetry
        self.ties = np.zeros(len(self.unit)) if rng is None else -1e-9 * rng.random(len(self.unit))
        """What decides between level grid points, n: it is added to their bounds. Without rng the first one wins."""
        self._kept: dict[tuple[object, ...], Array] = {}

    def prior(self, sides: Array, kernel: KernelKind, lengthscale: float) -> Array:
        key = (*sides.tolist(), kernel, lengthscale)
        if key not in self._kept:
            # 8: grid covariances kept at a time, one per cell size; a search uses two or three sizes at a time
            while len(self._kept) >= 8:
                del self._kept[next(iter(self._kept))]
            points = self.unit * sides
            self._kept[key] = correlation(kernel, points, points, lengthscale)
        return self._kept[key]


def checked_shape(points_per_axis: int | tuple[int, ...] | None, dim: int) -> tuple[int, ...]:
    """The points along every axis of a cell's grid, from one number, one per axis, or None for those of the
    dimension."""
    points = POINTS_PER_AXIS[dim] if points_per_axis is None else points_per_axis
    shape = points if isinstance(points, tuple) else (points,) * dim
    if len(shape) != dim or not all(isinstance(m, int) and m >= 2 for m in shape):
        raise ValueError(f"points_per_axis must be a whole number of at least 2, or one per axis, got {points!r}")
    return shape


def checked_interval(interval: tuple[float, float]) -> tuple[float, float]:
    """The interval, if it is one."""
    if not -np.inf < interval[0] < interval[1] < np.inf:
        raise ValueError(f"interval must be two finite numbers a < b, got {interval!r}")
    return interval


def warn_of_dimension(dim: int) -> None:
    """Warns the caller of a method's constructor where grids are coarse."""
    # 4: from this dimension on the grids have so few points per axis that users are warned
    if dim >= 4:
        advice = "its grids have few points per axis there; use 'gp-ucb' or 'turbo' instead"
        warnings.warn(f"GP-ThreDS in {dim} dimensions: {advice}", DimensionWarning, stacklevel=3)


class CellTest:
    """The posterior on the grid of one cell, legal points each once, and which of them are still in the race."""

    def __init__(
        self, cell: Cell, priors: GridPriors, *, kernel: KernelKind, lengthscale: float, noise_var: float
    ) -> None:
        self.cell = cell
        self._shape = priors.shape
        grid = cell.centre + priors.unit * cell.sides
        self.children, ties = priors.children, priors.ties
        self._plain = priors.cube.plain
        if self._plain:
            prior = priors.prior(cell.sides, kernel, lengthscale)
            self._centre, self._sides = cell.centre.tolist(), cell.sides.tolist()
        else:
            grid, first = np.unique(priors.cube.snap(grid), axis=0, return_index=True)
            self.children, ties = self.children[first], ties[first]
            prior = correlation(kernel, grid, grid, lengthscale)
        self.posterior = RowPosterior(grid, prior, kernel=kernel, lengthscale=lengthscale, noise_var=noise_var)
        self.grid = grid
        self.out = ties.copy()
        """Next to nothing for points in the race (see `GridPriors.ties`), -inf for points dropped, n."""
        self.open = True  # whether any point is in the race

    def take(self, x: Array, y: float, noise_var: float | None = None) -> bool:
        """Takes in a told point on the grid or near the cell; says whether it did. noise_var: if not lambda."""
        index = self._index(x)
        if index >= 0:
            self.posterior.add(index, y, noise_var)
        elif (np.abs(x - self.cell.centre) <= REACH * self.cell.sides).all():
            self.posterior.add_at(x, y, noise_var)
        else:
            return False
        return True

    def score(self, beta: float) -> None:
        """Sets the bounds mean -+ beta sd of the points in the race, and their largest."""
        width = np.sqrt(self.posterior.variance)
        width *= beta
        self.mean = self.posterior.mean + self.out
        self.ucb, lcb = self.mean + width, self.mean - width
        self.best_upper, self.best_lower = int(self.ucb.argmax()), int(lcb.argmax())
        self.upper, self.lower = float(self.ucb[self.best_upper]), float(lcb[self.best_lower])

    @property
    def query(self) -> int:
        """The grid point to sample next: of the largest upper bound, or nearest to the centre before any."""
        if self.posterior.t:
            return self.best_upper
        distance = np.abs((self.grid - self.cell.centre) / self.cell.sides).sum(axis=1)
        return int((self.out - distance.round(9)).argmax())

    def bounds(self, beta: float, *, everywhere: bool = False) -> tuple[float, float]:
        """The largest lower and the largest upper bound of the points in the race, or of the whole grid."""
        width = beta * np.sqrt(self.posterior.variance)
        mean = self.posterior.mean if everywhere else self.posterior.mean + self.out
        return float((mean - width).max()), float((mean + width).max())

    def accept(self) -> int:
        """Takes the child with the largest lower bound out of the race, and gives its number."""
        child = int(self.children[self.best_lower])
        self.out[self.children == child] = -np.inf
        self.open = bool((self.out > -np.inf).any())
        return child

    def drop_inside(self, cell: Cell) -> None:
        """Takes the points in another cell out of the race."""
        self.out[cell.contains(self.grid)] = -np.inf
        self.open = bool((self.out > -np.inf).any())

    def close(self) -> None:
        """Takes every point out of the race."""
        self.out[:] = -np.inf
        self.open = False

    def _index(self, x: Array) -> int:
        """The number of the grid point at x, or -1."""
        if not self._plain:
            distance = np.abs(self.grid - x).max(axis=1)
            nearest = int(distance.argmin())
            # 1e-12: the same in units of a cube with discrete axes, whose points are legal up to rounding
            return nearest if distance[nearest] < 1e-12 else -1
        index = 0
        for xi, centre, side, m in zip(x.tolist(), self._centre, self._sides, self._shape, strict=True):
            place = ((xi - centre) / side + 0.5) * (m - 1)
            nearest = round(place)
            # 1e-6: a told point this close to a grid point, in grid steps, is that point: settings travel through
            # text
            if abs(place - nearest) > 1e-6 or nearest < 0 or nearest >= m:
                return -1
            index = index * m + nearest
        return index
