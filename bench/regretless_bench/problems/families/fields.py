"""Random fields: Gaussian processes by random Fourier features, smooth, rough, warped and additive; random networks."""

from __future__ import annotations

import math

import numpy as np

from regretless.method import keyed_generator
from regretless.space.parameters import Array
from regretless_bench.problems.families.search import boxed
from regretless_bench.problems.problem import Function, Rows
from regretless_bench.streams import BenchStream

FEATURES = 300
"""Random Fourier features of a field: covariances are right to a seventeenth, which is all that a family needs."""
FASTEST = 80.0
"""The largest frequency of a rough field, in radians by sides: a dense search could not find the top of faster ones."""
LINE = np.linspace(0.0, 1.0, 4001)
"""The points among which the maximum of one additive part is taken."""


def field(rng: np.random.Generator, dim: int, scales: Array, degrees: float) -> Rows:
    """A draw of a stationary field on the cube with length-scales (d): Matern with 2 nu = degrees, SE at infinity."""
    omega = rng.standard_normal((FEATURES, dim))
    if math.isfinite(degrees):
        omega /= np.sqrt(rng.chisquare(degrees, (FEATURES, 1)) / degrees)
    omega = np.clip(omega / scales, -FASTEST, FASTEST)
    a, b = rng.standard_normal((2, FEATURES)) / math.sqrt(FEATURES)

    def rows(U: Array) -> Array:
        phase = U @ omega.T
        return np.asarray(np.cos(phase) @ a + np.sin(phase) @ b)

    return rows


def _scales(rng: np.random.Generator, dim: int, low: float, high: float) -> Array:
    """Length-scales that differ by up to a factor of two from a common one between low and high times sqrt(d)."""
    common = math.exp(rng.uniform(math.log(low), math.log(high)))
    return common * math.sqrt(dim) * np.exp(rng.uniform(-0.7, 0.7, dim))


def smooth_field(seed: int, dim: int) -> Function:
    """Gaussian processes: SE, Matern-5/2 or Matern-3/2, length-scales from short (.12) to long (1) by sqrt(d)."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    degrees = (math.inf, 5.0, 3.0)[seed % 3]
    return boxed(f"gp-smooth-{seed}-{dim}", field(rng, dim, _scales(rng, dim, 0.12, 1.0), degrees), dim, seed)


def rough_field(seed: int, dim: int) -> Function:
    """Gaussian processes: Matern-1/2 or Matern-3/2, length-scales from .1 to .5 by sqrt(d)."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    degrees = (1.0, 3.0)[seed % 2]
    return boxed(f"gp-rough-{seed}-{dim}", field(rng, dim, _scales(rng, dim, 0.1, 0.5), degrees), dim, seed)


def warped_field(seed: int, dim: int) -> Function:
    """Non-stationary fields: the cube is warped along each axis before a smooth field, its values may be after it."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    inside = field(rng, dim, _scales(rng, dim, 0.25, 1.0), (math.inf, 5.0)[seed % 2])
    a, b = np.exp(rng.uniform(-1.4, 1.4, (2, dim)))
    slope = np.concatenate([[0.0], rng.uniform(0.5, 1.5, 1)])[(seed // 2) % 2]

    def rows(U: Array) -> Array:
        values = inside(1.0 - (1.0 - U**a) ** b)
        return np.expm1(slope * values) / slope if slope else values

    return boxed(f"warped-{seed}-{dim}", rows, dim, seed)


def additive(seed: int, dim: int) -> Function:
    """Sums of one smooth random function for each coordinate, of unequal weight; the maximum is that of each part."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    parts = [field(rng, 1, np.array([math.exp(rng.uniform(-2.0, 0.0))]), (math.inf, 5.0)[seed % 2]) for _ in range(dim)]
    weights = np.exp(rng.uniform(-1.5, 0.0, dim))

    def rows(U: Array) -> Array:
        return np.asarray(
            sum(w * part(U[:, i : i + 1]) for i, (w, part) in enumerate(zip(weights, parts, strict=True)))
        )

    point = np.array([LINE[int(part(LINE[:, None]).argmax())] for part in parts])
    return boxed(f"additive-{seed}-{dim}", rows, dim, seed, also=point[None])


def network(seed: int, dim: int) -> Function:
    """Random networks of two hidden layers with tanh or rectified units."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    width, gain = 24, rng.uniform(1.5, 4.0)
    first = gain * rng.standard_normal((dim, width)) / math.sqrt(dim)
    second = 1.5 * rng.standard_normal((width, width)) / math.sqrt(width)
    last, b1, b2 = rng.standard_normal((3, width))
    rectified = seed % 2 == 1

    def rows(U: Array) -> Array:
        hidden = (2 * U - 1) @ first + b1
        hidden = np.maximum(hidden, 0.0) if rectified else np.tanh(hidden)
        hidden = hidden @ second + 0.5 * b2
        return np.asarray((np.maximum(hidden, 0.0) if rectified else np.tanh(hidden)) @ last)

    return boxed(f"network-{seed}-{dim}", rows, dim, seed)
