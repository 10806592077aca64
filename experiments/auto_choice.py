"""`auto` beside its parts and beside the peers: chosen on odd functions of COCO's suites, reported on even ones.

    python experiments/auto_choice.py --set choose --jobs 16        # our own methods, on the odd functions
    python experiments/auto_choice.py --set report --jobs 16        # auto and the peers, on the even functions
    python experiments/auto_choice.py --set report --table          # the tables of the records that are there

A suite is a kind of problem: `clean-D` (bbob, 20 evaluations per dimension), `noise-S-D` (bbob with noise of S per cent
of the interquartile range, 50 per dimension), `mixint-D` (bbob-mixint, 20 per dimension), `long-D` (bbob, 10,000
evaluations). A function is a family: odd ones chose what `auto` does, even ones had no part in it. A case is a function
with an instance; methods are ranked jointly within a case, by the noiseless value of the best point evaluated and of
the point recommended.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.record import Record, Run, load_records
from regretless_bench.runner import method_named, run_all
from regretless_bench.stats import ranks
from regretless_bench.summary import ms_per_ask

from regretless.parameters import Array

OURS = ("auto", "gp-ucb", "gp-ei", "gp-ucb:rotate=True", "gp-ei:rotate=True", "gp-ucb:kappa=2.0", "gp-ts")
PEERS = ("auto", "optuna-tpe", "optuna-cmaes", "nevergrad-ngopt", "turbo", "optuna-gp", "botorch-lognei", "hebo")
SETS = {"choose": (range(1, 25, 2), OURS), "report": (range(2, 25, 2), PEERS)}
"""The functions and the methods of each set."""
GROUPS = {
    "1-5": range(1, 6),
    "6-9": range(6, 10),
    "10-14": range(10, 15),
    "15-19": range(15, 20),
    "20-24": range(20, 25),
}
"""The five groups of COCO's functions: separable, moderate, ill-conditioned, multi-modal, weakly structured."""
FIRST = 21
"""The first instance; earlier ones were used for tuning the GP engine."""


def suites() -> dict[str, tuple[str, dict[str, Any], int]]:
    """Problem, options and budget of each suite."""
    found: dict[str, tuple[str, dict[str, Any], int]] = {}
    for dim in (2, 3, 5, 10, 20):
        found[f"clean-{dim}"] = "bbob", {"dim": dim}, 20 * dim
    for dim in (2, 3, 5):
        for share in (5, 15, 30):
            found[f"noise-{share}-{dim}"] = "bbob", {"dim": dim, "noise_iqr": share / 100}, 50 * dim
    for dim in (5, 10, 20):
        found[f"mixint-{dim}"] = "bbob-mixint", {"dim": dim}, 20 * dim
    for dim in (5, 20):
        found[f"long-{dim}"] = "bbob", {"dim": dim}, 10_000
    return found


def runs(suite: str, functions: range | list[int], instances: int, methods: tuple[str, ...]) -> list[Run]:
    """Instance by instance, so that an interrupted study has whole cases."""
    problem, options, budget = suites()[suite]
    return [
        Run(method_named(m), problem, {**options, "function": f, "instance": i}, 100 * i, budget, label=m)
        for i in range(FIRST, FIRST + instances)
        for f in functions
        for m in methods
    ]


def outcomes(records: list[Record], methods: tuple[str, ...]) -> tuple[tuple[str, ...], list[tuple[int, int]], Array]:
    """The methods that ran, the cases that all of them finished, and best loss, recommended loss and milliseconds per
    ask, cases x methods x 3."""
    found: dict[str, dict[tuple[int, int], tuple[float, float, float]]] = {m: {} for m in methods}
    for r in records:
        if r.label in found and r.error is None:
            case = r.settings["options"]["function"], r.settings["options"]["instance"]
            found[r.label][case] = -r.sign * float(r.best()[-1]), -r.sign * float(r.recommended), ms_per_ask(r)
    methods = tuple(m for m in methods if found[m])
    cases = sorted(set.intersection(*(set(found[m]) for m in methods))) if methods else []
    return methods, cases, np.array([[found[m][case] for m in methods] for case in cases])


def table(title: str, records: list[Record], methods: tuple[str, ...]) -> str:
    """Mean ranks with standard errors, and the rank of the first method in each group beside the best of the others."""
    methods, cases, values = outcomes(records, methods)
    if len(cases) < 2 or len(methods) < 2:
        return f"{title}: {len(cases)} cases of {', '.join(methods) or 'nobody'}: too few for a table"
    rank = np.stack([ranks(values[:, :, k]) for k in range(2)])
    root = len(cases) ** 0.5
    lines = [
        f"{title}: {len(cases)} cases", "",
        "| method | mean rank | of the recommendation | CPU ms per ask |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for i in np.argsort(rank[0].mean(axis=0)):
        cells = [f"{rank[k, :, i].mean():.2f} ± {rank[k, :, i].std(ddof=1) / root:.2f}" for k in range(2)]
        lines.append(f"| {methods[i]} | {' | '.join(cells)} | {np.median(values[:, i, 2]):.3g} |")
    words = []
    for group, members in GROUPS.items():
        rows = [n for n, (function, _) in enumerate(cases) if function in members]
        if rows:
            means = rank[0][rows].mean(axis=0)
            other = 1 + int(np.argmin(means[1:]))
            words.append(f"f{group} {means[0]:.2f} ({methods[other]} {means[other]:.2f})")
    return "\n".join([*lines, "", f"{methods[0]} by group, beside the best of the others: {', '.join(words)}"])


def chart(path: Path, found: dict[str, list[Record]], methods: tuple[str, ...]) -> None:
    """One row per suite, one dot with its standard error per method: the mean rank of the recommendation."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 1 + 0.55 * len(found)))
    for row, records in enumerate(found.values()):
        ran, cases, values = outcomes(records, methods)
        rank = ranks(values[:, :, 1])
        for i, method in enumerate(ran):
            at = methods.index(method)
            mean, error = rank[:, i].mean(), rank[:, i].std(ddof=1) / len(cases) ** 0.5
            axes.errorbar(
                mean, row + 0.09 * (at - len(methods) / 2), xerr=error, fmt="D" if at == 0 else "o", color=f"C{at}",
                markersize=7 if at == 0 else 5, label=method if row == 0 else None,
            )  # fmt: skip
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel("mean rank of the recommended point, with its standard error (1 is best)")
    handles = [plt.Line2D([], [], marker="D" if i == 0 else "o", ls="", color=f"C{i}") for i in range(len(methods))]
    axes.legend(handles, methods, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", choices=SETS, default="report")
    parser.add_argument("--suites", default="clean-2,clean-3,clean-5,clean-10,noise-15-3,mixint-5")
    parser.add_argument("--functions", help="numbers separated by commas; by default all of the set")
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--methods", help="names separated by blanks, instead of the set's own")
    parser.add_argument("--out", type=Path, default=Path("runs/auto_choice"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--chart", type=Path, help="a PNG file of the mean ranks of all suites")
    parser.add_argument("--table", action="store_true", help="only the tables of the records that exist")
    options = parser.parse_args()
    functions, methods = SETS[options.set]
    chosen = [int(word) for word in options.functions.split(",")] if options.functions else functions
    if any(f not in functions for f in chosen):
        parser.error(f"the set {options.set!r} has functions {list(functions)}")
    methods = tuple(options.methods.split()) if options.methods else methods
    found = {}
    for suite in options.suites.split(","):
        folder = options.out / suite
        if not options.table:
            run_all(runs(suite, chosen, options.instances, methods), folder, jobs=options.jobs)
        found[suite] = records = [r for r in load_records(folder) if r.settings["options"]["function"] in functions]
        print(f"\n{table(f'{suite}, functions of the set {options.set}', records, methods)}", flush=True)
    if options.chart is not None:
        chart(options.chart, found, methods)


if __name__ == "__main__":
    main()
