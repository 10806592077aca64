"""What tests read of the inside of methods, each name in one place: equations are checked against a slow form."""

from __future__ import annotations

from typing import Any


def surrogate_of(method: Any) -> Any:
    """How a method makes its Gaussian process."""
    return method._surrogate


def model_of(method: Any) -> Any:
    """The model of a method, or of a part of auto."""
    return method._model


def net_of(method: Any) -> Any:
    """The net at its random start, which a method or a trained model holds."""
    return method._start


def beta_of(method: Any) -> Any:
    """The factor of the standard deviation in the index of a method on a grid."""
    return method._beta()


def row_of(method: Any, x: Any) -> Any:
    """The row of a grid at which a point lies."""
    return method._index(x)
