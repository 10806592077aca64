"""`Rows`: the growing table of points and values behind every method."""

from __future__ import annotations

import numpy as np

from regretless.parameters import Array


class Rows:
    """An append-only table of points (n x d) with a value and a variance each, grown by doubling."""

    def __init__(self, dim: int) -> None:
        self._X = np.empty((8, dim))
        self._numbers = np.empty((2, 8))
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def X(self) -> Array:
        view = self._X[: self._n]
        view.flags.writeable = False
        return view

    def column(self, i: int) -> Array:
        view: Array = self._numbers[i, : self._n]
        view.flags.writeable = False
        return view

    def append(self, X: Array, values: Array | float = np.nan, variances: Array | float = np.nan) -> None:
        old, n = self._n, self._n + len(X)
        if n > len(self._X):
            room = max(n, 2 * len(self._X)) - old
            self._X = np.concatenate([self._X[:old], np.empty((room, self._X.shape[1]))])
            self._numbers = np.concatenate([self._numbers[:, :old], np.empty((2, room))], axis=1)
        self._X[old:n] = X
        self._numbers[0, old:n], self._numbers[1, old:n] = values, variances
        self._n = n
