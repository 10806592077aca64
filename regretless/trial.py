"""`Trial`: one evaluation, and the checks of what may be told about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from regretless.evaluation import as_number, shown
from regretless.parameters import Array

TrialState: TypeAlias = Literal["pending", "done", "failed"]
STATES: tuple[TrialState, ...] = ("pending", "done", "failed")
"""What becomes of trials, in the order of their codes in a file."""


@dataclass(eq=False)
class Trial:
    """One evaluation: its number, its parameters, and what came of it."""

    number: int
    params: dict[str, Any]
    state: TrialState = "pending"
    value: float | None = None
    """The value told, in the user's units; None while pending and when failed."""
    var: float | None = None
    """The known noise variance of the value, when one was told."""
    error: str = ""
    """Why the evaluation failed, when it did and the reason was told."""
    unit: Array = field(repr=False, default_factory=lambda: np.empty(0))
    """The point in the method's cube, d."""
    constraints: tuple[float, ...] = ()
    """The values of the constraints, at most 0 where they hold."""
    cost: float | None = None
    """What the evaluation cost, when that was told or measured."""
    seconds: float | None = None
    """How long the evaluation took, when that is known."""

    @property
    def feasible(self) -> bool:
        """Whether it was evaluated and satisfies all constraints."""
        return self.value is not None and all(c <= 0 for c in self.constraints)

    @property
    def x(self) -> Array:
        """The parameters as an array, for spaces of numbers alone."""
        return np.array(list(self.params.values()), dtype=np.float64)


# ---------------------------------------------------------------- values


def checked_value(value: Any) -> float:
    if value is None:
        raise ValueError("tell needs a value, or failed=True")
    number = as_number(value)
    if number is None:
        raise ValueError(f"the value must be a number, got {shown(value)}")
    return number


def checked_positive(name: str, value: Any, *, zero: bool = False) -> float:
    number = as_number(value)
    if number is None or not (math.isfinite(number) and (number > 0 or (zero and number == 0))):
        raise ValueError(f"{name} must be a finite number of at least 0, got {shown(value)}")
    return number


def counted(constraints: Any) -> tuple[int, tuple[str, ...]]:
    """The number of constraints, and their names where they have some."""
    if isinstance(constraints, int | np.integer) and not isinstance(constraints, bool) and constraints >= 0:
        return int(constraints), ()
    if isinstance(constraints, Sequence) and not isinstance(constraints, str):
        names = tuple(constraints)
        if len(set(names)) == len(names) and all(isinstance(name, str) for name in names):
            return len(names), names
    raise ValueError(f"constraints must be a number of them or a list of different names, got {constraints!r}")


def column(numbers: Sequence[float | None]) -> Array:
    return np.array([math.nan if number is None else number for number in numbers])


def checked_variance(var: Any) -> float | None:
    if var is None:
        return None
    number = checked_value(var)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"var must be a finite number of at least 0, got {shown(var)}")
    return number
