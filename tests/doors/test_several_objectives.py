"""Several objectives through storages, the command and scikit-learn: the points of `minimize`, failures, kills and
resumes, fronts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from click.testing import CliRunner
from scipy import stats
from sklearn.linear_model import LogisticRegression

import regretless as rg
from regretless.cli import main
from regretless.doors.optuna.export import export_study, result_of_study
from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.sklearn.search import RegretlessSearchCV
from tests.doors.test_sklearn import X, Y

SPACE = {"rate": rg.Float(3e-6, 0.2, log=True), "layers": rg.Int(2, 9), "act": rg.Choice(["relu", "tanh"])}
GOALS: dict[str, Any] = {"score": "maximize", "ms": "minimize"}


def two(rate: float, layers: int, act: str) -> dict[str, float]:
    score = -((math.log10(rate) + 2.5) ** 2) + 0.3 * layers + (act == "tanh")
    return {"score": score if layers != 5 else math.nan, "ms": layers**1.7 + 2.0 * (act == "tanh")}


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/study.db"


def done(study: optuna.Study) -> list[Any]:
    return [t.params for t in study.trials]


@pytest.mark.filterwarnings("ignore:trial \\d+ failed")
def test_a_storage_has_the_points_of_minimize_and_goes_on(tmp_path: Path) -> None:
    options: dict[str, Any] = {"objectives": GOALS, "seed": 4, "progress": False}
    direct = rg.minimize(two, SPACE, trials=7, **options)
    tune_in_storage(two, SPACE, storage=url(tmp_path), study="s", trials=7, **options)
    study = tune_in_storage(two, SPACE, storage=url(tmp_path), study="s", trials=16, **options)
    assert sum(t.state.name == "FAIL" for t in study.trials) > 0
    assert len(study.trials) == 16
    told = [t.values or None for t in direct.trials]
    assert done(study)[:7] == [t.params for t in direct.trials]
    assert [None if t.values is None else tuple(t.values) for t in study.trials][:7] == told
    assert study.directions == [optuna.study.StudyDirection.MAXIMIZE, optuna.study.StudyDirection.MINIMIZE]
    result = result_of_study(study)
    assert result.front.objectives == ("score", "ms")
    assert {tuple(m.values.values()) for m in result.front} == {tuple(t.values) for t in study.best_trials}
    with pytest.raises(ValueError, match="its direction is maximize and minimize, not minimize"):
        tune_in_storage(two, SPACE, storage=url(tmp_path), study="s", trials=20, progress=False)
    other: dict[str, Any] = {"good": "maximize", "ms": "minimize"}
    with pytest.raises(ValueError, match=r"runs with objectives \['score', 'ms'\], not \['good', 'ms'\]"):
        tune_in_storage(two, SPACE, storage=url(tmp_path), study="s", trials=20, objectives=other, progress=False)


@pytest.mark.filterwarnings("ignore:trial \\d+ failed")
def test_a_budget_that_is_known_from_the_start_gives_the_same_points(tmp_path: Path) -> None:
    options: dict[str, Any] = {"objectives": GOALS, "seed": 4, "progress": False, "trials": 14}
    direct = rg.minimize(two, SPACE, **options)
    study = tune_in_storage(two, SPACE, storage=url(tmp_path), study="s", **options)
    assert done(study) == [t.params for t in direct.trials]


@pytest.mark.filterwarnings("ignore:trial \\d+ failed")
def test_a_reference_goes_through_every_door(tmp_path: Path) -> None:
    asks = {"score": -1.0, "ms": 25.0}
    options: dict[str, Any] = {"objectives": GOALS, "seed": 4, "progress": False, "trials": 12, "reference": asks}
    direct = [t.params for t in rg.minimize(two, SPACE, **options).trials]
    free = [t.params for t in rg.minimize(two, SPACE, **{**options, "reference": None}).trials]
    assert direct != free
    tune_in_storage(two, SPACE, storage=url(tmp_path), study="s", **{**options, "trials": 6})
    study = tune_in_storage(two, SPACE, storage=url(tmp_path), study="s", **options)
    assert len(study.trials) == 12
    assert result_of_study(study).optimizer.task.reference == (-1.0, 25.0)
    assert [t.params for t in result_of_study(study).trials][:6] == done(study)[:6]
    with pytest.raises(ValueError, match=r"runs with reference \[-1.0, 25.0\], not \[\]"):
        tune_in_storage(two, SPACE, storage=url(tmp_path), study="s", **{**options, "reference": None})
    for reference, points in (([-1.0, 25.0], direct), (None, free)):
        sampler = rg.Sampler(seed=4, search_space=SPACE, budget=12, reference=reference)
        own = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)
        own.optimize(lambda t: tuple(two(
            t.suggest_float("rate", 3e-6, 0.2, log=True), t.suggest_int("layers", 2, 9),
            t.suggest_categorical("act", ["relu", "tanh"])).values()), n_trials=12)  # fmt: skip
        assert done(own) == points
    from regretless.serve.study import begin

    tables = {"rate": {"type": "float", "low": 3e-6, "high": 0.2, "log": True}, "layers": {"type": "int", "low": 2,
        "high": 9}, "act": {"type": "choice", "labels": ["relu", "tanh"]}}  # fmt: skip
    served = begin(tables, objectives=GOALS, seed=4, budget=12, reference=asks)
    for params in direct:
        trial = served.ask()
        assert trial.params == params
        served.tell(trial, two(**params))


def slow_two(rate: float, layers: int, act: str) -> rg.Value:
    return rg.Value((rate, -float(layers)), var=(0.1, None), constraints={"even": float(layers % 2)}, cost=2.0)


def test_workers_share_a_study_of_several_objectives(tmp_path: Path) -> None:
    study = tune_in_storage(
        slow_two, SPACE, storage=url(tmp_path), study="w", trials=12, workers=2, objectives=["rate", "layers"], seed=0,
        progress=False,
    )  # fmt: skip
    assert len(study.trials) == 12
    assert all(t.state == optuna.trial.TrialState.COMPLETE for t in study.trials)
    result = result_of_study(study)
    assert all(t.variances == (0.1, None) for t in result.trials)
    assert all(m.params["layers"] % 2 == 0 for m in result.front)


def test_rules_end_studies_of_several_objectives_or_are_refused(tmp_path: Path) -> None:
    def flat(rate: float, layers: int, act: str) -> tuple[float, float]:
        return float(layers > 5), float(layers <= 5)

    given: dict[str, Any] = {"storage": url(tmp_path), "objectives": ["a", "b"], "seed": 0, "progress": False}
    study = tune_in_storage(flat, SPACE, study="r", trials=60, stop=rg.StopWhen(no_improvement=6), **given)
    assert len(study.trials) < 20
    assert "the last 6 trials improved nothing" in study.user_attrs["regretless:stop"]
    with pytest.raises(ValueError, match="speaks of one objective, and this run has 2"):
        tune_in_storage(flat, SPACE, study="q", trials=5, stop=rg.GapBelow(0.1), **given)


def test_a_study_is_exported_with_its_front(tmp_path: Path) -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], storage=url(tmp_path), study_name="e")
    study.optimize(lambda t: (x := t.suggest_float("x", -3, 5), x**2)[::-1], n_trials=9)
    table, page, report = export_study(url(tmp_path), "e", tmp_path / "out")
    head, *rows = table.read_text().splitlines()
    assert head.startswith("number,state,value_0,value_1,started")
    assert len(rows) == 9
    assert json.loads(page.read_text())["directions"] == ["minimize", "maximize"]
    assert "front" in report.read_text()


def test_the_command_names_objectives(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text("def f(x, n):\n    return {'loss': (x - 1) ** 2 + n, 'ms': 9.0 - n}\n")
    say = ["tune", f"{tmp_path}/two.py:f", "--float", "x:-3:5", "--int", "n:1:7", "--trials", "12", "--seed", "3"]
    goals = ["--objective", "loss", "--objective", "ms:minimize:7.5"]
    answers = []
    for more in (["--checkpoint", f"{tmp_path}/run"], ["--storage", url(tmp_path)]):
        done = CliRunner().invoke(main, [*say, *goals, "--json", *more])
        assert done.exit_code == 0, done.output
        answers.append(json.loads(done.stdout.splitlines()[-1]))
    assert answers[0]["front"] == answers[1]["front"]
    direct = rg.minimize(
        lambda x, n: ((x - 1) ** 2 + n, 9.0 - n), {"x": rg.Float(-3, 5), "n": rg.Int(1, 7)}, trials=12, seed=3,
        objectives=["loss", "ms"], reference={"ms": 7.5}, progress=False,
    )  # fmt: skip
    wrong = CliRunner().invoke(main, [*say, "--objective", "loss", "--objective", "ms:min:fast"])
    assert wrong.exit_code == 2
    assert "the reference is a number" in wrong.output
    assert [m["params"] for m in answers[0]["front"]] == [m.params for m in direct.front]


# ---------------------------------------------------------------- scikit-learn


def smallest(results: Any) -> int:
    """The largest regularisation among those that are no worse than the median."""
    good = results["mean_test_accuracy"] >= np.median(results["mean_test_accuracy"])
    return int(np.argmin(np.where(good, results["param_C"].astype(float), np.inf)))


def searched(**options: Any) -> RegretlessSearchCV:
    space = {"C": stats.loguniform(1e-4, 1e2), "l1_ratio": [0.0, 0.3, 1.0]}
    given = {"n_trials": 9, "cv": 3, "random_state": 1, **options}
    return RegretlessSearchCV(
        LogisticRegression(solver="saga", max_iter=60, tol=0.1, random_state=0), space, **given
    ).fit(X, Y)


def test_scores_and_a_callable_refit_search_a_front() -> None:
    search = searched(scoring=["accuracy", "neg_log_loss"], refit=smallest, reference={"accuracy": 0.6})
    task = search.optimizer_.task
    assert task.reference == (0.6, None)
    assert (task.objectives, task.directions) == (("accuracy", "neg_log_loss"), ("maximize", "maximize"))
    assert search.best_index_ == smallest(search.cv_results_)
    told = np.array([t.values for t in search.optimizer_.trials])
    assert np.allclose(told[:, 0], search.cv_results_["mean_test_accuracy"])
    assert np.allclose(told[:, 1], search.cv_results_["mean_test_neg_log_loss"])
    assert all(var is not None for t in search.optimizer_.trials for var in t.variances)
    assert len(search.front_) >= 1
    assert search.front_.pick().params in [t.params for t in search.optimizer_.trials]
    again = searched(scoring=["accuracy", "neg_log_loss"], refit=smallest, reference={"accuracy": 0.6})
    assert again.cv_results_["params"] == search.cv_results_["params"]


def test_seconds_are_an_objective() -> None:
    search = searched(scoring="accuracy", metric=["score", "score_time"])
    assert search.optimizer_.task.directions == ("maximize", "minimize")
    told = np.array([t.values for t in search.optimizer_.trials])
    assert np.allclose(told[:, 1], search.cv_results_["mean_score_time"])
    assert search.best_score_ == told[:, 0].max()


def test_metrics_that_cannot_be_searched_together() -> None:
    with pytest.raises(ValueError, match="a list of several different ones"):
        searched(scoring=["accuracy", "f1"], metric=["f1"], refit=False)
    with pytest.raises(ValueError, match=r"metric must be one of .*got 'recall'"):
        searched(scoring=["accuracy", "f1"], metric=["f1", "recall"], refit=False)
    by_first = searched(scoring=["accuracy", "f1"], refit="f1")
    assert not by_first.optimizer_.task.several
    assert not hasattr(by_first, "front_")
