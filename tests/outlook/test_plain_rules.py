"""Rules in plain units: they stop when the forecast says so, in every door, and say how far they were otherwise."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest

import regretless as rg
from regretless.optimizer import Optimizer, Trial
from regretless.outlook import going_on
from regretless.outlook.forecast import TABLE, Forecast, nothing_known
from regretless.outlook.outlook import Outlook

optuna.logging.set_verbosity(optuna.logging.ERROR)

SPACE = {"x": rg.Float(-3, 17), "z": rg.Float(2e-4, 30.0, log=True)}


def bowl(x: float, z: float) -> float:
    return (x - 2.2) ** 2 + 3 * (math.log10(z) + 1) ** 2


def run_with(per_trial: float, *, chance: float = 1.0, noise: float | None = None, seconds: float | None = 1.0) -> Any:
    """A run whose m further trials gain per_trial * m with this chance, and else nothing."""

    def forecast(m: int) -> Forecast:
        return Forecast(m, tuple(0.0 if level < 1 - chance else per_trial * m for level in TABLE), noise)

    trials = [Trial(i, {}, "done", float(i), seconds=seconds) for i in range(3)]
    outlooks = lambda ms: [Outlook(0.0, "minimize", forecast(m)) for m in ms]  # noqa: E731
    return SimpleNamespace(trials=trials, directions=("minimize",), outlooks=outlooks)


def test_a_small_gain_stops() -> None:
    rule = rg.StopWhen(gain_below=1.0, in_trials=10)
    assert rule.check(run_with(0.2)) is None
    assert rule.how_far.startswith("10 more trials gain 1 or more with a chance of 1, the rule asks for at most 0.1")
    assert rule.check(run_with(0.09)) == (
        "stopped after 3 trials: 10 more trials gain 1 or more with a chance of only 0.005"
    )
    assert rule.how_far == ""


@pytest.mark.parametrize(("chance", "stops"), [(0.04, True), (0.2, False)])
def test_a_gain_that_is_unlikely_enough_stops(chance: float, stops: bool) -> None:
    rule = rg.StopWhen(gain_below=1.0, in_trials=10)
    assert (rule.check(run_with(5.0, chance=chance)) is not None) == stops
    assert rg.StopWhen(gain_below=1.0, in_trials=10, chance=0.7).check(run_with(5.0, chance=0.2)) is not None


def test_below_the_measurement_error() -> None:
    rule = rg.StopWhen(below_noise=True, in_trials=10)
    assert rule.check(run_with(1e-9)) is None
    assert rule.how_far == "the values show no measurement error yet"
    assert rule.check(run_with(1.0, noise=0.5)) is None
    assert "0.5 (the measurement error)" in str(rule.check(run_with(0.01, noise=0.5)))


def test_what_does_not_pay_stops() -> None:
    assert rg.Worth(per_unit=10.0, per_trial=1.0).check(run_with(0.2)) is None
    reason = rg.Worth(per_unit=10.0, per_trial=1.0).check(run_with(0.02))
    assert reason == (
        "stopped after 3 trials: 20 more trials cost 20 and are expected to gain 4, "
        "and no other number of them from 5 on pays"
    )
    late = run_with(0.0)
    late.outlooks = lambda ms: [
        Outlook(0.0, "minimize", Forecast(m, tuple([0.0 if m < 80 else 100.0] * len(TABLE)))) for m in ms
    ]
    assert rg.Worth(per_unit=10.0, per_trial=1.0).check(late) is None  # 80 trials cost 80 and bring 1000


def test_reasons_of_several_rules_say_once_when() -> None:
    for rule in (rg.StopWhen(gain_below=9.0) & rg.StopWhen(no_improvement=1), rg.StopWhen(gain_below=9.0)):
        either = rule | rg.Worth(per_unit=1.0, per_trial=2.0)
        said = str(either.check(run_with(0.02)))
        assert said.startswith("stopped after 3 trials: 20 more trials gain 9 or more")
        assert said.count("stopped after") == 1
        assert said.endswith("no other number of them from 5 on pays")


def test_hope_for_the_next_few_trials_alone_keeps_no_run_going() -> None:
    soon = run_with(0.0)
    gains = {m: Forecast(m, (30.0,) * len(TABLE)) for m in going_on.HORIZONS}  # all of it with the next trial
    soon.outlooks = lambda ms: [Outlook(0.0, "minimize", gains[m]) for m in ms]
    assert rg.Worth(per_unit=1.0, per_trial=5.9).check(soon) is None
    assert rg.Worth(per_unit=1.0, per_trial=6.1).check(soon) is not None  # 4 trials would pay, 5 do not


def test_hours_are_those_that_trials_took() -> None:
    half_hour = run_with(0.2, seconds=1800.0)
    assert rg.Worth(per_unit=10.0, per_hour=3.9).check(half_hour) is None
    assert rg.Worth(per_unit=10.0, per_hour=4.1).check(half_hour) is not None
    with pytest.raises(ValueError, match="needs to know how long trials take"):
        rg.Worth(per_unit=10.0, per_hour=4.1).check(run_with(0.2, seconds=None))


def test_a_rule_knows_about_how_many_trials_more_it_takes() -> None:
    """Gains that halve with every ten trials: after 10 k of them 10 more gain 2^-(k+1)."""
    fan = {m: Forecast(m, tuple([1.0 - 0.5 ** (m / 10)] * len(TABLE))) for m in range(1, going_on.FURTHEST + 1)}
    assert going_on.until_unlikely(fan, 10, 0.5**4.001, 0.9) == pytest.approx(31, abs=1)
    assert going_on.until_unlikely(fan, 10, 0.5**60, 0.9) is None
    per_trial = 0.5**3 * (1 - 0.5**0.5) / 5  # what each of five trials gains after 30 of them
    assert going_on.until_too_dear(fan, 1.0, per_trial) == pytest.approx(30, abs=1)
    assert going_on.about(None) == "more than 210 more trials"


def test_nothing_known_never_stops() -> None:
    run = run_with(0.0)
    run.outlooks = lambda ms: [Outlook(None, "minimize", nothing_known(m, "all values are equal")) for m in ms]
    for rule in (rg.StopWhen(gain_below=1e300), rg.Worth(per_unit=1e-9, per_trial=1e9)):
        assert rule.check(run) is None
        assert rule.how_far == "the rule cannot tell yet, because all values are equal"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: rg.StopWhen(in_trials=5), "belong to gain_below="),
        (lambda: rg.StopWhen(gain_below=0.0), "gain_below"),
        (lambda: rg.StopWhen(gain_below=1.0, chance=1.0), "chance"),
        (lambda: rg.StopWhen(gain_below=1.0, in_trials=0), "in_trials"),
        (lambda: rg.StopWhen(), "StopWhen needs at least one of gain_below="),
        (lambda: rg.Worth(per_unit=1.0), "per_trial= or per_hour="),
        (lambda: rg.Worth(per_unit=1.0, per_trial=1.0, per_hour=1.0), "per_trial= or per_hour="),
        (lambda: rg.Worth(per_unit=-1.0, per_trial=1.0), "per_unit"),
    ],
)
def test_wrong_rules_are_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


RULES = {
    "gain": rg.StopWhen(gain_below=0.5, in_trials=10),
    "worth": rg.Worth(per_unit=2.0, per_trial=0.2),
    "both": rg.StopWhen(gain_below=0.5, in_trials=10) & rg.Worth(per_unit=2.0, per_trial=0.2),
    "either": rg.StopWhen(gain_below=1e-12) | rg.Worth(per_unit=2.0, per_trial=0.2),
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_ends_a_run_and_a_resumed_one_at_the_same_trial(name: str, tmp_path: Path) -> None:
    rule, options = RULES[name], {"seed": 1, "progress": False}
    whole = rg.minimize(bowl, SPACE, trials=60, stop=rule, **options)
    assert 5 < whole.nfev < 60
    assert whole.message.startswith(f"stopped after {whole.nfev} trials: ")
    file = tmp_path / "run"

    def killed(optimizer: Optimizer, trial: Trial) -> bool:
        return trial.number == whole.nfev - 4

    rg.minimize(bowl, SPACE, trials=60, stop=rule, checkpoint=file, callback=killed, **options)
    resumed = rg.minimize(bowl, SPACE, trials=60, stop=rule, checkpoint=file, **options)
    assert [t.params for t in resumed.trials] == [t.params for t in whole.trials]
    assert resumed.message == whole.message
    again = rg.minimize(bowl, SPACE, trials=60, stop=rule, checkpoint=file, **options)
    assert (again.nfev, again.message) == (whole.nfev, whole.message)


def test_a_run_that_its_rule_did_not_end_says_how_far_it_was() -> None:
    result = rg.minimize(bowl, SPACE, trials=12, seed=1, stop=rg.StopWhen(gain_below=1e-9), progress=False)
    assert result.message.startswith("all trials were evaluated; 20 more trials gain 1e-09 or more with a chance of ")
    assert result.message.endswith("more trials")


def objective(trial: optuna.Trial) -> float:
    return bowl(trial.suggest_float("x", -3, 17), trial.suggest_float("z", 2e-4, 30, log=True))


@pytest.mark.parametrize("sampler", [optuna.samplers.TPESampler, rg.Sampler], ids=["tpe", "regretless"])
def test_studies_of_any_sampler_end(sampler: Any) -> None:
    study = optuna.create_study(sampler=sampler(seed=0))
    rule = rg.StopWhen(gain_below=5.0, in_trials=10)
    study.optimize(objective, n_trials=150, callbacks=[rule])
    assert 5 < len(study.trials) < 150
    assert study.user_attrs["regretless:stop"] == rule.reason


def test_the_same_values_stop_a_study_where_they_stop_a_run() -> None:
    rule = rg.StopWhen(gain_below=0.5, in_trials=10)
    result = rg.minimize(bowl, SPACE, trials=60, seed=1, method="gp-ei", stop=rule, progress=False)
    study = optuna.create_study(sampler=rg.Sampler("gp-ei", seed=1, search_space=SPACE))
    study.optimize(objective, n_trials=60, callbacks=[rg.StopWhen(gain_below=0.5, in_trials=10)])
    assert len(study.trials) == result.nfev


def test_seconds_of_a_study_price_its_trials() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    rule = rg.Worth(per_unit=1e-9, per_hour=1e9)
    study.optimize(objective, n_trials=30, callbacks=[rule])
    assert rule.reason is not None
