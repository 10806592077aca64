"""When `GapBelow` stops, and whether it was right to, family by family: eps = 5 % of the range, delta = .05, at most
60 d evaluations of the verifying GP-UCB.

    python experiments/stopping.py --jobs 2 --out runs/stopping [--seeds 0-5] [--dims 1,2,3] [--optuna]

A stop is right when the true gap of the recommended point is at most eps, 5 % of the range of the values seen by then.
The rule is that of `regretless.stopping`: certified at SPENT_PER_CHECK of delta, at CHECKS_IN_A_ROW checks in a row.
With --optuna the regret bound of Optuna's terminator (`RegretBoundEvaluator`, asked after every fifth trial from the
twentieth on, the same eps as its error) watches the very same runs; its point is the best one observed.
"""

from __future__ import annotations

import argparse
import json
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.histories import History, case, history, recommended
from regretless_bench.problems.families import FAMILIES
from tqdm import tqdm

from regretless.gp.certify import LEAST_PER_DIM, fitted_certificate, wary_surrogate
from regretless.gp.surrogate import Surrogate
from regretless.space import Space
from regretless.stopping import CHECKS_IN_A_ROW, SPENT_PER_CHECK

EPS, DELTA, PER_DIM = 0.05, 0.05, 60
OPTUNA_EVERY, OPTUNA_FROM = 5, 20
"""Trials between two looks of Optuna's terminator, and its own least number of trials."""
RULES = {"ours": "GapBelow", "optuna": "Optuna's terminator"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/stopping"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", default="0-5", help="first and last seed")
    parser.add_argument("--dims", default="1,2,3")
    parser.add_argument("--families", default=",".join(name for name, family in FAMILIES.items() if not family.aside))
    parser.add_argument("--optuna", action="store_true", help="let Optuna's terminator watch, which costs most")
    parser.add_argument("--record", type=Path, help="a JSON file for the stops")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    first, _, last = options.seeds.partition("-")
    dims = [int(d) for d in options.dims.split(",")]
    tasks = [
        (options.out, family, seed, options.optuna)
        for seed in range(int(first), int(last) + 1)
        for family in options.families.split(",")
        if FAMILIES[family].dims[seed % len(FAMILIES[family].dims)] in dims
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(one_run, *task) for task in tasks]
        records = [f.result() for f in tqdm(as_completed(futures), total=len(futures), desc="runs")]
    records.sort(key=lambda r: (list(FAMILIES).index(r["family"]), r["seed"]))
    print(table(records), wrong_stops(records), sep="\n\n")
    if options.record:
        options.record.write_text(json.dumps(records, indent=1) + "\n")


def one_run(out: Path, family: str, seed: int, with_optuna: bool) -> dict[str, Any]:
    """Where each rule stops on one run; kept in a file."""
    path = out / f"{family}-{seed}-stop{'-optuna' if with_optuna else ''}.json"
    if path.exists():
        stored: dict[str, Any] = json.loads(path.read_text())
        return stored
    run, space = history(out, family, seed, "verify", PER_DIM), case(family, seed).space
    record = {"family": family, "seed": seed, "dim": run.X.shape[1], "noise": run.noise, "ours": our_stop(run, space)}
    if with_optuna:
        record["optuna"] = optuna_stop(run, space)
    path.write_text(json.dumps(record))
    return record


def our_stop(run: History, space: Space) -> dict[str, Any] | None:
    """Where the certificate holds at enough checks in a row."""
    cube = space.cube()
    ours, wary, held = Surrogate(cube), wary_surrogate(cube), 0
    for n in range(LEAST_PER_DIM * cube.dim, PER_DIM * cube.dim + 1):
        X, y = run.X[:n], run.y[:n]
        at, unknown = recommended(run, n, ours), np.full(n, np.nan)
        rng = np.random.default_rng(0)
        found = fitted_certificate(X, y, unknown, cube, X[at], SPENT_PER_CHECK * DELTA, rng, wary=wary)
        held = held + 1 if found.certified and found.gap <= EPS * np.ptp(y) else 0
        if held == CHECKS_IN_A_ROW:
            return _stop(run, n, at, found.gap)
    return None


def optuna_stop(run: History, space: Space) -> dict[str, Any] | None:
    """Where Optuna's regret bound falls below eps."""
    import optuna
    import optuna.terminator

    from regretless.doors.distributions import as_distributions

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


def table(records: list[dict[str, Any]]) -> str:
    """The Markdown table: for each family how many runs each rule stopped, how often rightly, and when."""
    out = [
        "| family | rule | runs | stopped | right | median evaluations at the stop |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    plain = [name for name, family in FAMILIES.items() if not family.needles]
    groups = [(name, [name]) for name in dict.fromkeys(r["family"] for r in records)]
    for name, families in [*groups, ("all but needles", plain)]:
        for rule, title in RULES.items():
            chosen = [r for r in records if r["family"] in families and rule in r]
            if not chosen:
                continue
            stopped = [r for r in chosen if r[rule] is not None]
            right = f"{sum(r[rule]['right'] for r in stopped)} of {len(stopped)}" if stopped else "-"
            when = f"{np.median([r[rule]['n'] / r['dim'] for r in stopped]):.0f} d" if stopped else "-"
            needles = " (needles)" if name in FAMILIES and FAMILIES[name].needles else ""
            share = f"{len(stopped) / len(chosen):.0%}"
            out.append(f"| {name}{needles} | {title} | {len(chosen)} | {share} | {right} | {when} |")
    return "\n".join(out)


def wrong_stops(records: list[dict[str, Any]]) -> str:
    """One line per rule: which stops were wrong, with the true gap as a share of the range."""
    lines = []
    for rule, title in RULES.items():
        wrong = [r for r in records if r.get(rule) is not None and not r[rule]["right"]]
        named = ", ".join(f"{r['family']} {r['seed']} d={r['dim']} ({r[rule]['gap']:.0%})" for r in wrong)
        if any(rule in r for r in records):
            lines.append(f"wrong stops of {title}: {named or 'none'}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
