"""Does the family hold? Leave-one-out densities of three models of one history: the family, family plus residual process, process alone.

All densities are of the standardised values of the family's fit, over the told points that the process takes as they are (it raises very low
values, see `surrogate.tamed`), so that their sums compare.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np

from regretless.numerics.gp import GP
from regretless.numerics.hybrid import Hybrid, Shares, fit_shares, leave_one_out_density
from regretless.numerics.oracle import Fit
from regretless.numerics.surrogate import Surrogate, tamed
from regretless.space import Array, Cube

Kind: TypeAlias = Literal["family", "hybrid", "process"]

MOST_ROWS = 128
"""Rows that the shares of the hybrid are fitted to; of longer histories an even selection and the best."""


PER_PARAMETER = 1.3
"""Values per parameter below which the oracle rarely finds the function, and leave-one-out at fitted parameters flatters the family."""
HYBRID_MARGIN, PROCESS_MARGIN = 2.0, 6.0
"""By how many nats the hybrid must beat the family, and the process both: the user chose the family, and with few data densities are noisy."""

ERRORS = 1.0
"""And by how many standard errors: many repetitions of one point must not outvote the rest by a trifle each."""


class Guard:
    """Fits the alternatives and compares; every answer is a function of the history (caches only save time)."""

    def __init__(self, cube: Cube, *, seed: int, noise: float | None) -> None:
        self._surrogate = Surrogate(cube, seed=seed, noise=noise)
        self._shares: tuple[int, Shares] | None = None

    def choice(self, X: Array, y: Array, yvar: Array, fit: Fit) -> Kind:
        """The process while data are too few for the family; then the family, unless the densities speak clearly for one of the others."""
        if fit.n < PER_PARAMETER * len(fit.v):
            return "process"
        density = self.densities(X, y, yvar, fit)
        kind: Kind = "hybrid" if better(density["hybrid"], density["family"], HYBRID_MARGIN) else "family"
        return "process" if better(density["process"], density[kind], PROCESS_MARGIN) else kind

    def densities(self, X: Array, y: Array, yvar: Array, fit: Fit) -> dict[Kind, Array]:
        """The leave-one-out log densities under each model, of the values that the process takes as they are."""
        kept = tamed(y) == y
        return {
            "family": family_density(fit)[kept],
            "hybrid": self.hybrid(X, fit).leave_one_out()[kept],
            "process": process_density(self._surrogate.gp(X, y, yvar), fit.scale)[kept],
        }

    def hybrid(self, X: Array, fit: Fit, pending: tuple[Array, Array] | None = None) -> Hybrid:
        kernel = self._surrogate.kernel
        if self._shares is None or self._shares[0] != fit.n:
            rows = np.arange(fit.n)
            if fit.n > MOST_ROWS:
                even = np.linspace(0, fit.n - 1, MOST_ROWS // 2).astype(np.intp)
                rows = np.unique(np.concatenate([even, np.argsort(-fit.z, kind="stable")[: MOST_ROWS // 2]]))
            self._shares = fit.n, fit_shares(kernel, X[rows], fit.jacobian[rows], fit.residuals[rows])
        return Hybrid(kernel, self._shares[1], X, fit.jacobian, fit.residuals, fit.weight, pending)

    def process(self, X: Array, y: Array, yvar: Array, pending: Array) -> GP:
        return self._surrogate.gp(X, y, yvar, pending)


def better(a: Array, b: Array, margin: float) -> bool:
    """Whether the densities a (n) beat b (n) by the margin in sum, and by ERRORS standard errors of their differences."""
    gain = a - b
    return float(gain.sum()) > max(margin, ERRORS * math.sqrt(len(gain)) * float(gain.std()))


def family_density(fit: Fit) -> Array:
    """Leave-one-out log densities of the linearised family, n: residuals e / (1 - h) and variances sigma^2 / (1 - h) with leverages h."""
    left = np.maximum(1 - (fit.ball.norms(fit.rows) ** 2), 1e-9)
    variance = fit.sigma2 / (fit.weight * left)
    density: Array = -0.5 * (fit.residuals / left) ** 2 / variance - 0.5 * np.log(2 * math.pi * variance)
    return density


def process_density(gp: GP, scale: float) -> Array:
    """Leave-one-out log densities of a Gaussian process without pending points, n, of values in units of `scale`."""
    inverse = gp.factor.lower(np.eye(gp.n))
    precision = np.einsum("ij,ij->i", inverse, inverse) / gp.signal
    residual = (gp.y - gp.offset) / gp.scale - gp.mean
    alpha = gp.factor.upper(gp.factor.lower(residual[None]))[0] / gp.signal
    return leave_one_out_density(alpha, precision) + math.log(scale / gp.scale)
