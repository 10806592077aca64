"""A user's `torch.nn.Module` as the net of NeuralBO's default (`trained.Trainable`); this file needs torch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from regretless.extras import optional
from regretless.tangent.module_tangent import ModuleTangent
from regretless.tangent.ntk import Direction, Factors, Tensor

if TYPE_CHECKING:
    import torch
else:
    torch = optional("torch", "torch")


class ModuleNet:
    """h(x; theta) - h(x; theta0) of a module with one output per row; weights are torch tensors on its device."""

    def __init__(
        self, network: torch.nn.Module, domain: Tensor, rng: np.random.Generator, *, device: str = "cpu"
    ) -> None:
        self._tangent, self._device = ModuleTangent(network, domain, rng, device=device), device
        self._start = self._tangent.start()

    @property
    def norm(self) -> float:
        return self._tangent.norm

    def start(self) -> Direction:
        return tuple(self._start.values())

    def at(self, theta: Direction) -> ModuleNet:
        other = copy.copy(self)
        other._tangent = self._tangent.at(self._named(theta))
        return other

    def scaled(self, scale: float) -> ModuleNet | None:
        """None: a module reads its inputs as they are."""
        return None

    def factors(self, X: Tensor) -> Factors:
        return self._tangent.factors(X)

    def random_direction(self, rng: np.random.Generator) -> Direction:
        return self._tangent.random_direction(rng)

    def first_outputs(self, X: Tensor) -> Tensor:
        with torch.no_grad():
            return self._given(self._tangent.outputs(self._start, self._rows(X)))

    def at_origin(self, X: Tensor, delta: Direction) -> tuple[Tensor, Factors]:
        rows, at, along = self._rows(X), self._tangent.start(), self._named(delta)
        moved = torch.func.jvp(lambda theta: self._tangent.outputs(theta, rows), (at,), (along,))
        return self._given((moved[0] - moved[1]).detach()) - self.first_outputs(X), self.factors(X)

    def gradient(self, theta: Direction, X: Tensor, y: Tensor) -> Direction:
        at = {name: value.detach().requires_grad_(True) for name, value in self._named(theta).items()}
        off = self._tangent.outputs(at, self._rows(X)) - self._rows(y)
        made: tuple[torch.Tensor, ...] = torch.autograd.grad(0.5 * (off**2).sum(), list(at.values()))
        return made

    def _named(self, theta: Direction) -> dict[str, torch.Tensor]:
        return dict(zip(self._start, theta, strict=True))

    def _rows(self, X: Tensor) -> torch.Tensor:
        return torch.as_tensor(X, dtype=torch.float64, device=self._device)

    def _given(self, made: torch.Tensor) -> Tensor:
        """What the caller's arrays are: NumPy's on the CPU, torch's elsewhere."""
        return made.numpy() if self._device == "cpu" else made
