"""BBO, Theorems 3, 4 and 18: how the cumulative regret R_T grows with T when inner steps follow N ~ T or N ~ T^2.

    python experiments/bilevel_rate.py --jobs 2 --out runs/bilevel_rate          T = 5 to 40, 5 seeds
    python experiments/bilevel_rate.py --jobs 16 --out runs/bilevel_rate --full  T = 5 to 60, 10 seeds
    python experiments/bilevel_rate.py --out runs/bilevel_rate --report          from the records there are

Inner problems are softmax regression (convex) and an MLP of 32 units (not convex) on 5000 digits of 14 x 14. Every T is
a study of its own, because N depends on it: N = 40 at all T, N = 10 sqrt T (where the bounds of EI and UCB part: UCB's
R_T is T^(3/4), EI's grows faster than T), N = 8 T (the theorems' rule for convex problems) and N = T^2 (their rule for
others; at most 3600). R_T is the sum over t of L(lambda_t^+, theta^N) - L*, L the cross-entropy on
5000 test digits, lambda_t^+ what the algorithm would return after t steps (EI: best posterior mean, UCB: the last
point), and L* the least test loss of any net here, long runs of 20,000 steps included. The table has R_T and the slope
of its logarithm on log T, one per seed, mean and standard error; the theorems say 1/2 for N ~ T (convex) and N ~ T^2
(not convex), 1 for constant N.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.claims import experiment_options, keep_results, needed, stored
from regretless_bench.problems.mnist_training import training

from regretless.method import keyed_generator
from regretless.methods import METHODS
from regretless.space import Space
from regretless.testing import Loop

DEFAULT, PRINTED = METHODS["bilevel"], METHODS["bbo-printed"]
TS, FULL_TS = (5, 10, 20, 40), (5, 10, 20, 40, 60)
SQUARE_ROOT = "N = 10 sqrt T"
RULES = {
    "N = 40": lambda t: 40,
    SQUARE_ROOT: lambda t: round(10 * math.sqrt(t)),
    "N = 8 T": lambda t: 8 * t,
    "N = T^2": lambda t: t * t,
}
PROBLEMS = {"softmax": "convex", "mlp": "not convex"}
ACQUISITIONS = ("EI", "UCB, sigma^2 = 1", "UCB, sigma^2 = 0.01")
LONG, LONG_STEPS = "long", 20_000
"""Studies of our default whose nets train so long: they show how low the loss can be."""
LONG_TRIALS, LONG_SEEDS = 16, 2
CAP = 5.0
"""Losses above it, and those of nets that have blown up, count as this."""
FIRST_SEED, SEEDS_STREAM = 8000, 9


def study(problem: str, acquisition: str, rule: str, T: int, seed: int, data: str | None) -> dict[str, Any]:
    """One study: validation and test loss of every net, and which one the algorithm returns after each step."""
    inner = training(problem, folder=data)
    N = LONG_STEPS if rule == LONG else RULES[rule](T)
    options: dict[str, Any] = {}
    if acquisition != "EI":
        options = {"acquisition": "ucb", "horizon": N, "noise_var": float(acquisition.rpartition("= ")[2])}
    space = Space(inner.space)
    recipe = DEFAULT if rule == LONG else PRINTED(**options)
    loop = Loop(recipe.build(space, seed=seed, sign=-1.0))
    losses, test, returned, clock = [], [], [], time.process_time()
    for t in range(T):
        unit = loop.ask()[0]
        state = inner.init(space.decode(unit), int(keyed_generator(seed, t, stream=SEEDS_STREAM).integers(2**31)))
        state = inner.steps(state, N)
        found = [min(v, CAP) if math.isfinite(v) else CAP for v in (inner.validate(state), inner.test(state)[0])]
        loop.tell(unit[None], -math.log(found[0]) if rule == LONG else -found[0])
        losses.append(found[0])
        test.append(found[1])
        at = np.flatnonzero((loop.recommend() == loop.history.X).all(axis=1))
        returned.append(int(at[-1]))
    record = {"problem": problem, "acquisition": acquisition, "rule": rule, "T": T, "N": N, "seed": seed}
    return {**record, "val": losses, "test": test, "returned": returned, "seconds": time.process_time() - clock}


def regret(record: dict[str, Any], floor: float) -> float:
    """R_T of a study."""
    return float(np.sum(np.array(record["test"])[record["returned"]] - floor))


def slope(records: list[dict[str, Any]], floor: float) -> np.ndarray:
    """The slope of log R_T on log T, one per seed that ran every T."""
    ts = sorted({r["T"] for r in records})
    by_seed: dict[int, dict[int, float]] = {}
    for r in records:
        by_seed.setdefault(r["seed"], {})[r["T"]] = regret(r, floor)
    whole = [found for found in by_seed.values() if set(found) == set(ts)]
    return np.array([np.polyfit(np.log(ts), np.log([max(found[t], 1e-9) for t in ts]), 1)[0] for found in whole])


def table(records: list[dict[str, Any]]) -> str:
    """Cumulative regrets and slopes with standard errors, in Markdown."""
    ts = sorted({r["T"] for r in records if r["rule"] != LONG})
    sizes = " | ".join(f"R_T, T = {t}" for t in ts)
    columns = f"| problem | acquisition | inner steps | seeds | {sizes} | slope | slope, L* lower by 0.01 |"
    lines = [columns, "|" + " --- |" * (len(ts) + 6)]
    for problem, kind in PROBLEMS.items():
        own = [r for r in records if r["problem"] == problem]
        if not own:
            continue
        floor = min(min(r["test"]) for r in own)
        for acquisition in ACQUISITIONS:
            for rule in RULES:
                group = [r for r in own if (r["acquisition"], r["rule"]) == (acquisition, rule)]
                if not group:
                    continue
                cells = [spread(np.array([regret(r, floor) for r in group if r["T"] == t])) for t in ts]
                rates = " | ".join(spread(slope(group, low)) for low in (floor, floor - 0.01))
                seeds = len({r["seed"] for r in group})
                head = f"{problem} ({kind}), L* = {floor:.3f} | {acquisition} | {rule} | {seeds}"
                lines.append(f"| {head} | {' | '.join(cells)} | {rates} |")
    return "\n".join(lines)


def spread(values: np.ndarray) -> str:
    """A mean with its standard error, as text."""
    if not len(values):
        return "-"
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{values.mean():.3g} ± {error:.2g}"


def cells(options: argparse.Namespace) -> list[tuple[str, str, str, int, int]]:
    """Every study, longest first."""
    ts = FULL_TS if options.full else TS
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    found = [(p, a, rule, t, s) for s in seeds for p in PROBLEMS for a in ACQUISITIONS for rule in RULES for t in ts]
    long = [(p, "EI", LONG, LONG_TRIALS, FIRST_SEED + s) for p in PROBLEMS for s in range(LONG_SEEDS)]
    return long + sorted(found, key=lambda cell: -cell[3] * RULES[cell[2]](cell[3]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options = experiment_options(parser, "runs/bilevel_rate", seeds=(5, 10), data="mnist")
    data = None if options.data is None else str(options.data)
    work = cells(options)
    missing = [] if options.report else [cell for cell in work if not _path(options.out, *cell).exists()]
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        keep_results({pool.submit(study, *cell, data): _path(options.out, *cell) for cell in missing}, "study")
    places = [_path(options.out, *cell) for cell in work]
    text = table(needed(stored(places), options))
    (options.out / "table.md").write_text(text + "\n")
    print(text)


def _path(out: Path, problem: str, acquisition: str, rule: str, T: int, seed: int) -> Path:
    words = "".join(letter for letter in f"{acquisition}-{rule}" if letter.isalnum() or letter in "-.")
    return out / f"{problem}-{words}-T{T}-s{seed}.json"


if __name__ == "__main__":
    main()
