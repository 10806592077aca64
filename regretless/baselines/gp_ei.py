"""GP-EI: Mockus 1975; Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions", J.
Global Optimization 1998.

A Gaussian process models the objective; the next point maximises the expected improvement over the best value so far,
in the logarithmic form that neither vanishes nor overflows (Ament et al., NeurIPS 2023).

Notation
    m(x), s(x)   posterior mean and sd, standardised       b   the value to beat
    z = (m(x) - b) / s(x)                                  log EI = log s + log(phi(z) + z Phi(z))

Deviations
    1. b is the best posterior mean at a told point (default preset), because the luckiest observation is biased upwards
       by noise; preset="paper" takes the best observation (Jones et al., Eq. 14).
    2. MAP fit on a schedule, Matern-5/2 with a quadratic trend, clipped values (default; docs/lab/gp-engine.md). The
       paper fits an exponent per coordinate; preset="paper" has its usual limit, SE, on values as told.
    3. Pending points are hallucinated; proposals keep away from failures.
    4. With constraints every fourth ask must beat b by a margin (default preset): at a border the gains that are left
       shrink for ever, and without a margin they outweigh all that may be found elsewhere (docs/lab/spaces.md).
"""

import numpy as np

from regretless.gp.acquisition import log_expected_improvement
from regretless.gp.method import GPMethod
from regretless.parameters import Array

MARGIN, MARGIN_EVERY = 0.01, 4
"""The margin of deviation 4, in sds of the values, and how often it is asked for; chosen on the g-functions, a truss
and a gas line, of .01 to .1 and every second or fourth ask (docs/lab/spaces.md)."""


class GPEI(GPMethod):
    """GP-EI: maximises the log expected improvement of a fitted Gaussian process."""

    weighs_cost = True

    def _step(self, rng: np.random.Generator) -> Array:
        gp = self._posterior()
        beat = self._value_to_beat(gp)
        if self.n_constraints and not self.paper and self.step % MARGIN_EVERY == 1:
            beat += MARGIN
        improvement = log_expected_improvement(gp, beat)
        return self._best_step(gp, improvement, rng, logarithmic=True)
