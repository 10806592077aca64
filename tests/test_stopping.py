"""`GapBelow`: stops on a certificate that holds twice in a row, never on a guess, in every door."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import optuna
import pytest

import regretless as rg
from regretless.baselines.random_search import RandomSearch
from regretless.certificate import Certificate
from regretless.stopping import STOP_NOTE, GapBelow

optuna.logging.set_verbosity(optuna.logging.ERROR)


def certified(gap: float) -> Certificate:
    return Certificate(gap, 0.0, gap, 0.05, "theory", ("a known norm",))


NONE = Certificate.none("the model does not fit", 0.05)


def replay(rule: GapBelow, certificates: list[Certificate], values: list[float] | None = None) -> int | None:
    """The number of evaluations after which the rule stops a run with these certificates; None if it never does."""
    for n in range(1, len(certificates) + 1):
        seen = (values or [float(i) for i in range(len(certificates))])[:n]
        trials = [SimpleNamespace(value=v) for v in [*seen, None]]  # a failed trial says nothing
        if rule(SimpleNamespace(trials=trials, certificate_at=lambda delta, n=n: certificates[n - 1])) is not None:
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
            reason = rule.check(SimpleNamespace(certificate_at=certificate), [float(i) for i in range(n)])
        assert (reason is not None) == (n >= 6)
    assert asked == pytest.approx([0.04, 0.04])  # a fifth of delta each


def test_the_reason_says_what_the_stop_rests_on() -> None:
    rule = GapBelow(0.1)
    replay(rule, [certified(0.05)] * 2)
    assert rule.reason is not None
    for words in ("2 evaluations", "0.05", "theory", "a known norm", "0.95"):
        assert words in rule.reason
    assert rule.certificate.certified


@pytest.mark.parametrize(
    "options", [{"eps": 0}, {"eps": float("nan")}, {"eps": "1"}, {"eps": 1, "delta": 1.0}, {"eps": 1, "every": 0}]
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        GapBelow(**options)


def shrinking(self: RandomSearch, delta: float) -> Certificate:
    return Certificate(1.0 / len(self.y), -1.0, 0.0, delta, "theory", ("a fake",))


@pytest.mark.parametrize("search", [rg.minimize, rg.maximize])
def test_as_a_stop_rule_of_minimize(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomSearch, "_certificate", shrinking)
    result = search(
        lambda x: x**2, {"x": rg.Float(-1, 2)}, trials=50, method="random", stop=GapBelow(0.1), progress=False
    )
    assert result.nfev == 11
    assert result.success
    assert "a fake" in result.message


def test_as_a_callback_of_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomSearch, "_certificate", shrinking)
    study = optuna.create_study(sampler=rg.Sampler("random", seed=0))

    def objective(trial: optuna.Trial) -> float:
        if trial.number == 3:
            raise ValueError
        return trial.suggest_float("x", -1, 2) ** 2

    study.optimize(objective, n_trials=50, callbacks=[GapBelow(0.1)], catch=(ValueError,))
    assert len(study.trials) == 12  # eleven values and a failure
    assert "a fake" in study.user_attrs[STOP_NOTE]


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
    assert "fitted" in result.message
    assert result.value <= 0.05 * 3.1
