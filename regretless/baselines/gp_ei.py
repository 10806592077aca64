"""GP-EI: Mockus 1975; Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions", J.
Global Optimization 1998.

A Gaussian process models the objective; the next point maximises the expected improvement over the best value so far,
in the logarithmic form that neither vanishes nor overflows (Ament et al., NeurIPS 2023).

Notation
    m(x), s(x)   posterior mean and sd, standardised       b   the value to beat
    z = (m(x) - b) / s(x)                                  log EI = log s + log(phi(z) + z Phi(z))

Deviations
    1. The value to beat is the best posterior mean at a told point, not the luckiest observation (default preset): with
       noise the latter is biased upwards. preset="paper" takes the best observation (Jones et al., Eq. 14).
    2. MAP fit on a schedule, Matern-5/2 with a quadratic trend, clipped values (default preset): measured in
       docs/gp-engine.md. The paper's kernel has an exponent per coordinate fitted by maximum likelihood; preset="paper"
       uses its usual limit, the SE kernel, on values as told.
    3. Pending points are hallucinated; proposals keep away from failures.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import log_expected_improvement
from regretless.gp.certify import fitted_certificate
from regretless.gp.design import Design, design_size
from regretless.gp.kernels import Kind
from regretless.gp.step import recommended_by_mean, step
from regretless.gp.surrogate import Surrogate
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube


class GPEI(Method):
    """GP-EI: maximises the log expected improvement of a fitted Gaussian process.

    Args:
        preset: "default", or "paper": SE kernel, values as told, improvement over the best observation.
        kernel: "matern52" or "se"; None: by preset.
        ard: one length-scale per coordinate; None: by dimension.
        noise: a known noise variance of all values, or None to fit it.
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
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.paper = preset == "paper"
        self._design = Design(self.cube, design_size(self.dim, budget), self.fixed_generator())
        self._surrogate = Surrogate.by_preset(preset, self.cube, seed=self.seed, kernel=kernel, ard=ard, noise=noise)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        b = (float(self.y.max()) - gp.offset) / gp.scale if self.paper else float(gp.mean_at(self.X).max())
        b = max(b, float(gp.mean_at(self.pending).max(initial=b)))  # a pending point is believed to hold its mean
        return step(self, gp, log_expected_improvement(gp, b), rng, logarithmic=True)

    def _recommend(self) -> Array:
        return recommended_by_mean(self, self._surrogate)

    def _certificate(self, delta: float) -> Certificate:
        return fitted_certificate(self.X, self.y, self.yvar, self.cube, self.recommend(), delta, self.fixed_generator())
