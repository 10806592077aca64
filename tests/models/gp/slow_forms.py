"""Independent slow forms of what the posterior computes: the kernel pair by pair, and matrices inverted outright."""

import math

import numpy as np


def kernel_matrix(gp, A, B):
    """k between the rows of A and B, one pair at a time."""
    kernel, hyper = gp.factor.kernel, gp.hyper
    labels = dict(kernel.choices)
    scales = np.broadcast_to(hyper.lengthscale, kernel.dim)
    rotation = np.eye(len(kernel.lines)) if hyper.rotation is None else hyper.rotation

    def k(a, b):
        gap = (a - b)[kernel.lines] @ rotation
        r2 = float(((gap / scales[kernel.lines]) ** 2).sum())
        for i, count in labels.items():
            r2 += (math.floor(a[i] * count) != math.floor(b[i] * count)) / scales[i] ** 2
        r = math.sqrt(5 * r2)
        base = math.exp(-r2 / 2) if kernel.kind == "se" else (1 + r + r * r / 3) * math.exp(-r)
        u, v = 2 * a[kernel.lines] - 1, 2 * b[kernel.lines] - 1
        return base + hyper.quadratic / 4 * (1 + float(u @ v)) ** 2

    return np.array([[k(a, b) for b in B] for a in A])


def covariance(gp, Q):
    """The joint posterior covariance at Q."""
    X = gp.factor.X
    inverse = np.linalg.inv(kernel_matrix(gp, X, X) + np.diag(gp.factor.noise + gp.factor.jitter))
    C = kernel_matrix(gp, Q, X)
    return gp.signal * (kernel_matrix(gp, Q, Q) - C @ inverse @ C.T)


def log_evidence(gp):
    """The log density of the standardised values, constant mean and signal variance plugged in."""
    A = gp.signal * (kernel_matrix(gp, gp.X, gp.X) + np.diag(gp.factor.noise[: gp.n]))
    residual = (gp.y - gp.offset) / gp.scale - gp.mean
    return -0.5 * residual @ np.linalg.solve(A, residual) - 0.5 * np.linalg.slogdet(2 * math.pi * A)[1]


def draw(gp, Q, k, rng):
    """k joint draws of the function at Q, k x q."""
    C = covariance(gp, Q)
    L = np.linalg.cholesky(C + 1e-12 * np.trace(C) / len(C) * np.eye(len(C)))
    return gp.mean_at(Q) + rng.standard_normal((k, len(Q))) @ L.T
