"""Parametric families f(w, x): what all of them share, what they take as x, and the named ones.

A `Family` has p parameters in search coordinates v, whose prior is a standard normal and whose box is [-reach,
reach]^p; `user(v)` turns them into the parameters the user knows. x is in the user's own units where `inputs` is
"user". It is the cube stretched to [-1, 1] where that is "centred". f is standardised where `standard` is True, and in
the user's own units where it is False. The named families take any number of columns d:

    linear              w0 + sum wj xj                                              d + 1
    quadratic           the same + sum_{i<=j} wij xi xj                             (d + 1)(d + 2) / 2
    separable-quadratic the same without cross terms                                2 d + 1
    sigmoid-net         w2 . sigmoid(W1 x + b1) + b2                                width (d + 2) + 1
    mlp                 the same with tanh                                          width (d + 2) + 1
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from regretless.basics.options import whole_number
from regretless.models.gp.sobol import sobol_points
from regretless.space import Cube, Space
from regretless.space.parameters import Array, Choice, Float, Parameter, is_line, is_number

InputKind: TypeAlias = Literal["user", "centred"]
Jacobian: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]
"""k x p parameters and n x d points to k x n values and k x n x p derivatives with respect to the parameters."""
BoundsLike: TypeAlias = Mapping[str, Any] | Sequence[Any] | Space
"""Bounds on parameters: (low, high) pairs or Floats, by name or in a list."""

NET_REACH = 5.0  # weights of a net are searched within this many prior standard deviations


class Family(ABC):
    """A parametric family in search coordinates; see the module's text."""

    inputs: ClassVar[InputKind] = "centred"
    standard: ClassVar[bool] = True
    flexible: ClassVar[bool] = False
    """Whether this is an approximator, a net or a response surface, rather than a statement about the objective."""

    def __init__(self, names: tuple[str, ...], reach: float) -> None:
        self.names = names  # names of the parameters, p
        self.p = len(names)
        self.reach = reach  # half the width of the box of v, in prior standard deviations; may be infinite

    @abstractmethod
    def jacobian(self, V: Array, X: Array) -> tuple[Array, Array]:
        """Values k x n and derivatives k x n x p of k parameter vectors (k x p) at n points (n x d)."""

    @property
    def enough(self) -> int:
        """The number of values below which a fit rarely finds the function."""
        # 1.3, 2.0: values per parameter with bounds, and per weight of a flexible family, below which a fit rarely
        # finds the function (docs, What was tried)
        return math.ceil((2.0 if self.flexible else 1.3) * self.p)

    def user(self, V: Array) -> Array:
        """The user's parameters of search coordinates, same shape."""
        return np.array(V, dtype=np.float64)

    def check(self, X: Array) -> None:  # noqa: B027 - a hook that may stay empty
        """Raises ValueError, naming what is wrong, unless the model can be used at points X (n x d)."""

    def ascent_direction(self, w: Array, x: Array) -> tuple[Array, Array]:
        """The gradients of f in x (d), by central differences, and in v (p) at one point."""
        h = 1e-6 * np.maximum(np.abs(x), 1.0)
        F, J = self.jacobian(w[None], np.concatenate([x[None], x + np.diag(h), x - np.diag(h)]))
        d = len(x)
        return (F[0, 1 : d + 1] - F[0, d + 1 :]) / (2 * h), J[0, 0]

    def starts(self, k: int, rng: np.random.Generator) -> Array:
        """k starting points for a fit, k x p: uniform in the box of bounded parameters, else prior draws."""
        if self.reach <= 1:
            return rng.uniform(-self.reach, self.reach, (k, self.p))
        return np.clip(rng.standard_normal((k, self.p)), -self.reach, self.reach)


@dataclass(frozen=True)
class ParameterBounds:
    """Bounds on user parameters, some on a log scale: v in [-1, 1] <-> [low, high]."""

    low: Array
    high: Array
    log: Array

    @classmethod
    def of(cls, w_bounds: BoundsLike) -> tuple[ParameterBounds, tuple[str, ...]]:
        """From a mapping or a list of (low, high) pairs and `Float`s, or a Space of them. A path is refused: options
        may come out of a file, and no file may lead to another being opened."""
        given: Any = w_bounds.parameters if isinstance(w_bounds, Space) else w_bounds
        if isinstance(given, Mapping):
            items = {str(name): value for name, value in given.items()}
        elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
            items = {f"w{i}": value for i, value in enumerate(given)}
        else:
            raise ValueError(f"w_bounds must be a mapping or a list of (low, high) pairs and Floats, got {given!r}")
        if not items:
            raise ValueError("w_bounds is empty: give one (low, high) pair per parameter")
        floats = [_bound(name, value) for name, value in items.items()]
        return cls(*(np.array([getattr(p, end) for p in floats]) for end in ("low", "high", "log"))), tuple(items)

    def user(self, V: Array) -> tuple[Array, Array]:
        """The parameters and their derivatives with respect to v, both shaped like V."""
        a, b = (np.where(self.log, np.log(np.where(self.log, end, 1.0)), end) for end in (self.low, self.high))
        middle, half = (a + b) / 2, (b - a) / 2
        W = middle + half * V
        W = np.where(self.log, np.exp(np.where(self.log, W, 0.0)), W)
        return W, np.where(self.log, half * W, half * np.ones_like(W))

    def chained(self, formula: Jacobian) -> Jacobian:
        """A formula with derivatives in its parameters as one with search coordinates and derivatives in them."""

        def jacobian(V: Array, X: Array) -> tuple[Array, Array]:
            W, slope = self.user(V)
            F, J = formula(W, X)
            return F, J * slope[:, None, :]

        return jacobian


def _bound(name: str, value: Any) -> Float:
    """The Float meant by a pair or a Float."""
    if isinstance(value, Float) and value.step is None:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(is_number, value)):
        return Float(value[0], value[1])
    raise ValueError(f"w_bounds[{name!r}] must be (low, high) or Float(low, high) without a step, got {value!r}")


@dataclass(frozen=True)
class ModelInputs:
    """The map from cube points n x d to model inputs n x d, and back."""

    forward: Callable[[Array], Array]
    back: Callable[[Array], Array]

    def __call__(self, U: Array) -> Array:
        return self.forward(U)


CENTRED = ModelInputs(lambda U: 2.0 * U - 1.0, lambda X: (X + 1.0) / 2.0)  # the cube stretched to [-1, 1]


def checked_inputs(family: Family, space: Space, cube: Cube, rng: np.random.Generator) -> ModelInputs:
    """The inputs of a family for the cube of a space. A model that cannot work is refused here, before anything is
    evaluated."""
    if len(space) != cube.dim:
        raise ValueError(f"the space has {len(space)} parameters, this method {cube.dim} coordinates")
    inputs = CENTRED if family.inputs == "centred" else user_units(space)
    # 8: points at which a user's model is checked before anything is evaluated
    family.check(inputs(cube.snap(sobol_points(8, cube.dim, rng))))
    return inputs


def user_units(space: Space) -> ModelInputs:
    """The user's numbers, columns in the order in which the space was written; a choice (equal shares) is its index."""
    parameters = list(space.parameters.values())
    places = [space.coordinates.index(name) for name in space.names]

    def forward(U: Array) -> Array:
        return np.column_stack([_column(parameter, U[:, i]) for parameter, i in zip(parameters, places)])

    def back(X: Array) -> Array:
        U = np.empty_like(X)
        for j, (parameter, i) in enumerate(zip(parameters, places)):
            U[:, i] = _coordinate(parameter, X[:, j])
        return U

    return ModelInputs(forward, back)


def _column(parameter: Parameter, u: Array) -> Array:
    if isinstance(parameter, Choice):
        return parameter.axis.index(u).astype(np.float64)
    if is_line(parameter):
        if parameter.log:
            low, high = np.log(parameter.low), np.log(parameter.high)
            return np.asarray(np.clip(np.exp((1 - u) * low + u * high), parameter.low, parameter.high))
        return (1 - u) * parameter.low + u * parameter.high
    step = 1.0 if parameter.step is None else float(parameter.step)
    return np.asarray(np.minimum(parameter.low + parameter.axis.index(u) * step, parameter.high))


def _coordinate(parameter: Parameter, x: Array) -> Array:
    """The inverse of `_column`; between two positions of a grid it is linear."""
    ends = _column(parameter, np.array([0.0, 1.0]))
    if is_line(parameter) and parameter.log:
        x, ends = np.log(x), np.log(ends)
    return np.asarray((x - ends[0]) / (ends[1] - ends[0] or 1.0))


def central_differences(
    f: Callable[[Array], Array], P: Array, columns: NDArray[np.intp], low: float, high: float
) -> tuple[Array, Array]:
    """Values (k x n) of f (m x p -> m x n) at P (k x p), and derivatives in the given c columns (k x n x c), one-sided
    where a point would leave [low, high]."""
    # half the width of a difference for coordinates of unit size: truncation, 1e-10, is near rounding, 1e-11
    step = 1e-5
    c = len(columns)
    j = np.arange(c)
    ahead, behind = np.minimum(P[:, columns] + step, high), np.maximum(P[:, columns] - step, low)
    grid = np.repeat(P[:, None, :], 2 * c + 1, axis=1)
    grid[:, 1 + j, columns], grid[:, 1 + c + j, columns] = ahead, behind
    values = f(grid.reshape(-1, P.shape[1])).reshape(len(P), 2 * c + 1, -1)
    slopes = (values[:, 1 : 1 + c] - values[:, 1 + c :]) / (ahead - behind)[:, :, None]
    return values[:, 0], slopes.transpose(0, 2, 1)


def with_gradient(score: Callable[[Array], Array], cube: Cube) -> Callable[[Array], tuple[Array, Array]]:
    """The score (q x d -> q) together with its gradient (q x d); coordinates that are no lines have gradient 0."""
    held = cube.discrete.copy()
    for start, stop in cube.groups:
        held[start:stop] = True
    free = np.flatnonzero(~held)

    def both(X: Array) -> tuple[Array, Array]:
        values, slopes = central_differences(score, X, free, 0.0, 1.0)
        gradient = np.zeros_like(X)
        gradient[:, free] = slopes[:, 0]
        return values[:, 0], gradient

    return both


class LinearInW(Family):
    """w . features(x): linear, quadratic and separable quadratic response surfaces; weights are unbounded."""

    flexible = True

    def __init__(self, features: Callable[[Array], Array], names: tuple[str, ...]) -> None:
        super().__init__(names, reach=np.inf)
        self._features = features

    def jacobian(self, V: Array, X: Array) -> tuple[Array, Array]:
        Phi = self._features(X)
        return V @ Phi.T, np.broadcast_to(Phi, (len(V), *Phi.shape))


def linear(d: int) -> Family:
    return LinearInW(lambda X: np.column_stack([np.ones(len(X)), X]), ("1", *(f"x{j}" for j in range(d))))


def quadratic(d: int) -> Family:
    i, j = np.triu_indices(d)
    names = ("1", *(f"x{a}" for a in range(d)), *(f"x{a}*x{b}" for a, b in zip(i, j)))
    return LinearInW(lambda X: np.column_stack([np.ones(len(X)), X, X[:, i] * X[:, j]]), names)


def separable_quadratic(d: int) -> Family:
    names = ("1", *(f"x{a}" for a in range(d)), *(f"x{a}^2" for a in range(d)))
    return LinearInW(lambda X: np.column_stack([np.ones(len(X)), X, X**2]), names)


class TwoLayerNet(Family):
    """w2 . act(W1 x + b1) + b2, weights in the order W1 (row by row), b1, w2, b2. `plain=True` is the paper's net, on
    the user's own units; else layers are scaled so that standard normal weights give functions of unit size."""

    flexible = True

    def __init__(self, d: int, width: int, act: Literal["sigmoid", "tanh"], *, plain: bool = False) -> None:
        # first-layer gain, with which hidden units use the curved part of their range; sigmoid(2 a) = (1 + tanh(a)) / 2
        net_gain = {"sigmoid": 4.0, "tanh": 2.0}
        whole_number(width=width)
        hidden = [f"W1[{j},{i}]" for j in range(width) for i in range(d)]
        names = (*hidden, *(f"b1[{j}]" for j in range(width)), *(f"w2[{j}]" for j in range(width)), "b2")
        super().__init__(names, reach=np.inf if plain else NET_REACH)
        self.d, self.width, self._act = d, width, act
        self._first = 1.0 if plain else net_gain[act] / np.sqrt(d)
        self._bias = 1.0 if plain else net_gain[act] / 2
        # 1.5: gain of the second layer, over sqrt(width): set by hand so that random nets have about unit variance
        self._second = 1.0 if plain else 1.5 / np.sqrt(width)
        if plain:
            self.inputs = "user"  # type: ignore[misc]
            self.standard = False  # type: ignore[misc]

    def split(self, V: Array) -> tuple[Array, Array, Array, Array]:
        """W1 (k x width x d), b1 (k x width), w2 (k x width), b2 (k), with the layer scales applied."""
        h, d = self.width, self.d
        W1, b1, w2, b2 = np.split(V, [h * d, h * d + h, h * d + 2 * h], axis=1)
        return W1.reshape(-1, h, d) * self._first, b1 * self._bias, w2 * self._second, b2[:, 0]

    def ascent_direction(self, w: Array, x: Array) -> tuple[Array, Array]:
        W1, b1, w2, _ = self.split(w[None])
        a = W1[0] @ x + b1[0]
        H = expit(a) if self._act == "sigmoid" else np.tanh(a)
        B = (H * (1 - H) if self._act == "sigmoid" else 1 - H**2) * w2[0]
        dw = np.concatenate([np.outer(B, x * self._first).ravel(), B * self._bias, H * self._second, [1.0]])
        return B @ W1[0], dw

    def jacobian(self, V: Array, X: Array) -> tuple[Array, Array]:
        W1, b1, w2, b2 = self.split(V)
        A = np.matmul(X, W1.transpose(0, 2, 1)) + b1[:, None, :]  # k x n x width
        H = expit(A) if self._act == "sigmoid" else np.tanh(A)
        slope = H * (1 - H) if self._act == "sigmoid" else 1 - H**2
        k, n, h = H.shape
        F = np.matmul(H, w2[:, :, None])[:, :, 0] + b2[:, None]
        J = np.empty((k, n, self.p))
        B = slope * w2[:, None, :]
        first = J[:, :, : h * self.d].reshape(k, n, h, self.d)
        np.multiply(B[:, :, :, None], X[None, :, None, :] * self._first, out=first)
        J[:, :, h * self.d : h * self.d + h] = B * self._bias
        J[:, :, h * self.d + h : -1] = H * self._second
        J[:, :, -1] = 1.0
        return F, J


def usual_family(d: int) -> str:
    """The name of the family where the user gives none: a quadratic, without cross terms in many dimensions."""
    # 8: dimensions up to which the usual family has cross terms: there it has at most 45 coefficients
    return "quadratic" if d <= 8 else "separable-quadratic"


def named_family(name: str, d: int, width: int) -> Family:
    """The named family for d columns; `width` is that of the nets."""
    if name in ("sigmoid-net", "mlp"):
        return TwoLayerNet(d, width, "sigmoid" if name == "sigmoid-net" else "tanh")
    if name not in FAMILIES:
        known = ", ".join(sorted([*FAMILIES, "sigmoid-net", "mlp"]))
        raise ValueError(f"no family is called {name!r}; there are {known}; a function of yours is given as itself")
    return FAMILIES[name](d)


FAMILIES: dict[str, Callable[[int], Family]] = {
    "linear": linear,
    "quadratic": quadratic,
    "separable-quadratic": separable_quadratic,
}
"""The families that have a name, by the number of inputs."""
