"""The book of a run: everything that was asked and told, once.

`Book` holds the trials, the order in which they ended, the evaluations that are no trials of the run, and a `Record` of
plain facts. The history that methods see follows from it (`history_of`), so a file that holds a book cannot disagree
with itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from regretless.history import History
from regretless.method import Method
from regretless.space.parameters import Array
from regretless.task import Task
from regretless.trial import Trial


@dataclass
class Record:
    """What is known of a run beside its values, in plain form."""

    name: str = ""
    """What the objective, or the study, is called."""
    source: str = ""
    """The fingerprint of the objective's text."""
    began: float | None = None
    """When the run began, in seconds since 1970."""
    ended: float | None = None
    """When its last trial ended."""
    rule: dict[str, Any] | None = None
    """What the stop rule has counted; None: no rule may end the run by its values."""
    foreign: bool = False
    """Whether another library's sampler chose settings, and this run was only told of them."""
    numbers: list[int] | None = None
    """The numbers that the trials have in the study they were read from; None: their own."""
    probes: list[int] | None = None
    """The numbers of the trials that were uniform probes, in the study they were read from."""
    overlapping: bool = False
    """Whether several trials were ever under way at once."""
    machine: str = ""
    """The machine that proposes (`basics.machine`); "": the run was in no file yet."""

    def number_of(self, trial: Trial) -> int:
        """The number by which the user knows a trial."""
        return trial.number if self.numbers is None else self.numbers[trial.number]

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Record:
        """The record whose fields these are; raises ValueError for anything else."""
        kinds = {
            "name": str, "source": str, "began": float | None, "ended": float | None, "rule": dict | None,
            "foreign": bool, "numbers": list | None, "probes": list | None, "overlapping": bool,
            "machine": str,
        }  # fmt: skip
        if set(content) != {f.name for f in fields(cls)}:
            raise ValueError(f"no record of a run has the entries {sorted(content)}")
        for name, kind in kinds.items():
            if not isinstance(content[name], kind):
                raise ValueError(f"the record says {name} = {content[name]!r}")
        for name in ("numbers", "probes"):
            if any(type(n) is not int or n < 0 for n in content[name] or ()):
                raise ValueError(f"the record says {name} = {content[name]!r}")
        return cls(**content)


class Earlier(NamedTuple):
    """One evaluation that is no trial of the run: made before it, or by others."""

    unit: Array
    """Its place, d; outside the cube where `outside`."""
    value: float
    """In the user's units; NaN: it failed."""
    var: float = math.nan
    """Its noise variance; NaN: unknown."""
    constraints: tuple[float, ...] = ()
    outside: bool = False
    after: int = 0
    """How many trials had ended when it was learnt; the run that learns it says so."""
    further: tuple[float, ...] = ()
    """The values of the other objectives, where there are several."""
    further_var: tuple[float, ...] = ()
    """Their noise variances."""


@dataclass
class Book:
    """Everything that was asked and told in a run."""

    trials: list[Trial] = field(default_factory=list)
    """All trials, in the order of their numbers."""
    ended: list[int] = field(default_factory=list)
    """The numbers of those that ended, in the order in which they did."""
    forgotten: set[int] = field(default_factory=set)
    """Those of them that were given up, which says nothing against their settings."""
    earlier: list[Earlier] = field(default_factory=list)
    probe_steps: list[int] = field(default_factory=list)
    """The steps whose trials were to be probes, those whose draw was known already included."""
    record: Record = field(default_factory=Record)
    handed: list[tuple[int, str]] = field(default_factory=list)
    """Numbers of trials, and the clients to whom they were given, in the order in which that happened."""
    corrections: int = 0
    """How often something was taken back; what was made from the book before that is to be made anew."""

    def values(self) -> tuple[list[float], list[float]]:
        """All values told of settings inside the space, of the first objective, and their noise variances (NaN: not
        known)."""
        ended = [t for t in (self.trials[number] for number in self.ended) if t.value is not None]
        inside = [e for e in self.earlier if not e.outside]
        variances = [*(math.nan if t.var is None else t.var for t in ended), *(e.var for e in inside)]
        return [*(t.value for t in ended if t.value is not None), *(e.value for e in inside)], variances

    def reopen(self, number: int) -> None:
        """Takes back what was told of a trial, which is then pending again: tell it the right value, or forget it.

        What was proposed since rests on the value that was taken back, so it cannot be made anew (`Trial.seen`).
        A file that holds the book must be written whole afterwards.
        """
        if number not in self.ended:
            raise ValueError(f"trial {number!r} has not been told, so there is nothing to take back")
        place = self.ended.index(number)
        self.ended.remove(number)
        self.forgotten.discard(number)
        self.earlier = [e._replace(after=e.after - (e.after > place)) for e in self.earlier]
        for t in self.trials:
            t.seen = None if t.seen is not None and t.seen[0] > place else t.seen
        own = self.trials[number]
        own.state, own.value, own.var, own.cost, own.seconds = "pending", None, None, None, None
        own.constraints, own.error, own.further, own.further_var = (), "", (), ()
        self.corrections += 1


def history_of(task: Task, method: Method, book: Book) -> History:
    """What a method sees of a book: its values, in the order in which they came, turned for a maximisation."""
    history = empty_history(task, method)
    for batch in _in_order(book):
        if isinstance(batch[0], Earlier):
            history = with_earlier(history, task, batch)
        else:
            X = np.array([t.unit for t in batch])
            y, var, side_values = zip(*(as_seen(t, task, history) for t in batch), strict=True)
            history = history.with_values(X, y, yvar=var, side_values=side_values if history.n_side_values else None)
    return history.with_pending([t.unit for t in book.trials if t.state == "pending"])


def empty_history(task: Task, method: Method) -> History:
    """The history of a run in which nothing has happened. A method that cannot learn constraints sees none."""
    learns = task.n_constraints if method.traits.constraints else 0
    return History(
        method.dim, objectives=len(task.directions), constraints=learns, cost=task.cost is not None,
        noise_bound=task.noise_bound, reference=task.least_of_interest,
    )  # fmt: skip


def as_seen(trial: Trial, task: Task, history: History) -> tuple[list[float], list[float], list[float]]:
    """A trial that ended as a method sees it: the values to be maximised (NaN: it failed), their noise variances and
    what comes with them. For a method that learns no constraints, a setting that breaks one has failed."""
    if trial.value is None or not (history.n_constraints or trial.feasible):
        nothing = [math.nan] * history.objectives
        return nothing, nothing, [math.nan] * history.n_side_values
    cost = [trial.cost or 0.0] if history.has_cost else []
    y = [sign * value for sign, value in zip(task.signs, trial.values, strict=True)]
    var = [math.nan if var is None else var for var in trial.variances]
    return y, var, [*trial.constraints[: history.n_constraints], *cost]


def with_earlier(history: History, task: Task, found: Sequence[Earlier]) -> History:
    """A history with evaluations that are no trials, all of them inside the cube or all outside."""
    X = np.array([e.unit for e in found])
    y = np.array(task.signs) * np.array([[e.value, *e.further] for e in found])
    var = np.array([[e.var, *e.further_var] for e in found])
    if found[0].outside:
        return history.with_outside(X, y, var)
    C = np.array([e.constraints for e in found]).reshape(len(found), -1)
    if not history.n_constraints:
        y[(C > 0).any(axis=1) | np.isnan(C).any(axis=1)] = np.nan
    return history.with_values(X, y, yvar=var, side_values=C if history.n_constraints else None)


def _in_order(book: Book) -> Iterator[list[Trial] | list[Earlier]]:
    """The trials that ended and the earlier evaluations, in batches of one kind, in the order in which they came."""
    ended, at = [number for number in book.ended if number not in book.forgotten], 0
    forgotten_before = np.cumsum([0, *(number in book.forgotten for number in book.ended)])
    batch: list[Earlier] = []
    for e in book.earlier:
        place = e.after - int(forgotten_before[e.after])
        if batch and (place > at or e.outside != batch[0].outside):
            yield batch
            batch = []
        if place > at:
            yield [book.trials[number] for number in ended[at:place]]
            at = place
        batch.append(e)
    if batch:
        yield batch
    if at < len(ended):
        yield [book.trials[number] for number in ended[at:]]
