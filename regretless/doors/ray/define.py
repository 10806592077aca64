"""Spaces that are functions: `define(trial)` suggests its parameters, as Optuna's objectives do.

The function is called with trials of our own, which answer with every label and every small whole number in turn, until
all parameters have been seen. From what it asked follows which parameters exist in which settings (`doors.tree`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial

from regretless.doors.optuna.distributions import cube_space, only_value
from regretless.doors.optuna.tree import deciding_values, learn_tree
from regretless.space import Space

MOST_CALLS = 4096
"""Calls of a function after which it counts as one that never shows all of its parameters."""


class Asked:
    """A trial that answers with given values, with the first value of whatever else is asked, and notes both."""

    def __init__(self, given: Mapping[str, Any], *, strict: bool = False) -> None:
        self.given, self.strict = given, strict
        self.params: dict[str, Any] = {}
        self.distributions: dict[str, BaseDistribution] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return float(self._answer(name, FloatDistribution(low, high, log=log, step=step)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return int(self._answer(name, IntDistribution(low, high, log=log, step=step)))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._answer(name, CategoricalDistribution(choices))

    def _answer(self, name: str, distribution: BaseDistribution) -> Any:
        if self.strict and name not in self.given:
            raise ValueError(f"the space asks for {name!r} in a setting where no call before asked for it")
        self.distributions[name] = distribution
        self.params[name] = self.given[name] if name in self.given else only_value(distribution)
        return self.params[name]


def read_function(
    define: Callable[[Any], Mapping[str, Any] | None],
) -> tuple[Space, dict[str, tuple[Any, ...]], Callable[[Mapping[str, Any]], Mapping[str, Any]]]:
    """The space of a function, what readers of its parameters need, and the values it returns for a configuration."""
    trials = _tried(define)
    tree = learn_tree(trials)
    fixed = {n: d for t in trials for n, d in t.distributions.items() if d.single()}
    lost = sorted(tree.seen - tree.distributions.keys() - fixed.keys())
    if lost:
        raise ValueError(f"no values of other parameters say when {lost[0]!r} exists: give the space as a mapping")
    space = {**tree.distributions, **fixed}
    readers: dict[str, tuple[Any, ...]] = {
        n: ("listed", list(d.choices)) if isinstance(d, CategoricalDistribution) else () for n, d in space.items()
    }

    def constants(config: Mapping[str, Any]) -> Mapping[str, Any]:
        return define(Asked(config, strict=True)) or {}

    return cube_space(space, tree.when), readers, constants


def _tried(define: Callable[[Any], Mapping[str, Any] | None]) -> list[FrozenTrial]:
    """Trials in which every value of every parameter with few values was tried where the parameter was first seen."""
    waiting: list[dict[str, Any]] = [{}]
    known: set[str] = set()
    trials: list[FrozenTrial] = []
    while waiting:
        given = waiting.pop(0)
        asked = Asked(given)
        define(asked)
        if not asked.params:
            raise ValueError("the space function suggests no parameters")
        trials.append(optuna.trial.create_trial(value=0.0, params=asked.params, distributions=asked.distributions))
        for name, distribution in asked.distributions.items():
            if name not in known:
                known.add(name)
                tried = [distribution.to_external_repr(value) for value in deciding_values(distribution)]
                waiting += [{**given, name: value} for value in tried if value != asked.params[name]]
        if len(trials) + len(waiting) > MOST_CALLS:
            raise ValueError(f"the space function shows new parameters even after {len(trials)} calls")
    return trials
