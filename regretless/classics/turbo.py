"""TuRBO-1: a trust region with Thompson sampling (Eriksson, Pearce, Gardner, Turner and Poloczek, NeurIPS 2019).

A Gaussian process is fitted to the data gathered after the last restart, and a Thompson draw is maximised over a box
around the best of them. The box doubles after a few successes in a row and halves after many failures; when it has
become too small, everything starts again elsewhere.

Deviations
    1. The Thompson draw is a sample path (pathwise conditioning), not a joint draw over the 5000 candidates, which
       would cost 4e10 operations. The path carries no observation noise.
    2. Hyper-parameters are found by MAP under this library's priors, warm-started, not by 50 steps of Adam.
    3. A region begins with d + 2 points, at most a third of a known budget, as users have small ones; the paper takes
       2 d.
    4. One point at a time; later points of a batch hallucinate the pending ones. Foreign points count like asked ones.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regretless.basics.options import whole_number
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, State
from regretless.models.gp.step import best_evaluated
from regretless.models.gp.surrogate import Surrogate
from regretless.models.gp.trust_region import LOCAL, Restarts, thompson_step
from regretless.space import Cube
from regretless.space.parameters import Array


class TuRBO(Method):
    """A trust region around the best point, with Thompson sampling inside it.

    Args:
        initial: the number of initial points of each trust region; None: by dimension and budget.
    """

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        whole_number(also=(None,), initial=initial)
        few = self.dim + 2 if budget is None else max(2, min(self.dim + 2, budget // 3))
        self.initial = few if initial is None else initial
        self._surrogate = Surrogate(self.cube, quadratic=False)
        self._begin()

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        regions = self.regions(history)
        first = regions.design_point(self.seed, history, rng)
        if first is not None:
            return first
        X, y, yvar = regions.values(history)
        gp = self._surrogate.gp(X, y, yvar, history.pending)
        return thompson_step(gp, X, regions.region.length, cube, rng)

    def regions(self, history: History) -> Restarts:
        """The trust regions after this history."""
        self._catch_up(history)
        return self._regions

    def _begin(self) -> None:
        self._regions = Restarts(self.dim, self.initial)

    def _update(self, history: History, first: int) -> None:
        self._regions.observe(history.y, first)

    def _recommend(self, history: History) -> Array:
        """The best value ever observed, among those that share its trust region by the model's mean."""
        regions, top = self.regions(history), int(np.argmax(history.y))
        if top < regions.start:
            return np.asarray(history.X[top])
        X, y, yvar = regions.values(history)
        return best_evaluated(self._surrogate.gp(X, y, yvar), X)

    def _certificate(self, history: History, delta: float) -> Certificate:
        return Certificate.none(LOCAL, delta)

    def warm(self, history: History) -> State:
        return {"model": self._surrogate.latest_fit(*self.regions(history).values(history))}

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        if state.get("model"):
            self._surrogate.take_fit(*self.regions(history).values(history), state["model"])
