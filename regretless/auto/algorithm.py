"""`auto`: one optimiser made of those of this library; not in any paper.

At every ask a table (`table.py`) decides from the space, the budget and the history which part proposes:

    the model        up to 20 parameters: one exact Gaussian process (`model.py`)
    gp-ei            beyond that: one Gaussian process with expected improvement
    the evolution    many evaluations: CMA-ES with restarts, which learns from all values (`evolution.py`); with a
                     budget above 300, and without one, it takes ever more of the asks
    the draws        every second of these asks beside many evaluations under way: functions drawn from a model
                     of at most 200 values (`draws.py`)

All parts are given the same history and are functions of it, so `auto` is one too, and `why` names each change and the
value that brought it.

**Noise.** A model that fits badly looks noisy: to a smooth model ripples of the function look like noise. So `auto`
tests before it believes. Where the fitted noise is large, the best point is evaluated once more.

(a) Same value: the values are exact, and nothing changes from here on.
(b) Different value: the values are noisy. Low values are then compressed instead of clipped, and evaluations go where
    they tell most about the best (`noisy.py`). Recommended is the largest mean of the points whose values are among the
    best fifth, corrected by these values where there are ripples (`luck.py`).
(c) Noise was stated: there is no test, and what (b) says holds from the first value on. A told variance, `noisy=True`,
    a `noise_bound` and two values of one setting state it. `noisy=False` says that there is none.

Several objectives have a table of their own: a model for each while evaluations are few (`gp-ehvi`), an evolution
strategy once they are many (`sms-emoa`).

A finite space, and one with labels, is tested once there are ten values, because labels let the model explain any
noise. Where noise is certain the settings of a finite space are evaluated again like any other points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless.auto import table
from regretless.auto.draws import NarrowedDraws
from regretless.auto.evolution import Evolution
from regretless.auto.model import Model
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.classics import CLASSICS
from regretless.history import History
from regretless.method import Method, Recipe, State, Traits
from regretless.space import Cube
from regretless.space.parameters import Array

LISTED = 10_000  # settings of a finite space up to which one that is left is found by listing all of them


class Auto(Method):
    """Reads the history and takes, ask by ask, the search that suits it: the default.

    Args:
        noisy: whether values are noisy, where that is known: True makes a finite space evaluate settings again, False
            means that no setting is ever evaluated twice; None: it is found out.
    """

    traits = Traits(constraints=True, outside=True, belief=True, objectives=True)

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, noisy: bool | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._noisy = noisy
        self._run = table.Situation.of(self.cube, self.budget)
        self._parts: dict[str, Method] = {}

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        part = table.proposer(self._situation(history, cube, rng.step))
        x = self._part(part).propose(history, cube, rng)
        if history.objectives > 1:
            return x
        if self.cube.size > LISTED or self._model.is_noisy(history) or not history.is_known(cube.snap(x)):
            return x
        return x if self._model.looks_for_noise(history) else nearest_unknown(history, cube, x)

    def why(self, history: History) -> str:
        """How the run began and each change, with the number of values or evaluations at which it came."""
        return table.explained(self._situation(history, self.cube))

    def front(self, history: History) -> tuple[NDArray[np.intp], Array, Array]:
        return self._answering(history).front(history)

    def uses_outside(self, history: History) -> bool:
        """The evolution alone does not."""
        s = self._situation(history, self.cube)
        return not (s.long and s.several)

    def warm(self, history: History) -> State:
        return self._answering(history).warm(history)

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        self._answering(history).warm_from(history, state)

    def _keeps_apart(self, history: History, cube: Cube, step: int) -> bool:
        return self._part(table.proposer(self._situation(history, cube, step))).traits.keeps_apart

    def _weighs_belief(self, history: History) -> bool:
        """The evolutions alone do not."""
        evolutions = table.EVOLUTION, table.FRONT_EVOLUTION
        return table.first_row(self._situation(history, self.cube)).part not in evolutions

    def _repeats(self, history: History) -> bool:
        noisy = self.noise(history).shows if history.objectives > 1 else self._model.is_noisy(history)
        return noisy and bool(np.isfinite(self.cube.size))

    def _recommend(self, history: History) -> Array:
        return self._answering(history).recommend(history)

    def _certificate(self, history: History, delta: float) -> Certificate:
        return self._answering(history).certificate(history, delta)

    def _situation(self, history: History, cube: Cube, step: int = 0) -> table.Situation:
        """What the table decides by, for an ask in a part of the cube."""
        if history.objectives > 1:
            return replace(self._run, several=True, values=len(history), evaluations=history.evaluations, step=step)
        evidence = self._model.evidence(history)
        return replace(
            self._run, weighed=history.n_side_values > 0, stated=self._model.states_noise(history),
            noisy_at=evidence.noisy_at, exact_at=evidence.exact_at, by_variance=evidence.by_variance,
            values=len(history), evaluations=history.evaluations, pending=len(history.pending), step=step,
        )  # fmt: skip

    def _answering(self, history: History) -> Method:
        """The part that recommends and certifies."""
        return self._part(table.answerer(self._situation(history, self.cube)))

    @cached_property
    def _model(self) -> Model:
        return Model(self.cube, seed=self.seed, budget=self.budget, noisy=self._noisy, rare=self._run.long)

    def _part(self, name: str) -> Method:
        """A part by its name, built when it is first needed: by then all is said about noise."""
        if name == table.MODEL:
            return self._model
        if name not in self._parts:
            own = {
                table.EVOLUTION: Recipe(table.EVOLUTION, Evolution, {"is_noisy": self._model.is_noisy}),
                table.DRAWS: Recipe(table.DRAWS, NarrowedDraws),
            }
            recipe = own.get(name) or CLASSICS[name]
            self._parts[name] = recipe.build(self.cube, seed=self.seed, budget=self.budget, noisy=self._noisy)
        return self._parts[name]


def nearest_unknown(history: History, cube: Cube, x: Array) -> Array:
    """The legal point of the cube nearest to x (d) that is not known; x itself when all of them are."""
    every = cube.all_points()
    order = np.argsort(((every - x) ** 2).sum(axis=1), kind="stable")
    return next((every[i] for i in order if not history.is_known(every[i])), x)
