"""An optimizer that has been told the finished trials of an Optuna study, and what those trials say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import numpy as np
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from regretless.doors.optuna.curves import Curves
from regretless.doors.optuna.distributions import Distributions
from regretless.doors.optuna.presence import external_of
from regretless.doors.optuna.rules import constraints_of
from regretless.doors.optuna.tree import When
from regretless.doors.optuna.trials import ended_at, fixed_in, has_ended, variance, variances
from regretless.files.book import Earlier
from regretless.files.earlier import place
from regretless.models.gp.surrogate import SharedFits, sharing
from regretless.optimizer import Optimizer, proposal
from regretless.space.parameters import Array

TrialValue: TypeAlias = float | tuple[float, ...]
"""The value of a trial, or those of several objectives."""
Pruned: TypeAlias = Literal["extrapolate", "last", "ignore"]
"""What pruned trials tell."""


class Replica:
    """An optimizer on the common space of a study, and the finished trials it has been told."""

    def __init__(
        self,
        study_id: int,
        space: Distributions,
        when: Mapping[str, When],
        optimizer: Optimizer,
        fixed: Sequence[str],
        *,
        labels: bool,
    ) -> None:
        self.study_id, self.space, self.when, self.optimizer = study_id, space, when, optimizer
        own = optimizer.space
        ordered = [*(name for name in fixed if name not in own.conditional), *own.conditional]
        self._fixed = {name: own.parameters[name].from_unit(0.5) for name in ordered if name in fixed}
        """The parameters of one value, which Optuna sets itself, parents before their children."""
        self._told: set[int] = set()
        """Numbers of the finished trials that were taken in."""
        self._last: tuple[datetime, int] = datetime.min, -1
        """When the last of them finished, and its number."""
        self._leading, self._leading_number = 0, -1
        """How many trials at the head of the study have all been taken in, and the number of the last of those: they
        need not be looked at again."""
        self.curves = Curves(optimizer.task.sign)
        """The curves of the completed trials that were taken in."""
        self.pruned: Pruned | None = None
        """What pruned trials have told; None while there were none."""
        self.cut_short: set[bytes] = set()
        """Identities of the points of pruned trials."""
        self.untold: list[Array] = []
        """Points of pruned trials that told nothing, which are not to be proposed again."""
        self._places: dict[tuple[int, bool], _Known] = {}
        """What was last known of running trials, by number and by whether their parameters are known."""
        self._labelled = {name: d for name, d in space.items() if isinstance(d, CategoricalDistribution) and not labels}
        """Choices whose labels the optimizer knows as their positions only: they may be any objects."""

    def has_taken(self, number: int) -> bool:
        """Whether a trial was taken in."""
        return number in self._told

    def unknown(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """The trials not taken in."""
        return [t for t in trials[self._leading :] if t.number not in self._told]

    def news(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial] | None:
        """The finished trials not yet taken in; None when what was taken in is no beginning of this history."""
        if self._leading and (len(trials) < self._leading or trials[self._leading - 1].number != self._leading_number):
            return None
        unknown = self.unknown(trials)
        fresh = [t for t in unknown if has_ended(t)]
        fits = len(trials) - len(unknown) == len(self._told) and all(ended_at(t) > self._last for t in fresh)
        return fresh if fits else None

    def take(self, history: list[tuple[FrozenTrial, TrialValue | None]], trials: Sequence[FrozenTrial]) -> None:
        """Tells the method those of `trials` that finished after the ones it knows, with their values: NaN is
        infeasible, None nothing to tell. What lies outside the present ranges is for its model alone."""
        inside, outside = list[Earlier](), list[Earlier]()
        names, count = self.optimizer.task.constraint_names, len(self.optimizer.task.directions)
        for trial, value in history:
            pruned = trial.state == TrialState.PRUNED
            u = self.encode(trial.params) if value is not None or pruned else None
            if pruned and u is not None:
                self.cut_short.add(u.tobytes())
            found = constraints_of(trial)
            var = variance(trial) if count == 1 else variances(trial, count)
            known = value is not None and (bool(np.isnan(value).any()) or all(name in found for name in names))
            if u is not None and value is None:
                self.untold.append(u)
            elif u is not None and value is not None and known:
                inside.append(_earlier(u, value, var, tuple(found.get(name, math.inf) for name in names)))
            elif value is not None and np.isfinite(value).all() and (v := self.beyond(trial.params)) is not None:
                outside.append(_earlier(v, value, var)._replace(outside=True))
            self._told.add(trial.number)
            for key in ((trial.number, False), (trial.number, True)):
                self._places.pop(key, None)
        self._last = ended_at(history[-1][0])
        self.optimizer.learn([*outside, *inside])
        while self._leading < len(trials) and (number := trials[self._leading].number) in self._told:
            self._leading, self._leading_number = self._leading + 1, number

    def propose(self, step: int, away: Sequence[Array], fits: SharedFits, *, ahead: int = 0) -> Array:
        """The cube point of the trial of this step while others evaluate these points, d (`optimizer.proposal`)."""
        own = self.optimizer
        with own.computing() as method, sharing(fits):
            return proposal(own.task, method, own.history.with_pending(away), step, ahead=ahead)

    def encode(self, params: Mapping[str, Any]) -> Array | None:
        """The cube point of a trial's parameters; None when they do not cover the space or lie outside it."""
        with suppress(KeyError, ValueError, TypeError, OverflowError):
            return self.optimizer.space.encode(self._inner(params), self.optimizer.method.traits.choices)
        return None

    def place_of(self, trial: FrozenTrial, ask: Mapping[str, float]) -> Array | None:
        """The cube point of a running trial, by its parameters and by what was announced for those that are still to
        be suggested; computed anew only when one of them has changed."""
        kept = self._places.get((trial.number, False))
        if kept is not None and kept.ask is ask and kept.trial is trial and kept.size == len(trial.params):
            return kept.u
        return self._place(trial.number, ask, trial)

    def place_of_ask(self, number: int, ask: Mapping[str, float]) -> Array | None:
        """The same of what was announced alone."""
        return self._place(number, ask, None)

    def _place(self, number: int, ask: Mapping[str, float], trial: FrozenTrial | None) -> Array | None:
        key, more = (number, trial is None), {} if trial is None else fixed_in(trial, self.space) | trial.params
        kept = self._places.get(key)
        same = kept is not None and kept.ask == ask and kept.more == more
        u = kept.u if kept is not None and same else self.encode(external_of(ask, self.space) | more)
        self._places[key] = _Known(trial, 0 if trial is None else len(trial.params), ask, more, u)
        return u

    def beyond(self, params: Mapping[str, Any]) -> Array | None:
        """The point of parameters that an earlier range allowed, outside the cube; None when they have none, or when
        the method cannot use it."""
        optimizer = self.optimizer
        if optimizer.method.uses_outside(optimizer.history) and not optimizer.task.n_constraints:
            with suppress(KeyError, ValueError, TypeError, OverflowError):
                u, outside = place(self._inner(params), optimizer.space, optimizer.method.traits.choices)
                return u if outside else None
        return None

    def _inner(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A trial's parameters as our space knows them."""
        inner = {name: params[name] for name in self.space if name in params}
        conditional = self.optimizer.space.conditional
        for name, value in self._fixed.items():
            if name not in conditional or self.optimizer.space.active(inner)[name]:
                inner[name] = value
        for name, d in self._labelled.items():
            if name in params:
                inner[name] = int(d.to_internal_repr(params[name]))
        return inner

    def decode(self, u: Array) -> dict[str, Any]:
        return self.outer(self.optimizer.space.decode(u, self.optimizer.method.traits.choices))

    def outer(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of our space as the study knows them: labels instead of their positions."""
        labels = {name: d.choices[params[name]] for name, d in self._labelled.items() if name in params}
        return {name: value for name, value in {**params, **labels}.items() if name in self.space}


@dataclass(frozen=True)
class _Known:
    """What is known of a running trial: itself with so many parameters, its announcement, and the point they mean."""

    trial: FrozenTrial | None
    size: int
    ask: Mapping[str, float]
    more: Mapping[str, Any]
    u: Array | None


def _earlier(u: Array, told: TrialValue, var: TrialValue, constraints: tuple[float, ...] = ()) -> Earlier:
    """What a trial told of a place, as a run learns it."""
    (y, *more), (v, *more_var) = np.atleast_1d(told).tolist(), np.atleast_1d(var).tolist()
    return Earlier(u, y, v, constraints, further=tuple(more), further_var=tuple(more_var))


# ---------------------------------------------------------------- what a trial says


class ConstraintNames:
    """The constraints of a study, in the order of their names, read trial by trial."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self._first = self._leading = 0
        self._read: set[int] = set()

    def read(self, trials: Sequence[FrozenTrial]) -> tuple[str, ...]:
        """The names after these trials; a trial that has others raises ValueError."""
        ended = [t for t in trials[self._leading :] if t.number not in self._read and t.state.is_finished()]
        for trial in ended:
            names = tuple(sorted(constraints_of(trial))) if trial.state == TrialState.COMPLETE else ()
            if names and self.names and names != self.names:
                raise ValueError(
                    f"trial {trial.number} has the constraints {list(names)}, trial {self._first} has "
                    f"{list(self.names)}: their number must not change within a study"
                )
            if names and not self.names:
                self.names, self._first = names, trial.number
            self._read.add(trial.number)
        while self._leading < len(trials) and trials[self._leading].state.is_finished():
            self._leading += 1
        return self.names


def named_constraints(found: Sequence[float] | Mapping[str, float] | None) -> dict[str, float]:
    """The values of constraints by name; those without names by their position."""
    if found is None:
        return {}
    return {str(name): float(v) for name, v in (found.items() if isinstance(found, Mapping) else enumerate(found))}
