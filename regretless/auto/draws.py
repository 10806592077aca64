"""The part of `auto` beside many workers: where very many evaluations are under way, a model of few values draws.

A model of all values, with all points under way, would take seconds for an ask. So this one has the better values and a
spread of the others, at most `MODELLED`, and is fitted at the scheduled sizes of the history alone. Each ask draws a
function from it, which spreads the asks without a look at the points under way, and draws it towards the mean by a
factor of its own: few values in many dimensions leave so much room that functions as drawn would only explore.
"""

import numpy as np

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Method, Traits
from regretless.models.gp.acquisition import kept_from_failures
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import Acquisition, Effort, maximise
from regretless.models.gp.posterior import GP, SamplePath
from regretless.models.gp.surrogate import SIZES, Surrogate, scheduled
from regretless.space import Cube
from regretless.space.parameters import Array

LEAST = 32  # values from which the model is asked
MODELLED = 200  # values of the model: a drawn ask takes some 12 ms, beside a crowd 4 (docs/lab/crowds.md)
NARROWEST = 0.1  # draws are narrowed by factors that are log-uniform between this and 1 (docs/lab/crowds.md)
CROWD, FEW_FEATURES = 256, 256
"""Points under way beyond which a draw has so few random features, and the model is fitted at every second scheduled
size: these take most of an ask's time, and a thousand workers ask a hundred times a second (docs/lab/crowds.md)."""
EFFORT = Effort(raw=96, starts=1, rounds=8)
"""Work of an ask: more of it gains nothing (docs/lab/crowds.md)."""


class NarrowedDraws(Method):
    """Narrowed draws from a Gaussian process of the better values."""

    traits = Traits(keeps_apart=False)
    _fitted: tuple[int, GP, Array] | None = None
    """The size of the history that was fitted, the model, and the best points of that time."""

    def _begin(self) -> None:
        self._fitted = None

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp, best = self._model(history)
        factor = float(np.exp(rng.uniform(np.log(NARROWEST), 0.0)))
        path = gp.path(rng, FEW_FEATURES) if len(history.pending) > CROWD else gp.path(rng)
        drawn = kept_from_failures(narrowed(path, factor), gp.X, history.failed)
        x = maximise(drawn, cube, rng, incumbents=cube.snap(best), effort=EFFORT)
        return away_from_known(x, history, cube, rng)

    def _model(self, history: History) -> tuple[GP, Array]:
        """The model of the last scheduled size, and the best points of that time, k x d."""
        self._catch_up(history)
        k, size = scheduled(len(history))
        if len(history.pending) > CROWD:
            size = SIZES[k - k % 2]
        if self._fitted is None or self._fitted[0] != size:
            X, y, yvar = history.X[:size], history.y[:size], history.yvar[:size]
            order = np.argsort(-y, kind="stable")
            better, others = np.split(order, [min(MODELLED, size) // 2])
            spread = others[np.linspace(0, len(others) - 1, min(MODELLED // 2, len(others))).astype(np.intp)]
            rows = np.sort(np.concatenate([better, spread]))
            # 16: points around which candidates are drawn
            self._fitted = size, Surrogate(self.cube).gp(X[rows], y[rows], yvar[rows]), X[order[:16]]
        _, gp, best = self._fitted
        return gp, best


def narrowed(path: SamplePath, factor: float) -> Acquisition:
    """A function drawn from a posterior, whose distance from the mean is multiplied by a factor."""

    def value_and_gradient(X: Array) -> tuple[Array, Array]:
        (mean, slope), (value, gradient) = path.mean_and_call(X)
        return mean + factor * (value - mean), slope + factor * (gradient - slope)

    def value(X: Array) -> Array:
        mean, values = path.mean_and_values(X)
        return np.asarray(mean + factor * (values - mean))

    return Acquisition(value_and_gradient, value)
