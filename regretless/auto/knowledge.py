"""The knowledge gradient: by how much one more noisy value is expected to raise the largest posterior mean.

Frazier, Powell and Dayanik, "The Knowledge-Gradient Policy for Correlated Normal Beliefs", INFORMS Journal on Computing
21 (2009). Under strong noise the last evaluations of a search that only climbs lie on top of each other and say little
about where the best place is. A value some way off, where the function has fallen by more than the noise, says more.
The knowledge gradient weighs this: it is the expectation, over the value that a point x would give, of the largest mean
afterwards, less the largest mean now.

Notation
    a, D          points that could be recommended, finitely many (k x d), with means m_a
    s_a(x)        cov(f(x), f(a)) / sqrt(var f(x) + noise): how far a value at x, one sd above its mean, moves m_a
    kg(x)         E max_a (m_a + z s_a(x)) - max_a m_a, z standard normal
"""

import math

import numpy as np

from regretless.history import History
from regretless.models.gp.acquisition import candidates_kept_from_failures
from regretless.models.gp.kernels import squared_distances
from regretless.models.gp.maximiser import ValueFunction, candidates
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import INCUMBENTS, best_by_mean
from regretless.space import Cube
from regretless.space.parameters import Array

DRAWN = 160  # points drawn to recommend, the better half of which counts, and to evaluate: an ask takes a bound's time
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(12)
"""Gauss and Hermite's nodes for the expectation over z, and their weights, whose sum is sqrt(2 pi)."""


def knowledge_gradient(gp: GP, D: Array) -> ValueFunction:
    """kg of the module's text for recommendations among D (k x d)."""
    factor, kernel, q, mean = gp.factor, gp.factor.kernel, gp.hyper.quadratic, gp.mean_at(D)
    ZD, VD, noise = factor.embed(D), factor.lower(factor.cross(D)), float(factor.noise.mean())

    def value(X: Array) -> Array:
        Z, V = factor.embed(X), factor.lower(factor.cross(X))
        K = kernel.base(squared_distances(Z * factor.inverse_scales, ZD * factor.inverse_scales))
        kernel.add_trend(K, Z, ZD, q)
        variance = np.maximum(kernel.at_zero(Z, q) - np.einsum("ij,ij->i", V, V), 0.0)
        moves = math.sqrt(gp.signal) * (K - V @ VD.T) / np.sqrt(variance + noise)[:, None]
        after = np.zeros(len(X))
        for z, weight in zip(NODES, WEIGHTS / WEIGHTS.sum(), strict=True):
            after += weight * (mean + z * moves).max(axis=1)
        return np.asarray(np.maximum(after - mean.max(), 0.0))

    return value


def knowledge_step(gp: GP, history: History, cube: Cube, rng: np.random.Generator) -> Array | None:
    """The legal point, d, that has the largest knowledge gradient of those drawn, kept from failures; None where no
    value within the nodes' reach would change the best mean."""
    best = best_by_mean(gp, history.X, INCUMBENTS)
    D = candidates(cube, rng, best, DRAWN)
    gain_at = knowledge_gradient(gp, np.concatenate([best_by_mean(gp, D, len(D) // 2), best]))
    X = candidates(cube, rng, best, DRAWN)
    # 3: rounds of points to evaluate; chosen for the time
    for _ in range(3):
        gain = gain_at(X)
        if not gain.any():
            return None
        # 1e-300: a gain is at least this, because its logarithm is taken
        value = np.log(np.maximum(gain, 1e-300))
        x = X[int(np.argmax(candidates_kept_from_failures(value, X, history.X, history.failed, logarithmic=True)))]
        # 90: points drawn in a further round, a third of them around the best point so far; chosen for the time
        X = candidates(cube, rng, x[None], 90)
    return np.asarray(x)
