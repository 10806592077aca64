"""NeuralBO as its authors' code trains it: where the paper prints SGD from theta0, the code goes on with Adam.

Phan-Trong, Tran-The and Gupta, "NeuralBO: A black-box optimization algorithm using deep neural networks",
Neurocomputing 559, 2023; the code is github.com/phantrdat/pinn-bo (neuralbo.py, commit 9fcc59da, configurations of
2023). That this code made the paper's figures is not known. The algorithm is that of `printed`; training and features
differ, and they decide: the printed training cannot leave its random start, this one can.

Notation: that of `printed`, with theta_t the weights after the latest training.

What the code has and the paper does not print
    1. The net has biases. Hidden weights are N(0, 1/m), the last layer and the biases uniform on +- 1 / sqrt(inputs).
    2. Training is Adam on the mean squared error of all values with weight decay, and goes on from the weights and
       moments of the training before. It takes 500 steps after the first values and after every tenth later one.
    3. Features are gradients at theta_t. A point keeps those of the weights by which it was chosen, and the first
       values never enter U.
    4. Values are as observed, not standardised; nu is the first value of a growing schedule, at which the code stays.
    5. A draw is maximised over 512 uniform points. Adam steps on these points follow in the code, but no gradient
       reaches them.

Deviations
    1. sigma^2 is in kernel form: U has p x p numbers, 20 GB in 100 dimensions.
    2. The net is trained on values between -1e60 and 1e60: squares of gradients of larger ones overflow.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from regretless.basics.options import in_range, whole_number
from regretless.certificate import Certificate
from regretless.history import History
from regretless.methods.neural_bo.net_method import Path, TangentMethod, checked_width
from regretless.models.tangent.ntk import Factors, Mlp, WeightDirection, combine, diagonal, kernel
from regretless.models.tangent.training import NEW_MEAN, NEW_SQUARE, TINY
from regretless.space import Cube
from regretless.space.parameters import Array

WIDTH, INITIAL, CANDIDATES = 500, 50, 512  # m, first values and points of a draw in the authors' configurations
RATE, STEPS, EVERY, DECAY = 1e-3, 500, 10, 1e-3  # Adam's rate, steps of a training, values between two; lam
FIRST_RATIO = 1 / math.log(2)  # t / log(t + 1) at t = 1
LARGEST = 1e60  # the largest value of a target, deviation 2
NU = math.sqrt(FIRST_RATIO * math.log(1 + FIRST_RATIO))  # 1.135, the schedule's first value


class AuthorsNeuralBO(TangentMethod):
    """NeuralBO with the training of its authors' code: biases, full-batch Adam that goes on, features at theta_t.

    Args:
        width, depth: the net; depth counts layers of weights, at least 2.
        exploration: nu, the spread of draws in posterior standard deviations.
        ridge: lam, which is the weight decay as well.
        initial: values before the first training.
        candidates: the features (n x q) of a finite pool; the space is then one `Int(0, n - 1)` that numbers its rows.
        n_candidates: points over which a draw is maximised.
    """

    _noisy = True  # the observations of the paper are noisy (Alg. 1, l. 5)

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        width: int = WIDTH,
        depth: int = 2,
        exploration: float = NU,
        ridge: float = DECAY,
        initial: int = INITIAL,
        candidates: Array | None = None,
        n_candidates: int = CANDIDATES,
    ) -> None:
        in_range("(0, inf)", ridge=ridge)
        in_range("[0, inf)", exploration=exploration)
        whole_number(2, initial=initial)
        self._initial = initial
        super().__init__(
            cube, seed=seed, budget=budget, candidates=candidates, encode=None, raw=False, n_candidates=n_candidates
        )
        inputs = self._domain.shape[1]
        self._start = authors_net(self._net_rng, inputs, checked_width(width, depth, inputs), depth)
        self.nu, self.lam = exploration, ridge

    def _design_size(self) -> int:
        return self._initial

    # -- Algorithm 1

    def _begin(self) -> None:
        self._adam = Adam(self._start.weights)
        self._U = Chosen(self.lam)
        self._trained_at = 0

    def _step(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        self._catch_up(history)
        D = self._candidates(history, cube, rng)
        f_t = self._draw(rng)  # (Alg. 1, l. 3-4)
        x_t = D[int(np.argmax(f_t(self.inputs(D))))]  # (Alg. 1, l. 5)
        return self._off_known(x_t, history, cube, rng)

    def _draw(self, rng: np.random.Generator) -> Path:
        """f_t, drawn for each x by itself."""

        def f_t(x: Array) -> Array:
            h, features = self._net.outputs_and_factors(x)
            return np.asarray(h + self.nu * self._U.deviation(features) * rng.standard_normal(len(x)))

        return f_t

    def _update(self, history: History, first: int) -> None:
        """Trains at the sizes at which the code does, and takes each point into U with the features of its time."""
        x = self._read(history, first)
        for n in range(first + 1, len(x) + 1):
            if n > self._initial:
                self._U.add(self._net.factors(x[n - 1 : n]))  # (Alg. 1, l. 7)
            if n >= self._initial and (n - self._initial) % EVERY == 0:
                self._train(x[:n], history.y[:n])  # (Alg. 1, l. 6)
        if self._trained_at == 0 and len(x):
            self._train(x, history.y)  # fewer values than the design has points: a recommendation needs a net
            self._adam, self._trained_at = Adam(self._start.weights), 0

    def _train(self, x: Array, y: Array) -> None:
        """STEPS of Adam on mean (h - y)^2, with weight decay."""
        net, y = self._start, np.clip(y, -LARGEST, LARGEST)
        for _ in range(STEPS):
            h, features = net.at(self._adam.theta).outputs_and_factors(x)
            residual = combine(features, (h - y) * (2 * net.norm**0.5 / len(y)))
            self._adam.step(tuple(g + self.lam * w for g, w in zip(residual, self._adam.theta, strict=True)))
        self._net, self._trained_at = net.at(self._adam.theta), len(y)

    # -- beside the algorithm

    def _points_to_try(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        return rng.random((self._n_candidates, self.dim))

    def _mean(self, Z: Array) -> Array:
        return np.asarray(self._net.outputs(Z))

    def _certificate(self, history: History, delta: float) -> Certificate:
        return Certificate.none("a trained net's mean has no known bound at this width", delta)


def authors_net(rng: np.random.Generator, inputs: int, width: int, depth: int) -> Mlp:
    """sqrt(m) (W_L relu(... relu(W_1 x + b_1)) + b_L), with features g / sqrt(m)."""
    sizes = [inputs, *[width] * (depth - 1)]
    weights: list[Array] = []
    for size in sizes[:-1]:
        biases = rng.uniform(-1, 1, (1, width)) / size**0.5
        weights.append(np.concatenate([rng.standard_normal((size, width)) / width**0.5, biases]))
    weights.append(rng.uniform(-1, 1, width + 1) / width**0.5)
    return Mlp(tuple(weights), (True,) * depth, "relu", output_gain=width**0.5, norm=float(width))


class Adam:
    """Weights and the moments of Adam (Kingma and Ba, ICLR 2015), at a constant rate."""

    def __init__(self, theta: WeightDirection) -> None:
        self.theta = theta
        self._mean = self._square = tuple(w * 0.0 for w in theta)
        self._t = 0

    def step(self, gradient: WeightDirection) -> None:
        self._t += 1
        self._mean = tuple(m + NEW_MEAN * (g - m) for m, g in zip(self._mean, gradient, strict=True))
        self._square = tuple(s + NEW_SQUARE * (g * g - s) for s, g in zip(self._square, gradient, strict=True))
        rate, unbiased = RATE / (1 - (1 - NEW_MEAN) ** self._t), 1 - (1 - NEW_SQUARE) ** self._t
        moved = zip(self.theta, self._mean, self._square, strict=True)
        self.theta = tuple(w - rate * m / ((s / unbiased) ** 0.5 + TINY) for w, m, s in moved)


class Chosen:
    """U of the chosen points, in kernel form: sigma^2 = k(x, x) - k(x, X) (K + lam I)^-1 k(X, x), where each row of X
    has the features of the weights by which it was chosen."""

    def __init__(self, lam: float) -> None:
        self._lam = lam
        self._rows: list[Factors] = []
        self._L = np.empty((0, 0))

    def add(self, row: Factors) -> None:
        """One point more."""
        w, variance = self._solved(row)
        n = len(self._rows)
        L = np.zeros((n + 1, n + 1))
        L[:n, :n], L[n, :n] = self._L, w[:, 0]
        L[n, n] = math.sqrt(float(variance[0]) + self._lam)
        self._rows.append(row)
        self._L = L

    def deviation(self, features: Factors) -> Array:
        """sigma at points with these features, C."""
        return np.asarray(np.sqrt(self._solved(features)[1]))

    def _solved(self, features: Factors) -> tuple[Array, Array]:
        """L^-1 k(X, x), n x C, and sigma^2, C."""
        own = np.asarray(diagonal(features))
        if not self._rows:
            return np.empty((0, len(own))), own
        w = solve_triangular(self._L, kernel(self._stacked(), features), lower=True, check_finite=False)
        return w, np.maximum(own - (w**2).sum(0), 0.0)

    def _stacked(self) -> Factors:
        return tuple((_together(a), _together(b)) for a, b in (zip(*of) for of in zip(*self._rows, strict=True)))


def _together(parts: tuple[Array | None, ...]) -> Array | None:
    """Rows under each other; nothing where a layer has no such factor."""
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None
