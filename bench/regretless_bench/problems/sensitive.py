"""Sensitive samples: an image whose label gives away that a classifier was tampered with (He et al., CVPR 2019;
NeuralBO, Sec. 7.2.1).

The image is 7 x 7, enlarged to 28 x 28; the value is the Frobenius norm of the derivative, in all weights, of the ten
log-probabilities that a trained MNIST classifier gives it (the authors' code takes the largest of them alone). A large
gradient means that small changes of the weights
change the answer. The classifier is a 784-10-10 ReLU net trained here on the real digits. `tampered` makes altered
copies and `detection_rates` counts which of them a set of images gives away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.method import keyed_generator
from regretless.space import Space
from regretless.space.parameters import Array
from regretless_bench.problems.data import data_folder, read_digits
from regretless_bench.problems.problem import Problem
from regretless_bench.streams import BenchStream

Outputs: TypeAlias = Literal["all", "largest"]

SMALL, LARGE, CLASSES, HIDDEN = 7, 28, 10, 10
PIXEL_MEAN, PIXEL_SD = 0.1307, 0.3081
LOW, HIGH = (0 - PIXEL_MEAN) / PIXEL_SD, (1 - PIXEL_MEAN) / PIXEL_SD
"""The normalised range of a pixel: -0.42421 to 2.8215."""
EPOCHS, BATCH, RATE = 6, 64, 0.05
"""Plain SGD until the accuracy of such a small net settles, about 0.93."""
TAMPERED_ACCURACY = 0.8773
"""The paper's tampered models keep this accuracy on average; the noise on the weights is set accordingly."""


@dataclass(frozen=True)
class Classifier:
    """A 784-10-10 ReLU net with log-softmax: weights (784 x 10, 10 x 10) and biases."""

    W1: Array
    b1: Array
    W2: Array
    b2: Array

    def scores(self, images: Array) -> Array:
        """Unnormalised log-probabilities of images n x 784, n x 10."""
        return np.maximum(images @ self.W1 + self.b1, 0.0) @ self.W2 + self.b2

    def labels(self, images: Array) -> NDArray[np.int64]:
        best: NDArray[np.int64] = np.argmax(self.scores(images), axis=1)
        return best

    def sensitivity(self, images: Array, outputs: Outputs = "all") -> Array:
        """|d f / d(all weights and biases)|_F of each image, n; f are the ten log-probabilities (`outputs` "all", as
        the paper has it), or the largest of them (as the authors' code has it).

        With e_k = onehot(k) - p the gradient of output k in layer 2 is the outer product of e_k and the hidden units,
        that in layer 1 of the back-propagated e_k and the image; a 1 is added to each squared norm for the bias.
        """
        u = images @ self.W1 + self.b1
        h = np.maximum(u, 0.0)
        s = h @ self.W2 + self.b2
        p = np.exp(s - s.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        chosen = [np.argmax(s, axis=1)] if outputs == "largest" else [np.full(len(s), k) for k in range(s.shape[1])]
        squared = np.zeros(len(s))
        for k in chosen:
            e = np.negative(p)
            e[np.arange(len(s)), k] += 1.0
            back = (e @ self.W2.T) * (u > 0)
            squared += (e**2).sum(1) * ((h**2).sum(1) + 1) + (back**2).sum(1) * ((images**2).sum(1) + 1)
        return np.sqrt(squared)

    def tampered(self, sd: float, rng: np.random.Generator) -> Classifier:
        """A copy with normal noise of that sd on every weight and bias."""
        return Classifier(
            *(part + sd * rng.standard_normal(part.shape) for part in (self.W1, self.b1, self.W2, self.b2))
        )


def shrink(images: Array) -> Array:
    """n x 784 to n x 49: the mean of each block of 4 x 4 pixels."""
    blocks = images.reshape(-1, SMALL, LARGE // SMALL, SMALL, LARGE // SMALL)
    small: Array = blocks.mean(axis=(2, 4)).reshape(len(blocks), -1)
    return small


def enlarge(images: Array) -> Array:
    """n x 49 to n x 784: bilinear, pixel centres aligned as area halves (the usual `align_corners=False`)."""
    R = _resampling()
    large: Array = np.einsum("ij,njk,lk->nil", R, images.reshape(-1, SMALL, SMALL), R, optimize=True).reshape(
        len(images), -1
    )
    return large


@lru_cache(maxsize=1)
def _resampling() -> Array:
    """The 28 x 7 matrix of one axis."""
    where = np.clip((np.arange(LARGE) + 0.5) * SMALL / LARGE - 0.5, 0, SMALL - 1)
    left = np.minimum(where.astype(int), SMALL - 2)
    R = np.zeros((LARGE, SMALL))
    R[np.arange(LARGE), left] = 1 - (where - left)
    R[np.arange(LARGE), left + 1] = where - left
    return R


@lru_cache(maxsize=4)
def digits(folder: str | None = None, test: bool = False) -> tuple[Array, NDArray[np.int64]]:
    """Normalised MNIST images (n x 784) and labels (n)."""
    place, stem = data_folder("mnist", folder), "t10k" if test else "train"
    images, labels = read_digits(place, stem)
    return (images.reshape(len(images), -1) / 255.0 - PIXEL_MEAN) / PIXEL_SD, labels.astype(np.int64)


@lru_cache(maxsize=4)
def train_classifier(folder: str | None = None, seed: int = 0, epochs: int = EPOCHS) -> Classifier:
    """The classifier after `epochs` passes of SGD over the training digits; He's start, a rate that falls to 0."""
    images, labels = digits(folder)
    rng = keyed_generator(seed, 3, stream=BenchStream.INSTANCE)
    W1 = rng.standard_normal((images.shape[1], HIDDEN)) * (2 / images.shape[1]) ** 0.5
    W2 = rng.standard_normal((HIDDEN, CLASSES)) * (1 / HIDDEN) ** 0.5
    b1, b2 = np.zeros(HIDDEN), np.zeros(CLASSES)
    total = epochs * (len(images) // BATCH)
    step = 0
    for _ in range(epochs):
        for rows in rng.permutation(len(images))[: len(images) // BATCH * BATCH].reshape(-1, BATCH):
            x = images[rows]
            h = np.maximum(x @ W1 + b1, 0.0)
            s = h @ W2 + b2
            p = np.exp(s - s.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(BATCH), labels[rows]] -= 1.0
            p *= RATE * (1 - step / total) / BATCH
            back = (p @ W2.T) * (h > 0)
            W2 -= h.T @ p
            b2 -= p.sum(0)
            W1 -= x.T @ back
            b1 -= back.sum(0)
            step += 1
    return Classifier(W1, b1, W2, b2)


class Sensitive(Problem):
    """Sensitive samples: maximise a classifier's gradient norm over 7 x 7 images (49 pixels).

    Args:
        classifier: the net to guard; None trains one on MNIST (about 5 seconds, kept for the process).
        outputs: the log-probabilities whose derivative counts, "all" or the "largest".
        folder: where the data sets are.
    """

    def __init__(
        self,
        *,
        classifier: Classifier | None = None,
        outputs: Outputs = "all",
        folder: str | None = None,
        seed: int = 0,
    ) -> None:
        if outputs not in ("all", "largest"):
            raise ValueError(f"outputs must be 'all' or 'largest', got {outputs!r}")
        self.classifier, self.outputs = classifier or train_classifier(folder), outputs
        super().__init__("sensitive", Space([(LOW, HIGH)] * SMALL**2), direction="maximize", seed=seed)

    def _true(self, params: dict[str, Any]) -> float:
        x = np.array([params[name] for name in self.space.names], dtype=np.float64)
        return float(self.classifier.sensitivity(enlarge(x[None]), self.outputs)[0])

    def _true_unit(self, U: Array) -> Array:
        return self.classifier.sensitivity(enlarge(LOW + (HIGH - LOW) * U), self.outputs)


def sensitive(*, outputs: Outputs = "all", folder: str | None = None, seed: int = 0) -> Sensitive:
    """Sensitive samples: 49-pixel images that give a tampered MNIST classifier away, maximised."""
    return Sensitive(outputs=outputs, folder=folder, seed=seed)


# ---------------------------------------------------------------- tampering and its detection


def tamper_sd(
    classifier: Classifier,
    images: Array,
    labels: NDArray[np.int64],
    accuracy: float = TAMPERED_ACCURACY,
    trials: int = 40,
) -> float:
    """The sd of weight noise at which the mean accuracy over `trials` tampered copies is the one given (bisection)."""
    low, high = 0.0, 1.0
    for _ in range(20):
        sd = (low + high) / 2
        copies = (classifier.tampered(sd, keyed_generator(0, i, stream=BenchStream.INSTANCE)) for i in range(trials))
        mean = float(np.mean([np.mean(copy.labels(images) == labels) for copy in copies]))
        low, high = (sd, high) if mean > accuracy else (low, sd)
    return (low + high) / 2


def detection_rates(classifier: Classifier, samples: Array, sd: float, models: int, seed: int = 0) -> Array:
    """The share of tampered copies that the first 1, 2, ..., k of the samples (k x 784) give away by another label,
    k."""
    rates: Array = np.maximum.accumulate(given_away(classifier, samples, sd, models, seed), axis=1).mean(axis=0)
    return rates


def given_away(classifier: Classifier, samples: Array, sd: float, models: int, seed: int = 0) -> NDArray[np.bool_]:
    """Which tampered copies each of the samples (k x 784) gives away by another label, models x k."""
    expected = classifier.labels(samples)
    return np.stack(
        [
            classifier.tampered(sd, keyed_generator(seed, i, stream=BenchStream.INSTANCE)).labels(samples) != expected
            for i in range(models)
        ]
    )
