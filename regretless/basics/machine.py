"""What differs between machines in the last bits, and a logarithm that does not."""

from __future__ import annotations

import functools
import math
import platform
from importlib.metadata import version

import numpy as np

from regretless.basics.values import Array

LOG2_HIGH, LOG2_LOW = 1524246769572 / 2**41, -1.7239444525614835e-13
"""The logarithm of 2 in two parts: the first has so few digits that its whole multiples are exact."""


@functools.cache
def machine() -> str:
    """What the last bits of a computation depend on here: versions, processor and its instructions."""
    found = np.show_config(mode="dicts")
    simd = found.get("SIMD Extensions", {}) if isinstance(found, dict) else {}
    instructions = " ".join([*simd.get("baseline", []), *simd.get("found", [])])
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy"))
    return f"{libraries}, {' '.join(platform.libc_ver()).strip()} on {platform.machine()} {instructions}".strip()


def even_log(x: Array) -> Array:
    """The natural logarithm of positive numbers, by steps that every IEEE machine rounds in the same way: sums,
    products and quotients. np.log and math.log differ in the last bit between releases and processors.

    With x = m 2^k and s = (m - 1) / (m + 1): log x = k log 2 + 2 (s + s^3 / 3 + s^5 / 5 + ...).
    """
    m, k = np.frexp(x)
    small = m < math.sqrt(0.5)
    m, k = np.where(small, 2.0 * m, m), np.where(small, k - 1, k)
    s = (m - 1.0) / (m + 1.0)
    square, series = s * s, np.zeros_like(s)
    # 12: terms of the series of the inverse hyperbolic tangent: with |s| <= 0.172 the next one is below 2^-60
    for term in range(12, 0, -1):
        series = (series + 1.0 / (2 * term + 1)) * square
    log: Array = k * LOG2_HIGH + (2.0 * s + (2.0 * s * series + k * LOG2_LOW))
    return log
