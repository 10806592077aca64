"""One Gaussian process of a whole history, for searches that only ever look at parts of it.

It gives their recommendation and their certificate. Where there are many values, close neighbours are averaged first,
and an average has the noise variance that its weight gives.
"""

import numpy as np

from regretless.certificate import Certificate
from regretless.history import History
from regretless.models.gp.acquisition import upper_confidence
from regretless.models.gp.certify import fitted_certificate
from regretless.models.gp.fit import fit
from regretless.models.gp.kernels import Kernel, KernelKind
from regretless.models.gp.maximiser import maximise
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import best_by_mean
from regretless.models.gp.surrogate import Surrogate, scheduled, standardisation
from regretless.models.grid.scale import merged, weights
from regretless.space import Cube
from regretless.space.parameters import Array

CAUTION = 1.0  # sds taken off the mean of a recommendation: bumps between distant samples are not trusted


def cautious_best(
    history: History, cube: Cube, noise_var: float, kernel: KernelKind, rng: np.random.Generator
) -> Array:
    """The arg max of mean less CAUTION sd of a process fitted to the told values, d; noise_var: where it is unknown."""
    X, y = history.X, history.y
    if len(y) == 1 or np.ptp(y) == 0.0:
        return np.asarray(X[0])
    points, values, yvar = _averaged(X, y, history.yvar, noise_var)
    offset, scale = standardisation(values)
    form = Kernel(kernel, cube.dim)
    hyper = fit(form, points, (values - offset) / scale, yvar / (scale * scale))
    gp = GP.exact(form, hyper, points, values, yvar, offset=offset, scale=scale)
    # 5: points with the best means around which the maximiser draws candidates, as in a certificate
    incumbents = cube.snap(best_by_mean(gp, points, 5))
    return maximise(upper_confidence(gp, -CAUTION), cube, rng, incumbents=incumbents)


def whole_certificate(
    history: History,
    cube: Cube,
    x: Array,
    noise_var: float,
    delta: float,
    rng: np.random.Generator,
    *,
    conservative: Surrogate,
) -> Certificate:
    """The fitted certificate of a point x (d); noise_var as in `cautious_best`. conservative: the model that the method
    keeps, so that the next certificate fits nothing again before the history has grown by a sixteenth."""
    X, y, yvar = history.X, history.y, history.yvar
    size = scheduled(len(y))[1]
    points, values, variances = _averaged(X[:size], y[:size], yvar[:size], noise_var)
    later = np.where(np.isnan(yvar[size:]), noise_var, yvar[size:]) if len(values) < size else yvar[size:]
    told = np.concatenate([points, X[size:]]), np.append(values, y[size:]), np.append(variances, later)
    return fitted_certificate(*told, cube, x, delta, rng, conservative=conservative)


def _averaged(X: Array, y: Array, yvar: Array, noise_var: float) -> tuple[Array, Array, Array]:
    """Few enough points (m x d), values (m) and their variances (m, NaN unknown)."""
    most_values = 800  # with more values than this, close neighbours are averaged; a fit to 800 takes a few seconds
    if len(y) <= most_values:
        return X, y, yvar
    points, values, total = merged(X, y, most_values, weights(yvar, noise_var))
    return points, values, noise_var / total
