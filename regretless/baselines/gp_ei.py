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

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import log_expected_improvement
from regretless.gp.certify import certificate_of, wary_surrogate
from regretless.gp.design import Design, design_size
from regretless.gp.kernels import Kind
from regretless.gp.step import load_fits, recommended_by_mean, state_of_fits, step, value_to_beat
from regretless.gp.surrogate import Surrogate
from regretless.method import Method, State
from regretless.parameters import Array
from regretless.space import Cube


class GPEI(Method):
    """GP-EI: maximises the log expected improvement of a fitted Gaussian process.

    Args:
        preset: "default", or "paper": SE kernel, values as told, improvement over the best observation.
        kernel: "matern52" or "se"; None: by preset.
        ard: one length-scale per coordinate; None: by dimension.
        noise_var: a known noise variance of all values, or None to fit it.
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
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.paper = preset == "paper"
        self._design = Design(self.cube, design_size(self.dim, budget), self.fixed_generator())
        self._surrogate = Surrogate.by_preset(preset, self.cube, kernel=kernel, ard=ard, noise_var=noise_var)
        self._wary = wary_surrogate(self.cube)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        b = value_to_beat(self, gp, observed=self.paper)
        return step(self, gp, log_expected_improvement(gp, b), rng, logarithmic=True)

    def _recommend(self) -> Array:
        return recommended_by_mean(self, self._surrogate)

    def _certificate(self, delta: float) -> Certificate:
        return certificate_of(self, self._wary, delta)

    def _state(self) -> State:
        return state_of_fits(self, model=self._surrogate, wary=self._wary)

    def _load(self, state: Mapping[str, Any]) -> None:
        load_fits(self, state, model=self._surrogate, wary=self._wary)
