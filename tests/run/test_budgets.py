"""Budgets of cost: told and measured costs are added up, over sessions, in every door that knows them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from click.testing import CliRunner

import regretless as rg
from regretless.cli import main
from regretless.doors.optuna.runner import tune_in_storage
from regretless.optimizer import Optimizer, Trial

optuna.logging.set_verbosity(optuna.logging.ERROR)

BOX = {"x": rg.Float(3.0, 5.5), "lr": rg.Float(1e-4, 1.0, log=True)}


def priced(x: float, lr: float) -> rg.Value:
    return rg.Value(math.nan if x > 5 else x, cost=2.5)


def go(trials: int, file: Any, stop: Any, **options: Any) -> rg.Result:
    return rg.minimize(
        priced, BOX, trials=trials, method="random", seed=3, progress=False, checkpoint=file, stop=stop, **options
    )


@pytest.mark.filterwarnings("ignore:trial")
def test_the_trial_that_reaches_the_budget_is_the_last() -> None:
    result = go(50, None, rg.StopWhen(cost=26.0))
    assert len(result.trials) == 11  # 27.5; ten trials cost 25
    assert any(t.value is None and t.cost == 2.5 for t in result.trials)  # a failure that names its cost is paid too
    assert "cost 27.5 of the 26" in result.message
    assert result.success
    assert result.optimizer.task.probes == 0.0  # nothing is certified, so nothing is probed


@pytest.mark.filterwarnings("ignore:trial")
def test_costs_are_added_up_over_sessions(tmp_path: Any) -> None:
    whole = go(50, tmp_path / "a", rg.StopWhen(cost=26.0))
    go(4, tmp_path / "b", rg.StopWhen(cost=26.0))
    again = go(50, tmp_path / "b", rg.StopWhen(cost=26.0))
    assert [t.params for t in again.trials] == [t.params for t in whole.trials]
    assert again.message == whole.message
    assert go(50, tmp_path / "b", rg.StopWhen(cost=26.0)).nfev == whole.nfev  # it stays stopped
    assert [t.cost for t in Optimizer.load(tmp_path / "b").trials] == [2.5] * 11


def test_measured_seconds_are_costs_where_the_run_says_so() -> None:
    opt, rule = Optimizer(BOX, method="gp-ei", seed=0, cost="seconds"), rg.StopWhen(cost=10.0)
    for n in range(1, 5):
        opt.tell(opt.ask(), 1.0 + n, seconds=3.0)
        assert (rule(opt) is not None) == (n == 4)
    opt.tell(opt.ask(), failed=True)  # nobody told its cost
    assert "cost 12" in (rule(opt) or "")


@pytest.mark.filterwarnings("ignore:trial")
def test_a_failure_needs_neither_constraints_nor_a_cost() -> None:
    """An evaluation that raises an error knows neither."""

    def f(x: float, lr: float) -> rg.Value:
        if x > 4.6:
            raise ArithmeticError
        return rg.Value(x, constraints=[3.3 - x], cost=x)

    result = rg.minimize(f, BOX, trials=9, method="gp-ei", seed=1, constraints=1, cost="told", progress=False)
    assert {t.state for t in result.trials} == {"done", "failed"}


def test_costs_nobody_told_are_named() -> None:
    with pytest.raises(ValueError, match=r"evaluation 0 told none: return Value\(value, cost="):
        rg.minimize(lambda x, lr: x, BOX, trials=5, method="random", seed=0, progress=False, stop=rg.StopWhen(cost=3.0))
    for bad in (0, -1.0, math.inf, "3", True):
        with pytest.raises(ValueError, match="cost must be a number in"):
            rg.StopWhen(cost=bad)
    assert repr(rg.StopWhen(cost=3.0, target=1.0)) == "StopWhen(target=1.0, cost=3.0)"


def test_budgets_combine() -> None:
    told = [(5.0, 1.0), (4.0, 1.5), (None, None)]
    states = ["done", "done", "failed"]
    trials = [Trial(i, {}, states[i], value, cost=cost) for i, (value, cost) in enumerate(told)]
    run = SimpleNamespace(trials=trials, directions=("minimize",))
    assert rg.StopWhen(cost=2.0, target=4.0).check(run) == (
        "stopped after 3 trials: the target 4 was reached, and the trials cost 2.5 of the 2 that they may"
    )
    assert (rg.StopWhen(cost=2.6) | rg.StopWhen(target=1.0)).check(run) is None


def test_in_a_storage_and_as_a_callback(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/study.db"

    def paid(x: float, lr: float) -> rg.Value:
        return rg.Value(x, cost=4.0)

    for _ in range(2):
        study = tune_in_storage(
            paid, BOX, trials=20, storage=url, study="s", method="random", seed=0, stop=rg.StopWhen(cost=9.0),
            progress=False,
        )  # fmt: skip
        assert len(study.trials) == 3
    plain = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))

    def objective(trial: optuna.Trial) -> float:
        trial.set_user_attr("regretless:cost", 4.0)
        return trial.suggest_float("x", 3.0, 5.5)

    plain.optimize(objective, n_trials=20, callbacks=[rg.StopWhen(cost=9.0)])
    assert len(plain.trials) == 3


def test_from_the_shell(tmp_path: Any) -> None:
    (tmp_path / "train.py").write_text(
        "import regretless as rg\ndef loss(x):\n    return rg.Value((x - 4) ** 2, cost=4.0)\n"
    )
    (tmp_path / "space.toml").write_text('x = {type = "float", low = 3.0, high = 5.5}\n')
    asked = ["tune", f"{tmp_path}/train.py:loss", "--space", f"{tmp_path}/space.toml", "--trials", "30", "--seed", "0"]
    done = CliRunner().invoke(main, [*asked, "--method", "random", "--until-cost", "9", "--until-seconds", "60"])
    assert done.exit_code == 0, done.output
    assert "the trials cost 12 of the 9 that they may" in done.output
