"""Methods whose Gaussian process lives on a finite set of points, kept up to date as values are told.

Values are standardised by a fit that is renewed whenever their number has grown by half; the posterior is then rebuilt
from the history, so that it is a function of the history alone. With everything given there are no fits.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import candidates_kept_from_failures
from regretless.gp.certify import wary_surrogate
from regretless.gp.kernels import Kind
from regretless.grid.posterior import ProductPosterior, RowPosterior, SEFeatures, product_grid
from regretless.grid.scale import FIRST_FIT, REFIT, Scale, fit_scale
from regretless.grid.whole_model import whole_certificate
from regretless.method import Method, State
from regretless.noise import stated_noise
from regretless.options import PRESETS, Preset, one_of
from regretless.parameters import Array
from regretless.space import Cube

POINTS_PER_AXIS = {1: 400, 2: 80, 3: 18, 4: 8, 5: 5, 6: 4}  # by dimension; 80 in the plane as in the GP-ThreDS paper
MOST_POINTS = 10**6  # points of a grid at most: every ask visits all of them, and each value keeps a number for each
PAPER_LENGTHSCALE, PAPER_NOISE_SD = 0.2, 0.1  # of the paper's experiments (Sec. 5); the default preset starts from them
LEAST_NOISE_SD = 1e-3  # the least noise sd in standardised units: exact values leave a posterior well conditioned
LOW_RANK_DIM, MOST_FEATURES = 2, 700  # up to this dimension and rank posteriors live in features, as cheap as 150 rows
ON_GRID = 1e-9  # a told point this close to a grid point is that grid point; the least grid step is 1/400


class PointsMethod(Method):
    """A posterior on points that a subclass chooses: it gives `_fresh` and `_index`, and calls `_take_in_next`.

    Args:
        preset: "default" standardises and fits; "paper" takes the values as they are, with mean 0 and variance 1, and
            l = 0.2 and noise 0.1 unless given (GP-ThreDS, Sec. 5).
        kernel: "se" or "matern52".
        lengthscale, noise_sd: of the process and of the values; None: fitted.
    """

    max_dim = max(POINTS_PER_AXIS)
    renamed: ClassVar[Mapping[str, str]] = {"noise": "noise_sd"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        kernel: Kind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        one_of(PRESETS, preset=preset)
        self._fits, self.known_noise = preset == "default", stated_noise(preset == "paper", noise_sd)
        self._kernel, self._lengthscale, self._noise_sd = kernel, lengthscale, noise_sd
        sd = PAPER_NOISE_SD if noise_sd is None else max(noise_sd, LEAST_NOISE_SD)
        self.scale = Scale(0.0, 1.0, lengthscale or PAPER_LENGTHSCALE, sd**2)
        self._wary = wary_surrogate(self.cube)
        self._values = self._fitted_at = self._rebuilt_at = 0
        """Values taken in, and their number at the last fit and at the last rebuilding."""
        self.posterior: RowPosterior | ProductPosterior
        self._begin()

    def _begin(self) -> None:
        """What a subclass without further options sets up."""

    @abstractmethod
    def _fresh(self) -> RowPosterior | ProductPosterior:
        """The posterior without any value."""

    @abstractmethod
    def _index(self, x: Array) -> int:
        """The number of the point at x, or -1."""

    def _take_in_next(self) -> None:
        self._values += 1
        if self._fits and self._values >= max(REFIT * self._fitted_at, FIRST_FIT):
            self._fit(self._values)
            self._rebuild(self._values)
        else:
            self._add(self._values - 1)
            if isinstance(self.posterior, RowPosterior) and self.posterior.is_long:
                self._rebuild(self._values)

    def _fit(self, n: int) -> None:
        X, y, yvar, self._fitted_at = self.X[:n], self.y[:n], self.yvar[:n], n
        self.scale = fit_scale(X, y, self._kernel, yvar=yvar, lengthscale=self._lengthscale, noise_sd=self._noise_sd)

    def _rebuild(self, n: int) -> None:
        """A new posterior of the first n values; one of rows has a row per distinct point, with its values averaged."""
        self.posterior, self._rebuilt_at = self._fresh(), n
        if isinstance(self.posterior, RowPosterior):
            self.posterior.condition(*self._averages(n))
        else:
            for i in range(n):
                self._add(i)

    def _resume(self, arrays: Mapping[str, Any], rebuilt: int) -> None:
        """Takes over the state of a posterior of all values, rebuilt last when there were so many."""
        n = len(self.y)
        if isinstance(self.posterior, ProductPosterior):
            self.posterior.load(arrays)
        else:
            first = self._averages(rebuilt) if rebuilt else None
            self.posterior.resume(arrays, first, [self._sample(i) for i in range(rebuilt, n)])
        self._values, self._rebuilt_at = n, rebuilt

    def _rows(self, points: Array) -> RowPosterior:
        length, noise_var = self.scale.lengthscale, self.scale.noise_var
        return RowPosterior(points, None, kernel=self._kernel, lengthscale=length, noise_var=noise_var)

    def _averages(self, n: int) -> tuple[Array, Array, Array]:
        """The distinct points of the first n values, their averages and their weights, as for `Scale.grouped`."""
        return self.scale.grouped(self.X[:n], self.y[:n], self.yvar[:n])

    def _sample(self, i: int) -> tuple[Array, float, float | None]:
        """The point of value i, and in standardised units the value and its noise variance, None where unknown."""
        return self.X[i], self.scale.value_inside(float(self.y[i])), self.scale.noise_var_inside(float(self.yvar[i]))

    def _add(self, i: int) -> None:
        x, value, noise_var = self._sample(i)
        index = self._index(x)
        if index >= 0:
            self.posterior.add(index, value, noise_var)
        else:
            self.posterior.add_at(x, value, noise_var)

    def _certificate(self, delta: float) -> Certificate:
        return whole_certificate(self, self.scale.told_noise_var, delta, self._wary)


class GridMethod(PointsMethod):
    """Each step samples the best point of one fixed grid of legal positions; a subclass gives `_propose`.

    Args:
        preset, kernel, lengthscale, noise_sd: see `PointsMethod`.
        points_per_axis: positions per axis, one number or one for each; None: 80 in two dimensions, at most about 6400
            points in others.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None,
        preset: Preset,
        points_per_axis: int | Sequence[int] | None,
        kernel: Kind,
        lengthscale: float | None,
        noise_sd: float | None,
    ) -> None:
        super().__init__(
            cube, seed=seed, budget=budget, preset=preset, kernel=kernel, lengthscale=lengthscale, noise_sd=noise_sd
        )
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
        self._first = int(self.fixed_generator().integers(len(self.grid)))
        self._best_before = 0.0  # the largest posterior mean before the latest value, in the units of the values
        self.posterior = self._fresh()

    def _sd(self) -> Array:
        """The posterior sd on the grid were the values of the pending points known as well, n."""
        pending = self.pending
        return np.sqrt(self.posterior.variance_after(pending) if len(pending) else self.posterior.variance)

    def _best_free(self, score: Array, *, logarithmic: bool = False) -> Array:
        """The grid point with the best score (n) that is neither pending nor failed nor among failures, d; the first of
        a run is drawn from the seed. logarithmic: as for `kept_from_failures`."""
        pending, failed = self.pending, self.failed
        if not len(self.y) and not len(pending) and not len(failed):
            return np.asarray(self.grid[self._first])
        if len(pending) or len(failed):
            score = candidates_kept_from_failures(score, self.grid, self.X, failed, logarithmic=logarithmic)
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

    def _recommend(self) -> Array:
        """The told point whose nearest grid point has the largest posterior mean, d; the latest of equals."""
        nearest = [np.abs(np.subtract.outer(x, a)).argmin(axis=1) for x, a in zip(self.X.T, self._axes, strict=True)]
        mean = self.posterior.mean[np.ravel_multi_index(nearest, tuple(len(a) for a in self._axes))]
        return np.asarray(self.X[len(mean) - 1 - int(np.argmax(mean[::-1]))])

    def _update(self, X: Array, y: Array) -> None:
        while self._values < len(self.y):
            self._best_before = self.scale.shift + self.scale.sd * float(self.posterior.mean.max())
            self._take_in_next()

    def _fresh(self) -> RowPosterior | ProductPosterior:
        if self._kernel == "se" and self.dim <= LOW_RANK_DIM:
            features = SEFeatures(self.dim, self.scale.lengthscale)
            if features.rank <= MOST_FEATURES:
                return ProductPosterior(self._axes, noise_var=self.scale.noise_var, features=features)
        return self._rows(self.grid)

    def _state(self) -> State:
        if not self._values:
            return {}
        marks = {"fitted_at": self._fitted_at, "rebuilt_at": self._rebuilt_at, "best_before": self._best_before}
        return {**marks, "posterior": self.posterior.state()}

    def _load(self, state: Mapping[str, Any]) -> None:
        """An empty state, or one without a posterior, means that all values are to be taken in."""
        if not state.get("posterior"):
            return self._update(self.X, self.y)
        n = len(self.y)
        try:
            fitted, rebuilt, best = int(state["fitted_at"]), int(state["rebuilt_at"]), float(state["best_before"])
            if not (0 <= fitted <= rebuilt <= n and np.isfinite(best) and (fitted > 0) <= self._fits):
                raise ValueError(f"fit at {fitted}, rebuilt at {rebuilt} of {n} values, best mean {best}")
            if fitted:
                self._fit(fitted)
            self.posterior = self._fresh()
            self._resume(state["posterior"], rebuilt)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: {error}") from None
        self._best_before = best
