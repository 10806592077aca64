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

Deviations from the paper (numbered as on the method's page; `preset="paper"` has none of them):
    1. The oracle is a multi-start Levenberg-Marquardt fit with the prior on w; the printed SGD (rate 1e-11) trains
       nothing.
    2. Phase I is a scrambled Sobol sequence of 1.3 to 2 p points and its gradients count in Sigma; the paper draws
       uniformly, n = sqrt(T).
    3. lam = sigma^2 (prior variance 1) and sqrt(beta_t) = kappa sigma sqrt(log(1 + t)), sigma the estimated noise; the
       printed beta = d_w^3 F^4 t / T never binds.
    4. w is fitted again after every value (`refit="drift"`: only when the linearisation has drifted); the paper
       linearises once and for all.
    5. Where several solutions of the oracle fit about equally well, their mixture counts: a peak that one of them puts
       where no data are is no reason to go there. The paper knows one w_hat.
    6. The inner maximum is the closed form of the linearised model, max_w = f + sqrt(beta) |g|_{Sigma^-1};
       `inner="ball"` climbs in the ball.
    7. The leave-one-out guard.
    8. `recommend` is the told point with the best fitted value; the paper returns a random one.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy.special import ndtri, stdtrit

from regretless.certificate import Certificate
from regretless.extras import optional
from regretless.gp.acquisition import kept_from_failures, log_expected_improvement
from regretless.gp.certify import fitted_certificate
from regretless.gp.design import away_from_known
from regretless.gp.maximiser import maximise, maximise_many
from regretless.gp.sobol import MAX_DIM, draw, sobol_sequence
from regretless.method import Method
from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.ball_ascent import ascend_in_ball
from regretless.methods.go_ucb.differences import with_gradient
from regretless.methods.go_ucb.guard import Guard, Kind
from regretless.methods.go_ucb.likelihood_set import Region
from regretless.methods.go_ucb.oracle import Fit, Oracle
from regretless.methods.go_ucb.parametric import Family, TwoLayerNet
from regretless.methods.go_ucb.printed import initial_weights, printed_ascent, printed_oracle
from regretless.methods.go_ucb.units import centred, ratios, user_units
from regretless.methods.go_ucb.user_model import UserFunction, UserModule, family_of
from regretless.parameters import Array
from regretless.space import Cube, Space, SpaceLike

if TYPE_CHECKING:
    import torch

Model: TypeAlias = "str | Callable[..., torch.Tensor] | torch.nn.Module | None"
Belief: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Cube points (q x d) to the mean and the standard deviation of the standardised function there (q each)."""

FULL_QUADRATIC = 8
"""Dimensions up to which the default family has cross terms."""
FITTED_WIDTH = 1.5
"""Widens the normal quantile of a fitted certificate: the linearised standard deviation knows one mode only."""
LEAST_SUPPORT = 1e-3
"""Solutions of the oracle that hold a smaller share of the posterior are not heard."""
GOOD = 5
"""Told points with the best fitted means, around which candidates are drawn."""
GOOD_BY_PROCESS = 3
"""The same under the process alone: with GP-EI's number the proposals of that stage are GP-EI's, point for point."""
LEMMA_DELTA = 0.05
"""delta of Lemma 5.3 where it sets the radius of the search."""
LEAST_SHARE = 0.01
"""Told variances count in a theory certificate as at least this share of the declared one."""
TITLE_WIDTH = 56
"""Letters in a line of a plot's title."""
UNKNOWN_T = 64
"""T of the paper's formulas when no budget is known; the larger of its experiments."""


class GOUCB(Method):
    """Optimistic search with a parametric model of yours: x_t = argmax_x max_{w in Ball_t} f_x(w).

    Args:
        model: a function f(w, x) on float64 tensors (w: p, x: n x d in your own units, columns in the order of the
            space; returns n) with `w_bounds` given here or as an attribute of the function; such a function as
            "package.module:function"; a torch.nn.Module that maps x (n x d) to standardised values; the name of a
            family in `regretless.methods.go_ucb.parametric`; None: a quadratic.
        w_bounds: bounds on w: a list of (low, high) pairs, or a mapping name -> (low, high) or Float(low, high,
            log=True).
        width: hidden units of the families "sigmoid-net" and "mlp" (Sec. 6: 25).
        preset: "practical", or "paper" for Algorithm 1 with the settings printed in App. D.1.
        phase_one: points of Phase I; None: 1.3 per parameter, 2 per weight of a net or a response surface, at most a
            third of the budget ("paper": n = sqrt(T)).
        kappa: sqrt(beta_t) = kappa sqrt(log(1 + t)) in units of the noise.
        radius: "noise" for that, "lemma" for Lemma 5.3 with the constants below.
        inner: "linear" for the closed form of the linearised model, "ball" for a projected ascent over x and w in
            Ball_t.
        refit: "always", or "drift": linearise once and apply Eq. 5 until the fitted values have drifted by more than
            the noise.
        guard: choose each time by leave-one-out among family, family plus residual process, and process; None: unless
            realizable.
        noise: the standard deviation of the noise in the units of y, when known.
        realizable: declares that the objective is a member of the family.
        curvature: a bound C_h on the second derivatives of the family (Asm. 3.2), in standardised units of v and z.
        range_bound, convexity, constant: F, mu and the universal constant C of Lemma 5.3.
        start: where the printed ascent begins, which the paper leaves open: "incumbent", "random", "centre" or "last".

    Example:
        def response(w, x):                                   # Hill response to a dose with a price
            dose = x[:, 0]
            return w[0] * dose ** w[2] / (w[1] ** w[2] + dose ** w[2]) - 0.1 * dose

        opt = Optimizer({"dose": Float(0, 10)}, method=GOUCB(model=response, w_bounds=[(0, 5), (0.1, 10), (1, 4)]),
        direction="maximize")
    """

    max_dim = MAX_DIM

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        model: Model = None,
        w_bounds: SpaceLike | None = None,
        width: int = 25,
        preset: Literal["practical", "paper"] = "practical",
        phase_one: int | None = None,
        kappa: float = 0.5,
        radius: Literal["noise", "lemma"] = "noise",
        inner: Literal["linear", "ball"] = "linear",
        refit: Literal["always", "drift"] = "always",
        guard: bool | None = None,
        noise: float | None = None,
        realizable: bool = False,
        curvature: float | None = None,
        range_bound: float = 1.0,
        convexity: float = 1.0,
        constant: float = 1.0,
        start: Literal["incumbent", "random", "centre", "last"] = "incumbent",
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        for name, value, allowed in (
            ("preset", preset, ("practical", "paper")), ("radius", radius, ("noise", "lemma")), ("inner", inner, ("linear", "ball")),
            ("refit", refit, ("always", "drift")), ("start", start, ("incumbent", "random", "centre", "last")),
        ):  # fmt: skip
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
        if phase_one is not None and phase_one < 1:
            raise ValueError(f"phase_one must be at least 1 or None, got {phase_one!r}")
        if not kappa >= 0:
            raise ValueError(f"kappa must be at least 0, got {kappa!r}")
        if noise is not None and not noise > 0:
            raise ValueError(f"noise is a standard deviation and must be above 0 or None, got {noise!r}")
        if curvature is not None and not curvature >= 0:
            raise ValueError(f"curvature must be at least 0 or None, got {curvature!r}")
        self.preset, self.kappa, self.radius, self.inner, self.refit = preset, float(kappa), radius, inner, refit
        self.noise, self.realizable, self.curvature, self.start = noise, realizable, curvature, start
        self.range_bound, self.convexity, self.constant = float(range_bound), float(convexity), float(constant)
        self.family: Family
        if model is None and preset == "paper":  # (Sec. 6)
            self.family = TwoLayerNet(self.dim, width, "sigmoid", plain=True)
        else:
            usual = "quadratic" if self.dim <= FULL_QUADRATIC else "separable-quadratic"
            self.family = family_of(usual if model is None else model, w_bounds, self.dim, width)
        self.guard = (not realizable if guard is None else bool(guard)) and preset == "practical"
        self.phase_one = self._phase_one() if phase_one is None else int(phase_one)
        """n, the points of Phase I."""
        self.horizon = max(budget - self.phase_one, 2) if budget else UNKNOWN_T
        """T, the points of Phase II."""
        self._sequence = sobol_sequence(self.dim, self.fixed_generator())
        self._space: Space | None = None
        self._sign = 1.0
        self._ready: Oracle | None = None
        self._guard = Guard(
            self.cube, seed=self.seed, noise=None if noise is None else noise**2, flexible=self.family.flexible
        )
        self._printed: Ball | None = None
        self._w = np.empty(0)
        self._taken = 0
        self.chosen = "family"
        """The model the last proposal of Phase II came from: "family", "hybrid" or "process"."""

    def bind(self, space: Space, sign: float = 1.0) -> None:
        """Tells the method the user's space, so that the model sees x in the user's own units; until then x is the cube
        point.

        `sign` is -1 where the told values are the negatives of the user's (a minimisation): the model predicts the
        user's own values.
        """
        if len(space) != self.dim:
            raise ValueError(f"the space has {len(space)} parameters, this method {self.dim} coordinates")
        self._space, self._sign, self._ready = space, float(sign), None
        self._oracle  # noqa: B018 - a model that cannot work is refused here, before anything is evaluated

    # -- Algorithm 1

    def _propose(self, rng: np.random.Generator) -> Array:
        if len(self.y) < self.phase_one:  # (Alg. 1, Phase I)
            return rng.random(self.dim) if self.preset == "paper" else self._spread()
        if self.preset == "paper":
            return self._propose_printed(rng)
        self.chosen = kind = self._kind()
        if kind == "process":
            return self._propose_by_process(rng)
        fit = self._fit()  # (Alg. 1, Phase II, l. 2-3)
        belief = self._belief(kind, fit)
        radius = math.sqrt(self._beta(fit) / fit.sigma2)  # (Alg. 1, Phase II, l. 4)

        def optimism(U: Array) -> Array:
            mean, sd = belief(U)
            return mean + radius * sd

        near = self._good_points(belief)  # (Alg. 1, Phase II, l. 5)
        acquisition, score = kept_from_failures(
            (with_gradient(optimism, self.cube), optimism), self.X, self.failed, logarithmic=False
        )
        if kind == "family" and self.inner == "ball":
            starts, _ = maximise_many(acquisition, self.cube, rng, incumbents=near, score=score)
            return self._climb_in_ball(starts, fit)
        return maximise(acquisition, self.cube, rng, incumbents=near, score=score)

    def _propose_by_process(self, rng: np.random.Generator) -> Array:
        """The point of largest log expected improvement under the process alone: what is done while the family cannot
        be trusted."""
        gp = self._guard.process(self.X, self.y, self.yvar, self.pending)
        means = gp.mean_at(self.X)
        best = max(float(means.max()), float(gp.mean_at(self.pending).max(initial=-math.inf)))
        acquisition, score = kept_from_failures(
            log_expected_improvement(gp, best), self.X, self.failed, logarithmic=True
        )
        x = maximise(
            acquisition,
            self.cube,
            rng,
            incumbents=self.X[np.argsort(-means, kind="stable")[:GOOD_BY_PROCESS]],
            score=score,
        )
        return away_from_known(x, self, rng)

    def _spread(self) -> Array:
        """The step-th point of a Sobol sequence fixed by the seed."""
        if self._sequence.num_generated > self.step:
            self._sequence.reset()
        if self._sequence.num_generated < self.step:
            self._sequence.fast_forward(self.step - self._sequence.num_generated)
        point: Array = draw(self._sequence, 1)[0]
        return point

    # -- the model

    @property
    def _oracle(self) -> Oracle:
        """The oracle for the space bound, its model checked."""
        if self._ready is None:
            space = self._space or Space([(0.0, 1.0)] * self.dim)
            inputs = (
                centred
                if self.family.inputs == "centred"
                else (user_units if self.family.inputs == "user" else ratios)(space)
            )
            if isinstance(self.family, UserFunction | UserModule):
                self.family.check(inputs(self.cube.snap(draw(sobol_sequence(self.dim, self.fixed_generator()), 8))))
            self._ready = Oracle(
                self.family,
                inputs,
                sign=self._sign,
                seed=self.seed,
                block=self.phase_one,
                noise=self.noise,
                refit=self.refit,
            )
        return self._ready

    def _phase_one(self) -> int:
        if self.preset == "paper":  # n + T = budget with n = sqrt(T) (Thm. 4.1)
            return (
                round((math.sqrt(1 + 4 * (self.budget or UNKNOWN_T)) - 1) / 2) if self.budget else math.isqrt(UNKNOWN_T)
            )
        most = max(2 * self.dim + 2, self.budget // 3 if self.budget else 4 * self.dim + 4)
        return min(self.family.enough, most)

    def _fit(self) -> Fit:
        return self._oracle(self.X, self.y, self.yvar)

    def _belief(self, kind: Literal["family", "hybrid"], fit: Fit) -> Belief:
        """The posterior of the family, alone or with the residual process, pending points conditioned on."""
        oracle, pending = self._oracle, self.pending
        rows = (
            oracle.predict(fit.v[None], pending, fit.offset, fit.scale)[1][0]
            if len(pending)
            else np.empty((0, self.family.p))
        )
        if kind == "hybrid":
            hybrid = self._guard.hybrid(self.X, fit, (pending, rows))

            def both(U: Array) -> tuple[Array, Array]:
                F, J = oracle.predict(fit.v[None], U, fit.offset, fit.scale)
                more, sd = hybrid.correction(U, J[0])
                return F[0] + more, sd

            return both
        ball = (
            fit.ball
            if not len(rows)
            else Ball(fit.ball.anchor, fit.sigma2, np.vstack([fit.rows, rows]), np.append(fit.targets, rows @ fit.v))
        )
        sigma = math.sqrt(fit.sigma2)
        heard = fit.support > LEAST_SUPPORT

        def family(U: Array) -> tuple[Array, Array]:
            F, J = oracle.predict(fit.v[None], U, fit.offset, fit.scale)
            return F[0], sigma * ball.norms(J[0])

        def mixture(U: Array) -> tuple[Array, Array]:
            within = family(U)[1]
            F, _ = oracle.predict(fit.solutions[heard], U, fit.offset, fit.scale)
            return mixed(F, fit.support[heard], within)

        return mixture if heard.sum() > 1 else family

    def _kind(self) -> Kind:
        """The model to act on: the family until the guard objects; the process while there are too few data to tell."""
        if not self.guard:
            return "family"
        return (
            "process"
            if len(self.y) < self.family.enough
            else self._guard.choice(self.X, self.y, self.yvar, self._fit())
        )

    def _judged(self) -> Kind:
        """The model to vouch with: the guard's verdict, which need not be what is best to act on."""
        if not self.guard:
            return "family"
        kind: Kind = (
            "process"
            if len(self.y) < self.family.enough
            else self._guard.verdict(self.X, self.y, self.yvar, self._fit())[0]
        )
        return "process" if kind == "hybrid" and self.family.flexible else kind

    def _good_points(self, belief: Belief, most: int = GOOD) -> Array:
        """The told points with the best fitted means, most x d."""
        return self.X[np.argsort(-belief(self.X)[0], kind="stable")[:most]]

    def _recommend(self) -> Array:
        if len(self.y) < self.phase_one or self.preset == "paper":
            best: Array = self.X[int(np.argmax(self.y))]
            return best
        kind = self._kind()
        if kind == "process":
            means = self._guard.process(self.X, self.y, self.yvar, self.pending).mean_at(self.X)
            likely: Array = self.X[int(np.argmax(means))]
            return likely
        model_best: Array = self._good_points(self._belief(kind, self._fit()), 1)[0]
        return model_best

    # -- what is known afterwards

    def _certificate(self, delta: float) -> Certificate:
        """ "theory" when the family is declared true and the noise is known (see `likelihood_set`), otherwise
        "fitted"."""
        if len(self.y) < self.phase_one or self.preset == "paper":
            return Certificate.none(
                "Phase I is not over" if self.preset != "paper" else "the printed settings fit no model", delta
            )
        x, kind = self.recommend(), self._judged()
        if self.realizable and self.noise is not None and math.isfinite(self.family.reach):
            return self._theory(self._fit(), x, self.noise, delta)
        if kind == "process":
            return fitted_certificate(self.X, self.y, self.yvar, self.cube, x, delta, self.fixed_generator())
        fit = self._fit()
        belief, b = self._belief(kind, fit), FITTED_WIDTH * float(ndtri(1 - delta / 2))

        def bound(U: Array) -> Array:
            mean, sd = belief(U)
            return mean + b * sd

        top = maximise(
            with_gradient(bound, self.cube),
            self.cube,
            self.fixed_generator(),
            incumbents=self._good_points(belief),
            score=bound,
        )
        mean, sd = belief(x[None])
        lower, upper = float(mean[0] - b * sd[0]), float(bound(top[None])[0])
        model = "the family" if kind == "family" else "the family plus a residual process"
        assumptions = (f"{model} with parameters and noise fitted", "coverage as measured on test problems")
        return self._in_units(fit, lower, upper, delta, "fitted", assumptions)

    def _theory(self, fit: Fit, x: Array, noise: float, delta: float) -> Certificate:
        """Bounds over all parameters that the data do not refute at level delta."""
        oracle, rng = self._oracle, self.fixed_generator()

        def values(V: Array, U: Array) -> tuple[Array, Array]:
            return oracle.predict(V, U, fit.offset, fit.scale)

        belief = self._belief("family", fit)
        weight = certain_weights(self.yvar, noise)
        region = Region(
            values, self.X, fit.z, weight, fit.v, fit.ball, math.sqrt(fit.sigma2), self.family.reach, delta, rng
        )
        if region.empty:
            return Certificate.none(
                "the data refute all members of the family near the fit: it is not realizable, or the noise is larger",
                delta,
            )
        lower = region.extreme(x, -1.0)[0]
        wide = math.sqrt(max(region.limit - float(region.squares(fit.v[None])[0]), 0.0) / fit.sigma2)

        def bound(U: Array) -> Array:
            mean, sd = belief(U)
            return mean + wide * sd

        hopeful, _ = maximise_many(
            with_gradient(bound, self.cube), self.cube, rng, incumbents=self._good_points(belief), score=bound
        )
        upper = region.largest(self.cube, np.concatenate([x[None], hopeful]))
        assumptions = (
            "the objective is a member of the family",
            f"the noise is {noise:g}-sub-Gaussian, or as told with a value",
        )
        return self._in_units(fit, lower, upper, delta, "theory", assumptions)

    def _in_units(
        self,
        fit: Fit,
        lower: float,
        upper: float,
        delta: float,
        kind: Literal["theory", "fitted"],
        assumptions: tuple[str, ...],
    ) -> Certificate:
        low, high = fit.offset + fit.scale * lower, fit.offset + fit.scale * max(upper, lower)
        return Certificate(gap=high - low, lower=low, upper=high, delta=delta, kind=kind, assumptions=assumptions)

    def parameters(self, level: float = 0.95) -> dict[str, tuple[float, float, float]]:
        """The fitted parameters in the user's units, each with the ends of its confidence interval: name -> (value,
        low, high).

        Intervals are those of the linearised fit (t quantiles), cut at the bounds; one that fills its bounds says that
        the data do not determine the parameter, which does not keep the predictions from being good.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        if len(self.y) == 0:
            raise RuntimeError("parameters() needs at least one successful evaluation")
        fit = self._fit()
        free = max(fit.n - float((fit.ball.norms(fit.rows) ** 2).sum()), 1.0)
        half = float(stdtrit(free, 0.5 + level / 2)) * math.sqrt(fit.sigma2) * fit.ball.norms(np.eye(self.family.p))
        ends = np.clip(np.stack([fit.v, fit.v - half, fit.v + half]), -self.family.reach, self.family.reach)
        value, low, high = self.family.user(ends)
        return {
            name: (float(a), float(b), float(c))
            for name, a, b, c in zip(self.family.names, value, low, high, strict=True)
        }

    def misfit(self) -> str:
        """What speaks against the family, in one sentence; empty when nothing does."""
        if len(self.y) < self.phase_one:
            return ""
        n = len(self.y)
        if n < self.family.enough:
            return f"{n} values are too few to judge a family of {self.family.p} parameters"
        kind, nats = self._guard.verdict(self.X, self.y, self.yvar, self._fit())
        if kind == "family":
            return ""
        other = "a Gaussian process" if kind == "process" else "the family plus a residual process"
        return (
            f"the family misses structure: {other} predicts left-out values better by {nats:.1f} nats over {n} values"
        )

    def residuals(self) -> tuple[Array, Array]:
        """Fitted values and residuals (told minus fitted) of the family in the user's units, n each."""
        fit = self._fit()
        return self._sign * (fit.offset + fit.scale * fit.values), self._sign * fit.scale * fit.residuals

    def plot_residuals(self, axes: Any = None) -> Any:
        """Residuals against fitted values with the two-sigma band, early points dark; on the matplotlib axes given or
        on new ones, returned."""
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

    # -- the ball

    def _beta(self, fit: Fit) -> float:
        """beta_t of Eq. 6 in standardised units."""
        if self.radius == "noise":
            return self.kappa**2 * math.log1p(max(fit.n - self.phase_one, 0) + 1) * fit.sigma2
        return lemma_beta(
            math.sqrt(fit.sigma2), fit.ball.lam, fit.ball.log_det(), self.phase_one, max(fit.n - self.phase_one, 1), self.family.p,
            F=self.range_bound, mu=self.convexity, C=self.constant, C_h=self.curvature or 0.0, delta=LEMMA_DELTA,
        )  # fmt: skip

    def _climb_in_ball(self, starts: Array, fit: Fit) -> Array:
        """max over x and w in Ball_t of f_x(w) by projected ascent from points where the linearised bound is best,
        d."""
        oracle = self._oracle

        def pairs(V: Array, U: Array) -> tuple[Array, Array]:
            return oracle.predict(V, U, fit.offset, fit.scale)

        X, values = ascend_in_ball(pairs, self.cube, starts, fit.v, fit.ball, self._beta(fit), self.family.reach)
        best: Array = X[int(np.argmax(values))]
        return best

    # -- the printed settings (App. D.1)

    def _propose_printed(self, rng: np.random.Generator) -> Array:
        """Phase II as printed: w_0 by SGD, Sigma from Phase II alone, 2000 joint ascent steps from a start the paper
        does not name."""
        oracle, n = self._oracle, self.phase_one
        if self._printed is None:
            x, y = oracle.inputs(self.X[:n]), self._sign * self.y[:n]
            w0 = printed_oracle(
                self.family.jacobian, x, y, initial_weights(self.family, self.dim, self.fixed_generator())
            )
            lam = math.sqrt(self.horizon) * math.log(self.horizon) ** 2
            self._printed, self._w, self._taken = Ball(w0, lam), w0, n
        for i in range(self._taken, len(self.y)):  # (Eq. 3, 5), one told value after the other
            F, J = self.family.jacobian(self._w[None], oracle.inputs(self.X[i : i + 1]))
            self._printed.append(J[0, 0], float(J[0, 0] @ self._w + self._sign * self.y[i] - F[0, 0]))
            self._w = self._printed.centre()
        self._taken = len(self.y)
        t = len(self.y) - n + 1
        beta = self.family.p**3 * self.range_bound**4 * t / self.horizon
        begin = {
            "incumbent": self.X[int(np.argmax(self.y))], "random": rng.random(self.dim), "centre": np.full(self.dim, 0.5), "last": self.X[-1],
        }[self.start]  # fmt: skip
        return printed_ascent(self.family, oracle.inputs, self._sign, begin, self._w, self._printed, beta)


# ---------------------------------------------------------------- equations


def mixed(F: Array, support: Array, within: Array) -> tuple[Array, Array]:
    """Mean and sd (q each) of a mixture of modes with values F (k x q), shares `support` (k) and a common sd `within`
    (q)."""
    share = support / support.sum()
    mean = share @ F
    return mean, np.sqrt(within**2 + share @ (F - mean) ** 2)


def certain_weights(yvar: Array, noise: float) -> Array:
    """Weights of squares (n) under which the noise of every row is `noise`-sub-Gaussian: by its variance (n, NaN
    unknown) where it was told.

    A smaller weight is always allowed: it takes the noise to be larger than it is.
    """
    known = np.isfinite(yvar)
    return np.where(known, noise**2 / np.maximum(np.where(known, yvar, 1.0), LEAST_SHARE * noise**2), 1.0)


def lemma_beta(
    sigma: float,
    lam: float,
    log_det: float,
    n: int,
    t: int,
    p: int,
    *,
    F: float,
    mu: float,
    C: float,
    C_h: float,
    delta: float,
) -> float:
    """beta_t of Lemma 5.3 with its constants (proof in App. C.3, Step 3).

    4 sigma^2 (log det(Sigma/lam) + log(pi^2 t^2 / (3 delta)))                                noise, Lemma B.3
    + 4 lam C p F^2 iota / (mu n)                                                             distance of w_0, Thm. 5.2
    + (C_h C p F^2 iota / (mu n))^2 t 2 log det(Sigma/lam)                                    curvature, Lemma C.6
    with iota = log(max(n C_h^2, 1)) + log(2 / delta).
    """
    iota = math.log(max(n * C_h**2, 1.0)) + math.log(2 / delta)
    away = C * p * F**2 * iota / (mu * n)
    return (
        4 * sigma**2 * (log_det + math.log(math.pi**2 * t**2 / (3 * delta)))
        + 4 * lam * away
        + (C_h * away) ** 2 * t * 2 * log_det
    )
