"""One ask of the model, and the two steps that runs with and without noise share."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.models.gp.acquisition import upper_confidence
from regretless.models.gp.maximiser import Acquisition, Effort
from regretless.models.gp.posterior import GP
from regretless.space import Cube
from regretless.space.parameters import Array

DRAWN = Effort(raw=96)  # a drawn function is valued at a quarter of an ask's candidates: each costs 20 times more


@dataclass(frozen=True)
class Ask:
    """What a step works with: the arguments of `Method.propose`, and what the model makes of them."""

    history: History
    cube: Cube
    rng: Draws
    budget: int | None
    gp: GP
    """The posterior, points under way hallucinated."""
    of_values: Callable[[], GP]
    """Gives the posterior of the values alone."""
    value_to_beat: Callable[[], float]
    """Gives the largest posterior mean at a point that is known or under way."""
    maximise: Callable[..., Array]
    """Gives the point that maximises an acquisition, weighed by constraints, costs and the user's prior."""

    @property
    def pending(self) -> int:
        """The number of points under way."""
        return len(self.history.pending)

    def spent(self, share: float) -> bool:
        """Whether so large a share of a known budget is spent or under way."""
        return self.budget is not None and self.history.evaluations >= share * self.budget

    def best(
        self, acquisition: Acquisition, *, gp: GP | None = None, cube: Cube | None = None, **options: Any
    ) -> Array:
        """The point that maximises an acquisition of a posterior on a part of the cube, d."""
        return self.maximise(self.history, cube or self.cube, gp or self.gp, acquisition, self.rng, **options)


def bound_step(ask: Ask, width: float) -> Array:
    """The largest confidence bound of a width, d; of width 0 it is the largest mean."""
    return ask.best(upper_confidence(ask.gp, width))


def drawn_step(ask: Ask) -> Array:
    """The best point of a function drawn from the posterior, d; each draw is another, so pending points need no
    care."""
    gp = ask.of_values()
    path = gp.path(ask.rng)
    return ask.best(Acquisition(path, path.values), gp=gp, effort=DRAWN)


def narrowed(width: float, pending: int) -> float:
    """The width of a confidence bound beside so many points under way."""
    # 2.0: with p points pending the squared width is divided by 1 + p / 2 (docs/lab/auto.md)
    return width / math.sqrt(1.0 + pending / 2.0)
