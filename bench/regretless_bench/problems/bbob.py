"""COCO's suites bbob (Hansen et al. 2021), bbob-largescale (Varelas et al. 2020) and bbob-mixint (Tusar et al., GECCO
2019), 24 noiseless functions each, through the library coco-experiment.

The suites shift and rotate each function by its instance, so the optimum is off the centre; bbob is minimised on [-5,
5]^d. In bbob-mixint four fifths of the coordinates are whole numbers, of 2, 4, 8 and 16 values.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from regretless.models.gp.sobol import sobol_points
from regretless.space import Space
from regretless.space.parameters import Array, Float, Int
from regretless_bench.peers.shared import library
from regretless_bench.problems.problem import Function, Problem

FUNCTIONS = 24
DIMENSIONS, LARGE_DIMENSIONS = (2, 3, 5, 10, 20, 40), (80, 160, 320, 640)
MIXED_DIMENSIONS = (5, 10, 20, 40, 80, 160)
QUARTILE_POINTS = 1024
"""Sobol points over which the interquartile range of a function is measured."""
INSTANCES = 15
"""Seeds walk through this many instances when none is named, as COCO's own experiments do."""
BEST_FILE = "._bbob_problem_best_parameter.txt"
"""Where the library writes the optimal point, in the current folder."""


def bbob(
    *, function: int = 1, dim: int = 2, instance: int | None = None, noise_iqr: float = 0.0, seed: int = 0
) -> Function:
    """COCO bbob: function 1 to 24, dim 2, 3, 5, 10, 20 or 40, or 80, 160, 320 or 640 of bbob-largescale; the
    instance follows the seed unless named; noise_iqr: the noise's sd as a share of the function's interquartile range
    (needs coco-experiment)."""
    chosen = _checked(function, dim, instance, seed, (*DIMENSIONS, *LARGE_DIMENSIONS))
    suite = "bbob-largescale" if dim in LARGE_DIMENSIONS else "bbob"
    problem, point, optimum = coco_problem(suite, function, dim, chosen)

    def rows(X: Array) -> Array:
        return np.array([problem(x) for x in X])

    bounds, noise = np.tile([-5.0, 5.0], (dim, 1)), ""
    sd = 0.0
    if noise_iqr:
        low, high = np.quantile(
            rows(10 * sobol_points(QUARTILE_POINTS, dim, np.random.default_rng(0)) - 5), [0.25, 0.75]
        )
        sd, noise = noise_iqr * float(high - low), f"-noise{noise_iqr:g}"
    name = f"bbob-f{function:02d}-d{dim}-i{chosen}{noise}"
    return Function(name, rows, bounds, optimum=optimum, points=point[None], noise_sd=sd, seed=seed)


class MixedInteger(Problem):
    """A function of bbob-mixint."""

    def __init__(self, function: int, dim: int, instance: int) -> None:
        self._problem, point, optimum = coco_problem("bbob-mixint", function, dim, instance)
        whole = self._problem.number_of_integer_variables
        ends = list(zip(self._problem.lower_bounds.tolist(), self._problem.upper_bounds.tolist(), strict=True))
        parameters = [Int(int(a), int(b)) if i < whole else Float(a, b) for i, (a, b) in enumerate(ends)]
        space = Space(parameters)
        best = dict(zip(space.names, point.tolist(), strict=True))
        name = f"bbob-mixint-f{function:02d}-d{dim}-i{instance}"
        super().__init__(name, space, optimum=optimum, optima=[best])

    def _true(self, params: dict[str, Any]) -> float:
        return float(self._problem(np.array([params[name] for name in self.space.names], dtype=np.float64)))


def bbob_mixint(*, function: int = 1, dim: int = 5, instance: int | None = None, seed: int = 0) -> MixedInteger:
    """COCO bbob-mixint: function 1 to 24, dim 5, 10, 20, 40, 80 or 160; the instance follows the seed unless named
    (needs coco-experiment)."""
    return MixedInteger(function, dim, _checked(function, dim, instance, seed, MIXED_DIMENSIONS))


def _checked(function: int, dim: int, instance: int | None, seed: int, dimensions: tuple[int, ...]) -> int:
    """The instance meant; what the suites do not have raises."""
    chosen = 1 + seed % INSTANCES if instance is None else instance
    if function not in range(1, FUNCTIONS + 1) or dim not in dimensions or chosen < 1:
        raise ValueError(
            f"bbob has functions 1 to {FUNCTIONS}, dims {dimensions}, instances from 1; "
            f"got {function!r}, {dim!r}, {instance!r}"
        )
    return chosen


@functools.lru_cache(maxsize=64)
def coco_problem(name: str, function: int, dim: int, instance: int) -> tuple[Any, Array, float]:
    """The library's problem, its optimal point and its optimal value (bbob's are whole hundredths)."""
    suite = library("cocoex").Suite(name, f"instances:{instance}", f"dimensions:{dim} function_indices:{function}")
    problem = suite.get_problem(0)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        problem._best_parameter("print")
        point = np.loadtxt(Path(folder) / BEST_FILE).reshape(dim)
    best = float(problem(point))
    return problem, point, round(best, 2) if name in ("bbob", "bbob-largescale") else best
