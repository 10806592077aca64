"""When `GapBelow` stops, and whether it was right to, family by family: eps = 5 % of the range, delta = .05, at most
60 d evaluations of the verifying GP-UCB, a fifth of them uniform probes as in every run with such a rule.

    python experiments/stopping.py --jobs 2 --out runs/stopping [--seeds 0-5] [--dims 1,2,3] [--probes 0.2] [--optuna 6]

A stop is right when the true gap of the recommended point is at most eps, 5 % of the range of the values seen by then.
The rule is that of `regretless.outlook.stopping`: certified at SPENT_PER_CHECK of delta, with LEAST_DENSITY values for
each independent place, at CHECKS_IN_A_ROW checks in a row.
For each family the width's constant SCALED and the part of delta that a check spends are chosen on the other families
that are not made of needles: of the pairs whose stops are right in 97 % of the cases over all of them and in 95 % in
each, the one that stops most runs. Beside it stands what ships. With --optuna the regret bound of Optuna's
terminator (`RegretBoundEvaluator`, asked after every fifth trial from the twentieth on, the same eps as its error)
watches the very same runs; its point is the best one observed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.histories import History, case, history, recommended
from regretless_bench.problems.families import FAMILIES
from tqdm import tqdm

from regretless.models.gp.certify import LEAST_PER_DIM, ROUGHNESS, SCALED, Evidence, cells, conservative_surrogate
from regretless.models.gp.surrogate import Surrogate
from regretless.outlook.stopping import CHECKS_IN_A_ROW, LEAST_DENSITY, SPENT_PER_CHECK
from regretless.space import Space

EPS, DELTA, PER_DIM = 0.05, 0.05, 60
OPTUNA_EVERY, OPTUNA_FROM = 5, 20
"""Trials between two looks of Optuna's terminator, and its own least number of trials."""
GRID = list(itertools.product((0.65, 0.75, 0.9, 1.1), (ROUGHNESS,), (0.2, 0.05)))
"""The triples (SCALED, ROUGHNESS, SPENT_PER_CHECK) among which a choice is made; ROUGHNESS stays."""
SHIPPED = GRID.index((SCALED, ROUGHNESS, SPENT_PER_CHECK))
OVERALL, EACH = 0.97, 0.95
"""The share of right stops that a choice needs over the families it is made on, and in each of them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/stopping"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", default="0-5", help="first and last seed")
    parser.add_argument("--dims", default="1,2,3")
    parser.add_argument("--families", default=",".join(name for name, family in FAMILIES.items() if not family.aside))
    parser.add_argument("--probes", default="0.2", help="shares of the trials that are uniform probes")
    parser.add_argument("--optuna", type=int, default=0, help="seeds below this whose runs Optuna's terminator watches")
    parser.add_argument("--record", type=Path, help="a JSON file for the stops, written after every run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    first, _, last = options.seeds.partition("-")
    dims = [int(d) for d in options.dims.split(",")]
    tasks = [
        (options.out, family, seed, float(rate), seed < options.optuna)
        for seed in range(int(first), int(last or first) + 1)
        for family in options.families.split(",")
        if FAMILIES[family].dims[seed % len(FAMILIES[family].dims)] in dims
        for rate in options.probes.split(",")
    ]
    records: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(one_run, *task) for task in tasks]
        for future in tqdm(as_completed(futures), total=len(futures), desc="runs"):
            records.append(future.result())
            if options.record:
                options.record.write_text(json.dumps(records) + "\n")
    records.sort(key=lambda r: (list(FAMILIES).index(r["family"]), r["seed"]))
    for rate in sorted({r["probes"] for r in records}):
        mine = [r for r in records if r["probes"] == rate]
        rules = stops_by_rule(mine)
        print(f"probes = {rate:g}", table(mine, rules), wrong_stops(mine, rules), sep="\n\n", end="\n\n")


def one_run(out: Path, family: str, seed: int, probes: float, with_optuna: bool) -> dict[str, Any]:
    """Where each rule stops on one run; kept in a file."""
    path = out / f"{family}-{seed}-{probes:g}-stop{'-optuna' if with_optuna else ''}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        return stored
    run, space = history(out, family, seed, "verify", PER_DIM, probes), case(family, seed).space
    record = {"family": family, "seed": seed, "dim": run.X.shape[1], "noise": run.noise, "probes": probes}
    record["ours"] = our_stops(run, space)
    if with_optuna:
        record["optuna"] = optuna_stop(run, space)
    path.write_text(json.dumps(record))
    return record


def our_stops(run: History, space: Space) -> list[dict[str, Any] | None]:
    """For every triple of GRID, where the certificate holds at enough checks in a row."""
    cube = space.cube()
    ours, conservative = Surrogate(cube), conservative_surrogate(cube)
    held, stops = np.zeros(len(GRID), dtype=int), [None] * len(GRID)
    for n in range(LEAST_PER_DIM * cube.dim, PER_DIM * cube.dim + 1):
        X, y = run.X[:n], run.y[:n]
        if np.ptp(y) == 0.0:
            continue
        at, gp = recommended(run, n, ours), conservative.gp(X, y)
        if n / cells(gp, cube) < LEAST_DENSITY:
            held[:] = 0
            continue
        evidence = Evidence.of(gp, cube, X[at], np.random.default_rng(0))
        for i, (scaled, rough, spent) in enumerate(GRID):
            if stops[i] is None:
                gap = float(np.diff(evidence.bounds(spent * DELTA, scaled, rough))[0])
                held[i] = held[i] + 1 if gap <= EPS * np.ptp(y) else 0
                stops[i] = _stop(run, n, at, gap) if held[i] == CHECKS_IN_A_ROW else None
        if all(stop is not None for stop in stops):
            break
    return stops


def optuna_stop(run: History, space: Space) -> dict[str, Any] | None:
    """Where Optuna's regret bound falls below eps."""
    import optuna
    import optuna.terminator

    from regretless.doors.optuna.distributions import as_distributions

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions, maximise = as_distributions(space), optuna.study.StudyDirection.MAXIMIZE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluator = optuna.terminator.RegretBoundEvaluator(seed=0)
        trials = [
            optuna.create_trial(params=space.decode(x), distributions=distributions, value=float(value))
            for x, value in zip(run.X, run.y, strict=True)
        ]
        for n in range(OPTUNA_FROM, PER_DIM * run.X.shape[1] + 1, OPTUNA_EVERY):
            bound = float(evaluator.evaluate(trials[:n], maximise))
            if bound < EPS * np.ptp(run.y[:n]):
                return _stop(run, n, int(np.argmax(run.y[:n])), bound)
    return None


def _stop(run: History, n: int, at: int, claimed: float) -> dict[str, Any]:
    spread = float(np.ptp(run.y[:n]))
    gap = run.best - float(run.f[at])
    return {"n": n, "gap": gap / spread, "claimed": claimed / spread, "right": bool(gap <= EPS * spread)}


# ---------------------------------------------------------------- tables

Stops = list[dict[str, Any] | str | None]
"""What a rule did on each run: the stop, None where it did not stop, "" where it did not watch."""


def stops_by_rule(records: list[dict[str, Any]]) -> dict[str, Stops]:
    """The stops of what ships, of what is chosen without the family, and of Optuna's terminator, on each record."""
    chosen = {name: triple_without(records, name) for name in {r["family"] for r in records}}
    rules: dict[str, Stops] = {
        "GapBelow, one left out": [r["ours"][chosen[r["family"]]] for r in records],
        "GapBelow, shipped": [r["ours"][SHIPPED] for r in records],
    }
    watched: Stops = [r.get("optuna", "") for r in records]
    return rules | ({"Optuna's terminator": watched} if any(stop != "" for stop in watched) else {})


def triple_without(records: list[dict[str, Any]], family: str) -> int:
    """The triple of GRID that stops most runs of the other families, of those whose stops are right; else the one with
    the most right stops."""
    others = [r for r in records if r["family"] != family and not FAMILIES[r["family"]].needles]
    ranked = []
    for i in range(len(GRID)):
        stopped = [(r["family"], r["ours"][i]["right"]) for r in others if r["ours"][i] is not None]
        right = [np.mean([ok for f, ok in stopped if f == name]) for name in {f for f, _ in stopped}]
        over = float(np.mean([ok for _, ok in stopped])) if stopped else 1.0
        good = over >= OVERALL and min(right, default=1.0) >= EACH
        ranked.append((good, len(stopped) if good else over, -i))
    return -max(ranked)[2] if ranked else SHIPPED


def table(records: list[dict[str, Any]], rules: dict[str, Stops]) -> str:
    """The Markdown table: for each family how many runs each rule stopped, how often rightly, and when."""
    out = [
        "| family | rule | runs | stopped | right | median evaluations at the stop |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    plain = [name for name, family in FAMILIES.items() if not family.needles]
    sharp = [name for name, family in FAMILIES.items() if family.needles]
    groups = [(name, [name]) for name in dict.fromkeys(r["family"] for r in records)]
    for name, families in [*groups, ("all but needles", plain), ("all needles", sharp)]:
        rows = [i for i, r in enumerate(records) if r["family"] in families]
        for title, stops in rules.items():
            seen = [(stops[i], records[i]["dim"]) for i in rows if stops[i] != ""]
            if not seen:
                continue
            stopped = [(stop, dim) for stop, dim in seen if isinstance(stop, dict)]
            right = f"{sum(stop['right'] for stop, _ in stopped)} of {len(stopped)}" if stopped else "-"
            when = f"{np.median([stop['n'] / dim for stop, dim in stopped]):.0f} d" if stopped else "-"
            needles = " (needles)" if name in FAMILIES and FAMILIES[name].needles else ""
            out.append(
                f"| {name}{needles} | {title} | {len(seen)} | {len(stopped) / len(seen):.0%} | {right} | {when} |"
            )
    return "\n".join(out)


def wrong_stops(records: list[dict[str, Any]], rules: dict[str, Stops]) -> str:
    """One line per rule: which stops were wrong, with the true gap as a share of the range."""
    lines = []
    for title, stops in rules.items():
        wrong = [
            (r, stop) for r, stop in zip(records, stops, strict=True) if isinstance(stop, dict) and not stop["right"]
        ]
        named = ", ".join(f"{r['family']} {r['seed']} d={r['dim']} ({stop['gap']:.0%})" for r, stop in wrong)
        lines.append(f"Wrong stops of {title}: {named or 'none'}.")
    return "\n\n".join(lines)


if __name__ == "__main__":
    main()
