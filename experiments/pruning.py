"""Pruning with our sampler and pruner beside TPE's: curves made by formula, and small trainings (docs/lab/doors.md).

    python experiments/pruning.py --seeds 10 --jobs 16 --out runs/pruning
    python experiments/pruning.py --curves falling,network --pairs "tpe hyperband,ours ours" --seeds 2

A pair is a sampler and a pruner. A study has 50 trials; to compare pairs at equal steps too, it goes on until it has
taken 450 steps, or 200 trials. With `--equal` it ends after 450 steps, and a paired test of the first two pairs is
printed.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from regretless_bench.cells import run_cells
from scipy.stats import wilcoxon
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss, mean_absolute_error
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import scale

import regretless as rg

STEPS = 20
"""Reports of a trial that runs to its end."""
TRIALS = 50
"""Trials of a study; the made family has those of the review that asked for pruning."""
EQUAL = 450
"""Steps after which pairs are compared too, because pruners let good trials run on; TPE takes about as many."""
MOST_TRIALS = 200
"""Trials after which a study ends that has not taken EQUAL steps."""
GOOD = 0.0008
"""The best value, on the made family's bowl, that the review asked for."""


def bowl(trial: optuna.Trial) -> tuple[float, float, float, float]:
    """Three suggested parameters, and a bowl with its optimum 0 inside."""
    lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    return (math.log10(lr) + 2.2) ** 2 / 16 + (x - 0.61) ** 2 + (y - 0.27) ** 2, math.log10(lr), x, y


def falling(trial: optuna.Trial) -> Iterator[float]:
    """Curves that fall alike."""
    value = bowl(trial)[0]
    yield from (value + math.exp(-t / 5) * (t < STEPS - 1) for t in range(STEPS))


def noisy(trial: optuna.Trial) -> Iterator[float]:
    """Curves whose first values are noisy."""
    value, rng = bowl(trial)[0], np.random.default_rng(trial.number)
    for t in range(STEPS - 1):
        yield value + 0.5 * math.exp(-t / 5) + 0.03 * math.exp(-t / 6) * float(rng.standard_normal())
    yield value


def crossing(trial: optuna.Trial) -> Iterator[float]:
    """Curves that cross: a higher rate falls faster and ends higher."""
    _, rate, x, y = bowl(trial)
    value = 0.05 * (rate + 3) ** 2 + (x - 0.61) ** 2 + (y - 0.27) ** 2
    for t in range(STEPS - 1):
        yield value + math.exp(-(t + 1) * 10 ** (0.15 * (rate + 3)) / 5)
    yield value


DIGITS = load_digits(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def network(trial: optuna.Trial) -> Iterator[float]:
    """The validation loss of a network of one layer on 600 digits, epoch by epoch."""
    X, y = scale(DIGITS[0][:1000]), DIGITS[1][:1000]
    model = MLPClassifier(
        (trial.suggest_int("width", 4, 64, log=True),),
        learning_rate_init=trial.suggest_float("lr", 1e-4, 1e-1, log=True),
        alpha=trial.suggest_float("alpha", 1e-6, 1.0, log=True),
        batch_size=trial.suggest_int("batch", 16, 128, log=True),
        random_state=0,
    )
    for _ in range(STEPS):
        model.partial_fit(X[:600], y[:600], classes=range(10))
        yield float(log_loss(y[600:], model.predict_proba(X[600:]), labels=range(10)))


def boosting(trial: optuna.Trial) -> Iterator[float]:
    """The validation error of boosted trees on the diabetes data, ten trees at a time."""
    X, y = DIABETES
    model = GradientBoostingRegressor(
        learning_rate=trial.suggest_float("lr", 1e-3, 1.0, log=True),
        max_depth=trial.suggest_int("depth", 1, 6),
        subsample=trial.suggest_float("subsample", 0.2, 1.0),
        max_features=trial.suggest_float("features", 0.1, 1.0),
        warm_start=True, random_state=0,
    )  # fmt: skip
    for t in range(STEPS):
        model.set_params(n_estimators=10 * (t + 1)).fit(X[:300], y[:300])
        yield float(mean_absolute_error(y[300:], model.predict(X[300:])))


def linear(trial: optuna.Trial) -> Iterator[float]:
    """The validation error of a linear model on noisy digits, trained by gradient descent, epoch by epoch."""
    X, y = scale(DIGITS[0][:1000]), DIGITS[1][:1000]
    X = X + 1.5 * np.random.default_rng(3).standard_normal(X.shape)
    model = SGDClassifier(
        loss="log_loss", penalty="elasticnet", learning_rate="invscaling", random_state=0,
        alpha=trial.suggest_float("alpha", 1e-6, 1.0, log=True),
        eta0=trial.suggest_float("eta", 1e-4, 1.0, log=True),
        power_t=trial.suggest_float("power", 0.0, 1.0),
        l1_ratio=trial.suggest_float("l1", 0.0, 1.0),
    )  # fmt: skip
    for _ in range(STEPS):
        model.partial_fit(X[:600], y[:600], classes=range(10))
        yield float(log_loss(y[600:], model.predict_proba(X[600:]), labels=range(10)))


CURVES = {f.__name__: f for f in (falling, noisy, crossing, network, boosting, linear)}
PRUNERS: dict[str, Callable[[], Any]] = {
    "none": optuna.pruners.NopPruner,
    "median": optuna.pruners.MedianPruner,
    "hyperband": lambda: optuna.pruners.HyperbandPruner(1, STEPS, 3),
    "ours": rg.Pruner,
}
SAMPLERS: dict[str, Callable[[int], Any]] = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "ours": lambda seed: rg.Sampler(seed=seed),
}


def pruner_named(name: str) -> Any:
    """A pruner of PRUNERS, or "ours:0.2" for ours with another chance."""
    return rg.Pruner(float(name.removeprefix("ours:"))) if name.startswith("ours:") else PRUNERS[name]()


PAIRS = ("random hyperband", "tpe median", "tpe hyperband", "tpe ours", "ours median", "ours hyperband", "ours ours")


def run(curve: str, sampler: str, pruner: str, seed: int, trials: int = TRIALS) -> list[Any]:
    """Of every trial: the steps that the study had taken at its end, and its value (None: it was pruned)."""
    steps, ends = 0, []

    def objective(trial: optuna.Trial) -> float:
        nonlocal steps
        value = math.inf
        for t, value in enumerate(CURVES[curve](trial)):
            steps += 1
            trial.report(value, t)
            if t < STEPS - 1 and trial.should_prune():
                raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=SAMPLERS[sampler](seed), pruner=pruner_named(pruner), study_name=f"seed {seed}")
    while len(ends) < trials or (steps < EQUAL and len(ends) < MOST_TRIALS):
        study.optimize(objective, n_trials=1)
        ends.append((steps, study.trials[-1].value))
    return ends


def marks(ends: list[Any]) -> list[float]:
    """The best value of 50 trials, that of EQUAL steps, the steps of 50 trials, and those until a value was GOOD."""
    values = [(steps, value) for steps, value in ends if value is not None]
    last = ends[min(TRIALS, len(ends)) - 1][0]
    best = min((v for s, v in values if s <= last), default=math.inf)
    early = min((v for s, v in values if s <= EQUAL), default=math.inf)
    return [best, early, last, min((s for s, v in values if v <= GOOD), default=math.inf)]


def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")


def table(results: list[tuple[Any, Any]]) -> str:
    lines = [
        "| curves | sampler and pruner | seeds | best of 50 trials | at 450 steps | se | steps | to .0008 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    pairs = sorted({f"{s} {p}" for (_, s, p, *_), _ in results}, key=lambda pair: (pair not in PAIRS, pair))
    for curve in CURVES:
        for pair in pairs:
            rows = np.array([marks(e) for (c, s, p, *_), e in results if (c, f"{s} {p}") == (curve, pair)])
            if len(rows):
                best, early, steps, reached = np.median(rows, axis=0)
                error = rows[:, 1].std(ddof=1) / math.sqrt(len(rows)) if len(rows) > 1 else math.nan
                cells = f"{best:.4g} | {early:.4g} | {error:.2g} | {steps:.0f} | {reached:.0f}"
                lines.append(f"| {curve} | {pair} | {len(rows)} | {cells} |")
    return "\n".join(lines)


def paired(results: list[tuple[Any, Any]], pairs: list[str]) -> str:
    """The mean difference of two pairs at equal steps, seed by seed, with its standard error and Wilcoxon's test."""
    found = {(c, f"{s} {p}", seed): marks(ends)[1] for (c, s, p, seed, *_), ends in results}
    lines = []
    for curve in CURVES:
        seeds = sorted(seed for c, pair, seed in found if c == curve and pair == pairs[0])
        gains = [found[curve, pairs[0], n] - found[curve, pairs[1], n] for n in seeds if (curve, pairs[1], n) in found]
        if len(gains) > 1:
            error = np.std(gains, ddof=1) / math.sqrt(len(gains))
            words = f"{pairs[1]} ahead of {pairs[0]} in {sum(g > 0 for g in gains)} of {len(gains)}"
            p = wilcoxon(gains).pvalue
            lines.append(f"{curve}: {words}, by {np.mean(gains):.4g} +- {error:.2g}, p = {p:.2g}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", default=",".join(CURVES))
    parser.add_argument("--pairs", default=",".join(PAIRS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/pruning"))
    parser.add_argument("--equal", action="store_true", help="end each study after 450 steps")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    curves, pairs = options.curves.split(","), options.pairs.split(",")
    ends = (1,) if options.equal else ()
    cells = [(c, *pair.split(), seed, *ends) for seed in seeds for c in curves for pair in pairs]
    results = run_cells(run, cells, options.out / "pruning.jsonl", jobs=options.jobs, initializer=quiet)
    print(table(results))
    if options.equal:
        print(paired(results, pairs))


if __name__ == "__main__":
    main()
