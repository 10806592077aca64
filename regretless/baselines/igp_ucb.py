"""IGP-UCB: Chowdhury and Gopalan, "On Kernelized Multi-armed Bandits", ICML 2017, on a fixed grid as GP-ThreDS compares
with it.

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
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.kernels import Kind
from regretless.grid.bounds import confidence_width
from regretless.grid.model import MAX_DIM, GridModel
from regretless.method import Method, State
from regretless.parameters import Array
from regretless.space import Cube


class IGPUCB(Method):
    """IGP-UCB on a fixed grid: the largest upper confidence bound, with a width that follows the information gained.

    Args:
        preset: "default", or "paper": values as they are, l = 0.2, noise 0.1 and gamma = log t unless given (GP-ThreDS,
            Sec. 5).
        assumed_norm: what the width takes for the norm B of f, in standardised units; it steers and bounds nothing.
        delta: probability of error of the width.
        gain: gamma in the width: "realised" by the samples, or "log" of their number; None: by preset.
        points_per_axis: of the grid; None: 80 in two dimensions, at most about 6400 points in others.
        kernel: "se" or "matern52".
        lengthscale, noise_sd: length-scale and noise sd; None: fitted.
    """

    max_dim = MAX_DIM
    renamed: ClassVar[Mapping[str, str]] = {"noise": "noise_sd", "B": "assumed_norm"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        assumed_norm: float = 0.5,
        delta: float = 1e-3,
        gain: Literal["realised", "log"] | None = None,
        points_per_axis: int | None = None,
        kernel: Kind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if not 0 < delta < 1:
            raise ValueError(f"delta must be between 0 and 1, got {delta!r}")
        self.B, self.delta, self.gain = float(assumed_norm), delta, gain or ("log" if preset == "paper" else "realised")
        self._model = GridModel(
            self, preset, points_per_axis=points_per_axis, kernel=kernel, lengthscale=lengthscale, noise_sd=noise_sd
        )

    def _propose(self, rng: np.random.Generator) -> Array:
        return self._model.best_free(self._beta() * self._model.sd() + self._model.posterior.mean)

    def _beta(self) -> float:
        model = self._model
        gain = model.posterior.gain if self.gain == "realised" else math.log(max(model.values, 1))
        return confidence_width(gain, self.B, math.sqrt(model.scale.noise_var), self.delta)

    def _update(self, X: Array, y: Array) -> None:
        self._model.update()

    def _recommend(self) -> Array:
        return self._model.recommended()

    def _certificate(self, delta: float) -> Certificate:
        return self._model.certificate(delta)

    def _state(self) -> State:
        return self._model.state()

    def _load(self, state: Mapping[str, Any]) -> None:
        self._model.load(state)
