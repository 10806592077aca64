"""The lower triangle of a kernel matrix, block by block, so that elementwise work is halved and temporaries stay
small."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from regretless.gp.kernels import Kernel, squared_distances
from regretless.parameters import Array

BLOCK = 256
"""Rows per block: a block of n = 3000 is 6 MB, and 256 rows keep matrix products at full speed."""


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
