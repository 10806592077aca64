"""BoTorch's door, both ways: our surrogate as a BoTorch `Model`, and BoTorch's acquisition functions as a method of our
`Optimizer`.

    model = SurrogateModel.of(optimizer)                        # what the optimizer has been told, as a BoTorch model
    LogExpectedImprovement(model, best_f=model.best)(X)         # X: b x 1 x d in the unit cube, values maximised

    driven = BoTorchAcquisition(acquisition=lambda model: qLogExpectedImprovement(model, best_f=model.best))
    Optimizer(space, method=driven, seed=0)                     # ask() now maximises that acquisition

The model computes in torch with the kernel and hyper-parameters of the fitted surrogate, so gradients flow; its
posterior is that of `regretless.gp.posterior.GP` in the caller's units.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from regretless.gp.design import DesignedMethod, away_from_known
from regretless.gp.kernels import correlation
from regretless.gp.posterior import GP
from regretless.gp.step import recommended_by_mean
from regretless.gp.surrogate import Surrogate
from regretless.method import Recipe
from regretless.optimizer import Optimizer
from regretless.parameters import Array
from regretless.space import Cube

Acquisition: TypeAlias = Callable[["SurrogateModel"], AcquisitionFunction]
"""Makes the acquisition function to maximise from the model of this step."""

LEAST_SQUARE = 1e-20
"""Squared distances are kept above this: the root has no gradient at 0, the kernel does."""
LEAST_VARIANCE = 1e-10
"""Added to the diagonal of joint covariances, relative to the signal, so that draws of near-duplicates can be taken."""


# ---------------------------------------------------------------- our surrogate in BoTorch


class SurrogateModel(Model):  # type: ignore[misc]
    """The posterior of a fitted surrogate as a BoTorch model with one output, to be maximised, on the unit cube.

    Args:
        gp: a posterior without pending points (BoTorch keeps those itself, in `X_pending`).
    """

    def __init__(self, gp: GP) -> None:
        super().__init__()
        if gp.factor.n != gp.n:
            raise ValueError("the posterior must not hold pending points: pass them as X_pending to the acquisition")
        self.gp = gp
        factor = gp.factor
        residual = (gp.y - gp.offset) / gp.scale - gp.mean
        self._alpha = torch.from_numpy(factor.upper(factor.lower(residual[None]))[0])
        self._whiten = torch.from_numpy(np.ascontiguousarray(factor.lower(np.eye(factor.n))))  # k @ this = L^-1 k
        self._Z, self._W = torch.from_numpy(factor.Z), torch.from_numpy(factor.W)
        self._inverse = torch.from_numpy(np.asarray(factor.inverse_scales))

    @classmethod
    def of(cls, optimizer: Optimizer, *, tame: bool = False) -> SurrogateModel:
        """A surrogate fitted to all values an optimizer has been told, turned so that more is better.

        tame: clip low values as our own methods do while they search; the model then no longer says how low they are.
        """
        method = optimizer.method
        if len(method.y) == 0:
            raise RuntimeError("a model needs at least one successful evaluation; none has been told yet")
        return cls(Surrogate(method.cube, tame=tame).gp(method.X, method.y, method.yvar))

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size([])

    @property
    def best(self) -> float:
        """The largest posterior mean at a told point: the value to improve on, robust to noise."""
        return float(self.gp.offset + self.gp.scale * self.gp.mean_at(self.gp.X).max())

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Posterior:
        """The joint posterior at X (b x q x d) in the values' own units."""
        gp = self.gp
        Z = self._embedded(X.to(torch.float64))
        K = self._kernel(Z, self._Z)
        V = K @ self._whiten
        mean = gp.offset + gp.scale * (gp.mean + K @ self._alpha)
        q = X.shape[-2]
        covariance = self._kernel(Z, Z) - V @ V.transpose(-1, -2) + LEAST_VARIANCE * torch.eye(q, dtype=torch.float64)
        if isinstance(observation_noise, Tensor):
            covariance = gp.signal * covariance + torch.diag_embed(observation_noise.squeeze(-1)) / gp.scale**2
        else:
            covariance = gp.signal * (
                covariance + float(gp.hyper.noise) * observation_noise * torch.eye(q, dtype=torch.float64)
            )
        posterior = GPyTorchPosterior(MultivariateNormal(mean, gp.scale**2 * covariance))
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def _embedded(self, X: Tensor) -> Tensor:
        """`Kernel.embed` in torch, ... x d to ... x e."""
        kernel = self.gp.factor.kernel
        parts = [X[..., torch.from_numpy(kernel.lines)] - 0.5]
        for i, k in kernel.choices:
            label = (X[..., i] * k).floor().clamp(0, k - 1)
            parts.append((label[..., None] == torch.arange(k)).to(X) * math.sqrt(0.5))
        return torch.cat(parts, dim=-1)

    def _kernel(self, A: Tensor, B: Tensor) -> Tensor:
        """k between embedded points, ... x a x b."""
        kernel, weight = self.gp.factor.kernel, self.gp.hyper.quadratic
        U, W = A * self._inverse, B * self._inverse
        r2 = (U * U).sum(-1)[..., :, None] + (W * W).sum(-1)[..., None, :] - 2.0 * U @ W.transpose(-1, -2)
        K: Tensor = correlation(kernel.kind, r2.clamp_min(LEAST_SQUARE), torch.sqrt, torch.exp)
        if weight:
            m = len(kernel.lines)
            trend = 1.0 + 4.0 * A[..., :m] @ B[..., :m].transpose(-1, -2)
            K = K + weight / 4.0 * trend * trend
        return K


# ---------------------------------------------------------------- BoTorch's acquisitions in our optimizer


class AcquisitionSearch(DesignedMethod):
    """Maximises a BoTorch acquisition function of our surrogate.

    Args:
        acquisition: makes the acquisition function from the `SurrogateModel` of this step; pending points are set on it
            as `X_pending`.
        restarts: local searches of BoTorch's optimiser.
        candidates: random points they start from.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        acquisition: Acquisition,
        restarts: int = 8,
        candidates: int = 128,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.acquisition, self.restarts, self.candidates = acquisition, restarts, candidates
        self._surrogate = Surrogate(self.cube)

    def _step(self, rng: np.random.Generator) -> Array:
        # failures count as the worst value seen, pending points are left to the acquisition function
        X, y = np.concatenate([self.X, self.failed]), np.concatenate([self.y, np.full(len(self.failed), self.y.min())])
        yvar = np.concatenate([self.yvar, np.full(len(self.failed), np.nan)])
        model = SurrogateModel(self._surrogate.gp(X, y, yvar))
        bounds = torch.tensor([[0.0] * self.dim, [1.0] * self.dim], dtype=torch.float64)
        # BoTorch draws from torch's global stream, and warns of every restart
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(int(rng.integers(2**31)))
            acquisition = self.acquisition(model)
            if len(self._pending):
                acquisition.set_X_pending(torch.from_numpy(self.pending))
            found, _ = optimize_acqf(
                acquisition, bounds=bounds, q=1, num_restarts=self.restarts, raw_samples=self.candidates
            )
        x = self.cube.snap(found.detach().numpy()[0])
        return away_from_known(x, self, rng)

    def _recommend(self) -> Array:
        return recommended_by_mean(self, self._surrogate)


BoTorchAcquisition = Recipe("botorch", "regretless.doors.botorch:AcquisitionSearch")
"""The recipe: `BoTorchAcquisition(acquisition=lambda model: LogExpectedImprovement(model, best_f=model.best))`."""
