"""Four searches without a model, the floor every other method is measured from.

`RandomSearch` (Bergstra and Bengio, JMLR 2012) and `SobolSearch`, a scrambled Sobol sequence (Owen 1998), spread their
points. `StayAtBest` and `RandomMutation` begin with a few Sobol points; then one re-evaluates the best point for ever
(the contract sends it elsewhere while that point is under way), the other takes a normal step from it, a (1+1)
evolution strategy with a fixed step (Rechenberg 1973).
"""

from abc import abstractmethod

import numpy as np

from regretless.gp.design import LowDesign
from regretless.gp.sobol import MAX_DIM, sobol_sequence
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

INITIAL = 5  # the number of Sobol points at first; a handful, chosen by hand
STEP = 0.1  # the sd of a mutation in every coordinate, a tenth of the cube's side; chosen by hand


class RandomSearch(Method):
    """Uniform draws from the cube."""

    model_free = True

    def _propose(self, rng: np.random.Generator) -> Array:
        return rng.random(self.dim) if self.cube.region is None else self.cube.draw(rng)


class SobolSearch(Method):
    """A scrambled Sobol sequence: the step-th point of a sequence fixed by the seed."""

    max_dim = MAX_DIM
    model_free = True

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._sequence = sobol_sequence(self.dim, self.fixed_generator())

    def _propose(self, rng: np.random.Generator) -> Array:
        return np.asarray(self._sequence.points(1, self.step)[0])


class FromTheBest(Method):
    """A few Sobol points (`initial`), then points around the best one, which a subclass gives by `_next`."""

    model_free = True

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int = INITIAL) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._design = LowDesign(self.dim, initial, budget, self.fixed_generator())

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        return self._next(rng) if first is None else first

    @abstractmethod
    def _next(self, rng: np.random.Generator) -> Array:
        """The next point, d."""


class StayAtBest(FromTheBest):
    """A few Sobol points, then the best of them again and again."""

    def _next(self, rng: np.random.Generator) -> Array:
        return self._recommend()


class RandomMutation(FromTheBest):
    """A few Sobol points, then normal steps from the best point so far."""

    def _next(self, rng: np.random.Generator) -> Array:
        return np.clip(self._recommend() + STEP * rng.standard_normal(self.dim), 0.0, 1.0)
