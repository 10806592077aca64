"""NeuralBO, Fig. 2: the 24 bbob functions of COCO in 2, 3, 5 and 10 dimensions, 20 evaluations per dimension,
post-processed by cocopp.

    python experiments/neural_bo_coco.py --jobs 2 --out runs/neural_bo_coco             d = 2, 3, instances 1-5
    python experiments/neural_bo_coco.py --jobs 16 --out runs/neural_bo_coco --full     d = 2, 3, 5, 10, instances 1-15
    python experiments/neural_bo_coco.py --out runs/neural_bo_coco --dims 5 --methods neural-bo,neural-bo-paper
    python experiments/neural_bo_coco.py --out runs/neural_bo_coco --report     the finding from all records there are

One process runs one method on one function in all dimensions and instances; what is finished is marked and not run
again. Dimensions may be run one after another, for fewer methods where asks cost most: each is judged among the methods
that have every function and instance in it. The observers' folders are handed to cocopp together, whose page is under
OUT/ppdata; OUT/summary.md has the share of (function, target) pairs reached, targets 10^2 .. 10^-8 above the optimum
(51 of them, as in COCO), without needing cocopp.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from regretless_bench.claims import experiment_options, keep_results, needed, stored
from regretless_bench.finding import Finding, Table
from regretless_bench.peers import PEERS
from regretless_bench.rivals import IN_TWO_FORMS, RIVALS, printed_label
from regretless_bench.verdicts import Check, both_columns, checks_table, judged, lowest, not_run

from regretless.auto import find_recipe
from regretless.report.page import Curve, TableCell, curves_chart
from regretless.testing import Loop

OURS, PRINTED = "neural-bo", "neural-bo-paper"
RECIPES = {
    **PEERS,
    PRINTED: find_recipe("neural-bo-printed"),
    "rf-ei": find_recipe("rf-ei")(trees=20),
    **{f"{name}-paper": RIVALS[printed_label(name)] for name in IN_TWO_FORMS},
}
"""Labels that are not names of the library; COCO's are folders' names."""
THERE = ("neural-greedy", "gp-ucb", "gp-ts", "gp-ei", "dngo", "rf-ei")
"""What the paper compares with."""
GOOD = ("gp-ucb", "gp-ts", "gp-ei", "turbo", "optuna-tpe", "cma")
"""Good rivals: those of the paper at their best, and others."""
QUICK = (
    OURS,
    PRINTED,
    "neural-greedy",
    "gp-ucb",
    "gp-ei",
    "gp-ucb-paper",
    "gp-ei-paper",
    "random",
    "optuna-tpe",
    "cma",
)
METHODS = (OURS, PRINTED, *THERE, "gp-ucb-paper", "gp-ts-paper", "gp-ei-paper", "random", "optuna-tpe", "cma", "turbo")
PER_DIM, DIMS, QUICK_DIMS = 20, (2, 3, 5, 10), (2, 3)
INSTANCES = (5, 15)
"""Of a function: in the quick size, and in the paper."""
QUOTE = "Our method was found to outperform other baselines when assessed using the ... COCO framework"
TARGETS = np.logspace(2, -8, 51)


def one_block(method: str, function: int, dims: str, instances: str, out: str) -> dict[str, list[dict[str, object]]]:
    """All dimensions and instances of one function: COCO's own logs under out/exdata, and the best precision after each
    evaluation."""
    import cocoex

    place = Path(out) / "exdata" / method / f"f{function}"
    shutil.rmtree(place, ignore_errors=True)  # of a block that was killed
    place.mkdir(parents=True)
    os.chdir(
        place
    )  # COCO writes its logs, and the optimum it is asked for, below the current folder: each block has its own
    suite = cocoex.Suite("bbob", f"instances:{instances}", f"dimensions:{dims} function_indices:{function}")
    observer = cocoex.Observer("bbob", f"result_folder: log algorithm_name: {method}")
    recipe = RECIPES[method] if method in RECIPES else find_recipe(method)
    rows: list[dict[str, object]] = []
    for problem in suite:
        optimum = best_value(problem)
        problem.observe_with(observer)
        low, high = problem.lower_bounds, problem.upper_bounds
        seed = int(problem.id_instance)
        loop = Loop(recipe.build(problem.dimension, seed=seed, budget=PER_DIM * problem.dimension))
        precision, begin = [], time.process_time()
        for _ in range(PER_DIM * problem.dimension):
            X = loop.ask()
            value = float(problem(low + (high - low) * X[0]))
            loop.tell(X, [-value])
            precision.append(value - optimum)
        rows.append(
            {
                "method": method,
                "function": function,
                "dim": problem.dimension,
                "instance": seed,
                "precision": np.minimum.accumulate(precision).tolist(),
                "seconds": time.process_time() - begin,
            }
        )
        problem.free()
    return {"rows": rows}


def best_value(problem: object) -> float:
    """The optimum of a bbob problem, which COCO itself knows."""
    problem._best_parameter("print")  # type: ignore[attr-defined]
    x = np.loadtxt("._bbob_problem_best_parameter.txt")
    value = float(problem(x))  # type: ignore[operator]
    return value


def summary(rows: list[dict]) -> str:
    """Shares of targets reached at the end of the budget, per dimension and in all."""
    dims = sorted({r["dim"] for r in rows})
    lines = [
        "| method | problems | " + " | ".join(f"d = {d}" for d in dims) + " | all |",
        "| --- | --- |" + " --- |" * (len(dims) + 1),
    ]
    shares = {}
    for method in dict.fromkeys(r["method"] for r in rows):
        own = [r for r in rows if r["method"] == method]
        reached = {
            d: float(np.mean([np.mean(r["precision"][-1] <= TARGETS) for r in own if r["dim"] == d]))
            for d in dims
            if any(r["dim"] == d for r in own)
        }
        shares[method] = float(np.mean([np.mean(r["precision"][-1] <= TARGETS) for r in own])), len(own), reached
    for method, (total, count, reached) in sorted(shares.items(), key=lambda item: -item[1][0]):
        lines.append(
            f"| {method} | {count} | "
            + " | ".join(f"{reached[d]:.3f}" if d in reached else "-" for d in dims)
            + f" | {total:.3f} |"
        )
    return "\n".join(lines)


def reached(rows: list[dict], method: str, dim: int) -> np.ndarray:
    """The share of (function, instance, target) triples reached after each evaluation."""
    best = np.array([r["precision"] for r in rows if (r["method"], r["dim"]) == (method, dim)])
    return (best[:, :, None] <= TARGETS).mean(axis=(0, 2))


def claimed(rows: list[dict], label: str, against: Sequence[str] = ()) -> list[Check]:
    """Per dimension: the least share of targets missed, paired over functions and instances; rivals of the paper that
    a dimension lacks are a part that was not run."""
    checks, ran = [], {(int(r["dim"]), str(r["method"])) for r in rows}
    there = {method for _, method in ran}
    rivals = list(against) or [f"{name}-paper" if f"{name}-paper" in there else name for name in THERE]
    for d in DIMS:
        missed: dict[str, dict[tuple[int, int], float]] = {}
        for r in rows:
            if r["dim"] == d and r["method"] in (label, *rivals):
                share = float(np.mean(r["precision"][-1] > TARGETS))
                missed.setdefault(r["method"], {})[r["function"], r["instance"]] = share
        shared = sorted(set.intersection(*map(set, missed.values()))) if label in missed else []
        losses = {m: np.array([of[cell] for cell in shared]) for m, of in missed.items()}
        if shared and len(losses) > 1:
            checks.append(lowest(f"d = {d}", losses, label, "share of targets missed", quote=QUOTE))
        else:
            checks.append(not_run(f"d = {d}", "not run in this size", QUOTE))
    lacking = {d: [m for m in rivals if (d, m) not in ran] for d in DIMS if (d, label) in ran}
    if any(lacking.values()):
        why = "; ".join(f"d = {d}: {', '.join(names)}" for d, names in lacking.items() if names)
        checks.append(not_run("every rival of the paper", f"not run in {why}", QUOTE))
    return checks


def whole(rows: list[dict]) -> tuple[list[dict], int]:
    """The rows of methods that ran every function and instance of a dimension that any method ran there, and the
    fewest instances of a dimension; a method that was stopped half-way is left out of that dimension, and so is an
    instance in which no method has every function."""
    cells: dict[int, dict[str, set[tuple[int, int]]]] = {}
    for r in rows:
        cells.setdefault(r["dim"], {}).setdefault(r["method"], set()).add((r["function"], r["instance"]))
    functions = {r["function"] for r in rows}
    every = {d: ended(set.union(*of.values()), functions) for d, of in cells.items()}
    kept = [r for r in rows if (r["function"], r["instance"]) in every[r["dim"]] <= cells[r["dim"]][r["method"]]]
    return kept, min(len({instance for _, instance in every[d]}) for d in {r["dim"] for r in kept}) if kept else 0


def ended(cells: set[tuple[int, int]], functions: set[int]) -> set[tuple[int, int]]:
    """The cells (function, instance) of instances that have all these functions."""
    return {(f, i) for f, i in cells if all((other, i) in cells for other in functions)}


def size(rows: list[dict]) -> str:
    """Full are the paper's dimensions, instances and rivals, quick those two dimensions that are fast."""
    rows, instances = whole(rows)
    ran = {(r["dim"], str(r["method"]).removesuffix("-paper")) for r in rows}
    if instances >= INSTANCES[1] and ran >= {(d, m) for d in DIMS for m in THERE}:
        return "full"
    return "quick" if {d for d, _ in ran} <= set(QUICK_DIMS) else "between"


def finding(rows: list[dict], seconds: float) -> Finding:
    """One check per dimension: is NeuralBO's share of targets at the end of the budget the largest?"""
    rows, instances = whole(rows)
    methods = list(dict.fromkeys(r["method"] for r in rows))
    dims = sorted({r["dim"] for r in rows})
    shares = {
        d: {m: reached(rows, m, d) for m in methods if any((r["method"], r["dim"]) == (m, d) for r in rows)}
        for d in dims
    }
    checks, ours = claimed(rows, PRINTED), claimed(rows, OURS)
    good = claimed(rows, PRINTED, GOOD)
    verdict, sentence = judged(checks, instances, good)
    charts = [
        (
            f"d = {d}",
            curves_chart(
                [
                    Curve(m, {"evaluations": np.arange(1, len(c) + 1)}, {"share of targets reached": c})
                    for m, c in shares[d].items()
                ]
            ),
        )
        for d in dims
    ]
    cells: list[list[TableCell]] = [
        [m, *(float(f"{shares[d][m][-1]:.4f}") if m in shares[d] else None for d in dims)] for m in methods
    ]
    columns = ["method", *(f"d = {d}" for d in dims)]
    return Finding(
        "neural-bo",
        "fig2",
        "COCO's bbob functions",
        "NeuralBO reaches a larger share of COCO's targets than the others within 20 evaluations per dimension.",
        verdict,
        sentence,
        settings={
            "size": size(rows),
            "dimensions": "; ".join(f"{d}: {', '.join(shares[d])}" for d in dims),
            "functions": len({r["function"] for r in rows}),
            "instances": instances,
            "evaluations": f"{PER_DIM} per dimension",
            "targets": len(TARGETS),
        },
        charts=charts,
        tables=[
            *both_columns(checks, good),
            checks_table(ours, "beside the claim: the same checks of our default"),
            Table("share of targets reached", columns, cells, dict.fromkeys(columns[1:], "max")),
        ],
        seconds=seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", default="")
    parser.add_argument("--functions", default="1-24")
    parser.add_argument("--dims", default="", help="comma-separated; those of the size by default")
    options = experiment_options(parser, "runs/neural_bo_coco", seeds=INSTANCES)
    out = options.out = options.out.resolve()
    dims = options.dims or ",".join(map(str, DIMS if options.full else QUICK_DIMS))
    instances = f"1-{options.seeds}"
    methods = options.methods.split(",") if options.methods else METHODS if options.full else QUICK
    first, _, last = options.functions.partition("-")
    tag = f"d{dims.replace(',', '-')}-i{options.seeds}"
    blocks = {(m, f): out / f"{m}-f{f}-{tag}.json" for f in range(int(first), int(last or first) + 1) for m in methods}
    if not options.report:
        with ProcessPoolExecutor(options.jobs) as pool:
            futures = {
                pool.submit(one_block, m, f, dims, instances, str(out)): path
                for (m, f), path in blocks.items()
                if not path.exists()
            }
            keep_results(futures, "block")
    places = sorted(out.glob("*-f*-d*-i*.json")) if options.report else blocks.values()
    rows = needed([row for block in stored(places) for row in block["rows"]], options)
    text = summary(rows)
    (out / "summary.md").write_text(text)
    found = finding(rows, sum(float(r["seconds"]) for r in rows))
    found.write(out)
    print(f"{text}\n{found.verdict}: {found.sentence}")
    postprocess(out, methods)


def postprocess(out: Path, methods: tuple[str, ...] | list[str]) -> None:
    """cocopp's page over the observers' folders, where cocopp is installed, without the distributions of single
    functions, which take long."""
    try:
        import cocopp
    except ImportError:
        print("cocopp is not installed; its page was not made (pip install cocopp six)")
        return
    os.chdir(out)
    folders = [f"exdata/{method}" for method in methods if (out / "exdata" / method).is_dir()]
    if folders:
        cocopp.genericsettings.verbose = False
        try:
            cocopp.main("--no-rld-single-fcts -o ppdata " + " ".join(folders))
        except Exception as error:  # the finding above does not need its page
            print(f"cocopp did not make its page: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
