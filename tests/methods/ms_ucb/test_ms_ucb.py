"""MS-UCB: the paper's formulas and limits, Z_t, the default's behaviour, and that nothing grows with the dimension that
should not."""

from __future__ import annotations

import math
import tracemalloc
import warnings

import numpy as np
import pytest
from regretless_bench.problems import make_problem
from scipy.optimize import minimize

from regretless.baselines.gp_ei import GPEI
from regretless.baselines.gp_ucb import GPUCB
from regretless.gp.acquisition import confidence_bound, log_expected_improvement, of_posterior
from regretless.gp.design import design_size
from regretless.gp.maximiser import Acquisition
from regretless.methods import METHODS
from regretless.methods.ms_ucb.algorithm import MSUCB, subspaces_at, theory_beta, uncovered_regret
from regretless.methods.ms_ucb.subspace import best_in_coordinates, coordinates_that_matter
from regretless.testing import bowl, run


def points(method, n, fun=bowl):
    return run(method, n, fun)


# ---------------------------------------------------------------- the paper's formulas


def test_widths_are_those_of_the_specification():
    """a = b = 1, delta = 0.1, d = 5, D = 100: 6.6, 9.9, 12.4, 13.0 at t = 1, 10, 100, 200."""
    widths = [math.sqrt(theory_beta(t, 5, 100, 0.1)) for t in (1, 10, 100, 200)]
    np.testing.assert_allclose(widths, [6.6, 9.9, 12.4, 13.0], atol=0.06)
    assert theory_beta(3, 0, 100, 0.1) == pytest.approx(4 * math.log(math.pi**2 * 9 / 0.2))


def test_number_of_subspaces_follows_the_schedule():
    assert [subspaces_at(t, 3, 0) for t in (1, 2, 50)] == [3, 3, 3]
    assert [subspaces_at(t, 2, 1) for t in (1, 2, 50)] == [2, 4, 100]
    assert [subspaces_at(t, 1, 2) for t in (1, 2, 50)] == [1, 4, 2500]


def test_uncovered_regret_falls_with_the_number_of_subspaces_and_vanishes_without_fixed_coordinates():
    assert uncovered_regret(10, 5, 5, 0.1) == 0.0
    few, many = uncovered_regret(10, 4, 6, 0.1), uncovered_regret(1000, 4, 6, 0.1)
    assert few / many == pytest.approx(10.0)  # (1000 / 10)^(1 / 2)
    by_hand = 2 * math.sqrt(math.log(2 * 6 / 0.1)) * math.sqrt(2) * (math.log(20) / 10) ** 0.5
    assert few == pytest.approx(by_hand)


# ---------------------------------------------------------------- Z_t


@pytest.mark.parametrize(("bases", "growth"), [(1, 0), (3, 0), (1, 1), (2, 2)])
def test_base_points_are_kept_and_grow_as_the_schedule_says(bases, growth):
    method = MSUCB(6, seed=1, preset="paper", low_dim=2, bases=bases, growth=growth, initial=4, kappa=1.0)
    points(method, 4)
    before = np.empty((0, 6))
    for t in range(1, 6):
        points(method, 1)
        Z = method._bases.Z
        assert len(Z) == sum(bases * k**growth for k in range(1, t + 1))
        assert np.array_equal(Z[: len(before)], before)
        before = Z.copy()


def test_literal_proposals_lie_in_the_subspaces_of_z_t():
    method = MSUCB(8, seed=0, preset="paper", low_dim=3, bases=2, initial=5)
    points(method, 5)
    for x in points(method, 6):
        fixed = method._bases.Z[:, :5]  # the last three coordinates are free
        assert (np.abs(fixed - x[:5]).max(axis=1) < 1e-12).any()


def test_a_cap_is_said_in_the_certificate():
    capped = MSUCB(4, seed=0, preset="paper", low_dim=2, bases=5, cap=6, initial=4)
    points(capped, 8)
    assert "the proof needs all of Z_t" in capped.certificate().reason
    whole = MSUCB(4, seed=0, preset="paper", low_dim=2, bases=5, initial=4)
    points(whole, 8)
    found = whole.certificate()
    assert found.certified
    assert found.lower <= 0.0 <= found.upper  # the bowl's maximum
    assert -bowl(whole.recommend()) <= found.gap


# ---------------------------------------------------------------- limits


def test_all_coordinates_free_is_gp_ucb_point_for_point():
    D = 4
    ours = MSUCB(D, seed=3, preset="paper", low_dim=D, kappa=1.5, initial=design_size(D, None))
    theirs = GPUCB(D, seed=3, preset="paper", kappa=1.5, kernel="matern52", ard=False)
    assert np.array_equal(points(ours, 16), points(theirs, 16))
    batch, other = ours.ask(3), theirs.ask(3)
    assert np.array_equal(batch, other)


def test_no_coordinate_free_picks_the_best_of_the_sampled_points():
    method = MSUCB(5, seed=2, preset="paper", low_dim=0, bases=7, initial=4)
    points(method, 4)
    for _ in range(4):
        x = method.ask()[0]
        gp = method._isotropic.gp(method.X, method.y, method.yvar)
        Z = method._bases.Z
        t = len(method.y) - 4 + 1
        mean, variance = gp.mean_var(Z)
        assert np.array_equal(x, Z[np.argmax(mean + math.sqrt(theory_beta(t, 0, 5, 0.1)) * np.sqrt(variance))])
        method.tell(x, bowl(x[None]))


@pytest.mark.parametrize(
    "options",
    [
        {"low_dim": -1},
        {"bases": 0},
        {"growth": -1},
        {"initial": 0},
        {"noise_var": -1.0},
        {"preset": "best"},
        {"kappa": -1.0},
        {"delta": 1.0},
        {"cap": -1},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=r"must|need"):
        MSUCB(3, seed=0, **options)


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("d", "low_dim"),
        ("N0", "bases"),
        ("alpha", "growth"),
        ("noise", "noise_var"),
    ],
)
def test_a_former_name_of_an_option_is_answered_with_the_present_one(former, present):
    with pytest.raises(TypeError, match=f"'{former}' is called '{present}'"):
        METHODS["ms-ucb"](**{former: 1})
    assert METHODS["ms-ucb"](**{present: 1}).options == {present: 1}


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("extreme", [1e160, -1e300])
def test_one_enormous_value_is_legal(preset, extreme):
    method = MSUCB(6, seed=0, budget=24, preset=preset, initial=6)
    for i in range(24):
        x = method.ask()[0]
        assert np.isfinite(x).all()
        method.tell(x, [extreme if i == 8 else bowl(x[None])[0]], yvar=[0.01 if i % 2 else np.nan])
    best = (method.recommend() == method.X).all(axis=1)
    assert best.sum() == 1
    if extreme < 0:  # a single high value may be taken for noise, but a low one is never the best
        assert not best[8]


# ---------------------------------------------------------------- the default


def test_a_bulk_told_history_proposes_the_same_points_as_the_run_it_came_from():
    first = MSUCB(30, seed=5)
    points(first, 45)
    second = MSUCB(30, seed=5)
    second.tell(first.X, first.y)
    assert np.array_equal(first.ask(2, step=45), second.ask(2, step=45))
    third = MSUCB(30, seed=5)
    third.load_state_dict(second.state_dict())
    second.ask(1), third.ask(1)
    assert np.array_equal(second.pending, third.pending)


@pytest.mark.parametrize(("D", "expected"), [(4, [6, 9, 12]), (21, [])])
def test_clipped_values_have_every_third_turn_in_few_dimensions_only(monkeypatch, D, expected):
    method = MSUCB(D, seed=0, initial=5)
    points(method, 6)
    turns, gp = [], method._clipped.gp
    monkeypatch.setattr(method._clipped, "gp", lambda *told: turns.append(len(told[1])) or gp(*told))
    points(method, 9)
    method.recommend()
    assert turns == expected


def test_the_default_starts_as_gp_ei_does():
    """The rest of the same design after points told by others, and no design point, not even the centre, once there are
    enough of them."""
    X = np.random.default_rng(0).random((20, 30))
    for budget, rest in ((200, 12), (60, 0)):
        ours, theirs = MSUCB(30, seed=4, budget=budget), GPEI(30, seed=4, budget=budget)
        for method in (ours, theirs):
            method.tell(X, bowl(X))
        asked = ours.ask(rest + 1)
        assert np.array_equal(asked[:rest], theirs.ask(rest + 1)[:rest])
        assert (asked == 0.5).all(axis=1).any() == (rest > 0)


def test_on_the_same_posterior_the_default_finds_what_gp_ei_finds(monkeypatch):
    """Whatever separates the two methods is the model: the ascent from the best points of the subspaces reaches the
    same expected improvement."""
    D, rng = 30, np.random.default_rng(1)
    X = rng.random((45, D))
    y = -np.abs(X - rng.uniform(0.2, 0.8, D)).sum(axis=1)
    ours, theirs = MSUCB(D, seed=2), GPEI(D, seed=2)
    monkeypatch.setattr(ours._contest, "choose", lambda *told: theirs._surrogate)
    for method in (ours, theirs):
        method.tell(X, y)
    gp = theirs._surrogate.gp(X, y)
    score = log_expected_improvement(gp, float(gp.mean_at(X).max()))[1]
    found, reference = score(np.concatenate([ours.ask(1, step=9), theirs.ask(1, step=9)]))
    assert found == pytest.approx(reference, abs=0.02)


def test_batches_differ_from_each_other():
    method = MSUCB(25, seed=0, initial=8)
    points(method, 12)
    X = method.ask(6)
    gaps = np.abs(X[:, None] - X[None]).max(axis=2) + np.eye(6)
    assert gaps.min() > 1e-6


@pytest.mark.parametrize("D", [1, 2])
def test_few_dimensions_run_without_a_warning(D):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method = MSUCB(D, seed=0, budget=20)
        points(method, 20)
    assert bowl(method.recommend()) > -1e-3


def test_five_thousand_dimensions_fit_into_memory_and_improve():
    D = 5000
    centre = np.random.default_rng(0).uniform(0.2, 0.8, D)

    def wide(X):
        return -np.mean((X - centre) ** 2, axis=1)

    method = MSUCB(D, seed=0, initial=8)
    tracemalloc.start()
    points(method, 14, wide)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
    assert method.y[8:].max() > method.y[1:8].max()  # the first point of the design is the centre, hard to beat here


def test_a_hidden_pair_of_coordinates_is_found():
    """Camelback hidden among 30 coordinates, a bowl would be too easy: with 70 evaluations the gap is far below random
    search's."""
    problem = make_problem("camelback", dim=30, seed=4)
    method = MSUCB(30, seed=0, budget=70, initial=20)
    points(method, 70, problem.evaluate_unit)
    random = np.random.default_rng(0).random((20, 70, 30))
    typical = np.median([problem.optimum - problem.evaluate_unit(block).max() for block in random])
    assert problem.optimum - method.y.max() < 0.3 * typical


def test_the_few_coordinates_that_matter_are_told_apart_and_then_moved_alone():
    lengthscale = np.full(40, 100.0)
    lengthscale[[7, 30]] = 0.3, 0.5
    assert coordinates_that_matter(lengthscale).tolist() == [7, 30]
    assert len(coordinates_that_matter(np.ones(40))) == 40
    problem = make_problem("camelback", dim=40, seed=4)
    method = MSUCB(40, seed=0, budget=110, initial=20)
    points(method, 110, problem.evaluate_unit)
    assert problem.optimum - method.y.max() < 1e-5
    moved = [
        (method.X[:n] != method.X[n]).sum(axis=1).min() for n in range(100, 110)
    ]  # against the told point that is most like it
    assert min(moved) <= 4 < max(moved)


def test_a_search_in_few_coordinates_leaves_the_others_as_they_are():
    centre = np.array([0.3, 0.9, 0.1, 0.6])
    incumbents = np.random.default_rng(0).random((2, 4))

    def score(X):
        return -((X - centre) ** 2).sum(axis=1)

    x = best_in_coordinates(
        np.array([1, 3]),
        Acquisition(lambda X: (score(X), 2 * (centre - X)), score),
        incumbents,
        np.random.default_rng(1),
    )
    np.testing.assert_allclose(x[[1, 3]], centre[[1, 3]], atol=1e-6)
    assert np.array_equal(x[[0, 2]], incumbents[0, [0, 2]])


def test_a_separable_bowl_in_thirty_dimensions_is_solved_where_random_search_is_nowhere():
    problem = make_problem("ellipsoid", dim=30, shift=0.6, seed=1)
    method = MSUCB(30, seed=0, budget=90)
    points(method, 90, lambda X: -problem.evaluate_unit(X))
    random = problem.evaluate_unit(np.random.default_rng(0).random((90, 30))).min()
    assert -method.y.max() < 0.01 * random


# ---------------------------------------------------------------- regret, slow


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["levy", "ellipsoid"])
def test_the_default_beats_the_literal_method_by_a_wide_margin(name):
    gaps = {"default": [], "paper": []}
    for seed in range(5):
        problem = make_problem(name, dim=50, shift=0.6, seed=seed)
        for preset, results in gaps.items():
            method = MSUCB(50, seed=seed, budget=150, preset=preset, initial=20)
            points(method, 150, lambda X, p=problem: -p.evaluate_unit(X))
            results.append(math.log10(-method.y.max()))
    assert np.median(gaps["default"]) < np.median(gaps["paper"]) - 0.2


@pytest.mark.parametrize(("D", "d", "t", "growth"), [(6, 2, 1, 0.0), (7, 3, 4, 0.0), (6, 2, 4, 1.0)])
def test_the_maximum_over_subspaces_is_that_of_many_ascents_in_each(D, d, t, growth):
    """The slow form of Alg. 1, l. 5-6: L-BFGS-B from 10 D uniform starts in every subspace of Z_t."""
    method = METHODS["ms-ucb"](preset="paper", low_dim=d, growth=growth).build(D, seed=t, budget=100)
    rng = np.random.default_rng(t)
    X = method.cube.snap(rng.random((19 + t, D)))
    method.tell(X, -((X - 0.4) ** 2).sum(1) + np.sin(9 * X).sum(1))
    gp = method._isotropic.gp(method.X, method.y, method.yvar, method.pending)
    bound = confidence_bound(method._width(0.1), gp.signal)
    _, found = method._best_of_subspaces(gp, bound, method.pending, rng)
    acquisition, best, free = of_posterior(gp, bound), -np.inf, np.arange(D - d, D)
    for z in method._bases.Z[: method._sizes[method._t()]]:

        def negative(y, z=z):
            u = z.copy()
            u[free] = y
            value, slope = acquisition.value_and_gradient(u[None])
            return -value[0], -slope[0][free]

        for start in rng.random((10 * D, d)):
            ended = minimize(negative, start, jac=True, bounds=[(0, 1)] * d, method="L-BFGS-B")
            best = max(best, -ended.fun)
    assert found == pytest.approx(best, rel=1e-6)
