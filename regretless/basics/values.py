"""What callers hand over as numbers: objects of any kind, read once and refused in one sentence."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


def as_number(value: Any) -> float | None:
    """The number that an object is, an array of one number too; infinite beyond the range of floats, None when the
    object is no number or has an imaginary part that would be dropped."""
    if isinstance(value, np.ndarray):
        if value.size != 1:
            return None
        value = value.item()
    if isinstance(value, bool | np.bool_ | str | bytes | complex | np.complexfloating):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except Exception:  # the object's own code may raise anything
        return None


def numbers_of(constraints: Any) -> list[float] | None:
    """The values of constraints as an objective returned them; None when they are no numbers."""
    if constraints is None:
        return []
    try:
        found = [as_number(c) for c in (constraints.values() if isinstance(constraints, Mapping) else constraints)]
    except TypeError:  # it is no list of anything
        return None
    return None if None in found else [c for c in found if c is not None]


def shown(value: Any) -> str:
    """An object as text of one line that is not too long for a message."""
    most_shown = 200  # letters of an object that a message shows
    text = " ".join(repr(value).split())
    return text if len(text) <= most_shown else f"{text[:most_shown]}..."


def printable(text: str) -> str:
    """A text that can be printed and written: halves of surrogate pairs, which no encoding has, stand as their
    numbers."""
    return text.encode("utf-8", "backslashreplace").decode()


def checked_value(value: Any) -> float:
    """The number that `Optimizer.tell` was given."""
    if value is None:
        raise ValueError("tell needs a value, or failed=True")
    number = as_number(value)
    if number is None:
        raise ValueError(f"the value must be a number, got {shown(value)}{_how_to_tell(value)}")
    return number


def _how_to_tell(value: Any) -> str:
    """How several measurements of one setting are told."""
    several = value.ravel().tolist() if isinstance(value, np.ndarray) else value
    numbers = [as_number(x) for x in several] if isinstance(several, list | tuple) else []
    known = [x for x in numbers if x is not None and math.isfinite(x)]
    if len(known) < 2 or len(known) < len(numbers):
        return ""
    mean, var = float(np.mean(known)), float(np.var(known, ddof=1)) / len(known)
    return f"; of several measurements tell the mean and its variance: tell(trial, {mean:.6g}, var={var:.3g})"


def checked_values(value: Any, var: Any, names: Sequence[str]) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
    """The numbers that `Optimizer.tell` was given for objectives of these names, and their noise variances."""
    if value is None:
        raise ValueError("tell needs a value, or failed=True")
    values = in_order_of(names, value)
    variances = [None] * len(names) if var is None else in_order_of(names, var, "variances")
    return tuple(map(checked_value, values)), tuple(map(checked_variance, variances))


def in_order_of(names: Sequence[str], told: Any, what: str = "values") -> list[Any]:
    """What was told of several objectives, by name or by position, in their order."""
    if isinstance(told, Mapping):
        if set(told) != set(names):
            raise ValueError(f"the objectives of this run are named {list(names)}, got {what} of {list(told)}")
        return [told[name] for name in names]
    if isinstance(told, np.ndarray):
        told = told.tolist()
    if not isinstance(told, tuple | list):
        raise ValueError(f"this run has the objectives {list(names)}, each of them needs a number; got {shown(told)}")
    if len(told) != len(names):
        raise ValueError(f"this run has {len(names)} objectives, {list(names)}, got {len(told)} {what}: {shown(told)}")
    return list(told)


def checked_variance(var: Any) -> float | None:
    """The noise variance that `Optimizer.tell` was given."""
    if var is None:
        return None
    number = checked_value(var)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"var must be a finite number of at least 0, got {shown(var)}")
    return number


def checked_amount(name: str, value: Any) -> float:
    """What an evaluation cost or took."""
    number = as_number(value)
    if number is None or not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} must be a finite number of at least 0, got {shown(value)}")
    return number
