"""Exact Gaussian-process regression: the conditioned posterior, its gradients and sample paths.

Notation (n evaluated points, p pending ones, q query points, d coordinates, e embedded ones):
    A = K + diag(noise)   covariance of the values relative to the signal variance s2, n x n;  A = L L'
    m                     constant mean by generalised least squares, m = (1'A^-1 y) / (1'A^-1 1)
    alpha = A^-1 (y - m)  weights of the posterior mean, n
    s2                    signal variance; ((y-m)'A^-1(y-m) + 1) / (n + 1) unless some noise variance is known
Posterior at x with k = k(x, X):  mean m + k.alpha,  variance s2 (k(x, x) - |L^-1 k|^2).

The factor is stored as the full factor of the first n0 points and the rows appended after them,

    L = [[L0, 0], [B, L1]]        L0 n0 x n0, B m x n0, L1 m x m,

so that appending a point, or conditioning on a pending one, costs O(n^2) and shares L0. Bit-equal numbers need the same
points appended to the same full factor.

Values go in as the caller has them and come out standardised: value = offset + scale * standardised.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.linalg import blas, lapack

from regretless.models.gp.kernels import Hyper, Kernel, KernelKind, squared_distances
from regretless.space import MOST_ONEHOT
from regretless.space.parameters import Array

__all__ = ["GP", "Factor", "Hyper", "Kernel", "KernelKind", "SamplePath"]

FIRST_JITTER = 1e-10  # the first addition to the diagonal of a matrix that cannot be factorised; then tenfold
APPENDED = 16  # appended rows that are made as one block; a triangular solve of 16 columns costs about as much as of 2
FEATURES = 1024  # random Fourier features of a sample path: covariances of paths are right to a thirtieth


def factor_with_jitter(factor: Callable[[float], tuple[Array, int]]) -> tuple[Array, float]:
    """What `factor(jitter)` gives for the least of 0, FIRST_JITTER, ten times that, ... with info = 0, and that
    jitter."""
    jitter = 0.0
    while True:
        L, info = factor(jitter)
        if info == 0:
            return L, jitter
        jitter = max(FIRST_JITTER, 10.0 * jitter)
        # 1e3: a matrix that cannot be factorised with this on its diagonal is no covariance
        if jitter >= 1e3:
            raise ArithmeticError("a covariance matrix cannot be factorised: it is not finite, or not positive")


class Factor:
    """L of the module's text for points, kernel, hyper-parameters and noise; values play no part in it. Immutable."""

    def __init__(self, kernel: Kernel, hyper: Hyper, X: Array, noise: Array) -> None:
        """The full factor of the points X (n x d), each with its relative noise (n)."""
        self.kernel, self.hyper = kernel, hyper
        self.X, self.noise = np.array(X, dtype=np.float64), np.array(noise, dtype=np.float64)
        self.Z = kernel.embed(self.X, hyper.rotation)
        self.inverse_scales = kernel.inverse_scales(hyper)
        self.W = self.Z * self.inverse_scales  # embedded points divided by the length-scales, n x e
        self.norms = np.einsum("ij,ij->i", self.W, self.W)
        self.full = len(self.X)
        self._L0, self.jitter = factor_with_jitter(self._factor)
        """The upper factor U = L' of the module's text, in Fortran order, and what had to be added to the diagonal."""
        self._B, self._L1 = np.empty((0, self.full)), np.empty((0, 0))

    def _factor(self, jitter: float) -> tuple[Array, int]:
        A = self.kernel.lower_gram(self.Z, self.W, self.hyper.quadratic)
        A.ravel()[:: self.full + 1] += self.noise + jitter
        # the lower triangle of a C-ordered array is the upper one of its Fortran-ordered transpose: factorised in place
        U, info = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        return np.asarray(U), int(info)

    @property
    def n(self) -> int:
        return len(self.X)

    def lower(self, R: Array) -> Array:
        """L^-1 applied to each row of R, q x n."""
        n0 = self.full
        top: Array = blas.dtrsm(1.0, self._L0, np.array(R[:, :n0], order="C").T, lower=0, trans_a=1, overwrite_b=1).T
        if self.n == n0:
            return top
        rest: Array = R[:, n0:] - top @ self._B.T
        rest = blas.dtrsm(1.0, self._L1.T, rest.T, lower=0, trans_a=1, overwrite_b=1).T
        return np.concatenate([top, rest], axis=1)

    def upper(self, V: Array) -> Array:
        """L^-T applied to each row of V, q x n."""
        n0 = self.full
        top = V[:, :n0]
        if self.n == n0:
            return np.asarray(blas.dtrsm(1.0, self._L0, np.array(top, order="C").T, lower=0, overwrite_b=1).T)
        rest: Array = blas.dtrsm(1.0, self._L1.T, np.array(V[:, n0:], order="C").T, lower=0, overwrite_b=1).T
        top = top - rest @ self._B
        return np.concatenate([blas.dtrsm(1.0, self._L0, top.T, lower=0, overwrite_b=1).T, rest], axis=1)

    def embed(self, X: Array) -> Array:
        """The points X (q x d) as the kernel sees them, q x e."""
        return self.kernel.embed(X, self.hyper.rotation)

    def cross(self, X: Array) -> Array:
        """k(x, X_i) for each row x, q x n."""
        Z = self.embed(X)
        K = self.kernel.base(squared_distances(Z * self.inverse_scales, self.W, self.norms))
        self.kernel.add_trend(K, Z, self.Z, self.hyper.quadratic)
        return K

    def extended(self, X: Array, noise: Array) -> Factor:
        """The factor with the points X (p x d) appended, in O(n^2) each; see `appended_blocks` for their order."""
        out = copy.copy(self)  # shares everything that is not replaced below
        Z = np.concatenate([self.embed(x) for x in X[:, None]])  # a product's rounding depends on how many rows it has
        W = Z * self.inverse_scales
        out.X, out.noise = np.concatenate([self.X, X]), np.concatenate([self.noise, noise])
        out.Z, out.W = np.concatenate([self.Z, Z]), np.concatenate([self.W, W])
        out.norms = np.concatenate([self.norms, np.einsum("ij,ij->i", W, W)])
        q, n0, m, p = self.hyper.quadratic, self.full, self.n - self.full, len(X)
        B, L1 = np.zeros((m + p, n0)), np.zeros((m + p, m + p))
        B[:m], L1[:m, :m] = self._B, self._L1
        for i, j in appended_blocks(m, m + p):
            at, to = n0 + i, n0 + j
            K = self.kernel.base(squared_distances(out.W[at:to], out.W[:to], out.norms[:to]))
            self.kernel.add_trend(K, out.Z[at:to], out.Z[:to], q)
            top = blas.dtrsm(1.0, self._L0, np.array(K[:, :n0], order="C").T, lower=0, trans_a=1, overwrite_b=1)
            B[i:j] = top.T
            if i:
                L1[i:j, :i] = lapack.dtrtrs(L1[:i, :i], (K[:, n0:at] - top.T @ B[:i].T).T, lower=1)[0].T
            rest = K[:, at:] - top.T @ top - L1[i:j, :i] @ L1[i:j, :i].T
            at_zero = self.kernel.at_zero(out.Z[at:to], q)
            for r in range(i, j):
                if r > i:
                    L1[r, i:r] = lapack.dtrtrs(L1[i:r, i:r], rest[r - i, : r - i], lower=1)[0]
                b, own = B[r], float(out.noise[n0 + r])
                left = float(at_zero[r - i]) + own - float(b @ b) - float(L1[r, :r] @ L1[r, :r])
                if left < own:  # in exact arithmetic what is left of the diagonal is at least the noise
                    out.jitter = max(out.jitter, own - left)
                    left = own
                L1[r, r] = math.sqrt(left)
        out._B, out._L1 = B, L1
        return out

    def diagonal(self, n: int) -> Array:
        """L_ii of the first n points: the sd of each given those before it, noise included, relative to the signal."""
        parts = [np.diagonal(self._L0)[: min(n, self.full)], np.diagonal(self._L1)[: max(n - self.full, 0)]]
        return np.concatenate(parts)

    def log_diagonal(self, n: int) -> float:
        """The sum of log L_ii over the first n points: half the log-determinant of their covariance."""
        return float(np.log(self.diagonal(n)).sum())


def appended_blocks(done: int, rows: int) -> Iterator[tuple[int, int]]:
    """The (start, stop) of the blocks in which appended rows done .. rows are made.

    Rows are made singly until there are APPENDED of them. These are then made again as one block. So few rows are
    cheap, and many cost a matrix product. The rounding depends on the number of rows, not on when they came.
    """
    whole = rows // APPENDED * APPENDED
    first = done if whole <= done else done // APPENDED * APPENDED
    for start in range(first, whole, APPENDED):
        yield start, start + APPENDED
    for row in range(max(first, whole), rows):
        yield row, row + 1


def profiled(lower: Callable[[Array], Array], standard: Array, total: int) -> tuple[float, Array, float]:
    """The constant mean, the whitened residuals (total) and the signal variance of standardised values (n) at the first
    of `total` points; `lower` applies L^-1 to rows. Pending points count as their own means: their residuals are 0."""
    signal_weight = 1.0  # the weight of the prior that the signal variance is 1; constant values need one
    n, rows, residual = len(standard), np.zeros((2, total)), np.zeros(total)
    rows[0, :n], rows[1, :n] = standard, 1.0
    white = lower(rows)[:, :n]
    mean = float(white[0] @ white[1] / (white[1] @ white[1]))
    residual[:n] = white[0] - mean * white[1]
    return mean, residual, (float(residual @ residual) + signal_weight) / (n + signal_weight)


class GP:
    """A Gaussian process conditioned on values, as in the module's text; in standardised units. Immutable.

    Args:
        factor: the factor of the evaluated points, in the order of y, and of pending points after them.
        y: the values, n, in the caller's units; offset, scale: what standardises them.
        profile: estimate the signal variance from the values; otherwise take it from the hyper-parameters.
    """

    def __init__(self, factor: Factor, y: Array, *, offset: float, scale: float, profile: bool) -> None:
        self.factor, self.y, self.offset, self.scale, self.profile = factor, y, float(offset), float(scale), profile
        self.n = len(y)  # evaluated points; pending ones are not counted
        self.mean, residual, signal = profiled(factor.lower, (y - offset) / scale, factor.n)
        self.alpha = factor.upper(residual[None])[0]
        """The weights of the kernel columns: the posterior mean is mean + k(x) @ alpha."""
        self.signal = signal if profile else factor.hyper.signal  # the signal variance

    @classmethod
    def exact(
        cls,
        kernel: Kernel,
        hyper: Hyper,
        X: Array,
        y: Array,
        yvar: Array | None = None,
        *,
        offset: float = 0.0,
        scale: float = 1.0,
    ) -> GP:
        """The posterior with a full factor. yvar: known noise variances in the units of y squared, NaN unknown; where
        one is known, the signal variance is `hyper.signal`, else it is profiled out."""
        known = yvar is not None and not np.isnan(yvar).all()
        noise = relative_noise(hyper, len(y), yvar, scale)
        factor = Factor(kernel, hyper, X, noise)
        return cls(factor, np.asarray(y, dtype=np.float64), offset=offset, scale=scale, profile=not known)

    @property
    def X(self) -> Array:
        """The evaluated points, n x d."""
        return self.factor.X[: self.n]

    @property
    def hyper(self) -> Hyper:
        return self.factor.hyper

    def mean_var(self, X: Array) -> tuple[Array, Array]:
        """Posterior mean (q) and variance (q) of the function, without noise, at X (q x d)."""
        K = self.factor.cross(X)
        V = self.factor.lower(K)
        prior = self.factor.kernel.at_zero(self.factor.embed(X), self.hyper.quadratic)
        left = prior - np.einsum("ij,ij->i", V, V)
        return self.mean + K @ self.alpha, self.signal * np.maximum(left, 0.0)

    def mean_at(self, X: Array) -> Array:
        """Posterior mean alone (q), O(n d) a point."""
        mean: Array = self.factor.cross(X) @ self.alpha
        return mean + self.mean

    def mean_var_grad(self, X: Array) -> tuple[Array, Array, Array, Array]:
        """As `mean_var`, and the gradients of both in x (q x d each); coordinates of choices have gradient 0."""
        q, kernel, factor = len(X), self.factor.kernel, self.factor
        Z = factor.embed(X)
        K, slope, t = self._cross_slope(Z)
        V = factor.lower(K)
        left = kernel.at_zero(Z, self.hyper.quadratic) - np.einsum("ij,ij->i", V, V)
        C = np.empty((2, q, factor.n))  # weights of the kernel's gradients: of the mean, then of -variance / 2
        C[0], C[1] = self.alpha, factor.upper(V)
        G = self._weighted_gradient(Z, C, slope, t)
        dm, dv = G[:q], -2.0 * self.signal * G[q:]
        if t is not None:
            lines = Z[:, : len(kernel.lines)]
            u2 = 1.0 + 4.0 * np.einsum("ij,ij->i", lines, lines)
            dv += self.signal * self._to_coordinates((4.0 * self.hyper.quadratic * u2)[:, None] * lines)
        return self.mean + K @ self.alpha, self.signal * np.maximum(left, 0.0), dm, dv

    def mean_grad(self, X: Array) -> tuple[Array, Array]:
        """Posterior mean (q) and its gradient (q x d), O(n d) a point."""
        Z = self.factor.embed(X)
        return self._mean_grad_at(Z, *self._cross_slope(Z))

    def _mean_grad_at(self, Z: Array, K: Array, slope: Array, t: Array | None) -> tuple[Array, Array]:
        weights = np.broadcast_to(self.alpha, (1, *K.shape))
        return self.mean + K @ self.alpha, self._weighted_gradient(Z, weights, slope, t)

    def _cross_slope(self, Z: Array) -> tuple[Array, Array, Array | None]:
        """k(x, X_i), the derivative of its stationary part in r^2, and 1 + u.u', all q x n."""
        factor, q = self.factor, self.hyper.quadratic
        K, slope = factor.kernel.base_slope(squared_distances(Z * factor.inverse_scales, factor.W, factor.norms))
        if not q:
            return K, slope, None
        t = factor.kernel.trend(Z, factor.Z)
        K += q / 4.0 * t * t
        return K, slope, t

    def _weighted_gradient(self, Z: Array, C: Array, slope: Array, t: Array | None) -> Array:
        """sum_i C_i d k(x, X_i) / dx, for b blocks of weights, C b x q x n: b q x d."""
        factor, m, (b, q, n) = self.factor, len(self.factor.kernel.lines), C.shape
        lines, points = Z[:, :m], factor.Z[:, :m]
        inverse = factor.inverse_scales if factor.inverse_scales.size == 1 else factor.inverse_scales[:m]
        S: Array = C * slope
        G = lines * S.sum(axis=2)[:, :, None]
        G -= np.dot(S.reshape(b * q, n), points).reshape(b, q, m)
        G *= 2.0 * inverse * inverse
        if t is not None:
            trend = np.dot((C * t).reshape(b * q, n), points)
            trend *= 2.0 * self.hyper.quadratic
            G += trend.reshape(b, q, m)
        return self._to_coordinates(G.reshape(b * q, m))

    def _to_coordinates(self, G: Array) -> Array:
        """Gradients in the embedded lines (q x m) as gradients in all coordinates (q x d)."""
        kernel = self.factor.kernel
        if self.hyper.rotation is not None:
            G = np.dot(G, self.hyper.rotation.T)
        if kernel.plain:
            return G
        out = np.zeros((len(G), kernel.dim))
        out[:, kernel.lines] = G
        return out

    def path(self, rng: np.random.Generator, features: int = FEATURES) -> SamplePath:
        """A function drawn from the posterior."""
        return SamplePath(self, rng, features)

    def condition(self, X: Array) -> GP:
        """The posterior once the points X (p x d) have values: the mean stays, the variance shrinks."""
        X = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if len(X) == 0:
            return self
        factor = self.factor.extended(X, np.full(len(X), self.hyper.noise))
        return GP(factor, self.y, offset=self.offset, scale=self.scale, profile=self.profile)

    def steps(self) -> tuple[Array, Array]:
        """How far each value lay from what those before it predict, standardised (n), and the variance of that
        prediction relative to the signal, noise included (n)."""
        away = np.zeros((1, self.factor.n))
        away[0, : self.n] = (self.y - self.offset) / self.scale - self.mean
        sd = self.factor.diagonal(self.n)
        return sd * self.factor.lower(away)[0, : self.n], sd * sd

    def information(self) -> float:
        """What the values say about the function, in nats: 1/2 log|I + K / noise|."""
        return self.factor.log_diagonal(self.n) - 0.5 * float(np.log(self.factor.noise[: self.n]).sum())


class SamplePath:
    """A function drawn from the posterior of a GP, with gradients: a prior draw in random Fourier features, corrected
    by the kernel so that it passes the values up to a draw of their noise (Wilson et al. 2020)."""

    def __init__(self, gp: GP, rng: np.random.Generator, features: int = FEATURES) -> None:
        factor, kernel, q = gp.factor, gp.factor.kernel, gp.hyper.quadratic
        m, e = len(kernel.lines), factor.Z.shape[1]
        self._many = e > MOST_ONEHOT
        """Whether there are too many labels to draw the frequencies of all: each is drawn when it is met."""
        omega = rng.standard_normal((features, m if self._many else e))
        self._spread = np.ones(features)
        if kernel.kind == "matern52":  # the spectral density is a multivariate t with 2 nu = 5 degrees of freedom
            self._spread = np.sqrt(rng.chisquare(5.0, features) / 5.0)
        self._scales = np.broadcast_to(factor.inverse_scales, e)
        omega /= self._spread[:, None]
        omega *= self._scales[: omega.shape[1]]
        self._key, self._labels = int(rng.integers(2**62)) if self._many else 0, dict[int, Array]()
        a, b = rng.standard_normal((2, features)) / math.sqrt(features)
        # the trend (1 + u.u')^2 / 4 has the features 1/2, u_i / sqrt2, u_i u_j / 2 (both orders): with the weights
        # below it is c + h.u + u'Mu
        c, h, M = 0.0, np.zeros(m), np.zeros((m, m))
        if q:
            root = math.sqrt(q)
            c, h = root / 2 * rng.standard_normal(), root / math.sqrt(2) * rng.standard_normal(m)
            M = root / 2 * rng.standard_normal((m, m))
            M = (M + M.T) / 2
        self._gp, self._omega, self._a, self._b, self._c, self._h, self._M = gp, omega, a, b, c, h, M
        self._sd = math.sqrt(gp.signal)
        told = self._prior(factor.Z)[0] + np.sqrt(factor.noise) * rng.standard_normal(factor.n)
        self._weights = gp.alpha - self._sd * factor.upper(factor.lower(told[None]))[0]

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Values (q) and gradients (q x d) at X (q x d)."""
        Z = self._gp.factor.embed(X)
        return self._at(Z, *self._gp._cross_slope(Z))

    def values(self, X: Array) -> Array:
        """Values alone (q), to the last bit those of a call."""
        return self.mean_and_values(X)[1]

    def mean_and_values(self, X: Array) -> tuple[Array, Array]:
        """The posterior's mean and the values, q each, to the last bit those of `mean_at` and of a call; both need the
        same kernel."""
        gp, factor, q = self._gp, self._gp.factor, self._gp.hyper.quadratic
        Z = factor.embed(X)
        K = factor.kernel.base(squared_distances(Z * factor.inverse_scales, factor.W, factor.norms))
        of_mean = K
        if q:  # the two round the trend differently
            t = factor.kernel.trend(Z, factor.Z)
            of_mean = K + t * t * (q / 4.0)
            K += q / 4.0 * t * t
        return of_mean @ gp.alpha + gp.mean, gp.mean + self._sd * self._prior(Z)[0] + K @ self._weights

    def mean_and_call(self, X: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The posterior's mean (q) and its gradient (q x d), and the values and gradients of a call."""
        gp, Z = self._gp, self._gp.factor.embed(X)
        K, slope, t = gp._cross_slope(Z)
        return gp._mean_grad_at(Z, K, slope, t), self._at(Z, K, slope, t)

    def _at(self, Z: Array, K: Array, slope: Array, t: Array | None) -> tuple[Array, Array]:
        """Values and gradients, from the kernel and its slope at embedded points Z."""
        gp = self._gp
        values, cos, sin, UM = self._prior(Z)
        gradients = (cos * self._b - sin * self._a) @ self._omega[:, : len(gp.factor.kernel.lines)]
        if UM is not None:
            gradients = gradients + 2.0 * self._h + 4.0 * UM
        update = gp._weighted_gradient(Z, np.broadcast_to(self._weights, (1, *K.shape)), slope, t)
        return gp.mean + self._sd * values + K @ self._weights, self._sd * gp._to_coordinates(gradients) + update

    def frequencies(self) -> Array:
        """omega, those of every label included, features x e."""
        drawn = self._omega.shape[1]
        return np.column_stack([self._omega, *(self._of_label(at) for at in range(drawn, len(self._scales)))])

    def _of_label(self, at: int) -> Array:
        """The frequencies of an embedded coordinate that is one among many labels."""
        if at not in self._labels:
            rng = np.random.Generator(np.random.Philox(key=[self._key, at]))
            self._labels[at] = rng.standard_normal(len(self._spread)) / self._spread * self._scales[at]
        return self._labels[at]

    def _phase(self, Z: Array) -> Array:
        """Z omega', q x features; of one among many labels the one column is looked up, which saves the products with
        zeros."""
        if not self._many:
            return np.asarray(Z @ self._omega.T)
        at = self._omega.shape[1]
        phase = Z[:, :at] @ self._omega.T
        for _, k in self._gp.factor.kernel.choices:
            labels, place = np.unique(np.argmax(Z[:, at : at + k], axis=1), return_inverse=True)
            phase += math.sqrt(0.5) * np.array([self._of_label(at + i) for i in labels.tolist()])[place]
            at += k
        return np.asarray(phase)

    def _prior(self, Z: Array) -> tuple[Array, Array, Array, Array | None]:
        """The prior draw (q), its features' cosines and sines (q x features each), and U M of a trend (q x m)."""
        phase = self._phase(Z)
        cos, sin = np.cos(phase), np.sin(phase)
        values = cos @ self._a + sin @ self._b
        if not self._gp.hyper.quadratic:
            return values, cos, sin, None
        U = 2.0 * Z[:, : len(self._h)]
        UM = U @ self._M
        return values + self._c + U @ self._h + np.einsum("ij,ij->i", UM, U), cos, sin, UM


def relative_noise(hyper: Hyper, n: int, yvar: Array | None, scale: float) -> Array:
    """The noise of n values relative to the signal, n: fitted where no variance is known, never below the floor."""
    # the least noise relative to the signal: below it the factor of near-duplicates loses all digits
    noise_floor = 1e-8
    if yvar is None:
        return np.full(n, max(hyper.noise, noise_floor))
    known = in_units_of(scale, np.asarray(yvar, dtype=np.float64), hyper.signal)
    return np.maximum(np.where(np.isnan(known), hyper.noise, known), noise_floor)


def in_units_of(scale: float, yvar: Array, signal: float = 1.0) -> Array:
    """yvar / (scale^2 signal), NaN where yvar is, for any finite scale: its square may leave the range of floats."""
    share, exponent = math.frexp(scale)
    with np.errstate(over="ignore", under="ignore"):
        # 1e30: the largest noise relative to the signal: larger numbers would overflow in sums
        ratio: Array = np.minimum(np.ldexp(yvar / (share * share * signal), -2 * exponent), 1e30)
    return ratio
