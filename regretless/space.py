"""Search spaces: the user's parameters on one side, the unit cube on the other.

A `Space` is an ordered set of named parameters (`Float`, `Int`, `Choice`). A `Cube` is what a Method sees of it: `dim`
coordinates in [0, 1], some of which only take certain positions. A grid of k values owns k equal shares of its
coordinate and is represented by the centres of the shares; a choice is either one such coordinate or k one-hot
coordinates, as the method asks.

    space = Space({"lr": Float(1e-5, 1e-1, log=True), "layers": Int(1, 6), "act": Choice(["relu", "tanh"])})
    u = space.encode({"lr": 1e-3, "layers": 2, "act": "tanh"})
    space.decode(u)                                    # the same parameters
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Encoding: TypeAlias = Literal["shares", "onehot"]
"""How a choice becomes coordinates: one with equal shares, or one per label."""

MOST_LEVELS = 2**52
"""More values than this cannot be told apart on a float64 coordinate."""
STEP_SLACK = 1e-9
"""Steps that miss the upper bound by less than this share of a step still include it (0.1 * 3 is not 0.3 in binary)."""


# ---------------------------------------------------------------- the cube


@dataclass(frozen=True)
class Axis:
    """One coordinate of the cube: a line (`levels=0`), or `levels` positions with equal shares.

    `log_low > 0` marks whole numbers log_low, log_low + 1, ... whose shares are equal on a log scale of the numbers
    instead.
    """

    levels: int = 0
    categorical: bool = False
    log_low: int = 0

    def _log_ends(self) -> tuple[float, float]:
        return math.log(self.log_low - 0.5), math.log(self.log_low + self.levels - 0.5)

    def index(self, u: Array) -> NDArray[np.int64]:
        """The position each u belongs to, 0 .. levels - 1."""
        if self.log_low:
            a, b = self._log_ends()
            raw = np.rint(np.exp(a + np.asarray(u) * (b - a))) - self.log_low
        else:
            raw = np.floor(np.asarray(u) * self.levels)
        clipped: NDArray[np.int64] = np.clip(raw, 0, self.levels - 1).astype(np.int64)
        return clipped

    def centre(self, index: NDArray[np.int64]) -> Array:
        """The centre of the share of each position."""
        if self.log_low:
            a, b = self._log_ends()
            number = np.asarray(index, dtype=np.float64) + self.log_low
            middle: Array = ((np.log(number - 0.5) + np.log(number + 0.5)) / 2 - a) / (b - a)
            return middle
        return (np.asarray(index, dtype=np.float64) + 0.5) / self.levels

    def snap(self, u: Array) -> Array:
        return self.centre(self.index(u)) if self.levels else np.asarray(u, dtype=np.float64)


class Cube:
    """What a Method knows of the space: `dim` coordinates in [0, 1] and, for each, an `Axis`.

    `groups` are the (start, stop) ranges of one-hot coordinates: a legal point has a single 1 in each.
    """

    def __init__(self, axes: Sequence[Axis], groups: Sequence[tuple[int, int]] = ()) -> None:
        if not axes:
            raise ValueError("a cube needs at least one coordinate")
        self.axes = tuple(axes)
        self.groups = tuple(groups)
        self.dim = len(self.axes)
        self.discrete = np.array([axis.levels > 0 for axis in self.axes])
        """Coordinates that only take certain positions, d."""
        self.categorical = np.array([axis.categorical for axis in self.axes])
        """Coordinates of choices in equal-share encoding, whose positions have no order, d."""
        self._stepped = [(i, axis) for i, axis in enumerate(self.axes) if axis.levels]

    @classmethod
    def box(cls, dim: int) -> Cube:
        """A plain cube, all coordinates continuous."""
        if not isinstance(dim, int | np.integer) or dim < 1:
            raise ValueError(f"dim must be a whole number of at least 1, got {dim!r}")
        return cls([Axis()] * int(dim))

    @property
    def plain(self) -> bool:
        """Whether every coordinate is a line."""
        return not self._stepped and not self.groups

    @property
    def size(self) -> float:
        """The number of legal points; infinite as soon as one coordinate is a line."""
        grouped = {i for start, stop in self.groups for i in range(start, stop)}
        lines = [i for i, axis in enumerate(self.axes) if not axis.levels and i not in grouped]
        if lines:
            return math.inf
        return math.prod(
            [float(axis.levels) for _, axis in self._stepped] + [float(stop - start) for start, stop in self.groups]
        )

    def snap(self, X: Array) -> Array:
        """The legal points nearest in meaning to X, n x d (a copy): clipped to the cube, positions at the centres of
        their shares."""
        Z: Array = np.minimum(np.maximum(np.asarray(X, dtype=np.float64), 0.0), 1.0)
        for i, axis in self._stepped:
            Z[..., i] = axis.snap(Z[..., i])
        for start, stop in self.groups:
            hot = np.argmax(Z[..., start:stop], axis=-1)
            Z[..., start:stop] = np.eye(stop - start)[hot]
        return Z


# ---------------------------------------------------------------- parameters


@dataclass(frozen=True)
class Float:
    """A real number in [low, high]; `log=True` searches its logarithm; `step` keeps low, low + step, ... only."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        _check_bounds(self, self.low, self.high, self.log)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if self.log and math.log(self.low) == math.log(self.high):
            raise ValueError(f"{self}: low and high have the same logarithm; widen the range or drop log")
        if self.step is not None:
            if self.log:
                raise ValueError(f"{self}: step and log exclude each other; drop one of them")
            if not (_is_number(self.step) and math.isfinite(self.step) and self.step > 0 and self._levels() >= 2):
                raise ValueError(f"{self}: step must be positive and at most high - low, got {self.step!r}")
            if self._levels() > MOST_LEVELS:
                raise ValueError(
                    f"{self}: {self._levels():.3g} steps are more than a coordinate can tell apart; use a larger step"
                )

    def _levels(self) -> int:
        if self.step is None:
            return 0
        rounding = 4 * np.finfo(np.float64).eps * max(abs(self.low), abs(self.high)) / self.step
        return math.floor((self.high - self.low) / self.step + max(STEP_SLACK, rounding)) + 1

    @property
    def axis(self) -> Axis:
        return Axis(levels=self._levels())

    def from_unit(self, u: float) -> float:
        if self.step is not None:
            return min(self.low + _share(u, self._levels()) * self.step, self.high)
        if self.log:
            value = math.exp((1 - u) * math.log(self.low) + u * math.log(self.high))
        else:
            value = (1 - u) * self.low + u * self.high
        return min(max(value, self.low), self.high)

    def to_unit(self, value: Any) -> float:
        number = _number_in(self, value, self.low, self.high)
        if self.step is not None:
            i = round((number - self.low) / self.step)
            if abs(self.low + i * self.step - number) > 1e-6 * self.step:
                raise ValueError(f"{value!r} is not on the steps of {self}")
            return (i + 0.5) / self._levels()
        if self.log:
            return (math.log(number) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        half = number / 2 - self.low / 2, self.high / 2 - self.low / 2  # halves, because high - low may overflow
        return half[0] / half[1] if half[1] > 0 else (number - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Int:
    """A whole number in [low, high]; `log=True` searches its logarithm; `step` keeps low, low + step, ... only."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if not _is_number(value) or not math.isfinite(value) or int(value) != value:
                raise ValueError(f"{self}: {name} must be a whole number, got {value!r}")
            object.__setattr__(self, name, int(value))
        _check_bounds(self, self.low, self.high, self.log)
        if self.step < 1 or self.step > self.high - self.low:
            raise ValueError(f"{self}: step must be at least 1 and at most high - low, got {self.step}")
        if self.log and self.step != 1:
            raise ValueError(f"{self}: step and log exclude each other; drop one of them")
        if self._levels() > MOST_LEVELS:
            raise ValueError(
                f"{self}: {self._levels():.3g} values are more than a coordinate can tell apart; use a larger step"
            )

    def _levels(self) -> int:
        return (self.high - self.low) // self.step + 1

    @property
    def axis(self) -> Axis:
        return Axis(levels=self._levels(), log_low=self.low if self.log else 0)

    def from_unit(self, u: float) -> int:
        return self.low + int(self.axis.index(np.array([u]))[0]) * self.step

    def to_unit(self, value: Any) -> float:
        number = _number_in(self, value, self.low, self.high)
        i, rest = divmod(int(number) - self.low, self.step)
        if rest or int(number) != number:
            raise ValueError(f"{value!r} is not one of the whole numbers of {self}")
        return float(self.axis.centre(np.array([i]))[0])


@dataclass(frozen=True, init=False)
class Choice:
    """One of several labels without an order; any hashable labels, kept in the order given."""

    labels: tuple[Hashable, ...]

    def __init__(self, labels: Sequence[Hashable]) -> None:
        if isinstance(labels, str) or not isinstance(labels, Sequence):
            raise ValueError(f"Choice takes a list of labels, got {labels!r}")
        if len(labels) == 0:
            raise ValueError("Choice([]): a choice needs at least one label")
        try:
            distinct = len({(type(label), label) for label in labels})
        except TypeError as error:
            raise ValueError(f"Choice({list(labels)!r}): labels must be hashable ({error})") from None
        if distinct < len(labels):
            raise ValueError(f"Choice({list(labels)!r}): labels must differ from each other")
        object.__setattr__(self, "labels", tuple(labels))

    def __repr__(self) -> str:
        return f"Choice({list(self.labels)!r})"

    @property
    def axis(self) -> Axis:
        return Axis(levels=len(self.labels), categorical=True)

    def from_unit(self, u: float) -> Hashable:
        return self.labels[_share(u, len(self.labels))]

    def index(self, value: Hashable) -> int:
        for i, label in enumerate(self.labels):
            if type(label) is type(value) and label == value:
                return i
        for i, label in enumerate(self.labels):  # numpy scalars and the like equal their label without sharing its type
            if label == value:
                return i
        raise ValueError(f"{value!r} is not one of the labels of {self}")

    def to_unit(self, value: Any) -> float:
        return (self.index(value) + 0.5) / len(self.labels)


Parameter: TypeAlias = Float | Int | Choice


# ---------------------------------------------------------------- the space


class Space:
    """Named parameters in a fixed order.

    Takes a mapping name -> Float, Int, Choice or a (low, high) pair; a list of (low, high) pairs or parameters (scipy
    style: names x0, x1, ... and the objective gets an array, `as_array`); another Space; or the path of a TOML file
        (see `from_toml`).
    """

    def __init__(self, parameters: SpaceLike) -> None:
        if isinstance(parameters, Space):
            self.as_array: bool = parameters.as_array
            parameters = parameters.parameters
        else:
            self.as_array = isinstance(parameters, Sequence) and not isinstance(parameters, str)
        if isinstance(parameters, str | Path):
            parameters = read_toml(parameters)
        if isinstance(parameters, Mapping):
            items = list(parameters.items())
        elif isinstance(parameters, Sequence):
            items = [(f"x{i}", p) for i, p in enumerate(parameters)]
        else:
            raise ValueError(
                f"space must be a mapping, a list of (low, high) pairs or a TOML path, got {type(parameters).__name__}"
            )
        if not items:
            raise ValueError("the space is empty: give at least one parameter")
        self.parameters: dict[str, Parameter] = {str(name): _parameter(str(name), value) for name, value in items}
        if len(self.parameters) < len(items):
            raise ValueError("two parameters have the same name once written as text")
        if self.as_array and any(isinstance(p, Choice) for p in self.parameters.values()):
            raise ValueError(
                "a space given as a list passes an array of numbers to the objective; use a mapping for choices"
            )
        self.names = tuple(self.parameters)
        ordered = list(self.parameters.values())
        lines = [(i, p) for i, p in enumerate(ordered) if isinstance(p, Float) and p.step is None]
        self._line = np.array([i for i, _ in lines], dtype=np.intp)
        self._others = [(i, p) for i, p in enumerate(ordered) if not (isinstance(p, Float) and p.step is None)]
        self._log = np.array([p.log for _, p in lines], dtype=bool)
        self._any_log = bool(self._log.any())
        self._low = np.array([p.low for _, p in lines])
        self._high = np.array([p.high for _, p in lines])
        with np.errstate(invalid="ignore", divide="ignore"):
            self._from = np.where(self._log, np.log(np.where(self._log, self._low, 1.0)), self._low)
            self._to = np.where(self._log, np.log(np.where(self._log, self._high, 1.0)), self._high)

    @classmethod
    def from_toml(cls, path: str | Path) -> Space:
        """A space from a TOML file with one table per parameter:

        [lr]
        type = "float"
        low = 1e-5
        high = 1e-1
        log = true

        [act]
        type = "choice"
        labels = ["relu", "tanh"]
        """
        return cls(read_toml(path))

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and list(self.parameters.items()) == list(other.parameters.items())

    def __hash__(self) -> int:
        return hash(tuple(self.parameters.items()))

    def __repr__(self) -> str:
        return "Space({" + ", ".join(f"{name!r}: {p}" for name, p in self.parameters.items()) + "})"

    def cube(self, choices: Encoding = "shares") -> Cube:
        """The cube a method works in; `choices` says how choices become coordinates."""
        axes: list[Axis] = []
        groups: list[tuple[int, int]] = []
        for parameter in self.parameters.values():
            if choices == "onehot" and isinstance(parameter, Choice):
                groups.append((len(axes), len(axes) + len(parameter.labels)))
                axes.extend([Axis()] * len(parameter.labels))
            else:
                axes.append(parameter.axis)
        return Cube(axes, groups)

    def encode(self, params: Mapping[str, Any] | Sequence[float] | Array, choices: Encoding = "shares") -> Array:
        """The cube point of a setting, d."""
        if not isinstance(params, Mapping):
            values = list(params)
            if len(values) != len(self):
                raise ValueError(f"a point of this space has {len(self)} values, got {len(values)}")
            params = dict(zip(self.names, values, strict=True))
        missing = [n for n in self.names if n not in params]
        unknown = [n for n in params if n not in self.parameters]
        if missing or unknown:
            raise ValueError(f"params do not fit the space: missing {missing}, unknown {unknown}")
        u: list[float] = []
        for name, parameter in self.parameters.items():
            try:
                if choices == "onehot" and isinstance(parameter, Choice):
                    hot = parameter.index(params[name])
                    u.extend(float(i == hot) for i in range(len(parameter.labels)))
                else:
                    u.append(parameter.to_unit(params[name]))
            except ValueError as error:
                raise ValueError(f"parameter {name!r}: {error}") from None
        return np.array(u)

    def decode(self, u: Array, choices: Encoding = "shares") -> dict[str, Any]:
        """The setting of a cube point; points off the legal positions are snapped."""
        u = np.asarray(u, dtype=np.float64)
        if choices == "onehot":
            u = self._shares_from_onehot(u)
        v = u[self._line]
        with np.errstate(over="ignore"):
            value = (1 - v) * self._from + v * self._to
            if self._any_log:
                value = np.where(self._log, np.exp(np.where(self._log, value, 0.0)), value)
        value = np.minimum(np.maximum(value, self._low), self._high)
        if not self._others:
            return dict(zip(self.names, value.tolist(), strict=True))
        out: list[Any] = [None] * len(self)
        for i, number in zip(self._line.tolist(), value.tolist(), strict=True):
            out[i] = number
        for i, parameter in self._others:
            out[i] = parameter.from_unit(float(u[i]))
        return dict(zip(self.names, out, strict=True))

    def _shares_from_onehot(self, u: Array) -> Array:
        shares, at = [], 0
        for parameter in self.parameters.values():
            if isinstance(parameter, Choice):
                k = len(parameter.labels)
                shares.append((int(np.argmax(u[at : at + k])) + 0.5) / k)
                at += k
            else:
                shares.append(float(u[at]))
                at += 1
        return np.array(shares)

    def to_json(self) -> dict[str, Any]:
        """A description that `Space.from_json` reads back; labels that are no plain text, number or truth value raise
        ValueError."""
        tables: dict[str, Any] = {}
        for name, p in self.parameters.items():
            if isinstance(p, Choice):
                if any(not isinstance(label, str | int | float | bool | None) for label in p.labels):
                    raise ValueError(f"parameter {name!r}: labels {p} cannot be written to a file")
                tables[name] = {"type": "choice", "labels": list(p.labels)}
            else:
                tables[name] = {
                    "type": type(p).__name__.lower(),
                    "low": p.low,
                    "high": p.high,
                    "log": p.log,
                    "step": p.step,
                }
        return {"as_array": self.as_array, "parameters": tables}

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> Space:
        try:
            space = cls({name: _from_table(name, table) for name, table in description["parameters"].items()})
            space.as_array = bool(description["as_array"])
        except (KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"not the description of a space: {error!r}") from None
        return space


SpaceLike: TypeAlias = Space | Mapping[str, Any] | Sequence[Any] | str | Path


def read_toml(path: str | Path) -> dict[str, Parameter]:
    """The parameters of a TOML file; every error names the file and the parameter."""
    try:
        with open(path, "rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise ValueError(f"cannot read the space {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is not valid TOML: nested too deeply") from None
    try:
        return {name: _from_table(name, table) for name, table in tables.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


TABLE_KEYS = {
    "float": ({"low", "high"}, {"log", "step"}),
    "int": ({"low", "high"}, {"log", "step"}),
    "choice": ({"labels"}, set()),
}
"""Required and optional keys of a parameter's table, by type."""


def _from_table(name: str, table: Any) -> Parameter:
    if not isinstance(table, Mapping):
        raise ValueError(f"parameter {name!r}: expected a table such as [{name}] with a type, got {table!r}")
    kind = table.get("type")
    if not isinstance(kind, str) or kind not in TABLE_KEYS:
        raise ValueError(f"parameter {name!r}: type must be one of {sorted(TABLE_KEYS)}, got {kind!r}")
    required, optional = TABLE_KEYS[kind]
    unknown = sorted(set(table) - required - optional - {"type"})
    missing = sorted(required - set(table))
    if unknown or missing:
        raise ValueError(
            f"parameter {name!r}: unknown keys {unknown}, missing keys {missing}; {kind} takes {sorted(required | optional)}"
        )
    if kind == "choice":
        return _named(name, lambda: Choice(table["labels"]))
    options = {key: table[key] for key in ("log", "step") if table.get(key) is not None}
    if not isinstance(options.get("log", False), bool):
        raise ValueError(f"parameter {name!r}: log must be true or false, got {options['log']!r}")
    kinds: dict[str, type[Float] | type[Int]] = {"float": Float, "int": Int}
    return _named(name, lambda: kinds[kind](table["low"], table["high"], **options))


def _parameter(name: str, value: Any) -> Parameter:
    if isinstance(value, Float | Int | Choice):
        return value
    if (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) == 2
        and all(_is_number(v) for v in value)
    ):
        return _named(name, lambda: Float(value[0], value[1]))
    raise ValueError(f"parameter {name!r}: expected Float, Int, Choice or a (low, high) pair, got {value!r}")


def _named(name: str, build: Callable[[], Parameter]) -> Parameter:
    try:
        return build()
    except (ValueError, TypeError) as error:
        raise ValueError(f"parameter {name!r}: {error}") from None


def _share(u: float, levels: int) -> int:
    return min(max(math.floor(u * levels), 0), levels - 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _number_in(parameter: Float | Int, value: Any, low: float, high: float) -> float:
    if not _is_number(value) or not low <= value <= high:
        raise ValueError(f"{value!r} is not a number within {parameter}")
    return value if isinstance(value, int) else float(value)


def _check_bounds(parameter: Float | Int, low: Any, high: Any, log: bool) -> None:
    for name, value in (("low", low), ("high", high)):
        if not _is_number(value) or not math.isfinite(value):
            raise ValueError(f"{parameter}: {name} must be a finite number, got {value!r}")
    if not low < high:
        raise ValueError(f"{parameter}: low must be below high, got low={low!r}, high={high!r}")
    if log and low <= 0:
        raise ValueError(f"{parameter}: log needs low > 0, got low={low!r}")
