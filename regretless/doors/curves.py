"""What a pruned trial of an Optuna study would probably have come to, by the curves of the completed trials.

A pruned trial has intermediate values up to a step and no final one. Completed trials have both, so their final values
are regressed on their values at that step, and the pruned trial is told with the value on the line. A pruner stopped it
because others were better, so it is never given a better value than the best completed trial has.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping

import numpy as np
from optuna.trial import FrozenTrial

SLOPE_WEIGHT = 2.0
"""The slope 1 (a curve keeps its distance from the others) counts as much as this many completed trials: one or two
trials say little about a slope."""


class Curves:
    """The curves of the completed trials of a study, in the order in which they were added.

    Args:
        sign: 1 when the study maximises, -1 when it minimises.
    """

    def __init__(self, sign: float) -> None:
        self._sign = sign
        self._curves: list[tuple[list[int], list[float], float]] = []
        """Steps in order, the values at them, and the final value."""

    def add(self, trial: FrozenTrial) -> None:
        """Takes in a completed trial; one without intermediate values says nothing about curves."""
        steps, values = _ordered(trial.intermediate_values)
        if steps and math.isfinite(trial.values[0]):
            self._curves.append((steps, values, trial.values[0]))

    def final(self, trial: FrozenTrial) -> float | None:
        """The probable final value of a pruned trial: NaN when its last report is no number, None when it has none."""
        if trial.last_step is None:
            return None
        last = trial.intermediate_values[trial.last_step]
        if not math.isfinite(last):
            return math.nan
        pairs = [
            (values[bisect.bisect_right(steps, trial.last_step) - 1], final)
            for steps, values, final in self._curves
            if steps[0] <= trial.last_step
        ]
        if not pairs:
            return last
        at_step, finals = np.array(pairs).T
        size = max(1.0, float(np.abs(at_step).max()), float(np.abs(finals).max()), abs(last))  # squares stay finite
        deviation, rise = (at_step - at_step.mean()) / size, (finals - finals.mean()) / size
        spread = float(deviation @ deviation)
        fitted = float(deviation @ rise) / spread if spread > 0.0 else 1.0
        slope = max((len(pairs) * fitted + SLOPE_WEIGHT) / (len(pairs) + SLOPE_WEIGHT), 0.0)
        value = float(finals.mean()) + slope * (last - float(at_step.mean()))
        best = float((self._sign * finals).max())
        return self._sign * min(self._sign * value, best)


def _ordered(values: Mapping[int, float]) -> tuple[list[int], list[float]]:
    """Steps and finite values of a curve in the order of the steps."""
    steps = sorted(step for step, value in values.items() if math.isfinite(value))
    return steps, [values[step] for step in steps]
