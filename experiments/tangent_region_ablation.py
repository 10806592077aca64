"""What each part of tangent-region is worth: the method, and one part changed at a time, on shifted functions in
10 and 20 dimensions.

python experiments/tangent_region_ablation.py --jobs 16 --out runs/tangent_region_ablation --seeds 5
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from regretless_bench.methods import RIVALS
from regretless_bench.record import Run, by_problem, load_records
from regretless_bench.runner import run_all

TangentRegion = RIVALS["tangent-region"]
VARIANTS = {
    "default": {},
    "shape fixed": {"shape": "fixed"},
    "noise and warp by evidence": {"shape": "noise"},
    "strong warp": {"warp": "strong"},
    "gentle warp": {"warp": "gentle"},
    "no warp": {"warp": "none"},
    "fixed, dense only": {"additive": 0.0},
    "fixed, ridge 0.1": {"ridge": 0.1},
    "no hops": {"hops": 0.0},
    "half hops": {"hops": 0.5},
    "no trust region": {"trust_region": False},
    "exploration 0.5": {"exploration": 0.5},
    "exploration 2": {"exploration": 2.0},
    "softplus": {"activation": "softplus"},
    "relu": {"activation": "relu"},
    "depth 3": {"depth": 3},
    "width 512": {"width": 512},
    "2000 candidates": {"n_candidates": 2000},
}
PROBLEMS = {"ackley": {"shift": 0.6}, "levy": {"shift": 0.6}, "michalewicz": {"turned": True}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/tangent_region_ablation"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--budget", type=int, default=300)
    parser.add_argument("--dims", default="10,20")
    parser.add_argument("--variants", default="", help="comma-separated; all by default")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    chosen = options.variants.split(",") if options.variants else list(VARIANTS)
    runs = [
        Run(
            TangentRegion(**VARIANTS[v]),
            name,
            {"dim": int(d), "noise_share": 0.1, **form},
            seed,
            options.budget,
            20,
            label=v,
        )
        for d in options.dims.split(",")
        for name, form in PROBLEMS.items()
        for v in chosen
        for seed in range(options.first_seed, options.first_seed + options.seeds)
    ]
    if not options.report:
        run_all(runs, options.out, jobs=options.jobs)
    grouped = by_problem(load_records(options.out))
    print("| variant | " + " | ".join(grouped) + " |\n|" + " --- |" * (len(grouped) + 1))
    for v in [v for v in VARIANTS if any(v in runs for runs in grouped.values())]:
        cells = []
        for methods in grouped.values():
            values = [-r.sign * r.best()[-1] for r in methods.get(v, [])]
            cells.append(f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})" if values else "-")
        print(f"| {v} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
