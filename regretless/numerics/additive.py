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
CHUNK = 2**20
"""Numbers in one temporary array of a query (8 MB)."""


# ---------------------------------------------------------------- the trend


def legendre(U: Array, k: int) -> Array:
    """phi_k at U in [-1, 1], k = 1 .. 4; its mean square over [-1, 1] is 1."""
    if k == 1:
        return math.sqrt(3) * U
    square = U * U
    if k == 2:
        square *= 1.5 * math.sqrt(5)
        square -= 0.5 * math.sqrt(5)
        return square
    if k == 3:
        return math.sqrt(7) / 2 * (5 * square - 3) * U
    if k == 4:
        return 3 / 8 * ((35 * square - 30) * square + 3)
    raise ValueError(f"orders 1 to 4 are known, got {k!r}")


def legendre_slope(U: Array, k: int) -> Array:
    """The derivative of phi_k at U."""
    if k == 1:
        return np.full_like(U, math.sqrt(3))
    if k == 2:
        return 3 * math.sqrt(5) * U
    if k == 3:
        return math.sqrt(7) / 2 * (15 * U * U - 3)
    if k == 4:
        return 3 / 8 * (140 * U * U - 60) * U
    raise ValueError(f"orders 1 to 4 are known, got {k!r}")


@dataclass(frozen=True, eq=False)
class Shape:
    """The hyper-parameters: l, the weights w of the orders (K), the relative noise, the relevance rho of the embedded coordinates (e)."""

    lengthscale: float
    weights: Array
    noise: float
    relevance: Array


@dataclass(frozen=True, eq=False)
class Places:
    """Points as the kernel sees them: sqrt(rho) z of the m lines, the embedded choices, and the features of the orders from 2 on (n x m each).

    The feature of order 1 is a multiple of the first, so that the distances and the linear trend share one matrix product.
    """

    lines: Array
    choices: Array
    features: tuple[Array, ...]

    @classmethod
    def of(cls, kernel: Kernel, X: Array, rho: Array, orders: int) -> Places:
        m = len(kernel.lines)
        Z = kernel.embed(X)
        U = 2.0 * Z[:, :m]
        root = np.sqrt(rho[:m] / m)
        features = tuple(legendre(U, k) * root for k in range(2, orders + 1))
        choices = Z[:, m:] * np.sqrt(rho[m:])
        U *= 0.5 * np.sqrt(rho[:m])
        return cls(U, choices, features)

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self, start: int) -> Places:
        return Places(self.lines[start:], self.choices[start:], tuple(F[start:] for F in self.features))

    def products(self, other: Places, orders: int) -> tuple[Array, ...]:
        """Squared distances between the points and the other ones, then the trend of every order, a x b each."""
        inner = self.lines @ other.lines.T
        squared = -2.0 * inner
        squared += np.einsum("ij,ij->i", self.lines, self.lines)[:, None]
        squared += np.einsum("ij,ij->i", other.lines, other.lines)
        np.maximum(squared, 0.0, out=squared)
        if self.choices.shape[1]:
            squared += squared_distances(self.choices, other.choices)
        if not orders:
            return (squared,)
        inner *= 12.0 / self.lines.shape[1]  # phi_1(u) = sqrt(3) u and u = 2 z
        return squared, inner, *(F @ G.T for F, G in zip(self.features, other.features, strict=True))

    def at_zero(self, weights: Array) -> Array:
        """k(x, x), n."""
        prior = np.ones(len(self.lines))
        if len(weights):
            prior += 12.0 / self.lines.shape[1] * weights[0] * np.einsum("ij,ij->i", self.lines, self.lines)
        for w, F in zip(weights[1:], self.features, strict=True):
            prior += w * np.einsum("ij,ij->i", F, F)
        return prior


# ---------------------------------------------------------------- the fit


class _Fit:
    """The posterior density of (l, w, noise) for given relevance, on n x n arrays only."""

    def __init__(self, kernel: Kernel, X: Array, y: Array, known: Array, rho: Array, orders: int) -> None:
        self.kernel, self.X, self.y, self.known, self.rho, self.orders = kernel, X, y, known, rho, orders
        self.places = Places.of(kernel, X, rho, orders)
        self.products = self.places.products(self.places, orders)
        self.squared, self.trends = self.products[0], self.products[1:]
        root = math.sqrt(len(rho))
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
        scale = math.sqrt(12.0 / len(energy))
        for k, w in enumerate(np.exp(theta[1:-1])):
            F = scale * self.places.lines if k == 0 else self.places.features[k - 1]
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

    Args:
        X: the told points and after them pending ones, which are hallucinated: the mean stays, the variance shrinks.
        y: the told values, n.
        noise: relative noise of every point.
        products: those of the first points among themselves, where they are known from the fit.
    """

    def __init__(
        self,
        kernel: Kernel,
        shape: Shape,
        X: Array,
        y: Array,
        noise: Array,
        *,
        offset: float,
        scale: float,
        products: tuple[Array, ...] | None = None,
    ) -> None:
        self.kernel, self.shape, self.X, self.y, self.offset, self.scale = kernel, shape, X, y, offset, scale
        self.orders = len(shape.weights)
        self.places = Places.of(kernel, X, shape.relevance, self.orders)
        self.inverse = np.sqrt(shape.relevance) / shape.lengthscale
        """1 / l of each embedded coordinate, with its relevance, e."""
        m = len(kernel.lines)
        self.root = np.sqrt(shape.relevance[:m] / m)
        """What the features of every line are multiplied with, m."""
        A = self._covariance(self._all_products(products))
        A.ravel()[:: len(A) + 1] = self.places.at_zero(shape.weights)
        diagonal, jitter = np.diagonal(A) + noise, 0.0
        while True:
            A.ravel()[:: len(A) + 1] = diagonal + jitter
            self._L, info = lapack.dpotrf(A.T, lower=1, clean=0)
            if info == 0:
                break
            jitter = max(JITTER, 10.0 * jitter)
        sides = np.zeros((2, len(X)))
        sides[0, : len(y)], sides[1, : len(y)] = (y - offset) / scale, 1.0
        white = self.lower(sides)[:, : len(y)]  # a pending point's whitened residual is 0: it is told its own mean
        self.mean = float(white[0] @ white[1] / (white[1] @ white[1]))
        residual = np.zeros(len(X))
        residual[: len(y)] = white[0] - self.mean * white[1]
        self.alpha = self.upper(residual[None])[0]
        self.signal = (float(residual @ residual) + 1.0) / (len(y) + 1.0)

    def _all_products(self, known: tuple[Array, ...] | None) -> tuple[Array, ...]:
        if known is None:
            return self.places.products(self.places, self.orders)
        n = len(known[0])
        if n == len(self.places):
            return known
        rows = self.places.rows(n).products(self.places, self.orders)
        return tuple(np.block([[old, new[:, :n].T], [new]]) for old, new in zip(known, rows, strict=True))

    def _covariance(self, products: tuple[Array, ...]) -> Array:
        K = self.kernel.base(products[0] / self.shape.lengthscale**2)
        for w, T in zip(self.shape.weights, products[1:], strict=True):
            K += w * T
        return K

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

    # -- at query points

    def mean_var(self, X: Array) -> tuple[Array, Array]:
        """Posterior mean (q) and variance (q) of the function at X (q x d)."""
        rows = max(1, CHUNK // X.shape[1])
        K, prior = np.empty((len(X), len(self.places))), np.empty(len(X))
        for i in range(0, len(X), rows):
            query = Places.of(self.kernel, X[i : i + rows], self.shape.relevance, self.orders)
            K[i : i + rows] = self._covariance(query.products(self.places, self.orders))
            prior[i : i + rows] = query.at_zero(self.shape.weights)
        V = self.lower(K)
        return self.mean + K @ self.alpha, self.signal * np.maximum(prior - np.einsum("ij,ij->i", V, V), 0.0)

    def mean_at(self, X: Array) -> Array:
        """Posterior mean alone (q)."""
        rows = max(1, CHUNK // X.shape[1])
        mean = np.empty(len(X))
        for i in range(0, len(X), rows):
            query = Places.of(self.kernel, X[i : i + rows], self.shape.relevance, self.orders)
            mean[i : i + rows] = self._covariance(query.products(self.places, self.orders)) @ self.alpha
        return mean + self.mean

    def mean_var_grad(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both in x (q x d each); coordinates of choices have gradient 0."""
        q, m, w = len(X), len(self.kernel.lines), self.shape.weights
        query = Places.of(self.kernel, X, self.shape.relevance, self.orders)
        squared, *trends = query.products(self.places, self.orders)
        K, slope = self.kernel.base_slope(squared / self.shape.lengthscale**2)
        for weight, T in zip(w, trends, strict=True):
            K += weight * T
        V = self.lower(K)
        variance = self.signal * np.maximum(query.at_zero(w) - np.einsum("ij,ij->i", V, V), 0.0)
        C = np.concatenate([np.broadcast_to(self.alpha, K.shape), self.upper(V)])  # weights of the mean's and of -1/2 the variance's gradient
        S = C * np.concatenate([slope, slope]) * (2.0 / self.shape.lengthscale**2)
        linear = 12.0 / m * w[0] if self.orders else 0.0
        gradient = np.concatenate([query.lines, query.lines]) * S.sum(axis=1)[:, None] + (linear * C - S) @ self.places.lines
        gradient *= np.sqrt(self.shape.relevance[:m])
        own = linear * query.lines * np.sqrt(self.shape.relevance[:m])
        U = 2.0 * (X[:, self.kernel.lines] - 0.5)
        for k, (weight, F, G) in enumerate(zip(w[1:], query.features, self.places.features, strict=True), start=2):
            derivative = 2.0 * weight * legendre_slope(U, k) * self.root
            gradient += np.concatenate([derivative, derivative]) * (C @ G)
            own += derivative * F
        by_mean, by_variance = np.zeros((q, self.kernel.dim)), np.zeros((q, self.kernel.dim))
        by_mean[:, self.kernel.lines] = gradient[:q]
        by_variance[:, self.kernel.lines] = 2.0 * self.signal * (own - gradient[q:])
        return self.mean + K @ self.alpha, variance, by_mean, by_variance


# ---------------------------------------------------------------- from a history


class AdditiveSurrogate:
    """Told values to the posterior of this module; see `Surrogate` for the schedule and what it guarantees.

    Args:
        cube: what is known of the space.
        noise: a known noise variance of all values in their own units, or None to fit it.
        orders: of the trend's polynomials, 0 to 4; each beyond the first costs memory for as many numbers as the told points have.
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
        self._shapes: dict[int, tuple[Shape, tuple[Array, ...]]] = {}  # and the products of the points it was fitted to

    def gp(self, X: Array, y: Array, yvar: Array | None = None, pending: Array | None = None) -> AdditiveGP:
        """The posterior for points X (n x d, n >= 1), values y (n) and noise variances yvar (n, NaN unknown), pending points (p x d) hallucinated."""
        if len(y) == 0:
            raise ValueError("a surrogate needs at least one value")
        yvar = np.full(len(y), np.nan) if yvar is None else np.asarray(yvar, dtype=np.float64)
        if self.noise is not None:
            yvar = np.where(np.isnan(yvar), self.noise, yvar)
        self._forget_what_differs(X, y, yvar)
        k, size = scheduled(len(y))
        shape, products = self._shape(k, size, X, y, yvar)
        offset, scale = standardisation(y)
        noise = np.where(np.isnan(yvar), shape.noise, _relative(yvar, scale))
        if pending is not None and len(pending):
            X, noise = np.concatenate([X, pending]), np.concatenate([noise, np.full(len(pending), shape.noise)])
        return AdditiveGP(self.kernel, shape, X, np.array(y), noise, offset=offset, scale=scale, products=products)

    def _fit(self, size: int, X: Array, y: Array, yvar: Array, rho: Array | None = None) -> _Fit:
        offset, scale = standardisation(y[:size])
        rho = np.ones(len(self.kernel.owner)) if rho is None else rho
        return _Fit(self.kernel, X[:size], (y[:size] - offset) / scale, _relative(yvar[:size], scale), rho, self.orders)

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

    def _shape(self, k: int, size: int, X: Array, y: Array, yvar: Array) -> tuple[Shape, tuple[Array, ...]]:
        """The hyper-parameters of scheduled fit k, and the products of its points under them."""
        if k not in self._shapes:
            theta, value = self._plain_fit(k, size, X, y, yvar)
            fit = self._fit(size, X, y, yvar)
            best, least = (fit.shape(theta), fit.products), value
            for level in range(1, self.levels + 1):
                for _ in range(STEPS_PER_LEVEL):
                    fit = self._fit(size, X, y, yvar, fit.more_relevant(theta))
                theta, value = fit.minimum(theta[None], LEVEL_ROUNDS)
                if value + PRICE * level < least:
                    best, least = (fit.shape(theta), fit.products), value + PRICE * level
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
            self._seen = X, y.copy(), yvar.copy()  # X is not copied: it may be large, and told points never change


def _relative(yvar: Array, scale: float) -> Array:
    """Known noise variances relative to the variance of the values, never below the floor; NaN stays."""
    return np.where(np.isnan(yvar), np.nan, np.maximum(yvar / (scale * scale), NOISE_FLOOR))


def _size(k: int) -> int:
    """The size of scheduled fit k."""
    size = 1
    while scheduled(size)[0] < k:
        size += 1
    return size
