"""The order of training data as a function of (seed, step), so that a run can be stopped and continued anywhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regretless.method import keyed_generator
from regretless.streams import Stream


def keyed_batches(n: int, batch: int, seed: int, step: int, steps: int) -> Iterator[NDArray[np.int64]]:
    """The mini-batches of steps step, ..., step + steps - 1: whole batches of a permutation of n keyed on (seed,
    epoch)."""
    size = min(batch, n)
    per_epoch, epoch = n // size, -1
    for j in range(step, step + steps):
        if j // per_epoch != epoch:
            epoch = j // per_epoch
            order = keyed_generator(seed, epoch, stream=Stream.EPOCH_ORDER).permutation(n)
        at = (j % per_epoch) * size
        yield order[at : at + size]
