"""NeuralBO, Fig. 3: how many tampered MNIST classifiers are given away by 1, 2, ... sensitive samples found by each method.

    python experiments/neural_bo_sensitive.py --jobs 2 --out runs/neural_bo_sensitive --quick       4 samples of 100 evaluations
    python experiments/neural_bo_sensitive.py --jobs 16 --out runs/neural_bo_sensitive              10 samples of 300 evaluations, 1000 models

Each sample is the best image of one run (its own seed) in the 49-dimensional space of 7 x 7 images. The tampered models have normal noise on
every weight, of the size at which the accuracy falls to 87.73 % on average (the paper's figure).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from regretless.bench.record import Run, load_records
from regretless.bench.runner import run_all
from regretless.problems.sensitive import HIGH, LOW, detection_rates, digits, enlarge, tamper_sd, train_classifier

METHODS = ("neural-bo", "random", "optuna-tpe", "turbo", "neural-greedy", "dngo", "gp-ucb", "gp-ei", "gp-ts", "rf-ei")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/neural_bo_sensitive"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--samples", "--seeds", dest="samples", type=int, default=10)
    parser.add_argument("--budget", type=int, default=300)
    parser.add_argument("--models", type=int, default=1000, help="tampered models")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--timeout", type=float, default=None, help="seconds after which a run is given up")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    samples, budget = (4, 100) if options.quick else (options.samples, options.budget)
    runs = [Run(m, "sensitive", {}, seed, budget=budget, init=20) for m in options.methods.split(",") for seed in range(samples)]
    if not options.report:
        run_all(runs, options.out, jobs=options.jobs, timeout=options.timeout)
    classifier = train_classifier()
    images, labels = digits(None, True)
    sd = tamper_sd(classifier, images, labels)
    found: dict[str, list[tuple[int, float, np.ndarray]]] = {}
    for record in load_records(options.out):
        i = int(np.nanargmax(record.value))
        found.setdefault(record.label, []).append((record.seed, float(record.value[i]), record.x[i]))
    rates = {}
    print(f"tampered with noise sd {sd:.4f}; accuracy before {np.mean(classifier.labels(images) == labels):.4f}")
    print("| method | samples | median gradient norm | detection rate with 1, 2, ... samples |\n| --- | --- | --- | --- |")
    for method, runs_of in sorted(found.items(), key=lambda item: -np.median([v for _, v, _ in item[1]])):
        runs_of.sort(key=lambda item: item[0])
        X = enlarge(LOW + (HIGH - LOW) * np.array([x for _, _, x in runs_of]))
        rates[method] = detection_rates(classifier, X, sd, options.models)
        shown = ", ".join(f"{r:.3f}" for r in rates[method])
        print(f"| {method} | {len(runs_of)} | {np.median([v for _, v, _ in runs_of]):.1f} | {shown} |")
    figure(rates, options.out / "detection.png")


def figure(rates: dict[str, np.ndarray], path: Path) -> None:
    """Detection rate against the number of samples."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(6, 4), layout="constrained")
    axes = drawing.subplots()
    for method, values in rates.items():
        axes.plot(np.arange(1, len(values) + 1), values, marker="o", label=method)
    axes.set_xlabel("sensitive samples")
    axes.set_ylabel("detection rate")
    axes.legend(frameon=False)
    drawing.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
