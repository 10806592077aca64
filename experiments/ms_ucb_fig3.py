"""MS-UCB, Fig. 3: the number of free coordinates d on Ackley and the Hyper-Ellipsoid in 100 dimensions, for the literal method and the default.

    python experiments/ms_ucb_fig3.py --jobs 2 --out runs/ms_ucb_fig3 --quick      D = 20, 2 seeds
    python experiments/ms_ucb_fig3.py --jobs 16 --out runs/ms_ucb_fig3 --seeds 10  as in the paper, D = 100
    python experiments/ms_ucb_fig3.py --out runs/ms_ucb_fig3 --report              table and figures from the records there are

The two limits are shown as well: d = 0 picks among sampled points, d = D is GP-UCB.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ms_ucb_fig1 import BUDGET, INITIAL, SHIFT, table

from regretless.bench.plots import plot_folder
from regretless.bench.record import Run, load_records
from regretless.bench.runner import run_all
from regretless.methods import METHODS

MS = METHODS["ms-ucb"]
FREE = (0, 1, 2, 5, 10, 10_000)
"""d: the paper's 1, 2, 5, 10, and the limits; more than D means D."""
PROBLEMS = {"ackley": {"bound": 5.0}, "ellipsoid": {}}


def label(preset: str, d: int) -> str:
    return f"{preset}, d = {d if d < 10_000 else 'D'}"


def settings(options: argparse.Namespace) -> list[Run]:
    dim, seeds = (20, 2) if options.quick else (100, options.seeds)
    cells = []
    for name, extra in PROBLEMS.items():
        for preset in ("paper", "default"):
            for d in FREE:
                problem = {"dim": dim, "shift": SHIFT, **extra}
                cells += [Run(MS(preset=preset, d=d), name, problem, s, budget=BUDGET, init=INITIAL, label=label(preset, d)) for s in range(seeds)]
    return sorted(cells, key=lambda run: run.seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/ms_ucb_fig3"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=None, help="seconds after which a run is given up")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.report:
        run_all(settings(options), options.out, jobs=options.jobs, timeout=options.timeout)
    text = table(load_records(options.out), [label(preset, d) for preset in ("paper", "default") for d in FREE])
    (options.out / "table.md").write_text(text + "\n")
    print(text)
    plot_folder(options.out)


if __name__ == "__main__":
    main()
