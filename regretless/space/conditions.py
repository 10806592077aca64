"""Conditional spaces: which parameters exist in which settings.

A parameter with `when={"model": "svm"}` exists only where the parameter "model" exists and has that value. Conditions
may be nested, and several of them must hold together. They have to form a tree or at least no cycle, and they can only
look at parameters that take certain values: choices, whole numbers and steps.
"""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np

from regretless.space.cube import Gate
from regretless.space.parameters import Encoding, Parameter, one_per_label


def gated_names(parameters: Mapping[str, Parameter]) -> tuple[str, ...]:
    """The parameters with conditions, parents before their children; raises ValueError where a condition is wrong."""
    waiting = {name: p for name, p in parameters.items() if p.when}
    for name, p in waiting.items():
        for parent, values in p.when:
            _check(name, parent, values, parameters)
    parents = {name: [parent for parent, _ in p.when if parent in waiting] for name, p in waiting.items()}
    left, place, ordered = TopologicalSorter(parents), {name: i for i, name in enumerate(waiting)}, list[str]()
    try:
        left.prepare()
    except CycleError as error:
        names = sorted(set(error.args[1]))
        raise ValueError(f"parameters {names} depend on each other in a cycle: see their `when`") from None
    while left.is_active():
        ready = left.get_ready()
        ordered += sorted(ready, key=place.__getitem__)
        left.done(*ready)
    return tuple(ordered)


def _check(name: str, parent: str, values: Sequence[object], parameters: Mapping[str, Parameter]) -> None:
    most_positions = 4096  # the most values a parameter may have that others depend on: each is looked up in a table
    if parent not in parameters:
        raise ValueError(
            f"parameter {name!r} exists when {parent!r} has a certain value, but there is no parameter {parent!r}; the "
            f"space has {', '.join(parameters)}"
        )
    levels = parameters[parent].axis.levels
    if not 0 < levels <= most_positions:
        raise ValueError(
            f"parameter {name!r} cannot depend on {parent!r} = {parameters[parent]}: conditions look at choices, whole "
            f"numbers and steps with at most {most_positions} values"
        )
    for value in values:
        try:
            parameters[parent].to_unit(value)
        except ValueError as error:
            raise ValueError(f"parameter {name!r} exists when {parent!r} is {value!r}, but {error}") from None


def gates_of(
    parameters: Mapping[str, Parameter],
    conditional: Sequence[str],
    spans: Mapping[str, tuple[int, int]],
    choices: Encoding,
) -> list[Gate]:
    """The gates of a cube in which each parameter has the coordinates of its span."""
    gates = []
    for name in conditional:
        for parent, values in parameters[name].when:
            p = parameters[parent]
            open_at = set(p.axis.index(np.array([p.to_unit(value) for value in values])).tolist())
            allowed = tuple(i in open_at for i in range(p.axis.levels))
            onehot = one_per_label(p, choices)
            gates.append(Gate(*spans[name], *spans[parent], onehot, allowed))
    return gates
