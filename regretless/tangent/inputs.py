"""What a net reads for a point of the cube: lines and one-hot columns on [-1, 1], and a code for one of many labels."""

import numpy as np

from regretless.parameters import Array
from regretless.space import Cube

CODE = 32  # signs in the code of a label: two of 5,000 labels share one with probability 0.003
SIDE = 2 / CODE**0.5
"""The size of a sign: two codes differ in CODE / 2 places on average, and are then as far apart as two one-hot labels
on [-1, 1], which differ in two places by 2 each."""


class NetInputs:
    """Cube points (n x d) to inputs of a net (n x `dim`). A choice with too many labels for one-hot columns is one
    coordinate of the cube, whose order means nothing; each of its labels has a fixed code of random signs."""

    def __init__(self, cube: Cube) -> None:
        self._plain = np.flatnonzero(~cube.categorical)
        self._codes = [
            (i, cube.axes[i], _codes(cube.axes[i].levels, i)) for i in np.flatnonzero(cube.categorical).tolist()
        ]
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
