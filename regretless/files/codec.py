"""What a file says of a run, in plain values and arrays: its task, its method, its book, and a cache of its method.

Nothing stands there twice, so a file that somebody wrote by hand cannot disagree with itself; what it says may still be
impossible, and then it is refused. A file may come from a stranger: it leads to no import, no attribute, no path.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np

from regretless.auto import AUTO, find_recipe
from regretless.auto.recipes import MethodName
from regretless.basics.fingerprint import is_plain
from regretless.files.book import Book, Earlier, Record
from regretless.method import Method, Recipe
from regretless.outlook.probes import is_due
from regretless.space.parameters import Array
from regretless.task import Task, as_text
from regretless.trial import Trial

MethodLike: TypeAlias = MethodName | Recipe | type[Method]
"""A name, a recipe, a Method class, or "auto"."""


def as_recipe(method: MethodLike) -> Recipe:
    """The recipe of a name, a recipe or a Method class."""
    if isinstance(method, Recipe):
        return method
    if isinstance(method, type) and issubclass(method, Method):
        return Recipe(method.__name__, method)
    return find_recipe(method)


def method_named(name: str) -> MethodLike:
    """The method of a name that is no constant of the program: "auto" as it is, any other as its recipe."""
    return "auto" if name == AUTO.name else find_recipe(name)


def same_recipe(stored: Mapping[str, Any], given: Recipe | type[Method] | None) -> Recipe:
    """The recipe of a file; options that no file can hold must be given again and agree by content."""
    name, options = stored["name"], stored["options"]
    if given is None:
        if any(isinstance(value, dict) for value in options.values()):
            lost = ", ".join(key for key, value in options.items() if isinstance(value, dict))
            raise ValueError(f"the file could not hold the option {lost} of {name}: pass method=")
        for key, value in options.items():
            # 4096: the largest whole number that an option in a file may be without being given again: larger ones
            # ask for much memory, and a file may come from a stranger. No default is larger.
            if isinstance(value, int) and value > 4096:
                raise ValueError(f"the option {key} = {value} of {name} asks for much memory: pass method= to confirm")
        return find_recipe(name)(**options)
    recipe = as_recipe(given)
    if recipe.name != name:
        raise ValueError(f"the file was written by method {name!r}, not {recipe.name!r}")
    own = recipe.to_json()["options"]
    for key in sorted({*options, *own}):
        if as_text(options.get(key)) != as_text(own.get(key)):
            raise ValueError(
                f"the file was written by method {name!r} with {key} = {as_text(options.get(key))}, "
                f"the method given has {key} = {as_text(own.get(key))}"
            )
    return recipe


# ---------------------------------------------------------------- a book in arrays


def book_to_arrays(book: Book, task: Task, method: Method) -> dict[str, Any]:
    """The entries of a file that hold a book."""
    trials, m, more = book.trials, task.n_constraints, len(task.directions) - 1
    return {
        "unit": np.concatenate([np.empty(0), *(t.unit for t in trials)]).reshape(-1, method.dim),
        "value": _column([t.value for t in trials]),
        "var": _column([t.var for t in trials]),
        "further": np.array([t.further or (math.nan,) * more for t in trials]).reshape(len(trials), more),
        "further_var": _table([t.further_var for t in trials], more),
        "constraints": np.array([t.constraints or (math.nan,) * m for t in trials]).reshape(len(trials), m),
        "cost": _column([t.cost for t in trials]),
        "seconds": _column([t.seconds for t in trials]),
        "error": {str(t.number): t.error for t in trials if t.error},
        "own": {str(t.number): own for t in trials if (own := own_params(t, task, method)) is not None},
        "ended": np.array(book.ended, dtype=np.int64),
        "forgotten": np.array(sorted(book.forgotten), dtype=np.int64),
        "earlier": _earlier_to_arrays(book.earlier, method.dim, m, more),
        "probe_steps": np.array(book.probe_steps, dtype=np.int64),
        "seen": np.array([t.seen or (-1, -1) for t in trials], dtype=np.int64).reshape(-1, 2),
        "handed": [[number, client] for number, client in book.handed],
        "record": asdict(book.record),
    }


def book_from_arrays(content: Mapping[str, Any], task: Task, method: Method) -> Book:
    """The book that `book_to_arrays` wrote; raises ValueError where what it says is impossible."""
    book = Book(record=Record.from_json(content["record"]))
    units = checked_units(content["unit"], method)
    m, n = task.n_constraints, len(units)
    columns = {name: np.asarray(content[name], dtype=np.float64) for name in ("value", "var", "cost", "seconds")}
    constraints = np.asarray(content["constraints"], dtype=np.float64).reshape(n, m)
    further = _further(content, n, task)
    if any(len(column) != n for column in (*columns.values(), constraints)):
        raise ValueError("its columns have different lengths")
    for name, column in columns.items():
        if np.isinf(column).any():
            raise ValueError(f"the {name} of trial {int(np.argmax(np.isinf(column)))} is infinite")
    known = list(zip(*(map(_known, column.tolist()) for column in columns.values()), strict=True))
    limits: list[list[float]] = constraints.tolist()
    lacking: list[bool] = np.isnan(constraints).any(axis=1).tolist()  # type: ignore[assignment] # rows
    seen = np.asarray(content["seen"], dtype=np.int64).reshape(n, 2).tolist()
    settings = task.space.decode_all(units, method.traits.choices) if n else []
    for number, (u, decoded) in enumerate(zip(units, settings, strict=True)):
        trial = trial_at(number, u, content["own"].get(str(number)), decoded, task, method)
        trial.value, trial.var, trial.cost, trial.seconds = known[number]
        trial.constraints = () if lacking[number] else tuple(limits[number])
        trial.error = str(content["error"].get(str(number), ""))
        trial.seen = checked_seen(seen[number])
        if trial.value is not None:
            trial.further = tuple(further[0][number].tolist())
            trial.further_var = tuple(map(_known, further[1][number]))
        book.trials.append(trial)
    book.ended = [int(number) for number in content["ended"]]
    book.forgotten = {int(number) for number in content["forgotten"]}
    if len(set(book.ended)) < len(book.ended) or not book.forgotten <= set(book.ended) <= set(range(n)):
        raise ValueError("the order in which its trials ended is none")
    for number in book.ended:
        book.trials[number].state = "failed" if book.trials[number].value is None else "done"
    if any(t.value is not None and (t.state == "pending" or t.number in book.forgotten) for t in book.trials):
        raise ValueError("a trial has a value and has not ended")
    book.probe_steps = [int(step) for step in content["probe_steps"]]
    book.handed = checked_handed(content["handed"], n)
    book.earlier = _earlier_from_arrays(content["earlier"], len(book.ended), method, task)
    return book


def trial_at(
    number: int, u: Array, own: Mapping[str, Any] | None, decoded: dict[str, Any], task: Task, method: Method
) -> Trial:
    """A pending trial at a point, d; `own`: its parameters, where they are not those `decoded` from the point."""
    if own is not None and method.cube.key(task.space.encode(own, method.traits.choices)) != u.tobytes():
        raise ValueError(f"the parameters of trial {number} do not belong to its point")
    trial = Trial(number, decoded if own is None else dict(own), unit=u)
    trial.differs = own is not None
    return trial


def checked_seen(seen: Any) -> tuple[int, int] | None:
    """What a proposal had seen; None where a file says -1."""
    ended, earlier = (int(number) for number in seen)
    return None if ended < 0 else (ended, earlier)


def checked_handed(handed: Sequence[Any], trials: int) -> list[tuple[int, str]]:
    """Who was given which trial, in plain values; raises ValueError for anything else."""
    found = [(number, client) for number, client in handed]
    for number, client in found:
        if type(number) is not int or not 0 <= number < trials or not isinstance(client, str):
            raise ValueError(f"it says that trial {number!r} was given to {client!r}")
    return found


def own_params(trial: Trial, task: Task, method: Method) -> dict[str, Any] | None:
    """The parameters of a trial, where they are others than the space decodes from its point and a file can hold
    them."""
    if trial.differs is None:
        proposed = trial.seen is not None
        trial.differs = not proposed and task.space.decode(trial.unit, method.traits.choices) != trial.given
    return trial.given if trial.differs and all(map(is_plain, trial.given.values())) else None


def checked_units(unit: Any, method: Method) -> Array:
    """Points of trials as canonical places of the method's cube, n x d."""
    units = np.asarray(unit, dtype=np.float64).reshape(-1, method.dim)
    inside = ((units >= 0) & (units <= 1)).all(axis=1)  # NaN is neither
    if not inside.all():
        raise ValueError(f"the point of trial {int(np.argmin(inside))} does not lie in the unit cube")
    return method.cube.snap(units) if len(units) else units


def check_book(book: Book, task: Task) -> None:
    """Refuses a book that names trials which there are not. A study says itself which of its trials are probes, and
    it counts those that never ended, which the file of its result does not hold."""
    record = book.record
    if record.numbers is not None and len(record.numbers) != len(book.trials):
        raise ValueError("it numbers other trials than it holds")
    for step in book.probe_steps:
        if step < 0 or (record.numbers is None and not (step < len(book.trials) and is_due(step, task))):
            raise ValueError("it names probes that none of its trials can be")


def _further(content: Mapping[str, Any], n: int, task: Task) -> tuple[Array, Array]:
    """The values of the objectives beyond the first and their noise variances, n x (k - 1) each; a value is known of
    all objectives or of none."""
    shape, value = (n, len(task.directions) - 1), np.asarray(content["value"], dtype=np.float64)
    values, variances = (np.asarray(content[name], dtype=np.float64) for name in ("further", "further_var"))
    if values.shape != shape or variances.shape != shape:
        raise ValueError(f"it does not hold the values of {shape[1] + 1} objectives")
    if np.isinf(values).any() or np.isinf(variances).any() or (np.isnan(values) != np.isnan(value)[:, None]).any():
        raise ValueError("an objective has no value where another one has")
    return values, variances


def _earlier_to_arrays(earlier: Sequence[Earlier], dim: int, m: int, more: int) -> dict[str, Any]:
    return {
        "unit": np.array([e.unit for e in earlier]).reshape(-1, dim),
        "value": np.array([e.value for e in earlier]),
        "var": np.array([e.var for e in earlier]),
        "further": np.array([e.further for e in earlier]).reshape(len(earlier), more),
        "further_var": np.array([e.further_var for e in earlier]).reshape(len(earlier), more),
        "constraints": np.array([e.constraints for e in earlier]).reshape(len(earlier), m),
        "outside": np.array([e.outside for e in earlier], dtype=bool),
        "after": np.array([e.after for e in earlier], dtype=np.int64),
    }


def _earlier_from_arrays(content: Mapping[str, Any], ended: int, method: Method, task: Task) -> list[Earlier]:
    unit, after = np.asarray(content["unit"], dtype=np.float64).reshape(-1, method.dim), content["after"]
    if (np.diff(after) < 0).any() or ((after < 0) | (after > ended)).any():
        raise ValueError("its earlier evaluations were learnt at no possible moment")
    outside = np.asarray(content["outside"], dtype=bool)
    if not np.isfinite(unit).all() or ((unit < 0) | (unit > 1))[~outside].any():
        raise ValueError("an earlier evaluation lies nowhere")
    more = _further(content, len(unit), task)
    rows = zip(unit, content["value"], content["var"], content["constraints"], outside, after, *more, strict=True)
    return [
        Earlier(
            u if beyond else method.cube.snap(u), float(y), float(var), tuple(c.tolist()), bool(beyond), int(at),
            tuple(z.tolist()), tuple(z_var.tolist()),
        )
        for u, y, var, c, beyond, at, z, z_var in rows
    ]  # fmt: skip


def _column(numbers: Sequence[float | None]) -> Array:
    """Numbers as an array, NaN where there is none, n."""
    return np.array([math.nan if number is None else number for number in numbers])


def _table(rows: Sequence[Sequence[float | None]], width: int) -> Array:
    """The same of rows, n x width; an empty row has no numbers."""
    return np.array([_column(row) if row else [math.nan] * width for row in rows]).reshape(len(rows), width)


def _known(number: float) -> float | None:
    return None if math.isnan(number) else float(number)
