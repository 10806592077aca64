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
from typing import Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import kept_from_failures
from regretless.gp.certify import fitted_certificate
from regretless.gp.design import Design, away_from_known, design_size
from regretless.gp.kernels import Kind
from regretless.gp.maximiser import Acquisition, Score, maximise
from regretless.gp.posterior import GP, SamplePath
from regretless.gp.surrogate import Surrogate
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

INCUMBENTS = 3
"""Told points with the best posterior means, around which candidates are drawn."""
NORM = 1.0
"""B of the paper preset, relative to the signal's sd; not in paper: it is assumed known there."""


class GPTS(Method):
    """GP-TS: maximises a function drawn from the posterior of a fitted Gaussian process.

    Args:
        preset: "default", or "paper": SE kernel, values as told, the posterior widened by the paper's v_t (Alg. 2).
        kernel: "matern52" or "se"; None: by preset.
        ard: one length-scale per coordinate; None: by dimension.
        noise: a known noise variance of all values, or None to fit it.
        delta: the paper's failure probability.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise: float | None = None,
        delta: float = 0.1,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.paper = preset == "paper"
        self.delta = delta
        self._design = Design(self.cube, design_size(self.dim, budget), self.fixed_generator())
        self._surrogate = Surrogate.by_preset(preset, self.cube, seed=self.seed, kernel=kernel, ard=ard, noise=noise)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        gp = self._surrogate.gp(self.X, self.y, self.yvar)
        path = gp.path(rng)
        drawn = widened(path, gp, widening(gp, self.delta)) if self.paper else (path, path.values)
        pair = kept_from_failures(drawn, self.X, self.failed)
        incumbents = self.X[np.argsort(-gp.mean_at(self.X), kind="stable")[:INCUMBENTS]]
        x = maximise(pair[0], self.cube, rng, incumbents=incumbents, score=pair[1])
        return away_from_known(x, self, rng)

    def _recommend(self) -> Array:
        gp = self._surrogate.gp(self.X, self.y, self.yvar)
        best: Array = self.X[int(np.argmax(gp.mean_at(self.X)))]
        return best

    def _certificate(self, delta: float) -> Certificate:
        return fitted_certificate(self.X, self.y, self.yvar, self.cube, self.recommend(), delta, self.fixed_generator())


def widening(gp: GP, delta: float) -> float:
    """v_t = B + R sqrt(2 (gamma_t + 1 + log(2 / delta))) (Alg. 2)."""
    R = math.sqrt(float(gp.factor.noise.mean()))
    return NORM + R * math.sqrt(2 * (gp.information() + 1 + math.log(2 / delta)))


def widened(path: SamplePath, gp: GP, v: float) -> tuple[Acquisition, Score]:
    """m + v (f - m), with its gradient and without."""

    def wide(X: Array) -> tuple[Array, Array]:
        (f, df), (m, dm) = path(X), gp.mean_grad(X)
        return m + v * (f - m), dm + v * (df - dm)

    def values(X: Array) -> Array:
        f, m = path.values(X), gp.mean_at(X)
        return m + v * (f - m)

    return wide, values
