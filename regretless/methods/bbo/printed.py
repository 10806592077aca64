"""BBO as printed, by the name "bbo-printed": the outer level of Algorithms 1 and 2 of "Convergence of Bayesian Bilevel
Optimization", ICLR 2024, App. A. `default.py` has the notation, and what the method is at its best, "bilevel".

    Input: place a Gaussian process prior on L(lambda, theta*_lambda)
    1   for t = 0, 1, ..., T - 1 do
    2       for j = 0, 1, ..., N - 1 do
    3           update model parameters using SGD: theta^{j+1} = theta^j - eta_j grad l(lambda_t, theta^j, z_j)
    4       end for
    Algorithm 1 (EI)
    5       observe y_t = L_val(lambda_t, theta^N, S_val) and update the posterior distribution on L using all data
    6-7     select lambda_{t+1} = argmax E max(mu_t^+ - L(lambda, theta*_lambda), 0) with the incumbent
            mu_t^+ = min over lambda_i in A_t of mu_{t-1}(lambda_i)
    8   end for
    9   return points lambda_t^+ = argmin over 1 <= i <= t of mu_{t-1}(lambda_i) and theta^N, for all 1 <= t <= T
    Algorithm 2 (UCB)
    5-6     observe y_t = L_val(lambda_t, theta^N, S_val) and update the posterior distribution on L using all data
    7       select lambda_{t+1} = argmax -mu_t(lambda) + beta_{t+1} sigma_t(lambda)
    8   end for
    9   return points lambda_t^+ = lambda_t and theta^N, for all 1 <= t <= T

Values here are minus the loss, to be maximised. Lines 2 to 4 are the inner level, which evaluates lambda_t
(`regretless.bilevel`). Beside the paper's text (`default.py`, deviations 1, 2 and 6): the mean is a fitted constant, an
SE kernel is fitted by MAP after an initial design, the logarithm of EI is maximised, pending points are hallucinated,
and proposals keep away from failures.
"""

from typing import Literal

import numpy as np

from regretless.basics.options import in_range, one_of
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Traits
from regretless.methods.bbo.theorems import confidence_width, paper_phi
from regretless.methods.shared import GPMethod
from regretless.models.gp.acquisition import log_expected_improvement, upper_confidence
from regretless.models.gp.step import best_evaluated, step
from regretless.space import Cube
from regretless.space.parameters import Array

NOISE_VAR = 0.01
"""sigma^2 is our choice, because the paper gives none; `experiments/bilevel_tables.py` studies 0.01, 0.1 and 1."""


class PrintedBBO(GPMethod):
    """Bayesian bilevel optimisation as its paper prints it: the outer level of Algorithms 1 and 2 with their return
    rules and phi(N) = log^1.5 N.

    Args:
        acquisition: "ei" (Algorithm 1) or "ucb" (Algorithm 2).
        horizon: N, the inner steps per evaluation; needed by "ucb".
        norm_bound: B, the bound of the RKHS norm (Lemma 2).
        inner_error: phi(N), what the inner level leaves unoptimised times sqrt(N); None: log^1.5 N (Thm. 1).
        noise_var: sigma^2, the noise variance of all values.
    """

    traits = Traits(outside=True)
    loss_scale = "linear"
    """How a study gives losses to it: as they are."""

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        acquisition: Literal["ei", "ucb"] = "ei",
        horizon: int | None = None,
        norm_bound: float = 1.0,
        inner_error: float | None = None,
        noise_var: float = NOISE_VAR,
    ) -> None:
        super().__init__(
            cube, seed=seed, budget=budget, kernel="se", noise_var=noise_var, quadratic=False, clip=False, centre=False
        )
        one_of(("ei", "ucb"), acquisition=acquisition)
        if acquisition == "ucb" and horizon is None:
            raise ValueError("acquisition='ucb' needs horizon=, the inner steps N per evaluation: beta_t depends on it")
        in_range("(0, inf)", norm_bound=norm_bound, noise_var=noise_var)
        in_range("(0, inf) or None", horizon=horizon, inner_error=inner_error)
        self.acquisition, self.horizon, self.B, self.noise_var = acquisition, horizon or 1, float(norm_bound), noise_var
        self.phi = paper_phi(self.horizon) if inner_error is None else inner_error

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._posterior(history)  # (Alg. 1, l. 5; Alg. 2, l. 6)
        if self.acquisition == "ei":
            incumbent = float(gp.mean_at(history.X).max())  # (Alg. 1, l. 6)
            acquisition = log_expected_improvement(gp, incumbent)  # (Alg. 1, l. 7)
        else:
            t = history.evaluations + 1
            beta = confidence_width(t, self.B, self.phi, self.noise_var, self.horizon)  # (Lemma 2)
            acquisition = upper_confidence(gp, beta)  # (Alg. 2, l. 7)
        return step(history, cube, gp, acquisition, rng, logarithmic=self.acquisition == "ei")

    def _recommend(self, history: History) -> Array:
        if self.acquisition == "ucb":
            return np.array(history.X[-1])  # (Alg. 2, l. 9)
        return best_evaluated(self._surrogate.gp(history.X, history.y, history.yvar), history.X)  # (Alg. 1, l. 9)
