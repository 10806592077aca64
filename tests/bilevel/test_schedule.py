"""The schedule of a bilevel study: who climbs, who leads on, and budgets that are met to the step."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regretless.bilevel import plan
from regretless.bilevel.run import TrainingRun
from regretless.bilevel.schedule import FixedHorizon, Job, Promotion
from regretless.bilevel.study import validation_steps
from regretless.space.parameters import Float

SPACE = {"lr": Float(1e-3, 1.0, log=True), "start": Float(-4.0, 8.0)}


def runs_at(*losses: float, steps: int = 10) -> list[TrainingRun]:
    return [TrainingRun(i, steps=steps, curve=[(steps, v)], ends={steps: v}) for i, v in enumerate(losses)]


def test_the_top_third_climbs_the_best_first() -> None:
    schedule = Promotion(1000, (10, 30, 90))
    assert schedule.job(runs_at(0.5, 0.4), 20).run is None, "two runs have no top third yet"
    job = schedule.job(runs_at(0.5, 0.4, 0.6), 30)
    assert (job.run, job.until, job.why) == (1, 30, "promoted")
    climbed = runs_at(0.5, 0.4, 0.6)
    climbed[1].steps, climbed[1].ends[30] = 30, 0.2
    assert schedule.job(climbed, 50).run is None, "the top third has climbed already"
    frozen_out = runs_at(0.5, 0.4, 0.6)
    frozen_out[1].thawable = False
    assert schedule.job(frozen_out, 30).run is None


def test_the_last_part_trains_the_leaders() -> None:
    schedule = Promotion(100, (5, 15), final_share=0.5)
    job = schedule.job(runs_at(0.5, 0.4, 0.6, steps=15), 51)
    assert (job.run, job.until, job.why) == (1, 45, "leader")
    assert schedule.job(runs_at(0.5, 0.4, steps=15), 95).until == 20, "no more than is left"
    assert schedule.job(runs_at(0.5), 100) is None
    assert schedule.job(runs_at(math.inf), 60).run is None, "without a leader a new setting"


def test_a_leader_that_has_flattened_gives_way_to_the_search() -> None:
    schedule = Promotion(1000, (5, 15), final_share=0.5)

    def leader(gain: float) -> list[TrainingRun]:
        return [TrainingRun(0, steps=15, curve=[(5, 1.0), (15, 1.0 - gain)], ends={5: 1.0, 15: 1.0 - gain})]

    assert schedule.job(leader(0.2), 600).why == "leader"
    assert schedule.job(leader(0.01), 600).why == "new", "tripling the steps gained one per cent"
    assert schedule.job(leader(-0.2), 600).why == "new", "and here it lost"
    assert schedule.job(leader(0.01), 997).why == "leader", "what is left is too short for anything else"


def test_what_is_tried_after_the_leaders_have_flattened_starts_high_on_the_ladder() -> None:
    schedule = Promotion(1000, (5, 15, 45), final_share=0.5)

    def leader(gain: float, steps: int = 15) -> list[TrainingRun]:
        return [TrainingRun(0, steps=steps, curve=[(5, 1.0), (steps, 1.0 - gain)], ends={5: 1.0, steps: 1.0 - gain})]

    assert schedule.job(leader(0.01), 100) == Job(None, 5, "new"), "the search has only begun"
    assert schedule.job(leader(0.01), 600) == Job(None, 15, "new"), "short runs have told what they can"
    assert schedule.job(leader(0.01, 45), 100) == Job(None, 15, "new"), (
        "and so they have when the top of the ladder gains nothing"
    )
    assert schedule.job(leader(0.5, 45), 100) == Job(None, 5, "new")
    assert Promotion(1000, (5, 15, 45)).job(leader(0.01, 45), 999 - 5) == Job(None, 5, "new"), (
        "plain promotion knows no leaders"
    )
    assert schedule.job(leader(0.01), 990).why == "leader", "what is left is too short for another setting"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.floats(0, 0.9), st.lists(st.floats(0.01, 10), min_size=1, max_size=50))
def test_any_schedule_ends_exactly_at_its_budget(budget: int, share: float, draws: list[float]) -> None:
    schedule = Promotion(budget, plan(SPACE, budget_steps=budget).promotion.rungs, final_share=share)
    runs: list[TrainingRun] = []
    spent = 0
    while (job := schedule.job(runs, spent)) is not None:
        if job.run is None:
            runs.append(TrainingRun(len(runs)))
        run = runs[-1] if job.run is None else runs[job.run]
        assert job.until > run.steps
        spent += job.until - run.steps
        run.steps = job.until
        run.ends[job.until] = draws[(7 * run.number + run.steps) % len(draws)]
    assert spent == budget


def test_plan_prints_theory_beside_measurement_and_says_what_it_chose() -> None:
    chosen = plan(SPACE, budget_steps=6400, convex=True)
    assert (chosen.theory_convex.trials, chosen.theory_convex.horizon) == (80, 80)
    assert chosen.theory_nonconvex.trials == 19
    assert 5 <= chosen.measured.trials <= 10, "the measured rule for two hyper-parameters"
    assert 6 <= plan([(0, 1)] * 4, budget_steps=6400).measured.trials <= 21, "and for four"
    text = str(chosen)
    assert "N ~ T^2" in text
    assert "chosen: promotion" in text
    assert chosen.promotion.rungs[-1] == round(6400 / 6)


def test_validations_are_spread_over_the_stretch() -> None:
    assert validation_steps(0, 12, 4) == [3, 6, 9, 12]
    assert validation_steps(10, 12, 4) == [11, 12]


def test_fixed_and_promotion_take_whole_numbers() -> None:
    with pytest.raises(ValueError, match="trials"):
        FixedHorizon(0, 5)
    with pytest.raises(ValueError, match="reduction"):
        Promotion(10, (1,), reduction=1.0)
