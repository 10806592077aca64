"""TrainNN as printed (Alg. 2), the paper's net, and the constants of its theorem."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regretless.basics.streams import Stream, keyed_generator
from regretless.models.tangent.ntk import Mlp
from regretless.models.tangent.training import Batches, descend, whole_epochs
from regretless.space.parameters import Array

RATE, BATCH, EPOCHS = 1e-3, 50, 50  # SGD's learning rate, batch and epochs (Sec. 7)
ALPHA = 0.1  # alpha of Theorem 1, one minus the probability of its bound; the paper leaves it open


@dataclass(frozen=True)
class Trained:
    """A net after its training."""

    h: Callable[[Array], Array]
    """h(x; theta) of inputs C x ..., C."""
    rate: float
    """The learning rate of the training, clipped to its stable limit."""
    asked: float
    """The learning rate asked for."""


class TrainNN:
    """Alg. 2: the net trained from theta0 by gradient steps on

        sum (h - y)^2 / 2 + m lam |theta - theta0|^2 / 2,                                              (Alg. 2, l. 1)

    of whose ridge a batch of b of n values has the share b / n. `steps` None: the SGD of Sec. 7; a number: J steps on
    all values (Thm. 1).
    """

    def __init__(self, net: Mlp, *, seed: int, lam: float, rate: float = RATE, steps: int | None = None) -> None:
        self.start = net
        """The net at theta0."""
        self._seed, self._rate, self._steps = seed, rate, steps
        self._ridge = len(net.weights[-1]) * lam

    def __call__(self, X: Array, y: Array) -> Trained:
        """Inputs X (n x q) and standardised values y (n) to the trained net."""
        batches = self._batches(len(y))
        made = descend(self.start, X, y, rate=self._rate, ridge=self._ridge, batches=batches, shared=True)
        return Trained(made.net.outputs, made.rate, made.asked)

    def _batches(self, n: int) -> list[Batches]:
        return sgd_batches(self._seed, n) if self._steps is None else [np.arange(n)] * self._steps


def sgd_batches(seed: int, n: int) -> list[Batches]:
    """The batches of SGD on n values."""
    return whole_epochs(keyed_generator(seed, n, Stream.NEURAL_BO_TRAINING), n, BATCH, EPOCHS)


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
