"""What a family takes as x: cube points in the user's own units, as ratios, or centred, whole arrays at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from regretless.methods.go_ucb.parametric import InputKind
from regretless.parameters import Array, Choice, Float, Parameter
from regretless.space import Space


@dataclass(frozen=True)
class Inputs:
    """The map from cube points n x d to model inputs n x d, and back."""

    forward: Callable[[Array], Array]
    back: Callable[[Array], Array]

    def __call__(self, U: Array) -> Array:
        return self.forward(U)


def inputs_for(kind: InputKind, space: Space) -> Inputs:
    """The inputs that a family asks for."""
    if kind == "centred":
        return Inputs(lambda U: 2.0 * U - 1.0, lambda X: (X + 1.0) / 2.0)
    return user_units(space) if kind == "user" else ratios(space)


def user_units(space: Space) -> Inputs:
    """The user's numbers, columns in the order in which the space was written; a choice (equal shares) is its index."""
    parameters = list(space.parameters.values())
    places = [space.coordinates.index(name) for name in space.names]

    def forward(U: Array) -> Array:
        return np.column_stack([_column(parameter, U[:, i]) for parameter, i in zip(parameters, places)])

    def back(X: Array) -> Array:
        U = np.empty_like(X)
        for j, (parameter, i) in enumerate(zip(parameters, places)):
            U[:, i] = _coordinate(parameter, X[:, j])
        return U

    return Inputs(forward, back)


def ratios(space: Space) -> Inputs:
    """The same divided by each column's largest absolute bound: zero stays zero, and no number exceeds 1 in size."""
    units = user_units(space)
    size = np.array([_largest(parameter) for parameter in space.parameters.values()])
    return Inputs(lambda U: units.forward(U) / size, lambda X: units.back(X * size))


def _largest(parameter: Parameter) -> float:
    if isinstance(parameter, Choice):
        return float(max(len(parameter.labels) - 1, 1))
    return max(abs(float(parameter.low)), abs(float(parameter.high)))


def _column(parameter: Parameter, u: Array) -> Array:
    if isinstance(parameter, Choice):
        return parameter.axis.index(u).astype(np.float64)
    if isinstance(parameter, Float) and parameter.line:
        if parameter.log:
            low, high = np.log(parameter.low), np.log(parameter.high)
            curved: Array = np.clip(np.exp((1 - u) * low + u * high), parameter.low, parameter.high)
            return curved
        return (1 - u) * parameter.low + u * parameter.high
    step = 1.0 if parameter.step is None else float(parameter.step)
    stepped: Array = np.minimum(parameter.low + parameter.axis.index(u) * step, parameter.high)
    return stepped


def _coordinate(parameter: Parameter, x: Array) -> Array:
    """The inverse of `_column`; between two positions of a grid it is linear."""
    ends = _column(parameter, np.array([0.0, 1.0]))
    if isinstance(parameter, Float) and parameter.line and parameter.log:
        x, ends = np.log(x), np.log(ends)
    u: Array = (x - ends[0]) / (ends[1] - ends[0] or 1.0)
    return u
