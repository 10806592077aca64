"""A batched L-BFGS for bounds: many starts advance together, one call of the function per round.

Projected quasi-Newton (Bertsekas 1982 for the active set, Nocedal 1980 for the two-loop recursion): coordinates at a bound whose gradient
points outwards are held, the limited-memory direction is taken in the others, and the step is cut back along the projected arc until it
satisfies Armijo's condition. Starts are independent of each other; a round is one evaluation of all starts that are still moving, and each of
them either accepts its trial point or shortens its step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from regretless.space import Array

Function: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Points (q x d) to values (q) and gradients (q x d), each row on its own."""

ARMIJO = 1e-4
"""The share of the predicted decrease a step must reach."""
MOST_CUTS = 14
"""A direction whose step was cut this often is given up."""
CURVATURE = 1e-12
"""Pairs with s.y below this share of |s| |y| carry no curvature."""


def minimise(
    function: Function,
    start: Array,
    lower: Array | float,
    upper: Array | float,
    *,
    rounds: int,
    memory: int = 8,
    reach: float = 0.1,
    tolerance: float = 1e-12,
) -> tuple[Array, Array]:
    """Local minima from each row of start (q x d) within the bounds: points (q x d) and values (q).

    lower, upper: bounds, broadcast to q x d; where they meet a coordinate is held.
    rounds: evaluations per start beyond the first. reach: the largest change of a coordinate in the very first step.
    tolerance: a start rests when its direction promises, or an accepted step brought, a smaller decrease than this times 1 + |value|.
    """
    X = np.clip(start, lower, upper)
    q, d = X.shape
    low, high = np.broadcast_to(lower, (q, d)), np.broadcast_to(upper, (q, d))
    f, g = function(X)
    S, Y, inverse_sy = np.zeros((memory, q, d)), np.zeros((memory, q, d)), np.zeros((memory, q))
    scale = np.zeros(q)  # s.y / y.y of the newest pair; 0 while there is none
    best_x, best_f = X.copy(), f.copy()
    rows = np.arange(q)  # of the starts still moving
    D, slope = _direction(X, g, low, high, S, Y, inverse_sy, scale, 0, reach)
    step, cuts = np.ones(q), np.zeros(q, dtype=np.intp)
    slot = 0
    for _ in range(rounds):
        moving = (slope < -tolerance * (1.0 + np.abs(f))) & (cuts < MOST_CUTS)
        if not moving.all():
            if not moving.any():
                break
            rows, cuts = rows[moving], cuts[moving]
            X, f, g, D, slope, step, low, high = (a[moving] for a in (X, f, g, D, slope, step, low, high))
            S, Y, inverse_sy, scale = S[:, moving], Y[:, moving], inverse_sy[:, moving], scale[moving]
        trial = np.clip(X + step[:, None] * D, low, high)
        ft, gt = function(trial)
        moved = trial - X
        predicted = np.einsum("ij,ij->i", g, moved)
        good = (ft <= f + ARMIJO * np.minimum(predicted, 0.0)) & np.isfinite(ft)
        s, dy = np.where(good[:, None], moved, 0.0), np.where(good[:, None], gt - g, 0.0)
        sy, yy, ss = np.einsum("ij,ij->i", s, dy), np.einsum("ij,ij->i", dy, dy), np.einsum("ij,ij->i", s, s)
        curved = sy > CURVATURE * np.sqrt(ss * yy) + 1e-300
        S[slot], Y[slot] = s, dy
        safe = np.where(curved, sy, 1.0)
        inverse_sy[slot] = np.where(curved, 1.0 / safe, 0.0)
        scale = np.where(curved, safe / np.where(curved, yy, 1.0), scale)
        slot = (slot + 1) % memory
        tiny = good & (f - ft <= tolerance * (1.0 + np.abs(f)))
        # a rejected step is cut at the minimum of the parabola through value, slope and trial value, within [0.1, 0.5] of its length
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            bend = np.where(good | ~np.isfinite(ft), 1.0, ft - f - predicted)
            cut = np.clip(np.nan_to_num(-0.5 * predicted / np.where(bend > 0, bend, 1.0), nan=0.1), 0.1, 0.5)
        X, f, g = np.where(good[:, None], trial, X), np.where(good, ft, f), np.where(good[:, None], gt, g)
        best_x[rows], best_f[rows] = X, f
        fresh, fresh_slope = _direction(X, g, low, high, S, Y, inverse_sy, scale, slot, reach)
        D, slope = np.where(good[:, None], fresh, D), np.where(good, fresh_slope, slope)
        step = np.where(good, 1.0, step * cut)
        cuts = np.where(tiny, MOST_CUTS, np.where(good, 0, cuts + 1))
    return best_x, best_f


def _direction(
    X: Array, g: Array, lower: Array, upper: Array, S: Array, Y: Array, inverse_sy: Array, scale: Array, slot: int, reach: float
) -> tuple[Array, Array]:
    """The descent direction of every start (q x d) and the slope along it (q); the newest pair lies before `slot`."""
    free = ~(((lower >= X) & (g > 0)) | ((upper <= X) & (g < 0)))
    p = np.where(free, g, 0.0)
    if not free.all():
        S, Y = S * free, Y * free
        sy = np.einsum("mij,mij->mi", S, Y)
        inverse_sy = np.where((inverse_sy > 0) & (sy > 1e-300), 1.0 / np.where(sy > 1e-300, sy, 1.0), 0.0)
    memory = len(S)
    order = [(slot - 1 - i) % memory for i in range(memory)]
    used = [i for i in order if inverse_sy[i].any()]
    r = p.copy()
    shares: list[Array] = []
    for i in used:
        a = inverse_sy[i] * np.einsum("ij,ij->i", S[i], r)
        shares.append(a)
        r -= a[:, None] * Y[i]
    first = reach / np.maximum(np.abs(p).max(axis=1), 1e-300)
    r *= np.where(scale > 0, scale, first)[:, None]
    for i, a in zip(reversed(used), reversed(shares), strict=True):
        b = inverse_sy[i] * np.einsum("ij,ij->i", Y[i], r)
        r += (a - b)[:, None] * S[i]
    D = np.where(free, -r, 0.0)
    slope = np.einsum("ij,ij->i", D, p)
    uphill = ~(slope < 0)
    if uphill.any():
        steepest = -p * np.where(scale > 0, np.minimum(scale, first), first)[:, None]
        D = np.where(uphill[:, None], steepest, D)
        slope = np.einsum("ij,ij->i", D, p)
    return D, slope
