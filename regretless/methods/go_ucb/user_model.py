"""The user's own model as a `Family`: a function f(w, x) with bounds on w, in NumPy or in torch.

f takes parameters w (p) and points x (n x d, in the user's own units, columns in the order in which the space was
written) and returns n values; row i may depend on row i of x only. How f is called follows from f itself:

    1. a function with an attribute `gradient(w, x)` -> n x p is called with NumPy arrays, and so is its gradient;
    2. any other function is tried once on NumPy arrays: one that returns an array is differentiated by central
        differences;
    3. one that raises, or that returns a tensor, is called with float64 tensors and differentiated by torch.

`gradients="numeric"` and `gradients="torch"` skip the trial. Before anything is evaluated a model is checked at a few
parameter vectors, and the fastest way to call it that agrees with the plain one is chosen (`way`).
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from regretless.basics.extras import optional
from regretless.methods.go_ucb.parametric import (
    BoundsLike,
    Family,
    Jacobian,
    ParameterBounds,
    central_differences,
    named_family,
    usual_family,
)
from regretless.space.parameters import Array

if TYPE_CHECKING:
    import torch

UserModel: TypeAlias = "str | Family | Callable[..., Any] | torch.nn.Module | None"
"""What a user may give as the model; see `family_of`."""
Gradients: TypeAlias = Literal["auto", "torch", "numeric"]
"""How derivatives of a user's function are had; "auto" decides by the rule of the module's text."""

PROBES, PROBE_ROWS = 3, 4  # parameter vectors and points at which a new model is checked: one kink is forgiven


class UserFamily(Family):
    """A family whose model somebody wrote: checked before use."""

    inputs = "user"

    def __init__(self, names: tuple[str, ...], reach: float) -> None:
        super().__init__(names, reach)
        self.way = ""  # how the model is called; empty until it was checked

    @abstractmethod
    def value(self, v: Array, X: Array) -> Array:
        """The values (n) at search coordinates v (p) and points X (n x d); wrong shapes and types raise ValueError."""

    @abstractmethod
    def ways(self, X: Array) -> Mapping[str, Jacobian]:
        """Ways to values and derivatives in v, fastest first; the last one works for every legal model."""

    def jacobian(self, V: Array, X: Array) -> tuple[Array, Array]:
        if not self.way:
            self.check(X)
        return self.ways(X)[self.way](V, X)

    def check(self, X: Array) -> None:
        """Raises ValueError, naming what is wrong, unless the model is finite and differentiable at some w and X."""
        X = np.ascontiguousarray(X[:PROBE_ROWS])
        V = self.starts(PROBES, np.random.Generator(np.random.Philox(0)))
        # 1e-6: step in v of the finite difference that a gradient is compared with
        direction = 1e-6 * np.random.Generator(np.random.Philox(1)).standard_normal(self.p)
        *quick, plain = self.ways(X).items()
        agrees, moved = False, np.zeros(self.p, dtype=bool)
        for v in V:
            where = f"at w = {np.array2string(self.user(v), precision=4)}"
            if not np.isfinite(self.value(v, X)).all():
                raise ValueError(f"model(w, x) is not finite {where}; narrow w_bounds, guard divisions and logarithms")
            gradient = plain[1](v[None], X)[1][0]
            if not np.isfinite(gradient).all():
                raise ValueError(f"the gradient of model(w, x) is not finite {where}; narrow w_bounds, guard roots")
            moved |= (gradient != 0).any(axis=0)
            ahead, behind = self.value(v + direction, X), self.value(v - direction, X)
            slope, expected = (ahead - behind) / 2, gradient @ direction
            size = np.abs(slope).max() + np.abs(expected).max()
            # 1e-2: the share by which gradient and finite difference may disagree; a wrong one is off by far more
            agrees |= bool(np.abs(slope - expected).max() <= 1e-2 * size + 1e-13 * np.abs(ahead).max())
        if not agrees:
            why = "it is wrong, or the model is not differentiable in w (rounding, branches, detach?)"
            raise ValueError(f"the gradient of model(w, x) disagrees with its finite differences: {why}")
        for j in np.flatnonzero(~moved):
            other = V[0].copy()
            other[j] = V[1, j]
            if not np.array_equal(self.value(V[0], X), self.value(other, X)):
                why = "its gradient is 0 although values change (rounding, comparisons?)"
                raise ValueError(f"model(w, x) is not differentiable in w[{j}]: {why}")
        if not moved.any():
            raise ValueError("model(w, x) does not depend on w: there is nothing to fit")
        self.way = next((name for name, way in quick if _agree(way, plain[1], V, X)), plain[0])


def _agree(way: Jacobian, plain: Jacobian, V: Array, X: Array) -> bool:
    """Whether two ways give the same numbers; a user's function may refuse a batch in any way."""
    slow = plain(V, X)
    size = max(1.0, *(float(np.abs(b).max()) for b in slow))
    try:
        quick = way(V, X)
    except Exception:
        return False
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-8, atol=1e-10 * size) for a, b in zip(quick, slow))


class UserFunction(UserFamily):
    """f(w, x) -> n with w: p, x: n x d in the user's own units; see the module's text."""

    standard = False

    def __init__(self, f: Callable[..., Any], w_bounds: BoundsLike, gradients: Gradients = "auto") -> None:
        self._bounds, names = ParameterBounds.of(w_bounds)
        super().__init__(names, reach=1.0)
        self._f, self._gradients = f, gradients
        self._torch: bool | None = False if gradients == "numeric" or self._own else None

    @property
    def _own(self) -> Callable[..., Any] | None:
        """The function's own gradient, where it counts."""
        return getattr(self._f, "gradient", None) if self._gradients == "auto" else None

    def user(self, V: Array) -> Array:
        return self._bounds.user(V)[0]

    def value(self, v: Array, X: Array) -> Array:
        call = _torch_calls().tensor_value if self._needs_torch(X) else array_value
        return np.asarray(call(self._f, self.user(v), X))

    def ways(self, X: Array) -> Mapping[str, Jacobian]:
        if self._needs_torch(X):
            return {name: self._bounds.chained(way) for name, way in _torch_calls().tensor_ways(self._f).items()}
        if self._own is not None:
            return {"own gradient": self._bounds.chained(self._by_own_gradient)}
        return {"numeric, stacked": self._differences(_stacked), "numeric, one by one": self._differences(_one_by_one)}

    def _differences(self, call: Callable[[Callable[..., Any], Array, Array], Array]) -> Jacobian:
        columns = np.arange(self.p)
        return lambda V, X: central_differences(
            lambda points: call(self._f, self.user(points), X), V, columns, -self.reach, self.reach
        )

    def _by_own_gradient(self, W: Array, X: Array) -> tuple[Array, Array]:
        assert self._own is not None
        with np.errstate(all="ignore"):
            J = np.array([self._own(w, X) for w in W], dtype=np.float64)
        if J.shape != (len(W), len(X), self.p):
            raise ValueError(f"model.gradient(w, x) must return {(len(X), self.p)} numbers, got shape {J.shape[1:]}")
        return _one_by_one(self._f, W, X), J

    def _needs_torch(self, X: Array) -> bool:
        """Whether f wants tensors, by the rule of the module's text."""
        self._torch = self._gradients == "torch" or self._refuses_arrays(X) if self._torch is None else self._torch
        return self._torch

    def _refuses_arrays(self, X: Array) -> bool:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                out = self._f(self.user(np.zeros(self.p)), np.array(X[:PROBE_ROWS]))
        except Exception as error:  # a function for tensors may fail on arrays in any way
            try:
                _torch_calls()
            except ImportError:
                why = "model(w, x) failed on NumPy arrays, and torch is not installed to try tensors"
                raise ValueError(f"{why}: {error!r}") from error
            return True
        return hasattr(out, "detach")


def array_value(f: Callable[..., Any], w: Array, X: Array) -> Array:
    """f(w, X) for a NumPy model, n; raises ValueError on a wrong shape or type."""
    with np.errstate(all="ignore"):
        out = np.asarray(f(w, X))
    if out.shape != (len(X),):
        raise ValueError(shape_message(w, X, out.shape))
    if out.dtype != np.float64:
        raise ValueError(f"model(w, x) must keep float64 (w and x are), it returned {out.dtype}")
    return out


def shape_message(w: Array, X: Array, shape: Any) -> str:
    """What is wrong with a result of another shape than n."""
    given = f"with w of shape ({len(w)},) and x of shape {X.shape} it returned {shape}, right is ({len(X)},)"
    return f"model(w, x) must return one value per row of x: {given}"


def _stacked(f: Callable[..., Any], W: Array, X: Array) -> Array:
    """Values k x n in one call with w of p x (k n), which a formula in single parameters broadcasts over."""
    k, n = len(W), len(X)
    with np.errstate(all="ignore"):
        values: Array = np.asarray(f(np.repeat(W.T, n, axis=1), np.tile(X, (k, 1))))
    return values.reshape(k, n)


def _one_by_one(f: Callable[..., Any], W: Array, X: Array) -> Array:
    """Values k x n, one call per parameter vector."""
    return np.array([array_value(f, w, X) for w in W])


def _torch_calls() -> Any:
    """The module that knows torch, or ImportError with the words that install it."""
    optional("torch", "torch")
    from regretless.methods.go_ucb import torch_model

    return torch_model


def family_of(
    model: UserModel, w_bounds: BoundsLike | None, d: int, width: int, gradients: Gradients = "auto"
) -> Family:
    """The family meant by the option `model`: a name, a function, a torch.nn.Module, a Family itself, or None for the
    usual one. A text is only ever looked up among the names: options may come out of a file, and no file may lead to an
    import."""
    model = usual_family(d) if model is None else model
    is_function = callable(model) and not hasattr(model, "named_parameters")
    if gradients != "auto" and not is_function:
        raise ValueError(f"gradients={gradients!r} belongs to a function of your own, the model is {model!r}")
    if isinstance(model, str | Family):
        if w_bounds is not None:
            raise ValueError("w_bounds belong to a model of your own; the named families know theirs")
        return named_family(model, d, width) if isinstance(model, str) else model
    if not callable(model):
        raise ValueError(f"model must be a function f(w, x), a torch.nn.Module or the name of a family, got {model!r}")
    if not is_function:
        if w_bounds is not None:
            why = "weights are searched around 0 at the scale of their fan-in"
            raise ValueError(f"w_bounds do not apply to a torch.nn.Module: {why}")
        module_family: Family = _torch_calls().UserModule(model)
        return module_family
    bounds = getattr(model, "w_bounds", None) if w_bounds is None else w_bounds
    if bounds is None:
        raise ValueError("a model of your own needs w_bounds: one (low, high) pair per parameter, option or attribute")
    return UserFunction(model, bounds, gradients)
