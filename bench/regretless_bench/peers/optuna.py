"""Optuna's samplers as a method."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from regretless.basics.options import one_of
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.space import Cube
from regretless.space.parameters import Array, Axis
from regretless_bench.peers.shared import OpenPoints, Peer, label_of, library, library_seed, own_stream, place_of


class OptunaPeer(Peer):
    """Optuna's samplers with their defaults: TPE, GPSampler or CMA-ES.

    Args:
        sampler: "tpe", "gp" or "cmaes".
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, sampler: Literal["tpe", "gp", "cmaes"] = "tpe"
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        optuna = library("optuna")
        kinds: dict[str, Any] = {
            "tpe": optuna.samplers.TPESampler,
            "gp": optuna.samplers.GPSampler,
            "cmaes": optuna.samplers.CmaEsSampler,
        }
        one_of(tuple(kinds), sampler=sampler)
        self._distributions = {f"x{i}": _optuna_distribution(axis) for i, axis in enumerate(self.cube.axes)}
        self._gp, self._kind = sampler == "gp", kinds[sampler]

    def _begin(self) -> None:
        import optuna

        with own_stream(self.seed, 0):
            self._study = optuna.create_study(direction="maximize", sampler=self._kind(seed=library_seed(self.seed)))
        self._open = OpenPoints()
        self._failures = 0

    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        import optuna

        with own_stream(self.seed, self.step, torch=self._gp):
            for x in history.failed[self._failures :]:
                trial = self._open.take(x)
                if trial is not None:
                    self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            self._failures = len(history.failed)
            trial = self._study.ask(self._distributions)
        values = [trial.params[f"x{i}"] for i in range(self.dim)]
        x = np.array(
            [
                place_of(axis, value) if axis.levels else value
                for axis, value in zip(self.cube.axes, values, strict=True)
            ]
        )
        self._open.put(cube.snap(x), trial)
        return x

    def _update(self, history: History, first: int) -> None:
        import optuna

        with own_stream(self.seed, self.step, torch=self._gp):
            for x, value in zip(history.X[first:], history.y[first:].tolist(), strict=True):
                trial = self._open.take(x)
                if trial is not None:
                    self._study.tell(trial, value)
                    continue
                params = {
                    f"x{i}": label_of(axis, x[i]) if axis.levels else float(x[i])
                    for i, axis in enumerate(self.cube.axes)
                }
                self._study.add_trial(
                    optuna.trial.create_trial(params=params, distributions=self._distributions, value=value)
                )


def _optuna_distribution(axis: Axis) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.categorical:
        return CategoricalDistribution(list(range(axis.levels)))
    if axis.levels:
        return IntDistribution(axis.log_low, axis.log_low + axis.levels - 1, log=axis.log_low > 0)
    return FloatDistribution(0.0, 1.0)
