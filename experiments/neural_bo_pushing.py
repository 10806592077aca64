"""NeuralBO, Fig. 5: the 14-parameter robot pushing task, best reward against evaluations.

    python experiments/neural_bo_pushing.py --jobs 2 --out runs/neural_bo_pushing --quick        200 evaluations, 2 seeds
    python experiments/neural_bo_pushing.py --jobs 16 --out runs/neural_bo_pushing --seeds 10    1000 evaluations
    python experiments/neural_bo_pushing.py --jobs 16 --out runs/neural_bo_pushing --full        6000 evaluations, as in the paper

15 common initial points. Methods whose cost grows with the cube of the evaluations are left out of the full run by --methods.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from regretless.bench.plots import plot_folder
from regretless.bench.record import Run, by_problem, load_records
from regretless.bench.runner import run_all

METHODS = ("neural-bo", "random", "optuna-tpe", "turbo", "neural-greedy", "dngo", "gp-ucb", "gp-ei", "gp-ts", "rf-ei")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/neural_bo_pushing"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--timeout", type=float, default=None, help="seconds after which a run is given up")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    budget = 6000 if options.full else 200 if options.quick else 1000
    seeds = 2 if options.quick else options.seeds
    runs = [Run(m, "pushing", {}, seed, budget=budget, init=15) for m in options.methods.split(",") for seed in range(seeds)]
    if not options.report:
        run_all(runs, options.out, jobs=options.jobs, timeout=options.timeout)
    print("| method | runs | evaluations | median best reward (range) | median ask |\n| --- | --- | --- | --- | --- |")
    for methods in by_problem(load_records(options.out)).values():
        for label, records in sorted(methods.items(), key=lambda item: -np.median([r.best[-1] for r in item[1]])):
            best = [float(r.best[-1]) for r in records]
            ask = np.median([np.median(r.seconds_ask[15:]) for r in records])
            print(
                f"| {label} | {len(best)} | {len(records[0].y)} | {np.median(best):.2f} ({min(best):.2f} to {max(best):.2f}) | {1000 * ask:.1f} ms |"
            )
    plot_folder(options.out)


if __name__ == "__main__":
    main()
