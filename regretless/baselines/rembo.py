"""REMBO: Wang, Zoghi, Hutter, Matheson and de Freitas, "Bayesian Optimization in High Dimensions via Random
Embeddings", IJCAI 2013.

If only a few (unknown) directions matter, a random low-dimensional subspace contains an optimum with high probability:
the search goes on there, and its points are carried into the box by a random matrix and a clip.

Notation (on the cube [-1, 1]^D; the unit cube is its image)
    A   D x d, entries N(0, 1), fixed for the run       y   a point of the low box [-sqrt(d), sqrt(d)]^d       x = clip(A y)

Deviations
    1. The kernel is the paper's k^X, on the clipped points x themselves, isotropic. Unlike k^y it is a function of what
       was told, so foreign points count and a replayed history proposes the same points; where nothing is clipped |A(y
       - y')| is |y - y'| up to a factor, so they agree.
    2. LogEI and MAP fits of this library instead of EI and DIRECT; one embedding, not several interleaved.
    3. Pending points are hallucinated.
"""

from __future__ import annotations

import math

import numpy as np

from regretless.gp.acquisition import kept_from_failures, log_expected_improvement, through
from regretless.gp.design import away_from_known
from regretless.gp.maximiser import maximise
from regretless.gp.sobol import sobol_points
from regretless.gp.surrogate import Surrogate
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

INITIAL = 20
"""Initial points, as in the comparison of Tran-The et al. (AAAI 2020); no more than a quarter of a known budget."""


class REMBO(Method):
    """REMBO: Bayesian optimisation in one random low-dimensional subspace.

    Args:
        d: the dimension of the subspace, at most D.
        initial: random points of the subspace to begin with; None: 20, or a quarter of the budget.
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, d: int = 5, initial: int | None = None
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if d < 1 or (initial is not None and initial < 1):
            raise ValueError(f"d and initial must be at least 1, got {d!r} and {initial!r}")
        self.d = min(d, self.dim)
        self.initial = (
            initial if initial is not None else INITIAL if budget is None else max(2, min(INITIAL, budget // 4))
        )
        rng = self.fixed_generator()
        self.A = rng.standard_normal((self.dim, self.d))
        self._starts = sobol_points(self.initial, self.d, rng)
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, tame=False)

    def to_cube(self, Y: Array) -> tuple[Array, Array]:
        """Points of the unit cube for low points Y (q x d, in [0, 1]), and 1 where a coordinate was not clipped, q x D
        each."""
        X = (math.sqrt(self.d) * (2 * Y - 1)) @ self.A.T
        return (np.clip(X, -1.0, 1.0) + 1) / 2, (np.abs(X) < 1).astype(np.float64)

    def _propose(self, rng: np.random.Generator) -> Array:
        known = len(self.y) + len(self.failed) + len(self.pending)
        if known < self.initial or len(self.y) == 0:
            y = self._starts[known] if known < self.initial else rng.random(self.d)
            return np.array(self.to_cube(y[None])[0][0])
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        pair = kept_from_failures(
            log_expected_improvement(gp, float(gp.mean_at(self.X).max())), self.X, self.failed, logarithmic=True
        )
        # x = (clip(sqrt(d) A (2 y - 1)) + 1) / 2, so dx/dy = sqrt(d) A where nothing is clipped
        low = through(pair, self.to_cube, math.sqrt(self.d) * self.A)
        y = maximise(low[0], Cube.box(self.d), rng, incumbents=np.empty((0, self.d)), score=low[1])
        return away_from_known(self.to_cube(y[None])[0][0], self, rng)

    def _recommend(self) -> Array:
        gp = self._surrogate.gp(self.X, self.y, self.yvar)
        best: Array = self.X[int(np.argmax(gp.mean_at(self.X)))]
        return best
