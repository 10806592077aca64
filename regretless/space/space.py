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

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.basics.fingerprint import in_plain, is_plain
from regretless.space.belief import belief_of
from regretless.space.conditions import gated_names, gates_of
from regretless.space.cube import Cube
from regretless.space.parameters import (
    Array,
    Axis,
    Choice,
    Encoding,
    Float,
    Parameter,
    is_line,
    is_number,
    one_per_label,
    width_of,
)
from regretless.space.region import Region
from regretless.space.rules import Predicate, equations_in_the_cube, linear_in_the_cube, read_rules
from regretless.space.spelling import from_table, meant_parameter, named, read_toml

# ---------------------------------------------------------------- the space


class Space:
    """Named parameters.

    Takes a mapping of names to Float, Int, Choice or a plain value that stays fixed. Or a list of (low, high) pairs or
    parameters in the style of scipy: their names are x0, x1, ... and the objective gets an array (`as_array`). Or
    another Space, or the path of a TOML file. Settings have the parameters in the order given; methods see them in the
    order of their names (x2 before x10), so that the same space gives the same points however and wherever it was
    written.

    A TOML file has one table per parameter:

        [lr]
        type = "float"
        low = 1e-5
        high = 1e-1
        log = true

        [act]
        type = "choice"
        labels = ["relu", "tanh"]

    `where` holds what is known to be forbidden: texts such as "a < b", "x + 2*y <= 3" or "p1 + p2 + p3 == 1", and
    functions of a setting; every proposal obeys them.
    """

    def __init__(self, parameters: SpaceLike, *, where: Where = ()) -> None:
        self.where: tuple[Any, ...] = (where,) if isinstance(where, str) or callable(where) else tuple(where)
        """The rules that every proposal obeys, as they were given."""
        if isinstance(parameters, Space):
            self.as_array: bool = parameters.as_array
            self.where, parameters = (*parameters.where, *self.where), parameters.parameters
        else:
            self.as_array = isinstance(parameters, Sequence) and not isinstance(parameters, str)
        if isinstance(parameters, str | Path):
            parameters, rules = read_toml(parameters)
            self.where = (*rules, *self.where)
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
            str(name): meant_parameter(str(name), value, pairs=self.as_array) for name, value in items
        }
        if len(self.parameters) < len(items):
            raise ValueError("two parameters have the same name once written as text")
        if self.as_array and any(isinstance(p, Choice) for p in self.parameters.values()):
            raise ValueError(
                "a space given as a list passes an array of numbers to the objective; use a mapping for choices"
            )
        self.conditional = gated_names(self.parameters)
        """The parameters that exist in some settings only, parents before their children."""
        if self.as_array and self.conditional:
            raise ValueError(
                "a space given as a list has all its parameters in every setting; use a mapping for `when`"
            )
        self._rules, self._equations = read_rules(self.where, self.parameters) if self.where else ([], [])
        self.names = tuple(self.parameters)
        self.coordinates = tuple(sorted(self.names, key=_natural))
        """The names in the order in which methods see them."""
        self._cubes: dict[Encoding, Cube] = {}
        self._spans: dict[Encoding, dict[str, tuple[int, int]]] = {}
        self._ordered = [(name, self.parameters[name]) for name in self.coordinates]
        places = {name: i for i, name in enumerate(self.coordinates)}
        self._places = [(name, places[name]) for name in self.names]
        self._lines = _Lines([(i, p) for i, (_, p) in enumerate(self._ordered) if is_line(p)])
        self._others = [(i, p) for i, (_, p) in enumerate(self._ordered) if not is_line(p)]

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space) or self.where != other.where:
            return False
        return list(self.parameters.items()) == list(other.parameters.items())

    def __hash__(self) -> int:
        return hash(tuple(self.parameters.items()))

    def __repr__(self) -> str:
        rules = f", where={list(self.where)!r}" if self.where else ""
        return "Space({" + ", ".join(f"{name!r}: {p}" for name, p in self.parameters.items()) + f"}}{rules})"

    def cube(self, choices: Encoding = "shares") -> Cube:
        """The cube a method works in; `choices` says how choices become coordinates."""
        if choices not in self._cubes:
            self._cubes[choices] = self._new_cube(choices)
        return self._cubes[choices]

    def spans(self, choices: Encoding) -> dict[str, tuple[int, int]]:
        """Where the coordinates of each parameter begin and end, in their order."""
        if choices not in self._spans:
            ends = [0, *itertools.accumulate(width_of(p, choices) for _, p in self._ordered)]
            self._spans[choices] = dict(zip(self.coordinates, itertools.pairwise(ends), strict=True))
        return self._spans[choices]

    def _new_cube(self, choices: Encoding) -> Cube:
        axes: list[Axis] = []
        groups: list[tuple[int, int]] = []
        for _, parameter in self._ordered:
            if one_per_label(parameter, choices):
                groups.append((len(axes), len(axes) + len(parameter.labels)))
                axes.extend([Axis()] * len(parameter.labels))
            else:
                axes.append(parameter.axis)
        spans = self.spans(choices)
        gates = gates_of(self.parameters, self.conditional, spans, choices)
        region = self._region(len(axes), choices) if self.where else None
        return Cube(axes, groups, gates, region, belief_of(self.parameters, spans, choices))

    def _region(self, dim: int, choices: Encoding) -> Region:
        """What `where` allows of a cube of so many coordinates."""
        places = {name: start for name, (start, _) in self.spans(choices).items()}
        return Region(
            dim,
            rule=functools.partial(self._allows_in, choices) if self._rules else None,
            equations=equations_in_the_cube(self._equations, self.parameters, places, dim),
            linear=linear_in_the_cube(self._rules, self.parameters, places, dim),
            words="; ".join([rule.text for rule in self._rules] + [equation.text for equation in self._equations]),
        )

    def _allows_in(self, choices: Encoding, X: Array) -> NDArray[np.bool_]:
        """`allows` for points of the cube of an encoding."""
        return self.allows(X if choices == "shares" else np.array([self._shares_from_onehot(x) for x in X]))

    def allows(self, U: Array) -> NDArray[np.bool_]:
        """Which canonical points of the cube of equal shares (n x d) the rules allow, n; equations hold by the
        points."""
        lines = dict(zip((self.coordinates[i] for i in self._lines.at), self._lines.values(U).T, strict=True))
        on = self.cube().active(U)
        values = {name: lines[name] if name in lines else self._values(name, U[:, i]) for name, i in self._places}
        columns = {name: as_column(column) for name, column in values.items()}
        exists = {name: on[:, i] for name, i in self._places}
        ok = np.ones(len(U), dtype=bool)
        for rule in sorted(self._rules, key=lambda rule: rule.predicate is not None):  # functions are slow: last
            if rule.predicate is None:
                ok &= rule.allows(columns, exists)
            else:
                listed = {name: c.tolist() if isinstance(c, np.ndarray) else c for name, c in values.items()}
                for row in np.flatnonzero(ok).tolist():
                    setting = {name: column[row] for name, column in listed.items() if exists[name][row]}
                    ok[row] = bool(rule.predicate(setting))
        return ok

    def _values(self, name: str, u: Array) -> list[Any]:
        """The values of a parameter that is no line, at its coordinate in several points, n."""
        p = self.parameters[name]
        places = p.axis.index(u).tolist()
        if isinstance(p, Choice):
            return [p.labels[i] for i in places]
        known = {i: p.from_unit(x) for i, x in dict(zip(places, u.tolist(), strict=True)).items()}
        return [known[i] for i in places]

    def encode(self, params: Mapping[str, Any] | Sequence[float] | Array, choices: Encoding = "shares") -> Array:
        """The canonical cube point of a setting, d."""
        if not isinstance(params, Mapping):
            if not isinstance(params, Iterable):
                raise ValueError(f"a setting is a mapping of names to values, got {params!r}")
            values = list(params)
            if len(values) != len(self):
                raise ValueError(f"a point of this space has {len(self)} values, got {len(values)}")
            params = dict(zip(self.names, values, strict=True))
        if self.conditional:
            params = self._completed(params)
        missing = [n for n in self.names if n not in params]
        unknown = [n for n in params if n not in self.parameters]
        if missing or unknown:
            lacks = f"{', '.join(missing)} missing" if missing else ""
            more = f"no parameter {', '.join(map(repr, unknown))}" if unknown else ""
            raise ValueError(f"params do not fit the space: {', '.join(filter(None, (lacks, more)))}")
        u: list[float] = []
        for name, parameter in self._ordered:
            try:
                if one_per_label(parameter, choices):
                    hot = parameter.index(params[name])
                    u.extend(float(i == hot) for i in range(len(parameter.labels)))
                else:
                    u.append(parameter.to_unit(params[name]))
            except ValueError as error:
                raise ValueError(f"parameter {name!r}: {error}") from None
        point = np.array(u)
        if self._equations:
            self._check_equations(params)
            return self.cube(choices).snap(point)
        return point

    def _check_equations(self, params: Mapping[str, Any]) -> None:
        for equation in self._equations:
            terms = [weight * float(params[name]) for name, weight in equation.weights]
            size = max(map(abs, [equation.level, *terms]))
            # 1e-6: A setting given by the user satisfies an equation when its sides differ by less than this share of
            # the largest term: people write 0.333333
            if abs(sum(terms) - equation.level) > 1e-6 * size:
                shown = {name: params[name] for name, _ in equation.weights}
                raise ValueError(f"the setting {shown} does not satisfy {equation.text!r} of where")

    def check(self, params: Mapping[str, Any]) -> None:
        """Raises ValueError when a setting breaks a rule of `where`, with the rule."""
        if not self.where:
            return
        self._check_equations(params)
        setting = self.only_active(params)
        columns = {name: as_column([value]) for name, value in setting.items()}
        exists = {name: np.array([name in setting]) for name in self.names}
        for rule in self._rules:
            if rule.predicate is not None:
                fine = bool(rule.predicate(dict(setting)))
            else:
                fine = not all(name in setting for name in rule.names) or bool(rule.allows(columns, exists)[0])
            if not fine:
                raise ValueError(f"the setting {setting} breaks a rule of where: {rule.text}")

    def active(self, params: Mapping[str, Any]) -> dict[str, bool]:
        """Of every parameter: whether it exists in a setting, by the values of those it depends on."""
        exists = dict.fromkeys(self.names, True)
        for name in self.conditional:
            for parent, values in self.parameters[name].when:
                if not exists[parent] or not exists[name]:
                    exists[name] = False
                elif parent in params:  # one that is missing is named by whoever needs it
                    place = self.parameters[parent].to_unit(params[parent])
                    exists[name] = any(self.parameters[parent].to_unit(value) == place for value in values)
        return exists

    def pins(self, fixed: Mapping[str, Any], choices: Encoding = "shares") -> dict[int, float]:
        """The coordinates of some parameters and their places; a parameter with `when` needs those it depends on."""
        unknown = [name for name in fixed if name not in self.parameters]
        if unknown:
            raise ValueError(f"fixed names {unknown[0]!r}; the parameters are {', '.join(self.names)}")
        pins: dict[int, float] = {}
        exists = self.active(fixed) if self.conditional else {}
        for name, value in fixed.items():
            p, (start, stop) = self.parameters[name], self.spans(choices)[name]
            needed = [parent for parent, _ in p.when if parent not in fixed]
            if needed or not exists.get(name, True):
                why = f"fix {needed[0]!r} too" if needed else "it does not exist with the other fixed values"
                raise ValueError(f"fixed sets {name!r}, which exists in some settings only: {why}")
            place = named(name, functools.partial(p.to_unit, value))
            hot = start + p.index(value) if one_per_label(p, choices) else -1
            pins |= {i: float(i == hot) for i in range(start, stop)} if hot >= 0 else {start: place}
        return dict(sorted(pins.items()))

    def only_active(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A complete setting in the user's order, without what does not exist in it."""
        exists = self.active(params)
        return {name: params[name] for name in self.names if exists[name]}

    def _completed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A setting with values at the resting places for what does not exist in it; given ones are not looked at."""
        try:
            exists = self.active(params)
        except ValueError as error:
            raise ValueError(f"params do not fit the space: {error}") from None
        rest = dict(zip(self.coordinates, self.cube().rest.tolist(), strict=True))
        kept = {name: value for name, value in params.items() if exists.get(name, True)}
        return kept | {name: self.parameters[name].from_unit(rest[name]) for name in self.names if not exists[name]}

    def decode(self, u: Array, choices: Encoding = "shares") -> dict[str, Any]:
        """The setting of a cube point, which is made canonical first."""
        return self.decode_all(np.asarray(u, dtype=np.float64)[None], choices)[0]

    def decode_all(self, U: Array, choices: Encoding = "shares") -> list[dict[str, Any]]:
        """The settings of cube points, n x d: for many the arithmetic is done at once."""
        if choices == "onehot":
            U = np.array([self._shares_from_onehot(u) for u in U])
        found: list[dict[str, Any]] = []
        out: list[Any] = [None] * len(self)
        for u, numbers in zip(U, self._lines.values(U).tolist(), strict=True):
            for i, number in zip(self._lines.at, numbers, strict=True):
                out[i] = number
            for i, parameter in self._others:
                out[i] = parameter.from_unit(float(u[i]))
            exists = self.cube().active(u) if self.conditional else None
            found.append({name: out[i] for name, i in self._places if exists is None or exists[i]})
        return found

    def _shares_from_onehot(self, u: Array) -> Array:
        shares = [float(u[start]) for start, _ in self.spans("onehot").values()]
        for i, (name, p) in enumerate(self._ordered):
            if one_per_label(p, "onehot"):
                start, stop = self.spans("onehot")[name]
                shares[i] = (int(np.argmax(u[start:stop])) + 0.5) / (stop - start)
        return np.array(shares)

    def describe(self) -> dict[str, Any]:
        """The parameters in plain values; a label that no file can hold stands as its fingerprint, to be compared
        with."""
        tables: dict[str, Any] = {}
        for name, p in self.parameters.items():
            if isinstance(p, Choice):
                tables[name] = {"type": "choice", "labels": [in_plain(label) for label in p.labels]}
            else:
                kind = type(p).__name__.lower()
                tables[name] = {"type": kind, "low": p.low, "high": p.high, "log": p.log, "step": p.step}
            if p.when:
                tables[name]["when"] = {parent: [in_plain(value) for value in values] for parent, values in p.when}
            if p.prior:
                tables[name]["prior"] = list(p.prior)
        rules = {"where": [in_plain(rule) for rule in self.where]}
        return {"as_array": self.as_array, "parameters": tables, **(rules if self.where else {})}

    def to_json(self) -> dict[str, Any]:
        """A description that `Space.from_json` reads back; labels that are no plain text, number or truth value raise
        ValueError."""
        for name, p in self.parameters.items():
            if isinstance(p, Choice) and not all(map(is_plain, p.labels)):
                raise ValueError(f"parameter {name!r}: labels {p} cannot be written to a file")
        return self.describe()

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> Space:
        try:
            for name, table in description["parameters"].items():
                if any(isinstance(label, dict) for label in table.get("labels", ())):
                    raise ValueError(f"the file could not hold the labels of parameter {name!r}: pass space=")
            where = description.get("where", [])
            if not all(isinstance(rule, str) for rule in where):
                raise ValueError("the file could not hold a rule of where that is a function: pass space=")
            parameters = {name: from_table(name, table) for name, table in description["parameters"].items()}
            space = cls(parameters, where=where)
            space.as_array = description["as_array"]
            if not isinstance(space.as_array, bool):
                raise ValueError(f"not the description of a space: as_array is {space.as_array!r}")
        except (KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"not the description of a space: {error!r}") from None
        return space


Where: TypeAlias = str | Predicate | Sequence[str | Predicate]
"""One rule or several: texts, and functions of a setting."""
SpaceLike: TypeAlias = Space | Mapping[str, Any] | Sequence[Any] | str | Path


class _Lines:
    """The parameters of a space that are lines, with their coordinates: as arrays, so that a point is decoded at
    once."""

    def __init__(self, lines: Sequence[tuple[int, Float]]) -> None:
        self.at = [i for i, _ in lines]
        self._columns = np.array(self.at, dtype=np.intp)
        self._cells = np.array([float(p.axis.cells) for _, p in lines])
        self._low, self._high = np.array([p.low for _, p in lines]), np.array([p.high for _, p in lines])
        self._log = np.array([p.log for _, p in lines], dtype=bool)
        self._any_log = bool(self._log.any())
        ends = np.array([self._low, self._high])
        self._from, self._to = np.where(self._log, np.log(np.where(self._log, ends, 1.0)), ends)

    def values(self, u: Array) -> Array:
        """The values at points (... x d), in the order of the coordinates; the points are made canonical first."""
        v = np.rint(u[..., self._columns] * self._cells) / self._cells
        value = (1 - v) * self._from + v * self._to
        if self._any_log:
            with np.errstate(over="ignore"):
                value = np.where(self._log, np.exp(np.where(self._log, value, 0.0)), value)
            value = np.where(v == 0, self._low, np.where(v == 1, self._high, value))  # as they were written
        return np.asarray(np.minimum(np.maximum(value, self._low), self._high))


def _natural(name: str) -> tuple[list[tuple[str, int]], str]:
    """The key that sorts x2 before x10."""
    return [(text, int(digits or -1)) for text, digits in re.findall(r"([^0-9]*)([0-9]*)", name)], name


def as_column(values: list[Any] | Array) -> NDArray[Any]:
    """Values of one parameter as an array, numbers as floats."""
    if isinstance(values, np.ndarray):
        return values
    if all(map(is_number, values)):
        return np.array(values, dtype=np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
