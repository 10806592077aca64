"""How small the norm of f can be, given noisy values: what `assumed_norm="doubling"` asks before it trusts a norm.

The paper takes a bound B on the norm of f as known. Where it is not, the search begins with a small B and doubles it
when the values refute it. With V = lambda I + Phi' Phi and the ridge estimate w_hat = V^-1 Phi' y of Eq. (3), one event
of probability at least 1 - delta (Abbasi-Yadkori 2012, Thm. 3.11), the same for every B, has for all numbers of values

    ||w_hat - w||_V <= radius(B) = sqrt(lambda) B + R sqrt(2 (gain + ln 1/delta)),   gain = 1/2 logdet(I + K / lambda).

A norm B is refuted when no w with ||w|| <= B lies in that ellipsoid. On the event the norm of f is never refuted, so a
doubled B ends below twice the norm of f, or stays where it began if that was larger. A norm that is too small may stay
unrefuted: doubling is a safeguard with one known side, and no certificate.

Notation
    kappa   eigenvalues of Phi' Phi, r          w_hat   the estimate in their eigenvectors, r
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from regretless.methods.gp_threds.norm_ball import few_features
from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import correlation
from regretless.models.grid.scale import grouped
from regretless.space.parameters import Array


class Ridge(NamedTuple):
    """The ridge estimate in the eigenvectors of Phi' Phi."""

    kappa: Array
    w_hat: Array
    noise_var: float  # lambda, and the variance of the noise

    @property
    def gain(self) -> float:
        """1/2 logdet(I + K / lambda)."""
        return 0.5 * float(np.log1p(self.kappa / self.noise_var).sum())


def ridge(
    X: Array, y: Array, weight: Array | None, *, kernel: KernelKind, lengthscale: float, noise_var: float
) -> Ridge:
    """The estimate from values y (n) at X (n x d), in the order told; weight (n): lambda by their own noise variance.

    Values at one point are averaged, which changes neither the estimate nor the gain.
    """
    features = few_features(kernel, X.shape[1], lengthscale)
    # 600: the first so many count for a kernel without few features: their eigenvectors take 0.1 s
    n = len(y) if features is not None else 600
    X, y, total = grouped(X[:n], y[:n], None if weight is None else weight[:n])
    root = np.sqrt(total)
    if features is not None:
        Phi = features(X) * root[:, None]
        kappa, vectors = np.linalg.eigh(Phi.T @ Phi)
        kappa = np.maximum(kappa, 0.0)
        return Ridge(kappa, vectors.T @ (Phi.T @ (root * y)) / (kappa + noise_var), noise_var)
    kappa, vectors = np.linalg.eigh(correlation(kernel, X, X, lengthscale) * root[:, None] * root)
    kappa = np.maximum(kappa, 0.0)
    return Ridge(kappa, np.sqrt(kappa) * (vectors.T @ (root * y)) / (kappa + noise_var), noise_var)


def radius(estimate: Ridge, norm: float, delta: float) -> float:
    """The radius of the ellipsoid for functions of at most this norm, R = sqrt(lambda)."""
    spread = math.sqrt(2 * (estimate.gain + math.log(1 / delta)))
    return math.sqrt(estimate.noise_var) * (norm + spread)


def least_norm(estimate: Ridge, reach: float) -> float:
    """The least ||w|| over ||w - w_hat||_V <= reach: w = m V (I + m V)^-1 w_hat with the multiplier m on the border."""
    v = estimate.kappa + estimate.noise_var
    pull = v * estimate.w_hat**2
    if math.sqrt(float(pull.sum())) <= reach:
        return 0.0
    low, high = -math.log(float(v.max())) - 50.0, -math.log(float(v.min())) + 50.0  # of log m
    # 60: of an interval when a root is sought; its ends agree in float64 after them
    for _ in range(60):
        middle = 0.5 * (low + high)
        inside = float((pull / (1 + math.exp(middle) * v) ** 2).sum()) <= reach * reach
        low, high = (low, middle) if inside else (middle, high)
    m = math.exp(high)
    return float(np.linalg.norm(m * v / (1 + m * v) * estimate.w_hat))


def refuted(estimate: Ridge, norm: float, delta: float) -> bool:
    """Whether no function of at most this norm is in the ellipsoid."""
    return least_norm(estimate, radius(estimate, norm, delta)) > norm


def doubled(estimate: Ridge, norm: float, delta: float) -> float:
    """The norm, doubled until it is not refuted."""
    # 60: a norm is doubled at most this often, by a factor of 1e18: values beyond that are clipped
    for _ in range(60):
        if not refuted(estimate, norm, delta):
            break
        norm *= 2
    return norm
