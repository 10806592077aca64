"""LineBO: Kirschner, Mutny, Hiller, Ischebeck and Krause, "Adaptive and Safe Bayesian Optimization in High Dimensions
via One-Dimensional Subspaces", ICML 2019.

The search goes from line to line: on each a one-dimensional confidence bound is maximised on a grid, a dozen times,
with a Gaussian process that sees all data; then the best point of the line is evaluated, and the next line leads
through it in a new direction.

Notation
    k          lines so far
    x_k, l_k   a point of line k, and its direction
    q          evaluations on a line, between `least` and `most`

Deviations
    1. The kernel is a fitted Matern-5/2 and the width of the bound is 2; the authors fix an SE kernel with 4 or 8.
    2. Directions are random ones; the paper also has lines along coordinates and along gradients.
    3. Lines are numbered by told values alone, so that a replay walks the same ones. Pending points are hallucinated.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from regretless.gp.acquisition import kept_from_failures, upper_confidence
from regretless.gp.design import DesignedMethod, away_from_known
from regretless.gp.step import best_told
from regretless.gp.surrogate import Surrogate
from regretless.method import State, keyed_generator
from regretless.options import whole_number
from regretless.parameters import Array
from regretless.space import Cube
from regretless.streams import Stream

GRID = 300  # points of a line that are scored (the authors' code)
ENDS = 0.05  # the share of a line at each end in which its best point is not sought (the authors' code: 5 to 10 %)
ACCURACY = 0.01  # a line ends once its largest upper and lower bounds are this close, by the mean (the authors' code)
KAPPA = 2.0  # the width of the confidence bound; our choice, since the authors' goes with their kernel (deviation 1)


class Line(NamedTuple):
    """Line number k began after `start` told values and leads through `base` (D)."""

    k: int
    start: int
    base: Array


class LineBO(DesignedMethod):
    """LineBO: one-dimensional Bayesian optimisation along a sequence of lines.

    Args:
        least, most: evaluations on a line, before the last one at its best point (published settings: 10 and 15).
        initial: points of the initial design; None: as for the other methods.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        least: int = 10,
        most: int = 15,
        initial: int | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget, initial=initial)
        whole_number(least=least)
        whole_number(least, most=most)
        self.least, self.most = least, most
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, tame=False)
        self._line: Line | None = None
        self._followed = 0  # told values up to which the walk has been followed

    def _step(self, rng: np.random.Generator) -> Array:
        line, done = self._walk()
        grid = self.points_on(line)
        fresh = grid[[not self.is_known(x) for x in grid]]
        grid = fresh if len(fresh) else grid
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        last = done and len(self.pending) == 0  # the last evaluation on a line is at its best point
        kappa = 0.0 if last else KAPPA
        score = kept_from_failures(upper_confidence(gp, kappa), self.X, self.failed)[1]
        return away_from_known(grid[int(np.argmax(score(grid)))], self, rng)

    def _walk(self) -> tuple[Line, bool]:
        """The line on which the search stands, and whether only the evaluation of its best point is left."""
        first = self._design.size
        if len(self.y) < first:  # some of the design failed: a provisional line 0 leads through the best point so far
            return Line(0, len(self.y), self._best(len(self.y))), False
        if self._line is None:
            self._line, self._followed = Line(0, first, self._best(first)), first
        best = self._best_of_line(self._followed)
        while self._followed < len(self.y):
            if best is not None:
                self._line = Line(self._line.k + 1, self._followed + 1, best)
            self._followed += 1
            best = self._best_of_line(self._followed)
        return self._line, best is not None

    def _best(self, n: int) -> Array:
        """The point with the best posterior mean among the first n told points, D."""
        gp = self._surrogate.gp(self.X[:n], self.y[:n], self.yvar[:n])
        return best_told(gp, self.X[:n])

    def _best_of_line(self, n: int) -> Array | None:
        """The best point of the line, D, once the first n told values complete it but for that point; None before."""
        assert self._line is not None
        here = n - self._line.start
        if here < self.least:
            return None
        grid = self.points_on(self._line)
        gp = self._surrogate.gp(self.X[:n], self.y[:n], self.yvar[:n])
        if here < self.most:
            mean, variance = gp.mean_var(grid)
            sd = np.sqrt(variance)
            if np.max(mean + KAPPA * sd) - np.max(mean - KAPPA * sd) >= ACCURACY * np.abs(mean).mean():
                return None
        margin = int(ENDS * len(grid))
        return best_told(gp, grid[margin : len(grid) - margin])

    def direction(self, k: int) -> Array:
        """l_k, a unit vector, D."""
        v: Array = keyed_generator(self.seed, k, stream=Stream.LINE_DIRECTION).standard_normal(self.dim)
        v /= np.linalg.norm(v)
        return v

    def points_on(self, line: Line) -> Array:
        """A grid on the part of the line inside the cube, GRID x D."""
        v = self.direction(line.k)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.stack([-line.base / v, (1 - line.base) / v])
        reach = np.where(np.isnan(reach) | (v == 0), np.array([[-np.inf], [np.inf]]), np.sort(reach, axis=0))
        low, high = float(reach[0].max()), float(reach[1].min())
        return np.asarray(np.clip(line.base + np.linspace(low, high, GRID)[:, None] * v, 0.0, 1.0))

    def _recommend(self) -> Array:
        return self._best(len(self.y))

    def _state(self) -> State:
        """The latest hyper-parameters and the walk so far, so that a loaded run neither fits nor walks again."""
        fit = self._surrogate.latest_fit(self.X, self.y, self.yvar)
        if not fit or self._line is None:
            return {}
        return {"fit": fit, "followed": self._followed, **self._line._asdict()}

    def _load(self, state: Mapping[str, Any]) -> None:
        if not state:
            return
        self._surrogate.take_fit(self.X, self.y, self.yvar, state.get("fit", {}))
        try:
            line = Line(int(state["k"]), int(state["start"]), np.array(state["base"], dtype=np.float64))
            followed = int(state["followed"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: the line of the search is not readable ({error!r})") from None
        inside = line.base.shape == (self.dim,) and bool(((line.base >= 0) & (line.base <= 1)).all())
        if not (
            inside and 0 <= line.k <= line.start and self._design.size <= line.start <= followed + 1 <= len(self.y) + 1
        ):
            raise ValueError(f"the state is damaged: it holds no line of a search with {len(self.y)} values")
        self._line, self._followed = line, followed
