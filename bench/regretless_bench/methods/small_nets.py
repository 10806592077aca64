"""Small fully connected nets with biases, trained by Adam, for the rivals on nets."""

import itertools
from dataclasses import replace

import numpy as np

from regretless.models.tangent.ntk import ACTIVATIONS, Mlp, Tensor, combine
from regretless.models.tangent.training import NEW_MEAN, NEW_SQUARE, TINY, Batches
from regretless.space.parameters import Array


def fresh_net(rng: np.random.Generator, inputs: int, hidden: tuple[int, ...], activation: str) -> Mlp:
    """A net with biases whose weights are uniform within 1/sqrt(fan-in), PyTorch's default."""
    sizes = (inputs, *hidden)
    weights = [rng.uniform(-1, 1, (a + 1, b)) * a**-0.5 for a, b in itertools.pairwise(sizes)]
    weights.append(rng.uniform(-1, 1, hidden[-1] + 1) * hidden[-1] ** -0.5)
    return Mlp(tuple(weights), (True,) * len(sizes), activation)


def scheduled_size(n: int, *, first: int, growth: float) -> int:
    """The largest size of at most n of `first`, then each time `growth` times as many; `first` when n is less."""
    size = first
    while int(size * growth) + 1 <= n:
        size = int(size * growth) + 1
    return size


def epoch_batches(rng: np.random.Generator, n: int, size: int, epochs: int) -> Batches:
    """Index rows of `epochs` passes over n points, steps x min(size, n); incomplete last batches are dropped."""
    size = min(size, n)
    whole = n // size
    passes = [rng.permutation(n)[: whole * size].reshape(whole, size) for _ in range(epochs)]
    return np.concatenate(passes).astype(np.int64)


def train_with_adam(net: Mlp, X: Array, y: Array, batches: Batches, *, rate: float, decay: float = 0.0) -> Mlp:
    """The net after one Adam step on the mean squared error per row of `batches`, with L2 decay as in PyTorch."""
    shapes = [W.shape for W in net.weights]
    edges = np.cumsum([0, *(W.size for W in net.weights)])
    flat = np.concatenate([W.ravel() for W in net.weights])
    mean, square = np.zeros_like(flat), np.zeros_like(flat)

    def at(flat: Array) -> Mlp:
        return net.at(tuple(flat[a:b].reshape(shape) for a, b, shape in zip(edges, edges[1:], shapes)))

    for t, rows in enumerate(batches, start=1):
        h, A = at(flat).outputs_and_factors(X[rows])
        gradient = np.concatenate([g.ravel() for g in combine(A, (2.0 / len(rows)) * (h - y[rows]))])
        if decay:
            gradient += decay * flat
        mean += NEW_MEAN * (gradient - mean)
        square += NEW_SQUARE * (gradient**2 - square)
        spread = np.sqrt(square / (1 - (1 - NEW_SQUARE) ** t)) + TINY
        flat = flat - (rate / (1 - (1 - NEW_MEAN) ** t)) * mean / spread
    return at(flat)


def input_gradient(net: Mlp, X: Tensor, cotangent: Tensor) -> Tensor:
    """The gradient in x of cotangent . last_hidden(x), the cotangent (n x width, or width) held fixed, n x d."""
    _, slope = ACTIVATIONS[net.activation]
    _, factors = replace(net, norm=1.0).outputs_and_factors(X)
    back = cotangent
    for layer in range(len(net.weights) - 2, -1, -1):
        W, entering = net.weights[layer], factors[layer][0]
        width = W.shape[0] - net.constant[layer]
        back = (back[..., : W.shape[1]] * slope(entering @ W) * net.gain) @ W[:width].T
    return back
