"""Which Gaussian process to search in 30 and more dimensions: which prior of the length-scales, or a linear kernel.

    python experiments/wide_models.py --jobs 2 --minutes 60 --out runs/wide      # runs what has no line yet
    python experiments/wide_models.py --report --out runs/wide                   # the table of mean ranks

Problems are the turned formulas of `bench` (30 and 100 dimensions, 300 evaluations), which chose nothing, and classics
with an optimum off the centre. Candidates are one GP with expected improvement under several priors of the
length-scales, a linear kernel on the sphere, TuRBO, CMA-ES and a draw at random:

    gp-ei              the prior of this library: centre 0.5 sqrt(D), sds 1, correlated
    gp-ei, scaled      log-normal with location sqrt 2 + log(D) / 2 and sd sqrt 3 (arXiv 2402.02746)
    gp-ei, likelihood  no prior to speak of, fits that begin at sqrt(D) / 10 (arXiv 2502.09198)
    linear             the kernel of arXiv 2512.00170 (`linear-bo`)

Methods are ranked jointly within a case by the noiseless value of the best point.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.problems import make_problem
from scipy.stats import rankdata

from regretless.auto import find_recipe
from regretless.classics.gp_ei import GPEI
from regretless.method import Recipe
from regretless.models.gp.fit import Prior
from regretless.optimizer import Optimizer

BUDGET = 300
TURNED: tuple[dict[str, Any], ...] = (
    {"formula": "griewank"}, {"formula": "powers"}, {"formula": "ellipsoid"}, {"formula": "largest"},
    {"formula": "waves", "effective": 6, "rotate": False}, {"formula": "griewank", "effective": 6, "rotate": False},
    {"formula": "ellipsoid", "effective": 6},
)  # fmt: skip
CLASSIC = ("levy", "rosenbrock", "styblinski-tang", "rastrigin", "ackley")


class Scaled(GPEI):
    """The prior of arXiv 2402.02746 on each length-scale."""

    def __init__(self, cube: Any, **options: Any) -> None:
        super().__init__(cube, **options)
        centre = math.sqrt(2.0) + 0.5 * math.log(self.dim)
        self._surrogate.prior = Prior(
            lengthscale=(centre, math.sqrt(3.0)), quadratic=None, lengthscale_bounds=(0.005, 50.0 * math.sqrt(self.dim))
        )


class Likelihood(GPEI):
    """Fits by likelihood alone that begin at sqrt(D) / 10 (arXiv 2502.09198)."""

    def __init__(self, cube: Any, **options: Any) -> None:
        super().__init__(cube, **options)
        centre = math.log(0.1) + 0.5 * math.log(self.dim)
        self._surrogate.prior = Prior(
            lengthscale=(centre, 30.0), quadratic=None, lengthscale_bounds=(0.005, 50.0 * math.sqrt(self.dim))
        )


METHODS = {
    "gp-ei": "gp-ei", "gp-ei, scaled": Recipe("scaled", Scaled),
    "gp-ei, likelihood": Recipe("likelihood", Likelihood), "linear": "linear-bo", "turbo": "turbo", "cma-es": "cma-es",
    "random": "random",
}  # fmt: skip


def problem_of(name: str, dim: int, instance: int) -> Any:
    """A turned formula by its number, or a classic with its optimum off the centre."""
    if name.isdigit():
        return make_problem("turned", dim=dim, seed=100 * instance, **TURNED[int(name)])
    return make_problem(name, dim=dim, shift=0.6 - 0.1 * instance)


def run(name: str, dim: int, instance: int, label: str) -> dict[str, Any]:
    """One run: the loss of its best point and the seconds that the method took."""
    problem, method = problem_of(name, dim, instance), METHODS[label]
    sign = -1.0 if problem.direction == "maximize" else 1.0
    recipe = find_recipe(method) if isinstance(method, str) else method
    opt = Optimizer(problem.space, method=recipe, direction=problem.direction, budget=BUDGET, seed=instance)
    best, used = math.inf, 0.0
    for _ in range(BUDGET):
        begin = time.process_time()
        trial = opt.ask()
        used += time.process_time() - begin
        value = float(problem.true(trial.params))
        begin = time.process_time()
        opt.tell(trial, value)
        used += time.process_time() - begin
        best = min(best, sign * (value - float(problem.optimum or 0.0)))
    return {"problem": name, "dim": dim, "instance": instance, "method": label, "loss": best, "seconds": used}


def report(rows: list[dict[str, Any]], methods: list[str]) -> str:
    """Mean ranks by kind and dimension over the cases that all methods have, with standard errors over problems."""
    cases: dict[tuple[str, int, int], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cases.setdefault((row["problem"], row["dim"], row["instance"]), {})[row["method"]] = row
    whole = {case: found for case, found in cases.items() if all(m in found for m in methods)}
    groups: dict[str, list[tuple[str, int, int]]] = {}
    for case in whole:
        kind = "turned" if case[0].isdigit() else "classic"
        for group in (f"{kind}, {case[1]}", kind):
            groups.setdefault(group, []).append(case)
    lines = ["| group | cases | " + " | ".join(methods) + " |", "| --- " * (len(methods) + 2) + "|"]
    for group, members in sorted(groups.items()):
        ranks = np.array([rankdata([whole[c][m]["loss"] for m in methods]) for c in members])
        problems = sorted({c[:2] for c in members})
        means = np.array([ranks[[c[:2] == p for c in members]].mean(axis=0) for p in problems])
        error = means.std(axis=0, ddof=1) / math.sqrt(len(means)) if len(means) > 1 else np.zeros(len(methods))
        cells = (f"{r:.2f} ± {e:.2f}" for r, e in zip(means.mean(axis=0), error, strict=True))
        lines.append(f"| {group} | {len(members)} | " + " | ".join(cells) + " |")
    seconds = (f"{np.mean([found[m]['seconds'] for found in whole.values()]):.1f}" for m in methods)
    lines.append(f"| seconds a run | {len(whole)} | " + " | ".join(seconds) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/wide"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="no further run begins after so many")
    parser.add_argument("--dims", default="30,100")
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--methods", default=";".join(METHODS))
    parser.add_argument("--report", action="store_true", help="print the table of what has been run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file, methods = options.out / "wide.jsonl", options.methods.split(";")
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if not options.report:
        known = {(r["problem"], r["dim"], r["instance"], r["method"]) for r in rows}
        names = [*map(str, range(len(TURNED))), *CLASSIC]
        jobs = [
            (name, int(dim), i, m)
            for i in range(options.instances) for dim in options.dims.split(",") for name in names for m in methods
            if (name, int(dim), i, m) not in known
        ]  # fmt: skip
        end = time.time() + 60 * options.minutes
        with ProcessPoolExecutor(options.jobs) as pool, open(file, "a") as out:
            waiting = {pool.submit(run_until, end, *job) for job in jobs}
            for future in as_completed(waiting):
                if (row := future.result()) is not None:
                    rows.append(row)
                    out.write(json.dumps(row) + "\n")
                    out.flush()
    print(report(rows, methods))


def run_until(end: float, *job: Any) -> dict[str, Any] | None:
    """A run that begins before the end; later ones do not begin."""
    return run(*job) if time.time() < end else None


if __name__ == "__main__":
    main()
