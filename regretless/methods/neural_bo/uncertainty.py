"""sigma(x) of NeuralBO's Alg. 1 (l. 3) in the smaller of its two forms, so that memory stops growing at p values.

    U = lam I + sum_i g(x_i) g(x_i)'             p x p, p the number of weights                           (Alg. 1, l. 7)
    sigma^2 = lam g' U^-1 g                      the paper's form
            = k(x, x) - k(x, X) (K + lam I)^-1 k(X, x)      the kernel form, n x n

Up to p values the kernel form holds the fewer numbers and takes the fewer steps; beyond, U does, and what is held no
longer depends on n. U is kept as its triangular factor, U = R'R, and rows enter by Householder reflections of [R; G],
which is the paper's rank-one update done for a block of rows at once. Which form is used follows from n alone, and so
do the edges of the blocks: the arithmetic is a function of the history.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from regretless.parameters import Array
from regretless.tangent.ntk import Factors, Tensor, dense, namespace, on_device, rows_of
from regretless.tangent.ridge import KERNEL_BLOCK, KernelRidge, Tangent, cholesky, eye, solve_lower

CHUNK = 128  # points whose p features are written down at once: 8 MB for the paper's net on 14 inputs


class Uncertainty:
    """sigma of the features of a net at its start: the n x n form up to `size` values (p), U beyond."""

    def __init__(self, net: Tangent, lam: float, size: int, *, device: str = "cpu") -> None:
        self._net, self._lam, self._size, self._device = net, float(lam), size, device
        self._form: KernelRidge | WeightRidge = KernelRidge(net, lam, device=device)

    def extend(self, X: Array, targets: Array) -> None:
        """Takes in the whole history: inputs X (n x ...) and targets (n), on which sigma does not depend."""
        if len(X) > self._size and isinstance(self._form, KernelRidge):
            self._form = WeightRidge(self._net, self._lam, self._size, device=self._device)
        self._form.extend(X, targets)

    def deviation(self, factors: Factors) -> Tensor:
        """sigma at points given by their factors, C."""
        return self._form.deviation(factors)


class WeightRidge:
    """The posterior deviation in the paper's form: the factor R of U, p x p whatever n."""

    def __init__(self, net: Tangent, lam: float, size: int, *, device: str = "cpu") -> None:
        self._net, self._lam, self._device = net, lam, device
        self._n = self._fixed = 0
        start = np.diag(np.full(size, lam**0.5)).T  # by columns, as LAPACK keeps it in place
        self._R: Tensor = on_device(start, device)
        self._tail: Tensor = None

    def extend(self, X: Array, targets: Array) -> None:
        """Takes in the rows of X (n x ...) that are new; those of a block that is not full are kept beside R."""
        if len(X) == self._n:
            return
        self._tail = None
        for start in range(self._fixed, len(X), KERNEL_BLOCK):
            G = dense(self._net.factors(on_device(X[start : start + KERNEL_BLOCK], self._device)))
            if len(G) == KERNEL_BLOCK:
                self._R, self._fixed = _with_rows(self._R, G), start + KERNEL_BLOCK
            else:
                self._tail = G
        self._n = len(X)

    def deviation(self, factors: Factors) -> Tensor:
        """sqrt(lam g' U^-1 g) of each point, C."""
        tail = None if self._tail is None else _half_solve(self._R, self._tail)
        # U = R'R + T'T: with V = R'^-1 T' it is R'(I + VV')R, whose inverse is that of I less V (I + V'V)^-1 V'
        L = None if tail is None else cholesky(eye(tail.shape[1], tail) + tail.T @ tail)
        parts = []
        for start in range(0, len(factors[0][0]), CHUNK):
            v = _half_solve(self._R, dense(rows_of(factors, slice(start, start + CHUNK))))
            square = (v**2).sum(0)
            if L is not None:
                square = square - (solve_lower(L, tail.T @ v) ** 2).sum(0)
            parts.append((self._lam * square).clip(0.0) ** 0.5)
        return namespace(parts[0]).concatenate(parts)


def _with_rows(R: Tensor, G: Tensor) -> Tensor:
    """The upper factor of R'R + G'G; in NumPy in the memory of R."""
    if isinstance(R, np.ndarray):
        rows = np.asfortranarray(G)
        return lapack.dtpqrt(0, min(KERNEL_BLOCK, len(R)), R, rows, overwrite_a=1, overwrite_b=1)[0]
    torch = namespace(R)
    return torch.linalg.qr(torch.cat([R, G]), mode="r").R


def _half_solve(R: Tensor, G: Tensor) -> Tensor:
    """R'^-1 G' for rows G (C x p), p x C."""
    if isinstance(R, np.ndarray):
        return blas.dtrsm(1.0, R, G.T, lower=0, trans_a=1)
    return namespace(R).linalg.solve_triangular(R.T, G.T, upper=False)
