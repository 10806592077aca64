"""The contest of Gaussian processes: this project's own method for 20 to 5000 dimensions; no paper prints it.

In many dimensions a few hundred values do not say which model is right, and a wrong one misleads the search where it
promises most. So several Gaussian processes predict side by side: stationary and additive ones, with and without a
quadratic trend, on values as told and on compressed ones. The one that predicted the latest values best is searched by
expected improvement in all coordinates (`contest.py`).

What is not the contest, and what it is worth (docs/lab/gp-contest.md)
    1. Subspaces give starts of the ascents: with base points drawn uniformly and through the incumbents, d of the D
       coordinates are free (`gp/subspace.py`). Without them results are the same within the noise; they are kept,
       because runs that people resume go through them.
    2. Where the length-scales say that few coordinates matter, every second step moves those alone.
    3. Up to 20 dimensions every third proposal comes from a model of clipped values.
    4. Pending points are hallucinated; a proposal that coincides with a known point is moved a little.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator

from regretless.basics.noise import stated_noise
from regretless.basics.options import in_range
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import State
from regretless.methods.gp_contest.contest import FEW, HEAD_START, Contest, entrants
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.acquisition import (
    Acquire,
    confidence_bound,
    kept_from_failures,
    log_improvement,
    of_posterior,
)
from regretless.models.gp.additive import AdditiveGP, AdditiveSurrogate
from regretless.models.gp.base_points import BasePoints, PosteriorArrays
from regretless.models.gp.certify import conservative_surrogate, fitted_certificate
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import USUAL, Effort, maximise
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import INCUMBENTS, best_by_mean, best_weighed
from regretless.models.gp.subspace import (
    Subspaces,
    best_in_coordinates,
    few_that_matter,
    free_lines,
    maximise_subspaces,
    random_blocks,
)
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array

LOW_DIM = 5  # free coordinates of a subspace, as in the experiments of Tran-The et al. (AAAI 2020)
CAP = 500  # base points searched in one step, the newest first, to bound its cost; our choice
SUBSPACES_PER_INCUMBENT = 16  # subspaces through each incumbent; our choice
CHAIN = 2  # further random blocks of coordinates through which an ascent goes on; our choice
POLISHED = 5  # points of the subspaces from which the ascent in all coordinates starts; our choice
CLIPPED_EVERY = 3  # each so many-th proposal comes from the model of clipped values (docs/lab/gp-contest.md)
LARGE, LARGE_EFFORT = 1_000_000, Effort(raw=96, starts=2, rounds=16)
"""Where n D exceeds LARGE the ascent in all coordinates takes this smaller effort; our choice."""


class GPContest(DesignedMethod):
    """A contest of Gaussian processes: LogEI on the one that predicted best of late; for 20 to 5000 dimensions.

    Args:
        kappa: the width of a confidence bound that takes the place of expected improvement; None: LogEI.
        initial: points of the initial design; None: `design_size`.
        noise_var: a known noise variance of all values, or None to fit it.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        kappa: float | None = None,
        initial: int | None = None,
        noise_var: float | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget, initial=initial)
        in_range("[0, inf) or None", kappa=kappa)
        in_range("[1, inf) or None", initial=initial)
        self.kappa, self.known_noise = kappa, stated_noise(noise_var)
        self._lines = free_lines(self.cube)
        self._free = min(LOW_DIM, len(self._lines))
        self._clipped = Surrogate(self.cube, noise_var=noise_var)
        self._conservative = conservative_surrogate(self.cube)
        head_start = HEAD_START if self.dim <= FEW else 0.0
        self._contest = Contest(entrants(self.cube, noise_var=noise_var), head_start=head_start)
        self._bases = BasePoints(self.dim, 2)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        """An ascent in all coordinates from incumbents and points of subspaces, or in the few that matter."""
        self._follow(history)
        turn = len(history) + len(history.pending)
        gp = self._surrogate(history, turn).gp(history.X, history.y, history.yvar, history.pending)
        incumbents = best_by_mean(gp, history.X, INCUMBENTS)
        if self.kappa is None:
            acquire = log_improvement(float(gp.mean_at(history.X).max()), gp.signal)
        else:
            acquire = confidence_bound(self.kappa, gp.signal)
        logarithmic = self.kappa is None
        pair = kept_from_failures(of_posterior(gp, acquire), history.X, history.failed, logarithmic=logarithmic)
        few = few_that_matter(gp, self._lines) if turn % 2 else None
        if few is not None:
            return away_from_known(best_in_coordinates(few, pair, incumbents, rng), history, cube, rng)
        starts = incumbents
        separable = isinstance(gp, AdditiveGP) or not gp.hyper.quadratic  # as subspaces need it (`base_points.py`)
        if separable:
            starts = np.concatenate([self._best_of_chains(history, gp, acquire, incumbents, rng), incumbents])
        effort = USUAL if len(history) * self.dim <= LARGE else LARGE_EFFORT
        return away_from_known(maximise(pair, cube, rng, incumbents=starts, effort=effort), history, cube, rng)

    def _surrogate(self, history: History, turn: int) -> Surrogate | AdditiveSurrogate:
        """The model to search in this turn."""
        clipped = self.dim <= FEW and turn % CLIPPED_EVERY == 0
        return self._clipped if clipped else self._contest.choose(history.X, history.y, history.yvar)

    def _best_of_chains(
        self, history: History, gp: GP | AdditiveGP, acquire: Acquire, incumbents: Array, rng: Generator
    ) -> Array:
        """The best points of the subspaces through uniform base points and through the incumbents, POLISHED x D."""
        arrays = PosteriorArrays.of(gp)
        drawn = self._draw_bases(history), CAP, incumbents, SUBSPACES_PER_INCUMBENT
        points, local, sums = self._bases.with_incumbents(arrays, history, *drawn)
        free = random_blocks(len(local), self._free, self._lines, None, rng)
        subspaces = Subspaces(points, free, local, sums)
        weights = gp.hyper.lengthscale[self._lines] ** -2.0 if isinstance(gp, GP) else None
        X, _ = maximise_subspaces(arrays, acquire, subspaces, rng, chain=CHAIN, lines=self._lines, weights=weights)
        return X[:POLISHED]

    def _draw_bases(self, history: History) -> int:
        """Draws one uniform base point per evaluation since the design, and returns their number."""
        t = history.evaluations - self._design.size + 1
        return self._bases.draw(max(1, t), self.cube, self.seed, lambda k: 1)

    def _recommend(self, history: History) -> Array:
        self._follow(history)
        surrogate = self._contest.choose(history.X, history.y, history.yvar)
        return best_weighed(surrogate.gp(history.X, history.y, history.yvar), history)

    def _certificate(self, history: History, delta: float) -> Certificate:
        x, rng, data = self.recommend(history), self._fixed_generator(), (history.X, history.y, history.yvar)
        return fitted_certificate(*data, self.cube, x, delta, rng, conservative=self._conservative)

    def _begin(self) -> None:
        self._contest.forget()
        self._bases.forget()

    def _models(self) -> dict[str, Surrogate | AdditiveSurrogate]:
        contest = {f"entrant {i}": entrant for i, entrant in enumerate(self._contest.entrants)}
        return {"clipped": self._clipped, **contest}

    def warm(self, history: History) -> State:
        """The latest fits and the choice among them, so that a loaded run fits nothing again."""
        self._follow(history)
        data = history.X, history.y, history.yvar
        fits = {name: model.latest_fit(*data) for name, model in self._models().items()}
        return {"fits": {name: fit for name, fit in fits.items() if fit}, "contest": self._contest.state()}

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        if not state:
            return
        try:
            fits, contest = dict(state["fits"]), state["contest"]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: the models are not readable ({error!r})") from None
        self._follow(history)
        for name, model in self._models().items():
            if name in fits:
                model.take_fit(history.X, history.y, history.yvar, fits[name])
        self._contest.load(len(history), contest)
