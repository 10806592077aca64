"""What another program keeps in a study under our names, or Optuna's: a worker goes on, or ends with one sentence."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

import regretless as rg
from regretless.doors.optuna.export import result_of_study
from regretless.doors.optuna.presence import LINE
from regretless.doors.optuna.rules import CONSTRAINTS, COST, STOP_NOTE, STOP_STATE
from regretless.doors.optuna.runner import STOP_RULE, tune_in_storage
from regretless.doors.optuna.sampler import ERROR
from regretless.doors.optuna.settings import OBJECTIVE, SETTINGS
from regretless.doors.optuna.trials import TOLD_FAILED, VARIANCE, keep
from regretless.doors.optuna.workers import OWNER, PROBE


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


ODD: list[Any] = [
    None, True, -1, 0, 10**400, -(10**400), 1e308, math.nan, math.inf, "", "x" * 100_000, [], {}, deep(100),
    {"pid": 2**70, "host": None}, {"by": {"pid": -1}, "count": 10**400, "asks": {"x": 3}}, {"params": {"x": "NaN"}},
    {"by": {}, "count": 1, "asks": {"3": {"x": math.nan, "k": "b"}, "4": {"x": None}}, "creating": True},
    {"seed": -5, "step": 10**30, "over": ["x"]}, {"seed": 0, "step": True, "over": ["k", "x"]}, ["a"] * 1000,
    {"method": "auto", "seed": 10**40, "budget": 10**30, "version": 1}, {"method": "__import__('os')", "seed": 0},
    {"worker": [], "run": {}, "token": None},
]  # fmt: skip
OF_TRIALS = [OWNER, PROBE, VARIANCE, COST, ERROR, TOLD_FAILED, CONSTRAINTS, f"{CONSTRAINTS}:0", "fixed_params"]
OF_STUDIES = [SETTINGS, OBJECTIVE, STOP_RULE, STOP_STATE, STOP_NOTE, f"{LINE}stranger"]
SPACE = {"x": rg.Float(-3.0, 11.0), "k": rg.Int(2, 9)}
DISTRIBUTIONS = {"x": FloatDistribution(-3.0, 11.0), "k": IntDistribution(2, 9)}


def value(x: float, k: int) -> float:
    return (x - 2.0) ** 2 + k


def strange_trial(name: str, odd: Any, state: TrialState) -> FrozenTrial:
    whole = state.is_finished()
    began = None if state == TrialState.WAITING else datetime(2026, 1, 2)
    return FrozenTrial(
        number=-1, trial_id=-1, state=state, value=4.5 if state == TrialState.COMPLETE else None,
        params={"x": 1.5, "k": 3} if whole else {}, distributions=DISTRIBUTIONS if whole else {},
        user_attrs={name: odd}, system_attrs={name: odd}, intermediate_values={},
        datetime_start=began, datetime_complete=datetime(2026, 1, 2, 1) if whole else None,
    )  # fmt: skip


def goes_on(study: optuna.Study, storage: Any) -> None:
    """Tunes the study on and reads it; what is refused is refused in one short sentence that names the study."""
    try:
        tune_in_storage(value, SPACE, storage=storage, study="s", trials=9, method="random", seed=0, progress=False)
        found = result_of_study(study)
        assert found.nfev >= 5
        assert str(found)
        rg.certify(study)
        rg.outlook(study, 5)
    except (ValueError, TypeError) as error:
        said = str(error)
        assert "study 's'" in said, said
        assert len(said.splitlines()) == 1
        assert len(said) < 600


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> optuna.Study:
    monkeypatch.setattr("regretless.doors.optuna.runner.LOOK_SECONDS", 0.001)
    monkeypatch.setattr("regretless.doors.optuna.presence.LEASE_SECONDS", 0.002)
    storage = optuna.storages.InMemoryStorage()
    options: dict[str, Any] = {"method": "random", "seed": 0, "progress": False}
    return tune_in_storage(value, SPACE, storage=storage, study="s", trials=5, **options)


@pytest.mark.parametrize("name", OF_TRIALS)
@pytest.mark.parametrize("odd", range(len(ODD)))
def test_a_trial_with_odd_attributes(name: str, odd: int, study: optuna.Study) -> None:
    for state in (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED):
        study.add_trial(strange_trial(name, ODD[odd], state))
    goes_on(study, study._storage)


@pytest.mark.filterwarnings("ignore:the source of the objective has changed")
@pytest.mark.parametrize("name", OF_STUDIES)
@pytest.mark.parametrize("odd", range(len(ODD)))
def test_a_study_with_odd_attributes(name: str, odd: int, study: optuna.Study) -> None:
    keep(study, name, ODD[odd])
    study.set_user_attr(name, ODD[odd])
    goes_on(study, study._storage)
