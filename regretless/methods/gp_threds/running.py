"""A search under way: it waits for told values at the points of one test, and goes on when they come.

The search itself is a coroutine that a subclass of `TreeSearch` gives. All it holds follows from the values taken in,
so one may be dropped at any time: another that takes in the same values stands where this one stood.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, Self, TypeAlias

import numpy as np

from regretless.history import History
from regretless.methods.gp_threds.threshold_tree import Cell, CellTest, GridPriors, ThresholdTree
from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import RowPosterior
from regretless.models.grid.scale import ProcessScale
from regretless.space.parameters import Array

STALL = 50  # told points in a row from elsewhere that close a test, as many as a test of the paper takes

Sample: TypeAlias = tuple[Array, float, float]  # a told point, its value and the variance of its noise (NaN unknown)
SearchSteps: TypeAlias = Generator[None, Sample, Any]  # a search under way: it waits for told points


class TreeSearch(ABC):
    """The tree of a search, the units of its values, the test that runs, and how many values it has taken in.

    Args:
        grids: the grids of cells.
        kernel: of the process.
        scale: the units in which tests see values.
        interval: what f* is believed to lie in.
    """

    def __init__(
        self, grids: GridPriors, kernel: KernelKind, scale: ProcessScale, interval: tuple[float, float]
    ) -> None:
        self.grids, self.kernel, self.scale = grids, kernel, scale
        self.tree = ThresholdTree(interval, [Cell.whole(grids.cube.dim)])
        self.test: CellTest | None = None
        self.n = 0
        self._history = History(grids.cube.dim)
        self._search = self.search()

    @abstractmethod
    def search(self) -> SearchSteps:
        """The algorithm, from its first epoch on; it never ends."""

    @abstractmethod
    def beta(self, posterior: RowPosterior) -> float:
        """The width of a test after the samples of its posterior."""

    def begin(self) -> Self:
        """Itself, waiting for the first value."""
        next(self._search)
        return self

    def observe(self, history: History) -> None:
        """Shows the search the values of a history from the first one on that it has not seen."""
        self._history, n = history, self.n
        for told in zip(history.X[n:], history.y[n:].tolist(), history.yvar[n:].tolist(), strict=True):
            self.n += 1
            self._search.send(told)

    @property
    def values(self) -> tuple[Array, Array, Array]:
        """The points (n x d), values and noise variances (n each) taken in so far."""
        history, n = self._history, self.n
        return history.X[:n], history.y[:n], history.yvar[:n]

    @property
    def running_test(self) -> CellTest:
        """The test that waits for values."""
        assert self.test is not None
        return self.test

    def new_test(self, cell: Cell) -> CellTest:
        """The test of a cell, without samples, which runs from now on; it has no bounds before it is scored."""
        length, noise_var = self.scale.lengthscale, self.scale.noise_var
        self.test = CellTest(cell, self.grids, kernel=self.kernel, lengthscale=length, noise_var=noise_var)
        return self.test

    def score(self, test: CellTest) -> None:
        """Sets the bounds of a test."""
        test.score(self.beta(test.posterior))

    def sample(self, test: CellTest) -> Generator[None, Sample, None]:
        """Waits for a value of a test, takes it in and sets the bounds. STALL values in a row from elsewhere close
        the test."""
        for _ in range(STALL):
            x, y, variance = yield
            if test.take(x, self.scale.value_inside(y), self.scale.noise_var_inside(variance)):
                self.score(test)
                return
        test.close()

    def next_point(self, history: History, rng: np.random.Generator) -> Array:
        """The point of the running test with the largest upper bound (Fig. 3), away from pending and failed ones, d."""
        test, pending, failed = self.running_test, history.pending, history.failed
        if not len(pending) and not len(failed):
            return np.asarray(test.grid[test.query])
        ucb = test.ucb.copy()
        near = pending[test.cell.near(pending)]
        if len(near):
            ucb = test.mean + self.beta(test.posterior) * np.sqrt(test.posterior.variance_after(near))
        # 0.1: points this many sides from a failed evaluation are not proposed in a cell while others are left
        # 1e-9: points closer than this many sides are the same point; the rest is rounding
        for x, reach in [(x, 1e-9) for x in pending] + [(x, 0.1) for x in failed]:
            ucb[(np.abs(test.grid - x) <= reach * test.cell.sides).all(axis=1)] = -np.inf
        best = int(ucb.argmax())
        if ucb[best] > -np.inf:
            return np.asarray(test.grid[best])
        # 32: random points to choose from when every point of the running cell is pending or near a failure
        return beside_the_best(rng.random((32, history.dim)), history.X, history.y, failed)


def beside_the_best(draws: Array, X: Array, y: Array, failed: Array) -> Array:
    """The random point (of k x d) whose nearest told (n x d, values n) or failed one (p x d) has the best value, d."""
    values = np.concatenate([y, np.full(len(failed), -np.inf)])
    nearest = np.abs(draws[:, None, :] - np.concatenate([X, failed])).max(axis=2).argmin(axis=1)
    return np.asarray(draws[int(values[nearest].argmax())])
