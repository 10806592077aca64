"""NeuralBO: Thompson sampling with a neural net and its tangent kernel.

Phan-Trong, Tran-The and Gupta, "NeuralBO: A black-box optimization algorithm using deep neural networks",
Neurocomputing 559, 2023.

A net h(x; theta) models the function; its gradient at the start, g(x; theta0), is a feature map whose ridge regression
gives the uncertainty. Each round draws a function from N(h, nu^2 sigma^2), evaluates its maximiser, and trains again.
The input may be anything a net can read, and the cost need not grow with the number of values.

Notation
    h(x; theta)   the net; theta0 its start; m its width; L its depth (layers)
    g(x; theta0)  gradient with respect to the p weights
    k(x, x')      g(x) . g(x') / m, the tangent kernel; no p-dimensional vector is ever formed (tangent/ntk.py)
    lam           the ridge, which is the noise variance over the prior variance
    sigma^2       lam g' U^-1 g / m = k(x, x) - k(x, X) (K + lam I)^-1 k(X, x)                            (Alg. 1, l. 3)
    nu            exploration: how far draws spread, in posterior standard deviations                     (Alg. 1, l. 4)
    B, R          bounds on the RKHS norm of f and on the noise's sub-Gaussian scale                            (Thm. 1)

Deviations ("paper" follows the text, "default" is what a user should have; measured in docs/lab/neural-bo.md)
    1. both: sigma^2 is in kernel form, which equals that of the rank-one updates of U (Alg. 1, l. 7).
    2. paper: values are standardised, and the rate is clipped to its stable limit, because training as printed gives
       NaN at the rate stated. A module of the user's has the mean of |g|^2 over the domain where the paper has m.
    3. default: the start is mirrored (h = 0 exactly) and a 1 is appended to the inputs, because a bias-free ReLU net is
       0 with certainty at the origin; units are sines, because the gradient features of ReLU jump; the mean is in
       closed form; a draw is one coherent function, because the maximum of independent draws is inflated.
    4. default: an additive branch has one-coordinate units (`branches`). Its share, both branches' input scales, the
       noise level and the warp are chosen by evidence whenever a fifth more values are known, because a model that is
       too smooth or too sure of the noise settles beside the optimum.
    5. default: candidates come from a trust region (`trust_region`) and, a twentieth of the time, from the whole cube,
       where the maximum of a draw is hardly better than random in ten dimensions. A quarter of the region's candidates
       hop out of it along a few coordinates: a nearly additive function has its other valleys there.
    6. default: draws over a finite pool are narrower, because its rows have little in common; the recommendation trusts
       values as far as near ones show less noise than assumed, because evidence cannot tell misfit from noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from regretless.certificate import Certificate
from regretless.gp.design import Design
from regretless.gp.sobol import sobol_points
from regretless.method import Method
from regretless.methods.neural_bo.branches import TAIL, BranchNet, Shape
from regretless.methods.neural_bo.inputs import Encode, Inputs
from regretless.methods.neural_bo.tangent_models import (
    ALPHA,
    EXACT_UP_TO,
    ClosedForm,
    ShapeRule,
    TrainNN,
    Warping,
    paper_net,
    theorem_constants,
)
from regretless.methods.neural_bo.trust_region import Progress, local_points
from regretless.noise import stated_noise
from regretless.parameters import Array
from regretless.space import Cube
from regretless.tangent.ntk import draw_mlp, on_device

if TYPE_CHECKING:
    import torch

    from regretless.methods.neural_bo.module_tangent import ModuleTangent
    from regretless.methods.neural_bo.module_training import ModuleTrainNN

Preset: TypeAlias = Literal["default", "paper"]
Constants: TypeAlias = Literal["experiments", "theorem"]

WIDTH: dict[Preset, int] = {"default": 256, "paper": 500}
"""The paper's width (Sec. 7); half of it keeps the default's promised time of an ask (benchmarks/neural_bo.py)."""
NU: dict[Preset, float] = {"default": 1.0, "paper": 0.1}
"""The default draws from the posterior as it is; the paper's is from its grid {0.1, 1, 10} (Sec. 7)."""
LAM = 0.01  # the ridge (Sec. 7), where the evidence does not choose it
N_CANDIDATES = 1000  # points over which a draw is maximised (Sec. 7)
ADDITIVE = 0.5  # the additive branch's share of the prior variance where nothing chooses it: an even split
DESIGN = 20  # evaluations of a design before the model is asked, 2 (d + 1) where that is fewer (not in paper)
POOL_DESIGN = 2  # random rows of a pool before the model is asked (not in paper): two values are the fewest that differ
GLOBAL_SHARE = 0.05  # the share of asks whose candidates come from the whole cube (not in paper: our choice)
POOL_NU = 0.3  # the default's nu over a finite pool (not in paper), measured in docs/lab/neural-bo.md
SHORTLIST = 64  # the best values told, whose posterior means decide where the search stands; noise disorders fewer
MOST_WEIGHTS = 10**8  # weights of a net at most, 0.8 GB: a mistyped width or depth would ask for all memory
PROBE = 256  # points over which inputs and the kernel's diagonal are normalised: averages are good to a few percent
SHORTENED = 0.35  # a certificate's length-scales over the fitted ones (after Berkenkamp et al., JMLR 2019; docs)
NEAR = 0.2  # the side of the box around the recommended point in which the largest upper bound is looked for as well
CERTIFICATE_POINTS = 2048  # points of the cube, and as many of that box, that are searched for the largest upper bound


class NeuralBO(Method):
    """Thompson sampling with a neural net and its tangent kernel: fast, flat in memory, at home on structured inputs.

        x_t = argmax f_t(x),  f_t ~ GP(h(x; theta_{t-1}), nu^2 sigma_t^2)                            (Alg. 1, l. 4-5)

    Args:
        preset: "default", or "paper" (Alg. 1 and 2 as printed).
        width, depth, activation: the net; depth counts layers of weights, at least 2.
        exploration: nu, the spread of draws in posterior standard deviations; None: by the preset, 0.3 over a pool.
        ridge: lam, the noise variance over the prior variance; None: chosen by evidence, or 0.01.
        shape: what the evidence chooses as values come in: "evidence": noise level, input scales, additive share and
            warp; "noise": noise level and warp; "fixed": nothing (default where ridge, additive or norm_bound is
            given).
        additive: the share of the prior variance given to the additive branch, in [0, 1); 0.5 where nothing chooses it.
        warp: how bad values are compressed: "strong", "gentle" or "none"; None: strong or none by the evidence.
        trust_region: whether candidates come from a trust region; else from the whole cube (Alg. 1, l. 5).
        hops: the share of the candidates, at most 1/2, that leave the trust region along one to three coordinates.
        network: a torch.nn.Module with one output per row, in place of the fully connected net; its start is theta0.
        encode: cube points (n x d) to what the net reads (n x ..., array or tensor): images, embeddings.
        candidates: the features (n x q) of a finite pool; the space is then one `Int(0, n - 1)` that numbers its rows.
        n_candidates: points over which a draw is maximised.
        norm_bound, noise_sd: B and R of Thm. 1; with both the certificate is of kind "theory" and the shape is fixed.
        device: "cpu" (NumPy) or a torch device such as "cuda".
        constants: of the paper preset: those of its "experiments" (Sec. 7), or of its "theorem": lam, eta and J of
            Thm. 1, weights N(0, 2/m) and a last layer of zeros; nu as well where norm_bound and noise_sd are given.

    Everything from `activation` to `hops` belongs to the default preset; in the paper preset another device than the
    CPU needs a `network`.
    """

    choices = "onehot"
    renamed: ClassVar = {"nu": "exploration", "lam": "ridge", "noise": "noise_sd"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        width: int | None = None,
        depth: int = 2,
        activation: str | None = None,
        exploration: float | None = None,
        ridge: float | None = None,
        shape: ShapeRule | None = None,
        additive: float | None = None,
        warp: Warping | None = None,
        trust_region: bool = True,
        hops: float = 0.25,
        network: torch.nn.Module | None = None,
        encode: Encode | None = None,
        candidates: Array | None = None,
        n_candidates: int = N_CANDIDATES,
        norm_bound: float | None = None,
        noise_sd: float | None = None,
        device: str = "cpu",
        constants: Constants = "experiments",
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        words = (("preset", preset, Preset), ("shape", shape, ShapeRule), ("warp", warp, Warping))
        for name, word, known in (*words, ("constants", constants, Constants)):
            if word not in get_args(known) and (word is not None or name in ("preset", "constants")):
                raise ValueError(f"{name} must be one of {get_args(known)}, got {word!r}")
        for name, number, least in (("width", width, 1), ("depth", depth, 2), ("n_candidates", n_candidates, 1)):
            if number is not None and not number >= least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {number!r}")
        if ridge is not None and not 0 < ridge < math.inf:
            raise ValueError(f"ridge must be a positive number, got {ridge!r}")
        if additive is not None and not 0 <= additive < 1:
            raise ValueError(f"additive must be a share in [0, 1), got {additive!r}")
        if not 0 <= hops <= 0.5:
            raise ValueError(f"hops must be a share between 0 and 0.5, got {hops!r}")
        if norm_bound is not None and noise_sd is None:
            raise ValueError("the theory's certificate needs noise_sd (R) beside norm_bound (B)")
        fixes = ridge is not None or additive is not None or norm_bound is not None
        if shape in ("noise", "evidence") and fixes:
            raise ValueError(f"ridge, additive and norm_bound belong to shape='fixed', got shape={shape!r}")
        given = {"activation": activation, "shape": shape, "additive": additive, "warp": warp}
        ignored = [name for name, value in given.items() if value is not None]
        ignored += ["device without network"] * (device != "cpu" and network is None)
        theorem = constants == "theorem"
        if theorem and (preset != "paper" or network is not None or budget is None):
            raise ValueError("constants='theorem' belongs to preset='paper', with its own net and a known budget")
        if preset == "paper" and ignored:
            raise ValueError(f"{', '.join(ignored)}: the paper's preset has no such option")
        self.preset = preset
        pool_default = candidates is not None and preset == "default"
        self.exploration = exploration if exploration is not None else POOL_NU if pool_default else NU[preset]
        self._lam = LAM if ridge is None else ridge
        self._n_candidates = n_candidates
        self._norm_bound, self._noise_sd = norm_bound, noise_sd
        self._local, self._hops = trust_region and preset == "default", hops
        n_design = min(DESIGN, 2 * (self.dim + 1)) if candidates is None else POOL_DESIGN
        self._design = Design(self.cube, n_design, self.fixed_generator(), centre=False)
        self._progress = Progress(n_design, self.dim)

        rng = self.fixed_generator()  # theta0 is drawn once for the run
        probe = self.cube.snap(sobol_points(PROBE, self.dim, rng))
        self._inputs = Inputs(self.cube, probe, pool=candidates, encode=encode, raw=network is not None)
        self._told_inputs: Array = np.empty((0, 1))
        domain = self._inputs(probe)
        width = WIDTH[preset] if width is None else width
        if (depth - 2) * width**2 + domain.shape[1] * width > MOST_WEIGHTS:
            raise ValueError(f"a net of width {width} and depth {depth} has more than {MOST_WEIGHTS:.3g} weights")
        self._model: ClosedForm | TrainNN | ModuleTrainNN
        if preset == "paper" and network is not None:
            from regretless.methods.neural_bo.module_training import ModuleTrainNN

            self._model = ModuleTrainNN(network, domain, rng, seed=self.seed, lam=self._lam, device=device)
            return
        if theorem and budget is not None:
            set_by = theorem_constants(budget, width, depth)
            self._lam = set_by.lam
            plain = paper_net(rng, domain.shape[1], width, depth, variance=2.0, zero=True)
            self._model = TrainNN(plain, seed=self.seed, lam=set_by.lam, rate=set_by.rate, steps=set_by.steps)
            if norm_bound is not None and noise_sd is not None and exploration is None:
                self.exploration = theory_nu(norm_bound, noise_sd, set_by.lam, ALPHA)
            return
        if preset == "paper":
            self._model = TrainNN(paper_net(rng, domain.shape[1], width, depth), seed=self.seed, lam=self._lam)
            return
        net: BranchNet | ModuleTangent
        if network is not None:
            from regretless.methods.neural_bo.module_tangent import ModuleTangent

            net, start = ModuleTangent(network, domain, rng, device=device), Shape(1.0, share=0.0, lam=self._lam)
        else:
            activation = activation or "sin"
            tail = TAIL if activation == "sin" else None
            dense = draw_mlp(rng, domain.shape[1], width=width, depth=depth, activation=activation, tail=tail)
            net = BranchNet(dense.to(device), on_device(domain, device), rng)
            start = replace(net.shape, lam=self._lam, share=ADDITIVE if additive is None else additive)
        rule = shape or ("fixed" if fixes else "evidence")
        self._model = ClosedForm(net, start, seed=self.seed, rule=rule, warping=warp, device=device)

    # -- the algorithm

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design_point(rng)
        if first is not None:
            return first
        self._refresh()  # theta_{t-1} and U_{t-1} (Alg. 1, l. 6-7)
        Z = self._candidates(rng)
        f = self._model.draw(self.exploration, rng)  # f_t ~ N(h, nu^2 sigma^2) (Alg. 1, l. 3-4)
        best: Array = Z[int(np.argmax(f(self._inputs(Z))))]  # x_t = argmax f_t (Alg. 1, l. 5)
        return best

    def _update(self, X: Array, y: Array) -> None:
        self._progress.take_in(y)

    def _refresh(self) -> None:
        """Gives the model the history; it trains again where that has grown."""
        done = len(self._told_inputs)
        if done < len(self.y):
            new = self._inputs(self.X[done:])
            self._told_inputs = np.concatenate([self._told_inputs, new]) if done else new
        known = self._norm_bound is None  # Thm. 1 is about one ridge for all values
        self._model.refresh(self._told_inputs, self.y, self.yvar if known else np.full(len(self.y), np.nan))

    def sample(self, U: Array, rng: np.random.Generator) -> Array:
        """One draw of the posterior function at cube points U (C x d), C: what `ask` maximises over its candidates."""
        self._refresh()
        return self._model.draw(self.exploration, rng)(self._inputs(U))

    def _known_noise(self) -> bool | None:
        return stated_noise(self.preset == "paper", self._noise_sd)

    def _recommend(self) -> Array:
        """The largest posterior mean or, as far as neighbours show less noise than assumed, the largest value."""
        self._refresh()
        order, means = self._shortlist()
        share = self._model.noise_shown() if isinstance(self._model, ClosedForm) else 1.0
        return np.array(self.X[order[np.argmax(share * means + (1 - share) * self.y[order])]])

    def _design_point(self, rng: np.random.Generator) -> Array | None:
        """The next point of the design, or None when that is complete; over a pool, random rows."""
        if self._inputs.pool is None:
            return self._design.next_point(self, rng)
        return None if len(self.y) and len(self.known) >= POOL_DESIGN else np.array(self._fresh_rows(rng, 1)[0])

    def _candidates(self, rng: np.random.Generator) -> Array:
        """Where a draw is maximised: fresh rows of a finite pool, points of the trust region, or of the whole cube."""
        if self._inputs.pool is not None:
            return self._fresh_rows(rng, self._n_candidates)
        if not self._local or rng.random() < GLOBAL_SHARE:
            Z = sobol_points(self._n_candidates, self.dim, rng)
        else:
            order, means = self._shortlist()
            centre, length = self.X[order[np.argmax(means)]], self._progress.region.length
            Z = local_points(centre, length, self._n_candidates, self.cube, rng, hops=self._hops)
        return self._unknown(self.cube.snap(Z))

    def _shortlist(self) -> tuple[NDArray[np.intp], Array]:
        """The best values told, by their places in the history, and the posterior means there, k each."""
        order = np.argsort(-self.y, kind="stable")[:SHORTLIST]
        return order, self._model.mean(self._told_inputs[order])

    def _fresh_rows(self, rng: np.random.Generator, n: int) -> Array:
        """Cube points of at most n unknown rows of the pool, in random order; of all rows when none is left."""
        assert self._inputs.pool is not None
        fresh = np.ones(len(self._inputs.pool), dtype=bool)
        fresh[self._inputs.rows(self.known)] = False
        rows = np.flatnonzero(fresh if fresh.any() else ~fresh)
        return self._inputs.points(rng.permutation(rows)[:n])

    def _unknown(self, Z: Array) -> Array:
        """Z without failed and pending points and, in a finite cube, without told ones (with noise a second value is
        worth something); Z itself when nothing would be left."""
        taken = self.known if np.isfinite(self.cube.size) else np.concatenate([self.failed, self.pending])
        if len(taken) == 0:
            return Z
        keys = {point.tobytes() for point in self.cube.snap(taken)}
        keep = np.array([z.tobytes() not in keys for z in Z])
        return Z[keep] if keep.any() else Z

    @property
    def learning_rate(self) -> tuple[float, float] | None:
        """The learning rate used last and the one asked for (paper preset), which may have been clipped."""
        descent = self._model.descent if isinstance(self._model, TrainNN) else None
        return None if descent is None else (descent.rate, descent.asked)

    def _certificate(self, delta: float) -> Certificate:
        model, n = self._model, len(self.y)
        if not isinstance(model, ClosedForm):
            return Certificate.none("preset 'paper' trains its mean, for which no bound is known at this width", delta)
        if n < 2 * (self.dim + 1):
            return Certificate.none(f"{n} values are too few for a bound in {self.dim} dimensions", delta)
        self._refresh()
        if not model.is_exact:
            why = f"beyond {EXACT_UP_TO} values the model is a sketch, whose deviation is no bound"
            return Certificate.none(why, delta)
        Z = self._certificate_points()
        searched = f"the largest upper bound is that of {len(Z)} points"
        if self._norm_bound is not None:
            assert self._noise_sd is not None
            mean, sd = model.moments_as_told(self._inputs(Z))
            width = theory_nu(self._norm_bound, self._noise_sd, self._lam, delta) * sd
            norm = f"f has norm at most {self._norm_bound:g} in the RKHS of this net's tangent kernel"
            noise = f"the noise is {self._noise_sd:g}-sub-Gaussian and independent of the points (Ass. 2)"
            return _bounds(mean, width, delta, "theory", (norm, noise, searched))
        moments = model.cautious_moments(self._inputs(Z), SHORTENED)
        if isinstance(moments, str):
            return Certificate.none(moments, delta)
        mean, sd = moments
        fitted = f"the fitted tangent kernel with length-scales shortened to {SHORTENED:g} of the fitted ones"
        return _bounds(mean, float(ndtri(1 - delta / 2)) * sd, delta, "fitted", (fitted, searched))

    def _certificate_points(self) -> Array:
        """The recommended point, then those among which the largest upper bound is looked for, C x d."""
        best = self.recommend()[None]
        if self._inputs.pool is not None:
            return np.concatenate([best, self._inputs.points(np.arange(len(self._inputs.pool)))])
        rng = self.fixed_generator()
        near = local_points(best[0], NEAR, CERTIFICATE_POINTS, self.cube, rng)
        everywhere = sobol_points(CERTIFICATE_POINTS, self.dim, rng)
        return np.concatenate([best, self.cube.snap(np.concatenate([everywhere, near])), self.X])


def theory_nu(B: float, R: float, lam: float, alpha: float) -> float:
    """nu_t = sqrt(2) B + R / sqrt(lam) sqrt(2 log(1 / alpha)) (Thm. 1)."""
    return math.sqrt(2) * B + R / math.sqrt(lam) * math.sqrt(2 * math.log(1 / alpha))


def _bounds(
    mean: Array, width: Array, delta: float, kind: Literal["theory", "fitted"], assumptions: tuple[str, ...]
) -> Certificate:
    """The certificate from bounds mean +- width (C each), the recommended point being the first."""
    with np.errstate(over="ignore"):
        lower, upper = float(mean[0] - width[0]), float((mean + width).max())
    if not math.isfinite(upper - lower):
        return Certificate.none("the bounds lie beyond the range of floats", delta)
    return Certificate(max(upper - lower, 0.0), lower, upper, delta, kind, assumptions)
