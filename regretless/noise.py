"""Whether values show noise: told variances, options that state it, or settings that gave two different values.

A model's fitted noise is no evidence, and neither are neighbours whose values differ: ripples finer than the data look
the same to both (docs/lab/shares.md). One repeated evaluation settles the question.
"""

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-9
"""Values of one setting that differ by less than this share of their size differ by rounding alone."""


def stated_noise(paper: bool, noise: float | None) -> bool | None:
    """What options say of the noise: a paper's preset assumes it, a known sd or variance settles it; None: nothing."""
    return True if paper else None if noise is None else noise > 0


def shows_noise(X: NDArray[np.float64], y: NDArray[np.float64], yvar: NDArray[np.float64]) -> bool:
    """Whether values y (n) at settings X (n x d) with told noise variances yvar (n, NaN unknown) show noise."""
    if (yvar > 0).any():
        return True
    first: dict[bytes, float] = {}
    for x, value in zip(X, y.tolist(), strict=True):
        before = first.setdefault(x.tobytes(), value)
        if abs(before - value) > ROUNDING * max(abs(before), abs(value)):
            return True
    return False
