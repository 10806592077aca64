"""`Trial`: one evaluation, and the checks of what may be told about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from regretless.basics.values import checked_amount, numbers_of, shown
from regretless.history import LARGEST
from regretless.space.parameters import Array, Choice, Int, Parameter
from regretless.task import CostKind

TrialState: TypeAlias = Literal["pending", "done", "failed"]
SO_FAR = "what is known so far"
"""The message of the result of a run that may go on."""


@dataclass(eq=False)
class Trial:
    """One evaluation: its number, its parameters, and what came of it."""

    number: int
    params: dict[str, Any]
    state: TrialState = "pending"
    value: float | None = None
    """The value told, in the user's units, of the first objective; None while pending and when failed."""
    var: float | None = None
    """The known noise variance of the value, when one was told."""
    error: str = ""
    """Why the evaluation failed, when it did and the reason was told."""
    unit: Array = field(repr=False, default_factory=lambda: np.empty(0))
    """The point in the method's cube, d."""
    constraints: tuple[float, ...] = ()
    """The values of the constraints, at most 0 where they hold."""
    cost: float | None = None
    """What the evaluation cost, when that was told or measured."""
    seconds: float | None = None
    """How long the evaluation took, when that is known."""
    seen: tuple[int, int] | None = None
    """How many trials had ended, and how many earlier evaluations were known, when it was proposed: what the proposal
    is a function of. None: the setting, or a part of it, was somebody's own."""
    further: tuple[float, ...] = ()
    """The values of the other objectives, where there are several."""
    further_var: tuple[float | None, ...] = ()
    """Their noise variances."""

    given: dict[str, Any] = field(init=False, repr=False)
    """The parameters as they were proposed or adopted; callers may have changed the dict that they see."""
    differs: bool | None = field(init=False, repr=False, default=None)
    """Whether these are others than the space decodes from the point; None: nobody has compared them yet. A checkpoint
    is written after every trial, and must not decode all of them each time."""

    def __post_init__(self) -> None:
        self.given = dict(self.params)

    def settle(self) -> None:
        """Gives the trial the parameters back that a caller took out of its dict, before it is told. One whose values
        were changed was evaluated elsewhere."""
        for name, value in self.given.items():
            now = self.params.get(name, value)
            if now is not value and now != value:
                raise ValueError(
                    f"{name!r} of trial {self.number} was {shown(value)} when it was asked, and is {shown(now)} now; "
                    "for a setting of your own: tell(adopt(setting), value)"
                )
        self.params = dict(self.given)

    @property
    def values(self) -> tuple[float, ...]:
        """The values of all objectives; empty while pending and when failed."""
        return () if self.value is None else (self.value, *self.further)

    @property
    def variances(self) -> tuple[float | None, ...]:
        """The known noise variances of `values`."""
        return () if self.value is None else (self.var, *self.further_var)

    @property
    def feasible(self) -> bool:
        """Whether it was evaluated and satisfies all constraints."""
        return self.value is not None and all(c <= 0 for c in self.constraints)

    @staticmethod
    def best_of(trials: Sequence[Trial], sign: float) -> Trial:
        """The trial with the largest sign times value of those that satisfy the constraints; where none does, the one
        that breaks them least, whatever its value."""
        done = [t for t in trials if t.value is not None]
        if not done:
            raise RuntimeError("there is no best trial yet: no value has been told")
        feasible = [(sign * t.value, t) for t in done if t.feasible and t.value is not None]
        if not feasible:
            return min(done, key=lambda t: sum(max(c, 0.0) for c in t.constraints))
        return max(feasible, key=lambda pair: pair[0])[1]

    @property
    def x(self) -> Array:
        """The parameters as an array, for spaces of numbers alone."""
        return np.array(list(self.params.values()), dtype=np.float64)


# ---------------------------------------------------------------- values


def checked_constraints(
    given: Sequence[float] | Mapping[str, float] | None, count: int, names: Sequence[str]
) -> tuple[float, ...]:
    """The values of a run's constraints, in their order."""
    if isinstance(given, Mapping):
        if set(given) != set(names):
            now = f"are named {list(names)}" if names else f"have no names; {count} were announced"
            raise ValueError(
                f"the constraints of this run {now}, got {list(given)}; constraints=[...] names them when the run "
                "begins"
            )
        given = [given[name] for name in names]
    numbers = numbers_of(given)
    if numbers is not None and len(numbers) != count:
        raise ValueError(
            f"this run has {count} constraints, got {len(numbers)} values; their number is fixed by constraints= when "
            "the run begins"
        )
    if numbers is None or any(map(math.isnan, numbers)):
        raise ValueError(f"values of constraints must be a list of numbers, got {shown(given)}")
    return tuple(float(np.clip(c, -LARGEST, LARGEST)) for c in numbers)


def checked_cost(kind: CostKind | None, cost: float | None, seconds: float | None) -> float | None:
    """The cost of an evaluation, for a run whose costs are of this kind."""
    cost = seconds if kind == "seconds" else cost
    if kind is not None and cost is None:
        raise ValueError(f'this run has cost="{kind}": tell {"cost" if kind == "told" else "seconds"}=')
    # 1e-9: costs below this count as this: their logarithms are modelled, and a clock may say 0
    return None if cost is None else max(checked_amount("cost", cost), 1e-9)


def own_values(parameters: Mapping[str, Parameter], params: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the user's as trials hold them: plain numbers of the parameter's own kind, labels as the space has
    them, and a float of fewer digits, which may have been rounded over a bound, within the range."""
    return {name: _own_value(parameters[name], value) for name, value in params.items()}


def _own_value(parameter: Parameter, value: Any) -> Any:
    if isinstance(parameter, Choice):
        return parameter.labels[parameter.index(value)]
    number = int(value) if isinstance(parameter, Int) else float(value)
    return min(max(number, parameter.low), parameter.high)


def last_line(error: str) -> str:
    """The line of a traceback that names the error, though its message may have more lines; of any other text the last
    one that says something."""
    lines = [line for line in error.splitlines() if any(map(str.isalnum, line))]
    if not lines:
        return "no reason given"
    starts = [i for i, line in enumerate(lines) if line.endswith("Traceback (most recent call last):")]
    tree = bool(starts) and lines[starts[-1]].startswith(" ")  # a group of errors is drawn as one
    named = [line for line in lines[starts[-1] + 1 :] if not line.startswith(" ")] if starts and not tree else []
    if not named:
        return lines[-1].strip(" |+")
    return " ".join(line.strip() for line in named[: 1 + named[0].rstrip().endswith(":")])
