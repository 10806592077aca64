"""A user's `torch.nn.Module` as the net of NeuralBO's default (`trained.Trainable`); this file needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from regretless.basics.extras import optional
from regretless.models.tangent.module_tangent import ModuleTangent
from regretless.models.tangent.ntk import Factors, Tensor, WeightDirection

if TYPE_CHECKING:
    import torch
else:
    torch = optional("torch", "torch")


class ModuleNet(ModuleTangent):
    """h(x; theta) - h(x; theta0) of a module with one output per row; weights are torch tensors on its device."""

    def scaled(self, scale: float) -> Self | None:
        """None: a module reads its inputs as they are."""
        return None

    def first_outputs(self, X: Tensor) -> Tensor:
        with torch.no_grad():
            return self._given(self.outputs(self._start, X))

    def at_origin(self, X: Tensor, delta: WeightDirection) -> tuple[Tensor, Factors]:
        def h(theta: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.outputs(theta, X)

        moved = torch.func.jvp(h, (self._parameters,), (self._named(delta),))
        return self._given((moved[0] - moved[1]).detach()) - self.first_outputs(X), self.factors(X)

    def gradient(self, theta: WeightDirection, X: Tensor, y: Tensor) -> WeightDirection:
        return self.outputs_and_gradient(theta, X, y)[1]

    def _given(self, made: torch.Tensor) -> Tensor:
        """What the caller's arrays are: NumPy's on the CPU, torch's elsewhere."""
        return made.numpy() if self._device == "cpu" else made
