"""NeuralBO and tangent-region on a GPU: time of an ask for n = 1e3 .. 1e6 values, d = 10 .. 1000; points as on the CPU?

    python experiments/neural_bo_gpu.py --out runs/neural_bo_gpu                device "cuda" against the CPU
    python experiments/neural_bo_gpu.py --out runs/neural_bo_gpu --quick        small sizes only
    python experiments/neural_bo_gpu.py --out runs/neural_bo_gpu --module       a torch.nn.Module of 64 units, n = 100,
                                                                                1000 and 3000
    python experiments/neural_bo_gpu.py --device cpu --quick                    the same table without a GPU

Points are compared before their maximiser is taken: the drawn function at the candidates, largest relative difference;
and the asked points themselves, which are equal unless two candidates tie to rounding.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from regretless.auto import find_recipe
from regretless.testing import Loop

CPU_LIMIT = 10**8
"""Numbers n * d up to which the CPU is run beside the device."""


def made(n: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n, dim))
    return X, -((X - 0.4) ** 2).mean(1) + 0.01 * rng.standard_normal(n)


def timed(
    name: str, device: str, X: np.ndarray, y: np.ndarray, **given: Any
) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Seconds of the first ask after a bulk tell, seconds of a later one, the points asked, and a draw at fixed
    candidates."""
    loop = Loop(find_recipe(name)(device=device, **given).build(X.shape[1], seed=0))
    loop.tell(X, y)
    start = time.perf_counter()
    points = [loop.ask()]
    first = time.perf_counter() - start
    seconds = []
    for _ in range(3):
        loop.tell(points[-1], [float(y.max())])
        start = time.perf_counter()
        points.append(loop.ask())
        seconds.append(time.perf_counter() - start)
    U = np.random.default_rng(1).random((256, X.shape[1]))
    values = loop.method.sample(loop.history, U, np.random.default_rng(2))
    return first, float(np.median(seconds)), np.concatenate(points), values


def module(dim: int) -> Any:
    """A net of a user's: two layers of 64 tanh units, from a generator of its own."""
    import torch

    rng = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(dim, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
    )
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.randn(weight.shape, generator=rng) * weight.shape[-1] ** -0.5)
    return net


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/neural_bo_gpu"))
    parser.add_argument(
        "--jobs", type=int, default=1, help="accepted for uniformity; everything is timed one after another"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--method", choices=("neural-bo", "tangent-region"), default="neural-bo")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--module", action="store_true", help="neural-bo with a module of the user's")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sizes, dims = ((10**3, 10**4), (10, 100)) if options.quick else ((10**3, 10**4, 10**5, 10**6), (10, 100, 1000))
    methods = [options.method]
    if options.module:
        sizes, dims, methods = (100, 1000, 3000), (10,), ["neural-bo"]
    rows = []
    print(
        "| n | d | method | device: first ask | device: ask | CPU: first ask | CPU: ask | points equal "
        "| largest relative difference of a draw |"
    )
    print("|" + " --- |" * 9)
    timed(options.method, options.device, *made(64, 4))  # the device's start is nobody's time
    for n, dim, name in itertools.product(sizes, dims, methods):
        X, y = made(n, dim)
        net = {"network": module(dim)} if options.module else {}
        first, ask, points, values = timed(name, options.device, X, y, **net)
        row: dict[str, Any] = {"n": n, "d": dim, "method": name, "first_s": first, "ask_s": ask}
        cells = "- | - | - | -"
        if n * dim <= CPU_LIMIT:
            cpu_first, cpu_ask, cpu_points, cpu_values = timed(name, "cpu", X, y, **net)
            same = int(np.isclose(points, cpu_points, atol=1e-9).all(axis=1).sum())
            difference = float(np.abs(values - cpu_values).max() / np.abs(cpu_values).max())
            row |= {"cpu_first_s": cpu_first, "cpu_ask_s": cpu_ask, "equal": same, "difference": difference}
            cells = f"{cpu_first:.2f} s | {1000 * cpu_ask:.1f} ms | {same} of {len(points)} | {difference:.1e}"
        rows.append(row)
        print(f"| {n:.0e} | {dim} | {name} | {first:.2f} s | {1000 * ask:.1f} ms | {cells} |", flush=True)
        (options.out / "throughput.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
