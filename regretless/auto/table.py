"""Who proposes when, and why: the decision of `auto` as a table, and the functions that read it.

`BEGINNING` is read top to bottom: the first row that holds says who leads the run at first. `CHANGES` lists what may
happen on the way; the latest change that has come and names a part says who leads from then on. A row gives its reason
in the words that users read (`why`). All of it is a function of a `Situation`, and so of the run and its history.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from regretless.auto.draws import LEAST
from regretless.auto.exact import has_steps, is_many, only_lines
from regretless.models.gp.design import design_size
from regretless.space import Cube

MODEL, WIDE, EVOLUTION, DRAWS = "model", "gp-ei", "cma-es", "draws"
"""The parts: `auto.model`, what the methods of these names propose, and `auto.draws`."""
FRONT_MODEL, FRONT_EVOLUTION = "gp-ehvi", "sms-emoa"
"""The parts for several objectives, likewise."""

MODEL_UP_TO = 20  # parameters that the model is taken for; beyond them `gp-ei` searches (docs/lab/auto.md)
LONG = 3000  # a larger budget means cheap evaluations: there an ask of the model would take longer than they do
HANDED_AT = 1000  # values after which the evolution takes over in runs of smaller budgets; the model then asks in 0.1 s
PLANNED_ALONE = 300  # the largest budget that is the model's alone
SHARES = ((1, 1), (2, 2), (4, 4), (6, 8))
"""In larger budgets, and without one: up to so many times the asks that the model has alone, each so many-th ask is
its, the others are CMA-ES's. The values are no worse than those of the model alone, after 500 they are better, and asks
take a third of the time (docs/lab/auto.md)."""
ALONE = {PLANNED_ALONE: 300.0, LONG: 100.0, 10_000: 0.0}
"""How many asks the model has alone, by the budget; between these a line over the logarithm of the budget, so that no
budget costs much more or less than the next one. Without a budget a run is taken for the longest that is not long."""
ALONE_ROUGH = {LONG: 300.0, 10_000: 0.0}
"""The same with whole numbers, steps, choices or regions, and where noise is certain by then: there the evolution
learns less, and in turns from the 101st ask on it missed spheres of whole numbers (docs/lab/auto.md)."""
ALONE_WIDE = {LONG: 600.0, 10_000: 0.0}
"""The same with more parameters than the model is taken for: turns lose a decade there (docs/lab/auto.md)."""
TURNS_END = 600  # evaluations after which the evolution has all asks: fits to more values take long
MANY_PENDING, GENERATIONS = 16, 20
"""Beside more than 16 points under way every second ask of the evolution is drawn from a model of few values, until the
workers have told 20 times as many values as points are under way: the evolution learns from generations, and such a run
has had few of them. Chosen on Rosenbrock and Levy (docs/lab/crowds.md)."""
FRONT_LONG = 600
"""With several objectives, the evaluations from which the evolution goes on: the model's asks then take 0.1 s."""
TURNS, TURNS_UNTIL = 16, 200
"""In a long run every 16th ask is the model's, up to 200 evaluations. With every eighth the first hundred asks take
longer than TPE's, and their values are no better (docs/lab/auto.md)."""


@dataclass(frozen=True)
class Situation:
    """What the table decides by. The first six entries are the run's, the others those of one history and one ask."""

    dim: int
    """The number of coordinates."""
    widest: int
    """The largest number of them that exist at once."""
    stepped: bool
    """Whether some of them are whole numbers or steps."""
    many: bool
    """Whether they are many, or a tree (`is_many`)."""
    lines: bool
    """Whether every point of the cube is legal."""
    budget: int | None
    several: bool = False
    """Whether there are several objectives."""
    weighed: bool = False
    """Whether constraints or costs come with the values; the model alone learns them."""
    stated: bool = False
    """Whether options or a bound say that there is noise."""
    noisy_at: int | None = None
    """The number of values with which noise became certain; None: the values do not show it."""
    exact_at: int | None = None
    """The number of values with which a setting gave the same value again."""
    by_variance: bool = False
    """Whether noise became certain by a told variance."""
    values: int = 0
    evaluations: int = 0
    """The values, the failures and the points under way."""
    pending: int = 0
    """The points under way."""
    step: int = 0
    """The number of the ask."""

    @classmethod
    def of(cls, cube: Cube, budget: int | None) -> "Situation":
        """The beginning of a run."""
        return cls(cube.dim, cube.widest, has_steps(cube), is_many(cube), only_lines(cube), budget)

    @property
    def long(self) -> bool:
        """Whether the budget is that of cheap evaluations."""
        return self.budget is not None and self.budget > LONG and not self.weighed

    @property
    def wide(self) -> bool:
        """Whether there are more parameters than the model is taken for."""
        return self.widest > MODEL_UP_TO and not self.weighed

    @property
    def model(self) -> str:
        """The part that is a model."""
        return FRONT_MODEL if self.several else WIDE if self.wide else MODEL

    @property
    def shared(self) -> bool:
        """Whether the model and the evolution take turns."""
        return (self.budget is None or PLANNED_ALONE < self.budget <= LONG) and not self.weighed

    @property
    def alone(self) -> int:
        """How many asks the model has alone, before the evolution takes turns."""
        budget = LONG if self.budget is None else self.budget
        smooth = asks_alone(budget, ALONE)
        noisy = self.stated or (self.noisy_at is not None and self.noisy_at <= smooth)
        return asks_alone(budget, ALONE_WIDE if self.wide else ALONE_ROUGH if noisy or not self.lines else ALONE)

    @property
    def shared_until(self) -> int:
        """The evaluations up to which the model and the evolution take turns."""
        return min(SHARES[-1][0] * self.alone, TURNS_END)

    @property
    def draws_take_turns(self) -> bool:
        """Whether the model of few values takes turns with the evolution."""
        due = LEAST <= self.values < GENERATIONS * self.pending
        exact = not self.stated and self.noisy_at is None and not self.several and not self.weighed
        return due and exact and self.pending > MANY_PENDING and self.dim <= MODEL_UP_TO

    @property
    def shown(self) -> int:
        """The number of values with which noise was first known; 0: it is not known, or was stated."""
        return 0 if self.stated else self.noisy_at or 0

    @property
    def found(self) -> str:
        """What showed it."""
        return "a noise variance was told" if self.by_variance else "a setting gave two different values"

    @property
    def shown_without_model(self) -> bool:
        """Whether it was shown where no model of all values is searched."""
        alone = self.shared_until if self.shared else HANDED_AT
        return self.shown > 0 and (self.long or self.wide or self.shown >= alone)


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    when: Callable[[Situation], bool]
    """Whether it holds."""
    part: str | None
    """The part that leads from then on: it recommends, certifies and, unless there is a turn, proposes. None: as it
    was."""
    why: str
    """The reason; entries of the situation are filled in."""
    turn: Callable[[Situation], int] | None = None
    """Where model and evolution take turns: every so many-th ask is the model's, or none (0)."""
    at: Callable[[Situation], int] = lambda s: 0
    """After how many values or evaluations it came."""
    of: str = "value"
    """Which of the two are counted."""


def asks_alone(budget: int, asks: dict[int, float]) -> int:
    """How many asks the model has alone, on a line over the logarithm of the budget between those given."""
    return _asks_alone(budget, tuple(asks.items()))


@functools.lru_cache(maxsize=64)
def _asks_alone(budget: int, asks: tuple[tuple[int, float], ...]) -> int:
    budgets, counts = zip(*asks, strict=True)
    return round(float(np.interp(math.log(budget), list(map(math.log, budgets)), counts)))


def turn_when_long(s: Situation) -> int:
    """In a long run the model proposes the design, and then now and then a point."""
    if s.evaluations < design_size(s.dim, s.budget):
        return 1
    return turn_when_shared(s) or (TURNS if s.evaluations < TURNS_UNTIL else 0)


def turn_when_shared(s: Situation) -> int:
    """The evolution proposes ever more of the points, and in the end all."""
    if s.evaluations >= s.shared_until:
        return 0
    return next(every for times, every in SHARES if s.evaluations < times * s.alone)


SEVERAL = (
    Row(
        lambda s: s.long, FRONT_EVOLUTION, turn=turn_when_long,
        why="several objectives and {s.budget} evaluations: SMS-EMOA, whose asks take microseconds",
    ),
    Row(
        lambda s: True, FRONT_MODEL,
        why="several objectives: an exact GP for each, and the expected gain in hypervolume",
    ),
)  # fmt: skip
"""How a run with several objectives begins: the first row that holds."""

SEVERAL_CHANGES = (
    Row(
        lambda s: not s.long and s.values >= FRONT_LONG, FRONT_EVOLUTION,
        at=lambda s: FRONT_LONG,
        why="asks of the models would take long, so SMS-EMOA goes on",
    ),
)  # fmt: skip
"""What may happen on the way there."""

BEGINNING = (
    Row(
        lambda s: s.long, EVOLUTION, turn=turn_when_long,
        why="{s.budget} evaluations: CMA-ES, whose asks take microseconds, learns from all values",
    ),
    Row(
        lambda s: s.wide, WIDE,
        why="{s.dim} parameters: one GP with expected improvement and no turns (gp-ei)",
    ),
    Row(
        lambda s: s.stepped, MODEL,
        why="{s.dim} parameters, some of them whole numbers or steps: an exact GP with expected improvement",
    ),
    Row(
        lambda s: s.many, MODEL,
        why="{s.dim} parameters: an exact GP with expected improvement",
    ),
    Row(
        lambda s: True, MODEL,
        why="{s.dim} parameters: an exact GP; expected improvement and a confidence bound take turns"
        " (beside points under way: drawn functions and a narrower bound)",
    ),
)  # fmt: skip
"""How a run begins: the first row that holds."""

CHANGES = (
    Row(
        lambda s: s.shared and s.evaluations >= s.alone, MODEL, turn=turn_when_shared,
        at=lambda s: s.alone, of="evaluation",
        why="CMA-ES takes turns with the model, whose asks become long",
    ),
    Row(
        lambda s: s.shared and s.evaluations >= s.shared_until, EVOLUTION,
        at=lambda s: s.shared_until, of="evaluation",
        why="asks of a model would take long, so CMA-ES goes on",
    ),
    Row(
        lambda s: s.values >= HANDED_AT and not (s.shared or s.weighed or s.long), EVOLUTION,
        at=lambda s: HANDED_AT,
        why="asks of a model would take long, so CMA-ES goes on",
    ),
    Row(
        lambda s: s.exact_at is not None and not s.stated, None,
        at=lambda s: s.exact_at or 0,
        why="a setting gave the same value again, so there is no noise",
    ),
    Row(
        lambda s: s.shown_without_model, None,
        at=lambda s: s.shown,
        why="{s.found}, so the best value may be luck",
    ),
    Row(
        lambda s: s.shown > 0 and not s.shown_without_model, None,
        at=lambda s: s.shown,
        why="{s.found}, so evaluations go where they tell most about the best",
    ),
)  # fmt: skip
"""What may happen on the way, in any order."""


def first_row(s: Situation) -> Row:
    """The row of the beginning."""
    return next(row for row in (SEVERAL if s.several else BEGINNING) if row.when(s))


def changes(s: Situation) -> list[Row]:
    """The changes that have come, in their order."""
    rows = SEVERAL_CHANGES if s.several else CHANGES
    return sorted((row for row in rows if row.when(s)), key=lambda row: (row.at(s), row.of, row.why.format(s=s)))


def leader(s: Situation) -> Row:
    """The row by which the run is led at present."""
    return next((row for row in reversed(changes(s)) if row.part is not None), first_row(s))


def proposer(s: Situation) -> str:
    """The part that proposes at this ask."""
    row = leader(s)
    every = row.turn(s) if row.turn is not None else 0
    if every and s.step % every == 0:
        return s.model
    part = str(row.part) if row.turn is None else FRONT_EVOLUTION if s.several else EVOLUTION
    return DRAWS if part == EVOLUTION and s.draws_take_turns and s.step % 2 == 0 else part


def answerer(s: Situation) -> str:
    """The part that recommends and certifies: the one that leads when values alone are counted."""
    part = leader(replace(s, evaluations=s.values)).part
    return s.model if part == MODEL else str(part)


def explained(s: Situation) -> str:
    """How the run began and each change, with the number of values or evaluations at which it came."""
    first = first_row(s).why.format(s=s) + "; noise was stated" * s.stated
    sentences = [f"after {row.at(s)} {row.of}{'s' * (row.at(s) > 1)}: {row.why.format(s=s)}" for row in changes(s)]
    return "; ".join([first, *sentences])
