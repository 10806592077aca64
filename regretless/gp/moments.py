"""Acquisitions as functions of a posterior's mean and variance, for posteriors of any kind, and the same seen through
an embedding.

`acquisition.py` has them for `GP`; here the posterior is whatever gives `mean_var` and `mean_var_grad` in standardised
units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from regretless.gp.acquisition import LEAST_SHARE, log_h_of
from regretless.gp.maximiser import Acquisition, Score
from regretless.parameters import Array

Acquire: TypeAlias = Callable[[Array, Array], tuple[Array, Array, Array]]
"""Posterior mean (q) and variance (q) to the acquisition's value (q) and its derivatives in both (q each)."""


class Posterior(Protocol):
    """What an acquisition needs to know of a model."""

    signal: float

    def mean_var(self, X: Array, /) -> tuple[Array, Array]:
        """Posterior mean (q) and variance (q) at X (q x d)."""

    def mean_var_grad(self, X: Array, /) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both (q x d each)."""


def confidence_bound(kappa: float, signal: float) -> Acquire:
    """mean + kappa sd; the variance is not taken below a tiny share of the signal variance, so that sd has a derivative
    everywhere."""

    def bound(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        sd = np.sqrt(np.maximum(variance, LEAST_SHARE * signal))
        return mean + kappa * sd, np.ones_like(mean), 0.5 * kappa / sd

    return bound


def log_improvement(best: float, signal: float) -> Acquire:
    """The logarithm of the expected improvement over `best`."""

    def improvement(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        variance = np.maximum(variance, LEAST_SHARE * signal)
        sd = np.sqrt(variance)
        z = (mean - best) / sd
        log_h, slope = log_h_of(z)
        return np.log(sd) + log_h, slope / sd, 0.5 * (1.0 - z * slope) / variance

    return improvement


def of_posterior(posterior: Posterior, acquire: Acquire) -> tuple[Acquisition, Score]:
    """The acquisition as a function of points: values and gradients, and values alone."""

    def acquisition(X: Array) -> tuple[Array, Array]:
        mean, variance, dm, dv = posterior.mean_var_grad(X)
        value, by_mean, by_variance = acquire(mean, variance)
        return value, by_mean[:, None] * dm + by_variance[:, None] * dv

    return acquisition, lambda X: acquire(*posterior.mean_var(X))[0]


def through(
    pair: tuple[Acquisition, Score], forward: Callable[[Array], tuple[Array, Array]], matrix: Array
) -> tuple[Acquisition, Score]:
    """The acquisition as a function of low points y (q x k) that stand for x = clip(linear(y)).

    forward: y to x (q x d) and to 1 where a coordinate is not clipped (q x d). matrix: dx/dy where it is not, d x k.
    """
    acquisition, score = pair

    def low(Y: Array) -> tuple[Array, Array]:
        X, inside = forward(Y)
        value, gradient = acquisition(X)
        return value, (gradient * inside) @ matrix

    return low, lambda Y: score(forward(Y)[0])
