"""What was evaluated before: earlier runs, studies and tables as settings with values, and their places in a space.

Sources are a `Result` or the file of its `to_json`, an `Optimizer`, the file of a checkpoint, an Optuna study, the URL
of an Optuna storage, and (setting, value) pairs. A CSV is one too, also that of an Optuna `trials_dataframe`: it has a
column per parameter and one called "value", or one per objective where there are several. Their ranges may differ from
the space's: a number outside has a place beyond the end of its axis, where a model can use it and nothing is proposed.
"""

from __future__ import annotations

import base64
import csv
import importlib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regretless.basics.values import as_number, numbers_of, shown
from regretless.files.checkpoint import read_run, unpack_run
from regretless.space import Space
from regretless.space.parameters import Array, Choice, Encoding, Float, Int, Parameter, along, ends_of, is_line
from regretless.task import Task


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of an earlier run."""

    params: Mapping[str, Any]
    value: float
    var: float | None = None
    constraints: tuple[float, ...] = ()
    blank: tuple[str, ...] = ()
    """The columns of a table that are empty here: pandas writes None so."""
    further: tuple[float, ...] = ()
    """The values of the other objectives, where there are several."""
    further_var: tuple[float, ...] = ()
    """Their noise variances, NaN where unknown."""


@dataclass(frozen=True)
class Placed:
    """Evaluations with places in a cube: inside it, beyond it, and how many could not be placed and why."""

    inside: list[tuple[Array, Evaluation]]
    beyond: list[tuple[Array, Evaluation]]
    left_out: dict[str, int]


# ---------------------------------------------------------------- reading


def evaluations(source: Any, objectives: Sequence[str] = ()) -> list[Evaluation]:
    """The finished evaluations of a source; see the module's text. `objectives`: the names of several objectives."""
    if isinstance(source, str) and ("://" in source or source.startswith(JOURNAL)):
        return _of_storage(source)
    if isinstance(source, str | Path) and is_database(Path(source)):
        return _of_storage(f"sqlite:///{source}")
    if isinstance(source, str | Path):
        if Path(source).suffix.lower() == ".csv":
            return _of_csv(Path(source), objectives or ("value",))
        return (_of_json if Path(source).suffix.lower() == ".json" else _of_file)(Path(source))
    trials = source.get_trials(deepcopy=False) if hasattr(source, "get_trials") else getattr(source, "trials", None)
    if trials is not None:
        return [found for trial in trials if (found := _of_trial(trial)) is not None]
    if isinstance(source, Iterable):
        return [_of_pair(item) for item in source]
    raise ValueError(
        f"earlier: expected a Result, an Optimizer, a study, a file or (setting, value) pairs, got {shown(source)}"
    )


def _of_trial(trial: Any) -> Evaluation | None:
    """The evaluation of one of our trials, or of Optuna's; None when it has no value."""
    state = getattr(trial.state, "name", trial.state)
    if state not in ("done", "COMPLETE") or not trial.values:
        return None
    value, *further = trial.values
    found = trial.constraints if hasattr(trial, "constraints") else trial.system_attrs.get("constraints")
    found = {name: found[name] for name in sorted(found)} if isinstance(found, Mapping) else found
    constraints = tuple(numbers_of(found) or ())  # another program may have called something else so
    var = getattr(trial, "var", None) if state == "done" else trial.user_attrs.get("regretless:var")
    own = getattr(trial, "further_var", None) or (None,) * len(further)
    more = tuple(map(float, further)), tuple(math.nan if v is None else v for v in own)
    return Evaluation(dict(trial.params), float(value), var, constraints, (), *more)


def _of_pair(item: Any) -> Evaluation:
    if isinstance(item, Sequence) and len(item) == 2 and isinstance(item[0], Mapping):
        told = item[1] if isinstance(item[1], tuple | list) else [item[1]]
        values = [number for number in map(as_number, told) if number is not None and math.isfinite(number)]
        if values and len(values) == len(told):
            return _of_values(item[0], values)
    raise ValueError(f"earlier: expected (setting, value) pairs, got {shown(item)}")


def _of_values(params: Mapping[str, Any], values: Sequence[float], blank: tuple[str, ...] = ()) -> Evaluation:
    """An evaluation whose noise is not known."""
    unknown = (math.nan,) * (len(values) - 1)
    return Evaluation(dict(params), values[0], blank=blank, further=tuple(values[1:]), further_var=unknown)


def is_database(path: Path) -> bool:
    """Whether a file is one of SQLite's."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _of_storage(url: str) -> list[Evaluation]:
    """The evaluations of the only study in a storage, by the door that opens storages."""
    return evaluations(importlib.import_module("regretless.doors.optuna.urls").only_study(url))


JOURNAL = "journal:"
"""What stands before the path of a journal file, which has no address of its own."""


def _of_file(path: Path) -> list[Evaluation]:
    return _of_run(read_run(path), path)


def _of_run(content: tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]], path: Path) -> list[Evaluation]:
    """The trials of a file of `Optimizer.save`, in its own space."""
    state, changes = content
    if not str(state.get("kind", "")).startswith("regretless-run"):
        raise ValueError(f"earlier: {path} is neither a CSV nor a file of Optimizer.save")
    space = Space.from_json(state["task"]["space"])
    shares = space.cube().dim == np.shape(state["unit"])[1]
    encoding: Encoding = "shares" if shares else "onehot"
    settings = [state["own"].get(str(n)) or space.decode(np.asarray(u), encoding) for n, u in enumerate(state["unit"])]
    lists = [state[name].tolist() for name in ("value", "var", "constraints", "further", "further_var")]
    told = {n: facts for n, facts in enumerate(zip(*lists, strict=True)) if not math.isnan(facts[0])}
    for change in changes:
        settings += [own or space.decode(np.array(u), encoding) for u, own, _ in change.get("asked", ())]
        for n, value, var, row, _, _, further, further_var, *_ in change.get("ended", ()):
            if value is not None:
                told[n] = value, var, row, further, [math.nan if v is None else v for v in further_var]
    return [
        Evaluation(
            settings[n], value, None if var is None or math.isnan(var) else var, tuple(row), (), tuple(further),
            tuple(further_var),
        )
        for n, (value, var, row, further, further_var) in sorted(told.items())
    ]  # fmt: skip


def _of_json(path: Path) -> list[Evaluation]:
    """The trials of a file of `Result.to_json`, which holds one of `Optimizer.save`."""
    try:
        content = unpack_run(base64.b64decode(json.loads(path.read_bytes())["state"], validate=True))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"earlier: {path} is not a file of Result.to_json: {error}") from None
    return _of_run(content, path)


def _of_csv(path: Path, objectives: Sequence[str]) -> list[Evaluation]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets put a mark first
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"earlier: cannot read {path}: {error}") from None
    if not rows or any(name not in rows[0] for name in objectives):
        called = " and ".join(f'"{name}"' for name in objectives)
        raise ValueError(f"earlier: {path} needs a column per parameter and one called {called}")
    out = []
    for row in rows:
        try:
            values = [float(row[name]) for name in objectives]
        except (TypeError, ValueError):
            continue  # a failed evaluation has no number there
        told = {name: text for name, text in row.items() if name not in FACTS or f"{PARAMS}{name}" not in row}
        params = {name: text for name, text in told.items() if name not in objectives and text not in (None, "")}
        marked = {name.removeprefix(PARAMS): text for name, text in params.items() if str(name).startswith(PARAMS)}
        params |= {name: text for name, text in marked.items() if name not in params or name in FACTS}
        if all(map(math.isfinite, values)) and row.get("state") != "PRUNED":  # whose value is its last report
            blank = tuple(str(name).removeprefix(PARAMS) for name, text in told.items() if text == "")
            out.append(_of_values({name: Written(text) for name, text in params.items()}, values, blank))
    return out


FACTS = ("number", "state", "value", "var", "cost", "seconds", "error", "started", "completed", "duration")
"""Columns of tables of trials that tell other things than parameters."""
PARAMS = "params_"
"""What stands before a parameter's name where another column is called so, and before all names in Optuna's tables."""


def columns_of(names: Sequence[str], taken: Collection[str]) -> list[str]:
    """The columns of parameters in a table that has others too."""
    columns = []
    for name in names:
        column = name
        while column in taken or (column != name and column in names):
            column = f"{PARAMS}{column}"
        columns.append(column)
    return columns


WHOLE = re.compile(r"[+-]?\d+")
"""A whole number as tables hold it."""


class Written(str):
    """A value as a table holds it: a text that stands for a number or a label."""


# ---------------------------------------------------------------- placing


def placed(
    found: Sequence[Evaluation], space: Space, choices: Encoding, missing: Mapping[str, Any], task: Task
) -> Placed:
    """Where evaluations lie in the cube of a space; `missing` holds values for parameters that they do not have."""
    inside: list[tuple[Array, Evaluation]] = []
    beyond: list[tuple[Array, Evaluation]] = []
    left: dict[str, int] = {}
    choices_of_none = {
        n for n, p in space.parameters.items() if isinstance(p, Choice) and not p.when and None in p.labels
    }
    for evaluation in found:
        none = {name: None for name in evaluation.blank if name in choices_of_none}
        try:
            if len(evaluation.constraints) != task.n_constraints:
                raise ValueError(f"{len(evaluation.constraints)} constraints where this run has {task.n_constraints}")
            if 1 + len(evaluation.further) != len(task.directions):
                raise ValueError(f"{1 + len(evaluation.further)} objectives where this run has {len(task.directions)}")
            u, outside = place({**none, **missing, **evaluation.params}, space, choices)
        except ValueError as error:
            left[str(error)] = left.get(str(error), 0) + 1
            continue
        (beyond if outside else inside).append((u, evaluation))
    return Placed(inside, beyond, left)


def place(params: Mapping[str, Any], space: Space, choices: Encoding) -> tuple[Array, bool]:
    """The point of a setting, d, and whether it lies beyond the cube; ValueError where it has no point."""
    # how far beyond the ends of an axis, in its lengths, a number may lie and still say something about the range
    reach = 1.0
    known = {name: _value(space.parameters[name], params[name]) for name in space.names if name in params}
    known |= {n: p.from_unit(0.5) for n, p in space.parameters.items() if n not in known and p.axis.levels == 1}
    near, past = dict(known), {}
    for name, value in known.items():
        p = space.parameters[name]
        if not isinstance(p, Choice):
            u = _unit(p, value)
            if not -reach <= u <= 1.0 + reach:
                raise ValueError(f"{name} lies too far outside its range")
            if not p.low <= value <= p.high:
                past[name] = u
            near[name] = _nearest(p, value)
    lost = [name for name, exists in space.active(near).items() if exists and name not in near]
    if lost:
        raise ValueError(f"no value for {lost[0]!r} (give one by missing={{{lost[0]!r}: ...}})")
    point = space.encode(near, choices)
    for name, u in past.items():
        point[space.spans(choices)[name][0]] = u
    return point, bool(past)


def _value(p: Parameter, value: Any) -> Any:
    """A value as the parameter means it; texts of tables are read as its numbers or labels."""
    if isinstance(p, Choice):
        if isinstance(value, Written):
            alike = [label for label in p.labels if str(label) == value]
            if len(alike) > 1:
                raise ValueError(f"the text {str(value)!r} stands for several labels of {p}")
            return alike[0] if alike else p.labels[p.index(str(value))]
        return p.labels[p.index(value)]
    if isinstance(value, Written):
        value = int(value) if WHOLE.fullmatch(value) else float(value)
    number = as_number(value)
    if number is None or not math.isfinite(number) or (p.log and number <= 0):
        raise ValueError(f"{value!r} is no value of {p}")
    return int(value) if isinstance(value, int | np.integer) else number  # floats do not hold every whole number


def _unit(p: Float | Int, value: float) -> float:
    """The place of a number on its axis, beyond the ends too."""
    if p.axis.levels == 1:
        return 0.5 if p.low <= value <= p.high else math.inf
    if p.log:
        return along(math.log(value), *map(math.log, ends_of(p)))
    if is_line(p):
        return along(value, p.low, p.high)
    return ((value - p.low) / (p.step or 1) + 0.5) / p.axis.levels


def _nearest(p: Float | Int, value: float) -> Any:
    """The nearest value that the parameter can take."""
    inside = min(max(value, p.low), p.high)
    if is_line(p):
        return inside
    step = p.step or 1
    on_step = p.low + step * round((inside - p.low) / step)
    while on_step > p.high:
        on_step -= step
    return int(on_step) if isinstance(p, Int) else p.from_unit(_unit(p, on_step))
