"""NeuralBO, Fig. 2: the 24 bbob functions of COCO in 2, 3, 5 and 10 dimensions, 20 evaluations per dimension, post-processed by cocopp.

    python experiments/neural_bo_coco.py --jobs 2 --out runs/neural_bo_coco             d = 2, 3, 5, instances 1-3, the cheap methods (20 minutes)
    python experiments/neural_bo_coco.py --jobs 16 --out runs/neural_bo_coco --full     d = 2, 3, 5, 10, instances 1-15, all methods

One process runs one method on one function in all dimensions and instances; what is finished is marked and not run again. The observers' folders are
handed to cocopp together, whose page is under OUT/ppdata; OUT/summary.md has the share of (function, target) pairs reached, targets
10^2 .. 10^-8 above the optimum (51 of them, as in COCO), without needing cocopp.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from tqdm import tqdm

from regretless.auto import find_recipe
from regretless.bench.peers import PEERS

CHEAP = ("neural-bo", "random", "optuna-tpe", "cma", "turbo")
METHODS = (*CHEAP, "gp-ucb", "gp-ei", "gp-ts", "neural-greedy", "dngo", "rf-ei")
PER_DIM = 20
TARGETS = np.logspace(2, -8, 51)


def one_block(method: str, function: int, dims: str, instances: str, out: str) -> list[dict[str, object]]:
    """All dimensions and instances of one function: COCO's own logs under out/exdata, and the best precision after each evaluation."""
    import cocoex

    os.chdir(out)  # the observer writes below the current folder
    suite = cocoex.Suite("bbob", f"instances:{instances}", f"dimensions:{dims} function_indices:{function}")
    observer = cocoex.Observer("bbob", f"result_folder: {method}/f{function} algorithm_name: {method}")
    recipe = PEERS[method] if method in PEERS else find_recipe(method)
    rows: list[dict[str, object]] = []
    for problem in suite:
        optimum = best_value(problem)
        problem.observe_with(observer)
        low, high = problem.lower_bounds, problem.upper_bounds
        seed = int(problem.id_instance)
        optimiser = recipe.build(problem.dimension, seed=seed, budget=PER_DIM * problem.dimension)
        precision = []
        for _ in range(PER_DIM * problem.dimension):
            X = optimiser.ask()
            value = float(problem(low + (high - low) * X[0]))
            optimiser.tell(X, [-value])
            precision.append(value - optimum)
        rows.append(
            {
                "method": method,
                "function": function,
                "dim": problem.dimension,
                "instance": seed,
                "precision": np.minimum.accumulate(precision).tolist(),
            }
        )
        problem.free()
    return rows


def best_value(problem: object) -> float:
    """The optimum of a bbob problem, which COCO itself knows."""
    problem._best_parameter("print")  # type: ignore[attr-defined]
    x = np.loadtxt("._bbob_problem_best_parameter.txt")
    value = float(problem(x))  # type: ignore[operator]
    return value


def summary(rows: list[dict]) -> str:
    """Shares of targets reached at the end of the budget, per dimension and in all."""
    dims = sorted({r["dim"] for r in rows})
    lines = ["| method | problems | " + " | ".join(f"d = {d}" for d in dims) + " | all |", "| --- | --- |" + " --- |" * (len(dims) + 1)]
    shares = {}
    for method in dict.fromkeys(r["method"] for r in rows):
        own = [r for r in rows if r["method"] == method]
        reached = {
            d: float(np.mean([np.mean(r["precision"][-1] <= TARGETS) for r in own if r["dim"] == d])) for d in dims if any(r["dim"] == d for r in own)
        }
        shares[method] = float(np.mean([np.mean(r["precision"][-1] <= TARGETS) for r in own])), len(own), reached
    for method, (total, count, reached) in sorted(shares.items(), key=lambda item: -item[1][0]):
        lines.append(f"| {method} | {count} | " + " | ".join(f"{reached[d]:.3f}" if d in reached else "-" for d in dims) + f" | {total:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/neural_bo_coco"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", default="")
    parser.add_argument("--functions", default="1-24")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    dims, instances = ("2,3,5,10", "1-15") if options.full else ("2,3,5", "1-3")
    methods = options.methods.split(",") if options.methods else METHODS if options.full else CHEAP
    first, _, last = options.functions.partition("-")
    tag = "full" if options.full else "reduced"
    blocks = {(m, f): out / f"{m}-f{f}-{tag}.json" for m in methods for f in range(int(first), int(last or first) + 1)}
    if not options.report:
        with ProcessPoolExecutor(options.jobs) as pool:
            futures = {pool.submit(one_block, m, f, dims, instances, str(out)): path for (m, f), path in blocks.items() if not path.exists()}
            for future in tqdm(as_completed(futures), total=len(futures), desc="functions"):
                futures[future].write_text(json.dumps(future.result()))
    rows = [row for path in blocks.values() if path.exists() for row in json.loads(path.read_text())]
    text = summary(rows)
    (out / "summary.md").write_text(text)
    print(text)
    postprocess(out, methods)


def postprocess(out: Path, methods: tuple[str, ...] | list[str]) -> None:
    """cocopp's page over the observers' folders, where cocopp is installed."""
    try:
        import cocopp
    except ImportError:
        print("cocopp is not installed; its page was not made (pip install cocopp six)")
        return
    os.chdir(out)
    folders = [f"exdata/{method}" for method in methods if (out / "exdata" / method).is_dir()]
    if folders:
        cocopp.genericsettings.verbose = False
        cocopp.main("-o ppdata " + " ".join(folders))


if __name__ == "__main__":
    main()
