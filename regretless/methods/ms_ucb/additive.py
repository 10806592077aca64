"""A Gaussian process for many coordinates: a stationary part and an additive polynomial trend.

With z the embedded point of `Kernel` (lines as x - 1/2), u = 2 x - 1 over the m lines and phi_k the k-th Legendre
polynomial scaled to mean square 1,

    k(x, x') = base(|z - z'|^2 / l^2) + 1/m sum_k w_k sum_i phi_k(u_i) phi_k(u'_i).

From a few hundred values in a hundred dimensions a stationary kernel alone sees little more than its prior mean; a sum
of one-dimensional polynomials has few enough unknowns to be learnt, and the evidence decides (through w) how much of
the data it explains. l, w, the noise and the signal variance are found by maximum a posteriori on n x n arrays that are
built once: a fit costs O(n^3) whatever the dimension.

`AdditiveSurrogate.gp` is a pure function of its arguments and keeps the schedule of `Surrogate`, so a replayed history
gives the same posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from regretless.gp.gram import factor_with_jitter
from regretless.gp.kernels import Kernel, squared_distances
from regretless.gp.lbfgs import minimise
from regretless.gp.surrogate import FRESH_EVERY, SIZES, agreeing_values, scheduled, softened, standardisation
from regretless.parameters import Array
from regretless.space import Cube

NOISE_FLOOR = 1e-8
SHORTEST, LONGEST = 0.1, 50.0
"""Bounds of l in units of sqrt(D). The lower one keeps a crowd of near points from shrinking l to their own
distances."""
WEIGHTS = (1e-6, 60.0)
"""Bounds of the trend's weights."""
NOISES = (NOISE_FLOOR, 1.0)
FRESH_ROUNDS, WARM_ROUNDS = 40, 15
"""Evaluations of the posterior density in a fresh fit and in a warm one."""
SUBSET = 250
"""Values on which the starts of a fresh fit compete; the best goes on with all of them."""
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
    """The hyper-parameters: l, the weights w of the orders (K), the relative noise."""

    lengthscale: float
    weights: Array
    noise: float


@dataclass(frozen=True, eq=False)
class Places:
    """Points as the kernel sees them: z of the m lines, the embedded choices, and the features of the orders from 2 on
    (n x m each).

    The feature of order 1 is a multiple of the first, so that the distances and the linear trend share one matrix
    product. Where all coordinates are lines, the values of one coordinate lie side by side in `lines`, which the
    subspaces share.
    """

    lines: Array
    choices: Array
    features: tuple[Array, ...]

    @classmethod
    def of(cls, kernel: Kernel, X: Array, orders: int) -> Places:
        m = len(kernel.lines)
        Z = np.subtract(X.T, 0.5, order="C").T if kernel.plain else kernel.embed(X)
        lines = Z[:, :m]
        features = tuple(np.empty(lines.shape) for _ in range(2, orders + 1))
        rows = max(1, CHUNK // max(1, m))
        for i in range(0, len(lines), rows):  # block by block: at 5000 dimensions every temporary counts
            for k, F in enumerate(features, start=2):
                F[i : i + rows] = legendre(2.0 * lines[i : i + rows], k) * (1.0 / math.sqrt(m))
        return cls(lines, Z[:, m:], features)

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
    """The posterior density of (l, w, noise), on n x n arrays only."""

    def __init__(
        self, kernel: Kernel, X: Array, y: Array, known: Array, orders: int, products: tuple[Array, ...] | None = None
    ) -> None:
        self.kernel, self.y, self.known, self.orders = kernel, y, known, orders
        self.products = _own_products(kernel, X, orders) if products is None else products
        self.squared, self.trends = self.products[0], self.products[1:]
        root = math.sqrt(X.shape[1])
        self.centre = np.array([math.sqrt(2.0) + math.log(root), *[-3.0] * orders, math.log(1e-4)])
        self.sd = np.array([math.sqrt(3.0), *[3.0] * orders, 3.0])
        bounds = np.log([(SHORTEST * root, LONGEST * root), *[WEIGHTS] * orders, NOISES])
        self.lower, self.upper = bounds[:, 0], bounds[:, 1]
        self.root = root

    def starts(self) -> Array:
        """Three: a bit of everything, a long length-scale without trend, a middling one with noise."""
        rows = [(0.5, -1.0, 1e-4), (2.0, -8.0, 1e-6), (1.0, -4.0, 1e-2)]
        return np.array(
            [[math.log(length * self.root), *[weight] * self.orders, math.log(noise)] for length, weight, noise in rows]
        )

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
        gradient[1:-1] = [
            0.5 * math.exp(t) * float(np.vdot(inverse, T)) for t, T in zip(theta[1:-1], self.trends, strict=True)
        ]
        gradient[-1] = 0.5 * math.exp(theta[-1]) * float(np.diagonal(inverse)[np.isnan(self.known)].sum())
        slope *= self.squared
        gradient[0] = -math.exp(-2 * theta[0]) * float(np.vdot(inverse, slope))
        away = (theta - self.centre) / self.sd
        return value + 0.5 * float(away @ away), gradient + away / self.sd

    def minimum(self, starts: Array, rounds: int) -> Array:
        """The best theta reached from the starts (k x entries)."""
        thetas, values = minimise(
            self.at,
            np.clip(starts, self.lower, self.upper),
            self.lower,
            self.upper,
            rounds=rounds,
            reach=0.3,
            tolerance=1e-5,
        )
        best: Array = thetas[int(np.argmin(values))]
        return best


def _own_products(kernel: Kernel, X: Array, orders: int) -> tuple[Array, ...]:
    """`Places.products` of points with themselves."""
    places = Places.of(kernel, X, orders)
    return places.products(places, orders)


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
        self.places = Places.of(kernel, X, self.orders)
        A = self._covariance(self._all_products(products))
        A.ravel()[:: len(A) + 1] = self.places.at_zero(shape.weights)
        diagonal = np.diagonal(A) + noise

        def factor(jitter: float) -> tuple[Array, int]:
            A.ravel()[:: len(A) + 1] = diagonal + jitter
            L, info = lapack.dpotrf(A.T, lower=1, clean=0)
            return np.asarray(L), int(info)

        self._L, _ = factor_with_jitter(factor)
        sides = np.zeros((2, len(X)))
        sides[0, : len(y)], sides[1, : len(y)] = (y - offset) / scale, 1.0
        white = self.lower(sides)[:, : len(y)]  # a pending point's whitened residual is 0: it is told its own mean
        self.mean = float(white[0] @ white[1] / (white[1] @ white[1]))
        residual = np.zeros(len(X))
        residual[: len(y)] = white[0] - self.mean * white[1]
        self.alpha = self.upper(residual[None])[0]
        self.signal = (float(residual @ residual) + 1.0) / (len(y) + 1.0)

    def log_evidence(self) -> float:
        """The log density of the standardised values under the fitted process, constant mean and signal variance
        plugged in."""
        n = len(self.y)
        half_log_determinant = float(np.log(np.diagonal(self._L)[:n]).sum())
        squares = self.signal * (n + 1.0) - 1.0
        return -0.5 * squares / self.signal - half_log_determinant - 0.5 * n * math.log(2 * math.pi * self.signal)

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
            query = Places.of(self.kernel, X[i : i + rows], self.orders)
            K[i : i + rows] = self._covariance(query.products(self.places, self.orders))
            prior[i : i + rows] = query.at_zero(self.shape.weights)
        V = self.lower(K)
        return self.mean + K @ self.alpha, self.signal * np.maximum(prior - np.einsum("ij,ij->i", V, V), 0.0)

    def mean_at(self, X: Array) -> Array:
        """Posterior mean alone (q)."""
        rows = max(1, CHUNK // X.shape[1])
        mean = np.empty(len(X))
        for i in range(0, len(X), rows):
            query = Places.of(self.kernel, X[i : i + rows], self.orders)
            mean[i : i + rows] = self._covariance(query.products(self.places, self.orders)) @ self.alpha
        return mean + self.mean

    def mean_var_grad(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both in x (q x d each); coordinates of choices have gradient 0."""
        q, m, w = len(X), len(self.kernel.lines), self.shape.weights
        query = Places.of(self.kernel, X, self.orders)
        squared, *trends = query.products(self.places, self.orders)
        K, slope = self.kernel.base_slope(squared / self.shape.lengthscale**2)
        for weight, T in zip(w, trends, strict=True):
            K += weight * T
        V = self.lower(K)
        variance = self.signal * np.maximum(query.at_zero(w) - np.einsum("ij,ij->i", V, V), 0.0)
        C = np.concatenate(
            [np.broadcast_to(self.alpha, K.shape), self.upper(V)]
        )  # weights of the mean's and of -1/2 the variance's gradient
        S = C * np.concatenate([slope, slope]) * (2.0 / self.shape.lengthscale**2)
        linear = 12.0 / m * w[0] if self.orders else 0.0
        gradient = (
            np.concatenate([query.lines, query.lines]) * S.sum(axis=1)[:, None] + (linear * C - S) @ self.places.lines
        )
        own = linear * query.lines
        U = 2.0 * (X[:, self.kernel.lines] - 0.5)
        for k, (weight, F, G) in enumerate(zip(w[1:], query.features, self.places.features, strict=True), start=2):
            derivative = 2.0 / math.sqrt(m) * weight * legendre_slope(U, k)
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
        orders: of the trend's polynomials, 0 to 4; each beyond the first costs memory for as many numbers as the told
            points have.
        soften: model `softened` values.
        common: products of the points by scheduled size, shared between surrogates that are told the same points, the
            highest order first.
    """

    def __init__(
        self,
        cube: Cube,
        *,
        noise: float | None = None,
        orders: int = 2,
        soften: bool = False,
        common: dict[int, tuple[Array, ...]] | None = None,
    ) -> None:
        if noise is not None and not (noise >= 0 and math.isfinite(noise)):
            raise ValueError(f"noise must be a variance of at least 0 or None, got {noise!r}")
        self.kernel = Kernel(
            "matern52", cube.dim, np.array([axis.levels if axis.categorical else 0 for axis in cube.axes])
        )
        self.noise, self.soften, self._common = noise, soften, common
        self.orders = orders if len(self.kernel.lines) else 0
        self._seen: tuple[Array, Array, Array] = (np.empty((0, cube.dim)), np.empty(0), np.empty(0))
        self._fits: dict[int, Array] = {}  # index of a scheduled fit -> theta
        self._products: tuple[int, tuple[Array, ...]] | None = (
            None  # index of the latest fit, and the products of its points
        )

    def gp(self, X: Array, y: Array, yvar: Array | None = None, pending: Array | None = None) -> AdditiveGP:
        """The posterior for points X (n x d, n >= 1), values y (n) and noise variances yvar (n, NaN unknown), pending
        points (p x d) hallucinated."""
        if len(y) == 0:
            raise ValueError("a surrogate needs at least one value")
        yvar = np.full(len(y), np.nan) if yvar is None else np.asarray(yvar, dtype=np.float64)
        if self.noise is not None:
            yvar = np.where(np.isnan(yvar), self.noise, yvar)
        self._forget_what_differs(X, y, yvar)
        k, size = scheduled(len(y))
        theta = self._fitted(k, size, X, y, yvar)
        if self._products is None or self._products[0] != k:
            self._products = k, self._products_of(X[:size])
        shape = Shape(math.exp(theta[0]), np.exp(theta[1:-1]), math.exp(theta[-1]))
        values, slope = self.seen_as(y, y)
        offset, scale = standardisation(values)
        noise = np.where(np.isnan(yvar), shape.noise, _relative(yvar * slope**2, scale))
        if pending is not None and len(pending):
            X, noise = np.concatenate([X, pending]), np.concatenate([noise, np.full(len(pending), shape.noise)])
        return AdditiveGP(self.kernel, shape, X, values, noise, offset=offset, scale=scale, products=self._products[1])

    def _products_of(self, X: Array) -> tuple[Array, ...]:
        """The products of a scheduled number of points, from the common store where there is one."""
        if self._common is None:
            return _own_products(self.kernel, X, self.orders)
        found = self._common.get(len(X))
        if found is None or len(found) <= self.orders:
            self._common.clear()
            found = self._common[len(X)] = _own_products(self.kernel, X, self.orders)
        return found[: self.orders + 1]

    def seen_as(self, told: Array, y: Array) -> tuple[Array, Array]:
        """Values y (k) as the model of the told ones (n) sees them, and the slope of that map at each (k)."""
        return softened(told, y) if self.soften else (np.array(y), np.ones(len(y)))

    def _fitted(self, k: int, size: int, X: Array, y: Array, yvar: Array) -> Array:
        """theta of scheduled fit k, which has seen `size` values."""
        if k not in self._fits:
            values, slope = self.seen_as(y[:size], y[:size])
            offset, scale = standardisation(values)
            known = _relative(yvar[:size] * slope**2, scale)
            fit = _Fit(
                self.kernel, X[:size], (values - offset) / scale, known, self.orders, self._products_of(X[:size])
            )
            if k % FRESH_EVERY:
                warm = self._fitted(k - 1, SIZES[k - 1], X, y, yvar)
                self._fits[k] = fit.minimum(warm[None], WARM_ROUNDS)
            elif size <= SUBSET:
                self._fits[k] = fit.minimum(fit.starts(), FRESH_ROUNDS)
            else:  # the starts are told apart on a part of the values
                part = np.linspace(0, size - 1, SUBSET).astype(np.intp)
                start = _Fit(self.kernel, X[part], (values[part] - offset) / scale, known[part], self.orders).minimum(
                    fit.starts(), FRESH_ROUNDS
                )
                self._fits[k] = fit.minimum(start[None], FRESH_ROUNDS)
            self._products = k, fit.products
        return self._fits[k]

    def _forget_what_differs(self, X: Array, y: Array, yvar: Array) -> None:
        """Drops what the cache holds about histories of which this one is no continuation."""
        agree = agreeing_values(self._seen, (X, y, yvar))
        self._fits = {k: theta for k, theta in self._fits.items() if SIZES[k] <= agree}
        if self._products is not None and SIZES[self._products[0]] > agree:
            self._products = None
        if len(y) != len(self._seen[1]) or agree < len(y):
            self._seen = X, y.copy(), yvar.copy()  # X is not copied: it may be large, and told points never change


def _relative(yvar: Array, scale: float) -> Array:
    """Known noise variances relative to the variance of the values, never below the floor; NaN stays."""
    return np.where(np.isnan(yvar), np.nan, np.maximum(yvar / (scale * scale), NOISE_FLOOR))
