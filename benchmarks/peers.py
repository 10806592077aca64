"""Our methods beside the peers: mean ranks of the final value and CPU milliseconds per ask, on five kinds of problems.

    python -m benchmarks.peers --quick                       # a taste, some minutes
    python -m benchmarks.peers --jobs 16 --out runs/peers    # the standard size
    python -m benchmarks.peers --full --jobs 16              # all 24 bbob functions, more seeds
    python -m benchmarks.peers --tables                      # tables from the records that are there

Every method of a suite gets the same seeds, instances, noise draws and budgets and chooses its own first points. Runs are resumable. A case
is a problem with a seed; the methods are ranked jointly within each case, by the noiseless value of what they evaluated and of what they
recommend, and only over cases that all of them finished.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regretless.bench.peers import installed
from regretless.bench.record import Record, Run, load_records
from regretless.bench.runner import method_named, run_all
from regretless.bench.summary import ms_per_ask, rank_table
from regretless.page import Cell, html_page, table_section

OURS = ("gp-ucb", "gp-ei", "neural-bo")
"""`method="auto"` is gp-ucb up to 20 parameters and ms-ucb beyond; it is not a contestant of its own, because ties would blur the ranks."""
PEERS = ("optuna-gp", "botorch-logei", "turbo", "nevergrad-ngopt", "optuna-tpe", "smac", "optuna-cmaes", "cma", "random")
HIGH_OURS = ("ms-ucb", "gp-ucb", "gp-ei", "neural-bo")
HIGH_PEERS = ("optuna-gp", "botorch-logei:restarts=2,raw=64", "turbo", "nevergrad-ngopt", "optuna-tpe", "optuna-cmaes", "cma", "random")
"""BoTorch with fewer starts, because its ask takes seconds in a hundred dimensions; SMAC's forest is left out for the same reason."""

BBOB_PART = (1, 3, 6, 8, 10, 13, 15, 17, 20, 21, 23, 24)
"""Half of the suite's functions, some of each of its five groups."""


@dataclass(frozen=True)
class Suite:
    """Problems of one kind and who runs on them."""

    problems: tuple[tuple[str, dict[str, Any], int], ...]
    """Name, options, budget."""
    methods: tuple[str, ...] = OURS + PEERS
    noisy: bool = False


def bbob(dim: int, functions: Sequence[int]) -> Suite:
    return Suite(tuple(("bbob", {"function": f, "dim": dim}, 20 * dim) for f in functions))


def suites(functions: Sequence[int]) -> dict[str, Suite]:
    noisy = (
        ("branin-threds", {"noise": 0.1}, 60),
        ("hartmann6", {"noise_share": 0.3}, 100),
        ("levy", {"dim": 5, "shift": 0.6, "noise_share": 0.1}, 100),
        ("rosenbrock-threds", {"noise": 0.5}, 60),
        ("styblinski-tang", {"dim": 5, "shift": 0.6, "noise_share": 0.3}, 100),
    )
    high = (
        ("levy", {"dim": 50, "shift": 0.6}, 200),
        ("levy", {"dim": 100, "shift": 0.6}, 200),
        ("ellipsoid", {"dim": 100, "shift": 0.6}, 200),
        ("ackley", {"dim": 100, "bound": 5, "shift": 0.6}, 200),
        ("camelback", {"dim": 100, "shift": 0.6}, 200),
    )
    tables = (
        *(("hpobench-mlp", {"data_set": name}, 60) for name in ("vehicle", "phoneme", "segment", "credit_g")),
        *(("nasbench201", {"data_set": name}, 60) for name in ("cifar10", "imagenet")),
    )
    tasks: tuple[tuple[str, dict[str, Any], int], ...] = (("svm-digits", {}, 40), ("boosting-diabetes", {}, 40), ("mlp-breast-cancer", {}, 40))
    return {
        "bbob-2": bbob(2, functions),
        "bbob-5": bbob(5, functions),
        "bbob-10": bbob(10, functions),
        "noisy": Suite(noisy, noisy=True),
        "high-dim": Suite(high, HIGH_OURS + HIGH_PEERS),
        "tabular": Suite(tables, noisy=True),
        "sklearn": Suite(tasks),
    }


def runs_of(suite: Suite, seeds: int, methods: Sequence[str], share: float) -> list[Run]:
    """Seed by seed, so that an interrupted sweep has whole cases."""
    return [
        Run(method_named(method), problem, options, seed=seed, budget=max(8, round(share * budget)), label=method)
        for seed in range(seeds)
        for problem, options, budget in suite.problems
        for method in methods
    ]


Row = tuple[str, float, float, float, float, int]
"""Method, mean rank and its standard error by the best evaluated, mean rank by the recommendation, CPU ms per ask, runs."""


def table(records: Sequence[Record], methods: Sequence[str]) -> tuple[int, list[Row]]:
    """The number of shared cases and the rows, best first; methods without half of the cases the fullest one has are left out."""
    counts = {label: sum(r.label == label for r in records) for label in methods}
    field = [label for label in methods if counts[label] and counts[label] >= max(counts.values()) / 2]
    if len(field) < 2:
        return 0, []
    best, advised = rank_table(records, field), rank_table(records, field, by="recommended")
    if not len(best.ranks):
        return 0, []
    cost = {label: float(np.median([ms_per_ask(r) for r in records if r.label == label])) for label in field}
    rows = [
        (label, float(best.mean[i]), float(best.error[i]), float(advised.mean[i]), cost[label], counts[label]) for i, label in enumerate(best.labels)
    ]
    return len(best.ranks), sorted(rows, key=lambda row: row[1])


def print_table(name: str, cases: int, rows: Sequence[Row]) -> None:
    print(f"\n== {name}: {cases} cases, {len(rows)} methods")
    print(f"{'method':<34}{'mean rank':>16}{'recommended':>13}{'CPU ms/ask':>12}{'runs':>6}")
    for label, rank, error, advised, cost, count in rows:
        print(f"{label:<34}{rank:>9.2f} +-{error:>4.2f}{advised:>13.2f}{cost:>12.1f}{count:>6}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/peers"), help="folder of the records, one folder per suite in it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, help="seeds per problem (quick 2, standard 5, full 10)")
    parser.add_argument("--suites", help="comma-separated, of: " + ", ".join(suites(BBOB_PART)))
    parser.add_argument("--methods", help="names separated by spaces (options after a colon), instead of each suite's own field")
    parser.add_argument("--quick", action="store_true", help="three bbob functions, half budgets, two seeds")
    parser.add_argument("--full", action="store_true", help="all 24 bbob functions, ten seeds")
    parser.add_argument("--tables", action="store_true", help="only the tables of the records that are there")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds after which a single run is given up")
    options = parser.parse_args(arguments)
    if options.quick and options.full:
        parser.error("--quick and --full exclude each other")
    functions = (1, 8, 21) if options.quick else range(1, 25) if options.full else BBOB_PART
    seeds = options.seeds or (2 if options.quick else 10 if options.full else 5)
    every = suites(functions)
    chosen = options.suites.split(",") if options.suites else list(every)
    if any(name not in every for name in chosen):
        parser.error(f"--suites takes {', '.join(every)}")
    sections = []
    for name in chosen:
        suite, folder = every[name], options.out / name
        named = options.methods.split() if options.methods else suite.methods
        methods = [method for method in named if installed(method.partition(":")[0])]
        for method in sorted(set(named) - set(methods)):
            print(f"left out: {method} is not installed here")
        if not options.tables:
            run_all(runs_of(suite, seeds, methods, 0.5 if options.quick else 1.0), folder, options.jobs, timeout=options.timeout)
        records = load_records(folder, failed=True) if folder.is_dir() else []
        failed = [r for r in records if r.error is not None]
        cases, rows = table([r for r in records if r.error is None], methods)
        print_table(name, cases, rows)
        for record in failed:
            print(f"   failed: {record.label} on {record.problem}, seed {record.seed}: {(record.error or '').strip().splitlines()[-1][:120]}")
        columns = ["method", "mean rank", "standard error", "mean rank of the recommendation", "CPU ms per ask", "runs"]
        marks = {"mean rank": "min", "mean rank of the recommendation": "min"}
        note = f"{cases} cases; ranks are joint within a case, 1 is best." + (" Noisy: the recommendation is what counts." if suite.noisy else "")
        shown: list[list[Cell]] = [[label, *(float(f"{v:.3g}") for v in numbers), count] for label, *numbers, count in rows]
        sections.append(table_section(name, columns, shown, best=marks if rows else None, note=note))
    options.out.mkdir(parents=True, exist_ok=True)
    page = options.out / "peers.html"
    page.write_text(html_page("Our methods beside the peers", sections), encoding="utf-8")
    print(f"\npage: {page}")


if __name__ == "__main__":
    main()
