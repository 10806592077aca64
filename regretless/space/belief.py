"""Where the user expects good values: a prior over the cube that guides the first proposals and then gives way.

    Float(1e-5, 1e-1, log=True, prior=(1e-3, 3))      # around 1e-3, within a factor of 3 with probability 0.68
    Int(1, 12, prior=(4, 1.5))                        # around 4, give or take 1.5
    Choice(["sgd", "adam"], prior=[1, 3])             # adam three times as likely

Each parameter has a density of its own on its coordinate: a normal one cut off at the ends, or the weights of the
labels. A small uniform part is mixed in, because no prior is certain and a setting that it had ruled out could never be
reached.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from regretless.space.parameters import Array, Choice, Encoding, Float, Int, Parameter, ends_of, one_per_label

DOUBT = 0.05
"""The share of the uniform part of every density: what lies far from the prior costs at most log(1 / DOUBT)."""


class Belief:
    """Independent densities on some coordinates of a cube.

    Args:
        normal: coordinate -> (mean, sd) on the unit axis.
        weights: coordinate -> the weight of each of its positions, summing to 1.
        groups: the same for one-hot groups, by their first coordinate.
    """

    def __init__(
        self,
        normal: Mapping[int, tuple[float, float]],
        weights: Mapping[int, Sequence[float]],
        groups: Mapping[int, Sequence[float]] | None = None,
    ) -> None:
        self.normal = dict(normal)
        self.weights = {i: np.asarray(w, dtype=np.float64) for i, w in weights.items()}
        self.groups = {i: np.asarray(w, dtype=np.float64) for i, w in (groups or {}).items()}

    def log_density(self, X: Array, active: NDArray[np.bool_] | None = None) -> tuple[Array, Array]:
        """The logarithm of the density relative to its peak (n) and its gradient (n x d) at X (n x d); coordinates
        that do not exist say nothing."""
        value, gradient = np.zeros(len(X)), np.zeros(X.shape)
        on = np.ones(X.shape) if active is None else active.astype(np.float64)
        for i, (mean, sd) in self.normal.items():
            z = (X[:, i] - mean) / sd
            bell = (1.0 - DOUBT) * np.exp(-0.5 * z * z)
            value += on[:, i] * np.log(DOUBT + bell)
            gradient[:, i] = on[:, i] * -z / sd * bell / (DOUBT + bell)
        for i, w in self.weights.items():
            k = len(w)
            at = np.clip(np.floor(X[:, i] * k), 0, k - 1).astype(np.intp)
            value += on[:, i] * np.log(DOUBT + (1.0 - DOUBT) * w / w.max())[at]
        for i, w in self.groups.items():
            at = np.argmax(X[:, i : i + len(w)], axis=1)
            value += on[:, i] * np.log(DOUBT + (1.0 - DOUBT) * w / w.max())[at]
        return value, gradient

    def drawn(self, U: Array) -> Array:
        """Points of the belief for uniform ones U (n x d): those coordinates that it speaks of are mapped by the
        inverse of their distribution."""
        from scipy.special import ndtr, ndtri

        X = np.array(U)
        for i, (mean, sd) in self.normal.items():
            low, high = ndtr(-mean / sd), ndtr((1.0 - mean) / sd)
            X[:, i] = np.clip(mean + sd * ndtri(low + (high - low) * U[:, i]), 0.0, 1.0)
        for i, w in self.weights.items():
            ends = np.cumsum(w)
            X[:, i] = (np.minimum(np.searchsorted(ends, U[:, i], side="right"), len(w) - 1) + 0.5) / len(w)
        for i, w in self.groups.items():
            at = np.minimum(np.searchsorted(np.cumsum(w), U[:, i], side="right"), len(w) - 1)
            X[:, i : i + len(w)] = np.eye(len(w))[at]
        return X

    @property
    def peak(self) -> dict[int, float]:
        """Where the density is largest, by coordinate."""
        out = {i: float(np.clip(mean, 0.0, 1.0)) for i, (mean, _) in self.normal.items()}
        out |= {i: (int(np.argmax(w)) + 0.5) / len(w) for i, w in self.weights.items()}
        return out | {i + int(np.argmax(w)): 1.0 for i, w in self.groups.items()}


def belief_of(
    parameters: Mapping[str, Parameter], spans: Mapping[str, tuple[int, int]], choices: Encoding
) -> Belief | None:
    """The belief of parameters whose coordinates have these spans; None when none of them has a prior."""
    normal: dict[int, tuple[float, float]] = {}
    weights: dict[int, Sequence[float]] = {}
    groups: dict[int, Sequence[float]] = {}
    for name, (at, _) in spans.items():
        p = parameters[name]
        if p.prior and p.axis.levels != 1:
            if isinstance(p, Choice):
                (groups if one_per_label(p, choices) else weights)[at] = [w / sum(p.prior) for w in p.prior]
            else:
                normal[at] = _on_the_axis(p, *p.prior)
    return Belief(normal, weights, groups) if normal or weights or groups else None


def _on_the_axis(p: Float | Int, mean: float, sd: float) -> tuple[float, float]:
    """The mean and the sd of a prior in units of the axis."""
    low, high = ends_of(p)
    if p.log:
        low, high, mean, sd = math.log(low), math.log(high), math.log(mean), math.log(sd)
    return (mean - low) / (high - low), sd / (high - low)
