"""GP-EI and GP-PI on a fixed grid, the extra curves of the GP-ThreDS authors' code (Mockus 1975; Kushner 1964).

Each step samples the grid point with the largest expected improvement (or probability of improvement) over the best
posterior mean of the step before, as in the authors' code: over the current one, PI would stay where it is for ever.

Deviations
    1. A fit standardises values and gives length-scale and noise unless they are given; not with `fitted=False`.
    2. The grid has its full size from the start; the authors let it grow up to 80 points per axis.
    3. Once evaluations have failed, grid points among failures score less (`kept_from_failures`).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from regretless.basics.options import one_of
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.models.gp.acquisition import log_h_of
from regretless.models.gp.kernels import KernelKind
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.grid_method import GridMethod

LEAST_SD = 1e-10  # posterior sds are raised to this before they divide, because at an exact value rounding may leave 0
MOST_Z = 1e150  # standardised improvements are clipped here, so that their squares stay finite whatever the values are


class GridImprovement(GridMethod):
    """GP-EI or GP-PI on a fixed grid: the largest improvement over the best posterior mean, expected or by probability.

    Args:
        criterion: "expected" improvement, or its "probability".
        fitted, points_per_axis, kernel, lengthscale, noise_sd: see `GridMethod`.
        margin: what an improvement must exceed, in standardised units (0 in the authors' code, 0.01 for their CNN).
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        criterion: Literal["expected", "probability"] = "expected",
        fitted: bool = True,
        margin: float = 0.0,
        points_per_axis: int | Sequence[int] | None = None,
        kernel: KernelKind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
    ) -> None:
        super().__init__(
            cube, seed=seed, budget=budget, fitted=fitted, points_per_axis=points_per_axis, kernel=kernel,
            lengthscale=lengthscale, noise_sd=noise_sd,
        )  # fmt: skip
        one_of(("expected", "probability"), criterion=criterion)
        self.criterion, self.margin = criterion, float(margin)

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        self._catch_up(history)
        sd = np.maximum(self._sd(history), LEAST_SD)
        best = (self._best_before - self.scale.shift) / self.scale.sd
        z = np.clip((self.posterior.mean - best - self.margin) / sd, -MOST_Z, MOST_Z)
        score = np.log(sd) + log_h_of(z)[0] if self.criterion == "expected" else log_ndtr(z)
        return self._best_free(history, score, logarithmic=True)
