"""Algorithm 1 as its theorem has it, with an oracle that works: n = sqrt(T) uniform points, a least-squares fit w_0 of
them, lambda = C sqrt(T), the ridge around w_0, and a Sigma that knows the points of Phase II alone.

    Sigma_t = lam I + sum_{i<t} g_i g_i',  g_i = grad f_{x_i}(w_i)                                             (Eq. 3)
    w_t     = Sigma_t^-1 (sum_i g_i (g_i.w_i + y_i - f_{x_i}(w_i)) + lam w_0)                                  (Eq. 5)
    beta_t  = (sqrt(lam) rho + sigma sqrt(2 log(1 / delta) + log det(Sigma_t / lam)))^2                   (Lemma 5.3)

The paper gives beta_t up to constants. This is the bound of Abbasi-Yadkori et al. (NeurIPS 2011) that its proof builds
on, with rho^2 = sigma^2 tr (J'J + sigma^2 I)^-1 for |w_0 - w*|^2: what the linearised fit of Phase I expects.
"""

import math

import numpy as np

from regretless.gp.maximiser import maximise
from regretless.method import Method
from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.belief import Belief, best_told, optimism
from regretless.methods.go_ucb.oracle import LARGEST, FamilyFit, Oracle
from regretless.parameters import Array

DELTA = 0.1  # the failure probability of the ball, which the paper leaves open; GP-UCB's experiments have this one


class WorkingPhaseTwo:
    """Phase II from the fit of the first n values; C_lambda = sigma^2, in the search coordinates of the family, whose
    prior variance is 1, so that the ridge is worth sqrt(T) draws of the prior."""

    def __init__(self, oracle: Oracle, *, n: int, T: int) -> None:
        self._oracle, self._n, self._T = oracle, n, T
        self.first: FamilyFit | None = None
        """The fit of Phase I, w_0 and what belongs to it."""
        self.w = np.empty(0)
        """w_t, p, in search coordinates."""
        self.ball: Ball | None = None
        self._taken = n

    def propose(self, history: Method, rng: np.random.Generator) -> Array:
        """x_t = argmax_x max_{w in Ball_t} f_x(w), d, the inner maximum linearised; at least n values are told."""
        self.take_in(history.X, history.y, history.yvar)
        belief = self._belief(history.pending)
        return maximise(optimism(belief, 1.0, history), history.cube, rng, incumbents=best_told(belief, history.X))

    def take_in(self, X: Array, y: Array, yvar: Array) -> None:
        """Follows Eq. 3 and 5 through the values told since the last call, one after the other."""
        n = self._n
        if self.first is None or self.ball is None:
            self.first = self._oracle(X[:n], y[:n], yvar[:n])
            self.w = self.first.v
            self.ball = Ball(self.w, self.first.sigma2 * math.sqrt(self._T))
        for i in range(self._taken, len(y)):
            F, J = self._oracle.predict(self.first, self.w[None], X[i : i + 1])
            z = min(max((float(y[i]) - self.first.offset) / self.first.scale, -LARGEST), LARGEST)
            self.ball.append(J[0, 0], float(J[0, 0] @ self.w) + z - float(F[0, 0]))
            self.w = self.ball.centre()
        self._taken = len(y)

    def radius(self, ball: Ball) -> float:
        """sqrt(beta_t)."""
        assert self.first is not None
        gram = self.first.rows.T @ self.first.rows + self.first.sigma2 * np.eye(ball.p)
        rho = math.sqrt(self.first.sigma2 * float(np.trace(np.linalg.inv(gram))))
        noise = math.sqrt(self.first.sigma2 * (2 * math.log(1 / DELTA) + ball.log_det()))
        return math.sqrt(ball.lam) * rho + noise

    def _belief(self, pending: Array) -> Belief:
        """Mean f_x(w_t) and deviation sqrt(beta_t) |g_x|_{Sigma_t^-1}; a pending point counts with its own value."""
        first, ball, w = self.first, self.ball, self.w
        assert first is not None
        assert ball is not None
        if len(pending):
            ball = Ball(ball.anchor, ball.lam, ball.G, ball.G @ w)
            for g in self._oracle.predict(first, w[None], pending)[1][0]:
                ball.append(g, float(g @ w))
        radius = self.radius(ball)

        def belief(U: Array) -> tuple[Array, Array]:
            F, J = self._oracle.predict(first, w[None], U)
            return F[0], radius * ball.norms(J[0])

        return belief
