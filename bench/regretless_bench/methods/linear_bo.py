"""Linear BO: Doumont, Fan, Maus, Gardner, Moss and Pleiss, "We Still Don't Understand High-Dimensional Bayesian
Optimization", arXiv:2512.00170.

With about as many values as dimensions a linear model is as much as can be learnt. On the box it would always propose a
corner, so the box is first bent onto a sphere, where no point is further out than another. LogEI of a Bayesian linear
regression on the sphere is the whole method.

Notation
    u = 2 x - 1, z = u / sqrt(g D)       g in (0, 1): the global length-scale, as a share of the largest |u|^2
    P(z) = (2 z, |z|^2 - 1) / (|z|^2 + 1)       the inverse stereographic projection, D + 1 features of length 1 (Eq. 4)
    k(x, x') = P(z).P(z')                       (Eq. 2; the constant b_0 is the constant mean, which is estimated)

Deviations
    1. One length-scale for all coordinates, which cancels but for g; the paper learns one each under a broad prior.
    2. g and the noise are found on a grid, exactly, at the library's scheduled sizes; the signal variance is profiled.
    3. Noise variances that are told with values are not used. Pending points are hallucinated.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, lapack

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.acquisition import log_improvement, of_posterior
from regretless.models.gp.posterior import profiled
from regretless.models.gp.step import best_evaluated, step
from regretless.models.gp.surrogate import scheduled, standardisation
from regretless.space import Cube
from regretless.space.parameters import Array

SCALES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)  # the values of g that are compared; the paper learns g by gradients
NOISES = 10.0 ** np.arange(-6.0, 1.01, 0.25)  # the relative noises that are compared, four per decade; our choice
NOISE_PRIOR = (math.log(1e-3), 3.0)  # Centre and sd of a normal prior on the logarithm of that noise; broad; our choice
START = (0.5, 1e-3)  # g and the noise where the grid does not decide: its middle, and the centre of the prior


class LinearBO(DesignedMethod):
    """Linear BO: LogEI on a Bayesian linear regression after bending the box onto a sphere.

    Args:
        initial: points of the initial design; None: as for the other methods (the paper: 30).
    """

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget, initial=initial)
        self._fitted: tuple[int, float, float] = (0, *START)  # size, g and noise of the latest fit

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        model = self._model(history, history.pending)
        best = float(model.mean_at(history.X).max())
        pair = of_posterior(model, log_improvement(best, model.signal))
        return step(history, cube, model, pair, rng, logarithmic=True)

    def _model(self, history: History, pending: Array) -> SphericalRegression:
        self._catch_up(history)
        size = scheduled(len(history))[1]
        if self._fitted[0] != size:
            offset, scale = standardisation(history.y[:size])
            self._fitted = (size, *best_scale_and_noise(history.X[:size], (history.y[:size] - offset) / scale))
        return SphericalRegression(history.X, history.y, pending, *self._fitted[1:])

    def _begin(self) -> None:
        self._fitted = (0, *START)

    def _recommend(self, history: History) -> Array:
        return best_evaluated(self._model(history, history.pending[:0]), history.X)


class SphericalRegression:
    """Bayesian linear regression on P(z) of values y (n), standardised, at X (n x D); pending: p x D, hallucinated."""

    def __init__(self, X: Array, y: Array, pending: Array, g: float, noise: float) -> None:
        self.g = g
        self.P = project(np.concatenate([X, pending]), g)
        K = self.P @ self.P.T
        K.ravel()[:: len(K) + 1] += noise
        self._L = lapack.dpotrf(K, lower=1, clean=1)[0]
        self.offset, self.scale = standardisation(y)

        def lower(R: Array) -> Array:
            return np.asarray(blas.dtrsm(1.0, self._L, R.T, lower=1).T)

        self.mean, residual, self.signal = profiled(lower, (y - self.offset) / self.scale, len(K))
        self.weights = blas.dtrsv(self._L, residual, lower=1, trans=1) @ self.P
        """The posterior mean of the coefficients, D + 1."""

    def mean_at(self, X: Array) -> Array:
        """Posterior mean alone, standardised (q)."""
        return np.asarray(self.mean + project(X, self.g) @ self.weights)

    def mean_var(self, X: Array) -> tuple[Array, Array]:
        """Posterior mean (q) and variance (q), standardised."""
        return self._moments(project(X, self.g))[:2]

    def mean_var_grad(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both, q x D each."""
        P = project(X, self.g)
        mean, variance, V = self._moments(P)
        back = blas.dtrsm(1.0, self._L, V, lower=1, trans_a=1).T @ self.P
        by_mean = gradient_in_x(np.broadcast_to(self.weights, P.shape), X, self.g)
        return mean, variance, by_mean, -2.0 * self.signal * gradient_in_x(back, X, self.g)

    def _moments(self, P: Array) -> tuple[Array, Array, Array]:
        """Mean and variance at projected points P (q x (D + 1)), and L^-1 k(X, P), n x q."""
        V = blas.dtrsm(1.0, self._L, self.P @ P.T, lower=1)
        return self.mean + P @ self.weights, self.signal * np.maximum(1.0 - np.einsum("ij,ij->j", V, V), 0.0), V


def project(X: Array, g: float) -> Array:
    """P(z) for points of the unit cube, n x (D + 1): unit vectors (Eq. 4)."""
    Z = (2.0 * X - 1.0) / math.sqrt(g * X.shape[1])
    square = np.einsum("ij,ij->i", Z, Z)[:, None]
    return np.asarray(np.concatenate([2.0 * Z, square - 1.0], axis=1) / (square + 1.0))


def gradient_in_x(G: Array, X: Array, g: float) -> Array:
    """The gradient in x (q x D) of a function of P(z) whose gradient in P is G (q x (D + 1))."""
    unit = 2.0 / math.sqrt(g * X.shape[1])
    Z = (X - 0.5) * unit
    t = np.einsum("ij,ij->i", Z, Z)[:, None] + 1.0
    along = np.einsum("ij,ij->i", G[:, :-1], Z)[:, None]
    return np.asarray(unit * (2.0 / t * G[:, :-1] + (4.0 / t**2) * (G[:, -1:] - along) * Z))


def best_scale_and_noise(X: Array, y: Array) -> tuple[float, float]:
    """g and the noise of greatest posterior density on the grid, mean and signal variance profiled out."""
    n, best = len(y), (math.inf, *START)
    prior = 0.5 * ((np.log(NOISES) - NOISE_PRIOR[0]) / NOISE_PRIOR[1]) ** 2
    for g in SCALES:
        U, singular, _ = np.linalg.svd(project(X, g), full_matrices=False)  # n x r, r = min(n, D + 1)
        spectrum = (singular**2)[:, None] + NOISES  # r x noises; the other n - r directions hold noise alone
        a, b = U.T @ y, U.sum(axis=0)
        y_rest, one_rest = y - U @ a, 1.0 - U @ b
        weight = ((b * b)[:, None] / spectrum).sum(axis=0) + one_rest @ one_rest / NOISES
        mean = (((a * b)[:, None] / spectrum).sum(axis=0) + y_rest @ one_rest / NOISES) / weight
        squares = ((a[:, None] - b[:, None] * mean) ** 2 / spectrum).sum(axis=0)
        squares += ((y_rest[:, None] - one_rest[:, None] * mean) ** 2).sum(axis=0) / NOISES
        determinant = np.log(spectrum).sum(axis=0) + (n - len(singular)) * np.log(NOISES)
        density = 0.5 * (n + 1) * np.log((squares + 1) / (n + 1)) + 0.5 * determinant + prior
        i = int(np.argmin(density))
        if density[i] < best[0]:
            best = float(density[i]), g, float(NOISES[i])
    return best[1:]
