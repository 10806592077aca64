"""One Gaussian process of a whole history, however long: what a search that only ever looks at parts recommends and certifies from.

Where there are many values, close neighbours are averaged first, with the noise variance divided by their number.
"""

from __future__ import annotations

import numpy as np

from regretless.method import Certificate
from regretless.numerics.acquisition import upper_confidence
from regretless.numerics.ascend import maximise
from regretless.numerics.confidence import fitted_certificate
from regretless.numerics.fit import fit
from regretless.numerics.gp import GP
from regretless.numerics.kernels import Kernel, Kind
from regretless.numerics.scale import merged
from regretless.numerics.surrogate import standardisation
from regretless.space import Array, Cube

MOST_VALUES = 800
"""Values beyond which close neighbours are averaged."""
CAUTION = 1.0
"""Posterior sd subtracted from the mean in a recommendation, so that it never trusts a bump of the mean between distant samples."""
INCUMBENTS = 5


def cautious_best(X: Array, y: Array, noise: float, kernel: Kind, cube: Cube, rng: np.random.Generator) -> Array:
    """The arg max of mean less CAUTION sd of a process fitted to values y (n) at X (n x d), d; noise: variance of a value, used when averaging."""
    if len(y) == 1 or np.ptp(y) == 0.0:
        return np.asarray(X[0])
    points, values, count = merged(X, y, MOST_VALUES)
    offset, scale = standardisation(values)
    yvar = None if len(y) <= MOST_VALUES else noise / count
    form = Kernel(kernel, X.shape[1])
    hyper = fit(form, points, (values - offset) / scale, None if yvar is None else yvar / scale**2)
    gp = GP.exact(form, hyper, points, values, yvar, offset=offset, scale=scale)
    incumbents = points[np.argsort(-gp.mean_at(points), kind="stable")[:INCUMBENTS]]
    acquisition, score = upper_confidence(gp, -CAUTION)
    return maximise(acquisition, cube, rng, incumbents=cube.snap(incumbents), score=score)


def whole_certificate(X: Array, y: Array, noise: float, cube: Cube, x: Array, delta: float, rng: np.random.Generator) -> Certificate:
    """The fitted certificate of the point x (d) after values y (n) at X (n x d); noise: variance of a value, used when averaging."""
    points, values, count = merged(X, y, MOST_VALUES)
    yvar = np.full(len(values), np.nan) if len(y) <= MOST_VALUES else noise / count
    return fitted_certificate(points, values, yvar, cube, x, delta, rng)
