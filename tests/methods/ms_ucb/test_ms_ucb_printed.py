"""MS-UCB as printed: the paper's formulas, Z_t, the limits, and the maximum over the subspaces."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from regretless.classics.gp_ucb import GPUCB
from regretless.methods.ms_ucb import printed
from regretless.methods.ms_ucb.base_set import added
from regretless.methods.ms_ucb.printed import PrintedMSUCB, theory_beta, uncovered_regret
from regretless.models.gp.acquisition import confidence_bound, of_posterior
from regretless.testing import Loop, bowl, run

# ---------------------------------------------------------------- the paper's formulas


def test_widths_are_those_of_the_specification():
    """a = b = 1, delta = 0.1, d = 5, D = 100: 6.6, 9.9, 12.4, 13.0 at t = 1, 10, 100, 200."""
    widths = [math.sqrt(theory_beta(t, 5, 100, 0.1)) for t in (1, 10, 100, 200)]
    np.testing.assert_allclose(widths, [6.6, 9.9, 12.4, 13.0], atol=0.06)
    assert theory_beta(3, 0, 100, 0.1) == pytest.approx(4 * math.log(math.pi**2 * 9 / 0.2))


def test_number_of_subspaces_follows_the_schedule():
    assert [added(t, 3, 0) for t in (1, 2, 50)] == [3, 3, 3]
    assert [added(t, 2, 1) for t in (1, 2, 50)] == [2, 4, 100]
    assert [added(t, 1, 2) for t in (1, 2, 50)] == [1, 4, 2500]


def test_uncovered_regret_falls_with_the_number_of_subspaces_and_vanishes_without_fixed_coordinates():
    assert uncovered_regret(10, 5, 5, 0.1) == 0.0
    few, many = uncovered_regret(10, 4, 6, 0.1), uncovered_regret(1000, 4, 6, 0.1)
    assert few / many == pytest.approx(10.0)  # (1000 / 10)^(1 / 2)
    by_hand = 2 * math.sqrt(math.log(2 * 6 / 0.1)) * math.sqrt(2) * (math.log(20) / 10) ** 0.5
    assert few == pytest.approx(by_hand)


# ---------------------------------------------------------------- Z_t


@pytest.mark.parametrize(("bases", "growth"), [(1, 0), (3, 0), (1, 1), (2, 2)])
def test_base_points_are_kept_and_grow_as_the_schedule_says(bases, growth):
    method = PrintedMSUCB(6, seed=1, low_dim=2, bases=bases, growth=growth, initial=4)
    loop = Loop(method)
    run(loop, 4)
    before = np.empty((0, 6))
    for t in range(1, 6):
        run(loop, 1)
        Z = method.bases.Z
        assert len(Z) == sum(bases * k**growth for k in range(1, t + 1))
        assert np.array_equal(Z[: len(before)], before)
        before = Z.copy()


def test_proposals_lie_in_the_subspaces_of_z_t():
    method = PrintedMSUCB(8, seed=0, low_dim=3, bases=2, initial=5)
    loop = Loop(method)
    run(loop, 5)
    for x in run(loop, 6):
        fixed = method.bases.Z[:, :5]  # the last three coordinates are free
        assert (np.abs(fixed - x[:5]).max(axis=1) < 1e-12).any()


def test_a_cap_is_said_in_the_certificate():
    capped = Loop(PrintedMSUCB(4, seed=0, low_dim=2, bases=5, cap=6, initial=4))
    run(capped, 8)
    assert "the proof needs all of Z_t" in capped.certificate().reason
    whole = Loop(PrintedMSUCB(4, seed=0, low_dim=2, bases=5, initial=4))
    run(whole, 8)
    found = whole.certificate()
    assert found.certified
    assert found.lower <= 0.0 <= found.upper  # the bowl's maximum
    assert -bowl(whole.recommend()) <= found.gap


# ---------------------------------------------------------------- limits


def test_all_coordinates_free_is_gp_ucb_point_for_point(monkeypatch):
    """With the same constant width, and the same isotropic process on the values as they are."""
    monkeypatch.setattr(printed, "theory_beta", lambda *_: 1.5**2)
    X = np.random.default_rng(7).random((20, 4))  # more than either design has
    process = {"kernel": "matern52", "ard": False, "quadratic": False, "clip": False}
    ours, theirs = Loop(PrintedMSUCB(4, seed=3, low_dim=4)), Loop(GPUCB(4, seed=3, kappa=1.5, **process))
    for loop in (ours, theirs):
        loop.tell(X, bowl(X))
    assert np.array_equal(run(ours, 8), run(theirs, 8))
    assert np.array_equal(ours.ask(3), theirs.ask(3))


def test_no_coordinate_free_picks_the_best_of_the_sampled_points():
    method = PrintedMSUCB(5, seed=2, low_dim=0, bases=7, initial=4)
    loop = Loop(method)
    run(loop, 4)
    for _ in range(4):
        history, x = loop.history, loop.ask()[0]
        gp = method.process.gp(history.X, history.y, history.yvar)
        Z = method.bases.Z
        t = len(history) - 4 + 1
        mean, variance = gp.mean_var(Z)
        assert np.array_equal(x, Z[np.argmax(mean + math.sqrt(theory_beta(t, 0, 5, 0.1)) * np.sqrt(variance))])
        loop.tell(x, bowl(x[None]))


# ---------------------------------------------------------------- the maximum over the subspaces


@pytest.mark.parametrize(("D", "d", "t", "growth"), [(6, 2, 1, 0.0), (7, 3, 4, 0.0), (6, 2, 4, 1.0)])
def test_the_maximum_over_subspaces_is_that_of_many_ascents_in_each(D, d, t, growth):
    """The slow form of Alg. 1, l. 5-6: L-BFGS-B from 10 D uniform starts in every subspace of Z_t."""
    method = PrintedMSUCB(D, seed=t, budget=100, low_dim=d, growth=growth)
    loop, rng = Loop(method), np.random.default_rng(t)
    X = rng.random((19 + t, D))
    loop.tell(X, -((X - 0.4) ** 2).sum(1) + np.sin(9 * X).sum(1))
    history = loop.history
    gp = method.process.gp(history.X, history.y, history.yvar)
    bound = confidence_bound(math.sqrt(theory_beta(t, d, D, 0.1)), gp.signal)
    _, found = method.best_of_subspaces(history, gp, bound, history.pending, rng)
    acquisition, best, free = of_posterior(gp, bound), -np.inf, np.arange(D - d, D)
    for z in method.bases.Z:

        def negative(y, z=z):
            u = z.copy()
            u[free] = y
            value, slope = acquisition.value_and_gradient(u[None])
            return -value[0], -slope[0][free]

        for start in rng.random((10 * D, d)):
            ended = minimize(negative, start, jac=True, bounds=[(0, 1)] * d, method="L-BFGS-B")
            best = max(best, -ended.fun)
    assert found == pytest.approx(best, rel=1e-6)
