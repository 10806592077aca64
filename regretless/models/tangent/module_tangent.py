"""The tangent features of a user's `torch.nn.Module`, by per-sample gradients (`torch.func`); this file needs torch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Self

from numpy.random import Generator

from regretless.basics.extras import optional
from regretless.models.tangent.ntk import Factors, Tensor, WeightDirection, diagonal

if TYPE_CHECKING:
    import torch
else:
    torch = optional("torch", "torch")

BUCKETS = 8192  # gradients of larger modules are hashed into this many numbers (Weinberger et al., ICML 2009)


class ModuleTangent:
    """The gradient of h(x; theta) - h(x; theta0) at its start, for a module with one output per row, as the factors of
    a single layer; the kernel is divided by its mean diagonal over `domain` (n x ...)."""

    def __init__(self, network: torch.nn.Module, domain: Tensor, rng: Generator, *, device: str = "cpu") -> None:
        self._network = copy.deepcopy(network).to(device=device, dtype=torch.float64).eval()
        self._start = self._parameters = {name: p.detach() for name, p in self._network.named_parameters()}
        self._buffers = dict(self._network.named_buffers())
        self._device = device
        size = sum(p.numel() for p in self._parameters.values())
        if size == 0:
            raise ValueError("network has no parameters: its tangent kernel is zero")
        self.features = min(size, BUCKETS)  # the length of a feature vector
        self.norm = 1.0  # the mean of |g|^2 over the domain, by which the kernel is divided
        self._hash: tuple[torch.Tensor, torch.Tensor] | None = None
        if size > BUCKETS:
            signs = torch.as_tensor(rng.choice([-1.0, 1.0], size), device=device)
            self._hash = torch.as_tensor(rng.integers(BUCKETS, size=size), device=device), signs

        def output(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = torch.func.functional_call(self._network, (parameters, self._buffers), (x[None],))
            if made.numel() != 1:
                raise ValueError(f"network must give one number per row, got {made.numel()}")
            return made.reshape(())

        self._gradients = torch.func.vmap(torch.func.grad(output), in_dims=(None, 0))
        self._domain = domain
        self.norm = float(diagonal(self.factors(domain)).mean()) or 1.0

    def at(self, theta: WeightDirection) -> Self:
        """The same module at other weights."""
        other = copy.copy(self)
        other._parameters, other.norm = self._named(theta), 1.0
        other.norm = float(diagonal(other.factors(self._domain)).mean()) or 1.0
        return other

    def start(self) -> WeightDirection:
        """theta0."""
        return tuple(self._start.values())

    def _named(self, theta: WeightDirection) -> dict[str, torch.Tensor]:
        return dict(zip(self._start, theta, strict=True))

    def tensor(self, values: Tensor) -> torch.Tensor:
        """Arrays as the module reads them."""
        return torch.as_tensor(values, dtype=torch.float64, device=self._device)

    def outputs(self, theta: dict[str, torch.Tensor] | WeightDirection, X: Tensor) -> torch.Tensor:
        """h(x; theta) of every row, n."""
        named = theta if isinstance(theta, dict) else self._named(theta)
        made: torch.Tensor = torch.func.functional_call(self._network, (named, self._buffers), (self.tensor(X),))
        return made.reshape(len(X))

    def outputs_and_gradient(
        self, theta: WeightDirection, X: Tensor, y: Tensor
    ) -> tuple[torch.Tensor, WeightDirection]:
        """h(x; theta), n, and the gradient in theta of sum (h(x; theta) - y)^2 / 2."""
        at = [weights.detach().requires_grad_(True) for weights in theta]
        h = self.outputs(tuple(at), X)
        return h.detach(), torch.autograd.grad(0.5 * ((h - self.tensor(y)) ** 2).sum(), at)

    def factors(self, X: Tensor) -> Factors:
        """Gradients at these weights over the root of the norm, n x features."""
        gradient_rows = 64  # rows of per-sample gradients taken at once: the widest temporary holds 64 x p numbers
        X = self.tensor(X)
        rows = [torch.zeros(0, self.features, dtype=torch.float64, device=self._device)]
        for start in range(0, len(X), gradient_rows):
            made = self._gradients(self._parameters, X[start : start + gradient_rows])
            G = torch.cat([g.reshape(len(g), -1) for g in made.values()], dim=1)
            if self._hash is not None:
                where, signs = self._hash
                G = torch.zeros(len(G), BUCKETS, dtype=G.dtype, device=G.device).index_add_(1, where, G * signs)
            rows.append(G)
        G = torch.cat(rows) * self.norm**-0.5
        return ((G.numpy() if self._device == "cpu" else G, None),)

    def random_direction(self, rng: Generator) -> WeightDirection:
        """A standard normal point of feature space."""
        w = rng.standard_normal(self.features)
        return (w if self._device == "cpu" else torch.as_tensor(w, device=self._device),)
