"""How much better a run will become: `Forecast`, and the small nets that it comes from.

`experiments/outlook_fit.py` fitted the nets to records of many kinds of runs and wrote them, with the correction of
their levels, to a file of plain numbers. `docs/lab/outlook.md` says how often their intervals hold.

**Notation** G the gain of the recommended value in m further trials, S the reach (`progress`); the nets give the chance
that G is at most ZERO * S, and quantiles of log10(G / S) at LEVELS for a larger one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from regretless.space.parameters import Array

LEVELS = np.array([0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.975, 0.99])
"""The levels of the quantiles that the nets give."""
ZERO = 1e-6
"""Gains up to this share of the reach count as none."""
TABLE = np.concatenate([[0.005, 0.01, 0.025], np.arange(0.05, 0.96, 0.05), [0.975, 0.99, 0.995]])
"""The levels of the gains that a forecast holds."""
USUAL = 0.8
"""The probability of the interval that a forecast names."""
STEEPNESS = 0.5
"""What the nets' positive outputs are multiplied by to be the steps between quantiles."""
FURTHEST = 4.0
"""Standard deviations beyond which a feature counts as this far: the nets were not fitted there."""
_FINE = (np.arange(40) + 0.5) / 40
"""The levels at which distributions are taken apart to be pooled."""
_FINER = np.array([np.interp(_FINE, LEVELS, unit) for unit in np.eye(len(LEVELS))])
"""What quantiles at LEVELS are multiplied by to be those at _FINE, q x 40."""
FILE = "forecaster.npz"
"""The file of the nets, beside this module."""


@dataclass(frozen=True)
class Forecast:
    """How much better the recommended setting will be after `trials` more, in the unit of the objective.

    `str()` of it is one sentence. The gain is that of the setting that will be recommended, without the luck of noise;
    a recommendation that turns out worse counts as no gain.
    """

    trials: int
    gains: tuple[float, ...]
    """The quantiles of the gain at the levels of TABLE."""
    noise: float | None = None
    """The standard deviation of the noise in one value; None: the values show none."""
    unknown: str = ""
    """Why nothing is known of the gain, where that is so: it is then anything from 0 up."""
    none_because: str = ""
    """Why there can be no gain, where that is known."""

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    @property
    def low(self) -> float:
        """The lower end of the interval that holds with probability USUAL."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """The upper end of it."""
        return self.interval()[1]

    @property
    def expected(self) -> float:
        """The mean of the gain."""
        edges = np.concatenate([[0.0], 0.5 * (TABLE[1:] + TABLE[:-1]), [1.0]])
        return float(np.diff(edges) @ np.array(self.gains))

    def interval(self, probability: float = USUAL) -> tuple[float, float]:
        """Two gains between which it lies with this probability. Where no gain at all is likelier than the lower tail,
        the interval begins at 0 and the upper end gets both tails."""
        tail = 0.5 * (1.0 - probability)
        low = self.quantile(tail)
        return low, self.quantile(1.0 - tail if low > 0 else probability)

    def quantile(self, level: float) -> float:
        """The gain that is not exceeded with probability `level`."""
        if math.isinf(self.gains[-1]):
            return self.gains[int(np.searchsorted(TABLE, level - 1e-9).clip(0, len(TABLE) - 1))]
        return float(np.interp(level, TABLE, self.gains))

    def chance(self, gain: float) -> float:
        """The probability that the gain is at least `gain`, which is positive."""
        gains = np.array(self.gains)
        above = int(np.searchsorted(gains, gain))  # gains before it are smaller
        if above == 0:
            return 1.0
        if above == len(gains):
            return 1.0 - float(TABLE[-1])
        low, high = gains[above - 1], gains[above]
        part = 0.0 if math.isinf(high) else float((gain - low) / (high - low))
        return 1.0 - float(TABLE[above - 1] + part * (TABLE[above] - TABLE[above - 1]))

    def __str__(self) -> str:
        if self.unknown:
            return f"{self.trials_words}: nothing can be said yet, because {self.unknown}.{self._error}"
        if self.none_because:
            return f"{self.brief}, because {self.none_because}."
        low, high = self.interval()
        if high <= 0:
            few = f"the chance of any is at most {1 - USUAL:.2g}"
            return f"{self.trials_words}: no gain is expected ({few}).{self._error}"
        between = f"between {shown(low)} and {shown(high)}" if low > 0 or self.median > 0 else f"at most {shown(high)}"
        return f"{self.brief} (4 of 5 times {between}).{self._error}"

    @property
    def brief(self) -> str:
        """The middle alone; empty where nothing is known."""
        return "" if self.unknown else f"{self.trials_words}: {self.middle}"

    @property
    def middle(self) -> str:
        """The median in words; empty where nothing is known."""
        words = f"about {shown(self.median)} better" if self.median > 0 else "most likely no gain"
        return "" if self.unknown else "no gain" if self.none_because else words

    @property
    def trials_words(self) -> str:
        """The number of trials in words."""
        return f"{self.trials} more trial{'s' * (self.trials != 1)}"

    @property
    def _error(self) -> str:
        if self.noise is None:
            return ""
        return f" The measurement error of your values is {shown(self.noise)}."


def shown(gain: float) -> str:
    """A gain in two digits."""
    if gain == 0 or not math.isfinite(gain):
        return "0" if gain == 0 else "any amount"
    return f"{float(f'{gain:.2g}'):.6g}"


def nothing_known(trials: int, why: str, noise: float | None = None) -> Forecast:
    """The forecast of a run that has shown nothing: no gain and any gain are equally likely."""
    gains = tuple(0.0 if level < 0.5 else math.inf for level in TABLE)
    return Forecast(trials, gains, noise, why)


# ---------------------------------------------------------------- the nets


def standardised(x: Array, mean: Array, sd: Array) -> Array:
    """Features (n x k) with mean 0 and sd 1, and a last column that says where no model was asked."""
    missing = np.isnan(x)
    inside = np.clip(np.where(missing, 0.0, (x - mean) / sd), -FURTHEST, FURTHEST)
    return np.concatenate([inside, missing.any(axis=1, keepdims=True)], axis=1)


def pooled(nones: Sequence[Array], quantiles: Sequence[Array]) -> tuple[Array, Array]:
    """The mean of distributions: of each the chance of no gain (n) and quantiles at LEVELS for a gain (n x q)."""
    if len(nones) == 1:
        return nones[0], quantiles[0]
    z = np.concatenate([own @ _FINER for own in quantiles], axis=1)
    w = np.concatenate([np.broadcast_to(1.0 - none[:, None], (len(none), len(_FINE))) for none in nones], axis=1)
    order = np.argsort(z, axis=1, kind="stable")
    z, w = np.take_along_axis(z, order, axis=1), np.take_along_axis(w, order, axis=1)
    mass = np.cumsum(w, axis=1) - 0.5 * w
    rows = [np.interp(LEVELS * total, m, v) for total, m, v in zip(w.sum(axis=1), mass, z, strict=True)]
    return np.mean(nones, axis=0), np.array(rows)


class Forecaster:
    """Nets of two hidden layers whose distributions are pooled, and the correction of their levels. Where the nets
    disagree, which they do on runs unlike those they were fitted to, the pool is wider than each of them.

    Args:
        mean, sd: of the features, k each.
        nets: of each net three matrices with their offsets.
        levels, moved: the level at which the nets are asked for each level that is promised.
    """

    def __init__(self, mean: Array, sd: Array, nets: Sequence[Sequence[Array]], levels: Array, moved: Array) -> None:
        self.mean, self.sd, self.nets, self.levels, self.moved = mean, sd, nets, levels, moved

    @classmethod
    @functools.lru_cache(maxsize=1)
    def shipped(cls) -> Forecaster:
        """The one in the package."""
        with resources.files("regretless.outlook").joinpath(FILE).open("rb") as file:
            stored = {name: array.astype(np.float64) for name, array in np.load(file, allow_pickle=False).items()}
        parts = [[stored[f"net{i}_{j}"] for j in range(6)] for i in range(int(stored["nets"]))]
        return cls(stored["mean"], stored["sd"], parts, stored["levels"], stored["moved"])

    def arrays(self) -> dict[str, Array]:
        """What the file holds."""
        numbers = {"mean": self.mean, "sd": self.sd, "levels": self.levels, "moved": self.moved}
        parts = {f"net{i}_{j}": part for i, net in enumerate(self.nets) for j, part in enumerate(net)}
        single = {name: np.asarray(array, dtype=np.float32) for name, array in (numbers | parts).items()}
        return {**single, "nets": np.array(len(self.nets))}

    def spread(self, x: Array) -> tuple[Array, Array]:
        """For features (n x k) the chance of no gain (n) and quantiles of log10(G / S) at LEVELS (n x q) for a gain."""
        X = standardised(x, self.mean, self.sd)
        nones: list[Array] = []
        places: list[Array] = []
        for W1, b1, W2, b2, W3, b3 in self.nets:
            out = _swish(_swish(X @ W1 + b1) @ W2 + b2) @ W3 + b3
            steps = STEEPNESS * np.logaddexp(0.0, out[:, 2:])
            nones.append(_sigmoid(out[:, 0]))
            places.append(np.cumsum(np.concatenate([out[:, 1:2], steps], axis=1), axis=1))
        return pooled(nones, places)

    def gains(self, x: Array, *, tail: float = 1.0) -> Array:
        """Quantiles of G / S at the levels of TABLE, n x t. A tail below 1 widens them: what lies beyond either end
        of an interval is then as likely as a tail of that share would have it."""
        level = np.where(TABLE < 0.5, TABLE * tail, np.where(TABLE > 0.5, 1.0 - (1.0 - TABLE) * tail, TABLE))
        level = np.interp(level, self.levels, self.moved)
        none, quantiles = self.spread(x)
        rows = []
        for chance, own in zip(none, quantiles, strict=True):
            inner = np.clip((level - chance) / max(1.0 - chance, 1e-9), 0.0, 1.0)
            rows.append(np.where(level <= chance, 0.0, 10.0 ** np.interp(inner, LEVELS, own)))
        found = np.array(rows)
        return np.where(found > ZERO, found, 0.0)


def _sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def _swish(x: Array) -> Array:
    return x * _sigmoid(x)
