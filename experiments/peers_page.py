"""Makes the tables and the chart of docs/peers.md and docs/lab/peers.md from the outcomes under docs/results/auto.

    python experiments/peers_page.py

The guide's page has one table, a line per kind of problem with the best peer. The laboratory's page has all peers of
every kind, long runs, and the mean ranks of every suite. A test holds both pages against the outcomes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from auto_tables import NAMES, QUICK, SLOW, chart, field_of, functions_of, long_rows, mean_ranks, rows_of, summary
from regretless_bench.stats import ranks, standard_error

DOCS = Path(__file__).parent.parent / "docs"
PAGE, LABORATORY = DOCS / "peers.md", DOCS / "lab" / "peers.md"
CHART, OUTCOMES = DOCS / "images" / "peers.png", DOCS / "results" / "auto"
END = "<!-- end -->"
DECIDED = 2.0
"""A gap of fewer standard errors than this is not decided."""
WHOLE = ("auto", "optuna-tpe", "optuna-cmaes", "optuna-gp", "smac")
KINDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("no noise, 2 to 10 parameters, 20 evaluations per parameter", ("clean-2", "clean-3", "clean-5", "clean-10"),
     (*QUICK, "optuna-gp")),
    ("the same and 20 parameters", ("clean-2", "clean-3", "clean-5", "clean-10", "clean-20"), QUICK),
    ("20 parameters alone", ("clean-20",), QUICK),
    ("noise of 5, 15 and 30 %, 2 to 5 parameters, 50 per parameter",
     tuple(f"noise-{s}-{d}" for s in (5, 15, 30) for d in (2, 3, 5)), QUICK),
    ("noise beside GPSampler, 2 and 3 parameters and a few cases of 5",
     tuple(f"noise-{s}-{d}" for s in (5, 15, 30) for d in (2, 3, 5)), (*QUICK, "optuna-gp")),
    ("few noisy evaluations, 2 and 3 parameters, 20 per parameter", ("few-15-2", "few-15-3", "few-30-2"),
     (*QUICK, "optuna-gp", "botorch-lognei")),
    ("the same beside HEBO", ("few-15-2", "few-15-3", "few-30-2"), (*QUICK, "optuna-gp", "botorch-lognei", "hebo")),
    ("whole numbers, 5 and 10 parameters, 20 per parameter", ("mixint-5", "mixint-10"), WHOLE),
    ("whole numbers, 20 parameters, 10 per parameter", ("fewint-20",), WHOLE),
    ("whole numbers, 5 parameters, 10 per parameter", ("fewint-5",), (*WHOLE, "hebo")),
    ("30, 50 and 100 parameters, 300 evaluations", ("deep-30", "deep-50", "deep-100"), QUICK),
    ("30 and 50 parameters, 100 evaluations", ("fewdeep-30", "fewdeep-50"), (*QUICK, "botorch-saas")),
    ("80 parameters of bbob-largescale, 160 evaluations", ("large-80",),
     ("auto", "optuna-tpe", "optuna-cmaes", "nevergrad-ngopt")),
    ("1,000 parameters, 300 evaluations", ("deep-1000",), ("auto", "nevergrad-ngopt")),
    *((f"trainings, {n} evaluations per parameter", (f"train-{n}",), ("auto", "optuna-tpe", "optuna-gp"))
      for n in (3, 5, 10)),
    ("tables of trainings, 60 evaluations", ("table-60",), ("auto", "optuna-tpe", "optuna-gp")),
    ("the same beside SMAC3", ("table-60",), ("auto", "optuna-tpe", "optuna-gp", "smac")),
    ("the same beside HEBO", ("table-60",), ("auto", "optuna-tpe", "optuna-gp", "smac", "hebo")),
)  # fmt: skip
"""The kinds of problems, their suites and the methods that are ranked there."""
Rows = Sequence[Mapping[str, Any]]


class Kind(NamedTuple):
    """A kind of problem: mean ranks of the recommendation, and the gap to the best peer case by case."""

    title: str
    cases: str
    ours: str
    peers: list[str]
    """Best first."""
    ahead: str


def kinds(rows: Rows) -> list[Kind]:
    """What was found of each kind."""
    found = []
    for title, suites, methods in KINDS:
        ran, cases, values = field_of(rows, methods, suites)
        mean, error = mean_ranks(values["advised"], cases)
        order = [int(i) for i in np.argsort(mean, kind="stable") if i]
        each = ranks(values["advised"])
        gap = each[:, order[0]] - each[:, 0]
        spread = float(standard_error(gap[:, None], functions_of(cases))[0])
        far = abs(gap.mean()) >= DECIDED * spread
        verdict = "not decided" if not far else "ahead" if gap.mean() > 0 else "behind"
        peers = [f"{NAMES[ran[i]]} {mean[i]:.2f} ± {error[i]:.2f}" for i in order]
        number = f"{len(cases)}; {len(set(functions_of(cases)))}"
        ours, ahead = f"{mean[0]:.2f} ± {error[0]:.2f}", f"{gap.mean():.2f} ± {spread:.2f}: {verdict}"
        found.append(Kind(title, number, ours, peers, ahead))
    return found


def best_peers_table(rows: Rows) -> str:
    """A line per kind that needs no other line to be understood, with the best peer."""
    heads = ("problems", "cases; functions", "`auto`", "best peer", "ahead of it")
    lines = [(k.title, k.cases, k.ours, k.peers[0], k.ahead) for k in kinds(rows) if not k.title.startswith("the same")]
    return as_table(heads, lines)


def kinds_table(rows: Rows) -> str:
    """A line per kind, with all peers."""
    heads = ("problems", "cases; functions", "`auto`", "peers, best first", "ahead of the best peer")
    return as_table(heads, [(k.title, k.cases, k.ours, ", ".join(k.peers), k.ahead) for k in kinds(rows)])


def as_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Markdown of a table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines))


def long_runs_table(rows: Rows) -> str:
    """Long runs beside each peer."""
    heads = ("budget", "after", "beside", "cases", "decades below", "lower, higher on", "`auto`, ms", "it, ms")
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for line in long_rows(rows, ("auto", "cma", "optuna-cmaes", "optuna-tpe")):
        budget = int(line.suite.split("-")[-1])
        cells = (f"{budget:,}", f"{line.after:,}", NAMES[line.peer], line.cases, f"{line.mean:.2f} ± {line.error:.2f}",
                 f"{line.lower}, {line.higher}", f"{line.ours:.2g}", f"{line.theirs:.2g}")  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def suites_table(rows: Rows) -> str:
    """Every suite; qLogEI has batches alone."""
    return summary(rows, [m for m in QUICK + SLOW if m != "botorch-logei"])


PAGES = {
    PAGE: {"kinds": best_peers_table},
    LABORATORY: {"kinds": kinds_table, "long runs": long_runs_table, "suites": suites_table},
}
"""The marks of the pages and what stands between them."""


def mark(name: str) -> str:
    return f"<!-- {name}: made by experiments/peers_page.py -->"


def page_with(text: str, rows: Rows, tables: Mapping[str, Callable[[Rows], str]]) -> str:
    """A page's text with its tables made anew, indented as their marks are."""
    for name, make in tables.items():
        before, found, rest = text.partition(mark(name))
        if not found or END not in rest:
            raise ValueError(f"the page has no place for the table {name!r}: {mark(name)} ... {END}")
        indent = before[before.rindex("\n") + 1 :]
        table = "\n".join(indent + line for line in make(rows).splitlines())
        text = f"{before}{found}\n\n{table}\n\n{indent}{END}{rest.partition(END)[2]}"
    return text


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0]).parse_args()
    rows = rows_of(OUTCOMES)
    for page, tables in PAGES.items():
        page.write_text(page_with(page.read_text(encoding="utf-8"), rows, tables), encoding="utf-8")
    chart(CHART, rows, QUICK + SLOW)


if __name__ == "__main__":
    main()
