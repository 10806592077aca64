"""The part of `auto` for many evaluations: CMA-ES with restarts, and tops of quadratics.

The evolution learns from all values, also at the points of the other parts. Now and then the point asked is the top of
a quadratic through the latest values of its search, where they lie on one: that saves a valley hundreds of evaluations.
"""

from collections.abc import Callable

import numpy as np

from regretless.auto.exact import only_lines
from regretless.auto.quadratic import quadratic_step
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.classics.cma_es import CMAES
from regretless.history import History
from regretless.method import Method, Traits
from regretless.models.gp.step import best_evaluated
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array

LEAP_LONG = 200  # values per parameter from which a search of the evolution counts as long (docs/lab/auto.md)
LEAP_UP_TO = 10  # parameters; in more a quadratic has too many coefficients to be cheap
LOCAL = 300  # values nearest to the best of them that the recommendation of a long noisy run is modelled on


class Evolution(Method):
    """CMA-ES that leaps.

    Args:
        is_noisy: whether noise is certain after a history; a quadratic through noisy values would mislead.
    """

    traits = Traits(keeps_apart=False)

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None, is_noisy: Callable[[History], bool]) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._strategy, self._is_noisy = CMAES(self.cube, seed=seed, budget=budget), is_noisy

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        leap = self.leap(history, cube, rng.step)
        return self._strategy.propose(history, cube, rng) if leap is None else leap

    def leap(self, history: History, cube: Cube, step: int) -> Array | None:
        """The top of a quadratic through the latest values of the search, d, where it is its turn."""
        begun = self._strategy.search(history).begun
        # 8, 32: in a search of the evolution every eighth ask, and once it is long every 32nd, goes to the top of a
        # quadratic. Later the evolution has learnt the valley itself, and tops of quadratics that fit by chance would
        # mislead it on sharp ridges (docs/lab/auto.md)
        every = 8 if len(history) - begun < LEAP_LONG * self.dim else 32
        if step % every != every - 1 or self.dim > LEAP_UP_TO or not only_lines(cube) or self._is_noisy(history):
            return None
        # 500: the latest values of a search that a quadratic is fitted to are taken from so many
        late = max(begun, len(history) - 500)
        x = quadratic_step(history.X[late:], history.y[late:], must_fit=True)
        return None if x is None or history.is_known(cube.snap(x)) else cube.snap(x)

    def _recommend(self, history: History) -> Array:
        return best_of_many(self.cube, history.X, history.y, history.yvar)

    def _certificate(self, history: History, delta: float) -> Certificate:
        return Certificate.none("an evolution strategy keeps no model that could bound the regret", delta)


def best_of_many(cube: Cube, X: Array, y: Array, yvar: Array) -> Array:
    """The point, d, to recommend among many noisy values y (n) at X (n x d): the best by a model of those around the
    point whose neighbours have the best mean value."""
    top = np.argsort(-y, kind="stable")[:LOCAL]
    squares = (X * X).sum(axis=1)
    distances = squares[top][:, None] + squares - 2.0 * X[top] @ X.T
    # 10: values whose mean ranks the points of a long noisy run
    near = np.argsort(distances, axis=1, kind="stable")[:, :10]
    centre = top[int(np.argmax(y[near].mean(axis=1)))]
    around = np.sort(np.argsort(((X - X[centre]) ** 2).sum(axis=1), kind="stable")[:LOCAL])
    gp = Surrogate(cube).gp(X[around], y[around], yvar[around])
    return best_evaluated(gp, X[around])
