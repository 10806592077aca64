"""A Gaussian process on one fixed grid of the whole cube, kept up to date as values are told.

The grid is a product of legal positions, at most about 6400 points. Values are standardised by a fit that is renewed
whenever their number has grown by half; the posterior is then rebuilt from the history, so that it is a function of the
history alone. With everything given there are no fits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import candidates_kept_from_failures
from regretless.gp.kernels import Kind
from regretless.grid.posterior import ProductPosterior, RowPosterior, SEFeatures, product_grid
from regretless.grid.scale import FIRST_FIT, REFIT, Scale, fit_scale, grouped, weights
from regretless.grid.whole_model import whole_certificate
from regretless.method import Method
from regretless.parameters import Array

POINTS_PER_AXIS = {1: 400, 2: 80, 3: 18, 4: 8, 5: 5, 6: 4}
"""Grid points along each axis, by dimension: the 80 of the GP-ThreDS paper in the plane, and at most as many points in
all elsewhere."""
MAX_DIM = max(POINTS_PER_AXIS)
"""Beyond six dimensions a grid of 6400 points has fewer than four along each axis and sees next to nothing."""
PAPER_LENGTHSCALE, PAPER_NOISE_SD = 0.2, 0.1
"""Length-scale and noise sd of the paper's experiments (Sec. 5); the default preset starts from them before its first
fit."""
LEAST_NOISE_SD = 1e-3
"""A given noise sd counts as at least this in standardised units, so that exact values leave a posterior well
conditioned."""
LOW_RANK_DIM, MOST_FEATURES = 2, 700
"""Up to this dimension and rank posteriors live in features of the squared exponential: a sample then costs 2 * 700^2
multiplications, as many as with 150 rows on 6400 points."""
ON_GRID = 1e-9
"""A told point this close to a grid point is that grid point; the least grid step is 1/400."""


class GridModel:
    """The posterior on a grid of the values told to a method.

    Args:
        history: the method whose values these are.
        preset: "default" standardises and fits; "paper" takes the values as they are, with mean 0 and variance 1, and
            the length-scale and noise of the paper unless given.
        points_per_axis: positions per axis; None: by dimension.
        kernel: "se" or "matern52".
        lengthscale, noise_sd: of the process and of the values; None: fitted.
    """

    def __init__(
        self,
        history: Method,
        preset: Literal["default", "paper"],
        *,
        points_per_axis: int | None,
        kernel: Kind,
        lengthscale: float | None,
        noise_sd: float | None,
    ) -> None:
        if preset not in ("default", "paper"):
            raise ValueError(f"preset must be 'default' or 'paper', got {preset!r}")
        self._fits = preset == "default"
        m = POINTS_PER_AXIS[history.dim] if points_per_axis is None else points_per_axis
        self._history = history
        self._axes = [np.unique(axis.snap(np.linspace(0.0, 1.0, m))) for axis in history.cube.axes]
        self._shape = tuple(len(a) for a in self._axes)
        self._kernel, self._lengthscale, self._noise_sd = kernel, lengthscale, noise_sd
        self.scale = starting_scale(lengthscale, noise_sd)
        self.grid = product_grid(self._axes)
        self._first = int(history.fixed_generator().integers(len(self.grid)))
        self.values = 0
        """How many values the model has taken in."""
        self._fitted_at = self._rebuilt_at = 0
        self.best_before = 0.0
        """The largest posterior mean before the latest value, in the units of the values."""
        self.posterior = self._fresh()

    @property
    def target(self) -> float:
        """`best_before` in standardised units."""
        return (self.best_before - self.scale.shift) / self.scale.sd

    def sd(self) -> Array:
        """The posterior sd on the grid were the values of the pending points known as well, n."""
        pending = self._history.pending
        return np.sqrt(self.posterior.variance_after(pending) if len(pending) else self.posterior.variance)

    # -- values

    def update(self) -> None:
        """Takes in the values told since the last call."""
        while self.values < len(self._history.y):
            self.best_before = self.scale.shift + self.scale.sd * float(self.posterior.mean.max())
            self.values += 1
            if self._fits and self.values >= max(REFIT * self._fitted_at, FIRST_FIT):
                self._fit(self.values)
                self._rebuild(self.values)
            else:
                self._add(self.values - 1)
                if isinstance(self.posterior, RowPosterior) and self.posterior.is_long:
                    self._rebuild(self.values)

    def state(self) -> dict[str, Any]:
        """What `load` takes, besides the history."""
        if not self.values:
            return {}
        arrays = self.posterior.state() if isinstance(self.posterior, ProductPosterior) else {}
        marks = {"fitted_at": self._fitted_at, "rebuilt_at": self._rebuilt_at, "best_before": self.best_before}
        return {**marks, "posterior": arrays}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` gave, with the history in place; an empty state means that all values are to be taken
        in."""
        if not state:
            return self.update()
        n = len(self._history.y)
        try:
            fitted, rebuilt, best = int(state["fitted_at"]), int(state["rebuilt_at"]), float(state["best_before"])
            if not (0 <= fitted <= rebuilt <= n and np.isfinite(best) and (fitted > 0) <= self._fits):
                raise ValueError(f"fit at {fitted}, rebuilt at {rebuilt} of {n} values, best mean {best}")
            if fitted:
                self._fit(fitted)
            self.posterior = self._fresh()
            if isinstance(self.posterior, ProductPosterior):
                self.posterior.load(state["posterior"])
                self.values, self._rebuilt_at = n, rebuilt
            elif not (isinstance(state["posterior"], dict) and not state["posterior"]):
                raise ValueError("a posterior of rows follows from the history, and the state holds another")
            elif rebuilt:
                self._rebuild(rebuilt)
                self.values = rebuilt
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: {error}") from None
        self.best_before = best
        self.update()
        if not math.isclose(self.best_before, best, rel_tol=1e-6, abs_tol=1e-6 * self.scale.sd):
            raise ValueError(f"the state is damaged: a best mean of {best} does not follow from its values")

    # -- points

    def best_free(self, score: Array, *, logarithmic: bool = False) -> Array:
        """The grid point with the best score (n) that is neither pending nor failed and not among failures, d; the
        first of a run is drawn from the seed.

        logarithmic: the score is a logarithm (see `kept_from_failures`).
        """
        history = self._history
        pending, failed = history.pending, history.failed
        if not len(history.y) and not len(pending) and not len(failed):
            return np.asarray(self.grid[self._first])
        if len(pending) or len(failed):
            score = candidates_kept_from_failures(score, self.grid, history.X, failed, logarithmic=logarithmic)
            score = score + self.taken(np.concatenate([pending, failed]))
        best: Array = self.grid[int(score.argmax())]
        return best

    def taken(self, X: Array) -> Array:
        """0 for grid points to choose from, -inf for those that are among X (p x d), n."""
        out = np.zeros(len(self.grid))
        for x in X:
            index = self.index(x)
            if index >= 0:
                out[index] = -np.inf
        return out

    def recommended(self) -> Array:
        """The told point whose nearest grid point has the largest posterior mean, d; the latest of equals."""
        X = self._history.X
        index = np.ravel_multi_index(
            [np.abs(np.subtract.outer(x, a)).argmin(axis=1) for x, a in zip(X.T, self._axes, strict=True)], self._shape
        )
        mean = self.posterior.mean[index]
        best: Array = X[len(mean) - 1 - int(np.argmax(mean[::-1]))]
        return best

    def certificate(self, delta: float) -> Certificate:
        return whole_certificate(self._history, self.scale.told_noise_var, delta)

    def index(self, x: Array) -> int:
        """The number of the grid point at x, or -1."""
        index = 0
        for xi, axis in zip(x.tolist(), self._axes, strict=True):
            at = min(int(np.searchsorted(axis, xi - ON_GRID)), len(axis) - 1)
            if abs(axis[at] - xi) > ON_GRID:
                return -1
            index = index * len(axis) + at
        return index

    # -- inside

    def _fit(self, n: int) -> None:
        self._fitted_at = n
        self.scale = fitted_scale(self._history, n, self._kernel, self._lengthscale, self._noise_sd)

    def _rebuild(self, n: int) -> None:
        """A new posterior of the first n values; one of rows has a row per distinct point, with its values averaged."""
        self.posterior, self._rebuilt_at = self._fresh(), n
        if isinstance(self.posterior, RowPosterior):
            self.posterior.condition(*grouped_inside(self._history, n, self.scale))
        else:
            for i in range(n):
                self._add(i)

    def _fresh(self) -> RowPosterior | ProductPosterior:
        length, noise_var = self.scale.lengthscale, self.scale.noise_var
        if self._kernel == "se" and len(self._axes) <= LOW_RANK_DIM:
            features = SEFeatures(len(self._axes), length)
            if features.rank <= MOST_FEATURES:
                return ProductPosterior(self._axes, noise_var=noise_var, features=features)
        return RowPosterior(self.grid, None, kernel=self._kernel, lengthscale=length, noise_var=noise_var)

    def _add(self, i: int) -> None:
        x, scale, index = self._history.X[i], self.scale, self.index(self._history.X[i])
        value = scale.value_inside(float(self._history.y[i]))
        noise_var = scale.noise_var_inside(float(self._history.yvar[i]))
        if index >= 0:
            self.posterior.add(index, value, noise_var)
        else:
            self.posterior.add_at(x, value, noise_var)


# ---------------------------------------------------------------- the history in standardised units


def starting_scale(lengthscale: float | None, noise_sd: float | None) -> Scale:
    """The scale before any fit: values as they are, with the paper's length-scale and noise unless given."""
    noise_sd = PAPER_NOISE_SD if noise_sd is None else max(noise_sd, LEAST_NOISE_SD)
    return Scale(0.0, 1.0, lengthscale or PAPER_LENGTHSCALE, noise_sd**2)


def fitted_scale(history: Method, n: int, kernel: Kind, lengthscale: float | None, noise_sd: float | None) -> Scale:
    """The scale fitted to the first n values of a method; a given length-scale or noise sd is kept."""
    X, y, yvar = history.X[:n], history.y[:n], history.yvar[:n]
    return fit_scale(X, y, kernel, yvar=yvar, lengthscale=lengthscale, noise_sd=noise_sd)


def grouped_inside(history: Method, n: int, scale: Scale) -> tuple[Array, Array, Array]:
    """The distinct points among the first n told ones (m x d), the averages of their values in standardised units (m)
    and their weights (m)."""
    X, y, total = grouped(history.X[:n], history.y[:n], weights(history.yvar[:n], scale.told_noise_var))
    return X, scale.inside(y), total
