"""The constants of Theorem 4.1 beside the paper's equations, at numbers worked out by hand."""

import numpy as np
import pytest

from regretless.methods import METHODS
from regretless.methods.go_ucb.theorems import least_horizon, regularization_factor, theorem_beta
from regretless.testing import Loop


def test_the_radius_grows_to_twice_its_parametric_part() -> None:
    assert theorem_beta(0, 64, 3, 0.5, 2.0) == pytest.approx(3 * 4 + 27 / 0.25)
    assert theorem_beta(64, 64, 3, 0.5, 2.0) == pytest.approx(3 * 4 + 2 * 27 / 0.25)


def test_the_regularisation_is_that_of_equation_16() -> None:
    assert regularization_factor(3, 0.5, F=2.0) == pytest.approx(4 * np.sqrt(9 * 4 + 16 * 81 * 16 / 0.25))


def test_the_least_horizon_takes_the_larger_of_two_terms() -> None:
    assert least_horizon(2, 0.5, F=3.0) == pytest.approx(4 * 81 * 2.0**2)  # zeta / (mu c^2) = 2
    assert least_horizon(2, 0.5, tau=0.1) == pytest.approx(4 * (0.5 / 0.01) ** 2)  # mu / tau^2 = 50
    assert least_horizon(551, 1.0) > 3e5  # the net of App. D.1, with 64 points in the paper


def test_a_small_bound_of_the_values_makes_the_ball_bind() -> None:
    """At F = 1 the ascent never reaches the ball's edge; a far smaller one holds it back."""
    X = np.random.default_rng(0).random((8, 3))
    y = -((X - 0.4) ** 2).sum(1)
    points = []
    for bound in (1.0, 5.0, 1e-3):
        loop = Loop(METHODS["go-ucb-printed"](initial=4, largest_value=bound).build(3, seed=2, budget=20))
        loop.tell(X, y)
        points.append(loop.ask()[0])
    np.testing.assert_array_equal(points[0], points[1])
    assert not np.array_equal(points[0], points[2])
    with pytest.raises(ValueError, match="largest_value"):
        METHODS["go-ucb-printed"](largest_value=0.0).build(3, seed=0)
