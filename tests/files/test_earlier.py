"""What was evaluated before a run, and asks with some parameters fixed."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import regretless as rg
from regretless.run.result import observed

OLD: dict[str, Any] = {"lr": rg.Float(1e-5, 1e-1, log=True), "n": rg.Int(2, 9), "act": rg.Choice(["relu", "tanh"])}
NEW: dict[str, Any] = {**OLD, "lr": rg.Float(1e-3, 1e-1, log=True), "n": rg.Int(4, 12), "drop": rg.Float(0, 0.5)}

RANGE = optuna.distributions.FloatDistribution(3, 8)


def loss(lr: float, n: int, act: str, drop: float = 0.0) -> float:
    return (math.log10(lr) + 1.7) ** 2 + abs(n - 6) / 10 + 0.3 * (act == "tanh") + drop


@pytest.fixture(scope="module")
def old() -> rg.Result:
    return rg.minimize(loss, OLD, trials=16, seed=0, method="sobol", progress=False)


def sources(old: rg.Result, tmp_path: Path) -> dict[str, Any]:
    old.optimizer.save(tmp_path / "run")
    rows = [f"{t.params['lr']!r},{t.params['n']},{t.params['act']},{t.value!r}" for t in old.trials]
    (tmp_path / "t.csv").write_text("\n".join(["lr,n,act,value", *rows, "0.01,5,relu,"]))
    url = f"sqlite:///{tmp_path}/s.db"
    study = optuna.create_study(storage=url)
    for t in old.trials:
        distributions = {
            "lr": optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True),
            "n": optuna.distributions.IntDistribution(2, 9),
            "act": optuna.distributions.CategoricalDistribution(["relu", "tanh"]),
        }
        study.add_trial(optuna.create_trial(params=t.params, distributions=distributions, value=t.value))
    return {
        "result": old, "optimizer": old.optimizer, "file": tmp_path / "run", "csv": str(tmp_path / "t.csv"),
        "json": old.to_json(tmp_path / "run.json"), "study": study, "storage": url,
        "pairs": [(t.params, t.value) for t in old.trials],
    }  # fmt: skip


def test_every_source_says_the_same(old: rg.Result, tmp_path: Path) -> None:
    outside = sum(t.params["lr"] < 1e-3 or t.params["n"] < 4 for t in old.trials)
    reachable = [t for t in old.trials if t.params["lr"] >= 1e-5]
    asked = {}
    for name, source in sources(old, tmp_path).items():
        opt = rg.Optimizer(NEW, method="gp-ei", seed=1, budget=20)
        used = opt.learn(source, missing={"drop": 0.1})
        assert used == len(reachable) == 16, name
        assert len(opt.history) == 16 - outside
        assert 0 < outside < 16
        asked[name] = opt.ask().params
        assert 1e-3 <= asked[name]["lr"] <= 1e-1
        assert 4 <= asked[name]["n"] <= 12
    assert all(params == asked["result"] for params in asked.values())


def test_tables_of_optuna_and_of_results_lead_back(tmp_path: Path) -> None:
    """Optuna writes "params_" before every name; a pruned trial there has its last report for a value."""
    rows = ["number,value,params_x,params_value,state", "0,1.5,2.5,3,COMPLETE", "1,99.0,3.5,4,PRUNED", "2,,3.5,2,FAIL"]
    (tmp_path / "study.csv").write_text("\n".join(rows))
    space = {"x": rg.Float(1.5, 7), "value": rg.Int(2, 6)}
    opt = rg.Optimizer(space, seed=1)
    assert opt.learn(tmp_path / "study.csv") == 1
    assert observed(opt, {"x": 2.5, "value": 3}) == 1.5
    result = rg.minimize(lambda x, value: x + value, space, trials=4, seed=0, method="sobol", progress=False)
    result.to_dataframe().to_csv(tmp_path / "run.csv")
    assert rg.Optimizer(space, seed=1).learn(tmp_path / "run.csv") == 4


def test_numbers_that_floats_cannot_hold_are_learnt_as_they_are(tmp_path: Path) -> None:
    space = {"n": rg.Int(2**60, 2**60 + 50), "m": rg.Int(-(2**70), 2**70, step=2**40), "x": rg.Float(-1.7e308, 1.7e308)}
    result = rg.minimize(lambda n, m, x: (n - 2**60) / 7, space, trials=9, seed=2, method="random", progress=False)
    result.to_dataframe().to_csv(tmp_path / "run.csv")
    for source in (result, tmp_path / "run.csv"):
        opt = rg.Optimizer(space, seed=1)
        assert opt.learn(source) == 9
        assert [observed(opt, t.params) for t in result.trials] == [t.value for t in result.trials]


def test_a_text_that_stands_for_two_labels_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("c,value\n1,0.5\nb,0.7\n")
    opt = rg.Optimizer({"c": rg.Choice([1, "1", "b"])}, seed=0)
    with pytest.warns(RuntimeWarning, match="the text '1' stands for several labels"):
        assert opt.learn(tmp_path / "t.csv") == 1


def test_a_table_of_a_spreadsheet_begins_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,value\n3.5,0.5\n4,0.7\n", encoding="utf-8-sig")
    assert rg.Optimizer({"x": rg.Float(3, 8)}, seed=0).learn(tmp_path / "t.csv") == 2


def test_the_table_of_a_run_comes_back_whatever_its_parameters_are_called(tmp_path: Path) -> None:
    """A parameter called as another column is may be absent from a row, and pandas writes None as nothing."""
    space = {
        "value": rg.Float(3e-7, 0.2, log=True),
        "act": rg.Choice([None, True, "a,b"]),
        "state": rg.Float(2, 3, when={"act": True}),
    }
    result = rg.minimize(
        lambda value, act, state=2.0: value + state, space, trials=9, seed=0, method="sobol", progress=False
    )
    assert {t.params["act"] for t in result.trials} == {None, True, "a,b"}
    result.to_dataframe().to_csv(tmp_path / "t.csv", index=False)
    opt = rg.Optimizer(space, seed=1)
    assert opt.learn(tmp_path / "t.csv") == 9
    assert [observed(opt, t.params) for t in result.trials] == [t.value for t in result.trials]


def test_what_was_learnt_before_is_no_second_evaluation(tmp_path: Path) -> None:
    """A script that loads its run and learns again would else be told that noisy values repeat exactly."""
    noisy = [({"x": 3.5 + i / 8}, 0.1 * (-1) ** i + i / 20) for i in range(8)]
    opt = rg.Optimizer({"x": rg.Float(3, 8)}, seed=0)
    assert opt.learn(noisy[:6]) == 6
    opt.save(tmp_path / "run")
    again = rg.Optimizer.load(tmp_path / "run")
    with pytest.warns(RuntimeWarning, match="6 earlier evaluations were left out: they were learnt before"):
        assert again.learn(noisy) == 2
    assert len(again.history) == 8
    assert "no noise" not in again.why


def test_a_run_that_learnt_an_enormous_value_is_loaded(tmp_path: Path) -> None:
    """A method keeps 1e308 as 1e307; the file was said to be damaged."""
    opt = rg.Optimizer({"x": rg.Float(3, 8)}, seed=0)
    opt.learn([({"x": 3.5}, 1e308), ({"x": 4.5}, 2.0)])
    opt.save(tmp_path / "run")
    assert rg.Optimizer.load(tmp_path / "run").ask().params == opt.ask().params


def test_every_file_of_a_study_is_learnt(tmp_path: Path) -> None:
    """The journal and the database that `tune --storage` and `report` take."""
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.journal"))
    for storage in (optuna.storages.JournalStorage(backend), f"sqlite:///{tmp_path}/study.db"):
        study = optuna.create_study(storage=storage, study_name="mine")
        study.add_trial(optuna.create_trial(params={"x": 4.0}, value=1.0, distributions={"x": RANGE}))
    for source in (f"journal:{tmp_path}/study.journal", str(tmp_path / "study.db"), tmp_path / "study.db"):
        opt = rg.Optimizer({"x": rg.Float(3, 8)}, seed=0)
        assert opt.learn(source) == 1
        assert observed(opt, {"x": 4.0}) == 1.0
    optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db", study_name="yours")
    with pytest.raises(ValueError, match=r"holds the studies mine, yours"):
        rg.Optimizer({"x": rg.Float(3, 8)}).learn(tmp_path / "study.db")
    with pytest.raises(ValueError, match=r"the file .*gone\.journal does not exist"):
        rg.Optimizer(NEW).learn(f"journal:{tmp_path}/gone.journal")


def test_looking_for_a_storage_makes_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the file .*gone\.db does not exist"):
        rg.Optimizer(NEW).learn(f"sqlite:///{tmp_path}/gone.db")
    assert not list(tmp_path.iterdir())


def test_a_run_that_knows_more_is_better_and_resumes_exactly(old: rg.Result, tmp_path: Path) -> None:
    opt = rg.Optimizer(NEW, method="gp-ei", seed=1, budget=12)
    opt.learn(old, missing={"drop": 0.0})
    for i in range(6):
        opt.tell(trial := opt.ask(), loss(**trial.params))
        if i == 3:
            opt.save(tmp_path / "run")
    assert opt.best.value is not None
    assert opt.best.value < 0.12  # six random settings: 0.5 in the median
    again = rg.Optimizer.load(tmp_path / "run")
    assert again.ask().params == opt.trials[4].params
    inside = next(t for t in old.trials if t.params["lr"] >= 1e-3 and t.params["n"] >= 4)
    assert observed(again, {**inside.params, "drop": 0.0}) == inside.value


@pytest.mark.parametrize("best", [-2, 1, 4])
def test_whole_numbers_are_learnt_as_they_are(best: int) -> None:
    opt = rg.Optimizer({"n": rg.Int(-3, 5), "x": rg.Float(0.5, 3)}, method="random", direction="minimize", seed=0)
    pairs = [({"n": n, "x": 1.0 + n / 10}, abs(n - best) + 0.25) for n in range(-3, 6)]
    assert opt.learn(pairs) == len(pairs)
    assert opt.recommend()["n"] == best


@pytest.mark.parametrize(("measured", "taken"), [(6, 5), (0, 1), (11, 13)])
def test_a_number_between_steps_counts_as_the_nearest_one(measured: int, taken: int) -> None:
    opt = rg.Optimizer(
        {"n": rg.Int(-3, 17, step=4), "x": rg.Float(0.5, 3)}, method="gp-ei", direction="minimize", seed=0
    )
    opt.learn([({"n": n, "x": 1.0}, 2.0 + n) for n in (-3, 9, 17)])
    opt.learn([({"n": measured, "x": 1.5}, -9.0)])
    assert opt.recommend()["n"] == taken


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    opt = rg.Optimizer(OLD, method="sobol", seed=0)
    pairs = [({"lr": 1e-2, "n": 5, "act": "gelu"}, 1.0), ({"lr": 3.0, "n": 5, "act": "relu"}, 1.0), ({"lr": 1e-2}, 1.0)]
    with pytest.warns(RuntimeWarning) as said:
        assert opt.learn(pairs) == 0
    words = " ".join(str(w.message) for w in said)
    for word in ("'gelu'", "which sobol cannot use", "no value for 'n'"):
        assert word in words
    (tmp_path / "bad.json").write_text('{"state": "%"}')
    for bad in (3, [1, 2], [({"lr": 1e-2}, math.nan)], tmp_path / "bad.json", tmp_path / "none.json"):
        with pytest.raises(ValueError, match="earlier"):
            opt.learn(bad)


def test_earlier_evaluations_through_minimize(old: rg.Result, tmp_path: Path) -> None:
    result = rg.minimize(loss, OLD, trials=5, seed=3, method="gp-ei", earlier=old, progress=False)
    assert len(result.trials) == 5
    assert result.value <= min(t.value for t in old.trials if t.value is not None)


# ---------------------------------------------------------------- fixed asks


@pytest.mark.parametrize("method", ["gp-ei", "turbo", "random", "neural-greedy"])
def test_fixed_parameters_keep_their_values(method: str) -> None:
    opt = rg.Optimizer(OLD, method=method, seed=0, budget=20)
    for i in range(8):
        fixed = {"act": "tanh", "lr": 3e-3} if i % 2 else None
        trial = opt.ask(fixed=fixed)
        if fixed:
            assert trial.params["act"] == "tanh"
            assert trial.params["lr"] == 3e-3, "to the last digit"
        opt.tell(trial, loss(**trial.params))
    assert np.ptp([t.params["n"] for t in opt.trials]) > 0


def test_bad_fixed_values_are_named() -> None:
    tree = {"m": rg.Choice(["a", "b"]), "x": rg.Float(1, 3, when={"m": "a"})}
    opt = rg.Optimizer(tree, method="random", seed=0)
    for fixed, words in (({"q": 1}, "'q'"), ({"m": "c"}, "labels"), ({"x": 2.0}, "fix 'm' too")):
        with pytest.raises(ValueError, match=words):
            opt.ask(fixed=fixed)
    with pytest.raises(ValueError, match="does not exist"):
        opt.ask(fixed={"m": "b", "x": 2.0})
    assert opt.ask(fixed={"m": "a", "x": 2.0}).params == {"m": "a", "x": 2.0}


def test_parameters_of_one_value_stay_fixed() -> None:
    space = {"n": rg.Int(3, 3), "x": rg.Float(2.5, 2.5), "c": rg.Choice(["only"]), "y": rg.Float(-1, 4)}
    result = rg.minimize(lambda n, x, c, y: n + x + y * y, space, trials=6, seed=0, progress=False)
    assert all((t.params["n"], t.params["x"], t.params["c"]) == (3, 2.5, "only") for t in result.trials)


def test_a_result_says_when_its_setting_was_evaluated_before_the_run(tmp_path: Path) -> None:
    space = {"c": rg.Choice(["u", "v"]), "n": rg.Int(2, 4)}
    before = [({"c": c, "n": n}, float(n)) for c in ("u", "v") for n in (2, 3, 4)]
    some = rg.minimize(lambda c, n: 5.0 + n, space, trials=2, seed=0, earlier=before[:4], progress=False)
    assert (some.value, some.params["n"]) == (2.0, 2)
    assert some.value_words == "value 2, of an evaluation before this run"
    nothing_left = rg.minimize(lambda c, n: 5.0 + n, space, trials=2, seed=0, earlier=before, progress=False)
    assert (nothing_left.nfev, nothing_left.value, nothing_left.success) == (0, 2.0, True)
    assert "evaluation before this run" in nothing_left.report(tmp_path / "run.html").read_text()
