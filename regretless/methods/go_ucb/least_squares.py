"""Nonlinear least squares from many starts at once: a batched, projected Levenberg-Marquardt method (Levenberg 1944,
Marquardt 1963).

All starts advance together: one call of the model gives every residual and Jacobian, one batched solve every step. With
k starts, n data and p parameters an iteration costs k n p for the Jacobians and k n p min(n, p) + k min(n, p)^3 for the
steps: the normal equations are solved in whichever of the two spaces, parameters or data, is smaller. Bounds are kept
    by freezing parameters that a step would push
through a bound (projected gradient) and clipping the rest; steps are accepted only when the cost falls, so cost never
rises.

    minimise over low <= v <= high   sum_i weight_i (f(v, x_i) - y_i)^2 + lam |v|^2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regretless.parameters import Array

DAMPING = 0.3
"""First damping as a share of the mean diagonal of J'J: more starts reach a good solution than with a fixed small
value."""
SHRINK, GROW = 0.25, 4.0
"""Damping factors after an accepted and a refused step."""
LEAST_DAMPING, MOST_DAMPING = 1e-12, 1e12
"""Bounds of the damping, as shares of the mean diagonal of J'J."""
TOLERANCE = 1e-9
"""A start is done when an accepted step lowers its cost by less than this share, or when the damping has run to its
upper end."""

Jacobian = Callable[[Array], tuple[Array, Array]]
"""k x p parameters to k x n values and k x n x p derivatives."""


@dataclass(frozen=True)
class Fits:
    """Where every start ended, best first: `v` k x p, `cost` k, `values` k x n and `jacobian` k x n x p at `v`."""

    v: Array
    cost: Array
    values: Array
    jacobian: Array


def fit_least_squares(
    model: Jacobian,
    y: Array,
    starts: Array,
    *,
    low: Array | float,
    high: Array | float,
    lam: float,
    weight: Array | float = 1.0,
    iterations: int = 60,
) -> Fits:
    """Levenberg-Marquardt from every row of `starts` (k x p) to the values y (n) with weights n."""
    v = np.clip(np.asarray(starts, dtype=np.float64), low, high)
    root = np.sqrt(np.broadcast_to(weight, len(y)))
    F, J = (np.array(a) for a in model(v))
    cost = _cost(F, y, v, lam, root)
    scale = np.maximum(_mean_diagonal(J, root), np.finfo(np.float64).tiny)
    damping = DAMPING * scale
    running = np.isfinite(cost) & np.isfinite(J).all(axis=(1, 2))
    for _ in range(iterations):
        active = np.flatnonzero(running)
        if len(active) == 0:
            break
        step = _step(F[active], J[active], y, v[active], low, high, lam, root, damping[active])
        trial = np.clip(v[active] + step, low, high)
        moved = (trial != v[active]).any(axis=1)
        F_trial, J_trial = model(trial)
        new = _cost(F_trial, y, trial, lam, root)
        usable = np.isfinite(new) & np.isfinite(J_trial).all(axis=(1, 2))
        better = usable & (new < cost[active])
        gain = cost[active] - new
        won = active[better]
        small = better & (gain <= TOLERANCE * cost[active])
        v[won], F[won], J[won], cost[won] = trial[better], F_trial[better], J_trial[better], new[better]
        scale[won] = np.maximum(_mean_diagonal(J[won], root), np.finfo(np.float64).tiny)
        damping[active] = np.where(
            better, np.maximum(damping[active] * SHRINK, LEAST_DAMPING * scale[active]), damping[active] * GROW
        )
        stuck = ~better & (~moved | (damping[active] > MOST_DAMPING * scale[active]))
        running[active[small | stuck]] = False
    cost = np.where(np.isfinite(cost), cost, np.inf)
    order = np.argsort(cost, kind="stable")
    return Fits(v[order], cost[order], F[order], J[order])


def distinct(fits: Fits, keep: int, *, apart: float, within: float) -> NDArray[np.intp]:
    """Indices of up to `keep` fits, best first, whose parameters differ pairwise by more than `apart` (root mean
    square) and whose cost is
    `within` that of the best. Fits that agree at the data may still differ everywhere else: it is the parameters that
    tell modes apart.
    """
    chosen: list[int] = []
    for i in range(len(fits.cost)):
        if not fits.cost[i] <= fits.cost[0] + within:
            break
        if all(np.sqrt(np.mean((fits.v[i] - fits.v[j]) ** 2)) > apart for j in chosen):
            chosen.append(i)
            if len(chosen) == keep:
                break
    return np.array(chosen or [0], dtype=np.intp)


def _cost(F: Array, y: Array, v: Array, lam: float, root: Array) -> Array:
    r = root * (F - y)
    with np.errstate(over="ignore", invalid="ignore"):
        cost: Array = np.einsum("ij,ij->i", r, r) + lam * (v**2).sum(axis=1)
    return cost


def _mean_diagonal(J: Array, root: Array) -> Array:
    part = J * root[:, None]
    mean: Array = np.einsum("kij,kij->k", part, part) / part.shape[2]
    return mean


def _step(
    F: Array,
    J: Array,
    y: Array,
    v: Array,
    low: Array | float,
    high: Array | float,
    lam: float,
    root: Array,
    damping: Array,
) -> Array:
    """The damped Gauss-Newton step of every start, k x p, zero in parameters held by a bound."""
    r, J = root * (F - y), J * root[:, None]
    gradient = np.matmul(r[:, None, :], J)[:, 0] + lam * v
    held = ((v <= low) & (gradient > 0)) | ((v >= high) & (gradient < 0))
    if held.any():
        J = np.where(held[:, None, :], 0.0, J)
        gradient = np.where(held, 0.0, gradient)
    m = lam + damping
    n, p = J.shape[1:]
    if p <= n:
        A = np.matmul(J.transpose(0, 2, 1), J)
        A[:, np.arange(p), np.arange(p)] += m[:, None]
        return -np.linalg.solve(A, gradient[:, :, None])[:, :, 0]
    K = np.matmul(J, J.transpose(0, 2, 1))
    K[:, np.arange(n), np.arange(n)] += m[:, None]
    inner = np.linalg.solve(K, np.matmul(J, gradient[:, :, None]))
    step: Array = -(gradient - np.matmul(inner.transpose(0, 2, 1), J)[:, 0]) / m[:, None]
    return step
