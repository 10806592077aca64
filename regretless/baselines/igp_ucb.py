"""IGP-UCB: Chowdhury and Gopalan, "On Kernelized Multi-armed Bandits", ICML 2017, on a fixed grid as GP-ThreDS compares
against it.

Each step samples the grid point with the largest upper confidence bound. The information gain in its width is that of
the samples taken, which a low-rank posterior gives for one addition a step; the cost of a step does not grow with the
number of samples.

Notation
    mu, sigma   posterior mean and sd on the grid        beta   B + R sqrt(2 (gamma + 1 + ln 1/delta))
    gamma       information gain of the samples          B, R   norm of f and sd of the noise, as knobs

Deviations
    1. gamma is the realised gain ("log": log t, as the GP-ThreDS authors set it) instead of the maximum over all sample
       sets.
    2. Default preset only: values are standardised by a fit, which also gives length-scale and noise unless they are
       given.
    3. The grid has its full size from the start; the authors of GP-ThreDS let it grow by a point a step up to 80 per
       axis.
    4. Once evaluations have failed, grid points among failures score less (`kept_from_failures`).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.grid.bounds import confidence_width
from regretless.grid.model import MAX_DIM, GridModel
from regretless.grid.posterior import KernelName
from regretless.grid.whole_model import whole_certificate
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube


class IGPUCB(Method):
    """IGP-UCB on a fixed grid: the largest upper confidence bound, with a width that follows the information gained.

    Args:
        preset: "default", or "paper": values as they are, l = 0.2, noise 0.1 and gamma = log t unless given (GP-ThreDS,
            Sec. 5).
        kernel: "se" or "matern52".
        lengthscale, noise: length-scale and noise sd; None: fitted.
        B: the norm of f, in standardised units.
        delta: confidence.
        points_per_axis: of the grid; None: 80 in two dimensions, at most about 6400 points in others.
        gain: "realised", or "log" of the number of samples; None: by preset.
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
        B: float = 0.5,
        delta: float = 1e-3,
        points_per_axis: int | None = None,
        gain: Literal["realised", "log"] | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if not 0 < delta < 1:
            raise ValueError(f"delta must be between 0 and 1, got {delta!r}")
        self.B, self.delta, self.gain = float(B), float(delta), gain or ("log" if preset == "paper" else "realised")
        self._model = GridModel.by_preset(
            preset, self.cube, points_per_axis=points_per_axis, kernel=kernel, lengthscale=lengthscale, noise=noise
        )
        self._first = int(self.fixed_generator().integers(len(self._model.grid)))

    def _propose(self, rng: np.random.Generator) -> Array:
        if not len(self.y) and not self._pending and not len(self.failed):
            return np.asarray(self._model.grid[self._first])
        posterior = self._model.posterior
        score = self._beta() * self._model.sd_after(self.pending)
        score += posterior.mean
        return self._model.best_free(score, self.pending, self.X, self.failed)

    def _beta(self) -> float:
        posterior = self._model.posterior
        gain = posterior.gain if self.gain == "realised" else math.log(max(posterior.t, 1))
        return confidence_width(gain, self.B, math.sqrt(self._model.scale.noise), self.delta)

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
