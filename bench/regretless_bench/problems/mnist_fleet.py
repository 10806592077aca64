"""A fleet of small CNNs trained side by side on MNIST, each with its own weights and hyper-parameters: one GPU, a
hundred studies.

All nets take their steps in lockstep; stacked weights turn each layer into one batched matrix product. On a GPU the
whole step is captured once as a CUDA graph and replayed, because at this size launching kernels costs more than running
them. Mini-batches are drawn with replacement, as in the bilevel paper's Algorithms 1 and 2, or given beforehand, net by
net: then each net takes as many steps as it was given batches for and stands still until it is given more. Results
    depend on the device's random numbers and are not bit-equal across devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from regretless.method import keyed_generator
from regretless.space.parameters import Float, Parameter
from regretless_bench.problems.mnist_training import CLASSES, Digits

HYPER = ("lr", "momentum", "l2", "dropout")
EVALUATION_ROWS = 500
WARM_UP = 3
"""Steps taken before a CUDA graph is captured, so that every library has made its buffers."""


class Fleet:
    """`size` CNNs of two 3 x 3 convolutions and one dense layer, trained by SGD with momentum, weight decay and
    dropout.

    Args:
        digits: the data.
        size: how many nets.
        channels: of the first convolution, at most; the second has twice as many. A net with fewer is one whose other
            weights are zero, and stay zero: nothing flows through them, forwards or backwards.
        batch: examples per step and net.
        device: "cpu" or "cuda".
        seed: of the mini-batches and dropout masks.
        graph: capture the step as a CUDA graph; without it a GPU takes the same steps several times slower.
        ahead: how many mini-batches can be given to a net beforehand; 0: they are drawn.
    """

    space: Mapping[str, Parameter] = {
        "lr": Float(1e-3, 1.0, log=True),
        "momentum": Float(0.0, 0.99),
        "l2": Float(1e-6, 1e-1, log=True),
        "dropout": Float(0.0, 0.7),
    }

    def __init__(
        self,
        digits: Digits,
        size: int,
        *,
        channels: int = 8,
        batch: int = 64,
        device: str = "cpu",
        seed: int = 0,
        graph: bool = True,
        ahead: int = 0,
    ) -> None:
        self.size, self.channels, self.batch, self.device, self.graph = (
            size,
            channels,
            batch,
            torch.device(device),
            graph,
        )
        self.data = {
            part: (torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device))
            for part, (x, y) in vars(digits).items()
        }
        side = digits.train[0].shape[1]
        self.shapes = [(channels, 1, 3, 3), (2 * channels, channels, 3, 3), (CLASSES, 2 * channels * (side // 4) ** 2)]
        self.weights = [
            torch.zeros((size, *shape), device=self.device, requires_grad=True)
            for s in self.shapes
            for shape in (s, s[:1])
        ]
        self.velocity = [torch.zeros_like(w, requires_grad=False) for w in self.weights]
        self.hyper = torch.zeros(len(HYPER), size, device=self.device)
        self.given = torch.zeros((size, ahead, batch), dtype=torch.int64, device=self.device)
        """The rows of each net's next mini-batches."""
        self.taken, self.due = (torch.zeros(size, dtype=torch.int64, device=self.device) for _ in range(2))
        """How many of the given mini-batches each net has used, and how many there are."""
        self.draws = torch.Generator(self.device).manual_seed(seed)
        self._graph: torch.cuda.CUDAGraph | None = None

    def start(self, slot: int, params: Mapping[str, Any], seed: int) -> None:
        """Puts a fresh net with these hyper-parameters into a slot."""
        self.put([slot], self.fresh(params, seed)[None], [params])

    def fresh(self, params: Mapping[str, Any], seed: int) -> NDArray[np.float32]:
        """The weights of a fresh net and its velocity, which is zero, as one vector."""
        rng = keyed_generator(seed, 0)
        c = int(params.get("channels", self.channels))
        (_, _, *kernel), _, (classes, features) = self.shapes
        parts = []
        for whole, own in zip(
            self.shapes, [(c, 1, *kernel), (2 * c, c, *kernel), (classes, features * c // self.channels)], strict=True
        ):
            padded = np.zeros(whole, dtype=np.float32)
            padded[tuple(slice(n) for n in own)] = rng.standard_normal(own, dtype=np.float32) * np.float32(
                np.sqrt(2 / np.prod(own[1:]))
            )
            parts += [padded.ravel(), np.zeros(whole[0], dtype=np.float32)]
        weights = np.concatenate(parts)
        return np.concatenate([weights, np.zeros_like(weights)])

    def put(self, slots: Sequence[int], nets: NDArray[np.float32], params: Sequence[Mapping[str, Any]]) -> None:
        """Puts nets (one vector each, as from `fresh` or `read`) with their hyper-parameters into slots."""
        rows = torch.tensor(list(slots), device=self.device)
        vectors = torch.from_numpy(np.ascontiguousarray(nets)).to(self.device)
        with torch.no_grad():
            at = 0
            for t in (*self.weights, *self.velocity):
                n = t[0].numel()
                t[rows] = vectors[:, at : at + n].view(len(rows), *t.shape[1:])
                at += n
            self.hyper[:, rows] = torch.tensor([[float(p[name]) for p in params] for name in HYPER]).to(self.device)

    def read(self, slots: Sequence[int]) -> NDArray[np.float32]:
        """The nets in these slots, one vector each: weights, then velocity."""
        rows = torch.tensor(list(slots), device=self.device)
        vectors: NDArray[np.float32] = (
            torch.cat([t.detach()[rows].flatten(1) for t in (*self.weights, *self.velocity)], 1).cpu().numpy()
        )
        return vectors

    def give(self, slots: Sequence[int], batches: Sequence[NDArray[np.int64]]) -> None:
        """Gives each of these nets its next mini-batches, n x batch rows of the training data with n of at most
        `ahead`."""
        most = max(len(b) for b in batches)
        padded = np.zeros((len(batches), most, self.batch), dtype=np.int64)
        for i, b in enumerate(batches):
            padded[i, : len(b)] = b
        rows = torch.tensor(list(slots), device=self.device)
        self.given[rows, :most] = torch.from_numpy(padded).to(self.device)
        self.taken[rows] = 0
        self.due[rows] = torch.tensor([len(b) for b in batches], device=self.device)

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
        self.given, self.taken, self.due = (t[rows].clone() for t in (self.given, self.taken, self.due))
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
                loss += (
                    functional.cross_entropy(out.flatten(0, 1), target.flatten(), reduction="none")
                    .view(target.shape)
                    .double()
                    .sum(1)
                )
                wrong += (out.argmax(2) != target).double().sum(1)
        return (loss / len(y)).tolist(), (100 * wrong / len(y)).tolist()

    def _step(self) -> None:
        x, y = self.data["train"]
        rows, going = self._next_rows()
        lr, momentum, l2, dropout = self.hyper
        out = forward(self.weights, x[rows], dropout, self.draws)
        loss = functional.cross_entropy(out.flatten(0, 1), y[rows].flatten(), reduction="sum") / self.batch
        grads = torch.autograd.grad(
            loss, self.weights
        )  # the nets share nothing, so the gradient of the sum is each net's own
        with torch.no_grad():
            for w, v, g in zip(self.weights, self.velocity, grads, strict=True):
                one = (self.size,) + (1,) * (w.dim() - 1)
                faster = v * momentum.view(one) + g + w * l2.view(one)
                moves = going.view(one)
                v.copy_(torch.where(moves, faster, v))
                w.copy_(torch.where(moves, w - faster * lr.view(one), w))

    def _next_rows(self) -> tuple[Tensor, Tensor]:
        """The rows of each net's mini-batch, k x batch, and whether the net takes the step, k."""
        ahead = self.given.shape[1]
        if ahead == 0:
            drawn = torch.randint(
                len(self.data["train"][1]), (self.size, self.batch), generator=self.draws, device=self.device
            )
            return drawn, torch.ones(self.size, dtype=torch.bool, device=self.device)
        going = self.taken < self.due
        rows = self.given.gather(1, self.taken.clamp(max=ahead - 1).view(-1, 1, 1).expand(-1, 1, self.batch))[:, 0]
        self.taken += going
        return rows, going

    def _capture(self) -> None:
        """Records one step as a graph; the steps taken for it are undone."""
        keep = [t.detach().clone() for t in (*self.weights, *self.velocity, self.taken)]
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
            for t, old in zip((*self.weights, *self.velocity, self.taken), keep, strict=True):
                t.copy_(old)
        self._graph = graph


def forward(weights: Sequence[Tensor], x: Tensor, dropout: Tensor | None, draws: torch.Generator | None) -> Tensor:
    """Scores (k x b x classes) of k nets on k x b images; dropout (k) in front of the dense layer."""
    k = len(x)
    h = x[:, None]
    for i in (0, 2):
        h = functional.max_pool2d(functional.relu(_convolve(h, weights[i], weights[i + 1])).flatten(0, 1), 2)
        h = h.view(k, -1, *h.shape[1:])
    h = h.transpose(1, 2).flatten(2)
    if dropout is not None:
        kept = torch.rand(h.shape, generator=draws, device=h.device) >= dropout.view(k, 1, 1)
        h = h * kept / (1 - dropout).view(k, 1, 1)
    return torch.baddbmm(weights[5][:, None], h, weights[4].transpose(1, 2))


def _convolve(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    """3 x 3 convolutions with padding 1, one kernel per net: x k x c x b x s x s, w k x o x c x 3 x 3, bias k x o; k x
    o x b x s x s.

    Channels come before images, so that a layer is one large matrix product per net instead of a small one per image.
    """
    k, c, b, side, _ = x.shape
    padded = functional.pad(x, (1, 1, 1, 1))
    shifted = [
        padded[..., i : i + side, j : j + side] for i in range(3) for j in range(3)
    ]  # torch's own unfold launches a kernel per image
    patches = torch.stack(shifted, dim=2).view(k, 9 * c, b * side * side)
    return torch.baddbmm(bias[:, :, None], w.flatten(2), patches).view(k, -1, b, side, side)
