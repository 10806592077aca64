"""The largest value of a formula on the unit cube, by a dense search and a local one; formulas put into odd boxes."""

from __future__ import annotations

import numpy as np

from regretless.method import keyed_generator
from regretless.models.gp.sobol import sobol_points
from regretless.space.parameters import Array
from regretless_bench.problems.problem import Direction, Function, Rows
from regretless_bench.streams import BenchStream

DENSE = 1 << 14
"""Sobol points of the dense search."""
KEPT, TRIED, ROUNDS = 48, 12, 60
"""The best points that the local search moves, its tries for each in a round, and its rounds."""


def largest(rows: Rows, dim: int, seed: int, *, also: Array | None = None) -> tuple[Array, float]:
    """The best point found (d) and its value for a formula to be maximised; also: points worth starting from, k x d.

    The local search moves each kept point by normal steps, some along a single coordinate, and halves the step of a
    point that gained nothing. It needs no gradient, so that steps and kinks are searched like everything else.
    """
    rng = keyed_generator(seed, 1, stream=BenchStream.INSTANCE)
    U = sobol_points(DENSE, dim, rng)
    if also is not None:
        U = np.concatenate([np.clip(also, 0.0, 1.0), U])
    f = rows(U)
    first = np.argsort(-f, kind="stable")[:KEPT]
    if also is not None:
        first = np.unique(np.concatenate([first, np.arange(len(also))]))
    X, best, sd = U[first], f[first], np.full(len(first), 0.1)
    for _ in range(ROUNDS):
        step = sd[:, None, None] * rng.standard_normal((len(X), TRIED, dim))
        alone = rng.integers(dim, size=(len(X), TRIED // 2))
        step[:, : TRIED // 2] *= np.arange(dim) == alone[:, :, None]
        tried = np.clip(X[:, None] + step, 0.0, 1.0)
        values = rows(tried.reshape(-1, dim)).reshape(len(X), TRIED)
        at = values.argmax(axis=1)
        gained = values[np.arange(len(X)), at] > best
        X[gained], best[gained] = tried[gained, at[gained]], values[gained, at[gained]]
        sd[~gained] *= 0.6
    top = int(best.argmax())
    return X[top], float(best[top])


def boxed(
    name: str, rows: Rows, dim: int, seed: int, *, point: Array | None = None, also: Array | None = None
) -> Function:
    """A formula on the unit cube, to be maximised, as a problem on a box of odd sides; every second one is minimised.

    point: where its maximum is known to be; None: found by `largest`.
    """
    rng = keyed_generator(seed, 2, stream=BenchStream.INSTANCE)
    low = rng.uniform(-7.0, 3.0, dim)
    side = np.exp(rng.uniform(-2.0, 3.0, dim))
    if point is None:
        point = largest(rows, dim, seed, also=also)[0]
    sign = -1.0 if seed % 2 else 1.0
    direction: Direction = "minimize" if seed % 2 else "maximize"

    def in_box(X: Array) -> Array:
        return sign * rows(np.clip((X - low) / side, 0.0, 1.0))

    at = (low + point * side)[None]
    bounds = np.column_stack([low, low + side])
    at = np.clip(at, bounds[:, 0], bounds[:, 1])
    return Function(name, in_box, bounds, direction=direction, optimum=float(in_box(at)[0]), points=at)
