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

import numpy as np
from regretless_bench.claims import LEAST_SEEDS, PARENT, Check, checks_table, experiment_options, judged, needed
from regretless_bench.finding import Finding, Table
from regretless_bench.memory import peak_megabytes
from regretless_bench.record import stamped

from regretless.report.page import Curve, curves_chart
from regretless.statefile import write_whole

OURS, GP = "neural-bo", "gp-ucb"
SIZES = (100, 300, 1000, 3000, 10_000)
CONSTANT = 3.0
"""Memory counts as nearly constant when it grows less than this over the last tenfold of values, over what the data
themselves take."""
DIM = 14
"""Of the robot-pushing task, which the paper measures."""
LIMITS = {"gp-ucb": 3000}
"""Sizes beyond which a method is not run: the GP's factor alone takes n^2 numbers and n^3 steps."""


def measure(method: str, n: int, dim: int) -> dict[str, float | str | int]:
    """Tells n values, times three asks."""
    from regretless.auto import find_recipe

    rng = np.random.default_rng(0)
    X = rng.random((n, dim))
    y = -((X - 0.4) ** 2).sum(1) + 0.1 * rng.standard_normal(n)
    optimiser = find_recipe(method).build(dim, seed=0)
    before = peak_megabytes()
    start = time.process_time()
    optimiser.tell(X, y)
    optimiser.ask()
    first = time.process_time() - start
    asks = []
    for _ in range(3):
        x = rng.random((1, dim))
        optimiser.tell(x, [0.0])
        start = time.process_time()
        optimiser.ask()
        asks.append(time.process_time() - start)
    after = peak_megabytes()
    held = getattr(optimiser, "nbytes", 0) / 1e6
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
    """Three checks: NeuralBO's memory hardly grows, the GP's does, and NeuralBO's is the smaller where both were run
    last."""
    by = {(r["method"], r["dim"], r["n"]): r for r in rows}
    growth = {m: _growth(rows, m) for m in (OURS, GP)}
    last = max(n for method, dim, n in by if method == GP and dim == DIM and (OURS, DIM, n) in by)
    ours, theirs = by[OURS, DIM, last], by[GP, DIM, last]
    checks = [
        Check(
            f"{OURS}: memory nearly constant",
            growth[OURS] < CONSTANT,
            f"grows {growth[OURS]:.2f}-fold over the last tenfold of values",
        ),
        Check(
            f"{GP}: memory grows",
            growth[GP] >= CONSTANT,
            f"grows {growth[GP]:.2f}-fold over the last tenfold of values",
        ),
        Check(
            f"less memory than {GP} at {last} values",
            ours["peak_mb"] < theirs["peak_mb"],
            f"{ours['peak_mb']:.0f} MB against {theirs['peak_mb']:.0f} MB",
        ),
    ]
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
        "The memory NeuralBO and NeuralGreedy need stays nearly constant as evaluations accumulate, while that of "
        "GP-UCB grows fast.",
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
        tables=[checks_table(checks), Table("measurements", columns, cells)],
        seconds=sum(r["first_s"] + 3 * r["ask_s"] for r in rows),
    )


def _series(rows: list[dict]) -> dict[tuple[str, int], list[dict]]:
    found: dict[tuple[str, int], list[dict]] = {}
    for r in rows:
        found.setdefault((r["method"], r["dim"]), []).append(r)
    return found


def _growth(rows: list[dict], method: str) -> float:
    """The factor by which the peak memory grows from a tenth of the most values to the most values."""
    own = {r["n"]: max(r["peak_mb"], 1.0) for r in rows if r["method"] == method and r["dim"] == DIM}
    most = max(own)
    return own[most] / own[min(own, key=lambda n: abs(n - most / 10))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", default=f"{OURS},neural-greedy,{GP}")
    parser.add_argument("--point", nargs=3, metavar=("METHOD", "N", "DIM"), help="measure one point and print it")
    options = experiment_options(parser, "runs/neural_bo_fig6")
    if options.point:
        print(json.dumps(measure(options.point[0], int(options.point[1]), int(options.point[2]))))
        return
    cells = [(m, n, DIM) for m in options.methods.split(",") for n in SIZES if n <= LIMITS.get(m, n)]
    cells += [(OURS, n, 100) for n in (10_000, 100_000)] if options.full else []
    rows = []
    print(
        "| method | n | d | ask | first ask after a bulk tell | peak memory gained | held by the model |\n"
        "| --- | --- | --- | --- | --- | --- | --- |"
    )
    for method, n, dim in cells:
        path = options.out / f"{method}-n{n}-d{dim}.json"
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
        row = json.loads(path.read_text())
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
