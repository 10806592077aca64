"""Dropout: Li, Gupta, Rana, Nguyen, Venkatesh and Shilton, "High Dimensional Bayesian Optimization using Dropout",
IJCAI 2017.

At every step d coordinates are drawn at random, a Gaussian process is fitted on those alone, and its confidence bound
is maximised over them; the other coordinates are copied from the best point so far, or now and then drawn at random.

Notation
    D, d   coordinates in all, and kept in a step; option `low_dim`
    p      the probability of random coordinates in a step, option `random_fill`; 0 and 1 are the paper's Dropout-Copy
           and Dropout-Random, between them is Dropout-Mix

Deviations
    1. The width of the bound is a constant (2); the paper's schedule is pure exploration on standardised values.
    2. Hyper-parameters are fitted afresh for every choice of coordinates, from the prior's centre, by MAP.
    3. Pending points are hallucinated.
"""

import numpy as np
from numpy.typing import NDArray

from regretless.basics.options import in_range
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.acquisition import upper_confidence
from regretless.models.gp.design import away_from_known
from regretless.models.gp.fit import Prior, fit
from regretless.models.gp.kernels import Hyper, kernel_of
from regretless.models.gp.posterior import GP
from regretless.models.gp.surrogate import Surrogate, standardisation
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.low_box import best_point, checked_low_dim

KAPPA = 2.0  # the width of the confidence bound; our choice (deviation 1)
ROUNDS = 15  # evaluations of the likelihood in a fit: as many as a warm fit of `Surrogate` takes


class Dropout(DesignedMethod):
    """Dropout: maximises a confidence bound over a few coordinates drawn at random, the others filled in.

    Args:
        low_dim: coordinates kept in a step; D is GP-UCB.
        random_fill: the probability that the other coordinates are random, not those of the best point (Sec. 5: 0.1).
        kappa: the width of the confidence bound.
        initial: points of the initial design; None: as for the other methods.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        low_dim: int = 5,
        random_fill: float = 0.1,
        kappa: float = KAPPA,
        initial: int | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget, initial=initial)
        in_range("[0, 1]", random_fill=random_fill)
        in_range("[0, inf)", kappa=kappa)
        self.low_dim, self.random_fill, self.kappa = checked_low_dim(low_dim, self.dim), random_fill, kappa
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, clip=False)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        whole = self.low_dim == self.dim
        kept = np.arange(self.dim) if whole else np.sort(rng.choice(self.dim, self.low_dim, replace=False))
        box = Cube([cube.axes[i] for i in kept])
        gp = self._model(history, kept, box)
        X, failed = history.X[:, kept], history.failed[:, kept]
        part = best_point(gp, upper_confidence(gp, self.kappa), X, failed, box, rng)
        x = part if whole else self.fill_in(history, kept, part, rng)
        return away_from_known(x, history, cube, rng)

    def _model(self, history: History, kept: NDArray[np.intp], box: Cube) -> GP:
        """The posterior on the kept coordinates alone; with all of them, that of GP-UCB."""
        y, yvar = history.y, history.yvar
        if len(kept) == self.dim:
            return self._surrogate.gp(history.X, y, yvar, history.pending)
        kernel, prior = kernel_of(box, "matern52"), Prior.scaled(len(kept), quadratic=False)
        offset, scale = standardisation(y)
        X, variances = history.X[:, kept], yvar / (scale * scale)
        start = Hyper(np.exp([prior.lengthscale[0]]), 1e-3)
        hyper = fit(kernel, X, (y - offset) / scale, variances, ard=False, prior=prior, warm=start, rounds=ROUNDS)
        gp = GP.exact(kernel, hyper, X, y, yvar, offset=offset, scale=scale)
        return gp.condition(history.pending[:, kept])

    def fill_in(self, history: History, kept: NDArray[np.intp], part: Array, rng: np.random.Generator) -> Array:
        """The kept coordinates with the others filled in (Sec. 3.2), D."""
        at_random = rng.random() < self.random_fill
        x = rng.random(self.dim) if at_random else history.X[int(np.argmax(history.y))].copy()
        x[kept] = part
        return x
