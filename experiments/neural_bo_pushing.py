"""NeuralBO, Fig. 5: the 14-parameter robot pushing task, best reward against evaluations.

    python experiments/neural_bo_pushing.py --jobs 2 --out runs/neural_bo_pushing
        1000 evaluations, 5 seeds
    python experiments/neural_bo_pushing.py --jobs 2 --out runs/neural_bo_pushing --quick
        150 evaluations
    python experiments/neural_bo_pushing.py --jobs 16 --out runs/neural_bo_pushing --full
        6000 evaluations, as in the paper

15 common initial points. Methods whose cost grows with the cube of the evaluations are left out of the full run by
--methods.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from regretless_bench.claims import (
    charts,
    core_seconds,
    experiment_options,
    fewest,
    final_loss,
    gather,
    grouped,
    medians_table,
)
from regretless_bench.finding import Finding, Table
from regretless_bench.record import Record, Run
from regretless_bench.rivals import RIVALS, as_printed, with_printed
from regretless_bench.verdicts import Check, Runs, checks_table, judged, leads, not_run

from regretless.baselines import BASELINES
from regretless.methods import METHODS as FIVE

OURS, PRINTED = "neural-bo", "neural-bo (paper)"
RECIPES = {PRINTED: FIVE["neural-bo"](preset="paper"), "rf-ei": BASELINES["rf-ei"](trees=20), **RIVALS}
"""Labels that are not names."""
THERE = ("neural-greedy", "gp-ucb", "gp-ts", "gp-ei", "dngo", "rf-ei")
"""What the paper compares with."""
METHODS = (OURS, PRINTED, *with_printed(THERE), "random", "optuna-tpe", "turbo")
INITIAL = 15
QUOTE, CLAIMED = "NeuralBO achieves the highest reward after 5K optimization steps", 5000
"""What the paper says, and of how many evaluations."""


def claimed(cases: Runs, label: str, evaluations: int, loss: Callable[[Any], float]) -> list[Check]:
    """The claim is about the end of a long run; a shorter one says nothing about it."""
    if evaluations < CLAIMED:
        return [not_run(f"the highest reward after {CLAIMED} evaluations", f"these runs have {evaluations}", QUOTE)]
    return leads(cases, label, as_printed(cases, THERE), loss, "loss (minus the reward)", quote=QUOTE)


def beside(cases: Runs, evaluations: int, loss: Callable[[Any], float]) -> Table:
    """Who leads at the size that was run."""
    checks = [c for label in (PRINTED, OURS) for c in leads(cases, label, THERE, loss, "loss (minus the reward)")]
    return checks_table(checks, f"beside the claim: after {evaluations} evaluations")


def finding(records: list[Record], options: argparse.Namespace) -> Finding:
    cases = grouped(records)
    evaluations = int(records[0].settings["budget"])
    checks, ours = (claimed(cases, label, evaluations, final_loss) for label in (PRINTED, OURS))
    verdict, sentence = judged(checks, fewest(cases), ours)
    sign = records[0].sign
    return Finding(
        "neural-bo",
        "fig5",
        "14-parameter robot pushing",
        "NeuralBO reaches the highest median reward of all methods, after 5000 of 6000 evaluations.",
        verdict,
        sentence,
        settings={
            "size": "full" if options.full else "quick" if options.quick else "between",
            "seeds": fewest(cases),
            "evaluations": evaluations,
            "initial points": INITIAL,
            "methods": ", ".join(METHODS),
        },
        charts=charts(cases, {"best value so far": Record.best}, log_y=False),
        tables=[
            checks_table(checks, "checks of the method as printed"),
            checks_table(ours, "the same checks of our default"),
            beside(cases, evaluations, final_loss),
            medians_table(cases, what="best reward", sign=-sign, order=METHODS),
        ],
        seconds=core_seconds(cases),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--budget", type=int)
    parser.add_argument("--first-seed", type=int, default=0)
    options = experiment_options(parser, "runs/neural_bo_pushing")
    budget = options.budget or (6000 if options.full else 150 if options.quick else 1000)
    labels = options.methods.split(",")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    runs = [
        Run(RECIPES.get(m, m), "pushing", {}, seed, budget=budget, init=INITIAL, label=m)
        for seed in seeds
        for m in labels
    ]
    records = gather(runs, options)
    print("| method | runs | evaluations | median best reward (range) | median ask |\n| --- | --- | --- | --- | --- |")
    for methods in grouped(records).values():
        for label, group in sorted(methods.items(), key=lambda item: -np.median([r.best()[-1] for r in item[1]])):
            best = [float(r.best()[-1]) for r in group]
            ask = np.median([np.median(r.seconds_ask[INITIAL:]) for r in group])
            print(
                f"| {label} | {len(best)} | {len(group[0].y)} | {np.median(best):.2f} "
                f"({min(best):.2f} to {max(best):.2f}) | {1000 * ask:.1f} ms |"
            )
    found = finding(records, options)
    found.write(options.out)
    print(f"{found.verdict}: {found.sentence}")


if __name__ == "__main__":
    main()
