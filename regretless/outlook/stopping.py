"""Reasons to stop: `StopWhen` ends a run by what people ask of runs, `Worth` (`worth.py`) when going on does not pay,
`GapBelow` by its certificate; `|` and `&` combine them.

    stop=StopWhen(gain_below=0.001, in_trials=20)              # 20 more trials would gain less
    stop=Worth(per_unit=5000, per_trial=2)                     # going on costs more than it brings
    stop=GapBelow(0.01) | StopWhen(cost=100.0)                 # whichever comes first
"""

from __future__ import annotations

import importlib
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from regretless.basics.options import in_range, whole_number
from regretless.certificate import HALF, SOUGHT_FRONT, Certificate
from regretless.outlook import going_on
from regretless.outlook.probes import DEFAULT_RATE, FOR_THE_ASKED, Share, Spending, checked_rate
from regretless.outlook.standing import Standing
from regretless.space.parameters import Array
from regretless.task import Direction

if TYPE_CHECKING:
    from regretless.outlook.forecast import Forecast
    from regretless.outlook.outlook import Outlook

CHECKS_IN_A_ROW = 2
"""A single lucky fit must not end a run: a fitted certificate has to hold at this many checks in a row."""
SPENT_PER_CHECK = 0.2
"""The share of delta that one check of a fitted certificate asks for: a rule that looks after every evaluation has many
chances to meet a bound that is too low, and how many of them are wrong is measured, not proven."""
LEAST_DENSITY = 1.0
"""A fitted certificate stops a run only when there is a value for each place that knows little of the others: with
fewer the bound rests on what was assumed before any evaluation. Two of three wrong stops were such
(docs/lab/certificates.md)."""
SUM_OF_SQUARES = 6 / math.pi**2
"""The k-th look spends this share of delta over k^2; the shares of all looks add up to 1."""
USUAL_TRIALS, USUAL_CHANCE = 20, 0.9
"""How far a rule by the forecast looks ahead, and how sure it must be, unless it is told otherwise."""
_log = logging.getLogger(__name__)


class Evaluated(Protocol):
    """What a rule sees of a trial."""

    value: float | None
    """None: it failed, or has not ended."""
    cost: float | None
    seconds: float | None
    """How long it took, where that is known."""

    @property
    def state(self) -> str:
        """ "pending" until it has ended."""

    @property
    def feasible(self) -> bool:
        """Whether it has a value and satisfies the constraints."""

    @property
    def values(self) -> tuple[float, ...]:
        """The values of all objectives; empty where it has none."""


class RunView(Protocol):
    """What a rule sees of a run."""

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The direction of each objective."""

    @property
    def trials(self) -> Sequence[Evaluated]:
        """All trials, in the order of their numbers."""

    def certificate_at(self, delta: float) -> Certificate:
        """How much regret may be left, with probability 1 - delta."""

    def share_at(self, delta: float, *, rule: Spending | None = None) -> Share:
        """How much of the space can be better, with probability 1 - delta; with a rule, at every moment."""

    def outlooks(self, trials: Sequence[int]) -> Sequence[Outlook]:
        """What so many further trials would bring, for each number of them."""


class StopRule(ABC):
    """A reason to stop, as `rule(optimizer)`, which gives the reason or None. It is also the callback of the libraries
    that have a door here, which they call with a study and a trial. A subclass gives `check`, `_state` and `_load`."""

    reason: str | None = None
    """Why the run was stopped, or None."""
    _caught_up = False
    """Whether `catch_up` was called."""
    asks_gap = False
    """Whether the rule needs certificates of the gap, for which "auto" takes a method that verifies."""
    asks_share = False
    """Whether the rule needs probes to hold."""

    @property
    def of_one(self) -> str:
        """What the rule asks for that one objective alone can have; empty: it rules fronts as well."""
        return ""

    @property
    def of_several(self) -> str:
        """What it asks for that a front alone can have."""
        return ""

    @property
    def how_far(self) -> str:
        """How far the rule was from firing when it last looked, and about how many trials more that takes; empty where
        it fired or cannot tell."""
        return ""

    @abstractmethod
    def check(self, run: RunView) -> str | None:
        """Looks at the run; returns the reason to stop or None."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of the rule, so that a run that it ended stays ended."""
        return {"rule": repr(self), "reason": self.reason, **self._state()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a state of the same rule when a run begins; with that of another, or with none, it starts
        afresh."""
        own = state if state.get("rule") == repr(self) else {}
        self._load(own)
        self.reason = str(own["reason"]) if own and own["reason"] is not None else None

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What the rule has counted."""

    @abstractmethod
    def _load(self, state: Mapping[str, Any]) -> None:
        """Takes over what the rule has counted; with an empty state it starts afresh."""

    def sync(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - a hook that may stay empty
        """Takes over what another worker's copy of this rule has counted since."""

    def catch_up(self, state: Mapping[str, Any]) -> None:
        """Takes over what a run that several workers share has counted: at first all of it, later what is ahead."""
        (self.sync if self._caught_up else self.load)(state)
        self._caught_up = True

    def __or__(self, other: StopRule) -> StopRule:
        return Combined((self, other), every=False)

    def __and__(self, other: StopRule) -> StopRule:
        return Combined((self, other), every=True)

    def __call__(self, run: Any, trial: Any = None) -> str | None:
        if trial is not None:
            library = type(run).__module__.partition(".")[0]
            found: str | None = importlib.import_module(f"regretless.doors.{library}.rules").ask(self, run)
            return found
        standing = Standing(run)
        check_objectives(self, len(standing.directions))
        reason = self.check(standing)
        run.book.record.rule = self.state()
        return reason


def check_objectives(rule: StopRule, count: int) -> None:
    """Raises ValueError where a rule cannot end a run with so many objectives."""
    if count > 1 and (named := rule.of_one):
        raise ValueError(
            f"{named} speaks of one objective, and this run has {count}; StopWhen(hypervolume_below=...), "
            "StopWhen(no_improvement=...) and GapBelow(share=...) speak of fronts"
        )
    if count == 1 and (named := rule.of_several):
        raise ValueError(f"{named} speaks of the front of several objectives, and this run has one; see gain_below=")


class GapBelow(StopRule):
    """Stops when the recommended setting is certified to be within `gap` of the optimum and, with `share`, when at most
    that share of the search space is certified to be better; all that is asked for must hold.

        minimize(train, space, trials=200, stop=GapBelow(0.01))
        study.optimize(objective, n_trials=200, callbacks=[GapBelow(0.01)])   # with regretless.Sampler as the sampler

    It looks after every `every`-th evaluation. "Not certified" never stops a run. After a stop `reason` says what it
    rests on, and the counts are kept with the run.

    What is proven holds with probability 1 - delta for the whole run, however often the rule looks. For that the k-th
    look spends 6 / (pi k)^2 of delta; where a gap and a share are asked for, each spends half of it. The share is first
    looked at when there are enough probes for it to hold.

    A fitted gap is measured, not proven, so three things are asked of it. Each check asks for a fifth of delta, two
    checks in a row must hold, and there must be a value for each independent place of the space
    (`Certificate.density`).

    `minimize`, `regretless tune` and the doors that know the rule beforehand make every fifth trial a probe, unless you
    say otherwise (`probes=`). The reason then also says how much of the space can be better.

    Libraries that call a rule only after a trial evaluate one more trial each time a study that the rule has ended is
    started again; `minimize` and `regretless tune` evaluate none.

    Args:
        gap: the regret that is acceptable, in the units of the objective; None: only the share counts.
        relative: whether gap is a share of the range of the values seen so far instead; values that break a constraint
            are not among them.
        share: the share of the search space that may still be better, such as 0.02; it needs probes.
        delta: the probability with which what is proven may be wrong.
        every: evaluations between two checks.
    """

    def __init__(
        self,
        gap: float | None = None,
        *,
        relative: bool = False,
        share: float | None = None,
        delta: float = 0.05,
        every: int = 1,
    ) -> None:
        if gap is None and share is None:
            raise ValueError("gap must be a positive number, or share a part of the space; got neither")
        in_range("(0, inf) or None", gap=gap)
        in_range("(0, 1) or None", share=share)
        in_range("(0, 1)", delta=delta)
        whole_number(every=every)
        self.gap, self.relative, self.share, self.delta, self.every = gap, relative, share, delta, every
        self.asks_gap, self.asks_share = gap is not None, share is not None
        self.certificate = Certificate.none("not checked yet", delta)
        """The last certificate looked at."""
        self._counts = _Counts()

    @property
    def of_one(self) -> str:
        return "" if self.gap is None else f"GapBelow({self.gap:g})"

    def __repr__(self) -> str:
        asked = [] if self.gap is None else [f"{self.gap:g}", f"relative={self.relative}"]
        asked += [] if self.share is None else [f"share={self.share:g}"]
        return f"GapBelow({', '.join([*asked, f'delta={self.delta:g}'])})"

    def _state(self) -> dict[str, Any]:
        return {"delta": self.delta, "asks_share": self.asks_share, **vars(self._counts)}

    def _load(self, state: Mapping[str, Any]) -> None:
        known = vars(_Counts())
        self._counts = _Counts(**{name: type(was)(state.get(name, was)) for name, was in known.items()})

    def sync(self, state: Mapping[str, Any]) -> None:
        if state.get("rule") == repr(self) and int(state["checked_at"]) >= self._counts.checked_at:
            self.load(state)

    def check(self, run: RunView) -> str | None:
        values = [t.value for t in run.trials if t.value is not None]
        if len(values) < self._counts.checked_at:  # another run: nothing of the last one counts
            self._counts, self.reason = _Counts(), None
        if len(values) < self._counts.checked_at + self.every:
            return self.reason
        self._counts.checked_at = len(values)
        self._counts.checks += 1
        self.reason = None
        part = 2 if self.gap is not None and self.share is not None else 1  # each part spends its own half of delta
        if self._share_holds(run, self.delta / part) and self._gap_holds(run, self.delta / part):
            if self.share is None and self.certificate.probes:  # nobody asked, but what they prove is worth saying
                left = run.share_at(self.delta, rule=Spending())
                self.certificate = replace(self.certificate, share=left.value, probes=left.probes)
            sought = SOUGHT_FRONT if len(run.directions) > 1 else self.certificate.sought
            # delta is what the whole run may spend, not this look alone
            shown = replace(self.certificate, delta=self.delta, sought=sought, asks="")
            mentioned = shown.share is not None and (self.share is not None or shown.share < HALF)
            said = [shown.share_sentence()] * mentioned
            said += [shown.gap_sentence()] * (self.gap is not None)
            self.reason = f"stopped after {len(values)} evaluations: {' '.join(said)}"
            _log.info(self.reason)
        return self.reason

    def _share_holds(self, run: RunView, delta: float) -> bool:
        if self.share is None or self._counts.share <= self.share:
            return True
        spent = FOR_THE_ASKED * delta * SUM_OF_SQUARES / (self._counts.looks + 1) ** 2
        found = run.share_at(spent)
        if not found.certain and found.least > self.share:  # too few probes for any answer: nothing is spent
            return False
        self._counts.looks += not found.certain
        if found.value is None or found.value > self.share:
            return False
        self.certificate = replace(
            self.certificate, share=found.value, probes=found.probes, share_reason="", supposes=found.supposes
        )
        if found.exact:  # what is recommended later is at least as good
            self._counts.share, self._counts.proven_by = found.value, 0 if found.certain else found.probes
        return True

    def _gap_holds(self, run: RunView, delta: float) -> bool:
        if self.gap is None:
            return True
        allowed = self.gap * range_of(run) if self.relative else self.gap
        found = run.certificate_at(SPENT_PER_CHECK * delta)
        good = found.certified and found.gap <= allowed
        good = good and (found.density is None or found.density >= LEAST_DENSITY)
        if good and found.kind == "theory" and not found.certain:
            found = run.certificate_at(delta * SUM_OF_SQUARES / self._counts.checks**2)
            good = found.certified and found.gap <= allowed
        mine = {name: getattr(self.certificate, name) for name in ("share", "share_reason", "probes", "supposes")}
        self.certificate = found if self.share is None else replace(found, **mine)
        self._counts.held = self._counts.held + 1 if good else 0
        return good and (found.kind == "theory" or self._counts.held >= CHECKS_IN_A_ROW)


@dataclass
class _Counts:
    """What `GapBelow` has seen of a run."""

    checked_at: int = 0
    """The evaluations at the last check."""
    checks: int = 0
    looks: int = 0
    """Looks at the share, each of which spent its part of delta."""
    held: int = 0
    """Checks in a row at which the gap was small enough."""
    share: float = 1.0
    """The share that was proven for good."""
    proven_by: int = 0
    """The probes that proved it."""


class StopWhen(StopRule):
    """Stops when any of what is given comes true.

        minimize(train, space, trials=500, stop=StopWhen(gain_below=0.001, in_trials=20))
        minimize(train, space, trials=500, stop=StopWhen(no_improvement=50, target=0.01, seconds=3600))

    `gain_below` and `below_noise` rest on the forecast (`Optimizer.forecast`), which a run widens when its own earlier
    forecasts failed. How often such stops were right is measured (docs/lab/outlook.md), not proven.

    Args:
        gain_below: a gain too small to go on for, in the unit of the objective: the next `in_trials` trials gain less
            with probability `chance`.
        in_trials: how many trials are looked ahead; 20 unless said otherwise.
        chance: the probability with which the gain must be below; 0.9 unless said otherwise.
        hypervolume_below: the same for the front of several objectives: the next `in_trials` trials add less than this
            share of the hypervolume, such as 0.01, with probability `chance`.
        below_noise: the same with the measurement error of the values in place of `gain_below`; it never holds while
            the values show no noise.
        no_improvement: so many trials in a row, failed ones included, have not improved the best value or, with several
            objectives, extended the front.
        target: a value that is good enough; one that breaks a constraint reaches nothing and improves nothing.
        seconds: the time that the run may take, in all of its sessions.
        cost: what the trials of the run may cost together, in all of its sessions: told costs
            (`Value(value, cost=...)`, `tell(..., cost=...)`) or, in a run with cost="seconds", what they took. The
            trial that reaches it is the last; with several at once, those under way still end.
    """

    def __init__(
        self,
        *,
        gain_below: float | None = None,
        hypervolume_below: float | None = None,
        in_trials: int | None = None,
        chance: float | None = None,
        below_noise: bool = False,
        no_improvement: int | None = None,
        target: float | None = None,
        seconds: float | None = None,
        cost: float | None = None,
    ) -> None:
        plain = {"no_improvement": no_improvement, "target": target, "seconds": seconds, "cost": cost}
        looks = gain_below is not None or hypervolume_below is not None or below_noise
        if not looks and (in_trials, chance) != (None, None):
            raise ValueError(
                "in_trials= and chance= belong to gain_below=, hypervolume_below= or below_noise=True; "
                "give one of those"
            )
        if not looks and all(value is None for value in plain.values()):
            names = f"gain_below=, hypervolume_below=, below_noise=True, {'=, '.join(plain)}="
            raise ValueError(f"StopWhen needs at least one of {names}")
        in_range("(0, inf) or None", gain_below=gain_below, hypervolume_below=hypervolume_below)
        whole_number(also=(None,), in_trials=in_trials, no_improvement=no_improvement)
        in_range("(0, 1) or None", chance=chance)
        in_range("(-inf, inf) or None", target=target)
        in_range("(0, inf] or None", seconds=seconds)
        in_range("(0, inf) or None", cost=cost)
        self.gain_below, self.below_noise, self.hypervolume_below = gain_below, below_noise, hypervolume_below
        self.in_trials, self.chance = in_trials or USUAL_TRIALS, chance or USUAL_CHANCE
        self.no_improvement, self.target, self.seconds, self.cost = no_improvement, target, seconds, cost
        given = {
            "gain_below": gain_below,
            "hypervolume_below": hypervolume_below,
            "in_trials": in_trials,
            "chance": chance,
            "below_noise": below_noise or None,
        }
        self._given = {name: value for name, value in (given | plain).items() if value is not None}
        self._fan: dict[int, Forecast] = {}
        """The forecasts that the rule last looked at."""
        self._before = 0.0
        """Seconds spent in the earlier sessions of the run."""
        self._began = time.monotonic()

    @property
    def of_one(self) -> str:
        named = [name for name in ("gain_below", "below_noise", "target") if name in self._given]
        return f"StopWhen({named[0]}=...)" if named else ""

    @property
    def of_several(self) -> str:
        return "" if self.hypervolume_below is None else "StopWhen(hypervolume_below=...)"

    def __repr__(self) -> str:
        return f"StopWhen({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def _state(self) -> dict[str, Any]:
        return {"seconds": self._spent()}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._before, self._began = float(state["seconds"]) if state else 0.0, time.monotonic()

    def check(self, run: RunView) -> str | None:
        ended, said = [t for t in run.trials if t.state != "pending"], self._small_gain(run)
        sign = 1.0 if run.directions[0] == "maximize" else -1.0
        best, since = latest_gain(ended, run.directions)
        if self.target is not None and best >= sign * self.target:
            said.append(f"the target {self.target:g} was reached")
        if self.no_improvement is not None and since >= self.no_improvement:
            said.append(f"the last {f'{since} trials' if since > 1 else 'trial'} improved nothing")
        if self.seconds is not None and self._spent() >= self.seconds:
            said.append(f"{self.seconds:g} seconds were spent")
        if self.cost is not None and (spent := self._paid(ended)) >= self.cost:
            said.append(f"the trials cost {spent:g} of the {self.cost:g} that they may")
        self.reason = f"stopped after {counted(ended)}: {', and '.join(said)}" if said else None
        return self.reason

    @property
    def how_far(self) -> str:
        if self.reason is not None or not self._fan:
            return ""
        forecast, parts = self._fan[self.in_trials], []
        if forecast.unknown:
            return f"the rule cannot tell yet, because {forecast.unknown}"
        for gain, name in self._limits(forecast):
            later = going_on.until_unlikely(self._fan, self.in_trials, gain, self.chance)
            parts.append(
                f"{forecast.trials_words} gain {gain:.3g}{name} or more with a chance of {forecast.chance(gain):.2g}, "
                f"the rule asks for at most {1 - self.chance:.2g}, which takes {going_on.about(later)}"
            )
        return "; ".join(parts) or "the values show no measurement error yet"

    def _small_gain(self, run: RunView) -> list[str]:
        """What the forecast gives as reasons to stop."""
        if self.gain_below is None and self.hypervolume_below is None and not self.below_noise:
            return []
        numbers = sorted({*going_on.HORIZONS, self.in_trials})
        self._fan = {o.forecast.trials: o.forecast for o in run.outlooks(numbers)}
        forecast = self._fan[self.in_trials]
        return [
            f"{forecast.trials_words} gain {gain:.3g}{name} or more with a chance of only {forecast.chance(gain):.2g}"
            for gain, name in self._limits(forecast)
            if forecast.chance(gain) <= 1.0 - self.chance
        ]

    def _limits(self, forecast: Forecast) -> list[tuple[float, str]]:
        """The gains that are too small to go on for, and what they are."""
        noise = forecast.noise if self.below_noise else None
        asked = [(self.gain_below, "")] if self.gain_below is not None else []
        share = self.hypervolume_below
        asked += [(share, " of the hypervolume")] if share is not None else []
        return [*asked, *([(noise, " (the measurement error)")] if noise else [])]

    def _paid(self, ended: Sequence[Evaluated]) -> float:
        """What the trials cost so far; a failed one whose cost nobody told counts as nothing."""
        for number, t in enumerate(ended):
            if t.value is not None and t.cost is None:
                raise ValueError(
                    f"{self!r} adds up costs, and evaluation {number} told none: return Value(value, cost=...), tell "
                    'cost=, or let the run measure them with cost="seconds"'
                )
        return math.fsum(t.cost for t in ended if t.cost is not None)

    def _spent(self) -> float:
        return self._before + time.monotonic() - self._began


def latest_gain(ended: Sequence[Evaluated], directions: Sequence[Direction]) -> tuple[float, int]:
    """The best value of the first objective, to be maximised, and how many trials ended since the best value, or the
    front of several objectives, last got better."""
    signs = np.array([1.0 if direction == "maximize" else -1.0 for direction in directions])
    if len(signs) > 1:
        return -math.inf, _since_extended([signs * np.array(t.values) if t.feasible else None for t in ended])
    sign, best, since = float(signs[0]), -math.inf, 0
    for t in ended:
        better = t.feasible and t.value is not None and sign * t.value > best
        best, since = (sign * t.value, 0) if better and t.value is not None else (best, since + 1)
    return best, since


def _since_extended(values: Sequence[Array | None]) -> int:
    """How many values, to be maximised, came since one extended the front; None: no value."""
    front, since = np.empty((0, 0)), 0
    for y in values:
        if y is None or (len(front) and (front >= y).all(axis=1).any()):
            since += 1
        else:
            front, since = np.vstack([front[~(y >= front).all(axis=1)], y]) if len(front) else y[None], 0
    return since


def counted(ended: Sequence[Evaluated]) -> str:
    """A number of trials in words."""
    return f"{len(ended)} trial{'s' * (len(ended) != 1)}"


class Combined(StopRule):
    """Several rules of which any (`|`), or all at the same check (`&`), must hold."""

    def __init__(self, rules: Sequence[StopRule], *, every: bool) -> None:
        if not all(isinstance(rule, StopRule) for rule in rules):
            raise TypeError(f"rules combine with rules, got {rules!r}")
        self.rules, self.all_of = tuple(rules), every
        self.asks_gap = any(rule.asks_gap for rule in rules)
        self.asks_share = any(rule.asks_share for rule in rules)

    @property
    def of_one(self) -> str:
        return next((rule.of_one for rule in self.rules if rule.of_one), "")

    @property
    def of_several(self) -> str:
        return next((rule.of_several for rule in self.rules if rule.of_several), "")

    @property
    def how_far(self) -> str:
        return "" if self.reason is not None else "; ".join(filter(None, (rule.how_far for rule in self.rules)))

    def __repr__(self) -> str:
        return f"({(' & ' if self.all_of else ' | ').join(map(repr, self.rules))})"

    def _state(self) -> dict[str, Any]:
        return {"parts": {str(i): rule.state() for i, rule in enumerate(self.rules)}}

    def _load(self, state: Mapping[str, Any]) -> None:
        for i, rule in enumerate(self.rules):
            rule.load(state["parts"][str(i)] if state else {})

    def sync(self, state: Mapping[str, Any]) -> None:
        if state.get("rule") == repr(self):
            for i, rule in enumerate(self.rules):
                rule.sync(state["parts"][str(i)])

    def check(self, run: RunView) -> str | None:
        found = [rule.check(run) for rule in self.rules]  # each keeps its own count, so all are asked
        said = [reason for reason in found if reason is not None]
        begins = f"{said[0].partition(': ')[0]}: " if said else ""  # "stopped after 20 trials: " is said once
        rest = [reason.removeprefix(begins) for reason in said[1:]]
        self.reason = "; ".join([*said[:1], *rest]) if len(said) >= (len(found) if self.all_of else 1) else None
        return self.reason


def range_of(run: RunView) -> float:
    """How far the values of a run lie apart; those that break a constraint may be penalties, and do not count."""
    usable = [t.value for t in run.trials if t.feasible and t.value is not None]
    return max(usable) - min(usable) if usable else 0.0


def probes_for(stop: Any, probes: float | None) -> float:
    """The share of the trials that are probes: as given, else a fifth with a rule that speaks of a certificate, which
    then says how much of the space can be better, and none without one. `StopWhen` needs none."""
    if probes is not None:
        return checked_rate(probes)
    return DEFAULT_RATE if isinstance(stop, StopRule) and (stop.asks_gap or stop.asks_share) else 0.0
