"""How much hypervolume further trials add to a front: a fitted forecast.

The hypervolume V_t of the front of the first t values begins at the run's reference or, without one, a tenth of the
front's range below its worst values, at the moment of the forecast. With the growth of the last half,
g = 1 - V_(t/2) / V_t, the quantile q of the gain G = V_(t+m) / V_t - 1 of m further trials is taken to follow

    log(G + 0.001) = a_q + b_q log(g + 0.001) + c_q log(m / t).

The numbers were fitted to 1,297 gains in 74 runs of `auto` on six kinds of problems, each kind with the same weight.
Intervals of 80 % held on kinds left out in 67 to 92 of 100 cases (docs/lab/fronts.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regretless.fronts.dominance import nondominated
from regretless.fronts.hypervolume import hypervolume
from regretless.history import History
from regretless.outlook.forecast import TABLE, Forecast, nothing_known, shown
from regretless.space.parameters import Array

FITTED = np.array([
    [0.05, -3.647, 0.275, 1.468], [0.10, -2.992, 0.397, 1.301], [0.25, -2.073, 0.508, 1.257],
    [0.50, -0.980, 0.552, 1.306], [0.75, 0.197, 0.547, 1.437], [0.90, 2.064, 0.555, 1.898],
    [0.95, 2.925, 0.457, 1.991],
])  # fmt: skip
"""q, a_q, b_q and c_q of the module's text."""
LEAST_VALUES, FURTHEST = 12, 2.0
"""The values that a forecast needs, and how many times as many trials as there are values it looks ahead: the runs it
was fitted to had no fewer and few more."""


@dataclass(frozen=True)
class FrontForecast(Forecast):
    """How much hypervolume so many more trials add, as a share of what the front covers now."""

    def __str__(self) -> str:
        if self.unknown:
            return super().__str__()
        low, high = self.interval()
        if high <= 0:
            return f"{self.trials_words}: no gain of hypervolume is expected."
        middle = f"about {_percent(self.median)} more hypervolume" if self.median > 0 else "most likely no gain"
        return f"{self.trials_words}: {middle} (4 of 5 times {_percent(low)} to {_percent(high)})."


def _percent(share: float) -> str:
    return f"{shown(100 * share)} %"


def front_forecasts(history: History, trials: Sequence[int], *, noisy: bool) -> list[Forecast]:
    """The forecast for each number of further trials."""
    Y = history.Y[history.feasible]
    why, growth = _growth(Y, history.reference, noisy)
    out: list[Forecast] = []
    for m in trials:
        far = m > FURTHEST * len(Y)
        reason = why or ("they are more than twice the trials that are known" if far else "")
        out.append(nothing_known(m, reason) if reason else FrontForecast(m, _gains(growth, m / len(Y))))
    return out


def _growth(Y: Array, asked: Array, noisy: bool) -> tuple[str, float]:
    """Why nothing can be forecast, or the growth of the last half of values Y (t x k); `asked`: where the hypervolume
    begins, k, NaN where the values say so."""
    if noisy:
        return "the values are noisy, and forecasts of hypervolume are for exact ones", 0.0
    if len(Y) < LEAST_VALUES:
        return f"{len(Y)} value{'s are' if len(Y) > 1 else ' is'} too few", 0.0
    front = Y[nondominated(Y)]
    span = np.ptp(front, axis=0)
    if (span <= 0).any():
        return "the front is a single point", 0.0
    # 0.1: how far below the worst of the front the hypervolume begins, as a share of the front's range
    begins = np.where(np.isnan(asked), front.min(axis=0) - 0.1 * span, asked)
    scaled, origin = (Y - begins) / span, np.zeros(len(span))
    covered = hypervolume(scaled, origin)
    if covered <= 0:
        return "nothing is better than the reference in all objectives yet", 0.0
    return "", 1.0 - hypervolume(scaled[: len(Y) // 2], origin) / covered


def _gains(growth: float, ahead: float) -> tuple[float, ...]:
    """The quantiles of the gain at the levels of `Forecast`."""
    none = 1e-3  # gains up to this share of the hypervolume count as none
    levels, a, b, c = FITTED.T
    logs = np.maximum.accumulate(a + b * np.log(growth + none) + c * np.log(ahead))
    gains = np.exp(np.interp(TABLE, levels, logs)) - none
    return tuple(np.where(gains < none, 0.0, gains).tolist())
