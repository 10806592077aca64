"""MS-UCB's two real tasks: output weights of a net on MNIST (Fig. 4; D = 100 and 500) and the ramp-loss classifier (Fig. 5; D = 5001).

    python experiments/ms_ucb_real.py --jobs 2 --out runs/ms_ucb_real --quick        h = 10 with 2 epochs and C = 1, 60 evaluations, 1 seed
    python experiments/ms_ucb_real.py --jobs 16 --out runs/ms_ucb_real --seeds 5     h = 10 and 50; C = 1, 2, 5, 10
    python experiments/ms_ucb_real.py --out runs/ms_ucb_real --report                table and figures from the records there are

`--gisette PATH` runs the ramp loss on the real data; without it the data are "gisette-like", made from MNIST (see regretless/problems/ramp_loss.py).
d = 10 for all that have it and N0 = 1, alpha = 1 for MS-UCB, as in the paper; 20 initial points common to all methods.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from regretless.baselines import BASELINES
from regretless.bench.plots import plot_folder
from regretless.bench.record import Record, Run, by_problem, load_records
from regretless.bench.runner import run_all
from regretless.bench.summary import ms_per_ask
from regretless.methods import METHODS

MS, B, INITIAL = METHODS["ms-ucb"], BASELINES, 20
RECIPES = {
    "ms-ucb": MS, "ms-ucb (paper)": MS(preset="paper", d=10, alpha=1.0, cap=2000), "hesbo": B["hesbo"](d=10), "rembo": B["rembo"](d=10),
    "sre": B["sre"](d=10), "linebo": B["linebo"], "gp-ei": B["gp-ei"], "linear-bo": B["linear-bo"], "random": B["random"],
}  # fmt: skip


def settings(options: argparse.Namespace) -> list[Run]:
    """The cells asked for."""
    if options.quick:
        problems: list[tuple[str, dict[str, Any], int]] = [("mnist-net", {"hidden": 10, "epochs": 2}, 60), ("ramp-loss", {"C": 1.0}, 60)]
        seeds = 1
    else:
        real = {"gisette": options.gisette} if options.gisette else {}
        problems = [("mnist-net", {"hidden": h}, 200) for h in (10, 50)] + [("ramp-loss", {"C": C, **real}, 300) for C in (1.0, 2.0, 5.0, 10.0)]
        seeds = options.seeds
    chosen = options.methods.split(",") if options.methods else list(RECIPES)
    cells = [
        Run(RECIPES[label], name, problem, seed, budget=budget, init=INITIAL, label=label)
        for name, problem, budget in problems for label in chosen for seed in range(seeds)
    ]  # fmt: skip
    return sorted(cells, key=lambda run: run.seed)


def table(records: list[Record]) -> str:
    """Median best value with quartiles, lower is better, in Markdown."""
    grouped = by_problem(records)
    found = {label for runs in grouped.values() for label in runs}
    lines = ["| method | " + " | ".join(grouped) + " | CPU ms/ask |", "|" + " --- |" * (len(grouped) + 2)]
    for label in [m for m in RECIPES if m in found]:
        cells = []
        for runs in grouped.values():
            ends = [record.best()[-1] for record in runs.get(label, ())]
            low, middle, high = np.quantile(ends, [0.25, 0.5, 0.75]) if ends else (np.nan, np.nan, np.nan)
            cells.append(f"{middle:.4g} [{low:.4g}, {high:.4g}] ({len(ends)})" if ends else "-")
        cost = [ms_per_ask(record) for runs in grouped.values() for record in runs.get(label, ())]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {np.median(cost):.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/ms_ucb_real"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", default="", help="comma-separated labels; see RECIPES")
    parser.add_argument("--gisette", default="", help="path of the real data")
    parser.add_argument("--timeout", type=float, default=None, help="seconds after which a run is given up")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.report:
        run_all(settings(options), options.out, jobs=options.jobs, timeout=options.timeout)
    text = table(load_records(options.out))
    (options.out / "table.md").write_text(text + "\n")
    print(text)
    plot_folder(options.out)


if __name__ == "__main__":
    main()
