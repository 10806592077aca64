"""MS-UCB's default: its subspaces, and the limit in which all coordinates are free."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from regretless_bench.problems import make_problem

from regretless.classics.gp_ucb import GPUCB
from regretless.methods.ms_ucb import default
from regretless.methods.ms_ucb.default import MSUCB
from regretless.methods.ms_ucb.printed import PrintedMSUCB
from regretless.methods.ms_ucb.subspaces import random_blocks
from regretless.testing import Loop, bowl, run


def rugged(X):
    return -((X - 0.37) ** 2).sum(axis=1) + 0.1 * np.sin(9 * X).sum(axis=1)


@pytest.mark.parametrize("form", [MSUCB, PrintedMSUCB])
@pytest.mark.parametrize(
    "options",
    [{"low_dim": -1}, {"bases": 0}, {"growth": -1}, {"initial": 0}, {"noise_var": -1.0}, {"cap": -1}],
)
def test_bad_options_are_refused(form, options):
    with pytest.raises(ValueError, match=r"must|need"):
        form(3, seed=0, **options)


def test_bad_widths_are_refused():
    with pytest.raises(ValueError, match="must"):
        MSUCB(3, seed=0, kappa=-1.0)
    with pytest.raises(ValueError, match="must"):
        PrintedMSUCB(3, seed=0, delta=1.0)


@pytest.mark.parametrize("form", [MSUCB, PrintedMSUCB])
@pytest.mark.parametrize("extreme", [1e160, -1e300])
def test_one_enormous_value_is_legal(form, extreme):
    loop = Loop(form(6, seed=0, budget=24, initial=6))
    for i in range(24):
        x = loop.ask()[0]
        assert np.isfinite(x).all()
        loop.tell(x, [extreme if i == 8 else bowl(x[None])[0]], yvar=[0.01 if i % 2 else np.nan])
    best = (loop.recommend() == loop.history.X).all(axis=1)
    assert best.sum() == 1
    if extreme < 0:  # a single high value may be taken for noise, but a low one is never the best
        assert not best[8]


@pytest.mark.parametrize("D", [5, 24])
def test_a_bulk_told_history_proposes_the_same_points_as_the_run_it_came_from(D):
    first = Loop(MSUCB(D, seed=5, low_dim=3))
    run(first, D + 12, rugged)
    second = Loop(MSUCB(D, seed=5, low_dim=3))
    second.tell(first.history.X, first.history.y)
    assert np.array_equal(first.ask(2, step=45), second.ask(2, step=45))
    third = second.resumed(MSUCB(D, seed=5, low_dim=3))
    assert np.array_equal(second.ask(), third.ask())


def test_a_method_that_has_seen_another_history_proposes_what_a_fresh_one_does():
    """The sums of the base points are cached; those of another history must not enter."""
    rng = np.random.default_rng(2)
    used, fresh = (Loop(MSUCB(30, seed=5, low_dim=3)) for _ in range(2))
    used.tell(rng.random((45, 30)), rng.random(45))
    used.ask()
    X = rng.random((50, 30))
    again = Loop(used.method)
    for loop in (again, fresh):
        loop.tell(X, rugged(X))
    assert np.array_equal(again.ask(step=50), fresh.ask(step=50))


def test_a_proposal_moves_few_coordinates_of_an_incumbent_or_of_a_base_point():
    method = MSUCB(30, seed=0, low_dim=4, initial=8)
    loop = Loop(method)
    run(loop, 8, rugged)
    from_incumbents = 0
    for _ in range(14):
        x, told = loop.ask()[0], loop.history.X
        bases = np.concatenate([told, method.bases.Z])
        moved = (np.abs(bases - x) > 1e-12).sum(axis=1)
        assert moved.min() <= 4
        from_incumbents += moved[: len(told)].min() <= 4
        loop.tell(x, rugged(x[None]))
    assert from_incumbents > 7


def test_all_coordinates_free_is_gp_ucb_on_the_same_model():
    ours, theirs = Loop(MSUCB(5, seed=3, low_dim=9)), Loop(GPUCB(5, seed=3, kappa=1.0, quadratic=False))
    assert np.array_equal(run(ours, 18, rugged), run(theirs, 18, rugged))


def test_learnt_subspaces_free_what_the_length_scales_call_important(monkeypatch):
    seen = []

    def blocks(count, k, lines, weights, rng):
        seen.append(weights)
        return random_blocks(count, k, lines, weights, rng)

    monkeypatch.setattr(default, "random_blocks", blocks)
    loop = Loop(MSUCB(12, seed=1, low_dim=2, initial=30))
    run(loop, 31, lambda X: np.sin(6 * X[:, 3]) * np.cos(5 * X[:, 8]))
    assert seen[0] is None  # random ones
    assert set(np.argsort(-seen[1])[:2]) == {3, 8}


def test_where_few_coordinates_matter_the_subspace_of_them_is_searched():
    problem = make_problem("camelback", dim=40, seed=4)
    loop = Loop(MSUCB(40, seed=0, budget=110, initial=20))
    run(loop, 110, problem.evaluate_unit)
    random = np.random.default_rng(0).random((20, 110, 40))
    typical = np.median([problem.optimum - problem.evaluate_unit(block).max() for block in random])
    assert problem.optimum - loop.history.y.max() < 0.1 * typical


def test_every_second_step_searches_the_coordinates_that_matter():
    """Two of forty coordinates matter. Once the length-scales say so, every second proposal is a told point in the
    others; a subspace of five random coordinates would move some of those."""
    loop = Loop(MSUCB(40, seed=0, budget=110, initial=20))

    def valley(X):
        return -8 * (X[:, 5] - 0.3) ** 2 - 5 * (X[:, 31] - 0.7) ** 2

    run(loop, 60, valley)
    moved = []
    for _ in range(10):
        x = loop.ask()
        if len(loop.history) % 2:
            fewest = min((np.flatnonzero(row != x[0]) for row in loop.history.X), key=len)
            moved.append(fewest.tolist())
        loop.tell(x, valley(x))
    assert moved == [[5, 31]] * 5


def test_five_thousand_dimensions_are_asked_in_little_memory():
    loop = Loop(MSUCB(5000, seed=0, initial=8))
    tracemalloc.start()
    run(loop, 12, lambda X: -np.mean((X - 0.4) ** 2, axis=1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


def test_failed_points_are_kept_away_from():
    loop = Loop(MSUCB(8, seed=2, low_dim=3, initial=6))
    run(loop, 14, rugged)
    near = np.clip(loop.recommend() + 0.02, 0, 1)
    loop.tell(np.array([near]), [np.nan])
    assert np.abs(loop.ask(3) - near).max(axis=1).min() > 1e-3


def test_the_certificate_says_which_base_points_were_left_out():
    loop = Loop(MSUCB(2, seed=0, low_dim=1, bases=5, cap=6, initial=4))
    X = np.random.default_rng(0).random((20, 2))
    loop.tell(X, np.sin(5 * X).sum(axis=1))
    found = loop.certificate()
    assert found.certified
    assert any("the proof needs all of Z_t" in assumption for assumption in found.assumptions)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["levy", "ellipsoid"])
def test_the_default_beats_the_printed_method_by_a_wide_margin(name):
    gaps = {MSUCB: [], PrintedMSUCB: []}
    for seed in range(5):
        problem = make_problem(name, dim=50, shift=0.6, seed=seed)
        for form, results in gaps.items():
            loop = Loop(form(50, seed=seed, budget=150, initial=20))
            run(loop, 150, lambda X, p=problem: -p.evaluate_unit(X))
            results.append(math.log10(-loop.history.y.max()))
    assert np.median(gaps[MSUCB]) < np.median(gaps[PrintedMSUCB]) - 0.2
