"""Finite and mixed spaces: unordered labels, integers with labels, real tables, scikit-learn grids as finite pools."""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless.method import keyed_generator
from regretless.space import Space
from regretless.space.parameters import Array, Choice, Float, Int
from regretless_bench.problems.families.fields import field
from regretless_bench.problems.families.search import largest
from regretless_bench.problems.problem import Problem
from regretless_bench.problems.tabular import MLP_DATA, NAS_DATA, Tabular, hpobench_mlp, nasbench201
from regretless_bench.streams import BenchStream

SUPPORT_ROWS, GRID = 240, 16
"""Rows of the data that support vector machines learn from, and positions on each axis of a tuning grid."""


def labels(seed: int, dim: int) -> Problem:
    """Unordered labels: choices whose combinations are independent, or sums of effects with and without interaction."""
    rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
    most = {1: 60, 2: 12, 3: 7}.get(dim, 5)
    sizes = [int(rng.integers(max(3, most // 2), most + 1)) for _ in range(dim)]
    values = rng.standard_normal(sizes)
    if dim > 1 and seed % 3:
        values *= (0.0, 0.3)[seed % 3 - 1]
        for axis, size in enumerate(sizes):
            shape = [size if i == axis else 1 for i in range(dim)]
            values = values + rng.standard_normal(size).reshape(shape)
    space = Space({f"c{i}": Choice([f"label-{j}" for j in range(size)]) for i, size in enumerate(sizes)})
    return Tabular(f"labels-{seed}-{dim}", space, values[..., None], single=False)


class Mixed(Problem):
    """A field of numbers, some of them whole, with a shift and a height of its own for each label; maximised."""

    def __init__(self, seed: int, dim: int) -> None:
        rng = keyed_generator(seed, 0, stream=BenchStream.INSTANCE)
        self.count = dim - 1
        self.whole = np.arange(self.count) % 2 == 1
        self.tops = rng.integers(4, 16, self.count)
        parameters: dict[str, Any] = {"label": Choice([f"kind-{i}" for i in range(int(rng.integers(2, 6)))])}
        for i in range(self.count):
            parameters[f"x{i}"] = Int(0, int(self.tops[i])) if self.whole[i] else Float(1e-4, 1e2, log=True)
        self.kinds = len(parameters["label"].labels)
        self.rows = field(rng, self.count, np.full(self.count, rng.uniform(0.3, 0.9) * math.sqrt(self.count)), 5.0)
        self.shifts = rng.uniform(-0.4, 0.4, (self.kinds, self.count))
        self.heights = 0.7 * rng.standard_normal(self.kinds)
        best, at = -math.inf, {}
        for kind in range(self.kinds):
            point, _ = largest(functools.partial(self._rows_of, kind), self.count, seed)
            value = float(self._of(self._legal(point[None]), kind)[0])
            if value > best:
                best, at = value, self._setting(self._legal(point[None])[0], kind)
        super().__init__(f"mixed-{seed}-{dim}", Space(parameters), direction="maximize", optimum=best, optima=[at])

    def _legal(self, U: Array) -> Array:
        return np.where(self.whole, np.rint(U * self.tops) / self.tops, U)

    def _of(self, U: Array, kind: int) -> Array:
        return np.asarray(self.heights[kind] + self.rows(U + self.shifts[kind]))

    def _rows_of(self, kind: int, U: Array) -> Array:
        return self._of(self._legal(U), kind)

    def _setting(self, u: Array, kind: int) -> dict[str, Any]:
        numbers = {
            f"x{i}": round(float(u[i]) * int(self.tops[i])) if self.whole[i] else float(10.0 ** (6 * u[i] - 4))
            for i in range(self.count)
        }
        return {"label": f"kind-{kind}", **numbers}

    def _true(self, params: dict[str, Any]) -> float:
        u = [
            params[f"x{i}"] / self.tops[i] if self.whole[i] else (math.log10(params[f"x{i}"]) + 4) / 6
            for i in range(self.count)
        ]
        return float(self._of(np.array([u]), int(params["label"].rpartition("-")[2]))[0])


def mixed(seed: int, dim: int) -> Problem:
    """One choice, whole numbers and numbers on log scales together."""
    return Mixed(seed, dim)


def table(seed: int, dim: int) -> Problem:
    """Real trainings: HPOBench's networks in five dimensions, NAS-Bench-201 in six; a seed permutes nothing."""
    if dim == 6:
        return nasbench201(data_set=NAS_DATA[seed // 2 % len(NAS_DATA)], single=False)
    return hpobench_mlp(data_set=MLP_DATA[seed // 2 % len(MLP_DATA)], single=False)


TASKS = (
    ("svm-wine", 2), ("tree-breast_cancer", 3), ("elastic-diabetes", 2), ("trees-iris", 3), ("svm-iris", 2),
    ("tree-wine", 3), ("neighbours-breast_cancer", 2), ("trees-diabetes", 3), ("kernel-diabetes", 2),
    ("tree-digits", 3),
)  # fmt: skip


def tuning(seed: int, dim: int) -> Problem:
    """Grids of scikit-learn's models on its bundled data, cross-validated once: finite pools of real scores."""
    tasks = [name for name, size in TASKS if size == dim]
    name = tasks[seed // 2 % len(tasks)]
    scores = _grid(name)
    space = Space({f"p{i}": Int(0, size - 1) for i, size in enumerate(scores.shape)})
    return Tabular(f"tuning-{name}", space, scores[..., None], single=False)


@functools.cache
def _grid(name: str) -> NDArray[np.float64]:
    """The mean cross-validated scores of one task over its grid."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import ElasticNet
    from sklearn.model_selection import cross_val_score
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import scale
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    from regretless_bench.problems.sklearn_tasks import _bundled

    kind, _, data = name.partition("-")
    X, y = _bundled(data)
    X = scale(X)
    order = keyed_generator(0, 3, stream=BenchStream.INSTANCE).permutation(len(y))[:SUPPORT_ROWS]
    X, y = X[order], y[order]
    line = np.linspace(0.0, 1.0, GRID)
    small = np.linspace(0.0, 1.0, 7)
    builders: dict[str, Callable[..., Any]] = {
        "svm": lambda a, b: SVC(C=10 ** (6 * a - 3), gamma=10 ** (6 * b - 5)),
        "elastic": lambda a, b: ElasticNet(alpha=10 ** (4 * a - 3), l1_ratio=b),
        "kernel": lambda a, b: KernelRidge(alpha=10 ** (6 * a - 4), gamma=10 ** (5 * b - 5), kernel="rbf"),
        "neighbours": lambda a, b: KNeighborsClassifier(n_neighbors=1 + round(40 * a), p=1 + 4 * b),
        "tree": lambda a, b, c: DecisionTreeClassifier(
            max_depth=1 + round(9 * a), min_samples_leaf=1 + round(20 * b), max_features=0.1 + 0.9 * c, random_state=0
        ),
        "trees": lambda a, b, c: (ExtraTreesRegressor if data == "diabetes" else ExtraTreesClassifier)(
            8, max_depth=1 + round(9 * a), min_samples_leaf=1 + round(20 * b), max_features=0.1 + 0.9 * c,
            random_state=0,
        ),
    }  # fmt: skip
    axes = [small] * 3 if kind in ("tree", "trees") else [line] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # settings that do not converge are part of the search
        scores = [float(np.mean(cross_val_score(builders[kind](*p), X, y, cv=3))) for p in itertools.product(*axes)]
    return np.array(scores).reshape([len(axis) for axis in axes])
