"""`Standing`: what can be said of a run as it stands, and what stop rules see of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from regretless.basics.options import whole_number
from regretless.certificate import SOUGHT_FRONT, Certificate
from regretless.history import History
from regretless.method import Method
from regretless.outlook.bounds import first_beyond
from regretless.outlook.front_left import front_share
from regretless.outlook.probes import Probing, Share, Spending, gap_left, rule_of, share_left
from regretless.space.parameters import Array
from regretless.task import Direction, Task

if TYPE_CHECKING:
    from regretless.outlook.outlook import Forecasts, Outlook
    from regretless.trial import Trial

_forecasts: WeakKeyDictionary[Run, Forecasts] = WeakKeyDictionary()
"""The forecasts that runs were given, because the next ones rest on how they turned out. They follow from the history,
so they are a cache."""


class Run(Protocol):
    """What is needed of an `Optimizer`."""

    task: Task

    @property
    def book(self) -> Any: ...
    @property
    def history(self) -> History: ...
    @property
    def trials(self) -> list[Trial]: ...
    def computing(self) -> AbstractContextManager[Method]: ...


class Standing:
    """A run as it stands.

    Args:
        run: an `Optimizer`.
        beside: points that others are evaluating, d each.
        probing: what is known of the run's probes, where the trials are not the optimizer's own.
    """

    def __init__(self, run: Run, *, beside: Sequence[Array] = (), probing: Probing | None = None) -> None:
        self._run, self._probing, self.task = run, probing, run.task
        self.history = run.history.with_pending(beside) if len(beside) else run.history

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The direction of each objective."""
        return self.task.directions

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order of their numbers."""
        return self._run.trials

    def certificate_at(self, delta: float) -> Certificate:
        """How much worse than the optimum the recommended setting may be, with probability 1 - delta."""
        book, task = self._run.book, self.task
        holds = task.limit is None or first_beyond(task, *book.values()) is None
        with self._run.computing() as method:
            found = gap_left(task, method, self.history, delta, limit_holds=holds)
        if book.record.foreign:
            found = found.for_any_sampler(maximises=task.direction == "maximize", bound=task.limit)
        left = self._share(delta, self._known(rule_of(book.record.rule)))
        sought = SOUGHT_FRONT if task.several else found.sought
        said = replace(found, share=left.value, share_reason=left.reason, probes=left.probes, sought=sought)
        return replace(said, supposes=left.supposes)

    def share_at(self, delta: float, *, rule: Spending | None = None) -> Share:
        """How much of the space can be better, with probability 1 - delta; by one planned look or, with a `rule` that
        may end the run by its values, at every moment."""
        return self._share(delta, self._known(rule)._replace(rule=rule))

    def outlooks(self, trials: Sequence[int]) -> tuple[Outlook, ...]:
        """The outlook for each number of further trials."""
        from regretless.outlook.outlook import Forecasts

        for m in trials:
            whole_number(trials=m)
        with self._run.computing() as method:
            noisy = len(self.history) > 0 and method.noise(self.history).shows
            if self._run not in _forecasts:
                _forecasts[self._run] = Forecasts(method.cube)
            return _forecasts[self._run].outlook(self.history, trials, noisy=noisy, task=self.task)

    def _share(self, delta: float, probing: Probing) -> Share:
        with self._run.computing() as method:
            if self.task.several:
                return front_share(self.task, method, self.history, self._run.book, probing, delta)
            return share_left(self.task, method, self.history, probing, delta)

    def _known(self, rule: Spending | None) -> Probing:
        """What is known of the probes; those of an optimizer follow from its book."""
        book = self._run.book
        steps = tuple(book.probe_steps) if book.probe_steps or self.task.probes else None
        return self._probing or Probing(steps, book.record.overlapping, rule)
