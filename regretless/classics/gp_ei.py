"""GP-EI: Mockus 1975; Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions", J.
Global Optimization 1998.

A Gaussian process models the objective; the next point maximises the expected improvement over the best value so far,
in the logarithmic form that neither vanishes nor overflows (Ament et al., NeurIPS 2023).

Notation
    m(x), s(x)   posterior mean and sd, standardised       b   the value to beat
    z = (m(x) - b) / s(x)                                  log EI = log s + log(phi(z) + z Phi(z))

Deviations
    1. b is the best posterior mean at an evaluated point, because the luckiest observation is biased upwards by noise;
       the paper takes the best observation (Jones et al., Eq. 14).
    2. MAP fit on a schedule, Matern-5/2 with a quadratic trend, clipped values (docs/lab/gp-engine.md); the paper fits
       an exponent per coordinate.
    3. Pending points are hallucinated; proposals keep away from failures.
    4. With constraints every fourth ask must beat b by a margin: at a border the gains that are left shrink to nothing,
       and without a margin they outweigh all that may be found elsewhere (docs/lab/spaces.md).
"""

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Traits
from regretless.methods.shared import GPMethod
from regretless.models.gp.acquisition import log_expected_improvement
from regretless.space import Cube
from regretless.space.parameters import Array

MARGIN, MARGIN_EVERY = 0.01, 4
"""The margin of deviation 4, in sds of the values, and how often it is asked for; chosen on the g-functions, a truss
and a gas line, of .01 to .1 and every second or fourth ask (docs/lab/spaces.md)."""


class GPEI(GPMethod):
    """GP-EI: maximises the log expected improvement of a fitted Gaussian process."""

    traits = Traits(constraints=True, cost=True, outside=True, belief=True)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._posterior(history)
        best = self._value_to_beat(history, gp)
        if history.n_constraints and rng.step % MARGIN_EVERY == 1:
            best += MARGIN
        improvement = log_expected_improvement(gp, best)
        return self._best_step(history, cube, gp, improvement, rng, logarithmic=True)
