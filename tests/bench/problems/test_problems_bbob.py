"""COCO's suites: whole numbers where bbob-mixint has them, its optimum, noise in shares of the quartiles' distance."""

import numpy as np
import pytest
from regretless_bench.problems import make_problem

from regretless.space.parameters import Float, Int

pytest.importorskip("cocoex")


def test_mixed_integers() -> None:
    problem = make_problem("bbob-mixint", function=3, dim=10, instance=7)
    kinds = list(problem.space.parameters.values())
    assert [p.high + 1 for p in kinds if isinstance(p, Int)] == [2, 2, 4, 4, 8, 8, 16, 16]
    assert [(p.low, p.high) for p in kinds if isinstance(p, Float)] == [(-5.0, 5.0)] * 2
    assert problem.regret(problem.optima[0]) == pytest.approx(0.0, abs=1e-9)
    assert (problem.optimum - problem.true_unit(np.random.default_rng(0).random((20, 10))) < 0).all()
    with pytest.raises(ValueError, match="dims"):
        make_problem("bbob-mixint", dim=3)


def test_large_dimensions_are_those_of_bbob_largescale() -> None:
    for function in (2, 8, 21):
        problem = make_problem("bbob", function=function, dim=80, instance=5)
        assert problem.true(problem.optima[0]) == pytest.approx(problem.optimum, abs=1e-2)
        assert (problem.true_unit(np.random.default_rng(0).random((20, 80))) > problem.optimum).all()
    with pytest.raises(ValueError, match="dims"):
        make_problem("bbob", dim=81)


def test_noise_in_shares_of_the_interquartile_range() -> None:
    plain, noisy = (make_problem("bbob", function=8, dim=3, instance=4, noise_iqr=share) for share in (0.0, 0.3))
    values = plain.true_unit(np.random.default_rng(1).random((4000, 3)))
    low, high = np.quantile(values, [0.25, 0.75])
    assert plain.noise_sd == 0.0
    assert noisy.noise_sd == pytest.approx(0.3 * (high - low), rel=0.1)
    assert noisy.true(noisy.optima[0]) == plain.true(plain.optima[0])
