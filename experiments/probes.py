"""How often the share that uniform probes certify is right, where its error is largest, and what probes cost.

    python experiments/probes.py [--runs 2000] [--delta 0.05]
    python experiments/probes.py --library [--runs 2000] [--seeds 0-3]
    python experiments/probes.py --cost --jobs 2 --out runs/probes [--seeds 0-5] [--kinds search,verify]

Every family is made so that the true share is known. "sharp" families have a better part just larger than what the
probes can exclude, so that the bound errs with probability delta if it is right at all. The rule `GapBelow(share=)`
looks after every evaluation and is wrong when more than that share is better at its stop.

With --library the same is asked of the families of `regretless_bench.problems.families`, whose best places are peaks,
needles, steps, labels: sets of 20 probes are drawn from a space, and the share that is better than the best of them is
counted over many other draws.

With --cost the families of `regretless_bench.problems.families` are searched with and without a fifth of probes, by a
plain search and by the verifying GP-UCB. The regret of the recommended point after 8 d and 20 d evaluations, as a share
of the range of the values seen, is compared in decades on the same functions with the same seeds; regrets below 1e-6 of
the range count as that.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.histories import KINDS, case, history, recommended
from regretless_bench.problems.families import FAMILIES as FUNCTIONS
from tqdm import tqdm

import regretless as rg
from regretless.models.gp.surrogate import Surrogate
from regretless.optimizer import Optimizer
from regretless.outlook.probes import most_better
from regretless.outlook.standing import Standing
from regretless.outlook.stopping import GapBelow

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
    parser.add_argument("--only", default="", help="a part of the names of the families to simulate")
    parser.add_argument("--library", action="store_true", help="simulate on the library of functions instead")
    parser.add_argument("--cost", action="store_true", help="measure what probes cost instead")
    parser.add_argument("--out", type=Path, default=Path("runs/probes"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", default="0-5", help="first and last seed of the functions")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--families", default=",".join(name for name, f in FUNCTIONS.items() if not f.aside))
    parser.add_argument("--record", type=Path, help="a JSON file for the regrets, written after every run")
    options = parser.parse_args()
    if options.cost:
        print(cost(options))
        return
    if options.library:
        library(options)
        return
    print("| family | runs | nominal | covered | mean certified share |\n| --- | --- | --- | --- | --- |")
    for name, one in ((name, one) for name, one in FAMILIES.items() if options.only in name):
        found = [one(seed, options.delta) for seed in range(options.runs)]
        right, shares = (
            np.mean([true <= share + 1e-12 for true, share in found]),
            np.mean([share for _, share in found]),
        )
        print(f"| {name} | {options.runs} | {1 - options.delta:g} | {right:.4f} | {shares:.3f} |", flush=True)


def certified(opt: Optimizer, delta: float) -> float:
    share = Standing(opt).share_at(delta).value
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


def bounded(seed: int, delta: float, needle: float = 0.0) -> tuple[float, float]:
    """Noise always at one end of its known bound, on a slope whose best part may be a needle below all noise."""
    b, rng = 0.03, np.random.default_rng(seed)
    opt = Optimizer(SPACE, method="random", seed=seed, probes=1.0, noise_bound=b)
    for trial in opt.ask(40):
        u = place(trial.params["lr"])
        opt.tell(trial, (-1.0 if u < needle else u) + b * rng.choice([-1.0, 1.0]))
    u = place(opt.recommend()["lr"])
    return (0.0 if u < needle else u), certified(opt, delta)


def rule(seed: int, delta: float) -> tuple[float, float]:
    share = 0.15
    opt, stop = Optimizer(SPACE, method="random", seed=seed, probes=1.0), GapBelow(share=share, delta=delta)
    while stop(opt) is None:
        trial = opt.ask()
        opt.tell(trial, float(place(trial.params["lr"]) >= share * 1.0001))
    return (share * 1.0001 if opt.best.value else 0.0), share


# ---------------------------------------------------------------- the library of functions

POOL = 40_000
"""Draws over which the better share is counted: its standard error is then below a thousandth."""


def library(options: argparse.Namespace) -> None:
    """Prints, family by family, how often the best of the probes leaves no more than the certified share."""
    first, _, last = options.seeds.partition("-")
    bound = most_better(PROBES, 0, options.delta)
    print("| family | functions | sets of probes | nominal | covered |\n| --- | --- | --- | --- | --- |")
    for name in options.families.split(","):
        right = []
        for seed in range(int(first), int(last or first) + 1):
            problem, rng = case(name, seed), np.random.default_rng(seed)
            cube = problem.space.cube()
            pool = np.sort(problem.sign * problem.true_unit(cube.snap(rng.random((POOL, cube.dim)))))
            probes = cube.snap(rng.random((options.runs * PROBES, cube.dim)))
            best = (problem.sign * problem.true_unit(probes)).reshape(options.runs, PROBES).max(axis=1)
            left = 1.0 - np.searchsorted(pool, best, side="right") / POOL
            right.append((left <= bound).mean())
        print(
            f"| {name} | {len(right)} | {len(right) * options.runs} | {1 - options.delta:g} | {np.mean(right):.4f} |",
            flush=True,
        )


# ---------------------------------------------------------------- what probes cost

CHECKPOINTS, RATES = (8, 20), (0.0, 0.2)
"""Evaluations per dimension at which regrets are compared, and the shares of probes."""
LEAST_REGRET = 1e-6
"""Regrets below this share of the range are all the same: the table would compare the last digits of a refinement."""


def cost(options: argparse.Namespace) -> str:
    """The table of what probes cost; every run is kept as a history."""
    options.out.mkdir(parents=True, exist_ok=True)
    first, _, last = options.seeds.partition("-")
    tasks = [
        (options.out, family, seed, kind)
        for seed in range(int(first), int(last or first) + 1)
        for family in options.families.split(",") for kind in options.kinds.split(",")
    ]  # fmt: skip
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(regrets, *task) for task in tasks]
        for future in tqdm(as_completed(futures), total=len(futures), desc="pairs"):
            rows.append(future.result())
            if options.record:
                options.record.write_text(json.dumps(rows) + "\n")
    return cost_table(rows)


def regrets(out: Path, family: str, seed: int, kind: str) -> dict[str, Any]:
    """log10 of the regret at each checkpoint without and with probes, on one function."""
    found = []
    for rate in RATES:
        run = history(out, family, seed, kind, CHECKPOINTS[-1], rate)
        surrogate, d = Surrogate(case(family, seed).space.cube()), run.X.shape[1]
        spread = float(np.ptp(run.f)) or 1.0
        gaps = [run.best - float(run.f[recommended(run, k * d, surrogate)]) for k in CHECKPOINTS]
        found.append([math.log10(max(gap / spread, LEAST_REGRET)) for gap in gaps])
    return {"family": family, "seed": seed, "kind": kind, "dim": d, "noise": run.noise, "regret": found}


def cost_table(rows: list[dict[str, Any]]) -> str:
    out = [
        "| family | run | pairs | decades lost after 8 d (standard error) | after 20 d | worse, better after 20 d |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    plain = [name for name, family in FUNCTIONS.items() if not family.needles]
    sharp = [name for name, family in FUNCTIONS.items() if family.needles]
    groups = [(name, [name]) for name in FUNCTIONS] + [("all but needles", plain), ("all needles", sharp)]
    for title, families in groups:
        for kind in KINDS:
            pairs = [row["regret"] for row in rows if row["family"] in families and row["kind"] == kind]
            if not pairs:
                continue
            lost = np.diff(np.array(pairs), axis=1)[:, 0]  # pair x checkpoint
            error = (
                lost.std(axis=0, ddof=1) / math.sqrt(len(lost))
                if len(lost) > 1
                else np.full(len(CHECKPOINTS), math.nan)
            )
            figures = " | ".join(f"{m:.2f} ({e:.2f})" for m, e in zip(lost.mean(axis=0), error, strict=True))
            worse, better = int((lost[:, 1] > 0).sum()), int((lost[:, 1] < 0).sum())
            out.append(f"| {title} | {kind} | {len(lost)} | {figures} | {worse}, {better} |")
    return "\n".join(out)


FAMILIES = {
    "needle (sharp)": needle, "smooth": smooth, "plateaus (sharp)": plateau, "27 cells, drawn with replacement": cells,
    "a tenth of the space fails": failing, "the best tenth is still pending": slow,
    "noise of known variance": noisy, "noise within a known bound": bounded,
    "noise within a known bound, a needle of 6 %": lambda seed, delta: bounded(seed, delta, 0.06),
    "the rule, looking after every evaluation (sharp)": rule,
}  # fmt: skip


if __name__ == "__main__":
    main()
