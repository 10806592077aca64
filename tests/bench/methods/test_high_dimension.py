"""LineBO, Dropout, SRE, REMBO, HeSBO and linear BO: their embeddings checked by hand, and the settings where each
becomes something simpler."""

from __future__ import annotations

import math

import numpy as np
import pytest
from inside import surrogate_of
from regretless_bench.methods import RIVALS
from regretless_bench.methods.dropout import Dropout
from regretless_bench.methods.hesbo import HeSBO
from regretless_bench.methods.linear_bo import (
    LinearBO,
    SphericalRegression,
    best_scale_and_noise,
    gradient_in_x,
    project,
)
from regretless_bench.methods.linebo import GRID, LineBO
from regretless_bench.methods.rembo import REMBO
from regretless_bench.methods.sre import SRE

from regretless.classics.gp_ucb import GPUCB
from regretless.history import History
from regretless.models.gp.design import design_size
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.testing import Loop, bowl, run

# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", ["rembo", "hesbo", "sre", "dropout", "linebo", "linear-bo"])
@pytest.mark.parametrize("extreme", [1e160, -1e300])
def test_one_enormous_value_is_legal(name, extreme):
    loop = Loop(RIVALS[name].build(6, seed=0, budget=24))
    for i in range(16):
        x = loop.ask()[0]
        assert np.isfinite(x).all()
        loop.tell(x, [extreme if i == 3 else bowl(x[None])[0]], yvar=[0.01 if i % 2 else np.nan])
    assert (loop.recommend() == loop.history.X[3]).all() == (extreme > 0)


@pytest.mark.parametrize("make", [REMBO, HeSBO])
def test_an_embedded_design_goes_on_with_random_points_while_everything_fails(make):
    method = make(9, seed=1, low_dim=2, initial=4)
    loop, first = Loop(method), Loop(make(9, seed=1, low_dim=2, initial=4)).ask(4)
    images = method.to_cube(method.design.points)
    np.testing.assert_allclose(first, images[0] if make is REMBO else images, atol=1e-9)
    for i in range(7):
        x = loop.ask()[0]
        assert (i < 4) == (x == first).all(axis=1).any()
        loop.tell(x, np.nan)
    loop.tell(first[0], 1.0)
    assert not (loop.ask()[0] == first).all(axis=1).any()


def test_the_design_of_an_embedding_takes_a_quarter_of_the_budget():
    for budget, size in ((None, 20), (200, 20), (40, 10), (5, 2)):
        method = REMBO(30, seed=2, budget=budget, low_dim=3)
        assert len(method.design.points) == size


# ---------------------------------------------------------------- REMBO


def test_rembo_maps_by_its_matrix_and_clips():
    method = REMBO(30, seed=0, low_dim=3)
    Y = np.array([[0.5, 0.5, 0.5], [0.6, 0.4, 0.55], [1.0, 0.0, 1.0]])
    X, inside = method.to_cube(Y)
    assert np.array_equal(X[0], np.full(30, 0.5))  # 0 is the centre
    high = math.sqrt(3) * (2 * Y - 1) @ method.A.T
    np.testing.assert_allclose(2 * X - 1, np.clip(high, -1, 1), atol=1e-15)
    assert np.array_equal(inside, np.abs(high) < 1)
    assert 0 < inside[2].sum() < 30


def test_rembo_gradient_goes_through_the_embedding():
    from regretless.models.gp.acquisition import log_expected_improvement, through

    method = REMBO(12, seed=1, low_dim=2, initial=6)
    loop = Loop(method)
    run(loop, 10)
    gp = surrogate_of(method).gp(loop.history.X, loop.history.y)
    low = through(log_expected_improvement(gp, float(loop.history.y.max())), method.to_cube, math.sqrt(2) * method.A)
    y, h = np.array([[0.43, 0.61]]), 1e-7
    numeric = [(low[1](y + h * e)[0] - low[1](y - h * e)[0]) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(low[0](y)[1][0], numeric, rtol=1e-4, atol=1e-6)


def test_rembo_proposes_points_of_its_subspace_only():
    method = REMBO(9, seed=2, low_dim=2, initial=5)
    for x in run(Loop(method), 12):
        u = 2 * x - 1
        free = np.abs(u) < 1 - 1e-9
        y, *_ = np.linalg.lstsq(method.A[free], u[free], rcond=None)
        np.testing.assert_allclose(np.clip(method.A @ y, -1, 1), u, atol=1e-6)


# ---------------------------------------------------------------- HeSBO


def test_hesbo_hashes_and_back():
    method = HeSBO(40, seed=0, low_dim=4)
    Y = np.random.default_rng(0).random((6, 4))
    X = method.to_cube(Y)
    np.testing.assert_allclose(2 * X - 1, method.sign * (2 * Y - 1)[:, method.bucket], atol=1e-15)
    np.testing.assert_allclose(method.to_low(X), Y, atol=1e-14)
    norms = np.bincount(method.bucket, minlength=4)  # the embedding is an isometry up to the size of the buckets
    np.testing.assert_allclose(((X[0] - X[1]) ** 2).sum(), (norms * (Y[0] - Y[1]) ** 2).sum())


def test_hesbo_with_one_coordinate_each_models_the_box_itself():
    method = HeSBO(3, seed=0, low_dim=3, initial=4)
    method.bucket, method.sign = np.arange(3), np.ones(3)
    rng = np.random.default_rng(1)
    X, Q = rng.random((8, 3)), rng.random((5, 3))
    gp = surrogate_of(method).gp(method.to_low(X), bowl(X))
    expected = Surrogate(Cube.box(3), ard=False, quadratic=False, clip=False).gp(X, bowl(X))
    np.testing.assert_allclose(gp.mean_var(method.to_low(Q)), expected.mean_var(Q), rtol=1e-9)


# ---------------------------------------------------------------- SRE


def test_sre_embeds_around_the_best_point_of_the_rounds_before():
    method = SRE(20, seed=0, budget=40, low_dim=3, rounds=4)
    assert method.length == 10
    loop = Loop(method)
    assert not method.embedding(loop.history, 0, 0)[:, 0].any()  # the first round is around 0
    run(loop, 25)
    at, start = method.round(loop.history)
    assert (at, start) == (2, 20)
    B = method.embedding(loop.history, at, start)
    np.testing.assert_array_equal(B[:, 0], 2 * loop.history.X[np.argmax(loop.history.y[:20])] - 1)
    assert not np.array_equal(B[:, 1:], method.embedding(loop.history, 1, 10)[:, 1:])
    wide = SRE(4000, seed=0, low_dim=10).embedding(History(4000), 0, 0)[:, 1:]
    assert wide.var() == pytest.approx(1 / 10, rel=0.05)


def test_sre_proposals_lie_in_the_round_s_subspace():
    method = SRE(15, seed=3, budget=40, low_dim=2, rounds=4)
    loop = Loop(method)
    run(loop, 12)
    B = method.embedding(loop.history, *method.round(loop.history))
    u = 2 * loop.ask()[0] - 1
    free = np.abs(u) < 1 - 1e-9
    coefficients, *_ = np.linalg.lstsq(B[free], u[free], rcond=None)
    np.testing.assert_allclose(np.clip(B @ coefficients, -1, 1), u, atol=1e-6)
    assert (np.abs(coefficients) <= 1 + 1e-6).all()


# ---------------------------------------------------------------- Dropout


def test_dropout_with_all_coordinates_is_gp_ucb_point_for_point():
    process = {"kernel": "matern52", "ard": False, "quadratic": False, "clip": False}
    ours, theirs = Loop(Dropout(4, seed=3, low_dim=4, kappa=1.5)), Loop(GPUCB(4, seed=3, kappa=1.5, **process))
    X = np.random.default_rng(7).random((14, 4))  # more than either design has
    for loop in (ours, theirs):
        loop.tell(X, -((X - 0.3) ** 2).sum(axis=1))
    assert np.array_equal(run(ours, 8), run(theirs, 8))


def test_dropout_copies_the_best_point_where_coordinates_were_dropped():
    loop = Loop(Dropout(12, seed=0, low_dim=3, random_fill=0.0, initial=5))
    run(loop, 8)
    for _ in range(5):
        best = loop.history.X[np.argmax(loop.history.y)]
        x = loop.ask()[0]
        assert (x != best).sum() <= 3
        loop.tell(x, bowl(x[None]))


def test_dropout_fills_in_at_random_as_often_as_it_should():
    method = Dropout(200, seed=1, low_dim=2, random_fill=0.3, initial=3)
    loop, kept = Loop(method), np.array([0, 1])
    run(loop, 4)
    best = loop.history.X[np.argmax(loop.history.y)]
    filled = [method.fill_in(loop.history, kept, best[:2], np.random.default_rng(s)) for s in range(400)]
    assert 0.62 < np.mean([(x == best).all() for x in filled]) < 0.78
    random = Loop(Dropout(200, seed=1, low_dim=2, random_fill=1.0, initial=3))
    run(random, 4)
    assert (random.ask()[0] != random.history.X[np.argmax(random.history.y)]).sum() > 190


# ---------------------------------------------------------------- LineBO


def test_linebo_stays_on_its_line_and_then_turns():
    method = LineBO(7, seed=0, least=4, most=4, initial=5)
    loop, bases = Loop(method), []
    run(loop, 5)
    for k in range(3):
        X = run(loop, 5)  # four by the bound, and the best point of the line
        bases.append(method.line.base)
        rays = X - bases[k]
        np.testing.assert_allclose(rays, np.outer(rays @ method.direction(k), method.direction(k)), atol=1e-9)
    for k in (1, 2):  # the next line leads through a point of the one before
        ray = bases[k] - bases[k - 1]
        np.testing.assert_allclose(ray, (ray @ method.direction(k - 1)) * method.direction(k - 1), atol=1e-9)
        assert np.abs(ray).max() > 1e-3


def test_linebo_in_one_dimension_maximises_the_bound_on_a_grid():
    method = LineBO(1, seed=0, least=50, most=50)
    loop = Loop(method)
    run(loop, design_size(1, None) + 3)
    x, history = loop.ask()[0, 0], loop.history
    gp = surrogate_of(method).gp(history.X, history.y, history.yvar)
    grid = np.linspace(0, 1, GRID)[:, None]
    mean, variance = gp.mean_var(grid)
    assert x == pytest.approx(grid[np.argmax(mean + 2 * np.sqrt(variance)), 0], abs=1e-12)


def test_linebo_walks_the_same_lines_when_told_in_bulk():
    first, second = (Loop(LineBO(5, seed=1, least=3, most=6, initial=4)) for _ in range(2))
    run(first, 22)
    second.tell(first.history.X, first.history.y)
    assert np.array_equal(first.ask(step=22), second.ask(step=22))
    assert first.method.line.k == second.method.line.k > 1


# ---------------------------------------------------------------- linear BO


def test_projection_is_on_the_sphere_and_its_gradient_is_exact():
    rng = np.random.default_rng(0)
    X, G = rng.random((5, 8)), rng.standard_normal((5, 9))
    P = project(X, 0.4)
    np.testing.assert_allclose((P**2).sum(axis=1), 1.0)
    np.testing.assert_allclose(project(np.full((1, 8), 0.5), 0.4)[0], [0] * 8 + [-1])
    h = 1e-6
    numeric = np.stack(
        [((project(X + h * e, 0.4) - project(X - h * e, 0.4)) / (2 * h) * G).sum(axis=1) for e in np.eye(8)], axis=1
    )
    np.testing.assert_allclose(gradient_in_x(G, X, 0.4), numeric, atol=1e-7)


def test_kernel_form_is_bayesian_linear_regression():
    rng = np.random.default_rng(1)
    X, y, Q = rng.random((20, 5)), rng.standard_normal(20), rng.random((6, 5))
    model = SphericalRegression(X, y, np.empty((0, 5)), 0.5, 0.1)
    P, standard = project(X, 0.5), (y - y.mean()) / y.std()
    precision = P.T @ P / 0.1 + np.eye(6)
    coefficients = np.linalg.solve(precision, P.T @ (standard - model.mean) / 0.1)
    np.testing.assert_allclose(model.weights, coefficients, atol=1e-10)
    mean, variance, dm, dv = model.mean_var_grad(Q)
    R = project(Q, 0.5)
    np.testing.assert_allclose(mean, model.mean + R @ coefficients, atol=1e-10)
    np.testing.assert_allclose(
        variance, model.signal * np.einsum("ij,jk,ik->i", R, np.linalg.inv(precision), R), atol=1e-10
    )
    h = 1e-6
    for j in range(5):
        (m1, v1), (m0, v0) = model.mean_var(Q + h * np.eye(5)[j]), model.mean_var(Q - h * np.eye(5)[j])
        np.testing.assert_allclose(dm[:, j], (m1 - m0) / (2 * h), atol=1e-6)
        np.testing.assert_allclose(dv[:, j], (v1 - v0) / (2 * h), atol=1e-6)


def test_noise_on_the_grid_tells_a_linear_function_from_noise():
    rng = np.random.default_rng(2)
    X = rng.random((60, 10))
    slope = project(X, 0.5) @ rng.standard_normal(11)
    assert best_scale_and_noise(X, (slope - slope.mean()) / slope.std())[1] < 1e-2
    noise = rng.standard_normal(60)
    assert best_scale_and_noise(X, (noise - noise.mean()) / noise.std())[1] > 0.3


def test_linear_bo_climbs_a_slope_and_does_not_sit_in_a_corner():
    centre = np.random.default_rng(3).uniform(0.3, 0.7, 40)
    loop = Loop(LinearBO(40, seed=0))
    run(loop, 70, lambda X: -((X - centre) ** 2).mean(axis=1))
    X, y = loop.history.X, loop.history.y
    assert y[40:].max() > y[:32].max()
    assert ((X[32:] > 0) & (X[32:] < 1)).mean() > 0.5


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (REMBO, {"low_dim": 0}),
        (HeSBO, {"initial": 0}),
        (SRE, {"rounds": 0}),
        (SRE, {"low_dim": 0}),
        (Dropout, {"random_fill": 2.0}),
        (Dropout, {"low_dim": 0}),
        (LineBO, {"least": 5, "most": 4}),
    ],
)
def test_bad_options_are_refused(make, options):
    with pytest.raises(ValueError, match=r"must|need"):
        make(5, seed=0, **options)
