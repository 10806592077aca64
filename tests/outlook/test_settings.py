"""What is said of single settings: predictions, comparisons and rivals are consistent with the values and the model."""

from __future__ import annotations

import math

import numpy as np
import optuna
import pytest

import regretless as rg
from regretless.outlook.estimates import Rival, Rivals, estimates_of
from regretless.outlook.forecast import TABLE

SPACE = {
    "x": rg.Float(-3, 17), "z": rg.Float(2e-4, 30.0, log=True), "n": rg.Int(5, 800, log=True),
    "kind": rg.Choice(["a", "b", "c"]),
}  # fmt: skip


def bowl(x: float, z: float, n: int, kind: str) -> float:
    return (x - 2.2) ** 2 / 20 + (math.log10(z) + 1) ** 2 + (math.log(n) - 4) ** 2 / 4 + (kind == "b")


def run(noise: float = 0.0, trials: int = 30, seed: int = 0, direction: str = "minimize", method: str = "auto"):
    opt = rg.Optimizer(SPACE, method, seed=seed, budget=trials, direction=direction)
    rng, sign = np.random.default_rng(seed), 1 if direction == "minimize" else -1
    for _ in range(trials):
        trial = opt.ask()
        opt.tell(trial, sign * (bowl(**trial.params) + noise * rng.standard_normal()), seconds=1.0 + trial.number)
    return opt


def test_an_evaluated_setting_without_noise_is_known() -> None:
    opt = run()
    for trial in opt.trials[::7]:
        found = opt.predict(trial.params)
        assert (found.exact, found.values) == (True, 1)
        assert found.mean == pytest.approx(trial.value)
        assert found.interval(0.99) == pytest.approx((trial.value, trial.value))
    assert "as evaluated" in str(opt.predict(opt.recommend()))


def test_the_intervals_of_new_settings_hold_the_truth_and_say_how_far_they_reach() -> None:
    opt, rng = run(trials=40), np.random.default_rng(5)
    new = [opt.space.decode(rng.random(4)) for _ in range(60)]
    found = [opt.predict(params) for params in new]
    held = np.mean([p.low <= bowl(**params) <= p.high for p, params in zip(found, new, strict=True)])
    assert held >= 0.6
    off = np.array([abs(p.mean - bowl(**params)) for p, params in zip(found, new, strict=True)])
    assert np.median(off) < 0.25 * np.std([bowl(**params) for params in new])
    for p in found:
        assert (np.diff(p.quantiles) >= 0).all()
        assert p.low < p.mean < p.high
        assert "4 of 5 times between" in str(p)


def test_predictions_mirror_with_the_direction_and_scale_with_the_unit() -> None:
    params = {"x": 4.0, "z": 0.3, "n": 40, "kind": "a"}
    up, down = run(0.1, direction="maximize").predict(params), run(0.1).predict(params)
    assert up.mean == pytest.approx(-down.mean, rel=1e-6)
    assert up.interval() == pytest.approx((-down.high, -down.low), rel=1e-6)


def test_a_method_that_sees_labels_apart_predicts_by_the_same_model() -> None:
    opt = run(method="neural-bo", trials=8)
    assert opt.method.traits.choices == "onehot"
    assert opt.predict(opt.trials[3].params).mean == pytest.approx(opt.trials[3].value)


def test_noise_leaves_an_interval_that_shrinks_with_repetitions() -> None:
    opt = run(0.3, trials=24)
    params, rng = opt.trials[0].params, np.random.default_rng(1)
    opt.tell(opt.adopt(params), bowl(**params) + 0.3 * rng.standard_normal())
    before = opt.predict(params)
    assert not before.exact
    assert before.high > before.low
    for _ in range(12):
        opt.tell(opt.adopt(params), bowl(**params) + 0.3 * rng.standard_normal())
    after = opt.predict(params)
    assert after.values == 14
    assert after.high - after.low < before.high - before.low


def test_one_of_several_objectives_is_named() -> None:
    opt = rg.Optimizer({"x": rg.Float(-2, 5)}, objectives={"loss": "minimize", "speed": "maximize"}, seed=0)
    for _ in range(6):
        trial = opt.ask()
        opt.tell(trial, {"loss": trial.params["x"] ** 2, "speed": trial.params["x"]})
    assert opt.predict({"x": 1.3}, objective="speed").mean == pytest.approx(1.3, abs=0.5)
    with pytest.raises(ValueError, match="objective must be one of"):
        opt.predict({"x": 1.3})
    with pytest.raises(ValueError, match="compared by one objective"):
        rg.compare(0, 1, within=opt)


def test_nothing_is_predicted_of_nothing() -> None:
    with pytest.raises(ValueError, match="no value has been told"):
        rg.Optimizer(SPACE, seed=0).predict({"x": 4.0, "z": 0.3, "n": 40, "kind": "a"})
    with pytest.raises(ValueError, match="x"):
        run(trials=5).predict({"x": 400.0, "z": 0.3, "n": 40, "kind": "a"})


# ---------------------------------------------------------------- two settings


def test_settings_without_noise_compare_by_their_values() -> None:
    opt = run()
    a, b = opt.trials[0], opt.trials[1]
    found = rg.compare(0, 1, within=opt)
    assert found.chance == float(b.value < a.value)
    assert found.gain.mean == pytest.approx(a.value - b.value)
    assert "by" in str(found)
    assert rg.compare(1, 0, within=opt).chance == 1 - found.chance
    assert rg.compare(a, a, within=opt).chance == 0.5
    assert "equally good" in str(rg.compare(a, a, within=opt))


def test_comparisons_with_noise_are_each_other_s_complement_and_agree_with_draws() -> None:
    opt = run(0.2)
    known = estimates_of(opt.task, opt.method, opt.history)
    X = np.array([opt.space.encode(t.params) for t in opt.trials[3:9]])
    draws = known.drawn(X)
    for i in range(1, 6):
        there, back = known.comparison(X[0], X[i], ("a", "b")), known.comparison(X[i], X[0], ("b", "a"))
        assert there.chance == pytest.approx(1 - back.chance, abs=1e-6)
        assert there.chance == pytest.approx((draws[:, i] > draws[:, 0]).mean(), abs=0.04)


def test_two_runs_are_compared_by_what_they_recommend() -> None:
    short, long = run(trials=6), run(trials=30)
    found = rg.compare(short, long)
    assert found.chance == 1.0
    assert found.gain.mean == pytest.approx(short.best.value - long.best.value)
    assert "the second run is better" in str(found)
    noisy = rg.compare(run(0.5, 20, seed=1), run(0.5, 20, seed=2))
    assert 0.02 < noisy.chance < 0.98
    with pytest.raises(ValueError, match="minimize"):
        rg.compare(short, run(direction="maximize", trials=5))


def test_wrong_arguments_are_answered() -> None:
    opt = run(trials=5)
    with pytest.raises(TypeError, match="within=result"):
        rg.compare(0, 1)
    with pytest.raises(ValueError, match="a must be the number of a trial"):
        rg.compare(77, 1, within=opt)
    with pytest.raises(TypeError, match="b must be the number of a trial"):
        rg.compare(1, 2.5, within=opt)
    with pytest.raises(TypeError, match="a run is a Result"):
        rg.compare(1, 2, within="study")


# ---------------------------------------------------------------- rivals


def test_without_noise_only_equals_are_rivals() -> None:
    result = rg.minimize(lambda n: abs(n - 40) // 10, {"n": rg.Int(3, 90)}, trials=25, seed=0, progress=False)
    same = {t.number for t in result.trials if t.value == result.value and t.params != result.params}
    assert {number for rival in result.rivals for number in rival.numbers} == same
    assert len(same) >= 1
    assert "the same value as the recommended one" in str(result.rivals)
    first, second = (next(t.number for t in result.trials if t.value == v) for v in (result.value, result.value + 1))
    assert str(rg.compare(second, first, within=result)).endswith("by 1, as evaluated")
    one = rg.minimize(bowl, SPACE, trials=20, seed=0, progress=False)
    assert len(one.rivals) == 0
    assert "no other setting" in str(one.rivals)


def test_with_noise_those_that_may_be_better_are_rivals() -> None:
    opt = run(0.4, trials=30)
    opt.tell(opt.adopt(opt.trials[2].params), opt.trials[2].value + 0.3)
    result = rg.Result.of(opt)
    assert len(result.rivals) >= 2
    for rival in result.rivals:
        assert rival.chance == pytest.approx(rg.compare(result.params, rival.params, within=result).chance, abs=0.05)
        assert rival.chance > 0.1 - 0.05
    assert sum(rival.best for rival in result.rivals) <= 1
    cheap = result.rivals.cheapest
    assert cheap is None or cheap.cost < 0.8 * result.rivals.cost
    assert "cannot be told apart" in str(result.rivals)


def test_the_cheapest_is_named_where_it_is_clearly_cheaper() -> None:
    prediction = run(trials=4).predict({"x": 4.0, "z": 0.3, "n": 40, "kind": "a"})
    near, far = (Rival((i,), {}, prediction, 0.4, 0.2, cost) for i, cost in ((3, 9.0), (5, 2.5)))
    assert Rivals((near, far), 10.0).cheapest is far
    assert "The cheapest is trial 5, at 2.5 instead of 10." in str(Rivals((near, far), 10.0))
    assert "The quickest is trial 5, at 2.5 instead of 10 seconds." in str(Rivals((near, far), 10.0, timed=True))
    assert Rivals((near,), 10.0).cheapest is None
    assert Rivals((near,), None).cheapest is None


def test_durations_are_named_as_seconds_and_costs_as_costs() -> None:
    assert rg.Result.of(run(0.4)).rivals.timed
    opt = rg.Optimizer(SPACE, seed=0)
    for _ in range(8):
        trial = opt.ask()
        opt.tell(trial, 1.0, cost=2.0, seconds=1.0)
    assert not rg.Result.of(opt).rivals.timed


def test_studies_of_other_samplers_are_asked_too() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda t: (t.suggest_float("x", -5, 10) - 2) ** 2 + t.suggest_int("n", 3, 9), n_trials=15)
    values = [t.value for t in study.trials]
    assert rg.compare(3, 8, within=study).chance == float(values[8] < values[3])
    assert len(TABLE) == len(rg.compare(3, {"x": 0.0, "n": 4}, within=study).gain.quantiles)


def test_told_costs_and_durations_are_never_compared() -> None:
    """A setting of which no cost was told is not given its seconds for one."""
    opt = rg.Optimizer({"n": rg.Int(5, 90)}, seed=0, noisy=False)
    for n, cost in ((10, 4.0), (20, 1.5), (30, None)):
        opt.tell(opt.adopt({"n": n}), 1.0, cost=cost, seconds=50.0)
    rivals = rg.Result.of(opt).rivals
    costs = {opt.recommend()["n"]: rivals.cost} | {rival.params["n"]: rival.cost for rival in rivals}
    assert costs == {10: 4.0, 20: 1.5, 30: None}
    assert not rivals.timed
