"""MS-UCB: Tran-The, Gupta, Rana and Venkatesh, "Trading Convergence Rate with Computational Budget in High Dimensional
Bayesian Optimization", AAAI 2020.

An upper confidence bound is maximised over a growing set of low-dimensional subspaces instead of the whole cube. Each
subspace fixes all but d coordinates at a base point z. More subspaces cost more computation and bring less regret, and
d replaces D in the width of the bound.

Notation
    D, d     coordinates in all, and free ones of a subspace; option `low_dim`
    t        iterations after the initial points, from 1
    N_t      base points added at iteration t, N0 t^alpha; options `bases` (N0) and `growth` (alpha)
    Z_t      all base points drawn up to t
    S(A, z)  the subspace with base point z (Def. 1)
    beta_t   the squared width of the confidence bound
    a, b     P(sup |df/dx_j| > L) <= a exp(-(L / b)^2) (Assumption 1); both 1 for standardised values

Deviations (numbers as in docs/lab/ms-ucb.md)
    1. sqrt(beta) sigma, as the appendix has it; the main text prints sqrt(beta sigma) (both presets).
    2. "10 D starts" is read as a total over all subspaces, at least; 200 of them, the best, are ascended, shared
       evenly while the subspaces are fewer (paper preset). 10 D ascents in each subspace found nothing better in 39 of
       39 cases with up to 36 subspaces in 6 to 8 dimensions, at up to hundreds of times the cost.
    3. Hyper-parameters are fitted on the library's schedule by maximum a posteriori (both presets; paper: likelihood).
    4. Default only: base points adapt. Beside the uniform draws of Z_t, on which the guarantee rests, subspaces go
       through the incumbents, the told points with the best means.
    5. Default only: the free coordinates of a subspace are random, or learnt: drawn in proportion to l^-2, the squared
       inverse length-scales. Def. 1 always takes the last d. Where the length-scales say that few coordinates matter,
       every second step searches the one subspace in which all of these are free.
    6. Default only: the width is a constant, because sqrt(beta_t) of 6 to 13 is pure exploration on standardised
       values; the process has a length-scale per coordinate; at most `cap` points of Z_t are searched in one step.
    7. Pending points are hallucinated; a proposal that coincides with a known point is moved a little (both presets).
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from regretless.certificate import Certificate
from regretless.gp.acquisition import Acquire, confidence_bound, kept_from_failures, of_posterior, upper_confidence
from regretless.gp.base_points import BasePoints, PosteriorArrays
from regretless.gp.certify import fitted_certificate, wary_surrogate
from regretless.gp.design import DesignedMethod, away_from_known
from regretless.gp.maximiser import maximise
from regretless.gp.posterior import GP
from regretless.gp.step import INCUMBENTS, best_by_mean, best_told, best_weighed, step
from regretless.gp.subspace import (
    Subspaces,
    best_in_coordinates,
    few_that_matter,
    free_lines,
    maximise_subspaces,
    random_blocks,
)
from regretless.gp.surrogate import Surrogate
from regretless.method import State
from regretless.noise import stated_noise
from regretless.options import PRESETS, Preset, in_range, one_of
from regretless.parameters import Array
from regretless.space import Cube

LOW_DIM, INITIAL = 5, 20  # free coordinates and initial points of the paper's experiments (Sec. 5)
STARTS_PER_DIM = 10  # random starts per dimension of the space, in all (Sec. 5)
ASCENTS, ASCENT_ROUNDS = 200, 50  # starts that are ascended, and evaluations of an ascent (deviation 2); our choice
CAP = 500  # not in paper: points of Z_t that the default preset searches in one step, to bound its cost; our choice
KAPPA = 1.0  # not in paper: the width of the default's confidence bound, as in gp-ucb
PER_INCUMBENT = 32  # not in paper: subspaces through each incumbent, half of them learnt; our choice
CLIMBED, ROUNDS = 20, 30  # not in paper: subspaces in which the default ascends, and evaluations of each; our choice


class MSUCB(DesignedMethod):
    """Subspace search by upper confidence bounds: each proposal moves few coordinates of a base point; 20 to 5000
    dimensions.

    Args:
        preset: "default", or "paper": Algorithm 1, with deviations 1, 2, 3 and 7.
        low_dim: free coordinates of a subspace; 0 picks among sampled points, D is GP-UCB.
        bases, growth: bases * t^growth base points are added at iteration t.
        kappa: the width of the confidence bound; None: sqrt(beta_t) in the paper preset, 1 in the default one.
        delta: the failure probability in beta_t.
        cap: most points of Z_t searched in one step, the newest first; 0: all, as the proof needs; None: all in the
            paper preset, 500 else.
        initial: points of the initial design; None: 20 in the paper preset (Sec. 5), else `design_size`.
        noise_var: a known noise variance of all values, or None to fit it.
    """

    renamed: ClassVar = {"d": "low_dim", "N0": "bases", "alpha": "growth", "noise": "noise_var"}
    version, former = 2, "gp-contest"

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        low_dim: int = LOW_DIM,
        bases: int = 1,
        growth: float = 0.0,
        kappa: float | None = None,
        delta: float = 0.1,
        cap: int | None = None,
        initial: int | None = None,
        noise_var: float | None = None,
    ) -> None:
        usual = INITIAL if preset == "paper" else None
        first = usual if initial is None else initial
        super().__init__(cube, seed=seed, budget=budget, initial=first, centre=preset != "paper")
        one_of(PRESETS, preset=preset)
        in_range("[0, inf)", low_dim=low_dim, growth=growth)
        in_range("[0, inf) or None", kappa=kappa, cap=cap)
        in_range("[1, inf)", bases=bases)
        in_range("[1, inf) or None", initial=initial)
        in_range("(0, 1)", delta=delta)
        self.paper, self.known_noise = preset == "paper", stated_noise(preset == "paper", noise_var)
        self._lines = free_lines(self.cube)
        self.d, self.N0, self.alpha, self.kappa = min(low_dim, len(self._lines)), bases, growth, kappa
        self.delta = delta
        self.cap = cap if cap is not None else 0 if self.paper else CAP
        self._isotropic = Surrogate(self.cube, ard=False, quadratic=False, noise_var=noise_var, tame=False)
        self._model = Surrogate(self.cube, quadratic=False, noise_var=noise_var)  # of the default preset
        self._wary = wary_surrogate(self.cube)
        self._bases = BasePoints(self.dim, 1)

    # -- Algorithm 1

    def _step(self, rng: Generator) -> Array:
        if not self.paper:
            return self._default_step(rng)
        gp = self._isotropic.gp(self.X, self.y, self.yvar, self.pending)  # (Alg. 1, l. 2 and 9)
        width = self._width(self.delta) if self.kappa is None else self.kappa
        if self.d == self.dim:  # the limit: GP-UCB (Sec. 4, "On Dimension d")
            return step(self, gp, upper_confidence(gp, width), rng)
        bound = confidence_bound(width, gp.signal)  # (Eq. 2, the root over beta only)
        x, _ = self._best_of_subspaces(gp, bound, self.pending, rng)  # (Alg. 1, l. 4-6)
        return away_from_known(x, self, rng)

    def _best_of_subspaces(self, gp: GP, bound: Acquire, pending: Array, rng: Generator) -> tuple[Array, float]:
        """The maximiser of a bound over the subspaces of Z_t, and its value (Def. 1; Alg. 1, l. 4-6; Eq. 8)."""
        arrays = PosteriorArrays.of(gp)
        Z, sums = self._bases.newest(arrays, self.X, pending, self._draw_bases(), self.cap)  # (Alg. 1, l. 4-5)
        starts = STARTS_PER_DIM * self.dim
        copies = max(ASCENTS // len(Z), 1) if self.d else 1  # an ascent has a row of its own
        rows = np.tile(np.arange(len(Z)), copies)
        free = np.tile(self._lines[len(self._lines) - self.d :], (len(rows), 1))
        many = Subspaces(Z[rows], free, np.zeros(len(rows), dtype=bool), None if sums is None else sums.at(rows))
        retries = math.ceil(starts / len(rows)) - 1
        X, values = maximise_subspaces(arrays, bound, many, rng, len(rows), retries, ASCENTS, ASCENT_ROUNDS)
        return X[0], float(values[0])

    def _draw_bases(self) -> int:
        """Draws the points of Z_t that are not there yet, and returns |Z_t|."""
        return self._bases.draw(self._t(), self.cube, self.seed, lambda k: subspaces_at(k, self.N0, self.alpha))

    def _t(self) -> int:
        """The paper's iteration: evaluations known or under way since the initial design, + 1."""
        return max(1, len(self.y) + len(self.failed) + len(self.pending) - self._design.size + 1)

    def _width(self, delta: float) -> float:
        """sqrt(beta_t) (Prop. 1)."""
        return math.sqrt(theory_beta(self._t(), self.d, self.dim, delta))

    # -- the default preset: not in paper

    def _default_step(self, rng: Generator) -> Array:
        """The best point of many subspaces, or of the one in which the few coordinates that matter are free."""
        gp = self._model.gp(self.X, self.y, self.yvar, self.pending)
        bound = confidence_bound(KAPPA if self.kappa is None else self.kappa, gp.signal)
        pair = kept_from_failures(of_posterior(gp, bound), self.X, self.failed)
        incumbents = best_by_mean(gp, self.X, INCUMBENTS)
        if self.d == self.dim:  # the limit: GP-UCB
            return away_from_known(maximise(pair, self.cube, rng, incumbents=incumbents), self, rng)
        learnt = few_that_matter(gp, self._lines) if (len(self.y) + len(self.pending)) % 2 else None
        if learnt is not None:
            return away_from_known(best_in_coordinates(learnt, pair, incumbents, rng), self, rng)
        found = self._best_points(gp, bound, incumbents, rng)
        return away_from_known(found[int(np.argmax(pair.value(found)))], self, rng)

    def _best_points(self, gp: GP, bound: Acquire, incumbents: Array, rng: Generator) -> Array:
        """The best points found in the subspaces of Z_t and in those through the incumbents, CLIMBED x D."""
        arrays = PosteriorArrays.of(gp)
        drawn = self._draw_bases(), self.cap, incumbents, PER_INCUMBENT
        points, local, sums = self._bases.with_incumbents(arrays, self, *drawn)
        free = random_blocks(len(local), self.d, self._lines, None, rng)
        if gp.hyper.lengthscale.size > 1:
            learnt = np.flatnonzero(local)[::2]
            free[learnt] = random_blocks(len(learnt), self.d, self._lines, gp.hyper.lengthscale[self._lines] ** -2, rng)
        subspaces = Subspaces(points, free, local, sums)
        return maximise_subspaces(arrays, bound, subspaces, rng, ascents=CLIMBED, rounds=ROUNDS)[0]

    def _recommend(self) -> Array:
        if self.paper:
            return best_told(self._isotropic.gp(self.X, self.y, self.yvar), self.X)
        return best_weighed(self._model.gp(self.X, self.y, self.yvar), self)

    def _certificate(self, delta: float) -> Certificate:
        left_out = self._draw_bases() - self.cap if self.cap else 0
        note = f"the proof needs all of Z_t; {left_out} of its points were left out by cap={self.cap}"
        if self.paper:
            return Certificate.none(note, delta) if left_out > 0 else self._paper_certificate(delta)
        x, rng = self.recommend(), self.fixed_generator()
        found = fitted_certificate(self.X, self.y, self.yvar, self.cube, x, delta, rng, wary=self._wary)
        return replace(found, assumptions=(*found.assumptions, note)) if found.certified and left_out > 0 else found

    def _models(self) -> dict[str, Surrogate]:
        return {"isotropic": self._isotropic, "model": self._model}

    def _state(self) -> State:
        """The latest fits, so that a loaded run fits nothing again."""
        fits = {name: model.latest_fit(self.X, self.y, self.yvar) for name, model in self._models().items()}
        return {"fits": {name: fit for name, fit in fits.items() if fit}}

    def _load(self, state: Mapping[str, Any]) -> None:
        try:
            fits = dict(state["fits"]) if state else {}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: the models are not readable ({error!r})") from None
        for name, model in self._models().items():
            if name in fits:
                model.take_fit(self.X, self.y, self.yvar, fits[name])

    def _paper_certificate(self, delta: float) -> Certificate:
        """f* - f(r) <= max over X_t of the upper bound + 1 / t^2 + what Z_t leaves uncovered - lower(r) (Prop. 1)."""
        gp, width = self._isotropic.gp(self.X, self.y, self.yvar), self._width(delta)
        bound, rng = confidence_bound(width, gp.signal), self.fixed_generator()
        if self.d == self.dim:
            acquisition = of_posterior(gp, bound)
            best = maximise(acquisition, self.cube, rng, incumbents=self.X[:0])
            highest = float(acquisition.value(best[None])[0])
        else:
            highest = self._best_of_subspaces(gp, bound, self.pending[:0], rng)[1]
        mean, variance = gp.mean_var(self.recommend()[None])
        lower = float(mean[0]) - width * math.sqrt(float(variance[0]))
        uncovered = uncovered_regret(self._draw_bases(), self.d, self.dim, delta / 3)
        upper = max(highest + 1 / self._t() ** 2 + uncovered, lower)
        assumed = ("Assumption 1 with a = 1, b = 1 for standardised values", "a Gaussian process like the fitted one")
        low, high = gp.offset + gp.scale * lower, gp.offset + gp.scale * upper
        return Certificate(gp.scale * (upper - lower), low, high, delta, "fitted", assumed)


# ---------------------------------------------------------------- the paper's formulas


def subspaces_at(t: int, N0: int, alpha: float) -> int:
    """N_t = N0 t^alpha, the base points added at iteration t >= 1 (Alg. 1, l. 4), rounded down."""
    return math.floor(N0 * math.pow(t, alpha) + 1e-9)


def theory_beta(t: int, d: int, D: int, delta: float, a: float = 1.0, b: float = 1.0) -> float:
    """beta_t = 2 log(pi^2 t^2 / delta) + 2 d log(2 b d sqrt(log(6 D a / delta)) t^2) (Prop. 1); 4 log(pi^2 t^2 / (2
    delta)) for d = 0 (Thm. 5)."""
    if d == 0:
        return 4 * math.log(math.pi**2 * t * t / (2 * delta))
    inner = 2 * b * d * math.sqrt(max(math.log(6 * D * a / delta), 0.0)) * t * t
    return 2 * math.log(math.pi**2 * t * t / delta) + max(2 * d * math.log(inner), 0.0)


def uncovered_regret(count: int, d: int, D: int, delta: float, a: float = 1.0, b: float = 1.0) -> float:
    """By how much f* may exceed the best value on `count` subspaces, with probability 1 - delta (Lemma 4), k = D - d:

        v0 (log(2 / delta) / count)^(1 / k),      v0 = 2 b sqrt(log(2 D a / delta)) Gamma(k + 1)^(1 / k).

    On the paper's cube [-1, 1]^D, on which b is meant; Gamma(k + 1) = k!, which the paper also prints as (k + 1)!.
    """
    k = D - d
    if k == 0:
        return 0.0
    v0 = 2 * b * math.sqrt(max(math.log(2 * D * a / delta), 0.0)) * math.exp(math.lgamma(k + 1) / k)
    return v0 * math.pow(math.log(2 / delta) / count, 1 / k)
