"""A batched quasi-Newton descent for bounds: many starts advance at once, one call of the function per round.

Two-metric projection (Bertsekas 1982): coordinates at a bound whose gradient points outwards are held, the direction is
-H g in the others, and the step is cut back along the projected arc until it satisfies Armijo's condition. H is the
BFGS estimate of the inverse Hessian: a matrix up to DENSE dimensions, and the limited-memory two-loop recursion
(Nocedal 1980) beyond. In a round each start still moving accepts its trial point or shortens its step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.space.parameters import Array

Function: TypeAlias = Callable[[Array], tuple[Array, Array]]  # points (q x d) to values (q) and gradients (q x d)
DENSE = 40  # the largest dimension in which H is kept as a matrix
MOST_CUTS = 14  # a direction whose step was cut this often is given up: the step is then below 1e-4 of its length
ARMIJO = 1e-4  # the share of the predicted decrease that a step must reach (Nocedal and Wright 2006, Sec. 3.1)
NO_CURVATURE = 1e-10  # pairs with s.y below this share of |s| |y| tell nothing beyond rounding and are passed over
MEMORY = 10  # pairs that the limited-memory form keeps, the customary number (Nocedal and Wright 2006, Sec. 7.2)


def minimise(
    function: Function,
    start: Array,
    lower: Array | float,
    upper: Array | float,
    *,
    rounds: int,
    reach: float = 0.1,
    tolerance: float = 1e-12,
) -> tuple[Array, Array]:
    """Local minima from each row of start (q x d) within the bounds: points (q x d) and values (q).

    lower, upper: bounds, broadcast to q x d; where they meet a coordinate is held.
    rounds: evaluations per start beyond the first. reach: the largest change of a coordinate in the very first step.
    tolerance: a start rests when its direction promises, or a step brought, a smaller decrease than this (1 + |value|).
    """
    X = np.minimum(np.maximum(start, lower), upper)
    q, d = X.shape
    low, high = np.broadcast_to(lower, (q, d)), np.broadcast_to(upper, (q, d))
    if q == 1 and d <= DENSE:
        x, value = _descend(function, X[0], low[0], high[0], rounds, reach, tolerance)
        return x[None], np.array([value])
    f, g = function(X)
    best_x, best_f = X.copy(), f.copy()
    rows = np.arange(q)  # the starts still moving
    curvature = Dense(q, d) if d <= DENSE else Limited(q, d)
    D, slope = _direction(X, g, low, high, curvature, reach)
    step, cuts = np.ones(q), np.zeros(q, dtype=np.int64)
    for _ in range(rounds):
        least = tolerance * (1.0 + np.abs(f))
        moving = (slope < -least) & (cuts < MOST_CUTS)
        if not moving.all():
            if not moving.any():
                break
            rows, cuts, least = rows[moving], cuts[moving], least[moving]
            X, f, g, D, slope, step, low, high = (a[moving] for a in (X, f, g, D, slope, step, low, high))
            curvature.keep(moving)
        trial = X + step[:, None] * D
        np.maximum(trial, low, out=trial)
        np.minimum(trial, high, out=trial)
        ft, gt = function(trial)
        s, y = trial - X, gt - g
        predicted = np.minimum(_dot(g, s), 0.0)
        good = ft <= f + ARMIJO * predicted  # never for NaN
        rest = good & (f - ft <= least)
        if good.all():
            X, f, g = trial, ft, gt
            curvature.learn(s, y, good)
            D, slope = _direction(X, g, low, high, curvature, reach)
            step.fill(1.0)
            cuts.fill(0)
        else:
            # a rejected step is cut at the minimum of the parabola through value, slope and trial value, within [0.1,
            # 0.5] of its length
            bend = ft - f - predicted
            parabola = ~good & (bend > 0) & (bend < 1e300)
            cut = np.where(parabola, -0.5 * predicted / np.where(parabola, bend, 1.0), 0.1)
            step = np.where(good, 1.0, step * np.minimum(np.maximum(cut, 0.1), 0.5))
            cuts = np.where(good, 0, cuts + 1)
            if good.any():
                X, f, g = np.where(good[:, None], trial, X), np.where(good, ft, f), np.where(good[:, None], gt, g)
                curvature.learn(s, y, good)
                fresh, fresh_slope = _direction(X, g, low, high, curvature, reach)
                D, slope = np.where(good[:, None], fresh, D), np.where(good, fresh_slope, slope)
        cuts[rest] = MOST_CUTS
        best_x[rows], best_f[rows] = X, f
    return best_x, best_f


def _descend(
    function: Function, x: Array, low: Array, high: Array, rounds: int, reach: float, tolerance: float
) -> tuple[Array, float]:
    """`minimise` from a single start x (d), to the last bit: numbers take half the time of arrays of one."""
    values, gradients = function(x[None])
    f, g, curvature = float(values[0]), gradients[0], Single(len(x))
    D, slope = curvature.direction(x, g, low, high, reach)
    step, cuts = 1.0, 0
    for _ in range(rounds):
        least = tolerance * (1.0 + abs(f))
        if not slope < -least or cuts == MOST_CUTS:
            break
        trial = x + step * D
        np.maximum(trial, low, out=trial)
        np.minimum(trial, high, out=trial)
        values, gradients = function(trial[None])
        ft, gt = float(values[0]), gradients[0]
        s = trial - x
        predicted = min(_product(g, s), 0.0)
        if ft <= f + ARMIJO * predicted:  # never for NaN
            rest = f - ft <= least
            y, x, f, g = gt - g, trial, ft, gt
            if rest:
                break
            curvature.learn(s, y)
            D, slope = curvature.direction(x, g, low, high, reach)
            step, cuts = 1.0, 0
        else:
            bend = ft - f - predicted
            cut = -0.5 * predicted / bend if 0.0 < bend < 1e300 else 0.1
            step, cuts = step * min(max(cut, 0.1), 0.5), cuts + 1
    return x, f


def row_by_row(one: Callable[[Array], tuple[float, Array]]) -> Function:
    """A function of one point (d) as the function of many (q x d) that `minimise` takes."""

    def many(points: Array) -> tuple[Array, Array]:
        values, gradients = zip(*(one(point) for point in points), strict=True)
        return np.array(values), np.array(gradients)

    return many


def _direction(X: Array, g: Array, low: Array, high: Array, H: Dense | Limited, reach: float) -> tuple[Array, Array]:
    """The descent direction of every start (q x d) and the slope along it (q)."""
    held = np.where(g > 0, X - low, high - X) <= 0.0
    p = np.where(held, 0.0, g)
    D = H.times(p, held if held.any() else None, reach)
    np.negative(D, out=D)
    D[held] = 0.0
    slope = _dot(D, p)
    uphill = slope > 0.0  # only by rounding
    if uphill.any():
        D[uphill] = -p[uphill] * (reach / np.maximum(np.abs(p[uphill]).max(axis=1), 1e-300))[:, None]
        slope = _dot(D, p)
    return D, slope


def _dot(A: Array, B: Array) -> Array:
    """Row by row."""
    return np.asarray(np.einsum("ij,ij->i", A, B))


def _usable(s: Array, y: Array, good: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Array, Array]:
    """Which pairs carry curvature, s.y and y.y, the latter two 1 where they do not."""
    sy, yy = _dot(s, y), _dot(y, y)
    fine = good & (sy > NO_CURVATURE * np.sqrt(_dot(s, s) * yy)) & (sy > 1e-300) & (yy < 1e300)
    return fine, np.where(fine, sy, 1.0), np.where(fine, yy, 1.0)


def _product(a: Array, b: Array) -> float:
    """a.b, to the last bit that of `_dot`."""
    return float(np.einsum("i,i->", a, b))


class Single:
    """The inverse Hessian H of a single start, d x d, to the last bit that of `Dense`."""

    def __init__(self, d: int) -> None:
        self.H: Array | None = None  # none before any pair
        self.d = d

    def learn(self, s: Array, y: Array) -> None:
        """Takes in a step s and the change y of the gradient (d each)."""
        sy, yy = _product(s, y), _product(y, y)
        if not (sy > NO_CURVATURE * math.sqrt(_product(s, s) * yy) and sy > 1e-300 and yy < 1e300):
            return
        if self.H is None:
            self.H = (sy / yy) * np.eye(self.d)
        Hy = self.H @ y
        a = ((0.5 * (1.0 + _product(y, Hy) / sy)) * s - Hy) / sy
        outer = a[:, None] * s
        self.H += outer
        self.H += outer.T

    def direction(self, x: Array, g: Array, low: Array, high: Array, reach: float) -> tuple[Array, float]:
        """The descent direction (d) and the slope along it; see `_direction`."""
        held = np.where(g > 0, x - low, high - x) <= 0.0
        some = bool(held.any())
        p = np.where(held, 0.0, g) if some else g
        if self.H is None:
            D = p * (reach / max(float(np.abs(p).max()), 1e-300))
        else:
            D = self.H @ p
            if some:
                whole = Dense(1, self.d)
                whole.H, whole.begun = self.H[None], np.array([True])
                D = whole.times(p[None], held[None], reach)[0]
                if not whole.begun[0]:
                    self.H = None
        np.negative(D, out=D)
        D[held] = 0.0
        slope = _product(D, p)
        if slope > 0.0:  # only by rounding
            D = -p * (reach / max(float(np.abs(p).max()), 1e-300))
            slope = _product(D, p)
        return D, slope


class Dense:
    """The inverse Hessians H of a batch of starts as q matrices, d x d."""

    def __init__(self, q: int, d: int) -> None:
        self.H = np.zeros((q, d, d))
        self.begun = np.zeros(q, dtype=bool)

    def learn(self, s: Array, y: Array, good: NDArray[np.bool_]) -> None:
        """Takes in steps s and changes y of the gradient (q x d each) where `good` holds."""
        fine, sy, yy = _usable(s, y, good)
        if not fine.any():
            return
        first = fine & ~self.begun
        if first.any():
            self.H[first] = (sy / yy)[first, None, None] * np.eye(s.shape[1])
            self.begun |= first
        if not fine.all():
            s, y = np.where(fine[:, None], s, 0.0), np.where(fine[:, None], y, 0.0)
        Hy = np.matmul(self.H, y[:, :, None])[:, :, 0]
        # H + (1 + y.Hy / s.y) s s' / s.y - (Hy s' + s Hy') / s.y, as a s' + s a' with a as below
        a = ((0.5 * (1.0 + _dot(y, Hy) / sy))[:, None] * s - Hy) / sy[:, None]
        outer = a[:, :, None] * s[:, None, :]
        self.H += outer
        self.H += outer.transpose(0, 2, 1)

    def times(self, p: Array, held: NDArray[np.bool_] | None, reach: float) -> Array:
        """The inverse of the Hessian's free part times p, q x d; before any pair a multiple of p up to `reach`."""
        D: Array = np.matmul(self.H, p[:, :, None])[:, :, 0]
        if held is not None and self.begun.any():
            # H is the inverse of the whole Hessian: forces on the held coordinates that keep them in place give the
            # inverse of its free part
            both = held[:, :, None] & held[:, None, :]
            M = np.where(both, self.H, np.eye(p.shape[1]))
            M[~self.begun] = np.eye(p.shape[1])
            try:
                force = np.linalg.solve(M, np.where(held, D, 0.0)[:, :, None])
            except np.linalg.LinAlgError:  # rounding has cost some H their rank: those starts begin again
                lost = np.linalg.slogdet(M)[0] == 0
                self.H[lost], self.begun[lost], M[lost], D[lost] = 0.0, False, np.eye(p.shape[1]), 0.0
                force = np.linalg.solve(M, np.where(held, D, 0.0)[:, :, None])
            D -= np.matmul(self.H, force)[:, :, 0]
        if not self.begun.all():
            scaled = p * (reach / np.maximum(np.abs(p).max(axis=1), 1e-300))[:, None]
            D = np.where(self.begun[:, None], D, scaled)
        return D

    def keep(self, rows: NDArray[np.bool_]) -> None:
        self.H, self.begun = self.H[rows], self.begun[rows]


class Limited:
    """H by the last pairs of each start, oldest first; empty ones have 1 / s.y = 0 and change nothing."""

    def __init__(self, q: int, d: int) -> None:
        self.s, self.y, self.inverse = np.zeros((MEMORY, q, d)), np.zeros((MEMORY, q, d)), np.zeros((MEMORY, q))
        self.scale = np.zeros(q)

    def learn(self, s: Array, y: Array, good: NDArray[np.bool_]) -> None:
        fine, sy, yy = _usable(s, y, good)
        for store, new in ((self.s, s), (self.y, y), (self.inverse, 1.0 / sy)):
            store[:-1, fine] = store[1:, fine]
            store[-1, fine] = new[fine]
        self.scale = np.where(fine, sy / yy, self.scale)

    def times(self, p: Array, held: NDArray[np.bool_] | None, reach: float) -> Array:
        used = [i for i in range(MEMORY) if self.inverse[i].any()]
        pairs = [(self.s[i], self.y[i], self.inverse[i]) for i in used]
        if held is not None:
            pairs = [_free_part(pair, held) for pair in pairs]
        r = p.copy()
        shares = []
        for s, y, inverse in reversed(pairs):
            a = inverse * _dot(s, r)
            shares.append(a)
            r -= a[:, None] * y
        first = reach / np.maximum(np.abs(p).max(axis=1), 1e-300)
        r *= np.where(self.scale > 0, self.scale, first)[:, None]
        for (s, y, inverse), a in zip(pairs, reversed(shares), strict=True):
            r += (a - inverse * _dot(y, r))[:, None] * s
        return r

    def keep(self, rows: NDArray[np.bool_]) -> None:
        self.s, self.y, self.inverse = self.s[:, rows], self.y[:, rows], self.inverse[:, rows]
        self.scale = self.scale[rows]


def _free_part(pair: tuple[Array, Array, Array], held: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """A pair within the coordinates that are not held."""
    s, y = np.where(held, 0.0, pair[0]), np.where(held, 0.0, pair[1])
    fine, sy, _ = _usable(s, y, pair[2] > 0)
    return s, y, np.where(fine, 1.0 / sy, 0.0)
