"""The width of confidence bounds on a grid (Chowdhury and Gopalan 2017; Salgia, Vakili and Zhao 2021, Sec. 3.2.2)."""

from __future__ import annotations

import math


def confidence_width(gain: float, norm: float, noise_sd: float, delta: float) -> float:
    """beta = B + R sqrt(2 (gamma + 1 + ln 1/delta)), with the factor 2 that Sec. 3.2.2 of the GP-ThreDS paper drops.

    gain: gamma, the information gained; norm, noise_sd: B and R, here as knobs; delta: probability of error.
    """
    return norm + noise_sd * math.sqrt(2.0 * (gain + 1.0 + math.log(1.0 / delta)))
