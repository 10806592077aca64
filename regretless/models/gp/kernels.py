"""Stationary kernels on the unit cube, with a part for choices and an optional quadratic trend.

A point x (d) is embedded as z (e): a line or an ordered coordinate becomes x - 1/2, a choice with k labels becomes k
indicators divided by sqrt(2), so that two different labels are at distance 1 (Hamming). With length-scales l and r^2 =
sum_j (z_j - z'_j)^2 / l_j^2,

    k(x, x') = base(r^2) + q (1 + u.u')^2 / 4,      u = 2 x - 1 over the coordinates that are no choices,

where base is exp(-r^2 / 2) ("se") or (1 + sqrt5 r + 5/3 r^2) exp(-sqrt5 r) ("matern52"). Everything is relative to a
signal variance that multiplies k and the noise alike. No array is ever larger than n x n or n x e.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from regretless.basics.options import one_of
from regretless.space import Cube
from regretless.space.parameters import Array

KernelKind: TypeAlias = Literal["se", "matern52"]
SQRT5 = math.sqrt(5.0)  # the factor of the distance in Matern-5/2
BLOCK = 256  # rows per block: a block of n = 3000 is 6 MB, and 256 rows keep matrix products at full speed


@dataclass(frozen=True, eq=False)
class Hyper:
    """The hyper-parameters of a Gaussian process.

    lengthscale: one per coordinate (d), or a single one (1) for an isotropic kernel, as a share of the cube's edge.
    noise: variance of the noise relative to the signal variance, of values without a noise variance of their own.
    signal: variance of the process in standardised units (see `GP.scale`), where a GP does not profile it out.
    quadratic: the weight q of the quadratic trend, relative to the signal variance; 0 means none.
    rotation: orthogonal, m x m for the coordinates that are no choices; its columns are the axes of the length-scales.
    """

    lengthscale: Array
    noise: float
    signal: float = 1.0
    quadratic: float = 0.0
    rotation: Array | None = None


def correlation(kind: KernelKind, r2: Any, sqrt: Callable[[Any], Any], exp: Callable[[Any], Any]) -> Any:
    """base(r^2) of the module's text, for arrays of any library: `sqrt` and `exp` are those of that library."""
    if kind == "se":
        return exp(-0.5 * r2)
    r = SQRT5 * sqrt(r2)
    return (1.0 + r + 5.0 / 3.0 * r2) * exp(-r)


class Kernel:
    """The kernel of the module's text; labels: of each coordinate, 0 if it is no choice (None: no choices)."""

    def __init__(self, kind: KernelKind, dim: int, labels: NDArray[np.int64] | None = None) -> None:
        one_of(get_args(KernelKind), kernel=kind)
        self.kind: KernelKind = kind
        self.dim = dim
        labels = np.zeros(dim, dtype=np.int64) if labels is None else np.asarray(labels, dtype=np.int64)
        self.plain = not labels.any()
        self.lines = np.flatnonzero(labels == 0)
        """Coordinates that are no choices; they come first among the embedded ones."""
        self.choices = [(int(i), int(labels[i])) for i in np.flatnonzero(labels)]
        self.owner = np.concatenate([self.lines, *(np.full(k, i) for i, k in self.choices)]).astype(np.intp)
        """The coordinate each embedded coordinate comes from, e."""

    def embed(self, X: Array, rotation: Array | None = None) -> Array:
        """The embedded points, n x e, in the axes of the rotation; the trend does not change under rotations."""
        lines = np.ascontiguousarray(X) - 0.5 if self.plain else X[:, self.lines] - 0.5
        if rotation is not None:
            lines = np.dot(lines, rotation)
        if self.plain:
            return lines
        embedded, at = np.zeros((len(X), len(self.owner))), len(self.lines)
        embedded[:, :at] = lines
        for i, k in self.choices:
            label = np.minimum(np.maximum(np.floor(X[:, i] * k), 0), k - 1).astype(np.intp)
            embedded[np.arange(len(X)), at + label] = math.sqrt(0.5)
            at += k
        return embedded

    def inverse_scales(self, hyper: Hyper) -> Array:
        """1 / l for each embedded coordinate (e), or (1) when isotropic."""
        inverse: Array = 1.0 / hyper.lengthscale
        return inverse if inverse.size == 1 or self.plain else inverse[self.owner]

    def trend(self, ZA: Array, ZB: Array) -> Array:
        """1 + u.u' between embedded points, a x b; the quadratic trend is q times a quarter of its square."""
        m = len(self.lines)
        product: Array = np.dot(ZA[:, :m], ZB[:, :m].T)
        product *= 4.0
        product += 1.0
        return product

    def add_trend(self, K: Array, ZA: Array, ZB: Array, q: float) -> None:
        """Adds the quadratic trend between embedded points to K (a x b)."""
        if q:
            t = self.trend(ZA, ZB)
            t *= t
            t *= q / 4.0
            K += t

    def lower_gram(self, Z: Array, W: Array, q: float) -> Array:
        """k(X_i, X_j) for j <= i, n x n in C order, from embedded points Z and W, the same by the length-scales, in
        blocks, so that elementwise work is halved; what lies above the diagonal is unspecified."""
        n = len(Z)
        A = np.empty((n, n))
        for i, j in blocks(n):
            A[i:j, :j] = self.base(squared_distances(W[i:j], W[:j]))
            self.add_trend(A[i:j, :j], Z[i:j], Z[:j], q)
        A.ravel()[:: n + 1] = self.at_zero(Z, q)
        return A

    def at_zero(self, Z: Array, q: float) -> Array:
        """k(x, x), n."""
        if q == 0.0:
            return np.ones(len(Z))
        lines = Z[:, : len(self.lines)]
        t: Array = 1.0 + 4.0 * np.einsum("ij,ij->i", lines, lines)
        return 1.0 + q / 4.0 * t * t

    def base(self, r2: Array) -> Array:
        """`correlation` of this kernel, computed in place: r2 is used up."""
        if self.kind == "se":
            r2 *= -0.5
            return np.exp(r2, out=r2)
        r = np.sqrt(r2)
        r *= SQRT5
        r2 *= 5.0 / 3.0
        r2 += r
        r2 += 1.0
        np.negative(r, out=r)
        np.exp(r, out=r)
        r2 *= r
        return r2

    def base_slope(self, r2: Array) -> tuple[Array, Array]:
        """base(r^2) and its derivative in r^2; r2 is used up."""
        if self.kind == "se":
            r2 *= -0.5
            value: Array = np.exp(r2, out=r2)
            return value, -0.5 * value
        r = np.sqrt(r2)
        r *= SQRT5
        decay = np.exp(-r)
        slope = r + 1.0
        slope *= decay
        slope *= -5.0 / 6.0
        r2 *= 5.0 / 3.0
        r2 += r
        r2 += 1.0
        r2 *= decay
        return r2, slope


def kernel_of(cube: Cube, kind: KernelKind) -> Kernel:
    """The kernel on a cube; its choices get the Hamming part."""
    return Kernel(kind, cube.dim, np.array([axis.levels if axis.categorical else 0 for axis in cube.axes]))


def squared_distances(A: Array, B: Array, norms: Array | None = None) -> Array:
    """|a - b|^2 for the rows of A (a x e) and B (b x e), never negative, a x b; norms: |b|^2 where known (b)."""
    r2: Array = np.dot(A, B.T)
    r2 *= -2.0
    r2 += np.einsum("ij,ij->i", A, A)[:, None]
    r2 += np.einsum("ij,ij->i", B, B) if norms is None else norms
    return np.maximum(r2, 0.0, out=r2)


def blocks(n: int) -> Iterator[tuple[int, int]]:
    """The (start, stop) rows of each block of a lower triangle; its columns are 0 .. stop."""
    for start in range(0, n, BLOCK):
        yield start, min(start + BLOCK, n)
