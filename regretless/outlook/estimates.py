"""What is known of single settings: `Prediction`, `Comparison` and `Rivals`, from one model of the values of a run.

The model is an exact Gaussian process of all values, told variances and repetitions included. Values below the median
c are compressed to c - s log(1 + (c - y) / s), because a long tail of poor ones would drown the rest. The map is
monotone, so quantiles go through it, and the probability that one setting is better than another is the same on both
sides. Where values are exact, an evaluated setting is known.

Its hyper-parameters are fitted, which makes it too sure. So errors are taken to follow Student's t with TAIL degrees
of freedom and WIDER times the model's standard deviation: then statements of a probability of 0.9 are right nine times
of ten, and those of 0.98 as often as they say (docs/lab/outlook.md).

**Notation** n values at d coordinates, to be maximised; k settings that are asked about; L levels of a quantile.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from regretless.basics.streams import keyed_generator
from regretless.basics.threads import threads_for
from regretless.history import History
from regretless.method import Method
from regretless.models.gp.kernels import squared_distances
from regretless.models.gp.posterior import GP, factor_with_jitter
from regretless.models.gp.surrogate import Surrogate
from regretless.outlook.forecast import TABLE, USUAL, shown
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless.task import Task

WIDER, TAIL = 1.2, 3
"""What the model's standard deviations are multiplied by, and the degrees of freedom of their errors."""
SURE = 0.9
"""The probability from which one setting is called better than another."""
DRAWS = 2048
"""Functions drawn together, for the chances of many settings."""
CHEAPER = 0.8
"""A setting counts as cheaper from this share of the cost on: durations differ by themselves."""


@dataclass(frozen=True)
class Prediction:
    """What is expected of a setting, without the noise of a measurement, in the unit of the objective."""

    quantiles: tuple[float, ...]
    """The quantiles of its value at the levels of `forecast.TABLE`."""
    values: int = 0
    """How many values the setting has."""
    exact: bool = False
    """Whether its value is known, because values show no noise."""

    @property
    def mean(self) -> float:
        """The mean."""
        return float(WEIGHTS @ np.array(self.quantiles))

    @property
    def low(self) -> float:
        """The lower end of the interval that holds with probability USUAL."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """The upper end of it."""
        return self.interval()[1]

    def interval(self, probability: float = USUAL) -> tuple[float, float]:
        """Two values between which it lies with this probability."""
        tail = 0.5 * (1.0 - probability)
        return self.quantile(tail), self.quantile(1.0 - tail)

    def quantile(self, level: float) -> float:
        """The value that is not exceeded with probability `level`."""
        return float(np.interp(level, TABLE, self.quantiles))

    def __str__(self) -> str:
        if self.exact:
            return f"{self.mean:.6g}, as evaluated"
        low, high = self.interval()
        mean, low_words, high_words = (with_error(x, high - low) for x in (self.mean, low, high))
        return f"about {mean} (4 of 5 times between {low_words} and {high_words})"


WEIGHTS = np.diff(np.concatenate([[0.0], 0.5 * (TABLE[1:] + TABLE[:-1]), [1.0]]))
"""The weights of the levels of TABLE in a mean, L."""


@dataclass(frozen=True)
class Comparison:
    """Which of two settings is better."""

    a: str
    b: str
    """What they are called."""
    chance: float
    """The probability that b is better than a."""
    gain: Prediction
    """How much better b is; below 0 it is worse."""

    def __str__(self) -> str:
        worse, better, chance = (self.a, self.b, self.chance) if self.chance >= 0.5 else (self.b, self.a, self.rest)
        low, high = self.gain.interval()
        if self.gain.exact:
            by = abs(self.gain.mean)
            same = f"{self.a} and {self.b} are equally good"
            return f"{better} is better than {worse} by {by:.6g}, as evaluated" if by > 0 else same
        most = with_error(max(abs(low), abs(high)), max(abs(low), abs(high)))
        says = f"{better} is better than {worse} with probability {certainly(chance)}"
        if not self.told_apart:
            return f"{says}; they cannot be told apart yet, and differ by at most {most} (4 of 5 times)"
        return f"{says}, by about {shown(abs(self.gain.mean))}"

    @property
    def rest(self) -> float:
        """The probability that a is better than b."""
        return 1.0 - self.chance

    @property
    def told_apart(self) -> bool:
        """Whether one of them is better with probability SURE."""
        return max(self.chance, self.rest) >= SURE


@dataclass(frozen=True)
class Rival:
    """A setting that may be as good as the recommended one."""

    numbers: tuple[int, ...]
    """The numbers of its trials."""
    params: dict[str, Any]
    prediction: Prediction
    chance: float
    """The probability that it is better than the recommended setting."""
    best: float
    """The probability that it is the best of all settings that were evaluated."""
    cost: float | None = None
    """What its trials cost on average, or how many seconds they took."""


@dataclass(frozen=True)
class Rivals(Sequence[Rival]):
    """The evaluated settings that cannot be told apart from the recommended one, the likeliest best first."""

    found: tuple[Rival, ...]
    cost: float | None = None
    """What the recommended setting costs, as for `Rival.cost`."""
    timed: bool = False
    """Whether costs are seconds that trials took."""

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, i: Any) -> Any:
        return self.found[i]

    @property
    def cheapest(self) -> Rival | None:
        """The one that costs least, where that is known and less than CHEAPER of what the recommended one costs."""
        known = [(rival.cost, i) for i, rival in enumerate(self.found) if rival.cost is not None]
        if not known or self.cost is None:
            return None
        cost, i = min(known)
        return self.found[i] if cost < CHEAPER * self.cost else None

    def __str__(self) -> str:
        most_named = 5  # trials that a sentence names
        if not self.found:
            return "By the values no other setting that was evaluated is as good as the recommended one."
        some = ", ".join(str(rival.numbers[0]) for rival in self.found[:most_named])
        more = ", ..." if len(self.found) > most_named else ""
        one = len(self.found) == 1
        which = f"1 setting (trial {some})" if one else f"{len(self.found)} settings (trials {some}{more})"
        cheapest = self.cheapest
        cheap = ""
        if cheapest is not None and cheapest.cost is not None and self.cost is not None:
            word, unit = ("quickest", " seconds") if self.timed else ("cheapest", "")
            costs = f"{cheapest.cost:.3g} instead of {self.cost:.3g}{unit}"
            cheap = f" The {word} is trial {cheapest.numbers[0]}, at {costs}."
        if all(rival.prediction.exact for rival in self.found):
            return f"{which} {'has' if one else 'have'} the same value as the recommended one.{cheap}"
        return f"{which} cannot be told apart from the recommended one.{cheap}"


# ---------------------------------------------------------------- the model


class Estimates:
    """What the values of a run say of any settings.

    Args:
        cube: where the settings lie.
        X, y, yvar: points (n x d), their values to be maximised and their noise variances (n each, NaN unknown).
        sign: turns values into the user's.
        noisy: whether the values show noise.
        least_noise: a variance that the noise has at least, where another run of the same objective shows it.
    """

    def __init__(
        self, cube: Cube, X: Array, y: Array, yvar: Array, *, sign: float, noisy: bool, least_noise: float = 0.0
    ) -> None:
        if len(y) == 0:
            raise ValueError("nothing can be predicted: no value has been told")
        size = float(np.abs(y).max())
        self.unit = 1.0 if 1e-100 < size < 1e100 else math.ldexp(1.0, min(math.frexp(size)[1], 1022))
        """What the numbers here are multiplied by to be those of the user: squares stay within floats."""
        self.cube, self.X, self.sign, self.noisy = cube, X, sign, noisy
        self.y, self.yvar = y / self.unit, yvar / self.unit / self.unit
        self.least_noise = least_noise / self.unit / self.unit

    def with_noise(self, variance: float) -> Estimates:
        """The same values, whose noise has at least this variance."""
        y, yvar = self.unit * self.y, self.unit * self.unit * self.yvar
        return Estimates(self.cube, self.X, y, yvar, sign=self.sign, noisy=True, least_noise=variance)

    @functools.cached_property
    def noise(self) -> float:
        """The mean variance of the noise in one value, as far as values show any."""
        if not self.noisy:
            return 0.0
        return float(self.gp.factor.noise.mean()) * self.gp.signal * (self.unit * self.gp.scale) ** 2

    @functools.cached_property
    def gp(self) -> GP:
        """The posterior of the values."""
        rows = self._modelled
        values, slope = self.compressed(self.y[rows])
        data = self.X[rows], values, self.yvar[rows] * slope**2
        with threads_for(model_free=False):
            found = Surrogate(self.cube, clip=False, fresh_only=True).gp(*data)
            shown = self._shown_noise(values)
            if shown <= float(found.factor.noise.max()) * found.signal * found.scale**2:
                return found
            return Surrogate(self.cube, clip=False, fresh_only=True, noise_var=shown).gp(*data)

    def _shown_noise(self, values: Array) -> float:
        """The variance that repeated settings show among modelled values (n) without a told one: a model with labels
        may see no noise at all, because each combination of them explains its own value."""
        rows = self._modelled
        unknown = np.isnan(self.yvar[rows])
        if not self.noisy or not unknown.any():
            return 0.0
        _, setting = np.unique(self.X[rows][unknown], axis=0, return_inverse=True)
        y, setting = values[unknown], setting.ravel()
        means = np.bincount(setting, weights=y) / np.bincount(setting)
        return max(float(((y - means[setting]) ** 2).sum()) / max(1, len(y) - len(means)), self.least_noise)

    @functools.cached_property
    def bend(self) -> tuple[float, float]:
        """c and s of the module's text, in the unit of the values. s is the reach of the best value over the median.
        Where most values of a run lie close to the best one, it is a third of the reach over the worst tenth."""
        low, middle, top = np.quantile(self.y, [0.1, 0.5, 1.0]).tolist()
        return middle, max(top - middle, (top - low) / 3.0)

    def compressed(self, y: Array) -> tuple[Array, Array]:
        """Values y (k) as they are modelled, and the slope of that map at each (k)."""
        middle, span = self.bend
        if not span > 1e-12 * abs(middle):
            return np.array(y), np.ones(len(y))
        below = np.maximum(middle - y, 0.0) / span
        return np.where(y < middle, middle - span * np.log1p(below), y), 1.0 / (1.0 + below)

    @functools.cached_property
    def _modelled(self) -> Any:
        """The rows that are modelled, in their order."""
        # more values are not modelled: of a longer run the best half of so many, and others spread evenly by rank
        most_modelled = 600
        order = np.argsort(-self.y, kind="stable")
        half = most_modelled // 2
        if len(order) <= most_modelled:
            return np.arange(len(order))
        rest = order[half:]
        return np.sort(np.concatenate([order[:half], rest[np.linspace(0, len(rest) - 1, half).astype(int)]]))

    def joint(self, X: Array) -> tuple[Array, Array]:
        """Means (k) and covariances (k x k, times WIDER squared) at X (k x d), in the model's scale."""
        gp, factor = self.gp, self.gp.factor
        Z = factor.embed(X)
        W = Z * factor.inverse_scales
        K = factor.kernel.base(squared_distances(W, W))
        factor.kernel.add_trend(K, Z, Z, gp.hyper.quadratic)
        V = factor.lower(factor.cross(X))
        C = gp.signal * (K - V @ V.T)
        C.ravel()[:: len(C) + 1] = np.maximum(C.diagonal(), 0.0)
        return gp.mean_at(X), WIDER**2 * C

    def known(self, x: Array) -> Array:
        """The values of the setting x (d)."""
        return np.asarray(self.y[(x == self.X).all(axis=1)])

    def at(self, x: Array) -> Prediction:
        """What is expected of the setting x (d)."""
        own = self.known(x)
        if len(own) and not self.noisy:
            return Prediction((self.sign * self.unit * float(own.mean()),) * len(TABLE), len(own), exact=True)
        mean, C = self.joint(x[None])
        from scipy.special import stdtrit

        spread = self._in_units(mean[0] + math.sqrt(float(C[0, 0])) * stdtrit(TAIL, TABLE))
        with np.errstate(over="ignore"):
            return Prediction(tuple(np.sort(self.sign * self.unit * spread).tolist()), len(own))

    def drawn(self, X: Array) -> Array:
        """Values at X (k x d) of functions drawn from what is known, DRAWS x k, to be maximised."""
        mean, C = self.joint(X)
        L, _ = factor_with_jitter(lambda jitter: _lower(C, jitter))
        rng = keyed_generator(0, 2)
        size = np.sqrt(TAIL / rng.chisquare(TAIL, DRAWS))[:, None]
        draws = self._in_units(mean + size * (rng.standard_normal((DRAWS, len(X))) @ L.T))
        if not self.noisy:
            for j, own in enumerate(map(self.known, X)):
                draws[:, j] = own.mean() if len(own) else draws[:, j]
        return draws

    def comparison(self, a: Array, b: Array, names: tuple[str, str]) -> Comparison:
        """How the settings a and b (d each) compare."""
        if np.array_equal(a, b):
            return Comparison(*names, 0.5, Prediction((0.0,) * len(TABLE), exact=True))
        ahead = self.unit * (np.array([-1.0, 1.0]) @ self.drawn(np.stack([a, b])).T)
        exact = not self.noisy and all(len(self.known(x)) for x in (a, b))
        chance = float((ahead > 0).mean() + 0.5 * (ahead == 0).mean())
        if not exact:
            from scipy.special import stdtr

            mean, C = self.joint(np.stack([a, b]))  # exactly, in place of the draws
            sd = math.sqrt(max(float(C[0, 0] + C[1, 1] - 2.0 * C[0, 1]), 1e-300))
            chance = float(stdtr(TAIL, (mean[1] - mean[0]) / sd)) if self.noisy else chance
        return Comparison(*names, chance, Prediction(tuple(np.quantile(ahead, TABLE).tolist()), exact=exact))

    def _in_units(self, standard: Array) -> Array:
        """Values of the model as the values that were told, to be maximised."""
        seen = self.gp.offset + self.gp.scale * standard
        middle, span = self.bend
        if not span > 1e-12 * abs(middle):
            return np.asarray(seen)
        # 300.0: the logarithm of what the compression is undone by at most: beyond it floats end
        deep = np.minimum(np.maximum(middle - seen, 0.0) / span, 300.0)
        return np.asarray(np.where(seen < middle, middle - span * np.expm1(deep), seen))


def _lower(C: Array, jitter: float) -> tuple[Array, int]:
    """L with L L' = C + jitter * mean(C) * I, and 0 where there is one."""
    from scipy.linalg import lapack

    A = C.copy()
    A.ravel()[:: len(A) + 1] += (jitter + 1e-12) * float(C.diagonal().mean()) + 1e-300
    L, info = lapack.dpotrf(A, lower=1, clean=1)
    return np.asarray(L), int(info)


_kept: WeakKeyDictionary[History, dict[int, Estimates]] = WeakKeyDictionary()
"""What was estimated from each history; a cache."""


def estimates_of(task: Task, method: Method, history: History, objective: int = 0) -> Estimates:
    """What the history of a task says of one of its objectives, on the cube in which each label has a share."""
    found = _kept.setdefault(history, {})
    if objective not in found:
        shows = len(history) > 0 and method.noise(history).shows
        values = history.Y[:, objective], history.Yvar[:, objective]
        X = np.array([in_shares(task, method, x) for x in history.X]).reshape(len(history), len(task.space))
        found[objective] = Estimates(task.space.cube(), X, *values, sign=task.signs[objective], noisy=shows)
    return found[objective]


def in_shares(task: Task, method: Method, x: Array) -> Array:
    """A point of the method's cube (d) on the cube in which each label has a share."""
    choices = method.traits.choices
    return x if choices == "shares" else task.space.encode(task.space.decode(x, choices))


# ---------------------------------------------------------------- rivals


@dataclass(frozen=True)
class Candidate:
    """An evaluated setting that may be recommended."""

    unit: Array
    numbers: tuple[int, ...]
    params: dict[str, Any]
    cost: float | None


def rivals_of(
    estimates: Estimates, recommended: Array, candidates: Sequence[Candidate], *, timed: bool = False
) -> Rivals:
    """Those of the candidates that are better than the recommended setting (d) with a probability above 1 - SURE;
    `timed`: their costs are seconds."""
    own = next((c.cost for c in candidates if np.array_equal(c.unit, recommended)), None)
    others = [c for c in candidates if not np.array_equal(c.unit, recommended)]
    if not others:
        return Rivals((), own, timed)
    X = np.array([c.unit for c in others])
    level = estimates.gp.mean_at(X) if estimates.noisy else np.array([estimates.known(x).mean() for x in X])
    # 200: settings that may be rivals, the best by their means
    kept = np.argsort(-level, kind="stable")[:200]
    draws = estimates.drawn(np.concatenate([recommended[None], X[kept]]))
    top = draws.max(axis=1, keepdims=True)
    best = ((draws == top) / (draws == top).sum(axis=1, keepdims=True)).mean(axis=0)
    better = (draws[:, 1:] > draws[:, :1]).mean(axis=0) + 0.5 * (draws[:, 1:] == draws[:, :1]).mean(axis=0)
    found = [
        Rival(c.numbers, c.params, estimates.at(c.unit), float(chance), float(first), c.cost)
        for c, chance, first in zip((others[i] for i in kept), better, best[1:], strict=True)
        if chance > 1.0 - SURE
    ]
    return Rivals(tuple(sorted(found, key=lambda rival: (-rival.best, -rival.chance, rival.numbers))), own, timed)


# ---------------------------------------------------------------- words


def with_error(value: float, width: float) -> str:
    """A value with the digits that an interval of this width leaves it."""
    if not (math.isfinite(value) and width > 0 and math.isfinite(width)):
        return f"{value:.6g}"
    digits = max(1, math.ceil(math.log10(max(abs(value), width) / width)) + 2)
    return f"{float(f'{value:.{min(digits, 15)}g}'):.{max(6, min(digits, 15))}g}"


def certainly(chance: float) -> str:
    """A probability in two digits that does not read 1 where it is not."""
    return f"{chance:.2f}" if chance < 0.995 else "above 0.99"
