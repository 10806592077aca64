"""MS-UCB: subspaces of many dimensions, after Tran-The, Gupta, Rana and Venkatesh, "Trading Convergence Rate with
Computational Budget in High Dimensional Bayesian Optimization", AAAI 2020; `printed.py` is their Algorithm 1.

An upper confidence bound is maximised over many low-dimensional subspaces instead of the whole cube. Each subspace
fixes all but d coordinates at a base point. This is the idea with base points that adapt and coordinates that are
learnt.

Notation
    D, d     coordinates in all, and free ones of a subspace; option `low_dim`
    t        iterations after the initial points, from 1
    N_t      base points added at iteration t, N0 t^alpha; options `bases` (N0) and `growth` (alpha)
    Z_t      all base points drawn up to t

Deviations (numbers as in docs/lab/ms-ucb.md)
    3. Hyper-parameters are fitted on the library's schedule by maximum a posteriori.
    4. Base points adapt. Beside the uniform draws of Z_t, on which the guarantee rests, subspaces go through the
       incumbents, the told points with the best means.
    5. The free coordinates of a subspace are random, or learnt: drawn in proportion to l^-2, the squared inverse
       length-scales. Def. 1 always takes the last d. Where the length-scales say that few coordinates matter, every
       second step searches the one subspace in which all of these are free.
    6. The width is a constant, because sqrt(beta_t) of 6 to 13 is pure exploration on standardised values; the process
       has a length-scale per coordinate; at most `cap` points of Z_t are searched in one step.
    7. Pending points are hallucinated; a proposal that coincides with a known point is moved a little.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from regretless.basics.noise import stated_noise
from regretless.basics.options import in_range
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import State
from regretless.methods.ms_ucb.base_set import BaseSet
from regretless.methods.ms_ucb.subspaces import (
    PosteriorArrays,
    Subspaces,
    best_in_coordinates,
    few_that_matter,
    free_lines,
    maximise_subspaces,
    random_blocks,
)
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.acquisition import Acquire, confidence_bound, kept_from_failures, of_posterior
from regretless.models.gp.certify import conservative_surrogate, fitted_certificate
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import maximise
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import INCUMBENTS, best_by_mean, best_weighed
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array

LOW_DIM = 5  # free coordinates, as in the paper's experiments (Sec. 5)
CAP = 500  # points of Z_t searched in one step, to bound its cost; our choice
KAPPA = 1.0  # the width of the confidence bound, as in gp-ucb
CLIMBED, ROUNDS = 20, 30  # subspaces in which gradients are followed, and evaluations of each ascent; our choice


class MSUCB(DesignedMethod):
    """Subspace search by upper confidence bounds: each proposal moves few coordinates of a base point; 20 to 5000
    dimensions.

    Args:
        low_dim: free coordinates of a subspace; 0 picks among base points, D is GP-UCB.
        bases, growth: bases * t^growth base points are added at iteration t.
        kappa: the width of the confidence bound.
        cap: most points of Z_t searched in one step, the newest first; 0: all.
        initial: points of the initial design; None: `design_size`.
        noise_var: a known noise variance of all values, or None to fit it.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        low_dim: int = LOW_DIM,
        bases: int = 1,
        growth: float = 0.0,
        kappa: float = KAPPA,
        cap: int = CAP,
        initial: int | None = None,
        noise_var: float | None = None,
    ) -> None:
        in_range("[0, inf)", low_dim=low_dim, growth=growth, kappa=kappa, cap=cap)
        in_range("[1, inf)", bases=bases)
        in_range("[1, inf) or None", initial=initial)
        super().__init__(cube, seed=seed, budget=budget, initial=initial)
        self._noisy = stated_noise(noise_var)
        self._lines = free_lines(self.cube)
        self.d, self.kappa, self.cap = min(low_dim, len(self._lines)), kappa, cap
        self._model = Surrogate(self.cube, quadratic=False, noise_var=noise_var)
        self._conservative = conservative_surrogate(self.cube)
        self.bases = BaseSet(self.cube, self.seed, bases, growth, initial=self._design.size)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        """The best point of many subspaces, or of the one in which the few coordinates that matter are free."""
        gp = self._model.gp(history.X, history.y, history.yvar, history.pending)
        bound = confidence_bound(self.kappa, gp.signal)
        pair = kept_from_failures(of_posterior(gp, bound), history.X, history.failed)
        incumbents = best_by_mean(gp, history.X, INCUMBENTS)
        if self.d == self.dim:  # the limit: GP-UCB
            return away_from_known(maximise(pair, cube, rng, incumbents=incumbents), history, cube, rng)
        odd = (len(history) + len(history.pending)) % 2
        learnt = few_that_matter(gp, self._lines) if odd else None
        if learnt is not None:
            return away_from_known(best_in_coordinates(learnt, pair, incumbents, rng), history, cube, rng)
        found = self._best_points(history, gp, bound, incumbents, rng)
        return away_from_known(found[int(np.argmax(pair.value(found)))], history, cube, rng)

    def _best_points(self, history: History, gp: GP, bound: Acquire, incumbents: Array, rng: Generator) -> Array:
        """The best points found in the subspaces of Z_t and in those through the incumbents, CLIMBED x D."""
        self._catch_up(history)
        arrays = PosteriorArrays(gp)
        # 32: subspaces through each incumbent, half of them learnt; our choice
        points, local, squared = self.bases.with_incumbents(arrays, history, self.cap, incumbents, 32)
        free = random_blocks(len(local), self.d, self._lines, None, rng)
        if gp.hyper.lengthscale.size > 1:
            learnt = np.flatnonzero(local)[::2]
            free[learnt] = random_blocks(len(learnt), self.d, self._lines, gp.hyper.lengthscale[self._lines] ** -2, rng)
        subspaces = Subspaces(points, free, local, squared)
        return maximise_subspaces(arrays, bound, subspaces, rng, ascents=CLIMBED, rounds=ROUNDS)[0]

    def _recommend(self, history: History) -> Array:
        return best_weighed(self._model.gp(history.X, history.y, history.yvar), history)

    def _certificate(self, history: History, delta: float) -> Certificate:
        x, rng, data = self.recommend(history), self._fixed_generator(), (history.X, history.y, history.yvar)
        found = fitted_certificate(*data, self.cube, x, delta, rng, conservative=self._conservative)
        left_out = self.bases.left_out(history, self.cap)
        return replace(found, assumptions=(*found.assumptions, left_out)) if found.certified and left_out else found

    def _begin(self) -> None:
        self.bases.forget()

    def warm(self, history: History) -> State:
        """The latest hyper-parameters, so that a loaded run fits nothing again."""
        fit = self._model.latest_fit(history.X, history.y, history.yvar)
        return {"model": fit} if fit else {}

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        if "model" in state:
            self._model.take_fit(history.X, history.y, history.yvar, state["model"])
