"""NeuralUCB: Zhou, Li and Gu, "Neural Contextual Bandits with UCB-based Exploration", ICML 2020.

The bandit method that NeuralBO descends from. A net is trained on the rewards; each of a set of candidates is scored by
the net plus a bonus from the net's gradient in the metric of the gradients seen.

Notation
    g(x; theta)   gradient of the net at its trained weights
    U             LAM I + sum_i g(x_i) g(x_i)' / m, of which only the diagonal is kept (as in the authors' code)
    score         h(x) + sqrt(LAM NU sum_j g_j^2 / U_j)

Deviations
    1. The arms of a round are Sobol points over the cube (the paper's come from the environment).
    2. The net is trained from its start on the whole history (the code goes on from the last weights, which depend on
       when it was asked), with the rate clipped to its stable limit; gradients of past points are the current net's.
    3. Rewards are standardised.
    4. Once evaluations have failed, candidates near failures score less (`candidates_kept_from_failures`).
"""

import numpy as np

from regretless.basics.streams import Draws, Stream, keyed_generator
from regretless.history import History
from regretless.method import Method, Traits
from regretless.models.gp.acquisition import candidates_kept_from_failures
from regretless.models.gp.design import Design, away_from_known, design_size
from regretless.models.gp.sobol import sobol_points
from regretless.models.tangent.inputs import NetInputs
from regretless.models.tangent.ntk import Factors, Mlp, combine, inner
from regretless.models.tangent.training import descend
from regretless.models.tangent.values import standardised
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.small_nets import fresh_net

WIDTH, RATE, STEPS = 100, 0.01, 1000  # width m, learning rate and single-sample steps per training of the authors' code
LAM, NU = 0.001, 1.0  # ridge and exploration: the defaults of the authors' code
CANDIDATES = 1000  # arms per round, as many as NeuralBO has candidates


class NeuralUCB(Method):
    """NeuralUCB: a net plus a gradient bonus, over random candidates."""

    traits = Traits(choices="onehot")

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        rng = self._fixed_generator()
        self._design = Design(self.cube, design_size(self.dim, budget), rng)
        self._inputs = NetInputs(self.cube)
        self._start = fresh_net(rng, self._inputs.dim, (WIDTH,), "relu")
        self._begin()

    def _begin(self) -> None:
        self._trained: tuple[int, Mlp] | None = None

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        first = self._design.next_point(history, cube, rng)
        if first is not None:
            return first
        net = self.net(history)
        Z = cube.snap(sobol_points(CANDIDATES, self.dim, rng))
        h, A = net.outputs_and_factors(self._inputs(Z))
        score = h + bonus(A, net.factors(self._inputs(history.X)))
        x: Array = Z[int(np.argmax(candidates_kept_from_failures(score, Z, history.X, history.failed)))]
        return away_from_known(x, history, cube, rng)

    def net(self, history: History) -> Mlp:
        """The net trained on the whole history: single-sample steps in an order keyed on its length."""
        self._catch_up(history)
        n = len(history)
        if self._trained is None or self._trained[0] != n:
            order = keyed_generator(self.seed, n, stream=Stream.NEURAL_UCB_BATCH).integers(n, size=(STEPS, 1))
            trained = descend(
                self._start, self._inputs(history.X), standardised(history.y), rate=RATE, ridge=LAM, batches=order
            )
            self._trained = n, trained.net
        return self._trained[1]

    def _recommend(self, history: History) -> Array:
        return np.asarray(history.X[int(np.argmax(self.net(history).outputs(self._inputs(history.X))))])


def bonus(A: Factors, seen: Factors) -> Array:
    """sqrt(LAM NU sum_j g_j^2 / U_j) / sqrt(m) of gradients A (C rows) after the gradients seen (n rows), C."""
    n = len(seen[0][0])
    diagonal = tuple(LAM + total / WIDTH for total in combine(_squared(seen), np.ones(n)))
    sums: Array = inner(_squared(A), tuple(1 / u for u in diagonal))
    return np.sqrt(LAM * NU * sums / WIDTH)


def _squared(A: Factors) -> Factors:
    """Factors of the elementwise squares of the gradients."""
    return tuple((a_in**2, None if a_out is None else a_out**2) for a_in, a_out in A)
