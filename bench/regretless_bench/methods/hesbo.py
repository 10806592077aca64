"""HeSBO: Nayebi, Munteanu and Poloczek, "A Framework for Bayesian Optimization in Embedded Subspaces", ICML 2019.

A random low-dimensional subspace is searched, as in REMBO, but the embedding copies: every coordinate of the box takes
the value of one low coordinate, or its negative. No point ever leaves the box, so nothing is clipped.

Notation (on the cube [-1, 1]^D; the unit cube is its image)
    d            the dimension of the subspace, option `low_dim`
    h(i), s(i)   the low coordinate and the sign of coordinate i, drawn once
    y            a point of the low box [-1, 1]^d; it stands for x with x_i = s(i) y_h(i)

Deviations
    1. A told point enters the model as the nearest point of the subspace, y_j = mean of s(i) x_i over h(i) = j: itself
       where it was asked, a projection where it is foreign or was snapped to legal positions.
    2. LogEI by gradients and MAP fits of this library, not EI over 2000 Latin-hypercube points and rare fits. The
       kernel is the authors': Matern-5/2, isotropic in y. Pending points are hallucinated.
"""

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Method
from regretless.models.gp.acquisition import log_expected_improvement
from regretless.models.gp.design import away_from_known
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.low_box import LowDesign, best_point, checked_low_dim


class HeSBO(Method):
    """HeSBO: Bayesian optimisation in a subspace made by hashing coordinates.

    Args:
        low_dim: how many low coordinates there are, each of which stands for several coordinates of the box.
        initial: low points to begin with; None: 20, or a quarter of the budget.
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, low_dim: int = 5, initial: int | None = None
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.low_dim = checked_low_dim(low_dim, self.dim)
        self._box = Cube.box(self.low_dim)
        rng = self._fixed_generator()
        self.bucket = rng.integers(self.low_dim, size=self.dim)  # h, D
        self.sign = rng.choice([-1.0, 1.0], size=self.dim)  # s, D
        self.design = LowDesign(self.low_dim, initial, budget, rng)
        self._surrogate = Surrogate(self._box, ard=False, quadratic=False, clip=False)

    def to_cube(self, Y: Array) -> Array:
        """Points of the unit cube (q x D) for low points Y (q x d, in [0, 1]); a sign turns v into 1 - v."""
        V = Y[:, self.bucket]
        return np.where(self.sign > 0, V, 1 - V)

    def to_low(self, X: Array) -> Array:
        """The nearest low points, q x d; low coordinates that no coordinate takes are 1/2."""
        V = np.where(self.sign > 0, X, 1 - X)
        count = np.bincount(self.bucket, minlength=self.low_dim)
        Y = np.full((len(X), self.low_dim), 0.5)
        for j in np.flatnonzero(count):
            Y[:, j] = V[:, self.bucket == j].mean(axis=1)
        return Y

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        y = self.design.next_point(history, rng)
        if y is not None:
            return np.array(self.to_cube(y[None])[0])
        Y, failed = self.to_low(history.X), self.to_low(history.failed)
        gp = self._surrogate.gp(Y, history.y, history.yvar, self.to_low(history.pending))
        improvement = log_expected_improvement(gp, float(gp.mean_at(Y).max()))
        y = best_point(gp, improvement, Y, failed, self._box, rng, logarithmic=True)
        return away_from_known(self.to_cube(y[None])[0], history, cube, rng)

    def _recommend(self, history: History) -> Array:
        Y = self.to_low(history.X)
        return np.asarray(history.X[int(np.argmax(self._surrogate.gp(Y, history.y, history.yvar).mean_at(Y)))])
