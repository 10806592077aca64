"""Random draws that are keyed: any step of any stream can be had without the ones before."""

from typing import Any

import numpy as np

from regretless.options import whole_number


def keyed_generator(seed: int, step: int, stream: int = 0) -> np.random.Generator:
    """The generator of (seed, step, stream): counter-based, so any step can be had without the ones before."""
    key = np.array([seed & 0xFFFFFFFFFFFFFFFF, step & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, stream], dtype=np.uint64)))


def checked_seed(seed: Any) -> int:
    """The seed, if it is one."""
    whole_number(0, seed=seed)
    return int(seed)


class Draws:
    """One generator that is set to the start of any step: a tenth of the cost of a new one, and the numbers of
    `keyed_generator(seed, step)`."""

    def __init__(self, seed: int) -> None:
        self._generator = keyed_generator(seed, 0)
        self._start: Any = self._generator.bit_generator.state

    def at(self, step: int) -> np.random.Generator:
        """The generator of this step; the one of an earlier step is no longer valid."""
        self._start["state"]["key"][1] = step & 0xFFFFFFFFFFFFFFFF
        self._generator.bit_generator.state = self._start
        return self._generator
