"""Learns from an Optuna study which parameters exist in which settings.

Optuna's objectives say their parameters while they run, so that a space is only known by its trials. A parameter that
some trials have and others have not exists *when* another one has certain values; `learn_tree` finds which: a parameter
whose values tell the trials with it from those without. With few trials it may find the wrong one; the trial that
contradicts it corrects it. What no values explain is left to be drawn at random.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial

from regretless.doors.optuna.distributions import Distributions, parameter_of, searchable
from regretless.space import Space
from regretless.space.parameters import Choice

When: TypeAlias = dict[str, tuple[float, ...]]
"""Names of other parameters, and those of their values, as Optuna stores them, with which a parameter exists."""


@dataclass
class Tree:
    """The parameters that a study searches, and when each of them exists."""

    distributions: Distributions = field(default_factory=dict)
    when: dict[str, When] = field(default_factory=dict)
    """The conditions of those parameters that have some."""
    seen: frozenset[str] = frozenset()
    """Every parameter of the trials, those too that nothing explains."""


class TreeLearner:
    """The tree of a study, kept up to date trial by trial while all trials have the same parameters."""

    def __init__(self) -> None:
        self._flat: Distributions | None = None
        self._count, self._last = 0, -1
        self.tree: Tree | None = None
        """What was learnt last; None before anything was."""

    def learn(self, trials: Sequence[FrozenTrial]) -> Tree:
        """The tree of finished trials, in the order of their numbers."""
        if len(trials) < self._count or (self._count and trials[self._count - 1].number != self._last):
            self.__init__()  # type: ignore[misc]  # another history
        if self.tree is None or len(trials) > self._count:
            news = trials[self._count :]
            self._count, self._last = len(trials), trials[-1].number if trials else -1
            if trials and len(news) == len(trials):
                self._flat = trials[0].distributions
            if self._flat is not None and all(t.distributions == self._flat for t in news):
                self.tree = Tree(searchable(self._flat), {}, frozenset(self._flat))
            else:
                self._flat, self.tree = None, learn_tree(trials)
        return self.tree


def learn_tree(trials: Sequence[FrozenTrial]) -> Tree:
    """The tree of finished trials, in the order of their numbers: every parameter with its latest range."""
    latest: Distributions = {}
    changed: set[str] = set()
    for t in trials:
        for name, distribution in t.distributions.items():
            if name in latest and not _comparable(latest[name], distribution):
                changed.add(name)
            latest[name] = distribution
    inner = [{name: t.distributions[name].to_internal_repr(v) for name, v in t.params.items()} for t in trials]
    when: dict[str, When] = {}
    kept: Distributions = {}
    for name, distribution in searchable(latest).items():
        if name in changed:
            continue
        found = _explained(name, inner, latest)
        if found is not None:
            kept[name] = distribution
            if found:
                when[name] = found
    while lost := [name for name in when if not when[name].keys() <= kept.keys()]:
        for name in lost:  # what depends on a parameter that is not searched cannot be searched either
            del when[name], kept[name]
    return Tree(kept, when, frozenset(latest))


def space_of(tree: Tree) -> Space:
    """The space of a tree, with the labels of choices themselves."""
    parameters = {}
    for name, d in tree.distributions.items():
        conditions = {
            other: [tree.distributions[other].to_external_repr(value) for value in values]
            for other, values in tree.when.get(name, {}).items()
        }
        own = isinstance(d, CategoricalDistribution)
        parameters[name] = Choice(d.choices, when=conditions) if own else parameter_of(d, conditions)  # type: ignore[attr-defined]
    return Space(parameters)


def _comparable(a: BaseDistribution, b: BaseDistribution) -> bool:
    """Whether values of one distribution mean the same in the other: of one kind, labels alike; ranges may differ."""
    if isinstance(a, CategoricalDistribution) or isinstance(b, CategoricalDistribution):
        return a == b
    return type(a) is type(b) and getattr(a, "log", None) == getattr(b, "log", None)


def _explained(name: str, trials: Sequence[Mapping[str, float]], known: Distributions) -> When | None:
    """When a parameter exists: {} always, None when no values of others explain it."""
    having = [t for t in trials if name in t]
    without = [t for t in trials if name not in t]
    if not without:
        return {}
    deciders = []
    for other, distribution in known.items():
        if other == name or not deciding_values(distribution) or not all(other in t for t in having):
            continue
        yes = {t[other] for t in having}
        no = {t[other] for t in without if other in t}
        if no - yes:  # it sets some of those without it apart
            rank = isinstance(distribution, IntDistribution), -sum(other in t for t in trials), other
            deciders.append((rank, other, yes, no))
    deciders.sort(key=lambda decider: decider[0])
    for size in (1, 2):
        for some in itertools.combinations(deciders, size):
            if all(any(other not in t or t[other] not in yes for _, other, yes, _ in some) for t in without):
                return {other: _filled(yes, no - yes, known[other]) for _, other, yes, no in some}
    return None


def deciding_values(distribution: BaseDistribution) -> tuple[float, ...]:
    """The values of a distribution that others may depend on, as Optuna stores them; none for any other."""
    if isinstance(distribution, CategoricalDistribution):
        return tuple(map(float, range(len(distribution.choices))))
    if isinstance(distribution, IntDistribution) and not distribution.log:
        values = range(distribution.low, distribution.high + 1, distribution.step)
        # 64: whole numbers with more values than this do not decide whether others exist: chance would find such
        # decisions
        return tuple(map(float, values)) if 1 < len(values) <= 64 else ()
    return ()


def _filled(yes: set[float], no: set[float], distribution: BaseDistribution) -> tuple[float, ...]:
    """The values with which a parameter exists: the labels it was seen with; whole numbers that nobody tried count as
    the nearest one that somebody did."""
    values = deciding_values(distribution)
    if isinstance(distribution, CategoricalDistribution):
        return tuple(value for value in values if value in yes)
    return tuple(v for v in values if v in yes or (v not in no and _nearest(v, yes) < _nearest(v, no)))


def _nearest(value: float, others: set[float]) -> float:
    return min(abs(value - other) for other in others)
