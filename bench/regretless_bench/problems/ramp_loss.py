"""A linear classifier with the ramp loss in 5001 dimensions: the Gisette task of Qian et al. (IJCAI 2016) and MS-UCB.

    f(w, b) = |w|^2 / 2 + C sum_l R_s(y_l (w.v_l + b)),      R_s(u) = max(0, 1 - u) - max(0, s - u)

Gisette itself is read from files the user has (UCI's gisette_train.data and .labels, or LIBSVM's format). Without them
the task runs on "gisette-like" data made from MNIST in the way Gisette was made: fours against nines, pixels of the
upper middle and products of them, and as many probes without signal. It is a stand-in with the same size, density and
kind of features; it is not Gisette. Neither paper gives the scaling of the features or the box of the weights: features
are divided by their largest value, weights and the intercept lie in [-bound, bound].
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from regretless.method import keyed_generator
from regretless.space import Space
from regretless.space.parameters import Array
from regretless_bench.problems.data import data_folder, read_digits
from regretless_bench.problems.problem import Problem

FEATURES, PER_CLASS = 5000, 3000
"""Gisette: 5000 features, 6000 training rows, half of them fours."""
DENSITY = 0.132
"""The share of non-zero entries of the real training file, derived from its length."""
TOP, BOTTOM, LEFT, RIGHT = 4, 18, 5, 23
"""The region whose pixels become features: rows 4-17, columns 5-22."""
LEVELS = 999
"""Gisette's features are whole numbers up to this."""
GENERATOR = 20161946
"""Keys the stand-in data, the same for every seed of the problem."""


class RampLoss(Problem):
    """The regularised ramp loss of a linear classifier on Gisette or on gisette-like data, minimised.

    Args:
        C: the weight of the loss against the squared norm; the papers use 1, 2, 5 and 10.
        s: where the ramp saturates.
        bound: weights and intercept lie in [-bound, bound].
        gisette: the path of the real data; None makes gisette-like data from MNIST.
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        s: float = 0.0,
        bound: float = 1.0,
        gisette: str | None = None,
        folder: str | None = None,
        seed: int = 0,
    ) -> None:
        if not (C > 0 and s < 1 and bound > 0):
            raise ValueError(f"need C > 0, s < 1 and bound > 0, got {C!r}, {s!r} and {bound!r}")
        self.C, self.s, self.bound = float(C), float(s), float(bound)
        self.V, self.labels = gisette_like(folder) if gisette is None else read_gisette(Path(gisette))
        name = "ramp-loss-gisette-like" if gisette is None else "ramp-loss-gisette"
        super().__init__(f"{name}-C{C:g}", Space([(-self.bound, self.bound)] * (self.V.shape[1] + 1)), seed=seed)

    def _true(self, params: dict[str, Any]) -> float:
        return self.value(np.array([params[name] for name in self.space.names], dtype=np.float64))

    def _true_unit(self, U: Array) -> Array:
        return np.array([self.value(self.bound * (2 * u - 1)) for u in U])

    def value(self, weights: Array) -> float:
        """f at (w, b), the intercept last."""
        w, b = weights[:-1], weights[-1]
        return float(0.5 * w @ w + self.C * ramp(self.labels * (self.V @ w + b), self.s).sum())


def ramp(u: Array, s: float) -> Array:
    """R_s(u): 1 - s up to u = s, falling with slope -1 to 0 at u = 1."""
    return np.asarray(np.maximum(0.0, 1.0 - u) - np.maximum(0.0, s - u))


@lru_cache(maxsize=1)
def gisette_like(folder: str | None = None) -> tuple[sparse.csr_array, Array]:
    """Features (6000 x 5000, in [0, 1]) and labels (+1 for four, -1 for nine) made from MNIST.

    Half the features are real: each is a pixel or a product of pixels (scaled so that the largest value stays 255).
    Products of two are still denser than Gisette, so the share of products of three is chosen to meet its density. The
    other half are probes: real features with their rows shuffled, each on its own.
    """
    images, digits = read_digits(data_folder("mnist", folder), "train")
    rows = np.concatenate([np.flatnonzero(digits == 4)[:PER_CLASS], np.flatnonzero(digits == 9)[:PER_CLASS]])
    labels = np.repeat([1.0, -1.0], PER_CLASS)
    rng = keyed_generator(GENERATOR, 0)
    order = rng.permutation(len(rows))
    pixels = images[rows[order], TOP:BOTTOM, LEFT:RIGHT].reshape(len(rows), -1).astype(np.float64) / 255.0
    real = _real_features(pixels, FEATURES // 2, rng)
    probes = real[:, rng.permutation(real.shape[1])]
    for j in range(probes.shape[1]):
        probes[:, j] = probes[rng.permutation(len(probes)), j]
    together = np.concatenate([real, probes], axis=1)[:, rng.permutation(FEATURES)]
    return sparse.csr_array(np.rint(LEVELS * together) / LEVELS), labels[order]


def _real_features(pixels: Array, count: int, rng: np.random.Generator) -> Array:
    """Single pixels, then products of two and three, with the triples' share set so that the whole meets DENSITY."""
    singles = rng.choice(pixels.shape[1], pixels.shape[1] // 4, replace=False)
    left = count - len(singles)
    one, two, three = (rng.integers(pixels.shape[1], size=left) for _ in range(3))
    pairs = pixels[:, one] * pixels[:, two]
    triples = pairs * pixels[:, three]
    dense, thin = (pairs > 0.5 / LEVELS).mean(), (triples > 0.5 / LEVELS).mean()
    wanted = (DENSITY * count - (pixels[:, singles] > 0).mean() * len(singles)) / left
    tripled = int(np.clip(round(left * (dense - wanted) / (dense - thin)), 0, left))
    return np.concatenate([pixels[:, singles], triples[:, :tripled], pairs[:, tripled:]], axis=1)


def read_gisette(path: Path) -> tuple[sparse.csr_array, Array]:
    """The real data: UCI's `gisette_train.data` with `gisette_train.labels` beside it, or one LIBSVM file; features
    over their maximum."""
    if not path.is_file():
        raise FileNotFoundError(
            f"no Gisette data at {path}; give the path of gisette_train.data or of the LIBSVM file, or leave it out"
        )
    if path.suffix == ".data":
        beside = path.with_suffix(".labels")
        if not beside.is_file():
            raise FileNotFoundError(f"{beside} is missing: UCI keeps the labels of {path.name} in it")
        dense, labels = np.loadtxt(path, ndmin=2), np.loadtxt(beside, ndmin=1)
        if len(dense) != len(labels):
            raise ValueError(f"{path.name} has {len(dense)} rows and {beside.name} has {len(labels)}")
        V = sparse.csr_array(dense)
    else:
        V, labels = _read_libsvm(path)
    if set(np.unique(labels)) != {-1.0, 1.0}:
        raise ValueError(f"the labels must be -1 and 1, got {np.unique(labels)[:5]}")
    columns = V.tocsc()
    largest = np.ones(V.shape[1])
    filled = np.flatnonzero(np.diff(columns.indptr))
    largest[filled] = np.maximum(np.maximum.reduceat(np.abs(columns.data), columns.indptr[filled]), 1e-300)
    return sparse.csr_array(V.multiply(1.0 / largest)), labels


def _read_libsvm(path: Path) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    labels: list[float] = []
    starts, columns, values = [0], list[int](), list[float]()
    with open(path) as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if not words:
                continue
            try:
                labels.append(float(words[0]))
                for word in words[1:]:
                    column, _, value = word.partition(":")
                    columns.append(int(column) - 1)
                    values.append(float(value))
            except ValueError:
                raise ValueError(f"{path}, line {number}: not in LIBSVM's format (label index:value ...)") from None
            starts.append(len(columns))
    width = max(FEATURES, max(columns, default=0) + 1)
    return sparse.csr_array((values, columns, starts), shape=(len(labels), width)), np.array(labels)
