"""NeuralBO: Thompson sampling with a trained neural net and its tangent kernel.

Phan-Trong, Tran-The and Gupta, "NeuralBO: A black-box optimization algorithm using deep neural networks",
Neurocomputing 559, 2023.

A net h(x; theta) is trained on the values and models the function; its gradient g is a feature map whose ridge
regression gives the uncertainty. Each round draws a function from N(h, nu^2 sigma^2), evaluates its maximiser, and
trains again. The input may be anything a net can read.

Notation
    h(x; theta)   the net; theta0 its start; m its width; L its depth (layers)
    g(x; theta)   gradient with respect to the p weights; at theta0 in the paper
    k(x, x')      g(x) . g(x') / m, the tangent kernel; no p-dimensional vector is ever formed (tangent/ntk.py)
    lam           the ridge, which is the noise variance over the prior variance
    sigma^2       lam g' U^-1 g / m = k(x, x) - k(x, X) (K + lam I)^-1 k(X, x)                            (Alg. 1, l. 3)
    nu            exploration: how far draws spread, in posterior standard deviations                     (Alg. 1, l. 4)
    B, R          bounds on the RKHS norm of f and on the noise's sub-Gaussian scale                            (Thm. 1)

Deviations ("paper" follows the text, "default" is what a user should have; measured in docs/lab/neural-bo.md)
    1. default: sigma^2 is in kernel form, which equals that of the rank-one updates of U (Alg. 1, l. 7). paper: it is
       in whichever form is smaller, n x n up to p values and U beyond (`uncertainty.py`).
    2. paper: values are standardised, and the rate is clipped to its stable limit, because training as printed gives
       NaN at the rate stated. A module of the user's has the mean of |g|^2 over the domain where the paper has m. nu is
       0.1, where the paper searches the grid {0.1, 1, 10} for every task. A draw is maximised over Sobol points.
    3. default: training is warm-started and happens at scheduled sizes of the history; Adam takes the place of SGD; the
       mean is the trained net and what ridge regression on its gradients adds to it, so that values told since the
       last training count too (`trained.py`). Gradients are those at the trained weights.
    4. default: h(x; theta) - h(x; theta0) is the model (h = 0 at the start) and the net has biases, because a bias-free
       net is 0 with certainty at the origin; units are sines, because the gradient features of ReLU jump; the input
       scale, the noise level and the warp of the values are chosen by evidence.
    5. default: a draw is one coherent function, because the maximum of independent draws is inflated; it is maximised
       over points of the whole cube and around the best points, near and far, where the paper leaves the search open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.sobol import sobol_points
from regretless.method import State
from regretless.methods.neural_bo.train_nn import ALPHA, TrainNN, paper_net, theorem_constants
from regretless.methods.neural_bo.trained import NetTangent, Trainable, TrainedTangent
from regretless.noise import stated_noise
from regretless.options import PRESETS, Preset, in_range, one_of
from regretless.parameters import Array
from regretless.space import Cube
from regretless.tangent.candidates import local_points
from regretless.tangent.inputs import Encode
from regretless.tangent.method import N_CANDIDATES, Path, TangentMethod, checked_width
from regretless.tangent.ntk import TAIL, draw_mlp, on_device
from regretless.tangent.ridge import theory_nu

if TYPE_CHECKING:
    import torch

    from regretless.methods.neural_bo.module_training import ModuleTrainNN

Constants: TypeAlias = Literal["experiments", "theorem"]

WIDTH: dict[Preset, int] = {"default": 128, "paper": 500}
"""The paper's width (Sec. 7); a quarter of it keeps training within the time of an ask (docs/lab/neural-bo.md)."""
NU: dict[Preset, float] = {"default": 0.3, "paper": 0.1}
"""The default's is measured (docs/lab/neural-bo.md); the paper's is from its grid {0.1, 1, 10} (Sec. 7)."""
LAM = 0.01  # the ridge of the paper preset (Sec. 7)
EVERYWHERE = 0.25  # not in paper: the share of the candidates that come from the whole cube; our choice
CENTRES = 4  # not in paper: told points with the best means around which the other candidates lie; our choice
LENGTHS = (2.0**-7, 1.0)  # not in paper: side lengths of the boxes they lie in, log-uniform; from TuRBO's least on
ZOOMS, ZOOM = 2, 0.25  # not in paper: rounds of candidates around the best of the round before, each so much narrower


class NeuralBO(TangentMethod):
    """Thompson sampling with a trained net and its tangent kernel: for images, texts, pools and functions that a net
    can learn.

        x_t = argmax f_t(x),  f_t ~ GP(h(x; theta_{t-1}), nu^2 sigma_t^2)                            (Alg. 1, l. 4-5)

    Args:
        preset: "default", or "paper" (Alg. 1 and 2 as printed).
        width, depth, activation: the net; depth counts layers of weights, at least 2.
        exploration: nu, the spread of draws in posterior standard deviations; None: by the preset.
        ridge: lam, the noise variance over the prior variance; None: chosen by evidence, or 0.01 (paper).
        training: Adam steps of a training from the start; a warm one takes a quarter of them; 0: the net stays at its
            start.
        network: a torch.nn.Module with one output per row, in place of the fully connected net; its start is theta0.
        encode: cube points (n x d) to what the net reads (n x ..., array or tensor): images, embeddings.
        candidates: the features (n x q) of a finite pool; the space is then one `Int(0, n - 1)` that numbers its rows.
        n_candidates: points over which a draw is maximised.
        norm_bound, noise_sd: B and R of Thm. 1, for the nu of `constants="theorem"`.
        device: "cpu" (NumPy) or a torch device such as "cuda".
        constants: of the paper preset: those of its "experiments" (Sec. 7), or of its "theorem": lam, eta and J of
            Thm. 1, weights N(0, 2/m) and a last layer of zeros; nu as well where norm_bound and noise_sd are given.

    `activation` and `training` belong to the default preset; in the paper preset another device than the CPU needs a
    `network`.
    """

    version, former = 2, "tangent-region"
    moved: ClassVar = dict.fromkeys(("shape", "additive", "warp", "trust_region", "hops"), "tangent-region")

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
        training: int | None = None,
        network: torch.nn.Module | None = None,
        encode: Encode | None = None,
        candidates: Array | None = None,
        n_candidates: int = N_CANDIDATES,
        norm_bound: float | None = None,
        noise_sd: float | None = None,
        device: str = "cpu",
        constants: Constants = "experiments",
    ) -> None:
        one_of(PRESETS, preset=preset)
        one_of(get_args(Constants), constants=constants)
        in_range("(0, inf) or None", ridge=ridge)
        in_range("[0, inf) or None", training=training)
        if norm_bound is not None and noise_sd is None:
            raise ValueError("Thm. 1 needs noise_sd (R) beside norm_bound (B)")
        ignored = [n for n, value in (("activation", activation), ("training", training)) if value is not None]
        ignored += ["device without network"] * (device != "cpu" and network is None)
        if preset == "paper" and ignored:
            raise ValueError(f"{', '.join(ignored)}: the paper's preset has no such option")
        if constants == "theorem" and (preset != "paper" or network is not None or budget is None):
            raise ValueError("constants='theorem' belongs to preset='paper', with its own net and a known budget")
        super().__init__(
            cube, seed=seed, budget=budget, candidates=candidates, encode=encode, raw=network is not None,
            n_candidates=n_candidates,
        )  # fmt: skip
        self.preset = preset
        self.exploration = NU[preset] if exploration is None else exploration
        self._lam, self.known_noise = LAM if ridge is None else ridge, stated_noise(preset == "paper", noise_sd)
        domain, rng = self._domain, self._net_rng
        width = checked_width(WIDTH[preset] if width is None else width, depth, domain.shape[1])
        self._model: TrainedTangent | TrainNN | ModuleTrainNN
        if preset == "paper" and network is not None:
            from regretless.methods.neural_bo.module_training import ModuleTrainNN

            self._model = ModuleTrainNN(network, domain, rng, seed=self.seed, lam=self._lam, device=device)
        elif constants == "theorem" and budget is not None:
            set_by = theorem_constants(budget, width, depth)
            self._lam = set_by.lam
            plain = paper_net(rng, domain.shape[1], width, depth, variance=2.0, zero=True)
            self._model = TrainNN(plain, seed=self.seed, lam=set_by.lam, rate=set_by.rate, steps=set_by.steps)
            if norm_bound is not None and noise_sd is not None and exploration is None:
                self.exploration = theory_nu(norm_bound, noise_sd, set_by.lam, ALPHA)
        elif preset == "paper":
            self._model = TrainNN(paper_net(rng, domain.shape[1], width, depth), seed=self.seed, lam=self._lam)
        else:
            net: Trainable
            if network is not None:
                from regretless.methods.neural_bo.module_net import ModuleNet

                net = ModuleNet(network, domain, rng, device=device)
            else:
                activation = activation or "sin"
                tail = TAIL if activation == "sin" else None
                drawn = draw_mlp(rng, domain.shape[1], width=width, depth=depth, activation=activation, tail=tail)
                net = NetTangent(drawn.to(device), on_device(domain, device))
            self._model = TrainedTangent(net, seed=self.seed, ridge=ridge, steps=training, device=device)

    def _points_to_try(self, rng: np.random.Generator) -> Array:
        """Points of the whole cube (paper: only these) and around the best points, near and far."""
        if self.preset == "paper":
            return sobol_points(self._n_candidates, self.dim, rng)
        order, means = self._shortlist()
        centres = self.X[order[np.argsort(-means, kind="stable")[:CENTRES]]]
        everywhere = sobol_points(max(1, round(EVERYWHERE * self._n_candidates)), self.dim, rng)
        return np.concatenate([everywhere, self._around(centres, self._n_candidates - len(everywhere), 1.0, rng)])

    def _around(self, centres: Array, n: int, reach: float, rng: np.random.Generator) -> Array:
        """n points around some centres (k x d), in boxes whose lengths are log-uniform up to `reach`."""
        lengths = np.exp(rng.uniform(math.log(LENGTHS[0]), math.log(LENGTHS[1]), n)) * reach
        return local_points(centres[np.arange(n) % len(centres)], lengths, n, self.cube, rng)

    def _maximiser(self, f: Path, Z: Array, rng: np.random.Generator) -> Array:
        """The best of the candidates Z (C x d) and of those around the best of them, d."""
        if self.preset == "paper" or self._inputs.pool is not None:
            return super()._maximiser(f, Z, rng)
        values = f(self._inputs(Z))
        for k in range(1, ZOOMS + 1):
            centres = Z[np.argsort(-values, kind="stable")[:CENTRES]]
            more = self._unknown(self.cube.snap(self._around(centres, max(1, len(Z) // 2), ZOOM**k, rng)))
            Z, values = np.concatenate([Z, more]), np.concatenate([values, f(self._inputs(more))])
        return np.asarray(Z[int(np.argmax(values))])

    def _recommend(self) -> Array:
        """The largest posterior mean among the best values."""
        self._refresh()
        order, means = self._shortlist()
        return np.array(self.X[order[np.argmax(means)]])

    @property
    def learning_rate(self) -> tuple[float, float] | None:
        """The learning rate used last and the one asked for (paper preset), which may have been clipped."""
        descent = self._model.descent if isinstance(self._model, TrainNN) else None
        return None if descent is None else (descent.rate, descent.asked)

    def _certificate(self, delta: float) -> Certificate:
        return Certificate.none("a trained net's mean has no known bound at this width", delta)

    def _state(self) -> State:
        """The trained weights, so that a loaded run trains nothing again."""
        return self._model.state() if isinstance(self._model, TrainedTangent) else {}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        if isinstance(self._model, TrainedTangent) and state:
            self._model.load(state, len(self.y))
