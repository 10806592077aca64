"""How often the certificate covers in constrained and in conditional searches, whose optima are known.

    python experiments/certificate_sides.py --jobs 2 --seeds 12 --out runs/certificate-sides

Constrained: Gramacy's toy problem, a tension spring, a welded beam, a pressure vessel, a speed reducer; each seed has a
box of its own, shrunk at random towards the known optimum. Trees: three branches with parameters of their own, and a
tree of three levels, with offsets and optima that depend on the seed. The method is what "auto" takes for a run that is
to end by its certificate; the certificate is read after 8 d and 20 d evaluations (at most 120). It covers when its gap
is at least the recommended setting's true distance from the optimum; a recommendation that breaks a constraint is
counted as not covered.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

import regretless as rg
from regretless.optimizer import Optimizer

CHECKPOINTS, MOST = (8, 20), 120
"""Evaluations per parameter at which the certificate is read, and the most of a run."""
LEFT = 0.3
"""The least share of the way from the optimum to a bound of the published box that a seed's own box keeps."""


class Design(NamedTuple):
    """A published design problem: value and constraints (at most 0) of x, its box, and its known optimum."""

    value: Callable[..., float]
    constraints: Callable[..., list[float]]
    box: list[tuple[float, float]]
    best: float
    at: list[float]


def gramacy_constraints(a: float, b: float) -> list[float]:
    return [1.5 - a - 2 * b - 0.5 * math.sin(2 * math.pi * (a * a - 2 * b)), a * a + b * b - 1.5]


def spring_constraints(d: float, D: float, n: float) -> list[float]:
    return [
        1 - D**3 * n / (71785 * d**4),
        (4 * D * D - d * D) / (12566 * (D * d**3 - d**4)) + 1 / (5108 * d * d) - 1,
        1 - 140.45 * d / (D * D * n),
        (d + D) / 1.5 - 1,
    ]


def beam_constraints(h: float, w: float, t: float, b: float) -> list[float]:
    load, length, young, shear = 6000.0, 14.0, 30e6, 12e6
    first = load / (math.sqrt(2) * h * w)
    moment = load * (length + w / 2)
    radius = math.sqrt(w * w / 4 + ((h + t) / 2) ** 2)
    polar = 2 * math.sqrt(2) * h * w * (w * w / 12 + ((h + t) / 2) ** 2)
    second = moment * radius / polar
    stress = math.sqrt(first**2 + 2 * first * second * w / (2 * radius) + second**2)
    buckling = (
        4.013
        * young
        * math.sqrt(t * t * b**6 / 36)
        / length**2
        * (1 - t / (2 * length) * math.sqrt(young / (4 * shear)))
    )
    return [
        stress - 13600, 6 * load * length / (b * t * t) - 30000, h - b,
        0.10471 * h * h + 0.04811 * t * b * (14 + w) - 5, 0.125 - h,
        4 * load * length**3 / (young * t**3 * b) - 0.25, load - buckling,
    ]  # fmt: skip


def vessel_constraints(s: float, h: float, r: float, w: float) -> list[float]:
    return [-s + 0.0193 * r, -h + 0.00954 * r, -math.pi * r * r * w - 4 / 3 * math.pi * r**3 + 1296000]


DESIGNS = {
    "gramacy": Design(
        lambda a, b: a + b, gramacy_constraints, [(0, 1), (0, 1)], 0.599788, [0.19512, 0.40467]
    ),
    "spring": Design(
        lambda d, D, n: (n + 2) * D * d * d, spring_constraints, [(0.05, 2.0), (0.25, 1.3), (2.0, 15.0)], 0.0126652,
        [0.051689, 0.356718, 11.288966],
    ),
    "beam": Design(
        lambda h, w, t, b: 1.10471 * h * h * w + 0.04811 * t * b * (14 + w), beam_constraints,
        [(0.1, 2.0), (0.1, 10.0), (0.1, 10.0), (0.1, 2.0)], 1.724852, [0.20573, 3.470489, 9.036624, 0.20573],
    ),
    "vessel": Design(
        lambda s, h, r, w: 0.6224 * s * r * w + 1.7781 * h * r * r + 3.1661 * s * s * w + 19.84 * s * s * r,
        vessel_constraints, [(0.0625, 6.1875), (0.0625, 6.1875), (10.0, 200.0), (10.0, 240.0)], 5804.376,
        [0.7275922, 0.3596486, 37.69911, 240.0],
    ),
}  # fmt: skip
"""The vessel's thicknesses are taken as continuous here."""


def constrained(name: str, seed: int) -> tuple[Any, Callable[..., rg.Value], int, float]:
    """A space, an objective, the number of constraints and the least feasible value of a design in a seed's box."""
    design, rng = DESIGNS[name], np.random.default_rng(seed)
    space = {}
    for i, ((low, high), x) in enumerate(zip(design.box, design.at, strict=True)):
        kept = rng.uniform(LEFT, 1.0, 2)
        low, high = x - kept[0] * (x - low), x + kept[1] * (high - x)
        space[f"x{i}"] = rg.Float(low, high)

    def value(**params: float) -> rg.Value:
        x = list(params.values())
        return rg.Value(design.value(*x), constraints=design.constraints(*x))

    return space, value, len(design.constraints(*design.at)), design.best


def branches(seed: int) -> tuple[Any, Callable[..., float], int, float]:
    """Three branches, each with a log range, a whole number and a float of its own; the best value of each is its
    offset."""
    rng = np.random.default_rng(seed)
    offsets = rng.permutation([0.0, 0.05, 0.15])
    places = rng.uniform(0.15, 0.85, (3, 3))
    wholes = rng.integers(2, 15, 3)
    space: dict[str, Any] = {"kind": rg.Choice(["a", "b", "c"])}
    for kind in "abc":
        space |= {
            f"lr_{kind}": rg.Float(1e-4, 1.0, log=True, when={"kind": kind}),
            f"n_{kind}": rg.Int(1, 16, when={"kind": kind}),
            f"x_{kind}": rg.Float(3.0, 5.5, when={"kind": kind}),
        }

    def value(kind: str, **own: float) -> float:
        i = "abc".index(kind)
        lr, n, x = (own[f"{name}_{kind}"] for name in ("lr", "n", "x"))
        u, w = math.log10(lr) / 4 + 1, (x - 3) / 2.5
        return float(offsets[i] + (u - places[i, 0]) ** 2 + ((n - wholes[i]) / 15) ** 2 + (w - places[i, 2]) ** 2)

    return space, value, 0, 0.0


def levels(seed: int) -> tuple[Any, Callable[..., float], int, float]:
    """Three levels: a model with a penalty, a solver below one penalty, and a rate everywhere; known by its parts."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(0.15, 0.85, 4)
    best = int(rng.integers(2))
    space: dict[str, Any] = {
        "rate": rg.Float(1e-3, 10.0, log=True),
        "penalty": rg.Choice(["l1", "l2", "none"]),
        "C": rg.Float(0.5, 20.0, when={"penalty": ["l1", "l2"]}),
        "solver": rg.Choice(["saga", "cd"], when={"penalty": "l1"}),
        "tol": rg.Float(1e-6, 1e-2, log=True, when={"solver": "saga"}),
    }

    def value(rate: float, penalty: str, C: float = 1.0, solver: str = "cd", tol: float = 1e-4) -> float:
        total = (math.log10(rate) / 4 + 0.75 - u[0]) ** 2
        if penalty == "none":
            return total + 0.2
        total += ((C - 0.5) / 19.5 - u[1]) ** 2 * (1.5 if penalty == "l1" else 1.0)
        if penalty == "l2":
            return total + (0.0 if best else 0.1)
        return total + (0.05 if solver == "cd" else (math.log10(tol) / 4 + 1.5 - u[2]) ** 2 + (0.1 if best else 0.0))

    return space, value, 0, 0.0


CASES: dict[str, Callable[[int], tuple[Any, Callable[..., Any], int, float]]] = {
    **{name: (lambda seed, name=name: constrained(name, seed)) for name in DESIGNS},  # type: ignore[misc]
    "three branches": branches,
    "three levels": levels,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/certificate-sides"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--record", type=Path, help="a JSON file for the readings, written after every run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tasks = [(options.out, name, seed) for seed in range(options.seeds) for name in options.cases.split(",")]
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for future in tqdm(as_completed([pool.submit(readings, *task) for task in tasks]), total=len(tasks)):
            found += future.result()
            if options.record:
                options.record.write_text(json.dumps(found) + "\n")
    print(table(found))


def readings(out: Path, name: str, seed: int) -> list[dict[str, Any]]:
    """A row per checkpoint of one run; kept in a file."""
    path = out / f"{name.replace(' ', '-')}-{seed}.json"
    if path.exists():
        stored: list[dict[str, Any]] = json.loads(path.read_text())
        return stored
    space, value, constraints, best = CASES[name](seed)
    dim = len(space)
    budget = min(CHECKPOINTS[-1] * dim, MOST)
    opt, found = Optimizer(space, seed=seed, budget=budget, certify=True, constraints=constraints), []
    for n in range(1, budget + 1):
        trial = opt.ask()
        got = value(**trial.params)
        opt.tell(trial, got.value, constraints=got.constraints) if constraints else opt.tell(trial, got)
        if n in (CHECKPOINTS[0] * dim, budget):
            certificate, chosen = opt.certificate, value(**opt.recommend())
            reached, broken = (chosen.value, max(*chosen.constraints, 0.0)) if constraints else (chosen, 0.0)
            told = [t.value for t in opt.trials if t.value is not None]
            found.append(
                {
                    "case": name, "seed": seed, "n": n, "dim": dim, "method": str(opt.recipe), "kind": certificate.kind,
                    "reason": certificate.reason, "gap": certificate.gap if certificate.certified else None,
                    "true": reached - best, "broken": broken, "feasible": certificate.feasible,
                    "range": max(told) - min(told),
                }
            )  # fmt: skip
    path.write_text(json.dumps(found))
    return found


def table(found: list[dict[str, Any]]) -> str:
    titles = [
        "case",
        "readings",
        "certified",
        "covered",
        "median gap / range",
        "median true gap / range",
        "why not certified",
    ]
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        groups[row["case"]].append(row)
    for name in [name for name in CASES if name in groups]:
        mine = groups[name]
        sure = [row for row in mine if row["gap"] is not None]
        right = sum(row["gap"] >= row["true"] - 1e-6 * abs(row["true"]) and row["broken"] <= 0 for row in sure)
        gaps = [np.median([row[key] / row["range"] for row in sure]) if sure else math.nan for key in ("gap", "true")]
        why: dict[str, int] = defaultdict(int)
        for row in mine:
            if row["gap"] is None:
                why[re.sub(r" [\d.e+-]+", "", row["reason"].partition(":")[0])] += 1
        reasons = "; ".join(f"{reason} ({count})" for reason, count in why.items())
        cells = [
            name,
            str(len(mine)),
            str(len(sure)),
            f"{right} of {len(sure)}",
            *(f"{gap:.3g}" for gap in gaps),
            reasons,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
