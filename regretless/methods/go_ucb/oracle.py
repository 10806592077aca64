"""The regression oracle: from a history to the fitted parameters, the noise and the linearisation, as a pure function
of the history.

Values are standardised with the mean and the standard deviation of the first `block` values, fixed from then on. A full
multi-start fit is made at the sizes block, block + EVERY, block + 2 EVERY, ...; it knows nothing of earlier fits. Every
size between two of them is fitted from the distinct solutions of the size before and a few fresh starts. So a replay of
any history costs at most one full fit and EVERY - 1 short ones, and gives the same numbers as the run itself, however
its values were told.

    v_hat  = argmin over the box  sum (f(v, x_i) - z_i)^2 + lam |v|^2            (Eq. 2, with the prior N(0, I) on v)
    sigma2 = (NOISE_WEIGHT NOISE^2 + RSS) / (NOISE_WEIGHT + n - p_eff),   p_eff = trace of J (J'J + lam I)^-1 J',   lam = sigma2
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regretless.gp.surrogate import standardisation
from regretless.method import keyed_generator
from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.least_squares import distinct, fit_least_squares
from regretless.methods.go_ucb.parametric import Family, LinearInW
from regretless.parameters import Array
from regretless.streams import Stream

EVERY = 10
"""Sizes between two full fits."""
FULL_STARTS, FULL_ITERATIONS = 24, 40
LEAST_STARTS, LARGE = 6, 1500
"""A family of p parameters gets LARGE / p starts, between LEAST_STARTS and FULL_STARTS: large nets fit well from
anywhere."""
WARM_FRESH, WARM_ITERATIONS = 4, 12
"""Fresh starts and iterations of a short fit; families of many parameters get half of the starts."""
POLISH_ITERATIONS = 8
MOST_MODES, LEAST_MODES, MANY = 8, 3, 400
"""Solutions carried along, MANY / p within these bounds: hidden units, bumps and saturation make several modes."""
APART, NATS = 0.1, 6.0
"""Solutions are modes of their own when their parameters differ by this much, and worth keeping within so many nats of
the best."""
NOISE, NOISE_WEIGHT = 0.05, 4.0
"""The prior noise of standardised values and its weight in observations: without it exploration vanishes once p exceeds
n."""
LEAST_NOISE = 0.003


@dataclass(frozen=True)
class Fit:
    """A fitted family: z = (y - offset) / scale standardises values; everything else is in standardised units.

    `v` p, `values` n and `jacobian` n x p are the best solution, its fitted values and their derivatives, and `free` p
    says which of its parameters no bound holds; `solutions` k x p the distinct modes, best first, and `support` k the
    shares of the posterior they hold (a single 1 where v alone counts); `rows` n x p and `targets` n are the weighted
    linear least-squares problem rows.v = targets that v solves to first order, and `ball` its Sigma with lam = sigma2
    and the prior's centre 0 as anchor.
    """

    n: int
    offset: float
    scale: float
    v: Array
    free: NDArray[np.bool_]
    values: Array
    jacobian: Array
    z: Array
    weight: Array
    sigma2: float
    solutions: Array
    support: Array
    rows: Array
    targets: Array
    ball: Ball

    @property
    def residuals(self) -> Array:
        return self.z - self.values


class Oracle:
    """Fits a family to histories; see the module's text.

    Args:
        family: what to fit.
        inputs: cube points to the family's x.
        sign: 1 where values are the user's own, -1 where they are their negatives.
        seed: keys the starting points.
        block: the number of values that fix the standardisation and begin the schedule.
        noise: the known standard deviation of the noise in the units of y, or None to estimate it.
        refit: "always", or "drift": between two full fits append the new gradient and solve the linear problem (Eq. 5),
            and fit again only when the family at the solution has drifted from its linearisation by more than the noise
            (root mean square over the data).
    """

    def __init__(
        self,
        family: Family,
        inputs: Callable[[Array], Array],
        *,
        sign: float,
        seed: int,
        block: int,
        noise: float | None = None,
        refit: Literal["always", "drift"] = "always",
    ) -> None:
        self.family, self.inputs, self.sign, self.seed, self.block, self.noise, self.refit = (
            family,
            inputs,
            sign,
            seed,
            block,
            noise,
            refit,
        )
        self._modes = min(max(MANY // family.p, LEAST_MODES), MOST_MODES)
        self._seen: tuple[Array, Array, Array] = (np.empty((0, 0)), np.empty(0), np.empty(0))
        self._fits: dict[int, Fit] = {}

    def __call__(self, X: Array, y: Array, yvar: Array) -> Fit:
        """The fit of the history X (n x d cube points), y (n), yvar (n, NaN unknown), n >= 1."""
        if not (
            len(self._seen[1]) <= len(y)
            and all(np.array_equal(a, b[: len(a)], equal_nan=True) for a, b in zip(self._seen, (X, y, yvar)))
        ):
            self._fits = {}
        self._seen = X.copy(), y.copy(), yvar.copy()
        n = len(y)
        first = self.first_of_block(n)
        begin = max((k for k in self._fits if first <= k <= n), default=None)
        if begin is None:
            self._fits, begin = {first: self._full(X[:first], y[:first], yvar[:first])}, first
        for k in range(begin + 1, n + 1):
            self._fits[k] = self._warm(X[:k], y[:k], yvar[:k], self._fits[k - 1])
        self._fits = {k: f for k, f in self._fits.items() if first <= k <= n}
        return self._fits[n]

    def first_of_block(self, n: int) -> int:
        """The size of the last full fit at or before n."""
        return n if n < self.block else self.block + EVERY * ((n - self.block) // EVERY)

    def predict(self, V: Array, U: Array, offset: float, scale: float) -> tuple[Array, Array]:
        """Standardised values k x n and derivatives k x n x p at cube points U."""
        return self._standard(*self.family.jacobian(V, self.inputs(U)), offset, scale)

    # -- inside

    def _full(self, X: Array, y: Array, yvar: Array) -> Fit:
        rng = keyed_generator(self.seed, len(y), stream=Stream.GO_UCB_FIT)
        starts = np.vstack(
            [
                np.zeros(self.family.p),
                self.family.starts(min(FULL_STARTS, max(LEAST_STARTS, LARGE // self.family.p)) - 1, rng),
            ]
        )
        first = self._fitted(X, y, yvar, starts, NOISE**2, FULL_ITERATIONS)
        return self._fitted(X, y, yvar, first.solutions, first.sigma2, POLISH_ITERATIONS)

    def _warm(self, X: Array, y: Array, yvar: Array, before: Fit) -> Fit:
        if self.refit == "drift":
            linear = self._appended(X, y, yvar, before)
            if linear is not None:
                return linear
        rng = keyed_generator(self.seed, len(y), stream=Stream.GO_UCB_FIT)
        fresh = WARM_FRESH if self._modes > LEAST_MODES else WARM_FRESH // 2
        starts = np.vstack([before.solutions, self.family.starts(fresh, rng)])
        return self._fitted(X, y, yvar, starts, before.sigma2, WARM_ITERATIONS)

    def _appended(self, X: Array, y: Array, yvar: Array, before: Fit) -> Fit | None:
        """The fit by Eq. 5 after one more value, or None when the linearisation has drifted."""
        weight = row_weights(yvar / before.scale**2)
        if not np.array_equal(weight[:-1], before.weight):
            return None
        z = (y - before.offset) / before.scale
        value, gradient = self.predict(before.v[None], X[-1:], before.offset, before.scale)
        root = math.sqrt(weight[-1])
        rows = np.vstack([before.rows, root * gradient[0]])
        targets = np.append(before.targets, root * (gradient[0, 0] @ before.v + z[-1] - value[0, 0]))
        v = np.clip(
            Ball(np.zeros(self.family.p), before.sigma2, rows, targets).centre(), -self.family.reach, self.family.reach
        )
        values, jacobian = self.predict(v[None], X, before.offset, before.scale)
        drift = np.sqrt(weight) * (z - values[0]) - (targets - rows @ v)
        if not np.isfinite(values).all() or float(drift @ drift) > before.sigma2 * len(y):
            return None
        one = np.zeros(1)
        return self._described(
            before.offset,
            before.scale,
            v,
            values[0],
            jacobian[0],
            z,
            weight,
            before.sigma2,
            before.solutions,
            one,
            rows,
            targets,
        )

    def _fitted(self, X: Array, y: Array, yvar: Array, starts: Array, lam: float, iterations: int) -> Fit:
        offset, scale = standardisation(y[: self.block])
        z = (y - offset) / scale
        weight = row_weights(yvar / scale**2)
        x = self.inputs(X)
        root = np.sqrt(weight)
        if isinstance(self.family, LinearInW):
            J = self._standard(*self.family.jacobian(np.zeros((1, self.family.p)), x), offset, scale)[1][0]
            v = Ball(np.zeros(self.family.p), lam, root[:, None] * J, root * z).centre()
            solutions, values, cost = v[None], J @ v, np.zeros(1)
        else:
            reach = self.family.reach
            fits = fit_least_squares(
                lambda V: self._standard(*self.family.jacobian(V, x), offset, scale), z, starts,
                low=-reach, high=reach, lam=lam, weight=weight, iterations=iterations,
            )  # fmt: skip
            if not np.isfinite(fits.cost[0]):
                raise ValueError(
                    "the model gave no finite value at any starting point; narrow w_bounds or guard divisions and logarithms"
                )
            kept = distinct(fits, self._modes, apart=APART, within=2 * lam * NATS)
            v, values, J, solutions, cost = fits.v[0], fits.values[0], fits.jacobian[0], fits.v[kept], fits.cost[kept]
        rows = root[:, None] * J
        return self._described(
            offset, scale, v, values, J, z, weight, lam, solutions, cost, rows, rows @ v + root * (z - values)
        )

    def _described(
        self, offset: float, scale: float, v: Array, values: Array, J: Array, z: Array, weight: Array, lam: float,
        solutions: Array, cost: Array, rows: Array, targets: Array,
    ) -> Fit:  # fmt: skip
        """The fit with its noise, its ball and the support of its modes, of which `cost` are the costs."""
        n, anchor = len(z), np.zeros(len(v))
        if self.noise is None:
            p_eff = float((Ball(anchor, lam, rows, targets).norms(rows) ** 2).sum())
            rss = float(weight @ (z - values) ** 2)
            sigma2 = (NOISE_WEIGHT * NOISE**2 + rss) / (NOISE_WEIGHT + max(n - p_eff, 0.0))
        else:
            sigma2 = (self.noise / scale) ** 2
        sigma2 = max(sigma2, LEAST_NOISE**2)
        support = np.exp((cost.min() - cost) / (2 * sigma2))
        ball = Ball(anchor, sigma2, rows, targets)
        free = np.abs(v) < self.family.reach
        return Fit(
            n,
            offset,
            scale,
            v,
            free,
            values,
            J,
            z,
            weight,
            sigma2,
            solutions,
            support / support.sum(),
            rows,
            targets,
            ball,
        )

    def _standard(self, F: Array, J: Array, offset: float, scale: float) -> tuple[Array, Array]:
        """The family's values and derivatives in standardised units."""
        return (F, J) if self.family.standard else ((self.sign * F - offset) / scale, (self.sign / scale) * J)


def row_weights(variance: Array) -> Array:
    """Weights of rows with known noise variances (n, NaN unknown): inverse variances relative to their median, within
    [0.01, 100]."""
    known = np.isfinite(variance)
    if not known.any():
        return np.ones(len(variance))
    usual = max(float(np.median(variance[known])), LEAST_NOISE**2)
    return np.where(
        known, np.clip(usual / np.maximum(np.where(known, variance, usual), LEAST_NOISE**2), 0.01, 100.0), 1.0
    )
