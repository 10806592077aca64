"""Two searches without a model that begin with a few Sobol points. `StayAtBest` then evaluates the best point again and
again (while that point is under way the contract sends it elsewhere); `RandomMutation` takes a normal step from it, a
(1+1) evolution strategy with a fixed step (Rechenberg 1973).
"""

from abc import abstractmethod

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Method, Traits
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.low_box import LowDesign

INITIAL = 5  # the number of Sobol points at first; a handful, chosen by hand
STEP = 0.1  # the sd of a mutation in every coordinate, a tenth of the cube's side; chosen by hand


class FromTheBest(Method):
    """A few Sobol points (`initial`), then points around the best one, which a subclass gives by `_next`."""

    traits = Traits(model_free=True)

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int = INITIAL) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._design = LowDesign(self.dim, initial, budget, self._fixed_generator())

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        first = self._design.next_point(history, rng)
        return self._next(history, rng) if first is None else first

    @abstractmethod
    def _next(self, history: History, rng: np.random.Generator) -> Array:
        """The next point, d."""


class StayAtBest(FromTheBest):
    """A few Sobol points, then the best of them again and again."""

    def _next(self, history: History, rng: np.random.Generator) -> Array:
        return self._recommend(history)


class RandomMutation(FromTheBest):
    """A few Sobol points, then normal steps from the best point so far."""

    def _next(self, history: History, rng: np.random.Generator) -> Array:
        return np.clip(self._recommend(history) + STEP * rng.standard_normal(self.dim), 0.0, 1.0)
