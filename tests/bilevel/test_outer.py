"""The outer level of a bilevel study: what its method is told of each run, and which setting comes next."""

import math
from typing import Any

import numpy as np
import pytest

from regretless import GOUCB
from regretless.auto import find_recipe
from regretless.bilevel import Bilevel, TrainingRun, minimize_bilevel
from regretless.bilevel.outer import Outer, curve_noise, outer_values
from regretless.bilevel.schedule import FixedHorizon, Promotion
from regretless.method import keyed_generator
from regretless.space import Space
from regretless.space.parameters import Float

SPACE = Space({"lr": Float(1e-3, 1.0, log=True), "start": Float(-4.0, 8.0)})
TARGET = 2.0


def init(params: dict[str, Any], seed: int) -> dict[str, Any]:
    return {"theta": params["start"], "lr": params["lr"], "seed": seed, "steps": 0}


def step(state: dict[str, Any]) -> dict[str, Any]:
    noise = float(keyed_generator(state["seed"], state["steps"]).standard_normal())
    theta = state["theta"] - state["lr"] * (state["theta"] - TARGET + 0.3 * noise)
    return {**state, "theta": theta, "steps": state["steps"] + 1}


def validate(state: dict[str, Any]) -> float:
    return (state["theta"] - TARGET) ** 2 + 0.05


def test_the_papers_noise_is_not_replaced_by_that_of_the_curves() -> None:
    problem = Bilevel(init, step, validate)
    runs = minimize_bilevel(problem, SPACE, trials=6, horizon=8, method="random", seed=3, progress=False).runs
    ours, paper = (
        Outer(SPACE, name, 0, FixedHorizon(6, 8), "linear").optimizer(runs).history
        for name in ("bilevel", "bbo-printed")
    )
    assert np.isfinite(ours.yvar).all()
    assert np.isnan(paper.yvar).all()


def test_a_users_model_sees_the_users_units_and_the_loss_itself() -> None:
    """GO-UCB's model is a function of (w, x): x in the units of the space, its value a validation loss."""
    seen = []

    def model(w: Any, x: Any) -> Any:
        seen.append(x.detach().numpy().copy())
        return w[0] * (x[:, 0] - w[1]) ** 2

    problem = Bilevel(lambda p, seed: {"loss": (p["dose"] - 70.0) ** 2}, lambda s: s, lambda s: s["loss"])
    method = GOUCB(model=model, w_bounds=[(0.5, 2.0), (20.0, 90.0)], realizable=True)
    result = minimize_bilevel(
        problem,
        {"dose": Float(10.0, 100.0)},
        trials=10,
        horizon=1,
        method=method,
        seed=0,
        scale="linear",
        progress=False,
    )
    doses = np.concatenate(seen)
    assert doses.min() >= 10.0
    assert doses.max() > 50.0
    assert result.params["dose"] == pytest.approx(70.0, abs=1.0), "with the sign turned round, the model would flee"


@pytest.mark.parametrize("size", [1e-100, 1e160, 1e300])
@pytest.mark.parametrize("scale", ["auto", "linear"])
def test_losses_of_huge_size_are_modelled(size: float, scale: str) -> None:
    for sign in (1.0, -1.0):
        problem = Bilevel(init, step, lambda state, sign=sign: size * (validate(state) + sign - 1.0))
        result = minimize_bilevel(problem, SPACE, budget_steps=150, scale=scale, seed=3, progress=False)
        assert result.success
        assert math.isfinite(result.value)
    runs = [TrainingRun(0, steps=9, curve=[(3, size), (6, -size), (9, size)], ends={9: size}) for _ in range(3)]
    values, noise = outer_values(runs, scale, None)
    assert np.isfinite(values).all()
    assert np.isfinite(noise).all()


def test_the_scale_of_the_noise_does_not_change_it() -> None:
    rng = np.random.default_rng(1)
    curves = [[(n, float(v)) for n, v in zip((5, 10, 20, 40), rng.standard_normal(4), strict=True)] for _ in range(6)]
    scaled = [[(n, v * 2.0**400) for n, v in curve] for curve in curves]
    assert np.array_equal(curve_noise(scaled, False), curve_noise(curves, False) * 2.0**800)


def test_the_outer_values_are_log_losses_with_the_worst_for_diverged_runs() -> None:
    runs = [
        TrainingRun(i, steps=4, curve=[(2, 3.0), (4, loss)], ends={4: loss})
        for i, loss in enumerate([0.5, math.inf, 2.0])
    ]
    y, yvar = outer_values(runs, "auto", None)
    assert np.allclose(y, np.log([0.5, 3.0, 2.0]))
    assert np.allclose(outer_values(runs, "auto", 1.5)[0], np.log([0.5, 1.5, 1.5]))
    assert np.allclose(outer_values(runs, "linear", None)[0], [0.5, 3.0, 2.0])
    assert (yvar > 0).all()
    below = [
        TrainingRun(0, steps=1, curve=[(1, -1.0)], ends={1: -1.0}),
        TrainingRun(1, steps=1, curve=[(1, 2.0)], ends={1: 2.0}),
    ]
    assert np.allclose(outer_values(below, "auto", None)[0], [-1.0, 2.0]), "losses below zero cannot be logged"
    with pytest.raises(ValueError, match="positive losses"):
        outer_values(below, "log", None)


def test_promoted_runs_are_told_on_the_level_of_the_bottom_rung() -> None:
    """Two runs fell by 2 and by 4 (in logs) when promoted: the mean fall of 3 is no merit of theirs, what differs from
    it is."""
    drop = math.exp(-2), math.exp(-4)
    runs = [
        TrainingRun(0, steps=9, curve=[(3, 1.0), (9, drop[0])], ends={3: 1.0, 9: drop[0]}),
        TrainingRun(1, steps=9, curve=[(3, 1.0), (9, drop[1])], ends={3: 1.0, 9: drop[1]}),
    ]
    runs.append(TrainingRun(2, steps=3, curve=[(3, 1.0)], ends={3: 1.0}))
    assert np.allclose(outer_values(runs, "log", None)[0], [3 - 2, 3 - 4, 0])
    assert np.allclose(outer_values(runs, "linear", None)[0][2], 1.0)


def test_a_run_that_started_high_is_brought_to_the_same_level() -> None:
    runs = [
        TrainingRun(0, steps=9, curve=[(3, 1.0), (9, 0.5)], ends={3: 1.0, 9: 0.5}),
        TrainingRun(1, steps=9, curve=[(9, 0.5)], ends={9: 0.5}),
        TrainingRun(2, steps=3, curve=[(3, 1.0)], ends={3: 1.0}),
    ]
    assert np.allclose(outer_values(runs, "linear", None, (3, 9))[0], 1.0), (
        "nine steps are worth 0.5, wherever a run began"
    )


def test_settings_that_start_high_are_chosen_for_long_training() -> None:
    """Fast settings lead at the bottom and slow ones at the top; two runs that climbed are enough to see it."""
    rungs = (10, 30, 90)
    outer = Outer(Space({"x": Float(2.0, 6.0)}), "bilevel", 0, Promotion(2000, rungs, final_share=0.5))

    def record(number: int, x: float, top: int) -> TrainingRun:
        ends = {n: math.exp(4 * (x - (0.8 - 0.4 * k / 2)) ** 2 - 0.5 * k) for k, n in enumerate(rungs) if n <= top}
        run = outer.new_run(number, np.array([x]))
        run.steps, run.curve, run.ends = top, list(ends.items()), ends
        return run

    records = [record(i, x, 10) for i, x in enumerate((0.1, 0.25, 0.4, 0.95))] + [
        record(4, 0.55, 30),
        record(5, 0.65, 90),
        record(6, 0.8, 90),
    ]
    fast, slow = outer.propose(records, 10)[0], outer.propose(records, 30)[0]
    assert abs(slow - 0.4) < 0.2 < abs(fast - 0.4)
    assert np.array_equal(outer.propose(records, 30), outer.propose(records, 30))
    for until, taken in ((10, fast), (30, slow)):
        under_way = outer.new_run(7, np.array([taken]))
        assert outer.propose([*records, under_way], until)[0] != taken, "a setting under way is not proposed again"


def test_the_noise_of_a_curve_is_what_is_left_of_a_line_in_log_steps() -> None:
    rng = np.random.default_rng(0)
    steps = np.array([10, 20, 30, 40])
    straight = [(int(n), float(n**-0.5)) for n in steps]
    assert np.allclose(curve_noise([straight], True), 1e-6)
    noisy = [
        [(int(n), float(n**-0.5 * math.exp(0.1 * e))) for n, e in zip(steps, rng.standard_normal(4), strict=True)]
        for _ in range(400)
    ]
    estimate = curve_noise(noisy, True)
    assert np.mean(estimate) == pytest.approx(
        0.01, rel=0.35
    )  # drawn towards the pooled median, which lies below the mean
    quiet = curve_noise([straight, *noisy[:5]], True)
    assert quiet[0] < quiet[1:].max()


@pytest.mark.parametrize("name", ["bilevel", "bbo-printed"])
def test_the_width_of_ucb_takes_n_from_the_study(name: str) -> None:
    """beta_t depends on N, which the study knows; another one is refused by name."""
    outer = Outer(SPACE, find_recipe(name)(acquisition="ucb"), 0, FixedHorizon(6, 8))
    assert outer.recipe.options["horizon"] == 8
    assert Outer(SPACE, find_recipe(name)(acquisition="ucb", horizon=8), 0, FixedHorizon(6, 8)).recipe == outer.recipe
    with pytest.raises(ValueError, match="horizon=3000 is not the study's, 8"):
        Outer(SPACE, find_recipe(name)(acquisition="ucb", horizon=3000), 0, FixedHorizon(6, 8))


def test_a_return_rule_that_hands_back_a_worse_net_is_said() -> None:
    """Algorithm 2 returns the last setting, however bad its net is."""
    problem = Bilevel(init, step, validate)
    method = find_recipe("bbo-printed")(acquisition="ucb")
    result = minimize_bilevel(problem, SPACE, trials=8, horizon=8, method=method, seed=1, progress=False)
    least = min(result.runs, key=lambda r: r.loss)
    assert least.loss < result.value
    assert f"the method's return rule chose it; run {least.number} has {least.loss:.6g}" in str(result)
    best = minimize_bilevel(problem, SPACE, trials=8, horizon=8, method="random", seed=1, progress=False)
    assert "return rule" not in str(best)
