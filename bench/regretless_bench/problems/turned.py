"""Formulas in many dimensions whose axes are turned or hidden, for comparisons that had no part in any choice.

A case is g(s A (x - c)) with A orthonormal rows: all of them turned against the coordinates, or a few, or a few of the
coordinates themselves. The optimum c lies off the centre, and its value is 0.
"""

from __future__ import annotations

import math

import numpy as np

from regretless.method import keyed_generator
from regretless.space.parameters import Array
from regretless_bench.problems.problem import Function, Rows
from regretless_bench.streams import BenchStream

LOW, HIGH = -2.0, 4.0
"""The box of every coordinate: uneven about zero, so that nothing is found at the origin."""
OFF_CENTRE = 0.3
"""The optimum lies within this share of the side from the centre of the box, uniformly."""


def griewank(Z: Array) -> Array:
    """A bowl with ripples; of all formulas the smoothest in many dimensions."""
    waves = np.cos(Z / np.sqrt(np.arange(1, Z.shape[1] + 1)))
    return np.asarray(1.0 + (Z**2).sum(axis=1) / 4000.0 - waves.prod(axis=1))


def powers(Z: Array) -> Array:
    """Powers of 2 to 6: steep walls in some directions, flat ground in others."""
    return np.asarray((np.abs(Z) ** np.linspace(2.0, 6.0, Z.shape[1])).sum(axis=1))


def ellipsoid(Z: Array) -> Array:
    """A quadratic with condition number 1,000."""
    return np.asarray(Z**2 @ 10.0 ** np.linspace(0.0, 3.0, Z.shape[1]))


def largest(Z: Array) -> Array:
    """The largest coordinate (Schwefel 2.21): a cone with edges."""
    return np.asarray(np.abs(Z).max(axis=1))


def waves(Z: Array) -> Array:
    """Many valleys on a bowl (Rastrigin with shallower waves)."""
    return np.asarray((Z**2 + 2.0 * (1.0 - np.cos(math.pi * Z))).sum(axis=1))


FORMULAS: dict[str, tuple[Rows, float]] = {
    "griewank": (griewank, 10.0),
    "powers": (powers, 0.5),
    "ellipsoid": (ellipsoid, 1.0),
    "largest": (largest, 1.0),
    "waves": (waves, 1.0),
}
"""Each formula g and the scale s."""


def turned(
    *, formula: str = "griewank", dim: int = 30, effective: int | None = None, rotate: bool = True, seed: int = 0
) -> Function:
    """g(s A (x - c)) in `dim` dimensions, of which `effective` matter (None: all), along turned axes or, without
    `rotate`, along coordinates; the seed draws A and c."""
    if formula not in FORMULAS:
        raise ValueError(f"formula must be one of {', '.join(FORMULAS)}, got {formula!r}")
    k = dim if effective is None else effective
    if not 1 <= k <= dim:
        raise ValueError(f"effective must be between 1 and {dim}, the dimension, or None, got {effective!r}")
    rows, scale = FORMULAS[formula]
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    side = HIGH - LOW
    centre = (LOW + HIGH) / 2 + OFF_CENTRE * side * rng.uniform(-1.0, 1.0, dim)
    axes = np.linalg.qr(rng.standard_normal((dim, k)))[0] if rotate else np.eye(dim)[:, rng.permutation(dim)[:k]]
    name = f"turned-{formula}-{dim}-{k}{'' if rotate else '-axes'}"
    bounds = np.tile([LOW, HIGH], (dim, 1))
    return Function(
        name, lambda X: rows(scale * ((X - centre) @ axes)), bounds, optimum=0.0, points=centre[None], seed=seed
    )
