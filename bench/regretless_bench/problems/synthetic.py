"""Formulas with known optima: the synthetic functions of the five papers and the usual company.

Each is a factory that gives a `Function`; every optimum is checked by a test, at its point and against a search around
it. Sources of the forms: Branin and Rosenbrock "threds" after Salgia et al. 2021, f1 to f3 after Liu and Wang 2023,
Camelback after Kirschner et al. 2019.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.optimize import minimize_scalar

from regretless.method import keyed_generator
from regretless.space.parameters import Array
from regretless_bench.problems.problem import Function, embedded
from regretless_bench.streams import BenchStream


def _box(low: float, high: float, dim: int) -> Array:
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 1:
        raise ValueError(f"dim must be a whole number of at least 1, got {dim!r}")
    return np.tile([float(low), float(high)], (int(dim), 1))


def sphere(*, dim: int = 2, bound: float = 5.0) -> Function:
    """Sphere, the plain bowl: sum x_i^2, minimum 0 at the origin."""
    return Function(
        f"sphere-{dim}",
        lambda X: np.einsum("ij,ij->i", X, X),
        _box(-bound, bound, dim),
        optimum=0.0,
        points=np.zeros((1, dim)),
        everywhere=True,
    )


# ---------------------------------------------------------------- Branin

BRANIN_POINTS = np.array([[-math.pi, 12.275], [math.pi, 2.275], [3 * math.pi, 2.475]])
"""Where cos u = -1 and the square vanishes, on [-5, 10] x [0, 15]."""


def _branin_rows(X: Array) -> Array:
    u, v = X.T
    square = v - 5.1 * u**2 / (4 * math.pi**2) + 5 * u / math.pi - 6
    return np.asarray(square**2 + (10 - 10 / (8 * math.pi)) * np.cos(u))


def branin() -> Function:
    """Branin in its usual form, minimum 0.397887 at three points."""
    return Function(
        "branin",
        lambda X: _branin_rows(X) + 10,
        np.array([[-5.0, 10.0], [0.0, 15.0]]),
        optimum=10 / (8 * math.pi),
        points=BRANIN_POINTS,
        everywhere=True,
    )


def branin_threds() -> Function:
    """Branin as GP-ThreDS rescales it (Picheny et al. 2013) on the unit square, maximum 1.04739."""

    def rows(X: Array) -> Array:
        return -(_branin_rows(np.column_stack([15 * X[:, 0] - 5, 15 * X[:, 1]])) - 44.81) / 51.95

    points = (BRANIN_POINTS + np.array([5.0, 0.0])) / 15
    optimum = (44.81 + 10 - 10 / (8 * math.pi)) / 51.95
    return Function(
        "branin-threds", rows, _box(0, 1, 2), direction="maximize", optimum=optimum, points=points, everywhere=True
    )


# ---------------------------------------------------------------- Rosenbrock


def rosenbrock(*, dim: int = 2) -> Function:
    """Rosenbrock's valley on [-5, 10]^dim, minimum 0 at (1, ..., 1)."""
    if dim < 2:
        raise ValueError(f"rosenbrock needs dim of at least 2, got {dim!r}")

    def rows(X: Array) -> Array:
        return np.asarray((100 * (X[:, 1:] - X[:, :-1] ** 2) ** 2 + (1 - X[:, :-1]) ** 2).sum(axis=1))

    return Function(
        f"rosenbrock-{dim}", rows, _box(-5, 10, dim), optimum=0.0, points=np.ones((1, dim)), everywhere=True
    )


def rosenbrock_threds() -> Function:
    """Rosenbrock as GP-ThreDS takes it (Azimi et al. 2012): 10 - 100 (z2 - z1^2)^2 - (1 - z1)^2 with z = 0.3 x + 0.8,
    maximum 10."""

    def rows(X: Array) -> Array:
        z1, z2 = 0.3 * X.T + 0.8
        return np.asarray(10 - 100 * (z2 - z1**2) ** 2 - (1 - z1) ** 2)

    return Function(
        "rosenbrock-threds",
        rows,
        _box(0, 1, 2),
        direction="maximize",
        optimum=10.0,
        points=np.full((1, 2), 2 / 3),
        everywhere=True,
    )


# ---------------------------------------------------------------- any dimension


def ackley(*, dim: int = 2, bound: float = 32.768) -> Function:
    """Ackley: a deep hole in a nearly flat, rippled plain, minimum 0 at the origin; `bound=5` keeps the plain in reach
    at high dimension."""

    def rows(X: Array) -> Array:
        hole = -20 * np.exp(-0.2 * np.sqrt(np.mean(X**2, axis=1)))
        return np.asarray(hole - np.exp(np.mean(np.cos(2 * math.pi * X), axis=1)) + 20 + math.e)

    return Function(
        f"ackley-{dim}", rows, _box(-bound, bound, dim), optimum=0.0, points=np.zeros((1, dim)), everywhere=True
    )


def levy(*, dim: int = 2, bound: float = 10.0) -> Function:
    """Levy, a rippled bowl, minimum 0 at (1, ..., 1)."""

    def rows(X: Array) -> Array:
        W = 1 + (X - 1) / 4
        first = np.sin(math.pi * W[:, 0]) ** 2
        middle = ((W[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * W[:, :-1] + 1) ** 2)).sum(axis=1)
        last = (W[:, -1] - 1) ** 2 * (1 + np.sin(2 * math.pi * W[:, -1]) ** 2)
        return np.asarray(first + middle + last)

    return Function(
        f"levy-{dim}", rows, _box(-bound, bound, dim), optimum=0.0, points=np.ones((1, dim)), everywhere=True
    )


def michalewicz(*, dim: int = 2, turned: bool = False, seed: int = 0) -> Function:
    """Michalewicz with steepness 10 on [0, pi]^dim: narrow valleys; the minimum is -1.8013 for dim 2, -9.66015 for dim
    10.

    turned: every axis is turned cyclically by a random amount; terms vanish at both ends, so the function stays
        continuous and keeps its minimum.
    """
    turn = keyed_generator(seed, 4, stream=BenchStream.INSTANCE).uniform(0, math.pi, dim) if turned else np.zeros(dim)

    def rows(X: Array) -> Array:
        i = np.arange(1, X.shape[1] + 1)
        V = np.where(turn > X, X - turn + math.pi, X - turn)
        return np.asarray(-(np.sin(V) * np.sin(i * V**2 / math.pi) ** 20).sum(axis=1))

    point = np.array([_michalewicz_axis(i) for i in range(1, dim + 1)]) + turn
    point = np.where(point > math.pi, point - math.pi, point)
    name = f"michalewicz-{dim}{' turned' if turned else ''}"
    return Function(name, rows, _box(0, math.pi, dim), optimum=float(rows(point[None])[0]), points=point[None])


@functools.cache
def _michalewicz_axis(i: int) -> float:
    """The x in [0, pi] that maximises sin(x) sin(i x^2 / pi)^20: the sum is separable, each peak sits near i x^2 / pi =
    pi / 2 + k pi."""

    def negative(x: float) -> float:
        return -math.sin(x) * math.sin(i * x * x / math.pi) ** 20

    peaks = math.pi * np.sqrt((np.arange(i) + 0.5) / i)
    width = math.pi**2 / (4 * i * peaks)
    best = sorted(zip(peaks, width, strict=True), key=lambda p: -math.sin(p[0]))[:4]
    found = [
        minimize_scalar(negative, bounds=(p - w, min(p + w, math.pi)), method="bounded", options={"xatol": 1e-12})
        for p, w in best
    ]
    return float(min(found, key=lambda r: float(r.fun)).x)


STYBLINSKI_TANG_X = -2.903534027771177
"""The real root of 4 x^3 - 32 x + 5 = 0 that minimises x^4 - 16 x^2 + 5 x."""


def _styblinski_tang_rows(X: Array) -> Array:
    return np.asarray((X**4 - 16 * X**2 + 5 * X).sum(axis=1) / 2)


def styblinski_tang(*, dim: int = 2) -> Function:
    """Styblinski-Tang on [-5, 5]^dim, minimum -39.16617 dim at x_i = -2.903534."""
    point = np.full((1, dim), STYBLINSKI_TANG_X)
    optimum = float(_styblinski_tang_rows(point)[0])
    return Function(
        f"styblinski-tang-{dim}",
        _styblinski_tang_rows,
        _box(-5, 5, dim),
        optimum=optimum,
        points=point,
        everywhere=True,
    )


def _rastrigin_rows(X: Array) -> Array:
    return np.asarray((X**2 + 10 * (1 - np.cos(2 * math.pi * X))).sum(axis=1))


def rastrigin(*, dim: int = 2, bound: float = 5.12) -> Function:
    """Rastrigin, a bowl full of regular dents, minimum 0 at the origin."""
    return Function(
        f"rastrigin-{dim}",
        _rastrigin_rows,
        _box(-bound, bound, dim),
        optimum=0.0,
        points=np.zeros((1, dim)),
        everywhere=True,
    )


def ellipsoid(*, dim: int = 2, bound: float = 65.536) -> Function:
    """Hyper-Ellipsoid of MS-UCB: sum (dim - j + 1) x_j^2, minimum 0 at the origin."""
    weight = np.arange(dim, 0, -1.0)
    return Function(
        f"ellipsoid-{dim}",
        lambda X: np.asarray(X**2 @ weight),
        _box(-bound, bound, dim),
        optimum=0.0,
        points=np.zeros((1, dim)),
        everywhere=True,
    )


# ---------------------------------------------------------------- fixed dimension

CAMELBACK_POINT = (0.08984201368301331, -0.7126564032704135)
"""One of the two minima of the six-hump camelback; the other is its mirror image."""


def camelback(*, dim: int = 2, seed: int = 0) -> Function:
    """Six-hump camelback, negated and floored at -2.5, maximum 1.0316285; beyond dim 2 its two coordinates hide at
    random places."""

    def rows(X: Array) -> Array:
        a, b = X.T
        return np.asarray(np.maximum(-((4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2), -2.5))

    box, points = (
        np.array([[-2.0, 2.0], [-1.0, 1.0]]),
        np.array([CAMELBACK_POINT, (-CAMELBACK_POINT[0], -CAMELBACK_POINT[1])]),
    )
    optimum = float(rows(points)[0])
    plain = Function(
        f"camelback-{dim}", rows, box, direction="maximize", optimum=optimum, points=points, everywhere=True
    )
    return plain if dim == 2 else embedded(plain, dim, seed)


HARTMANN_WEIGHT = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
HARTMANN_POINT = np.array(
    [[0.2016895126537, 0.1500106927143, 0.4768739772712, 0.2753324306874, 0.3116516164721, 0.6573005337748]]
)


def _hartmann_rows(X: Array) -> Array:
    distance = (HARTMANN_A * (X[:, None, :] - HARTMANN_P) ** 2).sum(axis=2)
    return np.asarray(-(HARTMANN_WEIGHT * np.exp(-distance)).sum(axis=1))


def hartmann6() -> Function:
    """Hartmann in six dimensions, four overlapping wells on the unit cube, minimum -3.32237."""
    optimum = float(_hartmann_rows(HARTMANN_POINT)[0])
    return Function("hartmann6", _hartmann_rows, _box(0, 1, 6), optimum=optimum, points=HARTMANN_POINT, everywhere=True)


# ---------------------------------------------------------------- GO-UCB's three


def go_ucb_f1(*, dim: int = 20) -> Function:
    """GO-UCB's f1: the sigmoid network with every weight 1, so 1 + 25 sigmoid(1 + sum x) on [-5, 5]^dim; 39 % of the
    box is optimal."""

    def rows(X: Array) -> Array:
        return np.asarray(1 + 25 * 0.5 * (1 + np.tanh((1 + X.sum(axis=1)) / 2)))

    point = np.full((1, dim), 5.0)
    return Function(
        f"go-ucb-f1-{dim}", rows, _box(-5, 5, dim), direction="maximize", optimum=float(rows(point)[0]), points=point
    )


def go_ucb_f2(*, dim: int = 20) -> Function:
    """GO-UCB's f2: Styblinski-Tang negated, maximum 39.16617 dim."""

    def rows(X: Array) -> Array:
        return -_styblinski_tang_rows(X)

    point = np.full((1, dim), STYBLINSKI_TANG_X)
    optimum = float(rows(point)[0])
    return Function(
        f"go-ucb-f2-{dim}", rows, _box(-5, 5, dim), direction="maximize", optimum=optimum, points=point, everywhere=True
    )


def go_ucb_f3(*, dim: int = 20) -> Function:
    """GO-UCB's f3: Rastrigin negated on [-5, 5]^dim, maximum 0 at the box centre."""

    def rows(X: Array) -> Array:
        return -_rastrigin_rows(X)

    return Function(
        f"go-ucb-f3-{dim}",
        rows,
        _box(-5, 5, dim),
        direction="maximize",
        optimum=0.0,
        points=np.zeros((1, dim)),
        everywhere=True,
    )
