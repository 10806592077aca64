"""PyTorch's door to bilevel tuning: any module, any loader and an optimiser recipe become an inner training problem.

    problem = torch_bilevel(lambda params: Net(params["width"]), train_loader, val_loader, optimiser=sgd)
    result = minimize_bilevel(problem, space, budget_steps=20_000, folder="study")
    result.state.model                                    # the trained module

A run is exact: building the module, shuffling and dropout draw from torch's global generator inside a fork that is
seeded by the run's seed, travels with the state and leaves the caller's generator alone. What transforms draw from
`random` or NumPy's global state is not covered.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, default_collate

from regretless.basics.streams import Stream
from regretless.bilevel.problem import Bilevel, StepRule, step_sizes
from regretless.bilevel.run import keyed_batches
from regretless.method import keyed_generator

Data: TypeAlias = DataLoader[Any] | Sequence[Tensor]
"""A loader whose batches end with the target, or tensors (inputs ..., target) with one row per example."""


@dataclass(eq=False)
class TorchRun:
    """A training run: the module, its optimiser, and all the randomness that is to come."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    params: dict[str, Any]
    seed: int
    steps: int = 0
    rng: list[Tensor] = field(default_factory=list, repr=False)
    """The states of torch's generators: the CPU's, then the device's if it has one."""
    live: tuple[int, Iterator[Any]] | None = field(default=None, repr=False)
    """The step whose batch the loader would give next, and its iterator; only saves time and is never written."""


def torch_bilevel(
    build: Callable[[dict[str, Any]], nn.Module],
    train: Data,
    val: Data,
    *,
    optimiser: Callable[[Iterable[nn.Parameter], dict[str, Any]], torch.optim.Optimizer],
    loss: Callable[[Any, Any], Tensor] = nn.functional.cross_entropy,
    batch: int = 32,
    device: str | torch.device = "cpu",
    step_size: StepRule = "raw",
    horizon: int | None = None,
) -> Bilevel:
    """An inner training problem from a module, data and an optimiser recipe; the validation loss is the mean of `loss`.

    Args:
        build: build(params) makes the module.
        train, val: training and validation data: a loader, or tensors (inputs ..., target), held on the device.
        optimiser: optimiser(weights, params) makes the optimiser.
        loss: loss(output, target) of a batch, its mean; the module is called with all parts of a batch but the last.
        batch: examples per step, when `train` is tensors.
        device: where the module trains.
        step_size, horizon: "raw" leaves the step size to the optimiser; see `step_sizes` for the paper's rules.
    """
    device = torch.device(device)
    rule = step_sizes(step_size, horizon)
    # 2000: rows per batch when tensors are validated: enough to keep the processor busy, few enough for any memory
    source, test = _Source(train, batch, device), _Source(val, 2000, device)

    def init(params: dict[str, Any], seed: int) -> TorchRun:
        with _own_generators(device, None, seed) as rng:
            model = build(dict(params)).to(device)
        return TorchRun(model, optimiser(model.parameters(), dict(params)), dict(params), seed, rng=rng)

    def steps(run: TorchRun, n: int) -> TorchRun:
        run.model.train()
        with _own_generators(device, run.rng, run.seed) as rng:
            for j, (*inputs, target) in enumerate(source.batches(run, n), run.steps):
                if rule is not None:
                    for group in run.optimiser.param_groups:
                        group["lr"] = rule(run.params, j)
                run.optimiser.zero_grad(set_to_none=True)
                loss(run.model(*inputs), target).backward()  # type: ignore[no-untyped-call]
                run.optimiser.step()
        run.rng = rng
        run.steps += n
        return run

    def validate(run: TorchRun) -> float:
        run.model.eval()
        total, rows = torch.zeros((), dtype=torch.float64, device=device), 0
        with torch.no_grad(), _own_generators(device, None, run.seed):
            for *inputs, target in test.in_order():
                total += loss(run.model(*inputs), target).double() * len(target)
                rows += len(target)
        return float(total) / max(rows, 1)

    def save(run: TorchRun) -> Any:
        learnt = {"model": run.model.state_dict(), "optimiser": run.optimiser.state_dict()}
        return {**learnt, "rng": run.rng, "steps": run.steps}

    def load(fresh: TorchRun, saved: Any) -> TorchRun:
        fresh.model.load_state_dict(saved["model"])
        fresh.optimiser.load_state_dict(saved["optimiser"])
        fresh.rng, fresh.steps = saved["rng"], saved["steps"]
        return fresh

    return Bilevel(init, lambda run: steps(run, 1), validate, save, load, steps)


class _Source:
    """Batches as a function of (seed, step), on the device."""

    def __init__(self, data: Data, batch: int, device: torch.device) -> None:
        if isinstance(data, DataLoader) and _gives_whole_shuffled_batches(data):
            # indexing its tensors does the same without the loader's overhead
            batch, data = data.batch_size or batch, list(data.dataset.tensors)  # type: ignore[attr-defined]
        self.device, self.batch = device, batch
        self.tensors: list[Tensor] = []
        self.loader = data if isinstance(data, DataLoader) else None
        if isinstance(data, DataLoader):
            if not hasattr(data, "__len__") or len(data) == 0:
                raise ValueError("the loader is empty, or does not know its length; give one that does")
            return
        self.tensors = [part.to(device) for part in data]
        if len(self.tensors) < 2 or len({len(part) for part in self.tensors}) != 1 or len(self.tensors[0]) == 0:
            raise ValueError("data must be a DataLoader, or tensors (inputs ..., target) with equally many rows")

    def batches(self, run: TorchRun, steps: int) -> Iterator[Sequence[Any]]:
        """The training batches of the run's next `steps` steps."""
        if self.loader is None:
            for index in keyed_batches(len(self.tensors[0]), self.batch, run.seed, run.steps, steps):
                rows = torch.from_numpy(index).to(self.device)
                yield [part[rows] for part in self.tensors]
            return
        for step in range(run.steps, run.steps + steps):
            epoch, at = divmod(step, len(self.loader))
            if run.live is None or run.live[0] != step or at == 0:
                run.live = step, self._epoch(run.seed, epoch, at)
            parts = next(run.live[1])
            run.live = step + 1, run.live[1]
            yield [_to(part, self.device) for part in parts]

    def in_order(self) -> Iterator[Sequence[Any]]:
        """All batches of the validation data, once."""
        if self.loader is not None:
            for parts in self.loader:
                yield [_to(part, self.device) for part in parts]
            return
        yield from zip(*(torch.split(part, self.batch) for part in self.tensors), strict=True)

    def _epoch(self, seed: int, epoch: int, start: int) -> Iterator[Sequence[Any]]:
        """The loader's batches of one epoch from the start-th on, shuffled by (seed, epoch) whatever generator it uses.
        What is skipped leaves the generators as they were: a thawed run draws what it would have drawn."""
        assert self.loader is not None
        key = int(keyed_generator(seed, epoch, stream=Stream.EPOCH_ORDER).integers(2**62))
        keep = torch.get_rng_state()
        torch.default_generator.manual_seed(key)
        sampler = self.loader.sampler
        for generator in (self.loader.generator, getattr(sampler, "generator", None)):
            if generator is not None:
                generator.manual_seed(key)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        batches = iter(self.loader)
        first = next(batches)  # samplers draw their order here, from the generators just seeded
        for _ in range(start - 1):
            next(batches)
        torch.set_rng_state(keep)
        if start == 0:
            yield first
        yield from batches


def _gives_whole_shuffled_batches(loader: DataLoader[Any]) -> bool:
    """Whether a loader gives whole batches of tensors in an order drawn anew for every epoch, and nothing else."""
    sampler = loader.sampler
    plain = isinstance(loader.dataset, TensorDataset) and loader.collate_fn is default_collate
    shuffled = isinstance(sampler, RandomSampler) and not sampler.replacement
    whole = loader.batch_size is not None and loader.drop_last
    return plain and shuffled and whole and sampler.num_samples == len(loader.dataset)  # type: ignore[attr-defined,arg-type]


def _to(part: Any, device: torch.device) -> Any:
    return part.to(device) if isinstance(part, Tensor) else part


@contextmanager
def _own_generators(device: torch.device, states: list[Tensor] | None, seed: int) -> Iterator[list[Tensor]]:
    """Torch's global generators set to `states` (None: seeded), their states at the end, and then the caller's back."""
    cuda = device.type == "cuda"
    out: list[Tensor] = []
    with torch.random.fork_rng(devices=[device] if cuda else []):
        if states is None:
            torch.default_generator.manual_seed(seed)
            if cuda:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
        else:
            torch.set_rng_state(states[0].cpu())
            if cuda:
                torch.cuda.set_rng_state(states[1].cpu(), device)
        yield out
        out.append(torch.get_rng_state())
        if cuda:
            out.append(torch.cuda.get_rng_state(device))
