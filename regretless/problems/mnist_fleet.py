"""A fleet of small CNNs trained side by side on MNIST, each with its own weights and hyper-parameters: one GPU, a hundred studies.

All nets take their steps in lockstep; stacked weights turn each layer into one batched matrix product. On a GPU the whole step is captured
once as a CUDA graph and replayed, because at this size launching kernels costs more than running them. Mini-batches are drawn with
replacement, as in the bilevel paper's Algorithms 1 and 2. Results depend on the device's random numbers and are not bit-equal across devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regretless.method import keyed_generator
from regretless.problems.mnist_training import CLASSES, Digits
from regretless.space import Float, Parameter

HYPER = ("lr", "momentum", "l2", "dropout")
EVALUATION_ROWS = 500
WARM_UP = 3
"""Steps taken before a CUDA graph is captured, so that every library has made its buffers."""


class Fleet:
    """`size` CNNs of two 3 x 3 convolutions and one dense layer, trained by SGD with momentum, weight decay and dropout.

    Args:
        digits: the data.
        size: how many nets.
        channels: of the first convolution; the second has twice as many.
        batch: examples per step and net.
        device: "cpu" or "cuda".
        seed: of the mini-batches and dropout masks.
        graph: capture the step as a CUDA graph; without it a GPU takes the same steps several times slower.
    """

    space: Mapping[str, Parameter] = {
        "lr": Float(1e-3, 1.0, log=True),
        "momentum": Float(0.0, 0.99),
        "l2": Float(1e-6, 1e-1, log=True),
        "dropout": Float(0.0, 0.7),
    }

    def __init__(
        self, digits: Digits, size: int, *, channels: int = 8, batch: int = 64, device: str = "cpu", seed: int = 0, graph: bool = True
    ) -> None:
        self.size, self.batch, self.device, self.graph = size, batch, torch.device(device), graph
        self.data = {part: (torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)) for part, (x, y) in vars(digits).items()}
        side = digits.train[0].shape[1]
        self.shapes = [(channels, 1, 3, 3), (2 * channels, channels, 3, 3), (CLASSES, 2 * channels * (side // 4) ** 2)]
        self.weights = [torch.zeros((size, *shape), device=self.device, requires_grad=True) for s in self.shapes for shape in (s, s[:1])]
        self.velocity = [torch.zeros_like(w, requires_grad=False) for w in self.weights]
        self.hyper = torch.zeros(len(HYPER), size, device=self.device)
        self.draws = torch.Generator(self.device).manual_seed(seed)
        self._graph: torch.cuda.CUDAGraph | None = None

    def start(self, slot: int, params: Mapping[str, Any], seed: int) -> None:
        """Puts a fresh net with these hyper-parameters into a slot."""
        rng = keyed_generator(seed, 0)
        with torch.no_grad():
            for i, shape in enumerate(self.shapes):
                scale = np.float32(np.sqrt(2 / np.prod(shape[1:])))
                self.weights[2 * i][slot] = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32) * scale).to(self.device)
                self.weights[2 * i + 1][slot] = 0.0
            for v in self.velocity:
                v[slot] = 0.0
            self.hyper[:, slot] = torch.tensor([float(params[name]) for name in HYPER]).to(self.device)

    def steps(self, n: int) -> None:
        """n steps of every net."""
        if self.device.type != "cuda" or not self.graph:
            for _ in range(n):
                self._step()
            return
        if self._graph is None:
            self._capture()
        for _ in range(n):
            self._graph.replay()  # type: ignore[union-attr]

    def keep(self, slots: Sequence[int]) -> None:
        """Drops all nets but those in these slots, which become 0, 1, ... in this order."""
        rows = torch.tensor(list(slots), device=self.device)
        self.weights = [w.detach()[rows].clone().requires_grad_() for w in self.weights]
        self.velocity = [v[rows].clone() for v in self.velocity]
        self.hyper, self.size, self._graph = self.hyper[:, rows].clone(), len(rows), None

    def evaluate(self, slots: Sequence[int], part: str) -> tuple[list[float], list[float]]:
        """Mean cross-entropy and error in per cent of the nets in these slots on "val" or "test"."""
        x, y = self.data[part]
        rows = torch.tensor(list(slots), device=self.device)
        weights = [w.detach()[rows] for w in self.weights]
        loss = torch.zeros(len(rows), dtype=torch.float64, device=self.device)
        wrong = torch.zeros_like(loss)
        with torch.no_grad():
            for images, labels in zip(torch.split(x, EVALUATION_ROWS), torch.split(y, EVALUATION_ROWS), strict=True):
                out = forward(weights, images.expand(len(rows), *images.shape), None, None)
                target = labels.expand(len(rows), -1)
                loss += functional.cross_entropy(out.flatten(0, 1), target.flatten(), reduction="none").view(target.shape).double().sum(1)
                wrong += (out.argmax(2) != target).double().sum(1)
        return (loss / len(y)).tolist(), (100 * wrong / len(y)).tolist()

    def _step(self) -> None:
        x, y = self.data["train"]
        rows = torch.randint(len(y), (self.size, self.batch), generator=self.draws, device=self.device)
        lr, momentum, l2, dropout = self.hyper
        out = forward(self.weights, x[rows], dropout, self.draws)
        loss = functional.cross_entropy(out.flatten(0, 1), y[rows].flatten(), reduction="sum") / self.batch
        grads = torch.autograd.grad(loss, self.weights)  # the nets share nothing, so the gradient of the sum is each net's own
        with torch.no_grad():
            for w, v, g in zip(self.weights, self.velocity, grads, strict=True):
                one = (self.size,) + (1,) * (w.dim() - 1)
                v.mul_(momentum.view(one)).add_(g).add_(w * l2.view(one))
                w.sub_(v * lr.view(one))

    def _capture(self) -> None:
        """Records one step as a graph; the steps taken for it are undone."""
        keep = [t.detach().clone() for t in (*self.weights, *self.velocity)]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.draws)
        with torch.cuda.graph(graph):
            self._step()
        with torch.no_grad():
            for t, old in zip((*self.weights, *self.velocity), keep, strict=True):
                t.copy_(old)
        self._graph = graph


def forward(weights: Sequence[Tensor], x: Tensor, dropout: Tensor | None, draws: torch.Generator | None) -> Tensor:
    """Scores (k x b x classes) of k nets on k x b images; dropout (k) in front of the dense layer."""
    k, b = x.shape[:2]
    h = x[:, :, None]
    for i in (0, 2):
        h = functional.max_pool2d(functional.relu(_convolve(h, weights[i], weights[i + 1])).flatten(0, 1), 2)
        h = h.view(k, b, *h.shape[1:])
    h = h.flatten(2)
    if dropout is not None:
        kept = torch.rand(h.shape, generator=draws, device=h.device) >= dropout.view(k, 1, 1)
        h = h * kept / (1 - dropout).view(k, 1, 1)
    return torch.baddbmm(weights[5][:, None], h, weights[4].transpose(1, 2))


def _convolve(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """3 x 3 convolutions with padding 1, one kernel per net: x k x b x c x s x s, w k x o x c x 3 x 3, bias k x o."""
    k, b, c, side, _ = x.shape
    padded = functional.pad(x, (1, 1, 1, 1))
    shifted = [padded[..., i : i + side, j : j + side] for i in range(3) for j in range(3)]  # torch's own unfold launches a kernel per image
    patches = torch.stack(shifted, dim=3).view(k, b, 9 * c, side * side)
    out = torch.matmul(w.flatten(2)[:, None], patches) + bias.view(k, 1, -1, 1)
    return out.view(k, b, -1, side, side)
