"""The regression oracle of Phase I: from a history to the fitted parameters, the noise and the linearisation.

    v_hat  = argmin over the box  sum_i weight_i (f(v, x_i) - z_i)^2 + lam |v|^2    (Eq. 2, with the prior N(0, I) on v)
    sigma2 = (NOISE_WEIGHT NOISE^2 + RSS) / (NOISE_WEIGHT + n - p_eff),   p_eff = trace of J (J'J + lam I)^-1 J'
    lam    = sigma2

The solver is a batched, projected Levenberg-Marquardt method (Levenberg 1944, Marquardt 1963): all starts advance
together, and the normal equations are solved in the smaller space, parameters or data.

A fit is a function of the history alone. Values are standardised with the first `block` ones. A full fit from many
starts, independent of earlier ones, is made at the sizes block, block + EVERY, block + 2 EVERY, ...; in between, a fit
starts from the distinct solutions of the size before and a few fresh points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.basics.streams import Stream, keyed_generator
from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.parametric import Family, LinearInW, ModelInputs
from regretless.models.gp.surrogate import standardisation
from regretless.space.parameters import Array

EVERY = 10  # sizes between two full fits; set by hand: an ask with a full fit takes twice as long (docs, Costs)
FULL_STARTS, FULL_ITERATIONS = 24, 40  # of a full fit; 24 starts reach scipy's best cost to four digits (docs, Costs)
LEAST_STARTS, LARGE = 6, 1500  # p parameters get LARGE / p starts, from LEAST_STARTS to FULL_STARTS; by hand, for time
MOST_MODES, LEAST_MODES, MANY = 8, 3, 400  # solutions carried along: MANY / p, within these bounds (docs)
NOISE, NOISE_WEIGHT = 0.05, 4.0  # prior noise of standardised values, its weight in observations; n < p needs one
LEAST_NOISE = 0.003  # the least noise of standardised values: Sigma = lam I + J'J stays solvable in double precision
LARGEST = 1e9  # standardised values are clipped here, so that no square or likelihood leaves the range of floats


@dataclass(frozen=True)
class FamilyFit:
    """A family fitted to n values; z = (y - offset) / scale, everything else is in these standardised units.

    `v` (p), `values` (n) and `jacobian` (n x p) are those of the best solution; `free` (p) says which parameters lie
    inside their bounds. `solutions` (k x p) are the distinct modes, best first, and `support` (k) their shares of the
    posterior. `ball` is Sigma of the linear problem rows.v = targets that v solves to first order, lam = sigma2, anchor
    0.
    """

    offset: float
    scale: float
    z: Array
    weight: Array
    v: Array
    free: NDArray[np.bool_]
    values: Array
    jacobian: Array
    sigma2: float
    solutions: Array
    support: Array
    rows: Array  # the weighted gradients, n x p
    targets: Array  # the right-hand side of the weighted linear problem, n
    ball: Ball

    @property
    def n(self) -> int:
        """The number of values."""
        return len(self.z)

    @property
    def residuals(self) -> Array:
        """Told minus fitted values, n."""
        return self.z - self.values


class Oracle:
    """Fits a family to histories. `sign` is -1 where values are the negatives of the user's; `seed` keys the starts;
    the first `block` values fix the standardisation; `noise_sd` is in the units of y, None to estimate it."""

    def __init__(
        self, family: Family, inputs: ModelInputs, *, sign: float, seed: int, block: int, noise_sd: float | None = None
    ) -> None:
        self.family, self.inputs, self.sign, self.seed = family, inputs, sign, seed
        self.block, self.noise_sd = block, noise_sd
        self._modes = min(max(MANY // family.p, LEAST_MODES), MOST_MODES)
        self._seen: tuple[Array, Array, Array] = (np.empty((0, 0)), np.empty(0), np.empty(0))
        self._fits: dict[int, FamilyFit] = {}

    def __call__(self, X: Array, y: Array, yvar: Array) -> FamilyFit:
        """The fit of the history X (n x d cube points), y (n), yvar (n, NaN unknown), n >= 1."""
        n = len(y)
        known = zip(self._seen, (X, y, yvar))
        if len(self._seen[1]) > n or not all(np.array_equal(a, b[: len(a)], equal_nan=True) for a, b in known):
            self._fits = {}
        self._seen = X.copy(), y.copy(), yvar.copy()
        first = n if n < self.block else self.block + EVERY * ((n - self.block) // EVERY)  # size of the last full fit
        begin = max((k for k in self._fits if first <= k <= n), default=None)
        if begin is None:
            self._fits, begin = {first: self._full(X[:first], y[:first], yvar[:first])}, first
        for k in range(begin + 1, n + 1):
            self._fits[k] = self._warm(X[:k], y[:k], yvar[:k], self._fits[k - 1])
        self._fits = {k: f for k, f in self._fits.items() if first <= k <= n}
        return self._fits[n]

    def predict(self, fit: FamilyFit, V: Array, U: Array) -> tuple[Array, Array]:
        """Values k x n and derivatives k x n x p of parameters V (k x p) at cube points U (n x d), in a fit's units."""
        return self._standard(V, self.inputs(U), fit.offset, fit.scale)

    def _full(self, X: Array, y: Array, yvar: Array) -> FamilyFit:
        rng = keyed_generator(self.seed, len(y), stream=Stream.GO_UCB_FIT)
        number = min(FULL_STARTS, max(LEAST_STARTS, LARGE // self.family.p))
        starts = np.vstack([np.zeros(self.family.p), self.family.starts(number - 1, rng)])
        first = self._fitted(X, y, yvar, starts, NOISE**2, FULL_ITERATIONS)
        # 8: iterations that repeat a full fit from its solutions once the noise is known; set by hand
        return self._fitted(X, y, yvar, first.solutions, first.sigma2, 8)

    def _warm(self, X: Array, y: Array, yvar: Array, before: FamilyFit) -> FamilyFit:
        # fresh starts and iterations of a short fit; half of the starts where LEAST_MODES are kept (docs)
        warm_fresh, warm_iterations = 4, 12
        rng = keyed_generator(self.seed, len(y), stream=Stream.GO_UCB_FIT)
        fresh = warm_fresh if self._modes > LEAST_MODES else warm_fresh // 2
        starts = np.vstack([before.solutions, self.family.starts(fresh, rng)])
        return self._fitted(X, y, yvar, starts, before.sigma2, warm_iterations)

    def _fitted(self, X: Array, y: Array, yvar: Array, starts: Array, lam: float, iterations: int) -> FamilyFit:
        offset, scale = standardisation(y[: self.block])
        with np.errstate(over="ignore"):
            z = np.clip((y - offset) / scale, -LARGEST, LARGEST)
            weight = row_weights(yvar / scale / scale)
        x = self.inputs(X)

        def model(V: Array) -> tuple[Array, Array]:
            return self._standard(V, x, offset, scale)

        if isinstance(self.family, LinearInW):
            root = np.sqrt(weight)
            J = model(np.zeros((1, self.family.p)))[1]
            v = Ball(np.zeros(self.family.p), lam, root[:, None] * J[0], root * z).centre()
            found = Solutions(v[None], np.zeros(1), (J[0] @ v)[None], J)
        else:
            reach = self.family.reach
            found = fit_least_squares(model, z, starts, reach=reach, lam=lam, weight=weight, rounds=iterations)
            if not np.isfinite(found.cost[0]):
                raise ValueError("the model gave no finite value at any start; narrow w_bounds, guard divisions")
            # 0.1, 6.0: modes differ by this much (root mean square) and lie within so many nats of the best; by hand
            found = distinct(found, self._modes, apart=0.1, within=2 * lam * 6.0)
        v, values, J = found.v[0], found.values[0], found.jacobian[0]
        root = np.sqrt(weight)
        rows = root[:, None] * J  # (Eq. 4): rows.w = targets at the solution v, weighted
        targets = rows @ v + root * (z - values)
        anchor = np.zeros(len(v))
        if self.noise_sd is None:
            p_eff = float((Ball(anchor, lam, rows, targets).norms(rows) ** 2).sum())
            rss = float(weight @ (z - values) ** 2)
            sigma2 = (NOISE_WEIGHT * NOISE**2 + rss) / (NOISE_WEIGHT + max(len(z) - p_eff, 0.0))
        else:
            sigma2 = min(self.noise_sd / scale, LARGEST) ** 2
        sigma2 = max(sigma2, LEAST_NOISE**2)
        support = np.exp((found.cost.min() - found.cost) / (2 * sigma2))
        support, free = support / support.sum(), np.abs(v) < self.family.reach
        ball = Ball(anchor, sigma2, rows, targets)
        return FamilyFit(offset, scale, z, weight, v, free, values, J, sigma2, found.v, support, rows, targets, ball)

    def _standard(self, V: Array, x: Array, offset: float, scale: float) -> tuple[Array, Array]:
        """The family's values and derivatives in standardised units."""
        F, J = self.family.jacobian(V, x)
        return (F, J) if self.family.standard else ((self.sign * F - offset) / scale, (self.sign / scale) * J)


def row_weights(variance: Array) -> Array:
    """Weights (n) of rows with known noise variances (n, NaN unknown): inverse variances relative to their median."""
    known = np.isfinite(variance)
    if not known.any():
        return np.ones(len(variance))
    usual = max(float(np.median(variance[known])), LEAST_NOISE**2)
    ratio = usual / np.maximum(np.where(known, variance, usual), LEAST_NOISE**2)
    # 0.01, 100.0: bounds of the weights of values with told variances: none silences all others
    return np.where(known, np.clip(ratio, 0.01, 100.0), 1.0)


ModelFunction: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Parameters (k x p) to values (k x n) and derivatives (k x n x p)."""


@dataclass(frozen=True)
class Solutions:
    """Where every start ended, best first: `v` k x p, `cost` k, `values` k x n and `jacobian` k x n x p at `v`."""

    v: Array
    cost: Array
    values: Array
    jacobian: Array

    def take(self, rows: NDArray[np.intp]) -> Solutions:
        """Those of the given rows, in that order."""
        return Solutions(self.v[rows], self.cost[rows], self.values[rows], self.jacobian[rows])


def fit_least_squares(
    model: ModelFunction,
    y: Array,
    starts: Array,
    *,
    reach: float,
    lam: float,
    weight: Array | float = 1.0,
    rounds: int = 60,
) -> Solutions:
    """Minimises sum weight (f(v) - y)^2 + lam |v|^2 over [-reach, reach]^p from every row of `starts` (k x p)."""
    v = np.clip(np.asarray(starts, dtype=np.float64), -reach, reach)
    root = np.sqrt(np.broadcast_to(weight, len(y)))
    F, J = (np.array(a) for a in model(v))
    with np.errstate(over="ignore", invalid="ignore"):
        cost = _cost(F, y, v, lam, root)
        scale = _mean_diagonal(J, root)
        # 0.3: the first damping by the mean diagonal of J'J; more starts succeed than with a small fixed one
        damping = 0.3 * scale
        running = np.isfinite(cost) & np.isfinite(J).all(axis=(1, 2))
        for _ in range(rounds):
            active = np.flatnonzero(running)
            if len(active) == 0:
                break
            r, rows = root * (F[active] - y), J[active] * root[:, None]
            trial = np.clip(v[active] + _step(r, rows, v[active], reach, lam, damping[active]), -reach, reach)
            moved = (trial != v[active]).any(axis=1)
            F_trial, J_trial = model(trial)
            new = _cost(F_trial, y, trial, lam, root)
            usable = np.isfinite(new) & np.isfinite(J_trial).all(axis=(1, 2))
            better = usable & (new < cost[active])
            gain = cost[active] - new
            won = active[better]
            # 1e-9: a start is done when an accepted step lowers its cost by less than this share
            small = better & (gain <= 1e-9 * cost[active])
            v[won], F[won], J[won], cost[won] = trial[better], F_trial[better], J_trial[better], new[better]
            scale[won] = _mean_diagonal(J[won], root)
            # 0.25, 4.0: factors of the damping after an accepted and a refused step; Marquardt: 10, 4 is by hand
            # 1e-12, 1e12: bounds of the damping by that diagonal: beyond, steps change nothing
            shrunk = np.maximum(damping[active] * 0.25, 1e-12 * scale[active])
            damping[active] = np.where(better, shrunk, damping[active] * 4.0)
            stuck = ~better & (~moved | (damping[active] > 1e12 * scale[active]))
            running[active[small | stuck]] = False
    cost = np.where(np.isfinite(cost), cost, np.inf)
    order = np.argsort(cost, kind="stable")
    return Solutions(v, cost, F, J).take(order)


def distinct(found: Solutions, keep: int, *, apart: float, within: float) -> Solutions:
    """Up to `keep` solutions, best first, that differ pairwise by more than `apart` (root mean square of the
    parameters) and whose cost exceeds the best by at most `within`."""
    chosen = [0]
    for i in range(1, len(found.cost)):
        if len(chosen) == keep or not found.cost[i] <= found.cost[0] + within:
            break
        if all(np.sqrt(np.mean((found.v[i] - found.v[j]) ** 2)) > apart for j in chosen):
            chosen.append(i)
    return found.take(np.array(chosen, dtype=np.intp))


def _cost(F: Array, y: Array, v: Array, lam: float, root: Array) -> Array:
    r = root * (F - y)
    return np.asarray(np.einsum("ij,ij->i", r, r) + lam * (v**2).sum(axis=1))


def _mean_diagonal(J: Array, root: Array) -> Array:
    part = J * root[:, None]
    mean: Array = np.einsum("kij,kij->k", part, part) / part.shape[2]
    return np.maximum(mean, np.finfo(np.float64).tiny)


def _step(r: Array, J: Array, v: Array, reach: float, lam: float, damping: Array) -> Array:
    """The damped Gauss-Newton step of every start, k x p, from weighted residuals r (k x n) and derivatives J."""
    gradient = np.matmul(r[:, None, :], J)[:, 0] + lam * v
    held = ((v <= -reach) & (gradient > 0)) | ((v >= reach) & (gradient < 0))
    if held.any():
        J = np.where(held[:, None, :], 0.0, J)
        gradient = np.where(held, 0.0, gradient)
    m = lam + damping
    n, p = J.shape[1:]
    if p <= n:
        A = np.matmul(J.transpose(0, 2, 1), J)
        A[:, np.arange(p), np.arange(p)] += m[:, None]
        return -np.linalg.solve(A, gradient[:, :, None])[:, :, 0]
    K = np.matmul(J, J.transpose(0, 2, 1))
    K[:, np.arange(n), np.arange(n)] += m[:, None]
    inner = np.linalg.solve(K, np.matmul(J, gradient[:, :, None]))
    return np.asarray(-(gradient - np.matmul(inner.transpose(0, 2, 1), J)[:, 0]) / m[:, None])
