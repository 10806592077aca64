"""NeuralBO, Fig. 1 and Tables 1 and 2: Ackley, Levy and Michalewicz in 10, 20, 50 and 100 dimensions, as printed and shifted.

    python experiments/neural_bo_fig1.py --jobs 2 --out runs/neural_bo_fig1 --quick          d = 10, 20, 3 seeds, 200 evaluations, cheap methods
    python experiments/neural_bo_fig1.py --jobs 16 --out runs/neural_bo_fig1 --seeds 5       all dimensions, 500 evaluations
    python experiments/neural_bo_fig1.py --jobs 16 --out runs/neural_bo_fig1 --long          one setting (Levy, d = 20) for 2000 evaluations
    python experiments/neural_bo_fig1.py --out runs/neural_bo_fig1 --report                  tables and figures from the records there are

Noise sd is 0.1 of the function's own sd; 20 initial points common to all methods; the value compared is the best noiseless one among the
points evaluated, as the paper plots it. Michalewicz' formula has other optima outside its box and is run as printed only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from regretless.bench.plots import plot_folder
from regretless.bench.record import Record, Run, by_problem, load_records
from regretless.bench.runner import run_all
from regretless.bench.stats import benjamini_hochberg, larger, normality

OURS = "neural-bo"
CHEAP = ("neural-bo", "random", "optuna-tpe", "cma", "turbo", "neural-greedy", "dngo")
METHODS = (*CHEAP, "gp-ucb", "gp-ei", "gp-ts", "rf-ei")
PROBLEMS = ("ackley", "levy", "michalewicz")
SHIFT, NOISE_SHARE, INITIAL = 0.6, 0.1, 20


def settings(options: argparse.Namespace) -> list[Run]:
    """The cells asked for."""
    methods = options.methods.split(",") if options.methods else CHEAP if options.quick else METHODS
    dims = (20,) if options.long else (10, 20) if options.quick else tuple(int(d) for d in options.dims.split(","))
    budget = 2000 if options.long else 200 if options.quick else options.budget
    seeds = 3 if options.quick else options.seeds
    cells = []
    for dim in dims:
        for name in ("levy",) if options.long else PROBLEMS:
            for shift in (0.0, SHIFT) if name != "michalewicz" else (0.0,):
                problem = {"dim": dim, "noise_share": NOISE_SHARE, **({"shift": shift} if shift else {})}
                cells += [Run(m, name, problem, seed, budget=budget, init=INITIAL) for m in methods for seed in range(seeds)]
    return cells


def final(records: list[Record]) -> np.ndarray:
    """The best noiseless value of each run, lower being better."""
    return np.array([-record.sign * record.best[-1] for record in records])


def tables(records: list[Record]) -> str:
    """Medians, seconds per ask, Table 1 (normality) and Table 2 (one-sided t-tests with Benjamini-Hochberg) in Markdown."""
    grouped = by_problem(records)
    methods = sorted({label for runs in grouped.values() for label in runs}, key=lambda m: (m != OURS, m))
    head = "| problem | " + " | ".join(methods) + " |\n|" + " --- |" * (len(methods) + 1)
    medians, asks, first, second = [head], [head], [head], [head]
    p_values, places = [], []
    for problem, runs in grouped.items():
        values = {m: final(runs[m]) for m in methods if m in runs}
        medians.append(
            f"| {problem} | " + " | ".join(f"{np.median(values[m]):.3g} ({len(values[m])})" if m in values else "-" for m in methods) + " |"
        )
        seconds = {m: np.median([np.median(r.seconds_ask[INITIAL:]) for r in runs[m]]) for m in values}
        asks.append(f"| {problem} | " + " | ".join(f"{1000 * seconds[m]:.1f} ms" if m in seconds else "-" for m in methods) + " |")
        first.append(f"| {problem} | " + " | ".join(f"{normality(values[m]):.2f}" if len(values.get(m, ())) > 2 else "-" for m in methods) + " |")
        for m in methods:
            if m != OURS and OURS in values and m in values and min(len(values[m]), len(values[OURS])) > 1:
                places.append((problem, m))
                p_values.append(larger(values[m], values[OURS]))
    verdicts = dict(zip(places, zip(p_values, benjamini_hochberg(p_values)[0] if p_values else [], strict=True), strict=True))
    for problem in grouped:
        cells = [f"{verdicts[problem, m][0]:.2g}, {'T' if verdicts[problem, m][1] else 'F'}" if (problem, m) in verdicts else "-" for m in methods]
        second.append(f"| {problem} | " + " | ".join(cells) + " |")
    return "\n\n".join(
        [
            "Median best value (runs), lower is better\n\n" + "\n".join(medians),
            "Median time of an ask\n\n" + "\n".join(asks),
            "Table 1: p-values of the Kolmogorov-Smirnov test for normality\n\n" + "\n".join(first),
            "Table 2: p-values of the one-sided t-test that the method's mean is worse than NeuralBO's; T: rejected equality at rate 0.05\n\n"
            + "\n".join(second),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/neural_bo_fig1"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=500)
    parser.add_argument("--dims", default="10,20,50,100")
    parser.add_argument("--methods", default="", help="comma-separated; all by default")
    parser.add_argument("--timeout", type=float, default=None, help="seconds after which a run is given up")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.report:
        run_all(settings(options), options.out, jobs=options.jobs, timeout=options.timeout)
    text = tables(load_records(options.out))
    (options.out / "tables.md").write_text(text)
    print(text)
    plot_folder(options.out)


if __name__ == "__main__":
    main()
