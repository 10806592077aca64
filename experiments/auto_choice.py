"""`auto` beside its parts and beside the peers: chosen on odd functions of COCO's suites, reported on even ones.

    python experiments/auto_choice.py --set choose --jobs 16 --out runs/auto      # our own methods, on odd functions
    python experiments/auto_choice.py --set report --jobs 16 --out runs/auto      # auto and the peers, on even ones
    python experiments/auto_tables.py runs/auto                                   # the tables of what has been run

A suite is a kind of problem and its size: `clean-D` (bbob, 20 evaluations per dimension), `noise-S-D` (noise of S per
cent of the interquartile range, 50 per dimension), `mixint-D` (bbob-mixint, 20 per dimension), `batch-Q-D` (bbob, 256
evaluations, Q at a time), `wide-D` (bbob in 20 and 40 dimensions, 10 per dimension), `high-D` (formulas in 100 and 300
dimensions, 200 in all, two of them with an effective subspace), `large-D` (bbob-largescale, 2 per dimension),
`deep-D` (turned formulas and effective subspaces in 30
to 1,000 dimensions, which had no part in any choice), `table-N` (trainings looked up, N evaluations), `long-D-N` (bbob,
N evaluations of something cheap; losses and costs are compared after 100, 300, 1,000 and so on), `train-N` (real
trainings of three kinds, N evaluations per parameter; see `trainings.py`). For peers that take
seconds per ask there are `few-S-D` (noise of S per cent, 20 per dimension), `fewint-D` (bbob-mixint, 10 per dimension),
`fewdeep-D` (the deep formulas, 100 in all) and `fewbatch-Q-D` (128 in all).

A function is a family: odd ones chose what `auto` does, even ones had no part in it. A case is a function with an
instance, which is also its seed; methods are ranked jointly within a case, by the noiseless value of the best point
evaluated and of the point recommended. Every run appends a line to OUT/outcomes.jsonl; a run that is there is not run
again, and after `--minutes` no further one begins.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from auto_tables import AFTER, QUICK, SLOW, key_of, rows_of, tables_of
from regretless_bench.peers import installed
from regretless_bench.peers.botorch import largest_mean
from regretless_bench.pool import Progress, work_in_processes
from regretless_bench.problems import Problem, make_problem
from regretless_bench.runner import method_named
from trainings import NUMBERS, training

from regretless.optimizer import Optimizer

OURS = ("auto", "gp-ucb", "gp-ei", "gp-ts", "turbo", "cma-es")
SETS = {"choose": (range(1, 25, 2), OURS), "report": (range(2, 25, 2), QUICK + SLOW)}
"""The functions and the methods of each set."""
FIRST = 21
"""The first instance; earlier ones were used for tuning the GP engine."""
TABLES = (("hpobench-mlp", "vehicle"), ("hpobench-mlp", "phoneme"), ("hpobench-mlp", "segment"),
          ("hpobench-mlp", "credit_g"), ("nasbench201", "cifar10"), ("nasbench201", "imagenet"))  # fmt: skip
FORMULAS = ("ackley", "levy", "ellipsoid", "rosenbrock", "camelback", "camelback")
"""Of the high dimensions: four that depend on all coordinates alike, and one, twice, in which two of them matter: those
that its instance hides, and the same two in all instances."""
TURNED: tuple[dict[str, Any], ...] = (
    {"formula": "griewank"}, {"formula": "powers"}, {"formula": "ellipsoid"}, {"formula": "largest"},
    {"formula": "waves", "effective": 6, "rotate": False}, {"formula": "griewank", "effective": 6, "rotate": False},
    {"formula": "ellipsoid", "effective": 6},
)  # fmt: skip
"""Of the deep suites: four formulas that depend on all turned axes, two on six of the coordinates, one on six turned
axes."""
FEW_DEEP = 100
"""Evaluations of the few-evaluation deep suites, for peers that take a second and more per ask."""
LONGEST = {"optuna-tpe": 1000, "optuna-cmaes": 3000}
"""Long runs of these methods end there, because an ask takes longer the more values there are: minutes for the rest."""
PER_PARAMETER = {30: 10.0, 50: 6.0, 100: 3.0, 200: 2.0, 1000: 0.3}
"""Evaluations per parameter of the deep suites: 300 to 400 in all."""


class Case(NamedTuple):
    """A problem, its options, and how it is run."""

    suite: str
    family: int
    instance: int
    problem: str
    options: dict[str, Any]
    budget: int
    at_once: int = 1


def cases_of(suite: str, functions: Iterable[int], instances: Iterable[int]) -> list[Case]:
    """The cases of a suite, instance by instance, so that an interrupted study has whole ones."""
    kind, *words = suite.split("-")
    numbers = [int(word) for word in words]
    found = []
    for i in instances:
        for f in functions:
            options: dict[str, Any] = {"function": f, "instance": i, "dim": numbers[-1]}
            case = Case(suite, f, i, "bbob", options, 20 * numbers[-1])
            if kind == "noise":
                case = case._replace(options={**options, "noise_iqr": numbers[0] / 100}, budget=50 * numbers[1])
            elif kind == "few":
                case = case._replace(options={**options, "noise_iqr": numbers[0] / 100})
            elif kind in ("mixint", "fewint"):
                case = case._replace(problem="bbob-mixint", budget=(20 if kind == "mixint" else 10) * numbers[0])
            elif kind in ("batch", "fewbatch"):
                case = case._replace(budget=256 if kind == "batch" else 128, at_once=numbers[0])
            elif kind in ("wide", "large"):
                case = case._replace(budget=(10 if kind == "wide" else 2) * numbers[0])
            elif kind == "long":
                case = case._replace(options={**options, "dim": numbers[0]}, budget=numbers[1])
            elif kind != "clean":
                break
            found.append(case)
        if kind == "table":
            rows = [(f, *TABLES[f]) for f in range(len(TABLES))]
            found += [Case(suite, f, i, name, {"data_set": data}, numbers[0]) for f, name, data in rows]
        elif kind == "train":
            spaces = [(f, len(training(f, seed=0).space)) for f in trainings_among(functions)]
            found += [Case(suite, f, i, "training", {"number": f}, numbers[0] * dim) for f, dim in spaces]
        elif kind in ("deep", "fewdeep"):
            dim = numbers[0]
            budget = FEW_DEEP if kind == "fewdeep" else round(PER_PARAMETER[dim] * dim)
            found += [Case(suite, f, i, "turned", {"dim": dim, **TURNED[f]}, budget) for f in range(len(TURNED))]
        elif kind == "high":
            found += [Case(suite, f, i, *formula(f, numbers[0]), 200) for f in range(len(FORMULAS))]
    return found


def trainings_among(functions: Iterable[int]) -> list[int]:
    """The trainings that are odd or even as the functions are."""
    parities = {f % 2 for f in functions}
    return [number for number in NUMBERS if number % 2 in parities]


def formula(number: int, dim: int) -> tuple[str, dict[str, Any]]:
    """The problem and its options; optima lie off the centre."""
    name = FORMULAS[number]
    if name == "camelback":
        return name, {"dim": dim} if number == FORMULAS.index(name) else {"dim": dim, "seed": 1}
    return name, {"dim": dim, "shift": 0.6, **({"bound": 5.0} if name == "ackley" else {})}


# ---------------------------------------------------------------- running


def run_case(out: Path, deadline: float, job: tuple[Case, str], progress: Progress) -> None:
    """Runs a method on a case and appends what came of it; nothing when the time is over."""
    case, name = job
    if time.time() > deadline:
        return
    row: dict[str, Any] = {"suite": case.suite, "family": case.family, "instance": case.instance, "method": name}
    try:
        row |= outcome_of(case, name)
    except Exception:  # one broken run must not end the study
        row["error"] = traceback.format_exc()[-2000:]
    with open(out, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    progress(1)


def outcome_of(case: Case, name: str) -> dict[str, Any]:
    """Losses (noiseless, relative to the optimum where it is known) of the best point and of the recommended one, and
    milliseconds of an ask and tell. Suites of batches also have the mean loss of all evaluations and of those after the
    first batch; `few` suites that of the point which BoTorch's model recommends, whatever the method; a long run has
    the best loss and the milliseconds after some numbers of evaluations."""
    seed = 100 * case.instance
    long = case.suite.startswith("long")
    evaluations = min(case.budget, LONGEST.get(name, case.budget)) if long else case.budget
    make: Callable[..., Problem] = training if case.problem == "training" else partial(make_problem, case.problem)
    problem = make(**{"seed": seed, **case.options})
    sign = -1.0 if problem.direction == "maximize" else 1.0
    method = method_named(name)
    opt = Optimizer(problem.space, method=method, direction=problem.direction, budget=case.budget, seed=seed)
    values: list[float] = []
    used, costs = 0.0, {}
    while len(values) < evaluations:
        begin = time.process_time()
        trials = [opt.ask() for _ in range(min(case.at_once, evaluations - len(values)))]
        used += time.process_time() - begin
        seen = [problem.observe(trial.params) for trial in trials]
        begin = time.process_time()
        for trial, (y, value) in zip(trials, seen, strict=True):
            opt.tell(trial, y)
            values.append(value)
        used += time.process_time() - begin
        if long and len(values) in AFTER:
            costs[len(values)] = round(1000 * used / len(values), 3)
    loss = sign * (np.array(values) - (problem.optimum or 0.0))
    after = {str(n): [float(loss[:n].min()), ms] for n, ms in costs.items()}
    more: dict[str, Any] = {"after": after} if after else {}

    def true_loss(params: dict[str, Any]) -> float:
        return float(sign * (problem.true(params) - (problem.optimum or 0.0)))

    if "batch" in case.suite:
        more |= {"mean": float(f"{loss.mean():.6g}"), "later": float(f"{loss[case.at_once :].mean():.6g}")}
    elif case.suite.startswith("few-") and installed("botorch-lognei"):
        more["modelled"] = true_loss(opt.space.decode(opt.history.X[largest_mean(opt.history.X, opt.history.y)]))
    found = {"best": float(loss.min()), "advised": true_loss(opt.recommend())}
    return found | more | {"ms": round(1000 * used / evaluations, 3)}


def run_jobs(jobs: Sequence[tuple[Case, str]], out: Path, processes: int, minutes: float) -> None:
    """Runs what has no line in the file yet; equal jobs once."""
    from tqdm import tqdm

    out.parent.mkdir(parents=True, exist_ok=True)
    there = {key_of(row) for row in rows_of(out)}
    missing = [job for job in jobs if (job[0].suite, job[0].family, job[0].instance, job[1]) not in there]
    work = partial(run_case, out, time.time() + 60 * minutes)
    with tqdm(total=len(missing), unit="run", mininterval=5.0) as bar:

        def lose(job: tuple[Case, str], why: str, steps: int) -> None:
            print(f"{job[1]} on {job[0]}: {why}", file=sys.stderr)

        def advance(steps: int) -> None:
            bar.update(steps)

        work_in_processes(work, missing, processes, lost=lose, progress=advance, left=lambda number: None,
                          timeout=60 * minutes)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--set", choices=SETS, default="report")
    parser.add_argument("--suites", default="clean-2,clean-3,clean-5,clean-10,noise-15-3,mixint-5")
    parser.add_argument("--functions", help="numbers separated by commas; by default all of the set")
    parser.add_argument("--instances", default=str(FIRST), help=f"numbers separated by commas; {FIRST} by default")
    parser.add_argument("--methods", help="names separated by blanks, instead of the set's own")
    parser.add_argument("--out", type=Path, default=Path("runs/auto_choice"), help="the folder of the outcomes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e6, help="after these no further run begins")
    options = parser.parse_args()
    functions, methods = SETS[options.set]
    chosen = [int(word) for word in options.functions.split(",")] if options.functions else list(functions)
    if any(f not in functions for f in chosen):
        parser.error(f"the set {options.set!r} has functions {list(functions)}")
    methods = tuple(options.methods.split()) if options.methods else methods
    instances = [int(word) for word in options.instances.split(",")]
    cases = [case for suite in options.suites.split(",") for case in cases_of(suite, chosen, instances)]
    jobs = [(case, m) for case in cases for m in methods if installed(m)]
    run_jobs(jobs, options.out / "outcomes.jsonl", options.jobs, options.minutes)
    print(tables_of([row for row in rows_of(options.out) if row["instance"] in instances], methods))


if __name__ == "__main__":
    main()
