"""Constraints, costs and priors beside the objective."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rg
from regretless.models.gp.certify import REACH, may_be_feasible
from regretless.models.gp.constraint_models import (
    ConstraintModels,
    belief_weight,
    compressed_constraint,
    log_belief,
    log_feasible,
    weighted_sum,
)
from regretless.optimizer import proposal
from regretless.space import Cube, Space
from regretless.space.belief import DOUBT
from regretless.space.parameters import Array


def gramacy(x1: float, x2: float) -> rg.Value:
    """Gramacy et al. (2016): the least x1 + x2 under two constraints is 0.5998."""
    first = 1.5 - x1 - 2 * x2 - 0.5 * math.sin(2 * math.pi * (x1**2 - 2 * x2))
    return rg.Value(x1 + x2, constraints=[first, x1**2 + x2**2 - 1.5])


SQUARE = {"x1": rg.Float(0, 1), "x2": rg.Float(0, 1)}


def data(n: int) -> tuple[Array, Array]:
    X = np.random.default_rng(3).random((n, 2))
    return X, np.array([gramacy(*x).constraints for x in X])  # type: ignore[misc]


def slopes(function: Callable[[Array], Array], X: Array) -> Array:
    h = 1e-6
    steps = [function(X + h * e) - function(X - h * e) for e in np.eye(X.shape[1])]
    return np.array(steps).T / (2 * h)


def test_gradients_are_those_of_the_values() -> None:
    X, C = data(12)
    borders = ConstraintModels(Cube.box(2), constraints=2, cost=False, first=6).borders(X, C, X[:0])
    models = ConstraintModels(Cube.box(2), constraints=0, cost=True, first=6)
    cost = models.log_cost(X, np.exp(X[:, 0] * 3))
    cube = Space({"a": rg.Float(-2, 6, prior=(1, 1)), "b": rg.Float(1e-3, 1e2, log=True, prior=(0.3, 4))}).cube()
    assert cube.belief is not None
    parts = [log_feasible(borders), cost, log_belief(cube, cube.belief)]
    P = np.random.default_rng(5).random((9, 2)) * 0.8 + 0.1
    for function in (*parts, weighted_sum(parts, [1.0, -1.0, 0.3])):
        value, gradient = function.value_and_gradient(P)
        assert np.allclose(function.value(P), value, rtol=1e-9, atol=1e-9)
        assert np.allclose(gradient, slopes(function.value, P), rtol=2e-3, atol=2e-3 * (1 + np.abs(gradient).max()))


def test_models_of_constraints_know_where_they_hold() -> None:
    X, C = data(40)
    borders = ConstraintModels(Cube.box(2), constraints=2, cost=False, first=10).borders(X, C, X[:0])
    P, truth = data(200)[0], data(200)[1]
    sure = np.abs(truth).min(axis=1) > 0.1
    likely = log_feasible(borders).value(P) > math.log(0.5)
    assert (likely == (truth <= 0).all(axis=1))[sure].mean() > 0.97
    assert (np.sign(compressed_constraint(C[:, 0], 3.7)) == -np.sign(C[:, 0])).all()


def test_the_best_feasible_setting_is_found_and_certified() -> None:
    result = rg.minimize(gramacy, SQUARE, trials=26, seed=2, constraints=2, progress=False)
    assert result.optimizer.recipe.name == "gp-ei"
    assert result.best.feasible
    assert abs(result.value - 0.5998) < 1e-3  # 26 random settings: 0.78 in the median
    certificate = result.certificate
    assert certificate.feasible == 1.0 or not certificate.certified
    assert (certificate.lower <= 0.5998 <= certificate.upper) or not certificate.certified


def test_infeasible_settings_are_failures_to_methods_without_a_model() -> None:
    opt = rg.Optimizer(SQUARE, method="sobol", seed=0, constraints=["first", "second"])
    for _ in range(12):
        trial = opt.ask()
        found = gramacy(**trial.params)
        assert found.constraints is not None
        opt.tell(trial, found.value, constraints=dict(zip(["first", "second"], found.constraints, strict=True)))
    feasible = [t for t in opt.trials if t.feasible]
    assert 0 < len(feasible) < 12
    assert len(opt.history) == len(feasible)
    assert opt.best.value == min(t.value for t in feasible if t.value is not None)


def test_a_number_of_constraints_that_changes_is_refused(tmp_path: Path) -> None:
    opt = rg.Optimizer(SQUARE, method="gp-ei", seed=0, constraints=2)
    for bad in ([0.5], [0.5, 0.1, 0.2], None, [0.5, math.nan], {"a": 1, "b": 2}):
        with pytest.raises(ValueError, match="constraints"):
            opt.tell(opt.ask(), 1.0, constraints=bad)
    with pytest.raises(ValueError, match="constraints must be a number"):
        rg.Optimizer(SQUARE, constraints=["a", "a"])
    file = tmp_path / "run"
    rg.minimize(gramacy, SQUARE, trials=3, seed=0, constraints=2, progress=False, checkpoint=file)
    with pytest.raises(ValueError, match="belongs to another run"):
        rg.minimize(gramacy, SQUARE, trials=4, seed=0, constraints=["u", "v"], progress=False, checkpoint=file)


@pytest.mark.parametrize("method", ["gp-ei", "gp-ucb"])
def test_runs_with_constraints_and_costs_resume_exactly(method: str, tmp_path: Path) -> None:
    options = {"constraints": 2, "cost": "told"} if method == "gp-ei" else {"constraints": 2}
    opt = rg.Optimizer(SQUARE, method=method, seed=1, budget=30, **options)  # type: ignore[arg-type]
    for i in range(11):
        trial = opt.ask()
        found = gramacy(**trial.params)
        more = {"cost": 1 + 9 * trial.params["x1"]} if "cost" in options else {}
        opt.tell(trial, found.value, constraints=found.constraints, seconds=0.5 * i, **more)
        if i == 8:
            opt.save(tmp_path / "run")
    again = rg.Optimizer.load(tmp_path / "run")
    assert again.trials[3].constraints == opt.trials[3].constraints
    assert again.trials[3].seconds == 1.5
    for i in (9, 10):
        trial = again.ask()
        assert trial.params == opt.trials[i].params
        more = {"cost": 1 + 9 * trial.params["x1"]} if "cost" in options else {}
        again.tell(trial, opt.trials[i].value, constraints=opt.trials[i].constraints, **more)
    assert again.recommend() == opt.recommend()


def test_gains_are_weighed_by_cost() -> None:
    """Of two wells of nearly the same depth one costs a hundred times as much: fewer evaluations go there."""

    def wells(x: float) -> rg.Value:
        return rg.Value(min((x + 3) ** 2, (x - 4) ** 2 + 0.02), cost=100.0 if x > 0.5 else 1.0)

    dear = {}
    for cost in (None, "told"):
        options: Any = {"cost": cost, "method": "gp-ei", "progress": False}
        result = rg.minimize(wells, {"x": rg.Float(-6, 7)}, trials=16, seed=0, **options)
        dear[cost] = sum(t.params["x"] > 0.5 for t in result.trials[5:])
        assert result.value < 0.05
    assert dear["told"] < dear[None]


def test_costs_are_told_or_measured() -> None:
    result = rg.minimize(lambda x: x, {"x": rg.Float(1, 3)}, trials=3, seed=0, cost="seconds", progress=False)
    assert all(t.seconds is not None and t.cost is not None and t.cost > 0 for t in result.trials)
    with pytest.raises(ValueError, match="gp-ei and gp-pi can"):
        rg.Optimizer(SQUARE, method="gp-ucb", cost="told")
    opt = rg.Optimizer(SQUARE, cost="told")
    with pytest.raises(ValueError, match="tell cost="):
        opt.tell(opt.ask(), 1.0)
    with pytest.raises(ValueError, match="cost must be"):
        opt.tell(opt.ask(), 1.0, cost=-1.0)


# ---------------------------------------------------------------- priors


def test_a_prior_sends_the_first_proposals_and_then_gives_way() -> None:
    """The prior expects 1e-4; the optimum is at 3e-2. Right or wrong, the run ends at the optimum."""
    for centre in (3e-2, 1e-4):
        space = {"lr": rg.Float(1e-5, 1e-1, log=True, prior=(centre, 2)), "z": rg.Float(-3, 8)}
        result = rg.minimize(
            lambda lr, z: (math.log10(lr) + 1.52) ** 2 + (z - 2.1) ** 2 / 30, space, trials=24, seed=1, progress=False
        )
        first = [abs(math.log10(t.params["lr"] / centre)) for t in result.trials[:6:2]]
        assert max(first) < 1.0
        assert result.value < 0.01
    assert belief_weight(1000, 100) == pytest.approx(0.01)


def test_a_prior_is_a_density_on_each_axis() -> None:
    space = Space(
        {
            "c": rg.Choice(["u", "v", "w"], prior=[1, 6, 0]),
            "n": rg.Int(3, 40, log=True, prior=(9, 1.5)),
            "x": rg.Float(2, 12, prior=(5, 0.5)),
        }
    )
    for encoding in ("shares", "onehot"):
        cube = space.cube(encoding)  # type: ignore[arg-type]
        assert cube.belief is not None
        U = np.random.default_rng(0).random((4000, cube.dim))
        drawn = [space.decode(x, encoding) for x in cube.belief.drawn(U)]  # type: ignore[arg-type]
        assert np.mean([s["x"] for s in drawn]) == pytest.approx(5, abs=0.03)
        assert np.std([s["x"] for s in drawn]) == pytest.approx(0.5, abs=0.02)
        assert np.median([s["n"] for s in drawn]) == 9
        assert np.mean([s["c"] == "v" for s in drawn]) == pytest.approx(6 / 7, abs=0.02)
        at = np.array([space.encode({"c": c, "n": 9, "x": x}, encoding) for c, x in (("v", 5), ("w", 5), ("v", 12))])  # type: ignore[arg-type]
        density = cube.belief.log_density(at)[0]
        assert density[1] - density[0] == pytest.approx(math.log(DOUBT))
        assert density[2] - density[0] == pytest.approx(math.log(DOUBT), abs=0.01)


@pytest.mark.parametrize("method", ["random", "neural-greedy"])
def test_methods_that_cannot_weigh_a_prior_draw_from_it(method: str) -> None:
    opt = rg.Optimizer({"x": rg.Float(0, 50, prior=(7, 0.1)), "y": rg.Float(1, 2)}, method=method, seed=0)
    near = 0
    for _ in range(12):
        trial = opt.ask()
        near += abs(trial.params["x"] - 7) < 0.5
        opt.tell(trial, trial.params["y"])
    assert 2 <= near <= 9


def test_places_out_of_a_constraints_reach_do_not_count() -> None:
    X, C = data(12)
    borders = ConstraintModels(Cube.box(2), constraints=2, cost=False, first=6).borders(X, C, X[:0])
    P = np.random.default_rng(5).random((40, 2))
    moments = [(border, *border.gp.mean_var(P)) for border in borders]
    slow = [all(m[i] + REACH * v[i] ** 0.5 >= border.at for border, m, v in moments) for i in range(40)]
    kept = may_be_feasible(borders, P)
    assert kept.tolist() == slow
    assert 0 < kept.sum() < 40
    assert may_be_feasible((), P).all()


def test_with_constraints_every_fourth_ask_must_gain_a_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes proposals of runs with constraints alone."""

    def proposed(**options: Any) -> list[Array]:
        opt = rg.Optimizer(SQUARE, seed=1, **options)
        for _ in range(20):
            trial = opt.ask()
            found = gramacy(**trial.params)
            opt.tell(trial, found.value, constraints=found.constraints if "constraints" in options else None)
        return [proposal(opt.task, opt.method, opt.history, step) for step in (20, 21, 22, 25)]

    kinds: list[dict[str, Any]] = [
        {"method": "gp-ei", "constraints": 2},
        {"method": "gp-ei"},
    ]
    now = [proposed(**options) for options in kinds]
    monkeypatch.setattr("regretless.classics.gp_ei.MARGIN", 0.0)
    without = [proposed(**options) for options in kinds]
    same = [[np.array_equal(a, b) for a, b in zip(*two, strict=True)] for two in zip(now, without, strict=True)]
    assert same[1] == [True] * 4
    assert not all(same[0])
