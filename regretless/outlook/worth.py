"""`Worth`: stops when going on costs more than it is expected to bring."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regretless.basics.options import in_range
from regretless.outlook import going_on
from regretless.outlook.forecast import shown
from regretless.outlook.stopping import Evaluated, RunView, StopRule, counted

if TYPE_CHECKING:
    from regretless.outlook.forecast import Forecast


class Worth(StopRule):
    """Stops when, for every number of further trials from five on, they cost more than they are expected to gain.

        minimize(loss, space, trials=500, stop=Worth(per_unit=5000, per_trial=2))      # euros, say
        minimize(error, space, trials=500, stop=Worth(per_unit=300, per_hour=40))

    What further trials gain is the mean of the forecast (`Optimizer.forecast`).

    Args:
        per_unit: what it is worth to you that the objective is better by one, in any currency.
        per_trial: what one trial costs, in the same currency.
        per_hour: what an hour of evaluations costs; a further trial is taken to last as long as those so far did on
            average. The run must know how long they took.
    """

    def __init__(self, *, per_unit: float, per_trial: float | None = None, per_hour: float | None = None) -> None:
        if (per_trial is None) == (per_hour is None):
            raise ValueError("Worth needs what a trial costs, per_trial= or per_hour=, and not both")
        in_range("(0, inf)", per_unit=per_unit)
        in_range("(0, inf) or None", per_trial=per_trial, per_hour=per_hour)
        self.per_unit, self.per_trial, self.per_hour = per_unit, per_trial, per_hour
        self._fan: dict[int, Forecast] = {}
        """The forecasts that the rule last looked at."""
        self._price = math.inf
        """What a trial cost then."""

    @property
    def of_one(self) -> str:
        return "Worth(per_unit=...)"

    def __repr__(self) -> str:
        price = f"per_trial={self.per_trial!r}" if self.per_trial is not None else f"per_hour={self.per_hour!r}"
        return f"Worth(per_unit={self.per_unit!r}, {price})"

    def _state(self) -> dict[str, Any]:
        return {}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._fan = {}

    def check(self, run: RunView) -> str | None:
        ended = [t for t in run.trials if t.state != "pending"]
        self._fan = {o.forecast.trials: o.forecast for o in run.outlooks(going_on.HORIZONS)}
        self.reason = None
        if any(t.value is not None for t in ended):
            self._price = self._price_of(ended)
            if going_on.surplus(self._fan, self.per_unit, self._price) < 0:
                some = self._fan[20]
                gains, costs = self.per_unit * some.expected, self._price * some.trials
                self.reason = (
                    f"stopped after {counted(ended)}: {some.trials_words} cost {shown(costs)} and are expected to gain "
                    f"{shown(gains)}, and no other number of them from {going_on.NEAREST} on pays"
                )
        return self.reason

    @property
    def how_far(self) -> str:
        if self.reason is not None or not self._fan:
            return ""
        some = self._fan[20]
        if some.unknown:
            return f"the rule cannot tell yet, because {some.unknown}"
        later = going_on.until_too_dear(self._fan, self.per_unit, self._price)
        gains, costs = self.per_unit * some.expected, self._price * some.trials
        return (
            f"going on still pays: {some.trials_words} cost {shown(costs)} and are expected to gain {shown(gains)}; "
            f"it pays for {going_on.about(later)}"
        )

    def _price_of(self, ended: Sequence[Evaluated]) -> float:
        """What a trial costs."""
        if self.per_trial is not None:
            return self.per_trial
        took = [t.seconds for t in ended if t.seconds is not None]
        if not took or self.per_hour is None:
            raise ValueError(f"{self!r} needs to know how long trials take: tell(..., seconds=...), or give per_trial=")
        return self.per_hour * math.fsum(took) / len(took) / 3600.0  # seconds in an hour
