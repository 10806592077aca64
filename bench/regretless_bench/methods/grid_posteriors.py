"""The posteriors that grid methods keep for a whole run: their grids grow, and their states can be saved.

- `SavedRows` takes any kernel and any points. It keeps the rows of K_Xg, which follow from the samples alone, so that a
  saved posterior is loaded without the n solves that W takes; a sample costs two solves by the factor more.
- `RefittedRows` is the standard implementation, which factorises the kernel matrix anew at every sample.
- `ProductPosterior` takes the squared exponential on a product grid. It lives in the r features of that kernel (about
  100 on the unit square at l = 0.2). A sample costs 2 r^2 and a Kronecker product.

The notation is that of `regretless.models.grid.posterior`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv, dsyr, dtpsv
from scipy.linalg.lapack import dtrtrs

from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import FIRST_ROWS, RowPosterior, SEFeatures, correlation, product_grid
from regretless.space.parameters import Array

ROWS = 64  # rows of K_Xg that are multiplied at a time; 64 keep a product at full speed
CHECKED = 16  # grid points where a loaded state is checked; all would cost hundreds of samples
REGROUP_AFTER, REGROUP_SHARE = 8, 16  # repeated samples, at least and as a share of the others, at which to regroup


class SavedRows(RowPosterior):
    """A `RowPosterior` without a prior matrix, whose grid grows and whose state can be saved.

    Args:
        grid: n x d.
        kernel, lengthscale, noise_var: of the process and its noise.
    """

    def __init__(self, grid: Array, *, kernel: KernelKind, lengthscale: float, noise_var: float) -> None:
        super().__init__(grid, np.empty((0, 0)), kernel=kernel, lengthscale=lengthscale, noise_var=noise_var)
        self._conditioned = 0  # samples that `condition` took in
        self._filled = 0  # rows of K_Xg that are computed

    def condition(self, X: Array, y: Array, weights: Array | None = None) -> None:
        U, p = self._factorise(X, y, weights), len(X)
        K = correlation(self._kernel, X, self.grid, self._lengthscale)
        W, _ = dtrtrs(U, K, trans=1)
        self.mean, self.variance = self._z[:p] @ W, np.maximum(1.0 - np.einsum("ij,ij->j", W, W), 0.0)
        self._rows[:p], self._filled, self._conditioned = K, p, p

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
            self._conditioned = self.t
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
        _, mean, variance = self._columns(Z)
        if n + q > self._rows.shape[1]:
            wider = np.empty((len(self._rows), max(n + q, 2 * self._rows.shape[1])))
            wider[:t, :n] = self._rows[:t, :n]
            self._rows = wider
        self._rows[:t, n : n + q] = correlation(self._kernel, self._X[:t], Z, self._lengthscale)
        self.grid = np.concatenate([self.grid, Z])
        self.mean, self.variance = np.concatenate([self.mean, mean]), np.concatenate([self.variance, variance])

    def add(self, index: int, y: float, noise_var: float | None = None) -> None:
        self.add_at(self.grid[index], y, noise_var)

    def add_at(self, x: Array, y: float, noise_var: float | None = None) -> None:
        self._fill()
        super().add_at(x, y, noise_var)

    def variance_after(self, X: Array) -> Array:
        if len(X) == 1 and self.t:
            w, _, variance = self._columns(X)
            step = self._step(w[:, 0], self._kernel_row(X[0]), math.sqrt(variance[0] + self.noise_var))
            return np.maximum(self.variance - step * step, 0.0)
        after = super().variance_after(X)
        self._filled = min(self._filled, self.t)
        return after

    def _append(self, x: Array, w: Array, k: Array, mean: float, variance: float, y: float, noise_var: float) -> None:
        t = self.t
        step = self._step(w, k, math.sqrt(variance + noise_var))
        z = self._grow(x, w, mean, variance, y, noise_var)
        self._rows[t, : len(self.mean)], self._filled = k, t + 1
        self.mean += z * step
        self.variance = np.maximum(self.variance - step * step, 0.0)

    def _step(self, w: Array, k: Array, root: float) -> Array:
        """The row of W of a sample with these L^-1 k(X, x) (t), k(x, grid) (n) and diagonal entry, n. Rows of K_Xg that
        are not there are computed for the moment, in blocks: a loaded posterior that is asked once needs no others."""
        t, n = self.t, len(self.mean)
        if not t:
            return np.asarray(k / root)
        weights, total = dtpsv(t, self._L, w), np.zeros(n)
        for i in range(0, t, ROWS):
            j = min(i + ROWS, t)
            new = None if j <= self._filled else correlation(self._kernel, self._X[i:j], self.grid, self._lengthscale)
            total += weights[i:j] @ (self._rows[i:j, :n] if new is None else new)
        return np.asarray((k - total) / root)

    def _fill(self) -> None:
        """Computes the rows of K_Xg that a loaded posterior does not have yet."""
        i, t, n = self._filled, self.t, len(self.mean)
        if i < t:
            correlation(self._kernel, self._X[i:t], self.grid, self._lengthscale, self._rows[i:t, :n])
            self._filled = t


class RefittedRows(SavedRows):
    """The same posterior, with the kernel matrix factorised anew at every sample, at the cost t^3 + t^2 n of it: what
    the GP-ThreDS paper calls the standard implementation, and what its authors' code does."""

    is_long = False

    def __init__(self, grid: Array, *, kernel: KernelKind, lengthscale: float, noise_var: float) -> None:
        super().__init__(grid, kernel=kernel, lengthscale=lengthscale, noise_var=noise_var)
        self._samples: list[tuple[Array, float, float]] = []

    def extend(self, Z: Array) -> None:
        _, mean, variance = self._columns(Z)
        self.grid = np.concatenate([self.grid, Z])
        self.mean, self.variance = np.concatenate([self.mean, mean]), np.concatenate([self.variance, variance])
        self._rows = np.empty((len(self._rows), len(self.grid)))

    def add_at(self, x: Array, y: float, noise_var: float | None = None) -> None:
        self._samples.append((x, y, noise_var or self.noise_var))
        self._refit()

    def variance_after(self, X: Array) -> Array:
        kept, mean, variance = list(self._samples), self.mean, self.variance
        self._samples += [(x, 0.0, self.noise_var) for x in X]
        self._refit()
        after, self._samples = self.variance, kept
        self._refit()
        self.mean, self.variance = mean, variance
        return after

    def _refit(self) -> None:
        self.t, self.gain = 0, 0.0
        if self._samples:
            points, values, noise = map(np.array, zip(*self._samples, strict=True))
            self.condition(points, values, self.noise_var / noise)


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
