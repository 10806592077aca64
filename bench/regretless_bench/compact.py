"""An experiment's records in one small file: enough to recompute tables of final values, small enough to keep with the
documentation.

Runs of the bench become `records.csv`, one line each. Experiments that keep JSON records of their own (one file per
run) become `records.json`: what made them (versions and commits, each once), and the records, their numbers rounded and
their curves at four places, with the place of their maker in that list. Rows of the same names stand there by column,
so that a name is there once; `read_records` gives them back as rows.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regretless.basics.statefile import write_whole
from regretless_bench.finding import COMPACT, own_records
from regretless_bench.problems.problem import RENAMED
from regretless_bench.record import MADE, Record, load_records

CSV, JSON = "records.csv", COMPACT
DIGITS = 6
"""Significant digits of a number."""
QUARTERS = (0.25, 0.5, 0.75, 1.0)
"""Shares of the evaluations after which the best value is given."""
CURVE = "precision"
"""What COCO's rows call the best values after every evaluation, of which those after QUARTERS are kept."""
SAME, EACH = "in all", "by column"
"""Names of the two parts of rows that stand by column."""
COLUMNS = (
    *("problem", "method", "seed", "evaluations", "initial"),
    *(f"best after {round(100 * share)} %" for share in QUARTERS),
    *("mean value", "recommended", "CPU seconds", "evaluation seconds", "commit"),
)


def compact(folder: str | Path) -> Path | None:
    """Writes the small file into an experiment's folder from the records there; None when there are none."""
    folder = Path(folder)
    records = load_records(folder)
    if records:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_line(record) for record in sorted(records, key=lambda r: (r.problem, r.label, r.seed)))
        write_whole(folder / CSV, text.getvalue().encode())
        return folder / CSV
    paths = own_records(folder)
    if not paths:
        return None
    makers: list[Any] = []
    found = {}
    for path in paths:
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict) and MADE in record:
            makers += [record[MADE]] if record[MADE] not in makers else []
            record[MADE] = makers.index(record[MADE])
        found[str(path.relative_to(folder).with_suffix(""))] = by_column(rounded(thinned(record)))
    write_whole(folder / JSON, json.dumps({MADE: makers, "records": found}, separators=(",", ":")).encode())
    return folder / JSON


@dataclass(frozen=True)
class Line:
    """One run as `records.csv` has it, in the problem's own units."""

    problem: str
    label: str
    seed: int
    evaluations: int
    initial: int
    best: tuple[float, ...]
    """After QUARTERS of the evaluations."""
    mean: float
    recommended: float
    cpu: float
    """Processor seconds in the method."""


def read_lines(path: str | Path) -> list[Line]:
    """The runs in a `records.csv`; anything else raises ValueError."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        quarters = [f"best after {round(100 * share)} %" for share in QUARTERS]
        return [
            Line(
                _renamed(row["problem"]), row["method"], int(row["seed"]), int(row["evaluations"]), int(row["initial"]),
                tuple(float(row[name]) for name in quarters), float(row["mean value"]), float(row["recommended"]),
                float(row["CPU seconds"]),
            )
            for row in rows
        ]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise ValueError(f"{path} does not hold the lines of runs: {type(error).__name__}: {error}") from None


def _renamed(problem: str) -> str:
    """A problem's title with its options under their present names."""
    for old, new in RENAMED.items():
        problem = problem.replace(f"({old}=", f"({new}=").replace(f" {old}=", f" {new}=")
    return problem


def _line(record: Record) -> list[Any]:
    values = (
        record.y if np.isnan(record.value).all() else record.value
    )  # a task whose evaluations are random has no noiseless value
    best = record.sign * np.fmax.accumulate(record.sign * values)
    numbers = rounded(
        [
            *map(float, at_quarters(best)),
            float(np.nanmean(values)),
            record.recommended,
            float(record.cpu.sum()),
            float(record.seconds_evaluate.sum()),
        ]
    )
    return [
        record.problem,
        record.label,
        record.seed,
        len(values),
        record.settings["init"],
        *numbers,
        record.facts.get("commit") or "",
    ]


def at_quarters(values: Any) -> list[Any]:
    """The values after QUARTERS of the evaluations."""
    return [values[max(0, math.ceil(share * len(values)) - 1)] for share in QUARTERS]


def thinned(value: Any) -> Any:
    """The same with curves of best values at QUARTERS alone, in lists and mappings too."""
    if isinstance(value, dict):
        return {key: at_quarters(v) if key == CURVE else thinned(v) for key, v in value.items()}
    return [thinned(v) for v in value] if isinstance(value, list) else value


def read_records(path: str | Path) -> dict[str, Any]:
    """The records in a `records.json` by name, rows as rows again."""
    stored: dict[str, Any] = by_row(json.loads(Path(path).read_text(encoding="utf-8"))["records"])
    return stored


def by_column(value: Any) -> Any:
    """The same with every list of mappings that have the same names as two mappings: what is equal in all of them, and
    a list per other name. A list whose members are all equal stays, as its length would be lost."""
    if isinstance(value, dict):
        return {key: by_column(v) for key, v in value.items()}
    if not isinstance(value, list):
        return value
    if not all(isinstance(v, dict) and v.keys() == value[0].keys() for v in value):
        return [by_column(v) for v in value]
    same = {key: by_column(value[0][key]) for v in value[:1] for key in v if len({repr(w[key]) for w in value}) == 1}
    each = {key: [by_column(v[key]) for v in value] for v in value[:1] for key in v if key not in same}
    return {SAME: same, EACH: each} if each else [by_column(v) for v in value]


def by_row(value: Any) -> Any:
    """What `by_column` was given."""
    if isinstance(value, list):
        return [by_row(v) for v in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {SAME, EACH}:
        return {key: by_row(v) for key, v in value.items()}
    columns = [[by_row(v) for v in column] for column in value[EACH].values()]
    return [
        {**by_row(value[SAME]), **dict(zip(value[EACH], cells, strict=True))} for cells in zip(*columns, strict=True)
    ]


def rounded(value: Any) -> Any:
    """The same with numbers of few digits, in lists and mappings too."""
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
