"""Points chosen without a model: initial designs, and the step away from a point that is known already."""

from collections.abc import Collection

import numpy as np

from regretless.history import History
from regretless.models.gp.sobol import sobol_points
from regretless.space import Cube
from regretless.space.cube import MOST_COUNTED
from regretless.space.parameters import Array

BUDGET_SHARE = 4  # a design takes at most the share 1/BUDGET_SHARE of a known budget; the rest is for the model
STEPS = 64  # the steps tried: after ten doublings the step spans the cube, and the others are draws from anywhere


def design_size(dim: int, budget: int | None) -> int:
    """2 d + 2 points, or fewer where that is too many."""
    # 32: an initial design is never larger, because in many dimensions no affordable number of points fills the cube
    size = min(2 * dim + 2, 32)
    return size if budget is None else min(size, max(2, budget // BUDGET_SHARE))


class Design:
    """The centre of the cube (unless not wanted), then scrambled Sobol points; fixed for a run by its generator. In a
    tree they go round the branches in a drawn order, because a rare branch may be the best one (docs/lab/spaces.md)."""

    def __init__(self, cube: Cube, size: int, rng: np.random.Generator, *, centre: bool = True) -> None:
        self.size = size
        first = np.full((int(centre), cube.dim), 0.5)
        # 32: further points of the sequence, for designs whose points others evaluated, coincide, or all failed
        points = np.concatenate([first, sobol_points(size + 32, cube.dim, rng)])
        if len(cube.branches):
            turns = np.resize(rng.permutation(len(cube.branches)), len(points))
            for start, stop, _ in cube.parents:
                points[:, start:stop] = cube.branches[turns, start:stop]
        self.points = cube.snap(points)
        if cube.belief is not None:  # every other point follows the user's prior, the first one its peak
            follow = cube.belief.drawn(self.points[::2])
            if centre:
                for i, place in cube.belief.peak.items():
                    follow[0, i] = place
            self.points[::2] = follow
            self.points = cube.snap(self.points)
        if cube.region is not None:
            good = self.points[cube.allows(self.points)]
            others = [cube.draw(rng)[None] for _ in range(len(self.points) - len(good))]
            self.points = np.concatenate([good, *others])

    def next_point(self, history: History, cube: Cube, rng: np.random.Generator) -> Array | None:
        """The first design point that is not known in the cube; None when the design is complete, whoever chose the
        points. While every evaluation has failed there is nothing to model: once the design is used up, a uniform
        draw."""
        if len(history) and history.evaluations >= self.size:
            return None
        for point in self.points:
            if not history.is_known(cube.snap(point) if cube.pins else point):
                return np.asarray(point)
        return rng.random(len(self.points[0])) if len(history) == 0 else None


def away_from_known(
    x: Array, history: History, cube: Cube, rng: np.random.Generator, *, also: Collection[bytes] = ()
) -> Array:
    """x, or where it is known a legal point of the cube a small step away, if there is one; `also`: identities of
    further points that count as known."""
    if cube.region is not None:  # what is forbidden would be moved later on, perhaps to a known point
        x = cube.allowed(x[None])[0]
    # 1e-3: the sd of the first step off a known point, as a share of the edge; it doubles while not enough
    step, point = 1e-3, x
    for _ in range(STEPS):
        canonical = cube.snap(point)
        if not history.is_known(canonical) and not (also and canonical.tobytes() in also):
            return point
        point = cube.allowed((x + step * rng.standard_normal(len(x)))[None])[0]
        step = min(2.0 * step, 1.0)
    if cube.size <= MOST_COUNTED:
        points = cube.all_points()  # the last settings of a space are rarely met by chance
        left = [p for p in points if not history.is_known(p) and p.tobytes() not in also]
        return min(left, key=lambda p: float(((p - x) ** 2).sum()), default=x)
    return x
