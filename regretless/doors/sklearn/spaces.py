"""Search spaces of scikit-learn's and scikit-optimize's searches in terms of this library.

A mapping of names to distributions or lists of values becomes a `Space`. A list of such mappings becomes one space, in
which one parameter says which mapping is meant, and the others exist in the mappings that have them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from regretless.basics.fingerprint import fingerprint
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int, Parameter, is_number

ParameterReader: TypeAlias = Callable[[Any], Any]
"""From a value of our space to the value the estimator gets."""

WHICH = "which mapping"
"""The parameter that says which mapping of a list is meant; no estimator has one of this name."""
SCALES = {"uniform": False, "log-uniform": True}
"""scikit-optimize's words for the scale of a range, and whether they mean the logarithm."""


class Read(NamedTuple):
    """A parameter, the way back to the estimator's values, and a text that is equal for equal values."""

    parameter: Parameter
    reader: ParameterReader
    meaning: str


@dataclass
class SearchSpace:
    """A space, and the way back from its settings to those of the estimator."""

    space: Space
    readers: dict[str, ParameterReader]
    names: dict[str, str] = field(default_factory=dict)
    """The estimator's names of our parameters, where they differ."""

    def setting(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the estimator gets of a setting."""
        return {self.names.get(n, n): self.readers[n](value) for n, value in params.items() if n != WHICH}


def read_search_space(space: Any, *, pairs: bool = False) -> SearchSpace:
    """The search space of a mapping, of a list of mappings or of a `Space`; `pairs`: a tuple (low, high) is a range, as
    in scikit-optimize."""
    if isinstance(space, Space):
        return SearchSpace(space, dict.fromkeys(space.names, _as_is))
    mappings = [space] if isinstance(space, Mapping) else space
    if not isinstance(mappings, Sequence) or not mappings or not all(isinstance(m, Mapping) for m in mappings):
        raise ValueError(
            f"space must be a mapping of names to distributions or lists of values, or a list of them, got {space!r}"
        )
    if len(mappings) == 1:
        only = _read_all(mappings[0], pairs)
        return SearchSpace(Space({n: r.parameter for n, r in only.items()}), {n: r.reader for n, r in only.items()})
    parameters: dict[str, Parameter] = {WHICH: Choice(range(len(mappings)))}
    readers: dict[str, ParameterReader] = {}
    names: dict[str, str] = {}
    inner_names: dict[tuple[str, str], str] = {}  # a parameter that means the same in several mappings is one parameter
    for i, mapping in enumerate(mappings):
        for name, one in _read_all(mapping, pairs).items():
            inner = inner_names.setdefault((name, one.meaning), f"{name} ({i})")
            others = parameters[inner].when[0][1] if inner in parameters else ()
            parameters[inner] = dataclasses.replace(one.parameter, when=((WHICH, (*others, i)),))
            readers[inner], names[inner] = one.reader, name
    return SearchSpace(Space(parameters), readers, names)


def _read_all(mapping: Mapping[str, Any], pairs: bool) -> dict[str, Read]:
    if not mapping:
        raise ValueError("space must be a mapping with at least one parameter, got {}")
    out = {}
    for name, values in mapping.items():
        try:
            out[str(name)] = _read(values, pairs)
        except ValueError as error:
            raise ValueError(f"parameter {name!r}: {error}") from None
    return out


def _read(values: Any, pairs: bool) -> Read:
    if isinstance(values, Float | Int | Choice):
        return Read(values, _as_is, repr(values))
    if hasattr(values, "ppf") and hasattr(values, "rvs") and hasattr(values, "support"):
        return _from_distribution(values)
    if isinstance(found := _from_dimension(values, pairs), Float | Int):
        return Read(found, _as_is, repr(found))
    values = getattr(values, "categories", values)  # scikit-optimize's Categorical
    if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str):
        listed = list(values)
        if not _is_scale(listed) and _are_labels(listed):
            return Read(Choice(listed), _as_is, fingerprint(listed))
        parameter = Int(0, len(listed) - 1) if _is_scale(listed) else Choice(range(len(listed)))
        return Read(parameter, listed.__getitem__, fingerprint(listed))  # searched by position
    raise ValueError(f"expected a scipy distribution, a list of values, Float, Int or Choice, got {values!r}")


def _from_dimension(values: Any, pairs: bool) -> Parameter | None:
    """The range meant by scikit-optimize's Real and Integer, or by its tuples (low, high) and (low, high, scale)."""
    scale: Any = "uniform"
    if isinstance(values, tuple) and len(values) == 3 and isinstance(values[2], str) and values[2] in SCALES:
        low, high, scale = values
    elif pairs and isinstance(values, tuple) and len(values) == 2 and all(map(is_number, values)):
        low, high = values
    elif hasattr(values, "low") and hasattr(values, "high") and hasattr(values, "prior"):
        low, high, scale = values.low, values.high, values.prior
        if type(values).__name__ == "Real":
            low, high = float(low), float(high)
    else:
        return None
    if scale not in SCALES:
        raise ValueError(f'the scale of a range is "uniform" or "log-uniform", got {scale!r}')
    whole = all(isinstance(end, int | np.integer) for end in (low, high))
    return (Int if whole else Float)(low, high, log=SCALES[scale])


def _is_scale(values: Sequence[Any]) -> bool:
    """Whether values are three or more numbers that rise or fall throughout, as those of a grid do: neighbours then
    score alike."""
    numbers = all(isinstance(v, int | float | np.number) and not isinstance(v, bool | np.bool_) for v in values)
    if len(values) < 3 or not numbers:
        return False
    steps = np.diff(np.asarray(values, dtype=np.float64))
    return bool((steps > 0).all() or (steps < 0).all())


def _are_labels(values: Sequence[Any]) -> bool:
    """Whether values are different words, numbers, truth values and None; estimators, and what cannot be hashed, are
    not."""
    plain = all(value is None or type(value) in (bool, int, float, str) for value in values)
    return plain and len({(type(value), value) for value in values}) == len(values) > 0


def _from_distribution(distribution: Any) -> Read:
    """Uniform kinds become ranges; any other distribution is searched by its quantiles, so that likely values have the
    most room."""
    kind = getattr(getattr(distribution, "dist", None), "name", "")
    low, high = (float(end) for end in distribution.support())
    found: Parameter | None = None
    if kind == "uniform":
        found = Float(low, high)
    elif kind in ("loguniform", "reciprocal"):
        found = Float(low, high, log=True)
    elif kind == "randint" and high > low:
        found = Int(int(low), int(high))
    if found is not None:
        return Read(found, _as_is, repr(found))
    whole = hasattr(distribution, "pmf") or hasattr(getattr(distribution, "dist", None), "pmf")

    def quantile(u: float) -> float | int:
        tail = 1e-6  # how far quantiles of unbounded distributions keep from 0 and 1
        value = float(distribution.ppf(min(max(u, tail), 1 - tail)))
        return int(value) if whole else value

    options = getattr(distribution, "args", None), getattr(distribution, "kwds", None)
    return Read(Float(0.0, 1.0), quantile, f"{kind} {options}" if kind else f"{id(distribution)}")


def _as_is(value: Any) -> Any:
    return value
