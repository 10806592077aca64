"""Which member of a front to take, where nobody says more than how much each objective counts."""

import numpy as np
from numpy.typing import NDArray

from regretless.space.parameters import Array


def compromise(Y: Array, weights: Array | None = None) -> int:
    """The row of a front Y (m x k) with the largest product of what it gains over the worst member in each objective,
    raised to the weights (k): Nash's bargaining solution. The unit in which an objective is written plays no part."""
    powers = np.ones(Y.shape[1]) if weights is None else weights
    return int(np.argmax(np.log(gained(Y)) @ powers))


def of_interest(Y: Array, reference: Array) -> NDArray[np.bool_]:
    """Which values (m x k) are better than the reference (k, NaN where there is none), m; all, where none is."""
    good = np.asarray(((reference < Y) | np.isnan(reference)).all(axis=1))
    return good if good.any() else np.ones(len(Y), dtype=bool)


def gained(Y: Array) -> Array:
    """What each member of a front Y (m x k) gains over the worst in each objective, as a share of the front's range,
    m x k; never zero, which would make all products of the ends of a front equal."""
    best, worst = Y.max(axis=0), Y.min(axis=0)
    span = np.where(best > worst, best - worst, 1.0)
    shares = np.where(best > worst, (Y - worst) / span, 1.0)
    # 1e-3: what the worst member in an objective counts as
    return np.asarray(np.maximum(shares, 1e-3))
