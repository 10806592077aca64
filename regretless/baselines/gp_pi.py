"""GP-PI: Kushner, "A New Method of Locating the Maximum Point of an Arbitrary Multipeak Curve in the Presence of
Noise", J. Basic Engineering 1964.

A Gaussian process models the objective; the next point maximises the probability of beating the best value so far by a
margin. The margin decides
everything: none makes the search local, a large one makes it global.

Notation
    m(x), s(x)   posterior mean and sd, standardised       b   the value to beat, without the margin
    xi           margin, in standardised units             log PI = log Phi((m(x) - b - xi) / s(x))

Deviations
    1. The paper's process is Wiener's, in one dimension; ours is a fitted Matern-5/2 (default preset) or SE
       (preset="paper") in any.
    2. b is the best posterior mean at a told point (default preset); preset="paper" takes the best observation.
    3. xi = 0.01 by default, the customary value; Kushner lets the user lower it by hand as the search goes on: with a
       known budget it falls linearly to 0 (preset="paper").
    4. Pending points are hallucinated; proposals keep away from failures.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import kept_from_failures, log_probability_of_improvement
from regretless.gp.certify import fitted_certificate
from regretless.gp.design import Design, away_from_known, design_size
from regretless.gp.kernels import Kind
from regretless.gp.maximiser import maximise
from regretless.gp.surrogate import Surrogate
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

XI = 0.01
"""The customary margin (reference implementations use it on values of unit scale)."""
FIRST_XI = 0.3
"""Where the falling margin of the paper preset starts, in standard deviations of the values; not in paper: it gives no
number."""
INCUMBENTS = 3
"""Told points with the best posterior means, around which candidates are drawn."""


class GPPI(Method):
    """GP-PI: maximises the log probability of improvement of a fitted Gaussian process.

    Args:
        preset: "default", or "paper": SE kernel, values as told, improvement over the best observation by a margin that
            falls with the budget.
        xi: the margin in standardised units; None: by preset.
        kernel: "matern52" or "se"; None: by preset.
        ard: one length-scale per coordinate; None: by dimension.
        noise: a known noise variance of all values, or None to fit it.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        xi: float | None = None,
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise: float | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.paper = preset == "paper"
        self.xi = xi
        self._design = Design(self.cube, design_size(self.dim, budget), self.fixed_generator())
        self._surrogate = Surrogate.by_preset(preset, self.cube, seed=self.seed, kernel=kernel, ard=ard, noise=noise)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        means = gp.mean_at(self.X)
        b = (float(self.y.max()) - gp.offset) / gp.scale if self.paper else float(means.max())
        b = max(b, float(gp.mean_at(self.pending).max(initial=b)))  # a pending point is believed to hold its mean
        pair = kept_from_failures(
            log_probability_of_improvement(gp, b + self._margin()), self.X, self.failed, logarithmic=True
        )
        incumbents = self.X[np.argsort(-means, kind="stable")[:INCUMBENTS]]
        x = maximise(pair[0], self.cube, rng, incumbents=incumbents, score=pair[1])
        return away_from_known(x, self, rng)

    def _margin(self) -> float:
        """xi of this step."""
        if self.xi is not None:
            return self.xi
        if not self.paper or self.budget is None:
            return XI
        known = len(self.y) + len(self.failed) + len(self.pending)
        return FIRST_XI * max(0.0, 1.0 - known / self.budget)

    def _recommend(self) -> Array:
        gp = self._surrogate.gp(self.X, self.y, self.yvar)
        best: Array = self.X[int(np.argmax(gp.mean_at(self.X)))]
        return best

    def _certificate(self, delta: float) -> Certificate:
        return fitted_certificate(self.X, self.y, self.yvar, self.cube, self.recommend(), delta, self.fixed_generator())
