"""MS-UCB: the paper's formulas and limits, Z_t, and the subspaces of the default."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from regretless_bench.problems import make_problem
from scipy.optimize import minimize

from regretless.baselines.gp_ucb import GPUCB
from regretless.gp.acquisition import confidence_bound, of_posterior
from regretless.gp.design import design_size
from regretless.gp.subspace import random_blocks
from regretless.methods import METHODS
from regretless.methods.ms_ucb import algorithm
from regretless.methods.ms_ucb.algorithm import MSUCB, subspaces_at, theory_beta, uncovered_regret
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


def rugged(X):
    return -((X - 0.37) ** 2).sum(axis=1) + 0.1 * np.sin(9 * X).sum(axis=1)


@pytest.mark.parametrize("D", [5, 24])
def test_a_bulk_told_history_proposes_the_same_points_as_the_run_it_came_from(D):
    first = MSUCB(D, seed=5, low_dim=3)
    points(first, D + 12, rugged)
    second = MSUCB(D, seed=5, low_dim=3)
    second.tell(first.X, first.y)
    assert np.array_equal(first.ask(2, step=45), second.ask(2, step=45))
    third = MSUCB(D, seed=5, low_dim=3)
    third.load_state_dict(second.state_dict())
    second.ask(1), third.ask(1)
    assert np.array_equal(second.pending, third.pending)


def test_a_proposal_moves_few_coordinates_of_an_incumbent_or_of_a_base_point():
    method = MSUCB(30, seed=0, low_dim=4, initial=8)
    points(method, 8, rugged)
    from_incumbents = 0
    for _ in range(14):
        x = method.ask()[0]
        bases = np.concatenate([method.X, method._bases.Z])
        moved = (np.abs(bases - x) > 1e-12).sum(axis=1)
        assert moved.min() <= 4
        from_incumbents += moved[: len(method.X)].min() <= 4
        method.tell(x, rugged(x[None]))
    assert from_incumbents > 7


def test_all_coordinates_free_is_gp_ucb_on_the_same_model():
    ours, theirs = MSUCB(5, seed=3, low_dim=9), GPUCB(5, seed=3, kappa=1.0, quadratic=False)
    assert np.array_equal(points(ours, 18, rugged), points(theirs, 18, rugged))


def test_learnt_subspaces_free_what_the_length_scales_call_important(monkeypatch):
    seen = []

    def blocks(count, k, lines, weights, rng):
        seen.append(weights)
        return random_blocks(count, k, lines, weights, rng)

    monkeypatch.setattr(algorithm, "random_blocks", blocks)
    method = MSUCB(12, seed=1, low_dim=2, initial=30)
    points(method, 31, lambda X: np.sin(6 * X[:, 3]) * np.cos(5 * X[:, 8]))
    assert seen[0] is None  # random ones
    assert set(np.argsort(-seen[1])[:2]) == {3, 8}


def test_where_few_coordinates_matter_the_subspace_of_them_is_searched():
    problem = make_problem("camelback", dim=40, seed=4)
    method = MSUCB(40, seed=0, budget=110, initial=20)
    points(method, 110, problem.evaluate_unit)
    random = np.random.default_rng(0).random((20, 110, 40))
    typical = np.median([problem.optimum - problem.evaluate_unit(block).max() for block in random])
    assert problem.optimum - method.y.max() < 0.1 * typical


def test_every_second_step_searches_the_coordinates_that_matter():
    """Two of forty coordinates matter. Once the length-scales say so, every second proposal is a told point in the
    others; a subspace of five random coordinates would move some of those."""
    method = MSUCB(40, seed=0, budget=110, initial=20)

    def valley(X):
        return -8 * (X[:, 5] - 0.3) ** 2 - 5 * (X[:, 31] - 0.7) ** 2

    points(method, 60, valley)
    moved = []
    for _ in range(10):
        x = method.ask()
        if len(method.y) % 2:
            fewest = min((np.flatnonzero(row != x[0]) for row in method.X), key=len)
            moved.append(fewest.tolist())
        method.tell(x, valley(x))
    assert moved == [[5, 31]] * 5


def test_five_thousand_dimensions_are_asked_in_little_memory():
    method = MSUCB(5000, seed=0, initial=8)
    tracemalloc.start()
    points(method, 12, lambda X: -np.mean((X - 0.4) ** 2, axis=1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


def test_failed_points_are_kept_away_from():
    method = MSUCB(8, seed=2, low_dim=3, initial=6)
    points(method, 14, rugged)
    best = method.recommend()
    near = np.clip(best + 0.02, 0, 1)
    method.tell(np.array([near]), [np.nan])
    assert np.abs(method.ask(3) - near).max(axis=1).min() > 1e-3


# ---------------------------------------------------------------- regret, slow


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["levy", "ellipsoid"])
def test_the_default_beats_the_literal_method_by_a_wide_margin(name):
    gaps: dict[str, list[float]] = {"default": [], "paper": []}
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
    for z in method._bases.Z[: method._bases.sizes[method._t()]]:

        def negative(y, z=z):
            u = z.copy()
            u[free] = y
            value, slope = acquisition.value_and_gradient(u[None])
            return -value[0], -slope[0][free]

        for start in rng.random((10 * D, d)):
            ended = minimize(negative, start, jac=True, bounds=[(0, 1)] * d, method="L-BFGS-B")
            best = max(best, -ended.fun)
    assert found == pytest.approx(best, rel=1e-6)
