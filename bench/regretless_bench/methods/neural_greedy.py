"""NeuralGreedy: Paria, Poczos, Ravikumar, Schneider and Suggala, "Be Greedy - a Simple Algorithm for Blackbox
Optimization using Neural Networks", ICML workshop on adaptive experimental design, 2022.

A net is fitted to randomly perturbed values; the next point maximises the net itself. The perturbation is the only
exploration.

Notation
    S      scale of the net's output, standard deviation of the perturbation, and root of the weight decay

Deviations
    1. Settings are those of the NeuralBO authors' code: width 100, two layers, S = 0.1. That code leaves the
       perturbation out; here it is as in the paper, normal with deviation S on standardised values.
    2. Adam at 1e-2 for at least 300 steps of batch 32 (that code's 100 full-batch steps at 1e-3 hardly move the net);
       refitted every ten values as there, and at a tenth more while there are fewer than 100.
    3. The maximiser climbs the net's gradient, from which that code's tensors are detached.
    4. The design has five points per dimension, at most half of a known budget.
"""

import numpy as np

from regretless.basics.streams import Stream, keyed_generator
from regretless.history import History
from regretless.method import Traits
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import Acquisition, maximise
from regretless.models.gp.step import INCUMBENTS
from regretless.models.tangent.inputs import NetInputs
from regretless.models.tangent.ntk import Mlp
from regretless.models.tangent.values import standardised
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless_bench.methods.small_nets import (
    epoch_batches,
    fresh_net,
    input_gradient,
    scheduled_size,
    train_with_adam,
)

WIDTH, S = 100, 0.1  # width and scale of the NeuralBO authors' code (deviation 1)
RATE, EPOCHS, BATCH, LEAST_STEPS = 1e-2, 100, 32, 300  # Adam's rate, passes, batch and least steps (deviation 2)
MOST_STEPS = 1500  # Adam's steps per fit at most, so that the cost of a fit does not grow with the number of values
EVERY, GROWTH = 10, 1.1  # values between two fits from EVERY^2 on, and the growth between two before (deviation 2)
SHORTLIST = 4 * INCUMBENTS  # the best values among which the net recommends: it is only trusted near the top
WARM_UP = 5  # points per dimension before the first fit, as in the NeuralBO authors' experiments (deviation 4)


class NeuralGreedy(DesignedMethod):
    """NeuralGreedy: maximises a net fitted to perturbed values."""

    traits = Traits(choices="onehot")

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget, centre=False)
        self._inputs = NetInputs(self.cube)
        self._begin()

    def _begin(self) -> None:
        self._trained: tuple[int, Mlp] | None = None

    def _design_size(self) -> int:
        return WARM_UP * self.dim if self.budget is None else max(1, min(WARM_UP * self.dim, self.budget // 2))

    def _step(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        net = self.net(history)
        top = history.X[np.argsort(-history.y, kind="stable")[:INCUMBENTS]]
        weights = S * net.weights[-1]

        def prediction(U: Array) -> tuple[Array, Array]:
            Z = self._inputs(U)
            return S * net.outputs(Z), self._inputs.gradient(input_gradient(net, Z, weights), U)

        x = maximise(Acquisition.of(prediction), cube, rng, incumbents=top)
        return away_from_known(x, history, cube, rng)

    def net(self, history: History) -> Mlp:
        """The net fitted to the values up to the last scheduled size."""
        self._catch_up(history)
        n = len(history)
        n = n // EVERY * EVERY if n >= EVERY**2 else min(scheduled_size(n, first=EVERY, growth=GROWTH), n)
        if self._trained is None or self._trained[0] != n:
            rng = keyed_generator(self.seed, n, stream=Stream.NEURAL_GREEDY_FIT)
            targets = standardised(history.y[:n]) + S * rng.standard_normal(n)
            net = fresh_net(rng, self._inputs.dim, (WIDTH,), "relu")
            epochs = max(EPOCHS, -(-LEAST_STEPS // max(1, n // BATCH)))
            batches = epoch_batches(rng, n, BATCH, epochs)[:MOST_STEPS]
            # S h(x) fits y, so h fits y / S; the decay is on h's weights
            made = train_with_adam(net, self._inputs(history.X[:n]), targets / S, batches, rate=RATE, decay=S**2)
            self._trained = n, made
        return self._trained[1]

    def _recommend(self, history: History) -> Array:
        top = history.X[np.argsort(-history.y, kind="stable")[:SHORTLIST]]
        return np.asarray(top[int(np.argmax(self.net(history).outputs(self._inputs(top))))])
