"""Certificates of GO-UCB: bounds on f* and on the value of the recommended point, from a parametric family.

A certificate of kind "theory" needs a family declared true and a known noise. It bounds over the set C of parameters
that the data do not refute, without linearising anything. With sigma-sub-Gaussian noise, L(w) = exp(-RSS(w) / (2
sigma^2)) and any prior pi, the mixture ratio (Robbins 1970; for a linear family this is Lemma B.3)

    M = integral of L(u) pi(u) du / L(w*)

has expectation at most 1 at the true w*, however the points were chosen. So has an unbiased estimate Z / L(w*), here by
importance sampling around the fit. By Markov's inequality w* lies with probability at least 1 - delta in

    C = {w : RSS(w) <= 2 sigma^2 (log(1 / delta) - log Z)}.

A poor fit makes Z smaller and C larger, never wrong. A certificate of kind "fitted" takes FITTED_WIDTH normal quantiles
of the linearised model around the fit.
"""

import functools
import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from regretless.certificate import Certificate
from regretless.history import History
from regretless.methods.go_ucb.belief import MeanAndSd, best_evaluated, optimism
from regretless.methods.go_ucb.oracle import FamilyFit, Oracle
from regretless.methods.go_ucb.parametric import Jacobian, with_gradient
from regretless.models.gp.maximiser import Acquisition, maximise, maximise_many
from regretless.models.gp.sobol import sobol_points
from regretless.space import Cube
from regretless.space.parameters import Array

FITTED_WIDTH = 1.5  # widens the normal quantile of a fitted certificate; by hand, coverage in docs/lab/go-ucb.md
CUTS = np.array([1.0, 0.6, 0.3, 0.1, 0.03, 0.005])  # shares of a step that are tried; the best that stays in is taken

BoundKind: TypeAlias = Literal["theory", "fitted"]
Squares: TypeAlias = Callable[[Array], Array]  # parameter vectors (k x p) to residual sums of squares (k)


def threshold(squares: Squares, fit: FamilyFit, reach: float, delta: float, rng: Generator) -> tuple[float, Array]:
    """The largest RSS of a member of C, for a uniform prior on [-reach, reach]^p, and the members met on the way (k x
    p). The proposal is the linearisation at the fit, Sigma = lam I + J'J."""
    # samples of the estimate of Z; the share from the prior, which bounds the weights; by hand
    samples, wide = 2048, 0.1
    # the Laplace part of the proposal is so much wider than the linearised posterior, for its tails; by hand
    stretch = 1.3
    v, ball, sigma = fit.v, fit.ball, math.sqrt(fit.sigma2)
    p = len(v)
    V, c = ball.root()
    k = round(samples * (1 - wide))
    E = rng.standard_normal((k, p))
    scale = stretch * sigma / math.sqrt(ball.lam)
    near = v + scale * (E - (c * (E @ V)) @ V.T)
    W = np.concatenate([near, rng.uniform(-reach, reach, (samples - k, p))])
    inside = (np.abs(W) <= reach).all(axis=1)
    away = W - v
    norm2 = (ball.lam * (away**2).sum(axis=1) + ((away @ ball.G.T) ** 2).sum(axis=1)) / (stretch * sigma) ** 2
    log_det = 0.5 * (ball.log_det() + p * math.log(ball.lam)) - p * math.log(stretch * sigma)
    log_laplace = log_det - 0.5 * norm2 - 0.5 * p * math.log(2 * math.pi)
    log_prior = -p * math.log(2 * reach)
    log_proposal = np.logaddexp(math.log1p(-wide) + log_laplace, math.log(wide) + log_prior)
    values = np.full(samples, np.inf)
    values[inside] = squares(W[inside])
    least = float(values.min())
    if not math.isfinite(least):
        return math.inf, W[:0]
    log_terms = -(values - least) / (2 * sigma**2) + np.where(inside, log_prior - log_proposal, -np.inf)
    top = float(log_terms.max())
    log_z = top + math.log(float(np.exp(log_terms - top).mean())) - least / (2 * sigma**2)
    limit = 2 * sigma**2 * (math.log(1 / delta) - log_z)
    return limit, W[values <= limit]


class LikelihoodSet:
    """C for the data X (n x d) of a fit, weighted (n); `values` maps k parameter vectors and m cube points to k x m
    values and k x m x p derivatives in the units of the fit."""

    def __init__(
        self, values: Jacobian, X: Array, weight: Array, fit: FamilyFit, reach: float, delta: float, rng: Generator
    ) -> None:
        self._values, self._X, self._z, self._weight, self._reach, self._rng = values, X, fit.z, weight, reach, rng
        self.limit, members = threshold(self.squares, fit, reach, delta, rng)
        v = fit.v
        self.empty = not (math.isfinite(self.limit) and float(self.squares(v[None])[0]) <= self.limit)
        """Whether even the fit is refuted."""
        self._members = np.concatenate([v[None], members])

    def squares(self, V: Array) -> Array:
        """The weighted residual sums of squares of parameter vectors (k x p), k."""
        with np.errstate(over="ignore"):
            rss: Array = ((self._values(V, self._X)[0] - self._z) ** 2) @ self._weight
        return rss

    def extreme(self, x: Array, sign: float) -> tuple[float, Array]:
        """The largest (sign 1) or smallest (sign -1) value at x (d) over C that a climb finds, and its parameters (p).
        Each step maximises the linearised value where the linearised residuals allow, and is cut until C allows it."""
        F = sign * self._values(self._members, x[None])[0][:, 0]
        order = np.argsort(-F, kind="stable")[:8]
        V, best = self._members[order], F[order]
        # 20, 8: steps of the climb to the edge of the set, and members it begins at; set by hand, for time
        for _ in range(20):
            step = self._step(V, sign * self._values(V, x[None])[1][:, 0])
            trial = np.clip(V[:, None] + CUTS[:, None] * step[:, None], -self._reach, self._reach)
            k, m, p = trial.shape
            flat = trial.reshape(-1, p)
            values = sign * self._values(flat, x[None])[0][:, 0]
            values = np.where(self.squares(flat) <= self.limit, values, -np.inf).reshape(k, m)
            pick = np.argmax(values, axis=1)
            gained = values[np.arange(k), pick] > best + 1e-9 * (1 + np.abs(best))
            if not gained.any():
                break
            V = np.where(gained[:, None], trial[np.arange(k), pick], V)
            best = np.where(gained, values[np.arange(k), pick], best)
        top = int(np.argmax(best))
        return sign * float(best[top]), V[top]

    def _step(self, V: Array, g: Array) -> Array:
        """For each member (k x p) the step s that maximises g.s where |r + J s|^2 <= limit, held at bounds, k x p."""
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
            # 1e-8: the share of J'J's mean diagonal added to it, for parameters left open: the root of double
            # precision
            B[:, np.arange(p), np.arange(p)] += 1e-8 * (np.trace(A, axis1=1, axis2=2)[:, None] / p + 1e-300)
            right = np.stack([np.where(held, 0.0, g), np.matmul(r[:, None], free)[:, 0]], axis=2)
            a, b = np.moveaxis(np.linalg.solve(B, right), 2, 0)
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
        # up to the first wall; the next step goes along it
        return np.asarray(step * np.minimum(1.0, room.min(axis=1))[:, None])

    def largest(self, cube: Cube, starts: Array) -> float:
        """The largest value over the cube and C found: the worst parameters of a point and their best point in turn."""
        # 256, 128, 16, 3, 6: points and members that screen the cube, points tried, climbs and alternations; set by
        # hand, for time
        points = cube.snap(sobol_points(256, cube.dim, self._rng))
        heights = self._values(self._members[:128], points)[0].max(axis=0)
        points = np.concatenate([starts, points[np.argsort(-heights, kind="stable")[:16]]])
        found = [self.extreme(x, 1.0) for x in points]
        order = sorted(range(len(points)), key=lambda i: -found[i][0])
        largest = found[order[0]][0]
        for i in order[:3]:
            height, v = found[i]
            for _ in range(6):

                def surface(U: Array, v: Array = v) -> Array:
                    return np.asarray(self._values(v[None], U)[0][0])

                acquisition = Acquisition(with_gradient(surface, cube), surface)
                x = maximise(acquisition, cube, self._rng, incumbents=points[i][None])
                before = height
                height, v = self.extreme(x, 1.0)
                largest = max(largest, height)
                if height <= before + 1e-4 * abs(before):
                    break
        return largest


def theory_certificate(
    history: History, cube: Cube, x: Array, delta: float, rng: Generator,
    *, oracle: Oracle, fit: FamilyFit, belief: MeanAndSd, noise_sd: float,
) -> Certificate:  # fmt: skip
    """Bounds of f* and of the value at x (d) over all parameters that the data do not refute at level delta."""
    values, weight = functools.partial(oracle.predict, fit), certain_weights(history.yvar, noise_sd)
    members = LikelihoodSet(values, history.X, weight, fit, oracle.family.reach, delta, rng)
    if members.empty:
        return Certificate.none("the data refute the family near the fit: it is wrong, or the noise is larger", delta)
    lower = members.extreme(x, -1.0)[0]
    radius = math.sqrt(max(members.limit - float(members.squares(fit.v[None])[0]), 0.0) / fit.sigma2)
    acquisition = optimism(belief, radius, cube)
    near = best_evaluated(belief, history.X)
    hopeful, _ = maximise_many(acquisition, cube, rng, incumbents=near)
    upper = members.largest(cube, np.concatenate([x[None], hopeful]))
    noise = f"the noise is {noise_sd:g}-sub-Gaussian, or as told with a value"
    return _in_units(fit, (lower, upper), delta, "theory", ("the objective is a member of the family", noise))


def linearised_certificate(
    history: History, cube: Cube, x: Array, delta: float, rng: Generator,
    *, fit: FamilyFit, belief: MeanAndSd, name: str,
) -> Certificate:  # fmt: skip
    """Bounds of f* and of the value at x (d) by quantiles of a belief around the fit; `name` says in words what was
    fitted."""
    b = FITTED_WIDTH * float(ndtri(1 - delta / 2))
    acquisition = optimism(belief, b, cube)
    top = maximise(acquisition, cube, rng, incumbents=best_evaluated(belief, history.X))
    mean, sd = belief(x[None])
    bounds = float(mean[0] - b * sd[0]), float(acquisition.value(top[None])[0])
    assumptions = (f"{name} with parameters and noise fitted", "coverage as measured on test problems")
    return _in_units(fit, bounds, delta, "fitted", assumptions)


def certain_weights(yvar: Array, noise_sd: float) -> Array:
    """Weights of squares (n) under which the noise of every row is `noise_sd`-sub-Gaussian; NaN in yvar: unknown."""
    known = np.isfinite(yvar)
    # 0.01: told variances count in a theory certificate as at least this share of the declared one; by hand
    variance = np.maximum(np.where(known, yvar, 1.0), 0.01 * noise_sd**2)
    return np.where(known, noise_sd**2 / variance, 1.0)


def _in_units(
    fit: FamilyFit, bounds: tuple[float, float], delta: float, kind: BoundKind, assumptions: tuple[str, ...]
) -> Certificate:
    """The certificate with standardised bounds turned into the units of y."""
    low, high = fit.offset + fit.scale * bounds[0], fit.offset + fit.scale * max(bounds)
    return Certificate(gap=high - low, lower=low, upper=high, delta=delta, kind=kind, assumptions=assumptions)
