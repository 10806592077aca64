"""Chooses between surrogates by how well they predicted what was told next.

Evidence and leave-one-out scores judge a model where the data are; an optimiser goes where a model promises most, and
there a wrong model is wrong. So each entrant is scored on the values told after its fit: the log density it gave them
in advance, at points that one of the entrants proposed. The entrant with the best sum over a recent window is used.
Everything is a function of the told history: between two scheduled sizes the model conditioned on the first predicts
the values up to the second, whoever is in use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from regretless.gp.posterior import GP
from regretless.gp.surrogate import Surrogate, scheduled
from regretless.methods.ms_ucb.additive import AdditiveGP, AdditiveSurrogate
from regretless.parameters import Array

WINDOW = 30
"""Told values over which scores are summed."""
FIRST = 6
"""Values told before the first score: nothing is learnt from how a model of fewer predicts."""
LEAST = -8.0
"""A log density (of standardised values) is not counted below this, so that one surprise does not decide alone."""


class Contest:
    """Entrants in order of preference, and the one to use for a history.

    Args:
        entrants: the surrogates; engine surrogates must not tame their values, which has no density.
        start: what the first entrant is ahead by from the start, in log density per told value of the window.
    """

    def __init__(self, entrants: Sequence[Surrogate | AdditiveSurrogate], *, start: float = 0.0) -> None:
        if any(isinstance(entrant, Surrogate) and entrant.tame for entrant in entrants):
            raise ValueError("a surrogate that clips values gives them no density and cannot be compared")
        self.entrants, self.start = tuple(entrants), start
        self._scores: dict[
            int, Array
        ] = {}  # scheduled size -> score of every entrant for the values told after it, up to the next size
        self._last: tuple[int, int] = (0, 0)  # a scheduled size, and the entrant chosen at it

    def choose(self, X: Array, y: Array, yvar: Array) -> Surrogate | AdditiveSurrogate:
        """The entrant to use for values y (n) at X (n x d) with noise variances yvar (n, NaN unknown)."""
        size = scheduled(len(y))[1]
        if self._last[0] != size:
            gaps: list[tuple[int, int]] = []
            first = size  # the told values after the first `first` are in the window
            while first > FIRST and size - first < WINDOW:
                before = scheduled(first - 1)[1]
                gaps.append((before, first))
                first = before
            for before, after in reversed(gaps):  # in the order told, so that fits are built upon each other
                if before not in self._scores:
                    self._scores[before] = np.array(
                        [self._score(entrant, X, y, yvar, before, after) for entrant in self.entrants]
                    )
            total = sum((self._scores[before] for before, _ in gaps), np.zeros(len(self.entrants)))
            total[0] += self.start * (size - first)
            self._last = size, int(np.argmax(total))
        return self.entrants[self._last[1]]

    @staticmethod
    def _score(
        entrant: Surrogate | AdditiveSurrogate, X: Array, y: Array, yvar: Array, before: int, after: int
    ) -> float:
        """The log density that the entrant, knowing the first `before` values, gives to the next, up to `after`, for y
        in units of their spread."""
        gp = entrant.gp(X[:before], y[:before], yvar[:before])
        values, slope = entrant.seen_as(y[:before], y[before:after])
        mean, variance = gp.mean_var(X[before:after])
        own = yvar[before:after] * slope**2 / gp.scale**2
        variance = variance + np.where(np.isnan(own), _noise(gp) * gp.signal, own)
        residual = (values - gp.offset) / gp.scale - mean
        spread = float(np.std(y[:before])) or 1.0
        density = (
            -0.5 * np.log(2 * math.pi * variance) - 0.5 * residual**2 / variance + np.log(slope * (spread / gp.scale))
        )
        return float(np.maximum(density, LEAST).sum())


def _noise(gp: GP | AdditiveGP) -> float:
    return gp.shape.noise if isinstance(gp, AdditiveGP) else gp.hyper.noise
