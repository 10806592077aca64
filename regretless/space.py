"""Search spaces: the user's parameters on one side, the unit cube on the other.

A `Space` holds the user's named parameters (`Float`, `Int`, `Choice`). A `Cube` is what a method sees of them: `dim`
coordinates in [0, 1], in the order of the names. A parameter with k values divides its coordinate into k equal parts,
and the middle of a part stands for its value. A choice of k labels becomes one such coordinate, or k coordinates of
which one is 1 and the others are 0; each method says which form it wants.

    space = Space({"lr": Float(1e-5, 1e-1, log=True), "layers": Int(1, 6), "act": Choice(["relu", "tanh"])})
    u = space.encode({"lr": 1e-3, "layers": 2, "act": "tanh"})
    space.decode(u)                                    # the same parameters
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np

from regretless.fingerprint import fingerprint
from regretless.parameters import Array, Axis, Choice, Float, Int, Parameter, is_number

Encoding: TypeAlias = Literal["shares", "onehot"]
"""How a choice becomes coordinates: one with equal shares, or one per label up to MOST_ONEHOT labels."""
MOST_ONEHOT = 256
"""A choice with more labels is never one coordinate per label: an ask would cost time and memory for labels that no
budget can try. The value is the number of labels that the maximiser tries in one sweep."""


# ---------------------------------------------------------------- the cube


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
        self._cells = np.array([float(axis.cells) for axis in self.axes])

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
        """The canonical points nearest in meaning to X, n x d (a copy): clipped to the cube, lines at the ends of their
        cells, positions at the centres of their shares."""
        inside = np.minimum(np.maximum(np.asarray(X, dtype=np.float64), 0.0), 1.0)
        Z: Array = np.rint(inside * self._cells) / self._cells + 0.0  # no negative zero: it has bytes of its own
        for i, axis in self._stepped:
            Z[..., i] = axis.snap(inside[..., i])
        for start, stop in self.groups:
            hot = np.argmax(inside[..., start:stop], axis=-1)
            Z[..., start:stop] = np.eye(stop - start)[hot]
        return Z

    def key(self, x: Array) -> bytes:
        """The identity of a point, d: equal for two points exactly when they are the same setting."""
        return self.snap(x).tobytes()


# ---------------------------------------------------------------- the space


class Space:
    """Named parameters.

    Takes a mapping name -> Float, Int, Choice or a plain value that stays fixed; a list of (low, high) pairs or
    parameters (scipy style: names x0, x1, ... and the objective gets an array, `as_array`); another Space; or the path
    of a TOML file (see `from_toml`). Settings have the parameters in the order given; methods see them in the order of
    their names (x2 before x10), so that the same space gives the same points however and wherever it was written.
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
        self.parameters: dict[str, Parameter] = {
            str(name): _parameter(str(name), value, pairs=self.as_array) for name, value in items
        }
        if len(self.parameters) < len(items):
            raise ValueError("two parameters have the same name once written as text")
        if self.as_array and any(isinstance(p, Choice) for p in self.parameters.values()):
            raise ValueError(
                "a space given as a list passes an array of numbers to the objective; use a mapping for choices"
            )
        self.names = tuple(self.parameters)
        self.coordinates = tuple(sorted(self.names, key=_natural))
        """The names in the order in which methods see them."""
        self._cubes: dict[Encoding, Cube] = {}
        self._ordered = [(name, self.parameters[name]) for name in self.coordinates]
        self._places = [(name, self.coordinates.index(name)) for name in self.names]
        lines = [(i, p) for i, (_, p) in enumerate(self._ordered) if isinstance(p, Float) and p.line]
        self._line = np.array([i for i, _ in lines], dtype=np.intp)
        self._others = [(i, p) for i, (_, p) in enumerate(self._ordered) if not (isinstance(p, Float) and p.line)]
        self._cells = np.array([float(p.axis.cells) for _, p in lines])
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
        if choices not in self._cubes:
            self._cubes[choices] = self._new_cube(choices)
        return self._cubes[choices]

    def _new_cube(self, choices: Encoding) -> Cube:
        axes: list[Axis] = []
        groups: list[tuple[int, int]] = []
        for _, parameter in self._ordered:
            if _one_per_label(parameter, choices):
                groups.append((len(axes), len(axes) + len(parameter.labels)))
                axes.extend([Axis()] * len(parameter.labels))
            else:
                axes.append(parameter.axis)
        return Cube(axes, groups)

    def encode(self, params: Mapping[str, Any] | Sequence[float] | Array, choices: Encoding = "shares") -> Array:
        """The canonical cube point of a setting, d."""
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
        for name, parameter in self._ordered:
            try:
                if _one_per_label(parameter, choices):
                    hot = parameter.index(params[name])
                    u.extend(float(i == hot) for i in range(len(parameter.labels)))
                else:
                    u.append(parameter.to_unit(params[name]))
            except ValueError as error:
                raise ValueError(f"parameter {name!r}: {error}") from None
        return np.array(u)

    def decode(self, u: Array, choices: Encoding = "shares") -> dict[str, Any]:
        """The setting of a cube point, which is made canonical first."""
        u = np.asarray(u, dtype=np.float64)
        if choices == "onehot":
            u = self._shares_from_onehot(u)
        v = np.rint(u[self._line] * self._cells) / self._cells
        with np.errstate(over="ignore"):
            value = (1 - v) * self._from + v * self._to
            if self._any_log:
                value = np.where(self._log, np.exp(np.where(self._log, value, 0.0)), value)
        value = np.minimum(np.maximum(value, self._low), self._high)
        out: list[Any] = [None] * len(self)
        for i, number in zip(self._line.tolist(), value.tolist(), strict=True):
            out[i] = number
        for i, parameter in self._others:
            out[i] = parameter.from_unit(float(u[i]))
        return {name: out[i] for name, i in self._places}

    def _shares_from_onehot(self, u: Array) -> Array:
        shares, at = [], 0
        for _, parameter in self._ordered:
            if _one_per_label(parameter, "onehot"):
                k = len(parameter.labels)
                shares.append((int(np.argmax(u[at : at + k])) + 0.5) / k)
                at += k
            else:
                shares.append(float(u[at]))
                at += 1
        return np.array(shares)

    def describe(self) -> dict[str, Any]:
        """The parameters in plain values; a label that no file can hold stands as its fingerprint, to be compared
        with."""
        tables: dict[str, Any] = {}
        for name, p in self.parameters.items():
            if isinstance(p, Choice):
                labels = [label if _is_plain(label) else {"fingerprint": fingerprint(label)} for label in p.labels]
                tables[name] = {"type": "choice", "labels": labels}
            else:
                kind = type(p).__name__.lower()
                tables[name] = {"type": kind, "low": p.low, "high": p.high, "log": p.log, "step": p.step}
        return {"as_array": self.as_array, "parameters": tables}

    def to_json(self) -> dict[str, Any]:
        """A description that `Space.from_json` reads back; labels that are no plain text, number or truth value raise
        ValueError."""
        for name, p in self.parameters.items():
            if isinstance(p, Choice) and not all(map(_is_plain, p.labels)):
                raise ValueError(f"parameter {name!r}: labels {p} cannot be written to a file")
        return self.describe()

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> Space:
        try:
            for name, table in description["parameters"].items():
                if any(isinstance(label, dict) for label in table.get("labels", ())):
                    raise ValueError(f"the file could not hold the labels of parameter {name!r}: pass space=")
            space = cls({name: _from_table(name, table) for name, table in description["parameters"].items()})
            space.as_array = description["as_array"]
            if not isinstance(space.as_array, bool):
                raise ValueError(f"not the description of a space: as_array is {space.as_array!r}")
        except (KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"not the description of a space: {error!r}") from None
        return space


def _one_per_label(parameter: Parameter, choices: Encoding) -> TypeGuard[Choice]:
    """Whether a parameter becomes one coordinate per label."""
    return choices == "onehot" and isinstance(parameter, Choice) and len(parameter.labels) <= MOST_ONEHOT


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
    "float": ({"low", "high"}, {"log", "step", "open"}),
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
            f"parameter {name!r}: unknown keys {unknown}, missing keys {missing}; {kind} takes "
            f"{sorted(required | optional)}"
        )
    if kind == "choice":
        return _named(name, lambda: Choice(table["labels"]))
    options = {key: table[key] for key in ("log", "step", "open") if table.get(key) is not None}
    for key in ("log", "open"):
        if not isinstance(options.get(key, False), bool):
            raise ValueError(f"parameter {name!r}: {key} must be true or false, got {options[key]!r}")
    kinds: dict[str, type[Float] | type[Int]] = {"float": Float, "int": Int}
    return _named(name, lambda: kinds[kind](table["low"], table["high"], **options))


def _parameter(name: str, value: Any, *, pairs: bool) -> Parameter:
    """The parameter meant by a value of a mapping or, where (low, high) `pairs` are meant, of a list."""
    if isinstance(value, Float | Int | Choice):
        return value
    pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(is_number, value))
    if pairs and pair:
        return _named(name, lambda: Float(value[0], value[1]))
    if pair:
        raise ValueError(
            f"parameter {name!r}: {value!r} can mean a range or two values; write Float({value[0]!r}, {value[1]!r}) or "
            f"Int({value[0]!r}, {value[1]!r}) for a range, Choice({list(value)!r}) for the values"
        )
    if value is None or isinstance(value, str | bool) or is_number(value):
        return Choice([value])
    hint = f"; write Choice({list(value)!r}) for one of them" if isinstance(value, list | tuple) and value else ""
    raise ValueError(
        f"parameter {name!r}: expected Float, Int, Choice or a plain value to keep fixed, got {value!r}{hint}"
    )


def _natural(name: str) -> tuple[list[tuple[str, int]], str]:
    """The key that sorts x2 before x10."""
    return [(text, int(digits or -1)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", name)], name


def _named(name: str, build: Callable[[], Parameter]) -> Parameter:
    try:
        return build()
    except (ValueError, TypeError) as error:
        raise ValueError(f"parameter {name!r}: {error}") from None


def _is_plain(label: Any) -> bool:
    return label is None or type(label) in (str, int, float, bool)
