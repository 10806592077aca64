"""Points around a centre, over which a drawn function is maximised."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless.models.gp.sobol import sobol_points
from regretless.models.gp.trust_region import PERTURBED
from regretless.space import Cube
from regretless.space.parameters import Array


def local_points(
    centre: Array, length: float | Array, n: int, cube: Cube, rng: Generator, *, hops: float = 0.0
) -> Array:
    """n points around the centre (d, or one each: n x d), n x d, that move some coordinates within the box of that side
    length (or one each: n), few of them at every second point. A share `hops`, taken from these, draws one to three
    coordinates over the whole range."""
    moved, hop = _moved_coordinates(n, cube, rng, round(hops * n))
    # 4.0: along a grid the box spans at least this many positions, never one alone; our choice
    least = np.array([4.0 / axis.levels if axis.levels else 0.0 for axis in cube.axes])
    reach = np.maximum(np.reshape(length, (-1, 1)), least)
    anywhere = sobol_points(n, cube.dim, rng)
    target = centre + (anywhere - 0.5) * reach
    target[hop] = anywhere[hop]
    choice = cube.categorical.copy()
    for start, stop in cube.groups:
        choice[start:stop] = True
    if choice.any():
        target[:, choice] = rng.random((n, int(choice.sum())))
    return np.where(moved, np.clip(target, 0.0, 1.0), centre)


def _moved_coordinates(n: int, cube: Cube, rng: Generator, n_hops: int) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Which coordinates each of n points moves (n x d), each with chance PERTURBED / d or, for a sparse one,
    log-uniform between 1/d and 1; and which points hop (at most n_hops)."""
    more_axes = (0.5, 0.25)  # the chance that a hop moves a second coordinate, and that it moves one more; our choice
    dim = cube.dim
    chance = np.full(n, min(1.0, PERTURBED / dim))
    sparse = np.arange(n) % 2 == 1
    chance[sparse] = np.exp(rng.uniform(-np.log(dim), 0.0, int(sparse.sum())))
    moved = rng.random((n, dim)) < chance[:, None]
    moved[np.arange(n), rng.integers(dim, size=n)] = True
    hop = np.flatnonzero(sparse)[:n_hops]
    if len(hop):
        axes = 1 + (rng.random((2, len(hop))) < np.array(more_axes)[:, None]).sum(axis=0)
        rank = rng.random((len(hop), dim)).argsort(axis=1).argsort(axis=1)
        moved[hop] = rank < axes[:, None]
    for start, stop in cube.groups:
        moved[:, start:stop] = moved[:, start : start + 1]
    return moved, hop
