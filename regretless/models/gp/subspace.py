"""Maximises an acquisition over many axis-aligned subspaces at once.

Subspace s fixes all coordinates at a base point z_s (d) but k free ones. With the points x_i of the posterior and
length-scales l,

    r^2(s, i) = C[s, i] + sum over the free j of (v_j - x_ij)^2 / l_j^2,

where v are the values of the free coordinates and C[s, i] is the same sum over the fixed ones. Once C is known (see
`base_points.py`) a posterior mean costs O(n k), whatever d is, and a variance O(n^2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regretless.models.gp.acquisition import Acquire, through
from regretless.models.gp.additive import AdditiveGP, legendre, legendre_slope
from regretless.models.gp.base_points import CHUNK, Indices, PosteriorArrays, Sums
from regretless.models.gp.lbfgs import minimise
from regretless.models.gp.maximiser import STEPS, Acquisition, maximise
from regretless.models.gp.posterior import GP
from regretless.space import Cube
from regretless.space.parameters import Array

SHORTLIST, ASCENTS = 100, 10  # subspaces with more random points, and with ascents; as good as in all of them
RETRIES = 4  # further random points in each subspace of the shortlist, in the same settings
ROUNDS = 15  # evaluations of an ascent in one block; our choice
FEW_MATTER, SHARE = 0.1, 0.999  # at most so many of the coordinates hold SHARE of the sum of l^-2; chosen on Camelback


@dataclass(frozen=True, eq=False)
class Subspaces:
    """Base points (s x d), free coordinates (s x k), whether random points lie near the base (s), sums if known."""

    bases: Array
    free: Indices
    local: NDArray[np.bool_]
    sums: Sums | None = None


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
    """The acquisition as a function of the free coordinates of subspaces; the fixed ones contribute `Sums`."""

    def __init__(self, arrays: PosteriorArrays, acquire: Acquire) -> None:
        self.arrays, self.acquire = arrays, acquire
        kernel = arrays.kernel
        self._place = np.empty(kernel.dim, dtype=np.intp)  # of a line among the embedded coordinates
        self._place[kernel.lines] = np.arange(len(kernel.lines))
        self._orders = range(1, len(arrays.weights) + 1)

    def free_sums(self, free: Indices, values: Array) -> Sums:
        """What the free coordinates (s x k) contribute to the sums at the given values (s x k)."""
        f = self.arrays
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

    def scores(self, fixed: Sums, free: Indices, values: Array) -> Array:
        """The acquisition (s) at the values (s x k) of the free coordinates; NaN counts as the worst."""
        rows = max(1, CHUNK // max(1, fixed.squared.shape[1]))
        parts = [np.empty(0)]
        for i in range(0, len(values), rows):
            part = slice(i, i + rows)
            total = fixed.at(part).plus(self.free_sums(free[part], values[part]))
            K = self.arrays.kernel.base(total.squared)
            if len(self.arrays.weights):
                K += total.trend
            parts.append(self.acquire(*self._moments(K, total.prior)[:2])[0])
        scores = np.concatenate(parts)
        return np.where(np.isnan(scores), -np.inf, scores)

    def _moments(self, K: Array, prior: Array) -> tuple[Array, Array, Array]:
        """Posterior mean and variance (s each), and L^-1 applied to the rows of K (s x n)."""
        V = self.arrays.lower(K)
        left = prior - np.einsum("ij,ij->i", V, V)
        return self.arrays.mean + K @ self.arrays.alpha, self.arrays.signal * np.maximum(left, 0.0), V

    def descent(self, fixed: Sums, free: Indices) -> Callable[[Array], tuple[Array, Array]]:
        """The negative acquisition and its gradient in the free values; the last column of a point numbers its
        subspace, because rows drop out of the batched minimiser as they finish."""
        f = self.arrays
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
                by_feature = np.einsum("skn,sn->sk", theirs[row], S)
                gradient[:, :-1] -= derivative * (by_feature + 2.0 * f.signal * by_variance[:, None] * value)
            return -acquired, gradient

        return down

    def ascend(self, fixed: Sums, free: Indices, values: Array, rounds: int) -> tuple[Array, Array]:
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
    *,
    chain: int = 0,
    lines: Indices | None = None,
    weights: Array | None = None,
) -> tuple[Array, Array]:
    """The best points found in the subspaces, best first: points (ascents x d) and acquisition values (ascents).

    One random point is scored in each subspace, `retries` more in the `shortlist` best, and gradients are followed for
    `rounds` evaluations in the `ascents` best. Each ascent goes on through `chain` further blocks of free coordinates,
    drawn from `lines` (None: all) in proportion to `weights`.
    """
    model = SubspacePosterior(arrays, acquire)
    free, k = subspaces.free, subspaces.free.shape[1]
    at_base = np.take_along_axis(subspaces.bases, free, axis=1)
    total = arrays.sums(subspaces.bases) if subspaces.sums is None else subspaces.sums
    fixed = total.minus(model.free_sums(free, at_base))
    values = _draw(at_base, subspaces.local, rng)
    best = model.scores(fixed, free, values)
    kept = _top(best, shortlist if k else 0)
    for _ in range(retries):
        again = _draw(at_base[kept], subspaces.local[kept], rng)
        found = model.scores(fixed.at(kept), free[kept], again)
        better = found > best[kept]
        values[kept[better]], best[kept[better]] = again[better], found[better]
    kept = _top(best, ascents)
    X, f, free, fixed = subspaces.bases[kept], best[kept], free[kept], fixed.at(kept)
    np.put_along_axis(X, free, values[kept], axis=1)
    for link in range(chain + 1 if k else 0):
        here = np.take_along_axis(X, free, axis=1)
        if link:
            total = fixed.plus(model.free_sums(free, here))
            free = random_blocks(len(X), k, arrays.kernel.lines if lines is None else lines, weights, rng)
            here = np.take_along_axis(X, free, axis=1)
            fixed = total.minus(model.free_sums(free, here))
        moved, reached = model.ascend(fixed, free, here, rounds)
        better = reached > f
        np.put_along_axis(X, free, np.where(better[:, None], moved, here), axis=1)
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


def few_that_matter(gp: GP | AdditiveGP, lines: Indices) -> Indices | None:
    """The coordinates out of `lines` that matter; None where they are many or the model has only one length-scale."""
    if not isinstance(gp, GP) or gp.hyper.lengthscale.size == 1 or len(lines) == 0:
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
