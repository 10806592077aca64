"""The confidence ball of linearised least squares in low-rank form: Sigma = lam I + G'G without ever forming Sigma.

G holds one gradient per row (T x p). With the Cholesky factor L of the T x T matrix GG' + lam I

    Sigma^-1 q      = (q - G' (GG' + lam I)^-1 G q) / lam                        (Woodbury)
    |q|^2_{Sigma^-1} = (|q|^2 - |L^-1 G q|^2) / lam
    log det Sigma/lam = 2 sum log L_ii - T log lam                               (Sylvester)
    argmin_w  lam |w - w_0|^2 + |G w - r|^2  =  w_0 + G' (GG' + lam I)^-1 (r - G w_0)

so a new row costs O(T p), where the dense form pays O(p^2). Beyond 2 p rows a QR factorisation compresses them into p.
"""

import math

import numpy as np
from scipy.linalg import lapack

from regretless.basics.options import in_range
from regretless.space.parameters import Array


class Ball:
    """{w : |w - centre()|_Sigma^2 <= beta} for any beta, with Sigma = lam I + sum g g' and centre() the ridge solution.

    The ridge, of weight `lam`, pulls towards `anchor`, w_0 (p); G (T x p) and r (T) are rows g.w = r to begin with.
    """

    def __init__(self, anchor: Array, lam: float, G: Array | None = None, r: Array | None = None) -> None:
        in_range("(0, inf)", lam=lam)
        self.anchor = np.array(anchor, dtype=np.float64)
        self.lam = float(lam)
        self.p = len(self.anchor)
        self.G, self._r, self._L = np.empty((0, self.p)), np.empty(0), np.empty((0, 0))
        """The rows kept, T x p: the gradients themselves until they were compressed, then p rows with the same G'G."""
        if G is not None and r is not None and len(G):
            self._refactor(np.asarray(G, dtype=np.float64), np.asarray(r, dtype=np.float64))

    def append(self, g: Array, r: float) -> None:
        """Takes in the row g.w = r: Sigma becomes Sigma + g g'."""
        T, G, targets = len(self.G), np.vstack([self.G, g]), np.append(self._r, r)
        if 2 * self.p <= T:
            self._refactor(G, targets)
            return
        L = np.zeros((T + 1, T + 1), order="F")
        L[:T, :T], L[T, :T] = self._L, self._half_solve(self.G @ g) if T else 0.0
        pivot = self.lam + float(g @ g) - float(L[T, :T] @ L[T, :T])
        # in exact arithmetic the pivot is at least lam; rounding may only touch the last digits of that
        L[T, T] = math.sqrt(max(pivot, self.lam))
        self.G, self._r, self._L = G, targets, L

    def centre(self) -> Array:
        """The minimiser w_hat of lam |w - anchor|^2 + sum (g.w - r)^2, p."""
        if not len(self.G):
            return self.anchor.copy()
        alpha, info = lapack.dpotrs(self._L, self._r - self.G @ self.anchor, lower=1)
        assert info == 0
        return np.asarray(self.anchor + alpha @ self.G)

    def norms(self, Q: Array) -> Array:
        """|q|_{Sigma^-1} of every row of Q (m x p), m."""
        squared = np.einsum("ij,ij->i", Q, Q)
        if len(self.G):
            half = self._half_solve(self.G @ Q.T)
            squared = squared - np.einsum("ij,ij->j", half, half)
        return np.asarray(np.sqrt(np.maximum(squared, 0.0) / self.lam))

    def log_det(self) -> float:
        """log det(Sigma) - log det(lam I), the information the rows carry."""
        return float(2 * np.log(np.diagonal(self._L)).sum() - len(self.G) * math.log(self.lam))

    def root(self) -> tuple[Array, Array]:
        """V (p x k, orthonormal) and c (k) such that Sigma^{-1/2} q = (q - V (c * (V'q))) / sqrt(lam)."""
        _, s, Vt = np.linalg.svd(self.G, full_matrices=False)
        return Vt.T, 1 - np.sqrt(self.lam / (self.lam + s**2))

    def _half_solve(self, B: Array) -> Array:
        solved, info = lapack.dtrtrs(self._L, B, lower=1)
        assert info == 0
        return np.asarray(solved)

    def _refactor(self, G: Array, r: Array) -> None:
        if len(G) > self.p:
            Q, G = np.linalg.qr(G)
            r = Q.T @ r
        K = G @ G.T
        K.flat[:: len(G) + 1] += self.lam
        self.G, self._r, self._L = G, r, sure_cholesky(K)


def sure_cholesky(K: Array) -> Array:
    """The lower Cholesky factor of K (n x n), with as little added to its diagonal as makes it positive definite."""
    L, info = lapack.dpotrf(K, lower=1, clean=1)
    # 1e-14: the first share of the largest diagonal entry that is added to a matrix which rounding made indefinite
    jitter = 1e-14 * float(np.diagonal(K).max())
    while info:
        if not math.isfinite(jitter):
            raise np.linalg.LinAlgError("the matrix holds numbers that are not finite")
        L, info = lapack.dpotrf(K + jitter * np.eye(len(K)), lower=1, clean=1)
        jitter *= 10
    return np.asarray(L)
