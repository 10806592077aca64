"""The passive approach that GO-UCB's paper sets itself apart from (Sec. 1): points drawn uniformly at random, a fit of
all of them, and the maximiser of the fit."""

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Method, Traits
from regretless.methods.go_ucb.belief import best_evaluated, optimism
from regretless.methods.go_ucb.oracle import Oracle
from regretless.methods.go_ucb.parametric import BoundsLike, checked_inputs
from regretless.methods.go_ucb.user_model import UserModel, family_of
from regretless.models.gp.maximiser import maximise
from regretless.models.gp.sobol import MAX_DIM
from regretless.space import Cube, Space
from regretless.space.parameters import Array


class Passive(Method):
    """Uniform points, the least-squares fit of a family to all of them, and the point where the fit is largest, which
    is recommended, and is the last that a run with a budget evaluates.

    Args:
        model, w_bounds, width: the family, as for GOUCB; None: a quadratic.
    """

    traits = Traits(max_dim=MAX_DIM)

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        model: UserModel = None,
        w_bounds: BoundsLike | None = None,
        width: int = 25,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.family = family_of(model, w_bounds, self.dim, width)
        self._oracle: Oracle | None = None

    def bind(self, space: Space, sign: float) -> None:
        """Shows the method the user's own units: the space, and the sign of told values (-1 in a minimisation)."""
        inputs = checked_inputs(self.family, space, self.cube, self._fixed_generator())
        self._oracle = Oracle(self.family, inputs, sign=float(sign), seed=self.seed, block=self.budget or 1)

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        is_last = self.budget is not None and history.evaluations + 1 >= self.budget and len(history) > 0
        return self._plug_in(history, cube, rng) if is_last else rng.random(self.dim)

    def _recommend(self, history: History) -> Array:
        return self._plug_in(history, self.cube, self._fixed_generator())

    def _plug_in(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        """argmax over x of the fit f-hat, d."""
        if self._oracle is None:
            self.bind(Space([(0.0, 1.0)] * self.dim), 1.0)
        assert self._oracle is not None
        oracle, fit = self._oracle, self._oracle(history.X, history.y, history.yvar)

        def fitted(U: Array) -> tuple[Array, Array]:
            mean = oracle.predict(fit, fit.v[None], U)[0][0]
            return mean, np.zeros(len(U))

        return maximise(optimism(fitted, 0.0, cube), cube, rng, incumbents=best_evaluated(fitted, history.X))
