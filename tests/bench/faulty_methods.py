"""Methods that misbehave or want something special, for the runner: workers import them by name."""

import os
import time

from regretless.method import Method, Recipe, Traits


class Dies(Method):
    """Takes its process down at the third ask."""

    def propose(self, history, cube, rng):
        if rng.step == 2:
            os._exit(7)
        return rng.random(self.dim)


class Raises(Method):
    """Raises at the third ask and tells its environment."""

    def propose(self, history, cube, rng):
        if rng.step == 2:
            raise ArithmeticError(f"threads={os.environ['OMP_NUM_THREADS']}")
        return rng.random(self.dim)


class Dawdles(Method):
    """Takes a tenth of a second per ask."""

    def propose(self, history, cube, rng):
        time.sleep(0.1)
        return rng.random(self.dim)


class OneHot(Method):
    """Draws in a cube whose choices are one-hot."""

    traits = Traits(choices="onehot")

    def propose(self, history, cube, rng):
        return rng.random(self.dim)


DIES = Recipe("dies", "faulty_methods:Dies")
RAISES = Recipe("raises", "faulty_methods:Raises")
DAWDLES = Recipe("dawdles", "faulty_methods:Dawdles")
HOT = Recipe("hot", "faulty_methods:OneHot")
