"""`verify`: every proposal of a run made anew, from what was known when it was made.

A proposal is a function of the task, the method, the history and the number of the trial. A run keeps what each
proposal had seen (`Trial.seen`), so anybody who has its file can compute each one again and compare the points bit for
bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regretless.basics.extras import optional
from regretless.files.book import Book, as_seen, empty_history, with_earlier
from regretless.history import History
from regretless.optimizer import Optimizer, proposal
from regretless.trial import Trial


@dataclass(frozen=True)
class Verdict:
    """How many proposals of a run are equal when they are made anew."""

    equal: int
    different: tuple[int, ...]
    """The numbers of the trials whose point is another one."""
    given: int
    """Trials of which nothing can be said: their setting, or a part of it, was somebody's own, their history was
    corrected later or, in a study of several workers, is not known."""

    @property
    def proposals(self) -> int:
        """How many proposals were made anew."""
        return self.equal + len(self.different)

    def __str__(self) -> str:
        words = f"{self.equal} of {self.proposals} proposals are equal bit for bit"
        words += f"; {self.given} settings were given, or made beside others" if self.given else ""
        if self.different:
            words += f"; different are those of the trials {', '.join(map(str, self.different[:10]))}"
            words += ", ..." if len(self.different) > 10 else ""
        return words

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "proposals": self.proposals,
            "equal": self.equal,
            "different": list(self.different),
            "given": self.given,
            "words": str(self),
        }


def verify(run: str | Path | Optimizer, *, every: int = 1) -> Verdict:
    """Makes the proposals of a run anew: all of them, or those of every so many-th trial.

    run: the file of a run, or its optimizer.
    """
    stored = run if isinstance(run, Optimizer) else Optimizer.load(run)
    task, fresh = stored.task, Optimizer(stored.task, stored.recipe).method
    equal, different, given = 0, [], 0
    for trial, history in _histories(stored):
        if history is None:
            given += 1
        elif trial.number % every == 0:
            same = proposal(task, fresh, history, trial.number).tobytes() == trial.unit.tobytes()
            equal += same
            different += [] if same else [trial.number]
    return Verdict(equal, tuple(different), given)


def verify_study(storage: str, study: str, *, every: int = 1) -> Verdict:
    """The same for a study that `regretless tune --storage` made, whose trials follow from those before them."""
    audit = optional("regretless.doors.optuna.audit", "optuna")
    equal, different, given = 0, [], 0
    for number, same in audit.audited(storage, study):
        if same is None:
            given += 1
        elif number % every == 0:
            equal += same
            different += [] if same else [number]
    return Verdict(equal, tuple(different), given)


def _histories(stored: Optimizer) -> Iterator[tuple[Trial, History | None]]:
    """Each trial with the history that its proposal had seen; None where the setting was given."""
    book, known = stored.book, empty_history(stored.task, stored.method)
    ended = earlier = 0
    place = {number: i for i, number in enumerate(book.ended)}
    for trial in book.trials:
        if trial.seen is None:
            yield trial, None
            continue
        known = _learnt(known, stored, book, (ended, earlier), trial.seen)
        ended, earlier = trial.seen
        away = [t.unit for t in book.trials[: trial.number] if place.get(t.number, ended) >= ended]
        yield trial, known.with_pending(away) if away else known


def _learnt(known: History, stored: Optimizer, book: Book, since: tuple[int, int], until: tuple[int, int]) -> History:
    """A history with what became known between two moments, each the numbers of trials that had ended and of earlier
    evaluations, in the order in which it did."""
    (ended, earlier), task = since, stored.task
    while (ended, earlier) != until:
        if earlier < until[1] and book.earlier[earlier].after <= ended:
            known = with_earlier(known, task, [book.earlier[earlier]])
            earlier += 1
        elif ended < until[0]:
            number = book.ended[ended]
            if number not in book.forgotten:
                y, var, side_values = as_seen(book.trials[number], task, known)
                known = known.with_values(
                    book.trials[number].unit[None],
                    [y],
                    yvar=[var],
                    side_values=[side_values] if known.n_side_values else None,
                )
            ended += 1
        else:
            raise ValueError("a proposal has seen what nobody told: the file is damaged")
    return known
