"""A linearised parametric model plus a Gaussian process for what it misses, with closed-form leave-one-out densities.

    z(x) = f(v_hat, x) + g(x).(v - v_hat) + r(x) + noise,   v - v_hat ~ N(0, a I),   r ~ GP(0, b k),   noise ~ N(0, c)

so the residuals e = z - f(v_hat, X) have covariance K = a G G' + b k(X, X) + c I with G the gradients (n x p). The
amplitudes a, b, the noise c and the length-scales of k (Matern-5/2) are fitted by maximum a posteriori: when the family
is right b fades, when it is wrong a does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from regretless.gp.gram import FIRST_JITTER, factor_with_jitter
from regretless.gp.kernels import Hyper, Kernel, squared_distances
from regretless.gp.lbfgs import minimise
from regretless.parameters import Array

LINEAR_PRIOR = (0.0, 1.0)
"""Centre and sd of log a: v is scaled so that its prior variance is about 1."""
RESIDUAL_PRIOR = (-2.0, 2.0)
"""Centre and sd of log b: a family the user believes in leaves little unexplained."""
NOISE_PRIOR = (2 * math.log(0.05), 1.5)
"""Centre and sd of log c."""
LEAST_NOISE = 2 * math.log(0.003)
LENGTH_SD = 1.0
ROUNDS = 30
WALL = 1e25


@dataclass(frozen=True)
class Shares:
    """Fitted hyper-parameters: variances of the linear part, of the residual process and of the noise, and
    length-scales (d)."""

    linear: float
    residual: float
    noise: float
    lengthscale: Array


def fit_shares(kernel: Kernel, X: Array, G: Array, e: Array) -> Shares:
    """The maximum a posteriori hyper-parameters for residuals e (n) at X (n x d) with gradients G (n x p), from a fixed
    start."""
    Z = kernel.embed(X)
    gram = G @ G.T
    d = kernel.dim
    centre = np.concatenate(
        [[LINEAR_PRIOR[0], RESIDUAL_PRIOR[0], NOISE_PRIOR[0]], np.full(d, math.log(0.5) + 0.5 * math.log(d))]
    )
    sd = np.concatenate([[LINEAR_PRIOR[1], RESIDUAL_PRIOR[1], NOISE_PRIOR[1]], np.full(d, LENGTH_SD)])
    low = np.concatenate([[-14.0, -14.0, LEAST_NOISE], np.full(d, math.log(0.02))])
    high = np.concatenate([[6.0, 6.0, 2.0], np.full(d, math.log(50.0))])

    def function(thetas: Array) -> tuple[Array, Array]:
        pairs = [_negative_log_posterior(kernel, Z, gram, e, theta, centre, sd) for theta in thetas]
        return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])

    size = math.log(max(float(e @ e) / len(e), math.exp(LEAST_NOISE)))
    wrong = centre.copy()
    wrong[1] = np.clip(size, low[1], high[1])  # the second start lets the process explain all residuals
    best, value = minimise(
        function, np.clip(np.stack([centre, wrong]), low, high), low, high, rounds=ROUNDS, reach=0.5, tolerance=1e-6
    )
    theta = best[int(np.argmin(value))]
    return Shares(math.exp(theta[0]), math.exp(theta[1]), math.exp(theta[2]), np.exp(theta[3:]))


def _negative_log_posterior(
    kernel: Kernel, Z: Array, gram: Array, e: Array, theta: Array, centre: Array, sd: Array
) -> tuple[float, Array]:
    n = len(e)
    a, b, c = np.exp(theta[:3])
    inverse = kernel.inverse_scales(Hyper(np.exp(theta[3:]), 0.0))
    W = Z * inverse
    base, slope = kernel.base_slope(squared_distances(W, W))
    K = a * gram + b * base
    K.flat[:: n + 1] += c
    L, info = lapack.dpotrf(K, lower=1, clean=1)
    if info:
        return WALL, np.zeros(len(theta))
    inverse_K, _ = lapack.dpotri(L, lower=1)
    inverse_K = np.tril(inverse_K) + np.tril(inverse_K, -1).T
    alpha = inverse_K @ e
    M = np.outer(alpha, alpha) - inverse_K  # d log-likelihood / d K is M / 2
    off = (theta - centre) / sd
    value = 0.5 * float(e @ alpha) + float(np.log(np.diagonal(L)).sum()) + 0.5 * float(off @ off)
    gradient = off / sd
    gradient[0] -= 0.5 * a * float((M * gram).sum())
    gradient[1] -= 0.5 * b * float((M * base).sum())
    gradient[2] -= 0.5 * c * float(np.trace(M))
    T = M * slope  # d base / d log l_j = slope * (-2) (w_aj - w_bj)^2
    row = T.sum(axis=1)
    per = 2 * (row @ W**2) - 2 * np.einsum("aj,aj->j", W, T @ W)
    owned = np.zeros(kernel.dim)
    np.add.at(owned, kernel.owner, per)
    gradient[3:] += b * owned
    return value, gradient


class Hybrid:
    """The posterior of the module's text at data X (n x d), G (n x p), e (n), with pending rows conditioned on without
    values.

    `weight` are relative inverse noise variances of the rows.
    """

    def __init__(
        self,
        kernel: Kernel,
        shares: Shares,
        X: Array,
        G: Array,
        e: Array,
        weight: Array,
        pending: tuple[Array, Array] | None = None,
    ) -> None:
        self.kernel, self.shares, self.n = kernel, shares, len(e)
        noise = shares.noise / weight
        if pending is not None and len(pending[0]):
            X, G = np.vstack([X, pending[0]]), np.vstack([G, pending[1]])
            noise = np.append(noise, np.full(len(pending[0]), shares.noise))
        self._G = G
        self._inverse = kernel.inverse_scales(Hyper(shares.lengthscale, 0.0))
        self._W = kernel.embed(X) * self._inverse
        K = shares.linear * (G @ G.T) + shares.residual * kernel.base(squared_distances(self._W, self._W))
        diagonal = np.diagonal(K) + noise

        def factor(jitter: float) -> tuple[Array, int]:
            K.flat[:: len(K) + 1] = diagonal + jitter
            L, info = lapack.dpotrf(K, lower=1, clean=1)
            return np.asarray(L), int(info)

        self._L, _ = factor_with_jitter(factor, first=FIRST_JITTER * float(diagonal.max()))
        L = self._L
        white = lapack.dtrtrs(L[: self.n, : self.n], e, lower=1)[0]
        # a pending row is told its own posterior mean: its whitened residual is 0
        self._alpha = lapack.dtrtrs(L, np.append(white, np.zeros(len(L) - self.n)), lower=1, trans=1)[0]

    def correction(self, U: Array, G: Array) -> tuple[Array, Array]:
        """What is added to f(v_hat, x) (q) and the posterior standard deviation (q) at U (q x d) with gradients G (q x
        p)."""
        W = self.kernel.embed(U) * self._inverse
        C = self.shares.linear * (G @ self._G.T) + self.shares.residual * self.kernel.base(
            squared_distances(W, self._W)
        )
        half = lapack.dtrtrs(self._L, C.T, lower=1)[0]
        prior = self.shares.linear * np.einsum("ij,ij->i", G, G) + self.shares.residual
        variance = prior - np.einsum("ij,ij->j", half, half)
        return C @ self._alpha, np.sqrt(np.maximum(variance, 0.0))

    def leave_one_out(self) -> Array:
        """The log density of every e given the others, n; only meaningful without pending rows."""
        inverse = lapack.dpotri(self._L, lower=1)[0]
        return leave_one_out_density(self._alpha, np.diagonal(inverse))


def leave_one_out_density(alpha: Array, precision: Array) -> Array:
    """log N(z_i; prediction without i) from alpha = K^-1 z and the diagonal of K^-1 (Rasmussen and Williams 2006, Eq.
    5.10-5.12), n."""
    density: Array = 0.5 * np.log(precision) - 0.5 * alpha**2 / precision - 0.5 * math.log(2 * math.pi)
    return density
