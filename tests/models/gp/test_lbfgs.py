"""The batched quasi-Newton against scipy's L-BFGS-B."""

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from regretless.models.gp.lbfgs import DENSE, Dense, minimise


def batch(X):
    return np.array([rosen(x) for x in X]), np.array([rosen_der(x) for x in X])


@pytest.mark.parametrize("d", [2, 5, 20, DENSE + 10])
@pytest.mark.parametrize("upper", [2.0, 0.5])
def test_reaches_scipys_minima(d, upper):
    start = np.random.default_rng(0).uniform(-2, min(upper, 2), (4, d))
    X, f = minimise(batch, start, -2.0, upper, rounds=600)
    theirs = [
        minimize(rosen, x, jac=rosen_der, method="L-BFGS-B", bounds=[(-2, upper)] * d, options={"ftol": 1e-14}).fun
        for x in start
    ]
    assert np.median(f) <= np.median(theirs) + 1e-6  # starts may fall into different minima
    assert f.min() <= min(theirs) + 1e-6
    assert ((X >= -2) & (upper >= X)).all()
    np.testing.assert_array_equal(batch(X)[0], f)


@pytest.mark.parametrize("d", [1, 2, 6, 17, DENSE, DENSE + 10])
@pytest.mark.parametrize("upper", [2.0, 0.7])
def test_starts_do_not_see_each_other(d, upper):
    weights = np.geomspace(1, 1e3, d)

    def wavy(X):
        total, away = X.sum(axis=1), X - 0.9
        return (weights * away**2).sum(axis=1) + np.cos(3 * total), 2 * weights * away - 3 * np.sin(3 * total)[:, None]

    start = np.random.default_rng(1).uniform(-2, upper, (3, d))
    together = minimise(wavy, start, -2.0, upper, rounds=25)
    for i in range(3):
        alone = minimise(wavy, start[i : i + 1], -2.0, upper, rounds=25)
        if d <= DENSE:
            np.testing.assert_array_equal(alone[0][0], together[0][i])
            assert alone[1][0] == together[1][i]
        np.testing.assert_allclose(alone[0][0], together[0][i], rtol=1e-6)


def test_held_coordinates_stay_and_each_start_has_its_own_bounds():
    start = np.array([[0.3, 0.9, 0.2], [0.6, 0.1, 0.7]])
    lower, upper = np.zeros((2, 3)), np.ones((2, 3))
    lower[:, 1] = upper[:, 1] = start[:, 1]
    X, _ = minimise(lambda P: (((P - 0.5) ** 2).sum(axis=1), 2 * (P - 0.5)), start, lower, upper, rounds=20)
    np.testing.assert_allclose(X, [[0.5, 0.9, 0.5], [0.5, 0.1, 0.5]], atol=1e-8)


def test_infinite_and_undefined_values_are_walls():
    def walled(P):
        x = P[:, 0]
        with np.errstate(invalid="ignore", divide="ignore"):
            return x - np.log(x - 0.2), (1 - 1 / (x - 0.2))[:, None]

    X, f = minimise(walled, np.array([[5.0]]), 0.0, 10.0, rounds=60, reach=4.9)
    assert X[0, 0] == pytest.approx(1.2, abs=1e-5)
    assert np.isfinite(f).all()


def test_a_flat_function_returns_the_start():
    X, f = minimise(lambda P: (np.ones(len(P)), np.zeros_like(P)), np.full((2, 3), 0.4), 0.0, 1.0, rounds=5)
    np.testing.assert_array_equal(X, np.full((2, 3), 0.4))
    np.testing.assert_array_equal(f, 1.0)


def test_a_start_whose_curvature_lost_its_rank_begins_again_and_the_others_do_not_notice():
    curvature = Dense(2, 3)
    curvature.H[0], curvature.H[1] = np.diag([1.0, 0.0, 0.0]), np.diag([2.0, 3.0, 4.0])
    curvature.begun[:] = True
    p, held = np.array([[0.5, 0.0, -1.0]] * 2), np.array([[False, True, False]] * 2)
    D = curvature.times(p, held, 0.25)
    np.testing.assert_allclose(D, [[0.125, 0.0, -0.25], [1.0, 0.0, -4.0]])
    assert curvature.begun.tolist() == [False, True]
