"""NeuralBO: Thompson sampling with a neural net and its tangent kernel.

Phan-Trong, Tran-The and Gupta, "NeuralBO: A black-box optimization algorithm using deep neural networks",
Neurocomputing 559, 2023.

A net h(x; theta) models the function; its gradient at the start, g(x; theta0), is a feature map whose ridge regression
gives the uncertainty. Each round draws a function from N(h, nu^2 sigma^2), evaluates its maximiser, and trains again.
No Bayesian net is needed, the input may be anything a net can read, and the cost need not grow with the number of
values.

Notation
    h(x; theta)   the net; theta0 its start; m its width; L its depth (layers)
    g(x; theta0)  gradient with respect to the p weights
    k(x, x')      g(x) . g(x') / m: the tangent kernel, here never through p-dimensional vectors (numerics.ntk)
    sigma^2       lam g' U^-1 g / m = k(x, x) - k(x, X) (K + lam I)^-1 k(X, x)                            (Alg. 1, l. 3)
    nu            exploration: how far draws spread, in posterior standard deviations                     (Alg. 1, l. 4)

Deviations, by preset ("paper" follows the text, "authors" their public code, "default" what a user should have)
    1. all: sigma^2 in kernel form with an append-only factor, equal to the rank-one U of Alg. 1 l. 7, whose p x p
       numbers it avoids.
    2. paper: values standardised and the rate clipped to its stable limit: as printed, training gives NaN at the rate
       stated.
    3. default: mirrored start (h = 0 exactly) and an appended 1, because a bias-free ReLU net is 0 with certainty at
       the origin; sine units of many frequencies, because the gradient features of ReLU jump; closed-form mean, which
       TrainNN approximates; one coherent draw instead of independent ones, whose maximum is inflated by the number of
       candidates.
    4. default: an additive branch of one-coordinate units (numerics.branches). Its share, both branches' input scales,
       the noise level and whether values below the median enter by their logarithm are chosen by evidence whenever a
       fifth more values are known: with all of them fixed the search settled beside the optimum, sure of a model that
       was too smooth (Ackley) or too sure of the noise (Levy).
    5. default: candidates from a trust region that shrinks and grows with failure and success (Eriksson et al., NeurIPS
       2019) and, a twentieth of the time, from the whole cube; a draw's maximum over whole-cube candidates is hardly
       better than random in ten dimensions. A quarter of the region's candidates hop out of it along a few coordinates:
       what is nearly additive has its other valleys there.
    6. default: draws over a finite pool are narrower, for its rows have little in common; and the recommendation trusts
       values instead of means as far as near values show less noise than the model assumes, since evidence cannot tell
       misfit from noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from regretless.certificate import Certificate
from regretless.gp.sobol import sobol_points
from regretless.method import Method
from regretless.methods.neural_bo.tangent_models import Chosen, ClosedForm, TrainNN, WarmTraining, Warping
from regretless.methods.neural_bo.trust_region import Region, local_points, region_after
from regretless.parameters import Array
from regretless.space import Cube
from regretless.tangent.branches import TAIL, BranchNet, Shape
from regretless.tangent.ntk import Mlp, ModuleTangent, diagonal, draw_mlp, on_device

if TYPE_CHECKING:
    import torch

Preset: TypeAlias = Literal["default", "paper", "authors"]
Encode: TypeAlias = Callable[[Array], Any]


@dataclass(frozen=True)
class Settings:
    """What a preset fixes."""

    width: int
    activation: str
    nu: float
    lam: float
    n_candidates: int


PRESETS: dict[str, Settings] = {
    "default": Settings(width=256, activation="sin", nu=1.0, lam=0.01, n_candidates=1000),
    "paper": Settings(
        width=500, activation="relu", nu=0.1, lam=0.01, n_candidates=1000
    ),  # Sec. 7; nu from the grid {0.1, 1, 10}
    "authors": Settings(
        width=200, activation="relu", nu=2.0, lam=0.01, n_candidates=50_000
    ),  # their configuration for Ackley
}
CHOSEN: dict[str, Chosen] = {"fixed": "nothing", "noise": "noise", "evidence": "shape"}
"""What the evidence chooses, by the name of the shape."""
RATE, BATCH, EPOCHS = 1e-3, 50, 50
"""SGD's learning rate, batch and epochs (Sec. 7)."""
WARM_RATE, WARM_DECAY, WARM_STEPS, WARM_SKIPPED = 2e-3, 5e-3, 100, 5
"""Adam's rate, decay and steps per value in the authors' code, and the first values that never enter U there."""
DESIGN = 20
"""Evaluations of a space-filling design before the model is asked, 2 (d + 1) where that is fewer (not in paper: a fixed
number per task)."""
GLOBAL_SHARE = 0.05
"""The share of asks whose candidates come from the whole cube (not in paper): no part of it is given up for good."""
POOL_NU = 0.3
"""The default's nu over a finite pool (not in paper): among thousands of rows that have little in common, the maximum
of a draw as wide as the
posterior is that of some row nothing is known about."""
SHORTLIST = 64
"""The best values told, whose posterior means decide where the search stands and, with the values themselves, what is
recommended."""
PROBE = 256
"""Points over which inputs and the kernel's diagonal are normalised."""
SHRINK = 0.35
"""A certificate reports with length-scales this much shorter than the fitted ones (Berkenkamp et al., JMLR 2019):
measured coverage."""
NEAR = 0.2
CERTIFICATE_POINTS = 2048
"""Points of the whole cube, and as many near the best, among which the largest upper bound is looked for."""


class NeuralBO(Method):
    """Thompson sampling with a neural net and its tangent kernel: fast, flat in memory, and at home on structured
    inputs.

        x_t = argmax f_t(x),  f_t ~ GP(h(x; theta_{t-1}), nu^2 sigma_t^2)                                    (Alg. 1, l. 4-5)

    Args:
        preset: "default" (default), "paper" (Alg. 1 and 2 as printed) or "authors" (their public code's settings).
        width, depth, activation: the net; depth counts layers of weights, at least 2.
        nu: exploration; None is the preset's (the default's over a pool 0.3), "theory" is sqrt(2) B + R / sqrt(lam)
            sqrt(2 log(1 / alpha)) (Thm. 1).
        lam: ridge, and noise variance over prior variance; None is the preset's.
        shape: "evidence" (default): noise level, input scales, additive share and warp are chosen by evidence as values
            come in; "noise": the noise level and the warp; "fixed": nothing (default where lam, additive or norm_bound
            is given).
        additive: the share of the prior variance given to the additive branch, in [0, 1); 0.5 where nothing chooses it.
        warp: how bad values are compressed: "strong", "gentle" or "none"; None lets the evidence choose between strong
            and none.
        trust_region: whether candidates come from a trust region; else from the whole cube (Alg. 1, l. 5).
        hops: the share of the candidates, at most 1/2, that leave the trust region along one to three coordinates.
        network: a torch.nn.Module with one output per row, in place of the fully connected net (default preset only);
            its start is theta0.
        encode: cube points (n x d) to what the net reads (n x ..., array or tensor): images, embeddings.
        candidates: the features (n x q) of a finite pool; the space is then one `Int(0, n - 1)` that numbers its rows.
        n_candidates: points over which a draw is maximised.
        norm_bound, noise, alpha: B, R and alpha of Thm. 1; with B and R the certificate is of kind "theory" and the
        shape stays fixed. dual_limit, sketch_size: values up to which the kernel form is used, and the features of the
        sketch beyond.
        device: "cpu" (NumPy) or a torch device such as "cuda".

    Example: `minimize(f, space, method=NeuralBO(nu=0.3))`; a pool: `NeuralBO(candidates=tfidf)` on `{"row": Int(0,
        len(tfidf) - 1)}`.
    """

    choices = "onehot"

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
        nu: float | Literal["theory"] | None = None,
        lam: float | None = None,
        shape: Literal["fixed", "noise", "evidence"] | None = None,
        additive: float | None = None,
        warp: Warping | None = None,
        trust_region: bool = True,
        hops: float = 0.25,
        network: torch.nn.Module | None = None,
        encode: Encode | None = None,
        candidates: Array | None = None,
        n_candidates: int | None = None,
        norm_bound: float | None = None,
        noise: float | None = None,
        alpha: float = 0.05,
        dual_limit: int = 1500,
        sketch_size: int = 1000,
        device: str = "cpu",
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if preset not in PRESETS:
            raise ValueError(f"preset must be one of {sorted(PRESETS)}, got {preset!r}")
        if preset != "default" and (network is not None or device != "cpu"):
            raise ValueError(
                f"network and device belong to the default preset; preset={preset!r} trains its own net in NumPy"
            )
        chosen = PRESETS[preset]
        self.preset = preset
        self._settings = replace(
            chosen,
            width=chosen.width if width is None else width,
            activation=chosen.activation if activation is None else activation,
            lam=chosen.lam if lam is None else _positive("lam", lam),
            n_candidates=chosen.n_candidates if n_candidates is None else int(_positive("n_candidates", n_candidates)),
        )
        self._norm_bound, self._noise, self._alpha = norm_bound, noise, alpha
        if (nu == "theory" or norm_bound is not None) and (norm_bound is None or noise is None):
            raise ValueError("the theory's nu and certificate need both norm_bound (B) and noise (R)")
        usual = POOL_NU if candidates is not None and preset == "default" else chosen.nu
        self.nu = self._theory_nu(alpha) if nu == "theory" else usual if nu is None else float(nu)
        self._pool = None if candidates is None else _checked_pool(candidates, self.cube, raw=network is not None)
        self._encode = encode
        self._depth, self._network, self._device = depth, network, device
        self._dual_limit, self._sketch_size = (
            int(_positive("dual_limit", dual_limit)),
            int(_positive("sketch_size", sketch_size)),
        )
        given = not (lam is None and additive is None and norm_bound is None)
        shape = shape or ("fixed" if given else "evidence")
        if shape not in CHOSEN or not (additive is None or 0 <= additive < 1):
            raise ValueError(
                f"shape must be one of {sorted(CHOSEN)} and additive in [0, 1), got shape={shape!r}, additive={additive!r}"
            )
        if shape != "fixed" and given:
            raise ValueError(
                f"lam, additive and norm_bound belong to shape='fixed'; shape={shape!r} lets the evidence choose"
            )
        self._chosen = CHOSEN[shape]
        if not (warp is None or warp in get_args(Warping)):
            raise ValueError(f"warp must be None or one of {get_args(Warping)}, got {warp!r}")
        self._additive, self._warping = 0.5 if additive is None else additive, warp
        if not 0 <= hops <= 0.5:
            raise ValueError(f"hops must be a share between 0 and 0.5, got {hops!r}")
        self._local, self._hops = trust_region and preset == "default", hops
        self._n_design = min(DESIGN, 2 * (self.dim + 1)) if self._pool is None else 2
        self._design = sobol_points(self._n_design, self.dim, self.fixed_generator())
        self._offset, self._unit = np.zeros(1), 1.0
        self._inputs: Array = np.empty((0, 0))
        self._model: ClosedForm | TrainNN | WarmTraining = self._make_model()
        self._region = Region()

    # -- the algorithm

    def _propose(self, rng: np.random.Generator) -> Array:
        seen = len(self.y) + len(self._failed_and_pending())
        if len(self.y) < 2 or seen < self._n_design:
            return self._design_point(seen, rng)
        self._refresh()
        Z = self._candidates(rng)
        values = self._model.draw(self.nu, rng)(self._read(Z))  # (Alg. 1, l. 3-4)
        best: Array = Z[int(np.argmax(values))]  # (Alg. 1, l. 5)
        return best

    def _refresh(self) -> None:
        """theta_t and U_t from the history (Alg. 1, l. 6-7)."""
        done = len(self._inputs)
        if done < len(self.y):
            new = self._read(self.X[done:])
            self._inputs = new if done == 0 else np.concatenate([self._inputs, new])
        self._region = region_after(self._region, self.y, self._n_design, self.dim)
        if isinstance(self._model, ClosedForm):
            unknown = np.full(len(self.y), np.nan)  # Thm. 1 is about one ridge for all values
            self._model.refresh(self._inputs, self.y, self.yvar if self._norm_bound is None else unknown)
        else:
            self._model.refresh(self._inputs, self.y)

    def _candidates(self, rng: np.random.Generator) -> Array:
        """Where a draw is maximised: fresh points of a finite pool, the trust region, or the whole cube."""
        n = self._settings.n_candidates
        if self._pool is not None:
            return self._fresh_rows(rng, n)
        if not self._local or rng.random() < GLOBAL_SHARE:
            Z = sobol_points(n, self.dim, rng)
        else:
            Z = local_points(self._centre(), self._region.length, n, self.cube, rng, hops=self._hops)
        Z = self.cube.snap(Z) if not self.cube.plain else Z
        return self._unseen(Z)

    def _shortlist(self) -> tuple[NDArray[np.intp], Array]:
        """The best values told, by their places in the history, and the posterior means there, k each."""
        order = np.argsort(-self.y, kind="stable")[:SHORTLIST]
        return order, self._model.mean(self._inputs[order])

    def _centre(self) -> Array:
        """Where the search stands: the largest posterior mean."""
        order, means = self._shortlist()
        return np.array(self.X[order[np.argmax(means)]])

    def sample(self, U: Array, rng: np.random.Generator) -> Array:
        """One draw of the posterior function at cube points U (C x d), C: what `ask` maximises over its candidates."""
        self._refresh()
        return self._model.draw(self.nu, rng)(self._read(U))

    def _recommend(self) -> Array:
        """The largest posterior mean, or as far as neighbours show less noise than the model assumes, the largest
        value."""
        if len(self.y) < 2:
            return np.array(self.X[0])
        self._refresh()
        order, means = self._shortlist()
        share = self._model.noise_shown() if isinstance(self._model, ClosedForm) else 1.0
        return np.array(self.X[order[np.argmax(share * means + (1 - share) * self.y[order])]])

    # -- points

    def _design_point(self, index: int, rng: np.random.Generator) -> Array:
        """The next point of the design; a random one when evaluations keep failing beyond it."""
        if self._pool is not None:
            return np.array(self._fresh_rows(rng, 1)[0])
        return np.array(self._design[index]) if index < len(self._design) else rng.random(self.dim)

    def _failed_and_pending(self) -> Array:
        return np.concatenate([self.failed, self.pending])

    def _fresh_rows(self, rng: np.random.Generator, n: int) -> Array:
        """Cube points of at most n pool rows that were neither told nor asked, in random order; of all rows when none
        is left."""
        assert self._pool is not None
        axis = self.cube.axes[0]
        fresh = np.ones(len(self._pool), dtype=bool)
        fresh[axis.index(np.concatenate([self.X, self._failed_and_pending()])[:, 0])] = False
        rows = np.flatnonzero(fresh if fresh.any() else ~fresh)
        return axis.centre(rng.permutation(rows)[: max(n, 1)])[:, None]

    def _unseen(self, Z: Array) -> Array:
        """Z without pending points and, in a finite cube, without told ones; Z itself when nothing would be left."""
        taken = self._failed_and_pending()
        if np.isfinite(self.cube.size):
            taken = np.concatenate([taken, self.X])
        if len(taken) == 0:
            return Z
        keys = {point.tobytes() for point in taken}
        keep = np.array([z.tobytes() not in keys for z in Z])
        return Z[keep] if keep.any() else Z

    def _read(self, U: Array) -> Array:
        """What the net reads for cube points U (n x d): inputs on [-1, 1] or thereabouts."""
        if self._pool is not None:
            return np.take(self._pool, self.cube.axes[0].index(U[:, 0]), axis=0)
        if self._encode is None:
            return 2 * U - 1
        made = self._encode(U)
        array: Array = np.asarray(made.detach().cpu() if hasattr(made, "detach") else made, dtype=np.float64)
        if len(array) != len(U) or not np.isfinite(array).all():
            raise ValueError(
                f"encode must give one finite row per point: {len(U)} points, result of shape {array.shape}"
            )
        if self._network is not None:
            return array
        return (array.reshape(len(U), -1) - self._offset) * self._unit

    # -- the model

    def _make_model(self) -> ClosedForm | TrainNN | WarmTraining:
        """The net at theta0, drawn once for the run, and the model on it."""
        rng, s = self.fixed_generator(), self._settings
        probe = self._read(self.cube.snap(sobol_points(PROBE, self.dim, rng)))
        if self._network is None and self._encode is not None:
            self._offset, self._unit = _normaliser(probe)
            probe = (probe - self._offset) * self._unit
        if self.preset == "paper":
            return TrainNN(
                paper_net(rng, probe.shape[1], s.width, self._depth),
                seed=self.seed,
                lam=s.lam,
                rate=RATE,
                batch=BATCH,
                epochs=EPOCHS,
            )
        if self.preset == "authors":
            warm = authors_net(rng, probe.shape[1], s.width, self._depth)
            return WarmTraining(
                warm, lam=s.lam, rate=WARM_RATE, decay=WARM_DECAY, steps=WARM_STEPS, skipped=WARM_SKIPPED
            )
        net: BranchNet | ModuleTangent
        if self._network is not None:
            net = ModuleTangent(self._network, rng, device=self._device)
            net.norm = float(diagonal(net.factors(probe)).mean()) or 1.0
            shape = Shape(1.0, share=0.0, lam=s.lam)
        else:
            tail = TAIL if s.activation == "sin" else None
            dense = draw_mlp(rng, probe.shape[1], width=s.width, depth=self._depth, activation=s.activation, tail=tail)
            net = BranchNet(dense.to(self._device), on_device(probe, self._device), rng)
            shape = replace(net.shape, lam=s.lam, share=self._additive)
        limits = {"dual_limit": self._dual_limit, "sketch_size": self._sketch_size}
        return ClosedForm(
            net, shape, seed=self.seed, chosen=self._chosen, warping=self._warping, device=self._device, **limits
        )

    @property
    def learning_rate(self) -> tuple[float, float] | None:
        """The learning rate used last and the one asked for (paper preset): they differ when it was clipped to its
        stable limit."""
        descent = self._model.descent if isinstance(self._model, TrainNN) else None
        return None if descent is None else (descent.rate, descent.asked)

    @property
    def nbytes(self) -> int:
        """Bytes the default's model holds beside the data."""
        return self._model.nbytes if isinstance(self._model, ClosedForm) else 0

    # -- certificate

    def _theory_nu(self, alpha: float) -> float:
        """nu_t = sqrt(2) B + R / sqrt(lam) sqrt(2 log(1 / alpha)) (Thm. 1)."""
        assert self._norm_bound is not None
        assert self._noise is not None
        return math.sqrt(2) * self._norm_bound + self._noise / math.sqrt(self._settings.lam) * math.sqrt(
            2 * math.log(1 / alpha)
        )

    def _certificate(self, delta: float) -> Certificate:
        model = self._model
        if not isinstance(model, ClosedForm):
            return Certificate.none(
                f"preset {self.preset!r} trains its mean, for which no bound is known at this width", delta
            )
        if len(self.y) < 2 * (self.dim + 1):
            return Certificate.none(f"{len(self.y)} values are too few for a bound in {self.dim} dimensions", delta)
        self._refresh()
        if model.exact is None:
            return Certificate.none(
                f"beyond {self._dual_limit} values the model is a sketch, whose deviation is no bound", delta
            )
        Z = self._certificate_points()
        inputs = self._read(Z)
        searched = f"the largest upper bound is that of {len(Z)} points"
        if self._norm_bound is not None:
            mean, sd = model.raw_moments(inputs)
            width = self._theory_nu(delta) * sd
            norm = f"f has norm at most {self._norm_bound:g} in the RKHS of this net's tangent kernel"
            noise = f"the noise is {self._noise:g}-sub-Gaussian and independent of the points (Ass. 2)"
            return _bounds(mean, width, delta, "theory", (norm, noise, searched))
        moments = model.cautious_moments(inputs, SHRINK)
        if isinstance(moments, str):
            return Certificate.none(moments, delta)
        mean, sd = moments
        fitted = f"the fitted tangent kernel with length-scales shortened to {SHRINK:g} of the fitted ones"
        return _bounds(mean, float(ndtri(1 - delta / 2)) * sd, delta, "fitted", (fitted, searched))

    def _certificate_points(self) -> Array:
        """The recommended point, then those among which the largest upper bound is looked for, C x d."""
        best = self._recommend()[None]
        if self._pool is not None:
            return np.concatenate([best, self.cube.axes[0].centre(np.arange(len(self._pool)))[:, None]])
        rng = self.fixed_generator()
        near = local_points(best[0], NEAR, CERTIFICATE_POINTS, self.cube, rng)
        return np.concatenate(
            [best, self.cube.snap(np.concatenate([sobol_points(CERTIFICATE_POINTS, self.dim, rng), near])), self.X]
        )


# ---------------------------------------------------------------- nets of the paper and of the authors' code


def paper_net(rng: np.random.Generator, inputs: int, width: int, depth: int) -> Mlp:
    """sqrt(m) W_L relu(... relu(W_1 x)), every weight N(0, 1/m), no bias (Sec. 7); features g / sqrt(m)."""
    shapes: list[tuple[int, ...]] = [(inputs, width), *[(width, width)] * (depth - 2), (width,)]
    weights = tuple(rng.standard_normal(shape) * width**-0.5 for shape in shapes)
    return Mlp(weights, (False,) * depth, "relu", output_gain=width**0.5, norm=float(width))


def authors_net(rng: np.random.Generator, inputs: int, width: int, depth: int) -> Mlp:
    """The authors' code: biases everywhere, hidden weights N(0, 1/m), biases and output layer at PyTorch's default
    (uniform)."""
    weights: list[Array] = []
    for fan_in in (inputs, *[width] * (depth - 2)):
        bias = rng.uniform(-1, 1, width) * fan_in**-0.5
        weights.append(np.vstack([rng.standard_normal((fan_in, width)) * width**-0.5, bias]))
    weights.append(rng.uniform(-1, 1, width + 1) * width**-0.5)
    return Mlp(tuple(weights), (True,) * depth, "relu", output_gain=width**0.5, norm=float(width))


def _bounds(
    mean: Array, width: Array, delta: float, kind: Literal["theory", "fitted"], assumptions: tuple[str, ...]
) -> Certificate:
    """The certificate from bounds mean +- width (C each), the recommended point being the first."""
    lower, upper = float(mean[0] - width[0]), float((mean + width).max())
    return Certificate(max(upper - lower, 0.0), lower, upper, delta, kind, assumptions)


# ---------------------------------------------------------------- arguments


def _positive(name: str, value: float) -> float:
    if not value > 0 or not math.isfinite(value):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return value


def _normaliser(features: Array) -> tuple[Array, float]:
    """Offset (q) and factor that bring features to the mean and mean square of [-1, 1]."""
    offset = features.mean(0)
    return offset, (3 * float(((features - offset) ** 2).mean()) or 1.0) ** -0.5


def _checked_pool(candidates: Array, cube: Cube, raw: bool) -> Array:
    """The pool's features, float64, n x q, once they fit the cube; normalised unless a user's module reads them raw."""
    pool = np.asarray(candidates, dtype=np.float64)
    if pool.ndim != 2 or not np.isfinite(pool).all():
        raise ValueError(
            f"candidates must be a finite array of features, one row per candidate, got shape {pool.shape}"
        )
    if cube.dim != 1 or cube.axes[0].levels != len(pool):
        raise ValueError(
            f"with {len(pool)} candidates the space must be one whole number, Int(0, {len(pool) - 1}), that says which row is meant"
        )
    if raw:
        return pool
    offset, unit = _normaliser(pool)
    return (pool - offset) * unit
