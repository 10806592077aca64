"""The maximum of a quadratic through the values around the best one: the steps down a smooth valley.

A Gaussian process with a rough kernel knows the bottom of a valley to some digits only. Near it a smooth function is a
quadratic, which as many values as it has coefficients determine. The quadratic is fitted by weighted least squares to
the values nearest to the best, about two for each coefficient, and its maximum within half of their radius is taken.
"""

import numpy as np

from regretless.space.parameters import Array

PER_COEFFICIENT = 2  # values per coefficient of the quadratic that are taken, where there are as many
REACH = 0.5  # a step goes at most this share of the radius of these values: outside the quadratic is a guess
FALL = 2.0  # the weight of a value at the border of the radius is exp(-FALL); our choice, as the next ones


def coefficients(dim: int) -> int:
    """The number of coefficients of a quadratic in so many coordinates."""
    return (dim + 1) * (dim + 2) // 2


def quadratic_step(X: Array, y: Array, *, must_fit: bool = False) -> Array | None:
    """The maximum, d, of the quadratic fitted to values y (n) at X (n x d) around the best, within the unit cube. None
    while there are too few values to determine it. Where it `must_fit`, None also while they do not lie on one."""
    n, d = X.shape
    count = coefficients(d)
    if n < (PER_COEFFICIENT * count if must_fit else count + d):
        return None
    best = X[int(np.argmax(y))]
    squares = ((X - best) ** 2).sum(axis=1)
    near = np.argsort(squares, kind="stable")[: PER_COEFFICIENT * count]
    radius = float(np.sqrt(squares[near[-1]]))
    if radius == 0.0:
        return None
    Z = (X[near] - best) / radius
    rows, columns = np.triu_indices(d)
    features = np.column_stack([np.ones(len(Z)), Z, Z[:, rows] * Z[:, columns]])
    weights = np.exp(-FALL * (Z**2).sum(axis=1))
    spread = float(np.ptp(y[near])) or 1.0  # so that values of any size can be squared
    left, right = features * weights[:, None], (y[near] - y[near].max()) / spread * weights
    normal = left.T @ left
    # 1e-10: the ridge of the normal equations, relative to their mean diagonal: collinear values must not raise
    normal.ravel()[:: count + 1] += 1e-10 * np.trace(normal) / count
    solved = np.linalg.solve(normal, left.T @ right)
    # 0.01: the unexplained share of the variance up to which a quadratic is followed (docs/lab/auto.md)
    if must_fit and unexplained(right, left @ solved, weights, count) >= 0.01:
        return None
    gradient, hessian = solved[1 : d + 1], np.zeros((d, d))
    hessian[rows, columns] = solved[d + 1 :]
    curvatures, axes = np.linalg.eigh(hessian + hessian.T)
    # 1e-6: curvatures are at least this share of the largest: along a flat direction the step is cut by REACH
    curvatures = np.minimum(curvatures, -1e-6 * np.abs(curvatures).max() - np.finfo(np.float64).tiny)
    step = axes @ ((axes.T @ gradient) / -curvatures)
    length = float(np.sqrt(step @ step))
    if length > REACH:
        step *= REACH / length
    return np.asarray(np.clip(best + radius * step, 0.0, 1.0))


def unexplained(right: Array, fitted: Array, weights: Array, count: int) -> float:
    """The share of the variance of weighted values (n) that a fit of so many coefficients leaves."""
    mean = float(weights @ right) / float(weights @ weights)
    left_over, whole = right - fitted, right - weights * mean
    return float(left_over @ left_over) / (len(right) - count) / (float(whole @ whole) / (len(right) - 1) or 1.0)
