"""What each part of the GP engine's default is worth: gp-ucb, and one part changed at a time, on COCO's bbob.

    python experiments/gp_ablation.py --jobs 16 --out runs/gp_ablation [--seeds 2] [--quick | --full]

24 functions, 20 d evaluations. Default: d = 2 and 5, instances 2 and 3. Quick: d = 2, instance 2. Full: d = 10 as well,
instances 1 to 5. The table pairs every variant with the default on the same function, instance and seed: the difference
of log10 gaps, and the share won and lost.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from regretless_bench.methods import RIVALS
from regretless_bench.record import Record, Run, load_records
from regretless_bench.runner import run_all

from regretless.classics import CLASSICS
from regretless.method import Recipe

UCB = CLASSICS["gp-ucb"]
VARIANTS: dict[str, Recipe] = {
    "default": UCB,
    "values as told": UCB(clip=False),
    "no quadratic trend": UCB(quadratic=False),
    "neither": UCB(clip=False, quadratic=False),
    "isotropic": UCB(ard=False),
    "turning axes": UCB(rotate=True),
    "SE kernel": UCB(kernel="se"),
    "no final exploitation": UCB(exploit=False),
    "kappa 0.5": UCB(kappa=0.5),
    "kappa 2": UCB(kappa=2.0),
    "log EI": CLASSICS["gp-ei"],
    "log PI": CLASSICS["gp-pi"],
    "Thompson": CLASSICS["gp-ts"],
    "paper": RIVALS["gp-ucb-printed"],
}
LEAST = 1e-8
"""Gaps below this are equal: COCO's own target precision."""


def runs(dims: tuple[int, ...], instances: tuple[int, ...], seeds: int) -> list[Run]:
    cells = product(sorted(dims, reverse=True), range(1, 25), instances, range(seeds), VARIANTS.items())
    return [
        Run(recipe, "bbob", {"function": f, "dim": d, "instance": i}, seed=100 * i + s, budget=20 * d, label=label)
        for d, f, i, s, (label, recipe) in cells
    ]


def table(records: list[Record]) -> str:
    logs: dict[int, dict[str, dict[tuple[int, ...], float]]] = {}
    for r in records:
        o = r.settings["options"]
        key = (o["function"], o["instance"], r.settings["seed"])
        logs.setdefault(o["dim"], {}).setdefault(r.label, {})[key] = float(np.log10(max(r.simple_regret()[-1], LEAST)))
    lines = []
    for dim in sorted(logs):
        lines += [
            f"\nd = {dim}, {20 * dim} evaluations",
            "| variant | problems | decades above the default | won | lost |",
            "| --- | --- | --- | --- | --- |",
        ]
        default = logs[dim].get("default", {})
        for label in VARIANTS:
            shared = sorted(set(default) & set(logs[dim].get(label, {})))
            if not shared or label == "default":
                continue
            gaps = np.array([logs[dim][label][k] - default[k] for k in shared])
            error = gaps.std() / np.sqrt(len(gaps))
            won, lost = (gaps < -0.01).mean(), (gaps > 0.01).mean()
            lines.append(f"| {label} | {len(gaps)} | {gaps.mean():+.2f} +- {error:.2f} | {won:.2f} | {lost:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/gp_ablation"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--table", action="store_true", help="only the table of the records that exist")
    options = parser.parse_args()
    dims, instances = (
        ((2,), (2,)) if options.quick else ((2, 5, 10), (1, 2, 3, 4, 5)) if options.full else ((2, 5), (2, 3))
    )
    if not options.table:
        run_all(runs(dims, instances, options.seeds), options.out, jobs=options.jobs)
    print(table(load_records(options.out)))


if __name__ == "__main__":
    main()
