"""Trials that cannot reach the front are stopped, and those that may are not."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import regretless as rg
from regretless.run.pruning import FrontPruner, _line

SPACE = {"rate": rg.Float(3e-4, 0.9, log=True), "width": rg.Int(3, 90)}
GOALS: dict[str, Any] = {"accuracy": "maximize", "ms": "minimize"}


def epoch(rate: float, width: int, t: int) -> dict[str, float]:
    end = 0.9 - 0.1 * (math.log10(rate) + 2) ** 2 + 0.001 * width
    return {"accuracy": end * (1 - 0.6 ** (t + 1)) + 0.002 * math.sin(t + 50 * rate), "ms": 0.3 * width + 2.0}


def searched(n: int, **options: Any) -> tuple[rg.Optimizer, list[int], list[int]]:
    """The run, the steps that its trials took, and which were stopped."""
    opt = rg.Optimizer(SPACE, "random", objectives=GOALS, seed=4, budget=n)
    pruner, took, stopped = FrontPruner(opt, **options), [], []
    for _ in range(n):
        trial = opt.ask()
        for t in range(12):
            values = epoch(**trial.params, t=t)
            if pruner.stops(trial, t, values):
                values = pruner.expected(trial)
                stopped.append(trial.number)
                break
        took.append(t + 1)
        opt.tell(trial, values)
    return opt, took, stopped


def covered(y: Any, rows: Any) -> bool:
    return bool((np.array(rows) >= y).all(axis=1).any())


def test_trials_that_are_stopped_would_not_have_reached_the_front() -> None:
    opt, took, stopped = searched(60)
    signs = np.array([1.0, -1.0])
    ends = [signs * list(epoch(**t.params, t=11).values()) for t in opt.trials]
    assert len(stopped) > 15
    assert sum(took) < 0.75 * 60 * 12
    wrong = [i for i in stopped if not covered(ends[i], [ends[j] for j in range(i)])]
    assert len(wrong) <= max(2, 0.1 * len(stopped))
    kept = {m.number for m in opt.recommend() and rg.Result.of(opt).front}
    whole = {i for i in range(60) if not covered(ends[i] + 1e-9, [ends[j] for j in range(60) if j != i])}
    assert len(whole & kept) >= 0.8 * len(whole)


def test_few_complete_trials_stop_nothing() -> None:
    assert searched(5)[2] == []
    assert searched(20, complete=20)[2] == []
    assert all(t >= 6 for t in searched(40, warmup=5)[1])


def test_what_is_told_is_the_line() -> None:
    x, y = np.array([1.0, 2.0, 4.0, 5.0, 9.0]), np.array([2.0, 4.5, 7.9, 10.2, 18.0])
    fit = stats.linregress(x, y)
    line = _line(x, y, 3.0)
    assert line.mean == pytest.approx(fit.intercept + 3 * fit.slope)
    left = y - fit.intercept - fit.slope * x
    spread = ((x - x.mean()) ** 2).sum()
    scale = math.sqrt((left**2).sum() / 3 * (1 + 1 / 5 + (3.0 - x.mean()) ** 2 / spread))
    assert line.scale == pytest.approx(scale)


def test_a_latency_alone_cannot_be_made_up_for() -> None:
    """Of equal accuracy, the slower trial has no chance from its first report on."""
    opt = rg.Optimizer({"width": rg.Int(3, 90)}, "random", objectives=GOALS, seed=0)
    pruner = FrontPruner(opt)
    for width in (10, 20, 30, 40, 50, 60):
        trial = opt.adopt({"width": width})
        for t in range(4):
            assert not pruner.stops(trial, t, {"accuracy": 0.1 * t, "ms": width}) or width > 50
        opt.tell(trial, {"accuracy": 0.3, "ms": width})
    slow, fast = opt.adopt({"width": 70}), opt.adopt({"width": 5})
    assert pruner.stops(slow, 0, {"accuracy": 0.0, "ms": 70})
    assert pruner.reaches(slow) == 0.0
    assert not pruner.stops(fast, 0, {"accuracy": 0.0, "ms": 5})
    assert pruner.expected(fast) == pytest.approx({"accuracy": 0.3, "ms": 5.0})


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="FrontPruner is for several objectives"):
        FrontPruner(rg.Optimizer(SPACE))
    opt = rg.Optimizer(SPACE, objectives=GOALS, seed=0)
    with pytest.raises(ValueError, match="chance"):
        FrontPruner(opt, 0.0)
    pruner, trial = FrontPruner(opt), opt.ask()
    assert not pruner.stops(trial, 0, {"accuracy": math.nan, "ms": 1.0})
    with pytest.raises(ValueError, match="2 objectives"):
        pruner.stops(trial, 1, (1.0,))


def test_a_report_that_is_no_number_spoils_no_line() -> None:
    opt = rg.Optimizer({"width": rg.Int(3, 90)}, "random", objectives=GOALS, seed=0)
    pruner = FrontPruner(opt)
    ended = [opt.adopt({"width": width}) for width in (10, 20, 30, 40, 50, 60)]
    for trial in ended:
        pruner.stops(trial, 0, {"accuracy": 0.0, "ms": trial.params["width"]})
        pruner.stops(trial, 1, {"accuracy": 0.1 if trial.number else math.nan, "ms": trial.params["width"]})
        pruner.stops(trial, 2, {"accuracy": 0.2, "ms": trial.params["width"]})
    for trial in ended:
        opt.tell(trial, {"accuracy": 0.3, "ms": trial.params["width"]})
    slow, new = opt.adopt({"width": 70}), opt.adopt({"width": 80})
    assert not pruner.stops(slow, 1, {"accuracy": math.nan, "ms": 70})
    assert pruner.stops(slow, 1, {"accuracy": 0.1, "ms": 70})
    assert pruner.expected(slow) == pytest.approx({"accuracy": 0.3, "ms": 70.0})
    assert pruner.reaches(new) == 1.0
    with pytest.raises(ValueError, match="trial 7 has reported no values"):
        pruner.expected(new)
