"""LineBO: Kirschner, Mutny, Hiller, Ischebeck and Krause, "Adaptive and Safe Bayesian Optimization in High Dimensions
via One-Dimensional
Subspaces", ICML 2019.

The search goes from line to line: on each a one-dimensional confidence bound is maximised on a grid, a dozen times,
with a Gaussian process that sees all data; then the best point of the line is evaluated, and the next line leads
through it in a new direction.

Notation
    k   lines so far       x_k, l_k   point and direction of line k       q   evaluations on a line, between `least` and `most`

Deviations
    1. The kernel is a Matern-5/2 fitted by MAP; the authors fix an SE kernel. The width of the bound is 2; theirs, 4 or
       8, goes with their kernel.
    2. Lines are numbered by told values alone: a replayed history walks the same lines. Pending points are
       hallucinated.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from regretless.gp.acquisition import kept_from_failures, upper_confidence
from regretless.gp.design import Design, away_from_known, design_size
from regretless.gp.posterior import GP
from regretless.gp.surrogate import Surrogate
from regretless.method import Method, keyed_generator
from regretless.parameters import Array
from regretless.space import Cube
from regretless.streams import Stream

GRID = 300
"""Points of a line that are scored (the authors' code)."""
ENDS = 0.05
"""Share of a line at each end in which its best point is not sought (the authors' code: 5 to 10 %)."""
ACCURACY = 0.01
"""A line is done early when its best bound exceeds its best lower bound by less than this share of the mean (the
authors' code)."""
KAPPA = 2.0


class Line(NamedTuple):
    """Line number k began after `start` told values and leads through `base` (D)."""

    k: int
    start: int
    base: Array


class LineBO(Method):
    """LineBO: one-dimensional Bayesian optimisation along a sequence of lines.

    Args:
        directions: "random" ones, or along a random "coordinate".
        least, most: evaluations on a line, before the last one at its best point (published settings: 10 and 15).
        kappa: the width of the confidence bound.
        initial: points of the initial design; None: as for the other methods.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        directions: Literal["random", "coordinate"] = "random",
        least: int = 10,
        most: int = 15,
        kappa: float = KAPPA,
        initial: int | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if directions not in ("random", "coordinate"):
            raise ValueError(f"directions must be 'random' or 'coordinate', got {directions!r}")
        if not 1 <= least <= most or not kappa >= 0:
            raise ValueError(f"need 1 <= least <= most and kappa >= 0, got {least!r}, {most!r} and {kappa!r}")
        self.directions, self.least, self.most, self.kappa = directions, least, most, kappa
        self._design = Design(
            self.cube, design_size(self.dim, budget) if initial is None else initial, self.fixed_generator()
        )
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, tame=False)
        self._line: Line | None = None
        self._looked = 0  # told values up to which the walk has been followed

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        line, done = self._walk()
        grid = self.points_on(line)
        fresh = grid[[not self.is_known(x) for x in grid]]
        grid = fresh if len(fresh) else grid
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        kappa = (
            0.0 if done and len(self.pending) == 0 else self.kappa
        )  # the last evaluation on a line is at its best point
        score = kept_from_failures(upper_confidence(gp, kappa), self.X, self.failed)[1]
        return away_from_known(grid[int(np.argmax(score(grid)))], self, rng)

    def _walk(self) -> tuple[Line, bool]:
        """The line after all told values, and whether only the evaluation of its best point is left; follows the told
        values one by one."""
        first = self._design.size
        if len(self.y) < first:  # some of the design failed: line 0 through the best so far, for the time being
            return Line(0, len(self.y), self._best(len(self.y))), False
        if self._line is None:
            self._line, self._looked = Line(0, first, self._best(first)), first
        done = self._done(self._looked)
        while self._looked < len(self.y):
            if done is not None:
                self._line = Line(self._line.k + 1, self._looked + 1, done)
            self._looked += 1
            done = self._done(self._looked)
        return self._line, done is not None

    def _best(self, n: int) -> Array:
        """Of the first n told points the one with the best posterior mean, D."""
        gp = self._surrogate.gp(self.X[:n], self.y[:n], self.yvar[:n])
        return np.array(self.X[int(np.argmax(gp.mean_at(self.X[:n])))])

    def _done(self, n: int) -> Array | None:
        """The best point of the line once the first n told values complete it but for that point; None before."""
        assert self._line is not None
        here = n - self._line.start
        if here < self.least:
            return None
        grid = self.points_on(self._line)
        gp = self._surrogate.gp(self.X[:n], self.y[:n], self.yvar[:n])
        if here < self.most:
            mean, variance = gp.mean_var(grid)
            sd = np.sqrt(variance)
            if np.max(mean + self.kappa * sd) - np.max(mean - self.kappa * sd) >= ACCURACY * np.abs(mean).mean():
                return None
        return best_inside(gp, grid)

    def direction(self, k: int) -> Array:
        """l_k, a unit vector, D."""
        rng = keyed_generator(self.seed, k, stream=Stream.LINE_DIRECTION)
        if self.directions == "coordinate":
            return np.array(np.eye(1, self.dim, int(rng.integers(self.dim)))[0])
        v: Array = rng.standard_normal(self.dim)
        v /= np.linalg.norm(v)
        return v

    def points_on(self, line: Line) -> Array:
        """A grid on the part of the line inside the cube, GRID x D."""
        v = self.direction(line.k)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.stack([-line.base / v, (1 - line.base) / v])
        reach = np.where(np.isnan(reach) | (v == 0), np.array([[-np.inf], [np.inf]]), np.sort(reach, axis=0))
        low, high = float(reach[0].max()), float(reach[1].min())
        points: Array = np.clip(line.base + np.linspace(low, high, GRID)[:, None] * v, 0.0, 1.0)
        return points

    def _recommend(self) -> Array:
        return self._best(len(self.y))


def best_inside(gp: GP, grid: Array) -> Array:
    """The point of a line's grid with the best posterior mean, its ends left out, D."""
    margin = int(ENDS * len(grid))
    inner = grid[margin : len(grid) - margin]
    best: Array = inner[int(np.argmax(gp.mean_at(inner)))]
    return best
