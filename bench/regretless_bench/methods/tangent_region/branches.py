"""The net of `tangent-region`, and how the evidence chooses its shape.

The net has two branches. Units of the dense one see every input; units of the other see one input each, or are the
inputs themselves where there are many. Shares, scales and noise are those of the largest marginal likelihood on a small
grid, with the signal variance at its best for each setting.

    h(x) = sqrt(1 - share) f_dense(scale x) + sqrt(share) sum_j c_j sin(coordinate_scale v_j x_{i(j)} + b_j)
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from regretless.models.tangent.ntk import (
    TAIL,
    Factors,
    Mlp,
    Tensor,
    WeightDirection,
    diagonal,
    kernel,
    like,
    namespace,
    on_host,
)
from regretless.models.tangent.ridge import NOISES, USUAL_NOISE, log_evidence
from regretless.space.parameters import Array

if TYPE_CHECKING:
    from regretless.models.tangent.module_tangent import ModuleTangent

UNITS_PER_INPUT, LEAST_UNITS, MOST_UNITS = 32, 256, 1024
"""Units of the coordinate branch per input, and at least and at most in all (docs/lab/tangent-region.md)."""
MOST_INPUTS = 128  # with more inputs the coordinate branch is linear: its units would be fewer than eight per input
SCALES = (0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
"""Dense input scales tried, each over sqrt(number of inputs), as squared distances grow; the last two suit Ackley."""
COORDINATE_SCALES = (1.0, 3.0, 9.0, 18.0)  # coordinate scales tried: from one arch to the valleys of Michalewicz
SHARES = (0.0, 0.5, 0.9)  # additive shares tried: a dense function, half of each, and one that is nearly additive
USUAL_SCALE = 1.6  # the centre of the prior of the scale; its sd is 2^sqrt(2), as a factor


@dataclass(frozen=True)
class Shape:
    """What the evidence chooses; `variance` is the signal variance of standardised values."""

    scale: float
    coordinate_scale: float = 3.0
    share: float = 0.5
    lam: float = USUAL_NOISE
    variance: float = 1.0


class BranchNet:
    """The two-branch net at one shape; `factors` take inputs on [-1, 1], n x q."""

    def __init__(self, dense: Mlp, probe: Tensor, rng: np.random.Generator) -> None:
        q = probe.shape[1]
        self._dense = dense
        self._probe = probe
        self.linear = q > MOST_INPUTS
        units = 0 if self.linear else min(max(LEAST_UNITS, UNITS_PER_INPUT * q), MOST_UNITS)
        self._coordinate = np.arange(units) % q
        frequency = rng.standard_normal(units) / np.sqrt(rng.chisquare(TAIL, units) / TAIL)
        phase = rng.uniform(0, 2 * np.pi, units)
        self._frequency, self._phase = like(frequency, probe), like(phase, probe)
        self._features = q if self.linear else units
        self._unit = float((probe**2).sum(1).mean()) ** -0.5 if self.linear else (2.0 / units) ** 0.5
        self.shape = Shape(USUAL_SCALE / q**0.5)
        self._norm = 1.0
        self._set_norm()

    def at(self, shape: Shape) -> BranchNet:
        """The same weights at another shape."""
        other = copy.copy(self)
        other.shape = shape
        other._set_norm()
        return other

    def _set_norm(self) -> None:
        """Divides the dense kernel by its mean diagonal, so that nu means the same in every dimension."""
        self._norm = float(diagonal(self._dense.factors(self._probe * self.shape.scale)).mean())

    def dense_factors(self, X: Tensor, share: float = 0.0) -> Factors:
        return replace(self._dense, norm=self._norm / (1 - share)).factors(X * self.shape.scale)

    def coordinate_features(self, X: Tensor) -> Tensor:
        """The coordinate branch's features, n x units (n x q where it is linear), of mean square norm 1."""
        if self.linear:
            return X * self._unit
        arguments = X[:, self._coordinate] * (self._frequency * self.shape.coordinate_scale) + self._phase
        return namespace(X).sin(arguments) * self._unit

    def factors(self, X: Tensor) -> Factors:
        share = self.shape.share
        dense = self.dense_factors(X, share)
        return (*dense, (self.coordinate_features(X) * share**0.5, None)) if share else dense

    def random_direction(self, rng: np.random.Generator) -> WeightDirection:
        dense = self._dense.random_direction(rng)
        return (*dense, like(rng.standard_normal(self._features), self._phase)) if self.shape.share else dense


def choose_shape(
    net: BranchNet | ModuleTangent, usual: Shape, X: Tensor, targets: Array, offsets: Array, *, noise_only: bool = False
) -> tuple[Shape, int]:
    """The likeliest shape given values at inputs X (n x ...), and its column of targets (n x k), which are the values
    in k standardised forms; offsets (k) are the logarithms of their Jacobians and prior odds."""
    found, column, most = usual, 0, -np.inf
    shapes: Iterator[tuple[Shape, Tensor, float]]
    if isinstance(net, BranchNet) and not noise_only:
        shapes = _shapes(net, X)
    else:
        shapes = iter([(usual, kernel(*[net.factors(X)] * 2), 0.0)])
    for shape, K, penalty in shapes:
        for lam in NOISES:
            evidence, variance = log_evidence(on_host(K), targets, lam)
            evidence += offsets - penalty - 0.5 * np.log10(lam / USUAL_NOISE) ** 2
            j = int(np.argmax(evidence))
            if evidence[j] > most:
                most, column = float(evidence[j]), j
                found = replace(shape, lam=lam, variance=float(variance[j]))
    return found, column


def _shapes(net: BranchNet, X: Tensor) -> Iterator[tuple[Shape, Tensor, float]]:
    """The grid's shapes, their kernels (n x n), and minus the logarithm of their prior."""
    root = X.shape[1] ** 0.5
    additive = {}
    for coordinate_scale in COORDINATE_SCALES[:1] if net.linear else COORDINATE_SCALES:
        P = net.at(replace(net.shape, coordinate_scale=coordinate_scale)).coordinate_features(X)
        additive[coordinate_scale] = P @ P.T
    for scale in SCALES:
        dense = kernel(*[net.at(Shape(scale / root)).dense_factors(X)] * 2)
        penalty = 0.25 * float(np.log2(scale / USUAL_SCALE)) ** 2
        for share in SHARES:
            if share == 0:
                yield Shape(scale / root, share=share), dense, penalty
                continue
            for coordinate_scale, P in additive.items():
                yield Shape(scale / root, coordinate_scale, share), (1 - share) * dense + share * P, penalty
