"""COCO's bbob suite (Hansen et al. 2021), the 24 noiseless functions, through the library coco-experiment.

The suite shifts and rotates each function by its instance, so the optimum is off the centre; it is minimised on [-5,
5]^d.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from regretless.parameters import Array
from regretless_bench.peers.shared import library
from regretless_bench.problems.problem import Function

FUNCTIONS = 24
DIMENSIONS = (2, 3, 5, 10, 20, 40)
INSTANCES = 15
"""Seeds walk through this many instances when none is named, as COCO's own experiments do."""
BEST_FILE = "._bbob_problem_best_parameter.txt"
"""Where the library writes the optimal point, in the current folder."""


def bbob(*, function: int = 1, dim: int = 2, instance: int | None = None, seed: int = 0) -> Function:
    """COCO bbob: function 1 to 24, dim 2, 3, 5, 10, 20 or 40; the instance follows the seed unless named (needs
    coco-experiment)."""
    chosen = 1 + seed % INSTANCES if instance is None else instance
    if function not in range(1, FUNCTIONS + 1) or dim not in DIMENSIONS or chosen < 1:
        raise ValueError(
            f"bbob has functions 1 to {FUNCTIONS}, dims {DIMENSIONS}, instances from 1; "
            f"got {function!r}, {dim!r}, {instance!r}"
        )
    problem, point, optimum = _coco(function, dim, chosen)

    def rows(X: Array) -> Array:
        return np.array([problem(x) for x in X])

    bounds = np.tile([-5.0, 5.0], (dim, 1))
    return Function(f"bbob-f{function:02d}-d{dim}-i{chosen}", rows, bounds, optimum=optimum, points=point[None])


@functools.lru_cache(maxsize=64)
def _coco(function: int, dim: int, instance: int) -> tuple[Any, Array, float]:
    """The library's problem, its optimal point and its optimal value (the suite's are whole hundredths)."""
    suite = library("cocoex").Suite("bbob", f"instances:{instance}", f"dimensions:{dim} function_indices:{function}")
    problem = suite.get_problem(0)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        problem._best_parameter("print")
        point = np.loadtxt(Path(folder) / BEST_FILE).reshape(dim)
    return problem, point, round(float(problem(point)), 2)
