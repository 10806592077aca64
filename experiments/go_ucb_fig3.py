"""GO-UCB, Fig. 3-5: tuning a random forest, an MLP and gradient boosting on Breast-cancer, Australian and Diabetes; five folds.

    python experiments/go_ucb_fig3.py --jobs 16 --out runs/go_ucb_fig3 [--quick]

n = 5 and T = 25. Each of the five folds is one repetition (Sec. 6.2); f* of a fold is the best accuracy any method found there. The tasks are
those of `regretless.problems.uci_hpo`, evaluations kept on disk. Figures are means over the folds with Wald intervals. Simple regret is shown
because the tasks saturate: staying at the best of five random points is hard to beat on the cumulative one.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from regretless.baselines import BASELINES
from regretless.bench.plots import plot_folder
from regretless.bench.record import Record, Run, load_records
from regretless.bench.runner import run_all
from regretless.bench.stats import wald
from regretless.methods import METHODS
from regretless.problems.uci_hpo import FILES, FOLDS, SETTINGS

N, T = 5, 25


def recipes() -> dict[str, Any]:
    go = METHODS["go-ucb"]
    return {
        "printed, from incumbent": go(preset="paper", phase_one=N),
        "printed, from random": go(preset="paper", phase_one=N, start="random"),
        "GO-UCB, net": go(model="sigmoid-net", width=25, phase_one=N),
        "GO-UCB, quadratic": go(phase_one=N),
        **{label: BASELINES[label] for label in ("gp-ei", "gp-pi", "gp-ucb", "turbo", "stay-at-best", "random-mutation", "random")},
    }


def runs(quick: bool) -> list[Run]:
    tasks = [("boosting", "breast-cancer")] if quick else list(product(SETTINGS, FILES))
    return [
        Run(recipe, "uci-hpo", {"classifier": classifier, "data": data, "fold": fold}, fold, N + T, init=N, label=label)
        for classifier, data in tasks for fold in range(FOLDS) for label, recipe in recipes().items()
    ]  # fmt: skip


def table(records: list[Record]) -> str:
    best: dict[str, float] = {}
    for r in records:
        best[r.problem] = max(best.get(r.problem, -np.inf), float(np.nanmax(r.value)))
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for r in records:
        groups.setdefault((r.settings["options"]["classifier"], r.settings["options"]["data"], r.label), []).append(r)
    lines = ["| task | method | folds | cumulative regret | Phase II only | simple regret |", "| --- | --- | --- | --- | --- | --- |"]
    for classifier, data in product(SETTINGS, FILES):
        mine = {label: group for (c, d, label), group in groups.items() if (c, d) == (classifier, data)}
        regrets = {label: [r.regret(best[r.problem]) for r in group] for label, group in mine.items()}
        for label, rows in sorted(regrets.items(), key=lambda item: np.mean([row.sum() for row in item[1]])):
            total, second = wald(np.array([row.sum() for row in rows])), wald(np.array([row[N:].sum() for row in rows]))
            simple = wald(np.array([row.min() for row in rows]))
            lines.append(
                f"| {classifier}, {data} | {label} | {len(rows)} | {total.mean:.2f} +- {total.half:.2f} | {second.mean:.2f} +- {second.half:.2f} "
                f"| {simple.mean:.4f} +- {simple.half:.4f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/go_ucb_fig3"))
    parser.add_argument("--seeds", type=int, default=FOLDS, help="ignored: the five folds are the repetitions")
    parser.add_argument("--quick", action="store_true", help="gradient boosting on Breast-cancer only")
    parser.add_argument("--table", action="store_true", help="only the table of the records that are there")
    options = parser.parse_args()
    if not options.table:
        run_all(runs(options.quick), options.out, options.jobs)
    text = table(load_records(options.out))
    print(text)
    (options.out / "table.md").write_text(text + "\n")
    if not options.table:
        plot_folder(options.out)


if __name__ == "__main__":
    main()
