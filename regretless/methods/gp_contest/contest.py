"""Chooses the model to act on, by how well each predicted the values told next.

A wrong model is most wrong where it promises most, and there an optimiser evaluates. So each model (an entrant) is
scored by the log density that it gave to values before they were told, summed over a recent window. A model fitted at
one scheduled size predicts the values up to the next, so the choice follows from the told history.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from regretless.method import State
from regretless.models.gp.additive import AdditiveSurrogate
from regretless.models.gp.posterior import in_units_of
from regretless.models.gp.surrogate import Surrogate, scheduled, standardisation
from regretless.space import Cube
from regretless.space.parameters import Array

WINDOW = 30  # told values over which scores are summed, rounded up to a scheduled size; our choice
FIRST = 6  # values told before the first score; our choice
KEPT = WINDOW + 2  # scores that a state takes along: those of a window, whose gaps are of one value at least
LEAST = -8.0  # a log density of standardised values counts as at least this, that of 3.8 sds off the mean; our choice
PER_COORDINATE_UP_TO = 1000  # the largest dimension with length-scales per coordinate, for the cost of fits
CURVED_UP_TO = 50  # the largest dimension with a full quadratic trend in the contest; our choice (docs)
FEW, HEAD_START = 20, 0.25  # up to FEW dimensions the first model leads by so much log density per value (docs)


def entrants(cube: Cube, *, noise_var: float | None) -> list[Surrogate | AdditiveSurrogate]:
    """The models of the contest, in order of preference."""

    def per_coordinate(*, quadratic: bool = False, compress: bool = False) -> Surrogate:
        return Surrogate(cube, ard=True, quadratic=quadratic, noise_var=noise_var, clip=False, compress=compress)

    models: list[Surrogate | AdditiveSurrogate] = []
    if cube.dim <= CURVED_UP_TO:
        models.append(per_coordinate(quadratic=True))
    products: dict[int, tuple[Array, tuple[Array, ...]]] = {}
    additive = partial(AdditiveSurrogate, cube, noise_var=noise_var, shared_products=products)
    models += [additive(trend=trend, compress=compress) for trend in (True, False) for compress in (True, False)]
    if 1 < cube.dim <= PER_COORDINATE_UP_TO:
        models += [per_coordinate(), per_coordinate(compress=True)]
    return models


class Contest:
    """Entrants in order of preference, none of which clips values, and the one to use for a history; the first is ahead
    by `head_start` in log density per told value."""

    def __init__(self, entrants: Sequence[Surrogate | AdditiveSurrogate], *, head_start: float = 0.0) -> None:
        if any(isinstance(entrant, Surrogate) and entrant.clip for entrant in entrants):
            raise ValueError("a surrogate that clips values gives them no density and cannot be compared")
        self.entrants, self.head_start = tuple(entrants), head_start
        self._scores: dict[int, Array] = {}  # scheduled size -> scores for the values after it, up to the next size
        self._last: tuple[int, int] = (0, 0)  # a scheduled size, and the entrant chosen at it

    def forget(self) -> None:
        """Drops what was found about a history."""
        self._scores, self._last = {}, (0, 0)

    def choose(self, X: Array, y: Array, yvar: Array) -> Surrogate | AdditiveSurrogate:
        """The entrant to use for values y (n) at X (n x d) with noise variances yvar (n, NaN unknown), which go on from
        those of the calls since `forget`."""
        size = scheduled(len(y))[1]
        if self._last[0] != size:
            gaps: list[tuple[int, int]] = []
            first = size  # the window begins after the first `first` values
            while first > FIRST and size - first < WINDOW:
                before = scheduled(first - 1)[1]
                gaps.append((before, first))
                first = before
            for before, after in reversed(gaps):  # in the order told, so that each fit starts from the one before
                if before not in self._scores:
                    scores = [log_density(entrant, X, y, yvar, before, after) for entrant in self.entrants]
                    self._scores[before] = np.array(scores)
            total = sum((self._scores[before] for before, _ in gaps), np.zeros(len(self.entrants)))
            total[0] += self.head_start * (size - first)
            self._last = size, int(np.argmax(total))
        return self.entrants[self._last[1]]

    def state(self) -> State:
        """The choice, and the scores that the next one may need."""
        kept = sorted(self._scores)[-KEPT:]
        scores = np.array([self._scores[before] for before in kept]).reshape(len(kept), len(self.entrants))
        size, chosen = self._last
        return {"size": size, "chosen": chosen, "before": np.array(kept, dtype=np.int64), "scores": scores}

    def load(self, n: int, state: Mapping[str, Any]) -> None:
        """Takes over what `state` gave for n values."""
        try:
            size, chosen, before = int(state["size"]), int(state["chosen"]), [int(b) for b in state["before"]]
            scores = np.array(state["scores"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: the contest is not readable ({error!r})") from None
        sizes = all(1 <= s <= n and s == scheduled(s)[1] for s in before) and 0 <= size <= n
        if not (sizes and 0 <= chosen < len(self.entrants) and scores.shape == (len(before), len(self.entrants))):
            raise ValueError(f"the state is damaged: it holds no contest of these models over {n} values")
        if not np.isfinite(scores).all():
            raise ValueError("the state is damaged: a score is not finite")
        self._last, self._scores = (size, chosen), dict(zip(before, scores, strict=True))


def log_density(
    entrant: Surrogate | AdditiveSurrogate, X: Array, y: Array, yvar: Array, before: int, after: int
) -> float:
    """The sum of the log densities that an entrant, told the first `before` values, gives to the next ones up to number
    `after`, of y divided by the spread of the first values, so that entrants are comparable."""
    gp = entrant.gp(X[:before], y[:before], yvar[:before])
    values, slope = entrant.seen_as(y[:before], y[before:after])
    mean, variance = gp.mean_var(X[before:after])
    own = in_units_of(gp.scale, yvar[before:after] * slope**2)
    variance = variance + np.where(np.isnan(own), gp.hyper.noise * gp.signal, own)
    residual = (values - gp.offset) / gp.scale - mean
    with np.errstate(over="ignore"):  # a value beyond 1e154 spreads has density 0, which counts as LEAST
        misfit = 0.5 * residual**2 / variance
    units = np.log(slope) + math.log(standardisation(y[:before])[1]) - math.log(gp.scale)
    density = units - 0.5 * np.log(2 * math.pi * variance) - misfit
    return float(np.maximum(density, LEAST).sum())
