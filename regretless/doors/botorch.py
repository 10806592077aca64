"""BoTorch's door, both ways: our surrogate as a BoTorch `Model`, and BoTorch's acquisition functions as a method of our
`Optimizer`.

    model = SurrogateModel.of(optimizer)                        # what the optimizer has been told, as a BoTorch model
    LogExpectedImprovement(model, best_f=model.best)(X)         # X: b x 1 x d in the unit cube, values maximised

    driven = BoTorchAcquisition(acquisition=lambda model: qLogExpectedImprovement(model, best_f=model.best))
    Optimizer(space, method=driven, seed=0)                     # ask() now maximises that acquisition

The model computes in torch with the kernel and hyper-parameters of the fitted surrogate, so gradients flow; its
posterior is that of `regretless.models.gp.posterior.GP` in the caller's units. It can be conditioned on further values
(`condition_on_observations`, `fantasize`), in batches too, and its sample paths are functions.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior, Posterior
from botorch.sampling import MCSampler
from botorch.sampling.pathwise.paths import SamplePath as BoTorchPath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from gpytorch.distributions import MultivariateNormal
from torch import Tensor

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Recipe
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.design import away_from_known
from regretless.models.gp.kernels import correlation
from regretless.models.gp.posterior import GP, SamplePath
from regretless.models.gp.step import best_weighed
from regretless.models.gp.surrogate import Surrogate
from regretless.optimizer import Optimizer
from regretless.space import Cube
from regretless.space.parameters import Array

AcquisitionFactory: TypeAlias = Callable[["SurrogateModel"], AcquisitionFunction]
"""Makes the acquisition function to maximise from the model of this step."""

LEAST_VARIANCE = 1e-10
"""Added to the diagonal of joint covariances, relative to the signal, so that draws of near-duplicates can be taken."""


# ---------------------------------------------------------------- our surrogate in BoTorch


class SurrogateModel(Model):
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
        self._residual = torch.from_numpy(factor.lower(residual[None])[0])
        self._whiten = torch.from_numpy(np.ascontiguousarray(factor.lower(np.eye(factor.n))))  # k @ this = L^-1 k
        self._Z, self._W = torch.from_numpy(factor.Z), torch.from_numpy(factor.W)
        self._inverse = torch.from_numpy(np.asarray(factor.inverse_scales))
        self._further: _Further | None = None

    @classmethod
    def of(cls, optimizer: Optimizer, *, clip: bool = False) -> SurrogateModel:
        """A surrogate fitted to all values an optimizer has been told, turned so that more is better.

        clip: clip low values as our own methods do while they search; the model then no longer says how low they are.
        """
        history = optimizer.history
        if len(history) == 0:
            raise RuntimeError("a model needs at least one successful evaluation; none has been told yet")
        return cls(Surrogate(optimizer.method.cube, clip=clip).gp(history.X, history.y, history.yvar))

    @property
    def num_outputs(self) -> int:
        return 1

    def subset_output(self, idcs: list[int]) -> SurrogateModel:
        """The model itself, of which the only output was asked for."""
        if [i % 1 if -1 <= i < 1 else i for i in idcs] != [0]:
            raise ValueError(f"this model has one output, 0, got {idcs!r}")
        return self

    @property
    def batch_shape(self) -> torch.Size:
        """That of the values it was conditioned on."""
        return torch.Size([]) if self._further is None else self._further.Y.shape[:-1]

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """The told points, and those it was conditioned on, ... x n x d."""
        told = torch.from_numpy(self.gp.X)
        if self._further is None:
            return (told,)
        X = self._further.X.expand(*self.batch_shape, *self._further.X.shape[-2:])
        return (torch.cat([told.expand(*self.batch_shape, *told.shape), X], dim=-2),)

    @property
    def train_targets(self) -> Tensor:
        """Their values, ... x n, to be maximised."""
        told = torch.from_numpy(self.gp.y)
        if self._further is None:
            return told
        return torch.cat([told.expand(*self.batch_shape, len(told)), self._further.Y], dim=-1)

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
        standard = gp.mean + K @ self._alpha
        if self._further is not None:
            new = self._whitened(self._kernel(Z, self._further.Z), V)
            standard = standard + (new @ self._further.residual[..., None])[..., 0]
            V = torch.cat(_aligned(V, new), dim=-1)
        mean = gp.offset + gp.scale * standard
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

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **_: Any) -> SurrogateModel:
        """The model once the values Y (... x p x 1) of the points X (... x p x d) are told as well; hyper-parameters
        stay.

        noise: the noise variances of Y in its own units squared, of the shape of Y; None: the fitted one.
        """
        gp, X, Y = self.gp, X.to(torch.float64), Y.to(torch.float64)[..., 0]
        relative = torch.full_like(Y, max(float(gp.hyper.noise), LEAST_VARIANCE))
        if noise is not None:
            relative = (noise.to(torch.float64)[..., 0] / (gp.scale**2 * gp.signal)).clamp_min(LEAST_VARIANCE)
        if self._further is not None:
            X = torch.cat(_aligned(self._further.X, X, keep=2), dim=-2)
            Y = torch.cat(_aligned(self._further.Y, Y, keep=1), dim=-1)
            relative = torch.cat(_aligned(self._further.noise, relative, keep=1), dim=-1)
        model = copy.copy(self)
        model._further = None
        Z = self._embedded(X)
        V = self._kernel(Z, self._Z) @ self._whiten
        left = self._kernel(Z, Z) - V @ V.transpose(-1, -2) + torch.diag_embed(relative)
        lower = torch.linalg.cholesky(left)
        residual = (Y - gp.offset) / gp.scale - gp.mean - V @ self._residual
        white = torch.linalg.solve_triangular(lower, residual[..., None], upper=False)[..., 0]
        model._further = _Further(X, Y, relative, Z, V, lower, white)
        return model

    def fantasize(
        self, X: Tensor, sampler: MCSampler, observation_noise: Tensor | None = None, **_: Any
    ) -> SurrogateModel:
        """The model conditioned on values at X (... x p x d) that are drawn from its own posterior with noise."""
        posterior = self.posterior(X, observation_noise=True if observation_noise is None else observation_noise)
        return self.condition_on_observations(X, sampler(posterior), observation_noise)

    def _whitened(self, K: Tensor, V: Tensor) -> Tensor:
        """The further columns of L^-1 k, ... x q x p: K is the kernel with the further points, V the first columns."""
        assert self._further is not None
        rest = K - V @ self._further.V.transpose(-1, -2)
        columns: Tensor = torch.linalg.solve_triangular(self._further.lower, rest.transpose(-1, -2), upper=False)
        return columns.transpose(-1, -2)

    def _embedded(self, X: Tensor) -> Tensor:
        """`Kernel.embed` in torch, ... x d to ... x e."""
        kernel, rotation = self.gp.factor.kernel, self.gp.hyper.rotation
        lines = X[..., torch.from_numpy(kernel.lines)] - 0.5
        parts = [lines if rotation is None else lines @ torch.from_numpy(rotation)]
        for i, k in kernel.choices:
            label = (X[..., i] * k).floor().clamp(0, k - 1)
            parts.append((label[..., None] == torch.arange(k)).to(X) * math.sqrt(0.5))
        return torch.cat(parts, dim=-1)

    def _kernel(self, A: Tensor, B: Tensor) -> Tensor:
        """k between embedded points, ... x a x b."""
        kernel, weight = self.gp.factor.kernel, self.gp.hyper.quadratic
        U, W = A * self._inverse, B * self._inverse
        r2 = (U * U).sum(-1)[..., :, None] + (W * W).sum(-1)[..., None, :] - 2.0 * U @ W.transpose(-1, -2)
        # 1e-20: squared distances are kept above this: the root has no gradient at 0, the kernel does
        K: Tensor = correlation(kernel.kind, r2.clamp_min(1e-20), torch.sqrt, torch.exp)
        if weight:
            m = len(kernel.lines)
            trend = 1.0 + 4.0 * A[..., :m] @ B[..., :m].transpose(-1, -2)
            K = K + weight / 4.0 * trend * trend
        return K


class _Further(NamedTuple):
    """What a model was conditioned on beyond its posterior: points ... x p x d, values and relative noise ... x p, the
    embedded points, and the further rows of the factor: V beside the old ones, `lower` below them, and the whitened
    residuals."""

    X: Tensor
    Y: Tensor
    noise: Tensor
    Z: Tensor
    V: Tensor
    lower: Tensor
    residual: Tensor


def _aligned(*tensors: Tensor, keep: int = 2) -> list[Tensor]:
    """The tensors with a common batch shape; the last `keep` dimensions stay."""
    shape = torch.broadcast_shapes(*(t.shape[:-keep] for t in tensors))  # type: ignore[no-untyped-call]
    return [t.expand(*shape, *t.shape[-keep:]) for t in tensors]


class Paths(BoTorchPath):
    """Functions drawn from the posterior of a `SurrogateModel`, in the values' own units: batch x q x d to batch x q.
    The batch of the points and the shape of the paths are broadcast, as by BoTorch's own paths."""

    def __init__(self, model: SurrogateModel, sample_shape: torch.Size) -> None:
        super().__init__()
        self.model, self.sample_shape = model, sample_shape
        rng = np.random.default_rng(int(torch.randint(2**62, (1,))))  # torch's stream, as BoTorch's own paths
        drawn = [SamplePath(model.gp, rng) for _ in range(sample_shape.numel())]

        def stacked(name: str) -> Tensor:
            return torch.from_numpy(np.array([getattr(path, name) for path in drawn], dtype=np.float64))

        self._omega = torch.from_numpy(np.array([path.frequencies() for path in drawn]))
        self._a, self._b = stacked("_a"), stacked("_b")
        self._c, self._h, self._M = stacked("_c"), stacked("_h"), stacked("_M")
        self._weights = stacked("_weights")

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        model, gp, n = self.model, self.model.gp, len(self._weights)
        x = x.to(torch.float64)
        batch = np.broadcast_shapes(tuple(x.shape[:-2]), tuple(self.sample_shape))
        x = x.expand(*batch, *x.shape[-2:])
        left = len(batch) - len(self.sample_shape)
        of_paths = [left + i for i, size in enumerate(self.sample_shape) if size > 1]
        others = [i for i in range(len(batch)) if i not in of_paths]
        x = x.permute(*of_paths, *others, -2, -1)  # the points of each path lie together
        X = x.reshape(n, -1, x.shape[-1])
        Z = model._embedded(X)
        phase = Z @ self._omega.transpose(-1, -2)
        values = (phase.cos() @ self._a[..., None] + phase.sin() @ self._b[..., None])[..., 0]
        U = 2.0 * Z[..., : self._h.shape[-1]]
        values = values + self._c[:, None] + (U @ self._h[..., None])[..., 0] + ((U @ self._M) * U).sum(-1)
        told = (model._kernel(Z, model._Z) @ self._weights[..., None])[..., 0]
        standard = gp.mean + math.sqrt(gp.signal) * values + told
        found = (gp.offset + gp.scale * standard).reshape(x.shape[:-1])
        back = np.argsort([*of_paths, *others]).tolist()
        return found.permute(*back, len(batch))

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """A model is no ensemble: nothing to do."""


@DrawMatheronPaths.register(SurrogateModel)  # type: ignore[untyped-decorator]
def _draw_paths(model: SurrogateModel, *, sample_shape: torch.Size, **_: Any) -> Paths:
    """BoTorch's `draw_matheron_paths` and `get_matheron_path_model` for our model."""
    if model._further is not None:
        raise UnsupportedError("paths of a conditioned model are not drawn: tell its values to the optimizer first")
    return Paths(model, torch.Size(sample_shape))


# ---------------------------------------------------------------- BoTorch's acquisitions in our optimizer


class AcquisitionSearch(DesignedMethod):
    """Maximises a BoTorch acquisition function of our surrogate.

    Args:
        acquisition: makes the acquisition function from the `SurrogateModel` of this step; pending points are set on it
            as `X_pending`, or where it takes none (analytic ones) the model counts them as told with their own means.
        restarts: local searches of BoTorch's optimiser.
        candidates: random points they start from.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        acquisition: AcquisitionFactory,
        restarts: int = 8,
        candidates: int = 128,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.acquisition, self.restarts, self.candidates = acquisition, restarts, candidates
        self._surrogate = Surrogate(self.cube)

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        model = SurrogateModel(self._surrogate.gp(*_with_failures(history)))
        bounds = torch.tensor([[0.0] * self.dim, [1.0] * self.dim], dtype=torch.float64)
        # BoTorch draws from torch's global stream, and warns of every restart
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(int(rng.integers(2**31)))
            acquisition = self.acquisition(model)
            if len(history.pending):
                acquisition = self._aware(acquisition, model, history.pending)
            found, _ = optimize_acqf(
                acquisition, bounds=bounds, q=1, num_restarts=self.restarts, raw_samples=self.candidates
            )
        x = cube.snap(found.detach().numpy()[0])
        return away_from_known(x, history, cube, rng)

    def _aware(self, acquisition: AcquisitionFunction, model: SurrogateModel, pending: Array) -> AcquisitionFunction:
        """An acquisition function that knows the pending points, p x d."""
        points = torch.from_numpy(pending)
        try:
            acquisition.set_X_pending(points)
        except UnsupportedError:
            means = model.posterior(points).mean.detach()
            return self.acquisition(model.condition_on_observations(points, means))
        return acquisition

    def _recommend(self, history: History) -> Array:
        return best_weighed(self._surrogate.gp(*history.basis), history)


def _with_failures(history: History) -> tuple[Array, Array, Array]:
    """Points, values and noise variances, where a failure counts as the worst value seen."""
    n = len(history.failed)
    y = np.concatenate([history.y, np.full(n, history.y.min())])
    return np.concatenate([history.X, history.failed]), y, np.concatenate([history.yvar, np.full(n, np.nan)])


BoTorchAcquisition = Recipe("botorch", "regretless.doors.botorch:AcquisitionSearch")
"""The recipe: `BoTorchAcquisition(acquisition=lambda model: LogExpectedImprovement(model, best_f=model.best))`."""
