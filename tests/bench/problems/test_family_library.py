"""The library of families: every one keeps the contract of a problem, and its optimum is not beaten."""

import numpy as np
import pytest
from regretless_bench.problems.check import check_problem
from regretless_bench.problems.families import FAMILIES, family_case, interquartile_range
from regretless_bench.problems.families.search import boxed, largest

NEEDS = {"bbob": "cocoex", "tuning": "sklearn"}
CHEAP = [name for name in FAMILIES if name not in ("tuning", "tables", "mixed")]


@pytest.mark.parametrize("name", CHEAP)
def test_a_family_keeps_the_contract_and_its_optimum_is_not_beaten(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    problem = family_case(name, seed=5)
    cube = problem.space.cube()
    U = cube.snap(np.random.default_rng(5).random((2000, cube.dim)))
    best = float((problem.sign * problem.true_unit(U)).max())
    assert problem.sign * problem.optimum >= best - 1e-9 * max(1.0, abs(best))
    assert problem.regret(problem.optima[0]) == pytest.approx(0.0, abs=1e-9 * max(1.0, abs(problem.optimum)))


@pytest.mark.parametrize("name", ["gp-smooth", "steps", "labels"])
def test_noise_and_seeds_follow_the_contract(name: str) -> None:
    check_problem(lambda seed: family_case(name, seed=2 * seed, dim=2, noise=0.1))
    noisy = family_case(name, seed=0, dim=2, noise=0.1)
    assert noisy.noise_sd == pytest.approx(0.1 * interquartile_range(family_case(name, seed=0, dim=2)))
    U = noisy.space.cube().snap(np.random.default_rng(0).random((20, 2)))
    assert not np.allclose(noisy.true_unit(U), family_case(name, seed=6, dim=2).true_unit(U))


def test_mixed_spaces_have_every_kind_of_parameter() -> None:
    problem = family_case("mixed", seed=0, dim=3)
    assert [type(p).__name__ for p in problem.space.parameters.values()] == ["Choice", "Float", "Int"]
    U = problem.space.cube().snap(np.random.default_rng(1).random((300, 3)))
    assert problem.true_unit(U).max() <= problem.optimum + 1e-9


def test_the_search_finds_a_maximum_in_a_corner_and_one_of_a_kink() -> None:
    corner, value = largest(lambda U: U.sum(axis=1), 3, seed=0)
    assert value == pytest.approx(3.0, abs=1e-3)
    assert corner == pytest.approx(np.ones(3), abs=1e-3)
    peak = np.array([0.31, 0.77])
    point, value = largest(lambda U: -np.abs(U - peak).sum(axis=1), 2, seed=1)
    assert point == pytest.approx(peak, abs=1e-4)


def test_a_box_has_odd_sides_and_every_second_problem_is_minimised() -> None:
    for seed, direction in ((0, "maximize"), (1, "minimize")):
        problem = boxed("slope", lambda U: U[:, 0], 2, seed, point=np.array([1.0, 0.5]))
        assert problem.direction == direction
        assert problem.sign * problem.optimum == pytest.approx(1.0)
        assert (problem.bounds[:, 1] - problem.bounds[:, 0] != 1.0).all()


def test_unknown_names_and_negative_noise_are_refused() -> None:
    with pytest.raises(ValueError, match="no family is called 'bumps'"):
        family_case("bumps", seed=0)
    with pytest.raises(ValueError, match="noise must be at least 0"):
        family_case("peaks", seed=0, noise=-1.0)
