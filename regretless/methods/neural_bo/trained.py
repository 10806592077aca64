"""The model of NeuralBO's default: a trained net, and the posterior of its linearisation there.

With the prior theta - theta0 ~ N(0, s^2 I / m) and the net linearised at the trained weights theta_k,

    f(x; theta) = h(x; theta_k) + g(x; theta_k) . (theta - theta_k),     h(x; theta0) = 0,

the targets t = y - h(X) + G (theta_k - theta0) are G (theta - theta0) + noise: ridge regression on the gradients at
theta_k. Its mean is h(x; theta_k) and what the gradients add, which vanishes where training has converged; its draws
are coherent functions (Laplace's approximation in its linearised form; Immer, Korzepa and Bauer, AISTATS 2021).

The net is trained at the scheduled sizes of the history (`gp/surrogate.py`), so theta_k is a function of the history.
Every tenth training starts from theta0, chooses the input scale, and takes all steps; the others go on
from the one before with a quarter of the steps. So a replay takes at most ten of them, and a bad minimum is left again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from regretless.basics.streams import Stream, keyed_generator
from regretless.method import State
from regretless.methods.neural_bo.net_method import Path
from regretless.models.gp.surrogate import SIZES, scheduled
from regretless.models.tangent.ntk import (
    ROWS,
    Factors,
    Mlp,
    Tensor,
    WeightDirection,
    combine,
    diagonal,
    inner,
    kernel,
    like,
    namespace,
    on_device,
    on_host,
)
from regretless.models.tangent.ridge import (
    EVIDENCE_POINTS,
    EXACT_UP_TO,
    NOISES,
    USUAL_NOISE,
    KernelRidge,
    SketchRidge,
    empty_ridge,
    log_evidence,
    relative_noise,
)
from regretless.models.tangent.training import NEW_MEAN, NEW_SQUARE, TINY, Batches, whole_epochs
from regretless.models.tangent.values import exact_unit, times_unit
from regretless.models.tangent.warp import Warp
from regretless.space.parameters import Array

STEPS, WARM_SHARE = 200, 0.25  # Adam steps from theta0, and the share of a training that goes on; docs/lab/neural-bo.md
FRESH_EVERY = 10  # every tenth training starts from theta0
SCALES = (0.4, 0.8, 1.6, 3.2, 6.4)  # input scales tried, each over sqrt(number of inputs), as squared distances grow
BLOCK = 32  # rows of targets that are computed together, so that rounding follows from their number alone


class Trainable(Protocol):
    """A net as this model needs it: `NetTangent`, `ModuleTangent`."""

    def start(self) -> WeightDirection:
        """theta0."""

    def at(self, theta: WeightDirection) -> Self:
        """The same net at other weights, its kernel divided by its mean diagonal over the domain."""

    def scaled(self, scale: float) -> Self | None:
        """The net whose inputs are multiplied by a scale over the root of their number; None where it has none."""

    @property
    def norm(self) -> float:
        """The mean of |g|^2 over the domain."""

    def factors(self, X: Tensor) -> Factors: ...

    def random_direction(self, rng: np.random.Generator) -> WeightDirection: ...

    def first_outputs(self, X: Tensor) -> Tensor:
        """h(x; theta0), n, which the model is counted from."""

    def at_origin(self, X: Tensor, delta: WeightDirection) -> tuple[Tensor, Factors]:
        """h(x; theta) - h(x; theta0) - g(x; theta) . delta, n, and the factors of g."""

    def gradient(self, theta: WeightDirection, X: Tensor, y: Tensor) -> WeightDirection:
        """The gradient in theta of sum (h(x; theta) - y)^2 / 2."""


class NetTangent:
    """A fully connected net at some weights, as a `Trainable`; domain: inputs n x q over which its kernel is scaled."""

    def __init__(self, net: Mlp, domain: Tensor) -> None:
        self._start, self._domain = net, domain
        self.net = replace(net, norm=self._mean_diagonal(net))

    def _mean_diagonal(self, net: Mlp) -> float:
        return float(diagonal(replace(net, norm=1.0).factors(self._domain)).mean()) or 1.0

    @property
    def norm(self) -> float:
        return self.net.norm

    def start(self) -> WeightDirection:
        return self._start.weights

    def at(self, theta: WeightDirection) -> NetTangent:
        other, net = copy.copy(self), self._start.at(theta)
        other.net = replace(net, norm=self._mean_diagonal(net))
        return other

    def scaled(self, scale: float) -> NetTangent:
        first = self._start.weights[0]
        inputs = self._domain.shape[1]
        rows = first[:inputs] * (scale / inputs**0.5)
        whole = namespace(first).concatenate([rows, first[inputs:]])
        return NetTangent(self._start.at((whole, *self._start.weights[1:])), self._domain)

    def factors(self, X: Tensor) -> Factors:
        return self.net.factors(X)

    def random_direction(self, rng: np.random.Generator) -> WeightDirection:
        return self.net.random_direction(rng)

    def first_outputs(self, X: Tensor) -> Tensor:
        return self._start.outputs(X)

    def at_origin(self, X: Tensor, delta: WeightDirection) -> tuple[Tensor, Factors]:
        h, A = self.net.outputs_and_factors(X)
        return h - self._start.outputs(X) - self.net.norm**0.5 * inner(A, delta), A

    def gradient(self, theta: WeightDirection, X: Tensor, y: Tensor) -> WeightDirection:
        h, A = replace(self._start.at(theta), norm=1.0).outputs_and_factors(X)
        return combine(A, h - y)


@dataclass(frozen=True, eq=False)
class Training:
    """One training: what the fresh one that it goes back to chose, and the weights it ended with."""

    scale: float
    """The input scale; 0 where the net has none."""
    lam: float
    theta: WeightDirection


class TrainedTangent:
    """The trained net with the posterior of its linearisation; see the module's text.

    Args:
        net: the net at its start.
        seed: keys the batches and the sketch.
        ridge: lam, or None: chosen by evidence.
        steps: Adam steps from theta0; None: STEPS.
        device: "cpu" is NumPy.
    """

    def __init__(
        self, net: Trainable, *, seed: int, ridge: float | None = None, steps: int | None = None, device: str = "cpu"
    ) -> None:
        self._start, self._seed, self._device = net, seed, device
        self._noises = NOISES if ridge is None else (ridge,)
        self._steps = STEPS if steps is None else steps
        self.trainings: dict[int, Training] = {}  # the last one, by its place in the schedule
        self.net, self.place = net, -1  # the net at theta_k, and k
        self.delta: WeightDirection = ()  # theta_k - theta0
        self.lam, self.variance = USUAL_NOISE, 1.0
        self.posterior: KernelRidge | SketchRidge | None = None
        self._targets, self._complete = np.empty(0), 0  # of the regression, and how many stand in complete blocks
        self._unit, self.warp = 1.0, Warp()

    def refresh(self, X: Array, y: Array, yvar: Array) -> None:
        """Takes the history: inputs n x ..., values n and their known noise variances n (NaN where unknown)."""
        n, (k, size) = len(y), scheduled(len(y))
        self._unit = exact_unit(y)
        values = y / self._unit
        if k != self.place:
            self._adopt(k, X[:size], values[:size])
        else:
            self.warp = self._warp_of(values[:size])
        if self.posterior is None or (n > EXACT_UP_TO) != isinstance(self.posterior, SketchRidge):
            self.posterior = empty_ridge(self.net, self.lam, X, seed=self._seed, device=self._device)
            self._targets, self._complete = np.empty(0), 0
        self._observe(X, values)
        self.posterior.extend(X, self._targets, relative_noise(yvar, size))

    def draw(self, nu: float, rng: np.random.Generator) -> Path:
        """One posterior function, defined everywhere at once and nu times as far from the mean (Alg. 1, l. 4)."""
        assert self.posterior is not None
        return self.function(self.posterior.draw(nu * self.variance**0.5, rng))

    def mean(self, Z: Array) -> Array:
        """The posterior mean, in the units told, C."""
        assert self.posterior is not None
        return times_unit(self.warp.inverse(self.function(self.posterior.mean())(Z)), self._unit)

    def function(self, w: Any) -> Path:
        """h(x; theta_k) - g . (theta_k - theta0) and the regression's function w, of inputs C x ..., C."""
        posterior = self.posterior
        assert posterior is not None

        def path(Z: Array) -> Array:
            parts = []
            for i in range(0, len(Z), ROWS):
                rows = on_device(Z[i : i + ROWS], self._device)
                own, factors = self.net.at_origin(rows, self.delta)
                parts.append(on_host(own + posterior.values(factors, w)))
            return np.concatenate(parts)

        return path

    # -- training

    def _training(self, k: int, X: Array, y: Array) -> Training:
        """Training k, on the first SIZES[k] of inputs X and values y."""
        if k not in self.trainings:
            size = SIZES[k]
            inputs = on_device(X[:size], self._device)
            if k % FRESH_EVERY == 0:
                chosen = self._chosen(inputs, y[:size])
                steps = self._steps
            else:
                chosen = self._training(k - 1, X, y)
                steps = int(self._steps * WARM_SHARE)
            targets = like(self._warp_of(y[:size])(y[:size]), inputs)
            self.trainings = {k: replace(chosen, theta=self._trained(chosen, inputs, targets, k, steps))}
        return self.trainings[k]

    def _trained(self, chosen: Training, X: Tensor, targets: Tensor, k: int, steps: int) -> WeightDirection:
        """The weights after steps on sum (h - t)^2 / 2 + m lam |theta - theta0|^2 / 2, over the number of values (Alg.
        2, with the mean of |g|^2 where the paper has m)."""
        batch = 256  # values in a step; all of them while they are fewer
        net, n = self._scaled(chosen.scale), len(targets)
        start, ridge = net.start(), chosen.lam * net.norm / n
        targets = targets + net.first_outputs(X)

        def gradient(theta: WeightDirection, rows: Batches) -> WeightDirection:
            by_values = net.gradient(theta, X[rows], targets[rows])
            share = 1.0 / len(rows)
            return tuple(share * g + ridge * (w - w0) for g, w, w0 in zip(by_values, theta, start, strict=True))

        order = keyed_generator(self._seed, k, Stream.NEURAL_BO_TRAINING)
        epochs = -(-steps * min(batch, n) // n)
        batches = [np.arange(n)] * steps if n <= batch else whole_epochs(order, n, batch, epochs)[:steps]
        # 0.02: Adam's first learning rate, for weights of size 1; it falls to 0 over a training; docs/lab/neural-bo.md
        return adam(chosen.theta, gradient, batches, rate=0.02)

    def _scaled(self, scale: float) -> Trainable:
        scaled = self._start.scaled(scale) if scale else None
        return self._start if scaled is None else scaled

    def _chosen(self, X: Tensor, y: Array) -> Training:
        """The input scale and lam of the largest evidence at theta0, given inputs and values (n)."""
        n = len(y)
        last = slice(max(0, n - EVIDENCE_POINTS), n)
        targets = self._warp_of(y)(y[last])[:, None]
        found, most = Training(0.0, USUAL_NOISE, self._start.start()), -np.inf
        for scale in SCALES if self._start.scaled(1.0) is not None else (0.0,):
            net = self._scaled(scale)
            K = on_host(kernel(*[net.factors(X[last])] * 2))
            # 1.6: the centre of the prior of input scales; its sd is 2^sqrt(2), as a factor
            penalty = 0.25 * float(np.log2(scale / 1.6)) ** 2 if scale else 0.0
            for lam in self._noises:
                evidence = float(log_evidence(K, targets, lam)[0][0]) - penalty - noise_penalty(lam)
                if evidence > most:
                    found, most = Training(scale, lam, net.start()), evidence
        return found

    def _adopt(self, k: int, X: Array, y: Array) -> None:
        """Puts training k in force; X and y are those that it saw."""
        training = self._training(k, X, y)
        begun = self._scaled(training.scale)
        self.net, self.place = begun.at(training.theta), k
        self.delta = tuple(w - w0 for w, w0 in zip(training.theta, begun.start(), strict=True))
        self.warp = self._warp_of(y)
        self.posterior = None
        last = slice(max(0, len(y) - EVIDENCE_POINTS), len(y))
        K = on_host(kernel(*[self.net.factors(on_device(X[last], self._device))] * 2))
        targets, most = self._regressed(X[last], y[last])[:, None], -np.inf
        for lam in self._noises:
            evidence, variance = log_evidence(K, targets, lam)
            if evidence[0] - noise_penalty(lam) > most:
                most = float(evidence[0]) - noise_penalty(lam)
                self.lam, self.variance = lam, float(variance[0])

    # -- the regression

    def _observe(self, X: Array, y: Array) -> None:
        """The regression's targets of all values, block by block."""
        parts = [self._targets[: self._complete]]
        for start in range(self._complete, len(y), BLOCK):
            stop = min(start + BLOCK, len(y))
            parts.append(self._regressed(X[start:stop], y[start:stop]))
            self._complete = stop if stop - start == BLOCK else self._complete
        self._targets = np.concatenate(parts)

    def _regressed(self, X: Array, y: Array) -> Array:
        """t = y - h(X) + G (theta_k - theta0), y standardised, n."""
        # targets are at most so many deviations from the mean: values told since a training may be any size
        farthest = 100.0
        inputs = on_device(X, self._device)
        own, _ = self.net.at_origin(inputs, self.delta)
        return np.asarray(np.clip(self.warp(y), -farthest, farthest) - on_host(own))

    def _warp_of(self, y: Array) -> Warp:
        """The map that standardises values y (n), and compresses later ones that are far worse."""
        return Warp.of(y, "none", of_equal=1.0 / self._unit)

    # -- state

    def state(self) -> State:
        """The last training."""
        if not self.trainings:
            return {}
        ((k, training),) = self.trainings.items()
        theta = {str(i): np.asarray(on_host(w)) for i, w in enumerate(training.theta)}
        return {"place": k, "scale": training.scale, "lam": training.lam, "theta": theta}

    def load(self, state: Mapping[str, Any], n: int) -> None:
        """Takes over what `state` gave for n values."""
        start = self._start.start()
        try:
            k, scale, lam = int(state["place"]), float(state["scale"]), float(state["lam"])
            theta = [np.array(state["theta"][str(i)], dtype=np.float64) for i in range(len(start))]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the state is damaged: the trained net is not readable ({error!r})") from None
        shapes = [tuple(w.shape) for w in start]
        fits = 0 <= k <= scheduled(max(n, 1))[0] and scale in (0.0, *SCALES) and 0 < lam < np.inf
        if not fits or [w.shape for w in theta] != shapes or not all(np.isfinite(w).all() for w in theta):
            raise ValueError(f"the state is damaged: it holds no net trained on {n} values")
        self.trainings = {k: Training(scale, lam, tuple(like(w, w0) for w, w0 in zip(theta, start)))}


def noise_penalty(lam: float) -> float:
    """Minus the logarithm of the prior of lam."""
    return 0.5 * float(np.log10(lam / USUAL_NOISE)) ** 2


def adam(
    theta: WeightDirection,
    gradient: Callable[[WeightDirection, Batches], WeightDirection],
    batches: Sequence[Batches],
    *,
    rate: float,
) -> WeightDirection:
    """theta after one Adam step per batch, the rate falling to 0 in equal steps; arrays of either library."""
    mean = square = tuple(w * 0.0 for w in theta)
    for t, rows in enumerate(batches, start=1):
        by = gradient(theta, rows)
        mean = tuple(m + NEW_MEAN * (g - m) for m, g in zip(mean, by, strict=True))
        square = tuple(s + NEW_SQUARE * (g * g - s) for s, g in zip(square, by, strict=True))
        step = rate * (1.0 - (t - 1) / len(batches)) / (1 - (1 - NEW_MEAN) ** t)
        unbiased = 1 - (1 - NEW_SQUARE) ** t
        moved = zip(theta, mean, square, strict=True)
        theta = tuple(w - step * m / ((s / unbiased) ** 0.5 + TINY) for w, m, s in moved)
    return theta
