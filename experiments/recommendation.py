"""What is recommended, and what probes cost: twelve classic functions, or 24 bbob functions, with and without noise.

    python experiments/recommendation.py --suite classics --jobs 2 --out runs/recommendation [--methods gp-ucb]
    python experiments/recommendation.py --suite bbob --probes 0,0.2,0.5 --noise 0

After 8 d and 20 d evaluations three settings are compared by their true values: that of the best value told (under
noise the luckiest), the one that the method's model prefers, and the one that is recommended. Noise is Gaussian, its sd
a share of the interquartile range of the function. Distances are those to the best setting of the run, as shares of
that range. Constants were chosen on the classics and on bbob instance 1; later instances are fresh.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.problems import make_problem

from regretless.gp.step import best_of_shortlist, best_told
from regretless.gp.surrogate import Surrogate
from regretless.method import Method
from regretless.optimizer import Optimizer

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
    parser.add_argument("--suite", choices=("classics", "bbob"), default="classics")
    parser.add_argument("--methods", default="gp-ucb")
    parser.add_argument("--noise", default="0,0.05,0.15,0.3", help="sd of the noise by the interquartile range")
    parser.add_argument("--probes", default="0")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed; the bbob instance is the seed + 1")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = list(CLASSICS) if options.suite == "classics" else [f"bbob-{k}" for k in range(1, 25)]
    noises, rates = ([float(x) for x in text.split(",")] for text in (options.noise, options.probes))
    tasks = [
        (m, name, noise, rate, seed)
        for m in options.methods.split(",") for noise in noises for rate in rates for name in names
        for seed in range(options.first, options.first + options.seeds)
    ]  # fmt: skip
    files = {task: options.out / ("-".join(map(str, task)) + ".json") for task in tasks}
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(one_run, *task): task for task in tasks if not files[task].exists()}
        for future in as_completed(futures):
            files[futures[future]].write_text(json.dumps(future.result()))
    print(table([json.loads(files[task].read_text()) for task in tasks]))


def one_run(method: str, name: str, noise: float, probes: float, seed: int) -> dict[str, Any]:
    if name.startswith("bbob"):
        problem = make_problem("bbob", function=int(name.removeprefix("bbob-")), dim=3, instance=seed + 1, seed=seed)
        space, true = problem.space, problem.true
    else:
        f, box = CLASSICS[name]
        space, true = box, lambda params: f(np.array(list(params.values())))
    opt = Optimizer(space, method=method, seed=seed, budget=20 * len(space), probes=probes)
    anywhere = [opt.space.decode(u) for u in np.random.default_rng(1).random((2000, len(opt.space)))]
    iqr = float(np.subtract(*np.percentile([true(params) for params in anywhere], [75, 25])))
    rng, record = np.random.default_rng(seed + 100), {}
    for n in range(1, 20 * len(opt.space) + 1):
        trial = opt.ask()
        opt.tell(trial, true(trial.params) + noise * iqr * rng.standard_normal())
        if n in [k * len(opt.space) for k in CHECKPOINTS]:
            model = opt.space.decode(best_by_model(opt.method), opt.method.choices)
            raw = opt.space.decode(best_by_model(opt.method, raw=True), opt.method.choices)
            record[f"{n // len(opt.space)} d"] = {
                "best": min(true(t.params) for t in opt.trials), "iqr": iqr, "noisy": opt.method.shows_noise(),
                "lucky": true(opt.best.params), "model": true(model), "raw": true(raw),
                "recommended": true(opt.recommend()),
            }  # fmt: skip
    return {"method": method, "name": name, "noise": noise, "probes": probes, "seed": seed, **record}


def best_by_model(method: Method, *, raw: bool = False) -> np.ndarray:
    """The told point with the largest mean of a process fitted to the values, by default as gp-ucb fits it."""
    if raw:
        return best_of_shortlist(Surrogate(method.cube, tame=False).gp(method.X, method.y, method.yvar), method)
    return best_told(Surrogate(method.cube).gp(method.X, method.y, method.yvar), method.X)


def table(records: list[dict[str, Any]]) -> str:
    titles = ["method", "noise", "probes", "n", "runs", "taken for noisy", "worse than the luckiest, better",
              "median distance: luckiest, model, raw, recommended", "mean distance: the same"]  # fmt: skip
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        for n in [f"{k} d" for k in CHECKPOINTS]:
            groups[record["method"], record["noise"], record["probes"], n].append(record[n])
    for key, found in groups.items():
        gaps = np.array(
            [[(r[k] - r["best"]) / r["iqr"] for k in ("lucky", "model", "raw", "recommended")] for r in found]
        )
        worse, better = (gaps[:, 3] > gaps[:, 0]).mean(), (gaps[:, 3] < gaps[:, 0]).mean()
        noisy = np.mean([r["noisy"] for r in found])
        numbers = [", ".join(f"{x:.4f}" for x in row) for row in (np.median(gaps, axis=0), gaps.mean(axis=0))]
        row = [*map(str, key), str(len(found)), f"{noisy:.2f}", f"{worse:.2f}, {better:.2f}", *numbers]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
