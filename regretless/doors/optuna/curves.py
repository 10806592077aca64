"""What a trial of an Optuna study will probably come to, by the curves of the completed trials.

A trial that was pruned, or still runs, has intermediate values up to a step and no final one. Completed trials have
both, so their final values are regressed on their values at that step. A pruned trial is told with the value on the
line (`Curves.final`). A pruner stopped it because others were better, so it is never given a better value than the best
completed trial has. A running trial has a chance to end better than all of them (`Curves.chance`), which `Pruner` goes
by.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from optuna.trial import FrozenTrial
from scipy.special import stdtr

from regretless.space.parameters import Array


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
        line = self._line(trial.last_step)
        if line is None:
            return last
        best = float((self._sign * line.finals).max())
        return self._sign * min(self._sign * line.at(last), best)

    def chance(self, trial: FrozenTrial) -> float:
        """The probability that a trial ends better than every completed one, by its last report: that of Student's
        distribution around the line. 1 while fewer than three completed trials have reports up to its step."""
        if trial.last_step is None:
            return 1.0
        last, line = trial.intermediate_values[trial.last_step], self._line(trial.last_step)
        if line is None or len(line.finals) < 3:
            return 1.0
        if not math.isfinite(last):
            return 0.0
        lead = self._sign * line.at(last) - float((self._sign * line.finals).max())
        sd = line.sd(last)
        return float(stdtr(len(line.finals) - 2, lead / sd)) if sd > 0.0 else float(lead > 0.0)

    def _line(self, step: int) -> CurveLine | None:
        """The line through the completed trials at a step; None when none of them had reported by then."""
        # the slope 1 (a curve keeps its distance from the others) counts as much as this many completed trials: one or
        # two trials say little about a slope
        slope_weight = 2.0
        begun = [curve for curve in self._curves if curve[0][0] <= step]
        pairs = [(values[bisect.bisect_right(steps, step) - 1], final) for steps, values, final in begun]
        if not pairs:
            return None
        at_step, finals = np.array(pairs).T
        size = max(1.0, float(np.abs(at_step).max()), float(np.abs(finals).max()))  # squares stay finite
        deviation, rise = (at_step - at_step.mean()) / size, (finals - finals.mean()) / size
        spread = float(deviation @ deviation)
        fitted = float(deviation @ rise) / spread if spread > 0.0 else 1.0
        slope = max((len(pairs) * fitted + slope_weight) / (len(pairs) + slope_weight), 0.0)
        left = rise - slope * deviation
        scatter = math.sqrt(float(left @ left) / max(len(pairs) - 2, 1))
        return CurveLine(finals, float(at_step.mean()), slope, scatter * size, math.sqrt(spread) * size)


class CurveLine(NamedTuple):
    """Final values as a linear function of the values at a step."""

    finals: Array
    """The final values that it was fitted to, n."""
    centre: float
    """The mean value at the step."""
    slope: float
    scatter: float
    """The standard deviation of the final values around the line."""
    spread: float
    """The root of the sum of squares of the values at the step around their mean."""

    def at(self, value: float) -> float:
        """The final value of a trial with this value at the step."""
        return float(self.finals.mean()) + self.slope * (value - self.centre)

    def sd(self, value: float) -> float:
        """The standard deviation of that final value: the scatter, and what is not known of the line. Where all
        trials had one value at the step nothing is known of the slope, and the distance itself is in doubt."""
        away = value - self.centre
        slope_sd = self.scatter / self.spread if self.spread > 0.0 else float(away != 0.0)
        return math.hypot(self.scatter, self.scatter / math.sqrt(len(self.finals)), slope_sd * away)


def _ordered(values: Mapping[int, float]) -> tuple[list[int], list[float]]:
    """Steps and finite values of a curve in the order of the steps."""
    steps = sorted(step for step, value in values.items() if math.isfinite(value))
    return steps, [values[step] for step in steps]
