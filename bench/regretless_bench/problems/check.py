"""`check_problem`: what every problem must keep, for ours and for anybody's."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from regretless.method import keyed_generator
from regretless_bench.problems.problem import Problem
from regretless_bench.streams import BenchStream


def check_problem(make: Callable[[int], Problem], *, points: int = 5, tolerance: float = 1e-9) -> None:
    """Raises AssertionError, saying what is wrong, unless the problem keeps its contract.

    Args:
        make: builds the problem for a seed.
        points: random settings that are evaluated; few are enough where an evaluation trains a model.
        tolerance: how far a known optimal point may be from the optimum, relative to max(1, |optimum|).
    """
    problem = make(0)
    name = problem.name
    slack = tolerance * max(1.0, abs(problem.optimum or 0.0))
    assert name, "a problem needs a name"
    assert problem.direction in ("minimize", "maximize"), (
        f"{name}: the direction must be minimize or maximize, is {problem.direction!r}"
    )
    assert 0 <= problem.noise_sd < math.inf, f"{name}: noise_sd must be a standard deviation, is {problem.noise_sd}"

    cube = problem.space.cube()
    U = cube.snap(keyed_generator(0, 0, stream=BenchStream.CHECKED_POINTS).random((points, cube.dim)))
    settings = [problem.space.decode(u) for u in U]
    values = [problem.true(setting) for setting in settings]
    assert all(isinstance(v, float) for v in values), (
        f"{name}: true() must give a float, gave {[type(v).__name__ for v in values]}"
    )
    assert values == [problem.true(setting) for setting in settings], (
        f"{name}: true() of the same setting changed between calls"
    )
    assert np.allclose(problem.true_unit(U), values, rtol=1e-9, atol=1e-12, equal_nan=True), (
        f"{name}: true_unit() disagrees with true()"
    )

    if problem.optimum is not None:
        assert all(v is None or problem.regret(s) >= -slack for v, s in zip(values, settings, strict=True)), (
            f"{name}: a random point beats the optimum"
        )
        for point in problem.optima:
            assert set(point) == set(problem.space.names), (
                f"{name}: an optimal point has other parameters than the space"
            )
            problem.space.encode(point)
            assert abs(problem.regret(point)) <= slack, (
                f"{name}: regret {problem.regret(point)} at a point that is said to be optimal"
            )
    else:
        assert not problem.optima, f"{name}: gives optimal points but no optimum"
        assert math.isnan(problem.regret(settings[0])), f"{name}: regret() must be NaN while the optimum is not known"

    first, again, other = make(0), make(0), make(1)
    seen = [first.observe(setting) for setting in settings]
    assert first.evaluations == points, f"{name}: {points} evaluations were counted as {first.evaluations}"
    assert [again.evaluate(setting) for setting in settings] == [o.y for o in seen], (
        f"{name}: the same seed gave other values"
    )
    assert np.allclose([o.value for o in seen], values, equal_nan=True), (
        f"{name}: observe() gives another noiseless value than true()"
    )
    assert np.allclose(make(0).evaluate_unit(U), [o.y for o in seen], equal_nan=True), (
        f"{name}: evaluate_unit() disagrees with evaluate()"
    )
    if problem.noise_sd:
        swapped = make(0)
        shift = [swapped.evaluate(s) - swapped.true(s) for s in settings[::-1]]
        assert np.allclose(shift, [o.y - o.value for o in seen]), (
            f"{name}: the noise must depend on the evaluation's number, not on the point"
        )
        noise = [o.y - o.value for o in map(other.observe, settings)]
        assert not np.allclose(noise, shift), f"{name}: another seed must give other noise"
