"""HEBO as a method."""

from __future__ import annotations

from typing import Any

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.space import Cube
from regretless.space.parameters import Array, Axis
from regretless_bench.peers.shared import Peer, label_of, library, library_seed, own_stream, place_of


class HEBOPeer(Peer):
    """HEBO (Cowen-Rivers et al., JAIR 2022) with its defaults: a warped GP and an evolutionary search of three
    acquisitions; it knows no pending points."""

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        library("hebo")

    def _begin(self) -> None:
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers.hebo import HEBO

        with own_stream(self.seed, 0, torch=True):
            space = DesignSpace().parse([_parameter(f"x{i}", axis) for i, axis in enumerate(self.cube.axes)])
            self._optimizer: Any = HEBO(space, scramble_seed=library_seed(self.seed))

    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        with own_stream(self.seed, self.step, torch=True):
            row = self._optimizer.suggest(n_suggestions=1).iloc[0]
        values = [row[f"x{i}"] for i in range(self.dim)]
        axes = zip(self.cube.axes, values, strict=True)
        return np.array([place_of(axis, int(value)) if axis.levels else float(value) for axis, value in axes])

    def _update(self, history: History, first: int) -> None:
        import pandas as pd

        rows = [
            {f"x{i}": label_of(axis, x[i]) if axis.levels else float(x[i]) for i, axis in enumerate(self.cube.axes)}
            for x in history.X[first:]
        ]
        with own_stream(self.seed, self.step, torch=True):
            self._optimizer.observe(pd.DataFrame(rows), -history.y[first:, None])


def _parameter(name: str, axis: Axis) -> dict[str, Any]:
    if axis.categorical:
        return {"name": name, "type": "cat", "categories": list(range(axis.levels))}
    if axis.levels:
        return {"name": name, "type": "int", "lb": axis.log_low, "ub": axis.log_low + axis.levels - 1}
    return {"name": name, "type": "num", "lb": 0.0, "ub": 1.0}
