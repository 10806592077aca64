"""GP-TS: Thompson 1933; Chowdhury and Gopalan, "On Kernelized Multi-armed Bandits", ICML 2017.

A Gaussian process models the objective; the next point maximises a function drawn from the posterior, so a point is
chosen as often as it is likely to be best. The draw is a differentiable path over the whole cube (pathwise
conditioning, Wilson et al., ICML 2020), no sample on a grid.

Deviations
    1. The paper draws on a growing grid and takes the kernel as known; here the path is continuous and the kernel
       fitted.
    2. The paper widens the posterior by a factor v_t; here v_t = 1.
    3. Pending points need no care, because each path is another. Proposals keep away from failures.
"""

from regretless.basics.streams import Draws
from regretless.history import History
from regretless.methods.shared import GPMethod
from regretless.models.gp.maximiser import Acquisition
from regretless.space import Cube
from regretless.space.parameters import Array


class GPTS(GPMethod):
    """GP-TS: maximises a function drawn from the posterior of a fitted Gaussian process."""

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        gp = self._surrogate.gp(*history.basis)
        path = gp.path(rng)
        return self._best_step(history, cube, gp, Acquisition(path, path.values), rng)
