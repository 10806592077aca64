"""The length of training as the last coordinate of the outer model; proposals are meant for the full one. Not in
paper."""

from __future__ import annotations

import numpy as np

from regretless.gp.acquisition import kept_from_failures
from regretless.gp.design import away_from_known
from regretless.gp.maximiser import Acquisition, maximise
from regretless.gp.posterior import GP
from regretless.gp.step import INCUMBENTS, best_by_mean
from regretless.method import Method
from regretless.parameters import Array


def at_full_length(X: Array) -> Array:
    """The points with the last coordinate, the length of training, set to 1; n x d or d."""
    full = np.array(X)
    full[..., -1] = 1.0
    return full


def step_at_full_length(
    history: Method, gp: GP, acquisition: Acquisition, rng: np.random.Generator, *, logarithmic: bool
) -> Array:
    """As `regretless.gp.step.step`, over the points of full length alone, d."""
    kept = kept_from_failures(acquisition, history.X, history.failed, logarithmic=logarithmic)

    def pinned(X: Array) -> tuple[Array, Array]:
        """The acquisition at full length; it does not change along the last coordinate."""
        value, slope = kept.value_and_gradient(at_full_length(X))
        slope[:, -1] = 0.0
        return value, slope

    full = at_full_length(history.X)
    incumbents = best_by_mean(gp, full, INCUMBENTS)
    at_full = Acquisition(pinned, lambda X: kept.value(at_full_length(X)))
    x = maximise(at_full, history.cube, rng, incumbents=incumbents)
    trained = {history.cube.key(point) for point in full}  # settings that were trained, however long
    return at_full_length(away_from_known(at_full_length(x), history, rng, also=trained))
