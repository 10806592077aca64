"""Adaptive discretisation: Shekhar and Javidi, "Gaussian process bandits with adaptive discretization", EJS 2018, with
the constants of the GP-ThreDS
authors' code.

A binary tree of boxes is refined where the index is large: the box with the largest index is halved once its centre is
known better than f can vary inside it, and sampled at its centre otherwise. The posterior is kept at the centres of the
active boxes only.

Notation
    h        depth of a box                     V_h      bound on the variation of f inside a box of depth h
    mu, s    posterior mean and sd at a centre  beta     sqrt(2 (2 + ln(T log2 T) + d log2(T) ln 2 + ln 2))
    index    min(mu + beta s, mu_parent + beta s_parent + V_{h-1}) + V_h

Deviations
    1. Ties of the index (at the start all boxes of a depth are level) are broken by an order drawn from the seed, not
       by position.
    2. Default preset only: values are standardised by a fit, which also gives length-scale and noise unless they are
       given.
    3. The posterior is updated by one row per sample (`RowPosterior`), not inverted anew.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regretless.certificate import Certificate
from regretless.grid.posterior import RowPosterior
from regretless.grid.scale import Scale, fit_scale, weights
from regretless.grid.whole_model import whole_certificate
from regretless.method import Method, keyed_generator
from regretless.parameters import Array
from regretless.space import Cube
from regretless.streams import Stream

HORIZON = 1000
"""T where no budget is given."""
C3 = 1 + 2.7 * math.sqrt(2 * math.log(2))
"""Of V_h, as in the authors' code (C_1 = 2)."""
FIRST_FIT, REFIT = 4, 1.5
"""Values at the first fit of the scale, and the growth between fits."""
TIE = 1e-12
"""Indices closer than this are level; the stream of the draws that order them."""
RECOMMENDED_FROM = 800
"""The latest values the recommendation's posterior uses, at most."""


class AdaptiveDiscretization(Method):
    """Adaptive discretisation: a tree of boxes, refined where the upper bound is large.

    Args:
        preset: "default", or "paper": values as they are, l = 0.2 and noise 0.1 unless given (GP-ThreDS, Sec. 5).
        kernel: "se" or "matern52".
        lengthscale, noise: length-scale and noise sd; None: fitted.
        variation: the factor of V_h (4 in the authors' code).
    """

    max_dim = 6

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        kernel: Literal["se", "matern52"] = "se",
        lengthscale: float | None = None,
        noise: float | None = None,
        variation: float = 4.0,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if preset not in ("default", "paper"):
            raise ValueError(f"preset must be 'default' or 'paper', got {preset!r}")
        self._fits = preset == "default"
        self._kernel, self._lengthscale, self._noise = kernel, lengthscale, noise
        self.scale = Scale(0.0, 1.0, lengthscale or 0.2, max(0.1 if noise is None else noise, 1e-3) ** 2)
        T = max(budget or HORIZON, 2)
        deepest = math.log2(T)
        self.beta = math.sqrt(2 * (2 + math.log(T * deepest) + self.dim * deepest * math.log(2) + math.log(2)))
        self._deepest = math.ceil(deepest)
        self._variation = variation
        self._C4 = 2 * math.log(8 * math.pi**2 / 6) + 2 * math.log(T**2 * math.pi**2 / 6)
        self._split_first = self.fixed_generator().permutation(self.dim)
        self._used = self._fitted_at = 0
        self._begin()

    def _propose(self, rng: np.random.Generator) -> Array:
        if not self._pending and not len(self.failed):
            return np.asarray(self._boxes[self._target])
        index, active = self._index(self._posterior.variance_after(self.pending))
        centres = self.cube.snap(self._boxes[active])
        for x in np.concatenate([self.pending, self.failed]):
            index[(centres == x).all(axis=1)] = -np.inf
        return centres[int(index.argmax())] if index.max() > -np.inf else rng.random(self.dim)

    def _update(self, X: Array, y: Array) -> None:
        for x, value, variance in zip(X, y.tolist(), self.yvar[self._used : self._used + len(y)].tolist(), strict=True):
            self._used += 1
            n = self._used
            noise = self.scale.noise_inside(variance)
            if self._fits and n >= max(REFIT * self._fitted_at, FIRST_FIT):
                self._fitted_at = n
                self.scale = fit_scale(
                    self.X[:n],
                    self.y[:n],
                    self._kernel,
                    yvar=self.yvar[:n],
                    lengthscale=self._lengthscale,
                    noise=self._noise,
                )
                self._posterior = self._fresh(self._boxes)
                self._posterior.condition(
                    self.X[:n], self.scale.inside(self.y[:n]), weights(self.yvar[:n], self.scale.noise_variance)
                )
            elif np.array_equal(x, self._boxes[self._target]):
                self._posterior.add(self._target, (value - self.scale.shift) / self.scale.sd, noise)
            else:
                self._posterior.add_at(x, (value - self.scale.shift) / self.scale.sd, noise)
            self._refine()

    def _recommend(self) -> Array:
        """The told point nearest in the model to the best mean at a centre."""
        told, last = self._fresh(self.X), slice(-RECOMMENDED_FROM, None)
        told.condition(
            self.X[last], self.scale.inside(self.y[last]), weights(self.yvar[last], self.scale.noise_variance)
        )
        best: Array = self.X[int(told.mean.argmax())]
        return best

    def _certificate(self, delta: float) -> Certificate:
        return whole_certificate(
            self.X,
            self.y,
            self.yvar,
            self.scale.noise_variance,
            self.cube,
            self.recommend(),
            delta,
            self.fixed_generator(),
        )

    # -- the tree

    def _begin(self) -> None:
        """The root alone, refined as far as the prior allows."""
        self._posterior = self._fresh(np.full((1, self.dim), 0.5))
        self._depth, self._parent = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)
        self._active = np.ones(1, dtype=bool)
        self._order = np.zeros(1)
        self._target = 0
        self._refine()

    def _refine(self) -> None:
        """Halves the box with the largest index while its centre is known better than f varies inside; then it is the
        next to sample."""
        while True:
            index, active = self._index(self._posterior.variance)
            level = np.flatnonzero(index >= index.max() - TIE)
            box = int(active[level[int(self._order[active[level]].argmin())]])
            depth = int(self._depth[box])
            if depth >= self._deepest or self.beta * math.sqrt(self._posterior.variance[box]) > self._variation_in(
                depth
            ):
                self._target = box
                return
            axis = int(self._split_first[depth % self.dim])
            step = np.zeros(self.dim)
            step[axis] = 2.0 ** -(depth // self.dim + 2)
            self._active[box] = False
            n = len(self._depth)
            self._posterior.extend(np.stack([self._boxes[box] - step, self._boxes[box] + step]))
            self._depth = np.append(self._depth, [depth + 1] * 2)
            self._parent = np.append(self._parent, [box] * 2)
            self._active = np.append(self._active, [True] * 2)
            self._order = np.append(
                self._order, keyed_generator(self.seed, n, stream=Stream.DISCRETIZATION_TIES).random(2)
            )

    def _index(self, variance: Array) -> tuple[Array, NDArray[np.intp]]:
        """The index of the active boxes, and their numbers."""
        active = np.flatnonzero(self._active)
        bound = self._posterior.mean + self.beta * np.sqrt(variance)
        depth, parent = self._depth[active], self._parent[active]
        variation = np.array([self._variation_in(h) for h in range(int(depth.max()) + 1)])
        return np.minimum(
            bound[active], bound[parent] + variation[np.maximum(depth - 1, np.minimum(depth, 1))]
        ) + variation[depth], active

    def _variation_in(self, h: int) -> float:
        """V_h."""
        halvings = h / self.dim
        root = (
            4 + self._C4 + h * math.log(2) + 4 * self.dim * (halvings * math.log(2) - math.log(self.scale.lengthscale))
        )
        return float(self._variation * 2.0**-halvings) * (math.sqrt(max(root, 0.0)) + C3)

    @property
    def _boxes(self) -> Array:
        """The centres of all boxes so far, active or halved."""
        return self._posterior.grid

    def _fresh(self, points: Array) -> RowPosterior:
        return RowPosterior(
            points, None, kernel=self._kernel, lengthscale=self.scale.lengthscale, noise=self.scale.noise
        )
