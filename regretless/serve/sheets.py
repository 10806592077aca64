"""Sheets: trials as CSV files, for people who fill in values by hand."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from regretless.files.earlier import columns_of
from regretless.serve.study import Study, ToldValue
from regretless.task import Task
from regretless.trial import Trial

FIRST = "number"
"""The column of a sheet before those of the parameters."""
COMMA = re.compile(r"([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)")
"""A number with a decimal comma, as spreadsheets of many countries write it, with semicolons between the columns."""
SURE_DIGITS = 6
"""How many digits of a setting a spreadsheet keeps at least."""


def last_columns(task: Task) -> list[str]:
    """The columns behind those of the parameters, which are to be filled in."""
    limits = [f"constraint_{name}" for name in task.constraint_names or range(task.n_constraints)]
    return [*values_of(task), *limits, *(["cost"] if task.cost == "told" else []), "error"]


def values_of(task: Task) -> list[str]:
    """The columns of the values: of several objectives those of their names."""
    return list(task.objectives) if task.several else ["value", "var"]


def sheet_of(study: Study, trials: Sequence[Trial]) -> str:
    """A sheet with a row for each trial, whose last columns are to be filled in."""
    names, blank = list(study.optimizer.space.names), last_columns(study.optimizer.task)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([FIRST, *columns_of(names, [FIRST, *blank]), *blank])
    for trial in trials:
        writer.writerow([trial.number, *(trial.params.get(name, "") for name in names), *("" for _ in blank)])
    return out.getvalue()


def tell_sheet(study: Study, path: str | Path) -> list[Trial]:
    """Tells what a sheet says: rows with a value, and as failures those with an error. Rows that are still blank, and
    those that were told before, are left. Returns the trials that were told; a wrong row tells nothing at all."""
    try:
        rows = _rows_of(Path(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"cannot read the sheet {path}: {error}") from None
    told = []
    for line, row in enumerate(rows, start=2):
        try:
            found = _row(study, row)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
        told += [found] if found is not None else []
    out = []
    for number, value, facts in told:
        was_pending = study.optimizer.trials[number].state == "pending"
        trial = study.tell(number, value, **facts)
        out += [trial] if was_pending else []
    return out


def _rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file with commas between the columns, or with semicolons, where numbers may have decimal commas."""
    with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets put a mark first
        first = file.readline()
        semicolons = re.match(rf"\W*{FIRST}\W*;", first) is not None
        file.seek(0)
        table = [row for row in csv.reader(file, delimiter=";" if semicolons else ",") if row]
    if semicolons:
        table = [[COMMA.sub(r"\1.\2", text) if COMMA.fullmatch(text) else text for text in row] for row in table]
    for line, row in enumerate(table[1:], start=2):
        if len(row) > len(table[0]):
            raise csv.Error(f"line {line} has more cells than columns; write decimals with a point")
    return [dict(zip_longest(table[0], row, fillvalue="")) for row in table[1:]]


def _row(study: Study, row: dict[str, str]) -> tuple[int, ToldValue, dict[str, Any]] | None:
    """What a row says of a trial; None where it says nothing yet."""
    task = study.optimizer.task
    values = list(task.objectives) or ["value"]
    for column in (FIRST, *values):
        if column not in row:
            raise ValueError(f"a sheet of this run has the columns {', '.join((FIRST, *values))}")
    cells = {name: (text or "").strip() for name, text in row.items() if name is not None}
    filled = [name for name in values if cells[name]]
    if not filled and not cells.get("error"):
        return None
    trials = study.optimizer.trials
    number = int(cells[FIRST])
    if not 0 <= number < len(trials):
        raise ValueError(f"there is no trial {number}")
    _check_setting(study, trials[number], cells)
    if not filled:
        return number, None, {"error": cells["error"]}
    if len(filled) < len(values):
        raise ValueError(f"{', '.join(name for name in values if name not in filled)} is missing")
    facts: dict[str, Any] = {name: _number(cells, name) for name in ("var", "cost") if cells.get(name)}
    limits = [_number(cells, name) for name, text in cells.items() if name.startswith("constraint_") and text]
    facts |= {"constraints": limits} if limits else {}
    return number, {n: _number(cells, n) for n in values} if task.several else _number(cells, "value"), facts


def _number(cells: dict[str, str], name: str) -> float:
    try:
        return float(cells[name])
    except ValueError:
        raise ValueError(f"{name} is {cells[name]!r}, which is no number; write decimals with a point") from None


def _check_setting(study: Study, trial: Trial, cells: dict[str, str]) -> None:
    """Raises ValueError where a row has another setting than the trial: its value would belong to that one."""
    names = list(study.optimizer.space.names)
    columns = columns_of(names, [FIRST, *last_columns(study.optimizer.task)])
    for name, column in zip(names, columns):
        wanted = trial.given.get(name, "")
        text = cells.get(column)
        if text is None or text == str(wanted).strip():
            continue
        try:
            if any(float(text) == float(f"{float(wanted):.{digits}g}") for digits in range(SURE_DIGITS, 18)):
                continue
        except (TypeError, ValueError):
            pass
        raise ValueError(
            f"{name} is {text!r} and was {wanted!r} when trial {trial.number} was asked; a setting of your own is told "
            "by `regretless tell STUDY --params`"
        )
