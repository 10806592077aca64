"""Maximises an acquisition over many axis-aligned subspaces at once.

Subspace s fixes all coordinates at a base point z_s (d) but k free ones. With the points x_i of the posterior and
length-scales l,

    r^2(s, i) = C[s, i] + sum over the free j of (v_j - x_ij)^2 / l_j^2,

where v are the values of the free coordinates and C[s, i] is the same sum over the fixed ones. Once C is known a
posterior mean costs O(n k), whatever d is, and a variance O(n^2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.models.gp.acquisition import Acquire, through
from regretless.models.gp.kernels import Kernel, squared_distances
from regretless.models.gp.lbfgs import minimise
from regretless.models.gp.maximiser import STEPS, Acquisition, maximise
from regretless.models.gp.posterior import GP, Factor
from regretless.space import Cube
from regretless.space.parameters import Array

Indices: TypeAlias = NDArray[np.intp]

CHUNK = 2**21  # numbers in one temporary array (16 MB)

SHORTLIST, ASCENTS = 100, 10  # subspaces with more random points, and with ascents; as good as in all of them
RETRIES = 4  # further random points in each subspace of the shortlist, in the same settings
ROUNDS = 15  # evaluations of an ascent in one block; our choice
FEW_MATTER, SHARE = 0.1, 0.999  # at most so many of the coordinates hold SHARE of the sum of l^-2; chosen on Camelback


@dataclass(frozen=True, eq=False)
class Subspaces:
    """Base points (s x d), free coordinates (s x k), whether random points lie near the base (s), and the squared
    distances of the base points where they are known (s x n)."""

    bases: Array
    free: Indices
    local: NDArray[np.bool_]
    squared: Array | None = None


class PosteriorArrays:
    """The arrays of a posterior of n points with e embedded coordinates: `columns` (e x n) holds those of one
    coordinate contiguously, `inverse` (e) the inverse length-scales."""

    def __init__(self, gp: GP) -> None:
        """Raises ValueError for a GP with the quadratic trend, which is no sum over coordinates."""
        if gp.hyper.quadratic:
            raise ValueError("subspaces need a posterior without the quadratic trend")
        self.factor: Factor = gp.factor
        self.kernel: Kernel = gp.factor.kernel
        self.inverse = np.broadcast_to(gp.factor.inverse_scales, (gp.factor.Z.shape[1],))
        X = gp.factor.X
        plain = self.kernel.plain
        self.columns = np.subtract(X.T, 0.5, order="C") if plain else np.ascontiguousarray(self.kernel.embed(X).T)
        self.alpha, self.mean, self.signal = gp.alpha, gp.mean, gp.signal

    def squared(self, X: Array) -> Array:
        """The scaled squared distances of points X (s x d) from those of the posterior, s x n."""
        return squared_distances(self.kernel.embed(X) * self.factor.inverse_scales, self.factor.W)


def free_lines(cube: Cube) -> Indices:
    """The coordinates that may be free in a subspace: those that are continuous and no part of a choice."""
    continuous = ~cube.discrete
    for start, stop in cube.groups:
        continuous[start:stop] = False
    return np.flatnonzero(continuous)


def random_blocks(count: int, k: int, lines: Indices, weights: Array | None, rng: np.random.Generator) -> Indices:
    """k distinct coordinates of `lines` for each of count subspaces, count x k, in proportion to weights if given."""
    if k >= len(lines):
        return np.tile(lines, (count, 1))
    if weights is None and k * k < len(lines):  # few out of many: rows with a repetition are rare and drawn again
        chosen = rng.integers(len(lines), size=(count, k))
        for row in chosen:
            while len(np.unique(row)) < k:
                row[:] = rng.integers(len(lines), size=k)
        return lines[chosen]
    keys = rng.random((count, len(lines)))
    if weights is not None:  # the k largest u^(1/w) are a weighted draw without replacement (Efraimidis, Spirakis 2006)
        with np.errstate(divide="ignore"):
            keys = np.log(keys) / np.maximum(weights, 1e-300)
    return lines[np.argpartition(-keys, k - 1, axis=1)[:, :k]]


class SubspacePosterior:
    """The acquisition as a function of the free coordinates of subspaces; `fixed` is what the others contribute to the
    squared distances, s x n."""

    def __init__(self, arrays: PosteriorArrays, acquire: Acquire) -> None:
        self.arrays, self.acquire = arrays, acquire
        kernel = arrays.kernel
        self._place = np.empty(kernel.dim, dtype=np.intp)  # of a line among the embedded coordinates
        self._place[kernel.lines] = np.arange(len(kernel.lines))

    def squared(self, free: Indices, values: Array) -> Array:
        """What the free coordinates (s x k) contribute to the squared distances at the given values (s x k), s x n."""
        f = self.arrays
        at = self._place[free]
        squared = np.zeros((len(free), f.columns.shape[1]))
        for j in range(free.shape[1]):
            column = f.columns[at[:, j]]
            column -= (values[:, j] - 0.5)[:, None]
            column *= f.inverse[at[:, j], None]
            column *= column
            squared += column
        return squared

    def scores(self, fixed: Array, free: Indices, values: Array) -> Array:
        """The acquisition (s) at the values (s x k) of the free coordinates; NaN counts as the worst."""
        rows = max(1, CHUNK // max(1, fixed.shape[1]))
        parts = [np.empty(0)]
        for i in range(0, len(values), rows):
            part = slice(i, i + rows)
            K = self.arrays.kernel.base(fixed[part] + self.squared(free[part], values[part]))
            parts.append(self.acquire(*self._moments(K)[:2])[0])
        scores = np.concatenate(parts)
        return np.where(np.isnan(scores), -np.inf, scores)

    def _moments(self, K: Array) -> tuple[Array, Array, Array]:
        """Posterior mean and variance (s each), and L^-1 applied to the rows of K (s x n)."""
        V = self.arrays.factor.lower(K)
        left = 1.0 - np.einsum("ij,ij->i", V, V)
        return self.arrays.mean + K @ self.arrays.alpha, self.arrays.signal * np.maximum(left, 0.0), V

    def descent(self, fixed: Array, free: Indices) -> Callable[[Array], tuple[Array, Array]]:
        """The negative acquisition and its gradient in the free values; the last column of a point numbers its
        subspace, because rows drop out of the batched minimiser as they finish."""
        f = self.arrays
        at = self._place[free]
        inverse, columns = f.inverse[at], f.columns[at]  # s x k, s x k x n

        def down(numbered: Array) -> tuple[Array, Array]:
            row = numbered[:, -1].astype(np.intp)
            step = ((numbered[:, :-1] - 0.5)[:, :, None] - columns[row]) * inverse[row][:, :, None]
            K, slope = f.kernel.base_slope(fixed[row] + np.einsum("skn,skn->sn", step, step))
            mean, variance, V = self._moments(K)
            acquired, by_mean, by_variance = self.acquire(mean, variance)
            S = by_mean[:, None] * f.alpha - (2.0 * f.signal) * by_variance[:, None] * f.factor.upper(V)
            gradient = np.zeros_like(numbered)
            gradient[:, :-1] = -2.0 * inverse[row] * np.einsum("skn,sn->sk", step, S * slope)
            return -acquired, gradient

        return down

    def ascend(self, fixed: Array, free: Indices, values: Array, rounds: int) -> tuple[Array, Array]:
        """Local maxima in the free coordinates from the values given: values (s x k) and acquisition (s)."""
        number = np.arange(len(free), dtype=np.float64)[:, None]
        lower, upper = np.zeros(free.shape[1] + 1), np.ones(free.shape[1] + 1)
        upper[-1] = len(free)
        starts = np.concatenate([values, number], axis=1)
        found, negative = minimise(self.descent(fixed, free), starts, lower, upper, rounds=rounds)
        return found[:, :-1], -negative


def maximise_subspaces(
    arrays: PosteriorArrays,
    acquire: Acquire,
    subspaces: Subspaces,
    rng: np.random.Generator,
    shortlist: int = SHORTLIST,
    retries: int = RETRIES,
    ascents: int = ASCENTS,
    rounds: int = ROUNDS,
) -> tuple[Array, Array]:
    """The best points found in the subspaces, best first: points (ascents x d) and acquisition values (ascents).

    One random point is scored in each subspace, `retries` more in the `shortlist` best, and gradients are followed for
    `rounds` evaluations in the `ascents` best.
    """
    model = SubspacePosterior(arrays, acquire)
    free, k = subspaces.free, subspaces.free.shape[1]
    at_base = np.take_along_axis(subspaces.bases, free, axis=1)
    total = arrays.squared(subspaces.bases) if subspaces.squared is None else subspaces.squared
    fixed = np.maximum(total - model.squared(free, at_base), 0.0)
    values = _draw(at_base, subspaces.local, rng)
    best = model.scores(fixed, free, values)
    kept = _top(best, shortlist if k else 0)
    for _ in range(retries):
        again = _draw(at_base[kept], subspaces.local[kept], rng)
        found = model.scores(fixed[kept], free[kept], again)
        better = found > best[kept]
        values[kept[better]], best[kept[better]] = again[better], found[better]
    kept = _top(best, ascents)
    X, f, free = subspaces.bases[kept], best[kept], free[kept]
    np.put_along_axis(X, free, values[kept], axis=1)
    if k:
        moved, reached = model.ascend(fixed[kept], free, values[kept], rounds)
        better = reached > f
        np.put_along_axis(X, free, np.where(better[:, None], moved, values[kept]), axis=1)
        f = np.where(better, reached, f)
    order = np.argsort(-f, kind="stable")
    return X[order], f[order]


def _draw(at_base: Array, local: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """One point in each subspace (s x k): uniform, or near the base point with a log-uniform sd where it is local."""
    sd = np.exp(rng.uniform(np.log(STEPS[0]), np.log(STEPS[1]), (len(at_base), 1)))
    near = np.clip(at_base + sd * rng.standard_normal(at_base.shape), 0.0, 1.0)
    return np.where(local[:, None], near, rng.random(at_base.shape))


def _top(values: Array, count: int) -> Indices:
    """Where the `count` largest values are, best first, ties in order."""
    order: Indices = np.argsort(-values, kind="stable")[:count]
    return order


# ---------------------------------------------------------------- where few coordinates matter
#
# The length-scales of the other coordinates are long but finite, so moving a hundred of them always promises a little
# variance that is not there, and a search in all coordinates would never settle on the few.


def few_that_matter(gp: GP, lines: Indices) -> Indices | None:
    """The coordinates out of `lines` that matter; None where they are many or the model has only one length-scale."""
    if gp.hyper.lengthscale.size == 1 or len(lines) == 0:
        return None
    few = coordinates_that_matter(gp.hyper.lengthscale[lines])
    return lines[few] if len(few) <= FEW_MATTER * gp.hyper.lengthscale.size else None


def coordinates_that_matter(lengthscale: Array) -> Indices:
    """The fewest of the coordinates with these length-scales (d) that hold the share SHARE of the sum of l^-2."""
    weights = lengthscale**-2.0
    order: Indices = np.argsort(-weights, kind="stable")
    held = np.cumsum(weights[order])
    return np.sort(order[: int(np.searchsorted(held, SHARE * held[-1])) + 1])


def best_in_coordinates(free: Indices, acquisition: Acquisition, incumbents: Array, rng: np.random.Generator) -> Array:
    """The best point of the subspace through the first incumbent in which the given coordinates are free, D."""

    def to_cube(Y: Array) -> tuple[Array, Array]:
        X = np.repeat(incumbents[:1], len(Y), axis=0)
        X[:, free] = Y
        return X, np.ones_like(X)

    low = through(acquisition, to_cube, np.eye(incumbents.shape[1])[:, free])
    y = maximise(low, Cube.box(len(free)), rng, incumbents=incumbents[:, free])
    return np.asarray(to_cube(y[None])[0][0])
