"""The classical methods as their papers print them, for claims in which a paper compares with them at the defaults of
their day. The library has the same ideas at their best in `regretless.classics`.

All are on a squared-exponential kernel and on the values as observed, with an initial design that does not begin with
the centre of the cube, and recommend the evaluated point with the largest posterior mean.

    gp-ucb   Srinivas, Krause, Kakade and Seeger, ICML 2010, Algorithm 1 with the widths of Theorem 2
    gp-ei    Jones, Schonlau and Welch, J. Global Optimization 1998
    gp-pi    Kushner, J. Basic Engineering 1964
    gp-ts    Chowdhury and Gopalan, "On Kernelized Multi-armed Bandits", ICML 2017, Algorithm 2
    turbo    Eriksson, Pearce, Gardner, Turner and Poloczek, NeurIPS 2019, one trust region

Notation
    t          evaluations known or under way, + 1         m(x), s(x)   posterior mean and sd, standardised
    b          the best observation                        B, R         norm of f, sd of the noise, by the signal's sd
    gamma_t    information gained by the values so far     v_t          the widening of the posterior in gp-ts

Deviations
    1. Hyper-parameters are fitted by MAP on a schedule; gp-ucb and gp-ts take the kernel as known, gp-ei fits an
       exponent per coordinate, gp-pi has Wiener's process on a line, turbo takes 50 steps of Adam.
    2. An initial design is evaluated first, because a fitted kernel needs data.
    3. gp-ts draws a differentiable path over the whole cube (Wilson et al., ICML 2020), no sample on a growing grid;
       turbo draws such a path at its candidates. B = 1; R is the fitted noise; gamma_t is the information gained, at
       most the paper's maximum.
    4. Kushner lowers the margin of gp-pi by hand; here it falls linearly to 0 over a known budget.
    5. Pending points are hallucinated, but in gp-ts, where each path is another; proposals keep away from failures.
"""

import math

import numpy as np

from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, Traits
from regretless.methods.shared import GPMethod
from regretless.models.gp.acquisition import (
    log_expected_improvement,
    log_probability_of_improvement,
    upper_confidence,
)
from regretless.models.gp.maximiser import Acquisition
from regretless.models.gp.posterior import GP, SamplePath
from regretless.models.gp.step import best_evaluated
from regretless.models.gp.surrogate import Surrogate
from regretless.models.gp.trust_region import LOCAL, Restarts, thompson_step
from regretless.space import Cube
from regretless.space.parameters import Array

SCALE_DOWN = 5.0  # Srinivas et al. divide beta_t by this in all experiments (Sec. 6)
DELTA = 0.1  # the failure probability of gp-ucb (Sec. 6); gp-ts has the same, because its paper leaves it open
FIRST_XI = 0.3  # where the falling margin of gp-pi starts, in sds of the values; its paper gives no number
XI = 0.01  # the margin of gp-pi without a budget: what implementations customarily take on values of unit scale
NORM = 1.0  # B relative to the signal's sd; the paper assumes it known


class PrintedGP(GPMethod):
    """What the four on one Gaussian process share; a subclass gives the acquisition of a step."""

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget, kernel="se", quadratic=False, clip=False, centre=False)
        self._noisy = True

    def _best_observation(self, history: History, gp: GP) -> float:
        """b, standardised. With constraints it is the best mean where they hold; pending points count as their
        means."""
        if history.n_constraints:
            return self._value_to_beat(history, gp)
        best = (float(gp.y.max()) - gp.offset) / gp.scale
        return max(best, float(gp.mean_at(history.pending).max(initial=best)))

    def _recommend(self, history: History) -> Array:
        return best_evaluated(self._surrogate.gp(*history.basis), history.worth_using())


# ---------------------------------------------------------------- gp-ucb


class PrintedGPUCB(PrintedGP):
    """GP-UCB as printed: maximises mean plus sqrt(beta_t) standard deviations, beta_t of Theorem 2 divided by 5."""

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._posterior(history)  # m and s of step t - 1
        beta = ucb_beta(gp, history.evaluations + 1) / SCALE_DOWN  # beta_t (Thm. 2, Sec. 6)
        bound = upper_confidence(gp, math.sqrt(beta))  # x_t = arg max m(x) + sqrt(beta_t) s(x) (Alg. 1)
        return self._best_step(history, cube, gp, bound, rng)


def ucb_beta(gp: GP, t: int) -> float:
    """beta_t of Theorem 2 for the smoothness of a fitted SE kernel."""
    return theory_beta(t, gp.X.shape[1], DELTA, b=math.sqrt(0.5) / float(gp.hyper.lengthscale.min()))


def theory_beta(t: int, d: int, delta: float, *, a: float = 1.0, b: float = 1.0, r: float = 1.0) -> float:
    """beta_t = 2 log(t^2 2 pi^2 / (3 delta)) + 2 d max(log(t^2 d b r sqrt(log(4 d a / delta))), 0) (Thm. 2), a and b
    the constants of its smoothness assumption, r the edge of the domain."""
    first = 2 * math.log(t * t * 2 * math.pi**2 / (3 * delta))
    second = 2 * d * math.log(t * t * d * b * r * math.sqrt(math.log(4 * d * a / delta)))
    return first + max(second, 0.0)


# ---------------------------------------------------------------- gp-ei and gp-pi


class PrintedGPEI(PrintedGP):
    """GP-EI as printed: maximises the expected improvement over the best observation (Jones et al., Eq. 14)."""

    traits = Traits(constraints=True, cost=True, outside=True, belief=True)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._posterior(history)
        improvement = log_expected_improvement(gp, self._best_observation(history, gp))  # log E max(f - b, 0)
        return self._best_step(history, cube, gp, improvement, rng, logarithmic=True)


class PrintedGPPI(PrintedGP):
    """GP-PI as printed: maximises the probability of beating the best observation by a margin that falls to 0."""

    traits = Traits(constraints=True, cost=True, outside=True, belief=True)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._posterior(history)
        threshold = self._best_observation(history, gp) + self._margin(history)  # b + xi
        improvement = log_probability_of_improvement(gp, threshold)  # log Phi((m - b - xi) / s)
        return self._best_step(history, cube, gp, improvement, rng, logarithmic=True)

    def _margin(self, history: History) -> float:
        """xi of this step, standardised."""
        if self.budget is None:
            return XI
        return FIRST_XI * max(0.0, 1.0 - history.evaluations / self.budget)


# ---------------------------------------------------------------- gp-ts


class PrintedGPTS(PrintedGP):
    """GP-TS as printed: maximises a function drawn from the posterior, widened by v_t (Algorithm 2)."""

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._surrogate.gp(*history.basis)
        v = widening(gp, DELTA)  # v_t = B + R sqrt(2 (gamma_t + 1 + log(2 / delta)))
        drawn = widened(gp.path(rng), gp, v)  # f_t ~ GP(m, v_t^2 k)
        return self._best_step(history, cube, gp, drawn, rng)  # x_t = arg max f_t(x)


def widening(gp: GP, delta: float) -> float:
    """v_t = B + R sqrt(2 (gamma_t + 1 + log(2 / delta))) (Alg. 2)."""
    R = math.sqrt(float(gp.factor.noise.mean()))
    return NORM + R * math.sqrt(2 * (gp.information() + 1 + math.log(2 / delta)))


def widened(path: SamplePath, gp: GP, v: float) -> Acquisition:
    """m + v (f - m), f a path of the posterior."""

    def value_and_gradient(X: Array) -> tuple[Array, Array]:
        (f, df), (m, dm) = path(X), gp.mean_grad(X)
        return m + v * (f - m), dm + v * (df - dm)

    def value(X: Array) -> Array:
        f, m = path.values(X), gp.mean_at(X)
        return m + v * (f - m)

    return Acquisition(value_and_gradient, value)


# ---------------------------------------------------------------- turbo


class PrintedTuRBO(Method):
    """TuRBO-1 as printed: a trust region with 2 d initial points and Thompson sampling inside it."""

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._surrogate = Surrogate(self.cube, quadratic=False)
        self._begin()

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        regions = self.regions(history)
        first = regions.design_point(self.seed, history, rng)  # a region begins with 2 d points (App. B)
        if first is not None:
            return first
        X, y, yvar = regions.values(history)
        gp = self._surrogate.gp(X, y, yvar, history.pending)  # fitted to the data after the last restart (Sec. 3)
        return thompson_step(gp, X, regions.region.length, cube, rng)  # x_t = arg max f_t over the box of length L

    def regions(self, history: History) -> Restarts:
        """The trust regions after this history."""
        self._catch_up(history)
        return self._regions

    def _begin(self) -> None:
        self._regions = Restarts(self.dim, 2 * self.dim)

    def _update(self, history: History, first: int) -> None:
        self._regions.observe(history.y, first)  # successes double L, failures halve it, the least one restarts

    def _recommend(self, history: History) -> Array:
        """The best value ever observed, among those that share its trust region by the model's mean."""
        regions, top = self.regions(history), int(np.argmax(history.y))
        if top < regions.start:
            return np.asarray(history.X[top])
        X, y, yvar = regions.values(history)
        return best_evaluated(self._surrogate.gp(X, y, yvar), X)

    def _certificate(self, history: History, delta: float) -> Certificate:
        return Certificate.none(LOCAL, delta)
