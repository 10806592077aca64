"""The part of `auto` for up to 20 parameters: one exact Gaussian process, and what it makes of noise.

Its axes turn where that explains the values better (`models/gp/frame.py`). Without noise low values are clipped; where
noise is certain they are compressed by a logarithm, because a clip would depend on the luckiest value.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regretless.auto.exact import exact_step, is_many
from regretless.auto.luck import best_of_the_better, noise_is_guessed
from regretless.auto.noisy import noise_shows, noisy_step
from regretless.auto.steps import Ask
from regretless.basics.noise import NoiseEvidence
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import State, is_taken
from regretless.methods.shared import GPMethod
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import best_evaluated
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array


class Model(GPMethod):
    """An exact Gaussian process, asked by `exact_step` or `noisy_step`.

    Args:
        noisy: whether values are noisy, where that is known.
        rare: whether the model of the objective is rarely asked, so that it makes only fits from scratch.
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None, noisy: bool | None = None, rare: bool = False
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._noisy, self._rare = noisy, rare
        self._models = {
            certain: Surrogate(self.cube, clip=not certain, compress=certain, rotate=not is_many(self.cube))
            for certain in (False, True)
        }
        """The models without and with certain noise."""
        self._labelled = bool(np.isfinite(self.cube.size) or any(axis.categorical for axis in self.cube.axes))
        """Whether the space is finite or has labels."""
        self._begin()

    # -- noise

    def evidence(self, history: History) -> NoiseEvidence:
        """What the values show of noise."""
        self._catch_up(history)
        return self._evidence

    def states_noise(self, history: History) -> bool:
        """Whether options or a bound say that there is noise."""
        return self._noisy is True or history.noise_bound > 0

    def is_noisy(self, history: History) -> bool:
        """Whether noise is certain: it was stated or has shown."""
        return self.states_noise(history) or self.evidence(history).noisy_at is not None

    def _repeats(self, history: History) -> bool:
        return self.is_noisy(history) and bool(np.isfinite(self.cube.size))

    def looks_for_noise(self, history: History) -> bool:
        """Whether the next point is one that has a value, to see whether it gives it again."""
        return len(history) > 0 and self._wants_probe(history, self._posterior(history))

    def _wants_probe(self, history: History, gp: GP) -> bool:
        """Whether noise is to be looked for: nothing has settled the question, nor will a pending point."""
        stated = self._noisy is not None or history.noise_bound > 0
        # 10: the values after which a finite space, or one with labels, is tested whatever the fit says: labels explain
        # any noise, each combination by itself, and the model then sees none
        suspected = noise_shows(gp) or (self._labelled and len(history) >= 10)
        if stated or self.evidence(history).settled or not suspected:
            return False
        return not any(history.is_settled(x) for x in history.pending)

    # -- what follows from the history

    def _begin(self) -> None:
        self._evidence = NoiseEvidence(exact=self._noisy is False)

    def _update(self, history: History, first: int) -> None:
        self._evidence.observe(history.X[first:], history.y[first:], history.yvar[first:], first)

    def _catch_up(self, history: History) -> None:
        super()._catch_up(history)
        self._surrogate = self._models[self.states_noise(history) or self._evidence.noisy_at is not None]
        self._surrogate.fresh_only = self._rare and not history.n_side_values

    # -- the contract

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        self._catch_up(history)
        return super().propose(history, cube, rng)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._posterior(history)
        if self._wants_probe(history, gp):
            best = best_evaluated(gp, history.X)
            # a second evaluation that failed is not tried again, and what the caller holds stays held
            if not is_taken(history, best) and np.array_equal(cube.snap(best), best):
                return best
        of_values, beat = lambda: self._surrogate.gp(*history.basis), lambda: self._value_to_beat(history, gp)
        ask = Ask(history, cube, rng, self.budget, gp, of_values, beat, self._best_step)
        if self.is_noisy(history) and noise_shows(gp):
            return noisy_step(ask, again=self._repeats(history))
        return exact_step(ask)

    def _recommend(self, history: History) -> Array:
        self._catch_up(history)
        if noise_is_guessed(history):
            return best_of_the_better(self._surrogate.gp(*history.basis), history)
        return super()._recommend(history)

    def warm(self, history: History) -> State:
        self._catch_up(history)
        return super().warm(history)

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        self._catch_up(history)
        super().warm_from(history, state)
