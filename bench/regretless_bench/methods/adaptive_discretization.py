"""Adaptive discretisation: Shekhar and Javidi, "Gaussian process bandits with adaptive discretization", EJS 2018, with
the constants of the GP-ThreDS authors' code.

A binary tree of boxes is refined where the index is large: the box with the largest index is halved once its centre is
known better than f can vary inside it, and sampled at its centre otherwise. The posterior is kept at the centres of the
active boxes only.

Notation
    h        depth of a box                     V_h      bound on the variation of f inside a box of depth h
    mu, s    posterior mean and sd at a centre  beta     sqrt(2 (2 + ln(T log2 T) + d log2(T) ln 2 + ln 2))
    index    min(mu + beta s, mu_parent + beta s_parent + V_{h-1}) + V_h

Deviations
    1. Ties of the index are broken by an order drawn from the seed, not by position.
    2. A fit standardises values and gives length-scale and noise unless they are given; not with `fitted=False`.
    3. The posterior is updated by one row per sample (`SavedRows`), not inverted anew. A long one is rebuilt from
       the distinct samples now and then.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless.basics.streams import Draws, Stream
from regretless.history import History
from regretless.method import State, keyed_generator
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.grid_method import PointsMethod
from regretless_bench.methods.grid_posteriors import CHECKED, SavedRows

HORIZON = 1000  # T where no budget is given, as in the paper's experiments; it enters through logarithms
C3 = 1 + 2.7 * math.sqrt(2 * math.log(2))  # the constant term of V_h in the authors' code (their C_3 with C_1 = 2)
VARIATION = 4.0  # the factor of V_h in the authors' code
TIE = 1e-12  # indices closer than this are level, because rounding separates boxes that are equal by symmetry


class AdaptiveDiscretization(PointsMethod):
    """Adaptive discretisation: a tree of boxes, refined where the upper bound is large (options: `PointsMethod`)."""

    posterior: SavedRows  # its grid holds the centres of all boxes so far, active or halved
    _depth: NDArray[np.intp]  # of each box, and below the number of the box it is a half of and whether it is active
    _parent: NDArray[np.intp]
    _active: NDArray[np.bool_]

    def _begin(self) -> None:
        super()._begin()
        T = max(self.budget or HORIZON, 2)
        deepest = math.log2(T)
        self.beta = math.sqrt(2 * (2 + math.log(T * deepest) + self.dim * deepest * math.log(2) + math.log(2)))
        self._deepest = math.ceil(deepest)
        self._C4 = 2 * math.log(8 * math.pi**2 / 6) + 2 * math.log(T**2 * math.pi**2 / 6)
        order, depths = self._fixed_generator().permutation(self.dim), np.arange(self._deepest)
        self._halves = np.zeros((self._deepest, 2, self.dim))
        """By depth: from the centre of a box to those of its halves (2 x d)."""
        self._halves[depths, :, order[depths % self.dim]] = np.outer(2.0 ** -(depths // self.dim + 2), [-1.0, 1.0])
        self._halved: list[int] = []  # the numbers of the boxes that were halved, in that order
        self._order = np.zeros(1)  # what decides between level boxes: the smallest wins
        self._grow_tree(np.empty(0, dtype=np.int64), self._order)
        self._refine()

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        self._catch_up(history)
        if not len(history.pending) and not len(history.failed):
            return np.asarray(self.posterior.grid[self._target])
        index, active = self._indices(self.posterior.variance_after(history.pending))
        centres = cube.snap(self.posterior.grid[active])
        taken = {cube.key(x) for x in (*history.pending, *history.failed)}
        index[[centre.tobytes() in taken for centre in centres]] = -np.inf
        return centres[int(index.argmax())] if index.max() > -np.inf else rng.random(self.dim)

    def _update(self, history: History, first: int) -> None:
        for i in range(first, len(history)):
            self._observe(history, i)
            self._refine()

    def _recommend(self, history: History) -> Array:
        """The told point with the best posterior mean."""
        self._catch_up(history)
        told = self._rows(history.X)
        told.condition(*self._averages(history, len(history)))
        return np.asarray(history.X[int(told.mean.argmax())])

    def warm(self, history: History) -> State:
        if self._refits:
            return {}
        state = self._warmed(history)
        return {**state, "halved": np.array(self._halved, dtype=np.int64), "order": self._order.copy()}

    def _take_over(self, history: History, state: Mapping[str, Any], rebuilt: int) -> None:
        self._grow_tree(np.asarray(state["halved"], dtype=np.int64), np.asarray(state["order"], dtype=np.float64))
        self._resume(history, state["posterior"], rebuilt)
        self._refine()

    def _refine(self) -> None:
        """Halves the box with the largest index while its centre is well known; then samples it next."""
        while True:
            index, active = self._indices(self.posterior.variance)
            level = np.flatnonzero(index >= index.max() - TIE)
            box = int(active[level[int(self._order[active[level]].argmin())]])
            depth = int(self._depth[box])
            known = self.beta * math.sqrt(self.posterior.variance[box]) <= self._variation_in(depth)
            if depth >= self._deepest or not known:
                self._target = box
                return
            self._halve(box)

    def _halve(self, box: int) -> None:
        depth, n = int(self._depth[box]), len(self._depth)
        self._active[box] = False
        self._halved.append(box)
        self._depth = np.append(self._depth, [depth + 1] * 2)
        self._parent = np.append(self._parent, [box] * 2)
        self._active = np.append(self._active, [True] * 2)
        self._order = np.append(self._order, self._ties(n))
        self.posterior.extend(self.posterior.grid[box] + self._halves[depth])

    def _ties(self, n: int) -> Array:
        """What decides between the two boxes numbered n and n + 1, and boxes level with them, 2."""
        return keyed_generator(self.seed, n, stream=Stream.DISCRETIZATION_TIES).random(2)

    def _grow_tree(self, halved: NDArray[np.int64], order: Array) -> None:
        """The tree in which these boxes were halved one after the other, with a posterior of no values."""
        m = len(halved)
        there = (halved >= 0) & (halved <= 2 * np.arange(m))
        if len(np.unique(halved)) < m or not there.all() or order.shape != (2 * m + 1,):
            raise ValueError("its boxes make no tree")
        depth = [0]
        for box in halved.tolist():
            depth += [depth[box] + 1] * 2
        self._halved, self._depth, self._parent = halved.tolist(), np.array(depth), np.append(0, np.repeat(halved, 2))
        self._active, self._order = np.ones(2 * m + 1, dtype=np.bool_), order
        self._active[halved] = False
        for i in np.linspace(0, m - 1, min(m, CHECKED)).astype(np.intp).tolist():
            if not np.array_equal(order[2 * i + 1 : 2 * i + 3], self._ties(2 * i + 1)):
                raise ValueError("the order of the boxes is not that of this seed")
        if max(depth) > self._deepest:
            raise ValueError(f"a box was halved {max(depth)} times, more than {self._deepest}")
        centres = np.full((2 * m + 1, self.dim), 0.5)
        for h in range(max(depth)):
            at = np.flatnonzero(self._depth == h + 1)
            centres[at] = centres[self._parent[at]] + self._halves[h, (at - 1) % 2]
        self.posterior = self._rows(centres)

    def _indices(self, variance: Array) -> tuple[Array, NDArray[np.intp]]:
        """The index of the active boxes, and their numbers."""
        active = np.flatnonzero(self._active)
        bound = self.posterior.mean + self.beta * np.sqrt(variance)
        depth, parent = self._depth[active], self._parent[active]
        variation = np.array([self._variation_in(h) for h in range(int(depth.max()) + 1)])
        inherited = bound[parent] + variation[np.maximum(depth - 1, np.minimum(depth, 1))]
        return np.minimum(bound[active], inherited) + variation[depth], active

    def _variation_in(self, h: int) -> float:
        """V_h."""
        halvings = h / self.dim
        inside = 4 * self.dim * (halvings * math.log(2) - math.log(self.scale.lengthscale))
        root = math.sqrt(max(4 + self._C4 + h * math.log(2) + inside, 0.0))
        return float(VARIATION * 2.0**-halvings) * (root + C3)

    def _fresh(self) -> SavedRows:
        return self._rows(self.posterior.grid)

    def _index(self, x: Array) -> int:
        """The number of the box to sample, if x is its centre, or -1."""
        return self._target if np.array_equal(x, self.posterior.grid[self._target]) else -1
