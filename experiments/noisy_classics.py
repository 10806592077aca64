"""`auto` beside the peers on twelve classic functions under noise: the mean rank of the setting each recommends.

    python experiments/noisy_classics.py --jobs 2 --seeds 3 --out runs/noisy-classics

The functions and boxes are those of `recommendation.py`, with 2 to 6 parameters and 50 evaluations per parameter. Noise
is Gaussian, its sd a share of the interquartile range of the function, and every case draws its own. Errors have
functions as units, because levels and seeds of one are not independent. A run that is in OUT/outcomes.jsonl is not run
again. The rule of `auto` for a recommendation was once chosen on these functions; its search was not.
"""

from __future__ import annotations

import argparse
import json
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from recommendation import CLASSICS
from regretless_bench.runner import method_named
from regretless_bench.stats import ranks, standard_error
from tqdm import tqdm

from regretless.optimizer import Optimizer

METHODS = ("auto", "optuna-cmaes", "optuna-tpe", "turbo", "nevergrad-ngopt")
LEVELS = (0.05, 0.15, 0.3)
PER_PARAMETER = 50
"""Evaluations per parameter, as in the suites of bbob under noise."""
SAMPLE = 2000
"""Random settings that the interquartile range is taken from."""


def outcome(method: str, name: str, level: float, seed: int) -> dict[str, Any]:
    """The true value of what a method recommends, and the least true value among its evaluations."""
    f, box = CLASSICS[name]
    budget = PER_PARAMETER * len(box)
    opt = Optimizer(box, method=method_named(method), seed=seed, budget=budget)
    anywhere = [opt.space.decode(u) for u in np.random.default_rng(1).random((SAMPLE, len(opt.space)))]
    spread = float(np.subtract(*np.percentile([true(f, params) for params in anywhere], [75, 25])))
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), round(100 * level)])
    values = []
    for _ in range(budget):
        trial = opt.ask()
        values.append(true(f, trial.params))
        opt.tell(trial, values[-1] + level * spread * rng.standard_normal())
    row = {"method": method, "name": name, "level": level, "seed": seed}
    return row | {"best": min(values), "advised": true(f, opt.recommend())}


def true(f: Any, params: dict[str, float]) -> float:
    """The noiseless value of a setting."""
    return float(f(np.array(list(params.values()))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/noisy-classics"), help="folder of the outcomes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "outcomes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    there = {(r["method"], r["name"], r["level"], r["seed"]) for r in rows}
    cases = [(name, level, seed) for seed in range(options.seeds) for level in LEVELS for name in CLASSICS]
    todo = [(m, *case) for case in cases for m in METHODS if (m, *case) not in there]
    with ProcessPoolExecutor(options.jobs) as pool, open(path, "a", encoding="utf-8") as file:
        for done in tqdm(as_completed([pool.submit(outcome, *job) for job in todo]), total=len(todo), unit="run"):
            rows.append(done.result())
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
    found = {(r["method"], r["name"], r["level"], r["seed"]): r for r in rows}
    print("| noise | cases | " + " | ".join(METHODS) + " |\n" + "|" + " --- |" * (2 + len(METHODS)))
    for levels in (*((level,) for level in LEVELS), LEVELS):
        mine = [case for case in cases if case[1] in levels]
        rank = ranks(np.array([[found[m, *case]["advised"] for m in METHODS] for case in mine]))
        means, errors = rank.mean(axis=0), standard_error(rank, [name for name, *_ in mine])
        cells = [f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True)]
        print(f"| {', '.join(f'{level:.0%}' for level in levels)} | {len(mine)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
