"""`GapBelow`: stops on a certificate that holds twice in a row, never on a guess, in every door."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest

import regretless as rg
from regretless.certificate import Certificate
from regretless.classics.random_search import RandomSearch
from regretless.doors.optuna.rules import STOP_NOTE, STOP_STATE, StudyRun, check_study
from regretless.doors.optuna.trials import kept
from regretless.history import History
from regretless.optimizer import Optimizer, Trial
from regretless.outlook.stopping import GapBelow, StopRule, StopWhen, range_of

optuna.logging.set_verbosity(optuna.logging.ERROR)


def certified(gap: float, kind: Any = "fitted") -> Certificate:
    return Certificate(gap, 0.0, gap, 0.05, kind, ("a known norm",))


NONE = Certificate.none("the model does not fit", 0.05)


def seen_by_rules(ended: list[float | None], direction: str = "minimize", certificate: Any = None) -> Any:
    """A run without constraints as rules see it; `certificate` answers them."""
    trials = [Trial(i, {}, "failed" if value is None else "done", value) for i, value in enumerate(ended)]
    return SimpleNamespace(trials=trials, directions=(direction,), certificate_at=certificate)


def replay(rule: GapBelow, certificates: list[Certificate], values: list[float] | None = None) -> int | None:
    """The number of evaluations after which the rule stops a run with these certificates; None if it never does."""
    for n in range(1, len(certificates) + 1):
        seen = (values or [float(i) for i in range(len(certificates))])[:n]
        ended = [*seen, None]  # a failed trial says nothing
        run = seen_by_rules(ended, certificate=lambda delta, n=n: certificates[n - 1])
        if rule.check(run) is not None:
            return n
    return None


@pytest.mark.parametrize(
    ("certificates", "stops"),
    [
        ([certified(1.0), certified(0.1), certified(0.1)], 3),
        ([certified(0.1), certified(0.1)], 2),
        ([certified(0.1), certified(1.0), certified(0.1), certified(0.05)], 4),
        ([certified(0.1), NONE, certified(0.1), certified(1.0)], None),
        ([NONE] * 6, None),
        ([certified(0.11)] * 6, None),
    ],
)
def test_it_takes_two_certified_checks_in_a_row(certificates: list[Certificate], stops: int | None) -> None:
    assert replay(GapBelow(0.1), certificates) == stops


def test_a_gap_of_zero_that_is_not_certified_never_stops() -> None:
    lying = Certificate(0.0, 0.0, 0.0, 0.05, "none", reason="guessed")
    assert replay(GapBelow(0.1), [lying] * 10) is None


def test_a_fitted_gap_stops_only_where_every_place_has_a_value() -> None:
    sparse, dense = replace(certified(0.05), density=0.9), replace(certified(0.05), density=1.0)
    assert replay(GapBelow(0.1), [sparse] * 6) is None
    assert replay(GapBelow(0.1), [dense, sparse, dense, dense]) == 4
    assert replay(GapBelow(0.1), [certified(0.05, "theory")]) == 1  # a proof needs none


def test_a_rule_that_ended_one_run_starts_the_next_afresh() -> None:
    rule = GapBelow(0.1)
    assert replay(rule, [certified(1.0), certified(0.1), certified(0.1)]) == 3
    assert replay(rule, [certified(1.0), certified(0.1), certified(1.0), certified(0.1), certified(0.1)]) == 5
    assert replay(rule, [certified(1.0)] * 8) is None


def test_relative_gaps_are_shares_of_the_range_seen() -> None:
    values = [0.0, 10.0, 5.0, 200.0, 7.0, 8.0]
    assert (
        replay(GapBelow(0.05, relative=True), [certified(1.0)] * 6, values) == 5
    )  # 1 is 5 % of 200, first seen at the fourth value
    assert replay(GapBelow(0.05), [certified(1.0)] * 6, values) is None


def test_checks_can_be_rarer_and_asked_twice() -> None:
    asked = []

    def certificate(delta: float) -> Certificate:
        asked.append(delta)
        return certified(0.01)

    rule = GapBelow(0.1, delta=0.2, every=3)
    for n in range(1, 8):
        for _ in range(2):  # a caller that polls must not count one certificate twice
            reason = rule.check(seen_by_rules([float(i) for i in range(n)], certificate=certificate))
        assert (reason is not None) == (n >= 6)
    assert asked == pytest.approx([0.04, 0.04])  # a fifth of delta each


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("fitted", ("2 evaluations", "By the model, at nominal probability 0.95", "0.05", "not proven")),
        ("theory", ("1 evaluations", "With probability 0.95", "0.05", "a known norm")),
    ],
)
def test_the_reason_says_what_the_stop_rests_on(kind: str, words: tuple[str, ...]) -> None:
    """Only what is proven is said to hold with a probability; a proof needs no second look."""
    rule = GapBelow(0.1)
    replay(rule, [certified(0.05, kind)] * 2)
    assert rule.reason is not None
    assert all(word in rule.reason for word in words)
    assert ("With probability" in rule.reason) == (kind == "theory")
    assert rule.certificate.certified


def test_theory_spends_a_summable_delta() -> None:
    asked: list[float] = []

    def certificate(delta: float) -> Certificate:
        asked.append(delta)
        return certified(1.0 if delta < 0.1 * 0.2 else 0.01, "theory")  # small enough only where much is spent

    rule = GapBelow(0.1, delta=0.1)
    for n in range(1, 7):
        run = seen_by_rules([float(i) for i in range(n)], certificate=certificate)
        assert rule.check(run) is None or n < 3
    looks = asked[1::2]
    assert looks[:2] == pytest.approx([0.1 * 6 / math.pi**2, 0.1 * 6 / math.pi**2 / 4])
    assert sum(0.1 * 6 / math.pi**2 / k**2 for k in range(1, 10_000)) <= 0.1


@pytest.mark.parametrize(
    "options",
    [{"gap": 0}, {"gap": math.nan}, {"gap": "1"}, {"gap": 1, "delta": 1.0}, {"gap": 1, "every": 0}, {}, {"share": 1.0}],
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        GapBelow(**options)


def shrinking(self: RandomSearch, history: History, delta: float) -> Certificate:
    return Certificate(1.0 / len(history), -1.0, 0.0, delta, "fitted", ("a fake",))


@pytest.mark.parametrize("search", [rg.minimize, rg.maximize])
def test_as_a_stop_rule_of_minimize(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomSearch, "_certificate", shrinking)
    result = search(
        lambda x: x**2, {"x": rg.Float(-1, 2)}, trials=50, method="random", stop=GapBelow(0.1), progress=False
    )
    assert result.nfev == 11
    assert result.success
    assert "By the model" in result.message


def test_as_a_callback_of_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomSearch, "_certificate", shrinking)
    study = optuna.create_study(sampler=rg.Sampler("random", seed=0))

    def objective(trial: optuna.Trial) -> float:
        if trial.number == 3:
            raise ValueError
        return trial.suggest_float("x", -1, 2) ** 2

    study.optimize(objective, n_trials=50, callbacks=[GapBelow(0.1)], catch=(ValueError,))
    assert len(study.trials) == 12  # eleven values and a failure
    assert "By the model" in study.user_attrs[STOP_NOTE]


def test_a_sampler_without_certificates_is_refused() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    with pytest.raises(TypeError, match="needs a sampler that gives certificates"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1, callbacks=[GapBelow(0.1)])


def test_on_a_fitted_model() -> None:
    """A smooth bowl is certified before the budget is spent, and the gap is as small as promised."""
    result = rg.minimize(
        lambda x, y: (x - 0.3) ** 2 + (y + 0.2) ** 2, {"x": rg.Float(-1, 1), "y": rg.Float(-1, 1)}, trials=120,
        method=rg.GPUCB(verify=2), seed=0,
        stop=GapBelow(0.05, relative=True), progress=False,
    )  # fmt: skip
    assert result.success
    assert result.nfev < 120
    assert "By the model" in result.message
    assert result.value <= 0.05 * 3.1


# ---------------------------------------------------------------- a known bound, shares, and other reasons


BOX = {"x": rg.Float(3.0, 5.5), "lr": rg.Float(1e-4, 1.0, log=True)}


def test_a_bound_that_is_reached_stops_at_once() -> None:
    result = rg.maximize(
        lambda x, lr: 1.0 if x > 4 else 0.2, BOX, trials=50, method="random", seed=1, ceiling=1.0, progress=False,
        noisy=False, stop=GapBelow(0.01),
    )  # fmt: skip
    assert result.value == 1.0
    assert result.nfev == next(i for i, t in enumerate(result.trials, 1) if t.value == 1.0)
    assert "because no value lies above ceiling=1" in result.message
    assert "probability" not in result.message
    assert result.certificate.kind == "theory"
    assert (result.certificate.gap, result.certificate.upper) == (0.0, 1.0)


def test_one_trial_is_one_trial() -> None:
    result = rg.minimize(lambda x, lr: x, BOX, trials=5, method="random", stop=StopWhen(target=1e9), progress=False)
    assert result.message.startswith("stopped after 1 trial: ")


def test_both_parts_must_hold() -> None:
    options: dict[str, Any] = {"trials": 80, "method": "random", "seed": 1, "floor": 3.0, "progress": False}
    options["noisy"] = False
    result = rg.minimize(lambda x, lr: x, BOX, stop=GapBelow(3.0, share=0.3), **options)
    assert result.optimizer.task.probes == 0.2  # a rule that asks for a share brings its probes
    spent = 0.8 * 0.05 / 2 * 6 / math.pi**2  # a fifth is left for what certificates say at other moments
    needed = math.ceil(math.log(spent) / math.log(0.7))
    assert result.nfev == 5 * needed
    assert "With probability 0.95 at most 30 % of the search space" in result.message.replace("29 %", "30 %")
    assert "at most" in result.message.split("probes).")[1]
    assert not rg.minimize(lambda x, lr: x, BOX, stop=GapBelow(1e-9, share=0.3), **options).message.startswith("stop")


@pytest.mark.parametrize(
    ("rule", "values", "stops"),
    [
        (StopWhen(no_improvement=3), [5.0, 4.0, 4.0, 6.0, None], 5),
        (StopWhen(no_improvement=3), [5.0, 4.0, 4.0, 6.0, 3.0, 3.0, 3.0], None),
        (StopWhen(target=4.0), [5.0, None, 4.0], 3),
        (StopWhen(target=3.0), [5.0, 4.0], None),
        (StopWhen(target=9.0, no_improvement=2), [10.0, 11.0, 12.0], 3),
        (StopWhen(target=4.5) & StopWhen(no_improvement=2), [5.0, 6.0, 7.0, 4.0, 8.0, 8.0], 6),
        (StopWhen(target=4.5) | StopWhen(no_improvement=2), [5.0, 6.0, 7.0, 4.0], 3),
    ],
)
def test_stop_when(rule: StopRule, values: list[float | None], stops: int | None) -> None:
    for direction, sign in (("minimize", 1.0), ("maximize", -1.0)):
        if sign < 0 and "target" in repr(rule):
            continue  # targets have a direction of their own
        rule.load({})
        turned = [None if v is None else sign * v for v in values]
        found = [rule.check(seen_by_rules(turned[:n], direction)) for n in range(1, len(values) + 1)]
        assert next((n for n, reason in enumerate(found, 1) if reason), None) == stops


def test_targets_of_maximisations() -> None:
    rule = StopWhen(target=4.0)
    assert rule.check(seen_by_rules([3.0], "maximize")) is None
    assert "target 4" in (rule.check(seen_by_rules([3.0, 4.5], "maximize")) or "")


def test_time_is_counted_over_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    rule, run = StopWhen(seconds=100.0), seen_by_rules([1.0], "minimize")
    assert rule.check(run) is None
    clock[0] += 70
    again = StopWhen(seconds=100.0)
    again.load(rule.state())
    assert again.check(run) is None
    clock[0] += 29
    assert again.check(run) is None
    clock[0] += 2
    assert "100 seconds" in (again.check(run) or "")


def test_counts_travel_with_checkpoints(tmp_path: Any) -> None:
    """A combination that is interrupted stops where an uninterrupted one does, and stays stopped."""

    def stop() -> StopRule:
        return (GapBelow(1e-6, share=0.4) & StopWhen(no_improvement=2)) | StopWhen(no_improvement=12)

    def f(x: float, lr: float) -> float:
        return abs(x - 4)

    def go(trials: int, file: Any) -> rg.Result:
        return rg.minimize(
            f, BOX, trials=trials, method="random", seed=2, progress=False, stop=stop(), checkpoint=file, floor=-1.0
        )

    whole = go(60, tmp_path / "a")
    go(9, tmp_path / "b")
    assert whole.success
    assert 9 < whole.nfev < 60
    assert go(60, tmp_path / "b").message == whole.message
    assert go(60, tmp_path / "b").nfev == whole.nfev


def test_another_floor_is_another_run(tmp_path: Any) -> None:
    options: dict[str, Any] = {"trials": 3, "method": "random", "seed": 2, "progress": False}
    rg.minimize(lambda x, lr: x, BOX, checkpoint=tmp_path / "a", floor=0.0, **options)
    for other in ({"floor": 0.5}, {"floor": 0.0, "probes": 0.2}, {}):
        with pytest.raises(ValueError, match=r"it holds (floor = 0\.0|probes = 0\.0), this run asks for"):
            rg.minimize(lambda x, lr: x, BOX, checkpoint=tmp_path / "a", **options, **other)


def test_as_callbacks_of_optuna_they_keep_their_counts() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    values = iter([5.0, 4.0, 4.0, 4.0, 4.0, 1.0])
    for _ in range(2):  # two sessions, each with a rule of its own
        study.optimize(lambda trial: next(values), n_trials=3, callbacks=[StopWhen(no_improvement=3)])
    assert len(study.trials) == 5
    assert "improved nothing" in study.user_attrs[STOP_NOTE]
    assert kept(study)[STOP_STATE]["rule"] == "StopWhen(no_improvement=3)"


@pytest.mark.parametrize("options", [{}, {"no_improvement": 0}, {"target": math.inf}, {"seconds": 0}])
def test_bad_reasons_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs"):
        StopWhen(**options)
    with pytest.raises(TypeError, match="combine with rules"):
        StopWhen(target=1.0) | print  # type: ignore[operator]


# ---------------------------------------------------------------- what the user knows


@pytest.mark.parametrize("search", [rg.minimize, rg.maximize])
def test_the_gap_never_exceeds_what_is_possible(search: Any) -> None:
    low = search is rg.minimize
    sign = 1.0 if low else -1.0
    bound = {"noisy": False, **({"floor": 2.9} if low else {"ceiling": -2.9})}
    result = search(lambda x, lr: sign * x, BOX, trials=12, method="gp-ucb", seed=0, progress=False, **bound)
    certificate = result.certificate
    assert certificate.gap <= abs(result.value - sign * 2.9)
    assert min(abs(certificate.lower), abs(certificate.upper)) >= 2.9
    assert certificate.lower <= certificate.upper
    with pytest.raises(ValueError, match="the bound that helps"):
        Optimizer(BOX, direction="minimize" if low else "maximize", **({"ceiling": 1.0} if low else {"floor": 1.0}))


def test_a_bound_that_was_wrong_is_said_once_and_not_used() -> None:
    opt = Optimizer(BOX, method="random", seed=0, floor=4.0, noisy=False)
    opt.tell(opt.ask(), 4.5)
    assert opt.certificate.gap == 0.5
    opt.tell(opt.ask(), 3.0, var=0.1)  # noise explains it
    with pytest.warns(RuntimeWarning, match=r"floor=4 was wrong: a value of 3 was told"):
        opt.tell(opt.ask(), 3.0)
    opt.tell(opt.ask(), 2.0)
    assert not opt.certificate.certified
    for bad in (math.nan, math.inf, "0", True):
        with pytest.raises(ValueError, match="floor must be a number in"):
            Optimizer(BOX, floor=bad)


def test_what_breaks_a_constraint_reaches_no_target_and_improves_nothing() -> None:
    """Feasible are numbers of at least 2; the recommended one would be no reason for the words of the rule."""
    opt = Optimizer({"x": rg.Float(-5, 10)}, method="random", constraints=["low"], seed=0)
    study = optuna.create_study(sampler=rg.Sampler("random", seed=0))
    for x in (5.0, -4.0, 7.0, 3.0, -1.0):
        opt.tell(opt.adopt({"x": x}), x, constraints={"low": 2 - x})
        study.enqueue_trial({"x": x})
    study.optimize(lambda t: t.set_constraint("low", 2 - t.suggest_float("x", -5, 10)) or t.params["x"], n_trials=5)
    stalled = StopWhen(no_improvement=1), "the last trial improved nothing"
    met = StopWhen(target=3.0), "the target 3 was reached"
    for rule, reason in [(StopWhen(target=2.9), None), met, (StopWhen(no_improvement=2), None), stalled]:
        expected = reason and f"stopped after 5 trials: {reason}"
        assert rule(opt) == expected
        assert check_study(rule, study) == expected


def test_a_penalty_does_not_widen_the_range() -> None:
    """An infeasible setting often gets a huge value; a share of that is no small gap."""
    run = seen_by_rules([5.0, 1e6, 4.0, 4.5], certificate=lambda delta: certified(0.8))
    run.trials[1].constraints = (1.0,)
    rule = GapBelow(0.5, relative=True)
    assert rule.check(run) is None
    assert rule.state()["held"] == 0
    run.trials[1].constraints = ()
    assert range_of(run) == 1e6 - 4.0


def test_an_infinite_value_of_a_study_stops_nothing() -> None:
    """Optuna completes trials with infinite values: no target is reached by one, and no gap is small beside it."""
    for direction, infinite in (("minimize", math.inf), ("maximize", math.inf), ("maximize", -math.inf)):
        study = optuna.create_study(direction=direction, sampler=rg.Sampler("random", seed=0))

        def objective(trial: optuna.Trial, bad: float = infinite) -> float:
            x = trial.suggest_float("x", 3, 5)
            return bad if trial.number == 1 else x

        study.optimize(objective, n_trials=4)
        run = StudyRun(study)
        assert [t.value is None for t in run.trials] == [False, True, False, False]
        assert check_study(StopWhen(target=9.0 if direction == "maximize" else 1.0), study) is None
        wide = seen_by_rules([t.value for t in run.trials], direction, lambda delta: certified(1e6))
        rule = GapBelow(0.5, relative=True, every=2)
        assert rule.check(wide) is None
        assert rule.state()["held"] == 0


def test_a_rule_sees_the_trials_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker may end a trial while a rule compares values, constraints and costs."""
    study = optuna.create_study(sampler=rg.Sampler("random", seed=0))
    get_trials, uniform = study.get_trials, optuna.distributions.FloatDistribution(3, 5)

    def with_another(**options: Any) -> list[optuna.trial.FrozenTrial]:
        trials = get_trials(**options)
        attrs = {"regretless:cost": 1.0}
        study.add_trial(
            optuna.trial.create_trial(params={"x": 4.0}, distributions={"x": uniform}, value=4.0, user_attrs=attrs)
        )
        return trials

    study.add_trial(optuna.trial.create_trial(value=7.0, user_attrs={"regretless:cost": 1.0}))
    monkeypatch.setattr(study, "get_trials", with_another)
    assert check_study(StopWhen(target=1.0, cost=100.0), study) is None


# ---------------------------------------------------------------- values that may be noisy


NOISE: dict[str, Any] = {
    "a factor": lambda x, rng: x * rng.exponential(),
    "often nearly nothing": lambda x, rng: x * (0.001 if rng.random() < 0.2 else 1.2),
    "none": lambda x, rng: x,
}


@pytest.mark.parametrize("method", ["random", "sobol", "auto", "gp-ei"])
@pytest.mark.parametrize("kind", NOISE)
def test_values_that_may_be_noisy_prove_nothing(kind: str, method: str) -> None:
    """One value of each setting shows no noise, and a floor is close to a lucky one."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        result = rg.minimize(
            lambda x: NOISE[kind](x, rng), {"x": rg.Float(0.0, 1.0)}, trials=18, seed=seed, method=method, floor=0.0,  # noqa: B023
            progress=False,
        )  # fmt: skip
        assert result.certificate.kind != "theory", str(result.certificate)
        assert not result.certificate.certain
        if method == "random":
            assert "floor=0 proves something only if values hold no noise" in str(result.certificate)


@pytest.mark.parametrize(
    "promise", [{"noisy": False}, {"method": rg.Auto(noisy=False)}, {"method": rg.GPUCB(noise_var=0.0)}]
)
def test_values_that_were_said_to_be_exact_prove_a_gap(promise: dict[str, Any]) -> None:
    options: dict[str, Any] = {"trials": 12, "seed": 1, "method": "random", "floor": 3.0, "probes": 0.5} | promise
    result = rg.minimize(lambda x, lr: x, BOX, progress=False, **options)
    assert (result.certificate.kind, result.certificate.certain) == ("theory", True)
    assert result.certificate.gap == pytest.approx(result.value - 3.0)
    assert "hold no noise" not in str(result.certificate)


def test_a_share_names_what_it_supposes() -> None:
    result = rg.minimize(lambda x, lr: x, BOX, trials=12, seed=1, method="random", probes=0.5, progress=False)
    assert result.certificate.share_sentence().endswith("uniform probes), if values hold no noise.")
    noisy = rg.minimize(
        lambda x, lr: rg.Value(x, var=1e-6), BOX, trials=12, seed=1, method="random", probes=0.5, progress=False
    )
    assert noisy.certificate.share is not None
    assert "if values" not in str(noisy.certificate)


def test_a_space_seen_whole_proves_something_of_exact_values_alone() -> None:
    for promise, gap in (None, math.inf), (False, 0.0):
        opt = Optimizer({"k": rg.Int(3, 8)}, method="random", seed=0, noisy=promise)
        for k in range(3, 9):
            opt.tell(opt.adopt({"k": k}), float(k))
        assert opt.certificate.gap == gap
        assert opt.certificate.share == 0.0
        assert str(opt.certificate).count("hold no noise") == (1 if promise is None else 0)
