"""Linear BO: Doumont, Fan, Maus, Gardner, Moss and Pleiss, "We Still Don't Understand High-Dimensional Bayesian
Optimization", arXiv:2512.00170.

With about as many values as dimensions a linear model is as much as can be learnt. On the box it would always propose a
corner, so the box is first bent onto a sphere, where no point is further out than another; a Bayesian linear regression
on the sphere, with LogEI, is the whole method.

Notation
    u = 2 x - 1, z = u / sqrt(g D)       g in (0, 1): the global length-scale, as a share of the largest |u|^2
    P(z) = (2 z, |z|^2 - 1) / (|z|^2 + 1)       the inverse stereographic projection, D + 1 features of length 1 (Eq. 4)
    k(x, x') = P(z).P(z')                       (Eq. 2; the constant b_0 is the constant mean, which is estimated)

Deviations
    1. One length-scale for all coordinates; the paper learns one each under a broad prior. It cancels between z and the
       global one, so g is left.
    2. g and the noise are found on a grid, exactly (one eigendecomposition per g), at the library's scheduled sizes;
       the signal variance is profiled.
    3. Pending points are hallucinated.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, lapack

from regretless.gp.acquisition import kept_from_failures, log_improvement, of_posterior
from regretless.gp.design import Design, away_from_known, design_size
from regretless.gp.maximiser import maximise
from regretless.gp.surrogate import scheduled, standardisation
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

SCALES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
"""g on the grid."""
NOISES = 10.0 ** np.arange(-6.0, 1.01, 0.25)
"""The noise relative to the signal on the grid."""
NOISE_PRIOR = (math.log(1e-3), 3.0)
"""Centre and sd of a normal prior on its logarithm."""


class LinearBO(Method):
    """Linear BO: LogEI on a Bayesian linear regression after bending the box onto a sphere.

    Args:
        initial: points of the initial design; None: as for the other methods (the paper: 30).
    """

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._design = Design(
            self.cube, design_size(self.dim, budget) if initial is None else initial, self.fixed_generator()
        )
        self._fitted: tuple[int, float, float] = (0, 0.5, 1e-3)  # size, g and noise of the latest fit

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        model = self._model(self.pending)
        means = model.mean_var(self.X)[0]
        pair = of_posterior(model, log_improvement(float(means.max()), model.signal))
        pair = kept_from_failures(pair, self.X, self.failed, logarithmic=True)
        incumbents = self.X[np.argsort(-means, kind="stable")[:3]]
        x = maximise(pair[0], self.cube, rng, incumbents=incumbents, score=pair[1])
        return away_from_known(x, self, rng)

    def _model(self, pending: Array) -> SphericalRegression:
        size = scheduled(len(self.y))[1]
        if self._fitted[0] != size:
            offset, scale = standardisation(self.y[:size])
            self._fitted = (size, *best_scale_and_noise(self.X[:size], (self.y[:size] - offset) / scale))
        return SphericalRegression(self.X, self.y, pending, *self._fitted[1:])

    def _recommend(self) -> Array:
        best: Array = self.X[int(np.argmax(self._model(self.pending[:0]).mean_var(self.X)[0]))]
        return best


class SphericalRegression:
    """Bayesian linear regression on P(z), conditioned on values (standardised inside) and on pending points, whose
    values are hallucinated."""

    def __init__(self, X: Array, y: Array, pending: Array, g: float, noise: float) -> None:
        self.g = g
        self.P = project(np.concatenate([X, pending]), g)
        K = self.P @ self.P.T
        K.ravel()[:: len(K) + 1] += noise
        self._L = lapack.dpotrf(K, lower=1, clean=1)[0]
        self.offset, self.scale = standardisation(y)
        sides = np.zeros((len(K), 2))
        sides[: len(y), 0], sides[: len(y), 1] = (y - self.offset) / self.scale, 1.0
        white = blas.dtrsm(1.0, self._L, sides, lower=1)[: len(y)]
        self.mean = float(white[:, 0] @ white[:, 1] / (white[:, 1] @ white[:, 1]))
        residual = np.zeros(len(K))
        residual[: len(y)] = white[:, 0] - self.mean * white[:, 1]
        self.weights = blas.dtrsv(self._L, residual, lower=1, trans=1) @ self.P
        """The posterior mean of the coefficients, D + 1."""
        self.signal = (float(residual @ residual) + 1.0) / (len(y) + 1.0)

    def mean_var(self, X: Array) -> tuple[Array, Array]:
        """Posterior mean (q) and variance (q), standardised."""
        P = project(X, self.g)
        V = blas.dtrsm(1.0, self._L, self.P @ P.T, lower=1)
        return self.mean + P @ self.weights, self.signal * np.maximum(1.0 - np.einsum("ij,ij->j", V, V), 0.0)

    def mean_var_grad(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both, q x D each."""
        P = project(X, self.g)
        V = blas.dtrsm(1.0, self._L, self.P @ P.T, lower=1)
        back = blas.dtrsm(1.0, self._L, V, lower=1, trans_a=1).T @ self.P
        dm = pulled_back(np.broadcast_to(self.weights, P.shape), X, self.g)
        dv = -2.0 * self.signal * pulled_back(back, X, self.g)
        return self.mean + P @ self.weights, self.signal * np.maximum(1.0 - np.einsum("ij,ij->j", V, V), 0.0), dm, dv


def project(X: Array, g: float) -> Array:
    """P(z) for points of the unit cube, n x (D + 1): unit vectors (Eq. 4)."""
    Z = (2.0 * X - 1.0) / math.sqrt(g * X.shape[1])
    square = np.einsum("ij,ij->i", Z, Z)[:, None]
    projected: Array = np.concatenate([2.0 * Z, square - 1.0], axis=1) / (square + 1.0)
    return projected


def pulled_back(G: Array, X: Array, g: float) -> Array:
    """The gradient in x (q x D) of a function whose gradient in P is G (q x (D + 1)); along the sphere's radius it has
    no part."""
    unit = 2.0 / math.sqrt(g * X.shape[1])
    Z = (X - 0.5) * unit
    t = np.einsum("ij,ij->i", Z, Z)[:, None] + 1.0
    along = np.einsum("ij,ij->i", G[:, :-1], Z)[:, None]
    gradient: Array = unit * (2.0 / t * G[:, :-1] + (4.0 / t**2) * (G[:, -1:] - along) * Z)
    return gradient


def best_scale_and_noise(X: Array, y: Array) -> tuple[float, float]:
    """g and the relative noise of greatest posterior density on the grid, the mean and the signal variance profiled
    out."""
    n, best = len(y), (math.inf, 0.5, 1e-3)
    prior = 0.5 * ((np.log(NOISES) - NOISE_PRIOR[0]) / NOISE_PRIOR[1]) ** 2
    for g in SCALES:
        P = project(X, g)
        values, Q = np.linalg.eigh(P @ P.T)
        spectrum = np.maximum(values, 0.0)[:, None] + NOISES  # n x noises
        a, b = Q.T @ y, Q.T @ np.ones(n)
        mean = ((a * b)[:, None] / spectrum).sum(axis=0) / ((b * b)[:, None] / spectrum).sum(axis=0)
        squares = ((a[:, None] - b[:, None] * mean) ** 2 / spectrum).sum(axis=0)
        density = 0.5 * (n + 1) * np.log((squares + 1) / (n + 1)) + 0.5 * np.log(spectrum).sum(axis=0) + prior
        i = int(np.argmin(density))
        if density[i] < best[0]:
            best = float(density[i]), g, float(NOISES[i])
    return best[1:]
