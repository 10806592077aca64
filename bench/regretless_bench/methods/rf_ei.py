"""RF-EI: Hutter, Hoos and Leyton-Brown, "Sequential Model-Based Optimization for General Algorithm Configuration"
(SMAC), LION 2011.

A random forest models the values; mean and variance over its trees give an expected improvement, maximised over points
everywhere and around the best ones. Needs scikit-learn (`pip install regretless[sklearn]`).

Deviations
    1. 100 trees, not GPyOpt's 500: the mean's and deviation's Monte-Carlo error at 100 is a tenth of the deviation.
    2. Random and local candidates (SMAC's way), not GPyOpt's L-BFGS, which cannot move where a function is constant.
    3. All candidates go through each tree at once, not one by one through the forest.
"""

from typing import Any

import numpy as np
from scipy.special import ndtr

from regretless.basics.extras import optional
from regretless.basics.options import whole_number
from regretless.basics.streams import Stream, keyed_generator
from regretless.history import History
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import candidates
from regretless.models.gp.surrogate import near_one
from regretless.space import Cube
from regretless.space.parameters import Array

TREES = 100  # the number of trees: the Monte-Carlo error of the mean over 100 is a tenth of their deviation
CANDIDATES = 1000  # the points among which the expected improvement is maximised; 100 trees value them in milliseconds
INCUMBENTS = 5  # the known points with the best means around which a third of the candidates are drawn
LEAST_SD = 1e-12  # the deviation that an expected improvement divides by is kept above this: trees that agree have none
MARGIN = 0.01  # the customary margin of the improvement, in standard deviations of the values


class RFEI(DesignedMethod):
    """RF-EI: expected improvement of a random forest of so many trees, as in SMAC."""

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, trees: int = TREES) -> None:
        super().__init__(cube, seed=seed, budget=budget, centre=False)
        whole_number(2, trees=trees)
        self.trees = trees
        self._regressor = optional("sklearn.ensemble", "sklearn").RandomForestRegressor
        self._begin()

    def _begin(self) -> None:
        self._fitted: tuple[int, list[Any]] | None = None

    def _step(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        known, _ = self.predict(history, history.X)
        top = history.X[np.argsort(-known, kind="stable")[:INCUMBENTS]]
        Z = candidates(cube, rng, top, CANDIDATES)
        m, s = self.predict(history, Z)
        z = (m - float(known.max()) - MARGIN) / np.maximum(s, LEAST_SD)
        improvement = s * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))
        x: Array = Z[int(np.argmax(improvement))]
        return away_from_known(x, history, cube, rng)

    def predict(self, history: History, U: Array) -> tuple[Array, Array]:
        """Mean and sd over the trees, standardised, C each."""
        self._catch_up(history)
        n = len(history)
        if self._fitted is None or self._fitted[0] != n:
            y = near_one(history.y)
            targets = (y - y.mean()) / (y.std() or 1.0)
            seed = int(keyed_generator(self.seed, n, stream=Stream.FOREST_FIT).integers(2**31))
            forest = self._regressor(self.trees, max_features=1.0, random_state=seed).fit(history.X, targets)
            self._fitted = n, [tree.tree_ for tree in forest.estimators_]
        rows = U.astype(np.float32)
        values = np.stack([tree.predict(rows)[:, 0] for tree in self._fitted[1]])
        return values.mean(0), values.std(0)

    def _recommend(self, history: History) -> Array:
        return np.asarray(history.X[int(np.argmax(self.predict(history, history.X)[0]))])
