"""How far proposals beside many points under way have to lie from them: near-duplicates against what distance costs.

    python experiments/crowds.py --minutes 20 --out runs/crowds            # runs what has no line yet
    python experiments/crowds.py --report --out runs/crowds                # the tables

Workers take lognormal times, so that they end in another order than they began. Each case is run with every distance
that is tried, with the same seed. The distance was chosen on the problems of CHOSEN_ON and is reported on the others.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.problems import make_problem

import regretless.method
from regretless.optimizer import Optimizer

BUDGET, WORKERS, METHODS, DISTANCES = 300, (48, 100), ("gp-ucb", "gp-ei", "auto"), (0.0, 0.05, 0.1, 0.2)
CHOSEN_ON = (("levy", 10), ("rosenbrock", 5))
REPORTED = (
    ("ackley", 10),
    ("rastrigin", 5),
    ("styblinski-tang", 5),
    ("michalewicz", 5),
    ("ellipsoid", 10),
    ("hartmann6", 6),
)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """One run with so many workers: its final regret, and how near the points under way lie to each other."""
    regretless.method.APART = case["apart"]
    options = {} if case["problem"] == "hartmann6" else {"dim": case["dim"], "shift": 0.6 - 0.1 * case["seed"]}
    problem = make_problem(case["problem"], **options)
    opt = Optimizer(problem.space, case["method"], direction=problem.direction, budget=BUDGET, seed=case["seed"])
    durations, moment = np.random.default_rng(case["seed"]).lognormal(0.0, 0.5, BUDGET), 0.0
    running: list[tuple[float, int]] = []
    nearest, begun = [], time.process_time()
    for number in range(BUDGET):
        if len(running) == case["workers"]:
            moment, ended = heapq.heappop(running)
            opt.tell(ended, problem.true(opt.trials[ended].params))
        trial = opt.ask()
        heapq.heappush(running, (moment + float(durations[number]), trial.number))
        if number % 25 == 24:
            nearest.append(_nearest(np.array([t.unit for t in opt.pending])))
    for _, ended in sorted(running):
        opt.tell(ended, problem.true(opt.trials[ended].params))
    regret = problem.regret(opt.best.params)
    return {**case, "regret": float(regret), "nearest": float(np.median(nearest)), "cpu": time.process_time() - begun}


def _nearest(X: np.ndarray) -> float:
    """The median distance from a point of X (n x d) to its nearest neighbour."""
    squares = (X * X).sum(axis=1)
    apart = squares[:, None] + squares - 2.0 * X @ X.T
    np.fill_diagonal(apart, np.inf)
    return float(np.median(np.sqrt(np.maximum(apart.min(axis=1), 0.0))))


def report(rows: list[dict[str, Any]]) -> None:
    """The median of log10 of the final regret, and its mean difference to distance 0 with a standard error."""
    for title, problems in (("chosen on", CHOSEN_ON), ("reported", REPORTED)):
        names = {name for name, _ in problems}
        print(f"\n| {title} | workers | distance | cases | median log10 regret | against 0 | better, worse | nearest |")
        print("| --- " * 8 + "|")
        for method in METHODS:
            for workers in sorted({r["workers"] for r in rows}):
                own = [r for r in rows if (r["method"], r["workers"]) == (method, workers) and r["problem"] in names]
                base = {(r["problem"], r["seed"]): r for r in own if r["apart"] == 0}
                for apart in DISTANCES:
                    pairs = [
                        (r, base[key])
                        for r in own
                        if r["apart"] == apart and (key := (r["problem"], r["seed"])) in base
                    ]
                    if pairs:
                        logs = np.log10(np.maximum([[a["regret"], b["regret"]] for a, b in pairs], 1e-12))
                        gain = logs[:, 0] - logs[:, 1]
                        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
                        near = np.median([a["nearest"] for a, _ in pairs])
                        print(
                            f"| {method} | {workers} | {apart} | {len(pairs)} | {np.median(logs[:, 0]):.2f} | "
                            f"{gain.mean():+.2f} ± {error:.2f} | {(gain < 0).sum()}, {(gain > 0).sum()} | {near:.4f} |"
                        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/crowds"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="*", default=list(WORKERS))
    parser.add_argument("--distances", type=float, nargs="*", default=[0.0, 0.1])
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "crowds.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if args.report:
        report(rows)
        return
    keys = ("problem", "dim", "method", "workers", "apart", "seed")
    done, until = {tuple(r[k] for k in keys) for r in rows}, time.monotonic() + 60 * args.minutes
    cases = [
        dict(zip(keys, (name, dim, method, workers, apart, seed), strict=True))
        for seed in range(args.seeds) for name, dim in (*CHOSEN_ON, *REPORTED) for workers in args.workers
        for method in METHODS for apart in args.distances
    ]  # fmt: skip
    for case in cases:
        if tuple(case.values()) not in done and time.monotonic() < until:
            with file.open("a") as out:
                out.write(json.dumps(run(case)) + "\n")


if __name__ == "__main__":
    main()
