"""NeuralBO, Fig. 6: memory and time of an ask against the number of values, with GP-UCB and NeuralGreedy beside it.

    python experiments/neural_bo_fig6.py --out runs/neural_bo_fig6                 up to 10,000 values in 14 dimensions
    python experiments/neural_bo_fig6.py --out runs/neural_bo_fig6 --full          and 100,000 in 100

Each point is a process of its own: n random values are told, then three asks are timed (processor time, one thread). Memory is what the process
gained over its own start with the data in place (resident set), and, for NeuralBO, the bytes its model says it holds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SIZES = (100, 300, 1000, 3000, 10_000)
LIMITS = {"gp-ucb": 3000}
"""Sizes beyond which a method is not run: the GP's factor alone takes n^2 numbers and n^3 steps."""


def measure(method: str, n: int, dim: int) -> dict[str, float | str | int]:
    """Tells n values, times three asks."""
    from regretless.auto import find_recipe

    rng = np.random.default_rng(0)
    X = rng.random((n, dim))
    y = -((X - 0.4) ** 2).sum(1) + 0.1 * rng.standard_normal(n)
    optimiser = find_recipe(method).build(dim, seed=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
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
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    held = getattr(optimiser, "nbytes", 0) / 1e6
    return {"method": method, "n": n, "dim": dim, "first_s": first, "ask_s": float(np.median(asks)), "peak_mb": after - before, "held_mb": held}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/neural_bo_fig6"))
    parser.add_argument("--jobs", type=int, default=1, help="accepted for uniformity; points are timed one after another")
    parser.add_argument("--methods", default="neural-bo,neural-greedy,gp-ucb")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--point", nargs=3, metavar=("METHOD", "N", "DIM"), help="measure one point and print it")
    options = parser.parse_args()
    if options.point:
        print(json.dumps(measure(options.point[0], int(options.point[1]), int(options.point[2]))))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    cells = [(m, n, 14) for m in options.methods.split(",") for n in SIZES if n <= LIMITS.get(m, n)]
    cells += [("neural-bo", n, 100) for n in (10_000, 100_000)] if options.full else []
    rows = []
    print(
        "| method | n | d | ask | first ask after a bulk tell | peak memory gained | held by the model |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for method, n, dim in cells:
        path = options.out / f"{method}-n{n}-d{dim}.json"
        if not path.exists():
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--point", method, str(n), str(dim)]
            path.write_text(subprocess.run(command, env={**os.environ, **threads}, check=True, capture_output=True, text=True).stdout)
        row = json.loads(path.read_text())
        rows.append(row)
        print(
            f"| {method} | {n} | {dim} | {1000 * row['ask_s']:.0f} ms | {row['first_s']:.2f} s | {row['peak_mb']:.0f} MB | {row['held_mb']:.1f} MB |"
        )
    figure(rows, options.out / "cost.png")


def figure(rows: list[dict], path: Path) -> None:
    """Time and memory against n."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(9, 3.6), layout="constrained")
    axes = drawing.subplots(1, 2)
    for method, dim in dict.fromkeys((r["method"], r["dim"]) for r in rows):
        own = [r for r in rows if (r["method"], r["dim"]) == (method, dim)]
        for axis, key in zip(axes, ("ask_s", "peak_mb"), strict=True):
            axis.plot([r["n"] for r in own], [max(r[key], 1e-3) for r in own], marker="o", label=f"{method}, d = {dim}")
    for axis, label in zip(axes, ("seconds per ask", "peak memory gained, MB"), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("values")
        axis.set_ylabel(label)
    axes[0].legend(frameon=False)
    drawing.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
