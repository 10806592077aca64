"""Scrambled Sobol points (Owen 1998; direction numbers of Joe and Kuo 2008), from a generator of ours.

scipy.stats takes half a second to import, so it is imported by the first sequence: methods that draw none start at
once.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from regretless.parameters import Array

if TYPE_CHECKING:
    from scipy.stats import qmc

MAX_DIM = 21201  # scipy ships direction numbers up to this dimension


def sobol_sequence(dim: int, rng: np.random.Generator) -> qmc.Sobol:
    """A scrambled sequence over [0, 1)^dim whose scrambling is drawn from rng."""
    from scipy.stats import qmc

    return qmc.Sobol(dim, scramble=True, rng=int(rng.integers(2**63)))


def sobol_points(n: int, dim: int, rng: np.random.Generator) -> Array:
    """The first n points of a freshly scrambled sequence, n x dim; uniform draws beyond MAX_DIM."""
    return rng.random((n, dim)) if dim > MAX_DIM else draw(sobol_sequence(dim, rng), n)


def point_at(sequence: qmc.Sobol, index: int) -> Array:
    """The point of the sequence with this index, d, wherever the sequence stands."""
    if sequence.num_generated > index:
        sequence.reset()
    if sequence.num_generated < index:
        sequence.fast_forward(index - sequence.num_generated)
    return np.asarray(draw(sequence, 1)[0])


def draw(sequence: qmc.Sobol, n: int) -> Array:
    """The next n points, n x d; any n, although only powers of two keep the sequence's balance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        points: Array = sequence.random(n)
    return points
