"""What one run of a comparison is: a method, a problem, a seed and a budget; and the name of its record."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regretless.basics.fingerprint import fingerprint
from regretless.method import Recipe
from regretless_bench.problems.problem import RENAMED


@dataclass(frozen=True)
class Run:
    """One cell of a comparison: a method on a problem with a seed.

    Args:
        method: a name, or a recipe such as `regretless.MSUCB(low_dim=5)`.
        problem: a name of `regretless_bench.problems.PROBLEMS`.
        options: the problem's options (dim, shift, noise_sd, ...); the seed is added unless they name one.
        seed: seeds the method and the problem: methods with the same seed meet the same instance, noise and initial
            points.
        budget: evaluations in all, the initial ones included.
        init: how many of them are common initial points, the same for every method with this problem and seed.
        label: how the method is called in plots; by default its name and options.
        checkpoints: numbers of evaluations after which the recommendation and the certificate are recorded; always at
            the end.
    """

    method: Recipe | str
    problem: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    budget: int = 100
    init: int = 0
    label: str | None = None
    checkpoints: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.budget < 1 or not 0 <= self.init <= self.budget:
            raise ValueError(
                f"a run needs budget >= 1 and 0 <= init <= budget, got budget={self.budget}, init={self.init}"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides the outcome, as plain values."""
        return self._settings(self.options)

    @property
    def title(self) -> str:
        """The method's label."""
        if self.label is not None:
            return self.label
        return self.method if isinstance(self.method, str) else called(self.method.name, self.method.options)

    @property
    def key(self) -> str:
        """The name of its record: readable, and different whenever the settings are.

        Options of problems count under their former names, so that records of earlier versions are found.
        """
        options = _under_former_names(self.options)
        settings = self._settings(options)
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode()).hexdigest()[:10]
        words = file_name(f"{settings['label']}-{called(self.problem, options)}")
        return f"{words}-s{self.seed}-{digest}"

    def _settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """The settings with these options of the problem."""
        name, given = (self.method, {}) if isinstance(self.method, str) else (self.method.name, self.method.options)
        scalars = (str, int, float, bool, type(None))
        described = {
            k: v if isinstance(v, scalars) else {"text": _without_addresses(repr(v)), **_content(v)}
            for k, v in given.items()
        }
        return {
            "method": {"name": name, "options": described},
            "problem": self.problem,
            "options": {
                k: v if _is_plain(v) else {"text": _without_addresses(repr(v)), **_content(v)}
                for k, v in options.items()
            },
            "seed": self.seed,
            "budget": self.budget,
            "init": self.init,
            "label": self.title,
            "checkpoints": list(self.checkpoints),
        }


def called(name: str, options: Mapping[str, Any]) -> str:
    """A name with its options, for people: levy(dim=20, shift=0.6)."""
    words = ", ".join(f"{k}={_without_addresses(str(v))}" for k, v in options.items())
    return f"{name}({words})" if words else name


def file_name(text: str) -> str:
    """A text as the name of a file in any folder: letters, digits and ".=-_" only, at most 100 of them."""
    return re.sub(r"[^A-Za-z0-9.=-]+", "_", text)[:100].strip("_")


def _under_former_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a problem by the names that `RENAMED` (former name -> present name) has for them."""
    former = {new: old for old, new in RENAMED.items()}
    return {former.get(name, name): value for name, value in options.items()}


def _is_plain(value: Any) -> bool:
    """Whether the printed form of a value tells its whole content: numbers, text, None and containers of these."""
    if isinstance(value, Mapping):
        return all(_is_plain(k) and _is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | bool | int | float | complex | np.generic)


def _content(value: Any) -> dict[str, str]:
    """The fingerprint of a value whose printed form may leave something out: an array, a function, an object."""
    return {} if _is_plain(value) else {"fingerprint": fingerprint(value)}


def _without_addresses(text: str) -> str:
    """The text without addresses in memory, which differ from process to process: <function f at 0x7f..> becomes
    <function f>."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)
