"""NeuralBO: Thompson sampling with a trained neural net and its tangent kernel.

Phan-Trong, Tran-The and Gupta, "NeuralBO: A black-box optimization algorithm using deep neural networks",
Neurocomputing 559, 2023. `printed` has the algorithm as the paper states it.

A net h(x; theta) is trained on the values and models the function; its gradient g is a feature map whose ridge
regression gives the uncertainty. Each round draws a function from N(h, nu^2 sigma^2), evaluates its maximiser, and
trains again. The input may be anything a net can read.

Notation
    h(x; theta)   the net; theta0 its start; m its width; L its depth (layers)
    g(x; theta)   gradient with respect to the p weights
    k(x, x')      g(x) . g(x') / m, the tangent kernel; no p-dimensional vector is ever formed (tangent/ntk.py)
    lam           the ridge, which is the noise variance over the prior variance
    sigma^2       lam g' U^-1 g / m = k(x, x) - k(x, X) (K + lam I)^-1 k(X, x)                            (Alg. 1, l. 3)
    nu            exploration: how far draws spread, in posterior standard deviations                     (Alg. 1, l. 4)

Deviations (measured in docs/lab/neural-bo.md)
    1. sigma^2 is in kernel form, which equals that of the rank-one updates of U (Alg. 1, l. 7).
    2. Training is warm-started and happens at scheduled sizes of the history; Adam takes the place of SGD; the mean is
       the trained net and what ridge regression on its gradients adds to it, so that values known since the last
       training count too (`trained.py`). Gradients are those at the trained weights.
    3. h(x; theta) - h(x; theta0) is the model (h = 0 at the start). The net has biases, because a bias-free net is 0
       with certainty at the origin. Units are sines, because the gradient features of ReLU jump. The input scale and
       the noise level are chosen by evidence. The net reads two numbers per coordinate, Legendre's polynomials of
       degree 1 and 2, because most functions have a bowl in them; values are standardised.
    4. A draw is one coherent function, because the maximum of independent draws is inflated; it is maximised over
       points of the whole cube and around the best points, near and far, where the paper leaves the search open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.basics.noise import stated_noise
from regretless.basics.options import in_range
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import State
from regretless.methods.neural_bo.net_method import N_CANDIDATES, Path, TangentMethod, checked_width, unknown
from regretless.methods.neural_bo.trained import NetTangent, Trainable, TrainedTangent
from regretless.models.gp.sobol import sobol_points
from regretless.models.tangent.candidates import local_points
from regretless.models.tangent.inputs import Encode
from regretless.models.tangent.ntk import TAIL, draw_mlp, on_device
from regretless.space import Cube
from regretless.space.parameters import Array

if TYPE_CHECKING:
    import torch

WIDTH = 64  # an eighth of the paper's (Sec. 7) saves a third of an ask and loses nothing (docs/lab/neural-bo.md)
NU = 0.3  # measured in docs/lab/neural-bo.md
CENTRES = 4  # points with the best means around which the other candidates lie; our choice
LENGTHS = (2.0**-7, 1.0)  # side lengths of the boxes they lie in, log-uniform; from TuRBO's least on


class NeuralBO(TangentMethod):
    """Thompson sampling with a trained net and its tangent kernel: for images, texts, pools and functions that a net
    can learn.

        x_t = argmax f_t(x),  f_t ~ GP(h(x; theta_{t-1}), nu^2 sigma_t^2)                            (Alg. 1, l. 4-5)

    Args:
        width, depth, activation: the net; depth counts layers of weights, at least 2.
        exploration: nu, the spread of draws in posterior standard deviations.
        ridge: lam, the noise variance over the prior variance; None: chosen by evidence.
        training: Adam steps of a training from the start; a warm one takes a quarter of them; 0: the net stays at its
            start.
        network: a torch.nn.Module with one output per row, in place of the fully connected net; its start is theta0.
        encode: cube points (n x d) to what the net reads (n x ..., array or tensor): images, embeddings.
        candidates: the features (n x q) of a finite pool; the space is then one `Int(0, n - 1)` that numbers its rows.
        n_candidates: points over which a draw is maximised.
        noise_sd: the standard deviation of the noise, which says whether the values are noisy; None: they have to show.
        device: "cpu" (NumPy) or a torch device such as "cuda".
    """

    _model: TrainedTangent

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        width: int = WIDTH,
        depth: int = 2,
        activation: str = "sin",
        exploration: float = NU,
        ridge: float | None = None,
        training: int | None = None,
        network: torch.nn.Module | None = None,
        encode: Encode | None = None,
        candidates: Array | None = None,
        n_candidates: int = N_CANDIDATES,
        noise_sd: float | None = None,
        device: str = "cpu",
    ) -> None:
        in_range("(0, inf) or None", ridge=ridge)
        in_range("[0, inf) or None", training=training)
        super().__init__(
            cube, seed=seed, budget=budget, candidates=candidates, encode=encode, raw=network is not None,
            n_candidates=n_candidates, squares=network is None,
        )  # fmt: skip
        self.exploration, self._noisy = exploration, stated_noise(noise_sd)
        domain, rng = self._domain, self._net_rng
        width = checked_width(width, depth, domain.shape[1])
        net: Trainable
        if network is not None:
            from regretless.methods.neural_bo.module_net import ModuleNet

            net = ModuleNet(network, domain, rng, device=device)
        else:
            tail = TAIL if activation == "sin" else None
            drawn = draw_mlp(rng, domain.shape[1], width=width, depth=depth, activation=activation, tail=tail)
            net = NetTangent(drawn.to(device), on_device(domain, device))
        self._new_model = partial(TrainedTangent, net, seed=self.seed, ridge=ridge, steps=training, device=device)

    def _step(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        self._catch_up(history)  # theta_{t-1} and U_{t-1} (Alg. 1, l. 6-7)
        Z = self._candidates(history, cube, rng)
        f = self._draw(rng)  # f_t ~ N(h, nu^2 sigma_t^2) (Alg. 1, l. 3-4)
        x = self._maximiser(f, Z, history, cube, rng)  # x_t = argmax f_t (Alg. 1, l. 5)
        return self._off_known(x, history, cube, rng)

    def _begin(self) -> None:
        self._model = self._new_model()

    def _update(self, history: History, first: int) -> None:
        self._model.refresh(self._read(history, first), history.y, history.yvar)

    def _draw(self, rng: np.random.Generator) -> Path:
        return self._model.draw(self.exploration, rng)

    def _mean(self, Z: Array) -> Array:
        return self._model.mean(Z)

    # -- where a draw is maximised

    def _points_to_try(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        """Points of the whole cube and around the best points, near and far."""
        order, means = self._shortlist(history)
        centres = history.X[order[np.argsort(-means, kind="stable")[:CENTRES]]]
        # 0.25: the share of the candidates that come from the whole cube; our choice
        everywhere = sobol_points(max(1, round(0.25 * self._n_candidates)), self.dim, rng)
        near = _around(centres, self._n_candidates - len(everywhere), 1.0, cube, rng)
        return np.concatenate([everywhere, near])

    def _maximiser(self, f: Path, Z: Array, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        """The best of the candidates Z (C x d) and, unless they are rows of a pool, of points around the best, d."""
        values = f(self.inputs(Z))
        # two rounds of candidates around the best of the round before, each a quarter as wide; our choice
        for k in range(1, 3) if self.inputs.pool is None else ():
            centres = Z[np.argsort(-values, kind="stable")[:CENTRES]]
            more = _around(centres, max(1, len(Z) // 2), 0.25**k, cube, rng)
            more = unknown(cube.snap(more), history, cube)
            Z, values = np.concatenate([Z, more]), np.concatenate([values, f(self.inputs(more))])
        return np.asarray(Z[int(np.argmax(values))])

    # -- what is reported and kept

    def _certificate(self, history: History, delta: float) -> Certificate:
        return Certificate.none("a trained net's mean has no known bound at this width", delta)

    def warm(self, history: History) -> State:
        """The trained weights, so that a loaded run trains nothing again."""
        return self._model.state() if self._seen is not None and history.extends(self._seen) else {}

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        if state:
            model = self._new_model()
            model.load(state, len(history))
            self._model, self._seen = model, History(self.dim)  # every history goes on from an empty one
            self._catch_up(history)  # so that the net counts for this history and those that go on from it alone


def _around(centres: Array, n: int, reach: float, cube: Cube, rng: np.random.Generator) -> Array:
    """n points around some centres (k x d), in boxes whose lengths are log-uniform up to `reach`."""
    lengths = np.exp(rng.uniform(math.log(LENGTHS[0]), math.log(LENGTHS[1]), n)) * reach
    return local_points(centres[np.arange(n) % len(centres)], lengths, n, cube, rng)
