"""Which member of a front to take, where nobody says more than how much each objective counts."""

import numpy as np

from regretless.space.parameters import Array


def compromise(Y: Array, weights: Array | None = None) -> int:
    """The row of a front Y (m x k) with the largest product of what it gains over the worst member in each objective,
    raised to the weights (k): Nash's bargaining solution. The unit in which an objective is written plays no part."""
    powers = np.ones(Y.shape[1]) if weights is None else weights
    return int(np.argmax(np.log(gained(Y)) @ powers))


def gained(Y: Array) -> Array:
    """What each member of a front Y (m x k) gains over the worst in each objective, as a share of the front's range,
    m x k; never zero, which would make all products of the ends of a front equal."""
    best, worst = Y.max(axis=0), Y.min(axis=0)
    span = np.where(best > worst, best - worst, 1.0)
    shares = np.where(best > worst, (Y - worst) / span, 1.0)
    # 1e-3: what the worst member in an objective counts as
    return np.asarray(np.maximum(shares, 1e-3))
