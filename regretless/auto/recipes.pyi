"""Made by `python tests/stubs.py`."""

from typing import Literal, Self, TypeAlias

import torch

from regretless.method import Recipe
from regretless.methods.go_ucb.parametric import BoundsLike
from regretless.methods.go_ucb.user_model import Gradients, UserModel
from regretless.models.gp.kernels import KernelKind
from regretless.models.tangent.inputs import Encode
from regretless.space.parameters import Array

MethodName: TypeAlias = Literal[
    "auto",
    "go-ucb",
    "go-ucb-printed",
    "gp-threds",
    "gp-threds-printed",
    "bilevel",
    "bbo-printed",
    "neural-bo",
    "neural-bo-printed",
    "ms-ucb",
    "ms-ucb-printed",
    "random",
    "sobol",
    "gp-ucb",
    "gp-ei",
    "gp-pi",
    "gp-ts",
    "gp-ehvi",
    "cma-es",
    "sms-emoa",
    "turbo",
]

class _Auto(Recipe):
    def __call__(self, *, noisy: bool | None = None) -> Self: ...

Auto: _Auto

class _GOUCB(Recipe):
    def __call__(
        self,
        *,
        model: UserModel = None,
        w_bounds: BoundsLike | None = None,
        gradients: Gradients = "auto",
        width: int = 25,
        initial: int | None = None,
        kappa: float = 0.5,
        guard: bool | None = None,
        noise_sd: float | None = None,
        realizable: bool = False,
    ) -> Self: ...

GOUCB: _GOUCB

class _GPThreDS(Recipe):
    def __call__(
        self,
        *,
        interval: tuple[float, float] | None = None,
        kernel: KernelKind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
        norm_bound: float | None = None,
        assumed_norm: float = 0.5,
        delta: float = 0.001,
        threshold_slack: float = 0.05,
        patience: int = 20,
        points_per_axis: int | tuple[int, ...] | None = None,
    ) -> Self: ...

GPThreDS: _GPThreDS

class _BBO(Recipe):
    def __call__(
        self,
        *,
        acquisition: Literal["ei", "ucb"] = "ei",
        horizon: int | None = None,
        norm_bound: float = 1.0,
        inner_error: float = 0.3,
        noise_var: float | None = None,
        fidelity: bool = False,
    ) -> Self: ...

BBO: _BBO

class _NeuralBO(Recipe):
    def __call__(
        self,
        *,
        width: int = 64,
        depth: int = 2,
        activation: str = "sin",
        exploration: float = 0.3,
        ridge: float | None = None,
        training: int | None = None,
        network: torch.nn.Module | None = None,
        encode: Encode | None = None,
        candidates: Array | None = None,
        n_candidates: int = 1000,
        noise_sd: float | None = None,
        device: str = "cpu",
    ) -> Self: ...

NeuralBO: _NeuralBO

class _MSUCB(Recipe):
    def __call__(
        self,
        *,
        low_dim: int = 5,
        bases: int = 1,
        growth: float = 0.0,
        kappa: float = 1.0,
        cap: int = 500,
        initial: int | None = None,
        noise_var: float | None = None,
    ) -> Self: ...

MSUCB: _MSUCB

class _RandomSearch(Recipe):
    def __call__(self) -> Self: ...

RandomSearch: _RandomSearch

class _SobolSearch(Recipe):
    def __call__(self) -> Self: ...

SobolSearch: _SobolSearch

class _GPUCB(Recipe):
    def __call__(
        self,
        *,
        kappa: float = 1.0,
        kernel: KernelKind = "matern52",
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        clip: bool = True,
        rotate: bool = False,
        exploit: bool = True,
        verify: int = 0,
    ) -> Self: ...

GPUCB: _GPUCB

class _GPEI(Recipe):
    def __call__(
        self,
        *,
        kernel: KernelKind = "matern52",
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        clip: bool = True,
        rotate: bool = False,
        centre: bool = True,
    ) -> Self: ...

GPEI: _GPEI

class _GPPI(Recipe):
    def __call__(
        self,
        *,
        kernel: KernelKind = "matern52",
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        clip: bool = True,
        rotate: bool = False,
        centre: bool = True,
    ) -> Self: ...

GPPI: _GPPI

class _GPTS(Recipe):
    def __call__(
        self,
        *,
        kernel: KernelKind = "matern52",
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        clip: bool = True,
        rotate: bool = False,
        centre: bool = True,
    ) -> Self: ...

GPTS: _GPTS

class _TuRBO(Recipe):
    def __call__(self, *, initial: int | None = None) -> Self: ...

TuRBO: _TuRBO
