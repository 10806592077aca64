"""GO-UCB, Fig. 2: f1 (a member of the printed net), f2 (Styblinski-Tang), f3 (Rastrigin) in 20 dimensions, cumulative and simple regret.

    python experiments/go_ucb_fig2.py --jobs 16 --out runs/go_ucb_fig2 [--seeds 5] [--quick]

n = 5, T = 25 for f1 and n = 8, T = 64 for f2 and f3, noise 0.01, five repetitions, Wald intervals 1.96 nu / sqrt(5), as in Sec. 6.1. The printed
settings are run from each of the starts that the paper leaves open. All methods share the Phase-I points.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from regretless.baselines import BASELINES
from regretless.bench.plots import plot_folder
from regretless.bench.record import Record, Run, load_records
from regretless.bench.runner import run_all
from regretless.bench.stats import wald
from regretless.methods import METHODS

PROBLEMS = {"f1": ("go-ucb-f1", 5, 25), "f2": ("go-ucb-f2", 8, 64), "f3": ("go-ucb-f3", 8, 64)}
NOISE = 0.01
STARTS = ("incumbent", "random", "centre", "last")


def recipes(n: int) -> dict[str, Any]:
    go = METHODS["go-ucb"]
    printed = {f"printed, from {start}": go(preset="paper", phase_one=n, start=start) for start in STARTS}
    return {
        **printed,
        "GO-UCB, net": go(model="sigmoid-net", width=25, phase_one=n),
        "GO-UCB, net, no guard": go(model="sigmoid-net", width=25, phase_one=n, guard=False),
        "GO-UCB, quadratic": go(phase_one=n),
        **{label: BASELINES[label] for label in ("gp-ei", "gp-pi", "gp-ucb", "turbo", "stay-at-best", "random-mutation", "random")},
    }


def runs(seeds: int) -> list[Run]:
    return [
        Run(recipe, problem, {"noise": NOISE}, seed, n + T, init=n, label=label)
        for problem, n, T in PROBLEMS.values() for label, recipe in recipes(n).items() for seed in range(seeds)
    ]  # fmt: skip


def table(records: list[Record]) -> str:
    head = "| function | method | runs | cumulative regret | Phase II only | simple regret | CPU ms per ask |"
    lines = [head, "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, (problem, n, T) in PROBLEMS.items():
        groups: dict[str, list[Record]] = {}
        for r in records:
            if r.settings["problem"] == problem and len(r.value) == n + T:
                groups.setdefault(r.label, []).append(r)
        for label, group in sorted(groups.items(), key=lambda g: np.mean([r.regret().sum() for r in g[1]])):
            total = wald(np.array([r.regret().sum() for r in group]))
            second = wald(np.array([r.regret()[n:].sum() for r in group]))
            simple = wald(np.array([r.regret().min() for r in group]))
            ms = 1e3 * float(np.median([np.mean(r.cpu[n:]) for r in group]))
            lines.append(
                f"| {name} | {label} | {len(group)} | {total.mean:.0f} +- {total.half:.0f} | {second.mean:.0f} +- {second.half:.0f} "
                f"| {simple.mean:.3g} +- {simple.half:.2g} | {ms:.0f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/go_ucb_fig2"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repetition")
    parser.add_argument("--table", action="store_true", help="only the table of the records that are there")
    options = parser.parse_args()
    if not options.table:
        run_all(runs(1 if options.quick else options.seeds), options.out, options.jobs)
    text = table(load_records(options.out))
    print(text)
    (options.out / "table.md").write_text(text + "\n")
    if not options.table:
        plot_folder(options.out)


if __name__ == "__main__":
    main()
