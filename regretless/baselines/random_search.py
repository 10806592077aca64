"""Random search (Bergstra and Bengio, JMLR 2012) and its even-spread sibling, a scrambled Sobol sequence (Owen 1998).

Neither has a model: they are the floor every other method is measured from.
"""

from __future__ import annotations

import numpy as np

from regretless.gp.sobol import MAX_DIM, point_at, sobol_sequence
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube


class RandomSearch(Method):
    """Uniform draws from the cube."""

    model_free = True

    def _propose(self, rng: np.random.Generator) -> Array:
        return rng.random(self.dim)


class SobolSearch(Method):
    """A scrambled Sobol sequence: the step-th point of a sequence fixed by the seed."""

    max_dim = MAX_DIM
    model_free = True

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._sequence = sobol_sequence(self.dim, self.fixed_generator())

    def _propose(self, rng: np.random.Generator) -> Array:
        return point_at(self._sequence, self.step)
