"""MS-UCB: the best that any choice among the points of the printed subspaces could reach, on the functions of its
figures.

    python experiments/ms_ucb_oracle.py        a minute: docs/results/ms-ucb-oracle.json, and the table

Algorithm 1 asks points whose last d coordinates are free and whose others are those of a base point z, drawn uniformly.
The oracle knows f. It asks every base point of Z_T with the last d coordinates at the optimum, which on these functions
is the best choice of them whatever the others are (Ackley grows in every |x_i - x*_i| of the optimum's basin and with
its cosines, Levy and the ellipsoid are sums). So no kernel, width or maximiser can bring a run of the same seed below
it. The base points, initial points and functions are those of the runs of Fig. 1 to 3.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from ms_ucb_fig1 import BUDGET, CLAIMED, DENSE, DIMS, FIRST_SEED, INITIAL, SHIFT
from regretless_bench.problems import Problem, make_problem
from regretless_bench.record import Run
from regretless_bench.runner import initial_points
from regretless_bench.stats import wald

from regretless.basics.statefile import write_whole
from regretless.basics.streams import Stream, keyed_generator
from regretless.methods.ms_ucb.base_set import added
from regretless.space.parameters import Array

PLACE = Path(__file__).parent.parent / "docs" / "results" / "ms-ucb-oracle.json"
SEEDS = 10
PLAIN = {"bases": 1, "growth": 0.0, "low_dim": 5}
VARIANTS = {
    "N0 = 1, alpha = 0, d = 5": PLAIN,
    "N0 = 10, alpha = 0, d = 5": {**PLAIN, "bases": 10},
    "N0 = 1, alpha = 1, d = 5": {**PLAIN, "growth": 1.0},
    "N0 = 1, alpha = 0, d = 1": {**PLAIN, "low_dim": 1},
    "N0 = 1, alpha = 0, d = 2": {**PLAIN, "low_dim": 2},
    "N0 = 1, alpha = 0, d = 10": {**PLAIN, "low_dim": 10},
}
FIRST = next(iter(VARIANTS))


def oracle_gap(problem: Problem, start: Array, seed: int, bases: int, growth: float, low_dim: int) -> float:
    """The gap of the best point of the initial design and of all subspaces of Z_T."""
    cube = problem.space.cube()
    best = np.array([problem.space.encode(problem.optima[0])])
    least = float(problem.true_unit(start).min())
    for t in range(1, BUDGET - INITIAL + 1):
        rng = keyed_generator(seed, t, stream=Stream.SUBSPACE_BASES)
        Z = cube.snap(rng.random((added(t, bases, growth), cube.dim)))
        Z[:, cube.dim - low_dim :] = best[:, cube.dim - low_dim :]
        least = min(least, float(problem.true_unit(Z).min()))
    return least - float(problem.optimum or 0.0)


def random_gap(problem: Problem, start: Array, seed: int) -> float:
    """The gap of as many random points after the same initial design."""
    points = np.random.default_rng(seed).random((BUDGET - INITIAL, start.shape[1]))
    return float(problem.true_unit(np.vstack([start, points])).min()) - float(problem.optimum or 0.0)


def rows() -> list[dict[str, Any]]:
    found = []
    for dim in DIMS:
        for name in CLAIMED:
            options = {"dim": dim, "shift": SHIFT, **DENSE[name]}
            for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
                problem = make_problem(name, seed=seed, **options)
                start = initial_points(Run("random", name, options, seed, BUDGET, init=INITIAL), problem)
                variants = VARIANTS if dim == DIMS[-1] else {FIRST: PLAIN}
                gaps = {label: oracle_gap(problem, start, seed, **of) for label, of in variants.items()}
                gaps["random"] = random_gap(problem, start, seed)
                made = {label: float(f"{gap:.4g}") for label, gap in gaps.items()}
                found.append({"function": name, "dim": dim, "seed": seed, "gaps": made})
    return found


def table(found: list[dict[str, Any]]) -> str:
    """Mean gaps and their 95 % Wald intervals, in decades."""
    labels = [*VARIANTS, "random"]
    lines = [f"| function, D | {' | '.join(labels)} |", "|" + " --- |" * (len(labels) + 1)]
    for name, dim in dict.fromkeys((r["function"], r["dim"]) for r in found):
        own = [r["gaps"] for r in found if (r["function"], r["dim"]) == (name, dim)]
        cells = []
        for label in labels:
            values = np.log10([gaps[label] for gaps in own if label in gaps])
            cells.append("{:.3f} ± {:.3f}".format(*wald(values)) if len(values) else "-")
        lines.append(f"| {name}, {dim} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    found = rows()
    write_whole(PLACE, json.dumps(found, separators=(",", ":")).encode())
    print(table(found))


if __name__ == "__main__":
    main()
