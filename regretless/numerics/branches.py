"""A net with two branches, and the choice of its shape by evidence: the model behind NeuralBO's default.

One branch is a dense tangent net (every unit sees every input), the other consists of units that see one input each: random features of
an additive function, or with many inputs (the words of a document) the inputs themselves, a linear one. Few black boxes are purely one or
the other; how much of each, how quickly they vary and how noisy the values are can be chosen on a small grid by the marginal likelihood,
with the signal variance at its best value for each setting.

    h(x) = sqrt(1 - share) f_dense(scale x) + sqrt(share) sum_j c_j sin(coordinate_scale v_j x_{i(j)} + b_j)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import blas, lapack

from regretless.numerics.ntk import Direction, Factors, Mlp, ModuleTangent, Tensor, diagonal, kernel, like, namespace, on_host
from regretless.space import Array

UNITS_PER_INPUT, MOST_UNITS = 16, 1024
"""Units of the coordinate branch per input, and in all."""
MOST_INPUTS = 128
"""With more inputs than this one-coordinate units would be too few per input: the branch is linear."""
TAIL = 5
"""Degrees of freedom of the frequencies' Student law: its smooth functions are those of a Matern kernel of order 5/2."""
SCALES = (0.4, 0.8, 1.6, 3.2, 6.4)
"""Dense input scales tried, over sqrt(number of inputs): the squared distance of two random points grows like that number."""
COORDINATE_SCALES = (1.0, 3.0)
SHARES = (0.0, 0.3, 0.7, 0.95)
NOISES = (1e-3, 1e-2, 1e-1)
"""Noise variances tried, over the mean prior variance."""
NOISE_LEVELS = (3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
"""The same where nothing else is chosen."""
EVIDENCE_POINTS = 200
"""The evidence is that of this many values, the best ones: the model is to be good where the search is."""


@dataclass(frozen=True)
class Shape:
    """What the evidence chooses; `variance` is the signal variance of standardised values."""

    scale: float
    coordinate_scale: float = 3.0
    share: float = 0.5
    lam: float = 0.01
    variance: float = 1.0


class BranchNet:
    """The two-branch net at one shape; `factors` take inputs on [-1, 1], n x q."""

    def __init__(self, dense: Mlp, probe: Tensor, rng: np.random.Generator) -> None:
        q = probe.shape[1]
        self._dense = dense
        self._probe = probe
        self.linear = q > MOST_INPUTS
        units = 0 if self.linear else min(max(256, UNITS_PER_INPUT * q), MOST_UNITS)
        self._coordinate = np.arange(units) % q
        frequency = rng.standard_normal(units) / np.sqrt(rng.chisquare(TAIL, units) / TAIL)
        phase = rng.uniform(0, 2 * np.pi, units)
        self._frequency, self._phase = like(frequency, probe), like(phase, probe)
        self._features = q if self.linear else units
        self._unit = float((probe**2).sum(1).mean()) ** -0.5 if self.linear else (2.0 / units) ** 0.5
        self.shape = Shape(SCALES[2] / q**0.5)
        self._norm = 1.0
        self._set_norm()

    def at(self, shape: Shape) -> BranchNet:
        """The same weights at another shape."""
        other = object.__new__(BranchNet)
        other.__dict__.update(self.__dict__)
        other.shape = shape
        other._set_norm()
        return other

    def _set_norm(self) -> None:
        """The dense kernel is divided by its mean diagonal over the inputs' domain: nu then means the same in every dimension."""
        self._norm = float(diagonal(self._dense.factors(self._probe * self.shape.scale)).mean())

    def dense_factors(self, X: Tensor, share: float = 0.0) -> Factors:
        return replace(self._dense, norm=self._norm / (1 - share)).factors(X * self.shape.scale)

    def coordinate_features(self, X: Tensor) -> Tensor:
        """The coordinate branch's features, n x units (n x q where it is linear), of mean square norm 1 over the inputs' domain."""
        if self.linear:
            return X * self._unit
        arguments = X[:, self._coordinate] * (self._frequency * self.shape.coordinate_scale) + self._phase
        return namespace(X).sin(arguments) * self._unit

    def factors(self, X: Tensor) -> Factors:
        share = self.shape.share
        dense = self.dense_factors(X, share)
        return (*dense, (self.coordinate_features(X) * share**0.5, None)) if share else dense

    def random_direction(self, rng: np.random.Generator) -> Direction:
        dense = self._dense.random_direction(rng)
        return (*dense, like(rng.standard_normal(self._features), self._phase)) if self.shape.share else dense


def choose_shape(net: BranchNet, X: Tensor, y: Array) -> Shape:
    """The shape of the grid with the largest evidence for standardised values y (n) at inputs X (n x q)."""
    best = np.argsort(-y, kind="stable")[:EVIDENCE_POINTS]
    X, y = X[best], y[best]
    q = X.shape[1]
    dense, additive = {}, {}
    for scale in SCALES:
        A = net.at(Shape(scale / q**0.5, share=0.0)).dense_factors(X)
        dense[scale] = on_host(kernel(A, A))
    coordinate_scales = COORDINATE_SCALES[-1:] if net.linear else COORDINATE_SCALES
    for scale in coordinate_scales:
        P = net.at(replace(net.shape, coordinate_scale=scale)).coordinate_features(X)
        additive[scale] = on_host(P @ P.T)
    found, most = net.shape, -np.inf
    for scale, share in itertools.product(SCALES, SHARES):
        for coordinate_scale in coordinate_scales if share else coordinate_scales[-1:]:
            K = (1 - share) * dense[scale] + share * additive[coordinate_scale] if share else dense[scale]
            for lam in NOISES:
                evidence, variance = log_evidence(K, y, lam)
                if evidence > most:
                    most = evidence
                    found = Shape(scale / q**0.5, coordinate_scale, share, lam, variance)
    return found


def choose_noise(net: BranchNet | ModuleTangent, shape: Shape, X: Tensor, y: Array) -> Shape:
    """The shape with the noise level, and signal variance, of the largest evidence for standardised values y (n) at inputs X (n x ...)."""
    best = np.argsort(-y, kind="stable")[:EVIDENCE_POINTS]
    A = net.factors(X[best])
    K = on_host(kernel(A, A))
    _, variance, lam = max((*log_evidence(K, y[best], lam), lam) for lam in NOISE_LEVELS)
    return replace(shape, lam=lam, variance=variance)


def log_evidence(K: Array, y: Array, lam: float) -> tuple[float, float]:
    """log p(y) up to a constant under variance * (K + lam I) at the best variance, and that variance (of at least 1e-6)."""
    n = len(y)
    A = K.copy()
    A.flat[:: n + 1] += lam
    L, info = lapack.dpotrf(A, lower=1, overwrite_a=1, clean=0)
    if info:
        return -np.inf, 1.0
    half = blas.dtrsv(L, y, lower=1)
    variance = max(float(half @ half) / n, 1e-6)
    return -0.5 * n * float(np.log(variance)) - float(np.log(L.diagonal()).sum()), variance


def fit_sizes(growth: float, start: int, n: int) -> int:
    """The largest scheduled size of at most n: start, then each time `growth` times as many; start when n is below it."""
    size = start
    while int(size * growth) + 1 <= n:
        size = int(size * growth) + 1
    return size
