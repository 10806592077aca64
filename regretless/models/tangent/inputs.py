"""What a net reads for a point of the cube.

`NetInputs` has lines and one-hot columns on [-1, 1], and a code for one of many labels; `Inputs` also reads a row of a
pool, or what an encoder makes of the point.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.space import Cube
from regretless.space.parameters import Array

Encode: TypeAlias = Callable[[Array], Any]  # cube points (n x d) to what the net reads: n x ..., an array or a tensor

CODE = 32  # signs in the code of a label: two of 5,000 labels share one with probability 0.003
SIDE = 2 / CODE**0.5
"""The size of a sign: two codes differ in CODE / 2 places on average, and are then as far apart as two one-hot labels
on [-1, 1], which differ in two places by 2 each."""


class NetInputs:
    """Cube points (n x d) to inputs of a net (n x `dim`). A choice with too many labels for one-hot columns is one
    coordinate of the cube, whose order means nothing; each of its labels has a fixed code of random signs."""

    def __init__(self, cube: Cube) -> None:
        self._plain = np.flatnonzero(~cube.categorical)
        choices = np.flatnonzero(cube.categorical).tolist()
        self._codes = [(i, cube.axes[i], _codes(cube.axes[i].levels, i)) for i in choices]
        self.dim = len(self._plain) + CODE * len(self._codes)

    def __call__(self, U: Array) -> Array:
        if not self._codes:
            return 2 * U - 1
        codes = [code[axis.index(U[:, i])] for i, axis, code in self._codes]
        return np.concatenate([2 * U[:, self._plain] - 1, *codes], axis=1)

    def gradient(self, G: Array, U: Array) -> Array:
        """Gradients in the inputs (n x `dim`) as gradients in the coordinates of U (n x d), 0 for labels."""
        if not self._codes:
            return 2 * G
        out = np.zeros(U.shape)
        out[:, self._plain] = 2 * G[:, : len(self._plain)]
        return out


def _codes(labels: int, key: int) -> Array:
    """A code per label, labels x CODE: the same in every run, so that no state has to hold it."""
    signs = np.random.Generator(np.random.Philox(key=key)).integers(2, size=(labels, CODE), dtype=np.int8)
    return np.asarray(SIDE * (2.0 * signs - 1.0))


class Inputs:
    """Cube points (n x d) to inputs of the net: on [-1, 1], or features with the mean and mean square of that over the
    points `probe` (n x d). A user's module reads its features as they are (`raw`). With `squares` each number of a cube
    has a second column: Legendre's polynomial of degree 2 beside that of degree 1."""

    def __init__(
        self,
        cube: Cube,
        probe: Array,
        *,
        pool: Array | None,
        encode: Encode | None,
        raw: bool,
        squares: bool = False,
    ) -> None:
        self._axis, self._plain = cube.axes[0], NetInputs(cube)
        labels = {i for start, stop in cube.groups for i in range(start, stop)}
        numbers = [i for i in np.flatnonzero(~cube.categorical).tolist() if i not in labels]
        self._squared = numbers if squares else []
        self._encode, self._raw = encode, raw
        self._offset, self._factor = np.zeros(1), 1.0
        self.pool = None if pool is None else _checked_pool(pool, cube)  # the rows of a finite pool, n x q
        if not raw and self.pool is not None:
            self.pool = self._normalised(self.pool)
        elif not raw and encode is not None:
            self._normalised(self._encoded(probe))

    def __call__(self, U: Array) -> Array:
        if self.pool is not None:
            return np.take(self.pool, self.rows(U), axis=0)
        if self._encode is None:
            if not self._squared:
                return self._plain(U)
            u = 2 * U[:, self._squared] - 1
            return np.concatenate([self._plain(U), (3 * u**2 - 1) / 2], axis=1)
        features = self._encoded(U)
        return features if self._raw else (features - self._offset) * self._factor

    def rows(self, U: Array) -> NDArray[np.int64]:
        """The pool's rows that cube points U (n x 1) stand for, n."""
        return self._axis.index(U[:, 0])

    def points(self, rows: NDArray[np.int64]) -> Array:
        """The cube points of rows of the pool (n), n x 1."""
        return self._axis.centre(rows)[:, None]

    def _encoded(self, U: Array) -> Array:
        assert self._encode is not None
        made = self._encode(U)
        array: Array = np.asarray(made.detach().cpu() if hasattr(made, "detach") else made, dtype=np.float64)
        if len(array) != len(U) or not np.isfinite(array).all():
            raise ValueError(f"encode must give one finite row per point, got shape {array.shape} for {len(U)} points")
        return array if self._raw else array.reshape(len(U), -1)

    def _normalised(self, features: Array) -> Array:
        """The features (n x q) with the mean 0 and mean square 1/3 of [-1, 1]; later ones are treated alike."""
        self._offset = features.mean(0)
        self._factor = (3 * float(((features - self._offset) ** 2).mean()) or 1.0) ** -0.5
        return (features - self._offset) * self._factor


def _checked_pool(candidates: Array, cube: Cube) -> Array:
    """The pool's features, float64, n x q, once they fit the cube."""
    pool = np.asarray(candidates, dtype=np.float64)
    if pool.ndim != 2 or not np.isfinite(pool).all():
        raise ValueError(f"candidates must be finite features, one row per candidate, got shape {pool.shape}")
    if cube.dim != 1 or cube.axes[0].levels != len(pool):
        raise ValueError(f"with {len(pool)} candidates the space must be one Int(0, {len(pool) - 1}), the row meant")
    return pool
