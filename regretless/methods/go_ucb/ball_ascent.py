"""Optimism without linearisation: max over x in the cube and w in a confidence ball of f_x(w), by projected ascent."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from regretless.methods.go_ucb.ball import Ball
from regretless.parameters import Array
from regretless.space import Cube

DIFFERENCE = 1e-5
"""Half the width of central differences in x."""


def ascend_in_ball(
    pairs: Callable[[Array, Array], tuple[Array, Array]], cube: Cube, starts: Array, v: Array, ball: Ball, beta: float, reach: float,
    steps: int = 60, rate: float = 0.1,
) -> tuple[Array, Array]:  # fmt: skip
    """Projected ascent of f_x(w) over x in the cube and w in the ball around v, from q starts at once: points (q x d)
    and values (q).

    w = v + Sigma^{-1/2} u with |u|^2 <= beta makes the ball round, so that the projection is a division; u begins at
    its linearised optimum. `pairs` gives values (k x n) and derivatives (k x n x p) of k parameter vectors at n cube
    points. Steps are Adam's.
    """
    V, c = ball.root()

    def root(Q: Array) -> Array:
        return (Q - (c * (Q @ V)) @ V.T) / math.sqrt(ball.lam)

    q, d = starts.shape
    X, s = starts.copy(), math.sqrt(beta)
    G = root(pairs(v[None], X)[1][0])
    u = s * G / np.maximum(np.linalg.norm(G, axis=1, keepdims=True), 1e-300)
    held = cube.discrete.copy()
    for start, stop in cube.groups:
        held[start:stop] = True
    h, own = DIFFERENCE, np.arange(q)
    best_X, best = X.copy(), np.full(q, -np.inf)
    m1, m2 = np.zeros((q, d + len(v))), np.zeros((q, d + len(v)))
    for i in range(steps + 1):
        W = np.clip(v + root(u), -reach, reach)
        ahead, behind = np.minimum(X[:, None] + h * np.eye(d), 1.0), np.maximum(X[:, None] - h * np.eye(d), 0.0)
        points = np.concatenate([X[:, None], ahead, behind], axis=1)
        F, J = pairs(W, points.reshape(-1, d))
        F, J = F.reshape(q, q, 2 * d + 1)[own, own], J.reshape(q, q, 2 * d + 1, -1)[own, own, 0]
        better = F[:, 0] > best
        best, best_X = np.where(better, F[:, 0], best), np.where(better[:, None], X, best_X)
        slope = (F[:, 1 : d + 1] - F[:, d + 1 :]) / np.einsum("qjj->qj", ahead - behind)
        gradient = np.concatenate([np.where(held, 0.0, slope), root(J)], axis=1)
        m1, m2 = 0.9 * m1 + 0.1 * gradient, 0.99 * m2 + 0.01 * gradient**2
        move = rate * 0.05 ** (i / steps) * (m1 / (1 - 0.9 ** (i + 1))) / (np.sqrt(m2 / (1 - 0.99 ** (i + 1))) + 1e-12)
        X = np.clip(X + move[:, :d], 0.0, 1.0)
        u = u + s * move[:, d:]
        u *= np.minimum(1.0, s / np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1e-300))
    return best_X, best
