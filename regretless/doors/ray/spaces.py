"""Ray Tune's search spaces in terms of this library, and our settings as the configurations that a trainable gets.

A Ray space is a configuration in which some values are domains. Reading it gives a `Space` and a shape: the same
configuration with a place in it for each parameter. Filling the shape with a setting gives back dictionaries, lists and
tuples as they were written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from ray.tune.search import sample
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.utils.util import flatten_dict, unflatten_dict
from scipy.special import ndtr, ndtri

from regretless.space import Space, SpaceLike
from regretless.space.parameters import Choice, Float, Int, Parameter


class Reader(NamedTuple):
    """The way from a value of our space to the value the trainable gets: as it is, unless a kind says otherwise.

    "listed": the category at this position, because categories may be any objects; "rounded": the nearest multiple of q
    within bounds; "normal": the quantile of a normal distribution, rounded to multiples of q where there is one.
    """

    kind: Literal["", "listed", "rounded", "normal"] = ""
    content: Sequence[Any] = ()

    def __call__(self, value: Any) -> Any:
        tail = 1e-6  # how far quantiles of normal parameters keep from 0 and 1
        if self.kind == "listed":
            return self.content[value]
        if self.kind == "rounded":
            q, low, high = self.content
            return min(max(round(value / q) * q, low), high)
        if self.kind == "normal":
            mean, sd, q = self.content
            value = mean + sd * float(ndtri(min(max(value, tail), 1 - tail)))
            return round(value / q) * q if q else value
        return value

    def back(self, value: Any) -> Any:
        """The value of our space that stands for one of the trainable's."""
        if self.kind == "normal":
            mean, sd, _ = self.content
            return float(ndtr((value - mean) / sd))
        return self.content.index(value) if self.kind == "listed" else value

    def description(self) -> dict[str, Any] | None:
        """This reader as plain values for a file; None when its categories are objects that no file can hold."""
        if not all(map(_is_plain, self.content)):
            return None
        return {self.kind: list(self.content)} if self.kind else {}


# ---------------------------------------------------------------- shapes


class At(NamedTuple):
    """The place of a parameter in a configuration."""

    name: str


class Constant(NamedTuple):
    """A value that every configuration has."""

    value: Any


Layout: TypeAlias = At | Constant | dict[Any, Any] | list[Any] | tuple[Any, ...]
"""A place, or a dictionary, list or tuple of shapes."""


@dataclass
class RaySpace:
    """A space, how its values are read, and the configuration that they belong to."""

    space: Space
    readers: dict[str, Reader]
    shape: Layout

    def config(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration of a setting; fixed values of dictionaries are left to Ray, which has them."""
        filled: dict[str, Any] = self._filled(self.shape, params)
        return filled

    def _filled(self, shape: Layout, params: Mapping[str, Any]) -> Any:
        if isinstance(shape, At):
            return self.readers[shape.name](params[shape.name])
        if isinstance(shape, Constant):
            return shape.value
        if isinstance(shape, dict):
            exists = {k: s for k, s in shape.items() if not isinstance(s, At) or s.name in params}
            return {key: self._filled(inner, params) for key, inner in exists.items()}
        return type(shape)(self._filled(inner, params) for inner in shape)

    def params(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that a configuration sets, perhaps not all of them, in our terms."""
        found: dict[str, Any] = {}
        self._read_back(self.shape, unflatten_dict(flatten_dict(dict(config))), found)
        return found

    def _read_back(self, shape: Layout, value: Any, found: dict[str, Any]) -> None:
        """Adds to `found` what a value says about a shape."""
        if isinstance(shape, At):
            try:
                found[shape.name] = self.readers[shape.name].back(value)
            except ValueError:
                listed = list(self.readers[shape.name].content)
                raise ValueError(f"parameter {shape.name!r}: {value!r} is not one of {listed}") from None
        elif isinstance(shape, Constant):
            return
        elif isinstance(shape, dict) and isinstance(value, Mapping):
            for key, inner in shape.items():
                if key in value:
                    self._read_back(inner, value[key], found)
        elif isinstance(shape, list | tuple) and isinstance(value, list | tuple):
            for inner, part in zip(shape, value, strict=False):
                self._read_back(inner, part, found)

    def description(self) -> dict[str, Any]:
        """The readers and the shape as plain values; None for what no file can hold."""
        readers = {name: reader.description() for name, reader in self.readers.items()}
        return {"readers": readers, "shape": _described(self.shape)}

    @classmethod
    def from_description(cls, space: Space, description: Mapping[str, Any]) -> RaySpace:
        """The space of a file, where the file could hold all of it."""
        for name, content in description["readers"].items():
            if content is None:
                raise ValueError(f"the file does not hold the categories of parameter {name!r}: pass space=")
        if description["shape"] is None:
            raise ValueError("the file does not hold the fixed values beside the parameters: pass space=")
        readers = {name: Reader(*next(iter(c.items()), ())) for name, c in description["readers"].items()}
        return cls(space, readers, _from_description(description["shape"]))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _described(shape: Layout) -> list[Any] | None:
    """A shape as nested lists of plain values; None when it holds objects."""
    if isinstance(shape, Constant):
        return ["fixed", shape.value] if _is_plain(shape.value) else None
    if isinstance(shape, At):
        return ["at", shape.name]
    keys: Any = list(shape) if isinstance(shape, dict) else []
    inner = [_described(part) for part in (shape.values() if isinstance(shape, dict) else shape)]
    return None if None in inner or not all(map(_is_plain, keys)) else [type(shape).__name__, keys, inner]


def _from_description(description: Sequence[Any]) -> Layout:
    kind, head, *rest = description
    if kind == "fixed":
        return Constant(head)
    if kind == "at":
        return At(head)
    inner = [_from_description(part) for part in rest[0]]
    return dict(zip(head, inner, strict=True)) if kind == "dict" else inner if kind == "list" else tuple(inner)


# ---------------------------------------------------------------- reading


@dataclass
class _Found:
    parameters: dict[str, Parameter] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)

    def add(self, name: str, parameter: Parameter, reader: Reader) -> None:
        self.parameters[name] = parameter
        self.readers[name] = reader


FOREIGN = ("hyperopt", "ConfigSpace", "skopt", "nevergrad")
"""Libraries with search spaces of their own, which Ray's searchers for them take."""


def read_space(space: Mapping[str, Any] | SpaceLike) -> RaySpace:
    """The space of a Ray search space or of one of ours."""
    for value in space.values() if isinstance(space, Mapping) else (space,):
        library = type(value).__module__.partition(".")[0]
        if library in FOREIGN:
            raise ValueError(f"a space of {library} cannot be read: write tune.uniform, tune.choice and the like")
    if not isinstance(space, Mapping) or any(isinstance(p, Float | Int | Choice) for p in space.values()):
        own = Space(space)
        return RaySpace(own, dict.fromkeys(own.names, Reader()), _places(own))
    _, _, grids = parse_spec_vars(dict(space))
    if grids:
        names = ["/".join(map(str, path)) for path, _ in grids]
        raise ValueError(
            f"a method chooses its own points, not those of grid_search: write tune.choice for {names}, or leave "
            "search_alg out to run the grid"
        )
    found = _Found()
    shape = _shape_of(dict(space), "", found)
    if not found.parameters:
        raise ValueError(
            "param_space holds nothing to search, such as tune.uniform(0, 1); PopulationBasedTraining and PB2 change "
            "settings by themselves: leave search_alg out"
        )
    return RaySpace(Space(found.parameters), found.readers, {} if shape is None else shape)


def _places(own: Space) -> dict[str, Any]:
    """The shape of a space of ours, whose names may be paths."""
    places: dict[str, Any] = unflatten_dict({name: At(name) for name in own.names})
    return places


def _shape_of(value: Any, path: str, found: _Found, *, listed: bool = False) -> Layout | None:
    """The shape of a value that holds domains, whose parameters are added; None for one that holds none.

    Ray merges a suggestion into the configuration key by key, but takes lists as they are: inside one (`listed`), the
    shape has all keys of a dictionary.
    """
    if isinstance(value, sample.Domain):
        return _place(value, path, found)
    if isinstance(value, Mapping):
        if slashed := [key for key in value if "/" in str(key)]:
            raise ValueError(f'the key {slashed[0]!r} holds "/", which parts the names of nested parameters: rename it')
        inner = {key: _shape_of(part, _join(path, key), found, listed=listed) for key, part in value.items()}
        if all(shape is None for shape in inner.values()):
            return None
        return {k: Constant(value[k]) if s is None else s for k, s in inner.items() if listed or s is not None}
    if type(value) in (list, tuple):
        shapes = [_shape_of(part, _join(path, i), found, listed=True) for i, part in enumerate(value)]
        if all(shape is None for shape in shapes):
            return None
        return type(value)(Constant(v) if s is None else s for v, s in zip(value, shapes, strict=True))  # type: ignore[no-any-return]
    return None


def _place(domain: sample.Domain, name: str, found: _Found) -> Layout:
    if isinstance(domain, sample.Categorical) and any(map(_holds_domains, domain.categories)):
        raise ValueError(
            f"parameter {name!r}: a choice cannot hold domains; pass space= with parameters that exist "
            'under a condition, such as "C": Float(0.1, 10, when={"kind": "svm"})'
        )
    try:
        found.add(name, *_from_domain(domain))
    except ValueError as error:
        raise ValueError(f"parameter {name!r}: {error}") from None
    return At(name)


def _holds_domains(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, sample.Domain) or (type(value) in (list, tuple) and any(map(_holds_domains, value)))


def _join(path: str, key: Any) -> str:
    return f"{path}/{key}" if path else str(key)


def _from_domain(domain: sample.Domain) -> tuple[Parameter, Reader]:
    sampler, q = domain.get_sampler(), None
    if isinstance(sampler, sample.Quantized):
        sampler, q = sampler.sampler, sampler.q
    low: Any = getattr(domain, "lower", None)
    high: Any = getattr(domain, "upper", None)
    log = isinstance(sampler, sample.LogUniform)
    if isinstance(domain, sample.Categorical):
        return Choice(range(len(domain.categories))), Reader("listed", list(domain.categories))
    if isinstance(domain, sample.Float) and isinstance(sampler, sample.Normal):
        return Float(0.0, 1.0), Reader("normal", [sampler.mean, sampler.sd, q])
    if isinstance(domain, sample.Float) and isinstance(sampler, sample.Uniform | sample.LogUniform):
        if q and not log:
            return Float(math.ceil(low / q - 1e-9) * q, math.floor(high / q + 1e-9) * q, step=q), Reader()
        return Float(low, high, log=log), Reader("rounded", [q, low, high]) if q else Reader()
    if isinstance(domain, sample.Integer) and isinstance(sampler, sample.Uniform | sample.LogUniform):
        if not q or q == 1:  # Ray includes the upper bound of quantised ranges only
            return Int(low, high - 1, log=log), Reader()
        if log:
            return Int(low, high, log=True), Reader("rounded", [q, low, high])
        return Int(low, high, step=q), Reader()
    kind = f"{type(domain).__name__} with a {type(sampler).__name__} sampler"
    raise ValueError(f"{kind} cannot be searched; give a range, a choice or a fixed value")
