"""Pruning with our sampler beside TPE: curves made by formula, and two small trainings (docs/lab/doors.md).

python experiments/pruning.py made median 8        # family, pruner, seeds
python experiments/pruning.py trained hyperband 5
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optuna
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.metrics import log_loss, mean_absolute_error
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import scale

from regretless.doors.optuna import Sampler

STEPS = 20
"""Reports of a trial that runs to its end."""
TRIALS = 50
"""Trials of a study; the made family has those of the review that asked for pruning."""
EQUAL = 450
"""Steps after which samplers are compared too, because pruners let good trials run on; TPE takes about as many."""
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


FAMILIES = {"made": (falling, noisy, crossing), "trained": (network, boosting)}
PRUNERS: dict[str, Callable[[], Any]] = {
    "median": optuna.pruners.MedianPruner,
    "hyperband": lambda: optuna.pruners.HyperbandPruner(1, STEPS, 3),
}
SAMPLERS: dict[str, Callable[[int], Any]] = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "ours": lambda seed: Sampler("auto", seed=seed),
    "ours, last": lambda seed: Sampler("auto", seed=seed, pruned="last"),
    "ours, ignore": lambda seed: Sampler("auto", seed=seed, pruned="ignore"),
}


def run(curve: Callable[[optuna.Trial], Iterator[float]], sampler: Any, pruner: Any, seed: int) -> list[float]:
    """The best value, that within EQUAL steps, all steps, repeated settings, and the steps until a value was GOOD."""
    steps, reached, early = 0, math.inf, math.inf

    def objective(trial: optuna.Trial) -> float:
        nonlocal steps, reached, early
        value = math.inf
        for t, value in enumerate(curve(trial)):
            steps += 1
            trial.report(value, t)
            if t < STEPS - 1 and trial.should_prune():
                raise optuna.TrialPruned
        reached = min(reached, steps) if value <= GOOD else reached
        early = min(early, value) if steps <= EQUAL else early
        return value

    study = optuna.create_study(sampler=sampler, pruner=pruner, study_name=f"seed {seed}")
    study.optimize(objective, n_trials=TRIALS)
    settings = [tuple(sorted(t.params.items())) for t in study.trials]
    return [study.best_value, early, steps, len(settings) - len(set(settings)), reached]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("pruner", choices=PRUNERS)
    parser.add_argument("seeds", type=int)
    parser.add_argument("samplers", nargs="*", default=list(SAMPLERS), choices=[*SAMPLERS, []])
    options = parser.parse_args()
    family, pruner, seeds, chosen = options.family, options.pruner, options.seeds, options.samplers
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    for curve in FAMILIES[family]:
        for name in chosen:
            rows = np.array([run(curve, SAMPLERS[name](s), PRUNERS[pruner](), s) for s in range(seeds)])
            best, early, steps, repeats, reached = np.median(rows, axis=0)
            error = rows[:, 0].std(ddof=1) / math.sqrt(seeds)
            print(
                f"{curve.__name__} | {pruner} | {name} | {best:.4g} | {error:.2g} | {early:.4g} | {steps:.0f} | "
                f"{repeats:.0f} | {reached:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
