"""A confidence set for the parameters of a true family under known noise, valid for points chosen adaptively.

With noise that is sigma-sub-Gaussian given the past, L(w) = exp(-RSS(w) / (2 sigma^2)) and any prior pi, the mixture
ratio

    M = integral of L(u) pi(u) du / L(w*)

has expectation at most 1 at the true w* however the points were chosen (Robbins 1970, method of mixtures; for a linear
family and a normal prior this is the self-normalised bound of Lemma B.3). So has an unbiased estimate Z / L(w*) of it,
and by Markov's inequality

    C = {w : RSS(w) <= 2 sigma^2 (log(1 / delta) - log Z)}

holds w* with probability at least 1 - delta. Nothing is linearised and the fit need not be the global one: a poor
proposal or a poor fit only makes Z smaller and C larger. Z is estimated by importance sampling around the fit, with a
wide part in the proposal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from regretless.gp.maximiser import maximise
from regretless.gp.sobol import sobol_points
from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.differences import with_gradient
from regretless.parameters import Array
from regretless.space import Cube

SAMPLES = 2048
WIDE = 0.1
"""Share of the samples that come from the prior itself."""
STRETCH = 1.3
"""The Laplace part of the proposal is this much wider than the linearised posterior, so that its weights stay
bounded."""
STEPS, STARTS = 20, 8
"""Steps of the climb to the edge of the set, and members of the set it begins at."""
CUTS = np.array([1.0, 0.6, 0.3, 0.1, 0.03, 0.005])
"""Shares of a step that are tried; the best that stays in the set is taken."""
RIDGE = 1e-8
"""Of the mean diagonal of J'J, added to it where the data do not determine the parameters."""
SCREEN, SOME, TRIED, CLIMBS = 256, 128, 16, 3
"""Points screened with so many members, points whose worst parameters are sought, and climbs that go on, in the search
over the cube."""
ALTERNATIONS = 6
"""Most rounds of a climb: the best point of some parameters, the worst parameters of that point."""

Squares = Callable[[Array], Array]
"""Parameter vectors (k x p) to residual sums of squares (k)."""


def threshold(
    squares: Squares, v: Array, ball: Ball, sigma: float, reach: float, delta: float, rng: np.random.Generator
) -> tuple[float, Array]:  # fmt: skip
    """The largest RSS of a member of C, for a uniform prior on the box [-reach, reach]^p, and the members met on the
    way (k x p).

    `ball` is the linearisation at the fit v (p), Sigma = lam I + J'J.
    """
    p = len(v)
    V, c = ball.root()
    k = round(SAMPLES * (1 - WIDE))
    E = rng.standard_normal((k, p))
    scale = STRETCH * sigma / math.sqrt(ball.lam)
    near = v + scale * (E - (c * (E @ V)) @ V.T)
    W = np.concatenate([near, rng.uniform(-reach, reach, (SAMPLES - k, p))])
    inside = (np.abs(W) <= reach).all(axis=1)
    away = W - v
    norm2 = (ball.lam * (away**2).sum(axis=1) + ((away @ ball.G.T) ** 2).sum(axis=1)) / (STRETCH * sigma) ** 2
    log_det = 0.5 * (ball.log_det() + p * math.log(ball.lam)) - p * math.log(STRETCH * sigma)
    log_laplace = log_det - 0.5 * norm2 - 0.5 * p * math.log(2 * math.pi)
    log_prior = -p * math.log(2 * reach)
    log_proposal = np.logaddexp(math.log1p(-WIDE) + log_laplace, math.log(WIDE) + log_prior)
    values = np.full(SAMPLES, np.inf)
    values[inside] = squares(W[inside])
    least = float(values.min())
    if not math.isfinite(least):
        return math.inf, W[:0]
    log_terms = -(values - least) / (2 * sigma**2) + np.where(inside, log_prior - log_proposal, -np.inf)
    top = float(log_terms.max())
    log_z = top + math.log(float(np.exp(log_terms - top).mean())) - least / (2 * sigma**2)
    limit = 2 * sigma**2 * (math.log(1 / delta) - log_z)
    return limit, W[values <= limit]


class Region:
    """C for data X (n x d), z (n) with weights (n), around the fit v (p) with its ball.

    `values` maps k parameter vectors and m cube points to k x m values and k x m x p derivatives.
    """

    def __init__(
        self, values: Callable[[Array, Array], tuple[Array, Array]], X: Array, z: Array, weight: Array, v: Array, ball: Ball, sigma: float,
        reach: float, delta: float, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self._values, self._X, self._z, self._weight, self._reach, self._rng = values, X, z, weight, reach, rng
        self.limit, members = threshold(self.squares, v, ball, sigma, reach, delta, rng)
        self.empty = not (math.isfinite(self.limit) and float(self.squares(v[None])[0]) <= self.limit)
        """Whether even the fit is refuted."""
        self._members = np.concatenate([v[None], members])

    def squares(self, V: Array) -> Array:
        """The weighted residual sums of squares of parameter vectors (k x p), k."""
        rss: Array = ((self._values(V, self._X)[0] - self._z) ** 2) @ self._weight
        return rss

    def extreme(self, x: Array, sign: float) -> tuple[float, Array]:
        """The largest (sign 1) or smallest (sign -1) value at x (d) over C that a climb finds, and its parameters (p).

        From the most extreme members known: maximise the linearised value where the linearised residuals allow, cut the
        step until C allows it.
        """
        F = sign * self._values(self._members, x[None])[0][:, 0]
        order = np.argsort(-F, kind="stable")[:STARTS]
        V, best = self._members[order], F[order]
        for _ in range(STEPS):
            step = self._step(V, sign * self._values(V, x[None])[1][:, 0])
            trial = np.clip(V[:, None] + CUTS[:, None] * step[:, None], -self._reach, self._reach)
            k, m, p = trial.shape
            flat = trial.reshape(-1, p)
            values = np.where(
                self.squares(flat) <= self.limit, sign * self._values(flat, x[None])[0][:, 0], -np.inf
            ).reshape(k, m)
            pick = np.argmax(values, axis=1)
            gained = values[np.arange(k), pick] > best + 1e-9 * (1 + np.abs(best))
            if not gained.any():
                break
            V = np.where(gained[:, None], trial[np.arange(k), pick], V)
            best = np.where(gained, values[np.arange(k), pick], best)
        top = int(np.argmax(best))
        return sign * float(best[top]), V[top]

    def _step(self, V: Array, g: Array) -> Array:
        """For each member (k x p) the step s that maximises g.s where |r + J s|^2 <= limit; parameters at a bound that
        it would cross stay, k x p."""
        root = np.sqrt(self._weight)
        F, J = self._values(V, self._X)
        r, J = root * (F - self._z), root[:, None] * J
        held, edge = np.zeros_like(V, dtype=bool), self._reach * (1 - 1e-9)
        p = V.shape[1]
        step = np.zeros_like(V)
        for _ in range(p):
            free = np.where(held[:, None, :], 0.0, J)
            A = np.matmul(free.transpose(0, 2, 1), free)
            B = A.copy()
            B[:, np.arange(p), np.arange(p)] += RIDGE * (np.trace(A, axis1=1, axis2=2)[:, None] / p + 1e-300)
            sides = np.stack([np.where(held, 0.0, g), np.matmul(r[:, None], free)[:, 0]], axis=2)
            a, b = np.moveaxis(np.linalg.solve(B, sides), 2, 0)
            left = self.limit - ((r - np.matmul(free, b[:, :, None])[:, :, 0]) ** 2).sum(axis=1)
            bend = np.einsum("ki,kij,kj->k", a, A, a)
            step = np.sqrt(np.maximum(left, 0.0) / np.maximum(bend, 1e-300))[:, None] * a - b
            more = ((edge <= V) & (step > 0)) | ((-edge >= V) & (step < 0))
            if not (more & ~held).any():
                break
            held |= more
        step = np.where(held, 0.0, step)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step > 0, (self._reach - V) / step, np.where(step < 0, (-self._reach - V) / step, np.inf))
        shortened: Array = (
            step * np.minimum(1.0, room.min(axis=1))[:, None]
        )  # up to the first wall; the next step goes along it
        return shortened

    def largest(self, cube: Cube, starts: Array) -> float:
        """The largest value over the cube and C found.

        The worst parameters of the starts (k x d) and of the points that members of C make high, then, from the best of
        them, the worst parameters of a point and the best point of those parameters in turn, while that gains.
        """
        points = cube.snap(sobol_points(SCREEN, cube.dim, self._rng))
        heights = self._values(self._members[:SOME], points)[0].max(axis=0)
        points = np.concatenate([starts, points[np.argsort(-heights, kind="stable")[:TRIED]]])
        found = [self.extreme(x, 1.0) for x in points]
        order = sorted(range(len(points)), key=lambda i: -found[i][0])
        largest = found[order[0]][0]
        for i in order[:CLIMBS]:
            height, v = found[i]
            for _ in range(ALTERNATIONS):

                def surface(U: Array, v: Array = v) -> Array:
                    values: Array = self._values(v[None], U)[0][0]
                    return values

                x = maximise(with_gradient(surface, cube), cube, self._rng, incumbents=points[i][None], score=surface)
                before = height
                height, v = self.extreme(x, 1.0)
                largest = max(largest, height)
                if height <= before + 1e-4 * abs(before):
                    break
        return largest
