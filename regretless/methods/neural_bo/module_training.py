"""TrainNN for a user's `torch.nn.Module`, on any device (preset="paper"); this file needs torch.

As `train_nn.TrainNN`, with the module's own theta0. What the paper calls m, the width, is the factor between its
features g / sqrt(m) and the gradients; here it is the mean of |g|^2 over the domain, so that the kernel has unit size
and lam means the same for every module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regretless.extras import optional
from regretless.method import keyed_generator
from regretless.methods.neural_bo.train_nn import PAPER_BATCH, PAPER_EPOCHS, PAPER_RATE, Trained
from regretless.methods.neural_bo.uncertainty import Uncertainty
from regretless.parameters import Array
from regretless.streams import Stream
from regretless.tangent.module_tangent import ModuleTangent
from regretless.tangent.ntk import ROWS, kernel, on_host
from regretless.tangent.training import HALVINGS, RUNAWAY, largest_eigenvalue, whole_epochs

if TYPE_CHECKING:
    import torch
else:
    torch = optional("torch", "torch")


class ModuleTrainNN(Trained):
    """The module trained by SGD from theta0 on sum (h - y)^2 / 2 + m lam |theta - theta0|^2 / 2 (Alg. 2); sigma is that
    of the gradients at theta0 (Alg. 1, l. 3)."""

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
        self._tangent = ModuleTangent(network, domain, rng, device=device)
        posterior = Uncertainty(self._tangent, lam, self._tangent.features, device=device)
        super().__init__(posterior, seed=seed, lam=lam)
        self.theta = self._tangent.start()
        self.rate = PAPER_RATE
        """The learning rate of the last training, clipped to its stable limit."""

    def _train(self, inputs: Array, targets: Array) -> None:
        X, y = self._tangent.tensor(inputs), self._tangent.tensor(targets)
        n, norm = len(y), self._tangent.norm
        largest = norm * self._largest_eigenvalue(X)
        share = min(PAPER_BATCH, n) / n
        self.rate = min(PAPER_RATE, 1.0 / (share * (largest + norm * self._lam)))
        first = self._tangent.start()
        limit = RUNAWAY * (1.0 + float(y.abs().max()) + float(self._tangent.outputs(first, X).abs().max()))
        order = keyed_generator(self._seed, n, Stream.NEURAL_BO_TRAINING)
        batches = whole_epochs(order, n, PAPER_BATCH, PAPER_EPOCHS)
        for _ in range(HALVINGS):
            theta = first
            for rows in batches:
                h, step = self._tangent.outputs_and_gradient(theta, X[rows], y[rows])
                if not float(h.abs().max()) < limit:
                    break
                pull = norm * self._lam * len(rows) / n
                steps = zip(theta, step, first, strict=True)
                theta = tuple(w - self.rate * (g + pull * (w - w0)) for w, g, w0 in steps)
            else:
                self.theta = theta
                return
            self.rate /= 2
        raise FloatingPointError("training diverges at every learning rate; are the inputs finite?")

    def _largest_eigenvalue(self, X: torch.Tensor) -> float:
        """Of the kernel matrix, n x n, which is held only while it is the smaller."""
        if len(X) > min(self._tangent.features, ROWS):
            return largest_eigenvalue(self._tangent, X)
        A = self._tangent.factors(X)
        return float(np.linalg.norm(on_host(kernel(A, A)), 2))

    def _outputs(self, Z: Array) -> Array:
        with torch.no_grad():
            return np.asarray(on_host(self._tangent.outputs(self.theta, Z)))

    def _deviation(self, Z: Array) -> Array:
        return np.asarray(on_host(self._posterior.deviation(self._tangent.factors(Z))))
