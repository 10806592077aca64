"""The neural tangent kernel of a finite net in closed form, without ever writing down a p-dimensional gradient.

For a fully connected net h(x; theta) the gradient with respect to layer l is an outer product: what enters the layer
times how much the output feels what leaves it. So the gradient of a point is a pair of short vectors per layer (its
*factors*), the kernel is

    k(x, x') = sum_l (in_l(x) . in_l(x')) * (out_l(x) . out_l(x')),

two matrix products per layer, and a linear function g(x) . w of the gradient is a weight-space direction applied in
O(inputs * width). A posterior sample path is such a direction: drawing it costs what the data cost, evaluating it does
not depend on their number.

Notation
    in_l, out_l     factors of layer l, n x inputs and n x outputs; `None` in place of out_l means 1 (the layer gives the output itself)
    direction       one matrix (inputs x outputs) per layer, a vector for a layer with out_l = 1: a point of weight space
    gain            every hidden layer's output is multiplied by it; gain 1/sqrt(m) with weights N(0, 1) and the paper's sqrt(m) W_L phi(W x)
                    with weights N(0, 1/m) have the same kernel <g, g'>/m for ReLU; for others the former does not
                    linearise as m grows

Arrays are NumPy's or torch's alike: every function below uses only what both spell the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from regretless.parameters import Array

if TYPE_CHECKING:
    import torch

Tensor: TypeAlias = Any
"""A NumPy array or a torch tensor, float64."""
Factors: TypeAlias = tuple[tuple[Tensor, Tensor | None], ...]
Direction: TypeAlias = tuple[Tensor, ...]

BUCKETS = 8192
"""Gradients of a module with more parameters than this are hashed into this many numbers (Weinberger et al., ICML 2009:
unbiased)."""
GRADIENT_ROWS = 64
"""Rows of per-sample gradients taken at once: 64 x p numbers is what the widest temporary holds."""


# ---------------------------------------------------------------- activations


def namespace(x: Tensor) -> Any:
    """The library an array belongs to: numpy or torch."""
    if isinstance(x, np.ndarray):
        return np
    import torch

    return torch


def on_device(values: Array, device: str) -> Tensor:
    """NumPy values as they are for "cpu", as a torch tensor elsewhere."""
    if device == "cpu":
        return values
    import torch

    return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float64, device=device)


def on_host(values: Tensor) -> Array:
    """As a NumPy array."""
    made: Array = values if isinstance(values, np.ndarray) else values.cpu().numpy()
    return made


def like(values: Array, other: Tensor) -> Tensor:
    """NumPy values where `other` lives."""
    return values if isinstance(other, np.ndarray) else other.new_tensor(np.ascontiguousarray(values))


def _logistic(u: Tensor) -> Tensor:
    return 0.5 * (1 + namespace(u).tanh(0.5 * u))


ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "relu": (lambda u: u * (u > 0), lambda u: (u > 0) * 1.0),
    "softplus": (lambda u: namespace(u).logaddexp(2 * u, 0 * u) / 2, lambda u: _logistic(2 * u)),
    "tanh": (lambda u: namespace(u).tanh(u), lambda u: 1 - namespace(u).tanh(u) ** 2),
    "sin": (lambda u: namespace(u).sin(u), lambda u: namespace(u).cos(u)),
    "silu": (lambda u: u * _logistic(u), lambda u: _logistic(u) * (1 + u * (1 - _logistic(u)))),
}
"""Name -> (function, derivative); softplus is log(1 + exp(2 u)) / 2."""


# ---------------------------------------------------------------- the fully connected net


@dataclass(frozen=True)
class Mlp:
    """A fully connected net with scalar output at given weights.

    weights: one matrix (inputs x outputs) per hidden layer, then the output layer's vector.
    constant: per layer, whether a 1 is appended to what enters it (a bias).
    """

    weights: tuple[Tensor, ...]
    constant: tuple[bool, ...]
    activation: str
    gain: float = 1.0
    output_gain: float = 1.0
    norm: float = 1.0
    """The kernel and its features are divided by this and its root; outputs are not."""

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

    def input_gradient(self, X: Tensor, cotangent: Tensor) -> Tensor:
        """The gradient in x of cotangent . last_hidden(x), the cotangent (n x width, or width) held fixed, n x d."""
        _, slope = ACTIVATIONS[self.activation]
        _, factors = replace(self, norm=1.0).outputs_and_factors(X)
        back = cotangent
        for layer in range(len(self.weights) - 2, -1, -1):
            W, entering = self.weights[layer], factors[layer][0]
            width = W.shape[0] - self.constant[layer]
            back = (back[..., : W.shape[1]] * slope(entering @ W) * self.gain) @ W[:width].T
        return back

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

    def random_direction(self, rng: np.random.Generator) -> Direction:
        """A standard normal point of weight space: g(x) . w is then a draw from the prior with this kernel."""
        return tuple(like(rng.standard_normal(tuple(W.shape)), W) for W in self.weights)


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

    tail: each first-layer unit's input weights follow a Student law of so many degrees of freedom instead of the normal
        one: sines of many
    frequencies at once, the spectrum of a Matern kernel of order tail / 2.

    A sine's bias is a phase, uniform on the circle, so that its kernel does not depend on where the origin is.
    Mirrored, as [f(x; theta+) - f(x; theta-)] / sqrt(2) with both halves at these weights (`mirrored_outputs`), its
    output is 0 exactly and its kernel is f's own: whoever needs only the kernel of the mirrored net works with f.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}; other functions come with a network of your own"
        )
    if depth < 2 or width < 1:
        raise ValueError(
            f"the net needs a depth of at least 2 and a width of at least 1, got depth={depth!r}, width={width!r}"
        )
    shapes: list[tuple[int, ...]] = [(inputs + constant, width), *[(width + constant, width)] * (depth - 2), (width,)]
    weights = [rng.standard_normal(shape) for shape in shapes]
    if activation == "sin" and constant:
        for W in weights[:-1]:
            W[-1] = rng.uniform(0, 2 * np.pi, width)
    if tail is not None:
        weights[0][:inputs] /= np.sqrt(rng.chisquare(tail, width) / tail)
    return Mlp(tuple(weights), (*[constant] * (depth - 1), False), activation, gain=width**-0.5)


def mirrored_outputs(net: Mlp, plus: tuple[Tensor, ...], minus: tuple[Tensor, ...], X: Tensor) -> Tensor:
    """[f(x; plus) - f(x; minus)] / sqrt(2): exactly 0 where both halves agree, n."""
    return (net.at(plus).outputs(X) - net.at(minus).outputs(X)) * 0.5**0.5


# ---------------------------------------------------------------- any module


class ModuleTangent:
    """The tangent features of any `torch.nn.Module` with one output per row, by per-sample gradients (`torch.func`).

    The net meant is h(x; theta) - h(x; theta0), which is 0 at the start as the mirrored one is. Modules of more than
    BUCKETS parameters have their gradients hashed: the kernel stays unbiased and memory stays n x BUCKETS.
    """

    def __init__(self, network: torch.nn.Module, rng: np.random.Generator, *, device: str = "cpu") -> None:
        import copy

        import torch

        self._network = copy.deepcopy(network).to(device=device, dtype=torch.float64).eval()
        self._parameters = {name: p.detach() for name, p in self._network.named_parameters()}
        self._buffers = dict(self._network.named_buffers())
        self.size = sum(p.numel() for p in self._parameters.values())
        """The number of parameters."""
        if self.size == 0:
            raise ValueError("network has no parameters: its tangent kernel is zero")
        self._device = device
        self.norm = 1.0
        self._hash: tuple[torch.Tensor, torch.Tensor] | None = None
        if self.size > BUCKETS:
            signs = torch.as_tensor(rng.choice([-1.0, 1.0], self.size), device=device)
            self._hash = torch.as_tensor(rng.integers(BUCKETS, size=self.size), device=device), signs

        def output(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = torch.func.functional_call(self._network, (parameters, self._buffers), (x[None],))
            if made.numel() != 1:
                raise ValueError(f"network must give one number per row, got {made.numel()}")
            return made.reshape(())

        self._gradients = torch.func.vmap(torch.func.grad(output), in_dims=(None, 0))

    @property
    def features(self) -> int:
        """The length of a feature vector."""
        return self.size if self._hash is None else BUCKETS

    def factors(self, X: Tensor) -> Factors:
        """Gradients at theta0 over sqrt(norm), n x features, as the factors of a single layer."""
        import torch

        X = torch.as_tensor(X, dtype=torch.float64, device=self._device)
        rows = []
        for start in range(0, len(X), GRADIENT_ROWS):
            made = self._gradients(self._parameters, X[start : start + GRADIENT_ROWS])
            G = torch.cat([g.reshape(len(g), -1) for g in made.values()], dim=1)
            if self._hash is not None:
                where, signs = self._hash
                G = torch.zeros(len(G), BUCKETS, dtype=G.dtype, device=G.device).index_add_(1, where, G * signs)
            rows.append(G)
        G = (
            torch.cat(rows) * self.norm**-0.5
            if rows
            else torch.zeros(0, self.features, dtype=torch.float64, device=self._device)
        )
        return ((G.numpy() if self._device == "cpu" else G, None),)

    def random_direction(self, rng: np.random.Generator) -> Direction:
        import torch

        w = rng.standard_normal(self.features)
        return (w if self._device == "cpu" else torch.as_tensor(w, device=self._device),)


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


def along(A: Factors, w: Direction) -> Tensor:
    """g(x) . w of each row, n: the value of a linear function of the gradient."""
    return sum(a_in @ v if a_out is None else ((a_in @ v) * a_out).sum(1) for (a_in, a_out), v in zip(A, w))


def combine(A: Factors, beta: Tensor) -> Direction:
    """sum_i beta_i g(x_i), a direction; with residuals as beta it is the gradient of half the squared error."""
    return tuple(beta @ a_in if a_out is None else (a_in * beta[:, None]).T @ a_out for a_in, a_out in A)


def plus(v: Direction, w: Direction, scale: float = 1.0) -> Direction:
    """v + scale * w, layer by layer."""
    return tuple(a + scale * b for a, b in zip(v, w))


def flat_features(A: Factors) -> Tensor:
    """The gradients written out, n x p, in the order of the directions: the feature form, for checks and small nets."""
    columns = [
        a_in if a_out is None else (a_in[:, :, None] * a_out[:, None, :]).reshape(len(a_in), -1) for a_in, a_out in A
    ]
    return namespace(columns[0]).concatenate(columns, 1)


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
