"""A model of a run to look at: a Gaussian process fitted to its values, whatever the method was.

It answers three questions about one setting (`RunData.setting`) and the whole space: how the value changes along one
parameter (`slice_of`), along two (`surface_of`), and how much each parameter matters (`importance`). Importance is a
functional analysis of variance (Sobol' 1993) of the model's mean under uniform draws from the space. The main effect of
a parameter is the share of the variance that goes when it alone is known. Its total effect is the share that stays when
all the others are known.

The model sees values as the pictures show them: beyond the end of their axis they count as its end, and where the axis
is logarithmic their logarithms are modelled.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from regretless.models.gp.posterior import GP
from regretless.models.gp.sobol import sobol_points
from regretless.models.gp.surrogate import Surrogate
from regretless.report.run_data import RunData
from regretless.space.parameters import Array

MOST_VALUES = 600
"""A model of more values is fitted to this many of them, half of them the best ones: the fit takes a second or two."""
MOST_DIM = 30
"""With more parameters a slice through one setting says little about the space, and there is no room to draw them."""
SLICE, SURFACE = 61, 25
"""Points of a slice, and on each side of a surface; both are smooth enough to the eye."""


@dataclass(frozen=True)
class Slice:
    """The model along one parameter, n values x on its axis: mean, and band of two standard deviations (n each)."""

    x: Array
    mean: Array
    low: Array
    high: Array


class ModelView:
    """The model of a run; made by `model_of`."""

    def __init__(self, data: RunData, X: Array, values: Array, variances: Array, *, note: str) -> None:
        """X: n x d in the cube with equal shares for labels; values and their variances (NaN unknown), n each."""
        self.data, self.note = data, note
        self.cube = data.space.cube()
        self.places = {name: i for i, name in enumerate(data.space.coordinates)}
        self.centre = data.space.encode(data.setting)
        if data.limit is not None:
            values = data.better * np.maximum(data.better * values, data.better * data.limit)
        y, slope = (np.log(values), 1.0 / values) if data.log_values else (values, np.ones(len(values)))
        yvar = None if np.isnan(variances).all() else variances * slope**2
        self.gp: GP = Surrogate(self.cube, clip=False).gp(X, data.better * y, yvar)

    def slice_of(self, name: str) -> Slice:
        """The model through the setting of the pictures, along one parameter."""
        u = self._grid(name, SLICE)
        X = np.repeat(self.centre[None], len(u), axis=0)
        X[:, self.places[name]] = u
        mean, variance = self.gp.mean_var(self.cube.snap(X))
        # 2.0: half the width of a band in standard deviations of the model
        half = 2.0 * np.sqrt(variance)
        low, high = np.sort([self._units(mean - half), self._units(mean + half)], axis=0)
        return Slice(self.data.scales[name].at(u), self._units(mean), low, high)

    def surface_of(self, across: str, up: str) -> tuple[Array, Array, Array]:
        """The mean through the setting of the pictures, along two parameters: their values (a and b), b x a means."""
        u, v = self._grid(across, SURFACE), self._grid(up, SURFACE)
        X = np.repeat(self.centre[None], len(u) * len(v), axis=0)
        X[:, self.places[across]] = np.tile(u, len(v))
        X[:, self.places[up]] = np.repeat(v, len(u))
        x, y = self.data.scales[across].at(u), self.data.scales[up].at(v)
        return x, y, self._units(self._mean_at(X)).reshape(len(v), len(u))

    @functools.cached_property
    def importance(self) -> dict[str, tuple[float, float]]:
        """Main and total effect of each parameter, shares of the variance of the mean; the largest total first."""
        d = self.cube.dim
        # 1024: draws behind each share of the variance, a power of two as Sobol' points want it; shares are right to
        # about .02
        draws = sobol_points(1024, 2 * d, np.random.default_rng(0))
        A, B = draws[:, :d], draws[:, d:]
        at_a, at_b = self._mean_at(A), self._mean_at(B)
        variance = float(np.var(np.concatenate([at_a, at_b]))) or 1.0
        shares = {}
        for name in self.data.names:
            mixed = A.copy()
            mixed[:, self.places[name]] = B[:, self.places[name]]
            at_mixed = self._mean_at(mixed)  # differs from A in this parameter alone, shares it alone with B
            main = 1.0 - float(np.mean((at_b - at_mixed) ** 2)) / (2.0 * variance)
            total = float(np.mean((at_a - at_mixed) ** 2)) / (2.0 * variance)
            shares[name] = min(max(main, 0.0), 1.0), min(max(total, main, 0.0), 1.0)
        return dict(sorted(shares.items(), key=lambda item: -item[1][1]))

    def _mean_at(self, X: Array) -> Array:
        """The model's mean at places X (n x d) of the cube. Parameters that do not exist there, given the others, are
        put where the model has seen such settings."""
        return self.gp.mean_at(self.cube.snap(X))

    def _grid(self, name: str, most: int) -> Array:
        """Places of the unit interval: those of all values where they are few, else evenly spread ones."""
        axis = self.cube.axes[self.places[name]]
        if 0 < axis.levels <= most or axis.categorical:
            return axis.centre(np.arange(axis.levels))
        return np.linspace(0.0, 1.0, most)

    def _units(self, standard: Array) -> Array:
        value = self.data.better * (self.gp.offset + self.gp.scale * standard)
        most = math.log(0.1 * np.finfo(float).max)  # what is rounded later stays a number
        return np.exp(np.minimum(value, most)) if self.data.log_values else value


def model_of(data: RunData) -> ModelView | str:
    """The model of a run, or the sentence that says why there is none."""
    dim = len(data.space)
    if dim > MOST_DIM:
        return f"No model is drawn: the space has {dim} parameters, and more than {MOST_DIM} cannot be shown by slices."
    # 4: with fewer values in a space of few parameters the picture would be that of the prior
    have, least = data.done, max(4, dim + 1)
    if len(have) < least:
        return f"No model is drawn: it needs {least} values, and the run has {len(have)}."
    values = np.array([t.value for t in have], dtype=np.float64)
    if values.max() == values.min():
        return "No model is drawn: all values are equal."
    note = f"The model is a Gaussian process fitted to the {len(have)} values of this run."
    if len(have) > MOST_VALUES:
        order = np.argsort(-data.better * values, kind="stable")
        rest = order[MOST_VALUES // 2 :]
        spread = rest[np.linspace(0, len(rest) - 1, MOST_VALUES // 2).astype(int)]
        kept = np.sort(np.concatenate([order[: MOST_VALUES // 2], spread]))
        have, values = [have[i] for i in kept], values[kept]
        note = (
            f"The model is a Gaussian process fitted to {MOST_VALUES} of {len(data.done)} values: the best "
            f"{MOST_VALUES // 2}, and as many spread evenly over the others by rank."
        )
    X = np.array([data.space.encode(t.params) for t in have])
    variances = np.array([np.nan if t.var is None else t.var for t in have])
    return ModelView(data, X, values, variances, note=note)
