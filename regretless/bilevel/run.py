"""`TrainingRun`: one inner training run, from its setting to its losses; and the order of its training data."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.basics.streams import Stream
from regretless.method import keyed_generator
from regretless.space.parameters import Array

Status: TypeAlias = Literal["ok", "finished", "diverged", "failed"]


@dataclass(eq=False)
class TrainingRun:
    """One run: a setting, its seed, how far it was trained, and what came of it."""

    number: int
    params: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    unit: Array = field(default_factory=lambda: np.empty(0), repr=False)
    """The setting as a point of the outer method's cube, d."""
    steps: int = 0
    """N, the training steps behind the latest loss."""
    curve: list[tuple[int, float]] = field(default_factory=list, repr=False)
    """(steps, validation loss), in the order seen; infinite where the loss was NaN or infinite."""
    ends: dict[int, float] = field(default_factory=dict, repr=False)
    """The loss at the end of each stretch of training, by steps; infinite when the run diverged."""
    thawable: bool = True
    """Whether it can be trained on: its state is kept and it has neither failed, diverged nor finished."""
    status: Status = "ok"
    """"finished": cannot be trained further; "diverged": its loss became infinite or NaN; "failed": it raised."""
    error: str = field(default="", repr=False)
    """The traceback of a failed run."""
    seconds: float = 0.0
    spent: int = 0
    """Training steps charged to the budget; those of a stretch that failed half-way are among them."""
    log: list[tuple[str, int, int]] = field(default_factory=list, repr=False)
    """Why each stretch was trained ("new", "promoted", "leader"), and the study's total steps before and after it."""

    @property
    def loss(self) -> float:
        """The loss where the run stands; infinite before the first validation and after a failure."""
        return self.ends.get(self.steps, math.inf)

    @property
    def is_known(self) -> bool:
        """Whether the outer method can be told of it: it has been validated, or has failed."""
        return bool(self.ends) or self.status == "failed"

    def add_stretch(self, curve: list[tuple[int, float]], steps: int, status: Status) -> None:
        """Takes in one more stretch of training: its validations, the run's steps at its end, and how it ended."""
        self.curve += curve
        self.status, self.thawable = status, status == "ok"
        if status != "failed":
            self.steps = steps
            if curve:
                self.ends[steps] = curve[-1][1]


def keyed_batches(n: int, batch: int, seed: int, step: int, steps: int) -> Iterator[NDArray[np.int64]]:
    """The mini-batches of steps step, ..., step + steps - 1, from a permutation of n keyed on (seed, epoch)."""
    size = min(batch, n)
    per_epoch, epoch = n // size, -1
    for j in range(step, step + steps):
        if j // per_epoch != epoch:
            epoch = j // per_epoch
            order = keyed_generator(seed, epoch, stream=Stream.EPOCH_ORDER).permutation(n)
        at = (j % per_epoch) * size
        yield order[at : at + size]
