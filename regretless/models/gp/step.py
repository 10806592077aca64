"""One step on the exact GP: from an acquisition to the next point, from a posterior to the point to recommend."""

from typing import Protocol

import numpy as np

from regretless.history import History
from regretless.models.gp.acquisition import kept_from_failures
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import USUAL, Acquisition, Effort, maximise
from regretless.models.gp.posterior import GP
from regretless.space import Cube
from regretless.space.parameters import Array

OWN_VALUE = 0.25
"""The part of what a value differs from its posterior mean that is believed when a setting is recommended and the noise
had to be fitted. It was chosen on classics and odd bbob functions, where .15 to .35 are level (docs/lab/shares.md)."""
INCUMBENTS = 3  # evaluated points with the best means around which the maximiser draws candidates; 1 to 5 are level


class HasMean(Protocol):
    """A posterior of any kind, as far as it ranks points."""

    def mean_at(self, X: Array, /) -> Array:
        """Posterior mean (q) at X (q x d)."""


def step(
    history: History,
    cube: Cube,
    gp: HasMean,
    acquisition: Acquisition,
    rng: np.random.Generator,
    *,
    logarithmic: bool = False,
    effort: Effort = USUAL,
    again: bool = False,
) -> Array:
    """The point that maximises an acquisition of the posterior, kept from failures and, unless known points may be
    proposed `again`, off these, d."""
    kept = kept_from_failures(acquisition, history.X, history.failed, logarithmic=logarithmic)
    x = maximise(kept, cube, rng, incumbents=best_by_mean(gp, history.worth_using(), INCUMBENTS), effort=effort)
    return x if again else away_from_known(x, history, cube, rng)


def best_by_mean(gp: HasMean, X: Array, count: int) -> Array:
    """The rows of X with the largest posterior means, best first, at most count x d."""
    return np.asarray(X[np.argsort(-gp.mean_at(X), kind="stable")[:count]])


def best_evaluated(gp: HasMean, X: Array) -> Array:
    """The row of X with the largest posterior mean, d."""
    return np.asarray(best_by_mean(gp, X, 1)[0])


def best_weighed(gp: GP, history: History) -> Array:
    """The evaluated point, d, with the largest posterior mean m or, where the noise had to be fitted, the largest
    m + OWN_VALUE (y - m). A fitted noise is in part roughness that the model does not resolve, so the mean of a point
    whose own value is poor may be that of its better neighbours. With constraints, of the points that satisfy them."""
    if np.isfinite(history.yvar).all() or (history.n_constraints and not history.feasible.any()):
        return best_evaluated(gp, history.worth_using())
    usable = np.flatnonzero(history.feasible) if history.n_constraints else np.arange(len(history))
    mean = gp.mean_at(history.X[usable])
    own = (gp.y[gp.n - len(history) :][usable] - gp.offset) / gp.scale  # as the model sees them
    return np.asarray(history.X[usable[np.argmax(mean + OWN_VALUE * (own - mean))]])
