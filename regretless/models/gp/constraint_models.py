"""What is modelled beside the objective: constraints, costs, and where the user expects good values.

Every constraint c has a Gaussian process of its own on g = -sign(c) log(1 + |c| / s). That compresses values far from
the border (Eriksson and Poloczek 2021) and is at least 0 where the constraint holds. s is the median size of the values
in the initial design. Costs have one on their logarithms. An acquisition a, the logarithm of a gain or a bound in
standard deviations, becomes

    a(x) + sum_i log P(g_i(x) >= 0) - log cost(x) + w log prior(x),

the expected gain times the probability that it counts (Gardner et al. 2014), per cost (Snoek et al. 2012). While no
feasible point is known, the probability alone is maximised. The weight w of the prior falls as 1 / n (Hvarfner et al.
2022), so that it decides at first and the values decide in the end.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from regretless.basics.statefile import State
from regretless.history import History
from regretless.models.gp.acquisition import log_probability, of_posterior
from regretless.models.gp.maximiser import Acquisition
from regretless.models.gp.posterior import GP
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.belief import Belief
from regretless.space.parameters import Array


class Border(NamedTuple):
    """The model of a constraint and the standardised value from which on it holds."""

    gp: GP
    at: float


def compressed_constraint(c: Array, size: float) -> Array:
    """g of the module's text for values c (n) of a constraint."""
    return -np.sign(c) * np.log1p(np.abs(c) / size)


def typical_size(c: Array) -> float:
    """The median size of some values (n), or 1 where they have none."""
    sizes = np.abs(c[np.isfinite(c)])
    size = float(np.median(sizes[sizes > 0])) if (sizes > 0).any() else 1.0
    return size if size > 0 and math.isfinite(size) else 1.0


class ConstraintModels:
    """Processes for the constraints and the cost of one run.

    Args:
        first: the number of values in the initial design, which settle the scale of each constraint.
        shorten: as for `Surrogate`.
    """

    def __init__(self, cube: Cube, *, constraints: int, cost: bool, first: int, shorten: float = 1.0) -> None:
        options: dict[str, Any] = {
            "clip": False,
            "restart": True,
            "shorten": shorten,
            "quadratic": None if shorten == 1.0 else False,
        }
        self._constraints = [Surrogate(cube, **options) for _ in range(constraints)]
        self._cost = Surrogate(cube, **options) if cost else None
        self._first = first

    def borders(self, X: Array, C: Array, pending: Array) -> list[Border]:
        """The models of the constraints after their values C (n x m) at X (n x d); pending: p x d."""
        found = []
        for model, c in zip(self._constraints, C.T, strict=True):
            gp = model.gp(X, self._modelled(c), None, pending)
            found.append(Border(gp, -gp.offset / gp.scale))
        return found

    def _modelled(self, c: Array) -> Array:
        """g of the values c (n) of a constraint."""
        return compressed_constraint(c, typical_size(c[: self._first]))

    def log_cost(self, X: Array, costs: Array) -> Acquisition:
        """The expected logarithm of the cost at a point, up to a constant."""
        assert self._cost is not None
        gp = self._cost.gp(X, np.log(costs))

        def value_and_gradient(P: Array) -> tuple[Array, Array]:
            mean, gradient = gp.mean_grad(P)
            return gp.scale * mean, gp.scale * gradient

        return Acquisition(value_and_gradient, lambda P: gp.scale * gp.mean_at(P))

    def latest_fits(self, history: History) -> State:
        """What `take_fits` takes over, so that a loaded run fits nothing again."""
        fits = {name: model.latest_fit(*data) for name, model, data in self._models(history)}
        return {name: fit for name, fit in fits.items() if fit}

    def take_fits(self, history: History, state: Mapping[str, Any]) -> None:
        """Takes over what `latest_fits` gave for this history; raises ValueError when it cannot be that."""
        for name, model, data in self._models(history):
            if name in state:
                model.take_fit(*data, state[name])

    def _models(self, history: History) -> list[tuple[str, Surrogate, tuple[Array, Array, Array]]]:
        """The name of each model, the model, and the points, values and noise variances that it is fitted to."""
        X, unknown = history.X, np.full(len(history), np.nan)
        columns = zip(self._constraints, history.constraints.T, strict=True)
        found = [(str(i), model, (X, self._modelled(c), unknown)) for i, (model, c) in enumerate(columns)]
        return found if self._cost is None else [*found, ("cost", self._cost, (X, np.log(history.costs), unknown))]


def log_feasible(borders: Sequence[Border]) -> Acquisition:
    """The logarithm of the probability that all constraints hold, as if they were independent."""
    return weighted_sum([of_posterior(border.gp, log_probability(border.at, border.gp.signal)) for border in borders])


def probability_feasible(borders: Sequence[Border], x: Array) -> float:
    """The probability that all constraints hold at the point x (d); where a model found no noise in its constraint,
    a value observed at x is the truth."""
    total = 0.0
    for gp, at in borders:
        here = (x == gp.X).all(axis=1)
        # 1e-4: relative noise variances below this are those of a smooth fit, and no property of the constraint
        if gp.hyper.noise < 1e-4 and here.any():
            total += 0.0 if float(gp.y[here].min()) >= 0.0 else -math.inf
            continue
        mean, variance = gp.mean_var(x[None])
        total += float(log_ndtr((float(mean[0]) - at) / math.sqrt(max(float(variance[0]), 1e-300))))
    return math.exp(total)


def log_belief(cube: Cube, belief: Belief) -> Acquisition:
    """The logarithm of the user's prior."""
    return Acquisition.of(lambda P: belief.log_density(P, cube.active(P) if cube.gates else None))


def belief_weight(n: int, budget: int | None) -> float:
    """w of the module's text after n values."""
    # 0.1: beta of Hvarfner et al. (2022) is a tenth of the budget (Sec. 4.1)
    # 5.0: beta where the budget is small or not known: that of 50 evaluations
    return max(5.0, 0.1 * (budget or 0)) / max(n, 1)


def weighted_sum(parts: Sequence[Acquisition], weights: Sequence[float] | None = None) -> Acquisition:
    """The weighted sum of acquisitions; all weights are 1 unless given."""
    factors = [1.0] * len(parts) if weights is None else list(weights)

    def value_and_gradient(P: Array) -> tuple[Array, Array]:
        pairs = [part.value_and_gradient(P) for part in parts]
        value = sum(w * f for w, (f, _) in zip(factors, pairs, strict=True))
        return np.asarray(value), np.asarray(sum(w * g for w, (_, g) in zip(factors, pairs, strict=True)))

    def value_alone(P: Array) -> Array:
        return np.asarray(sum(w * part.value(P) for w, part in zip(factors, parts, strict=True)))

    return Acquisition(value_and_gradient, value_alone)
