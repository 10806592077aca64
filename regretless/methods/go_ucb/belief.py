"""What GO-UCB believes of the function at a point: mean and standard deviation, in the standardised units of the fit.

family   mean f(v_hat, x), sd sigma |g|_{Sigma^-1}: mean + sqrt(beta) / sigma sd is the maximum of the linearised f_x(w)
         over the ball, in closed form                                                      (Alg. 1, Phase II, l. 5)
mixture  sum_k s_k f(v_k, x) over modes with shares s_k; their differences add to the variance
hybrid   the family plus the residual process of `guard`
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.guard import Guard
from regretless.methods.go_ucb.oracle import FamilyFit, Oracle
from regretless.methods.go_ucb.parametric import with_gradient
from regretless.models.gp.maximiser import Acquisition
from regretless.space import Cube
from regretless.space.parameters import Array

MeanAndSd: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Cube points (q x d) to the mean and the standard deviation of the standardised function there (q each)."""

GOOD = 5  # told points with the best means, around which the maximiser draws candidates, as in `gp.step`


def family_belief(oracle: Oracle, fit: FamilyFit, pending: Array) -> MeanAndSd:
    """The fitted family, as a mixture where several modes have support; pending points (m x d) are conditioned on."""
    ball, rows = fit.ball, pending_rows(oracle, fit, pending)
    if len(rows):  # the target of a pending row is its own fitted value
        ball = Ball(ball.anchor, fit.sigma2, np.vstack([fit.rows, rows]), np.append(fit.targets, rows @ fit.v))
    # 1e-3: modes with a smaller share of the posterior are left out: each costs a model call per point
    sigma, supported = math.sqrt(fit.sigma2), fit.support > 1e-3

    def family(U: Array) -> tuple[Array, Array]:
        F, J = oracle.predict(fit, fit.v[None], U)
        return F[0], sigma * ball.norms(J[0])

    def mixture(U: Array) -> tuple[Array, Array]:
        F, _ = oracle.predict(fit, fit.solutions[supported], U)
        return mixed(F, fit.support[supported], family(U)[1])

    return mixture if supported.sum() > 1 else family


def hybrid_belief(oracle: Oracle, fit: FamilyFit, guard: Guard, X: Array, pending: Array) -> MeanAndSd:
    """The family plus the residual process for the told points X (n x d), pending points (m x d) conditioned on."""
    hybrid = guard.hybrid(X, fit, (pending, pending_rows(oracle, fit, pending)))

    def both(U: Array) -> tuple[Array, Array]:
        F, J = oracle.predict(fit, fit.v[None], U)
        more, sd = hybrid.correction(U, J[0])
        return F[0] + more, sd

    return both


def pending_rows(oracle: Oracle, fit: FamilyFit, pending: Array) -> Array:
    """The gradients at pending points, m x p."""
    return oracle.predict(fit, fit.v[None], pending)[1][0] if len(pending) else np.empty((0, oracle.family.p))


def mixed(F: Array, support: Array, within: Array) -> tuple[Array, Array]:
    """Mean and sd (q each) of modes with values F (k x q), shares `support` (k) and a common sd `within` (q)."""
    share = support / support.sum()
    mean = share @ F
    return mean, np.sqrt(within**2 + share @ (F - mean) ** 2)


def optimism(belief: MeanAndSd, radius: float, cube: Cube) -> Acquisition:
    """mean + radius sd over a cube, with its gradient and alone."""

    def bound(U: Array) -> Array:
        mean, sd = belief(U)
        return mean + radius * sd

    return Acquisition(with_gradient(bound, cube), bound)


def best_evaluated(belief: MeanAndSd, X: Array, most: int = GOOD) -> Array:
    """The told points (n x d) with the best means, best first, at most `most` x d."""
    return np.asarray(X[np.argsort(-belief(X)[0], kind="stable")[:most]])
