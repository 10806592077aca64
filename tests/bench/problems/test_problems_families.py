"""check_problem over every family, that it can fail, and the facts of bbob, tables and scikit-learn tasks."""

import numpy as np
import pytest
from regretless_bench.problems import PROBLEMS, make_problem
from regretless_bench.problems.check import check_problem
from regretless_bench.problems.problem import Observation, Problem
from regretless_bench.problems.synthetic import levy

from regretless.space import Space
from regretless.space.parameters import Float

SYNTHETIC = sorted(name for name, factory in PROBLEMS.items() if "synthetic" in repr(factory))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_problems_keep_the_contract(name):
    check_problem(lambda seed: make_problem(name, seed=seed))
    check_problem(lambda seed: make_problem(name, seed=seed, noise_sd=0.3))


@pytest.mark.parametrize("function", range(1, 25))
def test_bbob_keeps_the_contract_and_knows_its_optimum(function):
    pytest.importorskip("cocoex")
    for dim in (2, 5):
        check_problem(lambda seed, dim=dim: make_problem("bbob", function=function, dim=dim, seed=seed))
    problem = make_problem("bbob", function=function, dim=10, instance=3)
    near = problem.points[0] + 0.01 * np.random.default_rng(0).standard_normal((50, 10))
    assert (problem.rows(np.clip(near, -5, 5)) >= problem.optimum - 1e-9).all()


def test_bbob_values_and_instances():
    pytest.importorskip("cocoex")
    first = make_problem("bbob", function=1, dim=2, instance=1)
    assert first.true([0.0, 0.0]) == pytest.approx(80.88209408)
    assert first.optimum == 79.48
    assert make_problem("bbob", seed=4).name == "bbob-f01-d2-i5"
    assert make_problem("bbob", seed=15).name == "bbob-f01-d2-i1"
    with pytest.raises(ValueError, match="functions 1 to 24"):
        make_problem("bbob", function=25)


def test_tables_are_what_their_readme_says():
    try:
        problem = make_problem("hpobench-mlp", data_set="phoneme")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert problem.optimum == pytest.approx(0.9445, abs=1e-4)
    assert make_problem("nasbench201", data_set="cifar100").optimum == pytest.approx(73.49, abs=1e-2)
    check_problem(lambda seed: make_problem("hpobench-mlp", seed=seed))
    check_problem(lambda seed: make_problem("nasbench201", seed=seed))
    params = problem.optima[0]
    draws = {problem.evaluate(params) for _ in range(200)}
    assert 2 <= len(draws) <= 5  # one of the five trainings
    assert np.mean(sorted(draws)) == pytest.approx(problem.true(params), abs=0.02)
    assert problem.share_better(problem.true(params)) == 1 / 30_000, "nothing is better than the optimum"
    assert problem.share_better(-1.0) == pytest.approx(1.0, abs=1e-4)
    quiet = make_problem("hpobench-mlp", single=False)
    assert quiet.evaluate(quiet.optima[0]) == quiet.optimum
    with pytest.raises(ValueError, match="data_set must be one of"):
        make_problem("nasbench201", data_set="mnist")


def test_missing_tables_say_where_to_put_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="hpo_tables"):
        make_problem("hpobench-mlp", data=str(tmp_path))


@pytest.mark.parametrize("name", ["svm-digits", "boosting-diabetes", "mlp-breast-cancer"])
def test_scikit_learn_tasks(name):
    pytest.importorskip("sklearn")
    check_problem(lambda seed: make_problem(name, seed=seed), points=1)
    problem = make_problem(name)
    values = [problem.observe_unit(u).value for u in np.random.default_rng(2).random((4, len(problem.space)))]
    assert np.isfinite(values).all()
    assert len(set(values)) > 1
    assert problem.space.cube().categorical.any()


# ---------------------------------------------------------------- the check itself


class Broken(Problem):
    """A line on [0, 1] with one fault at a time."""

    def __init__(self, fault, seed):
        super().__init__(
            "broken",
            Space({"x": Float(0, 1)}),
            optimum=0.0 if fault != "optimum" else 0.9,
            optima=[{"x": 0.0}],
            noise_sd=0.1,
            seed=seed,
        )
        self.fault = fault
        self.calls = 0

    def _true(self, params):
        self.calls += 1
        return params["x"] + (1e-3 * self.calls if self.fault == "drift" else 0.0)

    def _observe(self, params, rng):
        if self.fault == "hidden stream":
            return Observation(params["x"] + np.random.default_rng().standard_normal(), params["x"])
        if self.fault == "noise by point":
            return Observation(params["x"] + 0.1 * np.sin(1e3 * params["x"]), params["x"])
        return super()._observe(params, rng)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("optimum", "beats the optimum|said to be optimal"),
        ("drift", "changed between calls"),
        ("hidden stream", "same seed"),
        ("noise by point", "number"),
    ],
)
def test_check_finds_faults(fault, message):
    check_problem(lambda seed: Broken("", seed))
    with pytest.raises(AssertionError, match=message):
        check_problem(lambda seed: Broken(fault, seed))


def test_check_finds_optimal_points_that_are_not():
    def wrong(seed):
        problem = levy(dim=2)
        problem.seed = seed
        problem.optima = [{"x0": 0.5, "x1": 1.0}]
        return problem

    with pytest.raises(AssertionError, match="said to be optimal"):
        check_problem(wrong)
