"""HeSBO: Nayebi, Munteanu and Poloczek, "A Framework for Bayesian Optimization in Embedded Subspaces", ICML 2019.

A random low-dimensional subspace is searched, as in REMBO, but the embedding copies: every coordinate of the box takes
the value of one low coordinate, or its negative. No point ever leaves the box, so nothing is clipped.

Notation (on the cube [-1, 1]^D; the unit cube is its image)
    h(i), s(i)   the low coordinate and the sign of coordinate i, drawn once       x_i = s(i) y_h(i),   y in [-1, 1]^d

Deviations
    1. A told point enters the model as the nearest point of the subspace, y_j = mean of s(i) x_i over h(i) = j: itself
       where it was asked, a projection where it is foreign or was snapped to legal positions.
    2. LogEI by gradients and MAP fits of this library, instead of EI over 2000 Latin-hypercube points and fits every 5
       or 20 steps. The kernel is the authors': Matern-5/2, isotropic in y.
    3. Pending points are hallucinated.
"""

from __future__ import annotations

import numpy as np

from regretless.gp.acquisition import kept_from_failures, log_expected_improvement
from regretless.gp.design import away_from_known
from regretless.gp.maximiser import maximise
from regretless.gp.sobol import sobol_points
from regretless.gp.surrogate import Surrogate
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

INITIAL = 20
"""Initial points, as in the comparison of Tran-The et al. (AAAI 2020); no more than a quarter of a known budget."""


class HeSBO(Method):
    """HeSBO: Bayesian optimisation in a subspace made by hashing coordinates.

    Args:
        d: the dimension of the subspace, at most D.
        initial: points of the subspace to begin with; None: 20, or a quarter of the budget.
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
        self.bucket = rng.integers(self.d, size=self.dim)
        """h, D."""
        self.sign = rng.choice([-1.0, 1.0], size=self.dim)
        """s, D."""
        self._starts = sobol_points(self.initial, self.d, rng)
        self._low = Cube.box(self.d)
        self._surrogate = Surrogate(self._low, ard=False, quadratic=False, tame=False)

    def to_cube(self, Y: Array) -> Array:
        """Points of the unit cube for low points Y (q x d, in [0, 1]), q x D; in the unit cube a sign turns v into 1 -
        v."""
        V = Y[:, self.bucket]
        return np.where(self.sign > 0, V, 1 - V)

    def to_low(self, X: Array) -> Array:
        """The nearest low points, q x d; low coordinates that no coordinate takes are 1/2."""
        V = np.where(self.sign > 0, X, 1 - X)
        count = np.bincount(self.bucket, minlength=self.d)
        Y = np.full((len(X), self.d), 0.5)
        for j in np.flatnonzero(count):
            Y[:, j] = V[:, self.bucket == j].mean(axis=1)
        return Y

    def _propose(self, rng: np.random.Generator) -> Array:
        known = len(self.y) + len(self.failed) + len(self.pending)
        if known < self.initial or len(self.y) == 0:
            y = self._starts[known] if known < self.initial else rng.random(self.d)
            return np.array(self.to_cube(y[None])[0])
        Y = self.to_low(self.X)
        gp = self._surrogate.gp(Y, self.y, self.yvar, self.to_low(self.pending))
        means = gp.mean_at(Y)
        pair = kept_from_failures(
            log_expected_improvement(gp, float(means.max())), Y, self.to_low(self.failed), logarithmic=True
        )
        y = maximise(pair[0], self._low, rng, incumbents=Y[np.argsort(-means, kind="stable")[:3]], score=pair[1])
        return away_from_known(self.to_cube(y[None])[0], self, rng)

    def _recommend(self) -> Array:
        Y = self.to_low(self.X)
        best: Array = self.X[int(np.argmax(self._surrogate.gp(Y, self.y, self.yvar).mean_at(Y)))]
        return best
