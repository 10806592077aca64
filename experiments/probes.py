"""How often the share that uniform probes certify is right, where its error is largest: 2000 runs of each family.

    python experiments/probes.py [--runs 2000] [--delta 0.05]

Every family is made so that the true share is known. "sharp" families have a better part just larger than what the
probes can exclude, so that the bound errs with probability delta if it is right at all. The rule `GapBelow(share=)`
looks after every evaluation and is wrong when more than that share is better at its stop.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

import regretless as rg
from regretless.optimizer import Optimizer
from regretless.probes import most_better
from regretless.stopping import GapBelow

PROBES = 20
"""Probes of each run."""
SPACE = {"x": rg.Float(3.0, 5.5), "lr": rg.Float(1e-4, 1.0, log=True)}
CELLS = [(n, c) for n in range(1, 10) for c in "abc"]
WIDTH = {n: math.log((n + 0.5) / (n - 0.5)) / math.log(9.5 / 0.5) / 3 for n in range(1, 10)}
"""The share of the space that a cell with this whole number owns, on its log scale."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--delta", type=float, default=0.05)
    options = parser.parse_args()
    print("| family | runs | nominal | covered | mean certified share |\n| --- | --- | --- | --- | --- |")
    for name, one in FAMILIES.items():
        found = [one(seed, options.delta) for seed in range(options.runs)]
        right, shares = (
            np.mean([true <= share + 1e-12 for true, share in found]),
            np.mean([share for _, share in found]),
        )
        print(f"| {name} | {options.runs} | {1 - options.delta:g} | {right:.4f} | {shares:.3f} |", flush=True)


def certified(opt: Optimizer, delta: float) -> float:
    share = opt.share_at(delta).value
    return 1.0 if share is None else share


def place(lr: float) -> float:
    """Where a learning rate lies on its axis."""
    return math.log10(lr) / 4 + 1


def told(seed: int, value: Callable[[float, float], float], *, noise: float = 0.0, n: int = PROBES) -> Optimizer:
    """A run of probes alone; value(u, v) of the two places, NaN: it fails, infinite: it is still pending."""
    opt, rng = Optimizer(SPACE, method="random", seed=seed, probes=1.0), np.random.default_rng(seed)
    for trial in opt.ask(n):
        found = value(place(trial.params["lr"]), (trial.params["x"] - 3) / 2.5)
        if math.isinf(found):
            continue
        var = noise**2 if noise else None
        opt.tell(trial, found + noise * rng.standard_normal(), var=var, failed=math.isnan(found))
    return opt


def needle(seed: int, delta: float) -> tuple[float, float]:
    p = most_better(PROBES, 0, delta) * 1.0001
    opt = told(seed, lambda u, v: -1.0 if u < p else 1.0 + v)
    return (p if opt.best.value > 0 else 0.0), certified(opt, delta)


def smooth(seed: int, delta: float) -> tuple[float, float]:
    opt = told(seed, lambda u, v: u)
    return opt.best.value or 0.0, certified(opt, delta)


def plateau(seed: int, delta: float) -> tuple[float, float]:
    p = most_better(PROBES, 0, delta) * 1.0001
    opt = told(seed, lambda u, v: float(u >= p) + float(u >= 0.6))
    return {0.0: 0.0, 1.0: p, 2.0: 0.6}[opt.best.value], certified(opt, delta)


def cells(seed: int, delta: float) -> tuple[float, float]:
    rank = np.random.default_rng(seed).permutation(27)
    opt = Optimizer({"n": rg.Int(1, 9, log=True), "c": rg.Choice(list("abc"))}, method="random", seed=seed, probes=0.5)
    for _ in range(14):
        trial = opt.ask()
        opt.tell(trial, float(rank[CELLS.index((trial.params["n"], trial.params["c"]))]))
    true = sum(WIDTH[n] for i, (n, _) in enumerate(CELLS) if rank[i] < opt.best.value)
    return true, certified(opt, delta)


def failing(seed: int, delta: float) -> tuple[float, float]:
    opt = told(seed, lambda u, v: math.nan if u < 0.1 else float(u > 0.24))
    return (0.14 if opt.best.value > 0 else 0.0), certified(opt, delta)


def slow(seed: int, delta: float) -> tuple[float, float]:
    """The best tenth of the space takes for ever, the next part may be missed."""
    opt = told(seed, lambda u, v: math.inf if u < 0.1 else u)
    return opt.best.value or 0.0, certified(opt, delta)


def noisy(seed: int, delta: float) -> tuple[float, float]:
    opt = told(seed, lambda u, v: u, noise=0.05, n=40)
    return place(opt.recommend()["lr"]), certified(opt, delta)


def rule(seed: int, delta: float) -> tuple[float, float]:
    share = 0.15
    opt, stop = Optimizer(SPACE, method="random", seed=seed, probes=1.0), GapBelow(share=share, delta=delta)
    while stop(opt) is None:
        trial = opt.ask()
        opt.tell(trial, float(place(trial.params["lr"]) >= share * 1.0001))
    return (share * 1.0001 if opt.best.value else 0.0), share


FAMILIES = {
    "needle (sharp)": needle, "smooth": smooth, "plateaus (sharp)": plateau, "27 cells, drawn with replacement": cells,
    "a tenth of the space fails": failing, "the best tenth is still pending": slow,
    "noise of known variance": noisy, "the rule, looking after every evaluation (sharp)": rule,
}  # fmt: skip


if __name__ == "__main__":
    main()
