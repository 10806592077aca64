"""Z_t, the base points of MS-UCB's subspaces, and their squared distances from the points of a posterior.

A squared distance is a sum over the coordinates. Where all of these have one length-scale, the distances of every base
point follow from inner products with the evaluated points, which are kept over a run. A subspace with base point z
subtracts the share of its free coordinates once, and adds their share at every value it tries (`subspaces.py`).
"""

import math

import numpy as np
from numpy.typing import NDArray

from regretless.basics.streams import Stream, keyed_generator
from regretless.history import History
from regretless.methods.ms_ucb.subspaces import CHUNK, PosteriorArrays
from regretless.space import Cube
from regretless.space.parameters import Array


class BaseSet:
    """Z_t: N_t = N0 t^alpha uniform points are added at iteration t, which follow from the seed and t.

    Args:
        cube, seed: of the method.
        N0, alpha: the schedule.
        initial: evaluations before iteration 1.
    """

    def __init__(self, cube: Cube, seed: int, N0: int, alpha: float, *, initial: int) -> None:
        self._cube, self._seed, self._N0, self._alpha, self._initial = cube, seed, N0, alpha, initial
        self.Z = np.empty((0, cube.dim))
        """The base points drawn so far, m x D."""
        self._sizes = [0]  # |Z_t| for every t drawn so far
        self._products = np.empty((0, 0))

    def forget(self) -> None:
        """Drops the products with the evaluated points; the base points stay, because they follow from the seed."""
        self._products = self._products[:, :0]

    def t(self, history: History) -> int:
        """The iteration of the next point: evaluations known or under way since the initial design, + 1."""
        return max(1, history.evaluations - self._initial + 1)

    def draw(self, history: History) -> int:
        """Draws the points of Z_t that are not there yet, keyed on their iterations, and returns |Z_t|."""
        t = self.t(history)
        for k in range(len(self._sizes), t + 1):
            rng, count = keyed_generator(self._seed, k, stream=Stream.SUBSPACE_BASES), added(k, self._N0, self._alpha)
            self.Z = np.concatenate([self.Z, self._cube.snap(rng.random((count, self._cube.dim)))])
            self._sizes.append(self._sizes[-1] + count)
        return self._sizes[t]

    def left_out(self, history: History, cap: int) -> str:
        """What is left out of the proof when only the newest `cap` points are searched (0: all); empty: nothing."""
        left_out = self.draw(history) - cap if cap else 0
        if left_out <= 0:
            return ""
        return f"the proof needs all of Z_t; {left_out} of its points were left out by cap={cap}"

    def newest(self, arrays: PosteriorArrays, history: History, pending: Array, cap: int) -> tuple[Array, Array | None]:
        """The points of Z_t, or the newest `cap` of them (0: all), and their squared distances if those are cached."""
        stop = self.draw(history)
        chosen = slice(max(0, stop - cap) if cap else 0, stop)
        squared = self.squared(arrays, history.X, pending)
        return self.Z[chosen], None if squared is None else squared[chosen]

    def with_incumbents(
        self, arrays: PosteriorArrays, history: History, cap: int, incumbents: Array, copies: int
    ) -> tuple[Array, NDArray[np.bool_], Array | None]:
        """The points of `newest` and `copies` of each incumbent (k x D) after them, m x D; which are incumbents, m; and
        their squared distances if those of the base points are cached."""
        Z, squared = self.newest(arrays, history, history.pending, cap)
        again = np.repeat(np.arange(len(incumbents)), copies)
        if squared is not None:
            squared = np.concatenate([squared, arrays.squared(incumbents)[again]])
        points = np.concatenate([Z, incumbents[again]])
        return points, np.arange(len(points)) >= len(Z), squared

    def products(self, X: Array, pending: Array) -> Array:
        """(z - 1/2) . (x - 1/2) between all base points and the evaluated points X (n x D), then the pending ones (p x
        D), m x (n + p). X must continue the X of the calls since `forget`."""
        rows, columns = self._products.shape
        if (rows, columns) != (len(self.Z), len(X)):
            grown = np.empty((len(self.Z), len(X)))
            grown[:rows, :columns] = self._products
            grown[:rows, columns:] = _inner_products(self.Z[:rows], X[columns:])
            grown[rows:] = _inner_products(X, self.Z[rows:]).T
            self._products = grown
        if not len(pending):
            return self._products
        return np.concatenate([self._products, _inner_products(self.Z, pending)], axis=1)

    def squared(self, arrays: PosteriorArrays, X: Array, pending: Array) -> Array | None:
        """`PosteriorArrays.squared` of the base points; None where coordinates do not count alike."""
        if not arrays.kernel.plain or np.ptp(arrays.inverse) > 0:
            return None
        squared = self.products(X, pending) * -2.0
        squared += self._squares()[:, None]
        squared += np.einsum("ij,ij->j", arrays.columns, arrays.columns)
        squared *= arrays.inverse[0] ** 2
        return np.asarray(np.maximum(squared, 0.0, out=squared))

    def _squares(self) -> Array:
        """|z - 1/2|^2 of every base point, m."""
        squares = np.empty(len(self.Z))
        rows = max(1, CHUNK // self.Z.shape[1])
        for i in range(0, len(squares), rows):
            squares[i : i + rows] = ((self.Z[i : i + rows] - 0.5) ** 2).sum(axis=1)
        return squares


def _inner_products(A: Array, B: Array) -> Array:
    """(a - 1/2) . (b - 1/2) for the rows of A and B, a x b."""
    out = np.empty((len(A), len(B)))
    if len(A) and len(B):
        rows = max(1, CHUNK // A.shape[1])
        for i in range(0, len(A), rows):  # block by block: at 5000 dimensions every temporary array counts
            left = A[i : i + rows] - 0.5
            for j in range(len(B)):
                np.einsum("ij,j->i", left, B[j] - 0.5, out=out[i : i + rows, j])
    return out


def added(t: int, N0: int, alpha: float) -> int:
    """N_t = N0 t^alpha, the base points added at iteration t >= 1, rounded down."""
    return math.floor(N0 * math.pow(t, alpha) + 1e-9)  # what is added keeps a whole number whole that pow rounds down
