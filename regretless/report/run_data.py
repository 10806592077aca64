"""What the pictures of a run show, as arrays: its trials, its axes, and which values would flatten the others.

The page (`run_page`) draws from here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regretless.optimizer import Optimizer
from regretless.outlook.probes import Probing, rule_of
from regretless.outlook.standing import Standing
from regretless.space.parameters import Array, Choice, Int, Parameter, ends_of

if TYPE_CHECKING:
    from regretless.certificate import Certificate
    from regretless.optimizer import Trial
    from regretless.run.result import Result

WIDE = 20
"""Positive values that differ by more than this factor start on a logarithmic axis."""


@dataclass(frozen=True)
class AxisScale:
    """An axis of a parameter: its ends, which the unit interval is mapped to evenly (on a log scale where `log`), and
    the texts of its labels, where it has some; a label stands at its index. `whole`: it holds whole numbers alone."""

    low: float
    high: float
    log: bool = False
    labels: tuple[str, ...] = ()
    whole: bool = False

    @classmethod
    def of(cls, parameter: Parameter) -> AxisScale:
        if isinstance(parameter, Choice):
            return cls(-0.5, len(parameter.labels) - 0.5, labels=tuple(text_of(label) for label in parameter.labels))
        low, high = ends_of(parameter)
        return cls(low, high, parameter.log and low > 0, whole=isinstance(parameter, Int))

    def at(self, u: Array) -> Array:
        """The values at places of the unit interval, n; labels have whole numbers."""
        if self.labels:
            return np.rint(u * len(self.labels) - 0.5) + 0.0
        if self.log:
            return np.exp((1 - u) * math.log(self.low) + u * math.log(self.high))
        return np.asarray((1 - u) * self.low + u * self.high)


class RunData:
    """The trials of a result that ended, in the order of their numbers.

    Slices and contours pass through `setting`: the recommended one, with the values of `where` in place of its own.
    """

    def __init__(self, result: Result, where: Mapping[str, Any] | None = None) -> None:
        # values are drawn up to this size: differences of larger ones, and the margins of axes, leave the range of
        # floats
        most_drawn = 1e300
        self.result, self.optimizer = result, result.optimizer
        self.space, self.task, self.record = self.optimizer.space, self.optimizer.task, self.optimizer.book.record
        self.names = list(self.space.names)
        self.better = self.task.sign
        """The sign that makes larger values better ones."""
        self.trials: list[Trial] = sorted((t for t in result.trials if t.state != "pending"), key=lambda t: t.number)
        self.done = [t for t in self.trials if t.value is not None]
        self.failed = [t for t in self.trials if t.value is None]
        self.numbers = np.array([self.record.number_of(t) for t in self.trials])
        told = np.array([math.nan if t.value is None else t.value for t in self.trials])
        self.values = np.clip(told, -most_drawn, most_drawn)
        self.scales = {name: AxisScale.of(parameter) for name, parameter in self.space.parameters.items()}
        self.where = dict(where or {})
        self.setting = self._through()

    def _through(self) -> dict[str, Any]:
        params = self.result.params
        unknown = [name for name in self.where if name not in self.names]
        if unknown:
            known = ", ".join(self.names)
            raise ValueError(f"where names parameters that are not of this space: {', '.join(unknown)}; it has {known}")
        if not self.where:
            return dict(params)
        setting = {**params, **self.where}
        exists = self.space.active(setting)
        absent = [name for name in self.where if not exists[name]]
        if absent:
            raise ValueError(f"where gives {absent[0]} a value, but it does not exist with its other values")
        missing = [name for name in self.names if exists[name] and name not in setting]
        if missing:
            raise ValueError(f"with this where there is also {', '.join(missing)}: where must give a value")
        setting = {name: value for name, value in setting.items() if exists[name]}
        self.space.check(setting)
        self.space.encode(setting)  # it says which value lies outside its range
        return setting

    @property
    def through(self) -> str:
        """Where slices and contours pass through, in words."""
        given = [f"{name} is {text_of(value)}" for name, value in self.where.items()]
        others = "the other parameters have their recommended values"
        return others if not given else ", ".join(given) + f" and {others}"

    @functools.cached_property
    def best(self) -> int | None:
        """The position of the best trial among `trials`; of several objectives that of the compromise."""
        if self.task.several:
            return next(
                (i for i, t in enumerate(self.trials) if t.value is not None and t.given == self.result.params), None
            )
        return self.trials.index(self.result.best) if self.done else None

    @functools.cached_property
    def seconds(self) -> Array | None:
        """How long each evaluation took, n, NaN where that is not known; None where it is known of none."""
        found = np.array([math.nan if t.seconds is None else t.seconds for t in self.trials])
        return None if np.isnan(found).all() else found

    @functools.cached_property
    def sd(self) -> Array | None:
        """The standard deviations of the values, n, NaN where none was told; None where it was told of none."""
        found = np.sqrt([math.nan if t.var is None or t.value is None else t.var for t in self.trials])
        return None if np.isnan(found).all() else found

    def column(self, name: str) -> Array:
        """The values of a parameter, n; labels as their indices, NaN where a trial does not have the parameter."""
        parameter = self.space.parameters[name]
        return np.array([place(parameter, t.params[name]) if name in t.params else math.nan for t in self.trials])

    @functools.cached_property
    def constraints(self) -> dict[str, Array]:
        """The values of each constraint by its name, n each, NaN where there is none."""
        names = self.task.constraint_names or [f"constraint {k}" for k in range(self.task.n_constraints)]
        rows = [t.constraints or (math.nan,) * len(names) for t in self.trials]
        return {name: np.array([row[k] for row in rows]) for k, name in enumerate(names)}

    def recommended(self, name: str) -> float | None:
        """Where the recommended setting lies on the axis of a parameter."""
        params = self.result.params
        return place(self.space.parameters[name], params[name]) if name in params else None

    @functools.cached_property
    def log_values(self) -> bool:
        """Whether the values start on a logarithmic axis."""
        values = self.values[np.isfinite(self.values)]
        if len(values) == 0 or values.min() <= 0:
            return False
        limit = worse_limit(values, self.better)
        kept = values if limit is None else values[self.better * values >= self.better * limit]
        return bool(kept.max() > WIDE * kept.min())

    @functools.cached_property
    def limit(self) -> float | None:
        """Values worse than this would flatten the others: an axis ends here. None where there are none."""
        values = self.values[np.isfinite(self.values)]
        if not self.log_values:
            return worse_limit(values, self.better)
        limit = worse_limit(np.log(values), self.better)
        return None if limit is None else math.exp(limit)

    def some(self, most: int) -> NDArray[np.int64]:
        """Positions of trials with a value, the worst first: all, or `most` of them, a quarter of which are the best
        ones and the others spread evenly by rank."""
        order = np.argsort(self.better * self.values, kind="stable")[: len(self.done)]  # NaN, which failed, comes last
        if len(order) <= most:
            return order
        best, rest = order[-(most // 4) :], order[: -(most // 4)]
        return np.concatenate([rest[np.linspace(0, len(rest) - 1, most - len(best)).astype(int)], best])

    @property
    def span(self) -> tuple[float, float]:
        """The least and the largest value within the axes."""
        values: Array = self.values[np.isfinite(self.values)]
        if self.limit is not None:
            values = values[self.better * values >= self.better * self.limit]
        return float(values.min()), float(values.max())

    @property
    def value_range(self) -> tuple[float, float, bool]:
        """The ends of an axis of the values, and whether it is logarithmic."""
        low, high = self.span
        pad = 0.0 if high > low else abs(high) / 2 or 0.5
        return low - pad, high + pad, self.log_values and not pad

    @staticmethod
    def range_of(column: Array) -> tuple[float, float, bool]:
        """The same of an objective, n."""
        values = column[np.isfinite(column)]
        low, high = float(values.min()), float(values.max())
        pad = 0.0 if high > low else abs(high) / 2 or 0.5
        return low - pad, high + pad, low > 0 and high > WIDE * low

    @property
    def brackets(self) -> Array:
        """Where the last certificate put the optimum, from the first one on: numbers of trials, lower and upper ends,
        3 x k."""
        found = [(n - 1, c.lower, c.upper) for n, c in zip(*self.certificates, strict=True) if c.certified]
        if not found:
            return np.empty((3, 0))
        at, low, high = np.array(found).T
        trials = np.arange(int(at[0]), len(self.trials))
        last = np.searchsorted(at, trials, side="right") - 1
        low, high, best = low[last], high[last], self.result.best_so_far()[trials]
        if not self.noisy:  # the optimum is at least as good as a value that was seen
            low, high = (low, np.fmin(high, best)) if self.better < 0 else (np.fmax(low, best), high)
        return np.array([self.numbers[trials], low, high])

    @functools.cached_property
    def noisy(self) -> bool:
        """Whether the values show noise."""
        return self.optimizer.method.noise(self.optimizer.history).shows

    @property
    def beyond(self) -> int:
        """How many values the axes leave out."""
        return 0 if self.limit is None else int((self.better * self.values < self.better * self.limit).sum())

    @functools.cached_property
    def certificates(self) -> tuple[list[int], list[Certificate]]:
        return certificates_of(self.optimizer, self.trials)


def worse_limit(values: Array, better: float) -> float | None:
    """The worst of the values that are not far off; None when no value is, or when those do not flatten the others.

    Only the worse side has a limit (better: 1 or -1, the sign that makes larger values better), because the best value
    must always be seen.
    """
    if len(values) < 4:
        return None
    good = better * values
    low, high = np.quantile(good, [0.25, 0.75])
    # 3.0: A value is far off when it lies more than this many interquartile ranges beyond the worse quartile: Tukey's
    # "far out"
    inside = good[good >= low - 3.0 * (high - low)]
    shown, whole = float(inside.max() - inside.min()), float(good.max() - good.min())
    # 3.0: far values are cut from an axis only when they make it longer than the others need by more than this factor
    if len(inside) == len(good) or whole <= 3.0 * shown:
        return None
    return float(better * inside.min())


def certificates_of(optimizer: Optimizer, ended: Sequence[Trial]) -> tuple[list[int], list[Certificate]]:
    """Numbers of evaluations, and the certificate after each: the run's trials are told again to another optimizer."""
    book = optimizer.book
    if not 2 <= len(ended) <= 400 or book.earlier:  # earlier evaluations cannot be told again
        return [], []
    # 12, 400: certificates drawn over a run, and the evaluations of the longest run that is told again for it: a few
    # seconds
    sizes = sorted({round(n) for n in np.geomspace(min(4, len(ended)), len(ended), 12)})
    again, found = Optimizer(optimizer.task, optimizer.recipe), []
    again.book.record.foreign = book.record.foreign
    for n, trial in enumerate(ended, 1):
        again.tell(
            again.adopt(trial.params), trial.value, trial.var, failed=trial.value is None, cost=trial.cost,
            constraints=trial.constraints or None, seconds=trial.seconds,
        )  # fmt: skip
        if n in sizes:
            probing = _probing_at(optimizer, trial, last=n == len(ended))
            # 0.05: the delta of the certificates that are drawn, which is that of `Optimizer.certificate`
            found.append(Standing(again, probing=probing).certificate_at(0.05))
    return sizes, found


def _probing_at(optimizer: Optimizer, trial: Trial, *, last: bool) -> Probing:
    """What was known of a run's probes when this trial ended. What its rule has proven in the end, it had not proven
    before the last one."""
    book, rule = optimizer.book, rule_of(optimizer.book.record.rule)
    steps = tuple(step for step in book.probe_steps if step <= book.record.number_of(trial))
    rule = rule if rule is None or last else rule._replace(proven=None)
    return Probing(steps if steps or optimizer.task.probes else None, book.record.overlapping, rule)


def place(parameter: Parameter, value: Any) -> float:
    """Where a value stands on the axis of its parameter; a label at its index."""
    return float(parameter.index(value)) if isinstance(parameter, Choice) else float(value)


def text_of(value: Any) -> str:
    """A value of a parameter in a few digits; a label of no letters in quotes."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.strip() else f'"{text}"'
