"""`History`: what is known of a task, on the cube, to be maximised.

A history is a value. `with_values`, `with_pending` and `without_pending` return other histories and change nothing, so
a question about "what if others were at work here" is asked of another history. All histories of a run share one table
that only grows; each sees a beginning of it, so none is ever copied.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regretless.basics.noise import shows_noise
from regretless.space.parameters import Array

LARGEST = 1e307
"""Values beyond this count as this: differences and sums of a few of them would leave the range of floats, which ends
at 1.8e308."""


class History:
    """Evaluations with values, failed ones, and those under way, in the order in which they became known.

    All points are canonical places of the cube (`Cube.snap`), so the bytes of a point are its identity. A fresh history
    is empty; its arguments say what comes with every value.

    Args:
        dim: the number of coordinates.
        objectives: how many objectives there are.
        constraints: how many values of constraints come with every value.
        cost: whether a cost does.
        noise_bound: how far a value may lie from the noiseless one, where that is known; 0: nothing is known.
        reference: what the value of each objective has to exceed to be of interest, NaN where nothing is said; None:
            nothing is said of any.
    """

    def __init__(
        self,
        dim: int,
        *,
        objectives: int = 1,
        constraints: int = 0,
        cost: bool = False,
        noise_bound: float = 0.0,
        reference: ArrayLike | None = None,
    ) -> None:
        self.dim, self.objectives, self.n_constraints, self.has_cost = dim, objectives, constraints, cost
        self.noise_bound = noise_bound
        said = np.full(objectives, np.nan) if reference is None else np.array(reference, dtype=np.float64)
        self.reference: Array = said
        """What each objective has to exceed, k, NaN where nothing is said."""
        self._table = _Table(dim, 2 * objectives, constraints + cost)
        self._values = self._failures = self._beyond = self._known = 0
        self.pending: Array = np.empty((0, dim))
        """Points under way, in the order asked, p x d."""
        self._pending_keys: tuple[bytes, ...] = ()

    def __len__(self) -> int:
        """The number of values."""
        return self._values

    # -- what is known

    @property
    def X(self) -> Array:
        """Points with values, n x d."""
        return self._table.valued.X[: self._values]

    @property
    def Y(self) -> Array:
        """Their values, n x k."""
        return self._columns(0, self.objectives)

    @property
    def y(self) -> Array:
        """The values of the first objective, n."""
        return self._table.valued.column(0)[: self._values]

    @property
    def yvar(self) -> Array:
        """The known noise variance of each value of the first objective, NaN where unknown, n."""
        return self._table.valued.column(self.objectives)[: self._values]

    @property
    def Yvar(self) -> Array:
        """The known noise variances of all values, NaN where unknown, n x k."""
        return self._columns(self.objectives, 2 * self.objectives)

    @property
    def constraints(self) -> Array:
        """The values of the constraints, at most 0 where they hold, n x m."""
        return self._columns(2 * self.objectives, 2 * self.objectives + self.n_constraints)

    @property
    def costs(self) -> Array:
        """What each evaluation cost, n; only where costs come with the values."""
        return self._table.valued.column(2 * self.objectives + self.n_constraints)[: self._values]

    @property
    def n_side_values(self) -> int:
        """How many numbers come with every value beside it: constraints, and a cost."""
        return self.n_constraints + self.has_cost

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether all constraints hold at each point with a value, n."""
        return np.asarray((self.constraints <= 0).all(axis=1))

    @property
    def failed(self) -> Array:
        """Points whose evaluation failed, f x d."""
        return self._table.failed.X[: self._failures]

    @property
    def outside(self) -> tuple[Array, Array, Array]:
        """Points outside the cube (m x d) with values and noise variances (m each), for models alone."""
        return self._outside_of(0)

    def _outside_of(self, j: int) -> tuple[Array, Array, Array]:
        rows, n = self._table.outside, self._beyond
        return rows.X[:n], rows.column(j)[:n], rows.column(self.objectives + j)[:n]

    @property
    def basis(self) -> tuple[Array, Array, Array]:
        """Points, values and noise variances for a model: what lies outside the cube, then what was told."""
        return self.basis_of(0)

    def basis_of(self, j: int) -> tuple[Array, Array, Array]:
        """The same for the model of objective j."""
        valued = self._table.valued
        inside = self.X, valued.column(j)[: self._values], valued.column(self.objectives + j)[: self._values]
        if not self._beyond:
            return inside
        X, y, yvar = (np.concatenate(pair) for pair in zip(self._outside_of(j), inside, strict=True))
        return X, y, yvar

    @cached_property
    def known(self) -> Array:
        """Points with values, failed or under way, in this order, m x d."""
        return np.concatenate([self.X, self.failed, self.pending])

    @property
    def evaluations(self) -> int:
        """How many evaluations have ended or are under way."""
        return self._values + self._failures + len(self._pending_keys)

    def is_known(self, x: Array) -> bool:
        """Whether the canonical point x (d) has a value, failed or is under way; its identity is looked up."""
        return self.is_settled(x) or self.is_pending(x)

    def is_settled(self, x: Array) -> bool:
        """Whether the canonical point x (d) has a value or failed."""
        return self._table.first.get(x.tobytes(), self._known) < self._known

    def is_pending(self, x: Array) -> bool:
        """Whether the canonical point x (d) is under way."""
        return bool(self._pending_keys) and x.tobytes() in self._pending_keys

    def best_row(self) -> int:
        """The row of the best value among feasible points; while there are none, of the point that breaks the
        constraints least, each in units of its median size."""
        if self.n_constraints == 0:
            return int(np.argmax(self.y))
        if self.feasible.any():
            return int(np.argmax(np.where(self.feasible, self.y, -np.inf)))
        sizes = np.median(np.abs(self.constraints), axis=0)
        broken: Array = np.maximum(self.constraints, 0.0) / np.where((sizes > 0) & (sizes < np.inf), sizes, 1.0)
        return int(np.argmin(broken.sum(axis=1)))

    def worth_using(self) -> Array:
        """The points that satisfy all constraints; while there are none, the one that breaks them least, k x d."""
        if self.n_constraints == 0:
            return self.X
        ok = self.feasible
        return self.X[ok] if ok.any() else self.X[[self.best_row()]]

    @cached_property
    def values_differ(self) -> bool:
        """Whether a noise variance was told, or a setting gave two different values."""
        table = self._table
        if len(table.first) == table.known and not (self.Yvar > 0).any():  # no setting was evaluated twice
            return False
        return any(shows_noise(self.X, self.Y[:, j], self.Yvar[:, j]) for j in range(self.objectives))

    def extends(self, earlier: History) -> bool:
        """Whether the values of an earlier history are the first of this one."""
        n = len(earlier)
        if n > len(self) or earlier._table is self._table:
            return n <= len(self)
        pairs = zip((earlier.X, earlier.Y, earlier.Yvar), (self.X, self.Y, self.Yvar), strict=True)
        return all(np.array_equal(a, b[:n], equal_nan=True) for a, b in pairs)

    # -- other histories

    def with_values(
        self, X: ArrayLike, y: ArrayLike, *, yvar: ArrayLike | None = None, side_values: ArrayLike | None = None
    ) -> History:
        """This history and values y (n, or n x k with several objectives) of canonical points X (n x d), which are then
        no longer under way. A value that is not finite means that the evaluation failed.

        yvar: the known noise variance of each value, of y's shape, NaN where unknown.
        side_values: the values of the constraints and then the cost, n x (m + 1); a failure needs none.
        """
        points = self._points(X)
        values, variances = self._checked(len(points), y, yvar)
        good = np.asarray(np.isfinite(values).all(axis=1))
        more, keys = self._checked_side_values(side_values, len(points), good), [x.tobytes() for x in points]
        other = self._without(keys)
        table, ended = other._table, points
        if not good.all():
            table.failed.append(points[~good])
            ended, values, variances, more = points[good], values[good], variances[good], more[good]
        if len(ended):
            limited = np.minimum(np.maximum(values, -LARGEST), LARGEST)
            table.valued.append(ended, *limited.T, *variances.T, *more.T)
        for key in keys:
            table.first.setdefault(key, table.known)
            table.known += 1
        other._values, other._failures, other._known = len(table.valued), len(table.failed), table.known
        return other

    def with_outside(self, X: Array, y: Array, yvar: Array) -> History:
        """This history and values y (n, or n x k) at points X (n x d) outside the cube, where nothing is proposed."""
        other = self._without(())
        values, variances = self._checked(len(X), y, yvar)
        limited = np.clip(values, -LARGEST, LARGEST)
        other._table.outside.append(np.asarray(X, dtype=np.float64), *limited.T, *variances.T)
        other._beyond = len(other._table.outside)
        return other

    def with_pending(self, X: ArrayLike) -> History:
        """This history while the canonical points X (n x d) are being evaluated as well."""
        points = self._points(X)
        other = self._copy()
        other.pending = np.concatenate([self.pending, points])
        other._pending_keys = (*self._pending_keys, *(x.tobytes() for x in points))
        return other

    def without_pending(self, X: ArrayLike) -> History:
        """This history where points X (n x d) are no longer under way; each row takes one away, if it is there."""
        other = self._copy()
        other._drop([x.tobytes() for x in self._points(X)])
        return other

    # -- inside

    def _copy(self) -> History:
        other = object.__new__(History)
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("known", None)
        return other

    def _without(self, keys: list[bytes] | tuple[()]) -> History:
        """A history to append to, with these points no longer under way. The table is this history's own as long as
        nothing lies in it that this history does not see."""
        other = self._copy()
        other.__dict__.pop("values_differ", None)
        other._drop(keys)
        table = self._table
        seen = self._values, self._failures, self._beyond, self._known
        if seen != (len(table.valued), len(table.failed), len(table.outside), table.known):
            other._table = table.beginning(*seen)
        return other

    def _drop(self, keys: list[bytes] | tuple[()]) -> None:
        pending = list(self._pending_keys)
        rows = list(range(len(pending)))
        for key in keys:
            if key in pending:
                i = pending.index(key)
                del pending[i], rows[i]
        if len(rows) < len(self._pending_keys):
            self.pending, self._pending_keys = self.pending[rows], tuple(pending)

    def _columns(self, start: int, stop: int) -> Array:
        return self._table.valued.columns(start, stop)[: self._values]

    def _points(self, X: ArrayLike) -> Array:
        points = np.asarray(X, dtype=np.float64)
        if points.ndim < 2:
            points = points.reshape(-1, self.dim) if points.size in (0, self.dim) else points.reshape(1, -1)
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"X must be n x {self.dim}, got shape {points.shape}")
        if len(points) and not (
            np.minimum.reduce(points, axis=None) >= 0 and np.maximum.reduce(points, axis=None) <= 1
        ):  # NaN fails both
            raise ValueError("X must lie in the unit cube; a coordinate is outside [0, 1] or NaN")
        return points

    def _checked(self, n: int, y: ArrayLike, yvar: ArrayLike | None) -> tuple[Array, Array]:
        """Values and variances, n x k each."""
        values = np.asarray(y, dtype=np.float64)
        shape = (n, self.objectives)
        if values.size != n * self.objectives or values.shape not in ((), (n,), shape):
            raise ValueError(f"y must hold one value per point: X has {n} points, y has shape {values.shape}")
        if yvar is None:
            return values.reshape(shape), np.full(shape, np.nan)
        var = np.atleast_1d(np.asarray(yvar, dtype=np.float64))
        if var.size != n * self.objectives or var.shape not in ((n,), shape):
            raise ValueError(f"yvar must hold one variance per point: X has {n} points, yvar has shape {var.shape}")
        known = var[var == var]  # not NaN
        if len(known):
            if known.min() < 0:
                raise ValueError(f"yvar must not be negative, got {known.min()}")
            var = np.where(np.isinf(var), np.nan, var)
        return values.reshape(shape), var.reshape(shape)

    def _checked_side_values(self, side_values: ArrayLike | None, n: int, good: NDArray[np.bool_]) -> Array:
        """Values of constraints and costs, n x s."""
        if n == 0 or (side_values is None and not good.any()):
            return np.empty((n, self.n_side_values))
        more = np.empty((n, 0)) if side_values is None else np.asarray(side_values, dtype=np.float64).reshape(n, -1)
        if more.shape[1] != self.n_side_values:
            raise ValueError(
                f"every value comes with {self.n_constraints} constraints{' and a cost' * self.has_cost}, got "
                f"{more.shape[1]} numbers"
            )
        return more

    def __getstate__(self) -> dict[str, Any]:
        """A copied or sent history takes the beginning of the table that it sees."""
        table = self._table.beginning(self._values, self._failures, self._beyond, self._known)
        return {**self.__dict__, "_table": table}


class _Table:
    """What the histories of a run share; rows are only ever appended."""

    def __init__(self, dim: int, columns: int, side_values: int) -> None:
        self.valued, self.failed, self.outside = Rows(dim, columns + side_values), Rows(dim, 0), Rows(dim, columns)
        self.first: dict[bytes, int] = {}
        """The identity of each point that has a value or failed, and how many evaluations had ended before it did."""
        self.known = 0
        """How many evaluations have ended."""

    def beginning(self, values: int, failures: int, beyond: int, known: int) -> _Table:
        """A table of its own with the first rows of this one."""
        other = object.__new__(_Table)
        other.valued, other.failed = self.valued.first(values), self.failed.first(failures)
        other.outside, other.known = self.outside.first(beyond), known
        other.first = {key: at for key, at in self.first.items() if at < known}
        return other


class Rows:
    """Points (n x d) with k numbers each, grown by doubling; what it gives are views that cannot be written to."""

    def __init__(self, dim: int, columns: int) -> None:
        self._X = np.empty((8, dim))
        self._numbers = np.empty((columns, 8))
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def X(self) -> Array:
        """The points, n x d."""
        return _to_read(self._X[: self._n])

    def column(self, i: int) -> Array:
        """The column i, n."""
        return _to_read(self._numbers[i, : self._n])

    def columns(self, start: int, stop: int) -> Array:
        """The columns start .. stop, n x (stop - start)."""
        return _to_read(self._numbers[start:stop, : self._n].T)

    def append(self, X: Array, *numbers: Array) -> None:
        """Points with their numbers, column by column."""
        old, n = self._n, self._n + len(X)
        if n > len(self._X):
            room = max(n, 2 * len(self._X)) - old
            points = np.concatenate([self._X[:old], np.empty((room, self._X.shape[1]))])
            numbers_of = np.concatenate([self._numbers[:, :old], np.empty((len(self._numbers), room))], axis=1)
            self._X, self._numbers = points, numbers_of  # at once, so that an interrupt leaves them of one length
        self._X[old:n] = X
        for i, column in enumerate(numbers):
            self._numbers[i, old:n] = column
        self._n = n

    def first(self, n: int) -> Rows:
        """A table of its own with the first n rows."""
        other = Rows(self._X.shape[1], len(self._numbers))
        other.append(self._X[:n], *self._numbers[:, :n])
        return other


def _to_read(view: Array) -> Array:
    view.flags.writeable = False
    return view
