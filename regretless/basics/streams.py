"""Every random stream of the library, by name, and the generators that they key.

`keyed_generator(seed, step, stream)` gives independent draws for different streams, so what two places draw never
depends on each other. Numbers stay as they are once released: they key the draws of runs that people resume.
"""

from enum import IntEnum, unique
from typing import Any

import numpy as np

from regretless.basics.options import whole_number


@unique
class Stream(IntEnum):
    """The third key of `keyed_generator`; above LARGEST lie the streams of single parameters, keyed by their names."""

    PROPOSAL = 0
    """The draws of an ask; its step is the trial's number."""
    EPOCH_ORDER = 1
    """The order of the examples in an epoch of an inner training loop."""
    TURBO_RESTART = 2
    """The design of a trust region that starts anew."""
    LINE_DIRECTION = 3
    """The direction of a line of LineBO."""
    SRE_EMBEDDING = 4
    """The matrices of SRE's sequence of embeddings."""
    SUBSPACE_BASES = 5
    """The uniform base points Z_t of subspaces."""
    DISCRETIZATION_TIES = 6
    """How adaptive discretisation breaks ties between cells."""
    GO_UCB_FIT = 7
    """The starts of GO-UCB's least-squares fits."""
    GO_UCB_OUTPUT = 9
    """The point that Algorithm 1 of GO-UCB draws from those it has evaluated."""
    RACE = 8
    """The point of a worker whose proposals kept meeting those of others."""
    CMA_ES_RESTART = 13
    """Where a search of CMA-ES starts anew, and how large it is."""
    BELIEF = 11
    """Proposals that follow the user's prior."""
    PROBE = 12
    """The point of a uniform probe; its step is the trial's number."""
    TANGENT_SKETCH = 61
    """The signs of the sketch of tangent features."""
    NEURAL_BO_TRAINING = 62
    """The order of NeuralBO's training batches."""
    NEURAL_GREEDY_FIT = 71
    """The start, perturbation and batches of a fit of NeuralGreedy."""
    DNGO_FIT = 72
    """The start and batches of a fit of DNGO."""
    FOREST_FIT = 73
    """The seed of a random forest."""
    NEURAL_UCB_BATCH = 74
    """The order of NeuralUCB's single-sample steps."""
    GP_THREDS_TIES = 81
    """How GP-ThreDS breaks ties between grid points."""
    RUN_SEED = 0x6269
    """The seeds of the inner runs of a bilevel study."""
    LARGEST = 2**32
    """Streams above this belong to parameters that a door draws one at a time."""


def keyed_generator(seed: int, step: int, stream: int = 0) -> np.random.Generator:
    """The generator of (seed, step, stream): counter-based, so any step can be had without the ones before."""
    key = np.array([seed & 0xFFFFFFFFFFFFFFFF, step & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, stream], dtype=np.uint64)))


def checked_seed(seed: Any) -> int:
    """The seed, if it is one."""
    whole_number(0, seed=seed)
    return int(seed)


class Draws(np.random.Generator):
    """The draws of one ask: the numbers of `keyed_generator(seed, step)`. `at` sets it to the start of another step, at
    a tenth of the cost of a new generator."""

    def __init__(self, seed: int) -> None:
        super().__init__(keyed_generator(seed, 0).bit_generator)
        self.seed, self.step = seed, 0
        self._start: Any = self.bit_generator.state

    def at(self, step: int) -> "Draws":
        """Itself at the start of this step; what an earlier step would still draw is lost."""
        self.step = step
        self._start["state"]["key"][1] = step & 0xFFFFFFFFFFFFFFFF
        self.bit_generator.state = self._start
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Draws, (self.seed,)
