"""Calling the user's objective: what it may return, what counts as a failure, and how many failures end a run."""

from __future__ import annotations

import inspect
import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from regretless.basics.values import as_number, in_order_of, numbers_of, shown
from regretless.space import Space
from regretless.trial import last_line

Objective: TypeAlias = Callable[..., Any]
"""fun(**params), or fun(x) for a space given as a list; returns a number or, for several objectives, a mapping of their
names to numbers, or numbers in their order; or a `Value`."""
Catch: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]
"""Exceptions of an objective that count as failed evaluations."""


@dataclass(frozen=True)
class Value:
    """What an objective returns when it knows more than a number.

        return Value(np.mean(scores), var=np.var(scores, ddof=1) / len(scores))

    For several objectives `value` and `var` are mappings of their names, or sequences in their order. `var` is the
    variance of the noise in the value, None when it is not known. `constraints` are the values of the
    constraints that the run was told to expect, at most 0 where they hold, or a mapping of their names to them. `cost`
    is what the evaluation cost.
    """

    value: float | Sequence[float] | Mapping[str, float]
    var: float | Sequence[float | None] | Mapping[str, float | None] | None = None
    constraints: Sequence[float] | Mapping[str, float] | None = None
    cost: float | None = None


class EvaluationError(Exception):
    """Why an evaluation failed, in words that need no traceback."""


class ObjectiveError(RuntimeError):
    """A run that ended because its objective kept failing; `error` is the traceback of the last failure."""

    def __init__(self, message: str, error: str) -> None:
        super().__init__(f"{message}\n\n{error}")
        self.message, self.error = message, error


class Outcome(NamedTuple):
    """What became of one evaluation: a value with its noise variance, or those of all objectives; or the text of an
    error."""

    value: float | tuple[float, ...] | None
    var: float | tuple[float | None, ...] | None = None
    error: str = ""
    constraints: Sequence[float] | Mapping[str, float] | None = None
    cost: float | None = None
    seconds: float | None = None
    spread: tuple[float, ...] = ()
    """The variance of the mean of repeated calls by their differences alone, for each objective."""


def evaluate(
    fun: Objective,
    argument: Any,
    catch: Catch,
    *,
    objectives: tuple[str, ...] = (),
    lenient: bool = False,
    repeat: int = 1,
) -> Outcome:
    """Calls fun on a setting, `repeat` times; a module-level function, so that process pools can send it.

    What it returns must be a number, or one for each of several objectives: anything else raises, unless `lenient`, for
    runs that have values to lose. A call that fails is the outcome of all.
    """
    if repeat == 1:
        return _evaluate_once(fun, argument, catch, objectives, lenient)
    found: list[Outcome] = []
    while len(found) < repeat and (not found or found[-1].value is not None):
        found.append(_evaluate_once(fun, argument, catch, objectives, lenient))
    return found[-1] if found[-1].value is None else mean_of(found)


def mean_of(found: Sequence[Outcome]) -> Outcome:
    """The outcome of repeated calls that all have values: means of values and constraints, sums of costs and times. The
    variance is that of the mean by the told ones, where all were told; else `spread` has what the differences say."""
    values = np.array([out.value for out in found], dtype=np.float64).reshape(len(found), -1)
    variances = np.array([out.var for out in found], dtype=np.float64).reshape(len(found), -1)
    told = not np.isnan(variances).any()
    limits: Any = found[0].constraints
    if isinstance(limits, Mapping):
        limits = {name: fmean(out.constraints[name] for out in found) for name in limits}  # type: ignore[index]
    elif limits is not None:
        limits = [fmean(column) for column in zip(*(out.constraints for out in found), strict=True)]
    mean, var = values.mean(axis=0).tolist(), (variances.mean(axis=0) / len(found)).tolist()
    several = isinstance(found[0].value, tuple)
    return Outcome(
        tuple(mean) if several else mean[0], None if not told else tuple(var) if several else var[0],
        constraints=limits, cost=_sum([out.cost for out in found]), seconds=_sum([out.seconds for out in found]),
        spread=() if told else tuple((values.var(axis=0, ddof=1) / len(found)).tolist()),
    )  # fmt: skip


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [x for x in amounts if x is not None]
    return math.fsum(known) if len(known) == len(amounts) else None


def _evaluate_once(fun: Objective, argument: Any, catch: Catch, objectives: tuple[str, ...], lenient: bool) -> Outcome:
    started = time.perf_counter()
    try:
        out = fun(**argument) if isinstance(argument, Mapping) else fun(argument)
    except EvaluationError as error:
        return Outcome(None, error=str(error), seconds=time.perf_counter() - started)
    except catch:
        return Outcome(None, error=traceback.format_exc(), seconds=time.perf_counter() - started)
    seconds = time.perf_counter() - started
    try:
        outcome = outcomes_of(out, argument, objectives) if objectives else outcome_of(out, argument)
        return outcome._replace(seconds=seconds)
    except ValueError as error:
        if not lenient:
            raise
        return Outcome(None, error=f"ValueError: {error}", seconds=seconds)


def outcome_of(out: Any, argument: Any) -> Outcome:
    """What a returned object says; one that is no number is a slip of the user, which no `catch` takes."""
    told = out if isinstance(out, Value) else Value(out)
    number, constraints = as_number(told.value), numbers_of(told.constraints)
    var = None if told.var is None else as_number(told.var)
    wrong = ""
    if isinstance(told.value, tuple | list | Mapping):
        wrong = (
            "name several objectives by objectives=[...], or return "
            "regretless.Value(value, var=..., constraints=[...], cost=...) to tell more than the value"
        )
    elif number is None:
        wrong = "it must return a number"
    elif told.var is not None and (var is None or var < 0 or var == math.inf):
        wrong = f"var must be a finite number of at least 0, got {shown(told.var)}"
    elif constraints is None:
        wrong = f"constraints must be a list of numbers, got {shown(told.constraints)}"
    if wrong or number is None or constraints is None:
        setting = dict(argument) if isinstance(argument, Mapping) else argument
        raise ValueError(f"the objective returned {shown(out)} at {setting}; {wrong}")
    if not math.isfinite(number):
        return Outcome(None, error=f"the objective returned {number}", cost=told.cost)
    if any(map(math.isnan, constraints)):
        return Outcome(None, error=f"the objective returned the constraints {shown(told.constraints)}", cost=told.cost)
    if var is not None and math.isnan(var):  # the variance of a single score: not known
        var = None
    return Outcome(number, var, constraints=told.constraints, cost=told.cost)


def outcomes_of(out: Any, argument: Any, objectives: tuple[str, ...]) -> Outcome:
    """The same for several objectives: all of them have a value, or the evaluation failed."""
    told = out if isinstance(out, Value) else Value(out)
    setting = dict(argument) if isinstance(argument, Mapping) else argument
    try:
        values = in_order_of(objectives, told.value)
        variances = [None] * len(objectives) if told.var is None else in_order_of(objectives, told.var, "variances")
    except ValueError as error:
        raise ValueError(f"the objective returned {shown(out)} at {setting}; {error}") from None
    parts: dict[str, Outcome] = {}
    for name, value, var in zip(objectives, values, variances, strict=True):
        try:
            parts[name] = outcome_of(Value(value, var, told.constraints, told.cost), argument)
        except ValueError as error:
            raise ValueError(f"objective {name!r}: {error}") from None
    errors = {name: part.error for name, part in parts.items() if part.value is None}
    if errors:
        return Outcome(None, error="; ".join(f"objective {n!r}: {e}" for n, e in errors.items()), cost=told.cost)
    found: Any = [(part.value, part.var) for part in parts.values()]
    value, var = zip(*found, strict=True)
    return Outcome(value, var, constraints=told.constraints, cost=told.cost)


def check_signature(fun: Objective, space: Space) -> None:
    """Refuses an objective that cannot be called with the parameters of the space."""
    if not callable(fun):
        raise TypeError(f"fun must be callable, got {fun!r}")
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # built-ins without a signature: the first call will tell
        return
    always = [name for name in space.names if name not in space.conditional]
    for names in (space.names, always):
        try:
            signature.bind(*([None] if space.as_array else []), **({} if space.as_array else dict.fromkeys(names)))
        except TypeError as error:
            called = getattr(fun, "__name__", "fun")
            called = called if called.isidentifier() else "fun"  # a lambda has no name
            how = f"{called}(x) with one array"
            how = how if space.as_array else f"{called}({', '.join(f'{n}=...' for n in names)})"
            why = "" if names is space.names else "; parameters with `when` need a default, because they may be absent"
            has = f"but it has the signature {signature}: {error}{why}"
            raise TypeError(f"{called} is called as {how}, {has}") from None


def check_catch(catch: Any) -> None:
    classes = catch if isinstance(catch, tuple) else (catch,)
    if not all(isinstance(c, type) and issubclass(c, BaseException) for c in classes):
        raise TypeError(f"catch must be an exception class or a tuple of them, got {catch!r}")


def too_many_failures(ended: Sequence[bool], last_error: str, max_failures: float | None) -> str:
    """The sentence that ends a run, or "": `ended` says of each evaluation of this run, in order, whether it
    succeeded."""
    row = next((i for i, success in enumerate(reversed(ended)) if success), len(ended))
    none_yet = row == len(ended)
    # 5: when this many evaluations have ended and every one of them failed, the objective itself is at fault
    # 20: A run that failed this often without a success between has left the part of the space where the objective
    # works
    limit = max_failures if max_failures is not None else 5 if none_yet else 20
    if row == 0 or row < limit:
        return ""
    which = f"all of the first {row} evaluations failed" if none_yet else f"the last {row} evaluations failed"
    return f"{which}; the last one with: {last_line(last_error)}"
