"""Does GP-ThreDS' certificate hold? Functions of known norm, the reported interval checked against f* at the end of
every epoch.

    python experiments/gp_threds_certificate.py --jobs 2            20 functions, 1000 and 4000 samples
    python experiments/gp_threds_certificate.py --jobs 2 --quick    3 functions, 300 samples
    python experiments/gp_threds_certificate.py --report            the table from the records there are

Each function is a combination of 12 kernels (SE, l = 0.2) with random centres and weights, scaled to norm 1 = B; noise
sd 0.1, delta 0.05. A record per run is kept under --out, and only missing ones are run. Functions are numbered from
100: those from 0 were in view while the method was built.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from regretless.basics.statefile import write_whole
from regretless.methods.gp_threds.default import GPThreDS
from regretless.models.grid.posterior import correlation
from regretless.testing import Loop

LENGTHSCALE, NOISE, CENTRES, DELTA = 0.2, 0.1, 12, 0.05
FIRST_SEED = 100


def study(seed: int, T: int) -> dict[str, Any]:
    """One run: whether f* was in the interval at every epoch, the average regret, and the widths."""
    rng = np.random.default_rng(seed)
    Z, w = rng.random((CENTRES, 2)), rng.standard_normal(CENTRES)
    w /= np.sqrt(w @ correlation("se", Z, Z, LENGTHSCALE) @ w)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 401)] * 2), axis=-1).reshape(-1, 2)
    best = float((correlation("se", grid, Z, LENGTHSCALE) @ w).max())
    method = GPThreDS(2, seed=seed, budget=T, norm_bound=1.0, lengthscale=LENGTHSCALE, noise_sd=NOISE)
    loop = Loop(method)
    epoch, inside, widths, regret = 0, [], [], 0.0
    for t in range(T):
        X = loop.ask()
        value = float((correlation("se", X, Z, LENGTHSCALE) @ w)[0])
        regret += best - value
        loop.tell(X, value + NOISE * rng.standard_normal())
        now = method.tree(loop.history).epoch
        if now > epoch or t == T - 1:
            epoch, certificate = now, loop.certificate(DELTA)
            inside.append(bool(certificate.lower <= best <= certificate.upper))
            widths.append(certificate.upper - certificate.lower)
    return {
        "seed": seed,
        "T": T,
        "held": all(inside),
        "checks": len(inside),
        "regret": regret / T,
        "first": widths[0],
        "last": widths[-1],
        "f*": best,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/gp_threds_certificate"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true", help="100 functions")
    parser.add_argument("--report", action="store_true", help="only read the records")
    options = parser.parse_args()
    seeds = 3 if options.quick else 100 if options.full else options.seeds
    cells = [
        (seed, T)
        for T in ((300,) if options.quick else (1000, 4000))
        for seed in range(options.first_seed, options.first_seed + seeds)
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    missing = [] if options.report else [cell for cell in cells if not _path(options.out, *cell).exists()]
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(study, *cell) for cell in missing]):
            record = done.result()
            write_whole(_path(options.out, record["seed"], record["T"]), json.dumps(record).encode())
    records = [json.loads(path.read_text()) for path in (_path(options.out, *cell) for cell in cells) if path.exists()]
    print(
        "| T | functions | f* inside at every epoch | checks | average regret | first width | last width |\n|"
        + " --- |" * 7
    )
    for T in sorted({r["T"] for r in records}):
        group = [r for r in records if r["T"] == T]
        mean = {key: np.mean([r[key] for r in group]) for key in ("checks", "regret", "first", "last")}
        held = sum(r["held"] for r in group)
        numbers = f"{mean['checks']:.0f} | {mean['regret']:.4f} | {mean['first']:.2f} | {mean['last']:.2f}"
        print(f"| {T} | {len(group)} | {held} | {numbers} |")


def _path(out: Path, seed: int, T: int) -> Path:
    return out / f"rkhs-T{T}-s{seed}.json"


if __name__ == "__main__":
    main()
