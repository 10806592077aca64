"""Kernels along turned axes."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from regretless.models.gp.fit import NegativeLogPosterior, Prior, fit
from regretless.models.gp.frame import directions, turn_axes
from regretless.models.gp.posterior import GP, Hyper, Kernel
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float

NONE = np.full(60, np.nan)


def valley(n=60, seed=0):
    """Ripples across the coordinates of a cube: steep along `across`, gentle otherwise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 4))
    across = np.array([0.5, 0.5, -0.5, 0.5])
    y = ripples(X, across)
    return X, (y - y.mean()) / y.std(), across, rng.random((200, 4))


def ripples(X, across):
    return np.cos(9 * (X - 0.45) @ across) - 0.1 * ((X - 0.45) ** 2).sum(axis=1)


def test_a_rotation_is_the_same_kernel_on_rotated_points():
    X, y, _, Q = valley()
    R = ortho_group.rvs(4, random_state=0)
    hyper = Hyper(np.array([0.3, 0.6, 1.0, 2.0]), 1e-4, 1.0, 0.3, R)
    kernel = Kernel("matern52", 4)
    turned_gp = GP.exact(kernel, hyper, X, y)
    plain_gp = GP.exact(kernel, Hyper(hyper.lengthscale, 1e-4, 1.0, 0.3), (X - 0.5) @ R + 0.5, y)
    np.testing.assert_allclose(turned_gp.mean_var(Q), plain_gp.mean_var((Q - 0.5) @ R + 0.5), atol=1e-9)
    assert turned_gp.information() == pytest.approx(plain_gp.information(), abs=1e-8)


@pytest.mark.parametrize("labels", [None, np.array([0, 3, 0, 0])], ids=["lines", "choices"])
def test_gradients_along_turned_axes(labels):
    X, y, _, Q = valley()
    lines = 4 if labels is None else 3
    hyper = Hyper(np.array([0.3, 0.6, 1.0, 2.0]), 1e-4, 1.0, 0.3, ortho_group.rvs(lines, random_state=0))
    gp = GP.exact(Kernel("matern52", 4, labels), hyper, X, y)
    path = gp.path(np.random.default_rng(0))
    Q = Q[:6]
    moments = gp.mean_var_grad(Q)
    for value, gradient in (
        (gp.mean_at, moments[2]),
        (lambda P: gp.mean_var(P)[1], moments[3]),
        (lambda P: path(P)[0], path(Q)[1]),
    ):
        for j in range(4):
            step = np.zeros(4)
            step[j] = 1e-6
            expected = np.zeros(6) if labels is not None and labels[j] else (value(Q + step) - value(Q - step)) / 2e-6
            np.testing.assert_allclose(gradient[:, j], expected, atol=1e-5)


def test_a_valley_is_found_and_predicted_better():
    X, y, across, Q = valley()
    kernel, prior = Kernel("matern52", 4), Prior.scaled(4, quadratic=False)
    straight = fit(kernel, X, y, prior=prior, rounds=40)
    along = straight
    for _ in range(2):
        along = turn_axes(kernel, X, y, NONE, along, prior=prior, rounds=40)
    assert along.rotation is not None
    steepest = along.rotation[:, int(np.argmin(along.lengthscale))]
    assert abs(steepest @ across) > 0.95
    better = NegativeLogPosterior(kernel, X, y, None, prior, ard=True, rotation=along.rotation)
    worse = NegativeLogPosterior(kernel, X, y, None, prior, ard=True)
    assert better.one(better.theta(along))[0] < worse.one(worse.theta(straight))[0] - 5
    correlation = [
        np.corrcoef(GP.exact(kernel, h, X, y).mean_at(Q), ripples(Q, across))[0, 1] for h in (straight, along)
    ]
    assert 1 - correlation[1] < 0.5 * (1 - correlation[0])


def test_what_runs_along_the_coordinates_is_left_alone_or_no_worse():
    rng = np.random.default_rng(1)
    X = rng.random((60, 4))
    y = np.sin(7 * X[:, 0]) + 0.3 * X[:, 1]
    y = (y - y.mean()) / y.std()
    kernel, prior = Kernel("matern52", 4), Prior.scaled(4, quadratic=False)
    straight = fit(kernel, X, y, prior=prior, rounds=40)
    chosen = turn_axes(kernel, X, y, NONE, straight, prior=prior, rounds=40)
    before, after = (
        NegativeLogPosterior(kernel, X, y, None, prior, ard=True, rotation=h.rotation) for h in (straight, chosen)
    )
    assert after.one(after.theta(chosen))[0] <= before.one(before.theta(straight))[0] + 1e-9
    few = turn_axes(kernel, X[:8], y[:8], NONE[:8], straight, prior=prior, rounds=5)
    assert few is straight


def test_noisy_values_do_not_turn_the_axes():
    X, y, _, _ = valley()
    y = y + 0.3 * np.random.default_rng(2).standard_normal(60)
    kernel, prior = Kernel("matern52", 4), Prior.scaled(4)
    straight = Hyper(np.full(4, 0.5), 0.1, 1.0, 0.1)
    assert turn_axes(kernel, X, y, NONE, straight, prior=prior, rounds=20) is straight
    assert turn_axes(kernel, X, y, np.full(60, 0.1), straight, prior=prior, rounds=20) is straight


def test_directions_of_constant_values_are_proper():
    gp = GP.exact(
        Kernel("matern52", 3), Hyper(np.full(3, 0.5), 1e-3), np.random.default_rng(0).random((12, 3)), np.zeros(12)
    )
    axes, shape = directions(gp)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(shape, 1.0)


@pytest.mark.parametrize("n", [15, 47])
def test_a_replay_with_turning_axes_is_bit_exact(n):
    X, y, _, Q = valley(n)
    slow, quick = (Surrogate(Cube.box(4), rotate=True) for _ in range(2))
    for i in range(1, n + 1):
        grown = slow.gp(X[:i], y[:i])
    np.testing.assert_array_equal(quick.gp(X, y).mean_var(Q), grown.mean_var(Q))


def test_mixed_spaces_turn_only_their_lines():
    cube = Space({"a": Float(0, 1), "c": Choice(["p", "q", "r"]), "b": Float(0, 1), "e": Float(0, 1)}).cube()
    X = cube.snap(np.random.default_rng(0).random((56, 4)))
    y = -((X[:, 0] + X[:, 1] - 1) ** 2) * 50 - X[:, 0] ** 2 + (X[:, 2] > 0.5)  # in the order of the names
    gp = Surrogate(cube, rotate=True, quadratic=False).gp(X, y)
    assert gp.hyper.rotation is not None
    assert gp.hyper.rotation.shape == (3, 3)
    assert np.isfinite(gp.mean_var_grad(X)[3]).all()
    assert (gp.mean_var_grad(X)[2][:, 2] == 0).all()
