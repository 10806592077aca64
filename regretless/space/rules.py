"""Known constraints: which settings are allowed, as people write them.

    Space({...}, where=["a < b", "x + 2*y <= 3", "p1 + p2 + p3 == 1", lambda s: s["n"] % s["heads"] == 0])

A rule is a text or a function of a setting that says yes or no. A text compares sums, products and powers of
parameters, whole texts may be joined by and, or and not, and abs, min, max, sqrt, log and exp are known. It is read
here and never executed as Python. A linear equation between Floats becomes an `Equation`: one of its parameters follows
from the others. A text says nothing about settings in which one of its parameters does not exist; a function is shown
the parameters that exist.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.space.parameters import Array, Float, Int, Parameter, ends_of, is_line

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Names of parameters to their values in n settings."""
Term: TypeAlias = Callable[[Columns], Any]
Predicate: TypeAlias = Callable[[dict[str, Any]], Any]
"""A user's own rule: a setting to whether it is allowed."""

BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
"""The operators of a text between numbers."""
ORDERS = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.NotEq: operator.ne,
    ast.Eq: operator.eq,
}  # fmt: skip
"""The comparisons of a text."""
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs, "sqrt": np.sqrt, "log": np.log, "exp": np.exp,
    "min": lambda *a: np.minimum.reduce(np.broadcast_arrays(*a)),
    "max": lambda *a: np.maximum.reduce(np.broadcast_arrays(*a)),
}  # fmt: skip
"""What a text may call."""


@dataclass(frozen=True)
class Equation:
    """sum of weights times parameters = level, between Floats that are lines."""

    text: str
    weights: tuple[tuple[str, float], ...]
    level: float


@dataclass(frozen=True)
class Rule:
    """One entry of `where` that rules settings out."""

    text: str
    """The entry as it was written; of a function, its name."""
    names: tuple[str, ...]
    """The parameters that a text speaks of; of a function, none."""
    holds: Callable[[Columns], Any] | None
    """Of a text: columns of values to truth values."""
    predicate: Predicate | None = None

    def allows(self, columns: Columns, exists: Columns) -> NDArray[np.bool_]:
        """Which of n settings a text allows, n."""
        assert self.holds is not None
        try:
            with np.errstate(all="ignore"):
                held = np.asarray(self.holds(columns), dtype=bool)
        except (ValueError, TypeError) as error:
            raise ValueError(f"where: {self.text!r} cannot be worked out: {error}") from None
        absent = ~np.logical_and.reduce([exists[name] for name in self.names])
        return np.asarray(held | absent)

    def __reduce__(self) -> tuple[Any, ...]:
        """A text is read again where it arrives: workers in other processes are sent the space."""
        if self.predicate is not None:
            return Rule, (self.text, self.names, None, self.predicate)
        return _read_again, (self.text, self.names)


def read_rules(where: Any, parameters: Mapping[str, Parameter]) -> tuple[list[Rule], list[Equation]]:
    """The rules and equations of a `where`; raises ValueError that names the entry which is wrong."""
    entries = [where] if isinstance(where, str) or callable(where) else where
    if not isinstance(entries, Sequence):
        raise ValueError(f'where must be a list of rules such as "a < b", got {where!r}')
    rules: list[Rule] = []
    equations: list[Equation] = []
    for entry in entries:
        if isinstance(entry, str):
            found = _read(entry, parameters)
            if isinstance(found, Equation):
                equations.append(found)
            else:
                rules.append(found)
        elif callable(entry):
            rules.append(Rule(getattr(entry, "__name__", repr(entry)), (), None, entry))
        else:
            raise ValueError(f'where: expected a text such as "a < b" or a function of a setting, got {entry!r}')
    return rules, equations


def _read(text: str, parameters: Mapping[str, Parameter]) -> Rule | Equation:
    most_letters = 10_000  # the longest text of a rule: every proposal works all of it out
    if len(text) > most_letters:
        raise ValueError(
            f"where: the rule that begins with {text[:40]!r} has {len(text)} letters, more than {most_letters}; give a "
            "function of the setting"
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"where: {text!r} cannot be read; write a comparison such as 'a + 2*b <= 3'") from None
    names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - set(FUNCTIONS))
    unknown = [name for name in names if name not in parameters]
    if unknown:
        raise ValueError(f"where: {text!r} names {unknown[0]!r}; the parameters are {', '.join(parameters)}")
    if not names:
        raise ValueError(f"where: {text!r} names no parameter")
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Eq):
        lines = [name for name in names if is_line(parameters[name])]
        if lines:
            return _equation(text, tree, names, parameters)
    if not isinstance(tree, ast.Compare | ast.BoolOp) and not (
        isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
    ):
        raise ValueError(f"where: {text!r} compares nothing; write for instance 'a + 2*b <= 3'")
    return Rule(text, tuple(names), _term(tree, text))


def _read_again(text: str, names: tuple[str, ...]) -> Rule:
    """The rule of a text that was found to be right before."""
    return Rule(text, names, _term(ast.parse(text.strip(), mode="eval").body, text))


def _term(node: ast.AST, text: str) -> Term:
    """A part of a text as a function of columns."""
    most_power = 16  # the largest exponent in a rule: more would say nothing about sizes that a float can hold
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        constant = node.value
        return lambda columns: constant
    if isinstance(node, ast.Name):
        name = node.id
        return lambda columns: columns[name]
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        texts = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
        if any(isinstance(value, str) for value in texts):
            raise ValueError(f"where: {text!r} reckons with a text; texts can be compared, with == and !=")
        apply, left, right = BINARY[type(node.op)], _term(node.left, text), _term(node.right, text)
        exponent = node.right.value if isinstance(node.right, ast.Constant) else None
        known = isinstance(exponent, int | float) and abs(exponent) <= most_power
        if isinstance(node.op, ast.Pow) and not known:
            raise ValueError(f"where: {text!r} has a power whose exponent is no number up to {most_power}")
        return lambda columns: apply(_number(left(columns)), _number(right(columns)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd | ast.Not):
        inner, sign = _term(node.operand, text), node.op
        if isinstance(sign, ast.Not):
            return lambda columns: np.logical_not(inner(columns))
        return lambda columns: (-1.0 if isinstance(sign, ast.USub) else 1.0) * _number(inner(columns))
    if isinstance(node, ast.BoolOp):
        parts = [_term(value, text) for value in node.values]
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        return lambda columns: join.reduce(np.broadcast_arrays(*(part(columns) for part in parts)))
    if isinstance(node, ast.Compare) and all(type(op) in ORDERS for op in node.ops):
        sides = [_term(side, text) for side in (node.left, *node.comparators)]
        orders = [ORDERS[type(op)] for op in node.ops]

        def compared(columns: Columns) -> Any:
            values = [side(columns) for side in sides]
            held = [order(a, b) for order, a, b in zip(orders, values[:-1], values[1:], strict=True)]
            return np.logical_and.reduce(np.broadcast_arrays(*held))

        return compared
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in FUNCTIONS
        and not node.keywords
    ):
        function, arguments = FUNCTIONS[node.func.id], [_term(argument, text) for argument in node.args]
        return lambda columns: function(*(_number(argument(columns)) for argument in arguments))
    raise ValueError(
        f"where: {text!r} holds {ast.unparse(node)!r}, which is not understood; use + - * / **, comparisons, and, or, "
        f"not, {', '.join(FUNCTIONS)}, or give a function of the setting"
    )


def _number(value: Any) -> Any:
    """Values to reckon with, as floats: whole numbers of NumPy would wrap round."""
    return np.asarray(value, dtype=np.float64)


# ---------------------------------------------------------------- equations


def _equation(text: str, tree: ast.Compare, names: Sequence[str], parameters: Mapping[str, Parameter]) -> Equation:
    wrong = [n for n in names if not (is_line(p := parameters[n]) and not p.log and not p.when)]
    if wrong:
        raise ValueError(
            f"where: {text!r} must hold exactly, so that it can only speak of Floats without log, step and when; "
            f"{wrong[0]!r} is {parameters[wrong[0]]}"
        )
    left, right = _linear(tree.left, text), _linear(tree.comparators[0], text)
    weights = {n: left.get(n, 0.0) - right.get(n, 0.0) for n in names}
    weights = {n: w for n, w in weights.items() if w}
    if not weights:
        raise ValueError(f"where: no parameter is left in {text!r}")
    return Equation(text, tuple(weights.items()), right.get("", 0.0) - left.get("", 0.0))


def _linear(node: ast.AST, text: str) -> dict[str, float]:
    """The weights of the parameters in a sum, and under "" what is added to them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return {"": float(node.value)}
    if isinstance(node, ast.Name):
        return {node.id: 1.0}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _scaled(_linear(node.operand, text), -1.0 if isinstance(node.op, ast.USub) else 1.0)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = _linear(node.left, text), _linear(node.right, text)
        return _summed(left, _scaled(right, -1.0 if isinstance(node.op, ast.Sub) else 1.0))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        left, right = _linear(node.left, text), _linear(node.right, text)
        if set(left) == {""} and isinstance(node.op, ast.Mult):
            left, right = right, left
        factor = right.get("", 0.0)
        if set(right) == {""} and (factor or isinstance(node.op, ast.Mult)):
            return _scaled(left, factor if isinstance(node.op, ast.Mult) else 1.0 / factor)
    raise ValueError(f"where: {text!r} must hold exactly, so that it has to be linear in its parameters")


def _scaled(weights: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: factor * weight for name, weight in weights.items()}


def _summed(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: a.get(name, 0.0) + b.get(name, 0.0) for name in {**a, **b}}


def in_the_cube(
    weights: Mapping[str, float], level: float, parameters: Mapping[str, Parameter], places: Mapping[str, int], dim: int
) -> tuple[Array, float]:
    """sum of weights times parameters and `level`, as weights of the coordinates (d) and a level."""
    row = np.zeros(dim)
    for name, weight in weights.items():
        p = parameters[name]
        assert isinstance(p, Float | Int)
        low, high = ends_of(p)
        row[places[name]] = weight * (high - low)
        level -= weight * low
    return row, level


def equations_in_the_cube(
    equations: Sequence[Equation], parameters: Mapping[str, Parameter], places: Mapping[str, int], dim: int
) -> tuple[Array, Array] | None:
    """A (m x d) and b (m) of the equations between coordinates."""
    if not equations:
        return None
    rows = [in_the_cube(dict(e.weights), e.level, parameters, places, dim) for e in equations]
    return np.array([row for row, _ in rows]), np.array([level for _, level in rows])


def linear_in_the_cube(
    rules: Sequence[Rule], parameters: Mapping[str, Parameter], places: Mapping[str, int], dim: int
) -> tuple[Array, Array] | None:
    """G (k x d) and h (k) of the rules that are linear inequalities between plain numbers; None when there are none."""
    rows = []
    for rule in rules:
        if rule.predicate is not None or not all(_is_linear(parameters[name]) for name in rule.names):
            continue
        tree = ast.parse(rule.text.strip(), mode="eval").body
        if not isinstance(tree, ast.Compare):
            continue
        try:
            sides = [_linear(side, rule.text) for side in (tree.left, *tree.comparators)]
        except ValueError:
            continue
        for op, left, right in zip(tree.ops, sides[:-1], sides[1:], strict=True):
            if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                small, large = (left, right) if isinstance(op, ast.Lt | ast.LtE) else (right, left)
                apart = _summed(small, _scaled(large, -1.0))
                level = -apart.pop("", 0.0)
                rows.append(in_the_cube(apart, level, parameters, places, dim))
    if not rows:
        return None
    return np.array([row for row, _ in rows]), np.array([level for _, level in rows])


def _is_linear(p: Parameter) -> bool:
    return not p.when and ((is_line(p) and not p.log) or (isinstance(p, Int) and not p.log))
