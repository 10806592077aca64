"""Many workers at once: values after 3,000 evaluations by 1,000 workers, and how much faster 32 workers are than one.

    python experiments/workers.py --out runs/workers            # runs what has no line yet
    python experiments/workers.py --report --out runs/workers   # the tables

Workers take lognormal times, so that they end in another order than they began, and ask anew when they have told. The
speed-up is the time in which one worker reaches the final value of 32 workers, divided by theirs.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.problems import make_problem

from regretless.optimizer import Optimizer

PROBLEMS = (("rosenbrock", 5), ("levy", 10), ("ellipsoid", 10))
CROWDS = ((1000, 3000), (32, 2000), (1, 1000))
"""Workers, and the evaluations that they make together; 32 make 2,000 in a sixteenth of the time in which one makes
1,000."""
KEYS = ("problem", "dim", "method", "workers", "evaluations", "seed")


def run(case: dict[str, Any]) -> dict[str, Any]:
    """One run: the regret after each evaluation that improved it, with the moment at which that was."""
    problem = make_problem(case["problem"], dim=case["dim"], shift=0.6 - 0.1 * case["seed"])
    opt = Optimizer(problem.space, case["method"], direction=problem.direction, seed=case["seed"])
    durations, moment = np.random.default_rng(case["seed"]).lognormal(0.0, 0.5, case["evaluations"]), 0.0
    running: list[tuple[float, int]] = []
    improved, best, begun, longest = [], math.inf, time.process_time(), 0.0

    def end_one() -> None:
        nonlocal moment, best
        moment, ended = heapq.heappop(running)
        params = opt.trials[ended].params
        opt.tell(ended, problem.true(params))
        if (regret := float(problem.regret(params))) < best:
            best = regret
            improved.append([moment, best])

    for number in range(case["evaluations"]):
        if len(running) == case["workers"]:
            end_one()
        since = time.process_time()
        trial = opt.ask()
        longest = max(longest, time.process_time() - since)
        heapq.heappush(running, (moment + float(durations[number]), trial.number))
    while running:
        end_one()
    cpu = time.process_time() - begun
    return {**case, "regret": best, "ended": moment, "improved": improved, "cpu": cpu, "longest": longest}


def reached(row: dict[str, Any], regret: float) -> float:
    """When a run had a regret at most so large; infinite: never."""
    return next((moment for moment, value in row["improved"] if value <= regret), math.inf)


def report(rows: list[dict[str, Any]]) -> None:
    """Values of the large crowd beside random, then the speed-up of the small one; medians over the seeds."""
    found = {tuple(row[key] for key in KEYS): row for row in rows}
    print(
        "| 1,000 workers, 3,000 evaluations | seeds | auto | random | log10 of auto / random, mean ± se | the worst |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for name, dim in PROBLEMS:
        pairs = [
            (row["regret"], found[name, dim, "random", *CROWDS[0], row["seed"]]["regret"])
            for row in rows
            if (row["problem"], row["method"], row["workers"]) == (name, "auto", CROWDS[0][0])
            and (name, dim, "random", *CROWDS[0], row["seed"]) in found
        ]
        own, other = np.array(pairs).T
        gain = np.log10(np.maximum(own, 1e-12)) - np.log10(other)
        error = gain.std(ddof=1) / math.sqrt(len(gain)) if len(gain) > 1 else math.nan
        medians = f"{np.median(own):.2g} | {np.median(other):.2g}"
        print(f"| {name}-{dim} | {len(gain)} | {medians} | {gain.mean():.2f} ± {error:.2f} | {gain.max():.2f} |")
    print("\n| 32 workers, 2,000 evaluations | seeds | 32 workers | one worker, 1,000 | speed-up, each seed |")
    print("| --- | --- | --- | --- | --- |")
    for name, dim in PROBLEMS:
        both = [
            (found[name, dim, "auto", *CROWDS[1], seed], found[name, dim, "auto", *CROWDS[2], seed])
            for seed in range(100)
            if (name, dim, "auto", *CROWDS[1], seed) in found and (name, dim, "auto", *CROWDS[2], seed) in found
        ]
        ups = []
        for many, one in both:
            goal = max(one["regret"], 1e-12)  # beyond that it is rounding
            ups.append(reached(one, goal) / reached(many, goal))
        medians = " | ".join(f"{np.median([pair[i]['regret'] for pair in both]):.2g}" for i in (0, 1))
        print(f"| {name}-{dim} | {len(both)} | {medians} | {', '.join(f'{up:.0f}' for up in ups)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/workers"))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--crowds", type=int, nargs="*", default=[workers for workers, _ in CROWDS])
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "workers.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if args.report:
        report(rows)
        return
    done, until = {tuple(row[key] for key in KEYS) for row in rows}, time.monotonic() + 60 * args.minutes
    cases = [
        dict(zip(KEYS, (name, dim, method, workers, evaluations, seed), strict=True))
        for workers, evaluations in CROWDS for seed in range(args.seeds) for name, dim in PROBLEMS
        for method in ("auto", "random") if workers in args.crowds and (method == "auto" or workers == CROWDS[0][0])
    ]  # fmt: skip
    for case in cases:
        if tuple(case.values()) not in done and time.monotonic() < until:
            with file.open("a") as out:
                out.write(json.dumps(run(case)) + "\n")


if __name__ == "__main__":
    main()
