"""CMA-ES with restarts: Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772; Hansen, "Benchmarking a
BI-population CMA-ES on the BBOB-2009 function testbed", GECCO 2009.

Points are drawn from a normal distribution; after each generation its mean moves to the better ones and its covariance
learns the directions in which they lay. When a search has converged, the next one starts elsewhere, in turn with a
larger population or with a smaller one and a shorter step. An ask costs microseconds, however long the history is.

Notation
    m, sigma, C     mean, step size and covariance: points are m + sigma N(0, C)
    lambda, w       population, and the weights of its points, best first; those of the worse half are negative
    p_s, p_c        evolution paths of the step size and of the covariance
    y, z            a step (x - m) / sigma, and C^(-1/2) y

Deviations
    1. A generation is the next lambda values of the history, whoever chose their points and whichever distribution
       they came from; steps longer than a sample's are shortened (Hansen, "Injecting external solutions into CMA-ES",
       2011). So the distribution is a function of the history alone, also with workers, warm starts and other methods
       beside it.
    2. Points outside the cube are moved to its border, and the strategy learns from the points as evaluated.
    3. A discrete coordinate keeps at least a part of a share as its standard deviation, a choice keeps a rate of fresh
       labels: a distribution narrower than that would propose one and the same point.
    4. Beyond 100 dimensions the covariance is diagonal (Ros and Hansen, PPSN 2008): a full one costs d^2 a value.
"""

from __future__ import annotations

import math

import numpy as np

from regretless.basics.streams import Draws, Stream, keyed_generator
from regretless.history import History
from regretless.method import Method, Traits
from regretless.models.gp.design import away_from_known
from regretless.space import Cube
from regretless.space.parameters import Array

SIGMA = 0.3  # the first step size, as a share of the cube's edge: a third of the range, as the tutorial advises
CONDITION = 1e14  # a covariance beyond this condition number has lost its digits (tutorial, App. B.3)
TINY = 1e-300  # keeps a logarithm or a quotient of zeros defined


class CMAES(Method):
    """CMA-ES with restarts in two sizes of population (BIPOP): for many cheap evaluations."""

    traits = Traits(keeps_apart=False)

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.population = 4 + int(3 * math.log(self.dim))
        """Values per generation of the first search."""
        # 0.4: the least sd of a discrete coordinate, in shares: one draw in five leaves the middle of its share
        shares = np.array([0.4 / axis.levels if axis.levels else 0.0 for axis in self.cube.axes])
        self._least_sd = np.where(self.cube.categorical, 0.0, shares)
        self._choices = np.flatnonzero(self.cube.categorical)
        self._begin()

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        x = self.search(history).draw(rng)
        lacking = self._least_sd**2 - self._search.variances()
        if (lacking > 0).any():
            x = x + np.sqrt(np.maximum(lacking, 0.0)) * rng.standard_normal(self.dim)
        if len(self._choices):
            # 0.5: expected fresh labels of a point whose space has choices, spread over them; chosen by hand
            fresh = self._choices[rng.random(len(self._choices)) < 0.5 / len(self._choices)]
            x[fresh] = rng.random(len(fresh))
        return away_from_known(cube.snap(x), history, cube, rng)

    def search(self, history: History) -> Search:
        """The search under way after this history."""
        self._catch_up(history)
        return self._search

    def _begin(self) -> None:
        self._restarts = self._doublings = self._taken = 0
        self._spent, self._size = {"large": 0, "small": 0}, "large"
        self._search = Search(np.full(self.dim, 0.5), SIGMA, self.population)

    def _update(self, history: History, first: int) -> None:
        while len(history) - self._taken >= self._search.population:
            stop = self._taken + self._search.population
            self._search.learn(history.X[self._taken : stop], history.y[self._taken : stop])
            self._spent[self._size] += stop - self._taken
            self._taken = stop
            if self._search.finished():
                self._restart()

    def _restart(self) -> None:
        """The next search: the larger populations and the smaller ones get the same number of values (GECCO 2009)."""
        self._restarts += 1
        rng = keyed_generator(self.seed, self._restarts, stream=Stream.CMA_ES_RESTART)
        mean, u = rng.random(self.dim), rng.random(2)
        self._size = "large" if self._spent["large"] <= self._spent["small"] or self._doublings == 0 else "small"
        if self._size == "large":
            self._doublings += 1
            population, sigma = self.population * 2**self._doublings, SIGMA
        else:
            population = int(self.population * (0.5 * 2**self._doublings) ** (u[0] ** 2))
            # 2.0: first steps of a small-population search are shorter by up to ten to this power (GECCO 2009)
            sigma = SIGMA * 10 ** (-2.0 * u[1])
        self._search = Search(mean, sigma, max(population, 4), begun=self._taken)


class Search:
    """One search: the distribution, and what it has seen (tutorial, Fig. 6 and Table 1).

    Args:
        mean: where it starts, d.
        sigma: its first step size.
        population: lambda.
        begun: the number of values that came before it.
    """

    def __init__(self, mean: Array, sigma: float, population: int, *, begun: int = 0) -> None:
        d, self.population, self.begun = len(mean), population, begun
        self.mean, self.sigma = mean.copy(), sigma
        raw = math.log((population + 1) / 2) - np.log(np.arange(1, population + 1))
        better, worse = raw[raw > 0], raw[raw <= 0]
        self.mu = len(better)
        self.mueff = float(better.sum() ** 2 / (better**2).sum())
        mueff_worse = float(worse.sum() ** 2 / max((worse**2).sum(), TINY))
        self.c_s = (self.mueff + 2) / (d + self.mueff + 5)
        self.damping = 1 + 2 * max(0.0, math.sqrt((self.mueff - 1) / (d + 1)) - 1) + self.c_s
        self.c_c = (4 + self.mueff / d) / (d + 4 + 2 * self.mueff / d)
        # 100: the dimension beyond which C is diagonal; in 100 a full update costs 0.1 ms a value
        self.diagonal = d > 100
        faster = (d + 2) / 3 if self.diagonal else 1.0  # a diagonal has d numbers to learn, not d^2 / 2
        self.c_1 = min(1.0, faster * 2 / ((d + 1.3) ** 2 + self.mueff))
        c_mu = faster * 2 * (0.25 + self.mueff + 1 / self.mueff - 2) / ((d + 2) ** 2 + self.mueff)
        self.c_mu = min(1 - self.c_1, c_mu)
        least = [1 + self.c_1 / max(self.c_mu, TINY), 1 + 2 * mueff_worse / (self.mueff + 2)]
        least.append((1 - self.c_1 - self.c_mu) / max(d * self.c_mu, TINY))
        negative = min(least) * worse / max(float(-worse.sum()), TINY)
        self.weights = np.concatenate([better / better.sum(), negative])
        self.p_s, self.p_c = np.zeros(d), np.zeros(d)
        self.C = np.ones(d) if self.diagonal else np.eye(d)
        self.axes, self.scales = np.eye(0 if self.diagonal else d), np.ones(d)  # eigenvectors, roots of the eigenvalues
        self.generation, self._decomposed = 0, 0
        self._gap = 0 if self.diagonal else int(1 / ((self.c_1 + self.c_mu) * d * 10))
        self._longest = math.sqrt(d) + 2 * d / (d + 2)  # a sample's step is hardly ever longer (Hansen 2011)
        self._expected = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))  # E |N(0, I)|
        self._best: list[float] = []  # of each generation
        self._worst = math.inf

    def draw(self, rng: np.random.Generator) -> Array:
        """A point of the distribution, d; it may lie outside the cube."""
        z = self.scales * rng.standard_normal(len(self.mean))
        return np.asarray(self.mean + self.sigma * (z if self.diagonal else self.axes @ z))

    def variances(self) -> Array:
        """The variance of each coordinate, d."""
        return np.asarray(self.sigma**2 * (self.C if self.diagonal else np.diagonal(self.C)))

    def learn(self, X: Array, y: Array) -> None:
        """Takes in a generation: points X (lambda x d) and their values y (lambda), to be maximised."""
        d, g = len(self.mean), self.generation
        steps = (X[np.argsort(-y, kind="stable")] - self.mean) / self.sigma
        white = self._whitened(steps)
        lengths = np.sqrt((white**2).sum(axis=1))
        shorter = np.minimum(1.0, self._longest / np.maximum(lengths, TINY))
        steps, white, lengths = steps * shorter[:, None], white * shorter[:, None], lengths * shorter
        w = self.weights[: self.mu]
        move = w @ steps[: self.mu]
        self.mean = np.clip(self.mean + self.sigma * move, 0.0, 1.0)
        fresh = math.sqrt(self.c_s * (2 - self.c_s) * self.mueff)
        mean_white = w @ white[: self.mu]
        self.p_s = (1 - self.c_s) * self.p_s + fresh * (mean_white if self.diagonal else self.axes @ mean_white)
        norm = float(np.sqrt(self.p_s @ self.p_s))
        steady = norm / math.sqrt(1 - (1 - self.c_s) ** (2 * (g + 1))) < (1.4 + 2 / (d + 1)) * self._expected
        self.p_c = (1 - self.c_c) * self.p_c
        if steady:
            self.p_c += math.sqrt(self.c_c * (2 - self.c_c) * self.mueff) * move
        weights = np.where(self.weights >= 0, self.weights, self.weights * d / np.maximum(lengths**2, TINY))
        weights = np.maximum(weights, -d)  # a step of length zero must not blow up
        keep = 1 - self.c_1 - self.c_mu * float(self.weights.sum())
        keep += 0.0 if steady else self.c_1 * self.c_c * (2 - self.c_c)
        if self.diagonal:
            self.C = keep * self.C + self.c_1 * self.p_c**2 + self.c_mu * (weights @ steps**2)
            self.C = np.maximum(self.C, TINY)
        else:
            self.C = keep * self.C + self.c_1 * np.outer(self.p_c, self.p_c)
            self.C += self.c_mu * (steps.T * weights) @ steps
        self.sigma *= math.exp(min(1.0, self.c_s / self.damping * (norm / self._expected - 1)))
        self.generation += 1
        self._decompose()
        largest = float(np.max(self.C if self.diagonal else np.diagonal(self.C)))
        # 1.0: no coordinate's standard deviation exceeds the edge of the cube: such points would all be clipped
        self.sigma = min(self.sigma, 1.0 / math.sqrt(largest))
        self._best.append(float(y.max()))
        self._worst = min(self._worst, float(y.min()))

    def finished(self) -> bool:
        """Whether the search has converged, cannot go on, or has had its time (tutorial, App. B.3)."""
        d, g = len(self.mean), self.generation
        late = self._best[-(10 + math.ceil(30 * d / self.population)) :]
        spread = max(self._best) - self._worst
        # 1e-14: A search whose values of late differ by less than this share of all its values has converged (the
        # tutorial's TolFun, relative). With 1e-12 a valley is left three digits before the end of a double's
        # (docs/lab/auto.md).
        flat = g >= 10 + 30 * d / self.population and max(late) - min(late) <= 1e-14 * spread
        window = int(120 + 30 * d / self.population)
        stale = g >= window and np.median(self._best[-20:]) <= np.median(self._best[-window : -window + 20])
        shape = float(self.scales.max() / self.scales.min()) ** 2
        # 100, 50: MaxIter of GECCO 2009; a search without such an end can creep along a ridge (docs/lab/auto.md)
        most = 100 + 50 * (d + 3) ** 2 / math.sqrt(self.population)
        # 1e-11: a search whose largest standard deviation is below this has converged; the tutorial's TolX
        return bool(flat or stale or g >= most or self.sigma * float(self.scales.max()) < 1e-11 or shape > CONDITION)

    def _whitened(self, steps: Array) -> Array:
        """D^(-1) B' y of each step, lambda x d: as long as C^(-1/2) y."""
        return np.asarray((steps if self.diagonal else steps @ self.axes) / self.scales)

    def _decompose(self) -> None:
        """Axes and scales of C, once it has changed enough."""
        if self.diagonal:
            self.scales = np.sqrt(self.C)
        elif self.generation - self._decomposed > self._gap:
            self.C = (self.C + self.C.T) / 2
            values, self.axes = np.linalg.eigh(self.C)
            if values[0] <= 0:  # rounding of a covariance at the end of its digits
                values = np.maximum(values, values[-1] / CONDITION / 10)
            self.scales, self._decomposed = np.sqrt(values), self.generation
