"""Scrambled Sobol points: a random linear scramble and a digital shift (Matousek 1998) of the sequence of Sobol (1967).

The numbers are those of `scipy.stats.qmc.Sobol`, bit for bit, but a first suggestion does not wait for `scipy.stats`,
which takes a third of a second to import. Beyond the dimensions of the table here, where a start is slow anyway, scipy
draws them itself.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from numpy.typing import NDArray

from regretless.space.parameters import Array

MAX_DIM = 21201  # scipy ships direction numbers up to this dimension
BITS = 30  # binary digits of a coordinate, as in scipy: 2**30 points differ
# The second to the 64th dimension of Joe and Kuo (2008, new-joe-kuo-6): the primitive polynomial, its coefficients read
# as one binary number, and the first direction numbers m_1, m_2, ...
TABLE = """
3 1, 7 1 3, 11 1 3 1, 13 1 1 1, 19 1 1 3 3, 25 1 3 5 13, 37 1 1 5 5 17, 41 1 1 5 5 5, 47 1 1 7 11 19, 55 1 1 5 1 1,
59 1 1 1 3 11, 61 1 3 5 5 31, 67 1 3 3 9 7 49, 91 1 1 1 15 21 21, 97 1 3 1 13 27 49, 103 1 1 1 15 7 5,
109 1 3 1 15 13 25, 115 1 1 5 5 19 61, 131 1 3 7 11 23 15 103, 137 1 3 7 13 13 15 69, 143 1 1 3 13 7 35 63,
145 1 3 5 9 1 25 53, 157 1 3 1 13 9 35 107, 167 1 3 1 5 27 61 31, 171 1 1 5 11 19 41 61, 185 1 3 5 3 3 13 69,
191 1 1 7 13 1 19 1, 193 1 3 7 5 13 19 59, 203 1 1 3 9 25 29 41, 211 1 3 5 13 23 1 55, 213 1 3 7 3 13 59 17,
229 1 3 1 3 5 53 69, 239 1 1 5 5 23 33 13, 241 1 1 7 7 1 61 123, 247 1 1 7 9 13 61 49, 253 1 3 3 5 3 55 33,
285 1 3 1 15 31 13 49 245, 299 1 3 5 15 31 59 63 97, 301 1 3 1 11 11 11 77 249, 333 1 3 1 11 27 43 71 9,
351 1 1 7 15 21 11 81 45, 355 1 3 7 3 25 31 65 79, 357 1 3 1 1 19 11 3 205, 361 1 1 5 9 19 21 29 157,
369 1 3 7 11 1 33 89 185, 391 1 3 3 3 15 9 79 71, 397 1 3 7 11 15 39 119 27, 425 1 1 3 1 11 31 97 225,
451 1 1 1 3 23 43 57 177, 463 1 3 7 7 17 17 37 71, 487 1 3 1 5 27 63 123 213, 501 1 1 3 5 11 43 53 133,
529 1 3 5 5 29 17 47 173 479, 539 1 3 3 11 3 1 109 9 69, 545 1 1 1 5 17 39 23 5 343,
557 1 3 1 5 25 15 31 103 499, 563 1 1 1 11 11 17 63 105 183, 601 1 1 5 11 9 29 97 231 363,
607 1 1 5 15 19 45 41 7 383, 617 1 3 7 7 31 19 83 137 221, 623 1 1 1 3 23 15 111 223 83,
631 1 1 5 13 31 15 55 25 161, 637 1 1 3 13 25 47 39 87 257
"""
OWN_DIM = TABLE.count(",") + 2  # the dimensions of the table and the first one, whose numbers are all 1
PLACES = 2.0 ** np.arange(BITS)[::-1]  # what each binary digit counts, the largest first


def sobol_points(n: int, dim: int, rng: np.random.Generator) -> Array:
    """The first n points of a freshly scrambled sequence, n x dim; uniform draws beyond MAX_DIM."""
    return rng.random((n, dim)) if dim > MAX_DIM else sobol_sequence(dim, rng).points(n)


def sobol_sequence(dim: int, rng: np.random.Generator) -> Sobol | LongSobol:
    """A scrambled sequence over [0, 1)^dim whose scrambling is drawn from rng."""
    return Sobol(dim, rng) if dim <= OWN_DIM else LongSobol(dim, rng)


class Sobol:
    """A sequence in a dimension that the table has."""

    def __init__(self, dim: int, rng: np.random.Generator) -> None:
        self.dim = dim
        (drawn,) = np.random.default_rng(int(rng.integers(2**63))).spawn(
            1
        )  # scipy draws from such a child, in this order
        self._shift = drawn.integers(2, size=(dim, BITS), dtype=np.uint32) @ (1 << np.arange(BITS, dtype=np.uint32))
        scramble = np.tril(drawn.integers(2, size=(dim, BITS, BITS), dtype=np.uint32), -1) + np.eye(BITS)
        self._directions = (PLACES @ (scramble @ _digits()[:dim] % 2)).astype(np.uint32)  # dim x BITS

    def points(self, n: int, first: int = 0) -> Array:
        """n points of the sequence from the one with this index on, n x dim."""
        steps = np.empty((n, self.dim), dtype=np.uint32)  # each point is the one before it, xor one direction
        number = np.arange(first, first + n)
        steps[1:] = self._directions.T[np.frexp((number & -number)[1:].astype(float))[1] - 1]
        gray = first ^ (first >> 1)  # the directions that the first point is made of
        chosen = [j for j in range(BITS) if gray >> j & 1]
        steps[:1] = self._shift ^ np.bitwise_xor.reduce(self._directions[:, chosen], axis=1)
        points: Array = np.bitwise_xor.accumulate(steps, axis=0) * 2.0**-BITS
        return points


class LongSobol:
    """The same in more dimensions than the table has: from scipy."""

    def __init__(self, dim: int, rng: np.random.Generator) -> None:
        from scipy.stats import qmc

        self._sequence = qmc.Sobol(dim, scramble=True, rng=int(rng.integers(2**63)))

    def points(self, n: int, first: int = 0) -> Array:
        """n points of the sequence from the one with this index on, n x dim."""
        if self._sequence.num_generated > first:
            self._sequence.reset()
        if self._sequence.num_generated < first:
            self._sequence.fast_forward(first - self._sequence.num_generated)
        with warnings.catch_warnings():  # any n, although only powers of two keep the sequence's balance
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(self._sequence.random(n))


@cache
def _digits() -> NDArray[np.float64]:
    """The binary digits of the direction numbers before the scramble, dimension x digit x index."""
    numbers = np.empty((OWN_DIM, BITS), dtype=np.int64)
    numbers[0] = 1
    for row, entry in zip(numbers[1:], TABLE.split(","), strict=True):
        polynomial, *initial = (int(word) for word in entry.split())
        degree = len(initial)
        row[:degree] = initial
        for j in range(degree, BITS):
            row[j] = row[j - degree]
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    row[j] ^= row[j - k] << k
    numbers <<= np.arange(BITS)[::-1]
    return np.asarray(numbers[:, None, :] >> np.arange(BITS)[::-1, None] & 1, dtype=np.float64)
