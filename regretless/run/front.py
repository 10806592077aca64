"""`Front`: what a run with several objectives found, and the choice among it.

No setting of the front is better than another in all objectives. Where the values are noisy the front is that of what
the method believes the values to be, and every value has an interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.basics.extras import optional
from regretless.basics.options import in_range
from regretless.files.earlier import columns_of
from regretless.fronts.choice import compromise
from regretless.optimizer import Optimizer
from regretless.outlook.probes import Share, rule_of
from regretless.outlook.standing import Standing
from regretless.space.parameters import Array

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Member:
    """A setting of a front."""

    number: int | None
    """The trial that evaluated it first; None: it was evaluated before the run."""
    params: dict[str, Any]
    values: dict[str, float]
    """Its value in each objective."""
    intervals: dict[str, tuple[float, float]]
    """Where each value lies with probability 0.95; without noise its two ends are the value, NaN: not known."""

    def __str__(self) -> str:
        values = ", ".join(f"{name} {value:.6g}" for name, value in self.values.items())
        return f"{values} at {self.params}"


@dataclass(frozen=True)
class Front(Sequence[Member]):
    """The settings of a run of which none is better than another in all objectives, by the first of them.

    A sequence of `Member`s; `values` holds their values as an array, in the order of `objectives`.
    """

    optimizer: Optimizer

    @cached_property
    def _found(self) -> tuple[list[Member], Array]:
        """The members, and their values to be maximised, m x k."""
        opt = self.optimizer
        if not len(opt.history):
            return [], np.empty((0, len(opt.task.directions)))
        with opt.computing() as method:
            rows, values, sds = method.front(opt.history)
        signs, names = np.array(opt.task.signs), opt.task.objectives
        order = np.argsort(-values[:, 0], kind="stable")
        rows, values, sds = rows[order], values[order], sds[order]
        numbers: dict[bytes, int] = {}
        for trial in opt.trials:
            if trial.value is not None:
                numbers.setdefault(trial.unit.tobytes(), trial.number)
        members = []
        # 1.959964: how many standard deviations an interval of 95 % reaches
        for row, told, sd in zip(rows, signs * values, 1.959964 * sds, strict=True):
            x = opt.history.X[row]
            at = numbers.get(x.tobytes())
            params = opt.space.decode(x, opt.method.traits.choices) if at is None else dict(opt.trials[at].given)
            intervals = {n: (float(v - s), float(v + s)) for n, v, s in zip(names, told, sd, strict=True)}
            number = None if at is None else opt.book.record.number_of(opt.trials[at])
            members.append(Member(number, params, dict(zip(names, told.tolist(), strict=True)), intervals))
        return members, values

    @property
    def objectives(self) -> tuple[str, ...]:
        """The names of the objectives."""
        return self.optimizer.task.objectives

    @property
    def members(self) -> list[Member]:
        """All members, by the first objective."""
        return self._found[0]

    @property
    def values(self) -> Array:
        """Their values, in the user's units, m x k."""
        return np.asarray(self._found[1] * np.array(self.optimizer.task.signs))

    @property
    def share(self) -> Share:
        """How much of the space can still extend the front, with probability 0.95, proven by the run's probes; `value`
        is None where nothing is, and `reason` says why."""
        # 0.05: how often a proven share may be wrong, as in `Optimizer.certificate`
        return Standing(self.optimizer).share_at(0.05, rule=rule_of(self.optimizer.book.record.rule))

    @property
    def share_words(self) -> str:
        """The same in a sentence."""
        return self.optimizer.certificate.share_sentence()

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, at: Any) -> Any:
        return self.members[at]

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def pick(self, *, limits: Mapping[str, float] | None = None, weights: Mapping[str, float] | None = None) -> Member:
        """The member to take.

            front.pick()                                  # a compromise
            front.pick(limits={"ms": 20})                 # the best of the others where ms is at most 20
            front.pick(weights={"accuracy": 3, "ms": 1})  # accuracy counts three times as much

        Args:
            limits: for some objectives the worst value that will do. The other objectives then decide; where all have a
                limit, all do.
            weights: how much each objective counts; 1 unless given. The member has the largest product, over the
                objectives, of what it gains on the worst member as a share of the front's range, raised to its weight.

        Raises ValueError where no member keeps the limits.
        """
        members, values = self._found
        if not members:
            raise ValueError("there is nothing to pick: no evaluation succeeded")
        at = {name: j for j, name in enumerate(self.objectives)}
        signs = self.optimizer.task.signs
        for what, given in (("limits", limits or {}), ("weights", weights or {})):
            if unknown := [name for name in given if name not in at]:
                raise ValueError(f"{what}: the objectives of this run are named {list(at)}, got {unknown[0]!r}")
        for name, limit in (limits or {}).items():
            in_range("(-inf, inf)", **{f"limits[{name!r}]": limit})
        for name, weight in (weights or {}).items():
            in_range("[0, inf)", **{f"weights[{name!r}]": weight})
        keeps = np.ones(len(members), dtype=bool)
        for name, limit in (limits or {}).items():
            keeps &= values[:, at[name]] >= signs[at[name]] * limit
        if not keeps.any():
            best = ", ".join(f"{name} {signs[at[name]] * values[:, at[name]].max():.6g}" for name in limits or {})
            raise ValueError(f"no member of the front keeps limits={dict(limits or {})}; the best seen are {best}")
        default = 0.0 if limits and len(limits) < len(at) and not weights else 1.0
        powers = np.array([(weights or {}).get(name, default if name in (limits or {}) else 1.0) for name in at])
        rows = np.flatnonzero(keeps)
        return members[int(rows[compromise(values[rows], powers)])]

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per member: the number of its trial, the objectives, the ends of their intervals where there is
        noise, and the parameters (needs pandas)."""
        frames = optional("pandas", "plot")
        facts: dict[str, Any] = {"number": [m.number for m in self.members]}
        facts |= {name: self.values[:, j] for j, name in enumerate(self.objectives)}
        if any(low != high for m in self.members for low, high in m.intervals.values()):
            for name in self.objectives:
                facts[f"{name}_low"] = [m.intervals[name][0] for m in self.members]
                facts[f"{name}_high"] = [m.intervals[name][1] for m in self.members]
        names = list(self.optimizer.space.names)
        columns = columns_of(names, facts)
        params = {c: [m.params.get(n) for m in self.members] for c, n in zip(columns, names, strict=True)}
        table: pandas.DataFrame = frames.DataFrame({**facts, **params})
        return table

    def to_json(self) -> list[dict[str, Any]]:
        """The members in plain values; what is not known is None."""
        return [
            {
                "number": m.number, "params": m.params, "values": m.values,
                "intervals": {
                    n: [None if math.isnan(end) else end for end in ends] for n, ends in m.intervals.items()
                },
            }
            for m in self.members
        ]  # fmt: skip

    @property
    def notes(self) -> list[str]:
        """What a user should know of the objectives before trusting the front."""
        Y, said = self.optimizer.history.Y, []
        for j, name in enumerate(self.objectives):
            if len(Y) > 1 and float(Y[:, j].min()) == float(Y[:, j].max()):
                value = self.optimizer.task.signs[j] * Y[0, j]
                said.append(f"{name!r} was {value:.6g} in all {len(Y)} evaluations, so it decided nothing")
        return said

    def __str__(self) -> str:
        most_shown = 12  # members that a front prints; its table has them all
        if not self.members:
            return "no front: no evaluation succeeded"
        lines = [f"a front of {len(self)} setting{'s' * (len(self) != 1)}:"]
        lines += [f"  {member}" for member in self.members[:most_shown]]
        lines += [f"  and {len(self) - most_shown} more"] if len(self) > most_shown else []
        lines += [f"  {self.share_words}"] * (self.optimizer.task.probes > 0)
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"Front({len(self)} settings, objectives={list(self.objectives)})"


def observed_values(optimizer: Optimizer, params: Mapping[str, Any]) -> tuple[float, ...]:
    """The mean of the values told for a setting, in each objective; NaN where it was never evaluated."""
    method, book, k = optimizer.method, optimizer.book, len(optimizer.task.directions)
    key = method.cube.key(optimizer.space.encode(params, method.traits.choices))
    told = [t.values for t in book.trials if t.value is not None and t.unit.tobytes() == key]
    told += [(e.value, *e.further) for e in book.earlier if e.unit.tobytes() == key and math.isfinite(e.value)]
    # exact sums, so that none leaves the range of floats
    return tuple(map(statistics.mean, zip(*told, strict=True))) if told else (math.nan,) * k
