"""How sure a test of the paper must be and how long it waits: the printed formulas, corrected (docs/lab/gp-threds.md).

Notation
    gamma   the information gained (Eq. 6)             B, R     norm of f and sd of the noise, as knobs
    delta   probability of error                       lambda   variance of the noise in the model
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from regretless.models.grid.posterior import RowPosterior, confidence_width

Gain: TypeAlias = Literal["realised", "log", "root"]


@dataclass(frozen=True)
class Widths:
    """beta and t_term of the tests of one run."""

    norm: float  # B
    delta: float  # delta_0, the probability of error where a test names none
    gain: Gain  # gamma: "realised" by the samples, or "log" or "root" of their number
    patience: int | Literal["formula"]  # t_term of a test of the usual error, or Eq. (7)
    usual_delta: float  # the probability of error that a constant t_term belongs to

    def beta(self, posterior: RowPosterior, delta: float | None = None) -> float:
        """The width of a test after the samples of its posterior (Sec. 3.2.2)."""
        t = posterior.t
        if self.gain == "realised":
            gain = posterior.gain
        else:
            gain = math.log(max(t, 1)) if self.gain == "log" else math.sqrt(t)
        return confidence_width(gain, self.norm, math.sqrt(posterior.noise_var), self.delta if delta is None else delta)

    def t_term(self, posterior: RowPosterior, slack: float, delta: float | None = None) -> float:
        """The samples after which a test of this error accepts; a constant one grows like beta^2."""
        if isinstance(self.patience, str):
            sure = self.delta if delta is None else delta
            return termination_time(len(posterior.grid), slack, self.norm, posterior.noise_var, sure)
        if delta is None:
            return float(self.patience)
        return math.ceil(self.patience * (self.beta(posterior, delta) / self.beta(posterior, self.usual_delta)) ** 2)


def termination_time(points: int, slack: float, norm: float, noise_var: float, delta: float) -> float:
    """The least t with 2 beta_t (1 + 2 sqrt(lambda)) sqrt(|D_g| / t) <= slack, plus 1 (Eq. 7, Lemma 1's constant
    corrected), for gamma = log t and R = sqrt(lambda)."""
    if slack <= 0.0:
        return math.inf
    noise_sd = math.sqrt(noise_var)

    def is_late(t: int) -> bool:
        width = 2 * confidence_width(math.log(t), norm, noise_sd, delta)
        return width * (1 + 2 * noise_sd) * math.sqrt(points / t) <= slack

    high = 1
    while not is_late(high):
        high *= 2
    low = high // 2  # late at high, not at low; the left side falls with t
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_late(middle) else (middle, high)
    return high + 1


def leaf_confidence(delta: float, T: int, r: int, p: float, dim: int) -> float:
    """delta-hat of the r-th walk: delta 2 (p - 1/2)^2 / (4 T r (r + 1) ln(4 d T / delta)) (Sec. 3.2.1, printed upside
    down).

    A walk visits fewer than M = ln(d / delta_1) / (2 (p - 1/2)^2) nodes with probability 1 - delta_1 (Lemma 5); with
    delta_1 = delta / 4T the M leaf tests err with probability at most M delta-hat, delta / 4T summed over r.
    """
    return delta * 2 * (p - 0.5) ** 2 / (4 * T * r * (r + 1) * math.log(4 * dim * T / delta))
