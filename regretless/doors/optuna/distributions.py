"""Optuna's distributions and this library's parameters, each in terms of the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from regretless.space import Space, SpaceLike
from regretless.space.parameters import Choice, Float, Int, Parameter

Distributions: TypeAlias = dict[str, BaseDistribution]


def as_distributions(space: Mapping[str, BaseDistribution] | SpaceLike) -> Distributions:
    """Optuna distributions of a search space."""
    if isinstance(space, Mapping) and all(isinstance(p, BaseDistribution) for p in space.values()):
        found = dict(space)
    else:
        found = {name: distribution_of(p) for name, p in Space(space).parameters.items()}
    if not found:
        raise ValueError("search_space is empty: give at least one parameter, or None")
    return found


def own_space(space: Mapping[str, BaseDistribution] | SpaceLike, *, inside: bool = False) -> Space | None:
    """A search space of ours, which may say more than distributions do: conditions, rules and priors; None for Optuna's
    distributions. inside: without the bounds of ranges."""
    if isinstance(space, Mapping) and all(isinstance(p, BaseDistribution) for p in space.values()):
        return None
    own = Space(space)
    if not inside:
        return own
    kept = {name: replace(p, open=True) if isinstance(p, Float) and p.line else p for name, p in own.parameters.items()}
    return Space(kept, where=own.where)


def as_space(distributions: Mapping[str, BaseDistribution]) -> Space:
    """The space of Optuna distributions, with the labels of choices themselves; parameters with a single value are left
    out."""
    return Space(
        {
            name: Choice(d.choices) if isinstance(d, CategoricalDistribution) else parameter_of(d)
            for name, d in searchable(distributions).items()
        }
    )


def cube_space(
    space: Distributions, when: Mapping[str, Mapping[str, Sequence[float]]] | None = None, *, inside: bool = False
) -> Space:
    """The space that a method searches; `when` holds values as Optuna stores them. inside: without the bounds of
    ranges."""
    conditions = {
        name: {other: [int(value) for value in values] for other, values in given.items()}
        for name, given in (when or {}).items()
    }
    return Space({name: parameter_of(d, conditions.get(name), inside=inside) for name, d in space.items()})


def distribution_of(parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Float):
        return FloatDistribution(parameter.low, _last(parameter), log=parameter.log, step=parameter.step)
    if isinstance(parameter, Int):
        _check_exact(parameter)
        return IntDistribution(parameter.low, int(_last(parameter)), log=parameter.log, step=parameter.step)
    if len(set(parameter.labels)) < len(parameter.labels):
        raise ValueError(f"{parameter}: Optuna cannot tell labels apart that are equal, such as 1, 1.0 and True")
    return CategoricalDistribution(parameter.labels)  # type: ignore[arg-type]


def parameter_of(
    distribution: BaseDistribution, when: Mapping[str, Any] | None = None, *, inside: bool = False
) -> Parameter:
    """The parameter of a distribution; a choice is represented by the indices of its labels, which may be any objects.
    inside: without the bounds, if it is a range without steps."""
    if isinstance(distribution, FloatDistribution):
        low, high, step = distribution.low, distribution.high, distribution.step
        return Float(low, high, log=distribution.log, step=step, when=when, open=inside and not step and low < high)
    if isinstance(distribution, IntDistribution):
        whole = Int(distribution.low, distribution.high, log=distribution.log, step=distribution.step, when=when)
        return _check_exact(whole)
    if isinstance(distribution, CategoricalDistribution):
        return Choice(range(len(distribution.choices)), when=when)
    raise ValueError(f"unknown kind of distribution: {distribution!r}")


def _last(parameter: Float | Int) -> float:
    """The last step, where there are steps: Optuna leaves it out when high misses it by a rounding."""
    if parameter.step is None or parameter.low == parameter.high:
        return parameter.high
    return type(parameter.low)(
        Decimal(repr(parameter.low)) + (parameter.axis.levels - 1) * Decimal(repr(parameter.step))
    )


def _check_exact(parameter: Int) -> Int:
    """The parameter, if Optuna can keep its values: it stores whole numbers as floats."""
    common = math.gcd(parameter.low, parameter.step) if parameter.low < parameter.high else parameter.low
    twos = common & -common  # the largest power of two that divides every value
    # 2**53: floats hold every whole number up to this, and beyond it the multiples of powers of two
    if max(abs(parameter.low), abs(parameter.high)) > 2**53 * max(twos, 1):
        raise ValueError(f"{parameter}: Optuna keeps whole numbers as floats, which do not hold all of these exactly")
    return parameter


def external(distribution: BaseDistribution, value: Any) -> Any:
    return distribution.choices[value] if isinstance(distribution, CategoricalDistribution) else value


def searchable(space: Mapping[str, BaseDistribution]) -> Distributions:
    return {name: distribution for name, distribution in space.items() if not distribution.single()}


def only_value(distribution: BaseDistribution) -> Any:
    return distribution.choices[0] if isinstance(distribution, CategoricalDistribution) else distribution.low  # type: ignore[attr-defined]
