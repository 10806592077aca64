"""What a run may still bring: `Outlook`, which holds a forecast and how the run's earlier forecasts turned out.

A run checks itself. After fixed numbers of values it was forecast, from what was known then alone, how much the next
values would bring; the intervals are compared with what came. Where they failed too often, later ones are wider, by the
rule of adaptive conformal inference (Gibbs and Candes 2021): with the allowed share of misses a and misses e_1, e_2,
... (1 or 0), let a_1 = a and

    a_(t+1) = a_t + RATE (a - e_t).

The interval of look t leaves out min(a, a_t) in its tails; where that is not positive it holds everything. So intervals
are wider exactly while more than the share a of them has failed. For every sequence of values whatsoever the share of
misses among the first T looks is at most a + (a + RATE) / (RATE T): the steps add up, and a_t never falls below -RATE.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regretless.basics.threads import threads_for
from regretless.history import History
from regretless.models.gp.surrogate import Surrogate
from regretless.outlook.bounds import limit_name
from regretless.outlook.forecast import TABLE, USUAL, Forecast, Forecaster, nothing_known
from regretless.outlook.front_growth import front_forecasts
from regretless.outlook.progress import Seen, features, levels, own_model, posterior_of, reach
from regretless.space import Cube
from regretless.task import Task

RATE = 0.1
"""How far one look moves the share of misses that is asked of the model."""
LEAST_VALUES = 4
"""The values of feasible settings that a forecast needs: the nets were fitted to runs with as many or more."""
GRID = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 130, 210)
"""Horizons that are forecast together, so that more trials never promise less."""


class Look(NamedTuple):
    """An earlier forecast of the run and what came."""

    after: int
    """The values known then."""
    trials: int
    """The values it looked ahead."""
    low: float
    high: float
    """The interval, in the unit of the objective."""
    gain: float
    """What the recommended setting gained."""

    @property
    def held(self) -> bool:
        return self.low <= self.gain <= self.high


@dataclass(frozen=True)
class Backtest:
    """This run's earlier forecasts against what came."""

    looks: tuple[Look, ...] = ()
    tail: float = 1.0
    """What the intervals' tails are multiplied by now; below 1 they are wider."""

    @property
    def held(self) -> int:
        """How many intervals held."""
        return sum(look.held for look in self.looks)

    def __str__(self) -> str:
        if not self.looks:
            return ""
        count = len(self.looks)
        wider = ", so this one is more cautious" if self.tail < 1.0 else ""
        return f"Of this run's {count} earlier forecasts {self.held} held{wider}."


@dataclass(frozen=True)
class Outlook:
    """What a run may still bring. `str()` says it in a few sentences, for people to act on."""

    value: float | None
    """The value that the forecast starts from, in the unit of the objective; None: there is none yet."""
    direction: str
    forecast: Forecast
    backtest: Backtest = Backtest()
    fan: tuple[Forecast, ...] = ()
    """Forecasts for fewer and more trials, in order."""

    @property
    def noise(self) -> float | None:
        """The standard deviation of the noise in one value; None: the values show none."""
        return self.forecast.noise

    def __str__(self) -> str:
        guessed = not (self.forecast.unknown or self.forecast.none_because)
        doubt = str(self.backtest) if guessed and self.backtest.tail < 1.0 else ""
        return " ".join(filter(None, [str(self.forecast), doubt]))


# ---------------------------------------------------------------- the work


class Forecasts:
    """Forecasts of one run from its histories; what it keeps is a cache and may be dropped at any time."""

    def __init__(self, cube: Cube) -> None:
        self._cube = cube
        self._forget(noisy=False)

    def _forget(self, *, noisy: bool) -> None:
        self._noisy, self._history = noisy, History(self._cube.dim)
        self._model = own_model(self._cube, noisy=noisy)
        self._moments: list[_Moment] = []
        """The looks, in order; the values between two of them are what the first one forecast."""

    def outlook(self, history: History, trials: Sequence[int], *, noisy: bool, task: Task) -> tuple[Outlook, ...]:
        """The outlook for each number of further trials."""
        if task.several:
            return tuple(Outlook(None, task.direction, f) for f in front_forecasts(history, trials, noisy=noisy))
        with threads_for(model_free=False):
            if noisy != self._noisy or not history.extends(self._history):
                self._forget(noisy=noisy)
            self._history = history
            seen = Seen.of(history, self._cube, noisy=noisy)
            self._look(seen)
            now = _Moment(seen, self._model)
            start = None if now.best is None else task.sign * float(now.levels[now.best])
            if not now.tells:
                unknown = [nothing_known(m, _why_not(now), now.noise) for m in trials]
                return tuple(Outlook(start, task.direction, forecast) for forecast in unknown)
            backtest = self._backtest(now)
            if nothing := _no_gain(now, task):
                none = [Forecast(m, (0.0,) * len(TABLE), now.noise, none_because=nothing) for m in trials]
                return tuple(Outlook(start, task.direction, forecast, backtest) for forecast in none)
            furthest = max(2 * trials[0], *trials)
            fan = now.forecasts(sorted({*(m for m in GRID if m <= furthest), *trials}), max(backtest.tail, 0.0), task)
        near = tuple(fan[m] for m in sorted(fan) if m <= 2 * trials[0])
        return tuple(Outlook(start, task.direction, fan[m], backtest, near) for m in trials)

    def _look(self, seen: Seen) -> None:
        """Makes the looks that are due, each from the values before it alone."""
        # 5, 4: the first look comes after this many values, and every further one after a quarter more (at least two)
        after = self._moments[-1].next if self._moments else 5
        while after <= len(seen.y):
            self._moments.append(_Moment(seen.first(after), self._model))
            after = self._moments[-1].next

    def _backtest(self, now: _Moment) -> Backtest:
        """The looks whose horizon has passed, and what they ask of the next interval."""
        level = np.full(len(now.seen.y), -np.inf)
        level[now.seen.feasible] = now.levels
        looks, share, allowed = [], 1.0 - USUAL, 1.0 - USUAL
        for then, later in itertools.pairwise(self._moments):
            if then.tells:  # so both have a recommended setting
                low, high = then.interval(min(share / allowed, 1.0))
                gain = max(0.0, float(level[later.row] - level[then.row]))
                looks.append(Look(then.count, later.count - then.count, low, high, gain))
                share += RATE * (allowed - (not looks[-1].held))
        return Backtest(tuple(looks), min(share / allowed, 1.0))


class _Moment:
    """A run when so much of it was known."""

    def __init__(self, seen: Seen, model: Surrogate) -> None:
        self.seen, self.gp, self.count = seen, posterior_of(seen, model), len(seen.y)
        self.next = self.count + max(2, self.count // 4)
        """When the next look comes."""
        self.levels = levels(seen, self.gp)
        self.best = int(np.argmax(self.levels)) if len(self.levels) else None
        self.row = -1 if self.best is None else int(np.flatnonzero(seen.feasible)[self.best])
        """The row of the recommended setting."""
        self.reach = reach(self.levels)
        self.tells = self.reach > 0 and len(self.levels) >= LEAST_VALUES
        """Whether anything can be forecast."""
        self._intervals: dict[float, tuple[float, float]] = {}

    @property
    def noise(self) -> float | None:
        """The standard deviation of the noise in one value: as the model fits it, or the median of those told. Poor
        settings often have larger errors, and a mean would speak of those."""
        variances = self.seen.yvar[self.seen.yvar > 0]
        if not self.seen.noisy or (self.gp is None and not len(variances)):
            return None
        if len(variances) or self.gp is None:
            return math.sqrt(float(np.median(variances)))
        return self.gp.scale * math.sqrt(float(self.gp.factor.noise[: self.gp.n].mean()) * self.gp.signal)

    def forecasts(self, horizons: Sequence[int], tail: float, task: Task | None = None) -> dict[int, Forecast]:
        """A forecast for each horizon, in order: more trials promise no less. No gain goes beyond a known limit."""
        x = features(self.seen, self.gp, [m * (1.0 - self.seen.failed) for m in horizons])
        with np.errstate(over="ignore"):  # of enormous values gains may be any amount
            gains = self.reach * np.maximum.accumulate(Forecaster.shipped().gains(x, tail=tail), axis=0)
        if task is not None and task.limit is not None and self.best is not None:
            room = task.sign * task.limit - float(self.levels[self.best])
            gains = np.minimum(gains, room) if room >= 0 else gains  # values beyond the limit show that it is none
        return {m: Forecast(m, tuple(map(float, row)), self.noise) for m, row in zip(horizons, gains, strict=True)}

    def interval(self, tail: float) -> tuple[float, float]:
        """What was forecast until the next look."""
        if tail <= 0:
            return 0.0, math.inf
        if tail not in self._intervals:
            self._intervals[tail] = self.forecasts([self.next - self.count], tail)[self.next - self.count].interval()
        return self._intervals[tail]


def _no_gain(now: _Moment, task: Task) -> str:
    """Why nothing better can come, as far as values without noise show: empty where something may."""
    if now.seen.noisy or now.best is None:
        return ""
    if task.limit is not None and float(now.levels[now.best]) == task.sign * task.limit:
        return f"the value has reached {limit_name(task)}={task.limit:g}"
    size = now.seen.cube.size
    every = size <= now.count and len({x.tobytes() for x in now.seen.X}) >= size
    return "every setting of the space was evaluated" if every else ""


def _why_not(now: _Moment) -> str:
    """Why a run without a reach says nothing of further trials."""
    if not len(now.seen.y):
        return "no trial has a value"
    if not len(now.levels):
        return "no setting keeps all constraints"
    few = len(now.levels) < LEAST_VALUES
    return (
        f"{len(now.levels)} value{'s are' if len(now.levels) > 1 else ' is'} too few" if few else "all values are equal"
    )
