"""NeuralBO, Fig. 3: how many tampered MNIST classifiers are given away by 1, 2, ... sensitive samples found by each
method.

    python experiments/neural_bo_sensitive.py --jobs 2 --out runs/neural_bo_sensitive
        5 samples of 60 evaluations, 300 models
    python experiments/neural_bo_sensitive.py --jobs 16 --out runs/neural_bo_sensitive --full
        10 samples of 300 evaluations, 1000 models

Each sample is the best image of one run (its own seed) in the 49-dimensional space of 7 x 7 images. The tampered models
have normal noise on every weight, of the size at which the accuracy falls to 87.73 % on average (the paper's figure).
"""

from __future__ import annotations

import argparse

import numpy as np
from regretless_bench.claims import (
    Check,
    charts,
    checks_table,
    core_seconds,
    experiment_options,
    fewest,
    gather,
    grouped,
    judged,
    leads,
    medians_table,
)
from regretless_bench.finding import Finding, Table
from regretless_bench.problems.sensitive import HIGH, LOW, detection_rates, digits, enlarge, tamper_sd, train_classifier
from regretless_bench.record import Record, Run

from regretless.baselines import BASELINES
from regretless.methods import METHODS as FIVE
from regretless.report.page import Curve, curves_chart

OURS, PRINTED = "neural-bo", "neural-bo (paper)"
RECIPES = {PRINTED: FIVE["neural-bo"](preset="paper"), "rf-ei": BASELINES["rf-ei"](trees=20)}
"""Labels that are not names."""
THERE = ("neural-greedy", "gp-ucb", "gp-ts", "gp-ei", "dngo", "rf-ei")
"""What the paper compares with."""
METHODS = (OURS, PRINTED, *THERE, "random", "optuna-tpe", "turbo")
INITIAL = 20
NEARLY, AT = 0.9, 8
"""The paper's detection rate, and its number of samples."""


def detection(records: list[Record], models: int) -> tuple[dict[str, np.ndarray], float, float]:
    """Detection rates after 1, 2, ... samples by method, the sd of the tampering, and the accuracy before it."""
    classifier = train_classifier()
    images, labels = digits(None, True)
    sd = tamper_sd(classifier, images, labels)
    rates = {}
    for methods in grouped(records).values():
        for label, runs in methods.items():
            X = np.array([r.x[int(np.nanargmax(r.value))] for r in runs])
            rates[label] = detection_rates(classifier, enlarge(LOW + (HIGH - LOW) * X), sd, models)
    return rates, sd, float(np.mean(classifier.labels(images) == labels))


def finding(records: list[Record], options: argparse.Namespace, models: int) -> Finding:
    """Checks: the highest median sensitivity of a sample, the highest rate averaged over their number, and with 8 or
    more the paper's 90 %."""
    cases = grouped(records)
    rates, sd, accuracy = detection(records, models)
    count = fewest(cases)
    final = {label: float(rate[:count].mean()) for label, rate in rates.items()}

    def first(label: str) -> list[Check]:
        if label not in final:
            return []
        rival = max((r for r in THERE if r in final), key=final.__getitem__)
        found = f"{label} {final[label]:.3f}, best of the others {rival} {final[rival]:.3f}"
        made = [
            *leads(cases, label, THERE, what="loss (minus the sensitivity)"),
            Check(f"highest detection rate, averaged over 1 to {count} samples", final[label] >= final[rival], found),
        ]
        if count >= AT:
            made.append(
                Check(
                    f"rate of {NEARLY} with {AT} samples",
                    bool(rates[label][AT - 1] >= NEARLY),
                    f"{rates[label][AT - 1]:.3f}",
                )
            )
        return made

    checks, ours = first(PRINTED), first(OURS)
    verdict, sentence = judged(checks, count, ours)
    lines = [
        Curve(label, {"sensitive samples": np.arange(1, len(r) + 1)}, {"detection rate": r})
        for label, r in rates.items()
    ]
    rows = [[m, *(float(round(v, 4)) for v in r[:count])] for m, r in rates.items()]
    columns = ["method", *(f"{i + 1}" for i in range(count))]
    return Finding(
        "neural-bo",
        "fig3",
        "sensitive samples",
        "NeuralBO's sensitive samples detect more tampered models than those of the other methods: "
        "nearly 90 % with 8 samples.",
        verdict,
        sentence,
        settings={
            "size": "full" if options.full else "quick",
            "samples": count,
            "evaluations": records[0].settings["budget"],
            "models": models,
            "noise on weights": f"sd {sd:.4f}",
            "accuracy before": f"{accuracy:.4f}",
        },
        charts=[
            ("detection rate", curves_chart(lines)),
            *charts(cases, {"sensitivity of the best sample": Record.best}, log_y=False),
        ],
        tables=[
            checks_table(checks, "checks of the method as printed"),
            checks_table(ours, "the same checks of our default"),
            Table("detection rate by samples", columns, rows, dict.fromkeys(columns[1:], "max")),
            medians_table(cases, what="sensitivity", sign=-1.0, order=METHODS),
        ],
        seconds=core_seconds(cases),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", type=int)
    parser.add_argument("--models", type=int, help="tampered models")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--first-seed", type=int, default=0)
    options = experiment_options(parser, "runs/neural_bo_sensitive", data="mnist")
    budget, models = options.budget or (300 if options.full else 60), options.models or (1000 if options.full else 300)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    runs = [
        Run(RECIPES.get(m, m), "sensitive", {}, seed, budget=budget, init=INITIAL, label=m)
        for seed in seeds
        for m in options.methods.split(",")
    ]
    found = finding(gather(runs, options), options, models)
    found.write(options.out)
    for row in found.tables[2].rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print(f"{found.verdict}: {found.sentence}")


if __name__ == "__main__":
    main()
