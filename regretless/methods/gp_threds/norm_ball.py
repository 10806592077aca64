"""What noisy values prove about a function of known norm: the certificate of GP-ThreDS when `norm_bound` is given.

If ||f|| <= B in the RKHS of the kernel, then (Abbasi-Yadkori 2012, Thm. 3.11) with probability at least 1 - delta, for
every x and every number of values at once,

    |f(x) - mu(x)| <= beta sigma(x),    beta = B + R / sqrt(lambda) sqrt(2 (gain + ln 1/delta)),
    gain = 1/2 logdet(I + K / lambda).

This needs one posterior on all values in the order told; the search's posteriors on cells cannot be used. lambda = R^2
here. A value of known variance v becomes one of noise R when it and its feature are scaled by R / sqrt(v). Between two
points f moves by at most B sqrt(2 - 2 k(x, z)), so a branch-and-bound over boxes bounds the largest value.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from regretless.certificate import Certificate
from regretless.history import History
from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import SEFeatures, correlation, product_grid
from regretless.space.parameters import Array


class NormBall:
    """What values y (n) at X (n x d) say about f, ||f|| <= norm, with probability 1 - delta; yvar (n): NaN unknown."""

    def __init__(
        self,
        X: Array,
        y: Array,
        yvar: Array,
        *,
        kernel: KernelKind,
        lengthscale: float,
        noise_sd: float,
        norm: float,
        delta: float,
    ) -> None:
        most_values = 2000  # otherwise it is computed from the kernel matrix of so many first values, in about a second
        self._kernel, self._lengthscale, self.norm = kernel, lengthscale, norm
        # 1e-8: the least noise variance, by B^2: the posterior is well conditioned, and a larger one is safe
        least = 1e-8 * norm * norm
        variance = max(noise_sd * noise_sd, least)
        variances = np.where(np.isnan(yvar), variance, np.maximum(yvar, least))
        self._features = few_features(kernel, X.shape[1], lengthscale)
        if self._features is not None:
            shrunk = np.sqrt(variance / variances)
            Phi, y = self._features(X) * shrunk[:, None], y * shrunk
            V = Phi.T @ Phi
            V[np.diag_indices_from(V)] += variance
            self._L = cholesky(V, lower=True)
            self._weights = cho_solve((self._L, True), Phi.T @ y)
            self._noise_var = variance
            logdet = 2 * float(np.log(np.diagonal(self._L)).sum()) - len(V) * math.log(variance)
        else:
            self._X, y, variances = X[:most_values], y[:most_values], variances[:most_values]
            K = correlation(kernel, self._X, self._X, lengthscale)
            K[np.diag_indices_from(K)] += variances
            self._L = cholesky(K, lower=True)
            self._weights = cho_solve((self._L, True), y)
            logdet = 2 * float(np.log(np.diagonal(self._L)).sum()) - float(np.log(variances).sum())
        self.gain = 0.5 * logdet
        self.beta = norm + math.sqrt(2 * (self.gain + math.log(1 / delta)))

    def mean_sd(self, Z: Array) -> tuple[Array, Array]:
        """The posterior mean and sd at Z (q x d), q each."""
        if self._features is not None:
            phi = self._features(Z)
            white = solve_triangular(self._L, phi.T, lower=True)
            return phi @ self._weights, np.sqrt(self._noise_var * np.einsum("ij,ij->j", white, white))
        cross = correlation(self._kernel, self._X, Z, self._lengthscale)
        white = solve_triangular(self._L, cross, lower=True)
        return cross.T @ self._weights, np.sqrt(np.maximum(1.0 - np.einsum("ij,ij->j", white, white), 0.0))

    def lower(self, Z: Array) -> float:
        """A lower bound on the largest f over Z (q x d), never below -B."""
        mean, sd = self.mean_sd(Z)
        return max(float((mean - self.beta * sd).max()), -self.norm)

    def upper(self, dim: int) -> float:
        """An upper bound on the largest f over the whole cube, never above B."""
        # boxes per axis at the start of the branch-and-bound, by dimension
        first_boxes = {1: 32, 2: 16, 3: 8, 4: 4, 5: 3, 6: 3}
        m = first_boxes[dim]
        side = 1.0 / m
        centres = product_grid([np.linspace(0.5 * side, 1 - 0.5 * side, m)] * dim)
        halves = product_grid([np.array([-0.25, 0.25])] * dim)
        # 0.002: the branch-and-bound stops this share of B above the largest bound; certificates are 0.4 B wide
        best, finest = -math.inf, 0.002 * self.norm
        while True:
            mean, sd = self.mean_sd(centres)
            bound = mean + self.beta * sd
            best = max(best, float(bound.max()))
            bound += self.norm * self._moves(0.5 * side * math.sqrt(dim))
            kept = bound > best + finest
            if not kept.any():
                return min(best + finest, self.norm)
            # 30_000: boxes that the branch-and-bound keeps, for memory; where it needs more, it ends
            if int(kept.sum()) << dim > 30_000:
                return min(float(bound.max()), self.norm)
            centres = (centres[kept][:, None, :] + side * halves).reshape(-1, dim)
            side /= 2

    def _moves(self, distance: float) -> float:
        """The distance of k(x, .) and k(z, .) in the RKHS for points that far apart."""
        k = correlation(self._kernel, np.zeros((1, 1)), np.full((1, 1), distance), self._lengthscale)[0, 0]
        return math.sqrt(max(2.0 - 2.0 * float(k), 0.0))


def norm_certificate(
    history: History, x: Array, *, kernel: KernelKind, lengthscale: float, noise_sd: float, norm: float, delta: float
) -> Certificate:
    """The certificate of kind "theory" of the point x (d): bounds on its value and on the largest one."""
    told = history.X, history.y, history.yvar
    ball = NormBall(*told, kernel=kernel, lengthscale=lengthscale, noise_sd=noise_sd, norm=norm, delta=delta)
    lower, upper = ball.lower(x[None]), ball.upper(len(x))
    if not lower <= upper:  # also where a value is so large that the bounds are NaN
        return Certificate.none(f"the values contradict a norm of at most {norm:g} or noise of {noise_sd:g}", delta)
    known = "" if np.isnan(history.yvar).all() else ", or with the variance told"
    process = f"norm at most {norm:g} in the RKHS of {kernel} with l = {lengthscale:g}"
    assumed = process, f"noise {noise_sd:g}-sub-Gaussian{known}"
    return Certificate(upper - lower, lower, upper, delta, "theory", assumed)


def few_features(kernel: KernelKind, dim: int, lengthscale: float) -> SEFeatures | None:
    """The features of the kernel where they are few enough to work with; None otherwise."""
    if kernel != "se" or dim > 3:
        return None
    features = SEFeatures(dim, lengthscale)
    # 900: up to this rank the bound is computed from the features of the squared exponential
    return features if features.rank <= 900 else None
