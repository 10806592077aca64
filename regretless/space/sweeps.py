"""The space of a W&B sweep: the `parameters` of its YAML or JSON file, where they mean exactly the same here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regretless.basics.extras import optional
from regretless.space.parameters import Choice, Float, Int, Parameter
from regretless.space.spelling import named

RANGES = {
    "uniform": {"min", "max"}, "int_uniform": {"min", "max"}, "q_uniform": {"min", "max", "q"},
    "log_uniform": {"min", "max"}, "log_uniform_values": {"min", "max"},
}  # fmt: skip
"""The distributions that are ranges here, with the keys that they take."""


def is_sweep(path: str | Path) -> bool:
    """Whether a file is one of a sweep, by its name."""
    return Path(path).suffix.lower() in (".yaml", ".yml", ".json")


def read_sweep(path: str | Path) -> dict[str, Parameter]:
    """The parameters of a sweep's file; what means something else here, or nothing, is refused by its name."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = json.loads(text) if Path(path).suffix.lower() == ".json" else _of_yaml(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot read the sweep {path}: {error}") from None
    tables = content.get("parameters") if isinstance(content, Mapping) else None
    if not isinstance(tables, Mapping) or not tables:
        raise ValueError(f"{path} is no sweep: it has no parameters")
    try:
        return {str(name): named(str(name), lambda table=table: _meant(table)) for name, table in tables.items()}  # type: ignore[misc]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _of_yaml(text: str) -> Any:
    yaml = optional("yaml", "optuna")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _meant(table: Any) -> Parameter:
    """The parameter that a table of a sweep means."""
    if not isinstance(table, Mapping):
        raise ValueError(f"expected a table of a sweep, got {table!r}")
    keys = set(table) - {"distribution"}
    kind = table.get("distribution")
    if keys == {"value"} and kind in (None, "constant"):
        return Choice([table["value"]])
    if keys == {"values"} and kind in (None, "categorical"):
        if not isinstance(table["values"], list):
            raise ValueError(f"values must be a list, got {table['values']!r}")
        return Choice(table["values"])
    if kind is None and keys == {"min", "max"}:
        kind = "int_uniform" if all(type(table[key]) is int for key in keys) else "uniform"
    if kind not in RANGES or keys != RANGES[kind]:
        said = ", ".join(f"{key}: {value!r}" for key, value in table.items())
        raise ValueError(f"a range, a value or a list of values means the same here; ({said}) does not")
    low, high = _number(table["min"]), _number(table["max"])
    if kind == "int_uniform":
        return Int(low, high)  # type: ignore[arg-type]  # it refuses other numbers
    if kind == "log_uniform":
        return Float(math.exp(low), math.exp(high), log=True)
    if kind != "q_uniform":
        return Float(low, high, log=kind == "log_uniform_values")
    step = _number(table["q"])
    # 1e-9: rounding of decimal fractions: a sweep has the multiples of q, and this range must begin and end with one
    if not step > 0 or any(abs(end / step - round(end / step)) > 1e-9 for end in (low, high)):
        raise ValueError(f"min and max must be multiples of q = {step}: a sweep rounds to these")
    whole = all(isinstance(number, int) for number in (low, high, step))
    return Int(low, high, step=step) if whole else Float(low, high, step=step)  # type: ignore[arg-type]


def _number(value: Any) -> float | int:
    """A number; YAML takes 1e-5 for a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected a number, got {value!r}")
    return value if isinstance(value, int) else float(value)
