"""Acquisitions of a posterior: what a point promises, with gradients, in forms that neither overflow nor vanish.

With the posterior mean m and sd s at x, the value b to beat and z = (m - b) / s:

    upper confidence bound          m + kappa s
    log expected improvement        log s + log h(z),     h(z) = phi(z) + z Phi(z)
    log probability of improvement  log Phi(z)

Each is a function of a mean and a variance (`Acquire`), and by `of_posterior` one of points. `log h` keeps its digits
for any z (Ament et al. 2023): below -1 by the scaled complementary error function, further down by its series.
"""

import math
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from regretless.models.gp.maximiser import Acquisition, ValueAndGradient
from regretless.models.gp.posterior import GP
from regretless.space.parameters import Array

Acquire: TypeAlias = Callable[[Array, Array], tuple[Array, Array, Array]]
"""Posterior mean (q) and variance (q) to the acquisition's value (q) and its derivatives in both (q each)."""

LEAST_SHARE = 1e-20  # variances are raised to this share of the signal's, so that the sd has a derivative everywhere
REPULSION = 4.0  # the weight of log p, beside acquisitions that differ by about 1 over the cube; chosen by hand
WIDTHS = (0.01, 0.2)  # the least and largest h by sqrt(d): a failure repels more than itself, less than the cube
FAR = -50.0  # below this z the asymptotic series of h is exact to rounding


class Posterior(Protocol):
    """What an acquisition needs to know of a model, in standardised units."""

    signal: float

    def mean_var(self, X: Array, /) -> tuple[Array, Array]:
        """Posterior mean (q) and variance (q) at X (q x d)."""

    def mean_var_grad(self, X: Array, /) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both (q x d each)."""


# ---------------------------------------------------------------- as functions of a mean and a variance


def confidence_bound(kappa: float, signal: float) -> Acquire:
    """m + kappa s."""

    def bound(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        s = np.sqrt(np.maximum(variance, LEAST_SHARE * signal))
        return mean + kappa * s, np.ones_like(mean), kappa / (2.0 * s)

    return bound


def log_improvement(best: float, signal: float) -> Acquire:
    """The logarithm of E max(f - best, 0)."""

    def improvement(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        s = np.sqrt(np.maximum(variance, LEAST_SHARE * signal))
        z = (mean - best) / s
        log_h, slope = log_h_of(z)
        return np.log(s) + log_h, slope / s, (1.0 - z * slope) / s / (2.0 * s)

    return improvement


def log_probability(best: float, signal: float) -> Acquire:
    """The logarithm of P(f > best)."""

    def probability(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        s = np.sqrt(np.maximum(variance, LEAST_SHARE * signal))
        z = (mean - best) / s
        slope = math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))  # phi(z) / Phi(z)
        return log_ndtr(z), slope / s, -z * slope / s / (2.0 * s)

    return probability


def log_h_of(z: Array) -> tuple[Array, Array]:
    """log(phi(z) + z Phi(z)) and its derivative Phi(z) / h(z); an ascent's few z mostly all lie above -1 or all
    below, and then one of the two forms is enough."""
    high = z > -1.0
    if high.all():
        return _log_h_above(z)
    low = _log_h_below(np.minimum(z, -1.0))
    if not high.any():
        return low
    above = _log_h_above(np.maximum(z, -1.0))
    return np.where(high, above[0], low[0]), np.where(high, above[1], low[1])


def _log_h_above(z: Array) -> tuple[Array, Array]:
    """`log_h_of` where z is at least -1."""
    share = ndtr(z)
    h = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) + z * share
    return np.log(h), share / h


def _log_h_below(z: Array) -> tuple[Array, Array]:
    """`log_h_of` where z is at most -1."""
    log_phi = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    middle = np.maximum(z, FAR)
    mills = math.sqrt(math.pi / 2) * erfcx(-middle / math.sqrt(2))  # Phi(z) / phi(z)
    share = 1.0 + middle * mills
    near = z > FAR
    if near.all():
        return log_phi + np.log(share), mills / share
    far = np.minimum(z, FAR)
    w = 1.0 / (far * far)
    series = w * (1.0 - w * (3.0 - w * (15.0 - 105.0 * w)))
    slope = -1.0 / far * (1.0 - w * (1.0 - 3.0 * w)) / series
    return log_phi + np.where(near, np.log(share), np.log(series)), np.where(near, mills / share, slope)


# ---------------------------------------------------------------- as functions of points


def of_posterior(posterior: Posterior, acquire: Acquire) -> Acquisition:
    """The acquisition of a model."""

    def value_and_gradient(X: Array) -> tuple[Array, Array]:
        mean, variance, dm, dv = posterior.mean_var_grad(X)
        value, by_mean, by_variance = acquire(mean, variance)
        return value, by_mean[:, None] * dm + by_variance[:, None] * dv

    return Acquisition(value_and_gradient, lambda X: acquire(*posterior.mean_var(X))[0])


def upper_confidence(gp: GP, kappa: float) -> Acquisition:
    """m + kappa s; the posterior mean alone, at O(n d) a point, for kappa = 0."""
    if kappa == 0.0:
        return Acquisition(gp.mean_grad, gp.mean_at)
    return of_posterior(gp, confidence_bound(kappa, gp.signal))


def log_expected_improvement(gp: GP, best: float) -> Acquisition:
    """The logarithm of E max(f - best, 0), best in standardised units."""
    return of_posterior(gp, log_improvement(best, gp.signal))


def log_probability_of_improvement(gp: GP, best: float) -> Acquisition:
    """The logarithm of P(f > best), best in standardised units."""
    return of_posterior(gp, log_probability(best, gp.signal))


def through(acquisition: Acquisition, forward: Callable[[Array], tuple[Array, Array]], matrix: Array) -> Acquisition:
    """The acquisition as a function of low points y (q x k): `forward` gives x = clip(linear(y)) and 1 where it is not
    clipped (q x d each), `matrix` is dx/dy there, d x k."""

    def value_and_gradient(Y: Array) -> tuple[Array, Array]:
        X, inside = forward(Y)
        value, gradient = acquisition.value_and_gradient(X)
        return value, (gradient * inside) @ matrix

    return Acquisition(value_and_gradient, lambda Y: acquisition.value(forward(Y)[0]))


# ---------------------------------------------------------------- failures


def kept_from_failures(acquisition: Acquisition, X: Array, failed: Array, *, logarithmic: bool = False) -> Acquisition:
    """An acquisition plus REPULSION * log p(x), p the share of successes around x; as it was when nothing has failed.

    p = (S + e) / (S + e + c (F + e)), S and F the sums of exp(-|x - x_i|^2 / 2 h^2) over the successes X (n x d) and
    the failures (k x d). h is half the median distance from a failure to its nearest success.

    logarithmic: the acquisition a is a logarithm, without bounds; where it is negative it is replaced by -log(1 - a),
        which has the same maximiser and differences that log p can outweigh.
    """
    if len(failed) == 0:
        return acquisition
    log_share = _log_share(X, failed)

    def value_and_gradient(P: Array) -> tuple[Array, Array]:
        (value, gradient), (share, slope) = acquisition.value_and_gradient(P), log_share(P)
        if logarithmic:
            gradient = gradient / (1.0 + np.maximum(-value, 0.0))[:, None]
            value = _compressed(value)
        return value + REPULSION * share, gradient + REPULSION * slope

    def value_alone(P: Array) -> Array:
        value = acquisition.value(P)
        return (_compressed(value) if logarithmic else value) + REPULSION * log_share(P)[0]

    return Acquisition(value_and_gradient, value_alone)


def candidates_kept_from_failures(
    values: Array, P: Array, X: Array, failed: Array, *, logarithmic: bool = False
) -> Array:
    """The same for an acquisition with known values (m) at the candidates P (m x d) alone, m."""
    known = Acquisition.of(lambda P: (values, np.empty(0)))
    return kept_from_failures(known, X, failed, logarithmic=logarithmic).value(P)


def _log_share(X: Array, failed: Array) -> ValueAndGradient:
    """log p and its gradient; see `kept_from_failures`."""
    root = math.sqrt(failed.shape[1])
    gaps = np.sqrt([((X - f) ** 2).sum(axis=1).min(initial=np.inf) for f in failed])
    h = float(np.clip(0.5 * np.median(gaps), WIDTHS[0] * root, WIDTHS[1] * root))

    def log_share(P: Array) -> tuple[Array, Array]:
        # c: a failure against a success; below 1, so that points at a border are reached; chosen by hand
        failure_weight = 0.2
        prior_weight = 0.05  # e: what counts for success and failure far from all data, in evaluations; chosen by hand
        sums, gradients = [], []
        for points in (X, failed):
            r2 = (P * P).sum(axis=1)[:, None] + (points * points).sum(axis=1) - 2.0 * P @ points.T
            w = np.exp(-np.maximum(r2, 0.0) / (2.0 * h * h))
            sums.append(w.sum(axis=1))
            gradients.append((w @ points - sums[-1][:, None] * P) / (h * h))
        S = sums[0] + prior_weight
        both = S + failure_weight * (sums[1] + prior_weight)
        slope = gradients[0] / S[:, None] - (gradients[0] + failure_weight * gradients[1]) / both[:, None]
        return np.log(S / both), slope

    return log_share


def _compressed(value: Array) -> Array:
    """value where it is positive, -log(1 - value) elsewhere."""
    return np.asarray(np.maximum(value, 0.0) - np.log1p(np.maximum(-value, 0.0)))
