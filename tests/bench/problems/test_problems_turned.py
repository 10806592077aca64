"""Turned formulas: where their optimum lies, and which directions matter."""

import numpy as np
import pytest
from regretless_bench.problems import make_problem
from regretless_bench.problems.check import check_problem
from regretless_bench.problems.turned import FORMULAS, HIGH, LOW


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_optimum_lies_off_the_centre_and_is_the_smallest_value(formula: str) -> None:
    problem = make_problem("turned", formula=formula, dim=7, seed=3)
    (point,) = problem.points
    assert abs(float(problem.rows(point[None])[0])) < 1e-12
    assert not np.allclose(point, (LOW + HIGH) / 2, atol=0.1)
    others = np.random.default_rng(0).uniform(LOW, HIGH, (200, 7))
    assert (problem.rows(others) > 0).all()


def test_three_coordinates_matter_or_three_turned_axes() -> None:
    for rotate, moving in ((False, 3), (True, 9)):
        problem = make_problem("turned", formula="ellipsoid", dim=9, effective=3, rotate=rotate, seed=5)
        base = np.full((1, 9), 1.3)
        steps = base + 0.2 * np.eye(9)
        assert (np.abs(problem.rows(steps) - problem.rows(base)) > 1e-9).sum() == moving
        null = np.linalg.svd(_gradients(problem, base[0]))[2][3:]  # six directions in which nothing happens
        assert np.allclose(problem.rows(base + null), problem.rows(base))


def _gradients(problem, x):
    """Gradients at several points, which span the directions that matter, k x d; exact for a quadratic."""
    points, steps = x + np.random.default_rng(1).uniform(-0.5, 0.5, (12, len(x))), 0.5 * np.eye(len(x))
    return np.array([problem.rows(p + steps) - problem.rows(p - steps) for p in points])


@pytest.mark.parametrize("options", [{"formula": "bowl"}, {"effective": 0}, {"effective": 31}])
def test_wrong_options_raise(options) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        make_problem("turned", **options)


def test_it_is_a_problem_like_the_others() -> None:
    check_problem(lambda seed: make_problem("turned", formula="waves", dim=5, seed=seed))
