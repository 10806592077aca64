"""NeuralBO, Fig. 6: memory and time of an ask against the number of values, with GP-UCB and NeuralGreedy beside it.

    python experiments/neural_bo_fig6.py --out runs/neural_bo_fig6                 up to 10,000 values in 14 dimensions
    python experiments/neural_bo_fig6.py --out runs/neural_bo_fig6 --full          and 100,000 in 100

Each point is a process of its own: n random values are told, then three asks are timed (processor time, one thread).
Memory is what the process gained over its own start with the data in place (resident set), and, for NeuralBO, the bytes
its model says it holds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
from regretless_bench.claims import PARENT, chosen, experiment_options, needed, stored
from regretless_bench.finding import Finding, Table
from regretless_bench.memory import peak_megabytes
from regretless_bench.record import stamped
from regretless_bench.settings import file_name
from regretless_bench.verdicts import LEAST_SEEDS, Check, both_columns, checks_table, judged, measured, not_run

from regretless.basics.statefile import write_whole
from regretless.report.page import Curve, curves_chart

OURS, PRINTED, GREEDY, GP = "neural-bo", "neural-bo (paper)", "neural-greedy", "gp-ucb"
NARROW = "neural-bo (paper) of 50 units"
"""The method as printed with a tenth of its units, 750 weights: most sizes lie beyond, where U is the smaller."""
EVERY = (OURS, PRINTED, NARROW, GREEDY, GP)
RECIPES: dict[str, dict[str, Any]] = {PRINTED: {}, NARROW: {"width": 50}}
"""Options of `neural-bo-printed`."""
CONSTANT_THERE = "the memory used by these two methods remains almost constant, unlike GP"
QUOTES = {
    OURS: CONSTANT_THERE,
    PRINTED: CONSTANT_THERE,
    NARROW: "",
    GREEDY: CONSTANT_THERE,
    GP: "For GP, GPU memory requirement grows fast with the iterations",
}
SIZES = (100, 300, 1000, 3000, 10_000)
CONSTANT = 3.0
"""Memory counts as nearly constant when it grows less than this over the last tenfold of values, over what the data
themselves take."""
DIM = 14
"""Of the robot-pushing task, which the paper measures."""
LIMITS = {GP: 3000}
"""Sizes beyond which a method is not run: the GP's factor alone takes n^2 numbers and n^3 steps."""
WEIGHTS = 500 * DIM + 500
"""Of the printed net, p."""
BESIDE = "beside the claim: a net of 750 weights, where the printed one has 7,500 and n x n is the smaller up to there"
LEAST_MB = 1.0
"""A smaller gain is the noise of a process's size."""


def measure(method: str, n: int, dim: int) -> dict[str, float | str | int]:
    """Tells n values, times three asks."""
    from regretless.auto import find_recipe
    from regretless.testing import Loop

    rng = np.random.default_rng(0)
    X = rng.random((n, dim))
    y = -((X - 0.4) ** 2).sum(1) + 0.1 * rng.standard_normal(n)
    recipe = find_recipe("neural-bo-printed")(**RECIPES[method]) if method in RECIPES else find_recipe(method)
    loop = Loop(recipe.build(dim, seed=0))
    before = peak_megabytes()
    start = time.process_time()
    loop.tell(X, y)
    loop.ask()
    first = time.process_time() - start
    asks = []
    for _ in range(3):
        x = rng.random((1, dim))
        loop.tell(x, [0.0])
        start = time.process_time()
        loop.ask()
        asks.append(time.process_time() - start)
    after = peak_megabytes()
    held = getattr(loop.method, "nbytes", 0) / 1e6
    return {
        "method": method,
        "n": n,
        "dim": dim,
        "first_s": first,
        "ask_s": float(np.median(asks)),
        "peak_mb": after - before,
        "held_mb": held,
    }


def finding(rows: list[dict], options: argparse.Namespace) -> Finding:
    """The claim names NeuralBO and NeuralGreedy as constant and the GP as growing: three checks of the method as
    printed, and the same of our default."""
    rows = sorted(rows, key=lambda r: (EVERY.index(r["method"]), r["dim"], r["n"]))
    checks, ours = claimed(rows, PRINTED), claimed(rows, OURS)
    verdict, sentence = judged(checks, LEAST_SEEDS)  # sizes of memory, not samples of a distribution
    lines = [
        Curve(
            f"{m}, d = {d}",
            {"values": [r["n"] for r in own]},
            {
                "peak memory gained, MB": [max(r["peak_mb"], 1.0) for r in own],
                "CPU seconds per ask": [max(r["ask_s"], 1e-4) for r in own],
            },
        )
        for (m, d), own in _series(rows).items()
    ]
    columns = [
        "method",
        "values",
        "d",
        "CPU s per ask",
        "first ask after a bulk tell, s",
        "peak memory gained, MB",
        "held by the model, MB",
    ]
    cells = [
        [r["method"], r["n"], r["dim"], *(float(f"{r[k]:.3g}") for k in ("ask_s", "first_s", "peak_mb", "held_mb"))]
        for r in rows
    ]
    return Finding(
        "neural-bo",
        "fig6",
        "running time and memory",
        "The memory of NeuralBO and NeuralGreedy stays nearly constant as evaluations accumulate; that of GP-UCB "
        "grows fast.",
        verdict,
        sentence,
        settings={
            "size": "full" if options.full else "quick",
            "values": ", ".join(str(n) for n in SIZES),
            "d": DIM,
            "asks timed": 3,
            "threads": 1,
            "memory": "resident set, not GPU memory as in the paper",
        },
        charts=[("memory and time", curves_chart(lines, log_x=True, log_y=True))],
        tables=[
            *both_columns(checks),
            checks_table(ours, "beside the claim: the same checks of our default"),
            *([checks_table(claimed(rows, NARROW)[:1], BESIDE)] if any(r["method"] == NARROW for r in rows) else []),
            Table("measurements", columns, cells),
        ],
        seconds=sum(r["first_s"] + 3 * r["ask_s"] for r in rows),
    )


def claimed(rows: list[dict], label: str) -> list[Check]:
    """What the paper says of three methods, of which `label` is NeuralBO; nothing where that was not measured."""
    checks: list[Check] = []
    if not any(r["method"] == label for r in rows):
        return checks
    for method in (label, GREEDY, GP):
        if not any(r["method"] == method for r in rows):
            checks.append(not_run(f"{method}: memory", "not measured", QUOTES[method]))
            continue
        grown, constant = growth(rows, method), method != GP
        what = f"{method}: memory {'nearly constant' if constant else 'grows'}"
        found = f"grows {grown:.2f}-fold over the last tenfold of values"
        found += f"; U has {WEIGHTS:,} x {WEIGHTS:,} numbers, held once the values are as many" * (method == PRINTED)
        checks.append(measured(what, (grown < CONSTANT) == constant, found, QUOTES[method]))
    return checks


def _series(rows: list[dict]) -> dict[tuple[str, int], list[dict]]:
    found: dict[tuple[str, int], list[dict]] = {}
    for r in rows:
        found.setdefault((r["method"], r["dim"]), []).append(r)
    return found


def growth(rows: list[dict], method: str) -> float:
    """The factor by which the peak memory grows from a tenth of the most values to the most values."""
    own = {r["n"]: max(r["peak_mb"], LEAST_MB) for r in rows if r["method"] == method and r["dim"] == DIM}
    most = max(own)
    return own[most] / own[min(own, key=lambda n: abs(n - most / 10))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", default=",".join(EVERY))
    parser.add_argument("--point", nargs=3, metavar=("METHOD", "N", "DIM"), help="measure one point and print it")
    options = experiment_options(parser, "runs/neural_bo_fig6")
    if options.point:
        print(json.dumps(measure(options.point[0], int(options.point[1]), int(options.point[2]))))
        return
    cells = [(m, n, DIM) for m in chosen(options.methods, EVERY) for n in SIZES if n <= LIMITS.get(m, n)]
    cells += [(OURS, n, 100) for n in (10_000, 100_000)] if options.full else []
    rows = []
    print(
        "| method | n | d | ask | first ask after a bulk tell | peak memory gained | held by the model |\n"
        "| --- | --- | --- | --- | --- | --- | --- |"
    )
    for method, n, dim in cells:
        path = options.out / f"{file_name(method)}-n{n}-d{dim}.json"
        if not path.exists():
            if options.report:
                continue
            around = {
                PARENT: str(os.getpid()),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
            }
            command = [sys.executable, __file__, "--out", str(options.out), "--point", method, str(n), str(dim)]
            result = subprocess.run(
                command, env={**os.environ, **around}, check=True, capture_output=True, text=True
            ).stdout
            write_whole(path, stamped(json.loads(result)))
        row = stored([path])[0]
        rows.append(row)
        print(
            f"| {method} | {n} | {dim} | {1000 * row['ask_s']:.0f} ms | {row['first_s']:.2f} s "
            f"| {row['peak_mb']:.0f} MB | {row['held_mb']:.1f} MB |"
        )
    found = finding(needed(rows, options), options)
    found.write(options.out)
    print(f"{found.verdict}: {found.sentence}")


if __name__ == "__main__":
    main()
