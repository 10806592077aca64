"""pycma as a method."""

from __future__ import annotations

from typing import Any

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.peers.shared import Peer, library, library_seed, own_stream


class PyCMA(Peer):
    """CMA-ES by its author's library, restarted with twice the population when it stops (IPOP, Auger and Hansen 2005).

    Starts at the centre, or at the best point told before the first ask; positions of discrete coordinates are rounded
    by the cube.

    Args:
        sigma: the first step size, as a share of the cube's side.
    """

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, sigma: float = 0.25) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._cma = library("cma")
        self.sigma = sigma

    def _begin(self) -> None:
        self._normal = np.random.Generator(np.random.Philox(library_seed(self.seed)))
        self._strategy: Any = None
        self._population = 0
        self._restarts = 0
        self._batch: list[Array] = []
        """Points of the present generation as the library gave them."""
        self._places: list[Array] = []
        """The same as asked: within the cube and snapped."""
        self._values: list[float] = []
        self._next = 0

    def _new_strategy(self, history: History, rng: Draws) -> Any:
        if self._restarts:
            start = rng.random(self.dim)
        else:
            start = np.clip(history.X[np.argmax(history.y)], 0.01, 0.99) if len(history) else np.full(self.dim, 0.5)
        options = {
            "bounds": [0, 1],
            "randn": lambda *shape: self._normal.standard_normal(shape),
            "seed": float("nan"),
            "verbose": -9,
        }
        if self._population:
            options["popsize"] = self._population
        padded = (
            self.dim == 1
        )  # the library refuses one dimension; a second coordinate that nothing depends on is added
        strategy = self._cma.CMAEvolutionStrategy(np.append(start, 0.5) if padded else start, self.sigma, options)
        self._population = 2 * strategy.popsize
        return strategy

    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        with own_stream(self.seed, self.step):
            if self._strategy is None or self._strategy.stop():
                self._restarts += self._strategy is not None
                self._strategy = self._new_strategy(history, rng)
                self._next_generation()
            if self._next < len(self._batch):
                x = self._places[self._next]
                self._next += 1
                return x
            extra: Array = np.clip(
                self._strategy.ask(1)[0][: self.dim], 0, 1
            )  # the whole generation is pending: one more from the same law
            return extra

    def _next_generation(self) -> None:
        self._batch = self._strategy.ask()
        self._places = [self.cube.snap(np.asarray(x)[: self.dim]) for x in self._batch]
        self._values = [np.nan] * len(self._batch)
        self._next = 0

    def _update(self, history: History, first: int) -> None:
        for x, value in zip(history.X[first:], history.y[first:].tolist(), strict=True):
            for i, place in enumerate(self._places[: self._next]):
                if np.isnan(self._values[i]) and np.array_equal(place, x):
                    self._values[i] = -value
                    break
        told = ~np.isnan(self._values)
        missing = [i for i in np.flatnonzero(~told) if i < self._next and not history.is_pending(self._places[i])]
        if (
            self._batch
            and self._next == len(self._batch)
            and told.sum() + len(missing) == len(self._batch)
            and told.any()
        ):
            worst = float(np.nanmax(self._values))
            losses = [worst if np.isnan(v) else v for v in self._values]  # points that failed rank with the worst
            with own_stream(self.seed, self.step):
                self._strategy.tell(self._batch, losses)
                self._next_generation()
