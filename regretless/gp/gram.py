"""The lower triangle of a kernel matrix, block by block, so that elementwise work is halved and temporaries stay small;
and what is added to a diagonal that rounding has made too small to be factorised."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from regretless.gp.kernels import Kernel, squared_distances
from regretless.parameters import Array

BLOCK = 256
"""Rows per block: a block of n = 3000 is 6 MB, and 256 rows keep matrix products at full speed."""
FIRST_JITTER = 1e-10
"""The first addition to the diagonal of a matrix that cannot be factorised, tenfold each time it fails again; well
above the rounding error of a sum of a thousand terms."""
MOST_JITTER = 1e3
"""A matrix that still cannot be factorised with this on its diagonal is no covariance relative to a signal variance."""


def factor_with_jitter(
    factor: Callable[[float], tuple[Array, int]], *, first: float = FIRST_JITTER
) -> tuple[Array, float]:
    """What `factor(jitter)` gives for the least jitter of 0, first, 10 first, ... at which LAPACK reports success
    (info = 0), and that jitter."""
    jitter = 0.0
    while True:
        L, info = factor(jitter)
        if info == 0:
            return L, jitter
        jitter = max(first, 10.0 * jitter)
        if not jitter < MOST_JITTER * max(1.0, first / FIRST_JITTER):
            raise ArithmeticError("a covariance matrix cannot be factorised: it is not finite, or not positive")


def blocks(n: int) -> Iterator[tuple[int, int]]:
    """The (start, stop) rows of each block; its columns are 0 .. stop."""
    for start in range(0, n, BLOCK):
        yield start, min(start + BLOCK, n)


def lower_gram(kernel: Kernel, Z: Array, W: Array, q: float) -> Array:
    """k(X_i, X_j) for j <= i, n x n in C order, from embedded points Z and the same divided by the length-scales, W.

    What lies above the diagonal is unspecified.
    """
    n = len(Z)
    A = np.empty((n, n))
    for i, j in blocks(n):
        A[i:j, :j] = kernel.base(squared_distances(W[i:j], W[:j]))
        if q:
            t = kernel.trend(Z[i:j], Z[:j])
            t *= t
            t *= q / 4.0
            A[i:j, :j] += t
    A.ravel()[:: n + 1] = kernel.at_zero(Z, q)
    return A
