"""The widths and waiting times that decide on grids: beta, t_term and delta-hat of Salgia, Vakili and Zhao (GP-ThreDS,
NeurIPS 2021), corrected where
the paper is wrong (docs/methods/gp-threds.md has the derivations).

Notation
    gain    gamma, the information gained (Eq. 6)      B, R      norm of f and sd of the noise, as knobs
    delta   probability of error                       lambda    variance of the noise in the model
"""

from __future__ import annotations

import math


def confidence_width(gain: float, B: float, R: float, delta: float) -> float:
    """beta = B + R sqrt(2 (gamma + 1 + ln 1/delta)) (Sec. 3.2.2, with the factor 2 of Chowdhury and Gopalan 2017)."""
    return B + R * math.sqrt(2.0 * (gain + 1.0 + math.log(1.0 / delta)))


def termination_time(points: int, slack: float, B: float, R: float, noise: float, delta: float) -> float:
    """The least t with 2 beta_t (1 + 2 sqrt(lambda)) sqrt(|D_g| / t) <= slack, plus 1 (Eq. 7, Lemma 1's constant
    corrected), for gamma = log t."""
    if slack <= 0.0:
        return math.inf

    def late(t: int) -> bool:
        return (
            2 * confidence_width(math.log(t), B, R, delta) * (1 + 2 * math.sqrt(noise)) * math.sqrt(points / t) <= slack
        )

    high = 1
    while not late(high):
        high *= 2
    low = high // 2  # late at high, not at low; the left side falls with t
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if late(middle) else (middle, high)
    return high + 1


def leaf_confidence(delta0: float, T: int, r: int, p: float, dim: int) -> float:
    """delta-hat of the r-th walk: delta0 2 (p - 1/2)^2 / (4 T r (r + 1) ln(4 d T / delta0)) (Sec. 3.2.1, printed upside
    down).

    A walk visits fewer than M = ln(d / delta_1) / (2 (p - 1/2)^2) nodes with probability 1 - delta_1 (Lemma 5); with
    delta_1 = delta0 / 4T the M leaf tests err with probability at most M delta-hat, and the sum over r of delta0 / (4 T
    r (r + 1)) is delta0 / 4T.
    """
    return delta0 * 2 * (p - 0.5) ** 2 / (4 * T * r * (r + 1) * math.log(4 * dim * T / delta0))
