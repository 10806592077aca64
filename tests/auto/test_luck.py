"""Ripples or luck: what settings with two values say, and that `auto` asks for them and believes them."""

import numpy as np
import pytest

from regretless.auto import AUTO
from regretless.auto.luck import TWICE, DistinctSettings
from regretless.space import Space
from regretless.space.parameters import Float, Int
from regretless.testing import Loop, bowl, run

X = np.array([[0.2, 0.9], [0.4, 0.1], [0.2, 0.9], [0.7, 0.7], [0.2, 0.9], [0.7, 0.7]])
Y = np.array([1.0, 9.0, 3.0, -2.0, 5.0, -3.0])
SPACE = Space({"lr": Float(3e-6, 0.7, log=True), "x": Float(-3.0, 11.0)})


def test_settings_have_their_values_together() -> None:
    settings = DistinctSettings.of(X, Y)
    assert settings.rows.tolist() == [0, 1, 3]
    assert settings.values.tolist() == [3.0, 9.0, -2.5]
    assert settings.largest.tolist() == [5.0, 9.0, -2.0]
    assert settings.counts.tolist() == [3, 1, 2]
    assert settings.within == pytest.approx((2 * np.var([1, 3, 5], ddof=1) + np.var([-2, -3], ddof=1)) / 3)
    assert settings.best_once(2) == [1]
    assert DistinctSettings.of(X[:2], Y[:2]).best_once(1) == [1]


def test_a_guess_is_that_of_two_independent_normal_parts() -> None:
    """The slow form: ripples of variance 0.7 and noise of variance 0.3 in one joint normal law of all values."""
    ripples, noise, mean = 0.7, 0.3, np.array([0.1, -0.4, 1.2])
    settings = DistinctSettings(
        np.array([0, 1, 3]), np.array([3.0, 9.0, -2.5]), np.zeros(3), np.array([3, 1, 2]), noise
    )
    member = np.array([0, 1, 0, 2, 0, 2])
    same = member[:, None] == member
    told = ripples * same + noise * np.eye(6)
    with_settings = ripples * (np.arange(3)[:, None] == member)
    expected = mean + with_settings @ np.linalg.solve(told, Y - mean[member])
    assert np.allclose(settings.believed(mean, ripples + noise), expected)


def test_without_second_values_or_ripples_the_mean_is_believed() -> None:
    mean = np.array([0.5, 0.25])
    assert DistinctSettings.of(X[:2], Y[:2]).within == np.inf
    assert DistinctSettings.of(X[:2], Y[:2]).believed(mean, 4.0) is mean
    assert DistinctSettings.of(X, Y).believed(mean, DistinctSettings.of(X, Y).within) is mean


def noisy(sd: float):
    rng = np.random.default_rng(5)
    return lambda U: bowl(U) + sd * rng.standard_normal(len(U))


def counts(loop: Loop) -> np.ndarray:
    X, y = loop.history.X, loop.history.y
    return DistinctSettings.of(X, y / np.abs(y).max()).counts


def test_the_last_tenth_of_a_noisy_budget_evaluates_the_five_best_values_again() -> None:
    loop = Loop(AUTO(noisy=True).build(SPACE.cube(), seed=1, budget=60))
    run(loop, 54, noisy(0.2))
    assert (counts(loop) == 1).all()
    best = loop.history.X[np.argsort(-loop.history.y)[:5]]
    again = run(loop, 5, lambda U: bowl(U) - 1.0)  # none of them was as good as it seemed
    assert np.array_equal(again, best)
    run(loop, 1)
    assert counts(loop).max() == 2


def test_no_value_is_sought_again_where_its_noise_is_told_or_others_are_under_way() -> None:
    told = Loop(AUTO.build(SPACE.cube(), seed=1, budget=30))
    for _ in range(30):
        x = told.ask()
        told.tell(x, noisy(0.2)(x), yvar=[0.04])
    assert (counts(told) == 1).all()
    crowd = Loop(AUTO(noisy=True).build(SPACE.cube(), seed=1, budget=30))
    run(crowd, 27, noisy(0.2))
    first, second = crowd.ask(2)
    assert np.array_equal(first, crowd.history.X[crowd.history.y.argmax()])
    assert not (second == crowd.history.X).all(axis=1).any()


def test_a_second_evaluation_that_failed_is_not_tried_again() -> None:
    loop = Loop(AUTO(noisy=True).build(SPACE.cube(), seed=1, budget=40))
    run(loop, 36, noisy(0.2))
    x = loop.ask()
    loop.tell(x, [np.nan])
    assert not np.array_equal(loop.ask(), x)


def test_fine_ripples_are_no_luck() -> None:
    """Values that differ from place to place by more than the model follows, and hardly between evaluations."""
    rng = np.random.default_rng(2)
    points = rng.random((80, 2))
    rippled = bowl(points) + 0.5 * rng.standard_normal(80)
    best = np.argsort(-rippled)[:5]
    loop = Loop(AUTO.build(2, seed=0, budget=200))
    loop.tell(points, rippled + 0.01 * rng.standard_normal(80))
    loop.tell(points[best], rippled[best] + 0.01 * rng.standard_normal(5))
    assert np.allclose(loop.recommend(), points[best[0]], atol=1e-12)
    lucky = Loop(AUTO.build(2, seed=0, budget=200))  # the same values, and second ones that are the bowl's
    lucky.tell(points, rippled)
    lucky.tell(points[best], bowl(points[best]) + 0.5 * rng.standard_normal(5))
    assert bowl(lucky.recommend()[None])[0] > bowl(points[best[:1]])[0]


def test_a_finite_space_has_its_best_settings_evaluated_again_too() -> None:
    cube = Space({"n": Int(3, 12), "m": Int(-2, 5)}).cube()
    loop = Loop(AUTO(noisy=True).build(cube, seed=3, budget=50))
    run(loop, 50, noisy(0.3))
    assert (counts(loop) >= 2).sum() >= TWICE


def test_values_of_any_size_are_evaluated_again() -> None:
    """Squares of differences of 1e300 leave the range of floats, which would warn."""
    loop = Loop(AUTO(noisy=True).build(SPACE.cube(), seed=1, budget=60))
    lucky = noisy(0.2)
    run(loop, 60, lambda U: 1e300 * lucky(U))
    assert counts(loop).max() == 2
