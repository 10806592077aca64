"""NeuralUCB: Zhou, Li and Gu, "Neural Contextual Bandits with UCB-based Exploration", ICML 2020: the bandit ancestor,
on a set of candidates.

A net is trained on the rewards; each candidate is scored by the net plus a bonus from the net's gradient in the metric
of those seen.

Notation
    g(x; theta)   gradient of the net at its trained weights
    U             lam I + sum_i g(x_i) g(x_i)' / m, of which only the diagonal is kept (as in the authors' code)
    score         h(x) + sqrt(lam nu sum_j g_j^2 / U_j)

Deviations
    1. The arms of a round are drawn: Sobol points over the cube (the paper's come from the environment).
    2. Trained from the start on the whole history (the code goes on from the last weights, which depend on when it was
       asked), the rate clipped to its stable limit; gradients of past points are those of the current net.
    3. Rewards are standardised.
    4. Once evaluations have failed, candidates among failures score less (`kept_from_failures`).
"""

from __future__ import annotations

import numpy as np

from regretless.gp.acquisition import candidates_kept_from_failures
from regretless.gp.design import Design, away_from_known, design_size
from regretless.gp.sobol import sobol_points
from regretless.method import Method, keyed_generator
from regretless.parameters import Array
from regretless.space import Cube
from regretless.streams import Stream
from regretless.tangent.ntk import Factors, Mlp, along, combine
from regretless.tangent.plain_net import fresh_net
from regretless.tangent.training import descend

WIDTH, RATE, STEPS = 100, 0.01, 1000
CANDIDATES = 1000


class NeuralUCB(Method):
    """NeuralUCB: a net plus a gradient bonus, over random candidates.

    Args:
        lam: regulariser and start of U.
        nu: exploration, inside the root.
        n_candidates: arms per round.
    """

    choices = "onehot"

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        lam: float = 0.001,
        nu: float = 1.0,
        n_candidates: int = CANDIDATES,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if not lam > 0 or not nu >= 0 or n_candidates < 1:
            raise ValueError(
                f"lam must be positive, nu not negative and n_candidates at least 1, got {lam!r}, {nu!r}, {n_candidates!r}"
            )
        self.lam, self.nu, self.n_candidates = lam, nu, n_candidates
        rng = self.fixed_generator()
        self._design = Design(self.cube, design_size(self.dim, budget), rng)
        self._start = fresh_net(rng, self.dim, (WIDTH,), "relu")
        self._trained: tuple[int, Mlp] | None = None

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        net = self._net()
        Z = self.cube.snap(sobol_points(self.n_candidates, self.dim, rng))
        h, A = net.outputs_and_factors(2 * Z - 1)
        seen = _squared(net.factors(2 * self.X - 1))
        diagonal = tuple(self.lam + total / WIDTH for total in combine(seen, np.ones(len(self.y))))
        bonus = np.sqrt(self.lam * self.nu * along(_squared(A), tuple(1 / u for u in diagonal)) / WIDTH)
        score = candidates_kept_from_failures(h + bonus, Z, self.X, self.failed)
        x: Array = Z[int(np.argmax(score))]
        return away_from_known(x, self, rng)

    def _net(self) -> Mlp:
        """The net trained on the whole history: single-sample steps in an order keyed on its length."""
        n = len(self.y)
        if self._trained is None or self._trained[0] != n:
            order = keyed_generator(self.seed, n, stream=Stream.NEURAL_UCB_BATCH).integers(n, size=(STEPS, 1))
            targets = (self.y - self.y.mean()) / (self.y.std() or 1.0)
            trained = descend(self._start, 2 * self.X - 1, targets, rate=RATE, lam=self.lam, batches=order)
            self._trained = n, trained.net
        return self._trained[1]

    def _recommend(self) -> Array:
        point: Array = self.X[int(np.argmax(self._net().outputs(2 * self.X - 1)))]
        return point


def _squared(A: Factors) -> Factors:
    """Factors of the elementwise squares of the gradients."""
    return tuple((a_in**2, None if a_out is None else a_out**2) for a_in, a_out in A)
