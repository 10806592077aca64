"""`freeze` turns a state of training into arrays and plain values, which a file can hold without a pickle; `thaw` turns
them back.

`freeze` takes arrays, tensors, numbers and text as they are. Of a torch module or optimiser it takes the `state_dict`,
of a random generator the state, and of any other object the attributes. `thaw` is given a fresh state, made by the
problem's `init`, and puts the contents into its objects. So a file never names a class that would have to be imported.
"""

import copyreg
import functools
import types
from collections.abc import Mapping
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from regretless.basics.statefile import StateError

Nested: TypeAlias = Any
"""Mappings, lists, tuples, NumPy arrays, torch tensors, numbers, text, truth values and None, nested as one likes."""

CODE = (
    type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType,
    functools.partial, np.ufunc,
)  # fmt: skip
"""What training does not change: `thaw` takes it from the fresh state."""


def freeze(state: Any, *, strict: bool = True) -> Nested:
    """The tree of a state; what cannot be taken apart raises StateError or, when not strict, is left to `thaw`."""
    writer = _Writer(strict)
    tree = writer.node(state, "state")
    return {"needs fresh": writer.needs_fresh, "tree": tree}


def needs_fresh(frozen: Nested) -> bool:
    """Whether `thaw` needs a fresh state; a state of arrays, numbers and text alone does not."""
    return bool(frozen["needs fresh"])


def thaw(fresh: Any, frozen: Nested) -> Any:
    """The state that was frozen; objects are those of the fresh state, with the contents of the frozen ones."""
    return _Reader().node(fresh, frozen["tree"], "state")


class _Writer:
    """Takes a state apart. Plain values stand for themselves, everything else is a list that begins with its kind."""

    def __init__(self, strict: bool) -> None:
        self.strict, self.needs_fresh = strict, False
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # what has been seen stays alive, so that no other object gets its id

    def node(self, value: Any, where: str) -> Nested:
        # pairs of methods by which objects of torch, NumPy and Python give and take their state
        state_methods = (("state_dict", "load_state_dict"), ("get_state", "set_state"), ("getstate", "setstate"))
        if value is None or isinstance(value, bool | int | float | str | np.generic):
            return value
        if id(value) in self._seen:
            return ["again", self._seen[id(value)]]
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        plain_tensor = type(value).__module__ == "torch" and type(value).__name__ == "Tensor"
        if (type(value) is np.ndarray and not value.dtype.hasobject) or plain_tensor:
            return ["array", value]
        if isinstance(value, Mapping):
            self.needs_fresh |= type(value) is not dict
            return ["map", *([key, self.node(part, f"{where}[{key!r}]")] for key, part in value.items())]
        if isinstance(value, list | tuple):
            self.needs_fresh |= hasattr(value, "_fields")
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, *(self.node(part, f"{where}[{i}]") for i, part in enumerate(value))]
        self.needs_fresh = True
        if isinstance(value, CODE):
            return ["code", _title(value)]
        if isinstance(value, np.random.Generator):
            return ["generator", _title(type(value)), value.bit_generator.state]
        for save, load in state_methods:
            if callable(getattr(value, save, None)) and callable(getattr(value, load, None)):
                return ["state", _title(type(value)), load, getattr(value, save)()]
        attributes = _attributes(value)
        if attributes is not None:
            parts = {name: self.node(part, f"{where}.{name}") for name, part in attributes.items()}
            return ["object", _title(type(value)), parts]
        if not self.strict:
            return ["as made"]
        kind = type(value).__name__
        raise StateError(f"{where}: a {kind} cannot be written without a pickle; give the problem save= and load=")


class _Reader:
    """Puts a state together again."""

    def __init__(self) -> None:
        self._seen: list[Any] = []

    def node(self, current: Any, node: Nested, where: str) -> Any:
        """The value of a node; `current` is what the fresh state has in its place."""
        if not isinstance(node, list):
            return node
        kind, *content = node
        if kind == "again":
            return self._seen[content[0]]
        at = len(self._seen)
        self._seen.append(current)
        if kind == "array":
            self._seen[at] = content[0]
        elif kind == "map":
            made = copy(current) if isinstance(current, dict) else {}
            made.clear()
            self._seen[at] = made
            for key, part in content:
                there = current.get(key) if isinstance(current, Mapping) else None
                made[key] = self.node(there, part, f"{where}[{key!r}]")
        elif kind in ("list", "tuple"):
            there = current if isinstance(current, list | tuple) else ()
            parts: list[Any] = []
            self._seen[at] = parts
            for i, part in enumerate(content):
                parts.append(self.node(there[i] if i < len(there) else None, part, f"{where}[{i}]"))
            if kind == "tuple":
                self._seen[at] = type(current)(*parts) if hasattr(current, "_fields") else tuple(parts)
        elif kind != "as made":
            title = _title(current) if kind == "code" else _title(type(current))
            if title != content[0]:
                raise StateError(
                    f"{where}: the state has a {content[0]} here, a fresh one has a {title}, which its contents cannot "
                    "be put into; make it in init, or give the problem save= and load="
                )
            if kind == "generator":
                current.bit_generator.state = content[1]
            elif kind == "state":
                getattr(current, content[1])(content[2])
            elif kind == "object":
                own = _attributes(current) or {}
                made = {name: self.node(own.get(name), part, f"{where}.{name}") for name, part in content[1].items()}
                if hasattr(current, "__setstate__"):
                    current.__setstate__(made)
                else:
                    for name, part in made.items():
                        object.__setattr__(current, name, part)
        return self._seen[at]


def _attributes(value: Any) -> dict[str, Any] | None:
    """What Python itself would copy of an object, by name; None when the object is more than its attributes."""
    try:
        make, arguments, state, *items = value.__reduce_ex__(2)
    except (TypeError, ValueError):  # not to be copied, or copied in a way of its own
        return None
    if make is not copyreg.__newobj__ or arguments != (type(value),) or any(part is not None for part in items):  # type: ignore[attr-defined]
        return None
    if isinstance(state, tuple) and len(state) == 2:  # attributes in the dictionary, and in slots
        state = {**(state[0] or {}), **(state[1] or {})}
    return state if isinstance(state, dict) else {} if state is None else None


def _title(thing: Any) -> str:
    """The full name of a class or function."""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"
