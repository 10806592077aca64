"""When `GapBelow` stops, and whether it was right to: 24 bbob functions, d = 2, 3, eps = 5 % of the range, delta =
0.05, at most 60 d evaluations.

    python experiments/stopping.py --jobs 2 --out runs/stopping [--seeds 3] [--first 19] [--quick]

A stop is right when the true gap of the recommended point is at most eps, 5 % of the range of the values seen by then.
Optuna's terminator (`RegretBoundEvaluator`, asked after every fifth trial, the same eps as its error) watches the very
same runs; its point is the best one observed. Instances 1 to 18 were in view when the certificate's constants,
`verify=2` and what a check spends were chosen: the default starts after them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.problems import make_problem
from tqdm import tqdm

from regretless.baselines import BASELINES
from regretless.optimizer import Optimizer
from regretless.space import Space
from regretless.stopping import GapBelow

EPS, DELTA, PER_DIM = 0.05, 0.05, 60
METHODS = {"gp-ucb": BASELINES["gp-ucb"], "gp-ucb-verify": BASELINES["gp-ucb"](verify=2), "gp-ei": BASELINES["gp-ei"]}
OPTUNA_EVERY, OPTUNA_FROM = 5, 20
"""Trials between two looks of Optuna's terminator, and its own least number of trials."""
RULES = {"ours": "GapBelow", "optuna": "Optuna's terminator"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/stopping"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3, help="bbob instances per function")
    parser.add_argument("--first", type=int, default=19, help="the first of them")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--dims", default="2,3")
    parser.add_argument("--quick", action="store_true", help="six functions, one instance")
    parser.add_argument(
        "--without-optuna", action="store_true", help="leave out the terminator, which costs most of the time"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    functions = (1, 3, 8, 12, 17, 21) if options.quick else range(1, 25)
    instances = range(options.first, options.first + (1 if options.quick else options.seeds))
    tasks = [
        (m, f, int(d), i, not options.without_optuna)
        for m in options.methods.split(",")
        for d in options.dims.split(",")
        for f in functions
        for i in instances
    ]
    left = [task for task in tasks if not _file(options.out, task).exists()]
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(one_run, *task): task for task in left}
        for future in tqdm(as_completed(futures), total=len(left), desc="runs"):
            _file(options.out, futures[future]).write_text(json.dumps(future.result()))
    records = [json.loads(_file(options.out, task).read_text()) for task in tasks if _file(options.out, task).exists()]
    print(table(records), wrong_stops(records), sep="\n\n")


def one_run(method: str, function: int, dim: int, instance: int, with_optuna: bool) -> dict[str, Any]:
    """One run until both rules have stopped or 60 d evaluations are spent."""
    problem = make_problem("bbob", function=function, dim=dim, instance=instance, seed=instance)
    optimizer = Optimizer(
        problem.space, method=METHODS[method], direction="minimize", budget=PER_DIM * dim, seed=instance
    )
    rule, terminator = GapBelow(EPS, delta=DELTA, relative=True), _Terminator(problem.space) if with_optuna else None
    record: dict[str, Any] = {
        "method": method,
        "function": function,
        "dim": dim,
        "instance": instance,
        "ours": None,
        **({"optuna": None} if with_optuna else {}),
    }
    for n in range(1, PER_DIM * dim + 1):
        trial = optimizer.ask()
        optimizer.tell(trial, problem.true(trial.params))
        values = [t.value for t in optimizer.trials if t.value is not None]
        allowed = EPS * (max(values) - min(values))
        if record["ours"] is None and rule(optimizer) is not None:
            gap = problem.regret(optimizer.recommend())
            record["ours"] = {
                "n": n,
                "gap": gap,
                "allowed": allowed,
                "right": bool(gap <= allowed),
                "claimed": rule.certificate.gap,
            }
        if terminator is not None and record["optuna"] is None and n >= OPTUNA_FROM and n % OPTUNA_EVERY == 0:
            bound = terminator.bound(optimizer)
            if bound < allowed:
                gap = problem.regret(optimizer.best.params)
                record["optuna"] = {
                    "n": n,
                    "gap": gap,
                    "allowed": allowed,
                    "right": bool(gap <= allowed),
                    "claimed": bound,
                }
        if record["ours"] is not None and (terminator is None or record["optuna"] is not None):
            break
    record["last"] = rule.certificate.reason if record["ours"] is None else ""
    return record


class _Terminator:
    """Optuna's regret bound on the trials of an optimizer of ours."""

    def __init__(self, space: Space) -> None:
        import optuna
        import optuna.terminator

        from regretless.doors.distributions import as_distributions

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.evaluator = optuna.terminator.RegretBoundEvaluator(seed=0)
        self.optuna, self.distributions = optuna, as_distributions(space)

    def bound(self, optimizer: Optimizer) -> float:
        trials = [
            self.optuna.create_trial(params=t.params, distributions=self.distributions, value=t.value)
            for t in optimizer.trials
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(self.evaluator.evaluate(trials, self.optuna.study.StudyDirection.MINIMIZE))


def table(records: list[dict[str, Any]]) -> str:
    """The Markdown table: for each method and dimension, how many runs each rule stopped, when, and how often
    rightly."""
    lines = [
        "| method | d | rule | runs | stopped | functions stopped in most runs | right | median evaluations at the "
        "stop |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for method in dict.fromkeys(r["method"] for r in records):
        for dim in [*dict.fromkeys(r["dim"] for r in records), None]:
            chosen = [r for r in records if r["method"] == method and dim in (None, r["dim"])]
            for rule, title in RULES.items():
                if all(rule not in r for r in chosen):
                    continue
                stopped = [r for r in chosen if r[rule] is not None]
                runs: dict[tuple[int, int], list[bool]] = {}
                for r in chosen:
                    runs.setdefault((r["function"], r["dim"]), []).append(r[rule] is not None)
                most = sum(np.mean(stops) > 0.5 for stops in runs.values())
                right = f"{np.mean([r[rule]['right'] for r in stopped]):.3f}" if stopped else "-"
                when = f"{np.median([r[rule]['n'] / r['dim'] for r in stopped]):.0f} d" if stopped else "-"
                share = f"{len(chosen)} | {len(stopped)} ({len(stopped) / len(chosen):.0%}) | {most} of {len(runs)}"
                lines.append(f"| {method} | {'all' if dim is None else dim} | {title} | {share} | {right} | {when} |")
    return "\n".join(lines)


def wrong_stops(records: list[dict[str, Any]]) -> str:
    """One line per rule and method: on which functions the stops were wrong, and by how much."""
    lines = []
    for rule, title in RULES.items():
        for method in dict.fromkeys(r["method"] for r in records):
            wrong = [r for r in records if r["method"] == method and r.get(rule) is not None and not r[rule]["right"]]
            named = (
                f"f{r['function']} d={r['dim']} i={r['instance']} ({EPS * r[rule]['gap'] / r[rule]['allowed']:.0%})"
                for r in wrong
            )
            lines.append(
                f"wrong stops of {title} on {method}, with the true gap as a share of the range: "
                f"{', '.join(named) or 'none'}"
            )
    return "\n".join(lines)


def _file(out: Path, task: tuple[str, int, int, int, bool]) -> Path:
    method, function, dim, instance, with_optuna = task
    return out / f"{method}-f{function:02d}-d{dim}-i{instance}{'' if with_optuna else '-alone'}.json"


if __name__ == "__main__":
    main()
