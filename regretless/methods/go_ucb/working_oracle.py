"""The settings of Theorem 4.1 for Algorithm 1, with an oracle that works: n = sqrt(T) uniform points, a least-squares
fit w_0 of them, lambda = C sqrt(T), the ridge around w_0, and a Sigma that knows the points of Phase II alone.

    Sigma_t = lam I + sum_{i<t} g_i g_i',  g_i = grad f_{x_i}(w_i)                                             (Eq. 3)
    w_t     = Sigma_t^-1 (sum_i g_i (g_i.w_i + y_i - f_{x_i}(w_i)) + lam w_0)                                  (Eq. 5)
    beta_t  = (sqrt(lam) rho + sigma sqrt(2 log(1 / delta) + log det(Sigma_t / lam)))^2                   (Lemma 5.3)

The paper gives beta_t up to constants. This is the bound of Abbasi-Yadkori et al. (NeurIPS 2011) that its proof builds
on, with rho^2 = sigma^2 tr (J'J + sigma^2 I)^-1 for |w_0 - w*|^2: what the linearised fit of Phase I expects.
"""

import math

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.belief import MeanAndSd, best_evaluated, optimism
from regretless.methods.go_ucb.oracle import LARGEST, FamilyFit, Oracle
from regretless.models.gp.maximiser import maximise
from regretless.space import Cube
from regretless.space.parameters import Array


class Theorem:
    """The settings of Theorem 4.1; C_lambda = sigma^2, in the search coordinates of the family, whose prior variance is
    1, so that the ridge is worth sqrt(T) draws of the prior."""

    def __init__(self, oracle: Oracle, *, T: int) -> None:
        self._oracle, self._T = oracle, T
        self._first: FamilyFit | None = None

    @property
    def first(self) -> FamilyFit:
        """The fit of Phase I, w_0 and what belongs to it."""
        assert self._first is not None
        return self._first

    def oracle(self, X: Array, y: Array, yvar: Array) -> tuple[Array, float]:
        """w_0 (p) in search coordinates, and lambda."""
        self._first = self._oracle(X, y, yvar)
        return self.first.v, self.first.sigma2 * math.sqrt(self._T)

    def linearised(self, w: Array, x: Array, y: float) -> tuple[Array, float]:
        """The gradient g (p) at x (d), and g.w + y - f, y and f standardised."""
        F, J = self._oracle.predict(self.first, w[None], x[None])
        z = min(max((y - self.first.offset) / self.first.scale, -LARGEST), LARGEST)
        return J[0, 0], float(J[0, 0] @ w) + z - float(F[0, 0])

    def select(self, history: History, cube: Cube, rng: Draws, w: Array, ball: Ball) -> Array:
        """x_t = argmax_x max_{w in Ball_t} f_x(w), d, the inner maximum linearised."""
        belief = self._belief(w, ball, history.pending)
        return maximise(optimism(belief, 1.0, cube), cube, rng, incumbents=best_evaluated(belief, history.X))

    def radius(self, ball: Ball) -> float:
        """sqrt(beta_t)."""
        first = self.first
        gram = first.rows.T @ first.rows + first.sigma2 * np.eye(ball.p)
        rho = math.sqrt(first.sigma2 * float(np.trace(np.linalg.inv(gram))))
        # 0.1: the failure probability of the ball, which the paper leaves open; GP-UCB's experiments have this one
        noise = math.sqrt(first.sigma2 * (2 * math.log(1 / 0.1) + ball.log_det()))
        return math.sqrt(ball.lam) * rho + noise

    def _belief(self, w: Array, ball: Ball, pending: Array) -> MeanAndSd:
        """Mean f_x(w) and deviation sqrt(beta_t) |g_x|_{Sigma_t^-1}; a pending point counts with its own value."""
        if len(pending):
            ball = Ball(ball.anchor, ball.lam, ball.G, ball.G @ w)
            for g in self._oracle.predict(self.first, w[None], pending)[1][0]:
                ball.append(g, float(g @ w))
        radius = self.radius(ball)

        def belief(U: Array) -> tuple[Array, Array]:
            F, J = self._oracle.predict(self.first, w[None], U)
            return F[0], radius * ball.norms(J[0])

        return belief
