"""The pruner that stops trials which have little chance to become the best."""

from __future__ import annotations

import math
import pickle

import numpy as np
import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState
from scipy import stats

import regretless as rg
from regretless.doors.optuna.curves import Curves

STEPS = 12


def completed(curve: dict[int, float], value: float) -> FrozenTrial:
    return optuna.trial.create_trial(value=value, state=TrialState.COMPLETE, intermediate_values=curve)


def running(curve: dict[int, float]) -> FrozenTrial:
    return optuna.trial.create_trial(state=TrialState.RUNNING, intermediate_values=curve)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_chance_is_that_of_a_regression(sign: float) -> None:
    """With a slope of 1 the prior changes nothing, and the chance is the textbook's of a linear regression."""
    at = np.array([1.0, 2.5, 3.0, 4.5, 6.0, 7.0])
    left = np.array([0.3, -0.5, 0.4, -0.4, -0.1, 0.3])
    left -= left.mean()
    left -= (at - at.mean()) * (left @ (at - at.mean())) / ((at - at.mean()) @ (at - at.mean()))
    finals = sign * (at + 2.0 + left)
    curves = Curves(sign)
    for a, final in zip(sign * at, finals, strict=True):
        curves.add(completed({3: a}, final))
    for value in (2.0, 6.6, 9.0):
        scatter = math.sqrt(left @ left / 4)
        sd = scatter * math.sqrt(1 + 1 / 6 + (value - at.mean()) ** 2 / ((at - at.mean()) @ (at - at.mean())))
        expected = stats.t.cdf((value + 2.0 - (sign * finals).max()) / sd, 4)
        assert curves.chance(running({3: sign * value})) == pytest.approx(expected, rel=1e-9)


def test_chances_where_curves_say_little() -> None:
    curves = Curves(-1.0)
    assert curves.chance(running({})) == curves.chance(running({0: 5.0})) == 1.0
    for final in (1.0, 2.0):
        curves.add(completed({1: 4.0}, final))
    assert curves.chance(running({1: 9.0})) == 1.0  # two trials always lie on a line
    curves.add(completed({1: 4.0}, 3.0))
    assert 0.05 < curves.chance(running({1: 5.0})) < 0.5  # all trials had one value here: nothing is known of the slope
    assert curves.chance(running({1: math.nan})) == 0.0
    assert curves.chance(running({0: 9.0})) == 1.0  # nobody had reported by this step


def study_of(direction: str, pruner: optuna.pruners.BasePruner, *, crossing: bool, trials: int = 30) -> optuna.Study:
    """Curves on a log range that fall alike, or cross: then early values say the opposite of the end."""
    sign = 1.0 if direction == "minimize" else -1.0

    def objective(trial: optuna.Trial) -> float:
        away = (math.log10(trial.suggest_float("lr", 1e-5, 1e-1, log=True)) + 2.7) ** 2
        value = away
        for step in range(STEPS):
            early = math.exp(-step / 3) * (5.0 - 2.0 * away if crossing else 1.0)
            value = sign * (away + early * (step < STEPS - 1))
            trial.report(value, 3 * step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=3), pruner=pruner)
    study.optimize(objective, n_trials=trials)
    return study


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_what_cannot_become_the_best_is_stopped_at_once(direction: str) -> None:
    study = study_of(direction, rg.Pruner(), crossing=False)
    whole = study_of(direction, optuna.pruners.NopPruner(), crossing=False)
    assert [t.state for t in study.trials[:4]] == [TrialState.COMPLETE] * 4
    assert study.best_value == whole.best_value
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
    assert len(pruned) > 20
    assert all(len(t.intermediate_values) == 1 for t in pruned)
    late = study_of(direction, rg.Pruner(warmup=7), crossing=False)
    assert all(t.last_step >= 7 for t in late.trials)  # type: ignore[operator]


def test_early_reports_that_mislead_stop_nothing() -> None:
    study = study_of("minimize", rg.Pruner(), crossing=True)
    assert study.best_value == study_of("minimize", optuna.pruners.NopPruner(), crossing=True).best_value
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED]
    assert all(len(t.intermediate_values) > 2 for t in pruned)


def test_a_pruner_travels_and_says_what_is_wrong() -> None:
    pruner = rg.Pruner(0.1, complete=5, warmup=2)
    study_of("minimize", pruner, crossing=False, trials=7)
    again = pickle.loads(pickle.dumps(pruner))
    assert repr(again) == repr(pruner) == "Pruner(0.1, complete=5, warmup=2)"
    assert len(study_of("minimize", again, crossing=False, trials=7).trials) == 7
    with pytest.raises(ValueError, match=r"chance must be a number in \(0, 1\), got 2"):
        rg.Pruner(2)
    with pytest.raises(ValueError, match="complete must be a whole number of at least 3, got 2"):
        rg.Pruner(complete=2)
