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
from typing import ClassVar

import numpy as np

from regretless.gp.acquisition import kept_from_failures, log_expected_improvement
from regretless.gp.design import LowDesign, checked_low_dim
from regretless.gp.step import best_weighed, step_through
from regretless.gp.surrogate import Surrogate
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube


class REMBO(Method):
    """REMBO: Bayesian optimisation in one random low-dimensional subspace.

    Args:
        low_dim: the dimension of the subspace; D where it is larger.
        initial: points of the subspace to begin with; None: 20, or a quarter of the budget.
    """

    renamed: ClassVar = {"d": "low_dim"}

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, low_dim: int = 5, initial: int | None = None
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.low_dim = checked_low_dim(low_dim, self.dim)
        rng = self.fixed_generator()
        self.A = rng.standard_normal((self.dim, self.low_dim))
        self._design = LowDesign(self.low_dim, initial, budget, rng)
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, tame=False)

    def to_cube(self, Y: Array) -> tuple[Array, Array]:
        """Points of the unit cube for low points Y (q x d, in [0, 1]), and 1 where nothing was clipped, q x D each."""
        X = (math.sqrt(self.low_dim) * (2 * Y - 1)) @ self.A.T
        return (np.clip(X, -1.0, 1.0) + 1) / 2, (np.abs(X) < 1).astype(np.float64)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return np.array(self.to_cube(first[None])[0][0])
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        improvement = log_expected_improvement(gp, float(gp.mean_at(self.X).max()))
        pair = kept_from_failures(improvement, self.X, self.failed, logarithmic=True)
        # x = (clip(sqrt(d) A (2 y - 1)) + 1) / 2, so dx/dy = sqrt(d) A where nothing is clipped
        return step_through(self, pair, self.to_cube, math.sqrt(self.low_dim) * self.A, rng)

    def _recommend(self) -> Array:
        return best_weighed(self._surrogate.gp(*self.basis), self)
