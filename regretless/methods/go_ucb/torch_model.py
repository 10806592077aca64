"""Models of the user that are written in torch: functions on float64 tensors, and torch.nn.Module.

There are three ways to the n x p Jacobian of a function whose row i depends on row i of x only:

    stacked  f is called once with w as p x (k n), which a formula that takes its parameters one by one broadcasts over
    vmap     torch.func.vmap over rows and parameter vectors, for anything that torch can trace; ten times as slow
    loop     row by row with plain autograd, for branches on values, `.item()` and the like; slowest
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from regretless.methods.go_ucb.parametric import NET_REACH, Jacobian
from regretless.methods.go_ucb.user_model import UserFamily, shape_message
from regretless.space.parameters import Array

TensorFunction = Callable[..., Any]


def tensor_value(f: TensorFunction, w: Array, X: Array) -> Array:
    """f(w, X) as an array, n; raises ValueError on a wrong type or shape, and where torch cannot differentiate it."""
    out = f(torch.tensor(w, requires_grad=True), torch.tensor(X))
    if not isinstance(out, torch.Tensor) or tuple(out.shape) != (len(X),):
        raise ValueError(shape_message(w, X, tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__))
    if out.dtype != torch.float64:
        raise ValueError(f"model(w, x) must keep float64 (w and x are), it returned {out.dtype}; drop casts")
    if not out.requires_grad:
        raise ValueError("model(w, x) is not differentiable in w: it does not depend on w through torch operations")
    return np.asarray(out.detach().numpy())


def tensor_ways(f: TensorFunction) -> Mapping[str, Jacobian]:
    """The three ways to values k x n and derivatives in w, k x n x p, fastest first."""
    return {"stacked": partial(_stacked, f), "vmap": partial(_vmapped, f), "loop": partial(_looped, f)}


def _stacked(f: TensorFunction, W: Array, X: Array) -> tuple[Array, Array]:
    (k, p), n = W.shape, len(X)
    w = torch.from_numpy(np.repeat(W.T, n, axis=1)).requires_grad_(True)
    out = f(w, torch.from_numpy(np.ascontiguousarray(X)).repeat(k, 1))
    (g,) = torch.autograd.grad(out.sum(), w)
    return out.detach().numpy().reshape(k, n), np.ascontiguousarray(g.numpy().T).reshape(k, n, p)


def _vmapped(f: TensorFunction, W: Array, X: Array) -> tuple[Array, Array]:
    row = torch.func.grad_and_value(lambda w, x_row: f(w, x_row[None])[0])
    w, x = torch.from_numpy(np.ascontiguousarray(W)), torch.from_numpy(np.ascontiguousarray(X))
    J, F = torch.func.vmap(torch.func.vmap(row, (None, 0)), (0, None))(w, x)
    return F.detach().numpy(), J.detach().numpy()


def _looped(f: TensorFunction, W: Array, X: Array) -> tuple[Array, Array]:
    x = torch.from_numpy(np.ascontiguousarray(X))
    values, jacobians = [], []
    for w in torch.from_numpy(np.ascontiguousarray(W)):
        w = w.clone().requires_grad_(True)
        out = f(w, x)
        rows = [torch.autograd.grad(out[i], w, retain_graph=True, allow_unused=True)[0] for i in range(len(x))]
        values.append(out.detach().numpy())
        jacobians.append(torch.stack([torch.zeros_like(w) if r is None else r for r in rows]).numpy())
    return np.array(values), np.array(jacobians)


class UserModule(UserFamily):
    """A torch.nn.Module on the user's own x that predicts standardised values (n or n x 1). Weights are searched around
    zero with prior sd 1 / sqrt(fan-in), 1 for vectors; the module's own are neither used nor changed."""

    flexible = True
    standard = True

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._shapes = [(name, tuple(p.shape)) for name, p in module.named_parameters()]
        if not self._shapes:
            raise ValueError(f"model {type(module).__name__} has no parameters to fit")
        sizes = [int(np.prod(s)) for _, s in self._shapes]
        fan_in = [1.0 if len(s) < 2 else float(np.prod(s[1:])) for _, s in self._shapes]
        self._scale = np.concatenate([np.full(size, 1 / np.sqrt(fan)) for size, fan in zip(sizes, fan_in)])
        self._buffers = {
            name: b.detach().to(torch.float64) if b.is_floating_point() else b.detach()
            for name, b in module.named_buffers()
        }
        names = (
            f"{name}[{i}]" if size > 1 else name for (name, _), size in zip(self._shapes, sizes) for i in range(size)
        )
        super().__init__(tuple(names), reach=NET_REACH)

    def user(self, V: Array) -> Array:
        return np.asarray(V * self._scale)

    def value(self, v: Array, X: Array) -> Array:
        return tensor_value(self._call, self.user(v), X)

    def ways(self, X: Array) -> Mapping[str, Jacobian]:
        def chained(way: Jacobian) -> Jacobian:
            def jacobian(V: Array, X: Array) -> tuple[Array, Array]:
                F, J = way(self.user(V), X)
                return F, J * self._scale

            return jacobian

        return {name: chained(way) for name, way in tensor_ways(self._call).items()}

    def _call(self, w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        parameters, at = {}, 0
        for name, shape in self._shapes:
            size = int(np.prod(shape))
            parameters[name] = w[at : at + size].reshape(shape)
            at += size
        out: torch.Tensor = torch.func.functional_call(self._module, {**parameters, **self._buffers}, (x,))
        return out[:, 0] if out.ndim == 2 and out.shape[1] == 1 else out
