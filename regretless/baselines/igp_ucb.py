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
    2. Default preset only: a fit standardises values and gives length-scale and noise unless they are given.
    3. The grid has its full size from the start; the authors of GP-ThreDS let it grow up to 80 points per axis.
    4. Once evaluations have failed, grid points among failures score less (`kept_from_failures`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from regretless.gp.kernels import Kind
from regretless.grid.method import GridMethod
from regretless.grid.posterior import confidence_width
from regretless.options import Preset, in_range
from regretless.parameters import Array
from regretless.space import Cube


class IGPUCB(GridMethod):
    """IGP-UCB on a fixed grid: the largest upper confidence bound, with a width that follows the information gained.

    Args:
        preset, points_per_axis, kernel, lengthscale, noise_sd: see `GridMethod`; the paper preset has gamma = log t.
        assumed_norm: what the width takes for the norm B of f, in standardised units; it steers and bounds nothing.
        delta: probability of error of the width.
        gain: gamma in the width: "realised" by the samples, or the "log" (SE kernels) or "root" (Matern) of their
            number; None: by preset.
    """

    renamed: ClassVar[Mapping[str, str]] = {"noise": "noise_sd", "B": "assumed_norm"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        assumed_norm: float = 0.5,
        delta: float = 1e-3,
        gain: Literal["realised", "log", "root"] | None = None,
        points_per_axis: int | Sequence[int] | None = None,
        kernel: Kind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
    ) -> None:
        super().__init__(
            cube, seed=seed, budget=budget, preset=preset, points_per_axis=points_per_axis, kernel=kernel,
            lengthscale=lengthscale, noise_sd=noise_sd,
        )  # fmt: skip
        in_range("(0, 1)", delta=delta)
        self.B, self.delta, self.gain = float(assumed_norm), delta, gain or ("log" if preset == "paper" else "realised")

    def _propose(self, rng: np.random.Generator) -> Array:
        return self._best_free(self._beta() * self._sd() + self.posterior.mean)

    def _beta(self) -> float:
        counted = math.sqrt(self._values) if self.gain == "root" else math.log(max(self._values, 1))
        gain = self.posterior.gain if self.gain == "realised" else counted
        return confidence_width(gain, self.B, math.sqrt(self.scale.noise_var), self.delta)
