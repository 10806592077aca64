"""The contest as a method: replay, clipped turns, where it starts, and what grows with the dimension."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from regretless_bench.problems import make_problem

from regretless.classics.gp_ei import GPEI
from regretless.methods.gp_contest.default import GPContest
from regretless.models.gp.acquisition import log_expected_improvement
from regretless.testing import Loop, bowl, run


def test_a_bulk_told_history_proposes_the_same_points_as_the_run_it_came_from():
    first = Loop(GPContest(30, seed=5))
    run(first, 45)
    second = Loop(GPContest(30, seed=5))
    second.tell(first.history.X, first.history.y)
    assert np.array_equal(first.ask(2, step=45), second.ask(2, step=45))
    third = second.resumed(GPContest(30, seed=5))
    assert np.array_equal(second.ask(), third.ask())


def test_a_method_that_has_seen_another_history_proposes_what_a_fresh_one_does():
    """Scores, products and sums are cached; those of another history of the same size must not enter."""
    rng = np.random.default_rng(2)
    used, fresh = (Loop(GPContest(30, seed=5)) for _ in range(2))
    used.tell(rng.random((50, 30)), rng.random(50))
    used.ask()
    X = rng.random((50, 30))
    again = Loop(used.method)
    for loop in (again, fresh):
        loop.tell(X, bowl(X))
    assert np.array_equal(again.ask(step=50), fresh.ask(step=50))


@pytest.mark.parametrize(("D", "expected"), [(4, [6, 9, 12]), (21, [])])
def test_clipped_values_have_every_third_turn_in_few_dimensions_only(monkeypatch, D, expected):
    method = GPContest(D, seed=0, initial=5)
    loop = Loop(method)
    run(loop, 6)
    turns, gp = [], method._clipped.gp
    monkeypatch.setattr(method._clipped, "gp", lambda *told: turns.append(len(told[1])) or gp(*told))
    run(loop, 9)
    loop.recommend()
    assert turns == expected


def test_the_default_starts_as_gp_ei_does():
    """The rest of the same design after points told by others, and no design point, not even the centre, once there are
    enough of them."""
    X = np.random.default_rng(0).random((20, 30))
    for budget, rest in ((200, 12), (60, 0)):
        ours, theirs = Loop(GPContest(30, seed=4, budget=budget)), Loop(GPEI(30, seed=4, budget=budget))
        for loop in (ours, theirs):
            loop.tell(X, bowl(X))
        asked = ours.ask(rest + 1)
        assert np.array_equal(asked[:rest], theirs.ask(rest + 1)[:rest])
        assert (asked == 0.5).all(axis=1).any() == (rest > 0)


def test_on_the_same_posterior_the_default_finds_what_gp_ei_finds(monkeypatch):
    """Whatever separates the two methods is the model: the ascent from the best points of the subspaces reaches the
    same expected improvement."""
    D, rng = 30, np.random.default_rng(1)
    X = rng.random((45, D))
    y = -np.abs(X - rng.uniform(0.2, 0.8, D)).sum(axis=1)
    ours, theirs = GPContest(D, seed=2), GPEI(D, seed=2)
    monkeypatch.setattr(ours._contest, "choose", lambda *told: theirs._surrogate)
    loops = Loop(ours), Loop(theirs)
    for loop in loops:
        loop.tell(X, y)
    gp = theirs._surrogate.gp(X, y)
    score = log_expected_improvement(gp, float(gp.mean_at(X).max()))[1]
    found, reference = score(np.concatenate([loop.ask(step=9) for loop in loops]))
    assert found == pytest.approx(reference, abs=0.02)


def test_batches_differ_from_each_other():
    loop = Loop(GPContest(25, seed=0, initial=8))
    run(loop, 12)
    X = loop.ask(6)
    gaps = np.abs(X[:, None] - X[None]).max(axis=2) + np.eye(6)
    assert gaps.min() > 1e-6


@pytest.mark.parametrize("D", [1, 2])
def test_few_dimensions_run_without_a_warning(D):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop = Loop(GPContest(D, seed=0, budget=20))
        run(loop, 20)
    assert bowl(loop.recommend()) > -1e-3


def test_five_thousand_dimensions_fit_into_memory_and_improve():
    D = 5000
    centre = np.random.default_rng(0).uniform(0.2, 0.8, D)

    def wide(X):
        return -np.mean((X - centre) ** 2, axis=1)

    loop = Loop(GPContest(D, seed=0, initial=8))
    tracemalloc.start()
    run(loop, 14, wide)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
    y = loop.history.y
    assert y[8:].max() > y[1:8].max()  # the first point of the design is the centre, hard to beat here


def test_a_hidden_pair_of_coordinates_is_found():
    """Camelback hidden among 30 coordinates, a bowl would be too easy: with 70 evaluations the gap is far below random
    search's."""
    problem = make_problem("camelback", dim=30, seed=4)
    loop = Loop(GPContest(30, seed=0, budget=70, initial=20))
    run(loop, 70, problem.evaluate_unit)
    random = np.random.default_rng(0).random((20, 70, 30))
    typical = np.median([problem.optimum - problem.evaluate_unit(block).max() for block in random])
    assert problem.optimum - loop.history.y.max() < 0.3 * typical


def test_the_few_coordinates_that_matter_are_moved_alone():
    problem = make_problem("camelback", dim=40, seed=4)
    loop = Loop(GPContest(40, seed=0, budget=110, initial=20))
    run(loop, 110, problem.evaluate_unit)
    X = loop.history.X
    assert problem.optimum - loop.history.y.max() < 1e-5
    moved = [(X[:n] != X[n]).sum(axis=1).min() for n in range(100, 110)]  # against the told point most like it
    assert min(moved) <= 4 < max(moved)


def test_a_separable_bowl_in_thirty_dimensions_is_solved_where_random_search_is_nowhere():
    problem = make_problem("ellipsoid", dim=30, shift=0.6, seed=1)
    loop = Loop(GPContest(30, seed=0, budget=90))
    run(loop, 90, lambda X: -problem.evaluate_unit(X))
    random = problem.evaluate_unit(np.random.default_rng(0).random((90, 30))).min()
    assert -loop.history.y.max() < 0.01 * random


@pytest.mark.parametrize("options", [{"initial": 0}, {"noise_var": -1.0}, {"kappa": -1.0}])
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match="must"):
        GPContest(3, seed=0, **options)


@pytest.mark.parametrize("extreme", [1e160, -1e300])
def test_one_enormous_value_is_legal(extreme):
    loop = Loop(GPContest(6, seed=0, budget=24, initial=6))
    for i in range(24):
        x = loop.ask()[0]
        assert np.isfinite(x).all()
        loop.tell(x, [extreme if i == 8 else bowl(x[None])[0]], yvar=[0.01 if i % 2 else np.nan])
    best = (loop.recommend() == loop.history.X).all(axis=1)
    assert best.sum() == 1
    if extreme < 0:  # a single high value may be taken for noise, but a low one is never the best
        assert not best[8]


def test_noise_may_be_larger_than_tiny_values_by_any_factor():
    loop = Loop(GPContest(6, seed=0, budget=24, initial=6))
    for _ in range(12):
        x = loop.ask()[0]
        loop.tell(x, [1e-290 * bowl(x[None])[0]], yvar=[0.3])
    assert loop.recommend() in loop.history.X
