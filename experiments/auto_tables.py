"""The tables and the chart of `auto` beside its parts and its peers, from the outcomes that `auto_choice.py` leaves.

    python experiments/auto_tables.py runs/auto [--methods "auto gp-ucb gp-ei"] [--chart peers.png]

Methods are ranked within a case (a function with a dimension, a noise and an instance), on the cases that all of them
finished. Errors have functions as units, because a function in other dimensions, noises and instances is no new
problem.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from regretless_bench.stats import ranks, standard_error

from regretless.space.parameters import Array

QUICK = ("auto", "optuna-tpe", "optuna-cmaes", "nevergrad-ngopt", "turbo")
"""The peers whose asks take milliseconds."""
SLOW = ("optuna-gp", "smac", "botorch-logei", "botorch-lognei", "botorch-saas", "hebo")
"""The peers whose asks take a tenth of a second to seconds: they run on fewer cases."""
NAMES = {
    "optuna-tpe": "TPE", "optuna-cmaes": "CMA-ES", "nevergrad-ngopt": "NGOpt", "turbo": "TuRBO",
    "optuna-gp": "GPSampler", "smac": "SMAC3", "botorch-logei": "qLogEI", "botorch-lognei": "qLogNEI",
    "botorch-saas": "SAAS", "hebo": "HEBO", "cma": "pycma",
}  # fmt: skip
"""What people call the peers."""
GROUPS = {"1-5": range(1, 6), "6-9": range(6, 10), "10-14": range(10, 15), "15-19": range(15, 20),
          "20-24": range(20, 25)}  # fmt: skip
"""The five groups of COCO's functions: separable, moderate, ill-conditioned, multi-modal, weakly structured."""
LEAST_CASES = 12
"""A kind of suite with fewer cases has no panel in the chart: its mean ranks would say nothing."""
AFTER = (100, 300, 1000, 3000, 10000, 30000, 100000)
"""Numbers of evaluations after which a long run's loss and cost are written down."""
SOLVED = 1e-8
"""A function with a loss below this is solved: COCO's last target."""
KINDS = {
    "clean": "no noise", "noise": "noise", "few": "noise, few evaluations", "mixint": "whole numbers",
    "fewint": "whole numbers, few evaluations", "wide": "20 and 40 parameters", "high": "100 and 300 parameters",
    "large": "80 parameters, few evaluations", "deep": "many parameters, turned formulas",
    "fewdeep": "many parameters, few evaluations",
    "table": "tables of trainings", "train": "trainings, few evaluations",
}  # fmt: skip
UNITS = {"table": "tables", "train": "trainings"}
"""What the cases of a kind are of, where these are no functions."""
BBOB = ("clean", "noise", "few", "mixint", "fewint", "batch", "fewbatch", "wide", "large", "long")
"""The kinds whose functions are COCO's."""


def key_of(row: Mapping[str, Any]) -> tuple[str, int, int, str]:
    return row["suite"], row["family"], row["instance"], row["method"]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The outcomes in a file, or in all files of a folder; failed runs are left out."""
    paths = sorted(path.glob("*.json*")) if path.is_dir() else [path] if path.exists() else []
    rows = [json.loads(line) for p in paths for line in p.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [row for row in rows if "error" not in row]


# ---------------------------------------------------------------- ranks and tables


def field_of(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], suites: Sequence[str]
             ) -> tuple[tuple[str, ...], list[tuple[str, int, int]], dict[str, Array]]:  # fmt: skip
    """The methods that ran, the cases that all of them finished, and losses and costs by name, cases x methods."""
    found: dict[str, dict[tuple[str, int, int], Mapping[str, Any]]] = {m: {} for m in methods}
    for row in rows:
        if row["method"] in found and row["suite"] in suites:
            found[row["method"]][row["suite"], row["family"], row["instance"]] = row
    ran = tuple(m for m in methods if found[m])
    cases = sorted(set.intersection(*(set(found[m]) for m in ran))) if ran else []
    names = ("best", "advised", "modelled", "ms")
    return ran, cases, {name: np.array([[found[m][c].get(name, np.nan) for m in ran] for c in cases]) for name in names}


def mean_ranks(losses: Array, cases: Sequence[tuple[str, int, int]]) -> tuple[Array, Array]:
    """Mean rank over cases (rows) and its standard error with functions as units, per method."""
    rank = ranks(losses)
    return rank.mean(axis=0), standard_error(rank, functions_of(cases))


def functions_of(cases: Iterable[tuple[str, int, int]]) -> list[int]:
    """The function of each case. Errors have functions as units, because a function in other dimensions, noises and
    instances is no new problem."""
    return [family for _, family, _ in cases]


def table(title: str, rows: Sequence[Mapping[str, Any]], methods: Sequence[str], suites: Sequence[str]) -> str:
    """Mean ranks with standard errors (functions are units) of all methods on the cases they share; then without those
    that ran the fewest cases, where that leaves half as many cases again. The first method is in every table."""
    lines, last = [], 0
    counts = {m: sum(r["method"] == m and r["suite"] in suites for r in rows) for m in methods}
    field = [m for m in methods if counts[m]]
    while len(field) > 1 and field[0] == methods[0]:
        ran, cases, values = field_of(rows, field, suites)
        if len(cases) > 1 and len(cases) >= 1.5 * last:
            lines += [*one_table(f"{title}: {len(cases)} cases", ran, cases, values), ""]
            last = len(cases)
        least = min(counts[m] for m in field)
        field = [m for m in field if counts[m] > least]
    return "\n".join(lines)


def one_table(title: str, ran: Sequence[str], cases: Sequence[tuple[str, int, int]], values: Mapping[str, Array]
              ) -> list[str]:  # fmt: skip
    rank = {name: mean_ranks(values[name], cases) for name in ("best", "advised")}
    each = ranks(values["advised"])
    behind = each - each[:, :1]
    error = standard_error(behind, functions_of(cases))
    lines = [title, "", f"| method | of the best point | of the recommendation | behind {ran[0]} | ms per ask |",
             "|" + " --- |" * 5]  # fmt: skip
    for i in np.argsort(rank["advised"][0]):
        cells = [f"{rank[name][0][i]:.2f} ± {rank[name][1][i]:.2f}" for name in ("best", "advised")]
        cells.append(f"{behind[:, i].mean():.2f} ± {error[i]:.2f}" if i else "")
        lines.append(f"| {ran[i]} | {' | '.join(cells)} | {np.median(values['ms'][:, i]):.3g} |")
    known = np.isfinite(values["modelled"]).all(axis=1)
    if known.any():
        mean, around = mean_ranks(values["modelled"][known], [cases[int(n)] for n in np.flatnonzero(known)])
        cells = [f"{ran[i]} {mean[i]:.2f} ± {around[i]:.2f}" for i in np.argsort(mean)]
        lines += ["", f"If one model recommended for all ({known.sum()} cases): {', '.join(cells)}"]
    words = []
    for group, members in GROUPS.items():
        at = [n for n, (suite, family, _) in enumerate(cases) if family in members and suite.split("-")[0] in BBOB]
        if at:
            means = each[at].mean(axis=0)
            other = 1 + int(np.argmin(means[1:]))
            gap = behind[at, other]
            spread = f" ± {gap.std(ddof=1) / len(gap) ** 0.5:.2f}" if len(gap) > 1 else ""
            words.append(f"f{group} {means[0]:.2f} ({ran[other]} {means[other]:.2f}; behind {gap.mean():.2f}{spread})")
    title = f"{ran[0]} by group, beside the best of the others (errors over cases: a group has few functions)"
    return [*lines, "", f"{title}: {', '.join(words)}"] if words else lines


def present(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], suites: Sequence[str]) -> list[str]:
    """The methods that ran at least half of the cases that `auto` ran."""
    counts = {m: sum(r["method"] == m and r["suite"] in suites for r in rows) for m in methods}
    return [m for m in methods if counts[m] >= max(1, 0.5 * counts.get("auto", 0))]


def in_order(suite: str) -> tuple[str, list[int]]:
    kind, *numbers = suite.split("-")
    return kind, [int(number) for number in numbers]


def suites_of(kind: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({r["suite"] for r in rows if r["suite"].split("-")[0] == kind}, key=in_order)


def summary(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> str:
    """A line per suite, one per kind, pooled, and one per kind with the methods that ran fewer of its cases: mean rank
    by the best point / by the recommendation ± its error."""
    groups: list[tuple[str, list[str], list[str]]] = []
    for kind in KINDS:
        groups += [(name, [name], present(rows, methods, [name])) for name in suites_of(kind, rows)]
    for kind in KINDS:
        suites = suites_of(kind, rows)
        usual = present(rows, methods, suites)
        if len(suites) > 1:
            groups.append((f"all {kind}", suites, usual))
        for other in (m for m in methods if m not in usual):
            ran, cases, _ = field_of(rows, [*usual, other], suites)
            if other in ran and len(cases) >= LEAST_CASES:
                groups.append((f"{kind}, with {other}", suites, [m for m in methods if m in (*usual, other)]))
    lines = [f"| suite | cases | {' | '.join(f'`{m}`' for m in methods)} |", "|" + " --- |" * (2 + len(methods))]
    for title, suites, field in groups:
        ran, cases, values = field_of(rows, field, suites)
        if len(cases) < 2 or len(ran) < 2:
            continue
        (best, _), (advised, error) = (mean_ranks(values[name], cases) for name in ("best", "advised"))
        cells = dict.fromkeys(methods, "")
        for i, m in enumerate(ran):
            text = f"{best[i]:.2f} / {advised[i]:.2f} ± {error[i]:.2f}"
            cells[m] = f"**{text}**" if advised[i] == advised.min() else text
        lines.append(f"| {title} | {len(cases)} | {' | '.join(cells.values())} |")
    return "\n".join(lines)


def batch_table(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], kind: str = "batch") -> str:
    """What evaluations in batches cost: geometric means over cases of losses relative to the sequential run's."""
    rows = [r for r in rows if r["suite"].split("-")[0] == kind]
    sizes = sorted({int(r["suite"].split("-")[1]) for r in rows})
    lines = [f"| method, {kind} | at once | cases | mean regret | after the first batch | best |", "|" + " --- |" * 6]
    for method in methods:
        by = {(r["suite"], r["family"], r["instance"]): r for r in rows if r["method"] == method}
        for size in sizes[1:]:
            pairs = [(case, r, by.get((f"{kind}-{sizes[0]}-{case[0].split('-')[2]}", *case[1:])))
                     for case, r in by.items() if case[0].startswith(f"{kind}-{size}-")]  # fmt: skip
            logs = np.array([[np.log(max(r[k], 1e-8) / max(one[k], 1e-8)) for k in ("mean", "later", "best")]
                             for _, r, one in pairs if one is not None])  # fmt: skip
            if len(logs) > 1:
                error = standard_error(logs, functions_of(case for case, _, one in pairs if one is not None))
                pairs_of = zip(np.exp(logs.mean(axis=0)), np.exp(error), strict=True)
                cells = [f"{ratio:.2f} (times or by {spread:.2f})" for ratio, spread in pairs_of]
                lines.append(f"| {method} | {size} | {len(logs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


class LongRuns(NamedTuple):
    """Long runs of `auto` beside a peer's after so many evaluations."""

    suite: str
    peer: str
    after: int
    cases: int
    mean: float
    """Decades by which the best loss of `auto` lies below the peer's; losses below 1e-8 count as that."""
    error: float
    """Its standard error; functions are units."""
    lower: int
    """Cases with a lower loss of `auto`."""
    higher: int
    ours: float
    """Milliseconds of an ask and tell of `auto`, averaged over the run so far: the median over cases."""
    theirs: float


def long_rows(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> list[LongRuns]:
    """What long runs came to, by suite, number of evaluations and peer, on the cases that both have."""
    by = {key_of(row): row["after"] for row in rows if "after" in row}
    found = []
    suites = sorted({key[0] for key in by}, key=in_order)
    for suite, n, peer in itertools.product(suites, AFTER, (m for m in methods if m != "auto")):
        ours, theirs = ({key[:3]: after[str(n)] for key, after in by.items()
                         if (key[0], key[3]) == (suite, m) and str(n) in after} for m in ("auto", peer))  # fmt: skip
        shared = sorted(set(ours) & set(theirs))
        if len(shared) > 1:
            pairs = np.array([[ours[case], theirs[case]] for case in shared])
            losses, costs = np.log10(np.maximum(pairs[:, :, 0], SOLVED)), np.median(pairs[:, :, 1], axis=0)
            gain = losses[:, 1] - losses[:, 0]
            error = float(standard_error(gain[:, None], functions_of(shared))[0])
            found.append(LongRuns(suite, peer, n, len(gain), float(gain.mean()), error, int((gain > 0).sum()),
                                  int((gain < 0).sum()), float(costs[0]), float(costs[1])))  # fmt: skip
    return found


def long_table(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> str:
    lines = ["| suite | after | peer | cases | decades | lower on | higher on | `auto`, ms | peer, ms |",
             "|" + " --- |" * 9]  # fmt: skip
    for r in long_rows(rows, methods):
        cells = (r.suite, r.after, r.peer, r.cases, f"{r.mean:.2f} ± {r.error:.2f}", r.lower, r.higher, f"{r.ours:.3g}",
                 f"{r.theirs:.3g}")  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def chart(path: Path, rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> None:
    """One panel per kind of suite: the mean rank of the recommendation, with its standard error, against the
    milliseconds of an ask. A panel has the methods that ran at least half of its cases, on the cases of all of them."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    suites = {kind: suites_of(kind, rows) for kind in KINDS}
    shared = {kind: field_of(rows, present(rows, methods, suites[kind]), suites[kind])[1] for kind in KINDS}
    kinds = [kind for kind in KINDS if len(shared[kind]) >= LEAST_CASES]
    across = min(2, len(kinds))  # a page is some 800 pixels wide: three panels side by side have names of four pixels
    down = -(-len(kinds) // across)
    figure, panels = plt.subplots(down, across, figsize=(4.4 * across, 3.0 * down), squeeze=False, layout="constrained")
    for panel in panels.flat[len(kinds) :]:
        panel.axis("off")
    if len(kinds) < panels.size:
        panels.flat[len(kinds)].text(0, 0.5, "Up is better. A bar is a standard error\nwith functions as units.")
    placed: list[tuple[Any, tuple[str, ...], Array, Array, Array]] = []
    for panel, kind in zip(panels.flat, kinds, strict=False):
        ran, cases, values = field_of(rows, present(rows, methods, suites[kind]), suites[kind])
        (mean, error), cost = mean_ranks(values["advised"], cases), np.median(values["ms"], axis=0)
        for i, method in enumerate(ran):
            colour, mark = ("C3", "D") if method == "auto" else ("0.35", "o")
            panel.errorbar(cost[i], mean[i], yerr=error[i], fmt=mark, color=colour)
        units = len(set(functions_of(cases)))
        title = f"{KINDS[kind]}\n{len(cases)} cases, {units} {UNITS.get(kind, 'functions')}"
        panel.set(xscale="log", xlabel="CPU ms per ask", title=title)
        panel.margins(x=0.5)
        panel.set_ylim(len(ran) + 0.2, 0.8)
        placed.append((panel, ran, cost, mean, error))
    for row in panels:
        row[0].set_ylabel("mean rank (1 is best)")
    figure.draw_without_rendering()  # names are placed by what lies where
    for panel, ran, cost, mean, error in placed:
        name_points(panel, ran, cost, mean, error)
    figure.savefig(path, dpi=110)


def name_points(panel: Any, names: Sequence[str], x: Array, y: Array, error: Array) -> None:
    """Writes each name on that side of its point where it lies on the fewest points, error bars and names."""
    from matplotlib.transforms import Bbox

    low, high = (panel.transData.transform(np.column_stack([x, end])) for end in (y + error, y - error))
    taken = [Bbox.from_extents(u - 5, v - 5, u + 5, w + 5) for (u, v), (_, w) in zip(low, high, strict=True)]
    for i, name in enumerate(NAMES.get(name, name) for name in names):
        found = []
        for right, up in itertools.product((1, -1), (4, -11, 12, -20)):
            side, colour = "left" if right > 0 else "right", "C3" if name == "auto" else "0.35"
            note = panel.annotate(name, (x[i], y[i]), xytext=(6 * right, up), textcoords="offset points", fontsize=8,
                                  color=colour, ha=side)  # fmt: skip
            box = note.get_window_extent()
            outside = not (panel.bbox.containsx(box.x0) and panel.bbox.containsx(box.x1))
            found.append((outside, sum(box.overlaps(other) for n, other in enumerate(taken) if n != i), note, box))
            note.remove()
        *_, note, box = min(found, key=lambda trial: trial[:2])
        panel.add_artist(note)
        taken.append(box)


def tables_of(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> str:
    """Every table of these outcomes."""
    suites = dict.fromkeys(row["suite"] for row in rows)
    found = [table(suite, rows, methods, [suite]) for suite in suites]
    pooled = [kind for kind in KINDS if len(suites_of(kind, rows)) > 1]
    found += [table(f"all {kind}", rows, methods, suites_of(kind, rows)) for kind in pooled]
    for kind in ("batch", "fewbatch"):
        if any(suite.startswith(f"{kind}-") for suite in suites):
            found.append(batch_table(rows, methods, kind))
    if any("after" in row for row in rows):
        found.append(long_table(rows, methods))
    return "\n\n".join([*found, summary(rows, methods)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("outcomes", type=Path, help="a file or folder that auto_choice.py wrote")
    parser.add_argument("--methods", default=" ".join(QUICK + SLOW), help="names separated by blanks")
    parser.add_argument("--chart", type=Path, help="a PNG file of the mean ranks of all suites")
    options = parser.parse_args()
    rows, methods = rows_of(options.outcomes), options.methods.split()
    print(tables_of(rows, methods))
    if options.chart is not None:
        chart(options.chart, rows, methods)


if __name__ == "__main__":
    main()
