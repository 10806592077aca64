"""What the peers share: their base, seeds for their libraries, the points they wait for, and the names of discrete
positions."""

from __future__ import annotations

import contextlib
import logging
import random
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from regretless.basics.extras import optional
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Method, keyed_generator
from regretless.space import Cube
from regretless.space.parameters import Array, Axis
from regretless_bench.streams import BenchStream

SEED_BITS = 2**31 - 1
"""Seeds of libraries lie below this, which all of them accept."""


def library(module: str) -> Any:
    """A library that only comparisons with peers need; where it is missing, ImportError says how to install it."""
    return optional(module, "peers", distribution="regretless-bench")


class Peer(Method):
    """A library's optimiser, which keeps the history in its own form.

    A subclass makes it in `_begin`, tells it values in `_update`, and asks it in `_asked`.
    """

    step = 0
    """The number of the present ask, which keys the library's draws."""

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        self.step = rng.step
        self._catch_up(history)
        return self._asked(history, cube, rng)

    @abstractmethod
    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        """What the library proposes, d; it knows the values of the history."""


class OpenPoints:
    """What a library calls the points it has proposed and not yet heard about, by the point."""

    def __init__(self) -> None:
        self._handles: dict[bytes, list[Any]] = {}

    def put(self, x: Array, handle: Any) -> None:
        self._handles.setdefault(x.tobytes(), []).append(handle)

    def take(self, x: Array) -> Any:
        """The oldest handle of the point; None for a foreign one."""
        found = self._handles.get(np.ascontiguousarray(x).tobytes())
        return found.pop(0) if found else None


def library_seed(seed: int, step: int = 0) -> int:
    return int(keyed_generator(seed, step, stream=BenchStream.PEER_SEED).integers(SEED_BITS))


@contextlib.contextmanager
def own_stream(seed: int, step: int, *, torch: bool = False) -> Iterator[None]:
    """Seeds the global streams from (seed, step) and restores them; warnings and log lines of the library are kept
    quiet."""
    number = library_seed(seed, step)
    before_python, before_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - to put it back
    level = logging.root.manager.disable
    with contextlib.ExitStack() as stack:
        if torch:
            import torch as torch_library

            stack.enter_context(torch_library.random.fork_rng(devices=[]))
            torch_library.manual_seed(number)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        random.seed(number)
        np.random.seed(number)  # noqa: NPY002 - restored below
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(level)
            random.setstate(before_python)
            np.random.set_state(before_numpy)  # noqa: NPY002


def label_of(axis: Axis, u: float) -> int:
    """The whole number a library calls the position of a discrete coordinate: its index, counted from log_low on log
    axes."""
    return int(axis.index(np.array([u]))[0]) + axis.log_low


def place_of(axis: Axis, label: int) -> float:
    return float(axis.centre(np.array([label - axis.log_low]))[0])
