"""Whether going on pays, from forecasts for several numbers of trials: the sums behind `StopWhen` and `Worth`.

A **fan** maps numbers of further trials to their forecasts. What trials after the next H would gain is taken to be what
the fan says of H + m trials less what it says of H.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regretless.outlook.forecast import Forecast
from regretless.space.parameters import Array

HORIZONS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 130, 210)
"""The numbers of further trials that are looked at."""
FURTHEST = HORIZONS[-1]  # no further is looked
NEAREST = 5
"""The fewest trials that are weighed together: one of many forecasts is always too hopeful, most often that of the next
few trials. Runs then lose a sixth less where a trial costs a hundredth of the gain (docs/lab/outlook.md)."""


def surplus(fan: Mapping[int, Forecast], per_unit: float, per_trial: float) -> float:
    """What going on brings at best, over all numbers of trials from NEAREST on, less what they cost."""
    return max(per_unit * f.expected - per_trial * m for m, f in fan.items() if m >= NEAREST)


def until_unlikely(fan: Mapping[int, Forecast], trials: int, gain: float, chance: float) -> int | None:
    """About how many trials from now so many further ones gain less than `gain` with this chance; None: more than were
    looked at."""
    likely = _between({m: f.quantile(chance) for m, f in fan.items() if not f.unknown})
    for later in range(max(m for m, f in fan.items() if not f.unknown) - trials + 1):
        if likely(later + trials) - likely(later) < gain:
            return later
    return None


def until_too_dear(fan: Mapping[int, Forecast], per_unit: float, per_trial: float) -> int | None:
    """About how many trials from now further ones cost more than they are expected to bring; None: more than were
    looked at."""
    expected = _between({m: f.expected for m, f in fan.items()})
    for later in range(FURTHEST - NEAREST + 1):
        ahead = np.arange(NEAREST, FURTHEST - later + 1)
        if (per_unit * (expected(later + ahead) - expected(later)) < per_trial * ahead).all():
            return later
    return None


def _between(gains: Mapping[int, float]) -> Callable[[Any], Array]:
    """The gain of any number of trials, between those given."""
    at, known = np.log1p([0, *sorted(gains)]), np.array([0.0, *(gains[m] for m in sorted(gains))])
    return lambda trials: np.asarray(np.interp(np.log1p(trials), at, known))


def about(trials: int | None) -> str:
    """A number of further trials in words."""
    if trials is None:
        return f"more than {FURTHEST} more trials"
    return f"about {max(1, trials)} more trial{'s' * (trials > 1)}"
