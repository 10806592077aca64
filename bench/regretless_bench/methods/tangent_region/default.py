"""The tangent kernel of a net in a trust region: this project's own method for thousands of evaluations.

A net models the function as in NeuralBO (Phan-Trong et al., Neurocomputing 2023), but none is trained. The gradient of
a net at its start, g(x; theta0), is a feature map; ridge regression on it has a closed form, whose cost stays flat
beyond 1500 values. Each round draws one function from that posterior and evaluates its best point in a trust region
(Eriksson et al., NeurIPS 2019). What the region and the kernel are worth is measured in docs/lab/tangent-region.md.

Notation
    h(x; theta)   the net; theta0 its start; m its width
    g(x; theta0)  gradient with respect to the p weights
    k(x, x')      g(x) . g(x') / m, the tangent kernel; no p-dimensional vector is ever formed (tangent/ntk.py)
    lam           the ridge, which is the noise variance over the prior variance
    nu            exploration: how far draws spread, in posterior standard deviations
    B, R          bounds on the RKHS norm of f and on the noise's sub-Gaussian scale (NeuralBO, Thm. 1)

How it is made
    1. The start is mirrored (h = 0 exactly) and a 1 is appended to the inputs, because a bias-free net is 0 with
       certainty at the origin; units are sines, because the gradient features of ReLU jump; a draw is one coherent
       function, because the maximum of independent draws is inflated.
    2. An additive branch has one-coordinate units (`branches`). Its share, both branches' input scales, the noise level
       and the warp are chosen by evidence whenever a fifth more values are known, because a model that is too smooth or
       too sure of the noise settles beside the optimum.
    3. Candidates come from a trust region (`trust_region`) and, a twentieth of the time, from the whole cube, where the
       maximum of a draw is hardly better than random in ten dimensions. A quarter of the region's candidates hop out of
       it along a few coordinates: a nearly additive function has its other valleys there.
    4. Draws over a finite pool are narrower, because its rows have little in common; the recommendation trusts values
       as far as near ones show less noise than assumed, because evidence cannot tell misfit from noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy.special import ndtri

from regretless.basics.noise import stated_noise
from regretless.basics.options import in_range, one_of
from regretless.certificate import Certificate
from regretless.history import History
from regretless.methods.neural_bo.net_method import N_CANDIDATES, Path, TangentMethod, checked_width
from regretless.models.gp.sobol import sobol_points
from regretless.models.tangent.candidates import local_points
from regretless.models.tangent.inputs import Encode
from regretless.models.tangent.ntk import TAIL, draw_mlp, on_device
from regretless.models.tangent.ridge import EXACT_UP_TO, theory_nu
from regretless.models.tangent.warp import Warping
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.tangent_region.branches import BranchNet, Shape
from regretless_bench.methods.tangent_region.closed_form import ClosedForm, ShapeRule
from regretless_bench.methods.tangent_region.trust_region import Progress

if TYPE_CHECKING:
    import torch

    from regretless.models.tangent.module_tangent import ModuleTangent

WIDTH = 256  # half of NeuralBO's width (Sec. 7), which keeps the promised time of an ask (benchmarks/tangent_region.py)
LAM = 0.01  # the ridge (NeuralBO, Sec. 7), where the evidence does not choose it
ADDITIVE = 0.5  # the additive branch's share of the prior variance where nothing chooses it: an even split
GLOBAL_SHARE = 0.05  # the share of asks whose candidates come from the whole cube; our choice
POOL_NU = 0.3  # nu over a finite pool, measured in docs/lab/tangent-region.md; elsewhere draws are of the posterior
SHORTENED = 0.35  # a certificate's length-scales over the fitted ones (after Berkenkamp et al., JMLR 2019; docs)
NEAR = 0.2  # the side of the box around the recommended point in which the largest upper bound is looked for as well
CERTIFICATE_POINTS = 2048  # points of the cube, and as many of that box, that are searched for the largest upper bound


class TangentRegion(TangentMethod):
    """Thompson sampling in a trust region with the tangent kernel of an untrained net: flat in time and memory.

        x_t = argmax f_t(x) over the region,  f_t ~ GP(mean, nu^2 sigma_t^2)

    Args:
        width, depth, activation: the net; depth counts layers of weights, at least 2.
        exploration: nu, the spread of draws in posterior standard deviations; None: 1, and 0.3 over a pool.
        ridge: lam, the noise variance over the prior variance; None: chosen by evidence, or 0.01.
        shape: what the evidence chooses as values come in: "evidence": noise level, input scales, additive share and
            warp; "noise": noise level and warp; "fixed": nothing (default where ridge, additive or norm_bound is
            given).
        additive: the share of the prior variance given to the additive branch, in [0, 1); 0.5 where nothing chooses it.
        warp: how bad values are compressed: "strong", "gentle" or "none"; None: strong or none by the evidence.
        trust_region: whether candidates come from a trust region; else from the whole cube.
        hops: the share of the candidates, at most 1/2, that leave the trust region along one to three coordinates.
        network: a torch.nn.Module with one output per row, in place of the fully connected net; its start is theta0.
        encode: cube points (n x d) to what the net reads (n x ..., array or tensor): images, embeddings.
        candidates: the features (n x q) of a finite pool; the space is then one `Int(0, n - 1)` that numbers its rows.
        n_candidates: points over which a draw is maximised.
        norm_bound, noise_sd: B and R of NeuralBO's Thm. 1; with both the certificate is of kind "theory" and the shape
            is fixed.
        device: "cpu" (NumPy) or a torch device such as "cuda".
    """

    _model: ClosedForm
    _progress: Progress

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        width: int = WIDTH,
        depth: int = 2,
        activation: str = "sin",
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
    ) -> None:
        one_of((None, *get_args(ShapeRule)), shape=shape)
        one_of((None, *get_args(Warping)), warp=warp)
        in_range("(0, inf) or None", ridge=ridge)
        in_range("[0, 1) or None", additive=additive)
        in_range("[0, 0.5]", hops=hops)
        if norm_bound is not None and noise_sd is None:
            raise ValueError("the theory's certificate needs noise_sd (R) beside norm_bound (B)")
        fixes = ridge is not None or additive is not None or norm_bound is not None
        if shape in ("noise", "evidence") and fixes:
            raise ValueError(f"ridge, additive and norm_bound belong to shape='fixed', got shape={shape!r}")
        super().__init__(
            cube, seed=seed, budget=budget, candidates=candidates, encode=encode, raw=network is not None,
            n_candidates=n_candidates,
        )  # fmt: skip
        usual_nu = 1.0 if candidates is None else POOL_NU
        self.exploration = usual_nu if exploration is None else exploration
        self._lam = LAM if ridge is None else ridge
        self._norm_bound, self._noise_sd, self._noisy = norm_bound, noise_sd, stated_noise(noise_sd)
        self._local, self._hops = trust_region, hops
        width = checked_width(width, depth, self._domain.shape[1])
        net: BranchNet | ModuleTangent
        if network is not None:
            from regretless.models.tangent.module_tangent import ModuleTangent

            net = ModuleTangent(network, self._domain, self._net_rng, device=device)
            start = Shape(1.0, share=0.0, lam=self._lam)
        else:
            inputs, tail = self._domain.shape[1], TAIL if activation == "sin" else None
            dense = draw_mlp(self._net_rng, inputs, width=width, depth=depth, activation=activation, tail=tail)
            net = BranchNet(dense.to(device), on_device(self._domain, device), self._net_rng)
            start = replace(net.shape, lam=self._lam, share=ADDITIVE if additive is None else additive)
        rule = shape or ("fixed" if fixes else "evidence")
        self._new_model = partial(ClosedForm, net, start, seed=self.seed, rule=rule, warping=warp, device=device)

    def _step(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        self._catch_up(history)
        Z = self._candidates(history, cube, rng)
        f = self._draw(rng)  # f_t ~ GP(mean, nu^2 sigma_t^2)
        x = Z[int(np.argmax(f(self.inputs(Z))))]  # x_t = argmax f_t
        return self._off_known(x, history, cube, rng)

    def _begin(self) -> None:
        self._progress, self._model = Progress(self._design.size, self.dim), self._new_model()

    def _update(self, history: History, first: int) -> None:
        self._progress.observe(history.y[first:])
        yvar = history.yvar if self._norm_bound is None else np.full(len(history), np.nan)  # Thm. 1 has one ridge
        self._model.refresh(self._read(history, first), history.y, yvar)

    def _draw(self, rng: np.random.Generator) -> Path:
        return self._model.draw(self.exploration, rng)

    def _mean(self, Z: Array) -> Array:
        return self._model.mean(Z)

    def _points_to_try(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        """Points of the trust region or, now and then, of the whole cube."""
        if not self._local or rng.random() < GLOBAL_SHARE:
            return sobol_points(self._n_candidates, self.dim, rng)
        order, means = self._shortlist(history)
        centre, length = history.X[order[np.argmax(means)]], self._progress.region.length
        return local_points(centre, length, self._n_candidates, cube, rng, hops=self._hops)

    def _recommend(self, history: History) -> Array:
        """The largest posterior mean or, as far as neighbours show less noise than assumed, the largest value."""
        self._catch_up(history)
        order, means = self._shortlist(history)
        share = self._model.noise_shown()
        return np.array(history.X[order[np.argmax(share * means + (1 - share) * history.y[order])]])

    # -- the certificate

    def _certificate(self, history: History, delta: float) -> Certificate:
        n = len(history)
        if n < 2 * (self.dim + 1):
            return Certificate.none(f"{n} values are too few for a bound in {self.dim} dimensions", delta)
        self._catch_up(history)
        if not self._model.is_exact:
            why = f"beyond {EXACT_UP_TO} values the model is a sketch, whose deviation is no bound"
            return Certificate.none(why, delta)
        Z = self._certificate_points(history)
        searched = f"the largest upper bound is that of {len(Z)} points"
        if self._norm_bound is not None:
            assert self._noise_sd is not None
            mean, sd = self._model.moments_as_told(self.inputs(Z))
            width = theory_nu(self._norm_bound, self._noise_sd, self._lam, delta) * sd
            norm = f"f has norm at most {self._norm_bound:g} in the RKHS of this net's tangent kernel"
            noise = f"the noise is {self._noise_sd:g}-sub-Gaussian and independent of the points (Ass. 2)"
            return _bounds(mean, width, delta, "theory", (norm, noise, searched))
        moments = self._model.conservative_moments(self.inputs(Z), SHORTENED)
        if isinstance(moments, str):
            return Certificate.none(moments, delta)
        mean, sd = moments
        fitted = f"the fitted tangent kernel with length-scales shortened to {SHORTENED:g} of the fitted ones"
        return _bounds(mean, float(ndtri(1 - delta / 2)) * sd, delta, "fitted", (fitted, searched))

    def _certificate_points(self, history: History) -> Array:
        """The recommended point, then those among which the largest upper bound is looked for, C x d."""
        best = self.recommend(history)[None]
        if self.inputs.pool is not None:
            return np.concatenate([best, self.inputs.points(np.arange(len(self.inputs.pool)))])
        rng = self._fixed_generator()
        near = local_points(best[0], NEAR, CERTIFICATE_POINTS, self.cube, rng)
        everywhere = sobol_points(CERTIFICATE_POINTS, self.dim, rng)
        return np.concatenate([best, self.cube.snap(np.concatenate([everywhere, near])), history.X])


def _bounds(
    mean: Array, width: Array, delta: float, kind: Literal["theory", "fitted"], assumptions: tuple[str, ...]
) -> Certificate:
    """The certificate from bounds mean +- width (C each), the recommended point being the first."""
    with np.errstate(over="ignore"):
        lower, upper = float(mean[0] - width[0]), float((mean + width).max())
    if not math.isfinite(upper - lower):
        return Certificate.none("the bounds lie beyond the range of floats", delta)
    return Certificate(max(upper - lower, 0.0), lower, upper, delta, kind, assumptions)
