"""Training a small fully connected net in NumPy: plain gradient steps that cannot blow up, and Adam on all weights at
once.

The gradient of half the squared error is sum_i (h(x_i) - y_i) g(x_i): `ntk.combine` with the residuals, so training and
the tangent kernel share one forward and one backward pass. Nothing here draws at random: batches come as index arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regretless.parameters import Array
from regretless.tangent.ntk import Mlp, combine, kernel

Batches = NDArray[np.int64]
POWER_STEPS = 30
"""Steps of power iteration for the largest eigenvalue; its error is far below the factor 2 left to the stable limit."""
HALVINGS = 30
"""Halvings of the learning rate when the net leaves the linear regime and the error still grows without bound."""


@dataclass(frozen=True)
class Descent:
    """A trained net and how it was trained: the learning rate used, and the one that was asked for."""

    net: Mlp
    rate: float
    asked: float

    @property
    def clipped(self) -> bool:
        return self.rate < self.asked


def stable_rate(net: Mlp, X: Array, lam: float, batch: int) -> float:
    """Half of 2 / (lambda_max(G G') b / n + lam), G the gradients at the net's weights: the largest step on batches of
    b that is stable."""
    A = replace(net, norm=1.0).factors(X)
    K = kernel(A, A)
    v = np.ones(len(K)) / len(K) ** 0.5
    for _ in range(POWER_STEPS):
        v = K @ v
        norm = float(np.linalg.norm(v))
        if norm == 0.0:
            return 1.0 / lam
        v /= norm
    return 1.0 / (float(v @ K @ v) * min(batch, len(X)) / len(X) + lam)


def descend(net: Mlp, X: Array, y: Array, *, rate: float, lam: float, batches: Batches) -> Descent:
    """TrainNN (Alg. 2): steps on sum (h - y)^2 / 2 + lam |theta - theta0|^2 / 2 from theta0 = net.weights, one per row
    of `batches`.

    The rate is clipped to the stable limit, and halved where the error of the non-linear net still runs away; the one
    used is returned.
    """
    net, given = replace(net, norm=1.0), net
    used = min(rate, stable_rate(net, X, lam, batches.shape[1]))
    limit = 1e3 * (1.0 + float(np.abs(y).max()) + float(np.abs(net.outputs(X)).max()))
    for _ in range(HALVINGS):
        weights = net.weights
        for rows in batches:
            h, A = net.at(weights).outputs_and_factors(X[rows])
            if not np.abs(h).max() < limit:
                break
            step = combine(A, h - y[rows])
            weights = tuple(w - used * (g + lam * (w - w0)) for w, g, w0 in zip(weights, step, net.weights))
        else:
            return Descent(given.at(weights), used, rate)
        used /= 2
    raise FloatingPointError("training diverges at every learning rate; are the inputs finite?")


class Adam:
    """Adam (Kingma and Ba, ICLR 2015) on all weights at once, with the usual constants and L2 decay towards 0 as in
    PyTorch."""

    def __init__(self, net: Mlp, *, rate: float, decay: float = 0.0) -> None:
        self._shapes = [W.shape for W in net.weights]
        self._edges = np.cumsum([0, *(W.size for W in net.weights)])
        self._flat = np.concatenate([W.ravel() for W in net.weights])
        self._m, self._v = np.zeros_like(self._flat), np.zeros_like(self._flat)
        self._t = 0
        self._net = replace(net, norm=1.0)
        self._rate = rate
        self._decay = decay

    @property
    def net(self) -> Mlp:
        """The net at the current weights."""
        parts = (self._flat[a:b].reshape(s) for a, b, s in zip(self._edges, self._edges[1:], self._shapes))
        return self._net.at(tuple(parts))

    def step(self, X: Array, y: Array, *, weight: float = 1.0) -> None:
        """One step on weight * mean (h - y)^2."""
        h, A = self.net.outputs_and_factors(X)
        gradient = np.concatenate([g.ravel() for g in combine(A, (2.0 * weight / len(y)) * (h - y))])
        if self._decay:
            gradient += self._decay * self._flat
        self._t += 1
        self._m += 0.1 * (gradient - self._m)
        self._v += 0.001 * (gradient**2 - self._v)
        spread = np.sqrt(self._v / (1 - 0.999**self._t)) + 1e-8
        self._flat = self._flat - (self._rate / (1 - 0.9**self._t)) * self._m / spread


def epoch_batches(rng: np.random.Generator, n: int, size: int, epochs: int) -> Batches:
    """Index rows of `epochs` passes over n points in random order, steps x min(size, n); an incomplete last batch of a
    pass is dropped."""
    size = min(size, n)
    whole = n // size
    return np.concatenate([rng.permutation(n)[: whole * size].reshape(whole, size) for _ in range(epochs)]).astype(
        np.int64
    )
