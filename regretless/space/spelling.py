"""How spaces are written: the parameters meant by plain values, tables of TOML and JSON."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from regretless.space.parameters import Choice, Float, Int, Parameter, is_number

T = TypeVar("T")


def read_toml(path: str | Path) -> tuple[dict[str, Parameter], list[str]]:
    """The parameters and the rules (`where = [...]`) of a TOML file; every error names the file and the parameter."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode()
        if _deeply_dotted(text):
            raise ValueError(f"a name has more than {MOST_DOTS} parts")
        tables = tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"cannot read the space {path}: {error.strerror}") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is not valid TOML: nested too deeply") from None
    rules = [] if isinstance(tables.get("where"), dict) else tables.pop("where", [])
    rules = [rules] if isinstance(rules, str) else rules
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise ValueError(f'{path}: where must be a list of texts such as "a < b", got {rules!r}')
    try:
        return {name: from_table(name, table) for name, table in tables.items()}, rules
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _deeply_dotted(text: str) -> bool:
    """Whether a text holds a long dotted name, which the reader of TOML takes very long to split."""
    joined = re.sub(r"\s*\.\s*", ".", text.translate({ord(quote): None for quote in "\"'"}))
    return "a." * MOST_DOTS in re.sub(r"[\w-]+", "a", joined)


MOST_DOTS = 100
"""The most parts of a dotted name in a file of a space; a parameter needs one, and its `when` two."""
TABLE_KEYS = {
    "float": ({"low", "high"}, {"log", "step", "open", "when", "prior"}),
    "int": ({"low", "high"}, {"log", "step", "when", "prior"}),
    "choice": ({"labels"}, {"when", "prior"}),
}
"""Required and optional keys of a parameter's table, by type."""


def from_table(name: str, table: Any) -> Parameter:
    if not isinstance(table, Mapping):
        raise ValueError(f"parameter {name!r}: expected a table such as [{name}] with a type, got {table!r}")
    kind = table.get("type")
    if kind is None:
        raise ValueError(f"parameter {name!r}: type is missing; it is one of {', '.join(sorted(TABLE_KEYS))}")
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
        return named(name, lambda: Choice(table["labels"], when=table.get("when", ()), prior=table.get("prior", ())))
    options = {key: table[key] for key in ("log", "step", "open", "when", "prior") if table.get(key) is not None}
    for key in ("log", "open"):
        if not isinstance(options.get(key, False), bool):
            raise ValueError(f"parameter {name!r}: {key} must be true or false, got {options[key]!r}")
    kinds: dict[str, type[Float] | type[Int]] = {"float": Float, "int": Int}
    return named(name, lambda: kinds[kind](table["low"], table["high"], **options))


def meant_parameter(name: str, value: Any, *, pairs: bool) -> Parameter:
    """The parameter meant by a value of a mapping or, where (low, high) `pairs` are meant, of a list."""
    if isinstance(value, Float | Int | Choice):
        return value
    pair = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(is_number, value))
    if pairs and pair:
        return named(name, lambda: Float(value[0], value[1]))
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


def named(name: str, build: Callable[[], T]) -> T:
    try:
        return build()
    except (ValueError, TypeError) as error:
        raise ValueError(f"parameter {name!r}: {error}") from None
