"""Acquisitions of a Gaussian process: what a point promises, with gradients, in forms that neither overflow nor vanish.

Each is a pair (acquisition, score) as `ascend.maximise` takes them: values and gradients, and values alone. With the
posterior mean m and sd s at x, the value b to beat and z = (m - b) / s:

    upper confidence bound          m + kappa s
    log expected improvement        log s + log h(z),     h(z) = phi(z) + z Phi(z)
    log probability of improvement  log Phi(z)

`log h` keeps its digits for any z (Ament et al. 2023): where z < -1 it is rewritten with the scaled complementary error
function, and where even that cancels with its asymptotic series.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from regretless.gp.maximiser import Acquisition, Score
from regretless.gp.posterior import GP
from regretless.parameters import Array

LEAST_SHARE = 1e-20
"""Of the signal variance: what a variance is never taken below, so that sd has a gradient everywhere."""
EVEN = 0.05
"""e: what speaks for success and for failure far from all data."""
FAILURE = 0.2
"""c: what a failure counts against a success at the same distance; below 1, or the best points beside a border would
never be reached."""
REPULSION = 4.0
"""The weight of log p, for acquisitions whose differences are of order 1."""
FAR = -50.0
"""Below this z the asymptotic series of h is exact to rounding."""


def upper_confidence(gp: GP, kappa: float) -> tuple[Acquisition, Score]:
    """m + kappa s; the posterior mean alone, at O(n d) a point, for kappa = 0."""
    if kappa == 0.0:
        return gp.mean_grad, gp.mean_at
    return _of_moments(gp, lambda m, s: (m + kappa * s, np.ones_like(m), np.full_like(m, kappa)))


def log_expected_improvement(gp: GP, best: float) -> tuple[Acquisition, Score]:
    """The logarithm of E max(f - best, 0), best in standardised units."""

    def of_moments(m: Array, s: Array) -> tuple[Array, Array, Array]:
        z = (m - best) / s
        log_h, slope = log_h_of(z)
        return np.log(s) + log_h, slope / s, (1.0 - z * slope) / s

    return _of_moments(gp, of_moments)


def log_probability_of_improvement(gp: GP, best: float) -> tuple[Acquisition, Score]:
    """The logarithm of P(f > best), best in standardised units."""

    def of_moments(m: Array, s: Array) -> tuple[Array, Array, Array]:
        z = (m - best) / s
        slope = math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))  # phi(z) / Phi(z)
        return log_ndtr(z), slope / s, -z * slope / s

    return _of_moments(gp, of_moments)


def log_h_of(z: Array) -> tuple[Array, Array]:
    """log(phi(z) + z Phi(z)) and its derivative Phi(z) / h(z)."""
    log_phi = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    near, middle, far = np.maximum(z, -1.0), np.clip(z, FAR, -1.0), np.minimum(z, FAR)
    h_near = np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi) + near * ndtr(near)
    mills = math.sqrt(math.pi / 2) * erfcx(-middle / math.sqrt(2))  # Phi(z) / phi(z)
    share = 1.0 + middle * mills
    w = 1.0 / (far * far)
    series = w * (1.0 - w * (3.0 - w * (15.0 - 105.0 * w)))
    log_h = np.where(z > -1.0, np.log(h_near), log_phi + np.where(z > FAR, np.log(share), np.log(series)))
    slope = np.where(
        z > -1.0,
        ndtr(near) / h_near,
        np.where(z > FAR, mills / share, -1.0 / far * (1.0 - w * (1.0 - 3.0 * w)) / series),
    )
    return log_h, slope


def _of_moments(gp: GP, formula: Callable[[Array, Array], tuple[Array, Array, Array]]) -> tuple[Acquisition, Score]:
    """The pair of a formula (m, s) -> value and its derivatives in m and s."""
    least = LEAST_SHARE * gp.signal

    def acquisition(X: Array) -> tuple[Array, Array]:
        m, v, dm, dv = gp.mean_var_grad(X)
        s = np.sqrt(np.maximum(v, least))
        value, by_m, by_s = formula(m, s)
        return value, by_m[:, None] * dm + (by_s / (2.0 * s))[:, None] * dv

    def score(X: Array) -> Array:
        m, v = gp.mean_var(X)
        return formula(m, np.sqrt(np.maximum(v, least)))[0]

    return acquisition, score


# ---------------------------------------------------------------- failures


def kept_from_failures(
    pair: tuple[Acquisition, Score], X: Array, failed: Array, *, logarithmic: bool = False
) -> tuple[Acquisition, Score]:
    """The acquisition plus REPULSION * log p(x), p the share of successes around x; as it was when nothing has failed.

    p = (S + e) / (S + e + c (F + e)) with S and F the sums of exp(-|x - x_i|^2 / 2 h^2) over the successes X (n x d)
    and the failures (k x d), and h half the median distance from a failure to its nearest success: the resolution at
    which the border between them is known.
    logarithmic: the acquisition a is a logarithm, whose differences know no bounds; it is replaced by -log(1 - a) where
        it is negative, which has the
    same maximiser and lets p have its say.
    """
    if len(failed) == 0:
        return pair
    acquisition, score = pair
    log_share = _log_share(X, failed)

    def kept(P: Array) -> tuple[Array, Array]:
        (value, gradient), (share, slope) = acquisition(P), log_share(P)
        if logarithmic:
            gradient = gradient / (1.0 + np.maximum(-value, 0.0))[:, None]
            value = _compressed(value)
        return value + REPULSION * share, gradient + REPULSION * slope

    def kept_score(P: Array) -> Array:
        value = score(P)
        return (_compressed(value) if logarithmic else value) + REPULSION * log_share(P)[0]

    return kept, kept_score


def candidates_kept_from_failures(
    values: Array, P: Array, X: Array, failed: Array, *, logarithmic: bool = False
) -> Array:
    """The same for an acquisition that is known at the candidates P (m x d) alone: its values (m), plus REPULSION * log
    p."""
    if len(failed) == 0:
        return values
    kept: Array = (_compressed(values) if logarithmic else values) + REPULSION * _log_share(X, failed)(P)[0]
    return kept


def _log_share(X: Array, failed: Array) -> Acquisition:
    """log p and its gradient; see `kept_from_failures`."""
    root = math.sqrt(failed.shape[1])
    gaps = np.sqrt([((X - f) ** 2).sum(axis=1).min(initial=np.inf) for f in failed])
    h = float(np.clip(0.5 * np.median(gaps), 0.01 * root, 0.2 * root))

    def log_share(P: Array) -> tuple[Array, Array]:
        sums, gradients = [], []
        for points in (X, failed):
            r2 = (P * P).sum(axis=1)[:, None] + (points * points).sum(axis=1) - 2.0 * P @ points.T
            w = np.exp(-np.maximum(r2, 0.0) / (2.0 * h * h))
            sums.append(w.sum(axis=1))
            gradients.append((w @ points - sums[-1][:, None] * P) / (h * h))
        S = sums[0] + EVEN
        both = S + FAILURE * (sums[1] + EVEN)
        return np.log(S / both), gradients[0] / S[:, None] - (gradients[0] + FAILURE * gradients[1]) / both[:, None]

    return log_share


def _compressed(value: Array) -> Array:
    """value where it is positive, -log(1 - value) elsewhere."""
    result: Array = np.maximum(value, 0.0) - np.log1p(np.maximum(-value, 0.0))
    return result
