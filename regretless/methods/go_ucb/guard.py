"""The guard of GO-UCB decides whether the user's family holds, and which of three models is acted on.

    family   the linearised family alone
    hybrid   the family plus a Gaussian process for what it misses: z(x) = f(v_hat, x) + g(x).(v - v_hat) + r(x) + noise
             with v - v_hat ~ N(0, a I),   r ~ GP(0, b k),   noise ~ N(0, c)
    process  a Gaussian process alone

Models are compared by the log densities of the family's standardised values, each left out once. The residuals of the
hybrid, e = z - f(v_hat, X), have covariance a G G' + b k(X, X) + c I with gradients G (n x p); a, b, c and the
length-scales of k (Matern-5/2) are fitted. The process raises very low values (`surrogate.clipped`) and is compared on
the others.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from regretless.methods.go_ucb.ball import sure_cholesky
from regretless.methods.go_ucb.oracle import LEAST_NOISE, FamilyFit
from regretless.models.gp.fit import WALL
from regretless.models.gp.kernels import Hyper, Kernel, squared_distances
from regretless.models.gp.lbfgs import minimise, row_by_row
from regretless.models.gp.posterior import GP, Factor
from regretless.models.gp.surrogate import Surrogate, clipped
from regretless.space import Cube
from regretless.space.parameters import Array

Leader: TypeAlias = Literal["family", "hybrid", "process"]
"""The model that a proposal, a recommendation or a certificate comes from."""
Pending: TypeAlias = tuple[Array, Array] | None
"""Points (m x d) and their gradients (m x p) that are conditioned on without values."""

# The rules of the comparison were settled on the seeds 1000 to 1011; the runs are in docs/lab/go-ucb.md.
MOST_COMPARED = 1000
"""The most values on which the models are compared and on which the hybrid rests, even ones and the best: both cost
their cube. The family rests on all."""
HYBRID_MARGIN, PROCESS_MARGIN = 2.0, 6.0  # nats by which each must win; 4 and 10 gave the same medians
ERRORS = 1.0  # standard errors by which a model must also win; three gave the same medians
NEAR = 0.03  # told points closer than this (root mean square over the coordinates) share one vote; set by hand
MOST_NATS = 4.0  # the most nats a value may count: real residuals have heavy tails (docs, What was tried)

# Normal priors on logarithms, each by its centre and standard deviation.
AMPLITUDE_BOUNDS, NOISE_HIGH, LENGTH_BOUNDS = (-14.0, 6.0), 2.0, (math.log(0.02), math.log(50.0))
"""Bounds on log a and log b, on log c from above, and on the log length-scales, beyond three prior deviations."""


@dataclass(frozen=True)
class Shares:
    """Variances of a hybrid's linear part, residual process and noise, and the length-scales (d)."""

    linear: float
    residual: float
    noise: float
    lengthscale: Array


def fit_shares(kernel: Kernel, X: Array, G: Array, e: Array) -> Shares:
    """The maximum a posteriori shares for residuals e (n) at X (n x d) with gradients G (n x p)."""
    length_prior = (math.log(0.5), 1.0)  # of the log length-scales; the centre grows with sqrt(d), as distances do
    noise_prior = (2 * math.log(0.05), 1.5)  # of log c: the oracle's prior noise of 0.05, within a factor of 2
    residual_prior = (-2.0, 2.0)  # of log b, set by hand: a believed family leaves about an eighth of the variance
    linear_prior = (0.0, 1.0)  # of log a: the prior variance of v is 1
    Z = kernel.embed(X)
    gram = G @ G.T
    d = kernel.dim
    least = 2 * math.log(LEAST_NOISE)

    def each(linear: float, residual: float, noise: float, length: float) -> Array:
        return np.array([linear, residual, noise, *[length] * d])

    centre, sd = (each(*prior) for prior in zip(linear_prior, residual_prior, noise_prior, length_prior))
    centre[3:] += 0.5 * math.log(d)
    low = each(AMPLITUDE_BOUNDS[0], AMPLITUDE_BOUNDS[0], least, LENGTH_BOUNDS[0])
    high = each(AMPLITUDE_BOUNDS[1], AMPLITUDE_BOUNDS[1], NOISE_HIGH, LENGTH_BOUNDS[1])

    function = row_by_row(lambda theta: _negative_log_posterior(kernel, Z, gram, e, theta, centre, sd))
    size = math.log(max(float(e @ e) / len(e), LEAST_NOISE**2))
    wrong = centre.copy()
    wrong[1] = np.clip(size, low[1], high[1])  # the second start lets the process explain all residuals
    starts = np.clip(np.stack([centre, wrong]), low, high)
    # 30: iterations of the fit of the shares; set by hand, for time
    best, value = minimise(function, starts, low, high, rounds=30, reach=0.5, tolerance=1e-6)
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
    """The posterior of the hybrid for residuals e (n) at X (n x d) with gradients G (n x p) and weights (n)."""

    def __init__(
        self, kernel: Kernel, shares: Shares, X: Array, G: Array, e: Array, weight: Array, pending: Pending = None
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
        K.flat[:: len(K) + 1] += noise
        self._L = L = sure_cholesky(K)
        white = lapack.dtrtrs(L[: self.n, : self.n], e, lower=1)[0]
        # the value of a pending row is its own posterior mean, so its whitened residual is 0
        self._alpha = lapack.dtrtrs(L, np.append(white, np.zeros(len(L) - self.n)), lower=1, trans=1)[0]

    def correction(self, U: Array, G: Array) -> tuple[Array, Array]:
        """What is added to f(v_hat, x) and the posterior sd (q each) at U (q x d) with gradients G (q x p)."""
        W = self.kernel.embed(U) * self._inverse
        base = self.kernel.base(squared_distances(W, self._W))
        C = self.shares.linear * (G @ self._G.T) + self.shares.residual * base
        half = lapack.dtrtrs(self._L, C.T, lower=1)[0]
        prior = self.shares.linear * np.einsum("ij,ij->i", G, G) + self.shares.residual
        variance = prior - np.einsum("ij,ij->j", half, half)
        return C @ self._alpha, np.sqrt(np.maximum(variance, 0.0))

    def leave_one_out(self) -> Array:
        """The log density of every e given the others, n; only meaningful without pending rows."""
        inverse = lapack.dpotri(self._L, lower=1)[0]
        return leave_one_out_density(self._alpha, np.diagonal(inverse))


def leave_one_out_density(alpha: Array, precision: Array) -> Array:
    """log N(z_i; prediction without i), n, from K^-1 z and the diagonal of K^-1 (Rasmussen and Williams, Eq. 5.10)."""
    return np.asarray(0.5 * np.log(precision) - 0.5 * alpha**2 / precision - 0.5 * math.log(2 * math.pi))


class LeaveOneOut:
    """Leave-one-out log densities of values at X (n x d) under the three models; the process counts where
    values are `unclipped`."""

    def __init__(self, density: dict[Leader, Array], X: Array, unclipped: NDArray[np.bool_]) -> None:
        self.density = density
        near = near_pairs(X)
        self._votes = votes(near), np.where(unclipped, votes(near[:, unclipped]), 0.0)

    def gain(self, a: Leader, b: Leader) -> tuple[float, float]:
        """By how many nats model a predicts left-out values better than model b, and the standard error of that."""
        weight = self._votes["process" in (a, b)]
        each = np.clip(self.density[a] - self.density[b], -MOST_NATS, MOST_NATS)
        gain = float(weight @ each)
        return gain, float(np.linalg.norm(weight * (each - gain / float(weight.sum()))))

    def favours(self, a: Leader, b: Leader, margin: float) -> bool:
        """Whether a beats b by the margin, and by ERRORS standard errors."""
        gain, error = self.gain(a, b)
        return gain > max(margin, ERRORS * error)


class Guard:
    """Fits the alternatives and compares; a `flexible` family is an approximator and gives way once refuted."""

    def __init__(self, cube: Cube, *, noise_var: float | None, flexible: bool) -> None:
        self.surrogate = Surrogate(cube, noise_var=noise_var)
        self._shares: tuple[FamilyFit, Shares] | None = None
        self._flexible = flexible

    def choice(self, X: Array, y: Array, yvar: Array, fit: FamilyFit) -> Leader:
        """The model to act on: the family, unless one of the others predicts left-out values clearly better."""
        evidence = self.evidence(X, y, yvar, fit)
        leader: Leader = "process" if evidence.favours("process", "family", PROCESS_MARGIN) else "family"
        if evidence.favours("hybrid", leader, HYBRID_MARGIN):
            leader = "process" if self._flexible else "hybrid"
        return leader

    def evidence(self, X: Array, y: Array, yvar: Array, fit: FamilyFit) -> LeaveOneOut:
        """The leave-one-out log densities under each model. The hybrid's residuals are those of a fit that has seen the
        left-out value, so it pays the leverage of each row: one nat for every parameter the data have determined."""
        rows = compared(fit)
        density: dict[Leader, Array] = {
            "family": family_density(fit)[rows],
            "hybrid": self.hybrid(X, fit).leave_one_out() - fit.ball.norms(fit.rows[rows]) ** 2,
            "process": process_density(self.surrogate.gp(X, y, yvar), fit.scale, rows),
        }
        return LeaveOneOut(density, X[rows], (clipped(y) == y)[rows])

    def verdict(self, X: Array, y: Array, yvar: Array, fit: FamilyFit) -> tuple[Leader, float]:
        """What the data say of the family: the model that predicts left-out values clearly better, and by how many
        nats; else "family" and 0.

        Here family and hybrid are nested: both give the free parameters the prior N(0, I) and refit them when a value
        is left out. The hybrid that `choice` acts on is centred at the fit, which finds better points (docs, What was
        tried), but its densities are too good where parameters are barely determined.
        """
        rows, G = compared(fit), fit.jacobian[:, fit.free]
        targets = fit.residuals + G @ fit.v[fit.free]
        shares = replace(self._fitted_shares(X, fit), linear=1.0)
        alone = replace(shares, residual=0.0, noise=fit.sigma2)
        data = X[rows], G[rows], targets[rows], fit.weight[rows]
        density: dict[Leader, Array] = {
            "family": Hybrid(self.surrogate.kernel, alone, *data).leave_one_out(),
            "hybrid": Hybrid(self.surrogate.kernel, shares, *data).leave_one_out(),
            "process": process_density(self.surrogate.gp(X, y, yvar), fit.scale, rows),
        }
        evidence = LeaveOneOut(density, X[rows], (clipped(y) == y)[rows])
        # 4.0: nats by which the hybrid must win before the user is told that the family is wrong (docs)
        rivals: tuple[tuple[Leader, float], ...] = (("hybrid", 4.0), ("process", PROCESS_MARGIN))
        ahead = [name for name, margin in rivals if evidence.favours(name, "family", margin)]
        gains = {name: evidence.gain(name, "family")[0] for name in ahead}
        best: Leader = max(gains, key=lambda name: gains[name], default="family")
        return best, gains.get(best, 0.0)

    def hybrid(self, X: Array, fit: FamilyFit, pending: Pending = None) -> Hybrid:
        """The hybrid centred at the fit, of the values that are compared."""
        shares, rows = self._fitted_shares(X, fit), compared(fit)
        data = X[rows], fit.jacobian[rows], fit.residuals[rows], fit.weight[rows]
        return Hybrid(self.surrogate.kernel, shares, *data, pending)

    def _fitted_shares(self, X: Array, fit: FamilyFit) -> Shares:
        # rows that the shares are fitted to, even ones and the best; a step costs their cube; set by hand
        most_rows = 128
        if self._shares is None or self._shares[0] is not fit:
            rows = np.arange(fit.n) if fit.n <= most_rows else even_and_best(fit.z, most_rows)
            self._shares = fit, fit_shares(self.surrogate.kernel, X[rows], fit.jacobian[rows], fit.residuals[rows])
        return self._shares[1]


def compared(fit: FamilyFit) -> NDArray[np.intp] | slice:
    """The rows on which the models are compared."""
    return slice(None) if fit.n <= MOST_COMPARED else even_and_best(fit.z, MOST_COMPARED)


def even_and_best(z: Array, most: int) -> NDArray[np.intp]:
    """At most so many rows of values z (n), in order: half of them spread evenly, and the best."""
    even = np.linspace(0, len(z) - 1, most // 2).astype(np.intp)
    return np.unique(np.concatenate([even, np.argsort(-z, kind="stable")[: most // 2]]))


def near_pairs(X: Array) -> NDArray[np.bool_]:
    """Which of the points (n x d) are NEAR each other, n x n."""
    squares = np.zeros((len(X), len(X)))
    for column in X.T:
        squares += (column[:, None] - column) ** 2
    return np.asarray(squares / X.shape[1] <= NEAR**2)


def votes(near: NDArray[np.bool_]) -> Array:
    """One over the number of points that each is near to, n, from rows (n x k) of `near_pairs`."""
    return np.asarray(1.0 / np.maximum(near.sum(axis=1), 1))


def family_density(fit: FamilyFit) -> Array:
    """Leave-one-out log densities of the linearised family, n, by residuals e / (1 - h) with leverages h."""
    left = np.maximum(1 - (fit.ball.norms(fit.rows) ** 2), 1e-9)
    variance = fit.sigma2 / (fit.weight * left)
    return np.asarray(-0.5 * (fit.residuals / left) ** 2 / variance - 0.5 * np.log(2 * math.pi * variance))


def process_density(gp: GP, scale: float, rows: NDArray[np.intp] | slice = slice(None)) -> Array:
    """Leave-one-out log densities of a Gaussian process without pending points, n, of values in units of `scale`; the
    process of these rows, where they are not all."""
    if not isinstance(rows, slice):
        factor = Factor(gp.factor.kernel, gp.hyper, gp.factor.X[rows], gp.factor.noise[rows])
        gp = GP(factor, gp.y[rows], offset=gp.offset, scale=gp.scale, profile=gp.profile)
    inverse = gp.factor.lower(np.eye(gp.n))
    precision = np.einsum("ij,ij->i", inverse, inverse) / gp.signal
    residual = (gp.y - gp.offset) / gp.scale - gp.mean
    alpha = gp.factor.upper(gp.factor.lower(residual[None]))[0] / gp.signal
    return leave_one_out_density(alpha, precision) + math.log(scale) - math.log(gp.scale)
