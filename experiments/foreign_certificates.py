"""How often `certify` is right about studies of TPE and of random search (docs/lab/doors.md).

python experiments/foreign_certificates.py reported 6           # the functions, and the number of seeds
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna

import regretless as rg

TRIALS = 60
"""Trials of a study."""
HARTMANN = (
    np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
    np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]) / 1e4,
    np.array([1.0, 1.2, 3.0, 3.2]),
)
"""The constants of the three-dimensional Hartmann function."""


def branin(u: Any) -> float:
    x, y = 15 * u[0] - 5, 15 * u[1]
    well = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
    return float(well + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10)


def hartmann(u: Any) -> float:
    A, P, weights = HARTMANN
    return -float(weights @ np.exp(-(A * (u - P) ** 2).sum(axis=1)))


def ackley(u: Any) -> float:
    z = 10 * u - 3.7
    return float(-20 * np.exp(-0.2 * np.sqrt((z**2).mean())) - np.exp(np.cos(2 * np.pi * z).mean()) + 20 + math.e)


def rosenbrock(u: Any) -> float:
    z = 4 * u - 2
    return float((100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum())


def levy(u: Any) -> float:
    z = 1 + (14 * u - 8.3) / 4
    ends = math.sin(math.pi * z[0]) ** 2 + (z[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * z[-1]) ** 2)
    return float(ends + ((z[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * z[:-1] + 1) ** 2)).sum())


def styblinski(u: Any) -> float:
    z = 10 * u - 5
    return float(0.5 * (z**4 - 16 * z**2 + 5 * z).sum())


def griewank(u: Any) -> float:
    z = 40 * u - 17
    return float((z**2).sum() / 4000 - np.prod(np.cos(z / np.sqrt(np.arange(1, len(z) + 1)))) + 1)


def camel(u: Any) -> float:
    x, y = 6 * u[0] - 3, 4 * u[1] - 2
    return float((4 - 2.1 * x**2 + x**4 / 3) * x**2 + x * y + (-4 + 4 * y**2) * y**2)


CASES: dict[str, list[tuple[Callable[[Any], float], int, float]]] = {
    "chosen": [(branin, 2, 0.397887), (hartmann, 3, -3.86278), (ackley, 2, 0.0), (rosenbrock, 3, 0.0)],
    "reported": [(levy, 3, 0.0), (styblinski, 3, -117.49851), (griewank, 2, 0.0), (camel, 2, -1.0316285)],
}
"""Functions, their dimensions and their optima: those that chose the widening of `certify`, and others."""
SAMPLERS: dict[str, Callable[[int], Any]] = {
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", choices=CASES)
    parser.add_argument("seeds", type=int)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for function, dim, optimum in CASES[options.functions]:

        def objective(trial: optuna.Trial, f: Any = function, d: int = dim) -> float:
            return float(f(np.array([trial.suggest_float(f"x{i}", 0, 1) for i in range(d)])))

        for name, sampler in SAMPLERS.items():
            found = []
            for seed in range(options.seeds):
                study = optuna.create_study(sampler=sampler(seed))
                study.optimize(objective, n_trials=TRIALS)
                certificate = rg.certify(study)
                if certificate.certified:
                    found.append((study.best_value - optimum, certificate.gap))
            regret, gap = np.median(found, axis=0) if found else (math.nan, math.nan)
            right = sum(r <= g for r, g in found)
            print(f"{function.__name__} | {name} | {len(found)} | {right} | {regret:.3g} | {gap:.3g}", flush=True)


if __name__ == "__main__":
    main()
