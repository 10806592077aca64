"""What pruned trials are told with, by the curves of completed ones."""

from __future__ import annotations

import math

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from regretless.doors.optuna.curves import Curves


def finished(curve: dict[int, float], value: float | None = None) -> FrozenTrial:
    state = TrialState.PRUNED if value is None else TrialState.COMPLETE
    trial = optuna.trial.create_trial(value=value, state=state, intermediate_values=curve)
    return trial


def curves_of(*completed: FrozenTrial, sign: float = -1.0) -> Curves:
    curves = Curves(sign)
    for trial in completed:
        curves.add(trial)
    return curves


def test_a_line_through_the_completed_trials() -> None:
    """Final values that are 3 + 2 v(5) are found again; the prior slope of 1 fades with the trials."""
    values = [0.1 * i for i in range(400)]
    curves = curves_of(*(finished({0: 50.0, 5: v, 9: 3 + 2 * v}, 3 + 2 * v) for v in values))
    assert curves.final(finished({0: 50.0, 5: 25.0})) == pytest.approx(53.0, rel=1e-2)
    assert curves.final(finished({5: 25.0, 6: 4.0, 7: math.nan})) is not None
    # between its reports a completed curve counts as it stood at the last one
    assert curves.final(finished({7: 25.0})) == curves.final(finished({5: 25.0}))


def test_one_completed_trial_moves_the_last_value_by_its_own_fall() -> None:
    assert curves_of(finished({3: 1.0}, 0.25)).final(finished({3: 1.5})) == pytest.approx(0.75)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_never_better_than_the_best_completed_trial(sign: float) -> None:
    curves = curves_of(finished({1: 5.0}, 3.0), finished({1: 4.0}, 2.0), sign=sign)
    assert curves.final(finished({1: 1000.0 * sign})) == (3.0 if sign > 0 else 2.0)
    crossed = curves_of(finished({1: 5.0}, 2.0), finished({1: 4.0}, 3.0), sign=sign)
    assert crossed.final(finished({1: 1000.0 * sign})) == 2.5  # a step that says nothing gives the mean
    assert curves_of(sign=sign).final(finished({1: 7.0})) == 7.0


def test_curves_that_say_nothing() -> None:
    curves = curves_of(finished({}, 1.0), finished({0: math.inf}, 1.0), finished({8: 1.0}, 0.5))
    assert curves.final(finished({})) is None
    assert math.isnan(curves.final(finished({0: 1.0, 4: math.nan})) or 0.0)
    assert curves.final(finished({4: 2.0})) == 2.0  # no completed trial had reported by step 4
    huge = curves_of(finished({0: 1e300}, 1e299), finished({0: 2e300}, 2e299))
    assert math.isfinite(huge.final(finished({0: 1.5e300})) or math.inf)
