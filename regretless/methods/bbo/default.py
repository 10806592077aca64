"""BBO: "Convergence of Bayesian Bilevel Optimization", ICLR 2024.

The outer level chooses hyper-parameters by a Gaussian process on the validation loss that an inner level, N steps of
SGD, ends with. What the inner level leaves unoptimised is noise to the outer one, of size phi(N) / sqrt(N), and widens
its confidence bounds. This file is the outer level alone, the model; `regretless.minimize_bilevel` chooses N and the
number T of outer steps. There the schedule is what pays: under it, settings proposed by this model were within the
noise of random ones on six tasks, so a study takes it only when asked (`method="bilevel"`).

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

Deviations from the paper ("bbo-printed" in `printed.py` has its text, with the first, the second and the sixth)
    1. The mean is a fitted constant, not zero (Sec. 3.2): it absorbs the bias that all settings share.
    2. An initial design comes first and the kernel is fitted by MAP; the paper takes it as known.
    3. phi is a measured constant (seed sd times sqrt(N), PHI) and sigma^2 the fitted noise variance, but not below
       phi^2 / N. The paper's log^1.5 N gives beta_t of 44 with sigma^2 = 0.01 and 4.5 with 1 (t = 20, N = 100).
    4. The best posterior mean is recommended. Algorithm 2 returns the last point asked, which may be a probe.
    5. Matern-5/2 with a quadratic trend and low values clipped (docs/lab/gp-engine.md); paper: SE, as told.
    6. Expected improvement is maximised by its logarithm, pending points are hallucinated and proposals keep away from
       failures.
    7. fidelity=True: values of runs of any length, which is the last coordinate; settings that lead after short
       training need not lead in the end.
"""

from typing import Literal

import numpy as np

from regretless.basics.options import in_range, one_of
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Traits
from regretless.methods.bbo.theorems import confidence_width
from regretless.methods.shared import GPMethod
from regretless.models.gp.acquisition import kept_from_failures, log_expected_improvement, upper_confidence
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import Acquisition, maximise
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import INCUMBENTS, best_by_mean, best_evaluated, step
from regretless.space import Cube
from regretless.space.parameters import Array

PHI = 0.3  # phi: the sd over inner seeds times sqrt(N) was 0.1 to 0.6 (docs/lab/bilevel.md)


class BBO(GPMethod):
    """Bayesian bilevel optimisation: the outer level, EI or UCB on minus the validation loss; in `minimize_bilevel` an
    option, because the schedule is what pays there.

    acquisition="ei":  lambda = arg max E max(f(lambda) - mu^+, 0).
    acquisition="ucb": lambda = arg max mu(lambda) + beta_t sigma(lambda).

    Args:
        acquisition: "ei" or "ucb".
        horizon: N, the inner steps per evaluation; needed by "ucb".
        norm_bound: B, the bound of the RKHS norm (Lemma 2).
        inner_error: phi(N), what the inner level leaves unoptimised times sqrt(N).
        noise_var: sigma^2, a known noise variance of all values; None: fitted.
        fidelity: the cube's last coordinate says how long the run behind a value was trained, from 0 to 1 (the full
            horizon); what is proposed and recommended is meant for the full one.
    """

    traits = Traits(outside=True)  # its steps are those of the paper, which weigh neither constraints nor a prior
    loss_scale = "auto"
    """How a study gives losses to it: by their logarithm where all are positive."""

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        acquisition: Literal["ei", "ucb"] = "ei",
        horizon: int | None = None,
        norm_bound: float = 1.0,
        inner_error: float = PHI,
        noise_var: float | None = None,
        fidelity: bool = False,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget, noise_var=noise_var)
        if fidelity and self.dim < 2:
            raise ValueError("fidelity=True needs at least two coordinates: hyper-parameters, then the training length")
        one_of(("ei", "ucb"), acquisition=acquisition)
        if acquisition == "ucb" and horizon is None:
            raise ValueError("acquisition='ucb' needs horizon=, the inner steps N per evaluation: beta_t depends on it")
        in_range("(0, inf)", norm_bound=norm_bound, inner_error=inner_error)
        in_range("(0, inf) or None", horizon=horizon, noise_var=noise_var)
        self.acquisition, self.horizon, self.B, self.phi = acquisition, horizon, float(norm_bound), inner_error
        self.noise_var, self.fidelity = noise_var, fidelity
        self._noisy = True if fidelity else self._noisy  # the best value may be of a short run

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        x = super().propose(history, cube, rng)
        return at_full_length(x) if self.fidelity else x

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._posterior(history)
        if self.acquisition == "ei":
            acquisition = log_expected_improvement(gp, float(gp.mean_at(self._evaluated(history)).max()))
        else:
            acquisition = upper_confidence(gp, self.beta(history, gp))
        next_step = step_at_full_length if self.fidelity else step
        return next_step(history, cube, gp, acquisition, rng, logarithmic=self.acquisition == "ei")

    def _evaluated(self, history: History) -> Array:
        """A_t: the points with values, at full length where there is a fidelity, n x d."""
        return at_full_length(history.X) if self.fidelity else history.X

    def beta(self, history: History, gp: GP) -> float:
        """beta_t for the next evaluation."""
        if self.horizon is None:
            raise ValueError("beta_t needs horizon=, the inner steps N per evaluation")
        variance = self.noise_var
        if variance is None:
            # 1e150: scales count as at most this, because the square of a larger one is no float
            variance = max(gp.hyper.noise * gp.signal * min(gp.scale, 1e150) ** 2, self.phi**2 / self.horizon)
        return confidence_width(history.evaluations + 1, self.B, self.phi, variance, self.horizon)

    def _recommend(self, history: History) -> Array:
        gp = self._surrogate.gp(history.X, history.y, history.yvar)
        return best_evaluated(gp, self._evaluated(history))

    def _certificate(self, history: History, delta: float) -> Certificate:
        if self.fidelity:
            return Certificate.none("runs of different length were compared; a certificate needs equal ones", delta)
        return super()._certificate(history, delta)  # not by Lemma 2, whose kernel, B and phi would have to be known


# ---------------------------------------------------------------- the length of training: not in the paper


def at_full_length(X: Array) -> Array:
    """The points with the last coordinate, the length of training, set to 1; n x d or d."""
    full = np.array(X)
    full[..., -1] = 1.0
    return full


def step_at_full_length(
    history: History, cube: Cube, gp: GP, acquisition: Acquisition, rng: np.random.Generator, *, logarithmic: bool
) -> Array:
    """As `regretless.models.gp.step.step`, over the points of full length alone, d."""
    kept = kept_from_failures(acquisition, history.X, history.failed, logarithmic=logarithmic)

    def pinned(X: Array) -> tuple[Array, Array]:
        """The acquisition at full length; it does not change along the last coordinate."""
        value, slope = kept.value_and_gradient(at_full_length(X))
        slope[:, -1] = 0.0
        return value, slope

    full = at_full_length(history.X)
    incumbents = best_by_mean(gp, full, INCUMBENTS)
    at_full = Acquisition(pinned, lambda X: kept.value(at_full_length(X)))
    x = maximise(at_full, cube, rng, incumbents=incumbents)
    trained = {point.tobytes() for point in cube.snap(full)}  # settings that were trained, however long
    return away_from_known(at_full_length(x), history, cube, rng, also=trained)
