"""SRE: Qian, Hu and Yu, "Derivative-Free Optimization of High-Dimensional Non-Convex Functions by Sequential Random
Embeddings", IJCAI 2016.

When every coordinate matters a little, one random subspace is not enough: the search passes through several, each a
random embedding around the best point of those before, so that what one leaves behind the next may repair.

Notation (on the cube [-1, 1]^D; the unit cube is its image)
    m      rounds, each with the same share of the budget; option `rounds`
    d      the dimension of the embeddings, option `low_dim`
    A      D x d, entries N(0, 1/d), drawn for each round
    x_b    the best point of the rounds before, 0 in the first
    (c, y) a point of the low box [-1, 1]^(1 + d); it stands for x = clip(c x_b + A y)

Deviations
    1. The optimiser inside a round is GP-UCB, as in the comparison of Tran-The et al. (AAAI 2020); the paper uses RACOS
       and others. Its isotropic kernel is on the clipped points x (see REMBO) and sees the round's own points only.
    2. Points are clipped to the box, which the authors' code does not do. Pending points are hallucinated.
    3. Without a known budget a round has 40 evaluations, and the last one goes on for ever.
"""

import numpy as np

from regretless.basics.options import whole_number
from regretless.basics.streams import Draws, Stream, keyed_generator
from regretless.history import History
from regretless.method import Method
from regretless.models.gp.acquisition import kept_from_failures, upper_confidence
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.low_box import checked_low_dim, step_through

ROUND = 40  # evaluations in a round when no budget is known: five rounds are the 200 of Tran-The et al.
RANDOM_SHARE = 5  # the first 1/RANDOM_SHARE of a round's points are random, since a fit needs data; our choice
KAPPA = 2.0  # the width of the confidence bound; our choice, since the paper has no Gaussian process


class SRE(Method):
    """SRE: a sequence of random embeddings, each around the best point so far.

    Args:
        low_dim: the dimension of the embeddings (the authors: 10); D where it is larger.
        rounds: how many there are (the authors: 5).
    """

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None = None, low_dim: int = 10, rounds: int = 5
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        whole_number(rounds=rounds)
        self.low_dim, self.rounds = checked_low_dim(low_dim, self.dim), rounds
        self.length = ROUND if budget is None else max(2, budget // rounds)
        self._surrogate = Surrogate(self.cube, ard=False, quadratic=False, clip=False)

    def round(self, history: History) -> tuple[int, int]:
        """The index of the round under way and the number of values told before it began."""
        at = min(len(history) // self.length, self.rounds - 1)
        return at, at * self.length

    def embedding(self, history: History, at: int, start: int) -> Array:
        """[x_b, A], D x (1 + d): what round `at`, which began after `start` values, multiplies (c, y) with."""
        centre = 2 * history.X[int(np.argmax(history.y[:start]))] - 1 if at and start else np.zeros(self.dim)
        rng = keyed_generator(self.seed, at, stream=Stream.SRE_EMBEDDING)
        A = rng.standard_normal((self.dim, self.low_dim)) / np.sqrt(self.low_dim)
        return np.column_stack([centre, A])

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        at, start = self.round(history)
        B = self.embedding(history, at, start)

        def to_cube(Y: Array) -> tuple[Array, Array]:
            X = (2 * Y - 1) @ B.T
            return (np.clip(X, -1.0, 1.0) + 1) / 2, (np.abs(X) < 1).astype(np.float64)

        X, y, yvar = history.X[start:], history.y[start:], history.yvar[start:]
        if len(y) + len(history.pending) < max(2, self.length // RANDOM_SHARE) or len(y) == 0:
            return np.array(to_cube(rng.random((1, self.low_dim + 1)))[0][0])
        gp = self._surrogate.gp(X, y, yvar, history.pending)
        pair = kept_from_failures(upper_confidence(gp, KAPPA), X, history.failed)
        return step_through(history, cube, pair, to_cube, B, rng)
