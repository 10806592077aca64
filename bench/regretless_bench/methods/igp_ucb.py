"""IGP-UCB: Chowdhury and Gopalan, "On Kernelized Multi-armed Bandits", ICML 2017, on a fixed grid as GP-ThreDS compares
with it.

Each step samples the grid point with the largest upper confidence bound. The information gain in its width is that of
the samples taken, which a low-rank posterior gives for one addition a step, whatever the number of samples. A bandit
samples a point again while its bound is the largest, because values are noisy in its setting: its proposals need not be
distinct.

Notation
    mu, sigma   posterior mean and sd on the grid        beta   B + R sqrt(2 (gamma + 1 + ln 1/delta))
    gamma       information gain of the samples          B, R   norm of f and sd of the noise, as knobs

Deviations
    1. gamma is the realised gain ("log": log t, as the GP-ThreDS authors set it), not the maximum over sample sets.
    2. A fit standardises values and gives length-scale and noise unless they are given; not with `fitted=False`.
    3. The grid has its full size from the start; the authors of GP-ThreDS let it grow up to 80 points per axis.
    4. Once evaluations have failed, grid points among failures score less (`kept_from_failures`).
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from regretless.basics.options import in_range, one_of
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import confidence_width
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.grid_method import GridMethod

Gain: TypeAlias = Literal["realised", "log", "root"]


class IGPUCB(GridMethod):
    """IGP-UCB on a fixed grid: the largest upper confidence bound, with a width that follows the information gained.

    Args:
        fitted, points_per_axis, kernel, lengthscale, noise_sd: see `GridMethod`.
        assumed_norm: what the width takes for the norm B of f, in standardised units; it steers and bounds nothing.
        delta: probability of error of the width.
        gain: gamma in the width: "realised" by the samples, or the "log" (SE kernels) or "root" (Matern) of their
            number.
        refit: see `PointsMethod`.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        fitted: bool = True,
        assumed_norm: float = 0.5,
        delta: float = 1e-3,
        gain: Gain = "realised",
        points_per_axis: int | Sequence[int] | None = None,
        kernel: KernelKind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
        refit: bool = False,
    ) -> None:
        super().__init__(
            cube, seed=seed, budget=budget, fitted=fitted, points_per_axis=points_per_axis, kernel=kernel,
            lengthscale=lengthscale, noise_sd=noise_sd, refit=refit,
        )  # fmt: skip
        in_range("(0, 1)", delta=delta)
        one_of(get_args(Gain), gain=gain)
        self.B, self.delta, self.gain = float(assumed_norm), delta, gain

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        self._catch_up(history)
        return self._best_free(history, self._beta() * self._sd(history) + self.posterior.mean)

    def _beta(self) -> float:
        counted = math.sqrt(self._values) if self.gain == "root" else math.log(max(self._values, 1))
        gain = self.posterior.gain if self.gain == "realised" else counted
        return confidence_width(gain, self.B, math.sqrt(self.scale.noise_var), self.delta)
