"""Where few coordinates matter, a search that moves them alone.

Length-scales per coordinate say which coordinates matter. Those of the others are long but finite, so moving a hundred
of them across the cube always promises a little variance that is not there, and a search in all coordinates would never
settle on the few.
"""

from __future__ import annotations

import numpy as np

from regretless.gp.acquisition import through
from regretless.gp.maximiser import Acquisition, maximise
from regretless.gp.posterior import GP
from regretless.methods.ms_ucb.additive import AdditiveGP
from regretless.methods.ms_ucb.base_points import Indices
from regretless.parameters import Array
from regretless.space import Cube

FEW_MATTER, SHARE = 0.1, 0.999
"""Few coordinates matter where at most the share FEW_MATTER of all holds the share SHARE of the sum of l^-2. Chosen on
Camelback in 100 dimensions (docs/methods/ms-ucb.md)."""


def few_that_matter(gp: GP | AdditiveGP, lines: Indices) -> Indices | None:
    """The coordinates out of `lines` that matter; None where they are many or the model has only one length-scale."""
    if not isinstance(gp, GP) or gp.hyper.lengthscale.size == 1 or len(lines) == 0:
        return None
    few = coordinates_that_matter(gp.hyper.lengthscale[lines])
    return lines[few] if len(few) <= FEW_MATTER * gp.hyper.lengthscale.size else None


def coordinates_that_matter(lengthscale: Array) -> Indices:
    """The fewest of the coordinates with these length-scales (d) that together hold SHARE of the sum of l^-2."""
    weights = lengthscale**-2.0
    order: Indices = np.argsort(-weights, kind="stable")
    held = np.cumsum(weights[order])
    return np.sort(order[: int(np.searchsorted(held, SHARE * held[-1])) + 1])


def best_in_coordinates(free: Indices, acquisition: Acquisition, incumbents: Array, rng: np.random.Generator) -> Array:
    """The best point of the subspace through the first incumbent in which the given coordinates are free, D."""

    def to_cube(Y: Array) -> tuple[Array, Array]:
        X = np.repeat(incumbents[:1], len(Y), axis=0)
        X[:, free] = Y
        return X, np.ones_like(X)

    low = through(acquisition, to_cube, np.eye(incumbents.shape[1])[:, free])
    y = maximise(low, Cube.box(len(free)), rng, incumbents=incumbents[:, free])
    best: Array = to_cube(y[None])[0][0]
    return best
