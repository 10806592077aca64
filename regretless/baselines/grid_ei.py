"""GP-EI and GP-PI on a fixed grid, the extra curves of the GP-ThreDS authors' code (Mockus 1975; Kushner 1964).

Each step samples the grid point with the largest expected improvement (probability of improvement) over the best
posterior mean on the grid of the step before, as in the authors' code: over the current one PI would stay where it is
for ever.

Deviations
    1. Default preset only: values are standardised by a fit, which also gives length-scale and noise unless they are
       given.
    2. The grid has its full size from the start; the authors let it grow by a point a step up to 80 per axis.
    3. Once evaluations have failed, grid points among failures score less (`kept_from_failures`).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from regretless.certificate import Certificate
from regretless.gp.acquisition import log_h_of
from regretless.grid.model import MAX_DIM, GridModel
from regretless.grid.posterior import KernelName
from regretless.grid.whole_model import whole_certificate
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

LEAST_SD = 1e-10


class GridEI(Method):
    """GP-EI on a fixed grid: the largest expected improvement over the best posterior mean.

    Args:
        preset: "default", or "paper": values as they are, l = 0.2 and noise 0.1 unless given.
        kernel: "se" or "matern52".
        lengthscale, noise: length-scale and noise sd; None: fitted.
        points_per_axis: of the grid; None: 80 in two dimensions, at most about 6400 points in others.
        margin: what an improvement must exceed, in standardised units (0 for the authors' test functions, 0.01 for
            their CNN).
    """

    max_dim = MAX_DIM

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        kernel: KernelName = "se",
        lengthscale: float | None = None,
        noise: float | None = None,
        points_per_axis: int | None = None,
        margin: float = 0.0,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.margin = float(margin)
        self._model = GridModel.by_preset(
            preset, self.cube, points_per_axis=points_per_axis, kernel=kernel, lengthscale=lengthscale, noise=noise
        )
        self._first = int(self.fixed_generator().integers(len(self._model.grid)))

    def _propose(self, rng: np.random.Generator) -> Array:
        if not len(self.y) and not self._pending and not len(self.failed):
            return np.asarray(self._model.grid[self._first])
        sd = np.maximum(self._model.sd_after(self.pending), LEAST_SD)
        mean = self._model.posterior.mean
        score = np.log(sd)
        score += log_h_of((mean - self._model.target - self.margin) / sd)[0]
        return self._model.best_free(score, self.pending, self.X, self.failed, logarithmic=True)

    def _update(self, X: Array, y: Array) -> None:
        self._model.tell(self.X, self.y, self.yvar)

    def _recommend(self) -> Array:
        return self._model.best_told(self.X)

    def _certificate(self, delta: float) -> Certificate:
        return whole_certificate(
            self.X,
            self.y,
            self.yvar,
            self._model.scale.noise_variance,
            self.cube,
            self.recommend(),
            delta,
            self.fixed_generator(),
        )


class GridPI(Method):
    """GP-PI on a fixed grid: the largest probability of improvement over the best posterior mean.

    Args:
        preset: "default", or "paper": values as they are, l = 0.2 and noise 0.1 unless given.
        kernel: "se" or "matern52".
        lengthscale, noise: length-scale and noise sd; None: fitted.
        points_per_axis: of the grid; None: 80 in two dimensions, at most about 6400 points in others.
        margin: what an improvement must exceed, in standardised units (0 for the authors' test functions).
    """

    max_dim = MAX_DIM

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        kernel: KernelName = "se",
        lengthscale: float | None = None,
        noise: float | None = None,
        points_per_axis: int | None = None,
        margin: float = 0.0,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.margin = float(margin)
        self._model = GridModel.by_preset(
            preset, self.cube, points_per_axis=points_per_axis, kernel=kernel, lengthscale=lengthscale, noise=noise
        )
        self._first = int(self.fixed_generator().integers(len(self._model.grid)))

    def _propose(self, rng: np.random.Generator) -> Array:
        if not len(self.y) and not self._pending and not len(self.failed):
            return np.asarray(self._model.grid[self._first])
        sd = np.maximum(self._model.sd_after(self.pending), LEAST_SD)
        mean = self._model.posterior.mean
        score = log_ndtr((mean - self._model.target - self.margin) / sd)
        return self._model.best_free(score, self.pending, self.X, self.failed, logarithmic=True)

    def _update(self, X: Array, y: Array) -> None:
        self._model.tell(self.X, self.y, self.yvar)

    def _recommend(self) -> Array:
        return self._model.best_told(self.X)

    def _certificate(self, delta: float) -> Certificate:
        return whole_certificate(
            self.X,
            self.y,
            self.yvar,
            self._model.scale.noise_variance,
            self.cube,
            self.recommend(),
            delta,
            self.fixed_generator(),
        )
