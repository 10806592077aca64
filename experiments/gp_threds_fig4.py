"""GP-ThreDS, Fig. 4 (a), (b) and (d): Branin and Rosenbrock, noise sd 0.1, 1000 samples, beside the authors' published runs.

    python experiments/gp_threds_fig4.py --jobs 2 --out runs/gp_threds_fig4                10 seeds, eight methods
    python experiments/gp_threds_fig4.py --jobs 2 --out runs/gp_threds_fig4 --quick        2 seeds, 300 samples
    python experiments/gp_threds_fig4.py --jobs 16 --out runs/gp_threds_fig4 --full        also 10,000 samples of GP-ThreDS, and the random walk
    python experiments/gp_threds_fig4.py --out runs/gp_threds_fig4 --report                table and figures from the records there are

"paper" curves use the paper's knowledge: kernel SE with l = 0.2, the noise, B and the interval of f*. "GP-ThreDS" has the same knowledge except B;
"range unknown" has none at all. Average regret is over all samples so far, against samples and against seconds inside the method.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from regretless.baselines import BASELINES
from regretless.bench.finding import Finding, Table, Verdict
from regretless.bench.record import Record, Run, load_records
from regretless.bench.runner import run_all
from regretless.methods import METHODS
from regretless.page import Band, Curve, curves_chart
from regretless.problems.data import data_folder

NOISE, SAMPLES = 0.1, 1000
PROBLEMS = {"branin": ("branin-threds", (0.5, 1.2), 0.5, 20), "rosenbrock": ("rosenbrock-threds", (3.0, 12.0), 2.0, 21)}
"""Name, interval of f*, B and grid points per axis, as in Fig. 4 and the authors' code."""
THEIRS = {"GP-ThreDS (paper)": "GPTDS", "AD": "AD", "IGP-UCB": "IGP_UCB", "GP-EI": "EI", "GP-PI": "PI"}
"""Our labels and the names of the published runs."""
EXPECTED = {
    ("branin", "GP-ThreDS (paper)"): (0.06, 0.10), ("rosenbrock", "GP-ThreDS (paper)"): (0.055, 0.11), ("branin", "AD"): (0.07, 0.09),
    ("rosenbrock", "AD"): (0.05, 0.08), ("branin", "IGP-UCB"): (0.0, 0.03), ("rosenbrock", "IGP-UCB"): (0.0, 0.03),
    ("branin", "random"): (0.97, 1.07), ("rosenbrock", "random"): (3.34, 3.94), ("branin", "GP-ThreDS"): (0.0, 0.05),
    ("rosenbrock", "GP-ThreDS"): (0.0, 0.03), ("branin", "range unknown"): (0.0, 0.05), ("rosenbrock", "range unknown"): (0.0, 0.12),
}  # fmt: skip
"""The 10-seed mean of the average regret must lie in these at 1000 samples."""


def settings(options: argparse.Namespace) -> list[Run]:
    """The cells asked for."""
    seeds, budget = (2, 300) if options.quick else (options.seeds, SAMPLES)
    runs = []
    for name, interval, B, points in PROBLEMS.values():
        known = {"lengthscale": 0.2, "noise": NOISE}
        recipes = {
            "GP-ThreDS (paper)": METHODS["gp-threds"](preset="paper", interval=interval, B=B, points_per_axis=points, **known),
            "AD": BASELINES["adaptive-discretization"](preset="paper", **known),
            "IGP-UCB": BASELINES["igp-ucb"](preset="paper", B=B, **known),
            "GP-EI": BASELINES["grid-ei"](preset="paper", **known),
            "GP-PI": BASELINES["grid-pi"](preset="paper", **known),
            "random": BASELINES["random"],
            "GP-ThreDS": METHODS["gp-threds"](interval=interval, **known),
            "range unknown": METHODS["gp-threds"],
        }
        if options.full:
            recipes["random walk"] = METHODS["gp-threds"](preset="paper", search="walk", interval=interval, B=B, points_per_axis=points, **known)
        runs += [Run(recipe, name, {"noise": NOISE}, seed, budget, label=label) for label, recipe in recipes.items() for seed in range(seeds)]
        if options.full:
            for label in ("GP-ThreDS", "range unknown", "GP-ThreDS (paper)"):
                runs += [Run(recipes[label], name, {"noise": NOISE}, seed, 10_000, label=f"{label}, 10,000") for seed in range(seeds)]
    return runs


def cumulative(record: Record) -> np.ndarray:
    """Average regret after each sample."""
    regret = record.regret()
    return np.cumsum(regret) / np.arange(1, len(regret) + 1)


COLUMNS = ("problem", "method", "runs", "average regret", "+-", "wanted", "met", "authors'", "recommendation", "us per sample (CPU)", "authors' us")


def rows(records: list[Record], published: dict[str, np.ndarray]) -> list[list[str | float]]:
    """Average regret, simple regret of the recommendation and time per sample, ours and theirs, one row per problem and method."""
    found: list[list[str | float]] = []
    for problem, (name, *_) in PROBLEMS.items():
        for label, group in _by_label(records, name).items():
            means = np.array([cumulative(r)[-1] for r in group])
            low, high = EXPECTED.get((problem, label), (math.nan, math.nan))
            wanted, met = ("", "") if math.isnan(low) else (f"{low:g} to {high:g}", "yes" if low <= means.mean() <= high else "no")
            simple = float(np.mean([abs(r.optimum - r.recommended) for r in group if r.optimum is not None]))
            cpu = float(np.mean([r.cpu.sum() / len(r.cpu) for r in group])) * 1e6
            error = float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan
            theirs: tuple[str | float, str | float] = ("", "")
            if published and label in THEIRS:
                regret, seconds = (published[f"{problem}__{THEIRS[label]}__{what}"] for what in ("regret", "seconds"))
                theirs = round(float(regret[:, :1000].mean()), 4), round(float(seconds[:, 999].mean()) * 1000)
            ours = [round(float(means.mean()), 4), round(error, 4), wanted, met, theirs[0], round(simple, 4), round(cpu), theirs[1]]
            found.append([problem, label, len(group), *ours])
    return found


def charts(records: list[Record], published: dict[str, np.ndarray]) -> list[tuple[str, dict[str, Any]]]:
    """Average regret of each problem against samples and against seconds inside the method, with the authors' runs dashed."""
    found = []
    for problem, (name, *_) in PROBLEMS.items():
        curves = []
        for label, group in _by_label(records, name).items():
            n = min(len(r.value) for r in group)
            if n <= SAMPLES:
                curves.append(_curve(label, np.array([cumulative(r)[:n] for r in group]), np.array([r.seconds[:n] for r in group])))
            if published and label in THEIRS:
                regret, seconds = (published[f"{problem}__{THEIRS[label]}__{what}"][:, :SAMPLES] for what in ("regret", "seconds"))
                average = np.cumsum(regret, axis=1) / np.arange(1, regret.shape[1] + 1)
                curves.append(_curve(f"{label}, authors", average, seconds, dash=True))
        if curves:
            found.append((problem, curves_chart(curves, log_x=("seconds",), log_y=True)))
    return found


def _curve(label: str, regret: np.ndarray, seconds: np.ndarray, dash: bool = False) -> Curve:
    low, high = np.quantile(regret, (0.25, 0.75), axis=0)
    axes = {"samples": np.arange(1, regret.shape[1] + 1), "seconds": np.maximum(seconds.mean(axis=0), 1e-6)}
    return Curve(label, axes, {"average regret": Band(regret.mean(axis=0), low, high)}, dash)


def finding(records: list[Record], table: list[list[str | float]], published: dict[str, np.ndarray], seconds: float) -> Finding:
    """The verdict: the regrets reproduce when each lies where it should; the order of the methods is read off the table."""
    checked = [row for row in table if row[6]]
    missed = [f"{row[1]} on {row[0]}: {row[3]}" for row in checked if row[6] == "no"]
    decided = checked and all(isinstance(row[2], int) and row[2] >= 10 for row in checked)
    verdict: Verdict = "not decided yet" if not decided else "reproduces" if not missed else "reproduces only in part"
    value = {(row[0], row[1]): row for row in table}
    compared = []
    for problem in PROBLEMS:
        ours, theirs = value.get((problem, "GP-ThreDS (paper)")), value.get((problem, "IGP-UCB"))
        if ours and theirs:
            faster = float(theirs[9]) / float(ours[9])
            compared.append(f"on {problem} IGP-UCB has {theirs[3]} against {ours[3]} per sample and costs {faster:.1f} times as much CPU time")
    sentence = (
        f"{len(checked) - len(missed)} of {len(checked)} average regrets lie where they should{': not ' + '; '.join(missed) if missed else ''}; "
    )
    return Finding(
        "gp-threds", "fig4ab", "average regret on Branin and Rosenbrock",
        "GP-ThreDS lowers the average regret fastest per second and needs up to 100 times less time than IGP-UCB.",
        verdict, sentence + "; ".join(compared), {"samples": SAMPLES, "noise": NOISE, "seeds": len({r.seed for r in records})},
        charts(records, published), [Table("Average regret and time", COLUMNS, table)], seconds,
    )  # fmt: skip


def _by_label(records: list[Record], name: str) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.settings["problem"] == name:
            groups.setdefault(record.label, []).append(record)
    return groups


def _published(folder: str | None) -> dict[str, np.ndarray]:
    """The authors' runs; empty when they are not at hand."""
    try:
        path = data_folder("gp_threds_published_runs", folder) / "runs.npz"
    except FileNotFoundError:
        return {}
    with np.load(path) as runs:
        return {name: runs[name] for name in runs.files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/gp_threds_fig4"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", default=None, help="the folder that holds gp_threds_published_runs/")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--report", action="store_true", help="only read the records")
    options = parser.parse_args()
    start = time.perf_counter()
    records = list(load_records(options.out)) if options.report else run_all(settings(options), options.out, options.jobs)
    done, published = [r for r in records if r.error is None], _published(options.data)
    table = rows(done, published)
    for line in (COLUMNS, ["---"] * len(COLUMNS), *table):
        print("| " + " | ".join(map(str, line)) + " |")
    result = finding(done, table, published, time.perf_counter() - start)
    print(f"{result.verdict}: {result.sentence}\n{result.write(options.out)}")


if __name__ == "__main__":
    main()
