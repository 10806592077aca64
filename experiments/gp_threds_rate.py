"""GP-ThreDS, Theorem 2: does the cumulative regret grow like sqrt(T gamma_T), up to log^2 T?

    python experiments/gp_threds_rate.py --jobs 2 --out runs/gp_threds_rate          T = 250 to 8000, 10 functions
    python experiments/gp_threds_rate.py --jobs 16 --out runs/gp_threds_rate --full  T to 32,000, 20 functions
    python experiments/gp_threds_rate.py --out runs/gp_threds_rate --report          from the records there are

Functions of norm 4 (combinations of 12 kernels with random centres and weights), noise sd 0.1, the kernel known, the
interval [-4, 4] that the norm implies. The method as printed has B = 4 (true), B = 0.5 (its constant, too small) and B
doubled from 0.5 when the values refute it; beside it stand the walk of Alg. 2 with B = 4, our default, and IGP-UCB. A
run is read at every T, because only the walk knows it. gamma_T is the information gain of T greedy points of the first
test's grid, which is the maximum up to a factor of 1 - 1/e. The table has the slope of log R_T on log(T gamma_T), one
per function, mean and standard error: the theorem says at most 1/2 plus what log^2 T adds, which is another 0.2 to 0.3
at these T.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.claims import experiment_options, keep_results, needed, stored
from regretless_bench.methods import RIVALS

from regretless.method import Recipe
from regretless.methods import METHODS
from regretless.methods.gp_threds.default import POINTS_PER_AXIS
from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import correlation, product_grid
from regretless.testing import Loop

LENGTHSCALE, NOISE_SD, CENTRES, NORM = 0.2, 0.1, 12, 4.0
SETTINGS: dict[str, tuple[KernelKind, int]] = {
    "SE, d = 1": ("se", 1),
    "SE, d = 2": ("se", 2),
    "Matern, d = 2": ("matern52", 2),
}
TS, FULL_TS = tuple(250 * 2**k for k in range(6)), tuple(250 * 2**k for k in range(8))
LAST, LINEAR = 4, 1.8
"""The slope at the end is that of so many T; a regret that grows by more than this while T doubles is near linear."""
FIRST_SEED = 300
"""Functions from 0 and from 100 were in view while the method and its certificate were built."""
FINE = {1: 2001, 2: 301}
"""Points per axis of the grid that f* is read from; between them a function of norm 4 moves by less than 0.002."""


def recipes(kernel: KernelKind) -> dict[str, Recipe]:
    """Label -> method, all with the kernel and the noise known."""
    known: dict[str, Any] = {"kernel": kernel, "lengthscale": LENGTHSCALE, "noise_sd": NOISE_SD}
    threds, printed, box = METHODS["gp-threds"], METHODS["gp-threds-printed"], {"interval": (-NORM, NORM)}
    return {
        "as printed, B = 4": printed(assumed_norm=NORM, **box, **known),
        "as printed, B = 0.5": printed(assumed_norm=0.5, **box, **known),
        "as printed, B doubled": printed(assumed_norm="doubling", **box, **known),
        "walk, B = 4": printed(search="walk", assumed_norm=NORM, **box, **known),
        "our default": threds(**known),
        "our default, B doubled": threds(assumed_norm="doubling", **known),
        "IGP-UCB, B = 4": RIVALS["igp-ucb"](fitted=False, gain="log", assumed_norm=NORM, **known),
    }


def study(setting: str, label: str, seed: int, ts: tuple[int, ...]) -> dict[str, Any]:
    """One run: the cumulative regret at every T."""
    kernel, dim = SETTINGS[setting]
    rng = np.random.default_rng([FIRST_SEED, seed])
    Z, w = rng.random((CENTRES, dim)), rng.standard_normal(CENTRES)
    w *= NORM / math.sqrt(w @ correlation(kernel, Z, Z, LENGTHSCALE) @ w)
    grid = product_grid([np.linspace(0, 1, FINE[dim])] * dim)
    best = float((correlation(kernel, grid, Z, LENGTHSCALE) @ w).max())
    loop = Loop(recipes(kernel)[label].build(dim, seed=seed, budget=ts[-1]))
    noise = NOISE_SD * rng.standard_normal(ts[-1])
    regret, found, clock = 0.0, [], time.process_time()
    for t in range(ts[-1]):
        X = loop.ask()
        value = float((correlation(kernel, X, Z, LENGTHSCALE) @ w)[0])
        regret += best - value
        loop.tell(X, value + noise[t])
        if t + 1 in ts:
            found.append(regret)
    run = getattr(loop.method, "run", None)
    norm = run.widths.norm if hasattr(run, "widths") else None
    record = {"setting": setting, "label": label, "seed": seed, "T": list(ts), "regret": found, "f*": best, "B": norm}
    return {**record, "seconds": time.process_time() - clock}


@lru_cache(maxsize=8)
def gains(setting: str, ts: tuple[int, ...]) -> list[float]:
    """gamma_T at every T: the gain of the points of largest variance, one after another, on the grid of a test."""
    kernel, dim = SETTINGS[setting]
    grid = product_grid([np.linspace(0, 1, POINTS_PER_AXIS[dim])] * dim)
    covariance = correlation(kernel, grid, grid, LENGTHSCALE)
    gain, found, noise_var = 0.0, [], NOISE_SD**2
    for t in range(ts[-1]):
        at = int(np.diagonal(covariance).argmax())
        column = covariance[:, at].copy()
        gain += 0.5 * math.log1p(column[at] / noise_var)
        covariance -= np.outer(column, column / (column[at] + noise_var))
        if t + 1 in ts:
            found.append(gain)
    return found


def slopes(records: list[dict[str, Any]], against: np.ndarray, last: int = 0) -> np.ndarray:
    """The slope of log R_T on `against`, over all T or the last so many, one per function."""
    return np.array([
        np.polyfit(against[-last:], np.log(np.maximum(r["regret"][-last:], 1e-9)), 1)[0] for r in records
    ])  # fmt: skip


def table(records: list[dict[str, Any]]) -> str:
    """Mean cumulative regrets and slopes with standard errors, in Markdown."""
    ts = tuple(records[0]["T"])
    sizes = " | ".join(f"R at {t}" for t in ts)
    lines = [
        f"| setting | method | functions | {sizes} | slope on log(T gamma_T) | of the last {LAST} T "
        "| linear at the end | last B |",
        "|" + " --- |" * (len(ts) + 7),
    ]
    for setting in SETTINGS:
        if not any(r["setting"] == setting for r in records):
            continue
        gamma = np.array(gains(setting, ts))
        for label in recipes("se"):
            group = [r for r in records if (r["setting"], r["label"]) == (setting, label)]
            if not group:
                continue
            means = " | ".join(spread(np.array([r["regret"][i] for r in group])) for i in range(len(ts)))
            whole = np.log(np.array(ts) * gamma)
            rates = [slopes(group, whole), slopes(group, whole, LAST)]
            stuck = sum(r["regret"][-1] > LINEAR * r["regret"][-2] for r in group)
            norms = [r["B"] for r in group if r["B"] is not None]
            last = f"{min(norms):g} to {max(norms):g}" if norms else ""
            fitted = " | ".join(spread(rate) for rate in rates)
            lines.append(f"| {setting} | {label} | {len(group)} | {means} | {fitted} | {stuck} | {last} |")
        lines.append(f"| {setting} | gamma_T | | {' | '.join(f'{g:.1f}' for g in gamma)} | | | | |")
        bound = np.log(np.log(np.array(ts)) ** 2 * np.sqrt(np.array(ts) * gamma))
        x = np.log(np.array(ts) * gamma)
        rates = [np.polyfit(x[-n:], bound[-n:], 1)[0] for n in (len(ts), LAST)]
        empty, fitted = " | ".join("" for _ in ts), " | ".join(f"{rate:.2f}" for rate in rates)
        lines.append(f"| {setting} | sqrt(T gamma_T) log^2 T | | {empty} | {fitted} | | |")
    return "\n".join(lines)


def spread(values: np.ndarray) -> str:
    """A mean with its standard error, as text."""
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{values.mean():.3g} ± {error:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", default="; ".join(SETTINGS), help="labels, separated by semicolons")
    options = experiment_options(parser, "runs/gp_threds_rate", seeds=(10, 20))
    ts = FULL_TS if options.full else TS
    names = [name.strip() for name in options.settings.split(";")]
    cells = [(name, label, seed) for seed in range(options.seeds) for name in names for label in recipes("se")]
    missing = [] if options.report else [cell for cell in cells if not _path(options.out, *cell, ts).exists()]
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        keep_results({pool.submit(study, *cell, ts): _path(options.out, *cell, ts) for cell in missing}, "run")
    places = [_path(options.out, *cell, ts) for cell in cells]
    text = table(needed(stored(places), options))
    (options.out / "table.md").write_text(text + "\n")
    print(text)


def _path(out: Path, setting: str, label: str, seed: int, ts: tuple[int, ...]) -> Path:
    words = "_".join(f"{setting} {label}".replace(",", "").replace("= ", "").split())
    return out / f"{words}-T{ts[-1]}-s{seed}.json"


if __name__ == "__main__":
    main()
