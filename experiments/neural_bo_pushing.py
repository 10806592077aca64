"""NeuralBO, Fig. 5: the 14-parameter robot pushing task, best reward against evaluations.

    python experiments/neural_bo_pushing.py --jobs 2 --out runs/neural_bo_pushing
        1000 evaluations, 5 seeds
    python experiments/neural_bo_pushing.py --jobs 2 --out runs/neural_bo_pushing --quick
        150 evaluations
    python experiments/neural_bo_pushing.py --jobs 16 --out runs/neural_bo_pushing --full
        6000 evaluations, as in the paper
    python experiments/neural_bo_pushing.py --jobs 8 --out runs/neural_bo_pushing --cost
        runs nothing: the seconds of an ask after 1000, 3000 and 5000 values, and the hours of a run that follow

15 common initial points. Methods whose cost grows with the cube of the evaluations are left out of the full run by
--methods.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
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
    keep_results,
    medians_table,
    stored,
)
from regretless_bench.finding import Finding, Table
from regretless_bench.record import Record, Run
from regretless_bench.rivals import RIVALS, as_printed, with_printed
from regretless_bench.settings import file_name
from regretless_bench.verdicts import Check, Runs, both_columns, checks_table, judged, leads, not_run

from regretless.auto import find_recipe
from regretless.testing import Loop

OURS, PRINTED = "neural-bo", "neural-bo (paper)"
RECIPES = {PRINTED: find_recipe("neural-bo-printed"), "rf-ei": find_recipe("rf-ei")(trees=20), **RIVALS}
"""Labels that are not names."""
THERE = ("neural-greedy", "gp-ucb", "gp-ts", "gp-ei", "dngo", "rf-ei")
"""What the paper compares with."""
METHODS = (OURS, PRINTED, *with_printed(THERE), "random", "optuna-tpe", "turbo")
GOOD = ("gp-ucb", "gp-ts", "gp-ei", "turbo", "optuna-tpe")
"""Good rivals: those of the paper at their best, and others."""
INITIAL = 15
QUOTE, CLAIMED = "NeuralBO achieves the highest reward after 5K optimization steps", 5000
"""What the paper says, and of how many evaluations."""


def claimed(
    cases: Runs, label: str, evaluations: int, loss: Callable[[Any], float], rivals: Sequence[str] = ()
) -> list[Check]:
    """The claim is about the end of a long run; a shorter one says nothing about it."""
    if evaluations < CLAIMED:
        return [not_run(f"the highest reward after {CLAIMED} evaluations", f"these runs have {evaluations}", QUOTE)]
    return leads(cases, label, rivals or as_printed(cases, THERE), loss, "loss (minus the reward)", quote=QUOTE)


def beside(cases: Runs, evaluations: int, loss: Callable[[Any], float]) -> Table:
    """Who leads at the size that was run."""
    checks = [c for label in (PRINTED, OURS) for c in leads(cases, label, THERE, loss, "loss (minus the reward)")]
    return checks_table(checks, f"beside the claim: after {evaluations} evaluations")


def finding(records: list[Record], options: argparse.Namespace) -> Finding:
    cases = grouped(records)
    evaluations = int(records[0].settings["budget"])
    checks, ours = (claimed(cases, label, evaluations, final_loss) for label in (PRINTED, OURS))
    good = claimed(cases, PRINTED, evaluations, final_loss, GOOD)
    verdict, sentence = judged(checks, fewest(cases), good)
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
            *both_columns(checks, good),
            checks_table(ours, "beside the claim: the same checks of our default"),
            beside(cases, evaluations, final_loss),
            medians_table(cases, what="best reward", sign=-sign, order=METHODS),
        ],
        seconds=core_seconds(cases),
    )


# ---------------------------------------------------------------- what the claim's size would cost

AFTER, ASKS, DIM = (1000, 3000, 5000), 4, 14
"""Values after which asks are timed, how many of them, and the task's parameters."""


def ask_seconds(label: str, n: int) -> dict[str, Any]:
    """Processor seconds of the first ask after n values at once, and of an ask among those that follow, each
    with one more value. The function is a smooth one: the cost hardly depends on it."""
    recipe = RECIPES[label] if label in RECIPES else find_recipe(label)
    loop = Loop(recipe.build(DIM, seed=0, budget=max(AFTER) + ASKS + 1))
    X = np.random.default_rng(0).random((n, DIM))

    def tell(points: np.ndarray) -> None:
        loop.tell(points, -((points - 0.4) ** 2).mean(axis=1) + 0.1 * np.sin(7 * points[:, 0]))

    tell(X)
    seconds = []
    for _ in range(ASKS + 1):
        begin = time.process_time()
        tell(loop.ask())
        seconds.append(time.process_time() - begin)
    return {"method": label, "n": n, "first_s": seconds[0], "ask_s": float(np.mean(seconds[1:]))}


def hours(costs: Mapping[int, float], evaluations: int = CLAIMED) -> float:
    """Hours of a run by seconds of an ask after some numbers of values: straight lines between them, from 0."""
    steps = np.arange(evaluations)
    return float(np.interp(steps, [0, *costs], [0.0, *costs.values()]).sum() / 3600)


def cost(options: argparse.Namespace) -> None:
    """Measures what is not measured yet, one process per method and size, and prints the table."""
    methods = options.methods.split(",")
    places = {(m, n): options.out / f"cost-{file_name(m)}-n{n}.json" for n in AFTER for m in methods}
    if not options.report:
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            todo = {cell: path for cell, path in places.items() if not path.is_file()}
            keep_results({pool.submit(ask_seconds, *cell): path for cell, path in todo.items()}, "size")
    rows = {(row["method"], row["n"]): row["ask_s"] for row in stored(places.values())}
    print(f"| method | {' | '.join(f'n = {n}' for n in AFTER)} | hours of a run of {CLAIMED} |\n|{' --- |' * 5}")
    for m in methods:
        found = {n: rows[m, n] for n in AFTER if (m, n) in rows}
        cells = [f"{1e3 * found[n]:.0f} ms" if n in found else "-" for n in AFTER]
        print(f"| {m} | {' | '.join(cells)} | {f'{hours(found):.2f}' if len(found) == len(AFTER) else '-'} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cost", action="store_true", help="measure asks alone, without the task")
    parser.add_argument("--budget", type=int)
    parser.add_argument("--first-seed", type=int, default=0)
    options = experiment_options(parser, "runs/neural_bo_pushing")
    if options.cost:
        cost(options)
        return
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
