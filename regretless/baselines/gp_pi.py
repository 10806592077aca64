"""GP-PI: Kushner, "A New Method of Locating the Maximum Point of an Arbitrary Multipeak Curve in the Presence of
Noise", J. Basic Engineering 1964.

A Gaussian process models the objective; the next point maximises the probability of beating the best value so far by a
margin. Without a margin the search is local, with a large one it is global.

Notation
    m(x), s(x)   posterior mean and sd, standardised       b   the value to beat, without the margin
    xi           margin, in standardised units             log PI = log Phi((m(x) - b - xi) / s(x))

Deviations
    1. The paper's process is Wiener's on a line; ours is a fitted Matern-5/2, or SE (preset="paper"), in any dimension.
    2. b is the best posterior mean at a told point (default preset); preset="paper" takes the best observation.
    3. xi = 0.01, the customary value; Kushner lowers it by hand: preset="paper" linearly to 0 over a known budget.
    4. Pending points are hallucinated; proposals keep away from failures.
"""

import numpy as np

from regretless.gp.acquisition import log_probability_of_improvement
from regretless.gp.method import GPMethod
from regretless.parameters import Array

XI = 0.01  # the margin that implementations of PI customarily take on values of unit scale
FIRST_XI = 0.3  # where the falling margin of the paper preset starts, in sds of the values; not in paper: it gives none


class GPPI(GPMethod):
    """GP-PI: maximises the log probability of improvement of a fitted Gaussian process."""

    weighs_cost = True

    def _step(self, rng: np.random.Generator) -> Array:
        gp = self._posterior()
        improvement = log_probability_of_improvement(gp, self._value_to_beat(gp) + self._margin())
        return self._best_step(gp, improvement, rng, logarithmic=True)

    def _margin(self) -> float:
        """xi of this step."""
        if not self.paper or self.budget is None:
            return XI
        return FIRST_XI * max(0.0, 1.0 - self._evaluations / self.budget)
