"""What a user knows of the values beforehand: a floor of a minimisation, or a ceiling of a maximisation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace

from regretless.certificate import Certificate
from regretless.space.parameters import Array
from regretless.task import Task


def first_beyond(task: Task, values: Iterable[float], variances: Iterable[float]) -> float | None:
    """The first of these values that lies beyond the task's limit by more than its noise explains; then the limit is
    wrong. Variances are NaN where they are not known."""
    if task.limit is None:
        return None
    for value, var in zip(values, variances, strict=True):
        # 6.0: known standard deviations by which a value may lie beyond a limit: noise reaches six once in a billion
        noise = max(6.0 * math.sqrt(var) if var > 0 else 0.0, task.noise_bound)
        # 1e-12: how far, relative to a known limit, rounding alone may carry a value beyond it
        if task.sign * (value - task.limit) > max(noise, 1e-12 * abs(task.limit)):
            return float(value)
    return None


def warn_of_wrong_limit(task: Task, value: float) -> None:
    """Warns the caller's caller that a value lies beyond the limit."""
    words = f"{limit_name(task)}={task.limit:g} was wrong: a value of {value:g} was told"
    warnings.warn(f"{words}; certificates go on without it", RuntimeWarning, stacklevel=4)


def within_limit(found: Certificate, task: Task, best: float | None) -> Certificate:
    """A certificate of the maximisation of sign * f with what the limit adds; best: what the recommended setting is
    worth at least, as a method sees it, where that is certain."""
    if task.limit is None:
        return found
    side = "above" if task.sign > 0 else "below"
    within = found.below(task.sign * task.limit, best, f"no value lies {side} {limit_name(task)}={task.limit:g}")
    return replace(within, by_limit=limit_name(task)) if within.certain and not found.certain else within


def asked_for(found: Certificate, task: Task, values: Array) -> str:
    """The floor or ceiling that would make a gap smaller: where all values (n, in the user's units) are above 0 and the
    gap reaches below it, or all are shares and it reaches beyond 1."""
    if found.kind != "fitted" or task.limit is not None or not len(values):
        return ""
    if task.sign < 0 and values.min() > 0 and found.lower < 0:
        return "That reaches below 0, where no value was seen: if none can be negative, give 0 as the floor."
    if task.sign > 0 and values.min() >= 0 and values.max() <= 1 and found.upper > 1:
        return "That reaches above 1, where no value was seen: if none can, give 1 as the ceiling."
    return ""


def limit_name(task: Task) -> str:
    """What the limit of a task is called."""
    return "floor" if task.direction == "minimize" else "ceiling"
