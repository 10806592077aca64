"""BoTorch as a method."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from regretless.basics.options import one_of
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Traits
from regretless.models.gp.sobol import sobol_points
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.peers.shared import Peer, library, own_stream
from regretless_bench.quick_fit import fit_quickly


class BoTorchLogEI(Peer):
    """BoTorch as its documentation shows it: SingleTaskGP with default priors, LogEI, optimize_acqf; one-hot choices.

    The model is fitted afresh when values were told since the last fit. The best observed value is the incumbent, also
    under noise. Beside pending points it maximises qLogEI (qLogNEI if noisy), which integrates over what they will
    return, one point after another: BoTorch's sequential greedy batch.

    Args:
        restarts: starts of the acquisition's ascent.
        raw: quasi-random points the starts are picked from.
        initial: Sobol points before the model; by default Ax's rule, max(5, min(budget / 5, 2 d)).
        saas: take the model of sparse axis-aligned subspaces (Eriksson and Jankowiak, UAI 2021) as an ensemble of
            maxima a posteriori (`EnsembleMapSaasSingleTaskGP`), not by sampling, which takes minutes per ask.
        noisy: maximise qLogNEI, which takes the noise at the evaluated points into account, instead of LogEI.
        quick: find the hyper-parameters of its model with our minimiser: the same density, as high a value or higher, a
            hundredth of the time (BoTorch's own fit takes a thousand and more evaluations in 50 dimensions, which is
            all that keeps it from long runs there).
    """

    traits = Traits(choices="onehot")

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        restarts: int = 8,
        raw: int = 256,
        initial: int | None = None,
        noisy: bool = False,
        quick: bool = False,
        saas: bool = False,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.restarts, self.raw, self.noisy, self.quick, self.saas = restarts, raw, noisy, quick, saas
        share = 2 * self.dim if self.budget is None else min(self.budget // 5, 2 * self.dim)
        self.initial = max(5, share) if initial is None else initial
        self._start = sobol_points(self.initial, self.dim, self._fixed_generator())

    def _begin(self) -> None:
        self._model: Any = None
        self._fitted = 0
        """The number of values that the model has seen."""

    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        if len(history) < self.initial:
            return self._start[self.step] if self.step < self.initial else rng.random(self.dim)
        library("botorch")
        import torch
        from botorch.acquisition import (
            LogExpectedImprovement,
            qLogExpectedImprovement,
            qLogNoisyExpectedImprovement,
        )
        from botorch.optim import optimize_acqf

        with own_stream(self.seed, self.step, torch=True):
            X, y = torch.tensor(np.array(history.X)), torch.tensor(np.array(history.y))[:, None]
            if self._fitted != len(y):
                self._model, self._fitted = self._fit(X, y), len(y)
            bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, self.dim)
            pending = torch.tensor(history.pending) if len(history.pending) else None
            if self.noisy:
                acquisition = qLogNoisyExpectedImprovement(self._model, X, prune_baseline=True, X_pending=pending)
            elif pending is not None:
                acquisition = qLogExpectedImprovement(self._model, best_f=y.max(), X_pending=pending)
            else:
                acquisition = LogExpectedImprovement(self._model, best_f=y.max())
            point, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=self.restarts, raw_samples=self.raw)
        best: Array = point[0].numpy()
        return best

    def _fit(self, X: Any, y: Any) -> Any:
        """The model of the values y (n x 1) at X (n x d)."""
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import EnsembleMapSaasSingleTaskGP, SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        model = EnsembleMapSaasSingleTaskGP(X, y) if self.saas else SingleTaskGP(X, y)
        if self.quick:
            fit_quickly(model)
        else:
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model


class BoTorch2022(Peer):
    """BoTorch as its README of 2022 shows it, on inputs and values as they are: the "default parameter settings" of
    GO-UCB's paper.

    `SingleTaskGP` had a Matern-5/2 kernel with a length-scale per coordinate, gamma priors made for the unit cube and
    values of variance 1, and no transform of either; `optimize_acqf` had 5 restarts of 20 raw samples. On a box such
    as [-5, 5]^20 with values in the hundreds these priors are far off. That the authors of GO-UCB changed neither is
    inferred from their words.

    Args:
        acquisition: "EI", "PI", or "UCB".
        beta: of the upper confidence bound, mean + sqrt(beta) sd; 0.1 in the README.
        low, high: the box in the units that the model reads, the same for every coordinate.
        misread: search [-1, 1] in the model's units, and read what is found as shares of the box: a fault of NeuralBO's
            authors' code, whose GP-EI fits raw inputs and searches normalised ones.
    """

    traits = Traits(choices="onehot")

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        acquisition: Literal["EI", "PI", "UCB"] = "EI",
        beta: float = 0.1,
        low: float = 0.0,
        high: float = 1.0,
        misread: bool = False,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        library("botorch")
        one_of(("EI", "PI", "UCB"), acquisition=acquisition)
        if not low < high:
            raise ValueError(f"low must be below high, got {low} and {high}")
        self.acquisition, self.beta, self.low, self.high = acquisition, beta, low, high
        self._searched = (-1.0, 1.0) if misread else (low, high)

    def _asked(self, history: History, cube: Cube, rng: Draws) -> Array:
        if len(history) < 2:
            return rng.random(self.dim)
        import torch
        from botorch.acquisition import ExpectedImprovement, ProbabilityOfImprovement, UpperConfidenceBound
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.utils.gpytorch_modules import (
            get_gaussian_likelihood_with_gamma_prior,
            get_matern_kernel_with_gamma_prior,
        )
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        width = self.high - self.low
        with own_stream(self.seed, self.step, torch=True):
            points = np.vstack([history.X, history.pending])
            values = np.append(history.y, np.full(len(history.pending), history.y.max()))
            X, y = torch.tensor(self.low + width * points), torch.tensor(values)[:, None]
            model = SingleTaskGP(
                X,
                y,
                likelihood=get_gaussian_likelihood_with_gamma_prior(),
                covar_module=get_matern_kernel_with_gamma_prior(ard_num_dims=self.dim),
                outcome_transform=None,
            )
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            acquisition = {
                "EI": lambda: ExpectedImprovement(model, best_f=y.max()),
                "PI": lambda: ProbabilityOfImprovement(model, best_f=y.max()),
                "UCB": lambda: UpperConfidenceBound(model, beta=self.beta),
            }[self.acquisition]()
            first, last = self._searched
            bounds = torch.tensor([[first], [last]], dtype=torch.float64).expand(2, self.dim)
            point, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=5, raw_samples=20)
        found: Array = np.clip((point[0].numpy() - first) / (last - first), 0.0, 1.0)
        return found


def largest_mean(X: Array, y: Array) -> int:
    """Which of the points X (n x d) with values y (n) BoTorch's default model gives the largest mean: a recommendation
    that any method's evaluations allow."""
    library("botorch")
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    points = torch.tensor(np.array(X))
    with own_stream(0, len(y), torch=True):
        model = SingleTaskGP(points, torch.tensor(np.array(y))[:, None])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        with torch.no_grad():
            return int(model.posterior(points).mean.argmax())
