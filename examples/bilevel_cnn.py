"""Tunes a small CNN on handwritten digits in five minutes on one CPU, and keeps the trained network.

    python examples/bilevel_cnn.py                    # MNIST if it is there (--data), else scikit-learn's digits
    python examples/bilevel_cnn.py --folder runs/cnn  # survives a kill: run the same command again and it goes on

The budget is a number of training steps. It is split over many settings by promotion, and the last half of it trains
the leaders on.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import regretless as rg
from regretless.doors.torch import torch_bilevel

SPACE = {
    "lr": rg.Float(1e-3, 1.0, log=True),
    "momentum": rg.Float(0.0, 0.99),
    "weight_decay": rg.Float(1e-6, 1e-1, log=True),
    "dropout": rg.Float(0.0, 0.7),
    "channels": rg.Int(4, 16, log=True),
}


def digits(data: str | None) -> tuple[Any, Any, Any]:
    """(images, labels) to train, validate and test on."""
    try:
        from regretless_bench.problems.mnist_training import load_digits

        found = load_digits(folder=data)
        parts = [found.train, found.val, found.test]
    except FileNotFoundError:
        from sklearn.datasets import load_digits as small_digits

        images, labels = small_digits(return_X_y=True)
        images = np.repeat(np.repeat(images.reshape(-1, 8, 8) / 16.0, 2, axis=1), 2, axis=2)[:, 1:15, 1:15]
        order = np.random.Generator(np.random.Philox(0)).permutation(len(labels))
        parts = [(images[rows], labels[rows]) for rows in np.split(order, [1000, 1400])]
    pairs = [(torch.tensor(x, dtype=torch.float32)[:, None], torch.tensor(y, dtype=torch.long)) for x, y in parts]
    return pairs[0], pairs[1], pairs[2]


def build(params: dict[str, Any]) -> nn.Module:
    c = params["channels"]
    return nn.Sequential(
        nn.Conv2d(1, c, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(params["dropout"]), nn.Linear(18 * c, 10),
    )  # fmt: skip


def sgd(weights: Any, params: dict[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, lr=params["lr"], momentum=params["momentum"], weight_decay=params["weight_decay"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=20_000, help="training steps in all")
    parser.add_argument("--folder", type=Path, help="where the study lives; without it everything stays in memory")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="the folder that holds mnist/")
    parser.add_argument("--plot", type=Path, default=Path("runs/bilevel_cnn.png"))
    args = parser.parse_args()
    torch.set_num_threads(1)

    train, val, test = digits(args.data)
    problem = torch_bilevel(build, train, val, optimiser=sgd, batch=32)
    print(rg.plan(SPACE, budget_steps=args.steps, convex=False), "\n")
    result = rg.minimize_bilevel(
        problem, SPACE, budget_steps=args.steps, seed=args.seed, folder=args.folder, verbose=True
    )
    print("\n", result, sep="")

    model = result.state.model.eval()
    with torch.no_grad():
        wrong = (model(test[0]).argmax(1) != test[1]).float().mean()
    print(f"  test error {100 * float(wrong):.2f} %")
    args.plot.parent.mkdir(parents=True, exist_ok=True)
    result.plot_curves(args.plot)
    print(f"  learning curves in {args.plot}")


if __name__ == "__main__":
    main()
