"""Formulas of the literature: bbob by seed, classics that are not in it in random boxes, bowls."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from regretless.method import keyed_generator
from regretless.space.parameters import Array
from regretless_bench.problems.bbob import FUNCTIONS, bbob
from regretless_bench.problems.families.search import boxed
from regretless_bench.problems.problem import Function, Rows
from regretless_bench.problems.synthetic import (
    ackley,
    branin,
    camelback,
    hartmann6,
    levy,
    michalewicz,
    rosenbrock,
    styblinski_tang,
)  # fmt: skip
from regretless_bench.streams import BenchStream


def bbob_case(seed: int, dim: int) -> Function:
    """The bbob function and instance that a seed stands for."""
    return bbob(function=1 + seed % FUNCTIONS, dim=dim, instance=31 + seed // FUNCTIONS)


def _square(X: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", X, X))


def goldstein(X: Array) -> Array:
    """The logarithm of Goldstein and Price's function, minimum log 3 at (0, -1)."""
    x, y = X.T
    a = 1 + (x + y + 1) ** 2 * (19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2)
    b = 30 + (2 * x - 3 * y) ** 2 * (18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2)
    return np.asarray(np.log(a * b))


def dropwave(X: Array) -> Array:
    """Drop-wave, minimum -1 at the origin."""
    r2 = _square(X)
    return np.asarray(-(1 + np.cos(12 * np.sqrt(r2))) / (0.5 * r2 + 2))


def eggholder(X: Array) -> Array:
    """Eggholder, minimum -959.6407 at (512, 404.2319)."""
    x, y = X[:, 0], X[:, 1] + 47
    return np.asarray(-y * np.sin(np.sqrt(np.abs(x / 2 + y))) - x * np.sin(np.sqrt(np.abs(x - y))))


def holder_table(X: Array) -> Array:
    """Holder table, minimum -19.2085 at (8.05502, 9.66459)."""
    x, y = X.T
    return np.asarray(-np.abs(np.sin(x) * np.cos(y) * np.exp(np.abs(1 - np.sqrt(x**2 + y**2) / math.pi))))


def shekel(X: Array) -> Array:
    """Shekel with ten wells, in four dimensions, minimum near (4, 4, 4, 4)."""
    wells = np.array([[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]] * 2)
    depth = 0.1 * np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5])
    return np.asarray(-(1 / (((X[:, :, None] - wells) ** 2).sum(axis=1) + depth)).sum(axis=1))


def dixon_price(X: Array) -> Array:
    """Dixon and Price, minimum 0 at x_i = 2^(2^(1-i) - 1)."""
    i = np.arange(2, X.shape[1] + 1)
    return np.asarray((X[:, 0] - 1) ** 2 + (i * (2 * X[:, 1:] ** 2 - X[:, :-1]) ** 2).sum(axis=1))


def zakharov(X: Array) -> Array:
    """Zakharov, minimum 0 at the origin."""
    s = 0.5 * (X * np.arange(1, X.shape[1] + 1)).sum(axis=1)
    return np.asarray(_square(X) + s**2 + s**4)


def alpine(X: Array) -> Array:
    """Alpine 1, minimum 0 at the origin."""
    return np.asarray(np.abs(X * np.sin(X) + 0.1 * X).sum(axis=1))


def salomon(X: Array) -> Array:
    """Salomon, minimum 0 at the origin."""
    r = np.sqrt(_square(X))
    return np.asarray(1 - np.cos(2 * math.pi * r) + 0.1 * r)


def cosine_mixture(X: Array) -> Array:
    """Cosine mixture, minimum -0.1 d at the origin."""
    return np.asarray(_square(X) - 0.1 * np.cos(5 * math.pi * X).sum(axis=1))


def bohachevsky(X: Array) -> Array:
    """Bohachevsky 1, minimum 0 at the origin."""
    x, y = X.T
    return np.asarray(x**2 + 2 * y**2 - 0.3 * np.cos(3 * math.pi * x) - 0.4 * np.cos(4 * math.pi * y) + 0.7)


def beale(X: Array) -> Array:
    """The logarithm of 1 + Beale's function, minimum 0 at (3, 0.5)."""
    x, y = X.T
    return np.asarray(np.log1p((1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** 2))


def xin_she_yang(X: Array) -> Array:
    """Xin-She Yang 2, minimum 0 at the origin."""
    return np.asarray(np.abs(X).sum(axis=1) * np.exp(-np.sin(X**2).sum(axis=1)))


def cross_in_tray(X: Array) -> Array:
    """Cross-in-tray, minimum -2.06261 at (1.34941, 1.34941) and its mirrors."""
    x, y = X.T
    inner = np.abs(np.sin(x) * np.sin(y) * np.exp(np.abs(100 - np.sqrt(x**2 + y**2) / math.pi)))
    return np.asarray(-0.0001 * (inner + 1) ** 0.1)


def _ours(make: Callable[..., Function], dim: int | None) -> tuple[Rows, Array, Array]:
    problem = make() if dim is None else make(dim=dim)
    rows, sign = problem.rows, -problem.sign
    return lambda X: sign * rows(X), problem.bounds, problem.points[0]


def _formula(rows: Rows, low: float, high: float, point: Array | float, dim: int) -> tuple[Rows, Array, Array]:
    return rows, np.tile([low, high], (dim, 1)), np.broadcast_to(np.asarray(point, dtype=np.float64), (dim,))


FIXED: dict[int, list[Callable[[], tuple[Rows, Array, Array]]]] = {
    2: [
        lambda: _ours(branin, None),
        lambda: _ours(camelback, None),
        lambda: _formula(goldstein, -2, 2, np.array([0.0, -1.0]), 2),
        lambda: _formula(dropwave, -5.12, 5.12, 0.0, 2),
        lambda: _formula(eggholder, -512, 512, np.array([512.0, 404.2319]), 2),
        lambda: _formula(holder_table, -10, 10, np.array([8.05502, 9.66459]), 2),
        lambda: _formula(bohachevsky, -5, 5, 0.0, 2),
        lambda: _formula(beale, -4.5, 4.5, np.array([3.0, 0.5]), 2),
        lambda: _formula(cross_in_tray, -10, 10, 1.3494066, 2),
    ],
    4: [lambda: _formula(shekel, 0, 10, 4.0, 4)],
    6: [lambda: _ours(hartmann6, None)],
}
ANY: list[Callable[[int], tuple[Rows, Array, Array]]] = [
    lambda d: _ours(styblinski_tang, d),
    lambda d: _ours(levy, d),
    lambda d: _formula(cosine_mixture, -1, 1, 0.0, d),
    lambda d: _ours(ackley, d),
    lambda d: _formula(zakharov, -5, 10, 0.0, d),
    lambda d: _formula(alpine, -10, 10, 0.0, d),
    lambda d: _ours(michalewicz, d) if d in (2, 5, 10) else _ours(rosenbrock, max(d, 2)),
    lambda d: _formula(salomon, -4, 4, 0.0, d),
    lambda d: _formula(dixon_price, -10, 10, np.exp2(np.exp2(1.0 - np.arange(1.0, d + 1.0)) - 1.0), d),
    lambda d: _formula(xin_she_yang, -2 * math.pi, 2 * math.pi, 0.0, d),
]


def classic(seed: int, dim: int) -> Function:
    """A classic of the literature that is not in bbob, in a random box around its optimum: sides of 40 to 100 % of the
    usual ones, the optimum anywhere inside that leaves the box within them."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    fixed = FIXED.get(dim, [])
    pick = int(rng.integers(len(fixed) + len(ANY)))
    rows, bounds, point = fixed[pick]() if pick < len(fixed) else ANY[pick - len(fixed)](dim)
    low, high = bounds.T
    side = (high - low) * rng.uniform(0.4, 1.0, dim)
    start = np.clip(point - side * rng.random(dim), low, high - side)
    where = np.clip((point - start) / side, 0.0, 1.0)
    return boxed(f"classic-{seed}-{dim}", lambda U: -rows(start + U * side), dim, seed, also=where[None])


def bowl(seed: int, dim: int) -> Function:
    """Rotated quadratics with a condition number of up to 100, a power or a logarithm taken of every second."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    turn, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    curvature, centre = np.exp(rng.uniform(0.0, math.log(100.0), dim)), rng.uniform(0.1, 0.9, dim)

    def rows(U: Array) -> Array:
        value = (((U - centre) @ turn) ** 2) @ curvature
        return np.asarray(-(value, np.log(0.1 + value), value**0.75)[seed % 3])

    return boxed(f"bowl-{seed}-{dim}", rows, dim, seed, point=centre)
