"""`Task`: what is asked of a run, as one value.

A run is a task, a method and a history. Whatever the user promises of the values or wants of the search stands here
and nowhere else; every door makes a `Task`, and a file holds one.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from regretless.basics.options import in_range, one_of, whole_number
from regretless.basics.streams import checked_seed
from regretless.space import Space, SpaceLike

Direction: TypeAlias = Literal["minimize", "maximize"]
Reference: TypeAlias = Mapping[str, float] | Sequence[float | None]
"""The values that objectives have to be better than, as users write them: by name, or in the order of objectives."""
CostKind: TypeAlias = Literal["told", "seconds"]
"""Where the cost of an evaluation comes from."""


@dataclass(frozen=True)
class Task:
    """What is asked: where to search, which way, with how many evaluations, and what is known beforehand.

    Args:
        space: the parameters; anything that `Space` takes.
        directions: "minimize" or "maximize", for each objective.
        budget: the number of evaluations planned; it may be exceeded.
        seed: makes the run repeatable; drawn at random when not given.
        constraints: how many values of constraints come with every value, or their names; a constraint holds where its
            value is at most 0.
        cost: "told" when costs come with the values, "seconds" when the duration is the cost.
        probes: the share of the trials that are independent uniform draws of the space.
        floor, ceiling: a value that no setting can fall below, for a minimisation, or exceed, for a maximisation.
        noise_bound: how far noise can carry a value from the truth at most; 0: nothing is known.
        objectives: the names of the objectives; empty where there is one.
        noisy: whether values are noisy, where that is known; None: the values have to show it.
        reference: of several objectives, the value that each has to be better than to be of interest, by name or in
            their order; None where any value is, and the values then say from where on hypervolume counts.
    """

    space: Space
    directions: tuple[Direction, ...] = ("minimize",)
    budget: int | None = None
    seed: int = None  # type: ignore[assignment] # it is drawn below
    constraints: int | tuple[str, ...] = 0
    cost: CostKind | None = None
    probes: float = 0.0
    floor: float | None = None
    ceiling: float | None = None
    noise_bound: float = 0.0
    objectives: tuple[str, ...] = ()
    noisy: bool | None = None
    reference: tuple[float | None, ...] = ()

    if TYPE_CHECKING:  # what may be written is more than what is kept

        def __init__(
            self,
            space: SpaceLike,
            directions: tuple[Direction, ...] = ("minimize",),
            budget: int | None = None,
            seed: int | None = None,
            constraints: int | Sequence[str] = 0,
            cost: CostKind | None = None,
            probes: float = 0.0,
            floor: float | None = None,
            ceiling: float | None = None,
            noise_bound: float | None = None,
            objectives: Sequence[str] = (),
            noisy: bool | None = None,
            reference: Reference | None = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        for direction in _directions(self.directions):
            one_of(get_args(Direction), direction=direction)
        if self.several and not (self.floor is self.ceiling is None and not self.noise_bound):
            raise ValueError("floor=, ceiling= and noise_bound= are for one objective, this task has several")
        one_of((None, *get_args(CostKind)), cost=self.cost)
        one_of((None, True, False), noisy=self.noisy)
        whole_number(also=(None,), budget=self.budget)
        in_range("[0, 1]", probes=self.probes)
        in_range("[0, inf) or None", noise_bound=self.noise_bound)
        helps, wrong = ("floor", "ceiling") if self.direction == "minimize" else ("ceiling", "floor")
        if getattr(self, wrong) is not None:
            given = f"{wrong}={getattr(self, wrong)!r}"
            raise ValueError(f"to {self.direction}, the bound that helps is {helps}=, got {given}")
        in_range("(-inf, inf) or None", **{helps: self.limit})
        for name, value in (
            ("space", self.space if isinstance(self.space, Space) else Space(self.space)),
            ("budget", None if self.budget is None else int(self.budget)),
            ("seed", secrets.randbits(32) if self.seed is None else checked_seed(self.seed)),
            ("constraints", _counted(self.constraints)),
            ("probes", float(self.probes)),
            (helps, None if self.limit is None else float(self.limit)),
            ("noise_bound", float(self.noise_bound or 0.0)),
            ("objectives", _names(self.objectives, len(self.directions))),
        ):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "reference", _reference(self.reference, self.objectives))

    @property
    def direction(self) -> Direction:
        """The direction of the first objective."""
        return self.directions[0]

    @property
    def sign(self) -> float:
        """What turns values into those of a maximisation: 1 or -1."""
        return 1.0 if self.direction == "maximize" else -1.0

    @property
    def several(self) -> bool:
        """Whether there are several objectives."""
        return len(self.directions) > 1

    @property
    def signs(self) -> tuple[float, ...]:
        """What turns the values of each objective into those of a maximisation."""
        return tuple(1.0 if direction == "maximize" else -1.0 for direction in self.directions)

    @property
    def least_of_interest(self) -> list[float] | None:
        """The reference of each objective as one of a maximisation, NaN where it has none; None: no objective has."""
        pairs = zip(self.signs, self.reference, strict=False)
        return [math.nan if value is None else sign * value for sign, value in pairs] or None

    @property
    def limit(self) -> float | None:
        """The floor of a minimisation, the ceiling of a maximisation, where one is known."""
        return self.floor if self.direction == "minimize" else self.ceiling

    @property
    def n_constraints(self) -> int:
        return self.constraints if isinstance(self.constraints, int) else len(self.constraints)

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """The names of the constraints; empty where they have none."""
        return () if isinstance(self.constraints, int) else self.constraints

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads; labels that no file can hold stand as their printed forms."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        listed = {name: list(value) for name, value in plain.items() if isinstance(value, tuple)}
        return {**plain, **listed, "space": self.space.describe()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], space: Space | None = None) -> Task:
        """The task that `to_json` described. `space` is needed where no file can hold it, and must be the same."""
        known = {field.name for field in fields(cls)}
        if set(content) != known:
            raise ValueError(f"not the description of a task: it has {sorted(content)}, not {sorted(known)}")
        if space is not None and (differs := _other_space(content["space"], space.describe())):
            raise ValueError(differs)
        listed = {name: tuple(value) for name, value in content.items() if isinstance(value, list)}
        return cls(**{**content, **listed, "space": space or Space.from_json(content["space"])})

    def differs_from(self, asked: Task) -> str:
        """How this task, which a file or a study holds, differs from the one that is asked for now, in a sentence;
        empty where it does not. The planned number of evaluations may change."""
        own, other = self.to_json(), asked.to_json()
        if differs := _other_space(own["space"], other["space"]):
            return differs
        for name, stored in own.items():
            if name not in ("space", "budget") and stored != other[name]:
                return f"it holds {name} = {_shown(stored)}, this run asks for {_shown(other[name])}"
        return ""


def objectives_of(
    objectives: Sequence[str] | Mapping[str, Direction] | None, direction: Direction
) -> tuple[tuple[str, ...], tuple[Direction, ...]]:
    """The names and the directions of objectives as users write them: names that share a direction, or a mapping of
    names to directions; None: one objective without a name."""
    if objectives is None:
        return (), (direction,)
    if isinstance(objectives, str) or not isinstance(objectives, Sequence | Mapping) or not objectives:
        raise ValueError(f"objectives must be a list of names, or a mapping of names to directions, got {objectives!r}")
    named = objectives if isinstance(objectives, Mapping) else dict.fromkeys(objectives, direction)
    if len(named) != len(objectives):
        raise ValueError(f"objectives must have different names, got {list(objectives)!r}")
    return tuple(named), tuple(named.values())


def _directions(directions: tuple[Direction, ...]) -> tuple[Direction, ...]:
    if not isinstance(directions, tuple) or not directions:
        raise ValueError(f"directions must be a tuple with a direction for each objective, got {directions!r}")
    return directions


def _names(names: Any, count: int) -> tuple[str, ...]:
    """The names of several objectives, "value_0", "value_1", ... where they have none."""
    found = tuple(names) or (tuple(f"value_{i}" for i in range(count)) if count > 1 else ())
    if not all(isinstance(name, str) and name for name in found) or len(set(found)) != len(found):
        raise ValueError(f"objectives must have different names, got {list(found)!r}")
    if found and len(found) != count:
        raise ValueError(f"a task with {count} directions has {count} objectives, got the names {list(found)!r}")
    return found


def _reference(given: Any, objectives: tuple[str, ...]) -> tuple[float | None, ...]:
    """The reference of each objective; empty where none has one."""
    if given is None or (not isinstance(given, Mapping) and isinstance(given, Sequence) and not given):
        return ()
    if len(objectives) < 2:
        raise ValueError("reference= is for several objectives, this task has one")
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in objectives]:
            raise ValueError(f"reference: the objectives are named {list(objectives)}, got {unknown[0]!r}")
        given = [given.get(name) for name in objectives]
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(objectives):
        raise ValueError(f"reference must have a value or None for each of {list(objectives)}, got {given!r}")
    for name, value in zip(objectives, given, strict=True):
        in_range("(-inf, inf) or None", **{f"reference of {name}": value})
    found = tuple(None if value is None else float(value) for value in given)
    return found if any(value is not None for value in found) else ()


def _shown(value: Any) -> str:
    """A value of a task in a sentence; lists of one objective read as its value."""
    return repr(value[0] if isinstance(value, list) and len(value) == 1 else value)


def _counted(constraints: Any) -> int | tuple[str, ...]:
    """The number of constraints or, where they have some, their names."""
    if isinstance(constraints, int | np.integer) and not isinstance(constraints, bool) and constraints >= 0:
        return int(constraints)
    if isinstance(constraints, Sequence) and not isinstance(constraints, str):
        names = tuple(constraints)
        if len(set(names)) == len(names) and all(isinstance(name, str) for name in names):
            return names or 0
    raise ValueError(f"constraints must be a number of them or a list of different names, got {constraints!r}")


def _other_space(written: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """How the space that a file describes differs from a given one, in a sentence.

    Points are kept as places in the cube: with other bounds or labels every one of them would be another setting.
    """
    stored, own = written["parameters"], given["parameters"]
    if list(stored) != list(own):
        return f"the file was written for parameters {list(stored)}, the space given has {list(own)}"
    if written.get("where", []) != given.get("where", []):
        rules = written.get("where", []), given.get("where", [])
        return f"the file was written for where = {rules[0]}, the space given has {rules[1]}"
    for name, table in stored.items():
        if as_text(table) != as_text(own[name]):
            texts = as_text(table), as_text(own[name])
            return f"the file was written for {name} = {texts[0]}, the space given has {name} = {texts[1]}"
    return ""


def as_text(value: Any) -> str:
    """Plain values as text that tells 1, 1.0 and True apart and has a NaN equal itself."""
    return json.dumps(value, sort_keys=True)
