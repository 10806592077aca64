"""Dropout: Li, Gupta, Rana, Nguyen, Venkatesh and Shilton, "High Dimensional Bayesian Optimization using Dropout",
IJCAI 2017.

At every step d coordinates are drawn at random, a Gaussian process is fitted on those alone, and its confidence bound
is maximised over them; the other coordinates are filled in from the best point so far, at random, or by a mixture of
both.

Notation
    D, d   coordinates in all, and kept in a step       p   probability of a random fill-in in the mixture

Deviations
    1. The width of the confidence bound is a constant (2), not the paper's schedule, which is pure exploration on
       standardised values.
    2. Hyper-parameters are fitted afresh for every choice of coordinates, from the prior's centre, by MAP.
    3. Pending points are hallucinated.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regretless.gp.acquisition import kept_from_failures, upper_confidence
from regretless.gp.design import Design, away_from_known, design_size
from regretless.gp.fit import Prior, fit
from regretless.gp.maximiser import maximise
from regretless.gp.posterior import GP, Hyper, Kernel
from regretless.gp.surrogate import Surrogate, standardisation
from regretless.method import Method
from regretless.parameters import Array
from regretless.space import Cube

KAPPA = 2.0
"""The width of the confidence bound."""
ROUNDS = 15
"""Evaluations of the likelihood in a fit."""


class Dropout(Method):
    """Dropout: maximises a confidence bound over a few coordinates drawn at random, the others filled in.

    Args:
        d: coordinates kept in a step; D is GP-UCB.
        fill: "copy" the best point, "random", or "mix".
        p: probability of a random fill-in under "mix" (Sec. 5: 0.1).
        kappa: the width of the confidence bound.
        initial: points of the initial design; None: as for the other methods.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        d: int = 5,
        fill: Literal["copy", "random", "mix"] = "mix",
        p: float = 0.1,
        kappa: float = KAPPA,
        initial: int | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if fill not in ("copy", "random", "mix"):
            raise ValueError(f"fill must be 'copy', 'random' or 'mix', got {fill!r}")
        if d < 1 or not 0 <= p <= 1 or not kappa >= 0:
            raise ValueError(f"need d >= 1, p in [0, 1] and kappa >= 0, got {d!r}, {p!r} and {kappa!r}")
        self.d, self.fill, self.p, self.kappa = min(d, self.dim), fill, p, kappa
        self._design = Design(
            self.cube, design_size(self.dim, budget) if initial is None else initial, self.fixed_generator()
        )
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, tame=False)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        kept = np.arange(self.dim) if self.d == self.dim else np.sort(rng.choice(self.dim, self.d, replace=False))
        cube, gp = Cube([self.cube.axes[i] for i in kept]), self._model(kept)
        pair = kept_from_failures(upper_confidence(gp, self.kappa), self.X[:, kept], self.failed[:, kept])
        incumbents = self.X[:, kept][np.argsort(-gp.mean_at(self.X[:, kept]), kind="stable")[:3]]
        part = maximise(pair[0], cube, rng, incumbents=incumbents, score=pair[1])
        x = part if self.d == self.dim else self._filled(kept, part, rng)
        return away_from_known(x, self, rng)

    def _model(self, kept: NDArray[np.intp]) -> GP:
        """The posterior on the kept coordinates alone; with all of them, that of GP-UCB."""
        if len(kept) == self.dim:
            return self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        labels = np.array([self.cube.axes[i].levels if self.cube.axes[i].categorical else 0 for i in kept])
        kernel, prior = Kernel("matern52", len(kept), labels), Prior.scaled(len(kept), quadratic=False)
        offset, scale = standardisation(self.y)
        X, variances = self.X[:, kept], self.yvar / (scale * scale)
        start = Hyper(np.exp([prior.lengthscale[0]]), 1e-3)
        hyper = fit(kernel, X, (self.y - offset) / scale, variances, ard=False, prior=prior, warm=start, rounds=ROUNDS)
        gp = GP.exact(kernel, hyper, X, self.y, self.yvar, offset=offset, scale=scale)
        return gp.condition(self.pending[:, kept])

    def _filled(self, kept: NDArray[np.intp], part: Array, rng: np.random.Generator) -> Array:
        """The kept coordinates with the others filled in (Sec. 3.2), D."""
        at_random = self.fill == "random" or (self.fill == "mix" and rng.random() < self.p)
        x = rng.random(self.dim) if at_random else self.X[int(np.argmax(self.y))].copy()
        x[kept] = part
        return x
