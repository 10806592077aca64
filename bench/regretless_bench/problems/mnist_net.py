"""The output weights of a one-hidden-layer net on MNIST: the neural-network task of Oh et al. (BOCK, ICML 2018), used
by HeSBO and MS-UCB.

The net is 784-h-10 with ReLU units. The optimiser chooses the 10 h weights between the hidden layer and the outputs,
each in [-1, 1]; all other weights and biases are then trained by Adam with those held fixed, and the value is the mean
negative log-likelihood of the 5000 validation digits. h = 10 gives 100 dimensions, h = 50 gives 500. Training draws its
start and its batches from the evaluation's own generator, as in the published task, so the value is noisy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless.method import keyed_generator
from regretless.space import Space
from regretless_bench.problems.data import data_folder, read_digits
from regretless_bench.problems.problem import Observation, Problem

Single = NDArray[np.float32]

CLASSES = 10
TRAIN, VALIDATION = 45_000, 5_000
"""The first 45000 training images train, the next 5000 validate (the published code)."""
PIXEL_MEAN, PIXEL_SD = np.float32(0.1307), np.float32(0.3081)
EPOCHS, BATCH, RATE, DECAY1, DECAY2, EPSILON = 20, 64, 1e-3, 0.9, 0.999, 1e-8
"""The published code trains 20 epochs in batches of 64 with Adam's defaults."""
FIXED_START = 2**40
"""The evaluation number that keys the noiseless value: one fixed start and one fixed order of the batches."""


@lru_cache(maxsize=2)
def _digits(folder: str | None) -> tuple[Single, NDArray[np.int64]]:
    place = data_folder("mnist", folder)
    raw, labels = (part[: TRAIN + VALIDATION] for part in read_digits(place, "train"))
    images = (raw.reshape(len(raw), -1).astype(np.float32) / np.float32(255) - PIXEL_MEAN) / PIXEL_SD
    return images, labels.astype(np.int64)


class MnistNet(Problem):
    """Output-layer weights of a 784-h-10 net: minimise the validation loss after training everything else.

    Args:
        hidden: the number of hidden units h; the problem has 10 h parameters.
        epochs: passes over the training digits.
        train: how many digits train (fewer make a quick look).
    """

    def __init__(
        self, *, hidden: int = 10, epochs: int = EPOCHS, train: int = TRAIN, folder: str | None = None, seed: int = 0
    ) -> None:
        if hidden < 1 or epochs < 0 or not BATCH <= train <= TRAIN:
            raise ValueError(
                f"need hidden >= 1, epochs >= 0 and {BATCH} <= train <= {TRAIN}; "
                f"got {hidden!r}, {epochs!r} and {train!r}"
            )
        self.hidden, self.epochs = int(hidden), int(epochs)
        images, labels = _digits(folder)
        self._train = images[:train], labels[:train]
        self._validation = images[TRAIN:], labels[TRAIN:]
        super().__init__(
            f"mnist-net-{CLASSES * self.hidden}", Space([(-1.0, 1.0)] * (CLASSES * self.hidden)), seed=seed
        )

    def _true(self, params: dict[str, Any]) -> float:
        return self._loss(params, keyed_generator(self.seed, FIXED_START))

    def _observe(self, params: dict[str, Any], rng: np.random.Generator) -> Observation:
        return Observation(self._loss(params, rng), np.nan)

    def _loss(self, params: dict[str, Any], rng: np.random.Generator) -> float:
        output = np.array([params[name] for name in self.space.names], dtype=np.float32).reshape(self.hidden, CLASSES)
        weights = trained(*self._train, output, self.epochs, rng)
        return validation_loss(*self._validation, output, weights)


def trained(images: Single, labels: NDArray[np.int64], output: Single, epochs: int, rng: np.random.Generator) -> Single:
    """W1 (784 x h), b1 (h) and b2 (10) as one flat vector, after training them by Adam with the output weights (h x 10)
    fixed."""
    pixels, h = images.shape[1], len(output)
    flat = np.concatenate([
        (rng.standard_normal(pixels * h) * np.sqrt(2 / (pixels + h))).astype(np.float32),  # Xavier's normal start
        rng.standard_normal(h + CLASSES).astype(np.float32),
    ])  # fmt: skip
    W, b, c = _parts(flat, pixels, h)
    gradient, first, second = np.empty_like(flat), np.zeros_like(flat), np.zeros_like(flat)
    gW, gb, gc = _parts(gradient, pixels, h)
    scratch = np.empty_like(flat)
    t = 0
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for at in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[at : at + BATCH]
            X, target = images[rows], labels[rows]
            A = np.maximum(X @ W + b, 0)
            P = _softmax(A @ output + c)
            P[np.arange(BATCH), target] -= 1
            P /= BATCH
            back = (P @ output.T) * (A > 0)
            np.matmul(X.T, back, out=gW)
            back.sum(axis=0, out=gb)
            P.sum(axis=0, out=gc)
            t += 1
            first *= np.float32(DECAY1)
            first += np.multiply(gradient, np.float32(1 - DECAY1), out=scratch)
            second *= np.float32(DECAY2)
            np.multiply(gradient, gradient, out=scratch)
            scratch *= np.float32(1 - DECAY2)
            second += scratch
            np.sqrt(second, out=scratch)
            scratch *= np.float32(1 / np.sqrt(1 - DECAY2**t))
            scratch += np.float32(EPSILON)
            np.divide(first, scratch, out=scratch)
            scratch *= np.float32(RATE / (1 - DECAY1**t))
            flat -= scratch
    return flat


def validation_loss(images: Single, labels: NDArray[np.int64], output: Single, flat: Single) -> float:
    """The mean negative log-likelihood of the labels."""
    W, b, c = _parts(flat, images.shape[1], len(output))
    score = (np.maximum(images @ W + b, 0) @ output + c).astype(np.float64)
    score -= score.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(score).sum(axis=1)) - score[np.arange(len(labels)), labels]))


def _parts(flat: Single, pixels: int, h: int) -> tuple[Single, Single, Single]:
    """Views of the flat vector: W1, b1, b2."""
    return flat[: pixels * h].reshape(pixels, h), flat[pixels * h : pixels * h + h], flat[pixels * h + h :]


def _softmax(score: Single) -> Single:
    score -= score.max(axis=1, keepdims=True)
    np.exp(score, out=score)
    score /= score.sum(axis=1, keepdims=True)
    return score
