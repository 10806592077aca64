"""The two optimisers that App. D.1 of the GO-UCB paper prints, step for step: they show what the printed settings do.

The oracle takes 2000 steps of rate 1e-11, which leave the weights where they were drawn; the ascent takes 2000 steps of
rate 1e-4, which move x by less than 1 in a box of diagonal 45. The page of the method has the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.parametric import Family, TwoLayerNet
from regretless.parameters import Array

SGD_STEPS, SGD_RATE = 2000, 1e-11
ASCENT_STEPS, ASCENT_RATE = 2000, 1e-4
CHECK_EVERY = 50
"""Steps of the ascent between two looks at the ball."""


def initial_weights(family: Family, d: int, rng: np.random.Generator) -> Array:
    """Where the printed oracle starts, p: layers of a net as torch draws them, U(-1, 1) / sqrt(fan-in); other families
    at their prior's centre."""
    if not isinstance(family, TwoLayerNet):
        return np.zeros(family.p)
    first = rng.uniform(-1, 1, family.width * (d + 1)) / math.sqrt(d)
    second = rng.uniform(-1, 1, family.width + 1) / math.sqrt(family.width)
    return np.concatenate([first, second])


def printed_oracle(jacobian: Callable[[Array, Array], tuple[Array, Array]], x: Array, y: Array, w: Array) -> Array:
    """w_0 (p): SGD_STEPS steps of gradient descent on the mean squared error of n values (n is below any batch size),
    rate SGD_RATE."""
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(SGD_STEPS):
            F, J = jacobian(w[None], x)
            following = w - SGD_RATE * (2 / len(y)) * ((F[0] - y) @ J[0])
            if not np.isfinite(following).all():
                break
            w = following
    return w


def printed_ascent(
    family: Family, inputs: Callable[[Array], Array], sign: float, u: Array, w: Array, ball: Ball, beta: float
) -> Array:
    """The cube point reached from u by ASCENT_STEPS joint steps over x (in the user's units) and w, rate ASCENT_RATE, w
    kept in the ball, d."""
    d, centre = len(u), w
    ends = inputs(np.stack([np.zeros(d), np.ones(d)]))
    low, high = ends.min(axis=0), ends.max(axis=0)
    x = inputs(u[None])[0]
    for i in range(ASCENT_STEPS):
        dx, dw = family.ascent_direction(w, x)
        x = np.clip(x + sign * ASCENT_RATE * dx, low, high)
        w = w + sign * ASCENT_RATE * dw
        if (
            i % CHECK_EVERY == 0 or i == ASCENT_STEPS - 1
        ):  # the ball is never reached, so it is enough to look now and then
            away = w - centre
            squared = ball.lam * float(away @ away) + float(((ball.G @ away) ** 2).sum())
            if squared > beta:
                w = centre + math.sqrt(beta / squared) * away
    reached: Array = (x - ends[0]) / (ends[1] - ends[0])
    return reached
