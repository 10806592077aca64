"""Forecasts of hypervolume: what they rest on, what they promise, when they say nothing, and rules that ask them."""

from typing import Any

import numpy as np
import pytest

import regretless as rg
from regretless.fronts.hypervolume import hypervolume
from regretless.history import History
from regretless.outlook.front_growth import FITTED, front_forecasts

SPACE = {"a": rg.Float(2e-4, 3.0, log=True), "b": rg.Float(-7, 5)}


def two(a: float, b: float) -> tuple[float, float]:
    u = np.log(a / 2e-4) / np.log(3.0 / 2e-4)
    return float((u - 0.2) ** 2 + 0.01 * (b + 3) ** 2), float(100 - 40 * (u - 0.9) ** 2 - (b + 3) ** 2)


GOALS: dict[str, Any] = {"loss": "minimize", "gain": "maximize"}


def history_of(Y: Any) -> History:
    Y = np.array(Y, dtype=float)
    X = np.linspace(0.0, 1.0, len(Y))[:, None]
    return History(1, objectives=Y.shape[1]).with_values(X, Y)


CURVE = [(i / 20, 1 - (i / 20) ** 2) for i in range(20)]


def test_a_quantile_is_the_formula() -> None:
    Y = np.array(CURVE)
    reference = Y.min(axis=0) - 0.1 * np.ptp(Y, axis=0)
    growth = 1 - hypervolume(Y[:10], reference) / hypervolume(Y, reference)
    (forecast,) = front_forecasts(history_of(Y), [8], noisy=False)
    level, a, b, c = FITTED[3]
    assert forecast.quantile(level) == pytest.approx(np.exp(a + b * np.log(growth + 1e-3) + c * np.log(0.4)) - 1e-3)


def test_units_play_no_part() -> None:
    (plain,) = front_forecasts(history_of(CURVE), [8], noisy=False)
    (other,) = front_forecasts(history_of(np.array(CURVE) * [1e6, 1e-4] + [7.0, -3.0]), [8], noisy=False)
    assert np.allclose(plain.gains, other.gains)


def test_more_trials_promise_more_and_a_front_that_stands_still_less() -> None:
    fan = front_forecasts(history_of(CURVE), [2, 5, 10, 20], noisy=False)
    medians = [f.median for f in fan]
    assert medians == sorted(medians)
    assert all(list(f.gains) == sorted(f.gains) for f in fan)
    still = [*CURVE, *[(-1.0, -1.0)] * 20]
    (later,) = front_forecasts(history_of(still), [20], noisy=False)
    assert later.quantile(0.9) < fan[-1].quantile(0.9)


def test_where_nothing_is_known_nothing_is_said() -> None:
    for Y, m, noisy, why in (
        (CURVE[:11], 5, False, "11 values are too few"),
        (CURVE, 41, False, "more than twice the trials"),
        (CURVE, 5, True, "the values are noisy"),
        ([(1.0, 1.0)] * 15, 5, False, "a single point"),
    ):
        (forecast,) = front_forecasts(history_of(Y), [m], noisy=noisy)
        assert why in forecast.unknown
        assert "nothing can be said yet" in str(forecast)


def test_a_run_says_what_its_front_may_gain() -> None:
    result = rg.minimize(two, SPACE, objectives=GOALS, trials=24, seed=1, progress=False)
    assert "20 more trials: " in str(result.outlook)
    assert "hypervolume" in str(result.outlook)
    assert result.outlook.forecast.interval()[0] >= 0


def test_a_rule_ends_a_run_whose_front_grows_little() -> None:
    rule = rg.StopWhen(hypervolume_below=0.05, in_trials=4)
    result = rg.minimize(two, SPACE, objectives=GOALS, trials=120, seed=1, stop=rule, progress=False)
    assert "4 more trials gain 0.05 of the hypervolume or more with a chance of only" in result.message
    assert 12 <= result.nfev < 120
    early = rg.minimize(two, SPACE, objectives=GOALS, trials=14, seed=1, progress=False, stop=rg.StopWhen(
        hypervolume_below=1e-6))  # fmt: skip
    assert "the rule asks for at most 0.1" in early.message
    with pytest.raises(ValueError, match="speaks of the front of several objectives, and this run has one"):
        rg.minimize(lambda a, b: two(a, b)[0], SPACE, trials=5, stop=rule, progress=False)
