"""SMAC3 as a method."""

from __future__ import annotations

import tempfile
from typing import Any, Literal

import numpy as np

from regretless.basics.options import one_of
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.space import Cube
from regretless.space.parameters import Array, Axis
from regretless_bench.peers.shared import OpenPoints, Peer, label_of, library, library_seed, own_stream, place_of


class SMAC3(Peer):
    """SMAC3's facades with their defaults: "hpo" (random forest, log EI) or "blackbox" (Gaussian process, EI).

    Args:
        facade: "hpo" or "blackbox".
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, facade: Literal["hpo", "blackbox"] = "hpo"
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        library("smac")
        one_of(("hpo", "blackbox"), facade=facade)
        self.facade = facade

    def _begin(self) -> None:
        import ConfigSpace
        from smac import BlackBoxFacade, HyperparameterOptimizationFacade, Scenario

        kind = BlackBoxFacade if self.facade == "blackbox" else HyperparameterOptimizationFacade
        self._folder = tempfile.TemporaryDirectory(prefix="regretless-smac-")
        with own_stream(self.seed, 0):
            space = ConfigSpace.ConfigurationSpace(seed=library_seed(self.seed))
            for i, axis in enumerate(self.cube.axes):
                space.add(_smac_parameter(f"x{i}", axis))
            scenario = Scenario(
                space,
                deterministic=True,
                n_trials=self.budget or 100,
                seed=library_seed(self.seed),
                output_directory=self._folder.name,
            )
            self._smac = kind(scenario, _never_called, overwrite=True, logging_level=False)
        self._space = space
        self._open = OpenPoints()

    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        with own_stream(self.seed, self.step):
            info = self._smac.ask()
        values = [info.config[f"x{i}"] for i in range(self.dim)]
        x = np.array(
            [
                place_of(axis, int(value)) if axis.levels else value
                for axis, value in zip(self.cube.axes, values, strict=True)
            ]
        )
        self._open.put(cube.snap(x), info)
        return x

    def _update(self, history: History, first: int) -> None:
        import ConfigSpace
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        with own_stream(self.seed, self.step):
            for x, value in zip(history.X[first:], history.y[first:].tolist(), strict=True):
                info = self._open.take(x)
                if info is None:
                    labels = {
                        f"x{i}": label_of(axis, x[i]) if axis.levels else float(x[i])
                        for i, axis in enumerate(self.cube.axes)
                    }
                    info = TrialInfo(ConfigSpace.Configuration(self._space, values=labels), seed=0)
                self._smac.tell(info, TrialValue(cost=-value), save=False)


def _never_called(config: Any, seed: int = 0) -> float:
    """SMAC wants a target function even when it is only asked and told."""
    raise RuntimeError("SMAC called its target function although it is only asked and told")


def _smac_parameter(name: str, axis: Axis) -> Any:
    import ConfigSpace

    if axis.categorical:
        return ConfigSpace.Categorical(name, list(range(axis.levels)))
    if axis.levels > 1:
        return ConfigSpace.Integer(name, (axis.log_low, axis.log_low + axis.levels - 1), log=axis.log_low > 0)
    return ConfigSpace.Constant(name, axis.log_low) if axis.levels else ConfigSpace.Float(name, (0.0, 1.0))
