"""Base points of subspaces, and the sums over coordinates that make searching thousands of subspaces cheap.

A posterior of n points x_i depends on a point z through sums over the coordinates j: the scaled squared distances
sum_j (z_j - x_ij)^2 / l_j^2 and, for `AdditiveGP`, the trend. These sums are cached over a run. A subspace with base
point z subtracts the share of its free coordinates once, and adds their share at every value it tries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.basics.streams import Stream, keyed_generator
from regretless.history import History
from regretless.models.gp.additive import AdditiveGP
from regretless.models.gp.kernels import Kernel, squared_distances
from regretless.models.gp.posterior import GP
from regretless.space import Cube
from regretless.space.parameters import Array

Indices: TypeAlias = NDArray[np.intp]

CHUNK = 2**21  # numbers in one temporary array (16 MB)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over coordinates between s and n points: squared distances, trend (s x n), their share in k(z, z) (s)."""

    squared: Array
    trend: Array
    prior: Array

    def plus(self, other: Sums) -> Sums:
        return Sums(self.squared + other.squared, self.trend + other.trend, self.prior + other.prior)

    def minus(self, other: Sums) -> Sums:
        return Sums(np.maximum(self.squared - other.squared, 0.0), self.trend - other.trend, self.prior - other.prior)

    def at(self, rows: Indices | slice) -> Sums:
        return Sums(self.squared[rows], self.trend[rows], self.prior[rows])

    def followed_by(self, other: Sums) -> Sums:
        """The rows of these sums, then those of the other ones."""
        pairs = ((self.squared, other.squared), (self.trend, other.trend), (self.prior, other.prior))
        return Sums(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class PosteriorArrays:
    """The arrays of a `GP` or an `AdditiveGP` under common names (n points, e embedded coordinates)."""

    kernel: Kernel
    columns: Array  # the embedded coordinates of the points, e x n: those of one coordinate are contiguous
    inverse: Array  # 1 / l of every embedded coordinate, e
    alpha: Array
    mean: float
    signal: float
    lower: Callable[[Array], Array]
    upper: Callable[[Array], Array]
    weights: Array  # weights of the trend's orders; empty where there is no trend
    sums: Callable[[Array], Sums]  # the sums over all coordinates between points (s x d) and those of the posterior

    @classmethod
    def of(cls, gp: GP | AdditiveGP) -> PosteriorArrays:
        """Raises ValueError for a GP with the quadratic trend, which is no sum over coordinates."""
        if isinstance(gp, AdditiveGP):
            hyper, kernel = gp.hyper, gp.kernel
            inverse = np.full(len(kernel.owner), 1.0 / hyper.lengthscale)

            def additive(X: Array) -> Sums:
                query = gp.embed(X)
                squared, *trends = query.products(gp.points)
                trend = np.zeros((len(X), squared.shape[1] if trends else 0))
                for w, T in zip(hyper.weights, trends, strict=True):
                    trend += w * T
                return Sums(squared / hyper.lengthscale**2, trend, query.at_zero(hyper.weights))

            columns = gp.points.lines.T if kernel.plain else _columns(kernel, gp.X)
            solves = (gp.lower, gp.upper, hyper.weights)
            return cls(kernel, columns, inverse, gp.alpha, gp.mean, gp.signal, *solves, additive)
        if gp.hyper.quadratic:
            raise ValueError("subspaces need a posterior without the quadratic trend")
        factor = gp.factor
        inverse = np.broadcast_to(factor.inverse_scales, (factor.Z.shape[1],))

        def stationary(X: Array) -> Sums:
            squared = squared_distances(factor.kernel.embed(X) * factor.inverse_scales, factor.W)
            return Sums(squared, np.zeros((len(X), 0)), np.ones(len(X)))

        columns, solves = _columns(factor.kernel, factor.X), (factor.lower, factor.upper, np.empty(0))
        return cls(factor.kernel, columns, inverse, gp.alpha, gp.mean, gp.signal, *solves, stationary)


def _columns(kernel: Kernel, X: Array) -> Array:
    """The embedded coordinates of points X (n x d), e x n."""
    return np.subtract(X.T, 0.5, order="C") if kernel.plain else np.ascontiguousarray(kernel.embed(X).T)


class BasePoints:
    """The base points of a run, Z_t, and their products with the told points. Where all coordinates count alike, the
    sums of every base point follow from these products, whatever the hyper-parameters; the trend needs `powers` = 2."""

    def __init__(self, dim: int, powers: int) -> None:
        self.Z = np.empty((0, dim))  # the base points, m x d
        self.sizes = [0]  # |Z_t| for every t drawn so far
        self._products = np.empty((powers, 0, 0))

    def forget(self) -> None:
        """Drops the products with the told points; the base points stay, because they follow from the seed."""
        self._products = self._products[:, :0, :0]

    def extend(self, Z: Array) -> None:
        """Adds base points, k x d."""
        self.Z = np.concatenate([self.Z, Z])

    def draw(self, t: int, cube: Cube, seed: int, count: Callable[[int], int]) -> int:
        """Draws the uniform points of Z_t that are not there yet, count(k) of them at iteration k and keyed on k; gives
        |Z_t|."""
        for k in range(len(self.sizes), t + 1):
            rng = keyed_generator(seed, k, stream=Stream.SUBSPACE_BASES)
            self.extend(cube.snap(rng.random((count(k), cube.dim))))
            self.sizes.append(self.sizes[-1] + count(k))
        return self.sizes[t]

    def newest(
        self, arrays: PosteriorArrays, X: Array, pending: Array, stop: int, most: int
    ) -> tuple[Array, Sums | None]:
        """The first `stop` base points, or the newest `most` of them (0: all), and their sums if they are cached."""
        chosen = slice(max(0, stop - most) if most else 0, stop)
        sums = self.sums(arrays, X, pending)
        return self.Z[chosen], None if sums is None else sums.at(chosen)

    def with_incumbents(
        self, arrays: PosteriorArrays, history: History, stop: int, most: int, incumbents: Array, copies: int
    ) -> tuple[Array, NDArray[np.bool_], Sums | None]:
        """The base points of `newest` and `copies` of each incumbent (k x d) after them, m x d; which are incumbents,
        m; and their sums if those of the base points are cached."""
        Z, sums = self.newest(arrays, history.X, history.pending, stop, most)
        again = np.repeat(np.arange(len(incumbents)), copies)
        if sums is not None:
            sums = sums.followed_by(arrays.sums(incumbents).at(again))
        points = np.concatenate([Z, incumbents[again]])
        return points, np.arange(len(points)) >= len(Z), sums

    def products(self, X: Array, pending: Array) -> Array:
        """sum_j (z_j - 1/2)^k (x_j - 1/2)^k, k = 1 .. powers, between all base points and the told points X (n x d),
        then the pending ones (p x d), powers x m x (n + p). X must continue the X of the calls since `forget`."""
        powers, rows, columns = self._products.shape
        if (rows, columns) != (len(self.Z), len(X)):
            grown = np.empty((powers, len(self.Z), len(X)))
            grown[:, :rows, :columns] = self._products
            grown[:, :rows, columns:] = _dot_products(self.Z[:rows], X[columns:], powers)
            grown[:, rows:] = _dot_products(X, self.Z[rows:], powers).transpose(0, 2, 1)
            self._products = grown
        if not len(pending):
            return self._products
        return np.concatenate([self._products, _dot_products(self.Z, pending, powers)], axis=2)

    def sums(self, arrays: PosteriorArrays, X: Array, pending: Array) -> Sums | None:
        """`PosteriorArrays.sums` of the base points; None where coordinates do not count alike."""
        trend_orders, lines = len(arrays.weights), len(arrays.columns)
        if not arrays.kernel.plain or np.ptp(arrays.inverse) > 0 or trend_orders > len(self._products):
            return None
        products = self.products(X, pending)
        zz, fourth = self._squares()
        xx = np.einsum("ij,ij->j", arrays.columns, arrays.columns)
        squared = products[0] * -2.0
        squared += zz[:, None]
        squared += xx
        squared *= arrays.inverse[0] ** 2
        trend, prior = np.zeros((len(zz), 0)), np.ones(len(zz))
        if trend_orders:  # phi_2(u) phi_2(u') = 5/4 (9 u^2 u'^2 - 3 u^2 - 3 u'^2 + 1), with u = 2 z
            share = arrays.weights / lines
            trend = 12.0 * share[0] * products[0]
            prior += 12.0 * share[0] * zz
            trend += 1.25 * share[1] * (144.0 * products[1] - 12.0 * zz[:, None] - 12.0 * xx + lines)
            prior += 1.25 * share[1] * (144.0 * fourth - 24.0 * zz + lines)
        return Sums(np.maximum(squared, 0.0, out=squared), trend, prior)

    def _squares(self) -> tuple[Array, Array]:
        """sum_j (z_j - 1/2)^2 and sum_j (z_j - 1/2)^4 of every base point, m each."""
        zz, fourth = np.empty(len(self.Z)), np.empty(len(self.Z))
        rows = max(1, CHUNK // self.Z.shape[1])
        for i in range(0, len(zz), rows):
            square = self.Z[i : i + rows] - 0.5
            square *= square
            zz[i : i + rows] = square.sum(axis=1)
            np.einsum("ij,ij->i", square, square, out=fourth[i : i + rows])
        return zz, fourth


def _dot_products(A: Array, B: Array, powers: int) -> Array:
    """The sums of `BasePoints.products` for the rows of A and B, powers x a x b."""
    out = np.empty((powers, len(A), len(B)))
    if len(A) and len(B):
        rows = max(1, CHUNK // A.shape[1])
        for k in range(powers):
            for i in range(0, len(A), rows):  # block by block: at 5000 dimensions every temporary array counts
                left = (A[i : i + rows] - 0.5) ** (k + 1)
                for j in range(len(B)):
                    np.einsum("ij,j->i", left, (B[j] - 0.5) ** (k + 1), out=out[k, i : i + rows, j])
    return out
