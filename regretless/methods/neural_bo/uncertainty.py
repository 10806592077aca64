"""sigma(x) of NeuralBO's Alg. 1 (l. 3) in the smaller of its two forms, so that memory stops growing at p values.

    U = lam I + sum_i g(x_i) g(x_i)'             p x p, p the number of weights                           (Alg. 1, l. 7)
    sigma^2 = lam g' U^-1 g                      the paper's form
            = k(x, x) - k(x, X) (K + lam I)^-1 k(X, x)      the kernel form, n x n

Up to p values the kernel form holds the fewer numbers and takes the fewer steps; beyond, U does, and what is held no
longer depends on n. Rows enter U in blocks, each the sum of as many of the paper's rank-one updates; U = L L' is
factorised once per block, and the rows of a block that is not full yet are conditioned on beside it. Which form is used
follows from n alone, and so do the edges of the blocks: the arithmetic is a function of the history.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from regretless.models.tangent.ntk import Factors, dense, rows_of
from regretless.models.tangent.ridge import RAISES, KernelRidge, Tangent, cholesky, eye, solve_lower
from regretless.space.parameters import Array

BLOCK = 128  # rows whose p features are written down at once: 8 MB for the paper's net on 14 inputs


class Uncertainty:
    """sigma of the features of a net at its start: the n x n form up to `size` values (p), U beyond."""

    def __init__(self, net: Tangent, lam: float, size: int) -> None:
        self._net, self._lam, self._size = net, float(lam), size
        self.form: KernelRidge | WeightRidge = KernelRidge(net, lam)

    def extend(self, X: Array, targets: Array) -> None:
        """Takes in the whole history: inputs X (n x ...) and targets (n), on which sigma does not depend."""
        if len(X) > self._size and isinstance(self.form, KernelRidge):
            self.form = WeightRidge(self._net, self._lam, self._size)
        self.form.extend(X, targets)

    def deviation(self, factors: Factors) -> Array:
        """sigma at points given by their factors, C."""
        return np.asarray(self.form.deviation(factors))


class WeightRidge:
    """The posterior deviation in the paper's form: U and its factor L, p x p numbers whatever n."""

    def __init__(self, net: Tangent, lam: float, size: int) -> None:
        self._net, self._lam = net, lam
        self._n = self._fixed = 0
        self._square = Square(size, lam)
        self._tail: Array | None = None

    def extend(self, X: Array, targets: Array) -> None:
        """Takes in the rows of X (n x ...) that are new."""
        if len(X) == self._n:
            return
        self._tail = None
        for start in range(self._fixed, len(X), BLOCK):
            G = dense(self._net.factors(X[start : start + BLOCK]))
            if len(G) == BLOCK:
                self._square.add(G)
                self._fixed = start + BLOCK
            else:
                self._tail = G
        self._n = len(X)

    def deviation(self, factors: Factors) -> Array:
        """sqrt(lam g' U^-1 g) of each point, C."""
        L = self._square.factor()
        V = None if self._tail is None else solve_lower(L, self._tail.T)
        # with the rows T beside it U is L L' + T'T = L (I + V V') L', V = L^-1 T'; and (I + V V')^-1 is the identity
        # less V (I + V'V)^-1 V'
        M = None if V is None else cholesky(eye(V.shape[1], V) + V.T @ V)
        parts = []
        for start in range(0, len(factors[0][0]), BLOCK):
            v = solve_lower(L, dense(rows_of(factors, slice(start, start + BLOCK))).T)
            square = (v**2).sum(0)
            if V is not None:
                square = square - (solve_lower(M, V.T @ v) ** 2).sum(0)
            parts.append((self._lam * square).clip(0.0) ** 0.5)
        return np.concatenate(parts)


class Square:
    """U and its factor in one p x p array: U above the diagonal, L on and below it; U's diagonal apart."""

    def __init__(self, size: int, lam: float) -> None:
        self._both = np.zeros((size, size), order="F")
        self._diagonal = np.full(size, lam)
        self._is_stale = True

    def add(self, G: Array) -> None:
        """U + G'G for rows G (k x p)."""
        np.fill_diagonal(self._both, self._diagonal)
        self._both = blas.dsyrk(1.0, G.T, beta=1.0, c=self._both, overwrite_c=1)
        self._diagonal = self._both.diagonal().copy()
        self._is_stale = True

    def factor(self) -> Array:
        """L, in the lower triangle of an array whose upper one is not part of it."""
        if self._is_stale:
            raised = 0.0
            for attempt in range(RAISES):
                self._mirror(raised)
                self._both, info = lapack.dpotrf(self._both, lower=1, clean=0, overwrite_a=1)
                if info == 0 and np.isfinite(self._both.diagonal()).all():
                    break
                raised = float(self._diagonal.max()) * 1e-15 * 10.0**attempt
            else:
                raise FloatingPointError("the matrix U is not positive definite; are all features finite?")
            self._is_stale = False
        return self._both

    def _mirror(self, raised: float) -> None:
        """Writes U, its diagonal raised, into the lower triangle."""
        U, size = self._both, len(self._both)
        for a in range(0, size, BLOCK):
            b = min(a + BLOCK, size)
            U[b:, a:b] = U[a:b, b:].T
            U[a:b, a:b] = np.triu(U[a:b, a:b], 1) + np.triu(U[a:b, a:b], 1).T
        np.fill_diagonal(U, self._diagonal + raised)
