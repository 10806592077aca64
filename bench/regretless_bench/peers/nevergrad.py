"""Nevergrad as a method."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.space import Cube
from regretless.space.parameters import Array, Axis
from regretless_bench.peers.shared import Peer, label_of, library, library_seed, own_stream, place_of

T = TypeVar("T")


class NGOpt(Peer):
    """Nevergrad's NGOpt, its choice among many optimisers by dimension, budget and kinds of variables.

    At small budgets NGOpt runs a library loop in a thread that would keep the process from ending when the run is
    abandoned; it is started from a daemon thread and so becomes one. Foreign points cannot be told to such an
    optimiser: the best of those told before the first ask becomes the start, the others are kept but not used. What is
    asked while its candidate is pending is drawn uniformly.
    """

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        warnings.filterwarnings(
            "ignore", message="COBYLA: Invalid RHOEND"
        )  # said from its thread, after our own silence has ended

    def _begin(self) -> None:
        self._optimizer: Any = None
        self._out: tuple[Array, Any] | None = None
        """The candidate the optimiser waits for: its optimisers for small budgets take one at a time."""

    def _build(self, history: History) -> Any:
        ng = library("nevergrad")
        start = history.X[int(np.argmax(history.y))] if len(history) else np.full(self.dim, 0.5)
        if self.cube.plain:
            space = ng.p.Array(init=start, lower=0.0, upper=1.0).set_mutation(
                sigma=1 / 6
            )  # nevergrad's own sigma for a bounded array
        else:
            space = ng.p.Tuple(
                *(_nevergrad_parameter(axis, u) for axis, u in zip(self.cube.axes, start.tolist(), strict=True))
            )
        space.random_state = np.random.RandomState(library_seed(self.seed))
        return ng.optimizers.NGOpt(parametrization=space, budget=max(2, self.budget or 100), num_workers=1)

    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        with own_stream(self.seed, self.step):
            if self._optimizer is None:
                self._optimizer = self._build(history)
            if self._out is not None and history.is_pending(self._out[0]):
                return rng.random(self.dim)
            if self._out is not None:  # failed or forgotten
                self._tell(float(np.min(history.y, initial=0.0)) - 1.0)
            candidate = _in_daemon(self._optimizer.ask)
        values = np.asarray(candidate.value).tolist()
        x = np.array(
            [place_of(axis, int(v)) if axis.levels else v for axis, v in zip(self.cube.axes, values, strict=True)]
        )
        self._out = cube.snap(x), candidate
        return x

    def _update(self, history: History, first: int) -> None:
        for x, value in zip(history.X[first:], history.y[first:].tolist(), strict=True):
            if self._out is not None and np.array_equal(x, self._out[0]):
                with own_stream(self.seed, self.step):
                    self._tell(value)

    def _tell(self, value: float) -> None:
        assert self._out is not None
        candidate, self._out = self._out[1], None
        _in_daemon(lambda: self._optimizer.tell(candidate, -value))


def _nevergrad_parameter(axis: Axis, start: float) -> Any:
    """Unordered labels as a choice, whole numbers as whole numbers, so that NGOpt sees what it chooses an optimiser
    for."""
    import nevergrad as ng

    if axis.categorical:
        return ng.p.Choice(list(range(axis.levels)))
    if not axis.levels:
        return ng.p.Scalar(init=start, lower=0.0, upper=1.0).set_mutation(sigma=1 / 6)
    low, high = axis.log_low, axis.log_low + axis.levels - 1
    kind = ng.p.Log if axis.log_low else ng.p.Scalar
    return kind(init=label_of(axis, start), lower=low, upper=high).set_integer_casting()


def _in_daemon(call: Callable[[], T]) -> T:
    """The call's result from a short-lived daemon thread: threads it starts inherit that they need not be waited
    for."""
    result: list[T] = []
    error: list[BaseException] = []

    def work() -> None:
        try:
            result.append(call())
        except BaseException as caught:
            error.append(caught)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if error:
        raise error[0]
    return result[0]
