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
import json
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


def keep(path: Path, records: list[Record], methods: tuple[str, ...]) -> None:
    """Function, instance, best loss, recommended loss and milliseconds per ask of every run, by method."""
    kept: dict[str, list[list[float]]] = {}
    for r in records:
        if r.label in methods and r.error is None:
            options = r.settings["options"]
            losses = [-r.sign * float(r.best()[-1]), -r.sign * float(r.recommended)]
            kept.setdefault(r.label, []).append(
                [options["function"], options["instance"], *losses, round(ms_per_ask(r), 3)]
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({m: sorted(rows) for m, rows in sorted(kept.items())}), encoding="utf-8")


def chart(path: Path, found: dict[str, list[Record]], methods: tuple[str, ...]) -> None:
    """One panel per kind of suite: the mean rank of the recommendation, with its standard error, against the
    milliseconds of an ask. A panel has the methods that ran on all of its suites."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    titles = {"clean": "no noise", "noise": "noise of 5 to 30 %", "mixint": "whole numbers"}
    kinds = [kind for kind in titles if any(suite.startswith(kind) for suite in found)]
    figure, panels = plt.subplots(1, len(kinds), figsize=(4.2 * len(kinds), 3.8), squeeze=False, layout="constrained")
    for panel, kind in zip(panels[0], kinds, strict=True):
        suites_of_kind = [suite for suite in found if suite.startswith(kind)]
        ran = [set(outcomes(found[suite], methods)[0]) for suite in suites_of_kind]
        common = tuple(m for m in methods if all(m in names for names in ran))
        values = np.concatenate([outcomes(found[suite], common)[2] for suite in suites_of_kind])
        rank, cost = ranks(values[:, :, 1]), np.median(values[:, :, 2], axis=0)
        for i, method in enumerate(common):
            mean, error = rank[:, i].mean(), rank[:, i].std(ddof=1) / len(rank) ** 0.5
            colour = "C3" if method == "auto" else "0.35"
            panel.errorbar(cost[i], mean, yerr=error, fmt="D" if method == "auto" else "o", color=colour)
            panel.annotate(method, (cost[i], mean), xytext=(5, 4), textcoords="offset points", fontsize=8, color=colour)
        panel.set(xscale="log", xlabel="CPU ms per ask", title=f"{titles[kind]}: {len(values)} cases")
        panel.margins(x=0.28)
        panel.invert_yaxis()
    panels[0][0].set_ylabel("mean rank of the recommendation (1 is best)")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", choices=SETS, default="report")
    parser.add_argument("--suites", default="clean-2,clean-3,clean-5,clean-10,noise-15-3,mixint-5")
    parser.add_argument("--functions", help="numbers separated by commas; by default all of the set")
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--methods", help="names separated by blanks, instead of the set's own")
    parser.add_argument("--out", type=Path, default=Path("runs/auto_choice"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder for the outcomes of all runs, one JSON file per suite")
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
        if options.keep is not None:
            keep(options.keep / f"{suite}-{options.set}.json", records, methods)
    if options.chart is not None:
        chart(options.chart, found, methods)


if __name__ == "__main__":
    main()
