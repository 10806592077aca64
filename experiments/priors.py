"""Priors on good values: what a right one gains, and how soon a wrong one has washed out (docs/lab/spaces.md).

    python experiments/priors.py --seeds 20 --jobs 2 --out runs/priors

The right prior has its peak .7 sd off the optimum. The wrong one is as sure of the opposite end of each range.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.cells import run_cells

import regretless as rg

TRIALS = 80
"""Evaluations of a run."""
MARKS = (5, 10, 20, 40, 80)
"""The numbers of evaluations at which the best value is reported."""


def space(kind: str) -> dict[str, Any]:
    """A rate on a log scale, a depth, a share and a choice, with the prior of a kind: none, right or wrong."""
    priors: dict[str, dict[str, Any]] = {
        "none": {},
        "right": {"rate": (4e-4, 3.0), "depth": (5, 1.5), "share": (0.5, 0.1), "act": [1, 3, 1]},
        "wrong": {"rate": (5e-2, 3.0), "depth": (11, 1.5), "share": (0.95, 0.1), "act": [3, 1, 1]},
    }
    given = priors[kind]
    return {
        "rate": rg.Float(1e-5, 1e-1, log=True, prior=given.get("rate")),
        "depth": rg.Int(1, 12, prior=given.get("depth")),
        "share": rg.Float(0.0, 1.0, prior=given.get("share")),
        "act": rg.Choice(["relu", "tanh", "gelu"], prior=given.get("act")),
    }


def bowl(rate: float, depth: int, share: float, act: str) -> float:
    """One valley; the optimum 0 is at a rate of 2e-4, a depth of 4, a share of .43 and tanh."""
    away = (math.log10(rate) + 3.7) / 4, (depth - 4) / 11, share - 0.43
    return sum(a * a for a in away) + {"relu": 0.05, "tanh": 0.0, "gelu": 0.03}[act]


def waves(rate: float, depth: int, share: float, act: str) -> float:
    """The same with ripples, so that a search can stay in a wrong valley."""
    ripple = 0.04 * (2 - math.cos(7 * (math.log10(rate) + 3.7)) - math.cos(15 * (share - 0.43)))
    return bowl(rate, depth, share, act) + ripple


FUNCTIONS: dict[str, Callable[..., float]] = {"bowl": bowl, "waves": waves}


def run(function: str, method: str, kind: str, seed: int) -> list[float]:
    found = rg.minimize(
        FUNCTIONS[function], space(kind), method=method, trials=TRIALS, seed=seed, progress=False
    )  # fmt: skip
    best = np.minimum.accumulate([t.value for t in found.trials])
    return [float(best[n - 1]) for n in MARKS]


def nothing() -> None:
    """No process needs to be prepared."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="auto,turbo")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/priors"))
    options = parser.parse_args()
    methods, kinds = options.methods.split(","), ("none", "right", "wrong")
    cells = [(f, m, k, s) for s in range(options.seeds) for f in FUNCTIONS for m in methods for k in kinds]
    results = run_cells(run, cells, options.out / "priors.jsonl", jobs=options.jobs, initializer=nothing)
    print(f"| function | method | prior | seeds | {' | '.join(f'after {n}' for n in MARKS)} |")
    print("| --- " * (4 + len(MARKS)) + "|")
    for function in FUNCTIONS:
        for method in methods:
            for kind in kinds:
                rows = [values for cell, values in results if cell[:3] == (function, method, kind)]
                if rows:
                    medians = " | ".join(f"{v:.2g}" for v in np.median(rows, axis=0))
                    print(f"| {function} | {method} | {kind} | {len(rows)} | {medians} |")


if __name__ == "__main__":
    main()
