"""Phase II with the settings that App. D.1 prints, step for step; a proposal hardly differs from the point its ascent
starts from, which the paper does not name (docs/lab/go-ucb.md)."""

import math
from typing import Literal, TypeAlias

import numpy as np

from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.parametric import Family, Inputs, TwoLayerNet
from regretless.parameters import Array

Start: TypeAlias = Literal["incumbent", "random", "centre", "last"]

SGD_STEPS, SGD_RATE = 2000, 1e-11  # steps and rate of the oracle (App. D.1)
ASCENT_STEPS, ASCENT_RATE = 2000, 1e-4  # steps and rate of the ascent over x and w (App. D.1)
RANGE = 1.0  # F, the bound on |f| in beta_t = d_w^3 F^4 t / T, which the paper leaves open; the ball is never reached
CHECK_EVERY = 50  # steps of the ascent between two projections onto the ball, which it never reaches: each costs time


class PaperPhaseTwo:
    """w_0 by SGD on the n values of Phase I, Sigma from the T of Phase II alone, then joint ascents from `start`."""

    def __init__(self, family: Family, inputs: Inputs, *, sign: float, n: int, T: int, start: Start) -> None:
        self._family, self._inputs, self._sign, self._n, self._T, self._start = family, inputs, sign, n, T, start
        self._ball: Ball | None = None
        self._w = np.empty(0)
        self._taken = n

    def propose(self, X: Array, y: Array, rng: np.random.Generator, fixed: np.random.Generator) -> Array:
        """The next point, d, after values y (at least n of them) at X; `fixed` draws the first weights."""
        begin = {
            "incumbent": X[int(np.argmax(y))],
            "random": rng.random(X.shape[1]),
            "centre": np.full(X.shape[1], 0.5),
            "last": X[-1],
        }[self._start]
        with np.errstate(over="ignore", invalid="ignore"):  # huge values may leave the range of floats
            reached = self._ascended(X, self._sign * y, begin, fixed)
        return reached if np.isfinite(reached).all() else begin

    def _ascended(self, X: Array, y: Array, begin: Array, fixed: np.random.Generator) -> Array:
        if self._ball is None:  # (Alg. 1, Phase I)
            first = initial_weights(self._family, X.shape[1], fixed)
            self._w = sgd_oracle(self._family, self._inputs(X[: self._n]), y[: self._n], first)
            self._ball = Ball(self._w, math.sqrt(self._T) * math.log(self._T) ** 2)  # lam (App. D.1)
        for i in range(self._taken, len(y)):  # (Eq. 3, 5), one told value after the other
            F, J = self._family.jacobian(self._w[None], self._inputs(X[i : i + 1]))
            self._ball.append(J[0, 0], float(J[0, 0] @ self._w + y[i] - F[0, 0]))
            self._w = self._ball.centre()
        self._taken = len(y)
        beta = self._family.p**3 * RANGE**4 * (len(y) - self._n + 1) / self._T  # (App. D.1)
        return ascend(self._family, self._inputs, self._sign, begin, self._w, self._ball, beta)


def initial_weights(family: Family, d: int, rng: np.random.Generator) -> Array:
    """Where the oracle starts, p: layers of a net as torch draws them, U(-1, 1) / sqrt(fan-in); other families at 0."""
    if not isinstance(family, TwoLayerNet):
        return np.zeros(family.p)
    first = rng.uniform(-1, 1, family.width * (d + 1)) / math.sqrt(d)
    second = rng.uniform(-1, 1, family.width + 1) / math.sqrt(family.width)
    return np.concatenate([first, second])


def sgd_oracle(family: Family, x: Array, y: Array, w: Array) -> Array:
    """w_0 (p) from w: SGD_STEPS gradient steps on the mean squared error; n values are fewer than any batch."""
    for _ in range(SGD_STEPS):
        F, J = family.jacobian(w[None], x)
        following = w - SGD_RATE * (2 / len(y)) * ((F[0] - y) @ J[0])
        if not np.isfinite(following).all():
            break
        w = following
    return w


def ascend(family: Family, inputs: Inputs, sign: float, u: Array, w: Array, ball: Ball, beta: float) -> Array:
    """The cube point (d) reached from u by joint steps over x (in the model's units) and w, w kept in the ball."""
    d, centre = len(u), w
    ends = inputs(np.stack([np.zeros(d), np.ones(d)]))
    low, high = ends.min(axis=0), ends.max(axis=0)
    x = inputs(u[None])[0]
    for i in range(ASCENT_STEPS):
        dx, dw = family.ascent_direction(w, x)
        x = np.clip(x + sign * ASCENT_RATE * dx, low, high)
        w = w + sign * ASCENT_RATE * dw
        if i % CHECK_EVERY == 0 or i == ASCENT_STEPS - 1:
            away = w - centre
            squared = ball.lam * float(away @ away) + float(((ball.G @ away) ** 2).sum())
            if squared > beta:
                w = centre + math.sqrt(beta / squared) * away
    return np.asarray(inputs.back(x[None])[0])
