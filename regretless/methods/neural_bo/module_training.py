"""TrainNN for a user's `torch.nn.Module`, on any device (Alg. 2); this file needs torch.

As `train_nn.TrainNN`, with the module's own theta0. What the paper calls m, the width, is the factor between its
features g / sqrt(m) and the gradients; here it is the mean of |g|^2 over the domain, so that the kernel has unit size
and lam means the same for every module.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from regretless.basics.extras import optional
from regretless.methods.neural_bo.train_nn import BATCH, RATE, Trained, sgd_batches
from regretless.models.tangent.module_tangent import ModuleTangent
from regretless.models.tangent.ntk import ROWS, WeightDirection, kernel, on_host
from regretless.models.tangent.training import HALVINGS, RUNAWAY, Batches, largest_eigenvalue
from regretless.space.parameters import Array

if TYPE_CHECKING:
    import torch
else:
    torch = optional("torch", "torch")


class ModuleTrainNN:
    """The module trained by SGD from theta0 on sum (h - y)^2 / 2 + m lam |theta - theta0|^2 / 2 (Alg. 2)."""

    def __init__(
        self,
        network: torch.nn.Module,
        domain: Array,
        rng: np.random.Generator,
        *,
        seed: int,
        lam: float,
        device: str = "cpu",
    ) -> None:
        self.start = ModuleTangent(network, domain, rng, device=device)
        """The module at theta0."""
        self._seed, self._lam = seed, lam

    def __call__(self, X: Array, y: Array) -> Trained:
        """Inputs X (n x ...) and standardised values y (n) to the trained module."""
        inputs, targets = self.start.tensor(X), self.start.tensor(y)
        batches = sgd_batches(self._seed, len(y))
        rate = self._stable_rate(inputs)
        first = self.start.outputs(self.start.start(), inputs)
        limit = RUNAWAY * (1.0 + float(targets.abs().max()) + float(first.abs().max()))
        for _ in range(HALVINGS):
            theta = self._descended(inputs, targets, batches, rate, limit)
            if theta is not None:
                return Trained(partial(self._outputs, theta), rate, RATE)
            rate /= 2
        raise FloatingPointError("training diverges at every learning rate; are the inputs finite?")

    def _descended(
        self, X: torch.Tensor, y: torch.Tensor, batches: list[Batches], rate: float, limit: float
    ) -> WeightDirection | None:
        """theta after one step per batch; None once an output leaves the limit."""
        theta = first = self.start.start()
        for rows in batches:
            h, step = self.start.outputs_and_gradient(theta, X[rows], y[rows])
            if not float(h.abs().max()) < limit:
                return None
            pull = self.start.norm * self._lam * len(rows) / len(y)
            steps = zip(theta, step, first, strict=True)
            theta = tuple(w - rate * (g + pull * (w - w0)) for w, g, w0 in steps)
        return theta

    def _stable_rate(self, X: torch.Tensor) -> float:
        """The learning rate clipped to its stable limit."""
        norm, share = self.start.norm, min(BATCH, len(X)) / len(X)
        largest = norm * self._largest_eigenvalue(X)
        return min(RATE, 1.0 / (share * (largest + norm * self._lam)))

    def _largest_eigenvalue(self, X: torch.Tensor) -> float:
        """Of the kernel matrix, n x n, which is held only while it is the smaller."""
        if len(X) > min(self.start.features, ROWS):
            return largest_eigenvalue(self.start, X)
        A = self.start.factors(X)
        return float(np.linalg.norm(on_host(kernel(A, A)), 2))

    def _outputs(self, theta: WeightDirection, Z: Array) -> Array:
        with torch.no_grad():
            return np.asarray(on_host(self.start.outputs(theta, Z)))
