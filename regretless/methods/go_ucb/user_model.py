"""The user's own model as a `Family`: a function f(w, x) on float64 tensors, or a torch.nn.Module; derivatives by
torch.func.

Row i of f(w, x) may depend on row i of x only, so the n x p Jacobian is n gradients of scalars. There are three ways to
them, and a new model is given the fastest that agrees with the last at several probes; `way` says which it was:

    "stacked"  f is called once with w as p x (k n): a formula that takes its parameters one by one, w[0] * x[:, 0] ...,
    broadcasts over
               all rows and parameter vectors, and one backward pass gives every gradient (0.3 ms for a formula of
               twenty operations)
    "vmap"     torch.func.vmap over rows and parameter vectors: anything torch can trace (3 ms)
    "loop"     row by row with plain autograd: branches on values, `.item()`, anything at all (slow)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regretless.methods.go_ucb.parametric import NET_REACH, Bounds, Family, named_family
from regretless.parameters import Array
from regretless.space import SpaceLike

if TYPE_CHECKING:
    import torch

Way = Literal["stacked", "vmap", "loop"]

PROBES = 3
"""Parameter vectors at which a new model is checked before it is used."""
PROBE_ROWS = 4
"""Points at which it is checked."""
PROBE_STEP = 1e-6
"""Step of the finite difference that a model's gradient is compared with."""
PROBE_TOLERANCE = 1e-2
"""Largest share by which gradient and finite difference may disagree at every probe; a kink at one probe is
forgiven."""


class UserFunction(Family):
    """f(w, x) -> n with w: p, x: n x d in the user's own units; float64 tensors.

    Args:
        f: the function.
        w_bounds: bounds on w, a list of (low, high) pairs or a mapping name -> pair or Float(low, high, log=True).
    """

    inputs = "user"
    standard = False

    def __init__(self, f: Callable[..., Any], w_bounds: SpaceLike) -> None:
        self._bounds, names = Bounds.of(w_bounds)
        super().__init__(names, reach=1.0)
        self._f = f
        self.way: Way = "vmap"

    def user(self, V: Array) -> Array:
        return self._bounds.user(V)[0]

    def jacobian(self, V: Array, X: Array) -> tuple[Array, Array]:
        W, slope = self._bounds.user(V)
        F, J = batched_jacobian(self._f, W, X, self.way)
        return F, J * slope[:, None, :]

    def check(self, X: Array) -> None:
        """Raises ValueError, naming what is wrong, unless f gives finite, differentiable values at PROBES parameter
        vectors and rows of X."""
        self.way = checked(
            self._f, self._bounds.user(self.starts(PROBES, np.random.Generator(np.random.Philox(0))))[0], X
        )


class UserModule(Family):
    """A torch.nn.Module on the user's own x that predicts standardised values (n or n x 1).

    Weights are searched around zero with prior standard deviation 1 / sqrt(fan-in) for matrices and 1 for vectors,
    which makes the functions of a randomly drawn module of unit size; the module's own weights are neither used nor
    changed.
    """

    flexible = True
    inputs = "user"
    standard = True

    def __init__(self, module: torch.nn.Module) -> None:
        import torch

        self._module = module
        shapes = [(name, tuple(p.shape)) for name, p in module.named_parameters()]
        if not shapes:
            raise ValueError(f"model {type(module).__name__} has no parameters to fit")
        self._shapes = shapes
        scale = [np.full(int(np.prod(s)), 1.0 if len(s) < 2 else 1 / np.sqrt(np.prod(s[1:]))) for _, s in shapes]
        self._scale = np.concatenate(scale)
        self._buffers = {
            name: b.detach().to(torch.float64) if b.is_floating_point() else b.detach()
            for name, b in module.named_buffers()
        }
        names = tuple(f"{name}[{i}]" if np.prod(s) > 1 else name for name, s in shapes for i in range(int(np.prod(s))))
        super().__init__(names, reach=NET_REACH)
        self.way: Way = "vmap"

    def user(self, V: Array) -> Array:
        W: Array = V * self._scale
        return W

    def _call(self, w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        import torch

        parameters, at = {}, 0
        for name, shape in self._shapes:
            size = int(np.prod(shape))
            parameters[name] = w[at : at + size].reshape(shape)
            at += size
        out: torch.Tensor = torch.func.functional_call(self._module, {**parameters, **self._buffers}, (x,))
        return out[:, 0] if out.ndim == 2 and out.shape[1] == 1 else out

    def jacobian(self, V: Array, X: Array) -> tuple[Array, Array]:
        F, J = batched_jacobian(self._call, self.user(V), X, self.way)
        return F, J * self._scale

    def check(self, X: Array) -> None:
        """As `UserFunction.check`."""
        self.way = checked(self._call, self.user(self.starts(PROBES, np.random.Generator(np.random.Philox(0)))), X)


def batched_jacobian(f: Callable[..., Any], W: Array, X: Array, way: Way) -> tuple[Array, Array]:
    """Values k x n and derivatives k x n x p of f at k parameter vectors (k x p) and n points (n x d)."""
    import torch

    x = torch.from_numpy(np.ascontiguousarray(X))
    if way == "stacked":
        (k, p), n = W.shape, len(X)
        w = torch.from_numpy(np.repeat(W.T, n, axis=1)).requires_grad_(True)
        out = f(w, x.repeat(k, 1))
        (g,) = torch.autograd.grad(out.sum(), w)
        return out.detach().numpy().reshape(k, n), np.ascontiguousarray(g.numpy().T).reshape(k, n, p)
    if way == "vmap":
        row = torch.func.grad_and_value(lambda w, x_row: f(w, x_row[None])[0])
        J, F = torch.func.vmap(torch.func.vmap(row, (None, 0)), (0, None))(torch.from_numpy(np.ascontiguousarray(W)), x)
        return F.detach().numpy(), J.detach().numpy()
    values, jacobians = [], []
    for w in torch.from_numpy(np.ascontiguousarray(W)):
        w = w.clone().requires_grad_(True)
        out = f(w, x)
        rows = [torch.autograd.grad(out[i], w, retain_graph=True, allow_unused=True)[0] for i in range(len(x))]
        values.append(out.detach().numpy())
        jacobians.append(torch.stack([torch.zeros_like(w) if r is None else r for r in rows]).numpy())
    return np.array(values), np.array(jacobians)


def checked(f: Callable[..., Any], W: Array, X: Array) -> Way:
    """The fastest way that agrees with the plain one; raises ValueError on wrong shapes and types, and values not
    finite or not differentiable."""
    import torch

    X = np.ascontiguousarray(X[:PROBE_ROWS])
    n = len(X)
    x = torch.from_numpy(X)
    agrees, moved = False, np.zeros(W.shape[1], dtype=bool)
    direction = np.random.Generator(np.random.Philox(1)).standard_normal(W.shape[1])
    for w_row in W:
        w = torch.from_numpy(w_row.copy()).requires_grad_(True)
        out = f(w, x)
        if not isinstance(out, torch.Tensor) or tuple(out.shape) != (n,):
            shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
            raise ValueError(
                f"model(w, x) must return one value per row of x: with w of shape ({len(w_row)},) and x of shape {(n, X.shape[1])} "
                f"it returned {shape}, right is ({n},)"
            )
        if out.dtype != torch.float64:
            raise ValueError(
                f"model(w, x) must keep float64 (w and x are), it returned {out.dtype}; drop casts such as .float()"
            )
        if not torch.isfinite(out).all():
            raise ValueError(
                f"model(w, x) is not finite at w = {np.array2string(w_row, precision=4)}; narrow w_bounds or guard divisions and logarithms"
            )
        if not out.requires_grad:
            raise ValueError(
                "model(w, x) is not differentiable in w: its result does not depend on w through torch operations"
            )
        gradient = np.array([_gradient(out[i], w) for i in range(n)])
        if not np.isfinite(gradient).all():
            raise ValueError(
                f"the gradient of model(w, x) is not finite at w = {np.array2string(w_row, precision=4)}; "
                "narrow w_bounds or guard square roots and powers at 0"
            )
        moved |= (gradient != 0).any(axis=0)
        h = PROBE_STEP * np.maximum(np.abs(w_row), PROBE_STEP) * direction
        with torch.no_grad():
            ahead, behind = f(torch.from_numpy(w_row + h), x).numpy(), f(torch.from_numpy(w_row - h), x).numpy()
        slope, expected = (ahead - behind) / 2, gradient @ h
        size = np.abs(slope).max() + np.abs(expected).max()
        rounding = 1e-13 * np.abs(ahead).max()
        agrees |= bool(np.abs(slope - expected).max() <= PROBE_TOLERANCE * size + rounding)
    if not agrees:
        raise ValueError(
            "the gradient of model(w, x) disagrees with its finite differences: the model is not differentiable in w (rounding, branches, detach?)"
        )
    for j in np.flatnonzero(~moved):
        other = W[0].copy()
        other[j] = W[1, j]
        with torch.no_grad():
            if not torch.equal(f(torch.from_numpy(W[0].copy()), x), f(torch.from_numpy(other), x)):
                raise ValueError(
                    f"model(w, x) is not differentiable in w[{j}]: its gradient is 0 although values change (rounding, comparisons?)"
                )
    slow = batched_jacobian(f, W, X, "loop")
    fast: tuple[Way, ...] = ("stacked", "vmap")
    for way in fast:
        try:
            quick = batched_jacobian(f, W, X, way)
        except (
            Exception
        ):  # a user's function may refuse a batch in any way; the loop above has shown that it works one by one
            continue
        if all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-8, atol=1e-10 * np.abs(b).max(initial=1.0))
            for a, b in zip(quick, slow)
        ):
            return way
    return "loop"


def _gradient(value: torch.Tensor, w: torch.Tensor) -> Array:
    import torch

    (g,) = torch.autograd.grad(value, w, retain_graph=True, allow_unused=True)
    return np.zeros(len(w)) if g is None else np.asarray(g.numpy(), dtype=np.float64)


def family_of(model: Any, w_bounds: SpaceLike | None, d: int, width: int) -> Family:
    """The family meant by a method's `model` option: a name, "package.module:function", a function, a module, or a
    Family itself."""
    if isinstance(model, str) and ":" in model:
        module, _, name = model.partition(":")
        try:
            model = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"model {module}:{name} cannot be imported: {error}") from None
    if isinstance(model, str | Family):
        if w_bounds is not None:
            raise ValueError("w_bounds belong to a model of your own; the named families know theirs")
        return named_family(model, d, width) if isinstance(model, str) else model
    if not callable(model):
        raise ValueError(f"model must be a function f(w, x), a torch.nn.Module or the name of a family, got {model!r}")
    if hasattr(model, "named_parameters"):
        if w_bounds is not None:
            raise ValueError(
                "w_bounds do not apply to a torch.nn.Module: its weights are searched around zero at the scale of their fan-in"
            )
        return UserModule(model)
    bounds = getattr(model, "w_bounds", None) if w_bounds is None else w_bounds
    if bounds is None:
        raise ValueError(
            "a model of your own needs w_bounds: one (low, high) pair per parameter, as an option or an attribute of the function"
        )
    return UserFunction(model, bounds)
