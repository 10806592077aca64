"""Our Gaussian-process methods against their peers on COCO's bbob and on shifted high-dimensional functions.

    python experiments/gp_quality.py --jobs 16 --out runs/gp_quality [--part bbob|high] [--seeds 3] [--instances 6,7,8]

bbob: 24 functions, instances 1 to 5, d = 2, 5, 10 with 20 d evaluations; every method starts by its own rule. Ranks are
    joint, by the final value,
over the problems a set of methods shares; costly peers get fewer instances and are ranked only where they ran. Ours run
with several seeds: the spread shown is that of their mean rank over seeds. High: shifted Ackley, Levy, Ellipsoid and
Rosenbrock in 50 and 100 dimensions.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from regretless_bench.peers import PEERS
from regretless_bench.record import Record, Run, load_records
from regretless_bench.runner import run_all
from scipy.stats import rankdata

from regretless.classics import CLASSICS
from regretless.methods import METHODS

OURS = ("gp-ucb", "gp-ei")
CHEAP = ("random", "turbo", "optuna-tpe", "cma", "nevergrad-ngopt")
COSTLY = {
    "optuna-gp": {2: range(1, 6), 5: range(1, 4), 10: range(1, 2)},
    "botorch-logei": {2: range(1, 3), 5: range(1, 2), 10: range(1, 2)},
}
"""Instances each costly peer runs on, by dimension."""
BOTORCH_D10 = range(1, 25, 3)
"""The functions BoTorch runs on at d = 10: about four minutes each."""
HIGH = ("ackley", "levy", "ellipsoid", "rosenbrock")
HIGH_METHODS = {
    "gp-ucb": CLASSICS["gp-ucb"],
    "gp-ei": CLASSICS["gp-ei"],
    "turbo": CLASSICS["turbo"](initial=20),
    "botorch-logei": PEERS["botorch-logei"](initial=20, quick=True),
    "random": CLASSICS["random"],
}
"""TuRBO and BoTorch would add random points of their own to the 20 common ones; BoTorch's own fit would take an hour
per run."""
HIGH_FIRST = 3
"""The first seed, as in `ms_ucb_fig1.py`."""
BOTORCH_SEEDS = {50: 2, 100: 1}
"""Seeds that BoTorch runs, by dimension: four minutes a run."""


def recipe(name: str):
    return {**METHODS, **CLASSICS, **PEERS}[name]


def bbob_runs(seeds: int, instances: Sequence[int]) -> list[Run]:
    runs = []
    for dim, function in product((10, 5, 2), range(1, 25)):
        for name in ("botorch-logei", "optuna-gp"):
            if name == "botorch-logei" and dim == 10 and function not in BOTORCH_D10:
                continue
            runs += [bbob_run(name, function, dim, i, 0) for i in COSTLY[name][dim] if i in instances]
        for i in instances:
            runs += [bbob_run(name, function, dim, i, 0) for name in CHEAP]
            runs += [
                bbob_run(name, function, dim, i, s) for name in OURS for s in range(seeds if name == "gp-ucb" else 1)
            ]
    cost = {"botorch-logei": 0, "optuna-gp": 1}
    return sorted(runs, key=lambda r: (cost.get(r.label.split("#")[0], 2), -r.budget))


def bbob_run(name: str, function: int, dim: int, instance: int, seed: int) -> Run:
    label = f"{name}#{seed}"
    return Run(
        recipe(name),
        "bbob",
        {"function": function, "dim": dim, "instance": instance},
        seed=100 * instance + seed,
        budget=20 * dim,
        label=label,
    )


def high_runs(seeds: int) -> list[Run]:
    """Shifted functions; the same problems, initial points and settings as in `ms_ucb_fig1.py --full --long`, whose
    records serve here as well."""
    runs = []
    for dim, name, seed in product((50, 100), HIGH, range(HIGH_FIRST, HIGH_FIRST + seeds)):
        options = {"dim": dim, "shift": 0.6, **({"bound": 5.0} if name == "ackley" else {})}
        for label, method in HIGH_METHODS.items():
            if label != "botorch-logei" or seed < HIGH_FIRST + BOTORCH_SEEDS[dim]:
                runs.append(Run(method, name, options, seed=seed, budget=300, init=20, label=label))
    return sorted(runs, key=lambda r: r.label != "botorch-logei")


def bbob_table(records: list[Record]) -> str:
    lines = []
    for dim in (2, 5, 10):
        final: dict[tuple[str, int], dict[tuple[int, int], float]] = {}
        cost: dict[str, list[float]] = {}
        for r in records:
            o = r.settings["options"]
            if r.settings["problem"] != "bbob" or o["dim"] != dim:
                continue
            name, _, seed = r.label.partition("#")
            final.setdefault((name, int(seed)), {})[o["function"], o["instance"]] = r.simple_regret()[-1]
            cost.setdefault(name, []).append(1e3 * float(np.mean(r.cpu[2:])))
        lines.append(
            f"\nd = {dim}, {20 * dim} evaluations\n| methods ranked together | problems | "
            + "mean ranks |\n| --- | --- | --- |"
        )
        everyone = list(dict.fromkeys(name for name, _ in final))
        for group in (
            everyone,
            [n for n in everyone if n != "botorch-logei"],
            [n for n in everyone if n not in ("botorch-logei", "optuna-gp")],
        ):
            lines.append(rank_line(group, final))
        lines.append("ms per ask: " + ", ".join(f"{n} {np.median(c):.1f}" for n, c in cost.items()))
    return "\n".join(lines)


def rank_line(group: list[str], final: dict) -> str:
    """Mean joint ranks over the problems that the whole group shares; those of ours with their sd over seeds."""
    if not all((n, 0) in final for n in [*group, "gp-ucb"]):
        return ""
    shared = sorted(set.intersection(*(set(final[n, 0]) for n in group)))
    seeds = [s for s in range(9) if ("gp-ucb", s) in final]
    means = []
    for s in seeds:
        values = np.array(
            [[final[(n, s) if (n, s) in final else (n, 0)].get(p, np.nan) for n in group] for p in shared]
        )
        values = values[~np.isnan(values).any(axis=1)]
        means.append(rankdata(np.maximum(values, 1e-10), axis=1).mean(axis=0))
    spread = np.std([m[group.index("gp-ucb")] for m in means])
    order = np.argsort(np.mean(means, axis=0))
    words = ", ".join(
        f"{group[i]} {np.mean(means, axis=0)[i]:.2f}" + (f" +- {spread:.2f}" if group[i] == "gp-ucb" else "")
        for i in order
    )
    return f"| {len(group)} | {len(shared)} | {words} |"


def high_table(records: list[Record]) -> str:
    """Medians of the log10 gap after 200 and 300 evaluations; what BoTorch reached is set beside our best method's on
    the same seeds."""
    labels = list(HIGH_METHODS)
    lines = [
        "| problem | evaluations | " + " | ".join([*labels, "gp-ei less BoTorch, same seeds"]) + " |",
        "|" + " --- |" * (len(labels) + 3),
    ]
    for dim, name, n in product((50, 100), HIGH, (200, 300)):
        chosen = [
            r
            for r in records
            if r.settings["problem"] == name and r.settings["options"].get("dim") == dim and len(r.y) >= n
        ]
        logs = {
            label: {r.seed: float(np.log10(r.simple_regret()[n - 1])) for r in chosen if r.label == label}
            for label in labels
        }
        cells = [f"{np.median(list(of.values())):.2f} ({len(of)})" if of else "" for of in logs.values()]
        apart = [logs["gp-ei"][s] - gap for s, gap in logs["botorch-logei"].items() if s in logs["gp-ei"]]
        lines.append(f"| {name} {dim} | {n} | " + " | ".join([*cells, ", ".join(f"{a:+.2f}" for a in apart)]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/gp_quality"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--part", choices=("bbob", "high", "table"), default="bbob")
    parser.add_argument("--only", default="", help="comma-separated method names")
    parser.add_argument("--instances", default="1,2,3,4,5", help="bbob only; the costly peers run on some of 1 to 5")
    parser.add_argument("--dims", default="", help="comma-separated dimensions")
    options = parser.parse_args()
    runs = []
    if options.part == "bbob":
        runs = bbob_runs(options.seeds, [int(i) for i in options.instances.split(",")])
    elif options.part == "high":
        runs = high_runs(options.seeds)
    if options.only:
        runs = [r for r in runs if r.label.split("#")[0] in options.only.split(",")]
    if options.dims:
        runs = [r for r in runs if str(r.options["dim"]) in options.dims.split(",")]
    run_all(runs, options.out, jobs=options.jobs)
    records = load_records(options.out)
    print(bbob_table(records))
    print(high_table(records))


if __name__ == "__main__":
    main()
