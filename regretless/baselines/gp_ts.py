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
       fitted noise sd by the signal's, B = 1, and gamma_t the information gained, at most the paper's maximum.
    3. Pending points need no care: each path is another. Proposals keep away from failures.
"""

import math

import numpy as np

from regretless.gp.maximiser import Acquisition
from regretless.gp.method import GPMethod
from regretless.gp.posterior import GP, SamplePath
from regretless.parameters import Array

NORM = 1.0  # B of the paper preset, relative to the signal's sd; not in paper, which assumes it known
DELTA = 0.1  # the failure probability of the paper preset; not in paper, which leaves it open


class GPTS(GPMethod):
    """GP-TS: maximises a function drawn from the posterior of a fitted Gaussian process."""

    def _step(self, rng: np.random.Generator) -> Array:
        gp = self._surrogate.gp(*self.basis)
        path = gp.path(rng)
        drawn = widen(path, gp, widening(gp, DELTA)) if self.paper else Acquisition(path, path.values)
        return self._best_step(gp, drawn, rng)


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
