"""REMBO: Wang, Zoghi, Hutter, Matheson and de Freitas, "Bayesian Optimization in High Dimensions via Random
Embeddings", IJCAI 2013.

If only a few (unknown) directions matter, a random low-dimensional subspace contains an optimum with high probability:
the search goes on there, and its points are carried into the box by a random matrix and a clip.

Notation (on the cube [-1, 1]^D; the unit cube is its image)
    d   the dimension of the subspace, option `low_dim`
    A   D x d, entries N(0, 1), fixed for the run
    y   a point of the low box [-sqrt(d), sqrt(d)]^d; it stands for x = clip(A y)

Deviations
    1. The kernel is the paper's k^X, isotropic on the clipped points x. Unlike k^y it is a function of what was told,
       so foreign points count; where nothing is clipped the two agree up to a factor of the length-scale.
    2. LogEI and MAP fits of this library instead of EI and DIRECT; one embedding, not several interleaved. Pending
       points are hallucinated.
"""

import math

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Method
from regretless.models.gp.acquisition import kept_from_failures, log_expected_improvement
from regretless.models.gp.step import best_weighed
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.low_box import LowDesign, checked_low_dim, step_through


class REMBO(Method):
    """REMBO: Bayesian optimisation in one random low-dimensional subspace.

    Args:
        low_dim: the dimension of the subspace; D where it is larger.
        initial: points of the subspace to begin with; None: 20, or a quarter of the budget.
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, low_dim: int = 5, initial: int | None = None
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.low_dim = checked_low_dim(low_dim, self.dim)
        rng = self._fixed_generator()
        self.A = rng.standard_normal((self.dim, self.low_dim))
        self.design = LowDesign(self.low_dim, initial, budget, rng)
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, clip=False)

    def to_cube(self, Y: Array) -> tuple[Array, Array]:
        """Points of the unit cube for low points Y (q x d, in [0, 1]), and 1 where nothing was clipped, q x D each."""
        X = (math.sqrt(self.low_dim) * (2 * Y - 1)) @ self.A.T
        return (np.clip(X, -1.0, 1.0) + 1) / 2, (np.abs(X) < 1).astype(np.float64)

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        first = self.design.next_point(history, rng)
        if first is not None:
            return np.array(self.to_cube(first[None])[0][0])
        gp = self._surrogate.gp(history.X, history.y, history.yvar, history.pending)
        improvement = log_expected_improvement(gp, float(gp.mean_at(history.X).max()))
        pair = kept_from_failures(improvement, history.X, history.failed, logarithmic=True)
        # x = (clip(sqrt(d) A (2 y - 1)) + 1) / 2, so dx/dy = sqrt(d) A where nothing is clipped
        return step_through(history, cube, pair, self.to_cube, math.sqrt(self.low_dim) * self.A, rng)

    def _recommend(self, history: History) -> Array:
        return best_weighed(self._surrogate.gp(*history.basis), history)
