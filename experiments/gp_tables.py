"""gp-ei and gp-ucb beside Optuna's samplers on tables of real trainings: HPOBench's MLP grids and NAS-Bench-201, 60
noisy evaluations.

    python experiments/gp_tables.py --jobs 16 --out runs/gp_tables [--tables suite|others|NAME,...] [--first 10]
    [--seeds 21] [--table]

`suite` are the six tables of `benchmarks/peers.py`, `others` the five it leaves out. An evaluation is one of the
trainings the table holds of a setting; the settings a run evaluated, and the one it recommends, are judged by the mean
over them. A case is a table with a seed. Two scores: the joint rank among the methods within a case, and the share of
all settings of the table that are better (its log10, so that -3 is the best of a thousand), which unlike a rank does
not depend on who else took part. Differences are paired by case.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from regretless_bench.problems import make_problem
from regretless_bench.problems.tabular import MLP_DATA, NAS_DATA, Tabular
from regretless_bench.record import Record, Run, load_records
from regretless_bench.runner import method_named, run_all
from regretless_bench.stats import ranks
from regretless_bench.summary import ms_per_ask

SUITE = ("vehicle", "phoneme", "segment", "credit_g", "cifar10", "imagenet")
OTHERS = tuple(name for name in MLP_DATA + NAS_DATA if name not in SUITE)
METHODS = ("gp-ei", "gp-ucb", "optuna-gp", "optuna-tpe", "optuna-cmaes", "random")
BUDGET = 60
TO_BEAT = "optuna-gp"
"""Differences are to this method."""


def family(table: str) -> str:
    return "nasbench201" if table in NAS_DATA else "hpobench-mlp"


def runs(tables: tuple[str, ...], seeds: range, methods: tuple[str, ...]) -> list[Run]:
    """Seed by seed, so that an interrupted study has whole cases."""
    return [
        Run(method_named(m), family(t), {"data_set": t}, s, BUDGET, label=m)
        for s in seeds
        for t in tables
        for m in methods
    ]


def scored(record: Record) -> tuple[float, float]:
    """log10 of the share of settings better than the best evaluated one, and than the recommended one."""
    problem = make_problem(family(record.settings["options"]["data_set"]), **record.settings["options"])
    assert isinstance(problem, Tabular)
    best, advised = (
        math.log10(problem.share_better(float(value))) for value in (record.best()[-1], record.recommended)
    )
    return best, advised


def table(records: list[Record], methods: tuple[str, ...]) -> str:
    found: dict[str, dict[tuple[str, int], tuple[float, float, float]]] = {m: {} for m in methods}
    for r in records:
        if r.label in found:
            found[r.label][r.settings["options"]["data_set"], r.seed] = (*scored(r), ms_per_ask(r))
    methods = tuple(m for m in methods if found[m])
    cases = sorted(set.intersection(*(set(found[m]) for m in methods))) if methods else []
    if len(cases) < 2 or TO_BEAT not in methods:
        return f"{len(cases)} cases of {', '.join(methods) or 'nobody'}: too few for a table"
    values = np.array(
        [[found[m][case] for m in methods] for case in cases]
    )  # cases x methods x (best, recommended, ms)
    to_beat = methods.index(TO_BEAT)
    root = len(cases) ** 0.5
    tables, seeds = {t for t, _ in cases}, [s for _, s in cases]
    lines = [
        f"{len(cases)} cases: {len(tables)} tables, seeds {min(seeds)} to {max(seeds)}",
        "| method | mean rank | of the recommendation | log10 share better | of the recommendation "
        f"| less {TO_BEAT} | of the recommendation | won : lost | CPU ms per ask |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    rank = np.stack([ranks(values[:, :, k]) for k in range(2)])
    for i in np.argsort(rank[0].mean(axis=0)):
        gaps = values[:, i, :2] - values[:, to_beat, :2]
        cells = [f"{rank[k, :, i].mean():.2f} ± {rank[k, :, i].std(ddof=1) / root:.2f}" for k in range(2)]
        cells += [f"{values[:, i, k].mean():.2f}" for k in range(2)]
        cells += [
            f"{gaps[:, k].mean():+.2f} ± {gaps[:, k].std(ddof=1) / root:.2f}" if i != to_beat else "" for k in range(2)
        ]
        cells += [
            f"{(gaps[:, 0] < 0).sum()} : {(gaps[:, 0] > 0).sum()}" if i != to_beat else "",
            f"{np.median(values[:, i, 2]):.1f}",
        ]
        lines.append(f"| {methods[i]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/gp_tables"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tables", default="suite", help="suite, others, or names separated by commas")
    parser.add_argument("--first", type=int, default=10, help="the first seed; 100 to 160 were used for tuning")
    parser.add_argument("--seeds", type=int, default=21)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--table", action="store_true", help="only the table of the records that exist")
    options = parser.parse_args()
    tables = {"suite": SUITE, "others": OTHERS}.get(options.tables, tuple(options.tables.split(",")))
    wanted = runs(tables, range(options.first, options.first + options.seeds), tuple(options.methods.split(",")))
    if not options.table:
        run_all(wanted, options.out, jobs=options.jobs)
    cases = {(run.label, run.options["data_set"], run.seed) for run in wanted}
    records = [
        r for r in load_records(options.out) if (r.label, r.settings["options"].get("data_set"), r.seed) in cases
    ]
    print(table(records, tuple(options.methods.split(","))))


if __name__ == "__main__":
    main()
