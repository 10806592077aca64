"""Gaussian-process posteriors on a fixed grid, for methods that take thousands of values.

A posterior is updated sample by sample, and no sample needs the n x n covariance (Rasmussen and Williams 2006,
Sec. 2.2). Values are in standardised units, where the kernel has k(x, x) = 1. There are two forms:
- `RowPosterior` takes any kernel and any points. The posterior covariance is K - W'W, W one row per sample: the rows of
  chol(K_XX + lambda I)^-1 K_Xg. A sample costs t n multiplications.
- `ProductPosterior` takes the squared exponential on a product grid. It lives in the r features of that kernel (about
  100 on the unit square at l = 0.2). A sample costs 2 r^2 and a Kronecker product.

Notation: n grid points, t samples, lambda the noise variance, l the length-scale, `mean` and `variance` on the grid
(n each), `gain` = 1/2 logdet(I + K_XX / lambda), the information gained.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv, dsyr, dtpsv
from scipy.linalg.lapack import dpotrf, dtrtrs

from regretless.models.gp.kernels import Kernel, KernelKind
from regretless.space.parameters import Array

FORMS: dict[KernelKind, Kernel] = {"se": Kernel("se", 1), "matern52": Kernel("matern52", 1)}
"""The kernels as functions of the scaled squared distance; that part of a `Kernel` does not depend on the dimension."""
FEATURE_TOLERANCE = 1e-14  # features below this share of the trace are dropped: 1e-9 off a direct solve at most
MOST_PRODUCTS = 4_000_000  # `SEFeatures` lists no more products of one-dimensional features than this, 32 MB
ROWS = 64  # rows of K_Xg that are multiplied at a time; 64 keep a product at full speed
CACHED = 16_384  # `correlation` computes so many entries at a time: four arrays of them stay in a cache of 512 kB
CHECKED = 16  # grid points where a loaded state is checked; all would cost hundreds of samples
FIRST_ROWS = 64  # a row posterior starts with room for this many samples; with fewer rows it is not regrouped
REGROUP_AFTER, REGROUP_SHARE = 8, 16  # repeated samples, at least and as a share of the others, at which to regroup


def correlation(kernel: KernelKind, X: Array, Z: Array, lengthscale: float, out: Array | None = None) -> Array:
    """k(X, Z) of points p x d and q x d, p x q, for an isotropic kernel with k(x, x) = 1; out: where to write it."""
    X, Z = X / lengthscale, Z / lengthscale
    K = np.empty((len(X), len(Z))) if out is None else out
    rows = max(1, CACHED // max(len(Z), 1))
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

    With a prior it keeps the rows of W, and a sample costs one product with them. Without one it keeps the rows of
    K_Xg, and a sample costs two solves by the factor as well; but those rows follow from the samples alone, so that a
    saved posterior is loaded without the n solves that W takes.

    Args:
        grid: n x d.
        prior: k(grid, grid), n x n, shared between posteriors and never written to; None: rows are computed when
            needed.
        kernel, lengthscale, noise_var: of the process and its noise.
    """

    def __init__(
        self, grid: Array, prior: Array | None, *, kernel: KernelKind, lengthscale: float, noise_var: float
    ) -> None:
        self.grid, self._prior, self._kernel, self._lengthscale = grid, prior, kernel, lengthscale
        self._solves = prior is None
        self.noise_var = noise_var
        self.mean = np.zeros(len(grid))
        self.variance = np.ones(len(grid))
        self.gain = 0.0
        self.t = 0
        self._conditioned = 0  # samples that `condition` took in
        self._filled = 0  # rows of K_Xg that are computed
        self._rows = np.empty((FIRST_ROWS, len(grid)))
        """The rows of W or of K_Xg, t x n."""
        self._L = np.empty(FIRST_ROWS * (FIRST_ROWS + 1) // 2)
        """The rows of L up to the diagonal, one after the other."""
        self._X = np.empty((FIRST_ROWS, grid.shape[1]))
        self._z = np.empty(FIRST_ROWS)

    def condition(self, X: Array, y: Array, weights: Array | None = None) -> None:
        """Takes in p samples at once, before any other; weights: the noise of each is lambda / weight, p."""
        U, p = self._factorise(X, y, weights), len(X)
        K = correlation(self._kernel, X, self.grid, self._lengthscale)
        W, _ = dtrtrs(U, K, trans=1)
        self.mean, self.variance = self._z[:p] @ W, np.maximum(1.0 - np.einsum("ij,ij->j", W, W), 0.0)
        self._rows[:p], self._filled = (K, p) if self._solves else (W, 0)

    def resume(
        self,
        state: Mapping[str, Any],
        first: tuple[Array, Array, Array] | None,
        later: Sequence[tuple[Array, float, float | None]],
    ) -> None:
        """Takes over what `state` gave; first: what it was conditioned on, later: the point, value and noise variance
        of each sample since. ValueError when these cannot have given that state."""
        if first is not None:
            self._factorise(*first)
        for x, y, noise_var in later:
            w, mean, variance = self._columns(x[None])
            self._grow(x, w[:, 0], float(mean[0]), float(variance[0]), y, noise_var or self.noise_var)
        self.mean, self.variance = (np.array(state[name], dtype=np.float64) for name in ("mean", "variance"))
        if not self.mean.shape == self.variance.shape == (len(self.grid),):
            raise ValueError(f"mean and variance must be {len(self.grid)} numbers each")
        known = np.linspace(0, len(self.grid) - 1, CHECKED).astype(np.intp)
        _, mean, variance = self._columns(self.grid[known])
        near = np.abs(self.mean[known] - mean).max() <= 1e-6 * (1 + np.abs(mean).max())
        if not near or not np.abs(self.variance[known] - variance).max() <= 1e-6:
            raise ValueError("mean and variance do not follow from the values")

    def state(self) -> dict[str, Any]:
        """What `resume` takes; the rest follows from the samples."""
        return {"mean": self.mean.copy(), "variance": self.variance.copy()}

    @property
    def is_long(self) -> bool:
        """Whether it pays to condition a new posterior on the distinct samples, with repeated ones averaged."""
        least = max(REGROUP_AFTER, self._conditioned // REGROUP_SHARE)
        return self.t >= FIRST_ROWS and self.t - self._conditioned >= least

    def extend(self, Z: Array) -> None:
        """Adds points q x d to the grid; the posterior there is as if they had been in it from the start."""
        n, q, t = len(self.mean), len(Z), self.t
        self._fill()
        columns, mean, variance = self._columns(Z)
        if n + q > self._rows.shape[1]:
            wider = np.empty((len(self._rows), max(n + q, 2 * self._rows.shape[1])))
            wider[:t, :n] = self._rows[:t, :n]
            self._rows = wider
        new = correlation(self._kernel, self._X[:t], Z, self._lengthscale) if self._solves else columns
        self._rows[:t, n : n + q] = new
        self.grid, self._prior = np.concatenate([self.grid, Z]), None
        self.mean, self.variance = np.concatenate([self.mean, mean]), np.concatenate([self.variance, variance])

    def add(self, index: int, y: float, noise_var: float | None = None) -> None:
        """One sample at a grid point; noise_var: of this sample, where it is not lambda."""
        x, rows = self.grid[index], self._prior
        if self._solves:
            return self.add_at(x, y, noise_var)
        w, mean, variance = self._rows[: self.t, index].copy(), self.mean[index], self.variance[index]
        k = self._kernel_row(x) if rows is None else rows[index]
        self._append(x, w, k, float(mean), float(variance), y, noise_var or self.noise_var)

    def add_at(self, x: Array, y: float, noise_var: float | None = None) -> None:
        """One sample anywhere, d."""
        w, mean, variance = self._columns(x[None])
        self._fill()
        k = self._kernel_row(x)
        self._append(x, w[:, 0], k, float(mean[0]), float(variance[0]), y, noise_var or self.noise_var)

    def variance_after(self, X: Array) -> Array:
        """The variance on the grid, n, were values known at X (p x d) as well, whatever they are."""
        if len(X) == 1 and self._solves and self.t:
            w, _, variance = self._columns(X)
            return self._less(self._step(w[:, 0], self._kernel_row(X[0]), math.sqrt(variance[0] + self.noise_var)))
        t, mean, variance, gain = self.t, self.mean.copy(), self.variance.copy(), self.gain
        for x in X:
            self.add_at(x, 0.0)
        after = self.variance
        self.t, self.mean, self.variance, self.gain = t, mean, variance, gain
        self._filled = min(self._filled, t)
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
        self.t = self._conditioned = p
        self.gain = float(np.log(np.diagonal(U)).sum() - 0.5 * np.log(noise).sum())
        return np.asarray(U)

    def _append(self, x: Array, w: Array, k: Array, mean: float, variance: float, y: float, noise_var: float) -> None:
        t = self.t
        step = self._step(w, k, math.sqrt(variance + noise_var))
        _, z = self._grow(x, w, mean, variance, y, noise_var)
        row = self._rows[t, : len(self.mean)]
        row[:], self._filled = (k, t + 1) if self._solves else (step, 0)
        self.mean += z * step
        self.variance = self._less(step)

    def _step(self, w: Array, k: Array, root: float) -> Array:
        """The row of W of a sample with these L^-1 k(X, x) (t), k(x, grid) (n) and diagonal entry, n. Rows of K_Xg that
        are not there are computed for the moment, in blocks: a loaded posterior that is asked once needs no others."""
        t, n = self.t, len(self.mean)
        if not self._solves or not t:
            return np.asarray((k - w @ self._rows[:t, :n]) / root)
        weights, total = dtpsv(t, self._L, w), np.zeros(n)
        for i in range(0, t, ROWS):
            j = min(i + ROWS, t)
            new = None if j <= self._filled else correlation(self._kernel, self._X[i:j], self.grid, self._lengthscale)
            total += weights[i:j] @ (self._rows[i:j, :n] if new is None else new)
        return np.asarray((k - total) / root)

    def _less(self, step: Array) -> Array:
        """The variance on the grid less what a sample with this row explains, n."""
        return np.maximum(self.variance - step * step, 0.0)

    def _kernel_row(self, x: Array) -> Array:
        """k(x, grid), n."""
        return np.asarray(correlation(self._kernel, x[None], self.grid, self._lengthscale)[0])

    def _grow(
        self, x: Array, w: Array, mean: float, variance: float, y: float, noise_var: float
    ) -> tuple[float, float]:
        """Takes in one sample but for mean and variance on the grid; gives its diagonal entry of L and its z."""
        t = self.t
        self._make_room(t + 1)
        total = variance + noise_var
        root = math.sqrt(total)
        z = (y - mean) / root
        row = self._L[t * (t + 1) // 2 :]
        row[:t], row[t], self._X[t], self._z[t] = w, root, x, z
        self.gain += 0.5 * math.log(total / noise_var)
        self.t = t + 1
        return root, z

    def _fill(self) -> None:
        """Computes the rows of K_Xg that a loaded posterior does not have yet."""
        i, t, n = self._filled, self.t, len(self.mean)
        if self._solves and i < t:
            correlation(self._kernel, self._X[i:t], self.grid, self._lengthscale, self._rows[i:t, :n])
            self._filled = t

    def _make_room(self, t: int) -> None:
        room = len(self._X)
        if t <= room:
            return
        more, t = max(t, 2 * room), self.t
        made = self._filled if self._solves else t
        rows, L = np.empty((more, self._rows.shape[1])), np.empty(more * (more + 1) // 2)
        X, z = np.empty((more, self._X.shape[1])), np.empty(more)
        rows[:made], L[: len(self._L)], X[:t], z[:t] = self._rows[:made], self._L, self._X[:t], self._z[:t]
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
            if len(weight) > MOST_PRODUCTS:
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


class ProductPosterior:
    """The posterior of the squared exponential on a product grid in [0, 1]^d, in low-rank features.

    axes: the grid's coordinates along each axis, d arrays; grid points are numbered with the last axis fastest.
    """

    def __init__(self, axes: Sequence[Array], *, noise_var: float, features: SEFeatures) -> None:
        self.axes = [np.asarray(a, dtype=np.float64) for a in axes]
        self.grid = product_grid(self.axes)
        self.noise_var = noise_var
        self.features = features
        self._lines = [self.features.line(a) for a in self.axes]
        q, d = self.features.q, len(self.axes)
        self._index = np.stack(np.unravel_index(self.features.kept, (q,) * d))  # d x r: which 1-D feature of each axis
        self._tensor = np.zeros((q,) * d)
        self._flat = self._tensor.reshape(-1)
        self._S = np.asfortranarray(np.eye(self.features.rank))
        self.mean = np.zeros(len(self.grid))
        self.variance = np.ones(len(self.grid))
        self.weights = np.zeros(self.features.rank)
        self.gain = 0.0
        self.t = 0

    def add(self, index: int, y: float, noise_var: float | None = None) -> None:
        """One sample at a grid point; noise_var: of this sample, where it is not lambda."""
        at = np.unravel_index(index, [len(a) for a in self.axes])
        phi = self._lines[0][at[0]][self._index[0]]
        for line, i, j in zip(self._lines[1:], at[1:], self._index[1:], strict=True):
            phi = phi * line[i][j]
        self._absorb(phi, y, noise_var or self.noise_var)

    def add_at(self, x: Array, y: float, noise_var: float | None = None) -> None:
        """One sample anywhere in the cube, d."""
        self._absorb(self.features(x[None])[0], y, noise_var or self.noise_var)

    def variance_after(self, X: Array) -> Array:
        """The variance on the grid, n, were values known at X (p x d) as well."""
        keep = self._S.copy(order="F"), self.mean.copy(), self.variance.copy(), self.weights.copy(), self.gain, self.t
        for x in X:
            self.add_at(x, 0.0)
        after = self.variance
        self._S, self.mean, self.variance, self.weights, self.gain, self.t = keep
        return after

    def state(self) -> dict[str, Any]:
        """What `load` takes: all that later samples change, as arrays and numbers."""
        half = self._S[np.tril_indices(len(self._S))]
        arrays = {"weights": self.weights.copy(), "mean": self.mean.copy(), "variance": self.variance.copy()}
        return {**arrays, "half": half, "gain": self.gain, "t": self.t}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` gave; ValueError when it cannot belong to this grid and these features."""
        r, n = self.features.rank, len(self.grid)
        shapes = {"half": (r * (r + 1) // 2,), "weights": (r,), "mean": (n,), "variance": (n,), "gain": (), "t": ()}
        found = {name: np.array(state[name], dtype=np.float64) for name in shapes}
        for name, shape in shapes.items():
            if found[name].shape != shape or not np.isfinite(found[name]).all():
                raise ValueError(f"{name} must be {shape} finite numbers, got shape {found[name].shape}")
        S = np.zeros((r, r), order="F")
        S[np.tril_indices(r)] = found["half"]
        known = np.linspace(0, n - 1, CHECKED).astype(np.intp)
        phi = self.features(self.grid[known])
        whole = S + np.tril(S, -1).T
        mean, atol = found["mean"], 1e-6 * (1 + np.abs(found["mean"]).max())
        agree = np.allclose(self._on_grid(found["weights"]), mean, atol=atol)
        if not agree or not np.allclose(((phi @ whole) * phi).sum(axis=1), found["variance"][known], atol=1e-6):
            raise ValueError("mean and variance do not agree with the posterior of the features")
        self._S, self.weights, self.mean, self.variance = S, found["weights"], found["mean"], found["variance"]
        self.gain, self.t = float(found["gain"]), int(found["t"])

    def _absorb(self, phi: Array, y: float, noise_var: float) -> None:
        g = dsymv(1.0, self._S, phi, lower=1)
        total = float(phi @ g) + noise_var
        surprise = (y - float(phi @ self.weights)) / total
        self._S = dsyr(-1.0 / total, g, lower=1, a=self._S, overwrite_a=1)  # its lower half
        self.weights += surprise * g
        v = self._on_grid(g)
        self.mean += surprise * v
        v *= v
        v /= total
        self.variance -= v
        np.maximum(self.variance, 0.0, out=self.variance)
        self.gain += 0.5 * math.log(total / noise_var)
        self.t += 1

    def _on_grid(self, g: Array) -> Array:
        """Phi g on the grid, n, one axis after the other."""
        self._flat[self.features.kept] = g
        v = self._tensor
        for line in self._lines:  # contracts the leading axis and appends the grid's axis at the end
            v = np.tensordot(v, line, axes=(0, 1)) if v.ndim > 2 else (v.T @ line.T if v.ndim == 2 else line @ v)
        return np.ascontiguousarray(v).reshape(-1)
