"""MS-UCB as printed: Tran-The, Gupta, Rana and Venkatesh, "Trading Convergence Rate with Computational Budget in High
Dimensional Bayesian Optimization", AAAI 2020, Algorithm 1.

An upper confidence bound is maximised over a growing set of low-dimensional subspaces instead of the whole cube. Each
subspace fixes all but d coordinates at a base point z. More subspaces cost more computation and bring less regret, and
d replaces D in the width of the bound.

Notation
    D, d     coordinates in all, and free ones of a subspace; option `low_dim`
    t        iterations after the initial points, from 1
    N_t      base points added at iteration t, N0 t^alpha; options `bases` (N0) and `growth` (alpha)
    Z_t      all base points drawn up to t
    S(A, z)  the subspace with base point z, in which the last d coordinates are free (Def. 1)
    X_t      the subspaces of all z in Z_t
    beta_t   the squared width of the confidence bound
    a, b     P(sup |df/dx_j| > L) <= a exp(-(L / b)^2) (Assumption 1); both 1 for standardised values

Deviations (numbers as in docs/lab/ms-ucb.md)
    1. sqrt(beta) sigma, as the appendix has it; the main text prints sqrt(beta sigma).
    2. "10 D starts" is read as a total over all subspaces, at least. The best 200 of them are ascended, shared evenly
       while the subspaces are fewer. Ascents from 10 D starts in each subspace found nothing better in 39 of
       39 cases with up to 36 subspaces in 6 to 8 dimensions, at up to hundreds of times the cost.
    3. Hyper-parameters are fitted on the library's schedule by maximum a posteriori; the paper: maximum likelihood.
    7. Pending points are hallucinated; a proposal that coincides with a known point is moved a little.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import Generator

from regretless.basics.options import in_range
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import State
from regretless.methods.ms_ucb.base_set import BaseSet
from regretless.methods.ms_ucb.subspaces import PosteriorArrays, Subspaces, free_lines, maximise_subspaces
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.acquisition import Acquire, confidence_bound, of_posterior, upper_confidence
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import maximise
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import best_evaluated, step
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array

LOW_DIM, INITIAL = 5, 20  # free coordinates and initial points of the experiments (Sec. 5)


class PrintedMSUCB(DesignedMethod):
    """MS-UCB as printed: Algorithm 1 of Tran-The et al. (2020), with uniform base points and the width of the theory.

    Args:
        low_dim: free coordinates of a subspace; 0 picks among sampled points, D is GP-UCB.
        bases, growth: bases * t^growth base points are added at iteration t.
        delta: the failure probability in beta_t.
        cap: most points of Z_t searched in one step, the newest first; 0: all, as the proof needs.
        initial: points of the initial design.
        noise_var: a known noise variance of all values, or None to fit it.
    """

    _noisy = True  # the values of the paper are noisy (Alg. 1, l. 7)

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        low_dim: int = LOW_DIM,
        bases: int = 1,
        growth: float = 0.0,
        delta: float = 0.1,
        cap: int = 0,
        initial: int = INITIAL,
        noise_var: float | None = None,
    ) -> None:
        in_range("[0, inf)", low_dim=low_dim, growth=growth, cap=cap)
        in_range("[1, inf)", bases=bases, initial=initial)
        in_range("(0, 1)", delta=delta)
        super().__init__(cube, seed=seed, budget=budget, initial=initial, centre=False)  # (Alg. 1, l. 1)
        lines = free_lines(self.cube)
        self.d, self.delta, self.cap = min(low_dim, len(lines)), delta, cap
        self._free = lines[len(lines) - self.d :]  # the last d coordinates (Def. 1)
        self.process = Surrogate(self.cube, ard=False, quadratic=False, noise_var=noise_var, clip=False)
        self.bases = BaseSet(self.cube, self.seed, bases, growth, initial=initial)

    # -- Algorithm 1

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        t = self.bases.t(history)  # (Alg. 1, l. 3)
        gp = self.process.gp(history.X, history.y, history.yvar, history.pending)  # (Alg. 1, l. 2 and 9)
        width = math.sqrt(theory_beta(t, self.d, self.dim, self.delta))
        if self.d == self.dim:  # the limit: GP-UCB (Sec. 4, "On Dimension d")
            return step(history, cube, gp, upper_confidence(gp, width), rng)
        a_t = confidence_bound(width, gp.signal)  # (Eq. 2, the root over beta only)
        x_t, _ = self.best_of_subspaces(history, gp, a_t, history.pending, rng)  # (Alg. 1, l. 4-6)
        return away_from_known(x_t, history, cube, rng)

    def best_of_subspaces(
        self, history: History, gp: GP, a_t: Acquire, pending: Array, rng: Generator
    ) -> tuple[Array, float]:
        """x_t = argmax over X_t of a_t, and its value (Eq. 8); pending: the hallucinated points of the process."""
        ascents, rounds = 200, 50  # starts that are ascended, and evaluations of an ascent (deviation 2); our choice
        self._catch_up(history)
        arrays = PosteriorArrays(gp)
        Z, squared = self.bases.newest(arrays, history, pending, self.cap)  # (Alg. 1, l. 4-5)
        copies = max(ascents // len(Z), 1) if self.d else 1  # an ascent has a row of its own
        rows = np.tile(np.arange(len(Z)), copies)
        free = np.tile(self._free, (len(rows), 1))
        X_t = Subspaces(Z[rows], free, np.zeros(len(rows), dtype=bool), None if squared is None else squared[rows])
        # 10: random starts per dimension of the space, in all (Sec. 5)
        retries = math.ceil(10 * self.dim / len(rows)) - 1
        X, values = maximise_subspaces(arrays, a_t, X_t, rng, len(rows), retries, ascents, rounds)  # (Alg. 1, l. 6)
        return X[0], float(values[0])

    # -- beside the algorithm: the point to report, and Proposition 1 as a certificate

    def _recommend(self, history: History) -> Array:
        return best_evaluated(self.process.gp(history.X, history.y, history.yvar), history.X)

    def _certificate(self, history: History, delta: float) -> Certificate:
        """f* - f(r) <= max over X_t of the upper bound + 1 / t^2 + what Z_t leaves uncovered - lower(r) (Prop. 1)."""
        if left_out := self.bases.left_out(history, self.cap):
            return Certificate.none(left_out, delta)
        t, count = self.bases.t(history), self.bases.draw(history)
        gp = self.process.gp(history.X, history.y, history.yvar)
        width = math.sqrt(theory_beta(t, self.d, self.dim, delta))
        highest = self._highest(history, gp, confidence_bound(width, gp.signal))
        mean, variance = gp.mean_var(self.recommend(history)[None])
        lower = float(mean[0]) - width * math.sqrt(float(variance[0]))
        upper = max(highest + 1 / t**2 + uncovered_regret(count, self.d, self.dim, delta / 3), lower)
        assumed = ("Assumption 1 with a = 1, b = 1 for standardised values", "a Gaussian process like the fitted one")
        low, high = gp.offset + gp.scale * lower, gp.offset + gp.scale * upper
        return Certificate(gp.scale * (upper - lower), low, high, delta, "fitted", assumed)

    def _highest(self, history: History, gp: GP, bound: Acquire) -> float:
        """The largest upper bound in X_t or, with d = D, in the cube."""
        rng = self._fixed_generator()
        if self.d < self.dim:
            return self.best_of_subspaces(history, gp, bound, history.pending[:0], rng)[1]
        acquisition = of_posterior(gp, bound)
        best = maximise(acquisition, self.cube, rng, incumbents=history.X[:0])
        return float(acquisition.value(best[None])[0])

    def _begin(self) -> None:
        self.bases.forget()

    def warm(self, history: History) -> State:
        """The latest hyper-parameters, so that a loaded run fits nothing again."""
        fit = self.process.latest_fit(history.X, history.y, history.yvar)
        return {"model": fit} if fit else {}

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        if "model" in state:
            self.process.take_fit(history.X, history.y, history.yvar, state["model"])


# ---------------------------------------------------------------- the paper's formulas


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
