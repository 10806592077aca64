"""BBO: "Convergence of Bayesian Bilevel Optimization", ICLR 2024.

The outer level chooses hyper-parameters by a Gaussian process on the validation loss that an inner level, N steps of
SGD, ends with. What the inner level leaves unoptimised is noise to the outer one, of size phi(N) / sqrt(N), and widens
its confidence bounds. This file is the outer level alone, the model; `regretless.minimize_bilevel` chooses N and the
number T of outer steps together. There the schedule is what pays: under it, settings proposed by this model were within
the noise of random ones on six tasks, so a study takes it only when asked (`method="bilevel"`).

Notation
    lambda_t    hyper-parameters of outer step t, here a point of the cube          d
    y_t         minus the validation loss of the trained model (paper: the loss itself; Optimizer turns signs)
    A_t         the points evaluated so far                                         n x d
    mu, sigma   posterior mean and sd of the outer Gaussian process                 n
    mu_t^+      the incumbent: the best posterior mean over A_t
    N           inner steps per evaluation (`horizon`)
    phi(N)      bound of the excess risk times sqrt(N) (`inner_error`)
    B           bound of the RKHS norm (`norm_bound`)
    sigma^2     noise variance of the model (`noise_var`)
    beta_t      width of the confidence bound, sqrt(B^2 + t phi(N)^2 / (sigma^2 N)) (Lemma 2)
    eta_j       inner step size at step j (Thms. 1, 18, 19)

Deviations
    1. Both presets: the mean is a fitted constant, not zero (Sec. 3.2): it absorbs the bias that all settings share.
    2. Both presets: an initial design comes first and the kernel is fitted by MAP; the paper takes it as known.
    3. Default: phi is a measured constant (seed sd times sqrt(N), PHI) and sigma^2 the fitted noise variance, but not
       below phi^2 / N. The paper's log^1.5 N gives beta_t of 44 with sigma^2 = 0.01 and 4.5 with 1 (t = 20, N = 100).
       The paper names no sigma^2; its preset has 0.01 unless `noise_var` says otherwise (`experiments/bilevel_tables`
       studies 0.01, 0.1 and 1).
    4. Default: the best posterior mean is recommended. Algorithm 2 returns the last point asked, which may be a probe.
    5. Default: Matern-5/2 with a quadratic trend and low values clipped (docs/lab/gp-engine.md); paper: SE, as told.
    6. Both presets: expected improvement is maximised by its logarithm, pending points are hallucinated and proposals
       keep away from failures.
    7. fidelity=True: values of runs of any length, which is the last coordinate; settings that lead after short
       training need not lead in the end.
"""

import math
from typing import ClassVar, Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import kept_from_failures, log_expected_improvement, upper_confidence
from regretless.gp.design import away_from_known
from regretless.gp.maximiser import Acquisition, maximise
from regretless.gp.method import GPMethod
from regretless.gp.posterior import GP
from regretless.gp.step import INCUMBENTS, best_by_mean, best_told, step
from regretless.method import Method
from regretless.options import Preset, in_range, one_of
from regretless.parameters import Array
from regretless.space import Cube

PHI = 0.3  # phi of the default: the sd over inner seeds times sqrt(N) was 0.1 to 0.6 (docs/lab/bilevel.md)
PAPER_NOISE_VAR = 0.01  # sigma^2 of the paper preset: our choice among 0.01, 0.1 and 1, because the paper gives none


class BBO(GPMethod):
    """Bayesian bilevel optimisation: the outer level, EI or UCB on minus the validation loss; in `minimize_bilevel` an
    option, because the schedule is what pays there.

    Algorithm 1 (acquisition="ei"): lambda = arg max E max(f(lambda) - mu^+, 0).
    Algorithm 2 (acquisition="ucb"): lambda = arg max mu(lambda) + beta_t sigma(lambda).

    Args:
        preset: "default", or "paper": Algorithms 1 and 2 with their return rules and phi(N) = log^1.5 N.
        acquisition: "ei" or "ucb".
        horizon: N, the inner steps per evaluation; needed by "ucb".
        norm_bound: B, the bound of the RKHS norm (Lemma 2).
        inner_error: phi(N), what the inner level leaves unoptimised times sqrt(N); None: 0.3, or log^1.5 N (paper).
        noise_var: sigma^2, a known noise variance of all values; None: fitted, or 0.01 (paper).
        fidelity: the cube's last coordinate says how long the run behind a value was trained, from 0 to 1 (the full
            horizon); what is proposed and recommended is meant for the full one. Not in paper.
    """

    renamed: ClassVar = {"noise": "noise_var", "B": "norm_bound", "phi": "inner_error"}
    models_constraints = weighs_belief = False  # its steps are those of the paper, which weigh neither

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        acquisition: Literal["ei", "ucb"] = "ei",
        horizon: int | None = None,
        norm_bound: float = 1.0,
        inner_error: float | None = None,
        noise_var: float | None = None,
        fidelity: bool = False,
    ) -> None:
        self.noise_var = PAPER_NOISE_VAR if noise_var is None and preset == "paper" else noise_var
        super().__init__(cube, seed=seed, budget=budget, preset=preset, noise_var=self.noise_var)
        if fidelity and self.dim < 2:
            raise ValueError("fidelity=True needs at least two coordinates: hyper-parameters, then the training length")
        one_of(("ei", "ucb"), acquisition=acquisition)
        if acquisition == "ucb" and horizon is None:
            raise ValueError("acquisition='ucb' needs horizon=, the inner steps N per evaluation: beta_t depends on it")
        in_range("(0, inf)", norm_bound=norm_bound)
        in_range("(0, inf) or None", horizon=horizon, inner_error=inner_error, noise_var=noise_var)
        self.acquisition, self.horizon, self.B, self.fidelity = acquisition, horizon, float(norm_bound), fidelity
        self.known_noise = True if fidelity else self.known_noise  # the best value may be of a short run
        self.phi = inner_error if inner_error is not None else paper_phi(horizon or 1) if self.paper else PHI
        self.loss_scale = "linear" if self.paper else "auto"
        """How a study tells losses: as they are, as Algorithms 1 and 2 model them, or by their log where positive."""

    def _propose(self, rng: np.random.Generator) -> Array:
        x = super()._propose(rng)
        return at_full_length(x) if self.fidelity else x

    def _step(self, rng: np.random.Generator) -> Array:
        gp = self._posterior()  # (Alg. 1, l. 5; Alg. 2, l. 6)
        if self.acquisition == "ei":  # (Alg. 1, l. 6-7), the incumbent is the best posterior mean over A_t
            pair = log_expected_improvement(gp, float(gp.mean_at(self._evaluated).max()))
        else:  # (Alg. 2, l. 7)
            pair = upper_confidence(gp, self.beta(gp))
        next_step = step_at_full_length if self.fidelity else step
        return next_step(self, gp, pair, rng, logarithmic=self.acquisition == "ei")

    @property
    def _evaluated(self) -> Array:
        """A_t: the points told, at full length where there is a fidelity, n x d."""
        return at_full_length(self.X) if self.fidelity else self.X

    def beta(self, gp: GP) -> float:
        """beta_t for the next evaluation."""
        if self.horizon is None:
            raise ValueError("beta_t needs horizon=, the inner steps N per evaluation")
        seed_variance = self.phi**2 / self.horizon
        if self.noise_var is None:
            variance = max(gp.hyper.noise * gp.signal * gp.scale**2, seed_variance)
        else:
            variance = self.noise_var
        return confidence_width(self._evaluations + 1, self.B, self.phi, variance, self.horizon)

    def _recommend(self) -> Array:
        if self.paper and self.acquisition == "ucb":  # (Alg. 2, l. 9): the last point
            return np.asarray(self.X[-1])
        gp = self._surrogate.gp(self.X, self.y, self.yvar)  # (Alg. 1, l. 9)
        return best_told(gp, self._evaluated)

    def _certificate(self, delta: float) -> Certificate:
        if self.fidelity:
            return Certificate.none("runs of different length were compared; a certificate needs equal ones", delta)
        return super()._certificate(delta)  # not by Lemma 2, whose kernel, B and phi would have to be known


# ---------------------------------------------------------------- the paper's formulas


def confidence_width(t: int, B: float, phi: float, noise_var: float, horizon: int) -> float:
    """beta_t = sqrt(B^2 + t phi(N)^2 / (sigma^2 N)) (Lemma 2, Thm. 4)."""
    return math.sqrt(B * B + t * phi * phi / (noise_var * horizon))


def paper_phi(horizon: int) -> float:
    """phi(N) = log^1.5 N (Thm. 1), its unknown constant taken as 1."""
    return float(math.log(horizon) ** 1.5)


def convex_step(c: float, horizon: int) -> float:
    """eta = c / sqrt(N) (Thm. 1); its bound of 2 / gamma is left out, since the smoothness gamma is never known."""
    return c / math.sqrt(horizon)


def dominated_step(mu: float, j: int) -> float:
    """eta_j = (2 j + 1) / (2 mu (j + 1)^2), for losses with a mu-dominant gradient (Thm. 18)."""
    return (2 * j + 1) / (2 * mu * (j + 1) ** 2)


def nonsmooth_step(c: float, horizon: int, p: float = 0.75) -> float:
    """eta = c N^-p with p > 1/2, for losses that are convex and not smooth (Thm. 19)."""
    in_range("(0.5, inf)", p=p)
    return float(c * horizon**-p)


# ---------------------------------------------------------------- the length of training: not in paper


def at_full_length(X: Array) -> Array:
    """The points with the last coordinate, the length of training, set to 1; n x d or d."""
    full = np.array(X)
    full[..., -1] = 1.0
    return full


def step_at_full_length(
    history: Method, gp: GP, acquisition: Acquisition, rng: np.random.Generator, *, logarithmic: bool
) -> Array:
    """As `regretless.gp.step.step`, over the points of full length alone, d."""
    kept = kept_from_failures(acquisition, history.X, history.failed, logarithmic=logarithmic)

    def pinned(X: Array) -> tuple[Array, Array]:
        """The acquisition at full length; it does not change along the last coordinate."""
        value, slope = kept.value_and_gradient(at_full_length(X))
        slope[:, -1] = 0.0
        return value, slope

    full = at_full_length(history.X)
    incumbents = best_by_mean(gp, full, INCUMBENTS)
    at_full = Acquisition(pinned, lambda X: kept.value(at_full_length(X)))
    x = maximise(at_full, history.cube, rng, incumbents=incumbents)
    trained = {history.cube.key(point) for point in full}  # settings that were trained, however long
    return away_from_known(at_full_length(x), history, rng, also=trained)
