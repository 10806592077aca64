"""Z_t, the base points of the subspaces of MS-UCB (Alg. 1, l. 4-5)."""

import math

from regretless.history import History
from regretless.models.gp.base_points import BasePoints
from regretless.space import Cube


class BaseSet:
    """Z_t: N_t = N0 t^alpha uniform points are added at iteration t, which follow from the seed and t.

    Args:
        cube, seed: of the method.
        N0, alpha: the schedule.
        initial: evaluations before iteration 1.
    """

    def __init__(self, cube: Cube, seed: int, N0: int, alpha: float, *, initial: int) -> None:
        self._cube, self._seed, self._N0, self._alpha, self._initial = cube, seed, N0, alpha, initial
        self.points = BasePoints(cube.dim, 1)

    def t(self, history: History) -> int:
        """The iteration of the next point: evaluations known or under way since the initial design, + 1."""
        return max(1, history.evaluations - self._initial + 1)

    def draw(self, history: History) -> int:
        """Draws the points of Z_t that are not there yet, and returns |Z_t|."""
        count = self.points.draw(
            self.t(history), self._cube, self._seed, lambda k: subspaces_at(k, self._N0, self._alpha)
        )
        return count

    def left_out(self, history: History, cap: int) -> str:
        """What is left out of the proof when only the newest `cap` points are searched (0: all); empty: nothing."""
        left_out = self.draw(history) - cap if cap else 0
        if left_out <= 0:
            return ""
        return f"the proof needs all of Z_t; {left_out} of its points were left out by cap={cap}"


def subspaces_at(t: int, N0: int, alpha: float) -> int:
    """N_t = N0 t^alpha, the base points added at iteration t >= 1, rounded down."""
    return math.floor(N0 * math.pow(t, alpha) + 1e-9)  # what is added keeps a whole number whole that pow rounds down
