"""The allowed part of a cube: equations between coordinates, and a rule that says yes or no.

A coordinate per equation follows from the others (`complete`), so that equations hold by construction. A point that the
rule forbids, or whose dependent coordinate leaves the cube, is pulled towards an allowed one until it is allowed too
(`pull`): what comes out has been checked itself, whatever shape the region has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.space.parameters import Array

Snap: TypeAlias = Callable[[Array], Array]
Allows: TypeAlias = Callable[[Array], NDArray[np.bool_]]
"""Canonical points (n x d) to whether each is allowed (n)."""

SAME = 1e-9
"""Both sides of an equation may differ by this share of its largest term, because sums of floats are rounded."""
DRAWN = 4096
"""Uniform draws among which allowed points are looked for at first; a region of a thousandth of the cube has some."""
ANCHORS = 128
"""Allowed points that are kept to pull others towards: enough that one of them is near in a few dimensions."""
WALKS = 16
"""Steps of a random walk inside the region before one of its points becomes an anchor."""
HALVINGS = 24
"""Halvings of the way between an allowed and a forbidden point: the end is within 1e-7 of the border."""
FEW = 6
"""Halvings where the border need not be met closely, because the point is only one of many."""


class Region:
    """The points of a cube with A x = b that a rule allows.

    Args:
        dim: the number of coordinates.
        rule: what else has to hold, or None.
        equations: A (m x d) and b (m), or None.
        linear: G (k x d) and h (k) of those parts of the rule that read G x <= h; they only help to find points.
        words: the rules as the user wrote them, for messages.
    """

    def __init__(
        self,
        dim: int,
        *,
        rule: Allows | None = None,
        equations: tuple[Array, Array] | None = None,
        linear: tuple[Array, Array] | None = None,
        words: str = "",
        held: Collection[int] = (),
    ) -> None:
        self.dim, self.rule, self.equations, self.linear, self.words = dim, rule, equations, linear, words
        self.dependent: list[int] = []
        """The coordinates that follow from the others."""
        self.slopes, self.level = np.zeros((0, dim)), np.zeros(0)
        """dependent = level - slopes x, slopes being 0 at the dependent ones."""
        if equations is not None and len(equations[1]):
            self._solve(*equations, set(held))
        self._anchors: Array | None = None

    def _solve(self, A: Array, b: Array, held: set[int]) -> None:
        """Gauss-Jordan elimination: one dependent coordinate per equation, none of them held."""
        M = np.concatenate([A, b[:, None]], axis=1)
        size = np.abs(A).max()
        for row in range(len(M)):
            free = [i for i in range(self.dim) if i not in self.dependent and i not in held]
            best = max(free, key=lambda i: abs(M[row, i]), default=-1)
            if best < 0 or abs(M[row, best]) <= SAME * size:
                raise ValueError(f"the equations of where ({self.words}) contradict or repeat each other, or are fixed")
            M[row] /= M[row, best]
            for other in range(len(M)):
                if other != row:
                    M[other] -= M[other, best] * M[row]
            self.dependent.append(best)
        self.slopes, self.level = M[:, :-1].copy(), M[:, -1].copy()
        self.slopes[:, self.dependent] = 0.0

    def with_held(self, held: Collection[int]) -> Region:
        """The same region when some coordinates are held, so that others have to follow."""
        return Region(
            self.dim, rule=self.rule, equations=self.equations, linear=self.linear, words=self.words, held=held
        )

    def complete(self, Z: Array) -> None:
        """Sets the dependent coordinates of Z (... x d), within the cube. The sums are taken term by term, because a
        product of matrices rounds a point differently alone and among others, and then it is not the same point."""
        for k, i in enumerate(self.dependent):
            value = self.level[k]
            for j in np.flatnonzero(self.slopes[k]):
                value = value - self.slopes[k, j] * Z[..., j]
            Z[..., i] = np.clip(value, 0.0, 1.0)

    def chained(self, gradient: Array) -> Array:
        """The gradient (q x d) along the free coordinates when the dependent ones follow."""
        if not self.dependent:
            return gradient
        return np.asarray(gradient - gradient[:, self.dependent] @ self.slopes)

    def allows(self, X: Array) -> NDArray[np.bool_]:
        """Which of the canonical points X (n x d) are allowed, n."""
        ok = np.ones(len(X), dtype=bool)
        if self.equations is not None and self.dependent:
            A, b = self.equations
            ok &= (np.abs(X @ A.T - b) <= SAME * np.abs(A).max(axis=1)).all(axis=1)
        if self.rule is not None and ok.any():
            ok[ok] = self.rule(X[ok])
        return ok

    def anchors(self, snap: Snap) -> Array:
        """Allowed points over the region, k x d; raises ValueError when none can be found."""
        if self._anchors is None:
            rng = np.random.Generator(np.random.Philox(key=0))
            draws = snap(rng.random((DRAWN, self.dim)))
            found = draws[self.allows(draws)][:ANCHORS]
            if len(found) == 0:
                corners = snap(self._corners(rng))
                found = corners[self.allows(corners)]
            if len(found) == 0:
                raise ValueError(
                    f"no setting that satisfies where ({self.words}) was found among {DRAWN} draws and the corners of "
                    "its linear rules: loosen the rules or widen the ranges"
                )
            if len(found) < ANCHORS:
                found = self._walked(found, snap, rng)
            self._anchors = found
        return self._anchors

    def _corners(self, rng: np.random.Generator) -> Array:
        """The middle of the region of the linear rules, corners of it, and points between, k x d; empty without
        any."""
        from scipy.optimize import linprog

        G, h = self.linear if self.linear is not None else (np.zeros((0, self.dim)), np.zeros(0))
        A, b = self.equations if self.equations is not None else (np.zeros((0, self.dim)), np.zeros(0))
        walls = np.concatenate([G, np.eye(self.dim), -np.eye(self.dim)])
        ends = np.concatenate([h, np.ones(self.dim), np.zeros(self.dim)])
        sizes = np.sqrt((walls * walls).sum(axis=1, keepdims=True))
        middle = linprog(
            np.append(np.zeros(self.dim), -1.0), A_ub=np.append(walls, sizes, axis=1), b_ub=ends,
            A_eq=np.append(A, np.zeros((len(A), 1)), axis=1), b_eq=b, bounds=[(0, 1)] * self.dim + [(0, None)],
        )  # fmt: skip
        if middle.status != 0:
            return np.zeros((0, self.dim))
        found = [np.asarray(middle.x, dtype=np.float64)[:-1]]
        # 32: corners of the region of linear rules that are looked at when no draw is allowed
        for _ in range(32):
            corner = linprog(
                rng.standard_normal(self.dim), A_ub=walls, b_ub=ends, A_eq=A, b_eq=b, bounds=[(0, 1)] * self.dim
            )
            if corner.status == 0:
                end = np.asarray(corner.x, dtype=np.float64)
                found += [end, 0.5 * (end + found[0])]
        return np.array(found)

    def _walked(self, found: Array, snap: Snap, rng: np.random.Generator) -> Array:
        """ANCHORS points of random walks from allowed points, which are kept themselves."""
        points, at = list(found), found[rng.integers(len(found), size=ANCHORS - len(found))]
        for _ in range(WALKS):
            aim = snap(at + rng.standard_normal(at.shape) * np.exp(rng.uniform(np.log(0.02), 0.0, (len(at), 1))))
            ends = self.pull(aim, snap, towards=at, halvings=FEW)
            part = snap(at + rng.random((len(at), 1)) * (ends - at))
            good = self.allows(part)
            at = np.where(good[:, None], part, at)
        return np.array(points + list(at))

    def pull(self, X: Array, snap: Snap, *, towards: Array | None = None, halvings: int = HALVINGS) -> Array:
        """The points X (n x d), forbidden ones moved towards an allowed point (their row of `towards`, else the nearest
        anchor) until they are allowed, n x d."""
        X = np.array(X)
        bad = np.flatnonzero(~self.allows(X))
        if len(bad) == 0:
            return X
        if towards is None:
            anchors = self.anchors(snap)
            base = anchors[[int(np.argmin(((anchors - x) ** 2).sum(axis=1))) for x in X[bad]]]
        else:
            base = towards[bad]
        best, low, high = base.copy(), np.zeros(len(bad)), np.ones(len(bad))
        for _ in range(halvings):
            middle = 0.5 * (low + high)
            points = snap(base + middle[:, None] * (X[bad] - base))
            good = self.allows(points)
            best = np.where(good[:, None], points, best)
            low, high = np.where(good, middle, low), np.where(good, high, middle)
        X[bad] = best
        return X

    def uniform(self, rng: np.random.Generator, snap: Snap) -> Array:
        """An allowed point, exactly uniform by rejection, d."""
        for _ in range(DRAWN):
            point = snap(rng.random((1, self.dim)))
            if self.allows(point)[0]:
                return np.asarray(point[0])
        raise ValueError(f"probes are uniform draws, and none of {DRAWN} satisfied where ({self.words})")

    def draw(self, rng: np.random.Generator, snap: Snap) -> Array:
        """An allowed point, uniform where the region is not too small a part of the cube, d."""
        # 256: uniform draws before a walk inside the region takes over
        for _ in range(256 // 16):
            points = snap(rng.random((16, self.dim)))
            good = np.flatnonzero(self.allows(points))
            if len(good):
                return np.asarray(points[good[0]])
        anchors = self.anchors(snap)
        start = anchors[int(rng.integers(len(anchors)))][None]
        for _ in range(WALKS):
            end = self.pull(snap(start + rng.standard_normal(start.shape)), snap, towards=start, halvings=FEW)
            part = snap(start + rng.random() * (end - start))
            start = part if self.allows(part)[0] else start
        return np.asarray(start[0])
