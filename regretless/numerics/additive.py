"""A Gaussian process for many coordinates: a stationary part, an additive polynomial trend, and weights that say which coordinates matter.

With z the embedded point of `Kernel` (lines as x - 1/2), u = 2 x - 1 over the m lines and phi_k the k-th Legendre polynomial scaled to mean square 1,

    k(x, x') = base(sum_j rho_j (z_j - z'_j)^2 / l^2) + 1/m sum_k w_k sum_i rho_i phi_k(u_i) phi_k(u'_i).

From a few hundred values in a hundred dimensions a stationary kernel alone sees little more than its prior mean; a sum of one-dimensional
polynomials has few enough unknowns to be learnt, and the evidence decides (through w) how much of the data it explains. l, w, the noise and the
signal variance are found by maximum a posteriori on n x n arrays that are built once: a fit costs O(n^3) whatever the dimension.

Relevance. rho (mean 1) is found by expectation-maximisation of the trend's coefficients, as in sparse Bayesian learning (Tipping, JMLR 2001): a
coordinate's weight is multiplied by the ratio of the posterior to the prior mean square of its coefficients. A few levels of such steps are fitted,
and the one with the best posterior density, less a price per level, is kept; on dense functions that is level 0, where every coordinate counts alike.

`AdditiveSurrogate.gp` is a pure function of its arguments and keeps the schedule of `Surrogate`, so a replayed history gives the same posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from regretless.numerics.kernels import Kernel, squared_distances
from regretless.numerics.lbfgs import minimise
from regretless.numerics.surrogate import FRESH_EVERY, scheduled, standardisation
from regretless.space import Array, Cube

NOISE_FLOOR = 1e-8
SHORTEST, LONGEST = 0.1, 50.0
"""Bounds of l in units of sqrt(D). The lower one keeps a crowd of near points from shrinking l to their own distances."""
WEIGHTS = (1e-6, 60.0)
"""Bounds of the trend's weights."""
NOISES = (NOISE_FLOOR, 1.0)
FRESH_ROUNDS, WARM_ROUNDS, LEVEL_ROUNDS = 40, 15, 10
"""Evaluations of the posterior density in a fresh fit, a warm one, and after a level of relevance."""
LEVELS, STEPS_PER_LEVEL, PRICE = 3, 3, 2.0
"""Levels of relevance tried, steps in each, and what a level must gain in log density to be preferred."""
JITTER = 1e-10
FEATURES_BYTES = 60e6
"""The stored features of the told points stay below this; orders beyond it are left out."""


# ---------------------------------------------------------------- the trend


def legendre(U: Array, k: int) -> tuple[Array, Array]:
    """phi_k and its derivative at U in [-1, 1], k = 1 .. 4; the mean square of phi_k over [-1, 1] is 1."""
    if k == 1:
        return math.sqrt(3) * U, np.full_like(U, math.sqrt(3))
    if k == 2:
        return math.sqrt(5) * (1.5 * U * U - 0.5), 3 * math.sqrt(5) * U
    if k == 3:
        return math.sqrt(7) / 2 * (5 * U * U - 3) * U, math.sqrt(7) / 2 * (15 * U * U - 3)
    if k == 4:
        square = U * U
        return 3 / 8 * ((35 * square - 30) * square + 3), 3 / 8 * (140 * square - 60) * U
    raise ValueError(f"orders 1 to 4 are known, got {k!r}")


@dataclass(frozen=True, eq=False)
class Shape:
    """The hyper-parameters: l, the weights w of the orders (K), the relative noise, the relevance rho of the embedded coordinates (e)."""

    lengthscale: float
    weights: Array
    noise: float
    relevance: Array


def _features(kernel: Kernel, Z: Array, rho: Array, orders: int) -> list[Array]:
    """sqrt(rho / m) phi_k(u) of embedded points, n x m for each order."""
    m = len(kernel.lines)
    root = np.sqrt(rho[:m] / m)
    U = 2.0 * Z[:, :m]
    return [legendre(U, k)[0] * root for k in range(1, orders + 1)]


# ---------------------------------------------------------------- the fit


class _Fit:
    """The posterior density of (l, w, noise) for given relevance, on n x n arrays only."""

    def __init__(self, kernel: Kernel, Z: Array, y: Array, known: Array, rho: Array, orders: int) -> None:
        self.kernel, self.Z, self.y, self.known, self.rho, self.orders = kernel, Z, y, known, rho, orders
        scaled = Z * np.sqrt(rho)
        self.squared = squared_distances(scaled, scaled)
        self.trends = [F @ F.T for F in _features(kernel, Z, rho, orders)]
        root = math.sqrt(Z.shape[1])
        self.centre = np.array([math.sqrt(2.0) + math.log(root), *[-3.0] * orders, math.log(1e-4)])
        self.sd = np.array([math.sqrt(3.0), *[3.0] * orders, 3.0])
        bounds = np.log([(SHORTEST * root, LONGEST * root), *[WEIGHTS] * orders, NOISES])
        self.lower, self.upper = bounds[:, 0], bounds[:, 1]
        self.root = root

    def starts(self) -> Array:
        """Three: a bit of everything, a long length-scale without trend, a middling one with noise."""
        rows = [(0.5, -1.0, 1e-4), (2.0, -8.0, 1e-6), (1.0, -4.0, 1e-2)]
        return np.array([[math.log(length * self.root), *[weight] * self.orders, math.log(noise)] for length, weight, noise in rows])

    def covariance(self, theta: Array) -> tuple[Array, Array]:
        """A (n x n) and the derivative of its stationary part in r^2."""
        K, slope = self.kernel.base_slope(self.squared * math.exp(-2 * theta[0]))
        for w, T in zip(np.exp(theta[1:-1]), self.trends, strict=True):
            K += w * T
        K.ravel()[:: len(K) + 1] += self._noise(theta)
        return K, slope

    def _noise(self, theta: Array) -> Array:
        return np.where(np.isnan(self.known), math.exp(theta[-1]), self.known)

    def at(self, thetas: Array) -> tuple[Array, Array]:
        pairs = [self.one(theta) for theta in thetas]
        return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])

    def one(self, theta: Array) -> tuple[float, Array]:
        """The negative log density and its gradient; the mean and the signal variance are profiled out."""
        n = len(self.y)
        K, slope = self.covariance(theta)
        L, info = lapack.dpotrf(K, lower=1, clean=0, overwrite_a=0)
        if info:
            return 1e25, np.zeros(len(theta))
        inverse = _symmetric(lapack.dpotri(L, lower=1)[0])
        ones = inverse.sum(axis=1)
        mean = float(ones @ self.y) / float(ones.sum())
        alpha = inverse @ self.y - mean * ones
        s2 = (float((self.y - mean) @ alpha) + 1.0) / (n + 1.0)
        value = 0.5 * (n + 1.0) * math.log(s2) + float(np.log(np.diagonal(L)).sum())
        inverse -= np.multiply.outer(alpha / s2, alpha)  # twice the derivative of the value in A
        gradient = np.empty(len(theta))
        gradient[1:-1] = [0.5 * math.exp(t) * float(np.vdot(inverse, T)) for t, T in zip(theta[1:-1], self.trends, strict=True)]
        gradient[-1] = 0.5 * math.exp(theta[-1]) * float(np.diagonal(inverse)[np.isnan(self.known)].sum())
        slope *= self.squared
        gradient[0] = -math.exp(-2 * theta[0]) * float(np.vdot(inverse, slope))
        away = (theta - self.centre) / self.sd
        return value + 0.5 * float(away @ away), gradient + away / self.sd

    def minimum(self, starts: Array, rounds: int) -> tuple[Array, float]:
        thetas, values = minimise(self.at, np.clip(starts, self.lower, self.upper), self.lower, self.upper, rounds=rounds, reach=0.3, tolerance=1e-7)
        best = int(np.argmin(values))
        return thetas[best], float(values[best])

    def shape(self, theta: Array) -> Shape:
        return Shape(math.exp(theta[0]), np.exp(theta[1:-1]), math.exp(theta[-1]), self.rho)

    def more_relevant(self, theta: Array) -> Array:
        """rho after one step of expectation-maximisation, e."""
        K, _ = self.covariance(theta)
        L, info = lapack.dpotrf(K, lower=1, clean=0)
        if info:
            return self.rho
        sides = np.stack([self.y, np.ones(len(self.y))], axis=1)
        white = blas.dtrsm(1.0, L, sides, lower=1)
        mean = float(white[:, 0] @ white[:, 1]) / float(white[:, 1] @ white[:, 1])
        r = white[:, 0] - mean * white[:, 1]
        s2 = (float(r @ r) + 1.0) / (len(r) + 1.0)
        alpha = blas.dtrsv(L, r, lower=1, trans=1)
        energy, prior = np.zeros(len(self.kernel.lines)), 0.0
        for w, F in zip(np.exp(theta[1:-1]), _features(self.kernel, self.Z, self.rho, self.orders), strict=True):
            V = blas.dtrsm(1.0, L, F, lower=1)
            energy += (w * (alpha @ F)) ** 2 / s2 + np.maximum(w - w * w * np.einsum("ij,ij->j", V, V), 0.0)
            prior += float(w)
        rho = self.rho.copy()
        rho[: len(energy)] *= energy / prior
        rho[: len(energy)] *= len(energy) / rho[: len(energy)].sum()
        return rho


def _symmetric(lower: Array) -> Array:
    """The full matrix whose lower triangle is given, in place."""
    i, j = np.triu_indices(len(lower), 1)
    lower[i, j] = lower[j, i]
    return lower


# ---------------------------------------------------------------- the posterior


class AdditiveGP:
    """The posterior of the module's text, in standardised units (value = offset + scale * standardised). Immutable.

    Pending points come after the told ones and are hallucinated: the mean stays, the variance shrinks.
    """

    def __init__(self, kernel: Kernel, shape: Shape, X: Array, y: Array, noise: Array, *, offset: float, scale: float) -> None:
        self.kernel, self.shape, self.X, self.y, self.offset, self.scale = kernel, shape, X[: len(y)], y, offset, scale
        self.Z = kernel.embed(X)
        self.inverse = np.sqrt(shape.relevance) / shape.lengthscale
        """1 / l for each embedded coordinate, with its relevance, e."""
        self.W = self.Z * self.inverse
        m = len(kernel.lines)
        self.root = np.sqrt(shape.relevance[:m] / m)
        self.features = _features(kernel, self.Z, shape.relevance, len(shape.weights))
        A = self.kernel.base(squared_distances(self.W, self.W))
        for w, F in zip(shape.weights, self.features, strict=True):
            A += w * (F @ F.T)
        diagonal, jitter = np.diagonal(A) + noise, 0.0
        while True:
            A.ravel()[:: len(A) + 1] = diagonal + jitter
            L, info = lapack.dpotrf(A.T, lower=1, clean=0)
            if info == 0:
                break
            jitter = max(JITTER, 10.0 * jitter)
        self._L = L
        sides = np.zeros((2, len(X)))
        sides[0, : len(y)], sides[1, : len(y)] = (y - offset) / scale, 1.0
        white = self.lower(sides)[:, : len(y)]  # a pending point's whitened residual is 0: it is told its own mean
        self.mean = float(white[0] @ white[1] / (white[1] @ white[1]))
        residual = np.zeros(len(X))
        residual[: len(y)] = white[0] - self.mean * white[1]
        self.alpha = self.upper(residual[None])[0]
        self.signal = (float(residual @ residual) + 1.0) / (len(y) + 1.0)

    def relevance_of(self, coordinates: NDArray[np.intp]) -> Array:
        """rho of coordinates that are no choices."""
        return self.shape.relevance[np.searchsorted(self.kernel.lines, coordinates)]

    def lower(self, R: Array) -> Array:
        """L^-1 applied to each row of R, q x n."""
        solved: Array = blas.dtrsm(1.0, self._L, R.T, lower=1).T
        return solved

    def upper(self, V: Array) -> Array:
        """L^-T applied to each row of V, q x n."""
        solved: Array = blas.dtrsm(1.0, self._L, V.T, lower=1, trans_a=1).T
        return solved

    def _query(self, X: Array) -> tuple[Array, Array, list[tuple[Array, Array]]]:
        """Embedded points, u of their lines, and feature and derivative in x of every order (q x m each)."""
        Z = self.kernel.embed(X)
        U = 2.0 * Z[:, : len(self.kernel.lines)]
        pairs = [legendre(U, k) for k in range(1, len(self.features) + 1)]
        return Z, U, [(value * self.root, 2.0 * slope * self.root) for value, slope in pairs]

    def _prior(self, pairs: list[tuple[Array, Array]], q: int) -> Array:
        prior = np.ones(q)
        for w, (F, _) in zip(self.shape.weights, pairs, strict=True):
            prior += w * np.einsum("ij,ij->i", F, F)
        return prior

    def mean_var(self, X: Array) -> tuple[Array, Array]:
        """Posterior mean (q) and variance (q) of the function at X (q x d)."""
        Z, _, pairs = self._query(X)
        K = self.kernel.base(squared_distances(Z * self.inverse, self.W))
        for w, (F, _), G in zip(self.shape.weights, pairs, self.features, strict=True):
            K += w * (F @ G.T)
        V = self.lower(K)
        left = self._prior(pairs, len(X)) - np.einsum("ij,ij->i", V, V)
        return self.mean + K @ self.alpha, self.signal * np.maximum(left, 0.0)

    def mean_at(self, X: Array) -> Array:
        """Posterior mean alone (q)."""
        Z, _, pairs = self._query(X)
        value: Array = self.kernel.base(squared_distances(Z * self.inverse, self.W)) @ self.alpha + self.mean
        for w, (F, _), G in zip(self.shape.weights, pairs, self.features, strict=True):
            value += w * (F @ (self.alpha @ G))
        return value

    def mean_var_grad(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both in x (q x d each); coordinates of choices have gradient 0."""
        q, m = len(X), len(self.kernel.lines)
        Z, _, pairs = self._query(X)
        K, slope = self.kernel.base_slope(squared_distances(Z * self.inverse, self.W))
        for w, (F, _), G in zip(self.shape.weights, pairs, self.features, strict=True):
            K += w * (F @ G.T)
        V = self.lower(K)
        left = self._prior(pairs, q) - np.einsum("ij,ij->i", V, V)
        C = np.concatenate([np.broadcast_to(self.alpha, K.shape), self.upper(V)])  # weights of the mean's and of -1/2 the variance's gradient
        S = C * np.concatenate([slope, slope])
        lines = np.concatenate([Z, Z])[:, :m]
        gradient = 2.0 * self.inverse[:m] ** 2 * (lines * S.sum(axis=1)[:, None] - S @ self.Z[:, :m])
        own = np.zeros((q, m))
        for w, (F, slope_k), G in zip(self.shape.weights, pairs, self.features, strict=True):
            gradient += w * np.concatenate([slope_k, slope_k]) * (C @ G)
            own += 2.0 * w * F * slope_k
        by_mean, by_variance = np.zeros((q, self.kernel.dim)), np.zeros((q, self.kernel.dim))
        by_mean[:, self.kernel.lines] = gradient[:q]
        by_variance[:, self.kernel.lines] = self.signal * (own - 2.0 * gradient[q:])
        return self.mean + K @ self.alpha, self.signal * np.maximum(left, 0.0), by_mean, by_variance


# ---------------------------------------------------------------- from a history


class AdditiveSurrogate:
    """Told values to the posterior of this module; see `Surrogate` for the schedule and what it guarantees.

    Args:
        cube: what is known of the space.
        noise: a known noise variance of all values in their own units, or None to fit it.
        orders: of the trend's polynomials, 0 to 4; lowered where the features of the told points would not fit into memory.
        levels: levels of relevance tried; 0: all coordinates count alike.
    """

    def __init__(self, cube: Cube, *, noise: float | None = None, orders: int = 2, levels: int = LEVELS) -> None:
        if noise is not None and not (noise >= 0 and math.isfinite(noise)):
            raise ValueError(f"noise must be a variance of at least 0 or None, got {noise!r}")
        self.kernel = Kernel("matern52", cube.dim, np.array([axis.levels if axis.categorical else 0 for axis in cube.axes]))
        self.noise = noise
        self.orders = orders if len(self.kernel.lines) else 0
        self.levels = levels if self.orders and len(self.kernel.lines) > 1 else 0
        self._seen: tuple[Array, Array, Array] = (np.empty((0, cube.dim)), np.empty(0), np.empty(0))
        self._plain: dict[int, tuple[Array, float]] = {}  # index of a scheduled fit -> theta and negative log density without relevance
        self._shapes: dict[int, Shape] = {}

    def gp(self, X: Array, y: Array, yvar: Array | None = None, pending: Array | None = None) -> AdditiveGP:
        """The posterior for points X (n x d, n >= 1), values y (n) and noise variances yvar (n, NaN unknown), pending points (p x d) hallucinated."""
        if len(y) == 0:
            raise ValueError("a surrogate needs at least one value")
        yvar = np.full(len(y), np.nan) if yvar is None else np.asarray(yvar, dtype=np.float64)
        if self.noise is not None:
            yvar = np.where(np.isnan(yvar), self.noise, yvar)
        self._forget_what_differs(X, y, yvar)
        k, size = scheduled(len(y))
        shape = self._shape(k, size, X, y, yvar)
        offset, scale = standardisation(y)
        pending = np.empty((0, X.shape[1])) if pending is None else pending
        noise = np.full(len(y) + len(pending), shape.noise)
        noise[: len(y)] = np.where(np.isnan(yvar), shape.noise, _relative(yvar, scale))
        return AdditiveGP(self.kernel, shape, np.concatenate([X, pending]), np.array(y), noise, offset=offset, scale=scale)

    def _fit(self, size: int, X: Array, y: Array, yvar: Array, rho: Array | None = None) -> _Fit:
        offset, scale = standardisation(y[:size])
        Z = self.kernel.embed(X[:size])
        rho = np.ones(Z.shape[1]) if rho is None else rho
        return _Fit(self.kernel, Z, (y[:size] - offset) / scale, _relative(yvar[:size], scale), rho, self.orders)

    def _plain_fit(self, k: int, size: int, X: Array, y: Array, yvar: Array) -> tuple[Array, float]:
        """theta and negative log density of scheduled fit k, which has seen `size` values, all coordinates counting alike."""
        if k not in self._plain:
            fit = self._fit(size, X, y, yvar)
            if k % FRESH_EVERY:
                warm, _ = self._plain_fit(k - 1, scheduled(size - 1)[1], X, y, yvar)
                self._plain[k] = fit.minimum(warm[None], WARM_ROUNDS)
            else:
                self._plain[k] = fit.minimum(fit.starts(), FRESH_ROUNDS)
        return self._plain[k]

    def _shape(self, k: int, size: int, X: Array, y: Array, yvar: Array) -> Shape:
        if k not in self._shapes:
            theta, value = self._plain_fit(k, size, X, y, yvar)
            fit = self._fit(size, X, y, yvar)
            best, least = fit.shape(theta), value
            for level in range(1, self.levels + 1):
                for _ in range(STEPS_PER_LEVEL):
                    fit = self._fit(size, X, y, yvar, fit.more_relevant(theta))
                theta, value = fit.minimum(theta[None], LEVEL_ROUNDS)
                if value + PRICE * level < least:
                    best, least = fit.shape(theta), value + PRICE * level
            self._shapes = {k: best}
        return self._shapes[k]

    def _forget_what_differs(self, X: Array, y: Array, yvar: Array) -> None:
        """Drops what the cache holds about histories of which this one is no continuation."""
        common = min(len(y), len(self._seen[1]))
        same = (X[:common] == self._seen[0][:common]).all(axis=1) & (y[:common] == self._seen[1][:common])
        same &= (yvar[:common] == self._seen[2][:common]) | (np.isnan(yvar[:common]) & np.isnan(self._seen[2][:common]))
        agree = common if same.all() else int(np.argmin(same))
        self._plain = {k: fitted for k, fitted in self._plain.items() if _size(k) <= agree}
        self._shapes = {k: shape for k, shape in self._shapes.items() if _size(k) <= agree}
        if len(y) != len(self._seen[1]) or agree < len(y):
            self._seen = X.copy(), y.copy(), yvar.copy()


def _relative(yvar: Array, scale: float) -> Array:
    """Known noise variances relative to the variance of the values, never below the floor; NaN stays."""
    return np.where(np.isnan(yvar), np.nan, np.maximum(yvar / (scale * scale), NOISE_FLOOR))


def _size(k: int) -> int:
    """The size of scheduled fit k."""
    size = 1
    while scheduled(size)[0] < k:
        size += 1
    return size
