"""`noisy=` and `repeat=` say what is known of noise; several measurements have a way to be told."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rg
from regretless.run.evaluation import Outcome, evaluate, mean_of

SPACE = {"x": rg.Float(-3, 17), "n": rg.Int(5, 800, log=True)}


class Noisy:
    """A bowl with noise that is counted."""

    def __init__(self, sd: float = 0.3) -> None:
        self.calls, self.sd, self.rng = 0, sd, np.random.default_rng(0)

    def __call__(self, x: float, n: int) -> float:
        self.calls += 1
        return (x - 2.2) ** 2 / 20 + (math.log(n) - 4) ** 2 / 4 + self.sd * float(self.rng.standard_normal())


@pytest.mark.parametrize("method", ["auto", "gp-ei", "gp-ucb"])
def test_stated_noise_makes_the_model_decide_from_the_first_value(method: str) -> None:
    opt = rg.Optimizer(SPACE, method, seed=0, noisy=True)
    fun = Noisy()
    for _ in range(12):
        trial = opt.ask()
        opt.tell(trial, fun(**trial.params))
    assert opt.method.noise(opt.history).shows
    assert not opt.predict(opt.recommend()).exact
    silent = rg.Optimizer(SPACE, method, seed=0)
    silent.tell(silent.ask(), 1.0)
    assert not silent.method.noise(silent.history).shows


def test_stated_exactness_evaluates_nothing_twice() -> None:
    labels = {"kind": rg.Choice(["a", "b", "c"]), "n": rg.Int(2, 9)}
    height = np.random.default_rng(0).standard_normal((3, 8))

    def rough(kind: str, n: int) -> float:
        return float(height["abc".index(kind), n - 2])

    exact = rg.minimize(rough, labels, trials=40, seed=0, noisy=False, progress=False)
    assert len(exact.trials) == 24
    assert len(rg.minimize(rough, labels, trials=40, seed=0, progress=False).trials) == 25


def test_an_option_of_the_method_goes_before(tmp_path: Path) -> None:
    exact = rg.Optimizer(SPACE, rg.GPUCB(noise_var=0.0), seed=0, noisy=True)
    assert exact.method.noise(exact.history).stated is False
    opt = rg.Optimizer(SPACE, seed=0, noisy=True)
    opt.save(tmp_path / "run")
    assert rg.Optimizer.load(tmp_path / "run").task.noisy is True
    assert "noisy = True, this run asks for None" in opt.task.differs_from(rg.Optimizer(SPACE, seed=0).task)
    wrong: Any = "yes"
    with pytest.raises(ValueError, match="noisy must be one of None, True, False"):
        rg.Optimizer(SPACE, noisy=wrong)


def test_repeated_calls_are_one_trial_whose_variance_is_that_of_the_mean() -> None:
    fun = Noisy(0.3)
    result = rg.minimize(fun, SPACE, trials=25, repeat=4, seed=0, progress=False)
    assert fun.calls == 100
    assert len(result.trials) == 25
    variances = [t.var for t in result.trials]
    assert variances[-1] == pytest.approx(0.3**2 / 4, rel=0.5)
    assert np.std(variances[15:]) < 0.5 * np.std([np.var(fun.rng.normal(0, 0.3, 4), ddof=1) / 4 for _ in range(200)])


@pytest.mark.parametrize("workers", [1, 3])
def test_a_resumed_run_with_repetitions_is_a_whole_one(workers: int, tmp_path: Path) -> None:
    def noise_of(x: float, n: int) -> float:  # its calls differ by their order at a setting alone
        calls[x] = calls.get(x, 0) + 1
        return (x - 2.2) ** 2 + n / 800 + math.sin(1e6 * x + calls[x])

    options: dict[str, Any] = {"repeat": 3, "seed": 0, "progress": False, "n_jobs": workers}
    calls: dict[float, int] = {}
    if workers > 1:
        assert len(rg.minimize(noise_of, SPACE, trials=8, **options).trials) == 8
        return
    whole = rg.minimize(noise_of, SPACE, trials=14, **options)
    calls = {}
    file = tmp_path / "run.npz"
    rg.minimize(noise_of, SPACE, trials=14, checkpoint=file, callback=lambda opt, t: t.number == 5, **options)
    again = rg.minimize(noise_of, SPACE, trials=14, checkpoint=file, **options)
    assert [(t.params, t.value, t.var) for t in again.trials] == [(t.params, t.value, t.var) for t in whole.trials]


def test_a_mean_takes_everything_that_was_told() -> None:
    told = [Outcome(v, 0.5, constraints={"size": v}, cost=2.0, seconds=1.0) for v in (1.0, 3.0)]
    assert mean_of(told) == Outcome(2.0, 0.25, constraints={"size": 2.0}, cost=4.0, seconds=2.0)
    plain = mean_of([Outcome(v, constraints=[v, 1.0]) for v in (1.0, 3.0)])
    assert plain == Outcome(2.0, constraints=[2.0, 1.0], spread=(1.0,))
    several = mean_of([Outcome((v, -v), (None, None)) for v in (1.0, 3.0)])
    assert (several.value, several.var, several.spread) == ((2.0, -2.0), None, (1.0, 1.0))


def test_a_repetition_that_fails_is_a_failure() -> None:
    values = iter([1.0, math.nan, 2.0])
    found = evaluate(lambda: next(values), {}, Exception, repeat=3)
    assert found.value is None
    assert next(values) == 2.0
    with pytest.raises(ValueError, match="repeat must be a whole number of at least 1, got 0"):
        rg.minimize(Noisy(), SPACE, trials=3, repeat=0, progress=False)


def test_several_objectives_are_repeated_too() -> None:
    rng = np.random.default_rng(0)
    result = rg.minimize(
        lambda x, n: {"a": x + rng.normal(), "b": -x + 0.1 * rng.normal()}, SPACE, trials=12, repeat=5, seed=0,
        objectives=["a", "b"], progress=False,
    )  # fmt: skip
    a, b = result.trials[-1].variances
    assert a > 10 * b > 0


@pytest.mark.parametrize("given", [[0.5, 0.6, 0.55], np.array([0.5, 0.6, 0.55]), (0.5, 0.6, 0.55)])
def test_several_measurements_are_answered_with_how_to_tell_them(given: Any) -> None:
    opt = rg.Optimizer(SPACE, seed=0)
    trial = opt.ask()
    with pytest.raises(ValueError, match=r"tell\(trial, 0\.55, var=0\.000833\)"):
        opt.tell(trial, given)
    opt.tell(trial, 0.55, var=0.000833)
    with pytest.raises(ValueError, match=r"tell\(adopt\(trial\.params\), value\)"):
        opt.tell(trial, 0.6)
    opt.tell(opt.adopt(trial.params), 0.6)
    assert opt.predict(trial.params).values == 2
    with pytest.raises(ValueError, match=r"got \['a'\]$"):
        opt.tell(opt.ask(), ["a"])


def test_the_bar_says_what_the_trials_that_are_left_would_bring(capsys: pytest.CaptureFixture[str]) -> None:
    """An outlook takes a fiftieth of the time of a run, so a run needs some time before it is shown."""

    def slow(x: float, n: int) -> float:
        time.sleep(0.02)
        return (x - 2.2) ** 2 / 20 + (math.log(n) - 4) ** 2 / 4

    rg.minimize(slow, SPACE, trials=40, seed=0)
    assert re.search(r"trials \d+ to 40: (about|most likely no gain)", capsys.readouterr().err)


def test_print_leads_with_what_to_do() -> None:
    """The setting and its value, then the outlook, settings that are as good, advice, and what is certified last."""
    result = rg.minimize(Noisy(0.3), SPACE, trials=30, seed=0, progress=False)
    text = str(result)
    order = ["best value seen", "20 more trials", "cannot be told apart", "The same setting gave values that are"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "because the values are noisy; measured there" in text
    assert result.said[0] == str(result.outlook)
    assert all(words in result._repr_html_() for words in ("20 more trials", "cannot be told apart"))
    exact = rg.minimize(
        lambda x, n: (x - 2.2) ** 2, {"x": SPACE["x"], "n": rg.Int(3, 9)}, trials=6, seed=0, progress=False
    )
    assert "not certified" not in str(exact)
    assert "not certified" in str(exact.certificate)
