"""SMS-EMOA: Beume, Naujoks and Emmerich, "SMS-EMOA: Multiobjective selection based on dominated hypervolume", European
Journal of Operational Research 181 (2007).

A population is kept. A new point comes from members of it, joins it, and then the member leaves that adds least to the
hypervolume. An ask costs microseconds, however long the history is.

Notation
    P, mu       the population and its size
    S           the last layer of P: the members that only members of it do not dominate

Deviations
    1. The population is a function of the history: every value joins it in turn, whoever chose its point.
    2. Half of the children come from the paper's operators, simulated binary crossover and polynomial mutation (Deb and
       Agrawal 1995), which search along the axes; half are steps along the difference of two members, which follow
       valleys across them (Storn and Price 1997).
    3. From three objectives on contributions are estimated: the hypervolume is an average over directions of how far
       the front reaches in each, so a member adds what it reaches beyond the second (Deng and Zhang 2019).
    4. Choices are taken from either parent, and now and then drawn afresh.
    5. Members that are worse than the user's reference in some objective leave before those that are not.
"""

from __future__ import annotations

import numpy as np

from regretless.basics.streams import Draws
from regretless.fronts.dominance import layers
from regretless.fronts.hypervolume import contributions
from regretless.history import History
from regretless.method import Traits
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.design import away_from_known
from regretless.space import Cube
from regretless.space.parameters import Array

POPULATION = (20, 100)  # the least and the largest population
FACTOR = (0.2, 0.9)  # such a step is between these times as long as the difference


class SMSEMOA(DesignedMethod):
    """SMS-EMOA, an evolution strategy for fronts: for many cheap evaluations."""

    traits = Traits(objectives=True)

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        # 20: populations that a known budget is to last for, at least
        self.population = POPULATION[1] if budget is None else int(np.clip(budget // 20, *POPULATION))
        """How many members there are at most."""
        super().__init__(cube, seed=seed, budget=budget, initial=self.population, centre=False)
        self._begin()

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        self._catch_up(history)
        P = self._X
        a, b, c = P[rng.integers(len(P), size=3)]
        # 0.5: the share of children that are steps along a difference
        if rng.random() < 0.5:
            child = a + rng.uniform(*FACTOR) * (b - c)
            child = np.where((child < 0) | (child > 1), (np.clip(child, 0, 1) + a) / 2, child)  # half way to the border
        else:
            # 0.9: the rate of the crossover, as in other libraries
            child = a if rng.random() >= 0.9 else crossed(a, b, rng)
        labels = cube.categorical
        child = np.where(labels & (rng.random(self.dim) < 0.5), b, np.where(labels, a, child))
        child = mutated(child, labels, rng)
        return away_from_known(cube.snap(child), history, cube, rng)

    def _begin(self) -> None:
        self._X, self._Y = np.empty((0, self.dim)), np.empty((0, 0))

    def _update(self, history: History, first: int) -> None:
        if not len(self._X):
            self._Y, self._reference = np.empty((0, history.objectives)), history.reference
            # 512: directions in which the estimated hypervolume is measured
            self._directions = np.abs(self._fixed_generator().standard_normal((512, history.objectives)))
            self._directions /= np.sqrt((self._directions**2).sum(axis=1, keepdims=True))
        for x, y in zip(history.X[first:], history.Y[first:], strict=True):
            self._X, self._Y = np.concatenate([self._X, x[None]]), np.concatenate([self._Y, y[None]])
            if len(self._X) > self.population:
                leaves = self._least()
                self._X, self._Y = np.delete(self._X, leaves, axis=0), np.delete(self._Y, leaves, axis=0)

    def _least(self) -> int:
        """The row of the member that leaves: of the last layer the one that contributes least."""
        if self._Y.shape[1] == 1:
            return int(self._Y.argmin())
        layer = layers(self._Y) + len(self._Y) * (self._reference > self._Y).any(axis=1)
        last = np.flatnonzero(layer == layer.max())
        if len(last) == 1:
            return int(last[0])
        S = self._Y[last]
        span = S.max(axis=0) - S.min(axis=0)
        S = (S - S.min(axis=0)) / np.where(span > 0, span, 1.0)
        # 1.0: how far the reference lies below the worst of S, in its ranges: the ends of a front are to be kept
        reference = np.full(S.shape[1], -1.0)
        alone = contributions(S, reference) if S.shape[1] == 2 else reaches(S - reference, self._directions)
        return int(last[np.argmin(alone)])


def reaches(Y: Array, directions: Array) -> Array:
    """What each member of a front Y (m x k), seen from the origin, adds to the hypervolume, up to a factor, m: the mean
    over directions (w x k) of the k-th power of how far it reaches, beyond the second."""
    reach = (Y[:, None, :] / np.maximum(directions, 1e-12)).min(axis=2)
    first = reach.argmax(axis=0)
    second, best = np.partition(reach, -2, axis=0)[-2:]
    gains = best ** Y.shape[1] - second ** Y.shape[1]
    return np.asarray(np.bincount(first, gains, minlength=len(Y)), dtype=np.float64)


def crossed(a: Array, b: Array, rng: np.random.Generator) -> Array:
    """A child of two parents (d each) by simulated binary crossover: each coordinate, with probability 1/2, lies about
    one of them at a distance in proportion to theirs."""
    u = rng.random(len(a))
    # 15.0: the index of the crossover; the larger, the nearer children are to a parent
    beta = np.where(u < 0.5, 2 * u, 1 / (2 * (1 - u))) ** (1 / (15.0 + 1))
    side = np.where(rng.random(len(a)) < 0.5, 1.0, -1.0)
    child = ((a + b) + side * beta * (a - b)) / 2
    return np.asarray(np.clip(np.where(rng.random(len(a)) < 0.5, child, a), 0.0, 1.0))


def mutated(x: Array, labels: Array, rng: np.random.Generator) -> Array:
    """x (d) with a coordinate moved on average, by polynomial mutation; of `labels` it is drawn afresh."""
    mutated = 20.0  # the index of the mutation; one coordinate changes on average
    d = len(x)
    u = rng.random(d)
    left, right = x, 1.0 - x
    power = 1 / (mutated + 1)
    down = (2 * u + (1 - 2 * u) * (1 - left) ** (mutated + 1)) ** power - 1
    up = 1 - (2 * (1 - u) + (2 * u - 1) * (1 - right) ** (mutated + 1)) ** power
    moved = np.where(labels, rng.random(d), x + np.where(u < 0.5, down, up))
    return np.asarray(np.clip(np.where(rng.random(d) < 1 / d, moved, x), 0.0, 1.0))
