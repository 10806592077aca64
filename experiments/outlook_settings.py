"""How often statements about single settings are right: `rg.compare`, `Optimizer.predict` and `result.rivals`.

    python experiments/outlook_settings.py --out runs/outlook/settings.json --runs 5 --minutes 10     # record
    python experiments/outlook_settings.py runs/outlook/settings.json                                 # judge

Noisy runs of `auto` on the families of `outlook_records.py`, whose truth is known. At checkpoints settings are
compared: the recommended one with others that were evaluated, and pairs of the best ones by their means. A record is
(mean difference) / (its sd by the model) and what was true. `WIDER` is chosen on all families but one and judged there.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from outlook_records import KINDS, NOISE, STREAM, _spread
from scipy.special import ndtr, stdtr, stdtrit

from regretless.basics.streams import keyed_generator
from regretless.optimizer import Optimizer
from regretless.outlook import estimates as module
from regretless.outlook.estimates import SURE, TAIL, estimates_of
from regretless.space.parameters import Array

FAMILIES = (
    "classics", "bowls", "turned", "valleys", "mechanistic", "gp-smooth", "gp-rough", "warped", "additive", "networks",
    "peaks", "steps", "rough", "labels", "mixed", "narrow-peaks", "gkls", "facets", "trees", "grids", "mlp-tables",
    "rpart", "kernels",
)  # fmt: skip
AT = (12, 20, 35, 60)
"""The numbers of trials after which statements are made."""
BANDS = ((0.55, 0.7), (0.7, 0.8), (0.8, 0.87), (0.87, 0.93), (0.93, 0.97), (0.97, 0.99), (0.99, 1.0))


def record(family: str, number: int) -> list[dict[str, Any]]:
    """What was said at the checkpoints of one run, and what was true."""
    warnings.simplefilter("ignore")
    rng = keyed_generator(number, sum(family.encode()), stream=STREAM)
    problem = KINDS[family].make(number, rng)
    problem.noise_sd, problem.seed = float(rng.choice(NOISE)) * _spread(problem), number
    told = bool(rng.random() < 0.3)
    opt = Optimizer(problem.space, direction=problem.direction, budget=AT[-1], seed=number)
    true: dict[int, float] = {}
    found = []
    while len(opt.trials) < AT[-1]:
        trial = opt.ask()
        true[trial.number] = problem.sign * float(problem.true(trial.params))
        opt.tell(trial, problem.observe(trial.params).y, var=problem.noise_sd**2 if told else None)
        if len(opt.trials) in AT and opt.method.noise(opt.history).shows:
            found.append(statements(opt, true, problem, rng) | {"family": family, "number": number, "told": told})
    return found


def statements(opt: Optimizer, true: dict[int, float], problem: Any, rng: np.random.Generator) -> dict[str, Any]:
    """The comparisons and predictions at one moment."""
    known = estimates_of(opt.task, opt.method, opt.history)
    units = {opt.space.encode(t.given).tobytes(): true[t.number] for t in opt.trials}
    X, truth = np.array([np.frombuffer(key) for key in units]), np.array(list(units.values()))
    best = opt.space.encode(opt.recommend())
    mean, C = known.joint(X)
    C = C / module.WIDER**2
    at = next((i for i, x in enumerate(X) if np.array_equal(x, best)), int(np.argmax(mean)))
    top = np.argsort(-mean, kind="stable")[:10]
    pairs = [(at, int(j)) for j in rng.permutation(len(X))[:12] if j != at]
    pairs += [(int(a), int(b)) for a, b in rng.choice(top, (8, 2)) if a != b]
    sd = [math.sqrt(max(C[i, i] + C[j, j] - 2 * C[i, j], 1e-300)) for i, j in pairs]
    z = [(mean[j] - mean[i]) / s for (i, j), s in zip(pairs, sd, strict=True)]
    won = [float(truth[j] > truth[i]) + 0.5 * float(truth[j] == truth[i]) for i, j in pairs]
    new = [problem.space.cube().draw(rng) for _ in range(6)]
    points = [*X[rng.permutation(len(X))[:6]], best, *new]
    values = [problem.sign * float(problem.true(problem.space.decode(x))) for x in points]
    level, cov = known.joint(np.array(points))
    sds = np.sqrt(np.maximum(cov.diagonal(), 1e-300)) / module.WIDER
    off = [(_standard(known, v) - m) / s for v, m, s in zip(values, level, sds, strict=True)]
    draws = known.drawn(X)
    better = (draws > draws[:, [at]]).mean(axis=0)
    held = bool(truth[at] == truth.max() or any(better[i] > 1 - SURE for i in np.flatnonzero(truth == truth.max())))
    return {
        "n": len(opt.trials), "z": z, "won": won, "off": off,
        "held": held, "rivals": int((better > 1 - SURE).sum()),
    }  # fmt: skip


def _standard(known: Any, value: float) -> float:
    """A value as the model sees it."""
    seen = known.compressed(np.array([value]))[0][0]
    return float((seen - known.gp.offset) / known.gp.scale)


# ---------------------------------------------------------------- the judgement


def chosen(z: Array, won: Array, weight: Array) -> float:
    """The factor with which statements of about SURE are right as often as they say."""
    grid = np.arange(0.8, 2.5, 0.02)

    def excess(k: float) -> float:
        p = stdtr(TAIL, np.abs(z) / k)
        right = np.where(z > 0, won, 1 - won)
        band = (p > SURE - 0.05) & (p < SURE + 0.05)
        return abs(float(np.average(right[band] - p[band], weights=weight[band])))

    return float(min(grid, key=excess))


def judged(rows: list[dict[str, Any]]) -> str:
    """The tables."""
    rows = [row for row in rows if row.get("shows", True)]
    z = np.concatenate([row["z"] for row in rows])
    won = np.concatenate([row["won"] for row in rows])
    family = np.concatenate([[row["family"]] * len(row["z"]) for row in rows])
    names = sorted(set(family))
    weight = np.array([1.0 / (family == f).sum() for f in family])
    k = {f: chosen(z[family != f], won[family != f], weight[family != f]) for f in names}
    ship = chosen(z, won, weight)
    own = np.array([k[f] for f in family])
    lines = [f"{len(rows)} moments, {len(z)} comparisons, {len(names)} families; factor {ship:.2f} "
             f"(without a family {min(k.values()):.2f} to {max(k.values()):.2f})"]  # fmt: skip
    right = np.where(z > 0, won, 1 - won)
    lines += ["", "| stated | statements | right | right by the model alone |", "| --- | --- | --- | --- |"]
    p, plain = stdtr(TAIL, np.abs(z) / own), ndtr(np.abs(z))
    for low, high in BANDS:
        band, other = (p >= low) & (p < high), (plain >= low) & (plain < high)
        lines.append(
            f"| {low} to {high} (mean {np.average(p[band], weights=weight[band]):.2f}) | {band.sum()} | "
            f"{np.average(right[band], weights=weight[band]):.3f} | "
            f"{np.average(right[other], weights=weight[other]):.3f} |"
        )
    lines += ["", "| family | statements of .85 to .95 | right |", "| --- | --- | --- |"]
    for f in names:
        band = (family == f) & (p > SURE - 0.05) & (p < SURE + 0.05)
        lines.append(f"| {f} | {band.sum()} | {right[band].mean():.2f} |")
    off = np.array([row["off"] for row in rows])
    of = np.array([row["family"] for row in rows])
    factor = np.array([k[f] for f in of])[:, None]
    halves = stdtrit(TAIL, [0.9, 0.975])
    kinds = {"evaluated": off[:, :6], "recommended": off[:, 6:7], "new": off[:, 7:]}
    lines += ["", "| predicted | .8 interval | .95 interval | weakest family at .8 |", "| --- | --- | --- | --- |"]
    for kind, found in kinds.items():
        inside = [np.mean([(np.abs(found) < half * factor)[of == f].mean() for f in names]) for half in halves]
        each = {f: float((np.abs(found) < halves[0] * factor)[of == f].mean()) for f in names}
        weak = min(names, key=lambda f: each[f])
        lines.append(f"| {kind} | {inside[0]:.2f} | {inside[1]:.2f} | {weak} {each[weak]:.2f} |")
    held = np.array([row["held"] for row in rows])
    count = np.median([row["rivals"] for row in rows])
    lines += ["", f"The best of all settings was the recommended one or among its rivals in {held.mean():.3f} of "
              f"{len(held)} moments; rivals in the median: {count:.0f}."]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--first", type=int, default=9000)
    options = parser.parse_args()
    if options.out is None:
        print(judged([row for path in options.records for row in json.loads(path.read_text())]))
        return
    until, rows, missing = time.monotonic() + 60 * options.minutes, [], set()
    for number in range(options.first, options.first + options.runs):
        for family in options.families.split(","):
            if time.monotonic() > until or family in missing:
                continue
            try:
                rows += record(family, number)
            except Exception as error:  # a family whose data are not here is named
                missing.add(family)
                print(f"{family} could not run: {type(error).__name__}: {error}", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows))
    print(judged(rows))


if __name__ == "__main__":
    main()
