"""Bayesian ridge regression on tangent features, in two forms: exact, and a sketch for many values.

Both hold the posterior of f = g(x) . w, w ~ N(0, I), y = f + N(0, lam v), v being 1 unless rows differ in noise. They
give the mean and a draw as weights that `values` evaluates anywhere.

    KernelRidge   exact; O(n^2) numbers, O(n^2) per row appended; all targets may change when the history grows
    SketchRidge   r^2 numbers whatever n, O(r^2) per row; its kernel z(x) . z(x') has expectation k; targets stay

Rows enter in blocks whose edges depend on their number alone. So the arithmetic follows, bit for bit, from the history
and not from how it was cut into tells.
"""

import math
from typing import Any, Protocol

import numpy as np
from scipy.linalg import blas, lapack
from scipy.sparse import csr_array

from regretless.basics.streams import Stream, keyed_generator
from regretless.models.tangent import ntk
from regretless.models.tangent.ntk import Factors, Tensor, WeightDirection, like, namespace, on_device
from regretless.space.parameters import Array

EXACT_UP_TO, SKETCH_SIZE = 1500, 1000  # values up to which a posterior is exact, features of the sketch beyond (docs)
KERNEL_BLOCK = 32  # rows per block of the append-only factor; at most this many are redone per ask
SKETCH_BLOCK = 128  # rows per block of the sketch's moments: redoing one costs less than the factorisation that follows
NOISES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # noise variances tried, by the mean prior variance; the first is none
USUAL_NOISE = 1e-2  # the centre of the prior of the noise; its sd is 10, as a factor
EVIDENCE_POINTS = 300  # the evidence is that of so many last values, which lie where the search is (docs/lab)
RAISES = 8  # times the diagonal is raised tenfold, from a rounding error upwards, before a factorisation gives up


class Tangent(Protocol):
    """What has factors: `ntk.Mlp`, `BranchNet`, `ModuleTangent`."""

    def factors(self, X: Tensor) -> Factors: ...

    def random_direction(self, rng: np.random.Generator) -> WeightDirection: ...


class KernelRidge:
    """The exact posterior in kernel form: K + lam diag(v) = L L', grown block by block, never refactored."""

    def __init__(self, net: Tangent, lam: float, *, device: str = "cpu") -> None:
        self._net, self._lam, self._device = net, float(lam), device
        self._n = self._fixed = 0
        self._factors: Factors = ()
        self._L: Tensor = None
        self._noise: Tensor | float = self._lam
        self._targets: Tensor = None

    def extend(self, X: Array, targets: Array, v: Array | None = None) -> None:
        """Takes in the whole history: rows X (n x ...), targets (n) and noise variances over lam, v (n)."""
        n = len(X)
        self._targets = on_device(targets, self._device)
        if n == self._n:
            return
        self._noise = self._lam if v is None else self._lam * on_device(v, self._device)
        for start in range(self._fixed, n, KERNEL_BLOCK):
            stop = min(start + KERNEL_BLOCK, n)
            self._append(self._net.factors(on_device(X[start:stop], self._device)), start, stop)
            if stop - start == KERNEL_BLOCK:
                self._fixed = stop
        self._n = n

    def _append(self, new: Factors, start: int, stop: int) -> None:
        self._factors = _joined(ntk.rows_of(self._factors if start else new, slice(0, start)), new)
        noise = self._noise if isinstance(self._noise, float) else self._noise[start:stop]
        block = ntk.kernel(new, new) + eye(stop - start, new[0][0]) * noise
        L21: Tensor = None
        if start:
            # L21 L11' = K21 and L22 L22' = K22 + lam I - L21 L21'
            L21 = self._lower(ntk.kernel(ntk.rows_of(self._factors, slice(0, start)), new), start).T
            block = block - L21 @ L21.T
        L = self._L = _with_block(self._L, start, start + KERNEL_BLOCK, block)
        if start:
            L[start:stop, :start] = L21
        L[start:stop, start:stop] = cholesky(block)

    def _lower(self, B: Tensor, n: int) -> Tensor:
        """L^-1 B for the first n rows; B is padded to the rows L has room for, whose part of L is the identity."""
        return solve_lower(self._L, _padded(B, len(self._L)))[:n]

    def _solve(self, v: Tensor) -> Tensor:
        return solve_lower(self._L, solve_lower(self._L, _padded(v, len(self._L))), transposed=True)[: self._n]

    def mean(self, targets: Tensor | None = None) -> WeightDirection:
        """The posterior mean of w, k(x, X) (K + lam I)^-1 y, as a direction; of other targets (n) where given."""
        return ntk.combine(self._factors, self._solve(self._targets if targets is None else targets))

    def draw(self, nu: float, rng: np.random.Generator) -> WeightDirection:
        """Mean plus nu times a draw of the posterior deviation (Matheron's rule): a direction."""
        prior = self._net.random_direction(rng)
        noise = like(rng.standard_normal(self._n), self._L) * self._noise**0.5
        off = self._targets - nu * (ntk.inner(self._factors, prior) + noise)
        return tuple(a + nu * b for a, b in zip(ntk.combine(self._factors, self._solve(off)), prior, strict=True))

    def values(self, factors: Factors, w: WeightDirection) -> Tensor:
        """The function w at points given by their factors, C."""
        return ntk.inner(factors, w)

    def deviation(self, factors: Factors) -> Tensor:
        """The posterior standard deviation (Alg. 1, l. 3, in kernel form), C."""
        v = self._lower(ntk.kernel(self._factors, factors), self._n)
        return (ntk.diagonal(factors) - (v**2).sum(0)).clip(0.0) ** 0.5

    def leave_one_out(self) -> tuple[Tensor, Tensor]:
        """Leave-one-out residuals and their standard deviations (noise included), n each."""
        precision = (self._lower(eye(self._n, self._L), self._n) ** 2).sum(0)
        return self._solve(self._targets) / precision, precision**-0.5


class SketchRidge:
    """The posterior on r random features z(x) with E z(x).z(x') = k(x, x'). A layer's outer-product gradient is
    sketched by z_i = (s_i . in)(t_i . out) / sqrt(r), s and t random signs; one with out = 1 is kept, or hashed."""

    def __init__(
        self, net: Tangent, lam: float, size: int, rng: np.random.Generator, example: Factors, *, device: str = "cpu"
    ) -> None:
        self._net, self._lam, self._device = net, lam, device
        limit = size // len(example)  # what a layer may take; what short ones leave goes to the outer products
        plain = sum(min(a_in.shape[1], limit) for a_in, a_out in example if a_out is None)
        share = (size - plain) // max(1, sum(a_out is not None for _, a_out in example))
        self.maps: list[Any] = []
        for a_in, a_out in example:
            if a_out is not None:
                S, T = _signs((a_in.shape[1], share), rng), _signs((a_out.shape[1], share), rng)
                self.maps.append((like(S, a_in), like(T, a_in) / math.sqrt(share)))
            else:
                self.maps.append(None if a_in.shape[1] <= limit else _Hash(a_in.shape[1], limit, rng, a_in))
        self._n = self._fixed = 0
        probe = self.sketch(ntk.rows_of(example, slice(0, 1)))
        self.size = int(probe.shape[1])
        self.moments = eye(self.size, probe) * 0.0
        self.sums = self.moments[0] * 1.0
        self._tail: tuple[Tensor, Tensor] | None = None

    def sketch(self, factors: Factors) -> Tensor:
        """z of each row, n x r."""
        parts = []
        for (a_in, a_out), how in zip(factors, self.maps):
            if a_out is not None:
                parts.append((a_in @ how[0]) * (a_out @ how[1]))
            else:
                parts.append(a_in if how is None else how(a_in))
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concatenate(parts, 1)

    def extend(self, X: Array, targets: Array, v: Array | None = None) -> None:
        """Takes in the whole history as `KernelRidge.extend` does, but complete blocks keep their targets."""
        n = len(X)
        if n == self._n:
            return
        self._tail = None
        for start in range(self._fixed, n, SKETCH_BLOCK):
            stop = min(start + SKETCH_BLOCK, n)
            Z = self.sketch(self._net.factors(on_device(X[start:stop], self._device)))
            y = like(targets[start:stop], Z)
            if v is not None:  # a row of noise lam v is one of noise lam, both sides over sqrt(v)
                weight = like(v[start:stop] ** -0.5, Z)
                Z, y = Z * weight[:, None], y * weight
            if stop - start == SKETCH_BLOCK:
                self.moments += Z.T @ Z
                self.sums = self.sums + y @ Z
                self._fixed = stop
            else:
                self._tail = Z, y
        self._n = n

    def _system(self) -> tuple[Tensor, Tensor]:
        """The factor of Z'Z + lam I, and Z'y."""
        A, b = self.moments + eye(self.size, self.moments) * self._lam, self.sums
        if self._tail is not None:
            Z, y = self._tail
            A += Z.T @ Z
            b = b + y @ Z
        return cholesky(A), b

    def mean(self) -> Tensor:
        """The posterior mean of the r weights."""
        L, b = self._system()
        return solve_lower(L, solve_lower(L, b), transposed=True)

    def draw(self, nu: float, rng: np.random.Generator) -> Tensor:
        """Mean plus nu times a draw from N(0, lam (Z'Z + lam I)^-1), r."""
        L, b = self._system()
        noise = like(rng.standard_normal(self.size), L) * (nu * self._lam**0.5)
        return solve_lower(L, solve_lower(L, b) + noise, transposed=True)

    def values(self, factors: Factors, w: Tensor) -> Tensor:
        """The function w at points given by their factors, C."""
        return self.sketch(factors) @ w


def empty_ridge(net: Tangent, lam: float, X: Array, *, seed: int, device: str) -> KernelRidge | SketchRidge:
    """The regression for a history of inputs X (n x ...), none of which it has taken in: exact, or a sketch beyond."""
    if len(X) <= EXACT_UP_TO:
        return KernelRidge(net, lam, device=device)
    rng, example = keyed_generator(seed, 0, Stream.TANGENT_SKETCH), net.factors(on_device(X[:1], device))
    return SketchRidge(net, lam, SKETCH_SIZE, rng, example, device=device)


# ---------------------------------------------------------------- how much of the values is noise


def log_evidence(K: Array, targets: Array, lam: float) -> tuple[Array, Array]:
    """log p of each column of targets (n x k) under variance * (K + lam I) at its best variance, and that, k each."""
    n, k = targets.shape
    A = K.copy()
    A.flat[:: n + 1] += lam
    L, info = lapack.dpotrf(A, lower=1, overwrite_a=1, clean=0)
    if info:
        return np.full(k, -np.inf), np.ones(k)
    half = blas.dtrsm(1.0, L, targets, lower=1)
    # 1e-6: the least signal variance of standardised values: the logarithm of less would run away
    variance = np.maximum((half**2).sum(0) / n, 1e-6)
    return -0.5 * n * np.log(variance) - np.log(L.diagonal()).sum(), variance


def theory_nu(B: float, R: float, lam: float, alpha: float) -> float:
    """nu_t = sqrt(2) B + R / sqrt(lam) sqrt(2 log(1 / alpha)), by which sigma bounds the error (NeuralBO, Thm. 1)."""
    return math.sqrt(2) * B + R / math.sqrt(lam) * math.sqrt(2 * math.log(1 / alpha))


def relative_noise(yvar: Array, size: int) -> Array | None:
    """Noise variances (n, NaN unknown) over the median of those known among the first `size`, n; None without any."""
    most_unequal = 1e4  # a known noise variance counts as at most this many times the typical one, at least its inverse
    known = yvar[:size]
    known = known[known > 0]  # NaN is not
    if len(known) == 0:
        return None
    typical = float(np.median(known))
    v = np.clip(yvar, typical / most_unequal, typical * most_unequal) / typical
    return np.asarray(np.where(np.isnan(v), 1.0, v))


# ---------------------------------------------------------------- linear algebra that NumPy and torch spell differently


def cholesky(A: Tensor) -> Tensor:
    """The lower factor of a symmetric matrix, its diagonal raised where rounding has made it indefinite."""
    raised = 0.0
    for attempt in range(RAISES):
        if isinstance(A, np.ndarray):
            L, info = lapack.dpotrf(A + raised * np.eye(len(A)) if raised else A, lower=1, clean=1)
            failed = info != 0 or not np.isfinite(L.diagonal()).all()
        else:
            torch = namespace(A)
            L, status = torch.linalg.cholesky_ex(A + raised * eye(len(A), A) if raised else A)
            failed = bool(status.item()) or not bool(torch.isfinite(L.diagonal()).all())
        if not failed:
            return L
        raised = float(abs(A.diagonal()).max()) * 1e-15 * 10.0**attempt
    raise FloatingPointError("the kernel matrix is not positive definite, however raised; are all features finite?")


def solve_lower(L: Tensor, B: Tensor, *, transposed: bool = False) -> Tensor:
    """L^-1 B, or L'^-1 B; B is a vector or a matrix."""
    columns = B[:, None] if B.ndim == 1 else B
    if isinstance(L, np.ndarray):
        X = blas.dtrsm(1.0, L, columns, lower=1, trans_a=int(transposed))
    else:
        X = namespace(L).linalg.solve_triangular(L.T if transposed else L, columns, upper=transposed)
    return X[:, 0] if B.ndim == 1 else X


def eye(n: int, other: Tensor) -> Tensor:
    """The identity where `other` lives, n x n."""
    if isinstance(other, np.ndarray):
        return np.eye(n)
    return namespace(other).eye(n, dtype=other.dtype, device=other.device)


def _signs(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return (2 * rng.integers(0, 2, size=shape) - 1).astype(np.float64)


class _Hash:
    """Feature hashing of p columns into r, each to a random column with a random sign: a sparse matrix in NumPy, a
    dense one in torch, whose scattered additions on a GPU come in any order and would round differently each time."""

    def __init__(self, p: int, r: int, rng: np.random.Generator, example: Tensor) -> None:
        where, signs = rng.integers(r, size=p), _signs((p,), rng)
        sparse = csr_array((signs, (where, np.arange(p))), shape=(r, p))
        self._sparse = isinstance(example, np.ndarray)
        self._matrix: Any = sparse if self._sparse else like(sparse.toarray(), example)

    def __call__(self, A: Tensor) -> Tensor:
        """n x p to n x r."""
        return np.ascontiguousarray((self._matrix @ A.T).T) if self._sparse else A @ self._matrix.T


def _with_block(L: Tensor, start: int, stop: int, other: Tensor) -> Tensor:
    """L with rows start:stop set to those of the identity, in a new contiguous square when it has no room for them."""
    if L is None or len(L) < stop:
        bigger = np.zeros((stop, stop), order="F") if isinstance(other, np.ndarray) else other.new_zeros((stop, stop))
        if L is not None:
            bigger[:start, :start] = L[:start, :start]
        L = bigger
    L[start:stop] = 0.0
    L[start:stop, start:stop] = eye(stop - start, other)
    return L


def _padded(B: Tensor, n: int) -> Tensor:
    """B with rows of zeros up to n of them."""
    if len(B) == n:
        return B
    wide = np.zeros((n, *B.shape[1:]), order="F") if isinstance(B, np.ndarray) else B.new_zeros((n, *B.shape[1:]))
    wide[: len(B)] = B
    return wide


def _joined(A: Factors, B: Factors) -> Factors:
    """The rows of A, then those of B, each row contiguous, which decides how sums over it are rounded."""

    def join(a: Tensor, b: Tensor) -> Tensor:
        both = namespace(b).concatenate([a, b])
        return np.ascontiguousarray(both) if isinstance(both, np.ndarray) else both

    pairs = zip(A, B, strict=True)
    return tuple((join(a, b), None if a_out is None else join(a_out, b_out)) for (a, a_out), (b, b_out) in pairs)
