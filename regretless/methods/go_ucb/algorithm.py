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

Deviations from the paper (numbered as on the method's page; `preset="paper"` has none of them with the printed oracle,
and the sixth with `oracle="least-squares"`, which is Algorithm 1 with the settings of its theorem):
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
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import stdtrit

from regretless.certificate import Certificate
from regretless.extras import optional
from regretless.gp.acquisition import kept_from_failures, log_expected_improvement
from regretless.gp.certify import fitted_certificate, wary_surrogate
from regretless.gp.maximiser import maximise
from regretless.gp.sobol import MAX_DIM, sobol_points
from regretless.gp.step import best_by_mean, step
from regretless.method import Method, keyed_generator
from regretless.methods.go_ucb.belief import Belief, best_told, family_belief, hybrid_belief, optimism
from regretless.methods.go_ucb.certify import linearised_certificate, theory_certificate
from regretless.methods.go_ucb.guard import Guard, Leader
from regretless.methods.go_ucb.oracle import FamilyFit, Oracle
from regretless.methods.go_ucb.paper_preset import PaperPhaseTwo, Start
from regretless.methods.go_ucb.parametric import CENTRED, BoundsLike, Family, TwoLayerNet, user_units
from regretless.methods.go_ucb.user_model import Gradients, family_of
from regretless.methods.go_ucb.working_oracle import WorkingPhaseTwo
from regretless.noise import stated_noise
from regretless.options import PRESETS, Preset, in_range, one_of
from regretless.parameters import Array
from regretless.space import Cube, Space
from regretless.streams import Stream

if TYPE_CHECKING:
    import torch

Model: TypeAlias = "str | Family | Callable[..., Any] | torch.nn.Module | None"

FULL_QUADRATIC = 8  # dimensions up to which the default family has cross terms: there it has at most 45 coefficients
UNKNOWN_T = 64  # T of the paper's formulas when no budget is known; the larger of its experiments (Sec. 6)
PROBED = 8  # points at which a user's model is checked before anything is evaluated
TITLE_WIDTH = 56  # letters in a line of a plot's title, as many as fit on a figure 5 inches wide


class GOUCB(Method):
    """Optimistic search with a parametric model of yours: x_t = argmax_x max_{w in Ball_t} f_x(w); without a model it
    proposes what GP-EI proposes until it has two values per coefficient of a quadratic, so give it one or take gp-ei.

    Args:
        model: a function f(w, x) on NumPy arrays or float64 tensors (w: p, x: n x d in your own units, columns in the
            order of the space; returns n); a torch.nn.Module that maps x (n x d) to standardised values; the name of a
            family in `regretless.methods.go_ucb.parametric`, of which "mlp" and "sigmoid-net" are small nets, taken
            only when asked for; None: a quadratic.
        w_bounds: bounds on w, also as an attribute of the function: (low, high) pairs or `Float`s, listed or by name.
        gradients: how a function is differentiated in w: "auto" (its attribute `gradient(w, x)` -> n x p, else central
            differences if it takes NumPy arrays, else torch), "numeric" or "torch".
        width: hidden units of the families "sigmoid-net" and "mlp" (Sec. 6: 25).
        preset: "default", or "paper" for Algorithm 1 with the settings printed in App. D.1.
        initial: points of Phase I; None: 1.3 per parameter, 2 per weight of a net or a response surface, at most a
            third of the budget ("paper": n = sqrt(T)).
        kappa: sqrt(beta_t) = kappa sqrt(log(1 + t)) in units of the noise.
        guard: choose by leave-one-out among family, family plus process, and process; None: unless realizable.
        noise_sd: the standard deviation of the noise in the units of y, when known.
        realizable: declares that the objective is a member of the family.
        start: where the printed ascent begins, which the paper leaves open: "incumbent", "random", "centre" or "last".
        oracle: of the paper preset: "printed" (SGD with the rate of App. D.1, which trains nothing) or "least-squares",
            Algorithm 1 as Theorem 4.1 has it: a fit that works, lambda = C sqrt(T), the ridge around w_0.

    Example:
        def response(w, x):                                   # Hill response to a dose with a price
            dose = x[:, 0]
            return w[0] * dose ** w[2] / (w[1] ** w[2] + dose ** w[2]) - 0.1 * dose

        method = GOUCB(model=response, w_bounds=[(0, 5), (0.1, 10), (1, 4)])
        opt = Optimizer({"dose": Float(0, 10)}, method=method, direction="maximize")
    """

    max_dim = MAX_DIM
    renamed: ClassVar = {"noise": "noise_sd", "phase_one": "initial"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        model: Model = None,
        w_bounds: BoundsLike | None = None,
        gradients: Gradients = "auto",
        width: int = 25,
        preset: Preset = "default",
        initial: int | None = None,
        kappa: float = 0.5,
        guard: bool | None = None,
        noise_sd: float | None = None,
        realizable: bool = False,
        start: Start = "incumbent",
        oracle: Literal["printed", "least-squares"] = "printed",
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        one_of(PRESETS, preset=preset)
        one_of(get_args(Gradients), gradients=gradients)
        one_of(get_args(Start), start=start)
        one_of(("printed", "least-squares"), oracle=oracle)
        in_range("[1, inf) or None", initial=initial)
        in_range("[0, inf)", kappa=kappa)
        in_range("(0, inf) or None", noise_sd=noise_sd)
        if oracle == "least-squares" and preset != "paper":
            raise ValueError('oracle="least-squares" belongs to preset="paper"; the default preset has it always')
        self.paper, self.kappa, self.noise_sd, self.realizable = preset == "paper", float(kappa), noise_sd, realizable
        self.known_noise = stated_noise(self.paper, noise_sd)
        self.family: Family
        self._works = oracle == "least-squares"
        if model is None and self.paper and not self._works:  # (Sec. 6)
            self.family = TwoLayerNet(self.dim, width, "sigmoid", plain=True)
        else:
            usual = "quadratic" if self.dim <= FULL_QUADRATIC else "separable-quadratic"
            self.family = family_of(usual if model is None else model, w_bounds, self.dim, width, gradients)
        self.guard = (not realizable if guard is None else bool(guard)) and not self.paper
        self.initial = self._phase_one() if initial is None else int(initial)
        """n, the points of Phase I."""
        self.horizon = max(budget - self.initial, 2) if budget else UNKNOWN_T
        """T, the points of Phase II."""
        self.leader: Leader = "family"
        """The model that the last proposal of Phase II came from."""
        self._start: Start = start
        self._ready: tuple[Oracle, PaperPhaseTwo, WorkingPhaseTwo] | None = None
        self._space: Space | None = None
        self._sign = 1.0
        variance = None if noise_sd is None else noise_sd**2
        self._wary = wary_surrogate(self.cube)
        self._guard = Guard(self.cube, noise_var=variance, flexible=self.family.flexible)

    def bind(self, space: Space, sign: float) -> None:
        """Shows the method the user's own units: the space, and the sign of told values (-1 in a minimisation)."""
        if len(space) != self.dim:
            raise ValueError(f"the space has {len(space)} parameters, this method {self.dim} coordinates")
        self._space, self._sign, self._ready = space, float(sign), None
        self._bound()  # a model that cannot work is refused here, before anything is evaluated

    def _bound(self) -> tuple[Oracle, PaperPhaseTwo, WorkingPhaseTwo]:
        """The oracle and the paper's two forms of Phase II for the space bound, the model checked."""
        if self._ready is None:
            space, n = self._space or Space([(0.0, 1.0)] * self.dim), self.initial
            inputs = CENTRED if self.family.inputs == "centred" else user_units(space)
            self.family.check(inputs(self.cube.snap(sobol_points(PROBED, self.dim, self.fixed_generator()))))
            oracle = Oracle(self.family, inputs, sign=self._sign, seed=self.seed, block=n, noise_sd=self.noise_sd)
            printed = PaperPhaseTwo(self.family, inputs, sign=self._sign, n=n, T=self.horizon, start=self._start)
            self._ready = oracle, printed, WorkingPhaseTwo(oracle, n=n, T=self.horizon)
        return self._ready

    def _phase_one(self) -> int:
        """The number of points of Phase I."""
        if not self.paper:
            most = max(2 * self.dim + 2, self.budget // 3 if self.budget else 4 * self.dim + 4)
            return min(self.family.enough, most)
        if self.budget is None:
            return math.isqrt(UNKNOWN_T)
        return round((math.sqrt(1 + 4 * self.budget) - 1) / 2)  # n + T = budget with n = sqrt(T) (Thm. 4.1)

    # -- Algorithm 1

    def _propose(self, rng: np.random.Generator) -> Array:
        if len(self.y) < self.initial:  # (Alg. 1, Phase I)
            if self.paper:
                return rng.random(self.dim)
            return np.asarray(sobol_points(self.step + 1, self.dim, self.fixed_generator())[-1])
        if self._works:
            return self._bound()[2].propose(self, rng)
        if self.paper:
            return self._bound()[1].propose(self.X, self.y, rng, self.fixed_generator())
        self.leader = self._leader()
        if self.leader == "process":
            return self._propose_by_process(rng)
        fit = self._fit()  # (Alg. 1, Phase II, l. 2-3)
        belief = self._belief(self.leader, fit)
        pair = optimism(belief, self._radius(fit), self)  # (Alg. 1, Phase II, l. 4-5)
        acquisition = kept_from_failures(pair, self.X, self.failed)
        return maximise(acquisition, self.cube, rng, incumbents=best_told(belief, self.X))

    def _propose_by_process(self, rng: np.random.Generator) -> Array:
        """The proposal of GP-EI, which is made while the family cannot be trusted."""
        gp = self._guard.surrogate.gp(self.X, self.y, self.yvar, self.pending)
        best = float(gp.mean_at(self.X).max())
        best = max(best, float(gp.mean_at(self.pending).max(initial=best)))
        return step(self, gp, log_expected_improvement(gp, best), rng, logarithmic=True)

    def _fit(self) -> FamilyFit:
        return self._bound()[0](self.X, self.y, self.yvar)

    def _radius(self, fit: FamilyFit) -> float:
        """sqrt(beta_t) of Eq. 6 in units of the noise."""
        beta = self.kappa**2 * math.log1p(max(fit.n - self.initial, 0) + 1) * fit.sigma2
        return math.sqrt(beta / fit.sigma2)

    def _belief(self, leader: Literal["family", "hybrid"], fit: FamilyFit) -> Belief:
        """The posterior of the family, alone or with the residual process, pending points conditioned on."""
        oracle = self._bound()[0]
        if leader == "hybrid":
            return hybrid_belief(oracle, fit, self._guard, self.X, self.pending)
        return family_belief(oracle, fit, self.pending)

    def _leader(self, *, verdict: bool = False) -> Leader:
        """The model to act on or, for a verdict, to vouch with: the process while there are too few data to tell."""
        if not self.guard:
            return "family"
        if len(self.y) < self.family.enough:
            return "process"
        if not verdict:
            return self._guard.choice(self.X, self.y, self.yvar, self._fit())
        leader = self._guard.verdict(self.X, self.y, self.yvar, self._fit())[0]
        return "process" if leader == "hybrid" and self.family.flexible else leader

    def _recommend(self) -> Array:
        if self.paper:  # (Alg. 1, output): uniform over x_1, ..., x_T; over Phase I while that is all there is
            points = self.X[self.initial :] if len(self.y) > self.initial else self.X
            drawn = keyed_generator(self.seed, len(self.y), Stream.GO_UCB_OUTPUT)
            return np.asarray(points[int(drawn.integers(len(points)))])
        if len(self.y) < self.initial:
            return super()._recommend()
        leader = self._leader()
        if leader == "process":
            best = best_by_mean(self._guard.surrogate.gp(self.X, self.y, self.yvar, self.pending), self.X, 1)
        else:
            best = best_told(self._belief(leader, self._fit()), self.X, 1)
        return np.asarray(best[0])

    def _certificate(self, delta: float) -> Certificate:
        """ "theory" when the family is declared true and the noise is known, otherwise "fitted" (see `certify`)."""
        if self.paper:
            return Certificate.none("Algorithm 1 reports a point drawn at random, about which it knows nothing", delta)
        if len(self.y) < self.initial:
            return Certificate.none("Phase I is not over", delta)
        if self.realizable and self.noise_sd is not None and math.isfinite(self.family.reach):
            fit = self._fit()
            return theory_certificate(self, self._bound()[0], fit, self._belief("family", fit), self.noise_sd, delta)
        leader = self._leader(verdict=True)
        if leader == "process":
            x, rng = self.recommend(), self.fixed_generator()
            return fitted_certificate(self.X, self.y, self.yvar, self.cube, x, delta, rng, wary=self._wary)
        fit = self._fit()
        name = "the family" if leader == "family" else "the family plus a residual process"
        return linearised_certificate(self, fit, self._belief(leader, fit), name, delta)

    def parameters(self, level: float = 0.95) -> dict[str, tuple[float, float, float]]:
        """The fitted parameters in the user's units: name -> (value, low, high), intervals by the linearised fit (t
        quantiles), cut at the bounds; one that fills its bounds says that the data do not determine the parameter."""
        in_range("(0, 1)", level=level)
        if len(self.y) == 0:
            raise RuntimeError("parameters() needs at least one successful evaluation")
        fit = self._fit()
        free = max(fit.n - float((fit.ball.norms(fit.rows) ** 2).sum()), 1.0)
        half = float(stdtrit(free, 0.5 + level / 2)) * math.sqrt(fit.sigma2) * fit.ball.norms(np.eye(self.family.p))
        ends = np.clip(np.stack([fit.v, fit.v - half, fit.v + half]), -self.family.reach, self.family.reach)
        columns = self.family.user(ends).T.tolist()
        return {name: (a, b, c) for name, (a, b, c) in zip(self.family.names, columns, strict=True)}

    def misfit(self) -> str:
        """What speaks against the family, in one sentence; empty when nothing does."""
        if len(self.y) < self.initial:
            return ""
        n = len(self.y)
        if n < self.family.enough:
            return f"{n} values are too few to judge a family of {self.family.p} parameters"
        kind, nats = self._guard.verdict(self.X, self.y, self.yvar, self._fit())
        if kind == "family":
            return ""
        other = "a Gaussian process" if kind == "process" else "the family plus a residual process"
        by = f"{nats:.1f} nats over {n} values"
        return f"the family misses structure: {other} predicts left-out values better by {by}"

    def residuals(self) -> tuple[Array, Array]:
        """Fitted values and residuals (told minus fitted) of the family in the user's units, n each."""
        fit = self._fit()
        return self._sign * (fit.offset + fit.scale * fit.values), self._sign * fit.scale * fit.residuals

    def plot_residuals(self, axes: Any = None) -> Any:
        """Residuals against fitted values with the two-sigma band, early points dark, on matplotlib axes."""
        if axes is None:
            axes = optional("matplotlib.figure", "plot").Figure(figsize=(5, 3.5), layout="constrained").add_subplot()
        fitted, residual = self.residuals()
        fit = self._fit()
        sd = math.sqrt(fit.sigma2) * fit.scale
        axes.axhspan(-2 * sd, 2 * sd, color="0.92", zorder=0)
        axes.axhline(0, color="0.6", lw=1)
        axes.scatter(fitted, residual, c=np.arange(fit.n), s=18)
        axes.set(xlabel="fitted value (early points dark)", ylabel="told minus fitted")
        axes.set_title(textwrap.fill(self.misfit() or "no misfit found", TITLE_WIDTH), fontsize="medium")
        return axes
