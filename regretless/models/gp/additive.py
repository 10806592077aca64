"""A Gaussian process for many coordinates: a stationary kernel plus an additive polynomial trend.

A coordinate that is no choice is called a line; m of them are counted, and u = 2 x - 1 on each. phi_1 and phi_2 are the
Legendre polynomials of order 1 and 2, scaled to mean square 1 on [-1, 1]. With z the embedded point of `Kernel`,

    k(x, x') = base(|z - z'|^2 / l^2) + 1/m sum over k = 1, 2 of w_k sum over the lines i of phi_k(u_i) phi_k(u'_i).

A few hundred values in a hundred dimensions tell a stationary kernel little more than the mean; a sum of parabolas can
be learnt from them. l, the weights and the noise are fitted by maximum a posteriori on n x n arrays that are built
once, so a fit costs O(n^3) whatever the dimension. Refits follow the schedule of `Surrogate`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from regretless.basics.options import in_range
from regretless.basics.statefile import State
from regretless.models.gp.fit import WALL
from regretless.models.gp.kernels import Kernel, kernel_of, squared_distances
from regretless.models.gp.lbfgs import minimise, row_by_row
from regretless.models.gp.posterior import factor_with_jitter, in_units_of, profiled
from regretless.models.gp.surrogate import (
    MOST_FITTED,
    SIZES,
    agreeing_values,
    compressed,
    is_fresh,
    scheduled,
    standardisation,
)
from regretless.space import Cube
from regretless.space.parameters import Array

ORDERS = 2  # orders of the trend's polynomials; each costs memory for as many numbers as the told points have
LENGTHSCALES = (0.1, 50.0)  # bounds of l by the root of the dimension; our choice, so that close points do not shrink l
WEIGHTS = (1e-6, 60.0)  # bounds of the trend's weights: from none to sixty times the variance of the stationary part
NOISES = (1e-8, 1.0)  # bounds of the noise variance relative to the signal variance: from lost digits to mostly noise
LENGTHSCALE_PRIOR = (math.sqrt(2.0), math.sqrt(3.0))
"""Centre and sd of the normal prior on log l less half the logarithm of the dimension (Hvarfner et al., ICML 2024)."""
WEIGHT_PRIOR = (-3.0, 3.0)  # centre and sd of the normal prior on the logarithm of each weight; broad: values decide
NOISE_PRIOR = (math.log(1e-4), 3.0)  # the same for the relative noise
STARTS = ((0.5, -1.0, 1e-4), (2.0, -8.0, 1e-6), (1.0, -4.0, 1e-2))
"""Where a fresh fit starts (l / sqrt(d), log weights, noise): a strong trend, none, a weak one; our choice."""
FRESH_ROUNDS, WARM_ROUNDS = 40, 15  # evaluations of a fit from `STARTS`, and of one from the fit before; our choice
REACH, TOLERANCE = 0.3, 1e-5  # the first step of a fit in theta, and where it ends (see `minimise`); our choice
SUBSET = 250  # values on which the starts of a fresh fit are compared, because a fit costs O(n^3); our choice
LARGEST_LOG = 50.0  # every logarithm that a fit can find is smaller than this
CHUNK = 2**20  # numbers in one temporary array (8 MB)


def legendre(U: Array, k: int) -> Array:
    """phi_k at U in [-1, 1], k = 1 or 2."""
    if k == 1:
        return math.sqrt(3) * U
    square = U * U
    square *= 1.5 * math.sqrt(5)
    square -= 0.5 * math.sqrt(5)
    return square


def legendre_slope(U: Array, k: int) -> Array:
    """The derivative of phi_k at U."""
    return np.full_like(U, math.sqrt(3)) if k == 1 else 3 * math.sqrt(5) * U


@dataclass(frozen=True, eq=False)
class AdditiveHyper:
    """The hyper-parameters: the length-scale l, the weights w (2, or 0 without a trend), the relative noise."""

    lengthscale: float
    weights: Array
    noise: float


@dataclass(frozen=True, eq=False)
class EmbeddedPoints:
    """Points as the kernel sees them: x - 1/2 on the lines (n x m), embedded choices (n x c), phi_2 / sqrt(m) (n x m)
    or None without a trend. phi_1 is a multiple of the first, so distances and the linear trend share one product.
    Where all coordinates are lines, those of one coordinate are contiguous, as `subspace.py` needs them."""

    lines: Array
    choices: Array
    quadratic: Array | None

    @classmethod
    def of(cls, kernel: Kernel, X: Array, trend: bool) -> EmbeddedPoints:
        m = len(kernel.lines)
        Z = np.subtract(X.T, 0.5, order="C").T if kernel.plain else kernel.embed(X)
        lines = Z[:, :m]
        if not trend:
            return cls(lines, Z[:, m:], None)
        quadratic, rows = np.empty(lines.shape), max(1, CHUNK // m)
        for i in range(0, len(lines), rows):
            quadratic[i : i + rows] = legendre(2.0 * lines[i : i + rows], 2) * (1.0 / math.sqrt(m))
        return cls(lines, Z[:, m:], quadratic)

    def __len__(self) -> int:
        return len(self.lines)

    def from_row(self, start: int) -> EmbeddedPoints:
        """The points from number `start` on."""
        quadratic = None if self.quadratic is None else self.quadratic[start:]
        return EmbeddedPoints(self.lines[start:], self.choices[start:], quadratic)

    def products(self, other: EmbeddedPoints) -> tuple[Array, ...]:
        """Squared distances between these points and the other ones, then the trend of each order, a x b each."""
        inner = self.lines @ other.lines.T
        squared = -2.0 * inner
        squared += np.einsum("ij,ij->i", self.lines, self.lines)[:, None]
        squared += np.einsum("ij,ij->i", other.lines, other.lines)
        np.maximum(squared, 0.0, out=squared)
        if self.choices.shape[1]:
            squared += squared_distances(self.choices, other.choices)
        if self.quadratic is None or other.quadratic is None:
            return (squared,)
        inner *= 12.0 / self.lines.shape[1]  # phi_1(u) = sqrt(3) u and u = 2 z
        return squared, inner, self.quadratic @ other.quadratic.T

    def at_zero(self, weights: Array) -> Array:
        """k(x, x), n."""
        prior = np.ones(len(self.lines))
        if self.quadratic is not None:
            prior += 12.0 / self.lines.shape[1] * weights[0] * np.einsum("ij,ij->i", self.lines, self.lines)
            prior += weights[1] * np.einsum("ij,ij->i", self.quadratic, self.quadratic)
        return prior


class NegativeLogDensity:
    """The negative log posterior density of theta = (log l, log w, log noise), up to a constant, for standardised y
    (n), relative noise variances (n, NaN unknown) and `EmbeddedPoints.products` of the points with themselves."""

    def __init__(self, kernel: Kernel, y: Array, known: Array, products: tuple[Array, ...], dim: int) -> None:
        self.kernel, self.y, self.known = kernel, y, known
        self.squared, self.trends = products[0], products[1:]
        self.root = math.sqrt(dim)
        shift = math.log(self.root)
        priors = [(LENGTHSCALE_PRIOR[0] + shift, LENGTHSCALE_PRIOR[1]), *[WEIGHT_PRIOR] * len(self.trends), NOISE_PRIOR]
        self.centre, self.sd = np.array(priors).T
        lengths = (LENGTHSCALES[0] * self.root, LENGTHSCALES[1] * self.root)
        self.lower, self.upper = np.log([lengths, *[WEIGHTS] * len(self.trends), NOISES]).T

    def starts(self) -> Array:
        """theta of each of the `STARTS`, 3 x entries."""
        trends = len(self.trends)
        rows = [[math.log(length * self.root), *[weight] * trends, math.log(noise)] for length, weight, noise in STARTS]
        return np.array(rows)

    def at(self, theta: Array) -> tuple[float, Array]:
        """The value and its gradient; the mean and the signal variance are profiled out."""
        n = len(self.y)
        K, slope = self.kernel.base_slope(self.squared * math.exp(-2 * theta[0]))
        for w, T in zip(np.exp(theta[1:-1]), self.trends, strict=True):
            K += w * T
        K.ravel()[:: n + 1] += np.where(np.isnan(self.known), math.exp(theta[-1]), self.known)
        L, info = lapack.dpotrf(K, lower=1, clean=0, overwrite_a=0)
        if info:
            return WALL, np.zeros(len(theta))
        inverse = lapack.dpotri(L, lower=1)[0]
        i, j = np.triu_indices(n, 1)
        inverse[i, j] = inverse[j, i]
        ones = inverse.sum(axis=1)
        mean = float(ones @ self.y) / float(ones.sum())
        alpha = inverse @ self.y - mean * ones
        s2 = (float((self.y - mean) @ alpha) + 1.0) / (n + 1.0)
        value = 0.5 * (n + 1.0) * math.log(s2) + float(np.log(np.diagonal(L)).sum())
        inverse -= np.multiply.outer(alpha / s2, alpha)  # twice the derivative of the value in the covariance
        gradient = np.empty(len(theta))
        for k, T in enumerate(self.trends, start=1):
            gradient[k] = 0.5 * math.exp(theta[k]) * float(np.vdot(inverse, T))
        gradient[-1] = 0.5 * math.exp(theta[-1]) * float(np.diagonal(inverse)[np.isnan(self.known)].sum())
        slope *= self.squared
        gradient[0] = -math.exp(-2 * theta[0]) * float(np.vdot(inverse, slope))
        away = (theta - self.centre) / self.sd
        return value + 0.5 * float(away @ away), gradient + away / self.sd

    def minimum(self, starts: Array, rounds: int) -> Array:
        """The best theta reached from the starts (k x entries)."""
        starts = np.clip(starts, self.lower, self.upper)
        bounds, function = (self.lower, self.upper), row_by_row(self.at)
        thetas, values = minimise(function, starts, *bounds, rounds=rounds, reach=REACH, tolerance=TOLERANCE)
        return np.asarray(thetas[int(np.argmin(values))])


class AdditiveGP:
    """The posterior in standardised units (value = offset + scale * standardised). X holds the told points and after
    them pending ones, which are hallucinated; `noise` is relative; `products` are those known from the fit."""

    def __init__(
        self,
        kernel: Kernel,
        hyper: AdditiveHyper,
        X: Array,
        y: Array,
        noise: Array,
        *,
        offset: float,
        scale: float,
        products: tuple[Array, ...] | None = None,
    ) -> None:
        self.kernel, self.hyper, self.X, self.y, self.n = kernel, hyper, X, y, len(y)
        self.offset, self.scale = offset, scale
        self.points = self.embed(X)
        A = self._covariance(self._all_products(products))
        A.ravel()[:: len(A) + 1] = self.points.at_zero(hyper.weights)
        diagonal = np.diagonal(A) + noise

        def factor(jitter: float) -> tuple[Array, int]:
            A.ravel()[:: len(A) + 1] = diagonal + jitter
            L, info = lapack.dpotrf(A.T, lower=1, clean=0)
            return np.asarray(L), int(info)

        self._L, _ = factor_with_jitter(factor)
        self.mean, residual, self.signal = profiled(self.lower, (y - offset) / scale, len(X))
        self.alpha = self.upper(residual[None])[0]

    def embed(self, X: Array) -> EmbeddedPoints:
        """Points X (q x d) as the kernel sees them."""
        return EmbeddedPoints.of(self.kernel, X, len(self.hyper.weights) > 0)

    def _all_products(self, known: tuple[Array, ...] | None) -> tuple[Array, ...]:
        """The products of all points with themselves; those of the first points are taken over where they are known."""
        if known is None:
            return self.points.products(self.points)
        n = len(known[0])
        if n == len(self.points):
            return known
        rows = self.points.from_row(n).products(self.points)
        return tuple(np.block([[old, new[:, :n].T], [new]]) for old, new in zip(known, rows, strict=True))

    def _covariance(self, products: tuple[Array, ...]) -> Array:
        K = self.kernel.base(products[0] / self.hyper.lengthscale**2)
        for w, T in zip(self.hyper.weights, products[1:], strict=True):
            K += w * T
        return K

    def lower(self, R: Array) -> Array:
        """L^-1 applied to each row of R, q x n."""
        return np.asarray(blas.dtrsm(1.0, self._L, R.T, lower=1).T)

    def upper(self, V: Array) -> Array:
        """L^-T applied to each row of V, q x n."""
        return np.asarray(blas.dtrsm(1.0, self._L, V.T, lower=1, trans_a=1).T)

    def mean_var(self, X: Array) -> tuple[Array, Array]:
        """Posterior mean (q) and variance (q) of the function at X (q x d)."""
        K, prior = self._cross_covariance(X)
        V = self.lower(K)
        return self.mean + K @ self.alpha, self.signal * np.maximum(prior - np.einsum("ij,ij->i", V, V), 0.0)

    def mean_at(self, X: Array) -> Array:
        """Posterior mean alone (q)."""
        rows = max(1, CHUNK // X.shape[1])
        parts = [self._cross_covariance(X[i : i + rows])[0] @ self.alpha for i in range(0, len(X), rows)]
        return np.concatenate([*parts, np.empty(0)]) + self.mean

    def _cross_covariance(self, X: Array) -> tuple[Array, Array]:
        """k between X (q x d) and the points of the posterior (q x n), and k(x, x) (q)."""
        rows = max(1, CHUNK // X.shape[1])
        K, prior = np.empty((len(X), len(self.points))), np.empty(len(X))
        for i in range(0, len(X), rows):
            query = self.embed(X[i : i + rows])
            K[i : i + rows] = self._covariance(query.products(self.points))
            prior[i : i + rows] = query.at_zero(self.hyper.weights)
        return K, prior

    def mean_var_grad(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both in x (q x d each); coordinates of choices have gradient 0."""
        q, m, w = len(X), len(self.kernel.lines), self.hyper.weights
        query = self.embed(X)
        squared, *trends = query.products(self.points)
        K, slope = self.kernel.base_slope(squared / self.hyper.lengthscale**2)
        for weight, T in zip(w, trends, strict=True):
            K += weight * T
        V = self.lower(K)
        variance = self.signal * np.maximum(query.at_zero(w) - np.einsum("ij,ij->i", V, V), 0.0)
        # weights of the points in the gradient of the mean, then in that of -1/2 the variance, 2 q x n
        C = np.concatenate([np.broadcast_to(self.alpha, K.shape), self.upper(V)])
        S = C * np.concatenate([slope, slope]) * (2.0 / self.hyper.lengthscale**2)
        linear = 12.0 / m * w[0] if len(w) else 0.0
        gradient = np.concatenate([query.lines, query.lines]) * S.sum(axis=1)[:, None]
        gradient += (linear * C - S) @ self.points.lines
        own = linear * query.lines  # half the gradient of k(x, x)
        if query.quadratic is not None:
            derivative = 2.0 / math.sqrt(m) * w[1] * legendre_slope(2.0 * (X[:, self.kernel.lines] - 0.5), 2)
            gradient += np.concatenate([derivative, derivative]) * (C @ self.points.quadratic)
            own += derivative * query.quadratic
        by_mean, by_variance = np.zeros((q, self.kernel.dim)), np.zeros((q, self.kernel.dim))
        by_mean[:, self.kernel.lines] = gradient[:q]
        by_variance[:, self.kernel.lines] = 2.0 * self.signal * (own - gradient[q:])
        return self.mean + K @ self.alpha, variance, by_mean, by_variance


class AdditiveSurrogate:
    """Fits this module's process to a history, on the schedule of `Surrogate`.

    Args:
        noise_var: a known noise variance of all values in their own units, or None to fit it.
        trend: add the polynomial trend.
        compress: model `compressed` values.
        shared_products: points and their products by scheduled size, for surrogates told the same points; that with a
            trend is asked first.
    """

    def __init__(
        self,
        cube: Cube,
        *,
        noise_var: float | None = None,
        trend: bool = True,
        compress: bool = False,
        shared_products: dict[int, tuple[Array, tuple[Array, ...]]] | None = None,
    ) -> None:
        in_range("[0, inf) or None", noise_var=noise_var)
        self.kernel = kernel_of(cube, "matern52")
        self.noise_var, self.compress, self.trend = noise_var, compress, trend and len(self.kernel.lines) > 0
        self._shared = {} if shared_products is None else shared_products
        self._seen: tuple[Array, Array, Array] = (np.empty((0, cube.dim)), np.empty(0), np.empty(0))
        self._fits: dict[int, Array] = {}  # index of a scheduled fit -> theta
        self._products: tuple[int, tuple[Array, ...]] | None = None  # index of the latest fit, products of its points

    def gp(self, X: Array, y: Array, yvar: Array | None = None, pending: Array | None = None) -> AdditiveGP:
        """The posterior for X (n x d), y (n >= 1), noise variances yvar (n, NaN unknown) and pending points (p x d)."""
        if len(y) == 0:
            raise ValueError("a surrogate needs at least one value")
        yvar = self._take_in(X, y, yvar)
        k, size = scheduled(len(y))
        theta = self._theta(k, size, X, y, yvar)
        if self._products is None or self._products[0] != k:
            self._products = k, self._products_of(X[:size])
        hyper = AdditiveHyper(math.exp(theta[0]), np.exp(theta[1:-1]), math.exp(theta[-1]))
        values, slope = self.seen_as(y, y)
        offset, scale = standardisation(values)
        known = _relative(yvar * slope**2, scale)
        noise = np.where(np.isnan(known), hyper.noise, known)
        if pending is not None and len(pending):
            X, noise = np.concatenate([X, pending]), np.concatenate([noise, np.full(len(pending), hyper.noise)])
        return AdditiveGP(self.kernel, hyper, X, values, noise, offset=offset, scale=scale, products=self._products[1])

    def _products_of(self, X: Array) -> tuple[Array, ...]:
        """The products of a scheduled number of points with themselves, from the shared ones where they are there."""
        count = 1 + ORDERS * self.trend
        at, found = self._shared.get(len(X), (X, ()))
        if len(found) < count or not np.array_equal(at, X):
            points = EmbeddedPoints.of(self.kernel, X, self.trend)
            found = points.products(points)
            self._shared.clear()
            self._shared[len(X)] = X, found
        return found[:count]

    def seen_as(self, told: Array, y: Array) -> tuple[Array, Array]:
        """Values y (k) as the model of the told ones (n) sees them, and the slope of that map at each (k)."""
        return compressed(told, y) if self.compress else (np.array(y), np.ones(len(y)))

    def _theta(self, k: int, size: int, X: Array, y: Array, yvar: Array) -> Array:
        """theta of scheduled fit k, which has seen `size` values."""
        if k not in self._fits:
            values, slope = self.seen_as(y[:size], y[:size])
            offset, scale = standardisation(values)
            standard, known = (values - offset) / scale, _relative(yvar[:size] * slope**2, scale)
            products, kept = self._products_of(X[:size]), np.arange(size)
            if size > MOST_FITTED:
                kept = np.linspace(0, size - 1, MOST_FITTED).astype(np.intp)
                products = tuple(product[np.ix_(kept, kept)] for product in products)
            density = NegativeLogDensity(self.kernel, standard[kept], known[kept], products, X.shape[1])
            if not is_fresh(k):
                starts, rounds = self._theta(k - 1, SIZES[k - 1], X, y, yvar)[None], WARM_ROUNDS
            else:
                starts, rounds = density.starts(), FRESH_ROUNDS
                if size > SUBSET:
                    part = np.linspace(0, size - 1, SUBSET).astype(np.intp)
                    points = EmbeddedPoints.of(self.kernel, X[part], self.trend)
                    fewer = (standard[part], known[part], points.products(points))
                    starts = NegativeLogDensity(self.kernel, *fewer, X.shape[1]).minimum(starts, rounds)[None]
            self._fits[k] = density.minimum(starts, rounds)
            self._products = k, self._products_of(X[:size])
        return self._fits[k]

    def latest_fit(self, X: Array, y: Array, yvar: Array) -> State:
        """As `Surrogate.latest_fit`."""
        self._take_in(X, y, yvar)
        return {"size": SIZES[max(self._fits)], "theta": self._fits[max(self._fits)].copy()} if self._fits else {}

    def take_fit(self, X: Array, y: Array, yvar: Array, state: Mapping[str, Any]) -> None:
        """As `Surrogate.take_fit`."""
        try:
            size, theta = int(state["size"]), np.array(state["theta"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: the fit of the model is not readable ({error!r})") from None
        fits = 1 <= size <= len(y) and size == scheduled(size)[1] and theta.shape == (2 + ORDERS * self.trend,)
        if not fits or not (np.abs(theta) < LARGEST_LOG).all():
            raise ValueError(f"the state is damaged: it holds no fit of this model to {len(y)} values")
        self._take_in(X, y, yvar)
        self._fits[scheduled(size)[0]] = theta

    def _take_in(self, X: Array, y: Array, yvar: Array | None) -> Array:
        """The noise variances as they are modelled; drops what the cache holds about histories of which this one is no
        continuation."""
        yvar = np.full(len(y), np.nan) if yvar is None else np.asarray(yvar, dtype=np.float64)
        if self.noise_var is not None:
            yvar = np.where(np.isnan(yvar), self.noise_var, yvar)
        agree = agreeing_values(self._seen, (X, y, yvar))
        self._fits = {k: theta for k, theta in self._fits.items() if SIZES[k] <= agree}
        if self._products is not None and SIZES[self._products[0]] > agree:
            self._products = None
        if len(y) != len(self._seen[1]) or agree < len(y):
            self._seen = X, y.copy(), yvar.copy()  # X is not copied: it may be large, and told points never change
        return yvar


def _relative(yvar: Array, scale: float) -> Array:
    """Known noise variances relative to the variance of the values, never below the floor; NaN stays."""
    return np.where(np.isnan(yvar), np.nan, np.maximum(in_units_of(scale, yvar), NOISES[0]))
