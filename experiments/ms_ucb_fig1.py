"""MS-UCB, Fig. 1: shifted Ackley, Levy, Hyper-Ellipsoid and Rosenbrock in 20, 50 and 100 dimensions, and Camelback with
2 effective ones of them.

    python experiments/ms_ucb_fig1.py --jobs 2 --out runs/ms_ucb_fig1           D = 20 and Camelback, 5 seeds
    python experiments/ms_ucb_fig1.py --jobs 16 --out runs/ms_ucb_fig1 --full   D = 20, 50, 100, 10 seeds (Camelback 20)
    python experiments/ms_ucb_fig1.py --out runs/ms_ucb_fig1 --full --report    the findings from the records there are
    python experiments/ms_ucb_fig1.py --out runs/ms_ucb_fig1 --full --report --plot curves.png   and curves at D = 100

A run has 100 evaluations, or 200 with --full; `--full --budget 100` is every dimension for fewer, a size between.
`--seeds 2 --methods botorch-logei` adds BoTorch, at 1 to 5 minutes per
run. Of the evaluations 20 are initial points common to all methods. Optima are shifted by up to 0.6 of the half-width
(methods that map 0 to the centre look miraculous otherwise) and Camelback's two coordinates hide at random places;
Ackley is on +-5, since on +-32.768 it is flat for everybody. The default was tuned on seeds 0 to 2, so seeds count from
3 (`--first`). With `--long` methods that do not look at the budget run 300 evaluations in 50 and 100 dimensions on the
first two seeds, of which 200 count here and all in `gp_quality.py --part high`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.claims import (
    Cases,
    charts,
    chosen,
    core_seconds,
    experiment_options,
    fewest,
    final_loss,
    gather,
    grouped,
    medians_table,
)
from regretless_bench.finding import Finding, Table
from regretless_bench.methods import RIVALS as RIVAL_METHODS
from regretless_bench.peers import PEERS
from regretless_bench.plots import draw_traces
from regretless_bench.record import Record, Run, by_problem
from regretless_bench.rivals import RIVALS, as_printed, with_printed
from regretless_bench.summary import ms_per_ask, traces
from regretless_bench.verdicts import (
    Check,
    Runs,
    below,
    both_columns,
    checks_table,
    common,
    judged,
    leads,
    not_run,
    plateau,
    pooled,
    pooled_pairs,
)

from regretless.classics import CLASSICS
from regretless.method import Recipe
from regretless.methods import METHODS

OURS = "ms-ucb"
TO_BEAT = ("gp-ei", "turbo", "botorch-logei")
MS, PRINTED, B = METHODS["ms-ucb"], METHODS["ms-ucb-printed"], CLASSICS | RIVAL_METHODS
RECIPES: dict[str, Recipe | str] = {
    "ms-ucb": MS,
    "ms-ucb (paper)": PRINTED,
    "ms-ucb (kappa 1)": MS(kappa=1.0),
    "random": B["random"],
    "gp-ucb": B["gp-ucb"],
    "gp-ucb (paper)": RIVALS["gp-ucb (paper)"],
    "gp-ei": B["gp-ei"],
    "gp-ei (isotropic)": B["gp-ei"](ard=False),
    "turbo": B["turbo"](initial=20),
    "linebo": B["linebo"],
    "dropout": B["dropout"],
    "sre": B["sre"](low_dim=5),
    "rembo": B["rembo"],
    "hesbo": B["hesbo"],
    "linear-bo": B["linear-bo"],
    "cma": "cma",
    "optuna-tpe": "optuna-tpe",
    "botorch-logei": PEERS["botorch-logei"](initial=20, quick=True),
}
"""Label -> method; subspaces have five dimensions for all that search them, as in the paper. TuRBO and BoTorch would
add random points of their own to the 20 initial ones; BoTorch's own fit would take an hour per run."""
BASELINES_THERE = ("gp-ucb", "linebo", "dropout", "sre", "rembo", "hesbo")
"""What the paper compares with."""
GOOD = ("gp-ei", "turbo", "gp-ucb", "cma", "optuna-tpe")
"""Good rivals, which the paper does not have or not at their best."""
GOOD = ("gp-ei", "gp-ucb", "turbo", "cma", "optuna-tpe")
"""Good rivals: those of the paper at their best, and others."""
PAPER = "ms-ucb (paper)"
QUICK = ("ms-ucb", "ms-ucb (paper)", *with_printed(BASELINES_THERE), "gp-ei", "random")
DENSE = {"ackley": {"bound": 5.0}, "levy": {}, "ellipsoid": {}, "rosenbrock": {}}
CLAIMED = ("ackley", "levy", "ellipsoid")
"""The dense functions of the paper's figure, which its claim is about; Rosenbrock, which is ours, stands beside it."""
DIMS, SHIFT = (20, 50, 100), 0.6
BUDGET, INITIAL = 200, 20
BETTER = "our method does better than all the baselines scaling well with the dimensions"
COMPETITIVE = "For the Camelback function with just two effective dimensions, our method is still competitive"
LONG = {"ms-ucb", "gp-ei", "botorch-logei"}
"""Methods whose points do not depend on the budget."""
LONG_BUDGET, LONG_FROM, LONG_SEEDS = 300, 50, 2
FIRST_SEED = 3


def settings(options: argparse.Namespace) -> list[Run]:
    """The cells asked for."""
    everyone = [label for label in RECIPES if options.report or label != "botorch-logei"]
    labels = chosen(options.methods, RECIPES) if options.methods else everyone if options.full else QUICK
    dims, budget = (DIMS, options.budget or BUDGET) if options.full else (DIMS[:1], BUDGET // 2)
    cells: list[Run] = []
    for label in labels:
        recipe = RECIPES[label]
        for dim in dims:
            for (name, extra), seed in product(DENSE.items(), seeds(options, 1)):
                first_ones = dim >= LONG_FROM and seed < FIRST_SEED + LONG_SEEDS
                longer = options.long and label in LONG and first_ones and budget == BUDGET
                problem = {"dim": dim, "shift": SHIFT, **extra}
                cells.append(
                    Run(
                        recipe, name, problem, seed, budget=LONG_BUDGET if longer else budget, init=INITIAL, label=label
                    )
                )
        cells += [
            Run(recipe, "camelback", {"dim": dim}, seed, budget=budget, init=INITIAL, label=label)
            for dim in (DIMS if options.full else DIMS[-1:])
            for seed in seeds(options, 2)
        ]
    return sorted(cells, key=lambda run: run.seed)  # so that an unfinished study has paired seeds


def seeds(options: argparse.Namespace, times: int) -> range:
    """The seeds of a study, or several times as many."""
    return range(options.first, options.first + times * options.seeds)


def cut(record: Record, n: int) -> Record:
    """The first n evaluations of a record."""
    arrays = ("x", "y", "value", "seconds_ask", "seconds_tell", "seconds_evaluate", "cpu")
    return record if len(record.y) <= n else replace(record, **{name: getattr(record, name)[:n] for name in arrays})


def log_gaps(records: Sequence[Record]) -> np.ndarray:
    """log10 of the gap of the best point evaluated, one per run."""
    return np.log10(np.maximum([record.simple_regret()[-1] for record in records], 1e-12))


def table(records: list[Record], labels: list[str] | None = None) -> str:
    """Medians of the log10 gap with quartiles and number of runs, methods by rows, in Markdown; the best median of a
    column is bold."""
    grouped = by_problem(records)
    found = {label for runs in grouped.values() for label in runs}
    rows = [label for label in labels or list(RECIPES) if label in found] + sorted(found - set(labels or RECIPES))
    gaps = {(p, label): log_gaps(runs[label]) for p, runs in grouped.items() for label in rows if label in runs}
    best = {p: min(np.median(g) for (q, _), g in gaps.items() if q == p) for p in grouped}
    lines = ["| method | " + " | ".join(grouped) + " | CPU ms/ask |", "|" + " --- |" * (len(grouped) + 2)]
    for label in rows:
        cells = []
        for p, runs in grouped.items():
            if label not in runs:
                cells.append("-")
                continue
            low, middle, high = np.quantile(gaps[p, label], [0.25, 0.5, 0.75])
            text = f"{middle:.2f}" if middle > best[p] + 1e-9 else f"**{middle:.2f}**"
            cells.append(f"{text} [{low:.2f}, {high:.2f}] ({len(gaps[p, label])})")
        cost = [ms_per_ask(record) for runs in grouped.values() for record in runs.get(label, ())]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {np.median(cost):.0f} |")
    return "\n".join(lines)


def verdict(records: list[Record]) -> str:
    """Where the default stands against each of the three to beat: difference of the medians over their common seeds
    (decades), and seeds won."""
    lines = [
        "| problem | " + " | ".join(f"{OURS} less {label}" for label in TO_BEAT) + " |",
        "|" + " --- |" * (1 + len(TO_BEAT)),
    ]
    for problem, runs in by_problem(records).items():
        if OURS not in runs:
            continue
        gaps = {
            label: dict(zip([r.seed for r in runs[label]], log_gaps(runs[label]), strict=True))
            for label in (OURS, *TO_BEAT)
            if label in runs
        }
        cells = []
        for label in TO_BEAT:
            shared = sorted(set(gaps[OURS]) & set(gaps.get(label, {})))
            mine, theirs = (
                (np.array([gaps[of][seed] for seed in shared]) for of in (OURS, label))
                if shared
                else (np.empty(0), np.empty(0))
            )
            cells.append(
                f"{np.median(mine) - np.median(theirs):+.2f} ({int((mine < theirs).sum())} of {len(shared)})"
                if shared
                else "-"
            )
        lines.append(f"| {problem} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


PLOTTED = ("ms-ucb", "ms-ucb (paper)", "gp-ei", "dropout", "sre", "hesbo", "random")


def plot(records: Sequence[Record], path: Path) -> None:
    """The gap against evaluations in the largest dimension, a panel per problem: medians and quartiles of the seeds
    there are."""
    from matplotlib.figure import Figure

    cases = {problem: runs for problem, runs in by_problem(records).items() if f"dim={DIMS[-1]}" in problem}
    # methods that every problem has, so that a colour means the same everywhere
    labels = [label for label in PLOTTED if all(label in runs for runs in cases.values())]
    figure = Figure(figsize=(12.0, 7.0), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    for axes in panels[len(cases) :]:
        axes.set_axis_off()
    for axes, (problem, runs) in zip(panels, cases.items(), strict=False):
        draw_traces(axes, traces({label: runs[label] for label in labels}), "simple regret")
        axes.set_title(f"{problem.partition('(')[0]}, D = {DIMS[-1]}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=110)


def variants_finding(
    figure: str,
    title: str,
    claim: str,
    cases: Cases,
    checks: list[Check],
    good: list[Check],
    ours: list[Check],
    labels: list[str],
    options: argparse.Namespace,
    others: Sequence[Table] = (),
) -> Finding:
    """Writes the finding of one of MS-UCB's figures on synthetic functions; others: tables beside the claim."""
    verdict, sentence = judged(checks, fewest(cases), good, bound=bound(figure, cases, gap))
    budget = evaluations_of(cases)
    quantities = {"simple regret": Record.simple_regret, "average regret": Record.average_regret}
    finding = Finding(
        "ms-ucb", figure, title, claim, verdict, sentence,
        settings={
            "size": "quick" if not options.full else "full" if budget >= BUDGET else "between",
            "seeds": fewest(cases), "evaluations": budget,
            "initial points": INITIAL, "optima": f"shifted by up to {SHIFT} of the half-width",
            "methods": ", ".join(label for label in labels if any(label in runs for runs in cases.values())),
        },
        charts=charts(cases, quantities),
        tables=[
            *both_columns(checks, good),
            checks_table(ours, "beside the claim: the same checks of our default"),
            *others,
            medians_table(cases, gap, "simple regret", order=labels),
        ],
        seconds=core_seconds(cases),
    )  # fmt: skip
    finding.write(options.out)
    print(f"{verdict}: {sentence}")
    return finding


def compare_variants(
    variants: Mapping[str, Mapping[str, Any]],
    orders: Sequence[tuple[str, str]],
    quote: str,
    options: argparse.Namespace,
) -> tuple[Cases, list[Check], list[Check], list[Check], list[str]]:
    """Runs variants of MS-UCB in both forms on Ackley and the Hyper-Ellipsoid (Figs. 2 and 3): the cases, the checks
    of the method as printed, those against rivals, of which the claim has none, those of the default, the labels.

    variants: label -> options. orders: pairs of labels, the first of which is to be better than the second. quote:
    where the paper says so.
    """
    dim, budget = (100, options.budget or BUDGET) if options.full else (20, BUDGET // 2)
    forms = {"paper": PRINTED, "default": MS}
    recipes = {f"{name}, {label}": form(**given) for name, form in forms.items() for label, given in variants.items()}
    runs = [
        Run(recipe, name, {"dim": dim, "shift": SHIFT, **DENSE[name]}, seed, budget=budget, init=INITIAL, label=label)
        for name in ("ackley", "ellipsoid")
        for label, recipe in recipes.items()
        for seed in seeds(options, 1)
    ]
    records = gather(sorted(runs, key=lambda run: run.seed), options)
    text = table(records, list(recipes))
    (options.out / "table.md").write_text(text + "\n")
    print(text)
    cases = grouped(records)
    paper, default = (ordered(cases, name, orders, quote, evaluations_of(cases), gap) for name in forms)
    return cases, paper, [], default, list(recipes)


def ordered(
    cases: Runs,
    form: str,
    orders: Sequence[tuple[str, str]],
    quote: str,
    evaluations: int,
    loss: Callable[[Any], float] = final_loss,
) -> list[Check]:
    """The checks of Figs. 2 and 3: of each pair of labels the first is better, over the functions together, because
    the claim makes no difference between them; the paper's functions have 100 dimensions."""
    found = []
    for a, b in orders:
        first, second = f"{form}, {a}", f"{form}, {b}"
        both = [common(methods, [first, second], loss) for methods in cases.values()]
        if pairs := [(of[first], of[second]) for of in both if len(of) == 2 and len(of[first])]:
            what = f"{len(pairs)} functions together: {first} below {second}"
            found.append(below(what, *pooled_pairs(pairs), "gap as a share of the latter's", quote=quote))
    ran = {label for methods in cases.values() for label in methods if label.startswith(form)}
    for a, _ in orders:
        if ran and f"{form}, {a}" not in ran:
            found.append(not_run(f"{form}, {a}", "not run in this size", quote))
    if not any(f"dim={DIMS[-1]}" in problem for problem in cases):
        found.append(not_run(f"D = {DIMS[-1]}", "the quick size has 20 dimensions", quote))
    return found + short_of(evaluations, quote)


ORACLE = Path(__file__).parent.parent / "docs" / "results" / "ms-ucb-oracle.json"
"""What `ms_ucb_oracle.py` wrote: the least gap that any choice among the points of the printed subspaces reaches."""
PRINTED_SUBSPACES = "N0 = 1, alpha = 0, d = 5"


def bound(figure: str, cases: Runs, loss: Callable[[Any], float]) -> Check | None:
    """What the oracle says of a claim; None where it says nothing.

    Fig. 1: in 100 dimensions rivals end below the oracle of the printed subspaces, so the method cannot be the lowest.
    Fig. 3: from one free coordinate to ten the oracle gains less than a tenth, so the method cannot gain what it does
    not. Fig. 2 has no bound: the oracle gains with the number of subspaces.
    """
    if figure not in ("fig1", "fig3") or not ORACLE.is_file():
        return None
    rows = [row for row in json.loads(ORACLE.read_text(encoding="utf-8")) if row["dim"] == DIMS[-1]]
    if figure == "fig3":
        few, many = ([row["gaps"][f"N0 = 1, alpha = 0, d = {d}"] for row in rows] for d in (1, 10))
        scale = np.array([row["gaps"]["random"] for row in rows])
        return plateau("an oracle gains less than a tenth from d = 1 to d = 10", few / scale, many / scale, "gap")
    pairs = []
    for name in CLAIMED:
        oracle = {row["seed"]: row["gaps"][PRINTED_SUBSPACES] for row in rows if row["function"] == name}
        for problem, methods in cases.items():
            if problem.startswith(f"{name}(") and f"dim={DIMS[-1]}," in problem:
                rivals = {
                    m: [r for r in methods.get(m, ()) if r.seed in oracle] for m in as_printed(cases, BASELINES_THERE)
                }
                ends = {m: {r.seed: loss(r) for r in of} for m, of in rivals.items() if of}
                best = min(ends, key=lambda m: float(np.mean(list(ends[m].values()))))
                seeds = sorted(ends[best])
                pairs.append((np.array([ends[best][s] for s in seeds]), np.array([oracle[s] for s in seeds])))
    if not pairs:
        return None
    return below("rivals end below an oracle of the printed subspaces", *pooled_pairs(pairs), "gap as a share of its")


def gap(record: Record) -> float:
    """The gap of the best point evaluated."""
    return float(record.simple_regret()[-1])


def evaluations_of(cases: Cases) -> int:
    """Evaluations of the runs, the fewest where they differ."""
    return min(len(r.y) for runs in cases.values() for group in runs.values() for r in group)


def short_of(evaluations: int, quote: str) -> list[Check]:
    """That the paper's runs are longer, where they are."""
    return [not_run(f"{BUDGET} evaluations", f"these runs have {evaluations}", quote)] * (evaluations < BUDGET)


def leading(
    cases: Runs, label: str, evaluations: int, loss: Callable[[Any], float], rivals: Sequence[str] = ()
) -> list[Check]:
    """The checks of Fig. 1, against the paper's rivals or others: lowest on the dense functions, comparable or lower on
    Camelback in all dimensions together; and the dimensions that were not run."""
    hidden = {problem: methods for problem, methods in cases.items() if problem.startswith("camelback")}
    dense = {problem: methods for problem, methods in cases.items() if problem.startswith(CLAIMED)}
    rivals = rivals or as_printed(cases, BASELINES_THERE)
    found = leads(dense, label, rivals, loss, "gap", quote=BETTER)
    together = pooled(hidden, label, rivals, loss, "gap", quote=COMPETITIVE, level=True)
    found += [check._replace(what=f"camelback, {check.what}") for check in together]
    for dim in DIMS:
        if not any(f"dim={dim}," in f"{problem[:-1]}," for problem in dense):
            found.append(not_run(f"dense functions, D = {dim}", "not run in this size", BETTER))
    for dim in DIMS:
        if not any(f"dim={dim}," in f"{problem[:-1]}," for problem in hidden):
            found.append(not_run(f"Camelback, D = {dim}", "not run in this size", COMPETITIVE))
    return found + short_of(evaluations, BETTER)


def beside(cases: Runs, loss: Callable[[Any], float]) -> list[Table]:
    """The dense functions that the paper does not have, for the method as printed and for our default."""
    others = {p: methods for p, methods in cases.items() if not p.startswith((*CLAIMED, "camelback"))}
    labels, rivals = ("ms-ucb (paper)", OURS), as_printed(cases, BASELINES_THERE)
    checks = [check for label in labels for check in leads(others, label, rivals, loss, "gap")]
    return [checks_table(checks, "beside the claim: a function that the paper does not have")] if checks else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", default="", help="comma-separated labels; see RECIPES")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed; the default was tuned on 0 to 2")
    parser.add_argument("--budget", type=int, help=f"evaluations in the full size, by default {BUDGET}")
    parser.add_argument("--long", action="store_true", help="some runs of 300 evaluations, for gp_quality.py")
    parser.add_argument("--plot", type=Path, help="a picture of the curves in 100 dimensions")
    options = experiment_options(parser, "runs/ms_ucb_fig1")
    records = [cut(record, BUDGET) for record in gather(settings(options), options)]
    text = "log10 gap: median [quartiles] (runs)\n\n" + table(records) + "\n\n" + verdict(records) + "\n"
    (options.out / "table.md").write_text(text)
    print(text)
    if options.plot is not None:
        plot(records, options.plot)
    # BoTorch has fewer seeds and is not in the paper
    cases = grouped(record for record in records if record.label != "botorch-logei")
    variants_finding(
        "fig1",
        "shifted functions in 20 to 100 dimensions",
        "MS-UCB ends below six rivals on dense functions in 20, 50 and 100 dimensions, and level with them where two "
        "dimensions matter.",
        cases,
        leading(cases, "ms-ucb (paper)", evaluations_of(cases), gap),
        leading(cases, "ms-ucb (paper)", evaluations_of(cases), gap, GOOD),
        leading(cases, OURS, evaluations_of(cases), gap),
        list(RECIPES),
        options,
        beside(cases, gap),
    )


if __name__ == "__main__":
    main()
