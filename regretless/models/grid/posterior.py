"""Gaussian-process posteriors on a fixed grid, for methods that take thousands of values.

A posterior is updated sample by sample, and no sample needs the n x n covariance (Rasmussen and Williams 2006, Sec.
2.2). The covariance is K - W'W, where W has one row per sample: the rows of chol(K_XX + lambda I)^-1 K_Xg. So a sample
costs t n multiplications. Values are in standardised units, where the kernel has k(x, x) = 1.

Notation: n grid points, t samples, lambda the noise variance, l the length-scale, `mean` and `variance` on the grid
(n each), `gain` = 1/2 logdet(I + K_XX / lambda), the information gained.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.linalg.blas import dtpsv
from scipy.linalg.lapack import dpotrf, dtrtrs

from regretless.models.gp.kernels import Kernel, KernelKind
from regretless.space.parameters import Array

FORMS: dict[KernelKind, Kernel] = {"se": Kernel("se", 1), "matern52": Kernel("matern52", 1)}
"""The kernels as functions of the scaled squared distance; that part of a `Kernel` does not depend on the dimension."""
FEATURE_TOLERANCE = 1e-14  # features below this share of the trace are dropped: 1e-9 off a direct solve at most
FIRST_ROWS = 64  # a row posterior starts with room for this many samples


def correlation(kernel: KernelKind, X: Array, Z: Array, lengthscale: float, out: Array | None = None) -> Array:
    """k(X, Z) of points p x d and q x d, p x q, for an isotropic kernel with k(x, x) = 1; out: where to write it."""
    X, Z = X / lengthscale, Z / lengthscale
    K = np.empty((len(X), len(Z))) if out is None else out
    # 16_384: `correlation` computes so many entries at a time: four arrays of them stay in a cache of 512 kB
    rows = max(1, 16_384 // max(len(Z), 1))
    for i in range(0, len(X), rows):
        squared = K[i : i + rows]
        squared[:] = 0.0
        for x, z in zip(X[i : i + rows].T, Z.T, strict=True):  # differences leave exact zeros on the diagonal
            step = np.subtract.outer(x, z)
            step *= step
            squared += step
        FORMS[kernel].base(squared)
    return K


def product_grid(axes: Sequence[Array]) -> Array:
    """The points of a product grid, n x d, the last axis running fastest."""
    return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)


def confidence_width(gain: float, norm: float, noise_sd: float, delta: float) -> float:
    """beta = B + R sqrt(2 (gamma + 1 + ln 1/delta)) (Chowdhury and Gopalan 2017), with the factor 2 that Sec. 3.2.2 of
    the GP-ThreDS paper drops; gain: gamma, norm: B, noise_sd: R, delta: probability of error."""
    return norm + noise_sd * math.sqrt(2.0 * (gain + 1.0 + math.log(1.0 / delta)))


class RowPosterior:
    """The posterior on a grid, one new row per sample; exact for any kernel and any sample points.

    Args:
        grid: n x d.
        prior: k(grid, grid), n x n, shared between posteriors and never written to.
        kernel, lengthscale, noise_var: of the process and its noise.
    """

    def __init__(self, grid: Array, prior: Array, *, kernel: KernelKind, lengthscale: float, noise_var: float) -> None:
        self.grid, self._prior, self._kernel, self._lengthscale = grid, prior, kernel, lengthscale
        self.noise_var = noise_var
        self.mean = np.zeros(len(grid))
        self.variance = np.ones(len(grid))
        self.gain = 0.0
        self.t = 0
        self._rows = np.empty((FIRST_ROWS, len(grid)))
        """The rows of W, t x n."""
        self._L = np.empty(FIRST_ROWS * (FIRST_ROWS + 1) // 2)
        """The rows of L up to the diagonal, one after the other."""
        self._X = np.empty((FIRST_ROWS, grid.shape[1]))
        self._z = np.empty(FIRST_ROWS)

    def condition(self, X: Array, y: Array, weights: Array | None = None) -> None:
        """Takes in p samples at once, before any other; weights: the noise of each is lambda / weight, p."""
        U, p = self._factorise(X, y, weights), len(X)
        W, _ = dtrtrs(U, correlation(self._kernel, X, self.grid, self._lengthscale), trans=1)
        self.mean, self.variance = self._z[:p] @ W, np.maximum(1.0 - np.einsum("ij,ij->j", W, W), 0.0)
        self._rows[:p] = W

    def add(self, index: int, y: float, noise_var: float | None = None) -> None:
        """One sample at a grid point; noise_var: of this sample, where it is not lambda."""
        w, mean, variance = self._rows[: self.t, index].copy(), self.mean[index], self.variance[index]
        noise_var = noise_var or self.noise_var
        self._append(self.grid[index], w, self._prior[index], float(mean), float(variance), y, noise_var)

    def add_at(self, x: Array, y: float, noise_var: float | None = None) -> None:
        """One sample anywhere, d."""
        w, mean, variance = self._columns(x[None])
        k = self._kernel_row(x)
        self._append(x, w[:, 0], k, float(mean[0]), float(variance[0]), y, noise_var or self.noise_var)

    def variance_after(self, X: Array) -> Array:
        """The variance on the grid, n, were values known at X (p x d) as well, whatever they are."""
        t, mean, variance, gain = self.t, self.mean.copy(), self.variance.copy(), self.gain
        for x in X:
            self.add_at(x, 0.0)
        after = self.variance
        self.t, self.mean, self.variance, self.gain = t, mean, variance, gain
        return after

    def _columns(self, Z: Array) -> tuple[Array, Array, Array]:
        """L^-1 k(X, Z) for points q x d, t x q, with their mean and variance, q each."""
        t = self.t
        if not t:
            return np.empty((0, len(Z))), np.zeros(len(Z)), np.ones(len(Z))
        K = correlation(self._kernel, self._X[:t], Z, self._lengthscale)
        W = np.stack([dtpsv(t, self._L, k, trans=1) for k in K.T], axis=1)  # the rows of L are the columns of L'
        return W, self._z[:t] @ W, np.maximum(1.0 - np.einsum("ij,ij->j", W, W), 0.0)

    def _factorise(self, X: Array, y: Array, weights: Array | None) -> Array:
        """Takes in p samples but for mean and variance on the grid; gives U = L', p x p."""
        p = len(X)
        if self.t or not p:
            raise ValueError("condition() needs at least one sample and a posterior without any")
        self._make_room(p)
        K = correlation(self._kernel, X, X, self._lengthscale)
        noise = np.full(p, self.noise_var) if weights is None else self.noise_var / weights
        K[np.diag_indices_from(K)] += noise
        U, info = dpotrf(K.T, clean=0, overwrite_a=1)
        if info:
            given = f"{p} samples with noise variance {self.noise_var}"
            raise np.linalg.LinAlgError(f"the covariance of {given} is not positive definite")
        for i in range(p):
            self._L[i * (i + 1) // 2 :][: i + 1] = U[: i + 1, i]
        self._X[:p], self._z[:p] = X, dtrtrs(U, y, trans=1)[0]
        self.t = p
        self.gain = float(np.log(np.diagonal(U)).sum() - 0.5 * np.log(noise).sum())
        return np.asarray(U)

    def _append(self, x: Array, w: Array, k: Array, mean: float, variance: float, y: float, noise_var: float) -> None:
        t = self.t
        step = (k - w @ self._rows[:t]) / math.sqrt(variance + noise_var)
        z = self._grow(x, w, mean, variance, y, noise_var)
        self._rows[t] = step
        self.mean += z * step
        self.variance = np.maximum(self.variance - step * step, 0.0)

    def _kernel_row(self, x: Array) -> Array:
        """k(x, grid), n."""
        return np.asarray(correlation(self._kernel, x[None], self.grid, self._lengthscale)[0])

    def _grow(self, x: Array, w: Array, mean: float, variance: float, y: float, noise_var: float) -> float:
        """Takes in one sample but for mean and variance on the grid; gives its z."""
        t = self.t
        self._make_room(t + 1)
        total = variance + noise_var
        root = math.sqrt(total)
        z = (y - mean) / root
        row = self._L[t * (t + 1) // 2 :]
        row[:t], row[t], self._X[t], self._z[t] = w, root, x, z
        self.gain += 0.5 * math.log(total / noise_var)
        self.t = t + 1
        return z

    def _make_room(self, t: int) -> None:
        room = len(self._X)
        if t <= room:
            return
        more, t = max(t, 2 * room), self.t
        rows, L = np.empty((more, self._rows.shape[1])), np.empty(more * (more + 1) // 2)
        X, z = np.empty((more, self._X.shape[1])), np.empty(more)
        rows[:t], L[: len(self._L)], X[:t], z[:t] = self._rows[:t], self._L, self._X[:t], self._z[:t]
        self._rows, self._L, self._X, self._z = rows, L, X, z


class SEFeatures:
    """Features phi of the squared exponential with phi(x) . phi(z) = k(x, z) to about 1e-13, anywhere in [0, 1]^d.

    In one dimension the kernel is interpolated at Chebyshev nodes, k(x, z) = c(x) K_nodes c(z)' with c the barycentric
    weights, and K_nodes is cut to its numerical rank; in d dimensions features are products, without the least ones.
    """

    def __init__(self, dim: int, lengthscale: float) -> None:
        self.dim = dim
        self._nodes, self._basis, values = _line_basis(float(lengthscale))
        weight = np.ones(1)
        for _ in range(dim):
            weight = np.multiply.outer(weight, values).ravel()
            # 4_000_000: `SEFeatures` lists no more products of one-dimensional features than this, 32 MB
            if len(weight) > 4_000_000:
                given = f"length-scale {lengthscale} in {dim} dimensions"
                raise ValueError(f"the squared exponential with {given} has too many features")
        self.q = len(values)
        self.kept = np.flatnonzero(weight > FEATURE_TOLERANCE * weight[0])
        """Positions of the kept products in the q^d tensor, r."""

    @property
    def rank(self) -> int:
        return len(self.kept)

    def line(self, x: Array) -> Array:
        """One-dimensional features of n numbers, n x q."""
        return np.asarray(_barycentric(x, self._nodes) @ self._basis)

    def __call__(self, X: Array) -> Array:
        """Features of points n x d, n x r."""
        phi = np.ones((len(X), 1))
        for x in X.T:
            phi = (phi[:, :, None] * self.line(x)[:, None, :]).reshape(len(X), -1)
        return np.ascontiguousarray(phi[:, self.kept])


@lru_cache(maxsize=64)
def _line_basis(lengthscale: float) -> tuple[Array, Array, Array]:
    """Chebyshev nodes p, basis p x q and eigenvalues q (falling) of the squared exponential on [0, 1]."""
    p = 24 + math.ceil(6.0 / lengthscale)
    nodes = 0.5 - 0.5 * np.cos(np.pi * (np.arange(p) + 0.5) / p)
    values, vectors = np.linalg.eigh(correlation("se", nodes[:, None], nodes[:, None], lengthscale))
    keep = np.flatnonzero(values > FEATURE_TOLERANCE * values[-1])[::-1]
    return nodes, vectors[:, keep] * np.sqrt(values[keep]), values[keep]


def _barycentric(x: Array, nodes: Array) -> Array:
    """Rows that interpolate from Chebyshev nodes to n numbers, n x p (Berrut and Trefethen 2004, Eq. 4.2)."""
    p = len(nodes)
    weights = np.sin(np.pi * (np.arange(p) + 0.5) / p) * (-1.0) ** np.arange(p)
    gap = np.subtract.outer(np.asarray(x, dtype=np.float64), nodes)
    at, node = np.nonzero(gap == 0.0)
    gap[at] = 1.0
    rows: Array = weights / gap
    rows /= rows.sum(axis=1, keepdims=True)
    rows[at] = 0.0
    rows[at, node] = 1.0
    return rows
