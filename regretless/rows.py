"""An append-only table of points and numbers, and the check of one that comes from a file."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regretless.parameters import Array


class Rows:
    """Points (n x d) with k numbers each, grown by doubling."""

    def __init__(self, dim: int, columns: int = 2) -> None:
        self._X = np.empty((8, dim))
        self._numbers = np.empty((columns, 8))
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def X(self) -> Array:
        return _to_read(self._X[: self._n])

    def column(self, i: int) -> Array:
        return _to_read(self._numbers[i, : self._n])

    def columns(self, start: int, stop: int) -> Array:
        """The columns start .. stop, n x (stop - start)."""
        return _to_read(self._numbers[start:stop, : self._n].T)

    def append(self, X: Array, *numbers: Array | float) -> None:
        """Points with their numbers, column by column; what is not given is NaN."""
        old, n = self._n, self._n + len(X)
        if n > len(self._X):
            room = max(n, 2 * len(self._X)) - old
            self._X = np.concatenate([self._X[:old], np.empty((room, self._X.shape[1]))])
            self._numbers = np.concatenate([self._numbers[:, :old], np.empty((len(self._numbers), room))], axis=1)
        self._X[old:n] = X
        self._numbers[len(numbers) :, old:n] = np.nan
        for i, column in enumerate(numbers):
            self._numbers[i, old:n] = column
        self._n = n


def _to_read(view: Array) -> Array:
    view.flags.writeable = False
    return view


def checked_history(state: Mapping[str, Any], dim: int, n_sides: int) -> tuple[Array, ...]:
    """The points (n x d), values, variances, failed and pending points, side values (n x k) and what is known outside
    the cube (m x (d + 2)) of a method's state; raises ValueError when they cannot be those of d coordinates."""
    try:
        X, y, yvar, failed, pending = (state[k] for k in ("X", "y", "yvar", "failed", "pending"))
        step, own, sides = state["step"], state["own"], state.get("sides", np.empty((len(y), 0)))
        outside = state.get("outside", np.empty((0, dim + 2)))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the state of a method: {error!r}") from None
    arrays = (X, y, yvar, failed, pending, sides, outside)
    if any(not isinstance(a, np.ndarray) or a.dtype != np.float64 for a in arrays):
        raise ValueError("the state is damaged: points, values and variances must be arrays of float64")
    if isinstance(step, bool) or not isinstance(step, int) or not isinstance(own, Mapping):
        raise ValueError(f"the state is damaged: its step is {step!r}, its own part a {type(own).__name__}")
    n = y.size
    shapes = y.shape, X.shape, yvar.shape, failed.shape[1:], pending.shape[1:], outside.shape[1:]
    if shapes != ((n,), (n, dim), (n,), (dim,), (dim,), (dim + 2,)):
        raise ValueError(f"the state holds {X.shape[-1] if X.ndim else 0} coordinates, this method has {dim}")
    if sides.shape != (n, n_sides):
        raise ValueError(f"the state is damaged: {sides.shape} values of constraints and costs for {n} points")
    points = np.concatenate([X, failed, pending])
    if not ((points >= 0) & (points <= 1)).all():  # NaN is neither
        raise ValueError("the state is damaged: every point must lie in the unit cube")
    finite = np.isfinite(y).all() and np.isfinite(sides).all() and np.isfinite(outside[:, :-1]).all()
    if not finite or (yvar < 0).any() or step < 0:
        raise ValueError("the state is damaged: values must be finite, variances and the step at least 0")
    return arrays
