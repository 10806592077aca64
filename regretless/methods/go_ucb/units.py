"""Cube points as numbers in the user's own units, whole arrays at a time: what a model of the user takes as x."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regretless.parameters import Array, Choice, Float, Parameter
from regretless.space import Space

Columns = Callable[[Array], Array]
"""Cube points n x d to model inputs n x d."""


def user_units(space: Space) -> Columns:
    """The map from cube points (choices as equal shares) to the user's numbers, n x d in the order of the space; a
    choice is its index."""
    places = [(parameter, space.coordinates.index(name)) for name, parameter in space.parameters.items()]

    def columns(U: Array) -> Array:
        return np.column_stack([_column(parameter, U[:, i]) for parameter, i in places])

    return columns


def ratios(space: Space) -> Columns:
    """The same divided by each column's largest absolute bound, so that zero stays zero and no number exceeds 1 in
    size."""
    columns = user_units(space)
    size = np.array([_largest(parameter) for parameter in space.parameters.values()])
    return lambda U: columns(U) / size


def centred(U: Array) -> Array:
    """The cube stretched to [-1, 1]."""
    return 2.0 * U - 1.0


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
