"""TrainNN as printed (preset="paper"), the paper's net, and the constants of its theorem."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from regretless.method import keyed_generator
from regretless.methods.neural_bo.uncertainty import Uncertainty
from regretless.parameters import Array
from regretless.streams import Stream
from regretless.tangent.method import Path
from regretless.tangent.ntk import Mlp
from regretless.tangent.training import Batches, Descent, descend, whole_epochs
from regretless.tangent.values import Scale

PAPER_RATE, PAPER_BATCH, PAPER_EPOCHS = 1e-3, 50, 50  # SGD's learning rate, batch and epochs (Sec. 7)
ALPHA = 0.1  # alpha of Theorem 1, one minus the probability of its bound; the paper leaves it open


class Trained(ABC):
    """A net trained by gradient steps, and sigma of its features at theta0; a subclass knows the net."""

    def __init__(self, posterior: Uncertainty, *, seed: int, lam: float) -> None:
        self._posterior, self._seed, self._lam = posterior, seed, lam
        self._scale = Scale()
        self._trained = 0

    def refresh(self, X: Array, y: Array, yvar: Array) -> None:
        """Takes the history: inputs n x ... and values n; the paper knows no noise variances (yvar)."""
        if len(y) == self._trained:
            return
        self._scale = Scale.of(y)
        targets = self._scale.targets(y)
        self._posterior.extend(X, targets)
        self._train(X, targets)
        self._trained = len(y)

    def draw(self, nu: float, rng: np.random.Generator) -> Path:
        """f(x) ~ N(h(x; theta), nu^2 sigma^2(x)) for each x by itself (Alg. 1, l. 4)."""
        return lambda Z: self._outputs(Z) + nu * self._deviation(Z) * rng.standard_normal(len(Z))

    def mean(self, Z: Array) -> Array:
        """The trained net, in the units told, C."""
        return self._scale.values(self._outputs(Z))

    @abstractmethod
    def _train(self, X: Array, targets: Array) -> None:
        """Trains from theta0 (Alg. 2)."""

    @abstractmethod
    def _outputs(self, Z: Array) -> Array:
        """h(x; theta), C."""

    @abstractmethod
    def _deviation(self, Z: Array) -> Array:
        """sigma(x), C."""


class TrainNN(Trained):
    """Alg. 1 and 2: the mean is the net trained by gradient steps from theta0, sigma that of the features at theta0.

    The objective is sum (h - y)^2 / 2 + m lam |theta - theta0|^2 / 2 (Alg. 2, l. 1): a batch of b of n values has the
    share b / n of its ridge. `steps` None: the SGD of Sec. 7; a number: as many steps on all values (Thm. 1).
    """

    def __init__(self, net: Mlp, *, seed: int, lam: float, rate: float = PAPER_RATE, steps: int | None = None) -> None:
        super().__init__(Uncertainty(net, lam, net.features), seed=seed, lam=lam)
        self._net, self._rate, self._steps = net, rate, steps
        self.descent: Descent | None = None

    def _train(self, X: Array, targets: Array) -> None:
        width = len(self._net.weights[-1])
        ridge, batches = width * self._lam, self._batches(len(targets))
        self.descent = descend(self._net, X, targets, rate=self._rate, ridge=ridge, batches=batches, shared=True)

    def _batches(self, n: int) -> list[Batches]:
        if self._steps is not None:
            return [np.arange(n)] * self._steps
        rng = keyed_generator(self._seed, n, Stream.NEURAL_BO_TRAINING)
        return whole_epochs(rng, n, PAPER_BATCH, PAPER_EPOCHS)

    def _outputs(self, Z: Array) -> Array:
        assert self.descent is not None
        return np.asarray(self.descent.net.outputs(Z))

    def _deviation(self, Z: Array) -> Array:
        return np.asarray(self._posterior.deviation(self._net.factors(Z)))


def paper_net(
    rng: np.random.Generator, inputs: int, width: int, depth: int, *, variance: float = 1.0, zero: bool = False
) -> Mlp:
    """sqrt(m) W_L relu(... relu(W_1 x)), every weight N(0, variance / m), no bias; features g / sqrt(m). The
    experiments have variance 1 (Sec. 7), the theorem 2 and a last layer that is zero, so that h(x; theta0) = 0 (Sec.
    4)."""
    shapes: list[tuple[int, ...]] = [(inputs, width), *[(width, width)] * (depth - 2), (width,)]
    weights = [rng.standard_normal(shape) * (variance / width) ** 0.5 for shape in shapes]
    weights[-1] *= 0.0 if zero else 1.0
    return Mlp(tuple(weights), (False,) * depth, "relu", output_gain=width**0.5, norm=float(width))


class TheoremConstants(NamedTuple):
    """lam, eta and J of Theorem 1."""

    lam: float
    rate: float
    steps: int


def theorem_constants(T: int, width: int, depth: int, alpha: float = ALPHA) -> TheoremConstants:
    """lam = 1 + 1/T, eta = 1 / (m lam + m L T), J = (1 + L T / lam) (1 + log(T^3 L log(1/alpha) / lam)) (Thm. 1; the
    power of T is that of Zhang et al., ICLR 2021, which the theorem follows)."""
    lam = 1 + 1 / T
    steps = (1 + depth * T / lam) * (1 + math.log(T**3 * depth * math.log(1 / alpha) / lam))
    return TheoremConstants(lam, 1 / (width * lam + width * depth * T), math.ceil(steps))
