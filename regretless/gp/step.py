"""One step of a method on the exact GP: from an acquisition to the next point, and from a posterior to the point to
recommend."""

from __future__ import annotations

import numpy as np

from regretless.gp.acquisition import kept_from_failures
from regretless.gp.design import away_from_known
from regretless.gp.maximiser import Acquisition, Score, maximise
from regretless.gp.posterior import GP
from regretless.gp.surrogate import Surrogate
from regretless.method import Method
from regretless.parameters import Array

INCUMBENTS = 3
"""Told points with the best posterior means around which the maximiser draws candidates; 1 to 5 are level."""


def step(
    history: Method, gp: GP, pair: tuple[Acquisition, Score], rng: np.random.Generator, *, logarithmic: bool = False
) -> Array:
    """The point that maximises an acquisition of the posterior, kept from failures and off the known points, d.

    logarithmic: the acquisition is a logarithm (see `kept_from_failures`).
    """
    acquisition, score = kept_from_failures(pair, history.X, history.failed, logarithmic=logarithmic)
    x = maximise(acquisition, history.cube, rng, incumbents=best_by_mean(gp, history.X, INCUMBENTS), score=score)
    return away_from_known(x, history, rng)


def best_by_mean(gp: GP, X: Array, count: int) -> Array:
    """The rows of X with the largest posterior means, best first, at most count x d."""
    best: Array = X[np.argsort(-gp.mean_at(X), kind="stable")[:count]]
    return best


def recommended_by_mean(history: Method, surrogate: Surrogate) -> Array:
    """The told point with the largest posterior mean, d."""
    gp = surrogate.gp(history.X, history.y, history.yvar)
    return best_by_mean(gp, history.X, 1)[0]
