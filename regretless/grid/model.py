"""A Gaussian process on one fixed grid of the whole cube, kept up to date as values are told: what grid methods decide
from.

The grid is a product of legal positions, at most about 6400 points. Values are standardised by a fit that is renewed
whenever their number has grown by half; the posterior is then rebuilt from the history, so that it is a function of the
history alone. With everything given there are no fits.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from regretless.gp.acquisition import candidates_kept_from_failures
from regretless.grid.posterior import KernelName, ProductPosterior, RowPosterior, SEFeatures, product_grid
from regretless.grid.scale import Scale, fit_scale
from regretless.parameters import Array
from regretless.space import Cube

POINTS_PER_AXIS = {1: 400, 2: 80, 3: 18, 4: 8, 5: 5, 6: 4}
"""By dimension; the paper's grids have at most 6400 points."""
MAX_DIM = 6
LOW_RANK_DIM, MOST_FEATURES = 2, 700
"""Dimensions and ranks up to which the squared exponential's features are cheaper than rows."""
FIRST_FIT, REFIT = 4, 1.5
"""Values at the first fit, and the growth between fits."""
ON_GRID = 1e-9
"""A told point this close to a grid point is that grid point."""


class GridModel:
    """The posterior of told values on a grid of the cube.

    Args:
        cube: where.
        points_per_axis: positions per axis; None: by dimension.
        kernel: "se" or "matern52".
        lengthscale, noise: of the process and of the values (a standard deviation); None: fitted.
        standardise: fit mean and variance as well; otherwise the values are taken as they are, with mean 0 and variance
            1.
    """

    def __init__(
        self,
        cube: Cube,
        *,
        points_per_axis: int | None,
        kernel: KernelName,
        lengthscale: float | None,
        noise: float | None,
        standardise: bool,
    ) -> None:
        m = POINTS_PER_AXIS[cube.dim] if points_per_axis is None else points_per_axis
        self._axes = [np.unique(axis.snap(np.linspace(0.0, 1.0, m))) for axis in cube.axes]
        self._kernel, self._lengthscale, self._noise, self._standardise = kernel, lengthscale, noise, standardise
        self.scale = Scale(0.0, 1.0, lengthscale or 0.2, max(0.1 if noise is None else noise, 1e-3) ** 2)
        self.grid = product_grid(self._axes)
        self._values = 0
        self._fitted_at = 0
        self.best_before = 0.0
        """The largest posterior mean before the latest value, in the units of the values."""
        self.posterior = self._fresh()

    @classmethod
    def by_preset(
        cls,
        preset: Literal["default", "paper"],
        cube: Cube,
        *,
        points_per_axis: int | None,
        kernel: KernelName,
        lengthscale: float | None,
        noise: float | None,
    ) -> GridModel:
        """The model of a grid method: "default" standardises and fits; "paper" takes the values as they are, l = 0.2
        and noise 0.1 unless given."""
        if preset not in ("default", "paper"):
            raise ValueError(f"preset must be 'default' or 'paper', got {preset!r}")
        paper = preset == "paper"
        if paper:
            lengthscale, noise = lengthscale or 0.2, 0.1 if noise is None else noise
        return cls(
            cube,
            points_per_axis=points_per_axis,
            kernel=kernel,
            lengthscale=lengthscale,
            noise=noise,
            standardise=not paper,
        )

    def tell(self, X: Array, y: Array, yvar: Array) -> None:
        """Takes in the values after those it has: X, y and the noise variances yvar (NaN unknown) are the whole
        history."""
        while self._values < len(y):
            self.best_before = self.scale.shift + self.scale.sd * float(self.posterior.mean.max())
            n = self._values = self._values + 1
            if self._fits and n >= max(REFIT * self._fitted_at, FIRST_FIT):
                self._fitted_at = n
                self.scale = fit_scale(
                    X[:n], y[:n], self._kernel, yvar=yvar[:n], lengthscale=self._lengthscale, noise=self._noise
                )
                self.posterior = self._fresh()
                for x, value, variance in zip(X[:n], y[:n].tolist(), yvar[:n].tolist(), strict=True):
                    self._add(x, value, variance)
            else:
                self._add(X[n - 1], float(y[n - 1]), float(yvar[n - 1]))

    def sd_after(self, pending: Array) -> Array:
        """The posterior sd on the grid were the pending points (p x d) known as well, n."""
        return np.sqrt(self.posterior.variance_after(pending) if len(pending) else self.posterior.variance)

    @property
    def target(self) -> float:
        """`best_before` in standardised units."""
        return (self.best_before - self.scale.shift) / self.scale.sd

    def best_free(self, score: Array, pending: Array, X: Array, failed: Array, *, logarithmic: bool = False) -> Array:
        """The grid point with the best score (n) that is neither pending (p x d) nor failed (q x d) and not among
        failures, d.

        X: points that did not fail; logarithmic: the score is a logarithm (see `kept_from_failures`).
        """
        if len(pending) or len(failed):
            score = candidates_kept_from_failures(score, self.grid, X, failed, logarithmic=logarithmic)
            score = score + self.taken(np.concatenate([pending, failed]))
        best: Array = self.grid[int(score.argmax())]
        return best

    def taken(self, X: Array) -> Array:
        """0 for grid points to choose from, -inf for those that are among X (p x d), n."""
        out = np.zeros(len(self.grid))
        for x in X:
            index = self._index(x)
            if index >= 0:
                out[index] = -np.inf
        return out

    def best_told(self, X: Array) -> Array:
        """The told point whose nearest grid point has the largest posterior mean, d; the latest of equals."""
        index = np.ravel_multi_index(
            [np.abs(np.subtract.outer(x, a)).argmin(axis=1) for x, a in zip(X.T, self._axes, strict=True)], self._shape
        )
        mean = self.posterior.mean[index]
        best: Array = X[len(mean) - 1 - int(np.argmax(mean[::-1]))]
        return best

    @property
    def _fits(self) -> bool:
        return self._standardise or self._lengthscale is None or self._noise is None

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(len(a) for a in self._axes)

    def _fresh(self) -> RowPosterior | ProductPosterior:
        length, noise = self.scale.lengthscale, self.scale.noise
        if self._kernel == "se" and len(self._axes) <= LOW_RANK_DIM:
            features = SEFeatures(len(self._axes), length)
            if features.rank <= MOST_FEATURES:
                return ProductPosterior(self._axes, noise=noise, features=features)
        return RowPosterior(self.grid, None, kernel=self._kernel, lengthscale=length, noise=noise)

    def _add(self, x: Array, value: float, variance: float) -> None:
        scale, index = self.scale, self._index(x)
        value, noise = (value - scale.shift) / scale.sd, scale.noise_inside(variance)
        if index >= 0:
            self.posterior.add(index, value, noise)
        else:
            self.posterior.add_at(x, value, noise)

    def _index(self, x: Array) -> int:
        """The number of the grid point at x, or -1."""
        index = 0
        for xi, axis in zip(x.tolist(), self._axes, strict=True):
            at = min(int(np.searchsorted(axis, xi - ON_GRID)), len(axis) - 1)
            if abs(axis[at] - xi) > ON_GRID:
                return -1
            index = index * len(axis) + at
        return index
