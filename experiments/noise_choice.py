"""What `auto` does under noise was chosen on these families: valleys and peaks outside bbob, and bbob's odd functions.

    python experiments/noise_choice.py --jobs 2 --dims 2,3 --levels 15,30 --instances 41,42 --out runs/noise_choice
    python experiments/noise_choice.py --out runs/noise_choice --table

A case is a family with an instance, which turns and shifts it, a dimension and a level, the noise's sd as a per cent
of the interquartile range of the function. Each case has noise of its own, the same for all methods. Losses are those
of the true value, in standard deviations of the noise: of the best point evaluated, of the one with the luckiest value,
of the one recommended, and the median of the last fifth of the points. The table has the means of their logarithms,
where losses below a thousandth of an sd count as that, and the change of the recommended one against the first method.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from regretless_bench.pool import Progress, work_in_processes
from regretless_bench.problems import make_problem
from regretless_bench.runner import method_named
from scipy.optimize import minimize

from regretless.auto import find_recipe
from regretless.models.gp.sobol import sobol_points
from regretless.space.parameters import Array
from regretless.testing import Loop

Rows: TypeAlias = Callable[[Array], Array]
Case: TypeAlias = tuple[str, int, int, int, str]
"""Family, dimension, level, instance and method."""
PER_DIMENSION = 50  # evaluations per dimension, as in the suites `noise-S-D` of experiments/auto_choice.py
QUARTILE_POINTS, OPTIMUM_POINTS = 1024, 1 << 14
"""Sobol points for the interquartile range, and those from which the optimum of many peaks is sought."""
LEAST = 1e-3
"""Losses below this share of the noise's sd count as it: nobody could tell them apart by noisy values."""


# ---------------------------------------------------------------- valleys: functions of turned and shifted coordinates


def weights(Z: Array, condition: float) -> Array:
    return np.asarray(condition ** (np.arange(Z.shape[1]) / max(1, Z.shape[1] - 1)))


def ellipsoid(condition: float) -> Rows:
    return lambda Z: np.asarray(Z**2 @ weights(Z, condition))


def rosenbrock(scale: float) -> Rows:
    def rows(Z: Array) -> Array:
        Y = scale * Z + 1.0
        return np.asarray((100 * (Y[:, 1:] - Y[:, :-1] ** 2) ** 2 + (Y[:, :-1] - 1) ** 2).sum(axis=1))

    return rows


def zakharov(Z: Array) -> Array:
    s = (2.5 * np.arange(1, Z.shape[1] + 1) * Z).sum(axis=1)
    return np.asarray(25 * (Z**2).sum(axis=1) + s**2 + s**4)


def dixon_price(Z: Array) -> Array:
    i = np.arange(1, Z.shape[1] + 1)
    Y = 4 * Z + 2.0 ** (-(2.0**i - 2) / 2.0**i)
    return np.asarray((Y[:, 0] - 1) ** 2 + (i[1:] * (2 * Y[:, 1:] ** 2 - Y[:, :-1]) ** 2).sum(axis=1))


def sector(steep: float, stretch: float) -> Rows:
    """A bowl that is steeper on one side of each axis."""

    def rows(Z: Array) -> Array:
        Y = Z * weights(Z, stretch)
        return np.asarray((np.where(Y > 0, steep * Y, Y) ** 2).sum(axis=1) ** 0.9)

    return rows


def steps(Z: Array) -> Array:
    Y = 4 * Z * np.sqrt(weights(Z, 30.0))
    W = np.where(np.abs(Y) > 0.5, np.floor(0.5 + Y), np.floor(0.5 + 10 * Y) / 10)
    return np.asarray((W**2).sum(axis=1) + 0.01 * np.abs(Y).sum(axis=1))


def quartic(Z: Array) -> Array:
    return np.asarray(5.0 * (Z**2).sum(axis=1) + (Z**2 @ weights(Z, 100.0)) ** 2)


VALLEYS: dict[str, Rows] = {
    "rosenw": rosenbrock(8.0), "sector100": sector(100.0, math.sqrt(10.0)), "quartic": quartic,
    "expbowl": lambda Z: np.expm1(2.5 * np.sqrt(Z**2 @ weights(Z, 30.0) + 1e-12)),
    "ell2": ellipsoid(1e2), "ell3": ellipsoid(1e3), "ell4": ellipsoid(1e4), "rosen": rosenbrock(2.0),
    "zakharov": zakharov, "dixon": dixon_price, "cigar": lambda Z: Z[:, 0] ** 2 + 1e4 * (Z[:, 1:] ** 2).sum(axis=1),
    "powers": lambda Z: (np.abs(3 * Z) ** np.linspace(2, 4, Z.shape[1])).sum(axis=1),
    "abs": lambda Z: np.abs(Z) @ weights(Z, 10.0), "sector": sector(10.0, 1.0), "steps": steps,
    "ridge": lambda Z: 4 * Z[:, 0] ** 2 + 20 * np.sqrt((Z[:, 1:] ** 2).sum(axis=1)),
}  # fmt: skip
HEAVY = ("rosenw", "sector100", "expbowl", "quartic", "zakharov", "dixon", "f9")
"""Families whose values far from the optimum are so large that the noise hides all differences around it."""


# ---------------------------------------------------------------- many peaks


def peaks(count: int, width: float, dim: int, rng: np.random.Generator) -> Rows:
    """The upper envelope of Gaussian peaks, turned down."""
    C, h = rng.uniform(0.08, 0.92, (count, dim)), np.sort(rng.uniform(0.4, 0.95, count))
    h[-1] = 1.1
    A = [turned(rng, dim) / (width * math.sqrt(dim) * np.exp(rng.uniform(-0.5, 0.5, dim))) for _ in range(count)]

    def rows(U: Array) -> Array:
        r2 = np.stack([(((U - c) @ a) ** 2).sum(axis=1) for c, a in zip(C, A, strict=True)], axis=1)
        return np.asarray(1 - (h * np.exp(-0.5 * r2)).max(axis=1))

    return rows


def mixture(dim: int, rng: np.random.Generator) -> Rows:
    C, h = rng.uniform(0.1, 0.9, (6, dim)), rng.uniform(0.3, 1, 6)
    w = 0.12 * math.sqrt(dim) * np.exp(rng.uniform(-0.5, 0.5, 6))
    return lambda U: -(h * np.exp(-0.5 * ((U[:, None] - C) ** 2).sum(axis=2) / w**2)).sum(axis=1)


def gkls(dim: int, rng: np.random.Generator) -> Rows:
    """A paraboloid with ten balls in which it is replaced by a well (Gaviano, Kvasov, Lera and Sergeyev 2003)."""
    T, C = rng.uniform(0.2, 0.8, dim), rng.uniform(0.05, 0.95, (10, dim))
    while np.linalg.norm(C - T, axis=1).min() < 0.15:
        C = rng.uniform(0.05, 0.95, (10, dim))
    gaps = [np.linalg.norm(np.vstack([T, C]) - c, axis=1) for c in C]
    radius = np.minimum([0.45 * gap[gap > 0].min() for gap in gaps], 0.25 * math.sqrt(dim / 2))
    bottom = rng.uniform(0, 0.3, 10)
    bottom[0] = -1.0

    def rows(U: Array) -> Array:
        out = 4 * ((U - T) ** 2).sum(axis=1)
        for c, r, v in zip(C, radius, bottom, strict=True):
            t = np.minimum(np.linalg.norm(U - c, axis=1) / r, 1.0)
            s = 1 - t * t * (3 - 2 * t)
            out = out * (1 - s) + v * s
        return np.asarray(out)

    return rows


def funnels(dim: int, rng: np.random.Generator) -> Rows:
    """A broad funnel and a narrower, deeper one, both with ripples."""
    a, b = rng.uniform(0.15, 0.85, dim), rng.uniform(0.15, 0.85, dim)
    while np.linalg.norm(a - b) < 0.45 * math.sqrt(dim / 2):
        b = rng.uniform(0.15, 0.85, dim)

    def rows(U: Array) -> Array:
        broad, deep = 8 * ((U - a) ** 2).mean(axis=1) + 0.25, 20 * ((U - b) ** 2).mean(axis=1)
        away = np.where((broad < deep)[:, None], U - a, U - b)
        return np.asarray(np.minimum(broad, deep) + 0.06 * (1 - np.cos(12 * np.pi * away)).mean(axis=1))

    return rows


def ripples(dim: int, rng: np.random.Generator) -> Rows:
    a, axes = rng.uniform(0.2, 0.8, dim), turned(rng, dim)

    def rows(U: Array) -> Array:
        Z = (U - a) @ axes
        fine = 0.3 * (1 - np.cos(6 * np.pi * Z)).mean(axis=1)
        return np.asarray(3 * (Z**2).mean(axis=1) + fine + 0.2 * (1 - np.cos(4 * np.pi * Z.sum(axis=1) / dim**0.5)))

    return rows


PEAKS: dict[str, Callable[[int, np.random.Generator], Rows]] = {
    "wide": functools.partial(peaks, 8, 0.18), "narrow": functools.partial(peaks, 25, 0.07), "mix": mixture,
    "gkls": gkls, "funnels": funnels, "ripples": ripples,
}  # fmt: skip
ODD = tuple(f"f{k}" for k in range(1, 25, 2) if k != 5)
"""The odd functions of bbob but the linear slope, whose optimum in a corner is met exactly or not at all."""
FAMILIES = (*VALLEYS, *PEAKS, *ODD)


def turned(rng: np.random.Generator, dim: int) -> Array:
    axes, r = np.linalg.qr(rng.standard_normal((dim, dim)))
    return np.asarray(axes * np.sign(np.diag(r)))


def group_of(family: str) -> str:
    return "heavy" if family in HEAVY else "valley" if family in VALLEYS else "peak" if family in PEAKS else "odd"


def function_of(family: str, dim: int, instance: int) -> tuple[Rows, float]:
    """The function of cube points, to be minimised, and its least value."""
    if family in ODD:
        problem = make_problem("bbob", function=int(family[1:]), dim=dim, instance=instance, seed=0)
        return problem.true_unit, float(problem.optimum or 0.0)
    rng = np.random.default_rng([zlib.crc32(family.encode()), dim, instance])
    if family in VALLEYS:
        centre, axes, rows = rng.uniform(0.2, 0.8, dim), turned(rng, dim), VALLEYS[family]
        return lambda U: rows((U - centre) @ axes), 0.0
    peaked = PEAKS[family](dim, rng)
    U = sobol_points(OPTIMUM_POINTS, dim, np.random.default_rng(0))
    found = [float(peaked(U).min())]
    for u in U[np.argsort(peaked(U))[:20]]:
        fine = {"xatol": 1e-6, "fatol": 1e-10, "maxiter": 400}
        end = minimize(lambda x: float(peaked(np.clip(x, 0, 1)[None])[0]), u, method="Nelder-Mead", options=fine)
        found.append(float(end.fun))
    return peaked, min(found)


# ---------------------------------------------------------------- running


def run_case(out: Path, deadline: float, case: Case, progress: Progress) -> None:
    """Runs a method on a case and appends its losses in sds of the noise; nothing when the time is over."""
    if time.time() > deadline:
        return
    family, dim, level, instance, name = case
    f, optimum = function_of(family, dim, instance)
    low, high = np.quantile(f(sobol_points(QUARTILE_POINTS, dim, np.random.default_rng(0))), [0.25, 0.75])
    sd, budget, seed = level / 100 * float(high - low), PER_DIMENSION * dim, 100 * instance
    noise = np.random.default_rng([seed, 7, dim, level, zlib.crc32(family.encode())]).standard_normal(budget)
    named = method_named(name)
    loop = Loop((find_recipe(named) if isinstance(named, str) else named).build(dim, seed=seed, budget=budget))
    true, begin = np.empty(budget), time.process_time()
    for k in range(budget):
        x = loop.ask()
        true[k] = f(x)[0]
        loop.tell(x, [-(true[k] + sd * noise[k])])
    x = np.atleast_2d(loop.recommend())
    ms = 1000 * (time.process_time() - begin) / budget
    losses = {"best": true.min(), "luckiest": true[np.argmin(true + sd * noise)], "recommended": f(x)[0],
              "late": np.median(true[-budget // 5 :])}  # fmt: skip
    row = {"case": case, **{key: float(value - optimum) / sd for key, value in losses.items()}, "ms": round(ms, 3)}
    with open(out, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    progress(1)


def rows_of(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.strip()]


def table(rows: Sequence[dict[str, Any]], methods: Sequence[str]) -> str:
    by: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        by.setdefault(tuple(row["case"][:4]), {})[row["case"][4]] = row
    shared = {case: ran for case, ran in by.items() if all(m in ran for m in methods)}
    groups = ["all", *dict.fromkeys(group_of(case[0]) for case in shared)]
    kinds = ("best", "luckiest", "late", "recommended")
    head = [f"{g} ({sum(g in ('all', group_of(case[0])) for case in shared)})" for g in groups]
    lines = ["| " + " | ".join(["method", *kinds, *head, "ms"]) + " |", "|" + " --- |" * (6 + len(head))]
    for m in methods:
        logs = {k: np.log10([max(ran[m][k], LEAST) for ran in shared.values()]) for k in kinds}
        first = np.log10([max(ran[methods[0]]["recommended"], LEAST) for ran in shared.values()])
        cells = [m, *(f"{logs[k].mean():.2f}" for k in kinds)]
        for g in groups:
            at = [n for n, case in enumerate(shared) if g in ("all", group_of(case[0]))]
            change = (logs["recommended"] - first)[at]
            error = change.std(ddof=1) / len(at) ** 0.5 if len(at) > 1 else math.nan
            cells.append(f"{change.mean():+.2f} ± {error:.2f}")
        cells.append(f"{np.mean([ran[m]['ms'] for ran in shared.values()]):.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--dims", default="2,3")
    parser.add_argument("--levels", default="15,30", help="the noise's sd as per cents of the interquartile range")
    parser.add_argument("--instances", default="41")
    parser.add_argument("--methods", default="auto gp-ucb gp-ts cma-es", help="names separated by blanks")
    parser.add_argument("--out", type=Path, default=Path("runs/noise_choice"), help="the folder of the outcomes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e6, help="after these no further run begins")
    parser.add_argument("--table", action="store_true", help="only the table of what has been run")
    options = parser.parse_args()
    dims, levels, instances = (
        [int(w) for w in o.split(",")] for o in (options.dims, options.levels, options.instances)
    )
    methods, out = options.methods.split(), options.out / "outcomes.jsonl"
    if not options.table:
        options.out.mkdir(parents=True, exist_ok=True)
        there = {tuple(row["case"]) for row in rows_of(out)}
        cases = [(f, d, level, i, m) for i in instances for level in levels for d in dims
                 for f in options.families.split(",") for m in methods]  # fmt: skip
        work = functools.partial(run_case, out, time.time() + 60 * options.minutes)

        def lose(case: Case, why: str, steps: int) -> None:
            print(f"{case}: {why}", file=sys.stderr)

        work_in_processes(work, [c for c in cases if c not in there], options.jobs, lost=lose, progress=lambda n: None,
                          left=lambda number: None, timeout=60 * options.minutes)  # fmt: skip
    print(table(rows_of(out), methods))


if __name__ == "__main__":
    main()
