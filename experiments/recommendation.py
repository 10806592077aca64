"""What is recommended under noise, and what other rules would: twelve classic functions and the bbob functions.

    python experiments/recommendation.py --suites classics,odd --seeds 3 --jobs 2 --out runs/recommendation
    python experiments/recommendation.py --suites even --seeds 6 --first 40

Runs are kept as histories, so that every rule of RULES is read on the same ones, after 8 d and 20 d evaluations.
Noise is Gaussian, its sd a share of the interquartile range of the function. Distances are those of the true value
from the best setting of the run, as shares of that range. Rules are chosen on the classics and the odd bbob functions
and reported on the even ones, in instances of their own (that of seed s is s + 1). The sign test counts the runs in
which a rule was better and worse than the luckiest value.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from regretless_bench.problems import make_problem
from scipy.stats import binomtest
from tqdm import tqdm

from regretless.auto import AUTO
from regretless.basics.noise import shows_noise
from regretless.models.gp.posterior import GP
from regretless.models.gp.surrogate import Surrogate
from regretless.optimizer import Optimizer
from regretless.space import Cube
from regretless.testing import Loop

CHECKPOINTS = (8, 20)
"""Evaluations per dimension at which the settings are compared."""
CURVE = np.arange(1.0, 7.0)
"""1 to 6, for functions that weigh their coordinates."""
HARTMANN = (
    np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
              [17, 8, 0.05, 10, 0.1, 14]]),
    1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                     [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]]),
    np.array([1, 1.2, 3, 3.2]),
)  # fmt: skip
"""The scales, centres and heights of Hartmann's function of six variables."""


def branin(x: np.ndarray) -> float:
    a, b = x
    return float(
        (b - 5.1 / (4 * np.pi**2) * a * a + 5 / np.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10
    )


def ackley(x: np.ndarray) -> float:
    return float(-20 * np.exp(-0.2 * np.sqrt(np.mean(x * x))) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20 + np.e)


def rastrigin(x: np.ndarray) -> float:
    return float(10 * len(x) + np.sum(x * x - 10 * np.cos(2 * np.pi * x)))


def rosenbrock(x: np.ndarray) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def griewank(x: np.ndarray) -> float:
    return float(1 + np.sum(x * x) / 4000 - np.prod(np.cos(x / np.sqrt(CURVE[: len(x)]))))


def levy(x: np.ndarray) -> float:
    w = 1 + (x - 1) / 4
    middle = np.sum((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2))
    return float(np.sin(np.pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2))


def styblinski_tang(x: np.ndarray) -> float:
    return float(0.5 * np.sum(x**4 - 16 * x * x + 5 * x))


def michalewicz(x: np.ndarray) -> float:
    return float(-np.sum(np.sin(x) * np.sin(CURVE[: len(x)] * x * x / np.pi) ** 20))


def schwefel(x: np.ndarray) -> float:
    return float(418.9829 * len(x) - np.sum(x * np.sin(np.sqrt(np.abs(x)))))


def dixon_price(x: np.ndarray) -> float:
    return float((x[0] - 1) ** 2 + np.sum(CURVE[1 : len(x)] * (2 * x[1:] ** 2 - x[:-1]) ** 2))


def six_humps(x: np.ndarray) -> float:
    a, b = x
    return float((4 - 2.1 * a * a + a**4 / 3) * a * a + a * b + (-4 + 4 * b * b) * b * b)


def hartmann(x: np.ndarray) -> float:
    scales, centres, heights = HARTMANN
    return float(-np.sum(heights * np.exp(-np.sum(scales * (x - centres) ** 2, axis=1))))


CLASSICS: dict[str, tuple[Callable[[np.ndarray], float], list[tuple[float, float]]]] = {
    "branin": (branin, [(-5, 10), (0, 15)]), "ackley": (ackley, [(-11, 13)] * 3),
    "rastrigin": (rastrigin, [(-5.1, 4.7)] * 2), "rosenbrock": (rosenbrock, [(-2, 2.3)] * 4),
    "griewank": (griewank, [(-50, 43)] * 3), "levy": (levy, [(-9, 8)] * 4),
    "styblinski-tang": (styblinski_tang, [(-5, 4.6)] * 3), "michalewicz": (michalewicz, [(0, np.pi)] * 2),
    "schwefel": (schwefel, [(-500, 480)] * 2), "dixon-price": (dixon_price, [(-9, 10)] * 3),
    "six-humps": (six_humps, [(-3, 2.7), (-2, 1.8)]), "hartmann": (hartmann, [(0, 1)] * 6),
}  # fmt: skip
"""The functions and their boxes, most of them off centre."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/recommendation"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--suites", default="classics,odd", help="of classics, odd and even (bbob functions)")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--noise", default="0.05,0.15,0.3", help="sds of the noise by the interquartile range")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--dim", type=int, default=3, help="the dimension of the bbob functions")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = [name for suite in options.suites.split(",") for name in SUITES[suite]]
    tasks = [
        (options.out, options.method, name, float(noise), seed, options.dim)
        for seed in range(options.first, options.first + options.seeds)
        for noise in options.noise.split(",") for name in names
    ]  # fmt: skip
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(rows, *task) for task in tasks]
        found = [row for f in tqdm(as_completed(futures), total=len(futures), desc="runs") for row in f.result()]
    print(table(found))


class Run(NamedTuple):
    """A run: points (n x d), values told and true values (n each), to be maximised, and the interquartile range."""

    X: np.ndarray
    y: np.ndarray
    f: np.ndarray
    iqr: float


SUITES = {
    "classics": list(CLASSICS),
    "odd": [f"bbob-{k}" for k in range(1, 25, 2)],
    "even": [f"bbob-{k}" for k in range(2, 25, 2)],
}


def stored_run(out: Path, method: str, name: str, noise: float, seed: int, dim: int) -> Run:
    """The run of a case, made first where there is none."""
    path = out / f"{method}-{name}-{dim}-{noise:g}-{seed}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            return Run(kept["X"], kept["y"], kept["f"], float(kept["iqr"]))
    if name.startswith("bbob"):
        problem = make_problem("bbob", function=int(name.removeprefix("bbob-")), dim=dim, instance=seed + 1, seed=seed)
        space, true = problem.space, problem.true
    else:
        f, box = CLASSICS[name]
        space, true = box, lambda params: f(np.array(list(params.values())))
    opt = Optimizer(space, method=method, seed=seed, budget=CHECKPOINTS[-1] * len(space))
    anywhere = [opt.space.decode(u) for u in np.random.default_rng(1).random((2000, len(opt.space)))]
    iqr = float(np.subtract(*np.percentile([true(params) for params in anywhere], [75, 25])))
    rng, values = np.random.default_rng(seed + 100), []
    for _ in range(CHECKPOINTS[-1] * len(opt.space)):
        trial = opt.ask()
        values.append(true(trial.params))
        opt.tell(trial, values[-1] + noise * iqr * rng.standard_normal())
    run = Run(opt.history.X, opt.history.y, -np.array(values), iqr)
    np.savez_compressed(path, **run._asdict())
    return run


def rows(out: Path, method: str, name: str, noise: float, seed: int, dim: int) -> list[dict[str, Any]]:
    """For each checkpoint of a run, the distance of what every rule recommends from the best setting of the run."""
    run, found = stored_run(out, method, name, noise, seed, dim), []
    for checkpoint in CHECKPOINTS:
        n = checkpoint * run.X.shape[1]
        X, y, f = run.X[:n], run.y[:n], run.f[:n]
        noisy = shows_noise(X, y, np.full(n, np.nan))
        gp = Surrogate(Cube.box(X.shape[1]), rotate=True).gp(X, y)
        at = {rule: choose(X, y, gp) if noisy else int(np.argmax(y)) for rule, choose in RULES.items()}
        distances = {rule: float(f.max() - f[i]) / run.iqr for rule, i in at.items()}
        suite = next(s for s, names in SUITES.items() if name in names)
        found.append({"suite": suite, "name": name, "noise": noise, "n": f"{checkpoint} d", **distances})
    return found


# ---------------------------------------------------------------- the rules

Rule = Callable[[np.ndarray, np.ndarray, GP], int]
"""What could be recommended after values y (n) at X (n x d) that show noise, with a posterior: the row of X."""


def shipped(X: np.ndarray, y: np.ndarray, gp: GP) -> int:
    """What `auto` recommends."""
    loop = Loop(AUTO.build(Cube.box(X.shape[1]), seed=0, budget=CHECKPOINTS[-1] * X.shape[1]))
    loop.tell(X, y)
    return int(np.flatnonzero((loop.recommend() == X).all(axis=1))[0])


def best_tenth(X: np.ndarray, y: np.ndarray, gp: GP) -> int:
    """The largest mean among the best tenth of the values, at least three."""
    best = np.argsort(-y, kind="stable")[: max(3, len(y) // 10)]
    return int(best[np.argmax(gp.mean_at(X[best]))])


def within_one_sd(X: np.ndarray, y: np.ndarray, gp: GP) -> int:
    """The luckiest value among the points whose mean is within one posterior sd of the largest."""
    mean, variance = gp.mean_var(X)
    near = np.flatnonzero(mean >= mean.max() - math.sqrt(variance[np.argmax(mean)]))
    return int(near[np.argmax(y[near])])


def with_residual(part: float) -> Rule:
    """The largest mean after a part of what the point's own value differs from it is added."""

    def choose(X: np.ndarray, y: np.ndarray, gp: GP) -> int:
        mean = gp.mean_at(X)
        return int(np.argmax(mean + part * ((gp.y - gp.offset) / gp.scale - mean)))

    return choose


RULES: dict[str, Rule] = {
    "luckiest": lambda X, y, gp: int(np.argmax(y)),
    "recommended": shipped,
    "largest mean": with_residual(0.0),
    "best tenth": best_tenth,
    "luckiest within one sd of the largest mean": within_one_sd,
    "mean and .15 of the residual": with_residual(0.15),
    "mean and .25 of the residual": with_residual(0.25),
    "mean and .5 of the residual": with_residual(0.5),
}


def table(found: list[dict[str, Any]]) -> str:
    titles = [
        "suite",
        "noise",
        "n",
        "rule",
        "runs",
        "median distance",
        "mean",
        "better, worse than the luckiest",
        "sign test",
    ]
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        groups[row["suite"], row["noise"], row["n"]].append(row)
    for key, mine in sorted(groups.items(), key=str):
        lucky = np.array([row["luckiest"] for row in mine])
        for rule in RULES:
            own = np.array([row[rule] for row in mine])
            better, worse = int((own < lucky).sum()), int((own > lucky).sum())
            p = binomtest(better, better + worse).pvalue if better + worse else 1.0
            cells = [
                *map(str, key),
                rule,
                str(len(mine)),
                f"{np.median(own):.4f}",
                f"{own.mean():.4f}",
                f"{better}, {worse}",
            ]
            lines.append(f"| {' | '.join([*cells, f'{p:.2g}'])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
