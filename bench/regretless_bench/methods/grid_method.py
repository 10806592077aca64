"""Methods whose Gaussian process lives on a finite set of points, kept up to date as values become known.

Values are standardised by a fit that is renewed whenever their number has grown by half; the posterior is then rebuilt
from the history, so that it is a function of the history alone. Methods that are not `fitted` take values as they are.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regretless.basics.noise import stated_noise
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, State, Traits
from regretless.models.gp.acquisition import candidates_kept_from_failures
from regretless.models.gp.certify import conservative_surrogate
from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import SEFeatures, product_grid
from regretless.models.grid.scale import FIRST_FIT, REFIT, ProcessScale, fit_scale
from regretless.models.grid.whole_model import whole_certificate
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.grid_posteriors import ProductPosterior, RefittedRows, SavedRows

POINTS_PER_AXIS = {1: 400, 2: 80, 3: 18, 4: 8, 5: 5, 6: 4}  # by dimension; 80 in the plane as in the GP-ThreDS paper
MOST_POINTS = 10**6  # points of a grid at most: every ask visits all of them, and each value keeps a number for each
PAPER_LENGTHSCALE, PAPER_NOISE_SD = 0.2, 0.1  # of the paper's experiments (Sec. 5); fitted methods start from them
LEAST_NOISE_SD = 1e-3  # the least noise sd in standardised units: exact values leave a posterior well conditioned
LOW_RANK_DIM, MOST_FEATURES = 2, 700  # up to this dimension and rank posteriors live in features, as cheap as 150 rows
ON_GRID = 1e-9  # a told point this close to a grid point is that grid point; the least grid step is 1/400


class PointsMethod(Method):
    """A posterior on points that a subclass chooses: it gives `_fresh` and `_index`, and calls `_observe`.

    Args:
        fitted: whether values are standardised and the kernel is fitted; otherwise they are taken as they are, with
            mean 0 and variance 1, and l = 0.2 and noise 0.1 unless given (GP-ThreDS, Sec. 5).
        kernel: "se" or "matern52".
        lengthscale, noise_sd: of the process and of the values; None: fitted.
        refit: factorise the kernel matrix anew at every value, as the "standard implementation" does that GP-ThreDS's
            paper times; points are the same.
    """

    traits = Traits(max_dim=max(POINTS_PER_AXIS))

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        fitted: bool = True,
        kernel: KernelKind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
        refit: bool = False,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._refits = refit
        self._fits, self._noisy = fitted, stated_noise(noise_sd) if fitted else True
        self._kernel, self._lengthscale, self._noise_sd = kernel, lengthscale, noise_sd
        self._conservative = conservative_surrogate(self.cube)
        self.scale: ProcessScale
        self.posterior: SavedRows | ProductPosterior

    def _begin(self) -> None:
        sd = PAPER_NOISE_SD if self._noise_sd is None else max(self._noise_sd, LEAST_NOISE_SD)
        self.scale = ProcessScale(0.0, 1.0, self._lengthscale or PAPER_LENGTHSCALE, sd**2)
        self._values = self._fitted_at = self._rebuilt_at = 0
        """Values taken in, and their number at the last fit and at the last rebuilding."""

    @abstractmethod
    def _fresh(self) -> SavedRows | ProductPosterior:
        """The posterior without any value."""

    @abstractmethod
    def _index(self, x: Array) -> int:
        """The number of the point at x, or -1."""

    def _observe(self, history: History, i: int) -> None:
        """Takes in the value i, the one after all that were taken in before."""
        n = self._values = i + 1
        if self._fits and n >= max(REFIT * self._fitted_at, FIRST_FIT):
            self._fit(history, n)
            self._rebuild(history, n)
        else:
            self._add(history, i)
            if isinstance(self.posterior, SavedRows) and self.posterior.is_long:
                self._rebuild(history, n)

    def _fit(self, history: History, n: int) -> None:
        X, y, yvar, self._fitted_at = history.X[:n], history.y[:n], history.yvar[:n], n
        self.scale = fit_scale(X, y, self._kernel, yvar=yvar, lengthscale=self._lengthscale, noise_sd=self._noise_sd)

    def _rebuild(self, history: History, n: int) -> None:
        """A new posterior of the first n values; one of rows has a row per distinct point, with its values averaged."""
        self.posterior, self._rebuilt_at = self._fresh(), n
        if isinstance(self.posterior, SavedRows):
            self.posterior.condition(*self._averages(history, n))
        else:
            for i in range(n):
                self._add(history, i)

    def _warmed(self, history: History) -> State:
        """What `_resume` takes: the posterior of all values, and when it was last fitted and rebuilt."""
        self._catch_up(history)
        return {"fitted_at": self._fitted_at, "rebuilt_at": self._rebuilt_at, "posterior": self.posterior.state()}

    def _resume(self, history: History, arrays: Mapping[str, Any], rebuilt: int) -> None:
        """Takes over the state of a posterior of all values, rebuilt last when there were so many."""
        n = len(history)
        if isinstance(self.posterior, ProductPosterior):
            self.posterior.load(arrays)
        else:
            first = self._averages(history, rebuilt) if rebuilt else None
            self.posterior.resume(arrays, first, [self._sample(history, i) for i in range(rebuilt, n)])
        self._values, self._rebuilt_at = n, rebuilt

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        if not state:
            return
        self._seen = None
        self._begin()
        try:
            fitted, rebuilt = int(state["fitted_at"]), int(state["rebuilt_at"])
            if not 0 <= fitted <= rebuilt <= len(history) or (fitted > 0) > self._fits:
                raise ValueError(f"fitted at {fitted} and rebuilt at {rebuilt} of {len(history)} values")
            if fitted:
                self._fit(history, fitted)
            self._take_over(history, state, rebuilt)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: {error}") from None
        self._seen = history

    @abstractmethod
    def _take_over(self, history: History, state: Mapping[str, Any], rebuilt: int) -> None:
        """Makes the points that the posterior of a state needs, and resumes it; the scale is that of its last fit."""

    def _rows(self, points: Array) -> SavedRows:
        length, noise_var = self.scale.lengthscale, self.scale.noise_var
        kind = RefittedRows if self._refits else SavedRows
        return kind(points, kernel=self._kernel, lengthscale=length, noise_var=noise_var)

    def _averages(self, history: History, n: int) -> tuple[Array, Array, Array]:
        """The distinct points of the first n values, their averages and their weights (`ProcessScale.grouped`)."""
        return self.scale.grouped(history.X[:n], history.y[:n], history.yvar[:n])

    def _sample(self, history: History, i: int) -> tuple[Array, float, float | None]:
        """The point of value i, and in standardised units the value and its noise variance, None where unknown."""
        y, variance = float(history.y[i]), float(history.yvar[i])
        return history.X[i], self.scale.value_inside(y), self.scale.noise_var_inside(variance)

    def _add(self, history: History, i: int) -> None:
        x, value, noise_var = self._sample(history, i)
        index = self._index(x)
        if index >= 0:
            self.posterior.add(index, value, noise_var)
        else:
            self.posterior.add_at(x, value, noise_var)

    def _certificate(self, history: History, delta: float) -> Certificate:
        self._catch_up(history)
        x, rng, noise_var = self.recommend(history), self._fixed_generator(), self.scale.observed_noise_var
        return whole_certificate(history, self.cube, x, noise_var, delta, rng, conservative=self._conservative)


class GridMethod(PointsMethod):
    """Each step samples the best point of one fixed grid of legal positions; a subclass gives `propose`.

    Args:
        fitted, kernel, lengthscale, noise_sd, refit: see `PointsMethod`.
        points_per_axis: positions per axis, one number or one for each; None: 80 in two dimensions, at most about 6400
            points in others.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None,
        fitted: bool,
        points_per_axis: int | Sequence[int] | None,
        kernel: KernelKind,
        lengthscale: float | None,
        noise_sd: float | None,
        refit: bool = False,
    ) -> None:
        super().__init__(
            cube, seed=seed, budget=budget, fitted=fitted, kernel=kernel, lengthscale=lengthscale, noise_sd=noise_sd,
            refit=refit,
        )  # fmt: skip
        m = POINTS_PER_AXIS[self.dim] if points_per_axis is None else points_per_axis
        counts = [m] * self.dim if isinstance(m, int) else list(m)
        if len(counts) != self.dim or min(counts) < 1:
            raise ValueError(f"points_per_axis must be a number, or {self.dim} of them, of at least 1, got {m!r}")
        if math.prod(counts) > MOST_POINTS:
            many = float(math.prod(counts))
            raise ValueError(f"points_per_axis={m} makes {many:.3g} points, more than {MOST_POINTS:.3g}")
        places = zip(self.cube.axes, counts, strict=True)
        self._axes = [np.unique(axis.snap(np.linspace(0.0, 1.0, k))) for axis, k in places]
        self.grid = product_grid(self._axes)
        self._first = int(self._fixed_generator().integers(len(self.grid)))

    def _begin(self) -> None:
        super()._begin()
        self._best_before = 0.0  # the largest posterior mean before the latest value, in the units of the values
        self.posterior = self._fresh()

    def _update(self, history: History, first: int) -> None:
        for i in range(first, len(history)):
            self._best_before = self.scale.shift + self.scale.sd * float(self.posterior.mean.max())
            self._observe(history, i)

    def _sd(self, history: History) -> Array:
        """The posterior sd on the grid were the values of the pending points known as well, n."""
        pending = history.pending
        return np.sqrt(self.posterior.variance_after(pending) if len(pending) else self.posterior.variance)

    def _best_free(self, history: History, score: Array, *, logarithmic: bool = False) -> Array:
        """The grid point with the best score (n) that is neither pending nor failed nor among failures, d; the first of
        a run is drawn from the seed. logarithmic: as for `kept_from_failures`."""
        pending, failed = history.pending, history.failed
        if not history.evaluations:
            return np.asarray(self.grid[self._first])
        if len(pending) or len(failed):
            score = candidates_kept_from_failures(score, self.grid, history.X, failed, logarithmic=logarithmic)
            taken = [index for x in (*pending, *failed) if (index := self._index(x)) >= 0]
            score[taken] = -np.inf
        return np.asarray(self.grid[int(score.argmax())])

    def _index(self, x: Array) -> int:
        index = 0
        for xi, axis in zip(x.tolist(), self._axes, strict=True):
            at = min(int(np.searchsorted(axis, xi - ON_GRID)), len(axis) - 1)
            if abs(axis[at] - xi) > ON_GRID:
                return -1
            index = index * len(axis) + at
        return index

    def _recommend(self, history: History) -> Array:
        """The told point whose nearest grid point has the largest posterior mean, d; the latest of equals."""
        self._catch_up(history)
        pairs = zip(history.X.T, self._axes, strict=True)
        nearest = [np.abs(np.subtract.outer(x, a)).argmin(axis=1) for x, a in pairs]
        mean = self.posterior.mean[np.ravel_multi_index(nearest, tuple(len(a) for a in self._axes))]
        return np.asarray(history.X[len(mean) - 1 - int(np.argmax(mean[::-1]))])

    def _fresh(self) -> SavedRows | ProductPosterior:
        if self._kernel == "se" and self.dim <= LOW_RANK_DIM and not self._refits:
            features = SEFeatures(self.dim, self.scale.lengthscale)
            if features.rank <= MOST_FEATURES:
                return ProductPosterior(self._axes, noise_var=self.scale.noise_var, features=features)
        return self._rows(self.grid)

    def warm(self, history: History) -> State:
        if not len(history) or self._refits:
            return {}
        state = self._warmed(history)
        return {**state, "best_before": self._best_before}

    def _take_over(self, history: History, state: Mapping[str, Any], rebuilt: int) -> None:
        best = float(state["best_before"])
        if not np.isfinite(best):
            raise ValueError(f"the best mean is {best}")
        self.posterior = self._fresh()
        self._resume(history, state["posterior"], rebuilt)
        self._best_before = best
