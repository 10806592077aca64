"""Does the family hold? Leave-one-out densities of three models of one history: the family, family plus residual
process, process alone.

All densities are of the standardised values of the family's fit. The process raises very low values
(`surrogate.tamed`), so it is compared on the others alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.gp.posterior import GP
from regretless.gp.surrogate import Surrogate, tamed
from regretless.methods.go_ucb.hybrid import Hybrid, Shares, fit_shares, leave_one_out_density
from regretless.methods.go_ucb.oracle import Fit
from regretless.parameters import Array
from regretless.space import Cube

Kind: TypeAlias = Literal["family", "hybrid", "process"]

MOST_ROWS = 128
"""Rows that the shares of the hybrid are fitted to; of longer histories an even selection and the best."""
HYBRID_MARGIN, PROCESS_MARGIN = 2.0, 6.0
"""By how many nats the hybrid must beat its rival, and the process the family: the user chose the family, and with few
data densities are noisy."""
MISFIT_MARGIN = 4.0
"""The same for the hybrid where the user is told that the family is wrong, which is more than to act on a mended
one."""
ERRORS = 1.0
"""And by how many standard errors."""
NEAR = 0.03
"""Told points closer than this (root mean square over the coordinates) share one vote: many repetitions of the best
point say little about
the rest, and by a trifle each, from a slightly smaller noise, they would outvote it."""
CAP = 4.0
"""Nats that a single value can speak for or against a model: no density falls off as fast in earnest as that of a
normal."""


class Evidence:
    """Leave-one-out log densities of the told values under the three models (n each).

    `tame` marks the values that the process takes as they are: only they are compared where it takes part. `X` are the
    told points (n x d).
    """

    def __init__(self, density: dict[Kind, Array], X: Array, tame: NDArray[np.bool_]) -> None:
        self.density, self._tame = density, tame
        self._votes = votes(X), np.where(tame, votes(X, tame), 0.0)

    def gain(self, a: Kind, b: Kind) -> float:
        """By how many nats model a predicts left-out values better than model b."""
        return float(self._weight(a, b) @ self._each(a, b))

    def favours(self, a: Kind, b: Kind, margin: float) -> bool:
        """Whether a beats b by the margin, and by ERRORS standard errors."""
        weight, gain = self._weight(a, b), self.gain(a, b)
        error = float(np.linalg.norm(weight * (self._each(a, b) - gain / float(weight.sum()))))
        return gain > max(margin, ERRORS * error)

    def _weight(self, a: Kind, b: Kind) -> Array:
        return self._votes["process" in (a, b)]

    def _each(self, a: Kind, b: Kind) -> Array:
        return np.clip(self.density[a] - self.density[b], -CAP, CAP)


class Guard:
    """Fits the alternatives and compares; every answer is a function of the history (caches only save time).

    Args:
        cube, seed: as for `Surrogate`.
        noise: a known noise variance of all values, or None to fit it.
        flexible: whether the family is an approximator; such a one, once refuted, is dropped and not mended by a
            residual process.
    """

    def __init__(self, cube: Cube, *, seed: int, noise: float | None, flexible: bool) -> None:
        self._surrogate = Surrogate(cube, noise_var=noise)
        self._shares: tuple[int, Shares] | None = None
        self._flexible = flexible

    def choice(self, X: Array, y: Array, yvar: Array, fit: Fit) -> Kind:
        """The family, unless the densities speak clearly for one of the others."""
        evidence = self.evidence(X, y, yvar, fit)
        kind: Kind = "process" if evidence.favours("process", "family", PROCESS_MARGIN) else "family"
        if evidence.favours("hybrid", kind, HYBRID_MARGIN):
            kind = "process" if self._flexible else "hybrid"
        return kind

    def evidence(self, X: Array, y: Array, yvar: Array, fit: Fit) -> Evidence:
        """The leave-one-out log densities under each model.

        The residuals that the hybrid explains are those of a fit to all values, the left-out one included: each costs
        it the leverage of its row, so that in all it pays one nat for every parameter the data have determined.
        """
        density: dict[Kind, Array] = {
            "family": family_density(fit),
            "hybrid": self.hybrid(X, fit).leave_one_out() - fit.ball.norms(fit.rows) ** 2,
            "process": process_density(self._surrogate.gp(X, y, yvar), fit.scale),
        }
        return Evidence(density, X, tamed(y) == y)

    def verdict(self, X: Array, y: Array, yvar: Array, fit: Fit) -> tuple[Kind, float]:
        """What the data say of the family: the model that predicts left-out values clearly better, and by how many
        nats; else "family" and 0.

        Here family and hybrid are nested. The parameters have in both the prior they were fitted with, N(0, I), those
        at a bound stay there, and all others follow when a value is left out; so without its process the hybrid is the
        family. The hybrid that `choice` acts on is centred at the fit and holds on to it, which is worth having in a
        search but flatters it where parameters are barely determined.
        """
        G = fit.jacobian[:, fit.free]
        targets = fit.residuals + G @ fit.v[fit.free]
        shares = replace(self._fitted_shares(X, fit), linear=1.0)
        alone = replace(shares, residual=0.0, noise=fit.sigma2)
        density: dict[Kind, Array] = {
            "family": Hybrid(self._surrogate.kernel, alone, X, G, targets, fit.weight).leave_one_out(),
            "hybrid": Hybrid(self._surrogate.kernel, shares, X, G, targets, fit.weight).leave_one_out(),
            "process": process_density(self._surrogate.gp(X, y, yvar), fit.scale),
        }
        evidence = Evidence(density, X, tamed(y) == y)
        rivals: tuple[tuple[Kind, float], ...] = (("hybrid", MISFIT_MARGIN), ("process", PROCESS_MARGIN))
        gains = {
            kind: evidence.gain(kind, "family") for kind, margin in rivals if evidence.favours(kind, "family", margin)
        }
        best: Kind = max(gains, key=lambda kind: gains[kind], default="family")
        return best, gains.get(best, 0.0)

    def hybrid(self, X: Array, fit: Fit, pending: tuple[Array, Array] | None = None) -> Hybrid:
        return Hybrid(
            self._surrogate.kernel, self._fitted_shares(X, fit), X, fit.jacobian, fit.residuals, fit.weight, pending
        )

    def _fitted_shares(self, X: Array, fit: Fit) -> Shares:
        if self._shares is None or self._shares[0] != fit.n:
            rows = np.arange(fit.n)
            if fit.n > MOST_ROWS:
                even = np.linspace(0, fit.n - 1, MOST_ROWS // 2).astype(np.intp)
                rows = np.unique(np.concatenate([even, np.argsort(-fit.z, kind="stable")[: MOST_ROWS // 2]]))
            self._shares = fit.n, fit_shares(self._surrogate.kernel, X[rows], fit.jacobian[rows], fit.residuals[rows])
        return self._shares[1]

    def process(self, X: Array, y: Array, yvar: Array, pending: Array) -> GP:
        return self._surrogate.gp(X, y, yvar, pending)


def votes(X: Array, counted: NDArray[np.bool_] | None = None) -> Array:
    """One over the number of points, of those counted, that are NEAR each of the points (n x d), n."""
    near = ((X[:, None] - X[None]) ** 2).mean(axis=2) <= NEAR**2
    number = near.sum(axis=1) if counted is None else near[:, counted].sum(axis=1)
    vote: Array = 1.0 / np.maximum(number, 1)
    return vote


def family_density(fit: Fit) -> Array:
    """Leave-one-out log densities of the linearised family, n: residuals e / (1 - h) and variances sigma^2 / (1 - h)
    with leverages h."""
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
