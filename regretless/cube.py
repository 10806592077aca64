"""The unit cube as a Method sees it: `dim` coordinates in [0, 1], some of which only take certain positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Encoding: TypeAlias = Literal["shares", "onehot"]
"""How a choice becomes coordinates: one with equal shares, or one per label."""


@dataclass(frozen=True)
class Axis:
    """One coordinate of the cube: a line (`levels=0`), or `levels` positions with equal shares.

    `log_low > 0` marks whole numbers log_low, log_low + 1, ... whose shares are equal on a log scale of the numbers instead.
    """

    levels: int = 0
    categorical: bool = False
    log_low: int = 0

    def _log_ends(self) -> tuple[float, float]:
        return math.log(self.log_low - 0.5), math.log(self.log_low + self.levels - 0.5)

    def index(self, u: Array) -> NDArray[np.int64]:
        """The position each u belongs to, 0 .. levels - 1."""
        if self.log_low:
            a, b = self._log_ends()
            raw = np.rint(np.exp(a + np.asarray(u) * (b - a))) - self.log_low
        else:
            raw = np.floor(np.asarray(u) * self.levels)
        clipped: NDArray[np.int64] = np.clip(raw, 0, self.levels - 1).astype(np.int64)
        return clipped

    def centre(self, index: NDArray[np.int64]) -> Array:
        """The centre of the share of each position."""
        if self.log_low:
            a, b = self._log_ends()
            number = np.asarray(index, dtype=np.float64) + self.log_low
            middle: Array = ((np.log(number - 0.5) + np.log(number + 0.5)) / 2 - a) / (b - a)
            return middle
        return (np.asarray(index, dtype=np.float64) + 0.5) / self.levels

    def snap(self, u: Array) -> Array:
        return self.centre(self.index(u)) if self.levels else np.asarray(u, dtype=np.float64)


class Cube:
    """What a Method knows of the space: `dim` coordinates in [0, 1] and, for each, an `Axis`.

    `groups` are the (start, stop) ranges of one-hot coordinates: a legal point has a single 1 in each.
    """

    def __init__(self, axes: Sequence[Axis], groups: Sequence[tuple[int, int]] = ()) -> None:
        if not axes:
            raise ValueError("a cube needs at least one coordinate")
        self.axes = tuple(axes)
        self.groups = tuple(groups)
        self.dim = len(self.axes)
        self.discrete = np.array([axis.levels > 0 for axis in self.axes])
        """Coordinates that only take certain positions, d."""
        self.categorical = np.array([axis.categorical for axis in self.axes])
        """Coordinates of choices in equal-share encoding, whose positions have no order, d."""
        self._stepped = [(i, axis) for i, axis in enumerate(self.axes) if axis.levels]

    @classmethod
    def box(cls, dim: int) -> Cube:
        """A plain cube, all coordinates continuous."""
        if not isinstance(dim, int | np.integer) or dim < 1:
            raise ValueError(f"dim must be a whole number of at least 1, got {dim!r}")
        return cls([Axis()] * int(dim))

    @property
    def plain(self) -> bool:
        """Whether every coordinate is a line."""
        return not self._stepped and not self.groups

    @property
    def size(self) -> float:
        """The number of legal points; infinite as soon as one coordinate is a line."""
        grouped = {i for start, stop in self.groups for i in range(start, stop)}
        lines = [i for i, axis in enumerate(self.axes) if not axis.levels and i not in grouped]
        if lines:
            return math.inf
        return math.prod([float(axis.levels) for _, axis in self._stepped] + [float(stop - start) for start, stop in self.groups])

    def snap(self, X: Array) -> Array:
        """The legal points nearest in meaning to X, n x d (a copy): clipped to the cube, positions at the centres of their shares."""
        Z: Array = np.minimum(np.maximum(np.asarray(X, dtype=np.float64), 0.0), 1.0)
        for i, axis in self._stepped:
            Z[..., i] = axis.snap(Z[..., i])
        for start, stop in self.groups:
            hot = np.argmax(Z[..., start:stop], axis=-1)
            Z[..., start:stop] = np.eye(stop - start)[hot]
        return Z
