"""Who trains next, and for how long: the promotion schedule of a bilevel study, and the planner that splits a budget of steps.

A schedule is a pure function of the runs so far, so a study that is killed and resumed makes the same decisions. `Promotion` climbs a ladder
of rungs (horizons): a run in the top share of its rung is thawed and trained on to the next one, otherwise a new setting starts at the
bottom (the asynchronous successive halving of Li et al., MLSys 2020, with checkpoints); the last part of the budget trains the leaders on.
`Fixed` gives every setting the same horizon, as Algorithms 1 and 2 of the bilevel paper do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from regretless.space import Space, SpaceLike

REDUCTION = 3
"""Every third run climbs; each rung is three times the one below (measured: shared/…)."""


@dataclass
class Run:
    """One inner training run: how far it has come and what it was seen to lose."""

    number: int
    steps: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)
    """(steps, validation loss), in the order seen."""
    ends: dict[int, float] = field(default_factory=dict)
    """The loss at the end of each stretch of training, by steps; infinite when the run diverged."""
    thawable: bool = True
    """Whether it can be trained on: its state is kept and it has neither failed, diverged nor finished."""

    @property
    def loss(self) -> float:
        """The loss where the run stands; infinite before the first validation and after a failure."""
        return self.ends.get(self.steps, math.inf)


@dataclass(frozen=True)
class Job:
    """Train `run` (None: a new setting) until it has taken `until` steps in all."""

    run: int | None
    until: int
    why: Literal["new", "promoted", "leader"]


@dataclass(frozen=True)
class Fixed:
    """`trials` settings, each trained for `horizon` steps."""

    trials: int
    horizon: int

    def __post_init__(self) -> None:
        _at_least_one(trials=self.trials, horizon=self.horizon)

    @property
    def budget_steps(self) -> int:
        return self.trials * self.horizon

    def job(self, runs: Sequence[Run], spent: int) -> Job | None:
        return Job(None, self.horizon, "new") if len(runs) < self.trials else None


@dataclass(frozen=True)
class Promotion:
    """Promotion over rungs until `budget_steps` are spent, the last `final_share` of them on the leaders alone."""

    budget_steps: int
    rungs: tuple[int, ...]
    reduction: float = REDUCTION
    final_share: float = 0.0

    def __post_init__(self) -> None:
        _at_least_one(budget_steps=self.budget_steps)
        if not self.rungs or any(b <= a for a, b in zip((0, *self.rungs), self.rungs, strict=False)):
            raise ValueError(f"rungs must be whole numbers of steps that grow from at least 1, got {self.rungs!r}")
        if not self.reduction > 1:
            raise ValueError(f"reduction must be above 1, got {self.reduction!r}")
        if not 0 <= self.final_share < 1:
            raise ValueError(f"final_share must be at least 0 and below 1, got {self.final_share!r}")

    def job(self, runs: Sequence[Run], spent: int) -> Job | None:
        left = self.budget_steps - spent
        if left <= 0:
            return None
        if left > self.final_share * self.budget_steps and left >= self.rungs[0]:
            run = self._promotable(runs)
            if run is None:
                return Job(None, self.rungs[0], "new")
            until = next(r for r in self.rungs if r > run.steps)
            if until - run.steps <= left:
                return Job(run.number, until, "promoted")
        return self._leader(runs, left)

    def _promotable(self, runs: Sequence[Run]) -> Run | None:
        """The best run that belongs to the top share of the highest rung that has such a run."""
        for rung in reversed(self.rungs[:-1]):
            reached = sorted((r for r in runs if rung in r.ends), key=lambda r: (r.ends[rung], r.number))
            for run in reached[: int(len(reached) / self.reduction)]:
                if run.steps == rung and run.thawable and math.isfinite(run.ends[rung]):
                    return run
        return None

    def _leader(self, runs: Sequence[Run], left: int) -> Job | None:
        """The best run so far goes on, to `reduction` times its steps or to the end of the budget."""
        alive = [r for r in runs if r.thawable and math.isfinite(r.loss)]
        if not alive:
            return Job(None, min(left, self.rungs[0]), "new")
        best = min(alive, key=lambda r: (r.loss, r.number))
        return Job(best.number, best.steps + min(left, max(1, math.ceil(best.steps * (self.reduction - 1)))), "leader")


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
