"""An ordinary fully connected net in PyTorch's default parametrisation, trained by Adam from a fresh start: what the
neural baselines share."""

from __future__ import annotations

import itertools

import numpy as np

from regretless.parameters import Array
from regretless.tangent.ntk import Mlp
from regretless.tangent.training import Adam, Batches


def fresh_net(rng: np.random.Generator, inputs: int, hidden: tuple[int, ...], activation: str) -> Mlp:
    """A net with biases whose weights are uniform within 1/sqrt(fan-in), PyTorch's default."""
    sizes = (inputs, *hidden)
    weights = [rng.uniform(-1, 1, (a + 1, b)) * a**-0.5 for a, b in itertools.pairwise(sizes)]
    weights.append(rng.uniform(-1, 1, hidden[-1] + 1) * hidden[-1] ** -0.5)
    return Mlp(tuple(weights), (True,) * len(sizes), activation)


def trained(net: Mlp, X: Array, y: Array, batches: Batches, *, rate: float, decay: float = 0.0) -> Mlp:
    """The net after one Adam step per row of `batches` (indices of rows of X) on the mean squared error."""
    adam = Adam(net, rate=rate, decay=decay)
    for rows in batches:
        adam.step(X[rows], y[rows])
    return adam.net
