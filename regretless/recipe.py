"""`Recipe`: a Method with its options and without a space."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regretless.fingerprint import in_plain, same_content
from regretless.space import Cube, Space

if TYPE_CHECKING:
    from regretless.method import Method

FORMER_PRESETS = {"practical": "default"}
"""Former names of presets, and the present ones."""


class Recipe:
    """A Method with its options and without a space: what users name and records store.

    `path` is "module:class", or a Method class itself. A recipe is called with options to make another: `GPUCB` is the
    default, `GPUCB(kappa=2)` the same with kappa = 2. It prints itself, compares equal to its like, and `build` makes
    the Method for a space, seed and budget. The method's module is imported on first use.
    """

    def __init__(self, name: str, path: str | type[Method], options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        """The name used on the command line and in records."""
        self._path = path
        self.options: dict[str, Any] = dict(options or {})

    @property
    def method(self) -> type[Method]:
        """The Method class, imported on first use."""
        if not isinstance(self._path, str):
            return self._path
        module, _, name = self._path.partition(":")
        found: type[Method] = getattr(importlib.import_module(module), name)
        return found

    @property
    def summary(self) -> str:
        """The first paragraph of the method's docstring, in one line."""
        return " ".join((inspect.getdoc(self.method) or "").split("\n\n")[0].split()).rstrip(".")

    def __call__(self, **options: Any) -> Recipe:
        arguments = inspect.signature(self.method).parameters
        known = [name for name in arguments if name not in ("cube", "seed", "budget")]
        for option in options:
            if option in self.method.renamed:
                raise TypeError(f"{self._title}: the option {option!r} is called {self.method.renamed[option]!r}")
            if option in self.method.moved:
                raise TypeError(
                    f"{self._title}: the option {option!r} belongs to the method {self.method.moved[option]!r} now"
                )
            if option == "preset" and options[option] in FORMER_PRESETS:
                now = FORMER_PRESETS[options[option]]
                raise ValueError(f"{self._title}: the preset {options[option]!r} is called {now!r}")
            if option not in known:
                raise TypeError(f"{self._title} has no option {option!r}; it takes {', '.join(known) or 'none'}")
        return Recipe(self.name, self._path, {**self.options, **options})

    def build(self, space: int | Cube | Space, *, seed: int, budget: int | None = None, sign: float = 1.0) -> Method:
        """The Method for a space, whose user sees sign * f; for a number of coordinates or a bare cube there is no user
        to bind to."""
        cube = space.cube(self.method.choices) if isinstance(space, Space) else space
        method = self.method(cube, seed=seed, budget=budget, **self.options)
        if isinstance(space, Space):
            method.bind(space, sign)
        return method

    @property
    def _title(self) -> str:
        return self._path.rpartition(":")[2] if isinstance(self._path, str) else self._path.__name__

    def __str__(self) -> str:
        """As people name it: auto, gp-ucb(verify=2)."""
        options = ", ".join(f"{option}={value!r}" for option, value in self.options.items())
        return f"{self.name}({options})" if options else self.name

    def __repr__(self) -> str:
        return f"{self._title}({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"

    def __eq__(self, other: object) -> bool:
        """Recipes are equal by content: arrays by their numbers, functions by identity."""
        if not isinstance(other, Recipe) or (self.name, self._path) != (other.name, other._path):
            return False
        return same_content(self.options, other.options)

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.options))))

    def to_json(self) -> dict[str, Any]:
        """The name, its version (of a default that was another method once) and the options; options that are no plain
        values stand as their fingerprints, to be compared with."""
        plain = {option: in_plain(value) for option, value in self.options.items()}
        version = self.version_of(self.options)
        return {"name": self.name, **({"version": version} if version > 1 else {}), "options": plain}

    def version_of(self, options: Mapping[str, Any]) -> int:
        """The version of this name with these options: that of the method, but a paper's preset stays what it is."""
        return 1 if options.get("preset") == "paper" else self.method.version
