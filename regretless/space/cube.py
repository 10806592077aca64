"""The unit cube as a Method sees it: coordinates in [0, 1], some of which only take certain positions.

Some coordinates exist only where others hold certain positions (`Gate`). Where they do not exist they stand at one
resting place, so that two points that differ only there are one point. Some points may be forbidden (`region`), and
some coordinates may be held for the time of one ask (`pinned`).
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regretless.basics.options import whole_number
from regretless.space.belief import Belief
from regretless.space.parameters import Array, Axis
from regretless.space.region import Region

MOST_COUNTED = 20_000
"""Finite cubes with gates or rules are counted point by point up to this many, and what is left of a finite cube is
looked for up to this many; larger ones are as good as endless."""


@dataclass(frozen=True)
class Gate:
    """The coordinates start .. stop exist only where the parent exists and holds one of the `allowed` positions.

    The parent is the coordinates first .. last: one that takes certain positions, or the one-hot group of a choice.
    """

    start: int
    stop: int
    first: int
    last: int
    onehot: bool
    allowed: tuple[bool, ...]
    """Of each position of the parent: whether the coordinates exist there."""


class Cube:
    """What a Method knows of the space: `dim` coordinates in [0, 1] and, for each, an `Axis`.

    `groups` are the (start, stop) ranges of one-hot coordinates: a legal point has a single 1 in each. `gates` say
    which coordinates exist where; the gates of a parent stand before those of its children. `region` says which points
    are allowed; None: all. `belief` says where good values are expected.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        groups: Sequence[tuple[int, int]] = (),
        gates: Sequence[Gate] = (),
        region: Region | None = None,
        belief: Belief | None = None,
    ) -> None:
        if not axes:
            raise ValueError("a cube needs at least one coordinate")
        self.axes = tuple(axes)
        self.groups = tuple(groups)
        self.gates = tuple(gates)
        self.region, self.belief = region, belief
        self.dim = len(self.axes)
        self.discrete = np.array([axis.levels > 0 for axis in self.axes])
        """Coordinates that only take certain positions, d."""
        self.categorical = np.array([axis.categorical for axis in self.axes])
        """Coordinates of choices in equal-share encoding, whose positions have no order, d."""
        self.pins: dict[int, float] = {}
        """Coordinates held for the time of one ask, and where."""
        self._stepped = [(i, axis) for i, axis in enumerate(self.axes) if axis.levels]
        self._even = np.array([i for i, axis in self._stepped if not axis.log_low], dtype=np.intp)
        """Coordinates whose positions have equal shares; all of them are snapped at once."""
        self._levels = np.array([float(self.axes[i].levels) for i in self._even])
        self._uneven = [(i, axis) for i, axis in self._stepped if axis.log_low]
        self._cells = np.array([float(axis.cells) for axis in self.axes])

    @classmethod
    def box(cls, dim: int) -> Cube:
        """A plain cube, all coordinates continuous."""
        whole_number(dim=dim)
        return cls([Axis()] * int(dim))

    @property
    def plain(self) -> bool:
        """Whether every coordinate is a line that always exists and is free."""
        return not self._stepped and not self.groups and not self.pins

    @cached_property
    def size(self) -> float:
        """The number of legal points; infinite as soon as one coordinate is a line."""
        grouped = {i for start, stop in self.groups for i in range(start, stop)}
        lines = [i for i, axis in enumerate(self.axes) if not axis.levels and i not in grouped]
        if lines:
            return math.inf
        flat = math.prod(
            [float(axis.levels) for _, axis in self._stepped] + [float(stop - start) for start, stop in self.groups]
        )
        if flat > MOST_COUNTED or not (self.gates or self.pins or self.region is not None):
            return flat
        return float(len({x.tobytes() for x in self.all_points()}))

    def all_points(self) -> Array:
        """Every legal point of a finite cube, n x d; one that has several guises stands there several times."""
        blocks: list[Array] = []
        for i, axis in self._stepped:
            block = np.zeros((axis.levels, self.dim))
            block[:, i] = axis.centre(np.arange(axis.levels))
            blocks.append(block)
        for start, stop in self.groups:
            block = np.zeros((stop - start, self.dim))
            block[:, start:stop] = np.eye(stop - start)
            blocks.append(block)
        points = self.snap(np.array([np.sum(rows, axis=0) for rows in itertools.product(*blocks)]))
        return points[self.allows(points)]

    @cached_property
    def branches(self) -> Array:
        """A canonical point of each branch, b x d: every combination of positions of the coordinates that others depend
        on, those others at rest; none without gates, or where there are too many combinations to try."""
        counts = [last - first if onehot else self.axes[first].levels for first, last, onehot in self.parents]
        if not self.gates or math.prod(counts) > MOST_COUNTED:
            return np.empty((0, self.dim))
        X = np.repeat(self.rest[None], math.prod(counts), axis=0)
        columns = np.indices(counts).reshape(len(counts), -1)
        for (first, last, onehot), column in zip(self.parents, columns, strict=True):
            X[:, first:last] = np.eye(last - first)[column] if onehot else self.axes[first].centre(column)[:, None]
        return self._reachable(np.unique(np.where(self.active(X), X, self.rest), axis=0))

    def _reachable(self, branches: Array) -> Array:
        """Those of the branches (b x d) in which the rules allow a point; all of them where none is found."""
        if self.region is None:
            return branches
        at = [i for first, last, _ in self.parents for i in range(first, last)]
        try:
            met = {x.tobytes() for x in self.region.anchors(self.snap)[:, at]}
        except ValueError:  # the first ask says so
            return branches
        return np.array([b for b in branches if b[at].tobytes() in met or self._allows_in({i: b[i] for i in at})])

    def _allows_in(self, places: Mapping[int, float]) -> bool:
        """Whether the rules allow a point with coordinates at these places."""
        try:
            held = self.pinned(places)
            return held.region is None or len(held.region.anchors(held.snap)) > 0
        except ValueError:
            return False

    @property
    def parents(self) -> list[tuple[int, int, bool]]:
        """The coordinates (first .. last) that others depend on, and whether they are a one-hot group."""
        return sorted({(g.first, g.last, g.onehot) for g in self.gates})

    @cached_property
    def widest(self) -> int:
        """The largest number of coordinates that exist at once, one-hot groups counted in full; an upper bound where
        the parents have too many combinations to try."""
        return int(self.active(self.branches).sum(axis=1).max()) if len(self.branches) else self.dim

    @cached_property
    def rest(self) -> Array:
        """Where each coordinate stands that does not exist: the middle of its axis, the middle label of a group, d."""
        rest = np.array([float(axis.snap(np.array(0.5))) for axis in self.axes])
        for start, stop in self.groups:
            rest[start:stop] = np.eye(stop - start)[(stop - start) // 2]
        return rest

    def active(self, X: Array) -> NDArray[np.bool_]:
        """Which coordinates exist at the canonical points X (... x d), by the positions of their parents."""
        on = np.ones(np.shape(X), dtype=bool)
        for gate in self.gates:
            parent = X[..., gate.first : gate.last]
            at = np.argmax(parent, axis=-1) if gate.onehot else self.axes[gate.first].index(parent[..., 0])
            on[..., gate.start : gate.stop] &= (np.array(gate.allowed)[at] & on[..., gate.first])[..., None]
        return on

    def held(self, X: Array, fine: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Coordinates that no small step may move: all but lines and `fine` grids, pinned ones and, row by row, those
        that do not exist; d without gates, n x d with them."""
        held = self.discrete.copy() if fine is None else self.discrete & ~fine
        for start, stop in self.groups:
            held[start:stop] = True
        held[list(self.pins)] = True
        if self.region is not None:
            held[self.region.dependent] = True
        return held | ~self.active(X) if self.gates else held

    def pinned(self, places: Mapping[int, float]) -> Cube:
        """The cube with coordinates held at canonical places."""
        other = copy.copy(self)
        other.__dict__.pop("size", None)
        other.pins = {**self.pins, **places}
        if self.region is not None:
            other.region = self.region.with_held(other.pins)
        return other

    def allows(self, X: Array) -> NDArray[np.bool_]:
        """Which of the canonical points X (n x d) are allowed, n."""
        return np.ones(len(X), dtype=bool) if self.region is None else self.region.allows(X)

    def allowed(self, X: Array) -> Array:
        """The canonical points of X (n x d), forbidden ones moved to allowed points nearby, n x d."""
        Z = self.snap(X)
        return Z if self.region is None else self.region.pull(Z, self.snap)

    def uniform(self, rng: np.random.Generator) -> Array:
        """A canonical point, exactly uniform among the allowed ones, d; raises ValueError where they are too few."""
        return self.snap(rng.random(self.dim)) if self.region is None else self.region.uniform(rng, self.snap)

    def draw(self, rng: np.random.Generator) -> Array:
        """A canonical point, uniform among the allowed ones, d."""
        return self.snap(rng.random(self.dim)) if self.region is None else self.region.draw(rng, self.snap)

    def snap(self, X: Array) -> Array:
        """The canonical points nearest in meaning to X, n x d (a copy): clipped to the cube, lines at the ends of their
        cells, positions at the centres of their shares, what does not exist at its resting place."""
        inside = np.minimum(np.maximum(np.asarray(X, dtype=np.float64), 0.0), 1.0)
        for i, place in self.pins.items():
            inside[..., i] = place
        Z: Array = np.rint(inside * self._cells) / self._cells + 0.0  # no negative zero: it has bytes of its own
        if len(self._even):
            position = np.minimum(np.floor(inside[..., self._even] * self._levels), self._levels - 1.0)
            Z[..., self._even] = (position + 0.5) / self._levels
        for i, axis in self._uneven:
            Z[..., i] = axis.snap(inside[..., i])
        for start, stop in self.groups:
            hot = np.argmax(inside[..., start:stop], axis=-1)
            Z[..., start:stop] = np.eye(stop - start)[hot]
        if self.gates:
            Z = np.where(self.active(Z), Z, self.rest)
        if self.region is not None:
            self.region.complete(Z)
        return Z

    def key(self, x: Array) -> bytes:
        """The identity of a point, d: equal for two points exactly when they are the same setting."""
        return self.snap(x).tobytes()
