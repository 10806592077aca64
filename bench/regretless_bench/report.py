"""One HTML page from a folder of records: curves to explore, final figures, ranks, settings, versions and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from regretless.basics.statefile import write_whole
from regretless.report.page import (
    MOST_POINTS,
    Curve,
    Section,
    TableCell,
    curves_section,
    html_page,
    table_section,
    text_section,
    thinned,
)
from regretless_bench.record import Record, by_problem, load_records
from regretless_bench.stats import paired
from regretless_bench.summary import BEST, band, finals, median_text, rank_table, traces

EVALUATIONS, SECONDS = "evaluations", "seconds in the method"
FILE = "report.html"
PAGE_POINTS, LEAST_POINTS = 24_000, 30
"""Points of all curves of a page together, which keeps it near 2 MB, and of one curve at the least."""


def report_folder(out: str | Path) -> Path:
    """Writes the page of the records in a folder and returns its path."""
    records = load_records(out, failed=True)
    if not records:
        raise ValueError(f"there are no records in {str(out)!r}; run a comparison first")
    path = Path(out) / FILE
    write_whole(path, records_page(records, f"Comparison: {Path(out).resolve().name}").encode())
    return path


def records_page(records: Sequence[Record], title: str) -> str:
    """The page of these records."""
    good = [record for record in records if record.error is None]
    sections = []
    if good:
        sections += [s for s in [ranks_section(good)] if s is not None]
        groups = by_problem(good)
        most = max(LEAST_POINTS, min(MOST_POINTS, PAGE_POINTS // sum(map(len, groups.values()))))
        for problem, methods in groups.items():
            curves, figures = regret_section(problem, methods, most=most), finals_section(problem, methods)
            sections.append(Section(problem, curves.body + figures.body))
        sections.append(settings_section(good))
    failed = [record for record in records if record.error is not None]
    if failed:
        rows: list[list[TableCell]] = [
            [r.label, r.problem, r.seed, (r.error or "").strip().split("\n")[-1]] for r in failed
        ]
        sections.append(table_section(f"Failed runs: {len(failed)}", ["method", "problem", "seed", "error"], rows))
    seeds = len({record.seed for record in good})
    lines = "Lines are medians over seeds, bands run from the lower to the upper quartile."
    lead = f"{len(good)} runs, {seeds} seeds. {lines}"
    return html_page(title, sections, lead=lead)


# ---------------------------------------------------------------- sections


def record_curves(methods: Mapping[str, Sequence[Record]], most: int = MOST_POINTS) -> list[Curve]:
    """Curves of one problem's records: every quantity against evaluations and against seconds inside the method, at
    most about `most` points."""
    curves = []
    for trace in traces(methods):
        keep = thinned(len(trace.n), most)
        x = {EVALUATIONS: trace.n[keep], SECONDS: np.median(trace.seconds[:, keep], axis=0)}
        curves.append(Curve(trace.label, x, {name: band(values[:, keep]) for name, values in trace.quantities.items()}))
    return curves


def regret_section(
    problem: str, methods: Mapping[str, Sequence[Record]], note: str = "", most: int = MOST_POINTS
) -> Section:
    """The interactive curves of one problem."""
    curves, record = record_curves(methods, most), next(iter(methods.values()))[0]
    logs, largest = [name for name in curves[0].y if name != BEST], record.optimum is None and record.sign > 0
    return curves_section(problem, curves, log_x=[SECONDS], log_y=logs, note=note or _about(record), largest=largest)


def finals_section(problem: str, methods: Mapping[str, Sequence[Record]]) -> Section:
    """The final figures of one problem: medians with quartiles."""
    first = next(iter(methods.values()))[0]
    known = first.optimum is not None
    kind = "min" if known or first.sign < 0 else "max"
    name, advised = (
        ("simple regret", "regret of the recommendation") if known else ("best value", "value of the recommendation")
    )
    columns = [
        "method",
        "seeds",
        name,
        advised,
        *(["average regret"] if known else []),
        "CPU ms",
        "seeds better than the best",
    ]
    table = finals(methods)
    leader = min(table, key=lambda f: float(f.final[1]) if kind == "min" else -float(f.final[1])).label
    rows: list[list[TableCell]] = [
        [
            f.label,
            f.seeds,
            median_text(f.final),
            median_text(f.recommended),
            *([median_text(f.average)] if known else []),
            float(f"{f.ask_ms:.3g}"),
            "the best" if f.label == leader else against(methods[f.label], methods[leader]),
        ]
        for f in table
    ]
    best = {name: kind, advised: kind, **({"average regret": "min"} if known else {})}
    pairs = f"The last column pairs each method with {leader} seed by seed; p is the sign test's."
    note = f"Medians over seeds, quartiles in brackets; CPU ms of one ask and tell. {pairs}"
    return table_section(f"{problem}: final figures", columns, rows, best=best, note=note)


def against(records: Sequence[Record], leader: Sequence[Record]) -> str:
    """On how many common seeds the final noiseless value beats the leader's, as text."""
    ends = {r.seed: -r.sign * r.best()[-1] for r in leader}
    pairs = np.array([(-r.sign * r.best()[-1], ends[r.seed]) for r in records if r.seed in ends]).reshape(-1, 2)
    if not len(pairs):
        return "no common seeds"
    result = paired(pairs[:, 0], pairs[:, 1])
    return f"{result.wins} of {len(pairs)} (p {result.p:.2g})"


def ranks_section(records: Sequence[Record]) -> Section | None:
    """Mean joint ranks over all problems and seeds; None when fewer than two methods ran everything."""
    table = rank_table(records)
    if len(table.labels) < 2:
        return None
    per_problem = table.per_problem()
    columns = ["method", "all", *per_problem]
    rows: list[list[TableCell]] = [
        [table.labels[i], float(f"{table.mean[i]:.3g}"), *(float(f"{r[i]:.3g}") for r in per_problem.values())]
        for i in np.argsort(table.mean, kind="stable")
    ]
    note = (
        "1 is best: the methods of each problem and seed are ranked jointly by the final noiseless value, "
        "and ties share their mean rank."
    )
    return table_section("Mean ranks", columns, rows, best=dict.fromkeys(columns[1:], "min"), note=note)


def settings_section(records: Sequence[Record]) -> Section:
    """Budgets, versions and commits behind the records."""
    budgets = sorted({(r.settings["budget"], r.settings["init"]) for r in records})
    commits = sorted({r.facts.get("commit") or "not known, no source checkout" for r in records})
    versions = sorted({f"{k} {v}" for r in records for k, v in r.facts.get("versions", {}).items()})
    words = "; ".join(f"{budget} evaluations, {init} of them common initial points" for budget, init in budgets)
    return text_section(
        "Settings", f"Budget: {words}.", f"Commit: {', '.join(commits)}.", f"Versions: {', '.join(versions)}."
    )


# ---------------------------------------------------------------- inside


def _about(record: Record) -> str:
    known = f"optimum {record.optimum:.6g}" if record.optimum is not None else "optimum not known"
    noise = f", noise sd {record.facts['noise_sd']:.3g}" if record.facts["noise_sd"] else ""
    return f"{record.facts['title']}: {record.facts['direction']}, {record.facts['dim']} parameters, {known}{noise}."
