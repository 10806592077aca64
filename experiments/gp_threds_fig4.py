"""GP-ThreDS, Fig. 4 (a), (b) and (d): Branin and Rosenbrock, noise sd 0.1, 1000 samples, beside the authors' published runs.

    python experiments/gp_threds_fig4.py --jobs 2 --out runs/gp_threds_fig4                the table of the issue: 10 seeds, eight methods
    python experiments/gp_threds_fig4.py --jobs 2 --out runs/gp_threds_fig4 --quick        2 seeds, 300 samples
    python experiments/gp_threds_fig4.py --jobs 16 --out runs/gp_threds_fig4 --full        also 10,000 samples of GP-ThreDS, and the random walk
    python experiments/gp_threds_fig4.py --out runs/gp_threds_fig4 --report                table and figures from the records there are

"paper" curves use the paper's knowledge: kernel SE with l = 0.2, the noise, B and the interval of f*. "GP-ThreDS" has the same knowledge except B;
"range unknown" has none at all. Average regret is over all samples so far, against samples and against seconds inside the method.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from regretless.baselines import BASELINES
from regretless.bench.plots import COLOURS, save_figure
from regretless.bench.record import Record, Run, load_records
from regretless.bench.runner import run_all
from regretless.methods import METHODS
from regretless.problems.data import data_folder

NOISE = 0.1
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
    seeds, budget = (2, 300) if options.quick else (options.seeds, 1000)
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


def table(records: list[Record]) -> str:
    """Average regret, simple regret of the recommendation and time per sample, ours and theirs, in Markdown."""
    published = _published()
    lines = [
        "| problem | method | runs | average regret | wanted | authors' | recommendation | us per sample (CPU) | authors' us |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for problem, (name, *_) in PROBLEMS.items():
        for label, group in _by_label(records, name).items():
            means = np.array([cumulative(r)[-1] for r in group])
            low, high = EXPECTED.get((problem, label), (np.nan, np.nan))
            wanted = "" if np.isnan(low) else f"{low:g} to {high:g}{'' if low <= means.mean() <= high else ' MISSED'}"
            simple = np.mean([abs(r.optimum - r.recommended) for r in group if r.optimum is not None])
            cpu = np.mean([r.cpu.sum() / len(r.cpu) for r in group]) * 1e6
            theirs, their_us = "", ""
            if published and label in THEIRS:
                regret, seconds = (published[f"{problem}__{THEIRS[label]}__{what}"] for what in ("regret", "seconds"))
                theirs, their_us = f"{regret[:, :1000].mean():.4f}", f"{seconds[:, 999].mean() * 1000:.0f}"
            error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
            cells = (problem, label, len(group), f"{means.mean():.4f} +- {error:.4f}", wanted, theirs, f"{simple:.4f}", f"{cpu:.0f}", their_us)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def figures(records: list[Record], out: Path) -> list[Path]:
    """Average regret of both problems against samples and against seconds; the authors' runs dashed."""
    from matplotlib.figure import Figure

    published = _published()
    figure = Figure(figsize=(12, 8), layout="constrained")
    axes: Any = figure.subplots(2, 2)
    for row, (problem, (name, *_)) in enumerate(PROBLEMS.items()):
        for i, (label, group) in enumerate(g for g in _by_label(records, name).items() if not g[0].endswith("10,000")):
            curves = np.array([cumulative(r) for r in group])
            seconds = np.mean([r.seconds for r in group], axis=0)
            n = np.arange(1, curves.shape[1] + 1)
            for column, x in enumerate((n, seconds)):
                axes[row, column].plot(x, curves.mean(axis=0), color=COLOURS[i], label=label)
            if published and label in THEIRS:
                regret, clock = (published[f"{problem}__{THEIRS[label]}__{what}"][:, :1000] for what in ("regret", "seconds"))
                average = (np.cumsum(regret, axis=1) / np.arange(1, regret.shape[1] + 1)).mean(axis=0)
                axes[row, 0].plot(np.arange(1, regret.shape[1] + 1), average, "--", color=COLOURS[i], alpha=0.6)
                axes[row, 1].plot(clock.mean(axis=0), average, "--", color=COLOURS[i], alpha=0.6)
        for column, what in enumerate(("samples", "seconds in the method (log)")):
            axes[row, column].set(yscale="log", xlabel=what, ylabel=f"average regret, {problem}")
            axes[row, column].grid(alpha=0.25)
        axes[row, 1].set_xscale("log")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, title="ours; dashed: the authors' runs"
    )
    return save_figure(figure, out / "figures" / "gp_threds_fig4")


def _by_label(records: list[Record], name: str) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.settings["problem"] == name:
            groups.setdefault(record.label, []).append(record)
    return groups


def _published() -> dict[str, np.ndarray] | None:
    """The authors' runs, or None when they are not at hand."""
    try:
        path = data_folder("gp_threds_published_runs") / "runs.npz"
    except FileNotFoundError:
        return None
    with np.load(path) as runs:
        return {name: runs[name] for name in runs.files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/gp_threds_fig4"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--report", action="store_true", help="only read the records")
    options = parser.parse_args()
    if options.quick and options.out == Path("runs/gp_threds_fig4"):
        options.out = Path("runs/gp_threds_fig4_quick")
    records = list(load_records(options.out)) if options.report else run_all(settings(options), options.out, options.jobs)
    done = [r for r in records if r.error is None]
    text = table(done)
    (options.out / "table.md").write_text(text + "\n")
    print(text)
    for path in figures(done, options.out):
        print(path)


if __name__ == "__main__":
    main()
