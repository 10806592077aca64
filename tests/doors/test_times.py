"""Optuna writes local times, which run backwards when a clock is set back or summer time ends: such a study goes on."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState

import regretless as rg
from regretless.doors.optuna.export import export_study, result_of_study
from regretless.doors.optuna.runner import tune_in_storage

SPACE = {"x": rg.Float(1.0, 100.0, log=True)}
LATE = datetime(2026, 10, 25, 2, 50)


def value(x: float) -> float:
    return (x - 30.0) ** 2


@pytest.mark.parametrize(
    ("began", "ended"), [(LATE, LATE - timedelta(minutes=40)), (datetime.min, LATE), (LATE, datetime.max)]
)
def test_a_trial_whose_times_are_wrong_breaks_nothing(began: datetime, ended: datetime, tmp_path: Path) -> None:
    storage, study = optuna.storages.InMemoryStorage(), "s"
    options = {"storage": storage, "study": study, "seed": 0, "progress": False, "method": "random"}
    tuned = tune_in_storage(value, SPACE, trials=4, **options)
    tuned.add_trial(
        FrozenTrial(
            number=-1, trial_id=-1, state=TrialState.COMPLETE, value=2.5, params={"x": 31.5},
            distributions={"x": FloatDistribution(1.0, 100.0, log=True)}, user_attrs={}, system_attrs={},
            intermediate_values={}, datetime_start=began, datetime_complete=ended,
        )
    )  # fmt: skip
    assert len(tune_in_storage(value, SPACE, trials=7, **options).trials) == 7
    result = result_of_study(tuned)
    assert result.best.value <= 2.5
    odd = next(t for t in result.trials if t.params == {"x": 31.5})
    assert (odd.seconds is None) == (ended < began)
    export_study(storage, study, tmp_path)
    assert rg.Optimizer(SPACE, seed=0).learn(tuned) == 7
