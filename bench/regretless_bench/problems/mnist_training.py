"""Inner training problems: classify MNIST digits at 14 x 14 pixels with softmax regression, a small MLP or a small CNN.

Each `Training` gives the functions a bilevel study needs (init, steps, validate, save, load) and the test set's
verdict. Training is plain mini-batch SGD; the order of the data is a permutation keyed on (seed, epoch), so a run goes
on from a saved state exactly as if it had never stopped. 5000 digits train, 2000 validate and 5000 test unless told
otherwise. The dense nets are written in NumPy, because a step on 32 small images costs less than the overhead of a
framework; the CNN uses torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless.bilevel.run import keyed_batches
from regretless.method import keyed_generator
from regretless.space.parameters import Float, Int, Parameter
from regretless_bench.problems.data import data_folder, read_digits

Images = NDArray[np.float32]
Labels = NDArray[np.int64]

BATCH = 32
PIXEL_MEAN, PIXEL_SD = 0.1307, 0.3081
"""Of the training images, in units of 255 (the data set's README)."""
CLASSES = 10
SPLIT_SEED = 0
"""Keys the draw of the training and validation digits; the same for every study."""


# ---------------------------------------------------------------- data


@dataclass(frozen=True, eq=False)
class Digits:
    """Images n x side x side (normalised) and labels n, for training, validation and test."""

    train: tuple[Images, Labels]
    val: tuple[Images, Labels]
    test: tuple[Images, Labels]


@lru_cache(maxsize=4)
def load_digits(
    n_train: int = 5000, n_val: int = 2000, n_test: int = 5000, side: int = 14, folder: str | None = None
) -> Digits:
    """The digits, read once per process; side is 28, or 14 for means over 2 x 2 pixels."""
    if side not in (14, 28):
        raise ValueError(f"side must be 14 or 28, got {side!r}")
    if not (n_train > 0 and n_val > 0 and n_train + n_val <= 60_000 and 0 < n_test <= 10_000):
        raise ValueError(
            f"MNIST has 60000 digits to train and validate and 10000 to test; asked for {n_train}, {n_val} and {n_test}"
        )
    place = data_folder("mnist", folder)
    images, labels = _scaled(*read_digits(place, "train"), side)
    order = keyed_generator(SPLIT_SEED, 0).permutation(len(labels))
    a, b = order[:n_train], order[n_train : n_train + n_val]
    last_images, last_labels = read_digits(place, "t10k")
    test = _scaled(last_images[:n_test], last_labels[:n_test], side)
    return Digits((images[a], labels[a]), (images[b], labels[b]), test)


def _scaled(raw: NDArray[np.uint8], labels: NDArray[np.uint8], side: int) -> tuple[Images, Labels]:
    """Normalised images of 14 or 28 pixels a side, and labels."""
    if side == 14:
        means: Images = raw.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32)
    else:
        means = raw.astype(np.float32)
    scaled: Images = (means / np.float32(255) - np.float32(PIXEL_MEAN)) / np.float32(PIXEL_SD)
    return scaled, labels.astype(np.int64)


# ---------------------------------------------------------------- dense nets in NumPy


class DenseTraining:
    """Softmax regression (no hidden layer) or an MLP with ReLU units, trained by SGD with momentum and weight decay.

    A state holds the weights and the velocity as flat float32 vectors, the hyper-parameters, the seed and the number of
    steps.
    """

    def __init__(
        self, digits: Digits, hidden: tuple[int, ...] = (), *, tune_momentum: bool = False, tune_scale: bool = False
    ) -> None:
        self.digits = digits
        self._x, self._y = _flat(digits.train)
        self.sizes = (self._x.shape[1], *hidden, CLASSES)
        self.space: dict[str, Parameter] = {"lr": Float(1e-3, 1.0, log=True), "l2": Float(1e-6, 1e-1, log=True)}
        if tune_momentum:
            self.space["momentum"] = Float(0.0, 0.99)
        if tune_scale:
            self.space["scale"] = Float(0.1, 10.0, log=True)

    def init(self, params: dict[str, Any], seed: int) -> dict[str, Any]:
        rng = keyed_generator(seed, 0)
        weights = np.zeros(sum((a + 1) * b for a, b in zip(self.sizes, self.sizes[1:], strict=False)), dtype=np.float32)
        if len(self.sizes) > 2:  # softmax regression starts at zero: it is convex
            for W, _ in self._layers(weights):
                W[:] = rng.standard_normal(W.shape, dtype=np.float32) * np.float32(
                    params.get("scale", 1.0) * np.sqrt(2 / W.shape[0])
                )
        hyper = {name: float(params.get(name, 0.0)) for name in ("lr", "l2", "momentum")}
        return {"weights": weights, "velocity": np.zeros_like(weights), "hyper": hyper, "seed": int(seed), "steps": 0}

    def steps(self, state: dict[str, Any], n: int) -> dict[str, Any]:
        """n steps of SGD, in place."""
        lr, l2, momentum = (np.float32(state["hyper"][name]) for name in ("lr", "l2", "momentum"))
        w, v = state["weights"], state["velocity"]
        g = np.empty_like(w)
        layers, grads = self._layers(w), self._layers(g)
        scratch = np.empty_like(w)
        rows = np.arange(BATCH)
        with np.errstate(over="ignore", invalid="ignore"):
            for index in keyed_batches(len(self._y), BATCH, state["seed"], state["steps"], n):
                inputs = [self._x[index]]
                for W, b in layers[:-1]:
                    inputs.append(np.maximum(inputs[-1] @ W + b, 0))
                out = inputs[-1] @ layers[-1][0] + layers[-1][1]
                out -= out.max(axis=1, keepdims=True)
                np.exp(out, out=out)
                out /= out.sum(axis=1, keepdims=True)
                out[rows, self._y[index]] -= 1
                out /= BATCH
                for i in range(len(layers) - 1, -1, -1):
                    np.matmul(inputs[i].T, out, out=grads[i][0])
                    np.sum(out, axis=0, out=grads[i][1])
                    if i:
                        out = (out @ layers[i][0].T) * (inputs[i] > 0)
                np.multiply(w, l2, out=scratch)
                g += scratch
                v *= momentum
                v += g
                np.multiply(v, lr, out=scratch)
                w -= scratch
        state["steps"] += n
        return state

    def step(self, state: dict[str, Any]) -> dict[str, Any]:
        return self.steps(state, 1)

    def validate(self, state: dict[str, Any]) -> float:
        """The mean cross-entropy on the validation digits; NaN once the weights have blown up."""
        return self.evaluate(state, self.digits.val)[0]

    def test(self, state: dict[str, Any]) -> tuple[float, float]:
        """The mean cross-entropy and the error in per cent on the test digits."""
        return self.evaluate(state, self.digits.test)

    def evaluate(self, state: dict[str, Any], data: tuple[Images, Labels]) -> tuple[float, float]:
        x, y = _flat(data)
        layers = self._layers(state["weights"])
        with np.errstate(over="ignore", invalid="ignore"):
            for W, b in layers[:-1]:
                x = np.maximum(x @ W + b, 0)
            out = x @ layers[-1][0] + layers[-1][1]
            out -= out.max(axis=1, keepdims=True)
            loss = np.log(np.exp(out).sum(axis=1)) - out[np.arange(len(y)), y]
        return float(loss.mean(dtype=np.float64)), float(100 * (out.argmax(axis=1) != y).mean())

    def _layers(self, flat: Images) -> list[tuple[Images, Images]]:
        """Views of a flat vector as (weights a x b, bias b) per layer."""
        views, at = [], 0
        for a, b in zip(self.sizes, self.sizes[1:], strict=False):
            views.append((flat[at : at + a * b].reshape(a, b), flat[at + a * b : at + (a + 1) * b]))
            at += (a + 1) * b
        return views


def _flat(data: tuple[Images, Labels]) -> tuple[Images, Labels]:
    return data[0].reshape(len(data[0]), -1), data[1]


# ---------------------------------------------------------------- a CNN in torch

CONV_SPACE: dict[str, Parameter] = {
    "lr": Float(1e-3, 1.0, log=True),
    "momentum": Float(0.0, 0.99),
    "l2": Float(1e-6, 1e-1, log=True),
    "dropout": Float(0.0, 0.7),
    "channels": Int(4, 16, log=True),
}


class ConvTraining:
    """Two 3 x 3 convolutions, each with ReLU and 2 x 2 pooling, and one dense layer; SGD with momentum, weight decay
    and dropout.

    Dropout masks come from a generator of the state's own, never from torch's global one. The net's weights are a list
    of tensors.
    """

    def __init__(self, digits: Digits, *, batch: int = BATCH, device: str = "cpu") -> None:
        import torch

        self.digits, self.batch, self.device = digits, batch, torch.device(device)
        self.side = digits.train[0].shape[1]
        self._data = {
            part: (torch.from_numpy(x)[:, None].to(self.device), torch.from_numpy(y).to(self.device))
            for part, (x, y) in vars(digits).items()
        }
        self.space: dict[str, Parameter] = dict(CONV_SPACE)

    def init(self, params: dict[str, Any], seed: int) -> dict[str, Any]:
        import torch

        rng = keyed_generator(seed, 0)
        c = int(params.get("channels", 8))
        shapes = [(c, 1, 3, 3), (2 * c, c, 3, 3), (CLASSES, 2 * c * (self.side // 4) ** 2)]
        weights: list[Any] = []
        for shape in shapes:
            fan_in = int(np.prod(shape[1:]))
            weights += [
                torch.from_numpy(rng.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(2 / fan_in))),
                torch.zeros(shape[0]),
            ]
        weights = [w.to(self.device).requires_grad_() for w in weights]
        masks = torch.Generator(self.device).manual_seed(seed)
        hyper = {
            "lr": float(params["lr"]),
            **{name: float(params.get(name, 0.0)) for name in ("momentum", "l2", "dropout")},
        }
        velocity = [torch.zeros_like(w, requires_grad=False) for w in weights]
        return {"weights": weights, "velocity": velocity, "hyper": hyper, "seed": int(seed), "steps": 0, "masks": masks}

    def steps(self, state: dict[str, Any], n: int) -> dict[str, Any]:
        """n steps of SGD, in place."""
        import torch

        x, y = self._data["train"]
        weights, velocity, hyper = state["weights"], state["velocity"], state["hyper"]
        for index in keyed_batches(len(y), self.batch, state["seed"], state["steps"], n):
            rows = torch.from_numpy(index).to(self.device)
            loss = torch.nn.functional.cross_entropy(
                self._forward(weights, x[rows], hyper["dropout"], state["masks"]), y[rows]
            )
            grads = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                grads = torch._foreach_add(grads, weights, alpha=hyper["l2"])
                torch._foreach_mul_(velocity, hyper["momentum"])
                torch._foreach_add_(velocity, grads)
                torch._foreach_add_(weights, velocity, alpha=-hyper["lr"])
        state["steps"] += n
        return state

    def step(self, state: dict[str, Any]) -> dict[str, Any]:
        return self.steps(state, 1)

    def validate(self, state: dict[str, Any]) -> float:
        return self.evaluate(state, "val")[0]

    def test(self, state: dict[str, Any]) -> tuple[float, float]:
        """The mean cross-entropy and the error in per cent on the test digits."""
        return self.evaluate(state, "test")

    def evaluate(self, state: dict[str, Any], part: str) -> tuple[float, float]:
        import torch

        x, y = self._data[part]
        with torch.no_grad():
            out = torch.cat([self._forward(state["weights"], chunk, 0.0, None) for chunk in torch.split(x, 2000)])
            loss = torch.nn.functional.cross_entropy(out, y)
            return float(loss), float(100 * (out.argmax(1) != y).float().mean())

    def save(self, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "masks": state["masks"].get_state()}

    def load(self, fresh: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
        fresh["masks"].set_state(saved["masks"])
        weights = [w.to(self.device).requires_grad_() for w in saved["weights"]]
        return {
            **saved,
            "weights": weights,
            "velocity": [v.to(self.device) for v in saved["velocity"]],
            "masks": fresh["masks"],
        }

    def _forward(self, weights: list[Any], x: Any, dropout: float, masks: Any) -> Any:
        import torch

        f = torch.nn.functional
        for i in (0, 2):
            x = f.max_pool2d(f.relu(f.conv2d(x, weights[i], weights[i + 1], padding=1)), 2)
        x = x.flatten(1)
        if dropout > 0 and masks is not None:
            kept = torch.rand(x.shape, generator=masks, device=x.device) >= dropout
            x = x * kept / (1 - dropout)
        return f.linear(x, weights[4], weights[5])


def training(name: str, *, folder: str | None = None, device: str = "cpu") -> DenseTraining | ConvTraining:
    """One of the three: "softmax" (2 hyper-parameters), "mlp" (4) or "cnn" (5)."""
    if name == "softmax":
        return DenseTraining(load_digits(folder=folder))
    if name == "mlp":
        return DenseTraining(load_digits(folder=folder), (32,), tune_momentum=True, tune_scale=True)
    if name == "cnn":
        return ConvTraining(load_digits(folder=folder), device=device)
    raise ValueError(f'training must be "softmax", "mlp" or "cnn", got {name!r}')
