"""NeuralGreedy: Paria, Poczos, Ravikumar, Schneider and Suggala, "Be Greedy - a Simple Algorithm for Blackbox
Optimization using Neural
Networks", ICML workshop on adaptive experimental design, 2022.

A net is fitted to randomly perturbed values; the next point maximises the net itself. The perturbation is the only
exploration.

Notation
    s      scale of the output, and with s^2 the weight decay, 0.1

Deviations
    1. Settings are those of the NeuralBO authors' re-implementation: width 100, two layers, s = 0.1; its missing
       perturbation is put in as the paper describes, normal with sd s on standardised values.
    2. Adam at 1e-2 for 300 steps of batch 32 at least (the code's 100 full-batch steps at 1e-3 leave the net close to
       its start); refitted every ten values as there, but already at a tenth more while there are fewer than 100: it
       asks the same point until it is refitted.
    3. The maximiser climbs the net's gradient, as that code means to and, its tensors being detached, does not.
    4. A design of 2 d + 2 points, not a share of the budget: every method starts alike.
"""

from __future__ import annotations

import numpy as np

from regretless.gp.design import Design, away_from_known
from regretless.gp.maximiser import maximise
from regretless.method import Method, keyed_generator
from regretless.parameters import Array
from regretless.space import Cube
from regretless.streams import Stream
from regretless.tangent.branches import fit_sizes
from regretless.tangent.ntk import Mlp
from regretless.tangent.plain_net import fresh_net, trained
from regretless.tangent.training import epoch_batches

WIDTH, RATE, EPOCHS, BATCH = 100, 1e-2, 100, 32
LEAST_STEPS, MOST_STEPS = 300, 1500
EVERY, GROWTH = 10, 1.1
INCUMBENTS = 3
WARM_UP = 5
"""Points per dimension before the first fit, as in the authors' experiments; at most half of a known budget. A greedy
search stalls on fewer."""


class NeuralGreedy(Method):
    """NeuralGreedy: maximises a net fitted to perturbed values.

    Args:
        s: output scale, sd of the perturbation of standardised values, and root of the weight decay.
    """

    choices = "onehot"

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, s: float = 0.1) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if not s > 0:
            raise ValueError(f"s must be positive, got {s!r}")
        self.s = s
        warm_up = WARM_UP * self.dim if budget is None else max(1, min(WARM_UP * self.dim, budget // 2))
        self._design = Design(self.cube, warm_up, self.fixed_generator(), centre=False)
        self._fitted: tuple[int, Mlp] | None = None

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        net = self._net()
        top = self.X[np.argsort(-self.y, kind="stable")[:INCUMBENTS]]
        weights = self.s * net.weights[-1]

        def prediction(U: Array) -> tuple[Array, Array]:
            return self.s * net.outputs(2 * U - 1), 2 * net.input_gradient(2 * U - 1, weights)

        x = maximise(prediction, self.cube, rng, incumbents=top)
        return away_from_known(x, self, rng)

    def _net(self) -> Mlp:
        """The net fitted to the values up to the last scheduled size: a function of the history."""
        n = len(self.y)
        n = n // EVERY * EVERY if n >= EVERY**2 else min(fit_sizes(GROWTH, EVERY, n), n)
        if self._fitted is None or self._fitted[0] != n:
            rng = keyed_generator(self.seed, n, stream=Stream.NEURAL_GREEDY_FIT)
            y = self.y[:n]
            targets = (y - y.mean()) / (y.std() or 1.0) + self.s * rng.standard_normal(n)
            net = fresh_net(rng, self.dim, (WIDTH,), "relu")
            epochs = max(EPOCHS, -(-LEAST_STEPS // max(1, n // BATCH)))
            batches = epoch_batches(rng, n, BATCH, epochs)[:MOST_STEPS]
            # s h(x) fits y, so h fits y / s; the decay is on h's weights
            self._fitted = n, trained(net, 2 * self.X[:n] - 1, targets / self.s, batches, rate=RATE, decay=self.s**2)
        return self._fitted[1]

    def _recommend(self) -> Array:
        best = np.argsort(-self.y, kind="stable")[: 4 * INCUMBENTS]
        point: Array = self.X[best[int(np.argmax(self._net().outputs(2 * self.X[best] - 1)))]]
        return point
