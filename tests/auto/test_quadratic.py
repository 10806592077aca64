"""The quadratic step: exact for quadratics, short, and quiet where it knows too little."""

import numpy as np
import pytest

from regretless.auto.quadratic import REACH, coefficients, quadratic_step, unexplained


def turned_bowl(d: int, seed: int):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    curvature, top = 10.0 ** rng.uniform(-1, 3, d), rng.uniform(0.45, 0.55, d)
    return top, lambda X: 3e5 - 7e3 * (((X - top) @ axes) ** 2 @ curvature)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_top_of_a_turned_bowl_is_found_at_once(d: int) -> None:
    top, f = turned_bowl(d, 3)
    X = np.random.default_rng(0).uniform(0.2, 0.8, (coefficients(d) + d, d))
    assert np.allclose(quadratic_step(X, f(X)), top, atol=1e-5)


def test_too_few_values_say_nothing() -> None:
    X = np.random.default_rng(0).random((coefficients(3) + 2, 3))
    assert quadratic_step(X, X.sum(axis=1)) is None
    assert quadratic_step(np.full((30, 3), 0.4), np.zeros(30)) is None


def test_a_step_along_a_slope_is_short_and_stays_inside() -> None:
    X = 0.9 + 0.1 * np.random.default_rng(0).random((40, 3))
    y = X @ np.array([1.0, 2.0, -3.0])
    step = quadratic_step(X, y)
    best = X[np.argmax(y)]
    assert ((step >= 0) & (step <= 1)).all()
    assert np.linalg.norm(step - best) <= REACH * np.linalg.norm(X - best, axis=1).max() + 1e-12


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_values_of_any_size(scale: float) -> None:
    top, f = turned_bowl(2, 4)
    X = np.random.default_rng(0).uniform(0.2, 0.8, (20, 2))
    assert np.allclose(quadratic_step(X, scale * (f(X) - 3e5)), top, atol=1e-5)


def test_a_quadratic_that_must_fit_is_followed_on_a_bowl_and_not_on_a_cone() -> None:
    top, f = turned_bowl(3, 5)
    X = np.random.default_rng(1).uniform(0.2, 0.8, (2 * coefficients(3), 3))
    assert np.allclose(quadratic_step(X, f(X), must_fit=True), top, atol=1e-5)
    cone = -np.sqrt(((X - top) ** 2).sum(axis=1))
    assert quadratic_step(X, cone) is not None
    assert quadratic_step(X, cone, must_fit=True) is None


def test_a_quadratic_that_must_fit_needs_values_to_spare() -> None:
    _, f = turned_bowl(3, 5)
    X = np.random.default_rng(1).uniform(0.2, 0.8, (2 * coefficients(3) - 1, 3))
    assert quadratic_step(X, f(X), must_fit=True) is None
    assert quadratic_step(X, f(X)) is not None


def test_what_is_unexplained_is_that_of_ordinary_regression_where_weights_are_equal() -> None:
    rng = np.random.default_rng(2)
    y, features = rng.standard_normal(30), np.column_stack([np.ones(30), rng.standard_normal((30, 4))])
    fitted = features @ np.linalg.lstsq(features, y, rcond=None)[0]
    expected = ((y - fitted) ** 2).sum() / 25 / y.var(ddof=1)
    assert unexplained(y, fitted, np.ones(30), 5) == pytest.approx(expected)
    weights = rng.uniform(0.1, 1.0, 30)  # a constant leaves nothing
    assert unexplained(7.0 * weights, 7.0 * weights, weights, 5) == 0.0
