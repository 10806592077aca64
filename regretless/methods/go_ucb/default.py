"""GO-UCB: optimism over the parameters of a known family of functions.

C. Liu and Y.-X. Wang, "Global Optimization with Parametric Function Approximation", ICML 2023.

The objective is believed to be f_w*(x) for some parameters w* of a family the user names or writes. Phase I spreads
points and fits w by nonlinear least squares; Phase II linearises the family in w, keeps an ellipsoid of plausible
parameters and evaluates where the most optimistic of them is best. A guard compares the family by leave-one-out with a
Gaussian process and with the sum of both, so that a wrong family costs little.

Notation (paper symbol, meaning, shape):
    x       a point of the cube, d; a model sees it in the user's own units once `bind` was called
    w, v    the user's parameters and their search coordinates (prior N(0, I)), p = d_w
    f_x(w)  value of the family; standardised here, z = (y - offset) / scale
    g_x     grad_w f_x(w_hat), p;  G their rows, T x p
    Sigma   lam I + G'G                                                                    (Eq. 3)
    w_hat   argmin lam |w - w_0|^2 + sum (g_i.(w - w_i) + f_i - y_i)^2                     (Eq. 4, 5)
    Ball    {w : |w - w_hat|_Sigma^2 <= beta}                                              (Eq. 6)
    n, T    points of Phase I and of Phase II

Deviations from the paper (numbered as on the method's page; `printed.py` has the paper's text):
    1. The oracle is a multi-start Levenberg-Marquardt fit with the prior on w; the printed SGD (rate 1e-11) trains
       nothing. The ridge of Eq. 4 pulls towards the centre of that prior and not towards w_0.
    2. Phase I is a scrambled Sobol sequence of 1.3 to 2 p points whose gradients count in Sigma; the paper draws
       uniformly, n = sqrt(T).
    3. lam = sigma^2 (prior variance 1) and sqrt(beta_t) = kappa sigma sqrt(log(1 + t)), sigma the estimated noise; the
       printed beta = d_w^3 F^4 t / T never binds, and the constants of Lemma 5.3 are not known in practice.
    4. w is fitted again after every value; the paper linearises once and for all.
    5. The search acts on the mixture of all solutions that fit about equally well; the paper knows one w_hat.
    6. The inner maximum is the closed form of the linearised model, max_w = f + sqrt(beta) |g|_{Sigma^-1}.
    7. The leave-one-out guard.
    8. `recommend` is the told point with the best fitted value; Algorithm 1 draws one uniformly from Phase II.
"""

import math
from typing import Literal, get_args

import numpy as np
from scipy.special import stdtrit

from regretless.basics.noise import stated_noise
from regretless.basics.options import in_range, one_of
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, Traits
from regretless.methods.go_ucb.belief import MeanAndSd, best_evaluated, family_belief, hybrid_belief, optimism
from regretless.methods.go_ucb.certify import linearised_certificate, theory_certificate
from regretless.methods.go_ucb.guard import Guard, Leader
from regretless.methods.go_ucb.oracle import FamilyFit, Oracle
from regretless.methods.go_ucb.parametric import BoundsLike, checked_inputs
from regretless.methods.go_ucb.user_model import Gradients, UserModel, family_of
from regretless.models.gp.acquisition import kept_from_failures, log_expected_improvement
from regretless.models.gp.certify import conservative_surrogate, fitted_certificate
from regretless.models.gp.maximiser import maximise
from regretless.models.gp.sobol import MAX_DIM, sobol_points
from regretless.models.gp.step import best_by_mean, step
from regretless.space import Cube, Space
from regretless.space.parameters import Array


class GOUCB(Method):
    """Optimistic search with a parametric model of yours: x_t = argmax_x max_{w in Ball_t} f_x(w); without a model it
    proposes what GP-EI proposes until it has two values per coefficient of a quadratic, so give it one or take gp-ei.

    Args:
        model: a function f(w, x) on NumPy arrays or float64 tensors: w has p numbers, x is n x d in your own units with
            columns in the order of the space, and n values are returned. Or a torch.nn.Module that maps x (n x d) to
            standardised values. Or the name of a family in `regretless.methods.go_ucb.parametric`, of which "mlp" and
            "sigmoid-net" are small nets. None: a quadratic.
        w_bounds: bounds on w, also as an attribute of the function: (low, high) pairs or `Float`s, listed or by name.
        gradients: how a function is differentiated in w: "auto" (its attribute `gradient(w, x)` -> n x p, else central
            differences if it takes NumPy arrays, else torch), "numeric" or "torch".
        width: hidden units of the families "sigmoid-net" and "mlp" (Sec. 6: 25).
        initial: points of Phase I; None: 1.3 per parameter, 2 per weight of a net or a response surface, at most a
            third of the budget.
        kappa: sqrt(beta_t) = kappa sqrt(log(1 + t)) in units of the noise.
        guard: choose by leave-one-out among family, family plus process, and process; None: unless realizable.
        noise_sd: the standard deviation of the noise in the units of y, when known.
        realizable: declares that the objective is a member of the family.

    Example:
        def response(w, x):                                   # Hill response to a dose with a price
            dose = x[:, 0]
            return w[0] * dose ** w[2] / (w[1] ** w[2] + dose ** w[2]) - 0.1 * dose

        method = GOUCB(model=response, w_bounds=[(0, 5), (0.1, 10), (1, 4)])
        opt = Optimizer({"dose": Float(0, 10)}, method=method, direction="maximize")
    """

    traits = Traits(max_dim=MAX_DIM)

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        model: UserModel = None,
        w_bounds: BoundsLike | None = None,
        gradients: Gradients = "auto",
        width: int = 25,
        initial: int | None = None,
        kappa: float = 0.5,
        guard: bool | None = None,
        noise_sd: float | None = None,
        realizable: bool = False,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        one_of(get_args(Gradients), gradients=gradients)
        in_range("[1, inf) or None", initial=initial)
        in_range("[0, inf)", kappa=kappa)
        in_range("(0, inf) or None", noise_sd=noise_sd)
        self.kappa, self.noise_sd, self.realizable = float(kappa), noise_sd, realizable
        self._noisy = stated_noise(noise_sd)
        self.family = family_of(model, w_bounds, self.dim, width, gradients)
        self.guard = not realizable if guard is None else bool(guard)
        self.initial = self._phase_one() if initial is None else int(initial)
        """n, the points of Phase I."""
        self._oracle: Oracle | None = None
        self._sign = 1.0
        self._conservative = conservative_surrogate(self.cube)
        variance = None if noise_sd is None else noise_sd**2
        self._guard = Guard(self.cube, noise_var=variance, flexible=self.family.flexible)

    def bind(self, space: Space, sign: float) -> None:
        """Shows the method the user's own units: the space, and the sign of told values (-1 in a minimisation)."""
        inputs = checked_inputs(self.family, space, self.cube, self._fixed_generator())
        self._sign = float(sign)
        self._oracle = Oracle(
            self.family, inputs, sign=self._sign, seed=self.seed, block=self.initial, noise_sd=self.noise_sd
        )

    def _bound(self) -> Oracle:
        """The oracle in the user's units; those of the unit cube where there is no user."""
        if self._oracle is None:
            self.bind(Space([(0.0, 1.0)] * self.dim), 1.0)
        assert self._oracle is not None
        return self._oracle

    def _phase_one(self) -> int:
        """The number of points of Phase I."""
        most = max(2 * self.dim + 2, self.budget // 3 if self.budget else 4 * self.dim + 4)
        return min(self.family.enough, most)

    # -- Algorithm 1

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        if len(history) < self.initial:  # (Alg. 1, Phase I)
            return np.asarray(sobol_points(rng.step + 1, self.dim, self._fixed_generator())[-1])
        leader = self.leader(history)
        if leader == "process":
            return self._propose_by_process(history, cube, rng)
        fit = self.fit(history)  # (Alg. 1, Phase II, l. 2-3)
        belief = self.belief(leader, fit, history)
        pair = optimism(belief, self.radius(fit), cube)  # (Alg. 1, Phase II, l. 4-5)
        acquisition = kept_from_failures(pair, history.X, history.failed)
        return maximise(acquisition, cube, rng, incumbents=best_evaluated(belief, history.X))

    def _propose_by_process(self, history: History, cube: Cube, rng: Draws) -> Array:
        """The proposal of GP-EI, which is made while the family cannot be trusted."""
        gp = self._guard.surrogate.gp(history.X, history.y, history.yvar, history.pending)
        best = float(gp.mean_at(history.X).max())
        best = max(best, float(gp.mean_at(history.pending).max(initial=best)))
        return step(history, cube, gp, log_expected_improvement(gp, best), rng, logarithmic=True)

    def fit(self, history: History) -> FamilyFit:
        return self._bound()(history.X, history.y, history.yvar)

    def radius(self, fit: FamilyFit) -> float:
        """sqrt(beta_t) of Eq. 6 in units of the noise."""
        beta = self.kappa**2 * math.log1p(max(fit.n - self.initial, 0) + 1) * fit.sigma2
        return math.sqrt(beta / fit.sigma2)

    def belief(self, leader: Literal["family", "hybrid"], fit: FamilyFit, history: History) -> MeanAndSd:
        """The posterior of the family, alone or with the residual process, pending points conditioned on."""
        if leader == "hybrid":
            return hybrid_belief(self._bound(), fit, self._guard, history.X, history.pending)
        return family_belief(self._bound(), fit, history.pending)

    def leader(self, history: History, *, verdict: bool = False) -> Leader:
        """The model to act on or, for a verdict, to vouch with: the process while there are too few data to tell."""
        if not self.guard:
            return "family"
        if len(history) < self.family.enough:
            return "process"
        data = history.X, history.y, history.yvar, self.fit(history)
        if not verdict:
            return self._guard.choice(*data)
        leader = self._guard.verdict(*data)[0]
        return "process" if leader == "hybrid" and self.family.flexible else leader

    def _recommend(self, history: History) -> Array:
        if len(history) < self.initial:
            return super()._recommend(history)
        leader = self.leader(history)
        if leader == "process":
            gp = self._guard.surrogate.gp(history.X, history.y, history.yvar, history.pending)
            best = best_by_mean(gp, history.X, 1)
        else:
            best = best_evaluated(self.belief(leader, self.fit(history), history), history.X, 1)
        return np.asarray(best[0])

    def _certificate(self, history: History, delta: float) -> Certificate:
        """ "theory" when the family is declared true and the noise is known, otherwise "fitted" (see `certify`)."""
        if len(history) < self.initial:
            return Certificate.none("Phase I is not over", delta)
        x, rng = self.recommend(history), self._fixed_generator()
        question = history, self.cube, x, delta, rng
        if self.realizable and self.noise_sd is not None and math.isfinite(self.family.reach):
            fit = self.fit(history)
            belief = self.belief("family", fit, history)
            return theory_certificate(*question, oracle=self._bound(), fit=fit, belief=belief, noise_sd=self.noise_sd)
        leader = self.leader(history, verdict=True)
        if leader == "process":
            data = history.X, history.y, history.yvar
            return fitted_certificate(*data, self.cube, x, delta, rng, conservative=self._conservative)
        fit = self.fit(history)
        name = "the family" if leader == "family" else "the family plus a residual process"
        return linearised_certificate(*question, fit=fit, belief=self.belief(leader, fit, history), name=name)

    # -- what the model says, for the user

    def parameters(self, history: History, level: float = 0.95) -> dict[str, tuple[float, float, float]]:
        """The fitted parameters in the user's units: name -> (value, low, high), intervals by the linearised fit (t
        quantiles), cut at the bounds; one that fills its bounds says that the data do not determine the parameter."""
        in_range("(0, 1)", level=level)
        if len(history) == 0:
            raise RuntimeError("parameters() needs at least one successful evaluation")
        fit = self.fit(history)
        free = max(fit.n - float((fit.ball.norms(fit.rows) ** 2).sum()), 1.0)
        half = float(stdtrit(free, 0.5 + level / 2)) * math.sqrt(fit.sigma2) * fit.ball.norms(np.eye(self.family.p))
        ends = np.clip(np.stack([fit.v, fit.v - half, fit.v + half]), -self.family.reach, self.family.reach)
        columns = self.family.user(ends).T.tolist()
        return {name: (a, b, c) for name, (a, b, c) in zip(self.family.names, columns, strict=True)}

    def misfit(self, history: History) -> str:
        """What speaks against the family, in one sentence; empty when nothing does."""
        n = len(history)
        if n < self.initial:
            return ""
        if n < self.family.enough:
            return f"{n} values are too few to judge a family of {self.family.p} parameters"
        kind, nats = self._guard.verdict(history.X, history.y, history.yvar, self.fit(history))
        if kind == "family":
            return ""
        other = "a Gaussian process" if kind == "process" else "the family plus a residual process"
        by = f"{nats:.1f} nats over {n} values"
        return f"the family misses structure: {other} predicts left-out values better by {by}"

    def residuals(self, history: History) -> tuple[Array, Array]:
        """Fitted values and residuals (told minus fitted) of the family in the user's units, n each."""
        fit = self.fit(history)
        return self._sign * (fit.offset + fit.scale * fit.values), self._sign * fit.scale * fit.residuals
