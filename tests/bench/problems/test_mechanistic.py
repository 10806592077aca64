"""Mechanistic problems: fair instances, models that hold the truth, and the tuning tasks' decoding."""

import numpy as np
import pytest
import torch
from regretless_bench.problems import make_problem
from regretless_bench.problems.mechanistic import MODELS, NEAR, RARE
from regretless_bench.problems.uci_hpo import SETTINGS, Setting, kept_accuracy

from regretless.methods.go_ucb.user_model import UserFunction


@pytest.mark.parametrize("name", [*MODELS, "teacher-net", "random-quadratic"])
def test_instances_are_fair_repeatable_and_differ(name):
    problem, again, other = make_problem(name, seed=3), make_problem(name, seed=3), make_problem(name, seed=4)
    assert problem.optimum == again.optimum != other.optimum
    U = np.random.default_rng(0).random((20000, len(problem.space)))
    values = problem.true_unit(U)
    assert values.max() <= problem.optimum + 1e-9
    assert np.mean(values >= problem.optimum - NEAR * (problem.optimum - values.min())) < 3 * RARE
    assert problem.true(problem.optima[0]) == pytest.approx(problem.optimum, abs=1e-9)
    assert problem.regret_unit == pytest.approx(problem.optimum - np.median(values), rel=0.05)
    if name != "teacher-net":
        best = problem.space.encode(problem.optima[0])
        assert ((best > 0.02) & (best < 0.98)).all()


@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_differentiable_and_holds_the_truth(name):
    problem = make_problem(name, seed=1)
    family = UserFunction(problem.model, problem.model.w_bounds)
    low, high = np.array([[p.low, p.high] for p in problem.space.parameters.values()]).T
    X = low + np.random.default_rng(1).random((6, len(low))) * (high - low)
    family.check(X)
    assert family.way == "stacked"
    w = problem.rows.args[1]
    np.testing.assert_allclose(problem.model(torch.from_numpy(w), torch.from_numpy(X)).numpy(), problem.rows(X))
    family.check(np.stack([low, high] * 2))  # the faces: doses of zero and the like


def test_the_bump_is_what_the_family_does_not_know():
    plain, wrong = make_problem("hill-temperature", seed=1), make_problem("hill-temperature", bump=0.15, seed=1)
    assert plain.name != wrong.name
    assert wrong.model is plain.model


def test_settings_own_equal_shares_and_map_linearly():
    assert [Setting("b", labels=(True, False)).value(x) for x in (0, 4.99, 5, 10)] == [True, True, False, False]
    assert [Setting("n", low=20, high=200, whole=True).value(x) for x in (0, 5, 10)] == [20, 110, 200]
    assert 0 < Setting("f", low=0, high=1, open=True).value(0.0) < 0.01
    assert [len(SETTINGS[c]) for c in ("forest", "mlp", "boosting")] == [7, 8, 11]


def test_wrong_options_are_named():
    for options, message in (
        ({"classifier": "svm"}, "classifier must be"),
        ({"data": "iris"}, "data must be"),
        ({"fold": 5}, "fold must be"),
    ):
        with pytest.raises(ValueError, match=message):
            make_problem("uci-hpo", **options)


def test_accuracies_are_kept_on_disk(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setenv("REGRETLESS_CACHE", str(tmp_path))
    try:
        problem = make_problem("uci-hpo", classifier="boosting", data="diabetes", fold=1)
        params = dict.fromkeys(problem.space.names, 3.0)
        value = problem.true(params)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert 0.5 < value < 1
    monkeypatch.setattr("regretless_bench.problems.uci_hpo.accuracy", lambda *a: pytest.fail("evaluated twice"))
    assert problem.true(params) == value
    assert kept_accuracy("boosting", "diabetes", 1, problem.settings(params)) == value
