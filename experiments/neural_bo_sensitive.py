"""NeuralBO, Fig. 3: how many tampered MNIST classifiers are given away by 1, 2, ... sensitive samples found by each
method.

    python experiments/neural_bo_sensitive.py --jobs 2 --out runs/neural_bo_sensitive
        samples of 60 evaluations, 300 models
    python experiments/neural_bo_sensitive.py --jobs 16 --out runs/neural_bo_sensitive --full
        samples of 300 evaluations, 1000 models

The value of an image is the norm of the gradient of its largest log-probability, as in the authors' code. (The paper's
formula can be read as that of all ten, with which the best of 300 random points gives away a tenth of the models.) Each
sample is the best image of one run (its own seed) in the 49-dimensional space of 7 x 7 images; samples are compared one
by one, seed by seed, over twice as many as the figure shows. In the authors' code
NeuralBO chooses among real images, shrunk to 7 x 7, and the methods with a GP search the box: so it is here, and
NeuralBO as printed searches the box beside it. The tampered models
have normal noise on every weight, of the size at which the accuracy falls to 87.73 % on average (the paper's figure).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
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
    stored,
)
from regretless_bench.finding import Finding, Table
from regretless_bench.problems.sensitive import (
    HIGH,
    LOW,
    SMALL,
    digits,
    enlarge,
    given_away,
    shrink,
    tamper_sd,
    train_classifier,
)
from regretless_bench.record import Record, Run, stamped
from regretless_bench.rivals import IN_TWO_FORMS, RIVALS, printed_label
from regretless_bench.settings import file_name
from regretless_bench.verdicts import Check, Runs, both_columns, checks_table, judged, leads, lowest, measured, not_run

from regretless.auto import find_recipe
from regretless.basics.statefile import write_whole
from regretless.report.page import Curve, curves_chart
from regretless.space import Space
from regretless.space.parameters import Int
from regretless.testing import Loop

OURS, PRINTED, IMAGES = "neural-bo", "neural-bo (paper)", "neural-bo (authors), real images"
RANDOM_IMAGES = "random, real images"
POOL = 10_000
"""Real images to choose from, the first of the training set."""
RECIPES = {PRINTED: find_recipe("neural-bo-printed"), "rf-ei": find_recipe("rf-ei")(trees=20), **RIVALS}
"""Labels that are not names."""
THERE = ("neural-greedy", "gp-ucb", "gp-ts", "gp-ei", "dngo", "rf-ei")
"""What the paper compares with."""
GOOD = ("gp-ei", "turbo")
"""Good rivals: one of the paper's at its best, and another."""
METHODS = (OURS, PRINTED, *(printed_label(name) if name in IN_TWO_FORMS else name for name in THERE), *GOOD, "random")
INITIAL = 20
HIGHEST = "our method can generate samples with better detection ability than other baselines"
QUOTE = "NeuralBO can generate sensitive samples that achieve nearly 90% of the detection rate with at least 8 samples"
RATES = "detection rate by samples"
ALONE = "detection rate of each sample alone"
NEARLY, AT, SHOWN = 0.9, 8, 10
"""The paper's detection rate, its number of samples, and the samples that its figure has."""


def image_pool() -> np.ndarray:
    """The real images of 7 x 7 pixels, POOL x 49."""
    return shrink(digits()[0][:POOL])


def image_run(label: str, seed: int, budget: int) -> dict[str, Any]:
    """The best of the real images that a method chose, and its seconds."""
    pool, begin = image_pool(), time.process_time()
    values = train_classifier().sensitivity(enlarge(pool), "largest")
    if label == RANDOM_IMAGES:
        rows = np.random.default_rng(seed).permutation(POOL)[:budget]
    else:
        cube = Space([Int(0, POOL - 1)]).cube()
        method = find_recipe("neural-bo-authors")(candidates=pool, initial=INITIAL)
        loop = Loop(method.build(cube, seed=seed, budget=budget))
        start = np.random.default_rng(seed).permutation(POOL)[:INITIAL]
        loop.tell(cube.axes[0].centre(start)[:, None], values[start])
        rows = start
        while len(rows) < budget:
            x = loop.ask()
            rows = np.append(rows, cube.axes[0].index(x[:, 0]))
            loop.tell(x, values[rows[-1:]])
    best = int(rows[np.argmax(values[rows])])
    found = {"label": label, "seed": seed, "image": pool[best].tolist(), "sensitivity": float(values[best])}
    return {**found, "seconds": time.process_time() - begin}


def from_images(options: argparse.Namespace, seeds: range, budget: int) -> list[dict[str, Any]]:
    """The runs among real images, those that are missing made first."""
    places = {
        (label, seed): options.out / f"{file_name(label)}-n{budget}-s{seed}.json"
        for label in (IMAGES, RANDOM_IMAGES)
        for seed in seeds
    }
    for (label, seed), place in places.items():
        if not place.is_file() and not options.report:
            write_whole(place, stamped(image_run(label, seed, budget)))
    return stored(places.values())


def detection(
    records: list[Record], picked: list[dict[str, Any]], models: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], float, float]:
    """Detection rates after 1, 2, ... samples by method and of each sample alone, the sd of the tampering, and the
    accuracy before it."""
    classifier = train_classifier()
    images, labels = digits(None, True)
    sd = tamper_sd(classifier, images, labels)
    chosen = {
        label: LOW + (HIGH - LOW) * np.array([r.x[int(np.nanargmax(r.value))] for r in runs])
        for methods in grouped(records).values()
        for label, runs in methods.items()
    }
    for image in picked:
        chosen[image["label"]] = np.vstack([chosen.get(image["label"], np.empty((0, SMALL**2))), image["image"]])
    rates, alone = {}, {}
    for label, X in chosen.items():
        differs = given_away(classifier, enlarge(X), sd, models)
        rates[label], alone[label] = np.maximum.accumulate(differs, axis=1).mean(axis=0), differs.mean(axis=0)
    return rates, alone, sd, float(np.mean(classifier.labels(images) == labels))


def claimed(
    rates: Mapping[str, np.ndarray], alone: Mapping[str, np.ndarray], label: str, rivals: Sequence[str] = ()
) -> list[Check]:
    """A sample detects more than one of each other method, and the paper's 90 % with 8. `rates` has one value per
    number of samples, `alone` one per sample, which are paired by their seeds."""
    if label not in rates:
        return []
    rivals = rivals or [printed_label(r) if printed_label(r) in alone else r for r in THERE]
    losses = {m: -alone[m] for m in (label, *(r for r in rivals if r in alone))}
    if len(losses) < 2:
        return []
    made = [lowest("samples", losses, label, "minus the detection rate of a sample", quote=HIGHEST)]
    what = f"rate of {NEARLY} with {AT} samples"
    if len(rates[label]) < AT:
        return [*made, not_run(what, f"this size has {len(rates[label])} samples", QUOTE)]
    return [*made, measured(what, bool(rates[label][AT - 1] >= NEARLY), f"{rates[label][AT - 1]:.3f}", QUOTE)]


def beside(cases: Runs, loss: Callable[[Any], float]) -> Table:
    """How sensitive the samples are; the paper speaks of detection alone."""
    found = [c for m in (PRINTED, OURS) for c in leads(cases, m, THERE, loss, "loss (minus the sensitivity)")]
    return checks_table(found, "beside the claim: the sensitivity of a sample")


def finding(records: list[Record], images: list[dict[str, Any]], options: argparse.Namespace, models: int) -> Finding:
    """Checks: a sample detects most, and 8 or more the paper's 90 %; beside the claim, the sensitivity of a sample."""
    cases = grouped(records)
    rates, alone, sd, accuracy = detection(records, images, models)
    count = fewest(cases)
    cut, each = ({m: r[:n] for m, r in of.items()} for of, n in ((rates, min(count, SHOWN)), (alone, count)))
    checks, printed, ours = (claimed(cut, each, label) for label in (IMAGES, PRINTED, OURS))
    good = claimed(cut, each, IMAGES, GOOD)
    verdict, sentence = judged(checks, count, good)
    lines = [
        Curve(label, {"sensitive samples": np.arange(1, len(r) + 1)}, {"detection rate": r}) for label, r in cut.items()
    ]
    rows, single = ([[m, *(float(round(v, 4)) for v in r)] for m, r in of.items()] for of in (cut, each))
    columns = ["method", *(f"{i + 1}" for i in range(count))]
    return Finding(
        "neural-bo",
        "fig3",
        "sensitive samples",
        "NeuralBO's sensitive samples detect more tampered models than those of others: nearly 90 % with 8.",
        verdict,
        sentence,
        settings={
            "size": "full" if options.full else "quick",
            "samples": count,
            "evaluations": records[0].settings["budget"],
            "value": "the gradient of the largest log-probability",
            "models": models,
            "noise on weights": f"sd {sd:.4f}",
            "accuracy before": f"{accuracy:.4f}",
        },
        charts=[
            ("detection rate", curves_chart(lines)),
            *charts(cases, {"sensitivity of the best sample": Record.best}, log_y=False),
        ],
        tables=[
            *both_columns(checks, good),
            checks_table(printed, "beside the claim: as printed, on the box"),
            checks_table(ours, "beside the claim: the same checks of our default"),
            beside(cases, final_loss),
            Table(RATES, columns[: SHOWN + 1], rows, dict.fromkeys(columns[1 : SHOWN + 1], "max")),
            Table(ALONE, columns, single, dict.fromkeys(columns[1:], "max")),
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
    options = experiment_options(parser, "runs/neural_bo_sensitive", seeds=(20, 20), data="mnist")
    budget, models = options.budget or (300 if options.full else 60), options.models or (1000 if options.full else 300)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    runs = [
        Run(RECIPES.get(m, m), "sensitive", {"outputs": "largest"}, seed, budget=budget, init=INITIAL, label=m)
        for seed in seeds
        for m in options.methods.split(",")
    ]
    found = finding(gather(runs, options), from_images(options, seeds, budget), options, models)
    found.write(options.out)
    for row in next(t for t in found.tables if t.title == RATES).rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print(f"{found.verdict}: {found.sentence}")


if __name__ == "__main__":
    main()
