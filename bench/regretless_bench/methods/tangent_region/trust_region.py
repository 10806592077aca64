"""The trust region of `tangent-region`, which follows from the values alone."""

import numpy as np

from regretless.models.gp.trust_region import TrustRegion
from regretless.space.parameters import Array

MARGIN = 1e-3  # a success beats the best value before it by this share of the range seen (TuRBO: of the best's size)


class Progress:
    """The trust region after the values taken in so far; the first n_design of them only set the range."""

    def __init__(self, n_design: int, dim: int) -> None:
        self._n_design, self._dim = n_design, dim
        self._seen = 0
        self._best, self._worst = -np.inf, np.inf
        self.region = TrustRegion()

    def observe(self, y: Array) -> None:
        """Further values y (n), in the order told."""
        for value in y.tolist():
            if self._seen >= self._n_design:
                success = value > self._best + MARGIN * (self._best - self._worst)
                region = self.region.after(success, self._dim)
                self.region = TrustRegion() if region.collapsed else region
            self._best, self._worst = max(self._best, value), min(self._worst, value)
            self._seen += 1
