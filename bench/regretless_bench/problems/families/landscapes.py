"""Landscapes made by hand: sums of peaks, terraces, rough functions, facets, and those that hide their best value."""

from __future__ import annotations

import math

import numpy as np

from regretless.method import keyed_generator
from regretless.space.parameters import Array
from regretless_bench.problems.families.fields import FASTEST, field
from regretless_bench.problems.families.search import boxed, largest
from regretless_bench.problems.problem import Function, Rows
from regretless_bench.streams import BenchStream


def _peaks(rng: np.random.Generator, dim: int, count: int, low: float, high: float) -> tuple[Rows, Array]:
    """The upper envelope of Gaussian peaks, the first being the highest, on a gentle slope; and their centres."""
    centres = rng.uniform(0.08, 0.92, (count, dim))
    heights = np.concatenate([[1.0], rng.uniform(0.3, 0.85, count - 1)])
    widths = np.exp(rng.uniform(math.log(low), math.log(high), (count, 1))) * math.sqrt(dim)
    widths = widths * np.exp(rng.uniform(-0.3, 0.3, (count, dim)))
    tilt = 0.1 * rng.standard_normal(dim) / math.sqrt(dim)

    def rows(U: Array) -> Array:
        away = (((U[:, None] - centres) / widths) ** 2).sum(axis=2)
        return np.asarray((heights * np.exp(-0.5 * away)).max(axis=1) + (U - 0.5) @ tilt)

    return rows, centres


def wide_peaks(seed: int, dim: int) -> Function:
    """A few wide Gaussian peaks (sd .15 to .35 by sqrt(d)): every one is seen from far."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    rows, centres = _peaks(rng, dim, 3 + seed % 5, 0.15, 0.35)
    return boxed(f"peaks-{seed}-{dim}", rows, dim, seed, also=centres)


def narrow_peaks(seed: int, dim: int) -> Function:
    """Many narrow Gaussian peaks (sd .03 to .1 by sqrt(d)), as Gallagher's: the best is one of many."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    rows, centres = _peaks(rng, dim, 10 + 5 * (seed % 3), 0.03, 0.1)
    return boxed(f"narrow-peaks-{seed}-{dim}", rows, dim, seed, also=centres)


def gkls(seed: int, dim: int) -> Function:
    """A paraboloid with local minima cut into it, after Gaviano, Kvasov, Lera and Sergeyev: the best one of ten has a
    basin of radius .12 to .25 and lies apart from the paraboloid's own."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    centre = rng.uniform(0.2, 0.8, dim)
    points = rng.uniform(0.05, 0.95, (10, dim))
    while np.linalg.norm(points[0] - centre) < 0.3:
        points[0] = rng.uniform(0.05, 0.95, dim)
    radii = rng.uniform(0.08, 0.2, 10)
    radii[0] = rng.uniform(0.12, 0.25)
    depths = rng.uniform(0.0, 0.3, 10) * 0.5
    depths[0] = 0.5

    def rows(U: Array) -> Array:
        values = ((U - centre) ** 2).sum(axis=1)
        for point, radius, depth in zip(points, radii, depths, strict=True):
            share = np.linalg.norm(U - point, axis=1) / radius
            blend = np.clip(share, 0.0, 1.0) ** 2 * (3 - 2 * np.clip(share, 0.0, 1.0))
            values = blend * values + (1 - blend) * (-depth + 0.1 * share**2)
        return np.asarray(-values)

    return boxed(f"gkls-{seed}-{dim}", rows, dim, seed, also=points)


def needle(seed: int, dim: int) -> Function:
    """A bowl or a smooth field with one hidden needle, 2 to 6 % of the side wide, that beats all the rest."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    smooth = field(rng, dim, np.full(dim, 0.6 * math.sqrt(dim)), math.inf)
    centre, bowl = rng.uniform(0.2, 0.8, dim), seed % 2
    place = rng.integers(0, 2, dim).astype(float) if seed % 3 == 0 else rng.uniform(0.05, 0.95, dim)
    width = rng.uniform(0.02, 0.06) * math.sqrt(dim)

    def base(U: Array) -> Array:
        return np.asarray(-((U - centre) ** 2).sum(axis=1) if bowl else smooth(U))

    probe = base(rng.random((4096, dim)))
    height = rng.uniform(0.2, 0.6) * float(np.ptp(probe)) + float(probe.max()) - float(base(place[None])[0])

    def rows(U: Array) -> Array:
        return np.asarray(base(U) + height * np.exp(-0.5 * (((U - place) / width) ** 2).sum(axis=1)))

    return boxed(f"needle-{seed}-{dim}", rows, dim, seed, also=place[None])


def terraces(seed: int, dim: int) -> Function:
    """Steps and plateaus: a smooth field or a bowl rounded to 6 to 20 levels, or a sum of steps along the axes."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    if seed % 3 == 2:
        cuts = np.sort(rng.random((dim, 6)), axis=1)
        heights = rng.standard_normal((dim, 7)) * np.exp(rng.uniform(-1.0, 0.0, (dim, 1)))

        def steps(U: Array) -> Array:
            cells = [np.searchsorted(cuts[i], U[:, i]) for i in range(dim)]
            return np.asarray(sum(heights[i][cell] for i, cell in enumerate(cells)))

        edges = np.column_stack([np.zeros(dim), cuts, np.ones(dim)])
        best = heights.argmax(axis=1)
        middle = 0.5 * (edges[np.arange(dim), best] + edges[np.arange(dim), best + 1])
        return boxed(f"steps-{seed}-{dim}", steps, dim, seed, point=middle)
    smooth = field(rng, dim, np.full(dim, rng.uniform(0.35, 0.8) * math.sqrt(dim)), math.inf)
    centre, levels = rng.uniform(0.2, 0.8, dim), int(rng.integers(6, 21))

    def base(U: Array) -> Array:
        return np.asarray(-((U - centre) ** 2).sum(axis=1) if seed % 3 else smooth(U))

    point, top = largest(base, dim, seed)
    size = (top - float(base(rng.random((1024, dim))).min())) / levels

    def rounded(U: Array) -> Array:
        return np.asarray(top + size * np.floor((base(U) - top) / size + 0.5))

    return boxed(f"terraces-{seed}-{dim}", rounded, dim, seed, point=point)


def rough(seed: int, dim: int) -> Function:
    """Rough with nothing hidden: Rastrigin, Schwefel, Griewank in random boxes, Brownian paths, 1/f ripples."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    kind = ("rastrigin", "schwefel", "griewank", "brownian", "ripples")[seed % 5]
    centre, zoom = rng.uniform(0.15, 0.85, dim), rng.uniform(0.3, 1.0)
    if kind == "rastrigin":

        def rows(U: Array) -> Array:
            X = 10.24 * zoom * (U - centre)
            return np.asarray(-(X**2 - 10 * np.cos(2 * math.pi * X) + 10).sum(axis=1))
    elif kind == "schwefel":

        def rows(U: Array) -> Array:
            X = 420.968746 + 1000.0 * zoom * (U - centre) * np.where(centre < U, 79.0 / 1000 / (1 - centre) / zoom, 1.0)
            return np.asarray((X * np.sin(np.sqrt(np.abs(X)))).sum(axis=1))
    elif kind == "griewank":

        def rows(U: Array) -> Array:
            X = 60.0 * zoom * (U - centre)
            waves = np.cos(X / np.sqrt(np.arange(1, dim + 1))).prod(axis=1)
            return np.asarray(-((X**2).sum(axis=1) / 4000 - waves + 1))
    elif kind == "brownian":
        paths = np.cumsum(rng.standard_normal((dim, 301)), axis=1)
        knots = np.linspace(0.0, 1.0, 301)

        def rows(U: Array) -> Array:
            return np.asarray(sum(np.interp(U[:, i], knots, paths[i]) for i in range(dim)))

        return boxed(f"brownian-{seed}-{dim}", rows, dim, seed, point=knots[paths.argmax(axis=1)])
    else:
        count = 60
        size = np.minimum(np.exp(rng.uniform(0.7, math.log(FASTEST), count)), FASTEST)
        turn = rng.standard_normal((count, dim))
        waves, phase = turn / np.linalg.norm(turn, axis=1, keepdims=True) * size[:, None], rng.uniform(0, 6.283, count)

        def rows(U: Array) -> Array:
            return np.asarray((np.sin(U @ waves.T + phase) / np.sqrt(size)).sum(axis=1))

        return boxed(f"ripples-{seed}-{dim}", rows, dim, seed)
    return boxed(f"{kind}-{seed}-{dim}", rows, dim, seed, point=centre)


def facets(seed: int, dim: int) -> Function:
    """Piecewise linear: the largest of some smallest of random planes, with kinks and several tops."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    tops, planes = 2 + seed % 4, 2 * dim + 2
    normals = rng.standard_normal((tops, planes, dim))
    centres, heights = rng.uniform(0.1, 0.9, (tops, 1, dim)), rng.uniform(0.0, 0.6, (tops, 1))

    def rows(U: Array) -> Array:
        below = np.einsum("tpd,ntpd->ntp", normals, U[:, None, None] - centres)
        return np.asarray((heights[:, 0] + below.min(axis=2)).max(axis=1))

    return boxed(f"facets-{seed}-{dim}", rows, dim, seed, also=centres[:, 0])
