"""DNGO: Snoek et al., "Scalable Bayesian Optimization Using Deep Neural Networks", ICML 2015.

A net is trained on the values; its last hidden layer is a set of basis functions for Bayesian linear regression, whose
expected improvement is maximised. Cost is linear in the number of values.

Notation: phi(x), what enters the output layer (50 units and a 1); alpha and s2, the prior precision of the output
weights and the noise variance; EI, the expected improvement over the best value told, with margin XI.

Deviations
    1. alpha and s2 are integrated over a grid of the box that the reference code (pybnn) samples by MCMC, with that
       code's prior. The mixture's mean and variance are those of one Gaussian on the weights, exactly.
    2. The net is trained anew whenever a tenth more values are known (the code: every step) with at most 1500 Adam
       steps of batch 10 (the code: 500 epochs); the regression sees every value.
    3. The gradient of log EI is climbed from the best candidates, where the paper runs L-BFGS-B from random starts.
"""

import numpy as np

from regretless.basics.streams import Stream, keyed_generator
from regretless.history import History
from regretless.method import Traits
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.acquisition import log_h_of
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import Acquisition, maximise
from regretless.models.gp.step import INCUMBENTS
from regretless.models.tangent.inputs import NetInputs
from regretless.models.tangent.ntk import Mlp
from regretless.models.tangent.values import standardised
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.small_nets import (
    epoch_batches,
    fresh_net,
    input_gradient,
    scheduled_size,
    train_with_adam,
)

HIDDEN, RATE, EPOCHS, BATCH = (50, 50, 50), 0.01, 500, 10  # layers, Adam's rate, passes and batch of the reference code
MOST_STEPS = 1500  # Adam's steps per fit at most (deviation 2): 500 epochs of 1,000 values would be 50,000 of them
GROWTH = 1.1  # the net is trained anew when there are this many times as many values (deviation 2)
LOG_ALPHA, LOG_NOISE = np.linspace(-10, 10, 21), np.linspace(-10, 4, 15)
"""The grid over ln alpha and ln s2: the box of the reference code in steps of 1, its prior's standard deviation."""
XI = 0.01  # the margin of the improvement in standard deviations of the values, the reference code's
LEAST_VARIANCE = 1e-20  # predictive variances, in those units, are raised to this, so that the logarithm is finite


class DNGO(DesignedMethod):
    """DNGO: expected improvement of Bayesian linear regression on the last layer of a trained net."""

    traits = Traits(choices="onehot")

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget, centre=False)
        self._inputs = NetInputs(self.cube)
        self._begin()

    def _begin(self) -> None:
        self._trained: tuple[int, Mlp] | None = None

    def _step(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        net, (w, C), targets = self._fit(history)
        best = float(targets.max()) + XI

        def log_improvement(U: Array) -> tuple[Array, Array]:
            Z = self._inputs(U)
            phi = net.last_hidden(Z)
            at = phi @ C
            m, s = phi @ w, np.sqrt(np.maximum((at * phi).sum(1), LEAST_VARIANCE))
            z = (m - best) / s
            log_h, slope = log_h_of(z)
            cotangent = (slope / s)[:, None] * w + ((1 - z * slope) / s**2)[:, None] * at
            return np.log(s) + log_h, self._inputs.gradient(input_gradient(net, Z, cotangent), U)

        top = history.X[np.argsort(-history.y, kind="stable")[:INCUMBENTS]]
        x = maximise(Acquisition.of(log_improvement), cube, rng, incumbents=top)
        return away_from_known(x, history, cube, rng)

    def _fit(self, history: History) -> tuple[Mlp, tuple[Array, Array], Array]:
        """The net of the last scheduled size, the Gaussian on its output weights and the standardised values."""
        self._catch_up(history)
        n = min(scheduled_size(len(history), first=BATCH, growth=GROWTH), len(history))
        if self._trained is None or self._trained[0] != n:
            rng = keyed_generator(self.seed, n, stream=Stream.DNGO_FIT)
            net = fresh_net(rng, self._inputs.dim, HIDDEN, "tanh")
            batches = epoch_batches(rng, n, BATCH, EPOCHS)[:MOST_STEPS]
            made = train_with_adam(net, self._inputs(history.X[:n]), standardised(history.y[:n]), batches, rate=RATE)
            self._trained = n, made
        net, targets = self._trained[1], standardised(history.y)
        return net, integrated_regression(net.last_hidden(self._inputs(history.X)), targets), targets

    def _recommend(self, history: History) -> Array:
        net, (w, _), _ = self._fit(history)
        return np.asarray(history.X[int(np.argmax(net.last_hidden(self._inputs(history.X)) @ w))])


def integrated_regression(phi: Array, y: Array) -> tuple[Array, Array]:
    """Mean (k) and covariance (k x k) of the weights of y = phi w + noise (phi n x k), alpha and s2 integrated out.

    In the eigenbasis of phi'phi, with eigenvalues l and b = V' phi' y, the weights have variance 1 / (l / s2 + alpha)
    and mean b / (l + alpha s2), and
        ln evidence = (k ln alpha - n ln s2 - sum ln(l / s2 + alpha) - (y'y - sum b^2 / (l + alpha s2)) / s2) / 2.
    """
    n, k = phi.shape
    eigenvalues, V = np.linalg.eigh(phi.T @ phi)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    b = V.T @ (phi.T @ y)
    alpha, s2 = (g.ravel()[:, None] for g in np.meshgrid(np.exp(LOG_ALPHA), np.exp(LOG_NOISE), indexing="ij"))
    variance = 1.0 / (eigenvalues / s2 + alpha)
    mean = b / (eigenvalues + alpha * s2)
    fit = (float(y @ y) - (b * mean).sum(1)) / s2[:, 0]
    evidence = 0.5 * (k * np.log(alpha[:, 0]) - n * np.log(s2[:, 0]) + np.log(variance).sum(1) - fit)
    # the reference code's prior: ln alpha ~ N(0, 1), ln s2 ~ N(-3, 1)
    evidence -= 0.5 * np.log(alpha[:, 0]) ** 2 + 0.5 * (np.log(s2[:, 0]) + 3) ** 2
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    centre = weight @ mean
    apart = mean - centre
    C = np.diag(weight @ variance) + (apart * weight[:, None]).T @ apart
    return V @ centre, V @ C @ V.T
