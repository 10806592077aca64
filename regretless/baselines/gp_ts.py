"""GP-TS: Thompson 1933; Chowdhury and Gopalan, "On Kernelized Multi-armed Bandits", ICML 2017.

A Gaussian process models the objective; the next point maximises a function drawn from the posterior, so a point is
chosen as often as it is likely to be best. The draw is a differentiable path over the whole cube (pathwise
conditioning, Wilson et al., ICML 2020), no sample on a grid.

Notation
    f_t        a path of the posterior                     m(x)   posterior mean, standardised
    v_t        the paper's widening of the posterior: f_t is replaced by m + v_t (f_t - m)
    gamma_t    information gained by the values so far, 1/2 log|I + K / noise|

Deviations
    1. The paper draws on a growing grid and takes kernel, noise sd R and norm B as known; here the path is continuous
       and the kernel fitted (both presets).
    2. v_t = 1 (default preset). preset="paper": v_t = B + R sqrt(2 (gamma_t + 1 + log(2 / delta))) (Alg. 2), with R the
       fitted noise sd, relative to the signal's, B = 1, and gamma_t the information actually gained, a lower bound of
       the paper's maximum.
    3. Pending points need no care: each path is another. Proposals keep away from failures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.certify import certificate_of, wary_surrogate
from regretless.gp.design import Design, design_size
from regretless.gp.kernels import Kind
from regretless.gp.maximiser import Acquisition
from regretless.gp.posterior import GP, SamplePath
from regretless.gp.step import load_fits, recommended_by_mean, state_of_fits, step
from regretless.gp.surrogate import Surrogate
from regretless.method import Method, State
from regretless.parameters import Array
from regretless.space import Cube

NORM = 1.0
"""B of the paper preset, relative to the signal's sd; not in paper, which assumes it known."""


class GPTS(Method):
    """GP-TS: maximises a function drawn from the posterior of a fitted Gaussian process.

    Args:
        preset: "default", or "paper": SE kernel, values as told, the posterior widened by the paper's v_t (Alg. 2).
        kernel: "matern52" or "se"; None: by preset.
        ard: one length-scale per coordinate; None: by dimension.
        noise_var: a known noise variance of all values, or None to fit it.
        delta: the paper's failure probability.
    """

    renamed: ClassVar[Mapping[str, str]] = {"noise": "noise_var"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise_var: float | None = None,
        delta: float = 0.1,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.paper = preset == "paper"
        self.delta = delta
        self._design = Design(self.cube, design_size(self.dim, budget), self.fixed_generator())
        self._surrogate = Surrogate.by_preset(preset, self.cube, kernel=kernel, ard=ard, noise_var=noise_var)
        self._wary = wary_surrogate(self.cube)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        gp = self._surrogate.gp(self.X, self.y, self.yvar)
        path = gp.path(rng)
        drawn = widen(path, gp, widening(gp, self.delta)) if self.paper else Acquisition(path, path.values)
        return step(self, gp, drawn, rng)

    def _recommend(self) -> Array:
        return recommended_by_mean(self, self._surrogate)

    def _certificate(self, delta: float) -> Certificate:
        return certificate_of(self, self._wary, delta)

    def _state(self) -> State:
        return state_of_fits(self, model=self._surrogate, wary=self._wary)

    def _load(self, state: Mapping[str, Any]) -> None:
        load_fits(self, state, model=self._surrogate, wary=self._wary)


def widening(gp: GP, delta: float) -> float:
    """v_t = B + R sqrt(2 (gamma_t + 1 + log(2 / delta))) (Alg. 2)."""
    R = math.sqrt(float(gp.factor.noise.mean()))
    return NORM + R * math.sqrt(2 * (gp.information() + 1 + math.log(2 / delta)))


def widen(path: SamplePath, gp: GP, v: float) -> Acquisition:
    """m + v (f - m)."""

    def value_and_gradient(X: Array) -> tuple[Array, Array]:
        (f, df), (m, dm) = path(X), gp.mean_grad(X)
        return m + v * (f - m), dm + v * (df - dm)

    def value(X: Array) -> Array:
        f, m = path.values(X), gp.mean_at(X)
        return m + v * (f - m)

    return Acquisition(value_and_gradient, value)
