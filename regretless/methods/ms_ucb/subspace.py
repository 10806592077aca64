"""Maximises an acquisition over many axis-aligned subspaces at once, with the distances over their fixed coordinates
cached.

Subspace s fixes a base point z_s (d) except in its free coordinates (k of them). With the points x_i of the posterior
and length-scales l,

    r^2(s, i) = C[s, i] + sum over free j of (v_j - x_ij)^2 / l_j^2,      C[s, i] = the same sum over the fixed coordinates,

so once C is known a posterior mean costs O(n k), whatever d is, and a variance O(n^2). The subspaces are thinned as in
a tournament: one random point in each, more points in the best of them, a gradient ascent in the best few only. Ascents
run side by side, and each may go on in further blocks of coordinates from where it stands (chaining).

`Anchors` keeps the distances between base points and told points over a run: a row per base point, a column per told
point, every entry one dot product of the same length, so that the numbers do not depend on when and in which company
they were computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.gp.acquisition import Acquire
from regretless.gp.kernels import Kernel, squared_distances
from regretless.gp.lbfgs import minimise
from regretless.gp.posterior import GP
from regretless.methods.ms_ucb.additive import AdditiveGP, Places, legendre, legendre_slope
from regretless.parameters import Array

Indices: TypeAlias = NDArray[np.intp]

SECOND, THIRD = 100, 10
"""Subspaces kept for a second look, and for the ascent: in twelve settings the same maximum as ascending all of
them."""
LOOKS = 4
"""Random points tried in each subspace at the second look."""
ROUNDS = 15
"""Evaluations per ascent in one block."""
STEPS = (1e-3, 0.3)
"""Around an incumbent, points differ from it by normal steps whose sd is log-uniform between these."""
CHUNK = 2**21
"""Numbers in one temporary array (16 MB)."""


# ---------------------------------------------------------------- cached distances


class Anchors:
    """Base points that only ever grow in number, and sums of products of their coordinates with those of told points,
    which also only ever grow.

    Where all coordinates count alike (an isotropic kernel and trend) every sum that a subspace needs follows from
    these, whatever the hyper-parameters: a refit costs nothing.
    """

    def __init__(self, dim: int, powers: int) -> None:
        """powers: 1 keeps z.x, 2 keeps the same for the squares of the coordinates as well (centred at 1/2)."""
        self.Z = np.empty((0, dim))
        """The base points, m x d."""
        self._products = np.empty((powers, 0, 0))

    def extend(self, Z: Array) -> None:
        """Adds base points, k x d."""
        self.Z = np.concatenate([self.Z, Z])

    def products(self, X: Array, pending: Array) -> Array:
        """sum_j (z_j - 1/2)^k (x_j - 1/2)^k for k = 1 .. powers, all base points and the told points X (n x d), then
        the pending ones (p x d).

        Only rows and columns that are new are computed, so X must continue the X of the calls before; pending points
        are not kept. powers x m x (n + p).
        """
        powers, rows, columns = self._products.shape
        if (rows, columns) != (len(self.Z), len(X)):
            grown = np.empty((powers, len(self.Z), len(X)))
            grown[:, :rows, :columns] = self._products
            grown[:, :rows, columns:] = _products(self.Z[:rows], X[columns:], powers)
            grown[:, rows:] = _products(X, self.Z[rows:], powers).transpose(0, 2, 1)
            self._products = grown
        return (
            np.concatenate([self._products, _products(self.Z, pending, powers)], axis=2)
            if len(pending)
            else self._products
        )

    def _powers(self) -> tuple[Array, Array]:
        """The sums of the squares and of the fourth powers of every base point's coordinates (m each), centred at
        1/2."""
        zz, fourth = np.empty(len(self.Z)), np.empty(len(self.Z))
        rows = max(1, CHUNK // max(1, self.Z.shape[1]))
        for i in range(0, len(zz), rows):
            square = self.Z[i : i + rows] - 0.5
            square *= square
            zz[i : i + rows] = square.sum(axis=1)
            np.einsum("ij,ij->i", square, square, out=fourth[i : i + rows])
        return zz, fourth

    def sums(self, fields: Fields, X: Array, pending: Array) -> Sums | None:
        """What `Fibres.sums` gives for the base points, from the products; None where coordinates do not count
        alike."""
        orders, m = len(fields.weights), len(fields.columns)
        if not fields.kernel.plain or np.ptp(fields.inverse) > 0 or orders > len(self._products):
            return None
        products = self.products(X, pending)
        zz, fourth = self._powers()
        xx = np.einsum("ij,ij->j", fields.columns, fields.columns)
        squared = products[0] * -2.0
        squared += zz[:, None]
        squared += xx
        squared *= fields.inverse[0] ** 2
        trend, prior = np.zeros((len(zz), 0)), np.ones(len(zz))
        if orders:
            share = fields.weights / m
            trend = 12.0 * share[0] * products[0]
            prior += 12.0 * share[0] * zz
            if orders > 1:  # phi_2(u) phi_2(u') = 5/4 (9 u^2 u'^2 - 3 u^2 - 3 u'^2 + 1) with u = 2 z
                trend += 1.25 * share[1] * (144.0 * products[1] - 12.0 * zz[:, None] - 12.0 * xx + m)
                prior += 1.25 * share[1] * (144.0 * fourth - 24.0 * zz + m)
        return Sums(np.maximum(squared, 0.0, out=squared), trend, prior)


def _products(A: Array, B: Array, powers: int) -> Array:
    """The sums of `Anchors.products` for the rows of A and B, powers x a x b; each is one dot product whatever its
    company."""
    out = np.empty((powers, len(A), len(B)))
    if len(A) and len(B):
        rows = max(1, CHUNK // A.shape[1])
        for k in range(powers):
            for i in range(0, len(A), rows):  # block by block: at 5000 dimensions every temporary counts
                left = (A[i : i + rows] - 0.5) ** (k + 1)
                for j in range(len(B)):
                    np.einsum("ij,j->i", left, (B[j] - 0.5) ** (k + 1), out=out[k, i : i + rows, j])
    return out


# ---------------------------------------------------------------- subspaces


@dataclass(frozen=True, eq=False)
class Subspaces:
    """Base points (s x d), the free coordinates of each (s x k), and whether a subspace is searched around its base
    point (s) or all over."""

    bases: Array
    free: Indices
    local: NDArray[np.bool_]
    sums: Sums | None = None
    """Between the base points and all points of the posterior, where the caller has them cached."""

    def __len__(self) -> int:
        return len(self.bases)


def random_blocks(count: int, k: int, lines: Indices, weights: Array | None, rng: np.random.Generator) -> Indices:
    """k distinct coordinates out of `lines` for each of count subspaces, count x k; drawn in proportion to weights (one
    per line) where given."""
    if k >= len(lines):
        return np.tile(lines, (count, 1))
    if weights is None and k * k < len(
        lines
    ):  # few out of many: draw with replacement and repair the rare rows with a repetition
        chosen = rng.integers(len(lines), size=(count, k))
        for row in chosen:
            while len(np.unique(row)) < k:
                row[:] = rng.integers(len(lines), size=k)
        return lines[chosen]
    keys = rng.random((count, len(lines)))
    if (
        weights is not None
    ):  # the k largest of u^(1/w) are a weighted draw without replacement (Efraimidis and Spirakis 2006)
        with np.errstate(divide="ignore"):
            keys = np.log(keys) / np.maximum(weights, 1e-300)
    return lines[np.argpartition(-keys, k - 1, axis=1)[:, :k]]


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over some coordinates between s subspaces and n points: scaled squared distances (s x n), trend (s x n, or s
    x 0), prior variance (s)."""

    squared: Array
    trend: Array
    prior: Array

    def plus(self, other: Sums) -> Sums:
        return Sums(self.squared + other.squared, self.trend + other.trend, self.prior + other.prior)

    def minus(self, other: Sums) -> Sums:
        return Sums(np.maximum(self.squared - other.squared, 0.0), self.trend - other.trend, self.prior - other.prior)

    def at(self, rows: Indices | slice) -> Sums:
        return Sums(self.squared[rows], self.trend[rows], self.prior[rows])

    def and_rows(self, other: Sums) -> Sums:
        return Sums(
            *(
                np.concatenate(pair)
                for pair in ((self.squared, other.squared), (self.trend, other.trend), (self.prior, other.prior))
            )
        )


@dataclass(frozen=True, eq=False)
class Fields:
    """What is needed of a posterior: the arrays of `GP` or `AdditiveGP` under common names (n points, e embedded
    coordinates, m of them lines)."""

    kernel: Kernel
    columns: Array
    """The embedded coordinates of the points, e x n: those of one coordinate lie side by side."""
    inverse: Array
    """1 / l of every embedded coordinate, e."""
    alpha: Array
    mean: float
    signal: float
    lower: Callable[[Array], Array]
    upper: Callable[[Array], Array]
    weights: Array
    """Weights of the trend's orders; empty where there is none."""
    sums: Callable[[Array], Sums]
    """The sums over all coordinates between points (s x d) and those of the posterior."""

    @classmethod
    def of(cls, gp: GP | AdditiveGP) -> Fields:
        if isinstance(gp, AdditiveGP):
            shape, kernel = gp.shape, gp.kernel
            inverse = np.full(len(kernel.owner), 1.0 / shape.lengthscale)

            def sums(X: Array) -> Sums:
                query = Places.of(kernel, X, gp.orders)
                squared, *trends = query.products(gp.places, gp.orders)
                trend = np.zeros((len(X), squared.shape[1] if trends else 0))
                for w, T in zip(shape.weights, trends, strict=True):
                    trend += w * T
                return Sums(squared / shape.lengthscale**2, trend, query.at_zero(shape.weights))

            columns = gp.places.lines.T if kernel.plain else _columns(kernel, gp.X)
            return cls(kernel, columns, inverse, gp.alpha, gp.mean, gp.signal, gp.lower, gp.upper, shape.weights, sums)
        if gp.hyper.quadratic:
            raise ValueError("subspaces need a posterior without the quadratic trend")
        factor = gp.factor
        inverse = np.broadcast_to(factor.inverse_scales, (factor.Z.shape[1],))

        def stationary(X: Array) -> Sums:
            squared = squared_distances(factor.kernel.embed(X) * factor.inverse_scales, factor.W)
            return Sums(squared, np.zeros((len(X), 0)), np.ones(len(X)))

        columns = _columns(factor.kernel, factor.X)
        return cls(
            factor.kernel,
            columns,
            inverse,
            gp.alpha,
            gp.mean,
            gp.signal,
            factor.lower,
            factor.upper,
            np.empty(0),
            stationary,
        )


def _columns(kernel: Kernel, X: Array) -> Array:
    """The embedded coordinates of points X (n x d), e x n."""
    return np.subtract(X.T, 0.5, order="C") if kernel.plain else np.ascontiguousarray(kernel.embed(X).T)


class Fibres:
    """The posterior along subspaces: values and gradients in the free coordinates, which must be lines, from sums kept
    for the fixed ones."""

    def __init__(self, fields: Fields, acquire: Acquire) -> None:
        self.fields, self.acquire = fields, acquire
        kernel = fields.kernel
        self._place = np.empty(kernel.dim, dtype=np.intp)  # of a line among the embedded coordinates
        self._place[kernel.lines] = np.arange(len(kernel.lines))
        self._orders = range(1, len(fields.weights) + 1)

    def free_sums(self, free: Indices, values: Array) -> Sums:
        """The share of the free coordinates (s x k) at the given values (s x k)."""
        f = self.fields
        at = self._place[free]
        squared = np.zeros((len(free), f.columns.shape[1]))
        trend = np.zeros_like(squared) if len(f.weights) else np.zeros((len(free), 0))
        prior = np.zeros(len(free))
        for j in range(free.shape[1]):
            z, column = values[:, j] - 0.5, f.columns[at[:, j]]
            for k in self._orders:
                factor = f.weights[k - 1] / len(f.kernel.lines)
                own = legendre(2.0 * z, k)
                trend += (factor * own)[:, None] * legendre(2.0 * column, k)
                prior += factor * own * own
            column -= z[:, None]
            column *= f.inverse[at[:, j], None]
            column *= column
            squared += column
        return Sums(squared, trend, prior)

    def score(self, fixed: Sums, free: Indices, values: Array) -> Array:
        """The acquisition (s) at the values (s x k) of the free coordinates."""
        total = fixed.plus(self.free_sums(free, values))
        K = self.fields.kernel.base(total.squared)
        if len(self.fields.weights):
            K += total.trend
        return self.acquire(*self._moments(K, total.prior)[:2])[0]

    def _moments(self, K: Array, prior: Array) -> tuple[Array, Array, Array]:
        V = self.fields.lower(K)
        left = prior - np.einsum("ij,ij->i", V, V)
        return self.fields.mean + K @ self.fields.alpha, self.fields.signal * np.maximum(left, 0.0), V

    def descent(self, fixed: Sums, free: Indices) -> Callable[[Array], tuple[Array, Array]]:
        """The negative acquisition and its gradient in the free values of the subspaces that are still moving.

        Rows drop out of the batched minimiser as they finish; the last column of its points is each row's own number,
        which never moves.
        """
        f = self.fields
        at = self._place[free]
        inverse, columns = f.inverse[at], f.columns[at]  # s x k, s x k x n
        factors = f.weights / max(1, len(f.kernel.lines))
        features = [legendre(2.0 * columns, k) for k in self._orders]

        def down(numbered: Array) -> tuple[Array, Array]:
            row = numbered[:, -1].astype(np.intp)
            z = numbered[:, :-1] - 0.5
            step = (z[:, :, None] - columns[row]) * inverse[row][:, :, None]
            K, slope = f.kernel.base_slope(fixed.squared[row] + np.einsum("skn,skn->sn", step, step))
            prior, own = fixed.prior[row], []
            for k, factor, theirs in zip(self._orders, factors, features, strict=True):
                value, derivative = legendre(2.0 * z, k), legendre_slope(2.0 * z, k)
                K += factor * np.einsum("sk,skn->sn", value, theirs[row])
                prior = prior + factor * np.einsum("sk,sk->s", value, value)
                own.append((value, 2.0 * factor * derivative))
            if len(factors):
                K += fixed.trend[row]
            mean, variance, V = self._moments(K, prior)
            acquired, by_mean, by_variance = self.acquire(mean, variance)
            S = by_mean[:, None] * f.alpha - (2.0 * f.signal) * by_variance[:, None] * f.upper(V)
            gradient = np.zeros_like(numbered)
            gradient[:, :-1] = -2.0 * inverse[row] * np.einsum("skn,sn->sk", step, S * slope)
            for (value, derivative), theirs in zip(own, features, strict=True):
                through = np.einsum("skn,sn->sk", theirs[row], S)
                gradient[:, :-1] -= derivative * (through + 2.0 * f.signal * by_variance[:, None] * value)
            return -acquired, gradient

        return down

    def ascend(self, fixed: Sums, free: Indices, values: Array, rounds: int) -> tuple[Array, Array]:
        """Local maxima in the free coordinates from the values given: values (s x k) and acquisition (s)."""
        number = np.arange(len(free), dtype=np.float64)[:, None]
        lower, upper = np.zeros(free.shape[1] + 1), np.ones(free.shape[1] + 1)
        upper[-1] = len(free)
        found, negative = minimise(
            self.descent(fixed, free), np.concatenate([values, number], axis=1), lower, upper, rounds=rounds
        )
        return found[:, :-1], -negative


def maximise_subspaces(
    gp: GP | AdditiveGP,
    acquire: Acquire,
    subspaces: Subspaces,
    rng: np.random.Generator,
    *,
    second: int = SECOND,
    third: int = THIRD,
    looks: int = LOOKS,
    rounds: int = ROUNDS,
    chain: int = 0,
    lines: Indices | None = None,
    weights: Array | None = None,
    fields: Fields | None = None,
) -> tuple[Array, Array]:
    """The best points found in the subspaces, best first: points (third x d) and acquisition values (third).

    Args:
        gp: the posterior.
        acquire: what is maximised.
        subspaces: where.
        rng: every random draw.
        second, third: subspaces that get a second look, and an ascent.
        looks: points of the second look in each subspace.
        rounds: evaluations per ascent.
        chain: further blocks of free coordinates, drawn afresh, through which each ascent goes on.
        lines: the coordinates that may be in such a block; None: all that the kernel takes for lines.
        weights: how likely each of them is to be in it; None: all alike.
        fields: those of the posterior, where the caller has them.
    """
    fields = Fields.of(gp) if fields is None else fields
    fibres = Fibres(fields, acquire)
    free, k = subspaces.free, subspaces.free.shape[1]
    at_base = np.take_along_axis(subspaces.bases, free, axis=1)
    total = fields.sums(subspaces.bases) if subspaces.sums is None else subspaces.sums
    fixed = total.minus(fibres.free_sums(free, at_base))
    values = _draw(at_base, subspaces.local, rng)
    best = _scores(fibres, fixed, free, values)
    kept = _top(best, second if k else 0)
    for _ in range(looks):
        again = _draw(at_base[kept], subspaces.local[kept], rng)
        found = _scores(fibres, fixed.at(kept), free[kept], again)
        better = found > best[kept]
        values[kept[better]], best[kept[better]] = again[better], found[better]
    kept = _top(best, third)
    X, f, free, fixed = subspaces.bases[kept], best[kept], free[kept], fixed.at(kept)
    np.put_along_axis(X, free, values[kept], axis=1)
    for link in range(chain + 1 if k else 0):
        here = np.take_along_axis(X, free, axis=1)
        if link:
            total = fixed.plus(fibres.free_sums(free, here))
            free = random_blocks(len(X), k, fields.kernel.lines if lines is None else lines, weights, rng)
            here = np.take_along_axis(X, free, axis=1)
            fixed = total.minus(fibres.free_sums(free, here))
        moved, reached = fibres.ascend(fixed, free, here, rounds)
        better = reached > f
        np.put_along_axis(X, free, np.where(better[:, None], moved, here), axis=1)
        f = np.where(better, reached, f)
    order = np.argsort(-f, kind="stable")
    return X[order], f[order]


def _draw(at_base: Array, local: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """One point in each subspace (s x k): uniform, or a normal step from the base point where the subspace is local."""
    sd = np.exp(rng.uniform(np.log(STEPS[0]), np.log(STEPS[1]), (len(at_base), 1)))
    near = np.clip(at_base + sd * rng.standard_normal(at_base.shape), 0.0, 1.0)
    return np.where(local[:, None], near, rng.random(at_base.shape))


def _scores(fibres: Fibres, fixed: Sums, free: Indices, values: Array) -> Array:
    """Fibres.score in chunks; NaN counts as the worst."""
    rows = max(1, CHUNK // max(1, fixed.squared.shape[1]))
    parts = [
        fibres.score(fixed.at(slice(i, i + rows)), free[i : i + rows], values[i : i + rows])
        for i in range(0, len(values), rows)
    ]
    scores = np.concatenate(parts) if parts else np.empty(0)
    return np.where(np.isnan(scores), -np.inf, scores)


def _top(values: Array, count: int) -> Indices:
    """Where the `count` largest values are, best first, ties in order."""
    order: Indices = np.argsort(-values, kind="stable")[:count]
    return order
