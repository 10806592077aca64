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

from regretless.basics.options import whole_number
from regretless.basics.streams import Draws, Stream, keyed_generator
from regretless.history import History
from regretless.method import State
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.acquisition import kept_from_failures, upper_confidence
from regretless.models.gp.design import away_from_known
from regretless.models.gp.step import best_evaluated
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array

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
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, clip=False)
        self.line: Line | None = None
        self._walked = 0  # told values that the walk has passed

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        line, done = self._walk(history)
        grid = self.points_on(line)
        fresh = grid[[not history.is_known(x) for x in cube.snap(grid)]]
        grid = fresh if len(fresh) else grid
        gp = self._surrogate.gp(history.X, history.y, history.yvar, history.pending)
        last = done and len(history.pending) == 0  # the last evaluation on a line is at its best point
        kappa = 0.0 if last else KAPPA
        score = kept_from_failures(upper_confidence(gp, kappa), history.X, history.failed)[1]
        return away_from_known(grid[int(np.argmax(score(grid)))], history, cube, rng)

    def _walk(self, history: History) -> tuple[Line, bool]:
        """The line on which the search stands, and whether only the evaluation of its best point is left."""
        self._catch_up(history)
        first = self._design.size
        if len(history) < first:  # some of the design failed: a provisional line 0 leads through the best point so far
            return Line(0, len(history), self._best(history, len(history))), False
        if self.line is None:
            self.line, self._walked = Line(0, first, self._best(history, first)), first
        best = self._best_of_line(history, self._walked)
        while self._walked < len(history):
            if best is not None:
                self.line = Line(self.line.k + 1, self._walked + 1, best)
            self._walked += 1
            best = self._best_of_line(history, self._walked)
        return self.line, best is not None

    def _begin(self) -> None:
        self.line, self._walked = None, 0

    def _best(self, history: History, n: int) -> Array:
        """The point with the best posterior mean among the first n told points, D."""
        gp = self._surrogate.gp(history.X[:n], history.y[:n], history.yvar[:n])
        return best_evaluated(gp, history.X[:n])

    def _best_of_line(self, history: History, n: int) -> Array | None:
        """The best point of the line, D, once the first n told values complete it but for that point; None before."""
        assert self.line is not None
        here = n - self.line.start
        if here < self.least:
            return None
        grid = self.points_on(self.line)
        gp = self._surrogate.gp(history.X[:n], history.y[:n], history.yvar[:n])
        if here < self.most:
            mean, variance = gp.mean_var(grid)
            sd = np.sqrt(variance)
            if np.max(mean + KAPPA * sd) - np.max(mean - KAPPA * sd) >= ACCURACY * np.abs(mean).mean():
                return None
        margin = int(ENDS * len(grid))
        return best_evaluated(gp, grid[margin : len(grid) - margin])

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

    def _recommend(self, history: History) -> Array:
        return self._best(history, len(history))

    def warm(self, history: History) -> State:
        """The latest hyper-parameters and the walk so far, so that a loaded run neither fits nor walks again."""
        self._catch_up(history)
        fit = self._surrogate.latest_fit(history.X, history.y, history.yvar)
        if not fit or self.line is None:
            return {}
        return {"fit": fit, "walked": self._walked, **self.line._asdict()}

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        if not state:
            return
        self._surrogate.take_fit(history.X, history.y, history.yvar, state.get("fit", {}))
        try:
            line = Line(int(state["k"]), int(state["start"]), np.array(state["base"], dtype=np.float64))
            walked = int(state["walked"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: the line of the search is not readable ({error!r})") from None
        inside = line.base.shape == (self.dim,) and bool(((line.base >= 0) & (line.base <= 1)).all())
        ordered = self._design.size <= line.start <= walked + 1 <= len(history) + 1
        if not (inside and 0 <= line.k <= line.start and ordered):
            raise ValueError(f"the state is damaged: it holds no line of a search with {len(history)} values")
        self._catch_up(history)
        self.line, self._walked = line, walked
