"""Two searches without a model, which any model has to beat on cumulative regret: one stays at the best point, the
other mutates it.

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

INITIAL = 5
"""The number of Sobol points at first; a handful, chosen by hand."""
STEP = 0.1
"""The sd of a mutation in every coordinate, a tenth of the cube's side; chosen by hand."""


class StayAtBest(Method):
    """A few Sobol points, then the best of them again and again.

    Args:
        initial: the number of Sobol points.
    """

    model_free = True

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int = INITIAL) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._design = _first_points(self, initial)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = _first_point(self, self._design, rng)
        return self._recommend() if first is None else first


class RandomMutation(Method):
    """A few Sobol points, then normal steps from the best point so far.

    Args:
        initial: the number of Sobol points.
        step: the sd of a step in every coordinate, in units of the cube's side.
    """

    model_free = True

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, initial: int = INITIAL, step: float = STEP
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if not step > 0:
            raise ValueError(f"step must be positive, got {step!r}")
        self.step_size = step
        self._design = _first_points(self, initial)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = _first_point(self, self._design, rng)
        if first is not None:
            return first
        x: Array = self._recommend() + self.step_size * rng.standard_normal(self.dim)
        return np.clip(x, 0.0, 1.0)


def _first_points(method: Method, initial: int) -> Array:
    """The Sobol points that a search begins with, initial x d."""
    if initial < 1:
        raise ValueError(f"initial must be at least 1, got {initial!r}")
    return method.cube.snap(sobol_points(initial, method.dim, method.fixed_generator()))


def _first_point(method: Method, design: Array, rng: np.random.Generator) -> Array | None:
    """The next Sobol point, d; after them None, or a uniform draw while every evaluation has failed."""
    known = len(method.known)
    if known < len(design):
        point: Array = design[known]
        return point
    return rng.random(method.dim) if len(method.y) == 0 else None
