"""A confidence set for the parameters of a true family under known noise, valid for points chosen adaptively.

With noise that is sigma-sub-Gaussian given the past, L(w) = exp(-RSS(w) / (2 sigma^2)) and any prior pi, the mixture ratio

    M = integral of L(u) pi(u) du / L(w*)

has expectation at most 1 at the true w* however the points were chosen (Robbins 1970, method of mixtures; for a linear family and a normal
prior this is the self-normalised bound of Lemma B.3). So has an unbiased estimate Z / L(w*) of it, and by Markov's inequality

    C = {w : RSS(w) <= 2 sigma^2 (log(1 / delta) - log Z)}

holds w* with probability at least 1 - delta. Nothing is linearised and the fit need not be the global one: a poor proposal or a poor fit
only makes Z smaller and C larger. Z is estimated by importance sampling around the fit, with a wide part in the proposal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from regretless.numerics.ascend import maximise
from regretless.numerics.ball import Ball
from regretless.numerics.differences import with_gradient
from regretless.space import Array, Cube

SAMPLES = 2048
WIDE = 0.1
"""Share of the samples that come from the prior itself."""
STRETCH = 1.3
"""The Laplace part of the proposal is this much wider than the linearised posterior, so that its weights stay bounded."""
STEPS, RAYS = 24, 8
"""Steps of the ascent to the edge of the set, and rays it begins with."""
PULLS = 5
"""Corrections of a step that left the set, each exact where the squares are quadratic along the ray."""
ALTERNATIONS = 2
"""Rounds of the worst parameters of a point and the best point of those parameters."""

Squares = Callable[[Array], Array]
"""Parameter vectors (k x p) to residual sums of squares (k)."""


def threshold(squares: Squares, v: Array, ball: Ball, sigma: float, reach: float, delta: float, rng: np.random.Generator) -> float:
    """The largest RSS of a member of C, for a uniform prior on the box [-reach, reach]^p.

    `ball` is the linearisation at the fit v (p), Sigma = lam I + J'J.
    """
    p = len(v)
    V, c = ball.root()
    k = round(SAMPLES * (1 - WIDE))
    E = rng.standard_normal((k, p))
    scale = STRETCH * sigma / math.sqrt(ball.lam)
    near = v + scale * (E - (c * (E @ V)) @ V.T)
    W = np.concatenate([near, rng.uniform(-reach, reach, (SAMPLES - k, p))])
    inside = (np.abs(W) <= reach).all(axis=1)
    away = W - v
    norm2 = (ball.lam * (away**2).sum(axis=1) + ((away @ ball.G.T) ** 2).sum(axis=1)) / (STRETCH * sigma) ** 2
    log_det = 0.5 * (ball.log_det() + p * math.log(ball.lam)) - p * math.log(STRETCH * sigma)
    log_laplace = log_det - 0.5 * norm2 - 0.5 * p * math.log(2 * math.pi)
    log_prior = -p * math.log(2 * reach)
    log_proposal = np.logaddexp(math.log1p(-WIDE) + log_laplace, math.log(WIDE) + log_prior)
    values = np.full(SAMPLES, np.inf)
    values[inside] = squares(W[inside])
    least = float(values.min())
    if not math.isfinite(least):
        return math.inf
    log_terms = -(values - least) / (2 * sigma**2) + np.where(inside, log_prior - log_proposal, -np.inf)
    top = float(log_terms.max())
    log_z = top + math.log(float(np.exp(log_terms - top).mean())) - least / (2 * sigma**2)
    return 2 * sigma**2 * (math.log(1 / delta) - log_z)


class Region:
    """C for data X (n x d), z (n) with weights (n), around the fit v (p) with its ball.

    `values` maps k parameter vectors and m cube points to k x m values and k x m x p derivatives.
    """

    def __init__(
        self, values: Callable[[Array, Array], tuple[Array, Array]], X: Array, z: Array, weight: Array, v: Array, ball: Ball, sigma: float,
        reach: float, delta: float, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self._values, self._X, self._z, self._weight, self._v, self._ball, self._reach, self._rng = values, X, z, weight, v, ball, reach, rng
        self._V, self._c = ball.root()
        self.limit = threshold(self.squares, v, ball, sigma, reach, delta, rng)
        self._least = float(self.squares(v[None])[0])
        self.empty = not (math.isfinite(self.limit) and self._least <= self.limit)
        """Whether even the fit is refuted."""

    def squares(self, V: Array) -> Array:
        """The weighted residual sums of squares of parameter vectors (k x p), k."""
        rss: Array = ((self._values(V, self._X)[0] - self._z) ** 2) @ self._weight
        return rss

    def extreme(self, x: Array, sign: float) -> tuple[float, Array]:
        """The largest (sign 1) or smallest (sign -1) value at x (d) over C that an ascent finds, and its parameters (p).

        From v along several rays, in the metric of the ball, in which C is nearly round; steps that leave C are pulled back towards v.
        """
        v, slack = self._v, math.sqrt(self.limit - self._least)

        def value(V: Array) -> tuple[Array, Array]:
            F, J = self._values(V, x[None])
            return sign * F[:, 0], sign * J[:, 0]

        F, G = value(v[None])
        best, where = float(F[0]), v
        U = self._pulled(slack * np.concatenate([_unit(self._root(G)), _unit(self._rng.standard_normal((RAYS - 1, len(v))))]))
        for i in range(STEPS):
            V = np.clip(v + self._root(U), -self._reach, self._reach)
            F, G = value(V)
            top = int(np.argmax(F))
            if F[top] > best:
                best, where = float(F[top]), V[top]
            U = self._pulled(U + 0.5 * 0.88**i * slack * _unit(self._root(G)))
        return sign * best, where

    def largest(self, cube: Cube, starts: Array) -> float:
        """The largest value over the cube and C found: from each start, the worst parameters of a point and their best point in turn."""
        largest = -math.inf
        for x in starts:
            for _ in range(ALTERNATIONS):
                found, v = self.extreme(x, 1.0)

                def surface(U: Array, v: Array = v) -> Array:
                    values: Array = self._values(v[None], U)[0][0]
                    return values

                x = maximise(with_gradient(surface, cube), cube, self._rng, incumbents=x[None], score=surface)
                largest = max(largest, found, float(surface(x[None])[0]))
        return largest

    def _root(self, Q: Array) -> Array:
        """Sigma^{-1/2} applied to the rows of Q."""
        return (Q - (self._c * (Q @ self._V)) @ self._V.T) / math.sqrt(self._ball.lam)

    def _pulled(self, U: Array) -> Array:
        """Rows of U shortened until v + Sigma^{-1/2} u lies in C and in the box; v itself where that fails."""
        room = self.limit - self._least
        for _ in range(PULLS):
            step = self._root(U)
            with np.errstate(divide="ignore", invalid="ignore"):
                to_wall = np.where(step > 0, (self._reach - self._v) / step, np.where(step < 0, (-self._reach - self._v) / step, np.inf))
            U = U * np.minimum(1.0, np.maximum(to_wall.min(axis=1), 0.0))[:, None]
            excess = self.squares(np.clip(self._v + self._root(U), -self._reach, self._reach)) - self._least
            out = ~(excess <= room)
            if not out.any():
                return U
            with np.errstate(invalid="ignore"):
                shorter = np.where(out, 0.995 * np.sqrt(room / np.where(np.isfinite(excess) & (excess > 0), excess, 4 * room + 1e-300)), 1.0)
            U = U * np.minimum(shorter, 1.0)[:, None]
        excess = self.squares(np.clip(self._v + self._root(U), -self._reach, self._reach)) - self._least
        return np.where((excess <= room)[:, None], U, 0.0)


def _unit(Q: Array) -> Array:
    lengths: Array = np.linalg.norm(Q, axis=1, keepdims=True)
    return Q / np.maximum(lengths, 1e-300)
