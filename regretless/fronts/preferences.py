"""What a user wants of a front, learnt from answers to "which of these two would you rather have?".

A user is taken to weigh the objectives as `choice.compromise` does, by weights that nobody knows. Many weights are kept
with a probability each. An answer raises those that agree with it; the next question is the pair of members between
which the weights that are left are most divided.

**Notation** w weights (u x k), shares of the front's range that each member gains (m x k).
"""

from __future__ import annotations

import numpy as np

from regretless.basics.streams import keyed_generator
from regretless.fronts.choice import gained
from regretless.space.parameters import Array

WEIGHTS = 500
"""How many weights are kept."""
HASTY = 0.1
"""The probability that an answer is not what the user's weights say."""


class Preferences:
    """What is known of a user's weights, for a front Y (m x k)."""

    def __init__(self, Y: Array) -> None:
        # exponential draws that are divided by their sum are uniform on the simplex
        w = keyed_generator(0, 5).exponential(size=(WEIGHTS, Y.shape[1]))
        self._worth = np.log(gained(Y)) @ (w / w.sum(axis=1, keepdims=True)).T
        """What each member is worth to each of the weights, m x u."""
        self._chance = np.full(WEIGHTS, 1.0 / WEIGHTS)
        self._asked: set[tuple[int, int]] = set()

    @property
    def best(self) -> int:
        """The row of the member that is worth most on average over what the user may want, as a share of the best."""
        return int(np.argmax(np.exp(self._worth - self._worth.max(axis=0)) @ self._chance))

    def question(self) -> tuple[int, int] | None:
        """The rows of the two members to ask about; None: all weights that matter agree on one member."""
        top = self._worth.argmax(axis=0)
        rows = np.unique(top)
        share = np.array([self._chance[top == row].sum() for row in rows])
        best: tuple[float, tuple[int, int]] | None = None
        for i in range(len(rows)):
            for j in range(i + 1, len(rows)):
                a, b = int(rows[i]), int(rows[j])
                if (a, b) in self._asked:
                    continue
                prefers = self._worth[a] > self._worth[b]
                divided = float(min(self._chance[prefers].sum(), self._chance[~prefers].sum()))
                # members that few weights want are poor to ask about, however divided the others are
                score = divided * float(share[i] + share[j])
                if best is None or score > best[0]:
                    best = score, (a, b)
        return None if best is None or best[0] <= 0.0 else best[1]

    def prefer(self, a: int, b: int) -> None:
        """Takes in that the user would rather have member a than member b."""
        self._asked.add((min(a, b), max(a, b)))
        self._chance = self._chance * np.where(self._worth[a] >= self._worth[b], 1.0 - HASTY, HASTY)
        self._chance /= self._chance.sum()
