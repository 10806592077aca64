"""`Front`: what a run with several objectives found, and the choice among it.

No setting of the front is better than another in all objectives. Where the values are noisy the front is that of what
the method believes the values to be, and every value has an interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.basics.extras import optional
from regretless.basics.options import in_range
from regretless.basics.values import shown
from regretless.files.earlier import columns_of
from regretless.fronts.choice import compromise, of_interest
from regretless.fronts.preferences import Preferences
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
class Exchange:
    """What it costs in one objective to be better in another."""

    gain: str
    pay: str
    by: float
    """How much better in `gain`, in its unit."""
    cost: float
    """How much worse in `pay`, in its unit; as likely more as less. Below 0 it is better there too; infinite: no
    setting is so much better in `gain`."""
    interval: tuple[float, float]
    """Where the cost lies about 4 times of 5. The upper end is what an evaluated setting asks."""

    def __str__(self) -> str:
        low, high = self.interval
        wish = f"{self.by:.3g} better in {self.gain}"
        if math.isinf(self.cost):
            if math.isinf(low):
                return f"{wish} is not to be had, as far as the run knows"
            return f"{wish} is probably not to be had; if it is, it costs {low:.3g} or more in {self.pay}"
        least = f"{low:.3g}" if low > 0 else "nothing"
        ends = f"{least} to {high:.3g}" if high < math.inf else f"at least {least}"
        known = f"{low:.3g}" == f"{high:.3g}" or high <= 0 or (low <= 0 and math.isinf(high))
        cost = f"about {self.cost:.3g}" if self.cost > 0 else "nothing"
        return f"{wish} costs {cost} in {self.pay}" + f" (4 of 5 times {ends})" * (not known)


@dataclass(frozen=True)
class Contender:
    """A setting on which a choice may fall."""

    number: int | None
    """The trial that evaluated it first; None: it was evaluated before the run."""
    params: dict[str, Any]
    chance: float
    """The probability that the choice falls on it if all values were known."""


@dataclass(frozen=True)
class Contenders(Sequence[Contender]):
    """How sure a choice is: the settings on which it may fall with a probability of 0.01 and more, the likeliest
    first."""

    found: tuple[Contender, ...]
    none: float
    """The probability that no setting keeps the limits."""

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, at: Any) -> Any:
        return self.found[at]

    def __str__(self) -> str:
        from regretless.outlook.estimates import certainly  # SciPy takes long to load

        most_shown = 5  # settings that are printed
        lines = [
            f"{certainly(c.chance) if c.chance < 1 else 'certain'}: "
            f"{'a setting from before' if c.number is None else f'trial {c.number}'}, {c.params}"
            for c in self.found[:most_shown]
        ]
        rest = 1.0 - self.none - sum(c.chance for c in self.found[:most_shown])
        lines += [f"{certainly(rest)}: others"] * (rest >= 0.01)
        lines += [f"{certainly(self.none)}: no setting keeps the limits"] * (self.none >= 0.01)
        return "\n".join(lines)


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
        members = []
        # 1.959964: how many standard deviations an interval of 95 % reaches
        for row, told, sd in zip(rows, signs * values, 1.959964 * sds, strict=True):
            intervals = {n: (float(v - s), float(v + s)) for n, v, s in zip(names, told, sd, strict=True)}
            members.append(Member(*self._setting(row), dict(zip(names, told.tolist(), strict=True)), intervals))
        return members, values

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        """The place among the trials of the first one that evaluated a setting."""
        found: dict[bytes, int] = {}
        for trial in self.optimizer.trials:
            if trial.value is not None:
                found.setdefault(trial.unit.tobytes(), trial.number)
        return found

    def _setting(self, row: int) -> tuple[int | None, dict[str, Any]]:
        """The number of the trial that evaluated the setting in a row of the history first, and its parameters."""
        opt = self.optimizer
        x = opt.history.X[row]
        at = self._numbers.get(x.tobytes())
        if at is None:
            return None, opt.space.decode(x, opt.method.traits.choices)
        return opt.book.record.number_of(opt.trials[at]), dict(opt.trials[at].given)

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

    def pick(
        self,
        *,
        limits: Mapping[str, float] | None = None,
        weights: Mapping[str, float] | None = None,
        prefer: Callable[[Member, Member], Member] | None = None,
    ) -> Member:
        """The member to take, better than the reference of the run where one is.

            front.pick()                                  # a compromise
            front.pick(limits={"ms": 20})                 # the best of the others where ms is at most 20
            front.pick(weights={"accuracy": 3, "ms": 1})  # accuracy counts three times as much
            front.pick(prefer=ask)                        # what fits the answers to five questions best

        Args:
            limits: for some objectives the worst value that will do. The other objectives then decide; where all have a
                limit, all do.
            weights: how much each objective counts; 1 unless given. The member has the largest product, over the
                objectives, of what it gains on the worst member as a share of the front's range, raised to its weight.
            prefer: a function that gets two members and returns the one you would rather have. It is called up to five
                times, and stands in place of weights.

        Raises ValueError where no member keeps the limits.
        """
        members, values = self._found
        if not members:
            raise ValueError("there is nothing to pick: no evaluation succeeded")
        floors, powers = self._wishes(limits or {}, weights or {})
        rows = np.flatnonzero((values >= floors).all(axis=1))
        rows = rows[of_interest(values[rows], self.optimizer.history.reference)]
        if not len(rows):
            at, signs = list(self.objectives), self.optimizer.task.signs
            best = {name: signs[at.index(name)] * values[:, at.index(name)].max() for name in limits or {}}
            said = ", ".join(f"{name} {value:.6g}" for name, value in best.items())
            raise ValueError(f"no member of the front keeps limits={dict(limits or {})}; the best seen are {said}")
        if prefer is None:
            return members[int(rows[compromise(values[rows], powers)])]
        if weights:
            raise ValueError("weights and prefer say the same in two ways: give one of them")
        return members[int(rows[_preferred([members[row] for row in rows], values[rows], prefer)])]

    def contenders(
        self, *, limits: Mapping[str, float] | None = None, weights: Mapping[str, float] | None = None
    ) -> Contenders:
        """How sure a pick is: the evaluated settings on which `pick` with these limits and weights would fall if all
        values were known, with the probability of each. Where values are exact it is the pick alone."""
        from regretless.outlook.front_chances import chances

        opt = self.optimizer
        if not len(opt.history):
            return Contenders((), 1.0)
        floors, powers = self._wishes(limits or {}, weights or {})

        def choice(Y: Array) -> int | None:
            rows = np.flatnonzero((floors <= Y).all(axis=1))
            rows = rows[of_interest(Y[rows], opt.history.reference)]
            return int(rows[compromise(Y[rows], powers)]) if len(rows) else None

        with opt.computing() as method:
            if method.noise(opt.history).shows:
                rows, share = chances(opt.task, method, opt.history, choice)
            else:
                rows, values, _ = method.front(opt.history)
                share = (np.arange(len(rows)) == choice(values)).astype(np.float64)
        order = [i for i in np.argsort(-share, kind="stable").tolist() if share[i] >= 0.01]
        found = tuple(Contender(*self._setting(int(rows[i])), float(share[i])) for i in order)
        return Contenders(found, max(0.0, 1.0 - float(share.sum())))

    def exchange(self, gain: str, pay: str, *, by: float | None = None, at: Member | None = None) -> Exchange:
        """What it costs in the objective `pay` to be better by `by` in the objective `gain`, and no worse in the
        others.

            print(front.exchange("accuracy", "ms"))  # 0.0097 better in accuracy costs about 3 in ms (...)

        Args:
            by: how much better, in the unit of `gain`; None: 1 % of the value or, if that is 0, of the front's range.
            at: the member from which one moves; None: the compromise.

        The cost is the least of evaluated settings and of others, whose values the models of the run draw.
        """
        from regretless.outlook.front_chances import least_cost

        opt, names = self.optimizer, self.objectives
        for what, name in (("gain", gain), ("pay", pay)):
            if name not in names:
                raise ValueError(f"{what} must be one of the objectives {list(names)}, got {shown(name)}")
        if gain == pay:
            raise ValueError(f"gain and pay are both {gain!r}: an exchange has two objectives")
        here = self.pick() if at is None else at
        if here not in self.members:
            raise ValueError("at must be a member of this front")
        j = names.index(gain)
        amount = 0.01 * (abs(here.values[gain]) or float(np.ptp(self.values[:, j]))) if by is None else by
        in_range("(0, inf)", by=amount)
        with opt.computing() as method:
            place, rows = opt.space.encode(here.params, method.traits.choices), method.front(opt.history)[0]
            X = np.concatenate([method.cube.snap(place)[None], opt.history.X[rows]])
            found = least_cost(opt.task, method, opt.history, X, j, names.index(pay), amount)
        return Exchange(gain, pay, amount, found[0], found[1:])

    def _wishes(self, limits: Mapping[str, float], weights: Mapping[str, float]) -> tuple[Array, Array]:
        """The least values that keep the limits, to be maximised, and the power of each objective, k each."""
        at = {name: j for j, name in enumerate(self.objectives)}
        for what, given in (("limits", limits), ("weights", weights)):
            if unknown := [name for name in given if name not in at]:
                raise ValueError(f"{what}: the objectives of this run are named {list(at)}, got {unknown[0]!r}")
        for name, limit in limits.items():
            in_range("(-inf, inf)", **{f"limits[{name!r}]": limit})
        for name, weight in weights.items():
            in_range("[0, inf)", **{f"weights[{name!r}]": weight})
        signs = self.optimizer.task.signs
        floors = np.array([signs[j] * limits[name] if name in limits else -np.inf for name, j in at.items()])
        default = 0.0 if limits and len(limits) < len(at) and not weights else 1.0
        return floors, np.array([weights.get(name, default if name in limits else 1.0) for name in at])

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


def _preferred(members: Sequence[Member], values: Array, prefer: Callable[[Member, Member], Member]) -> int:
    """The row of the member that fits the answers best."""
    questions = 5  # what people answer with patience; docs/lab/fronts.md has what they are worth
    known = Preferences(values)
    for _ in range(questions):
        pair = known.question()
        if pair is None:
            break
        a, b = pair
        taken = prefer(members[a], members[b])
        if taken not in (members[a], members[b]):
            raise ValueError(f"prefer must return one of the two members it got, got {shown(taken)}")
        known.prefer(*((a, b) if taken == members[a] else (b, a)))
    return known.best


def observed_values(optimizer: Optimizer, params: Mapping[str, Any]) -> tuple[float, ...]:
    """The mean of the values told for a setting, in each objective; NaN where it was never evaluated."""
    method, book, k = optimizer.method, optimizer.book, len(optimizer.task.directions)
    key = method.cube.key(optimizer.space.encode(params, method.traits.choices))
    told = [t.values for t in book.trials if t.value is not None and t.unit.tobytes() == key]
    told += [(e.value, *e.further) for e in book.earlier if e.unit.tobytes() == key and math.isfinite(e.value)]
    # exact sums, so that none leaves the range of floats
    return tuple(map(statistics.mean, zip(*told, strict=True))) if told else (math.nan,) * k
