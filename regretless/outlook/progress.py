"""What a forecast is made from: how the values of a run came, and what a model of them still expects.

`Seen` is a beginning of a run as plain arrays, to be maximised. `features` turns it into numbers without units, one
row for each horizon: gains are shares of the **reach**, which is how far the best value lies above the median of all.

**Notation** n trials that ended, k feasible values among them, d coordinates, m further trials; S the reach.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regretless.basics.streams import keyed_generator
from regretless.history import History
from regretless.models.gp.kernels import squared_distances
from regretless.models.gp.posterior import GP, factor_with_jitter
from regretless.models.gp.sobol import sobol_points
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array

LEAST = 1e-9
"""Shares of the reach below this count as this: rounding alone makes such differences."""
ANYWHERE, NEARBY, DRAWN, DRAWS = 128, 64, 40, 64
"""Places of the whole cube and near the best value where the model is asked, those of them where functions are drawn
together, and how many functions are."""
STEPS = (0.003, 0.01, 0.03, 0.1)
"""How far from the best value the near places lie, as shares of a side."""
CURVE = (
    "n/d", "n", "d", "m/n", "m/d", "since/n", "since/d", "since/m", "quarter", "half", "three quarters", "last 2",
    "last 5", "last d", "last m", "last step", "steps in quarter", "steps in half", "to second", "to tenth",
    "recent level", "recent spread", "ties", "reach of range", "failed", "infeasible", "finite", "used", "discrete",
    "labels", "constraints", "noisy", "pending",
)  # fmt: skip
MODEL = (
    "expected anywhere", "expected nearby", "drawn mean", "drawn high", "drawn highest", "doubt", "doubt at best",
    "noise", "lengthscale", "lengthscales apart", "lead", "best over model", "nearest", "recent distance",
)  # fmt: skip
NAMES = (*CURVE, *MODEL)
"""The features, in order; those of MODEL are NaN where no model is asked."""


@dataclass(frozen=True)
class Seen:
    """A beginning of a run, on the cube, to be maximised."""

    cube: Cube
    X: Array
    """The points with values, n x d."""
    y: Array
    """Their values, n."""
    yvar: Array
    """The known noise variances, NaN where unknown, n."""
    feasible: NDArray[np.bool_]
    """Whether the constraints hold, n."""
    failed: float
    """The share of the evaluations that failed."""
    noisy: bool
    constraints: int
    pending: int

    @classmethod
    def of(cls, history: History, cube: Cube, *, noisy: bool) -> Seen:
        """What a history holds."""
        failed = len(history.failed) / max(1, len(history.failed) + len(history))
        return cls(
            cube, history.X, history.y, history.yvar, history.feasible, failed, noisy, history.n_constraints,
            len(history.pending),
        )  # fmt: skip

    def first(self, n: int) -> Seen:
        """The first n values, as if nothing had failed between them: a history does not say when what did."""
        return Seen(
            self.cube, self.X[:n], self.y[:n], self.yvar[:n], self.feasible[:n], 0.0, self.noisy, self.constraints, 0
        )

    @property
    def modelled(self) -> bool:
        """Whether a model is asked."""
        # 20, 500: coordinates and values up to which a model is asked; beyond, its cubic cost would pass that of the
        # proposals
        within = self.cube.dim <= 20 and 2 <= len(self.y) <= 500
        return within and bool(self.feasible.any())


def own_model(cube: Cube, *, noisy: bool) -> Surrogate:
    """The model that forecasts ask: that of `auto`, fitted from scratch at few sizes."""
    return Surrogate(cube, clip=not noisy, compress=noisy, fresh_only=True)


def posterior_of(seen: Seen, model: Surrogate) -> GP | None:
    """What the model knows after these values; None where it is not asked."""
    return model.gp(seen.X, seen.y, seen.yvar) if seen.modelled else None


def levels(seen: Seen, gp: GP | None) -> Array:
    """The values that count, k: those of feasible settings; with noise the model's means there, which no luck moves."""
    usable = seen.feasible
    if seen.noisy and gp is not None:
        return np.asarray(gp.offset + gp.scale * gp.mean_at(seen.X[usable]))
    return np.asarray(seen.y[usable])


def reach(v: Array) -> float:
    """S: how far the best of the values v (k) lies above their median, the range where that is 0, and 0 where all are
    equal."""
    if len(v) == 0:
        return 0.0
    top = float(v.max())
    return top - _quantile(v, 0.5) or top - float(v.min())


def features(seen: Seen, gp: GP | None, horizons: Sequence[float]) -> Array:
    """One row of NAMES for each horizon m, h x k; there is at least one feasible value and they are not all equal."""
    v = levels(seen, gp)
    S = reach(v)
    if not S > 0:
        raise ValueError("nothing can be said in shares of a reach of 0")
    model = np.full(len(MODEL), math.nan) if gp is None else _of_model(seen, gp, v, S)
    rows = _of_curve(seen, v, S, np.asarray(horizons, dtype=np.float64))
    return np.concatenate([rows, np.broadcast_to(model, (len(rows), len(MODEL)))], axis=1)


def _log(share: Array | float) -> Array:
    return np.log10(np.maximum(share, LEAST))


def _quantile(v: Array, level: float) -> float:
    """That of values v (k), by one sort: NumPy's own takes ten times as long for so few."""
    ordered = np.sort(v)
    at = level * (len(v) - 1)
    low = int(at)
    return float(ordered[low] + (at - low) * (ordered[min(low + 1, len(v) - 1)] - ordered[low]))


def _of_curve(seen: Seen, v: Array, S: float, m: Array) -> Array:
    """The features of CURVE for each horizon, h x c."""
    n, d, k = len(seen.y) / (1.0 - seen.failed), seen.cube.dim, len(v)
    best = np.maximum.accumulate(v)
    steps = np.flatnonzero(np.diff(best) > LEAST * S) + 1
    since = (k - 1 - (int(steps[-1]) if len(steps) else 0)) * n / k
    ordered = np.sort(v)[::-1]
    recent = v[-max(3, min(d, 10)) :]

    def gained(last: Array | float) -> Array:
        at = np.clip(np.rint(k - 1 - np.asarray(last, dtype=np.float64) * k / n), 0, k - 1).astype(np.intp)
        return _log((best[-1] - best[at]) / S)

    size = seen.cube.size
    fixed = [
        np.log10(n / d), np.log10(n), np.log10(d), since / n, np.log10((since + 1) / d), gained(n / 4), gained(n / 2),
        gained(3 * n / 4), gained(2), gained(5), gained(d),
        _log((best[steps[-1]] - best[steps[-1] - 1]) / S) if len(steps) else 0.0,
        float((steps >= 3 * k / 4).sum()) / max(1.0, k / 4), float((steps >= k / 2).sum()) / max(1.0, k / 2),
        _log((ordered[0] - ordered[min(1, k - 1)]) / S), _log((ordered[0] - ordered[min(k - 1, k // 10)]) / S),
        _log((best[-1] - _quantile(recent, 0.5)) / S), _log(float(np.ptp(recent)) / S),
        float((v >= best[-1] - LEAST * S).sum() - 1) / k, _log(S / float(np.ptp(v))), seen.failed,
        1.0 - float(seen.feasible.mean()), 0.0 if math.isinf(size) else 1.0 / max(1.0, math.log10(size)),
        0.0 if math.isinf(size) else min(1.0, n / size), 0.0 if math.isinf(size) else 1.0,
        _labels(seen.cube), float(seen.constraints), float(seen.noisy), math.log10(1.0 + seen.pending),
    ]  # fmt: skip
    rows = np.empty((len(m), len(CURVE)))
    moving = {
        "m/n": np.log10(m / n), "m/d": np.log10(m / d), "since/m": np.log10((since + 1) / m), "last m": gained(m)
    }  # fmt: skip
    standing = iter(fixed)
    for column, name in enumerate(CURVE):
        rows[:, column] = moving[name] if name in moving else next(standing)
    return rows


def _labels(cube: Cube) -> float:
    """The share of the parameters that are labels: where all are, the best is found by luck and by no trend."""
    labels = len(cube.groups) + int(cube.categorical.sum())
    return labels / (cube.dim - sum(stop - start for start, stop in cube.groups) + len(cube.groups))


def _of_model(seen: Seen, gp: GP, v: Array, S: float) -> Array:
    """The features of MODEL, in shares of the reach."""
    unit = gp.scale / S
    usable = seen.X[seen.feasible]
    at = int(np.argmax(v))
    means = gp.mean_at(usable)
    lead = float(means.max())
    places = _places(seen.cube, usable[at])
    mean, variance = gp.mean_var(places)
    sd = np.sqrt(variance)
    expected = _expected(mean - lead, sd) * unit
    high = np.argsort(-(mean + 2.0 * sd), kind="stable")[:DRAWN]
    drawn = _draws(gp, places[high], mean[high]).max(axis=1) - lead
    distance = np.abs(usable - usable[at]).max(axis=1)
    apart = np.delete(distance, at) if len(distance) > 1 else np.ones(1)
    scales = gp.hyper.lengthscale
    noise = math.sqrt(float(gp.factor.noise[: gp.n].mean()) * gp.signal)
    at_best = math.sqrt(float(gp.mean_var(usable[[at]])[1][0]))
    return np.array([
        _log(expected[:ANYWHERE].max()), _log(expected[ANYWHERE:].max()), _log(max(0.0, float(drawn.mean())) * unit),
        _log(max(0.0, _quantile(drawn, 0.8)) * unit), _log(max(0.0, _quantile(drawn, 0.95)) * unit),
        _log(_quantile(sd[:ANYWHERE], 0.5) * unit), _log(at_best * unit), _log(noise * unit),
        math.log10(_quantile(scales, 0.5)), math.log10(float(scales.max() / scales.min())),
        _log(max(0.0, float(mean.max()) - lead) * unit),
        _log(max(0.0, (float(v.max()) - gp.offset) / gp.scale - lead) * unit), _log(float(apart.min())),
        _log(_quantile(distance[-5:], 0.5)),
    ])  # fmt: skip


def _expected(ahead: Array, sd: Array) -> Array:
    """The expected improvement where the mean lies `ahead` of the best one, with this sd, q."""
    from scipy.special import ndtr

    sd = np.maximum(sd, 1e-12)
    z = ahead / sd
    return np.maximum(ahead * ndtr(z) + sd * np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi), 0.0)


@functools.lru_cache(maxsize=64)
def _sobol(count: int, dim: int) -> Array:
    return sobol_points(count, dim, keyed_generator(0, 0))


@functools.lru_cache(maxsize=1)
def _normal() -> Array:
    return keyed_generator(0, 1).standard_normal((DRAWS, DRAWN))


def _places(cube: Cube, best: Array) -> Array:
    """ANYWHERE points of the whole cube, then NEARBY ones around the best, legal."""
    steps = np.resize(np.array(STEPS), NEARBY)[:, None]
    near = best + steps * (2.0 * _sobol(NEARBY, cube.dim) - 1.0)
    return np.asarray(cube.snap(np.clip(np.concatenate([_sobol(ANYWHERE, cube.dim), near]), 0.0, 1.0)))


def _draws(gp: GP, places: Array, mean: Array) -> Array:
    """Functions drawn from the posterior at places (q x d) whose means are known, DRAWS x q, standardised."""
    factor = gp.factor
    Z = factor.embed(places)
    W = Z * factor.inverse_scales
    K = factor.kernel.base(squared_distances(W, W))
    factor.kernel.add_trend(K, Z, Z, gp.hyper.quadratic)
    V = factor.lower(factor.cross(places))
    U, _ = factor_with_jitter(lambda jitter: _upper(K - V @ V.T, jitter))
    return np.asarray(mean + math.sqrt(gp.signal) * _normal()[:, : len(places)] @ U)


def _upper(A: Array, jitter: float) -> tuple[Array, int]:
    """U with U'U = A + jitter I, and 0 where there is one."""
    from scipy.linalg import lapack

    A.ravel()[:: len(A) + 1] += jitter
    U, info = lapack.dpotrf(A, lower=0, clean=1)
    return np.asarray(U), int(info)
