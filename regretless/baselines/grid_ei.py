"""GP-EI and GP-PI on a fixed grid, the extra curves of the GP-ThreDS authors' code (Mockus 1975; Kushner 1964).

Each step samples the grid point with the largest expected improvement (or probability of improvement) over the best
posterior mean of the step before, as in the authors' code: over the current one, PI would stay where it is for ever.

Deviations
    1. Default preset only: values are standardised by a fit, which also gives length-scale and noise unless they are
       given.
    2. The grid has its full size from the start; the authors let it grow by a point a step up to 80 per axis.
    3. Once evaluations have failed, grid points among failures score less (`kept_from_failures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import log_ndtr

from regretless.certificate import Certificate
from regretless.gp.acquisition import log_h_of
from regretless.gp.kernels import Kind
from regretless.grid.model import MAX_DIM, GridModel
from regretless.method import Method, State
from regretless.parameters import Array
from regretless.space import Cube

LEAST_SD = 1e-10
"""Posterior sds are raised to this before they divide, because at an exact value rounding may leave 0."""
MOST_Z = 1e150
"""Standardised improvements are clipped here, so that their squares stay finite whatever the values are."""


class GridImprovement(Method):
    """GP-EI or GP-PI on a fixed grid: the largest improvement over the best posterior mean, expected or by probability.

    Args:
        criterion: "expected" improvement, or its "probability".
        preset: "default", or "paper": values as they are, l = 0.2 and noise 0.1 unless given.
        margin: what an improvement must exceed, in standardised units (0 for the authors' test functions, 0.01 for
            their CNN).
        points_per_axis: of the grid; None: 80 in two dimensions, at most about 6400 points in others.
        kernel: "se" or "matern52".
        lengthscale, noise_sd: length-scale and noise sd; None: fitted.
    """

    max_dim = MAX_DIM
    renamed: ClassVar[Mapping[str, str]] = {"noise": "noise_sd"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        criterion: Literal["expected", "probability"] = "expected",
        preset: Literal["default", "paper"] = "default",
        margin: float = 0.0,
        points_per_axis: int | None = None,
        kernel: Kind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if criterion not in ("expected", "probability"):
            raise ValueError(f"criterion must be 'expected' or 'probability', got {criterion!r}")
        self.criterion, self.margin = criterion, float(margin)
        self._model = GridModel(
            self, preset, points_per_axis=points_per_axis, kernel=kernel, lengthscale=lengthscale, noise_sd=noise_sd
        )

    def _propose(self, rng: np.random.Generator) -> Array:
        model = self._model
        sd = np.maximum(model.sd(), LEAST_SD)
        z = np.clip((model.posterior.mean - model.target - self.margin) / sd, -MOST_Z, MOST_Z)
        score = np.log(sd) + log_h_of(z)[0] if self.criterion == "expected" else log_ndtr(z)
        return model.best_free(score, logarithmic=True)

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
