"""Two searches without a model, the ones any model has to beat on cumulative regret: stay at the best point, or mutate
it.

Both begin with a few scrambled Sobol points. `StayAtBest` then re-evaluates the best point for ever (the contract sends
it elsewhere while that point is under way); `RandomMutation` takes a normal step from it, a (1+1) evolution strategy
with a fixed step (Rechenberg 1973).
"""

from __future__ import annotations

import numpy as np

from regretless.gp.sobol import sobol_points
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube


class StayAtBest(Method):
    """A few Sobol points, then the best of them again and again.

    Args:
        initial: the number of Sobol points.
    """

    model_free = True

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int = 5) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._design = _first_points(self, initial)

    def _propose(self, rng: np.random.Generator) -> Array:
        known = len(self.y) + len(self.failed) + len(self.pending)
        if known < len(self._design):
            first: Array = self._design[known]
            return first
        if len(self.y) == 0:
            return rng.random(self.dim)
        return self._recommend()


class RandomMutation(Method):
    """A few Sobol points, then normal steps from the best point so far.

    Args:
        initial: the number of Sobol points.
        step: the sd of a step in every coordinate, in units of the cube's side.
    """

    model_free = True

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int = 5, step: float = 0.1
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if not step > 0:
            raise ValueError(f"step must be positive, got {step!r}")
        self.step_size = step
        self._design = _first_points(self, initial)

    def _propose(self, rng: np.random.Generator) -> Array:
        known = len(self.y) + len(self.failed) + len(self.pending)
        if known < len(self._design):
            first: Array = self._design[known]
            return first
        if len(self.y) == 0:
            return rng.random(self.dim)
        x: Array = self._recommend() + self.step_size * rng.standard_normal(self.dim)
        return np.clip(x, 0.0, 1.0)


def _first_points(method: Method, initial: int) -> Array:
    if initial < 1:
        raise ValueError(f"initial must be at least 1, got {initial!r}")
    return method.cube.snap(sobol_points(initial, method.dim, method.fixed_generator()))
