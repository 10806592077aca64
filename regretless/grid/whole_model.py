"""One Gaussian process of a whole history, however long: what a search that only ever looks at parts recommends and
certifies from.

Where there are many values, close neighbours are averaged first, with the noise variance divided by their number (by
their weight, where variances are known).
"""

from __future__ import annotations

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import upper_confidence
from regretless.gp.certify import fitted_certificate
from regretless.gp.fit import fit
from regretless.gp.kernels import Kernel, Kind
from regretless.gp.maximiser import maximise
from regretless.gp.posterior import GP
from regretless.gp.surrogate import standardisation
from regretless.grid.scale import merged, weights
from regretless.parameters import Array
from regretless.space import Cube

MOST_VALUES = 800
"""Values beyond which close neighbours are averaged."""
CAUTION = 1.0
"""Posterior sd subtracted from the mean in a recommendation, so that it never trusts a bump of the mean between distant
samples."""
INCUMBENTS = 5


def cautious_best(
    X: Array, y: Array, yvar: Array, noise: float, kernel: Kind, cube: Cube, rng: np.random.Generator
) -> Array:
    """The arg max of mean less CAUTION sd of a process fitted to values y (n) with variances yvar (n, NaN unknown) at X
    (n x d), d.

    noise: the variance of a value where it is unknown, used when averaging.
    """
    if len(y) == 1 or np.ptp(y) == 0.0:
        return np.asarray(X[0])
    points, values, yvar = _averaged(X, y, yvar, noise)
    offset, scale = standardisation(values)
    form = Kernel(kernel, X.shape[1])
    hyper = fit(form, points, (values - offset) / scale, yvar / scale**2)
    gp = GP.exact(form, hyper, points, values, yvar, offset=offset, scale=scale)
    incumbents = points[np.argsort(-gp.mean_at(points), kind="stable")[:INCUMBENTS]]
    acquisition, score = upper_confidence(gp, -CAUTION)
    return maximise(acquisition, cube, rng, incumbents=cube.snap(incumbents), score=score)


def whole_certificate(
    X: Array, y: Array, yvar: Array, noise: float, cube: Cube, x: Array, delta: float, rng: np.random.Generator
) -> Certificate:
    """The fitted certificate of the point x (d) after values y (n) with variances yvar (n, NaN unknown) at X (n x d);
    noise as in `cautious_best`."""
    return fitted_certificate(*_averaged(X, y, yvar, noise), cube, x, delta, rng)


def _averaged(X: Array, y: Array, yvar: Array, noise: float) -> tuple[Array, Array, Array]:
    """Few enough points (m x d), values (m) and their variances (m, NaN unknown)."""
    if len(y) <= MOST_VALUES:
        return X, y, yvar
    points, values, total = merged(X, y, MOST_VALUES, weights(yvar, noise))
    return points, values, noise / total
