"""scikit-optimize as a method: what GO-UCB's paper calls "sklearn package (Head et al., 2021) with default parameter
settings"."""

from __future__ import annotations

from typing import Literal

import numpy as np

from regretless.basics.options import one_of
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Traits
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.peers.shared import Peer, library, library_seed, own_stream


class SkOpt(Peer):
    """`skopt.Optimizer` with its defaults: a Matern-5/2 GP with a length-scale per coordinate on values as observed.

    The optimiser is made anew for each ask and told the whole history, as it fits its model anew in any case. Pending
    points are told the best value so far, its "constant liar".

    Args:
        acquisition: "EI" and "PI" (xi 0.01), or "LCB" (kappa 1.96).
    """

    traits = Traits(choices="onehot")

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        acquisition: Literal["EI", "PI", "LCB"] = "EI",
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        library("skopt")
        one_of(("EI", "PI", "LCB"), acquisition=acquisition)
        self.acquisition = acquisition

    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        if not len(history):
            return rng.random(self.dim)
        from skopt import Optimizer

        with own_stream(self.seed, self.step):
            optimizer = Optimizer(
                [(0.0, 1.0)] * self.dim,
                base_estimator="GP",
                acq_func=self.acquisition,
                n_initial_points=1,
                random_state=library_seed(self.seed, self.step),
            )
            points = np.clip(np.vstack([history.X, history.pending]), 0, 1)
            values = np.append(-history.y, np.full(len(history.pending), -history.y.max()))
            optimizer.tell(points.tolist(), values.tolist())
            return np.array(optimizer.ask(), dtype=np.float64)
