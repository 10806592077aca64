"""Checks of options: each raises ValueError with one sentence that names the option, what is right and what was given.

    one_of(get_args(Kind), kernel=kernel)
    in_range("[0, inf) or None", kappa=kappa, noise_sd=noise_sd)
    whole_number(trials=trials)

The text of an interval stands in the sentence as it was written: "kappa must be a number in [0, inf) or None, got -1".
"""

from collections.abc import Collection
from typing import Any

import numpy as np


def one_of(allowed: Collection[object], /, **given: object) -> None:
    """Refuses options that are none of the allowed values."""
    for name, value in given.items():
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def in_range(right: str, /, **given: Any) -> None:
    """Refuses options that are neither numbers of an interval nor one of the words after it: "[0, 1) or None"."""
    interval, *words = right.split(" or ")
    low, high = (float(end) for end in interval[1:-1].split(","))
    for name, value in given.items():
        number = _as_float(value)  # NaN lies in no interval
        above = number >= low if interval[0] == "[" else number > low
        below = number <= high if interval[-1] == "]" else number < high
        if not (above and below) and repr(value) not in words:
            raise ValueError(f"{name} must be a number in {right}, got {value!r}")


def whole_number(least: int = 1, /, *, also: Collection[object] = (), **given: Any) -> None:
    """Refuses options that are neither whole numbers of at least `least` nor one of `also`."""
    for name, value in given.items():
        counts = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least
        if not counts and value not in also:
            right = " or ".join([f"a whole number of at least {least}", *map(repr, also)])
            raise ValueError(f"{name} must be {right}, got {value!r}")


def _as_float(value: Any) -> float:
    """A number as a float; NaN for what is no number, or larger than any float."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("nan")
