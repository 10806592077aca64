"""Parameters: `Float`, `Int` and `Choice`, and the `Axis` of the unit cube that each of them becomes.

Every value of a parameter has one canonical place on its axis, which `to_unit` finds again, bit for bit, from the value
alone. So whether two settings are the same can be asked of their places, whatever storage or process they went through.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from regretless.basics.machine import even_log
from regretless.basics.values import Array as Array

Encoding: TypeAlias = Literal["shares", "onehot"]
"""How a choice becomes coordinates: one with equal shares, or one per label up to MOST_ONEHOT labels."""
MOST_ONEHOT = 256
"""A choice with more labels is never one coordinate per label: an ask would cost time and memory for labels that no
budget can try. The value is the number of labels that the maximiser tries in one sweep."""
Conditions: TypeAlias = tuple[tuple[str, tuple[Hashable, ...]], ...]
"""When a parameter exists: names of other parameters, and the values of theirs with which it does."""

MOST_CELLS = 2**40
"""The most cells a line has: settings closer than 2^-40 of the range are the same experiment, and cells of this size
are far wider than the rounding of a decode and an encode."""
ROUNDING = 32 * float(np.finfo(np.float64).eps)
"""Bounds the rounding of one decode and encode, relative to the numbers involved, with a margin of about five."""
FINEST = 32 * float(np.finfo(np.float64).smallest_subnormal)
"""The least width of a cell: numbers this small have an absolute spacing."""
MOST_LEVELS = 2**52
"""More values than this cannot be told apart on a float64 coordinate."""
MOST_ON_A_LOG_SCALE = 0.1 / float(np.finfo(np.float64).eps)
"""The largest n log n of a whole number n on a log scale: its logarithm, with a few roundings, must lead back to it."""
LEAST_ON_A_LOG_SCALE = sys.float_info.min
"""The least number on a log scale: those below it are floats with fewer and fewer digits, which many places share."""
INSIDE = 2.0**-20
"""How far inside its bounds an open range begins and ends, as a share of its length: about a millionth, which no
objective that cares for the bounds can tell from them, and which keeps logarithms and divisions finite."""
OWN_DECIMALS = Context(
    prec=28, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, capitals=1, clamp=0, flags=[], traps=[]
)
"""Decimal arithmetic as Python begins with; the program around may have set other digits for its own numbers."""


@dataclass(frozen=True)
class Axis:
    """One coordinate of the cube: a line (`levels=0`), or `levels` positions with equal shares.

    A line's canonical points are the multiples of 1 / cells, cells being a power of two: coarse enough that a point is
    found again, bit for bit, after its setting went through decode, a storage and encode. `log_low > 0` marks whole
    numbers log_low, log_low + 1, ... whose shares are equal on a log scale of the numbers.
    """

    levels: int = 0
    categorical: bool = False
    log_low: int = 0
    cells: int = MOST_CELLS

    @cached_property
    def _log_ends(self) -> tuple[float, float]:
        low, high = even_log(np.array([self.log_low - 0.5, self.log_low + self.levels - 0.5])).tolist()
        return low, high

    def index(self, u: Array) -> NDArray[np.int64]:
        """The position each u belongs to, 0 .. levels - 1."""
        if self.log_low:
            a, b = self._log_ends
            raw = np.rint(np.exp(a + np.asarray(u) * (b - a))) - self.log_low
        else:
            raw = np.floor(np.asarray(u) * self.levels)
        clipped: NDArray[np.int64] = np.clip(raw, 0, self.levels - 1).astype(np.int64)
        return clipped

    def centre(self, index: NDArray[np.int64]) -> Array:
        """The centre of the share of each position."""
        if self.log_low:
            a, b = self._log_ends
            number = np.asarray(index, dtype=np.float64) + self.log_low
            below, above = even_log(np.array([number - 0.5, number + 0.5]))  # the same bits on every machine
            middle: Array = ((below + above) / 2 - a) / (b - a)
            return middle
        return (np.asarray(index, dtype=np.float64) + 0.5) / self.levels

    def snap(self, u: Array) -> Array:
        if self.levels:
            return self.centre(self.index(u))
        canonical: Array = np.rint(np.asarray(u, dtype=np.float64) * self.cells) / self.cells
        return canonical


@dataclass(frozen=True, repr=False)
class Float:
    """A real number in [low, high]; `log=True` searches its logarithm; `step` keeps low, low + step, ... only.

    With low = high the parameter is fixed. `open=True` leaves out low and high themselves: the range then begins and
    ends a millionth of its length inside them. `when={"model": "svm"}` says that the parameter exists only in settings
    in which the parameter "model" has that value, or one of a list of values. `prior=(mean, sd)` says where good values
    are expected; with `log=True` the sd is a factor.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None
    when: Any = field(default=(), kw_only=True)  # a mapping; kept as Conditions
    prior: Any = field(default=(), kw_only=True)  # (mean, sd); kept as a tuple
    open: InitVar[bool] = field(default=False, kw_only=True)

    def __post_init__(self, open: bool) -> None:
        object.__setattr__(self, "when", conditions_of(self.when))
        _check_bounds(self, self.low, self.high, self.log)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if is_finite(self.step):
            object.__setattr__(self, "step", float(self.step))
        if open:
            _keep_inside(self)
        if self.log and self.low < LEAST_ON_A_LOG_SCALE:
            raise ValueError(f"{self}: numbers below {LEAST_ON_A_LOG_SCALE:.3g} have too few digits for log; raise low")
        if self.log and self.low < self.high and math.log(self.low) == math.log(self.high):
            raise ValueError(f"{self}: low and high have the same logarithm; widen the range or drop log")
        if self.step is not None:
            if self.log:
                raise ValueError(f"{self}: step and log exclude each other; drop one of them")
            if not (is_finite(self.step) and self.step > 0):
                raise ValueError(f"{self}: step must be a positive number, got {self.step!r}")
            if self.low < self.high and self._levels() < 2:
                raise ValueError(f"{self}: step must be at most high - low, got {self.step!r}")
            if self._levels() > MOST_LEVELS:
                raise ValueError(
                    f"{self}: {self._levels():.3g} steps are more than a coordinate can tell apart; use a larger step"
                )
        object.__setattr__(self, "prior", _prior_of(self))

    def __repr__(self) -> str:
        return _shown(self)

    def _levels(self) -> int:
        if self.step is None:
            return 1
        rounding = 4 * np.finfo(np.float64).eps * max(abs(self.low), abs(self.high)) / self.step
        # 1e-9: steps that miss the upper bound by less than this share of a step still include it (0.1 * 3 is not 0.3
        # in binary)
        steps = (self.high - self.low) / self.step + max(1e-9, rounding)
        return math.floor(steps) + 1 if steps < math.inf else 2 * MOST_LEVELS

    def _slack(self) -> float:
        """How far from a step a number may lie and still be meant: rounding, or a millionth of the step."""
        rounding = 4 * float(np.finfo(np.float64).eps) * max(abs(self.low), abs(self.high))
        return max(1e-6 * (self.step or 0.0), min(rounding, 0.4 * (self.step or 0.0)))

    @property
    def line(self) -> bool:
        """Whether every number of the range is meant, and not only certain ones."""
        return self.step is None and self.low < self.high

    @cached_property
    def axis(self) -> Axis:
        return Axis(cells=self._cells) if self.line else Axis(levels=self._levels())

    @cached_property
    def _cells(self) -> int:
        """As many cells as the rounding of decode and encode lets one tell apart, a power of two."""
        if self.log:
            ends = math.log(self.low), math.log(self.high)
            resolution = (ends[1] - ends[0]) / (ROUNDING * max(1.0, abs(ends[0]), abs(ends[1])))
        else:  # halves, because high - low may overflow
            size = max(abs(self.low), abs(self.high))
            resolution = (self.high / 2 / size - self.low / 2 / size) / (ROUNDING / 2)
            resolution = min(resolution, (self.high / 2 - self.low / 2) / FINEST)
        return min(MOST_CELLS, 1 << max(math.frexp(resolution)[1] - 1, 0))

    def _canonical(self, u: float) -> float:
        """What `Axis.snap` makes of one place of a line; an array of one number would take ten times as long."""
        cells = self._cells
        return round(u * cells) / cells

    def from_unit(self, u: float) -> float:
        """The value at a place; the place is made canonical first, so that the value leads back to it."""
        if not self.line:
            return self._on_step(_share(u, self._levels()))
        u = self._canonical(u)
        if u in (0.0, 1.0):  # the bounds as they were written: exp(log(0.01)) is another number
            return self.high if u else self.low
        if self.log:
            value = math.exp((1 - u) * math.log(self.low) + u * math.log(self.high))
        else:
            value = (1 - u) * self.low + u * self.high
        return min(max(value, self.low), self.high)

    def _on_step(self, i: int) -> float:
        """low + i step in decimal arithmetic: the third step of 0.3 from 0 is 0.9, which binary arithmetic misses."""
        if i == 0 or self.step is None:
            return self.low
        beyond = OWN_DECIMALS.multiply(i, Decimal(repr(self.step)))
        return min(float(OWN_DECIMALS.add(Decimal(repr(self.low)), beyond)), self.high)

    def to_unit(self, value: Any) -> float:
        """The canonical place of a value."""
        number = _number_in(self, value, self.low, self.high)
        if not self.line:
            i = 0 if self.step is None else round((number - self.low) / self.step)
            if self.step is not None and abs(self.low + i * self.step - number) > self._slack():
                raise ValueError(f"{value!r} is not on the steps of {self}")
            return (i + 0.5) / self._levels()
        if self.log:
            u = (math.log(number) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            u = along(number, self.low, self.high)
        return self._canonical(min(max(u, 0.0), 1.0))


@dataclass(frozen=True, repr=False)
class Int:
    """A whole number in [low, high]; `log=True` searches its logarithm; `step` keeps low, low + step, ... only.

    With low = high the parameter is fixed; `when` and `prior` as for `Float`.
    """

    low: int
    high: int
    log: bool = False
    step: int = 1
    when: Any = field(default=(), kw_only=True)  # a mapping; kept as Conditions
    prior: Any = field(default=(), kw_only=True)  # (mean, sd); kept as a tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", conditions_of(self.when))
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if not is_finite(value) or int(value) != value:
                raise ValueError(f"{self}: {name} must be a whole number, got {value!r}")
            object.__setattr__(self, name, int(value))
        _check_bounds(self, self.low, self.high, self.log)
        if self.step < 1 or (self.low < self.high and self.step > self.high - self.low):
            raise ValueError(f"{self}: step must be at least 1 and at most high - low, got {self.step}")
        if self.log and self.step != 1:
            raise ValueError(f"{self}: step and log exclude each other; drop one of them")
        if self.log and self.low < self.high and self.high * math.log(self.high) > MOST_ON_A_LOG_SCALE:
            raise ValueError(f"{self}: numbers as large as high cannot be told apart on a log scale; drop log")
        if self._levels() > MOST_LEVELS:
            raise ValueError(
                f"{self}: {Decimal(self._levels()):.3g} values are more than a coordinate can tell apart; use a "
                "larger step"
            )
        object.__setattr__(self, "prior", _prior_of(self))

    def __repr__(self) -> str:
        return _shown(self)

    def _levels(self) -> int:
        return (self.high - self.low) // self.step + 1

    @cached_property
    def axis(self) -> Axis:
        return Axis(levels=self._levels(), log_low=self.low if self.log and self.low < self.high else 0)

    def from_unit(self, u: float) -> int:
        i = int(self.axis.index(np.array(u))) if self.log else _share(u, self._levels())
        return self.low + i * self.step

    def to_unit(self, value: Any) -> float:
        number = _number_in(self, value, self.low, self.high)
        i, rest = divmod(int(number) - self.low, self.step)
        if rest or int(number) != number:
            raise ValueError(f"{value!r} is not one of the whole numbers of {self}")
        return float(self.axis.centre(np.array(i))) if self.log else (i + 0.5) / self._levels()


@dataclass(frozen=True, init=False)
class Choice:
    """One of several labels without an order; any hashable labels, kept in the order given; `when` as for `Float`;
    `prior` holds a weight for each label."""

    labels: tuple[Hashable, ...]
    when: Conditions = ()
    prior: tuple[float, ...] = ()

    def __init__(
        self,
        labels: Sequence[Hashable],
        *others: Hashable,
        when: Mapping[str, Any] | Conditions | None = (),
        prior: Sequence[float] | None = (),
    ) -> None:
        if others:
            raise TypeError(f"Choice takes one list of labels: write Choice({[labels, *others]!r})")
        if isinstance(labels, str) or not isinstance(labels, Sequence):
            raise ValueError(f"Choice takes a list of labels, got {labels!r}")
        if len(labels) == 0:
            raise ValueError("Choice([]): a choice needs at least one label")
        try:
            distinct = len({(type(label), label) for label in labels})
        except TypeError as error:
            raise ValueError(f"Choice({list(labels)!r}): labels must be hashable ({error})") from None
        if distinct < len(labels) or sum(label != label for label in labels) > 1:
            raise ValueError(f"Choice({list(labels)!r}): labels must differ from each other")
        object.__setattr__(self, "labels", tuple(labels))
        object.__setattr__(self, "when", conditions_of(when))
        weights = tuple(prior or ())
        fit = len(weights) == len(labels) and all(is_finite(w) and w >= 0 for w in weights) and sum(weights) > 0
        if weights and not fit:
            raise ValueError(f"{self}: prior must hold a weight of at least 0 for each label, got {prior!r}")
        object.__setattr__(self, "prior", tuple(float(w) for w in weights))

    def __repr__(self) -> str:
        return f"Choice({list(self.labels)!r}{_shown_more(self)})"

    @cached_property
    def axis(self) -> Axis:
        return Axis(levels=len(self.labels), categorical=True)

    def from_unit(self, u: float) -> Hashable:
        return self.labels[_share(u, len(self.labels))]

    def index(self, value: Hashable) -> int:
        """The position of a label; NumPy scalars and the like equal their label without sharing its type."""
        alike = [i for i, label in enumerate(self.labels) if _equal(label, value)]
        for i in alike:
            if type(self.labels[i]) is type(value):
                return i
        if alike:
            return alike[0]
        raise ValueError(f"{value!r} is not one of the labels of {self}")

    def to_unit(self, value: Any) -> float:
        return (self.index(value) + 0.5) / len(self.labels)


Parameter: TypeAlias = Float | Int | Choice


def is_line(parameter: Parameter) -> TypeGuard[Float]:
    """Whether every number of a range is meant, and not only certain ones."""
    return isinstance(parameter, Float) and parameter.line


def one_per_label(parameter: Parameter, choices: Encoding) -> TypeGuard[Choice]:
    """Whether a parameter becomes one coordinate per label."""
    return choices == "onehot" and isinstance(parameter, Choice) and len(parameter.labels) <= MOST_ONEHOT


def width_of(parameter: Parameter, choices: Encoding) -> int:
    """The number of coordinates that a parameter has."""
    return len(parameter.labels) if one_per_label(parameter, choices) else 1


def along(number: float, low: float, high: float) -> float:
    """How far along a range a number lies, 0 at low and 1 at high; by halves, because high - low may overflow."""
    part, whole = number / 2 - low / 2, high / 2 - low / 2
    return part / whole if whole > 0 else (number - low) / (high - low)


def ends_of(p: Float | Int) -> tuple[float, float]:
    """The numbers at the ends of an axis: half a step beyond the first and the last value, where there are steps."""
    if is_line(p):
        return p.low, p.high
    step = p.step or 1.0
    return p.low - 0.5 * step, p.low + (p.axis.levels - 0.5) * step


# ---------------------------------------------------------------- conditions


def conditions_of(when: Mapping[str, Any] | Conditions | None) -> Conditions:
    """`when` as the parameters keep it, in the order of the names; a list or a range stands for one of its values."""
    if when is None or len(when) == 0:
        return ()
    items = list(when.items() if isinstance(when, Mapping) else when) if isinstance(when, Mapping | tuple) else []
    if not items or not all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in items):
        raise ValueError(f'when must name parameters and their values, such as {{"model": "svm"}}, got {when!r}')
    found = []
    for name, values in items:
        known = isinstance(values, tuple) and not isinstance(when, Mapping)
        several = tuple(values) if known or isinstance(values, list | range) else (values,)
        if not several:
            raise ValueError(f"when: the list of values of {name!r} is empty")
        found.append((name, several))
    return tuple(sorted(found))


def _prior_of(p: Float | Int) -> tuple[float, ...]:
    """The prior (mean, sd) of numbers, checked; () for none."""
    if p.prior is None or len(p.prior) == 0:
        return ()
    given = tuple(p.prior)
    if len(given) != 2 or not all(map(is_finite, given)):
        raise ValueError(f"{p}: prior must be (mean, sd), got {p.prior!r}")
    mean, sd = float(given[0]), float(given[1])
    if not p.low <= mean <= p.high:
        raise ValueError(f"{p}: the mean of the prior must lie within the range, got {mean!r}")
    if not sd > (1 if p.log else 0):
        words = "with log=True the sd of the prior is a factor above 1" if p.log else "the sd of the prior is above 0"
        raise ValueError(f"{p}: {words}, got {sd!r}")
    return mean, sd


def _shown_more(p: Parameter) -> str:
    """What was given of `when` and `prior`."""
    given = {name: values[0] if len(values) == 1 else list(values) for name, values in getattr(p, "when", ())}
    prior = getattr(p, "prior", ()) or ()
    return (f", when={given!r}" if given else "") + (f", prior={prior!r}" if len(prior) else "")


def _shown(parameter: Float | Int) -> str:
    """A parameter as it is written; what was not given stays away."""
    words = [f"{f.name}={getattr(parameter, f.name)!r}" for f in fields(parameter) if not f.kw_only]
    return f"{type(parameter).__name__}({', '.join(words)}{_shown_more(parameter)})"


# ---------------------------------------------------------------- checks


def _keep_inside(parameter: Float) -> None:
    """Moves the bounds of an open range inside."""
    low, high = parameter.low, parameter.high
    if parameter.step is not None or not low < high:
        raise ValueError(f"{parameter}: open is for ranges without steps, and low must be below high")
    from_unit = Float(low, high, log=parameter.log).from_unit
    inside = from_unit(INSIDE), from_unit(1 - INSIDE)
    if not low < inside[0] < inside[1] < high:
        raise ValueError(f"{parameter}: there is no room inside the range for open=True")
    object.__setattr__(parameter, "low", inside[0])
    object.__setattr__(parameter, "high", inside[1])


def _equal(label: Hashable, value: Any) -> bool:
    """Whether a value is this label; what cannot be compared differs (NumPy raises for 10**400 == np.float64(1))."""
    try:
        return bool(label == value) or bool(label != label and value != value)
    except OverflowError:
        return False


def _share(u: float, levels: int) -> int:
    return min(max(math.floor(u * levels), 0), levels - 1)


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _rounded_end(value: float, low: float, high: float) -> bool:
    """Whether a number of a shorter kind of float is an end of a range, rounded to it: NumPy before 2.0 compares
    them as longer ones."""
    if not isinstance(value, np.floating):
        return False
    with np.errstate(over="ignore"):
        return bool(value in (type(value)(low), type(value)(high)))


def is_finite(value: Any) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold; whole numbers may be larger than any."""
    return is_number(value) and bool(-sys.float_info.max <= value <= sys.float_info.max)


def _number_in(parameter: Float | Int, value: Any, low: float, high: float) -> float:
    if not is_number(value) or not (low <= value <= high or _rounded_end(value, low, high)):
        raise ValueError(f"{value!r} is not a number within {parameter}")
    return int(value) if isinstance(value, int | np.integer) else float(value)


def _check_bounds(parameter: Float | Int, low: Any, high: Any, log: bool) -> None:
    for name, value in (("low", low), ("high", high)):
        if not is_finite(value):
            raise ValueError(f"{parameter}: {name} must be a finite number, got {value!r}")
    if not low <= high:
        raise ValueError(f"{parameter}: low must not be above high, got low={low!r}, high={high!r}")
    if log and low <= 0:
        raise ValueError(f"{parameter}: log needs low > 0, got low={low!r}")
