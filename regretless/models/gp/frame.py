"""Turns the axes of an anisotropic kernel to the directions in which the function varies.

A length-scale per coordinate cannot describe a valley across the coordinates, but the posterior mean of such a fit
knows it: its gradients at the better points are large across it and small along it. The axes tried are the eigenvectors
of C = mean of grad m(x_i) grad m(x_i)', with length-scales in proportion to C^(-1/4) to start from: for a quadratic
with Hessian H, at points spread evenly, C is proportional to H^2. The posterior density of the hyper-parameters decides
between these axes, the coordinates and the axes there were.
"""

import numpy as np

from regretless.models.gp.fit import NegativeLogPosterior, Prior
from regretless.models.gp.kernels import Hyper, Kernel
from regretless.models.gp.posterior import GP
from regretless.space.parameters import Array


def turn_axes(kernel: Kernel, X: Array, y: Array, yvar: Array, hyper: Hyper, *, prior: Prior, rounds: int) -> Hyper:
    """The most probable of hyper, fitted to X (n x d) and standardised y (n), and its refits along other axes."""
    # 3: values per coordinate below which axes stay: the gradients would be those of the prior
    if len(y) < 3 * kernel.dim:
        return hyper
    gp = GP.exact(kernel, hyper, X, y, yvar)
    # 1e-3: relative noise above which axes stay: gradients of a smoothed mean follow the noise
    if gp.factor.noise.mean() > 1e-3:
        return hyper
    objective = NegativeLogPosterior(kernel, X, y, yvar, prior, ard=True, rotation=hyper.rotation)
    theta = objective.theta(hyper)
    best, least = hyper, objective.one(theta)[0]
    middle = float(np.exp(np.log(hyper.lengthscale).mean()))
    axes, shape = directions(gp)
    frames: list[tuple[Array | None, Array]] = [(axes, middle * shape)]
    if hyper.rotation is not None:
        frames.append((None, np.full(len(shape), middle)))
    for rotation, scales in frames:
        objective = NegativeLogPosterior(kernel, X, y, yvar, prior, ard=True, rotation=rotation)
        start = theta.copy()
        start[kernel.lines] = np.log(scales)
        thetas, values = objective.minimise(start[None], rounds)
        if values[0] < least:
            best, least = objective.hyper(thetas[0]), float(values[0])
    return best


def directions(gp: GP) -> tuple[Array, Array]:
    """Axes (m x m, columns) in which the mean varies at the better half of the values, relative length-scales (m)."""
    lines = gp.factor.kernel.lines
    better = np.argsort(-gp.y, kind="stable")[: max(2 * len(lines), gp.n // 2)]
    G = gp.mean_grad(gp.X[better])[1][:, lines]
    variances, axes = np.linalg.eigh(G.T @ G / len(G))
    # 1e-8: the least eigenvalue of C relative to the largest: length-scales start within a factor of 100
    shape = np.maximum(variances, 1e-8 * variances[-1] + 1e-300) ** -0.25
    return axes, shape / float(np.exp(np.log(shape).mean()))
