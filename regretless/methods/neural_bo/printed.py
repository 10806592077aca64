"""NeuralBO as printed: Phan-Trong, Tran-The and Gupta, "NeuralBO: A black-box optimization algorithm using deep neural
networks", Neurocomputing 559, 2023, Algorithms 1 and 2.

A fully connected net h(x; theta) is trained on the values from its start theta0 each round; it is the mean. The
gradients at theta0 are a fixed feature map, whose ridge regression gives the uncertainty sigma. Each round draws a
function from N(h, nu^2 sigma^2) and evaluates its maximiser.

Notation
    D             the input space
    h(x; theta)   the net; theta0 its start; m its width; L its depth (layers)
    g(x; theta0)  gradient with respect to the p weights
    U_t           lam I + sum_i g(x_i; theta0) g(x_i; theta0)' / m                                  (Alg. 1, l. 1, 7)
    lam           the regularization parameter, option `ridge`
    nu_t          the exploration parameter, option `exploration`
    alpha         one minus the probability of the bound of Thm. 1
    B, R          bounds on the RKHS norm of f and on the noise's sub-Gaussian scale                            (Thm. 1)

Deviations (measured in docs/lab/neural-bo.md)
    1. Values are standardised, and the rate is clipped to its stable limit, because training as printed gives NaN at
       the rate stated.
    2. sigma^2 is in whichever form is smaller, n x n up to p values and U beyond (`uncertainty.py`).
    3. nu is 0.1, where the paper searches the grid {0.1, 1, 10} for every task.
    4. A draw is maximised over Sobol points, where the paper leaves the search open.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from regretless.basics.options import in_range, one_of
from regretless.certificate import Certificate
from regretless.history import History
from regretless.methods.neural_bo.net_method import N_CANDIDATES, Path, TangentMethod, checked_width
from regretless.methods.neural_bo.train_nn import ALPHA, Trained, TrainNN, paper_net, theorem_constants
from regretless.methods.neural_bo.uncertainty import Uncertainty
from regretless.models.gp.sobol import sobol_points
from regretless.models.tangent.inputs import Encode
from regretless.models.tangent.ridge import theory_nu
from regretless.models.tangent.values import TargetScale
from regretless.space import Cube
from regretless.space.parameters import Array

Constants: TypeAlias = Literal["experiments", "theorem"]

WIDTH, NU, LAM = 500, 0.1, 0.01  # m, nu (deviation 3) and lam of the experiments (Sec. 7)


class PrintedNeuralBO(TangentMethod):
    """NeuralBO as printed: Algorithms 1 and 2 of Phan-Trong et al. (2023), with the net of the paper and its constants.

    Args:
        width, depth: the net; depth counts layers of weights, at least 2.
        exploration: nu, the spread of draws in posterior standard deviations; None: 0.1, or that of the theorem.
        ridge: lam; None: 0.01, or that of the theorem.
        encode: cube points (n x d) to what the net reads (n x ..., array or tensor): images, embeddings.
        candidates: the features (n x q) of a finite pool; the space is then one `Int(0, n - 1)` that numbers its rows.
        n_candidates: points over which a draw is maximised.
        norm_bound, noise_sd: B and R of Thm. 1, for the nu of `constants="theorem"`.
        constants: those of the paper's "experiments" (Sec. 7), or of its "theorem": lam, eta and J of Thm. 1, weights
            N(0, 2/m) and a last layer of zeros; nu as well where norm_bound and noise_sd are given.
    """

    _noisy = True  # the observations of the paper are noisy (Alg. 1, l. 5)
    U: Uncertainty
    _scale: TargetScale
    trained: Trained

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        width: int = WIDTH,
        depth: int = 2,
        exploration: float | None = None,
        ridge: float | None = None,
        encode: Encode | None = None,
        candidates: Array | None = None,
        n_candidates: int = N_CANDIDATES,
        norm_bound: float | None = None,
        noise_sd: float | None = None,
        constants: Constants = "experiments",
    ) -> None:
        one_of(get_args(Constants), constants=constants)
        in_range("(0, inf) or None", ridge=ridge)
        if norm_bound is not None and noise_sd is None:
            raise ValueError("Thm. 1 needs noise_sd (R) beside norm_bound (B)")
        if constants == "theorem" and budget is None:
            raise ValueError("constants='theorem' needs a known budget")
        super().__init__(
            cube, seed=seed, budget=budget, candidates=candidates, encode=encode, raw=False,
            n_candidates=n_candidates,
        )  # fmt: skip
        inputs, rng = self._domain.shape[1], self._net_rng
        width = checked_width(width, depth, inputs)
        self.lam, self.nu = LAM if ridge is None else ridge, NU if exploration is None else exploration
        if constants == "theorem" and budget is not None:
            self.lam, eta, J = theorem_constants(budget, width, depth)
            if norm_bound is not None and noise_sd is not None and exploration is None:
                self.nu = theory_nu(norm_bound, noise_sd, self.lam, ALPHA)
            net = paper_net(rng, inputs, width, depth, variance=2.0, zero=True)
            self._train_nn = TrainNN(net, seed=self.seed, lam=self.lam, rate=eta, steps=J)
        else:
            self._train_nn = TrainNN(paper_net(rng, inputs, width, depth), seed=self.seed, lam=self.lam)
        self._start = self._train_nn.start

    # -- Algorithm 1

    def _begin(self) -> None:
        self.U = Uncertainty(self._start, self.lam, self._start.features)  # (Alg. 1, l. 1)

    def _step(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        self._catch_up(history)  # the rounds before this one (Alg. 1, l. 2)
        D = self._candidates(history, cube, rng)
        f_t = self._draw(rng)  # (Alg. 1, l. 3-4)
        x_t = D[int(np.argmax(f_t(self.inputs(D))))]  # (Alg. 1, l. 5)
        return self._off_known(x_t, history, cube, rng)

    def _draw(self, rng: np.random.Generator) -> Path:
        """f_t, drawn for each x by itself."""

        def f_t(x: Array) -> Array:
            sigma_t = self.U.deviation(self._start.factors(x))  # (Alg. 1, l. 3)
            return self.trained.h(x) + self.nu * sigma_t * rng.standard_normal(len(x))  # (Alg. 1, l. 4)

        return f_t

    def _update(self, history: History, first: int) -> None:
        x = self._read(history, first)
        self._scale = TargetScale.of(history.y)
        y = self._scale.targets(history.y)  # (deviation 1)
        self.trained = self._train_nn(x, y)  # theta_t (Alg. 1, l. 6)
        self.U.extend(x, y)  # U_t, which the values y do not enter (Alg. 1, l. 7)

    # -- beside the algorithm

    def _points_to_try(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        return sobol_points(self._n_candidates, self.dim, rng)

    def _mean(self, Z: Array) -> Array:
        return self._scale.values(self.trained.h(Z))

    def learning_rate(self, history: History) -> tuple[float, float]:
        """The learning rate of the training on this history and the one asked for, which may have been clipped."""
        self._catch_up(history)
        return self.trained.rate, self.trained.asked

    def _certificate(self, history: History, delta: float) -> Certificate:
        return Certificate.none("a trained net's mean has no known bound at this width", delta)
