"""GP-PI: Kushner, "A New Method of Locating the Maximum Point of an Arbitrary Multipeak Curve in the Presence of
Noise", J. Basic Engineering 1964.

A Gaussian process models the objective; the next point maximises the probability of beating the best value so far by a
margin. Without a margin the search is local, with a large one it is global.

Notation
    m(x), s(x)   posterior mean and sd, standardised       b   the value to beat, without the margin
    xi           margin, in standardised units             log PI = log Phi((m(x) - b - xi) / s(x))

Deviations
    1. The paper's process is Wiener's on a line; ours is a fitted Matern-5/2 in any dimension.
    2. b is the best posterior mean at an evaluated point; the paper takes the best observation.
    3. xi = 0.01, the customary value; Kushner lowers it by hand.
    4. Pending points are hallucinated; proposals keep away from failures.
"""

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Traits
from regretless.methods.shared import GPMethod
from regretless.models.gp.acquisition import log_probability_of_improvement
from regretless.space import Cube
from regretless.space.parameters import Array


class GPPI(GPMethod):
    """GP-PI: maximises the log probability of improvement of a fitted Gaussian process."""

    traits = Traits(constraints=True, cost=True, outside=True, belief=True)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._posterior(history)
        # 0.01: the margin that implementations of PI customarily take on values of unit scale
        improvement = log_probability_of_improvement(gp, self._value_to_beat(history, gp) + 0.01)
        return self._best_step(history, cube, gp, improvement, rng, logarithmic=True)
