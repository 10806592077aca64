"""Maximises an acquisition over the cube.

Candidates are drawn everywhere and around the incumbents, and the best of them advance at once. Lines advance by
gradient (batched projected L-BFGS). Steps, whole numbers, choices and one-hot groups advance by sweeps: the best of a
point's single moves is taken while it improves. Every draw comes from the generator given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.models.gp.lbfgs import minimise
from regretless.models.gp.sobol import sobol_points
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless.space.region import FEW, Region

ValueAndGradient: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Points (q x d) to values (q) and gradients (q x d); coordinates that are not lines may have any gradient."""
ValueFunction: TypeAlias = Callable[[Array], Array]  # points (q x d) to values (q) alone


class Acquisition(NamedTuple):
    """A function that says what it promises to evaluate a point: with its gradient and, cheaper, without."""

    value_and_gradient: ValueAndGradient
    value: ValueFunction

    @classmethod
    def of(cls, function: ValueAndGradient) -> Acquisition:
        """The acquisition of a function whose values alone are no cheaper than with their gradients."""
        return cls(function, lambda X: function(X)[0])


STEPS = (
    1e-3,
    0.3,
)  # the sd of a local candidate's normal steps is log-uniform between these, as shares of the cube's edge
FINE_GRID = 1000  # an ordered grid with more positions is climbed as a line and then snapped: steps of one gain nothing


class Effort(NamedTuple):
    """How much work a maximisation takes; 2048 candidates and ten ascents gained nothing (docs/lab/gp-engine.md)."""

    raw: int = 420  # candidates valued before the ascent, a third of them around the incumbents
    starts: int = 4  # the number of candidates that are advanced; chosen with `raw`
    rounds: int = 25  # evaluations per start in the joint ascent; the best start goes on alone for as many again


USUAL = Effort()  # the effort of an ask


def maximise(
    acquisition: Acquisition, cube: Cube, rng: np.random.Generator, *, incumbents: Array, effort: Effort = USUAL
) -> Array:
    """The best legal point found, d; incumbents: points worth starting from, k x d, k >= 0."""
    return np.asarray(maximise_many(acquisition, cube, rng, incumbents=incumbents, effort=effort)[0][0])


def maximise_many(
    acquisition: Acquisition, cube: Cube, rng: np.random.Generator, *, incumbents: Array, effort: Effort = USUAL
) -> tuple[Array, Array]:
    """The local maxima reached from the best candidates, best first: legal points (starts x d) and values (starts)."""
    X = candidates(cube, rng, incumbents, effort.raw)
    X = X[_starts(cube, X, _finite(acquisition.value(X)), effort.starts)]
    # 1e-6, 1e-12: tolerances of the joint ascent, which only has to tell the starts apart, and of the best's
    X, f = _climb(acquisition, cube, rng, X, effort.rounds, 1e-6)
    order = np.argsort(-f, kind="stable")
    X, f = X[order], f[order]
    top, value = _climb(acquisition, cube, rng, X[:1], effort.rounds, 1e-12)
    if value[0] >= f[0]:
        X[0], f[0] = top[0], value[0]
    return X, f


def candidates(cube: Cube, rng: np.random.Generator, incumbents: Array, raw: int) -> Array:
    """Legal points over the whole cube and around the incumbents, then the incumbents themselves, about raw x d."""
    d, k = cube.dim, len(incumbents)
    local = raw // 3 if k else 0
    # 2000: the largest dimension with candidates from a Sobol sequence; beyond, uniform draws are no worse
    far = _spread(raw - local, d) + rng.random(d) if d <= 2000 else rng.random((raw - local, d))
    far -= np.floor(far)
    if not local:
        return _allowed(cube, far)
    centre = np.asarray(incumbents)[np.arange(local) % k]
    sd = np.exp(rng.uniform(np.log(STEPS[0]), np.log(STEPS[1]), (local, 1)))
    # 20: the mean number of coordinates that a local candidate changes, at most; TuRBO perturbs as many (App. B)
    moved = rng.random((local, d)) < min(1.0, 20 / d)
    moved[np.arange(local), rng.integers(d, size=local)] = True
    near = centre + np.where(moved, sd * rng.standard_normal((local, d)), 0.0)
    # a normal step rarely leaves the share of a position, so that every other position is drawn anew
    fresh = cube.discrete & moved & (rng.random((local, d)) < 0.5)
    near = np.where(fresh, rng.random((local, d)), near)
    for start, stop in cube.groups:
        again = moved[:, start:stop].any(axis=1) & (rng.random(local) < 0.5)
        near[again, start:stop] = rng.random((int(again.sum()), stop - start))
    near = np.where((near < 0.0) | (near > 1.0), np.clip(near, 0.0, 1.0), near)
    return _allowed(cube, np.concatenate([far, near, incumbents]))


def _allowed(cube: Cube, X: Array) -> Array:
    """Canonical points: all of X (n x d) in a cube without a region, else those that are allowed, and of the others as
    many as a quarter, pulled to the region."""
    Z = cube.snap(X)
    if cube.region is None:
        return Z
    good = cube.allows(Z)
    pulled = cube.region.pull(Z[~good][: len(Z) // 4], cube.snap, halvings=FEW)
    return np.concatenate([Z[good], pulled])


@functools.lru_cache(maxsize=16)
def _spread(n: int, d: int) -> Array:
    """A fixed scrambled Sobol set, n x d; shifted by a random vector modulo 1 it is uniform and still evenly spread."""
    points = sobol_points(n, d, np.random.Generator(np.random.Philox(key=0)))
    points.flags.writeable = False
    return points


def _finite(values: Array) -> Array:
    return np.where(np.isnan(values), -np.inf, values)


def _starts(cube: Cube, X: Array, values: Array, count: int) -> list[int]:
    """Rows to start from: the best distinct candidates and, where coordinates exist in some settings only, the best of
    each of the most promising branches: near the incumbents alone no other branch would ever be looked at."""
    chosen = _distinct_best(X, values, count)
    if cube.gates:
        branches: dict[bytes, int] = {}
        active = cube.active(X)
        for i in np.argsort(-values, kind="stable").tolist():
            branches.setdefault(active[i].tobytes(), i)
            # 6: branches of a conditional space, the most promising ones, that have a start of their own
            if len(branches) == 6:
                break
        chosen += [i for i in branches.values() if i not in chosen]
    return chosen


def _distinct_best(X: Array, values: Array, count: int) -> list[int]:
    """Rows of the best distinct candidates."""
    chosen: list[int] = []
    for i in np.argsort(-values, kind="stable").tolist():
        if not any(np.array_equal(X[i], X[j]) for j in chosen):
            chosen.append(i)
        if len(chosen) == count:
            break
    return chosen


def _climb(
    acquisition: Acquisition, cube: Cube, rng: np.random.Generator, X: Array, rounds: int, tolerance: float
) -> tuple[Array, Array]:
    """Each row advanced to a local maximum: legal points (q x d) and values (q)."""
    if cube.region is not None:
        return _climb_in_region(acquisition, cube, cube.region, rng, X, rounds, tolerance)
    fine = np.array([axis.levels > FINE_GRID and not axis.categorical for axis in cube.axes])
    if cube.plain:
        return _ascend_lines(acquisition.value_and_gradient, X, cube.held(X), rounds, tolerance)
    f = _finite(acquisition.value(X))
    # 10: the most alternations of ascent and sweep, which end by themselves when a sweep gains nothing
    for _ in range(10):
        held = cube.held(X, fine)
        if not held.all():
            higher, g = _ascend_lines(acquisition.value_and_gradient, X, held, rounds, tolerance)
            if fine.any():
                higher = cube.snap(higher)
                g = _finite(acquisition.value(higher))
                higher, g = np.where((g > f)[:, None], higher, X), np.maximum(g, f)
            X, f = higher, g
        X, f, improved = _sweep(acquisition.value, cube, rng, X, f)
        if not improved:
            break
    return X, f


def _climb_in_region(
    acquisition: Acquisition,
    cube: Cube,
    region: Region,
    rng: np.random.Generator,
    X: Array,
    rounds: int,
    tolerance: float,
) -> tuple[Array, Array]:
    """As `_climb`, among allowed points: an ascent ends where it would leave the region, and from there the best of
    many steps is taken, along the border too."""
    border_steps = (0.1, 0.03, 0.01, 0.003, 0.001)  # sds of the steps tried beside an ascent inside a region, in turn

    def following(P: Array) -> tuple[Array, Array]:
        Q = P.copy()
        region.complete(Q)
        value, gradient = acquisition.value_and_gradient(Q)
        return value, region.chained(gradient)

    f = _finite(acquisition.value(X))
    for sd in border_steps:
        held = cube.held(X)
        tried: list[Array] = []
        if not held.all():
            ends, _ = _ascend_lines(following, X, held, rounds, tolerance)
            tried.append(region.pull(cube.snap(ends), cube.snap, towards=X))
        # 32: steps tried for each start and sd; enough to go along a border in a few dimensions
        moves = np.repeat(X, 32, axis=0)
        moves = moves + sd * rng.standard_normal(moves.shape)
        tried.append(region.pull(cube.snap(moves), cube.snap, halvings=FEW))
        for i in range(len(X) if not cube.plain else 0):
            swept = cube.snap(_moves(cube, rng, X[i]))
            tried.append(swept[cube.allows(swept)])
        points = np.concatenate(tried)
        values = _finite(acquisition.value(points))
        for i in range(len(X)):  # each start takes the best point found from it; the first few are its own
            own = np.abs(points - X[i]).max(axis=1) <= max(4.0 * sd, 0.5 * (sd == border_steps[0]))
            if own.any():
                best = int(np.flatnonzero(own)[np.argmax(values[own])])
                if values[best] > f[i]:
                    X[i], f[i] = points[best], values[best]
    return X, f


def _ascend_lines(
    function: ValueAndGradient, X: Array, held: NDArray[np.bool_], rounds: int, tolerance: float
) -> tuple[Array, Array]:
    """Each row advanced along its lines, the held coordinates staying where they are."""

    def down(P: Array) -> tuple[Array, Array]:
        f, g = function(P)
        return -f, -g

    best, f = minimise(down, X, np.where(held, X, 0.0), np.where(held, X, 1.0), rounds=rounds, tolerance=tolerance)
    return best, -f


def _sweep(value: ValueFunction, cube: Cube, rng: np.random.Generator, X: Array, f: Array) -> tuple[Array, Array, bool]:
    """Takes for each row the best single move of a coordinate that is no line, again and again while it improves."""
    improved_any = False
    active = list(range(len(X)))
    X, f = X.copy(), f.copy()
    for _ in range(4 * max(1, len(cube.groups) + int(cube.discrete.sum()))):
        moves = [_moves(cube, rng, X[i]) for i in active]
        values = _finite(value(np.concatenate(moves)))
        still, at = [], 0
        for i, block in zip(active, moves, strict=True):
            mine = values[at : at + len(block)]
            at += len(block)
            best = int(np.argmax(mine))
            if mine[best] > f[i] + 1e-12 * (1.0 + abs(f[i])):
                X[i], f[i] = block[best], mine[best]
                still.append(i)
        if not still:
            break
        improved_any, active = True, still
    return X, f, improved_any


def _moves(cube: Cube, rng: np.random.Generator, x: Array) -> Array:
    """Legal points that differ from x in one coordinate that is no line, or in one one-hot group, x itself first."""
    most_labels = 256  # the most labels tried for one one-hot group in a sweep; of larger groups this many are drawn
    # the most positions tried for one coordinate in a sweep; on longer grids near and far ones are sampled
    most_moves = 24
    moves: list[Array] = [x[None]]
    for i in np.flatnonzero(cube.discrete).tolist():
        axis = cube.axes[i]
        here = int(axis.index(x[i : i + 1])[0])
        if axis.levels <= most_moves:
            to = np.arange(axis.levels)
        else:  # neighbours at doubling distances, and a few anywhere
            leaps = max(1, axis.levels // FINE_GRID) * 2 ** np.arange(most_moves // 3)
            anywhere = rng.integers(axis.levels, size=most_moves // 3)
            to = np.unique(np.clip(np.concatenate([here - leaps, here + leaps, anywhere]), 0, axis.levels - 1))
        others = to[to != here]
        block = np.repeat(x[None], len(others), axis=0)
        block[:, i] = axis.centre(others)
        moves.append(block)
    for start, stop in cube.groups:
        labels = np.arange(start, stop)
        if len(labels) > most_labels:
            labels = rng.choice(labels, most_labels, replace=False)
        labels = labels[x[labels] < 0.5]
        block = np.repeat(x[None], len(labels), axis=0)
        block[:, start:stop] = 0.0
        block[np.arange(len(labels)), labels] = 1.0
        moves.append(block)
    found = np.concatenate(moves)
    return cube.snap(found) if cube.gates or cube.pins else found
