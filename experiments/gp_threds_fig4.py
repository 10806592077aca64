"""GP-ThreDS, Fig. 4 (a), (b) and (d): Branin and Rosenbrock, noise sd 0.1, 1000 samples, beside the authors' published
runs.

    python experiments/gp_threds_fig4.py --jobs 2            12 seeds, eight methods, and three as plainly programmed
    python experiments/gp_threds_fig4.py --jobs 16 --full    also 10,000 samples of GP-ThreDS, and the random walk
    python experiments/gp_threds_fig4.py --report            table and figures from the records there are
    python experiments/gp_threds_fig4.py --report --figure docs/images/gp_threds_fig4.png   and the figure of the page

"paper" curves use the paper's knowledge: kernel SE with l = 0.2, the noise, B and the interval of f*. "GP-ThreDS" has
the same knowledge except B; "range unknown" has none at all. Average regret is over all samples so far, against samples
and against processor seconds inside the method.

The paper plots time, and its rival is "the standard implementation of IGP-UCB", which factorises the kernel matrix anew
at each step and scores every one of at most 6,400 points. "refit" labels are the three methods of the paper in that
form, the points of which are those of the fast forms; the claim is judged with these, at equal processor time and on
both functions together, for the SE kernel of the paper. Beside it stand each function, half and a tenth of the time,
Matern-5/2, and the 2,500 points that the authors' code has on Rosenbrock. Seeds start at 20: the
constants of the default were chosen with seeds 0 to 9 in view.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.claims import SECONDS, Cases, core_seconds, curve, experiment_options, fewest, gather, grouped
from regretless_bench.finding import Finding, Table
from regretless_bench.methods import RIVALS
from regretless_bench.problems.data import data_folder, reading
from regretless_bench.record import Record, Run
from regretless_bench.verdicts import (
    Check,
    both_columns,
    checks_table,
    common,
    hardest,
    judged,
    lowest,
    measured,
    pooled_pairs,
)

from regretless.classics import CLASSICS
from regretless.methods import METHODS
from regretless.report.page import curves_chart

NOISE, SAMPLES = 0.1, 1000
PROBLEMS = {"branin": ("branin-threds", (0.5, 1.2), 0.5, 20), "rosenbrock": ("rosenbrock-threds", (3.0, 12.0), 2.0, 21)}
"""Name, interval of f*, B and grid points per axis of a cell, as in Fig. 4 and the authors' code."""
GRID, FEW = 80, 50
"""Points per axis of IGP-UCB's grid: 6,400 in all, as the paper says, and 2,500, which its authors' code has on
Rosenbrock."""
REFIT, MATERN = ", refit", ", Matern"
FEWER_POINTS = f"IGP-UCB{REFIT}, {FEW} x {FEW}"
PLAIN_SAMPLES = {"IGP-UCB": 150, "AD": 400}
"""Samples of the rivals in the standard implementation: more than they take in GP-ThreDS's time. AD's constants are
those of so many."""
MORE_SEEDS = 5
"""Halves: the standard implementation has two and a half times the seeds of the rest."""
THEIRS = {"GP-ThreDS (paper)": "GPTDS", "AD": "AD", "IGP-UCB": "IGP_UCB", "GP-EI": "EI", "GP-PI": "PI"}
"""Our labels and the names of the published runs."""
CLAIMED = ("AD", "IGP-UCB")
"""What the paper compares with (Sec. 5); the authors' published runs have GP-EI and GP-PI too, which stand beside."""
EXPECTED = {
    ("branin", "GP-ThreDS (paper)"): (0.06, 0.10), ("rosenbrock", "GP-ThreDS (paper)"): (0.055, 0.11),
    ("branin", "AD"): (0.07, 0.09), ("rosenbrock", "AD"): (0.05, 0.08),
    ("branin", "IGP-UCB"): (0.0, 0.03), ("rosenbrock", "IGP-UCB"): (0.0, 0.03),
    ("branin", "random"): (0.97, 1.07), ("rosenbrock", "random"): (3.34, 3.94),
    ("branin", "GP-ThreDS"): (0.0, 0.05), ("rosenbrock", "GP-ThreDS"): (0.0, 0.03),
    ("branin", "range unknown"): (0.0, 0.05), ("rosenbrock", "range unknown"): (0.0, 0.12),
}  # fmt: skip
"""The 10-seed mean of the average regret must lie in these at 1000 samples."""
FIRST_SEED = 20
MARKS = (1000, 3000, 10_000)
"""Where long runs are looked at."""
COLOURS = {
    "GP-ThreDS (paper)": "tab:red", "AD": "tab:green", "IGP-UCB": "tab:blue", "GP-EI": "tab:purple",
    "GP-PI": "tab:brown", "random": "0.6", "GP-ThreDS": "black", "range unknown": "tab:orange",
    "GP-ThreDS (paper), refit": "salmon", "AD, refit": "lightgreen", "IGP-UCB, refit": "skyblue",
}  # fmt: skip
"""Of the figure of the page."""
PRINTED, OURS = "GP-ThreDS (paper)", "GP-ThreDS"
JUDGED = (PRINTED + REFIT, PRINTED, OURS)
"""The labels whose times the checks compare at."""
SHARES = (0.5, 0.1)
"""Shares of GP-ThreDS's time at which curves are compared beside the claim."""
FASTER = 10.0
"""The paper's runs show 80 and 103 times less time than IGP-UCB; "significant" is a tenth of that here."""
CONVERGES = "offering faster regret convergence in terms of the actual time taken"
RUNS_FASTER = "GP-ThreDS offers a significant reduction in running time"
TIMES = "average regret and time"
AT_TIME = "{problem}: average regret after {until} CPU seconds, those of {label}"
"""The title of a table of losses by seed."""


def settings(options: argparse.Namespace) -> list[Run]:
    """The cells asked for."""
    seeds, budget = range(options.first_seed, options.first_seed + options.seeds), options.samples
    runs = []
    for problem, (name, interval, norm, points) in PROBLEMS.items():
        known = {"lengthscale": 0.2, "noise_sd": NOISE}
        recipes = {
            "GP-ThreDS (paper)": METHODS["gp-threds-printed"](
                interval=interval, assumed_norm=norm, points_per_axis=points, **known
            ),
            "AD": RIVALS["adaptive-discretization"](fitted=False, **known),
            "IGP-UCB": RIVALS["igp-ucb"](fitted=False, gain="log", assumed_norm=norm, **known),
            "GP-EI": RIVALS["grid-ei"](fitted=False, **known),
            "GP-PI": RIVALS["grid-pi"](fitted=False, **known),
            "random": CLASSICS["random"],
            "GP-ThreDS": METHODS["gp-threds"](interval=interval, **known),
            "range unknown": METHODS["gp-threds"],
        }
        if options.full:
            recipes["random walk"] = METHODS["gp-threds-printed"](
                search="walk", interval=interval, assumed_norm=norm, points_per_axis=points, **known
            )
        runs += [
            Run(recipe, name, {"noise_sd": NOISE}, seed, budget, label=label)
            for label, recipe in recipes.items()
            for seed in seeds
        ]
        runs += refitted(problem, seeds, budget)
        if options.full:
            for label in ("GP-ThreDS", "range unknown", "GP-ThreDS (paper)"):
                runs += [
                    Run(recipes[label], name, {"noise_sd": NOISE}, seed, 10_000, label=f"{label}, 10,000")
                    for seed in seeds
                ]
    return runs


def refitted(problem: str, seeds: range, budget: int) -> list[Run]:
    """The three methods of the paper in the standard implementation, with the SE kernel and with Matern-5/2. The claim
    is judged by the former, which has more seeds: regrets at equal times differ much between them."""
    name, interval, norm, points = PROBLEMS[problem]
    known = {"lengthscale": 0.2, "noise_sd": NOISE}
    threds = RIVALS["gp-threds-refit"](interval=interval, assumed_norm=norm, points_per_axis=points, **known)
    igp = RIVALS["igp-ucb-refit"](fitted=False, gain="log", assumed_norm=norm, **known)
    methods = {
        PRINTED + REFIT: (threds, budget),
        "IGP-UCB" + REFIT: (igp(points_per_axis=GRID), PLAIN_SAMPLES["IGP-UCB"]),
        "AD" + REFIT: (RIVALS["ad-refit"](fitted=False, **known), PLAIN_SAMPLES["AD"]),
    }
    more = range(seeds.start, seeds.start + MORE_SEEDS * len(seeds) // 2)
    cells = [(label, recipe, "se", length, more, label) for label, (recipe, length) in methods.items()]
    cells += [(label, recipe, "matern52", length, seeds, label + MATERN) for label, recipe, _, length, *_ in cells]
    if problem == "rosenbrock":
        cells.append(("", igp(points_per_axis=FEW), "se", PLAIN_SAMPLES["IGP-UCB"], seeds, FEWER_POINTS))
    return [
        Run(recipe(kernel=kernel), name, {"noise_sd": NOISE}, seed, min(length, budget), label=label)
        for _, recipe, kernel, length, those, label in cells
        for seed in those
    ]


def cumulative(record: Record) -> np.ndarray:
    """Average regret after each sample."""
    regret = record.regret()
    return np.cumsum(regret) / np.arange(1, len(regret) + 1)


COLUMNS = (
    "problem",
    "method",
    "runs",
    "average regret",
    "+-",
    "wanted",
    "met",
    "authors'",
    "recommendation",
    "us per sample (CPU)",
    "authors' us",
)


def rows(records: list[Record], published: dict[str, np.ndarray]) -> list[list[str | float]]:
    """Average regret, simple regret of the recommendation and time per sample, ours and theirs, one row per problem and
    method."""
    found: list[list[str | float]] = []
    for problem, (name, *_) in PROBLEMS.items():
        for label, group in _by_label(records, name).items():
            means = np.array([cumulative(r)[-1] for r in group])
            low, high = EXPECTED.get((problem, label), (math.nan, math.nan))
            wanted, met = (
                ("", "")
                if math.isnan(low)
                else (f"{low:g} to {high:g}", "yes" if low <= means.mean() <= high else "no")
            )
            simple = float(np.mean([abs(r.optimum - r.recommended) for r in group if r.optimum is not None]))
            cpu = float(np.mean([sample_seconds(r) for r in group])) * 1e6
            error = float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan
            theirs: tuple[str | float, str | float] = ("", "")
            if published and label in THEIRS:
                regret, seconds = (published[f"{problem}__{THEIRS[label]}__{what}"] for what in ("regret", "seconds"))
                theirs = round(float(regret[:, :1000].mean()), 4), round(float(seconds[:, 999].mean()) * 1000)
            ours = [
                round(float(means.mean()), 4),
                round(error, 4),
                wanted,
                met,
                theirs[0],
                round(simple, 4),
                round(cpu),
                theirs[1],
            ]
            found.append([problem, label, len(group), *ours])
    return found


LONG_COLUMNS = (
    "problem",
    "method",
    "runs",
    *(f"average after {n}" for n in MARKS),
    "last 1000, mean",
    "last 1000, worst run",
    "recommendation",
)


def long_rows(records: list[Record]) -> list[list[str | float]]:
    """Whether the average keeps falling in long runs, and whether any run has settled beside the optimum."""
    found: list[list[str | float]] = []
    for problem, (name, *_) in PROBLEMS.items():
        for label, group in _by_label(records, name).items():
            if len(group[0].value) < MARKS[-1]:
                continue
            averages = np.mean([cumulative(r)[[n - 1 for n in MARKS]] for r in group], axis=0)
            last = np.array([r.regret()[-1000:].mean() for r in group])
            simple = float(np.mean([abs(r.optimum - r.recommended) for r in group if r.optimum is not None]))
            numbers = [*averages.tolist(), float(last.mean()), float(last.max()), simple]
            found.append([problem, label, len(group), *(round(x, 4) for x in numbers)])
    return found


def charts(records: list[Record], published: dict[str, np.ndarray]) -> list[tuple[str, dict[str, Any]]]:
    """Average regret of each problem against samples and against seconds inside the method, with the authors' runs
    dashed."""
    found = []
    for problem, (name, *_) in PROBLEMS.items():
        curves = []
        for label, group in _by_label(records, name).items():
            n = min(len(r.value) for r in group)
            if n <= SAMPLES and not label.endswith((MATERN, "unknown", "GP-PI", "GP-EI")):
                curves.append(
                    curve(
                        label,
                        {"average regret": np.array([cumulative(r)[:n] for r in group])},
                        np.array([np.cumsum(r.cpu)[:n] for r in group]),
                    )
                )
            if published and label in (PRINTED, *CLAIMED):
                regret, seconds = (
                    published[f"{problem}__{THEIRS[label]}__{what}"][:, :SAMPLES] for what in ("regret", "seconds")
                )
                average = np.cumsum(regret, axis=1) / np.arange(1, regret.shape[1] + 1)
                curves.append(
                    curve(f"{label}, authors", {"average regret": average}, np.maximum(seconds, 1e-6), dash=True)
                )
        if curves:
            found.append((problem, curves_chart(curves, log_x=[SECONDS], log_y=True)))
    return found


def draw(records: list[Record], published: dict[str, np.ndarray], path: Path) -> None:
    """The four panels of the page: each problem against samples and against seconds; ours solid, the authors' runs
    dashed."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 2, figsize=(9.5, 6.6), sharey="row", layout="constrained")
    for (problem, (name, *_)), row in zip(PROBLEMS.items(), panels, strict=True):
        for label, group in _by_label(records, name).items():
            if label not in COLOURS or len(group[0].value) > SAMPLES:
                continue
            n = min(len(r.value) for r in group)
            step = np.arange(1, n + 1)
            average = np.mean([cumulative(r)[:n] for r in group], axis=0)
            seconds = np.mean([np.cumsum(r.cpu)[:n] for r in group], axis=0)
            for axes, x in zip(row, (step, seconds), strict=True):
                axes.plot(x, average, color=COLOURS[label], label=label)
            if published and label in THEIRS:
                regret, seconds = (
                    published[f"{problem}__{THEIRS[label]}__{what}"][:, :SAMPLES] for what in ("regret", "seconds")
                )
                step = np.arange(1, regret.shape[1] + 1)
                average = np.mean(np.cumsum(regret, axis=1) / step, axis=0)
                for axes, x in zip(row, (step, seconds.mean(axis=0)), strict=True):
                    axes.plot(x, average, color=COLOURS[label], linestyle=(0, (4, 2)), linewidth=1.1)
        row[0].set(ylabel=f"{problem}: average regret", yscale="log", xlim=(0, SAMPLES))
        row[1].set(xscale="log", xlim=(1e-4, None))
        for axes in row:
            axes.grid(alpha=0.25)
    panels[1, 0].set_xlabel("samples")
    panels[1, 1].set_xlabel("seconds (ours: CPU in the method; theirs: wall clock)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    theirs = plt.Line2D([], [], color="grey", linestyle=(0, (4, 2)))
    figure.legend(
        [*handles, theirs], [*labels, "the authors' runs"], loc="outside upper center", ncols=5, frameon=False
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def at_equal_time(
    cases: Cases, label: str, share: float = 1.0, rivals: Sequence[str] = ()
) -> dict[str, tuple[float, dict[str, np.ndarray]]]:
    """Per problem: the processor seconds in which `label` takes all its samples (their median) or a share of them, and
    the average regret then of the methods in the same form, or of these, one per seed."""
    found = {}
    end = label.removeprefix(PRINTED) if label.startswith(PRINTED) else ""
    rivals = rivals or [rival + end for rival in THEIRS if rival != PRINTED]
    for problem, methods in cases.items():
        if label not in methods:
            continue
        until = share * float(np.median([r.cpu.sum() for r in methods[label]]))

        def then(record: Record, until: float = until) -> float:
            spent = np.cumsum(record.cpu)
            taken = int(np.searchsorted(spent, until, side="right"))
            if spent[-1] < 0.5 * until and len(record.value) < SAMPLES:
                raise ValueError(f"{record.label} ended after {spent[-1]:.2g} of {until:.2g} seconds: too few samples")
            return float(cumulative(record)[max(taken, 1) - 1])

        found[problem] = until, common(methods, [label, *rivals], then)
    return found


def converges(
    then: Mapping[str, tuple[float, Mapping[str, np.ndarray]]], label: str, rivals: Sequence[str]
) -> list[Check]:
    """Is the average regret of `label` the lowest of the paper's methods at that time, on both problems together?"""
    pairs = {}
    for rival in rivals:
        both = [(losses[label], losses[rival]) for _, losses in then.values() if rival in losses]
        if both:
            pairs[rival] = pooled_pairs(both)
    until = ", ".join(f"{until:.2g} on {problem}" for problem, (until, _) in then.items())
    what = f"{' and '.join(then)} together: average regret of {label} at its end (CPU seconds: {until})"
    return [hardest(what, pairs, CONVERGES, unit=" of it")] if pairs else []


def judgements(
    then: Mapping[str, Mapping[str, tuple[float, Mapping[str, np.ndarray]]]],
    costs: Mapping[str, Mapping[str, float]],
) -> tuple[list[Check], list[Check], list[Check]]:
    """The checks against the paper's rivals in the standard form, against the fast ones, and those of our default."""
    plain, fast, ours = then[PRINTED + REFIT], then[PRINTED], then[OURS]
    named = converges(plain, PRINTED + REFIT, [m + REFIT for m in CLAIMED])
    named += faster(costs, PRINTED + REFIT, "IGP-UCB" + REFIT)
    good = converges(fast, PRINTED, [m for m in THEIRS if m != PRINTED]) + faster(costs, PRINTED, "IGP-UCB")
    return named, good, converges(ours, OURS, CLAIMED) + faster(costs, OURS, "IGP-UCB")


def other_times(cases: Cases) -> Table:
    """Each function at several times, with the Matern kernel, and with the points that the authors' code has."""
    checks = []
    for end in ("", MATERN):
        label = PRINTED + REFIT + end
        for share in (1.0, *SHARES):
            checks += _lowest(at_equal_time(cases, label, share), label, [m + REFIT + end for m in CLAIMED])
    few = at_equal_time(cases, PRINTED + REFIT, rivals=[FEWER_POINTS])
    checks += _lowest(few, PRINTED + REFIT, [FEWER_POINTS])
    return checks_table(checks, "beside the claim: each function at several times, the Matern kernel, fewer points")


def _lowest(
    then: Mapping[str, tuple[float, Mapping[str, np.ndarray]]], label: str, rivals: Sequence[str], quote: str = ""
) -> list[Check]:
    return [
        lowest(problem, among, label, f"average regret after {until:.2g} CPU seconds", quote=quote)
        for problem, (until, losses) in then.items()
        if len(among := {m: losses[m] for m in (label, *rivals) if m in losses}) > 1
    ]


def by_seed(then: Mapping[str, tuple[float, Mapping[str, np.ndarray]]], label: str) -> list[Table]:
    """What `converges` compares, so that it can be judged again without the records."""
    tables = []
    for problem, (until, losses) in then.items():
        rows = [[m, *(float(f"{v:.6g}") for v in values)] for m, values in losses.items()]
        columns = ["method", *(f"seed {i + 1}" for i in range(len(losses[label])))]
        tables.append(Table(AT_TIME.format(problem=problem, until=f"{until:.4g}", label=label), columns, rows))
    return tables


def from_tables(tables: Sequence[Table], problem: str, label: str) -> tuple[float, dict[str, np.ndarray]] | None:
    """What `by_seed` wrote, None where these tables do not hold it."""
    before, after = AT_TIME.format(problem=problem, until="|", label=label).split("|")
    for table in tables:
        if table.title.startswith(before) and table.title.endswith(after):
            until = float(table.title.removeprefix(before).removesuffix(after))
            return until, {str(row[0]): np.array(row[1:], dtype=float) for row in table.rows}
    return None


def costs(table: Sequence[Sequence[Any]]) -> dict[str, dict[str, float]]:
    """Microseconds of a sample by problem and method, from the rows of the table of times."""
    found: dict[str, dict[str, float]] = {}
    for row in table:
        found.setdefault(str(row[0]), {})[str(row[1])] = float(row[COLUMNS.index("us per sample (CPU)")])
    return found


def sample_seconds(record: Record) -> float:
    """Processor seconds of a sample, over SAMPLES of them. Those that a shorter run has not taken are counted at the
    cost of its last ones, which is a lower bound, because later ones cost more."""
    left = max(SAMPLES - len(record.cpu), 0)
    return float(record.cpu.sum() + left * record.cpu[-10:].mean()) / (len(record.cpu) + left)


def faster(costs: Mapping[str, Mapping[str, float]], label: str, rival: str) -> list[Check]:
    """Per problem: does a sample of the rival cost FASTER times as much processor time? `costs` has the microseconds of
    a sample."""
    checks = []
    for problem, cost in costs.items():
        if label in cost and rival in cost:
            ratio = cost[rival] / cost[label]
            text = f"{cost[rival]:.0f} us against {cost[label]:.0f} us: {ratio:.1f} times"
            what = f"{problem}: at least {FASTER:g} times less time per sample than {rival}"
            checks.append(measured(what, ratio >= FASTER, text, RUNS_FASTER))
    return checks


def finding(
    records: list[Record], table: list[list[str | float]], published: dict[str, np.ndarray], options: argparse.Namespace
) -> Finding:
    """Lowest average regret at equal time, and less time per sample; beside the claim, whether our runs of the paper's
    methods come to the regrets that the authors' runs have."""
    names = {name: problem for problem, (name, *_) in PROBLEMS.items()}
    cases = grouped([r for r in records if len(r.value) <= SAMPLES], lambda r: names[r.settings["problem"]])
    numbers = [
        measured(
            f"{row[0]}: {row[1]}'s average regret as published",
            row[6] == "yes",
            f"{row[3]}, wanted {row[5]}, the authors' runs {row[7]}",
        )
        for row in table
        if row[6] and row[1] in THEIRS and options.samples == SAMPLES
    ]
    then = {label: at_equal_time(cases, label) for label in JUDGED}
    checks, good, ours = judgements(then, costs(table))
    verdict, sentence = judged(checks, fewest(cases), good)
    value = {(row[0], row[1]): row for row in table}
    lower = all(
        float(value[p, "IGP-UCB"][3]) < float(value[p, PRINTED][3])
        for p in PROBLEMS
        if (p, "IGP-UCB") in value and (p, PRINTED) in value
    )
    per_sample = [
        f"{value[p, 'IGP-UCB'][3]} against {value[p, PRINTED][3]} on {p}"
        for p in PROBLEMS
        if (p, "IGP-UCB") in value and (p, PRINTED) in value
    ]
    word, size = "lower" if lower else "not always lower", "full" if options.full else "quick"
    long = [Table("10,000 samples", LONG_COLUMNS, found)] if (found := long_rows(records)) else []
    return Finding(
        "gp-threds", "fig4ab", "average regret on Branin and Rosenbrock",
        "GP-ThreDS lowers the average regret faster in time than IGP-UCB and AD, and takes much less time than IGP- "
        "UCB.",
        verdict, f"{sentence} Per sample, IGP-UCB's average regret is {word}: {', '.join(per_sample)}.",
        {"size": size, "samples": options.samples, "noise sd": NOISE, "seeds": fewest(cases)},
        charts(records, published),
        [*both_columns(checks, good), checks_table(ours, "beside the claim: the same checks of our default"),
         other_times(cases), checks_table(numbers, "beside the claim: our runs beside the authors'"),
         Table(TIMES, COLUMNS, table), *long,
         *(table for label, of in then.items() for table in by_seed(of, label))],
        core_seconds(cases),
    )  # fmt: skip


def _by_label(records: list[Record], name: str) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.settings["problem"] == name:
            groups.setdefault(record.label, []).append(record)
    return groups


def _published() -> dict[str, np.ndarray]:
    """The authors' runs; empty when they are not at hand."""
    try:
        path = data_folder("gp_threds_published_runs") / "runs.npz"
    except FileNotFoundError:
        return {}
    with reading(path), np.load(path) as runs:
        return {name: runs[name] for name in runs.files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--samples", type=int, default=SAMPLES, help="fewer make a look; the published figures are those after 1000"
    )
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--figure", type=Path, help="also draw the curves into this file")
    options = experiment_options(parser, "runs/gp_threds_fig4", seeds=(12, 12), beside="gp_threds_published_runs")
    done = gather(settings(options), options)
    published = _published()
    table = rows(done, published)
    for line in (COLUMNS, ["---"] * len(COLUMNS), *table):
        print("| " + " | ".join(map(str, line)) + " |")
    for line in [LONG_COLUMNS, ["---"] * len(LONG_COLUMNS), *long] if (long := long_rows(done)) else []:
        print("| " + " | ".join(map(str, line)) + " |")
    result = finding(done, table, published, options)
    result.write(options.out)
    print(f"{result.verdict}: {result.sentence}")
    if options.figure is not None:
        draw(done, published, options.figure)


if __name__ == "__main__":
    main()
