"""Fits the hyper-parameters of a Gaussian process by maximum a posteriori, with analytic gradients.

Values are standardised. The constant mean is profiled out, and so is the signal variance where no noise variance is
known. Minimised over the free entries of theta = (log l, log noise, log q, log signal), beside a normal prior on each:

    profiled signal:  (n + 1)/2 log(S / (n + 1)) + 1/2 log|A|,            S = (y - m)'A^-1(y - m) + 1
    given signal s2:  (y - m)'A^-1(y - m) / (2 s2) + 1/2 log|A| + n/2 log s2

Both have the gradient -1/2 sum M * dA/dtheta with M = alpha alpha' / s2 - A^-1. One evaluation takes about n^3
multiply-adds and two n x n arrays, because length-scale gradients are products with W = M * dK/dr^2, strictly lower:

    sum_ab W_ab (z_aj - z_bj)^2 = sum_a z_aj^2 (row_a + column_a) - 2 sum_a z_aj (W z)_aj
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from regretless.models.gp.kernels import BLOCK, Hyper, Kernel, blocks, squared_distances
from regretless.models.gp.lbfgs import minimise, row_by_row
from regretless.space.parameters import Array

NOISE_BOUNDS = (1e-8, 10.0)  # relative noise: below, factors of near-duplicates lose all digits; above, all is noise
QUADRATIC_BOUNDS = (1e-6, 1e4)  # the weight of the trend: below, it is none; above, the process beside it is none
SIGNAL_BOUNDS = (1e-3, 1e4)  # the signal variance of standardised values, 1 a priori
WALL = 1e25  # the value of a theta whose covariance cannot be factorised: larger than any other, and finite
START_SHIFTS = (0.0, -1.5, 1.0)  # the starts of a fresh fit, off the prior's centre of the log length-scales (sd 1)


@dataclass(frozen=True)
class Prior:
    """Normal priors (centre, sd) on the logarithms of the hyper-parameters, and what is free; one (a - b^2, b) has its
    mode where a log-normal density in the parameter itself, with location a and sd b, has it."""

    lengthscale: tuple[float, float]
    shared: float = 0.0  # the sd of a shift common to all log length-scales; an isotropic one has both sds
    noise: tuple[float, float] | None = (-6.0 * math.log(10.0), math.log(10.0))
    """None: the relative noise is fixed at its floor."""
    quadratic: tuple[float, float] | None = (-2.0, 2.0)  # None: no quadratic trend
    signal: tuple[float, float] | None = (0.0, 2.0)  # used only where the signal is not profiled out; None: fixed at 1
    lengthscale_bounds: tuple[float, float] = (0.005, 50.0)
    noise_bounds: tuple[float, float] = NOISE_BOUNDS
    profile: bool = True  # profile the signal out where no noise variance is known

    @classmethod
    def scaled(cls, dim: int, *, quadratic: bool = True) -> Prior:
        """The default: length-scales grow with the root of the dimension, as distances in the cube do. Each has log-sd
        1, with correlation 1 - sqrt(5 / d): were they independent, the prior would settle the scale d times over."""
        centre = math.log(0.5) + 0.5 * math.log(dim)
        # 5: up to this dimension length-scales are independent a priori; others: docs/lab/gp-engine.md
        own = math.sqrt(min(1.0, math.sqrt(5 / dim)))
        bounds = (0.005, 50.0 * max(1.0, math.sqrt(dim) / 4.0))
        shared, trend = math.sqrt(1.0 - own * own), (-2.0, 2.0) if quadratic else None
        return cls(lengthscale=(centre, own), shared=shared, quadratic=trend, lengthscale_bounds=bounds)


class NegativeLogPosterior:
    """The negative log posterior of theta for X (n x d), standardised y (n), noise variances yvar (n, NaN unknown)."""

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        y: Array,
        yvar: Array | None,
        prior: Prior,
        *,
        ard: bool,
        rotation: Array | None = None,
    ) -> None:
        self.kernel, self.y, self.prior, self.ard, self.rotation = kernel, y, prior, ard, rotation
        self.Z = kernel.embed(X, rotation)
        n = self.n = len(y)
        self.yvar = np.full(n, np.nan) if yvar is None else yvar
        self.unknown = np.isnan(self.yvar)
        self.profile = bool(self.unknown.all()) and prior.profile
        self.scales = kernel.dim if ard else 1
        common, own = prior.shared**2, prior.lengthscale[1] ** 2
        self.share = common / (own + self.scales * common) if ard else 0.0
        scale_prior = prior.lengthscale if ard else (prior.lengthscale[0], math.sqrt(own + common))
        entries = [(scale_prior, prior.lengthscale_bounds)] * self.scales
        self.at_noise = self.at_quadratic = self.at_signal = -1
        if prior.noise is not None and self.unknown.any():
            self.at_noise = len(entries)
            entries.append((prior.noise, prior.noise_bounds))
        if prior.quadratic is not None:
            self.at_quadratic = len(entries)
            entries.append((prior.quadratic, QUADRATIC_BOUNDS))
        if prior.signal is not None and not self.profile:
            self.at_signal = len(entries)
            entries.append((prior.signal, SIGNAL_BOUNDS))
        self.centre, self.sd = (np.array(c) for c in zip(*(e[0] for e in entries), strict=True))
        self.lower, self.upper = (np.log(np.array(b)) for b in zip(*(e[1] for e in entries), strict=True))
        self._A, self._slope = np.empty((n, n)), np.empty((n, n))
        self._distance = None if ard else self._squared()
        self._sides = np.empty((2, n))
        self._not_below = np.triu(np.ones((min(n, BLOCK), min(n, BLOCK)), dtype=bool))
        """Which entries of a block on the diagonal are on it or above it."""
        self._trend: Array | None = None

    def _squared(self) -> Array:
        D = np.empty((self.n, self.n))
        for i, j in blocks(self.n):
            D[i:j, :j] = squared_distances(self.Z[i:j], self.Z[:j])
        return D

    def _squared_trend(self, i: int, j: int) -> Array:
        """(1 + u.u')^2 of a block; kept between evaluations while there is one block only."""
        if self._trend is not None:
            return self._trend
        t = self.kernel.trend(self.Z[i:j], self.Z[:j])
        t *= t
        if j - i == self.n:
            self._trend = t
        return t

    def hyper(self, theta: Array) -> Hyper:
        noise = math.exp(theta[self.at_noise]) if self.at_noise >= 0 else self.prior.noise_bounds[0]
        q = math.exp(theta[self.at_quadratic]) if self.at_quadratic >= 0 else 0.0
        s2 = math.exp(theta[self.at_signal]) if self.at_signal >= 0 else 1.0
        return Hyper(np.exp(theta[: self.scales]), noise, s2, q, self.rotation)

    def theta(self, hyper: Hyper) -> Array:
        """The free entries of hyper-parameters, within bounds; what they do not hold is at the centre of its prior."""
        out = self.centre.copy()
        scales = np.log(hyper.lengthscale)
        out[: self.scales] = scales if scales.size in (1, self.scales) else scales.mean()
        places = (self.at_noise, self.at_quadratic, self.at_signal)
        for at, value in zip(places, (hyper.noise, hyper.quadratic, hyper.signal), strict=True):
            if at >= 0 and value > 0:
                out[at] = math.log(value)
        return np.asarray(np.clip(out, self.lower, self.upper))

    def minimise(self, starts: Array, rounds: int) -> tuple[Array, Array]:
        """Local minima from each start (t x entries) after `rounds` evaluations each, and their values (t)."""
        bounds, function = (self.lower, self.upper), row_by_row(self.one)
        # 0.3, 1e-7: the largest first step in theta, and the relative decrease at which a fit rests
        return minimise(function, starts, *bounds, rounds=rounds, reach=0.3, tolerance=1e-7)

    def one(self, theta: Array) -> tuple[float, Array]:
        kernel, n, y = self.kernel, self.n, self.y
        hyper = self.hyper(theta)
        q, s2 = hyper.quadratic, hyper.signal
        W = self.Z * kernel.inverse_scales(hyper)
        noise = np.where(self.unknown, hyper.noise, np.maximum(self.yvar / s2, self.prior.noise_bounds[0]))
        A, slope = self._A, self._slope
        for i, j in blocks(n):
            if self._distance is None:
                r2 = squared_distances(W[i:j], W[:j])
            else:
                r2 = self._distance[i:j, :j] / hyper.lengthscale[0] ** 2
            A[i:j, :j], slope[i:j, :j] = kernel.base_slope(r2)
            if q:
                A[i:j, :j] += (q / 4.0) * self._squared_trend(i, j)
        at_zero = kernel.at_zero(self.Z, q)
        A.ravel()[:: n + 1] = at_zero + noise
        U, info = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        if info:
            return WALL, np.zeros(len(theta))
        log_det = 2.0 * float(np.log(np.diagonal(U)).sum())
        self._sides[0], self._sides[1] = y, 1.0
        white = blas.dtrsm(1.0, U, self._sides.T, lower=0, trans_a=1)  # n x 2
        a, b = white[:, 0], white[:, 1]
        r = a - (a @ b) / (b @ b) * b
        squares = float(r @ r)
        alpha = blas.dtrsv(U, r, lower=0)
        if self.profile:
            s2 = (squares + 1.0) / (n + 1.0)
            value = 0.5 * (n + 1.0) * math.log(s2) + 0.5 * log_det
        else:
            value = 0.5 * squares / s2 + 0.5 * log_det + 0.5 * n * math.log(s2)
        inverse = lapack.dpotri(U, lower=0, overwrite_c=1)[0].T  # lower triangle of A^-1, in place of A
        gradient = self._gradient(theta, hyper, W, noise, alpha / math.sqrt(s2), inverse, at_zero)
        if self.at_signal >= 0:
            gradient[self.at_signal] += 0.5 * n - 0.5 * squares / s2
        away = theta - self.centre
        pull = away / (self.sd * self.sd)
        if self.share:  # the precision of s^2 11' + t^2 I is (I - share 11') / t^2
            pull[: self.scales] -= self.share * pull[: self.scales].sum()
        return value + 0.5 * float(away @ pull), gradient + pull

    def _gradient(
        self, theta: Array, hyper: Hyper, W: Array, noise: Array, alpha: Array, inverse: Array, at_zero: Array
    ) -> Array:
        """-1/2 sum M * dA/dtheta with M = alpha alpha' - inverse (alpha already divided by sqrt(s2))."""
        n, q, gradient = self.n, hyper.quadratic, np.zeros(len(theta))
        M_ii = alpha * alpha - np.diagonal(inverse)
        sums, product, radial, trend = np.zeros(n), np.empty(W.shape), 0.0, 0.0
        for i, j in blocks(n):
            M = np.multiply.outer(alpha[i:j], alpha[:j])
            M -= inverse[i:j, :j]
            np.copyto(M[:, i:j], 0.0, where=self._not_below[: j - i, : j - i])
            if q:
                trend += float(np.vdot(M, self._squared_trend(i, j)))
            M *= self._slope[i:j, :j]
            if self._distance is not None:
                radial += float(np.vdot(M, self._distance[i:j, :j]))
                continue
            sums[i:j] += M.sum(axis=1)
            sums[:j] += M.sum(axis=0)
            product[i:j] = M @ W[:j]
        if self._distance is not None:
            gradient[0] = 2.0 * radial / hyper.lengthscale[0] ** 2
        else:
            per_column = 2.0 * (sums @ (W * W) - 2.0 * np.einsum("ij,ij->j", W, product))
            gradient[: self.scales] = np.bincount(self.kernel.owner, weights=per_column, minlength=self.scales)
        if self.at_noise >= 0:
            gradient[self.at_noise] = -0.5 * hyper.noise * float(M_ii[self.unknown].sum())
        if self.at_quadratic >= 0:
            gradient[self.at_quadratic] = -q / 4.0 * trend - 0.5 * float(M_ii @ (at_zero - 1.0))
        if self.at_signal >= 0:
            known = ~self.unknown
            gradient[self.at_signal] = 0.5 * float(M_ii[known] @ noise[known])
        return gradient


def fit(
    kernel: Kernel,
    X: Array,
    y: Array,
    yvar: Array | None = None,
    *,
    ard: bool = True,
    prior: Prior | None = None,
    warm: Hyper | None = None,
    rounds: int = 15,
) -> Hyper:
    """The MAP hyper-parameters for points X (n x d) and standardised y (n) with noise variances yvar (n, NaN unknown).

    warm: start from these, in their axes, and take `rounds` evaluations. Without it three starts (START_SHIFTS) take
        `rounds` each, on a part of the data where there are many, and the best goes on for as many again on all.
    """
    many = 128  # with more values the starts of a fresh fit are compared on this many, because a fit costs their cube
    prior = prior or Prior.scaled(kernel.dim)
    objective = NegativeLogPosterior(
        kernel, X, y, yvar, prior, ard=ard, rotation=None if warm is None else warm.rotation
    )
    if warm is not None:
        best = objective.theta(warm)
    else:
        few = objective
        if len(y) > many:
            part = np.linspace(0, len(y) - 1, many).astype(np.intp)
            few = NegativeLogPosterior(kernel, X[part], y[part], None if yvar is None else yvar[part], prior, ard=ard)
        starts = np.array([few.centre] * len(START_SHIFTS))
        starts[:, : few.scales] += np.array(START_SHIFTS)[:, None]
        thetas, values = few.minimise(starts, rounds)
        best = objective.theta(few.hyper(thetas[int(np.argmin(values))]))
    return objective.hyper(objective.minimise(best[None], rounds)[0][0])
