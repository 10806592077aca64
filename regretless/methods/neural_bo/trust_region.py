"""A trust region that follows from the values alone, and the points drawn in it (Eriksson et al., NeurIPS 2019).

The side length doubles after three successes in a row and halves after max(4, d) failures in a row; a value is a
success when it beats the best before it by more than a thousandth of the spread seen. Below 2^-7 the region opens
again. Being a fold over the values in the order told, it needs no state of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from regretless.gp.sobol import sobol_points
from regretless.parameters import Array
from regretless.space import Cube

FIRST_LENGTH, LEAST_LENGTH, MOST_LENGTH = 0.8, 2.0**-7, 1.6
SUCCESSES = 3
LEAST_FAILURES = 4
MARGIN = 1e-3
"""An improvement counts beyond this share of the spread of the values so far."""
PERTURBED = 20
"""Coordinates moved per point on average, where there are more."""
MORE_AXES = (0.5, 0.25)
"""Chances that a hop moves a second coordinate, and independently one more."""
GRID_REACH = 4.0
"""The side of the box along a grid, in positions, at least: two to either side."""


@dataclass(frozen=True)
class Region:
    """The side length and the counts behind it, after `seen` values."""

    seen: int = 0
    best: float = -np.inf
    worst: float = np.inf
    length: float = FIRST_LENGTH
    successes: int = 0
    failures: int = 0


def region_after(region: Region, y: Array, n_design: int, dim: int) -> Region:
    """The region after all of y (n), from one after its first `region.seen` values; the first n_design values set only
    the range."""
    tolerance = max(LEAST_FAILURES, dim)
    for i in range(region.seen, len(y)):
        value = float(y[i])
        best, worst = max(region.best, value), min(region.worst, value)
        if i < n_design:
            region = replace(region, best=best, worst=worst)
            continue
        better = value > region.best + MARGIN * (region.best - region.worst)
        successes, failures = (region.successes + 1, 0) if better else (0, region.failures + 1)
        length = region.length
        if successes == SUCCESSES:
            length, successes = min(2 * length, MOST_LENGTH), 0
        if failures == tolerance:
            length, failures = length / 2, 0
        if length < LEAST_LENGTH:
            length = FIRST_LENGTH
        region = Region(0, best, worst, length, successes, failures)
    return replace(region, seen=len(y))


def local_points(
    centre: Array, length: float, n: int, cube: Cube, rng: np.random.Generator, *, hops: float = 0.0
) -> Array:
    """n points of the box of that side around the centre, n x d: half with about PERTURBED coordinates moved, half with
    fewer.

    A share `hops` of them leaves the box: one to three coordinates drawn anew over their whole range, the others the
    centre's. Along a grid the box reaches at least the next positions; choices are drawn afresh when moved, one-hot
    coordinates together.
    """
    dim = cube.dim
    rate = np.full(n, min(1.0, PERTURBED / dim))
    sparse = np.arange(n) % 2 == 1
    rate[sparse] = np.exp(rng.uniform(-np.log(dim), 0.0, int(sparse.sum())))
    moved = rng.random((n, dim)) < rate[:, None]
    moved[np.arange(n), rng.integers(dim, size=n)] = True
    hop = np.flatnonzero(sparse)[: round(hops * n)]
    if len(hop):
        axes = 1 + (rng.random((2, len(hop))) < np.array(MORE_AXES)[:, None]).sum(axis=0)
        moved[hop] = rng.random((len(hop), dim)).argsort(axis=1).argsort(axis=1) < axes[:, None]
    for start, stop in cube.groups:
        moved[:, start:stop] = moved[:, start : start + 1]
    reach = np.array([max(length, GRID_REACH / axis.levels) if axis.levels else length for axis in cube.axes])
    anywhere = sobol_points(n, dim, rng)
    box = centre + (anywhere - 0.5) * reach
    box[hop] = anywhere[hop]
    anew = cube.categorical.copy()
    for start, stop in cube.groups:
        anew[start:stop] = True
    if anew.any():
        box[:, anew] = rng.random((n, int(anew.sum())))
    return np.where(moved, np.clip(box, 0.0, 1.0), centre)
