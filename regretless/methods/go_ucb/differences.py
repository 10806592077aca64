"""Gradients by central differences, all points and coordinates in one call of the function.

For scores whose gradient would cost mixed second derivatives, such as a confidence width |grad_w f(w, x)|
differentiated in x: (2 d + 1) values per point in a single vectorised evaluation are cheaper than a second sweep of
automatic differentiation, and need nothing of the model but its first derivatives.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regretless.parameters import Array
from regretless.space import Cube

STEP = 1e-5
"""Half the width of a difference on the cube: truncation about 1e-10, rounding about 1e-11 of the value."""


def with_gradient(score: Callable[[Array], Array], cube: Cube) -> Callable[[Array], tuple[Array, Array]]:
    """The score (q x d -> q) together with its gradient (q x d); coordinates that are no lines have gradient 0."""
    held = cube.discrete.copy()
    for start, stop in cube.groups:
        held[start:stop] = True
    free = np.flatnonzero(~held)
    f = len(free)
    j = np.arange(f)

    def both(X: Array) -> tuple[Array, Array]:
        ahead, behind = np.minimum(X[:, free] + STEP, 1.0), np.maximum(X[:, free] - STEP, 0.0)
        grid = np.repeat(X[:, None, :], 2 * f + 1, axis=1)
        grid[:, 1 + j, free], grid[:, 1 + f + j, free] = ahead, behind
        values = score(grid.reshape(-1, X.shape[1])).reshape(len(X), 2 * f + 1)
        gradient = np.zeros_like(X)
        gradient[:, free] = (values[:, 1 : 1 + f] - values[:, 1 + f :]) / (ahead - behind)
        return values[:, 0], gradient

    return both
