"""Forecasts: what they promise is consistent, the same for the same history, and answered whatever a run has shown."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest

import regretless as rg
from regretless.files.book import Earlier
from regretless.optimizer import Optimizer
from regretless.outlook.forecast import FILE, LEVELS, TABLE, Forecast, Forecaster, nothing_known, pooled, shown
from regretless.outlook.outlook import RATE, Backtest, Forecasts, Look, Outlook
from regretless.outlook.progress import CURVE, NAMES, Seen, features, own_model, posterior_of
from regretless.outlook.standing import Standing
from regretless.space import Space

optuna.logging.set_verbosity(optuna.logging.ERROR)

SPACE = {"x": rg.Float(-3, 17), "z": rg.Float(2e-4, 30.0, log=True), "n": rg.Int(5, 800, log=True, step=1)}
"""Odd offsets, a log range, whole numbers."""


def bowl(x: float, z: float, n: int) -> float:
    return (x - 2.2) ** 2 + 3 * (math.log10(z) + 1) ** 2 + (math.log(n) - 4) ** 2


def test_levels_rise_strictly_between_0_and_1() -> None:
    for levels in (LEVELS, TABLE):
        assert 0 < levels[0] < levels[-1] < 1
        assert (np.diff(levels) > 0).all()


def run(count: int = 30, noise: float = 0.0, scale: float = 1.0, direction: str = "minimize") -> Optimizer:
    opt = Optimizer(SPACE, "auto", seed=3, budget=40, direction=direction)
    rng = np.random.default_rng(0)
    for _ in range(count):
        trial = opt.ask()
        opt.tell(trial, scale * (bowl(**trial.params) + noise * rng.standard_normal()))
    return opt


def table(gain) -> Forecast:
    return Forecast(20, tuple(map(gain, TABLE)))


def test_the_interval_gives_both_tails_to_the_upper_end_where_no_gain_is_likelier_than_the_lower_one() -> None:
    sure = table(lambda level: 1.0 + level)
    assert sure.interval() == pytest.approx((1.1, 1.9))
    doubtful = table(lambda level: max(0.0, level - 0.3))
    assert doubtful.interval() == pytest.approx((0.0, 0.5))
    assert doubtful.interval(0.5) == pytest.approx((0.0, 0.2))  # 0.25 stands below the atom of 0.3


def test_chances_and_quantiles_are_each_other_s_inverse() -> None:
    forecast = table(lambda level: max(0.0, level - 0.3) ** 2)
    for level in (0.35, 0.5, 0.62, 0.9, 0.98):
        assert forecast.chance(forecast.quantile(level)) == pytest.approx(1 - level, abs=1e-9)
    assert forecast.chance(1e-12) == pytest.approx(0.7, abs=0.051)
    assert forecast.chance(1e9) == pytest.approx(0.005)


def test_the_mean_is_that_of_the_quantiles() -> None:
    assert table(lambda level: 7.0).expected == pytest.approx(7.0)
    assert table(lambda level: level).expected == pytest.approx(0.5, abs=1e-3)


def test_a_sentence_says_median_interval_and_error() -> None:
    said = str(replace(table(lambda level: level / 100), noise=0.0271828))
    assert said == (
        "20 more trials: about 0.005 better (4 of 5 times between 0.001 and 0.009). "
        "The measurement error of your values is 0.027."
    )
    assert "no gain is expected" in str(table(lambda level: 0.0 if level < 0.9 else 1.0))
    assert "most likely no gain (4 of 5 times at most 1)" in str(table(lambda level: 0.0 if level < 0.6 else 1.0))
    assert [shown(g) for g in (0.0, 1234.5, 0.00012345, math.inf)] == ["0", "1200", "0.00012", "any amount"]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [2.5] * 12, [math.nan] * 3])
def test_a_run_that_has_shown_nothing_is_answered(values: list[float]) -> None:
    opt = Optimizer(SPACE, "random", seed=0)
    for value in values:
        opt.tell(opt.ask(), value)
    forecast = opt.forecast(7)
    assert forecast.unknown
    assert forecast.low == 0.0
    assert forecast.high == math.inf
    assert str(forecast).startswith("7 more trials: nothing can be said yet, because ")
    assert nothing_known(7, "x").chance(1e300) >= 0.5


def test_no_feasible_setting_is_answered() -> None:
    opt = Optimizer(SPACE, "gp-ei", seed=0, constraints=1)
    for i in range(6):
        opt.tell(opt.ask(), float(i), constraints=[1.0])
    assert "no setting keeps all constraints" in str(opt.outlook)


def test_more_trials_never_promise_less() -> None:
    opt = run(25)
    fans = [o.forecast for o in Standing(opt).outlooks([1, 4, 9, 20, 33, 100])]
    for near, far in itertools.pairwise(fans):
        assert (np.array(near.gains) <= np.array(far.gains)).all()
    for forecast in fans:
        assert (np.diff(forecast.gains) >= 0).all()


def test_gains_are_in_the_unit_of_the_objective_and_mirror_with_the_direction() -> None:
    one, thousand, mirrored = run(22), run(22, scale=1000.0), run(22, scale=-1.0, direction="maximize")
    assert np.allclose(np.array(thousand.forecast(8).gains), 1000 * np.array(one.forecast(8).gains), rtol=1e-5)
    assert mirrored.forecast(8).gains == one.forecast(8).gains
    assert mirrored.outlook.value == -one.outlook.value


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_no_gain_goes_beyond_a_known_limit(direction: str) -> None:
    sign = 1.0 if direction == "minimize" else -1.0
    limits = {"floor": 7.0} if direction == "minimize" else {"ceiling": -7.0}
    bound, free = (Optimizer(SPACE, "random", seed=3, direction=direction, **given) for given in (limits, {}))
    for opt in (bound, free):
        for _ in range(12):
            trial = opt.ask()
            opt.tell(trial, sign * (7.001 + bowl(**trial.params)))
    best = min(7.001 + bowl(**t.params) for t in bound.trials)
    gains = [np.array(opt.forecast(trials=200).gains) for opt in (bound, free)]
    assert gains[1].max() > best - 7.0
    np.testing.assert_allclose(gains[0], np.minimum(gains[1], best - 7.0))


def test_the_same_history_gives_the_same_outlook_whenever_it_was_asked(tmp_path: Path) -> None:
    asked = Optimizer(SPACE, "auto", seed=3, budget=40)
    for _ in range(33):
        trial = asked.ask()
        asked.tell(trial, bowl(**trial.params))
        asked.outlook  # noqa: B018 - looking changes nothing
    silent = run(33)
    asked.save(tmp_path / "run")
    loaded = Optimizer.load(tmp_path / "run")
    assert asked.outlook == silent.outlook == loaded.outlook
    assert asked.ask().params == Optimizer.load(tmp_path / "run").ask().params


def test_looks_know_nothing_of_what_came_later() -> None:
    """A run that goes on otherwise has the same earlier forecasts."""
    ends = []
    for shift in (0.0, -500.0):
        opt = Optimizer(SPACE, "random", seed=1)
        for i in range(30):
            trial = opt.ask()
            opt.tell(trial, bowl(**trial.params) + (shift if i == 29 else 0.0))
        ends.append(opt.outlook.backtest.looks)
    assert len(ends[0]) >= 5
    assert ends[0][:-1] == ends[1][:-1]
    assert all(look.after + look.trials <= 30 for look in ends[0])


def test_failed_looks_widen_the_interval_and_the_sentence_says_so() -> None:
    """Steps that come from nowhere, each as large as all before."""
    opt = Optimizer({"x": rg.Float(0, 1)}, "random", seed=0)
    for i in range(60):
        opt.tell(opt.ask(), -(2.0 ** (i // 3)) - 1e-3 * (i % 3))
    outlook = opt.outlook
    backtest = outlook.backtest
    assert backtest.held < 0.7 * len(backtest.looks)
    assert backtest.tail < 1.0
    assert "so this one is more cautious" in str(outlook)
    share = 0.2 + RATE * sum(0.2 - (not look.held) for look in backtest.looks)
    assert backtest.tail == pytest.approx(min(1.0, share / 0.2))
    missed = sum(not look.held for look in backtest.looks)
    assert missed <= 0.2 * len(backtest.looks) + (0.2 + RATE) / RATE  # the bound of the module's text


def test_an_interval_with_narrower_tails_holds_the_other() -> None:
    x = np.vstack([np.zeros(len(NAMES)), np.linspace(-1, 1, len(NAMES))])
    usual, wide = (Forecaster.shipped().gains(x, tail=tail) for tail in (1.0, 0.3))
    above, below = TABLE > 0.5, TABLE < 0.5
    assert (wide[:, above] >= usual[:, above]).all()
    assert (wide[:, below] <= usual[:, below]).all()
    assert (wide[:, above] > usual[:, above]).any()


def test_a_look_holds_where_the_gain_lies_within() -> None:
    assert Look(5, 2, 0.0, 1.0, 0.0).held
    assert Look(5, 2, 0.5, 1.0, 1.0).held
    assert not Look(5, 2, 0.5, 1.0, 0.4).held
    looks = (Look(5, 2, 0.0, 1.0, 0.5), Look(7, 2, 0.0, 1.0, 2.0))
    assert str(Backtest(looks)) == "Of this run's 2 earlier forecasts 1 held."
    sure = Forecast(5, (0.0,) * len(TABLE), none_because="all was seen")
    assert (
        str(Outlook(1.0, "minimize", sure, Backtest(looks, tail=0.5)))
        == "5 more trials: no gain, because all was seen."
    )
    guessed = Outlook(1.0, "minimize", table(lambda level: level), Backtest(looks, tail=0.5))
    assert str(guessed).endswith("held, so this one is more cautious.")


def test_noise_is_named_and_luck_is_no_gain() -> None:
    opt = Optimizer({"x": rg.Float(0, 1)}, "gp-ei", seed=0)
    rng = np.random.default_rng(1)
    for _ in range(40):
        trial = opt.ask()
        opt.tell(trial, 10.0 * trial.params["x"] + rng.standard_normal(), var=1.0)
    assert opt.outlook.noise == pytest.approx(1.0)
    assert "The measurement error of your values is 1." in str(opt.outlook)
    lucky = min(t.value for t in opt.trials)
    assert opt.outlook.value > lucky + 0.3  # the model's mean there, not the luckiest value


def test_nothing_is_forecast_where_nothing_is_left() -> None:
    """A space that was seen whole and a value at a known limit leave nothing to gain, unless values are noisy."""
    options = {"trials": 30, "seed": 0, "progress": False}
    whole = rg.minimize(lambda n, k: n * (2 + (k == "b")), {"n": rg.Int(3, 5), "k": rg.Choice(["a", "b"])}, **options)
    assert str(whole.outlook) == "20 more trials: no gain, because every setting of the space was evaluated."
    assert (whole.outlook.forecast.high, whole.outlook.forecast.expected) == (0.0, 0.0)
    flat = rg.minimize(lambda x: max(0.0, abs(x) - 9) + 0.5, {"x": rg.Float(-30, 17)}, floor=0.5, **options)
    assert str(flat.outlook) == "20 more trials: no gain, because the value has reached floor=0.5."
    assert "If values hold no noise, say noisy=False" in str(flat.certificate)
    rng = np.random.default_rng(0)
    assert str(whole.certificate).endswith(
        "if values hold no noise. Say noisy=False if that is so, and this is proven."
    )
    noisy = rg.minimize(lambda n: n + 9 * rng.standard_normal(), {"n": rg.Int(3, 5)}, noisy=True, **options)
    assert "because" not in str(noisy.outlook)


def test_the_measurement_error_is_not_that_of_poor_settings() -> None:
    opt = Optimizer({"x": rg.Float(-3, 17)}, "sobol", seed=0)
    for _ in range(20):
        trial = opt.ask()
        opt.tell(trial, trial.params["x"], var=0.01 if trial.params["x"] < 10 else 400.0)
    assert opt.outlook.noise == pytest.approx(0.1)


def test_features_have_no_units_and_change_with_the_horizon_alone() -> None:
    opt = run(24)
    cube = opt.method.cube
    rows = []
    for scale in (1.0, 1e-6):
        seen = Seen.of(opt.history, cube, noisy=False)
        seen = replace(seen, y=scale * seen.y + 5.0 * scale)
        gp = posterior_of(seen, own_model(cube, noisy=False))
        rows.append(features(seen, gp, [1.0, 10.0]))
    assert np.allclose(rows[0], rows[1], atol=2e-3)
    moving = {NAMES[i] for i in np.flatnonzero(np.abs(np.diff(rows[0], axis=0))[0] > 0)}
    assert moving <= {"m/n", "m/d", "since/m", "last m"}
    assert {"m/n", "m/d"} <= moving


@pytest.mark.parametrize("method", ["auto", "turbo", "random"])
def test_the_share_of_labels_is_that_of_the_parameters_however_they_are_encoded(method: str) -> None:
    space = {"a": rg.Choice(["x", "y", "z"]), "n": rg.Int(3, 900, log=True), "b": rg.Choice([True, False]), **SPACE}
    opt = Optimizer(space, method, seed=0)
    for _ in range(4):
        trial = opt.ask()
        opt.tell(trial, trial.params["x"])
    row = features(Seen.of(opt.history, opt.method.cube, noisy=False), None, [5.0])[0]
    assert row[NAMES.index("labels")] == pytest.approx(2 / 5)


def test_a_pool_holds_each_of_its_distributions_by_its_share() -> None:
    """Against draws of the mixture; where the parts agree, the pool is what they say."""
    rng = np.random.default_rng(0)
    centres, nones = np.array([-3.0, -0.5]), np.array([0.2, 0.6])
    own = [c + 0.4 * LEVELS[None] for c in centres]
    none, quantiles = pooled([np.array([n]) for n in nones], own)
    assert none == pytest.approx([0.4])
    part = rng.choice(2, size=200_000, p=(1 - nones) / (1 - nones).sum())
    drawn = np.interp(rng.random(200_000), LEVELS, 0.4 * LEVELS) + centres[part]
    inner = (LEVELS > 0.02) & (LEVELS < 0.98) & (np.abs(LEVELS - 2 / 3) > 0.02)  # beside the gap between the parts
    assert quantiles[0, inner] == pytest.approx(np.quantile(drawn, LEVELS)[inner], abs=0.02)
    alike = pooled([np.array([0.3])] * 3, [own[0]] * 3)
    assert alike[0] == pytest.approx([0.3])
    assert alike[1][0] == pytest.approx(own[0][0], abs=0.02)


def test_many_coordinates_and_many_values_are_forecast_by_the_curve_alone() -> None:
    wide = Optimizer({f"x{i}": rg.Float(0, 1) for i in range(30)}, "random", seed=0)
    for _ in range(20):
        trial = wide.ask()
        wide.tell(trial, sum(trial.params.values()))
    seen = Seen.of(wide.history, wide.method.cube, noisy=False)
    assert posterior_of(seen, own_model(wide.method.cube, noisy=False)) is None
    row = features(seen, None, [5.0])[0]
    assert not np.isnan(row[: len(CURVE)]).any()
    assert np.isnan(row[len(CURVE) :]).all()
    assert wide.forecast(5).high > 0


def test_failures_slow_a_run_down() -> None:
    """Half of the trials failed: so many trials give half as many values."""
    sound, failing = Optimizer(SPACE, "random", seed=2), Optimizer(SPACE, "random", seed=2)
    for opt in (sound, failing):
        for i in range(24):
            trial = opt.ask()
            opt.tell(trial, failed=True) if opt is failing and i % 2 else opt.tell(trial, bowl(**trial.params))
    cube = failing.method.cube
    assert Seen.of(failing.history, cube, noisy=False).failed == pytest.approx(0.5)
    assert failing.forecast(20) != sound.forecast(20)


def test_a_study_of_any_sampler_has_an_outlook_and_ours_has_that_of_its_optimizer() -> None:
    def objective(trial: optuna.Trial) -> float:
        return bowl(
            trial.suggest_float("x", -3, 17), trial.suggest_float("z", 2e-4, 30, log=True),
            trial.suggest_int("n", 5, 800, log=True),
        )  # fmt: skip

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    assert rg.outlook(study).forecast.unknown
    study.optimize(objective, n_trials=25)
    before = study.get_trials()
    foreign = rg.outlook(study, 10)
    assert foreign.forecast.trials == 10
    assert not foreign.forecast.unknown
    assert study.get_trials() == before
    space = Space(SPACE)
    opt = Optimizer(space, "gp-ei", seed=0)
    opt.learn([Earlier(space.encode(t.params), t.value) for t in before])
    assert opt.forecast(10) == foreign.forecast


def test_a_study_without_common_parameters_is_answered_by_its_values() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float(f"x{trial.number}", 0, 1), n_trials=12)
    assert rg.outlook(study).forecast.high > 0
    with pytest.raises(TypeError, match="outlook takes an Optuna study"):
        rg.outlook("study")


def test_the_file_is_small_and_plain_and_a_forecast_is_fast() -> None:
    file = Path(rg.__file__).parent / "outlook" / FILE
    assert file.stat().st_size < 200_000
    with np.load(file, allow_pickle=False) as stored:
        assert all(stored[name].dtype.kind in "fiu" for name in stored.files)
    x = np.zeros((1, len(NAMES)))
    Forecaster.shipped().gains(x)
    began = time.process_time()
    for _ in range(50):
        Forecaster.shipped().gains(x)
    assert (time.process_time() - began) / 50 < 0.002


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ValueError, match="trials must be a whole number of at least 1, got 0"):
        run(3).forecast(0)


def test_forecasts_forget_a_run_that_was_another() -> None:
    opt, other = run(20), Optimizer(SPACE, "random", seed=9)
    for _ in range(15):
        trial = other.ask()
        other.tell(trial, bowl(**trial.params))
    kept = Forecasts(opt.method.cube)
    kept.outlook(opt.history, [20], noisy=False, task=opt.task)
    again = kept.outlook(other.history, [20], noisy=False, task=other.task)
    assert again == Forecasts(other.method.cube).outlook(other.history, [20], noisy=False, task=other.task)
