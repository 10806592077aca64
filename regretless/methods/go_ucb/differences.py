"""Derivatives by central differences, all points and coordinates in one call of the function: for models without a
gradient, and for scores whose gradient would need mixed second derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from regretless.parameters import Array
from regretless.space import Cube

STEP = 1e-5
"""Half the width of a difference, for coordinates of unit size: it balances truncation, 1e-10, and rounding, 1e-11."""


def central_differences(
    f: Callable[[Array], Array], P: Array, columns: NDArray[np.intp], low: float, high: float
) -> tuple[Array, Array]:
    """Values (k x n) of f (m x p -> m x n) at P (k x p), and derivatives in the given c columns (k x n x c), one-sided
    where a point would leave [low, high]."""
    c = len(columns)
    j = np.arange(c)
    ahead, behind = np.minimum(P[:, columns] + STEP, high), np.maximum(P[:, columns] - STEP, low)
    grid = np.repeat(P[:, None, :], 2 * c + 1, axis=1)
    grid[:, 1 + j, columns], grid[:, 1 + c + j, columns] = ahead, behind
    values = f(grid.reshape(-1, P.shape[1])).reshape(len(P), 2 * c + 1, -1)
    slopes = (values[:, 1 : 1 + c] - values[:, 1 + c :]) / (ahead - behind)[:, :, None]
    return values[:, 0], slopes.transpose(0, 2, 1)


def with_gradient(score: Callable[[Array], Array], cube: Cube) -> Callable[[Array], tuple[Array, Array]]:
    """The score (q x d -> q) together with its gradient (q x d); coordinates that are no lines have gradient 0."""
    held = cube.discrete.copy()
    for start, stop in cube.groups:
        held[start:stop] = True
    free = np.flatnonzero(~held)

    def both(X: Array) -> tuple[Array, Array]:
        values, slopes = central_differences(score, X, free, 0.0, 1.0)
        gradient = np.zeros_like(X)
        gradient[:, free] = slopes[:, 0]
        return values[:, 0], gradient

    return both
