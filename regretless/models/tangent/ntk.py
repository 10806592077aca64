"""The neural tangent kernel of a finite net, for NeuralBO and the neural baselines.

The gradient of a fully connected net h(x; theta) in the weights of layer l is an outer product: what enters the layer
times how the output changes with what leaves it. So a gradient is kept as two short vectors per layer, its *factors*,
and never written down in p numbers. The kernel takes two matrix products per layer:

    k(x, x') = sum_l (in_l(x) . in_l(x')) * (out_l(x) . out_l(x')).

A linear function g(x) . w of the gradient costs O(inputs * width) per point. w is a point of weight space, a
*direction*; a posterior sample path is one.

Notation
    in_l, out_l     factors of layer l, n x inputs and n x outputs; `None` in place of out_l means 1 (the output layer)
    direction       one matrix (inputs x outputs) per layer, a vector for the output layer
    gain            every hidden layer's output is multiplied by it; 1/sqrt(m) with weights N(0, 1) makes a net of width
                    m linear in its weights as m grows, for every activation

Arrays are NumPy's or torch's alike; torch is asked for only where a device other than "cpu" is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from regretless.basics.extras import optional
from regretless.space.parameters import Array

Tensor: TypeAlias = Any  # A NumPy array or a torch tensor, float64
Factors: TypeAlias = tuple[tuple[Tensor, Tensor | None], ...]
WeightDirection: TypeAlias = tuple[Tensor, ...]

ROWS = 2048  # rows whose features are held at once: 2048 x 256 numbers per layer are 4 MB


# ---------------------------------------------------------------- arrays of two libraries


def namespace(x: Tensor) -> Any:
    """The library an array belongs to: numpy or torch."""
    return np if isinstance(x, np.ndarray) else optional("torch", "torch")


def on_device(values: Array, device: str) -> Tensor:
    """NumPy values as they are for "cpu", as a torch tensor elsewhere."""
    if device == "cpu":
        return values
    torch = optional("torch", "torch")
    return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float64, device=device)


def on_host(values: Tensor) -> Array:
    """As a NumPy array."""
    return np.asarray(values if isinstance(values, np.ndarray) else values.cpu().numpy())


def like(values: Array, other: Tensor) -> Tensor:
    """NumPy values where `other` lives."""
    return values if isinstance(other, np.ndarray) else other.new_tensor(np.ascontiguousarray(values))


ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "relu": (lambda u: u * (u > 0), lambda u: (u > 0) * 1.0),
    "softplus": (lambda u: namespace(u).logaddexp(2 * u, 0 * u) / 2, lambda u: 0.5 * (1 + namespace(u).tanh(u))),
    "tanh": (lambda u: namespace(u).tanh(u), lambda u: 1 - namespace(u).tanh(u) ** 2),
    "sin": (lambda u: namespace(u).sin(u), lambda u: namespace(u).cos(u)),
}
"""Name -> (function, derivative); softplus is log(1 + exp(2 u)) / 2."""


@dataclass(frozen=True)
class Mlp:
    """A fully connected net with scalar output. weights: one matrix (inputs x outputs) per hidden layer, then the
    output layer's vector; constant: per layer, whether a 1 is appended to what enters it (a bias)."""

    weights: tuple[Tensor, ...]
    constant: tuple[bool, ...]
    activation: str
    gain: float = 1.0
    output_gain: float = 1.0
    norm: float = 1.0  # the kernel and its features are divided by this and its root; outputs are not

    @property
    def features(self) -> int:
        """p, the number of weights and of entries of a gradient."""
        return sum(math.prod(W.shape) for W in self.weights)

    def at(self, weights: tuple[Tensor, ...]) -> Mlp:
        """The same net at other weights."""
        return replace(self, weights=weights)

    def to(self, device: str) -> Mlp:
        """The same net with its weights there ("cpu" is NumPy)."""
        return self.at(tuple(on_device(W, device) for W in self.weights))

    def outputs(self, X: Tensor) -> Tensor:
        """h(x), n."""
        return self.last_hidden(X) @ self.weights[-1] * self.output_gain

    def last_hidden(self, X: Tensor) -> Tensor:
        """What enters the output layer, n x width (and the appended 1)."""
        phi, _ = ACTIVATIONS[self.activation]
        h = X
        for W, one in zip(self.weights[:-1], self.constant[:-1]):
            h = phi(_with_one(h, one) @ W) * self.gain
        return _with_one(h, self.constant[-1])

    def factors(self, X: Tensor) -> Factors:
        """The gradient of h at each row of X (n x d), as factors."""
        return self.outputs_and_factors(X)[1]

    def outputs_and_factors(self, X: Tensor) -> tuple[Tensor, Factors]:
        """h(x) (n) and its gradients: one pass forwards, one backwards."""
        phi, slope = ACTIVATIONS[self.activation]
        entering, slopes = [], []
        h = X
        for W, one in zip(self.weights[:-1], self.constant[:-1]):
            entering.append(_with_one(h, one))
            u = entering[-1] @ W
            h, s = phi(u), slope(u)
            if self.gain != 1.0:
                h, s = h * self.gain, s * self.gain
            slopes.append(s)
        last = _with_one(h, self.constant[-1])
        felt: list[Tensor] = []
        back: Tensor = None
        for layer in range(len(slopes) - 1, -1, -1):
            above = self.weights[layer + 1]
            width = slopes[layer].shape[1]
            back = slopes[layer] * (above[:width] * self.output_gain if back is None else back @ above[:width].T)
            felt.append(back)
        shrink = self.norm**-0.5
        pairs: list[tuple[Tensor, Tensor | None]] = [(e * shrink, f) for e, f in zip(entering, reversed(felt))]
        return last @ self.weights[-1] * self.output_gain, (*pairs, (last * (self.output_gain * shrink), None))

    def random_direction(self, rng: np.random.Generator) -> WeightDirection:
        """A standard normal point of weight space: g(x) . w is then a draw from the prior with this kernel."""
        return tuple(like(rng.standard_normal(tuple(W.shape)), W) for W in self.weights)


TAIL = 5
"""Degrees of freedom of the frequencies' Student law, with which the kernel of sine units is Matern-5/2."""


def draw_mlp(
    rng: np.random.Generator,
    inputs: int,
    *,
    width: int,
    depth: int = 2,
    activation: str = "sin",
    constant: bool = True,
    tail: float | None = None,
) -> Mlp:
    """A net of `depth` layers with N(0, 1) weights and gain 1/sqrt(width).

    With a `tail` each first-layer unit's input weights follow a Student law of so many degrees of freedom: sine units
    then have the spectrum of a Matern kernel of order tail / 2. A sine's bias is a phase, uniform on the circle, so
    that its kernel does not depend on the origin. The mirrored net [f(x; theta+) - f(x; theta-)] / sqrt(2), both halves
    at these weights, has output 0 and the kernel of f.
    """
    if activation not in ACTIVATIONS:
        known = f"activation must be one of {sorted(ACTIVATIONS)}"
        raise ValueError(f"{known}, got {activation!r}; for others give a network of your own")
    shapes: list[tuple[int, ...]] = [(inputs + constant, width), *[(width + constant, width)] * (depth - 2), (width,)]
    weights = [rng.standard_normal(shape) for shape in shapes]
    if activation == "sin" and constant:
        for W in weights[:-1]:
            W[-1] = rng.uniform(0, 2 * np.pi, width)
    if tail is not None:
        weights[0][:inputs] /= np.sqrt(rng.chisquare(tail, width) / tail)
    return Mlp(tuple(weights), (*[constant] * (depth - 1), False), activation, gain=width**-0.5)


# ---------------------------------------------------------------- algebra of factors


def kernel(A: Factors, B: Factors) -> Tensor:
    """k between the rows of A and of B, n x n'."""
    total: Tensor = None
    for (a_in, a_out), (b_in, b_out) in zip(A, B):
        term = a_in @ b_in.T
        if a_out is not None and b_out is not None:
            term = term * (a_out @ b_out.T)
        total = term if total is None else total + term
    return total


def diagonal(A: Factors) -> Tensor:
    """k(x, x) of each row, n."""
    return sum((a_in**2).sum(1) * (1.0 if a_out is None else (a_out**2).sum(1)) for a_in, a_out in A)


def inner(A: Factors, w: WeightDirection) -> Tensor:
    """g(x) . w of each row, n: the value of a linear function of the gradient."""
    return sum(a_in @ v if a_out is None else ((a_in @ v) * a_out).sum(1) for (a_in, a_out), v in zip(A, w))


def combine(A: Factors, beta: Tensor) -> WeightDirection:
    """sum_i beta_i g(x_i), a direction; with residuals as beta it is the gradient of half the squared error."""
    return tuple(beta @ a_in if a_out is None else (a_in * beta[:, None]).T @ a_out for a_in, a_out in A)


def dense(A: Factors) -> Tensor:
    """The gradients themselves, n x p: for nets of few weights, or few rows at a time."""

    def product(a_in: Tensor, a_out: Tensor | None) -> Tensor:
        return a_in if a_out is None else (a_in[:, :, None] * a_out[:, None, :]).reshape(len(a_in), -1)

    parts = [product(*pair) for pair in A]
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concatenate(parts, 1)


def rows_of(A: Factors, rows: slice) -> Factors:
    """Some rows of every factor."""
    return tuple((a_in[rows], None if a_out is None else a_out[rows]) for a_in, a_out in A)


def _with_one(h: Tensor, one: bool) -> Tensor:
    if not one:
        return h
    if isinstance(h, np.ndarray):
        wide = np.empty((len(h), h.shape[1] + 1))
        wide[:, :-1] = h
        wide[:, -1] = 1.0
        return wide
    return namespace(h).nn.functional.pad(h, (0, 1), value=1.0)
