"""Two searches without a model, the floor every other method is measured from: uniform draws (Bergstra and Bengio,
JMLR 2012) and a scrambled Sobol sequence (Owen 1998)."""

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Method, Traits
from regretless.models.gp.sobol import MAX_DIM, sobol_sequence
from regretless.space import Cube
from regretless.space.parameters import Array


class RandomSearch(Method):
    """Uniform draws from the cube."""

    traits = Traits(model_free=True, objectives=True)

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        return rng.random(self.dim) if cube.region is None else cube.draw(rng)


class SobolSearch(Method):
    """A scrambled Sobol sequence: the step-th point of a sequence fixed by the seed."""

    traits = Traits(max_dim=MAX_DIM, model_free=True, objectives=True)

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._sequence = sobol_sequence(self.dim, self._fixed_generator())

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        return np.asarray(self._sequence.points(1, rng.step)[0])
