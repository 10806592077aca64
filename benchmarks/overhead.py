"""What `Optimizer` itself costs: ask and tell around random search, whose own work is one uniform draw."""

import time

import numpy as np

from regretless.classics import CLASSICS
from regretless.optimizer import Optimizer

LIMITS = {10: 150e-6, 5000: 4e-3}
"""Seconds per ask and tell that each dimension must stay within."""
PAIRS = {10: 3000, 5000: 200}


def main() -> None:
    print(f"{'dimension':>10} {'us per ask+tell':>16} {'limit':>8} {'bare method':>12} {'ratio':>6}")
    for dim, limit in LIMITS.items():
        through = min(_seconds(Optimizer([(1.0, 3.0)] * dim, method="random", seed=0), PAIRS[dim]) for _ in range(3))
        bare = min(_bare_seconds(dim, PAIRS[dim]) for _ in range(3))
        print(f"{dim:>10} {1e6 * through:>16.0f} {1e6 * limit:>8.0f} {1e6 * bare:>12.0f} {through / bare:>6.1f}")


def _seconds(optimizer: Optimizer, pairs: int) -> float:
    start = time.process_time()
    for _ in range(pairs):
        trial = optimizer.ask()
        optimizer.tell(trial, 1.0)
    return (time.process_time() - start) / pairs


def _bare_seconds(dim: int, pairs: int) -> float:
    method = CLASSICS["random"].build(dim, seed=0)
    value = np.ones(1)
    start = time.process_time()
    for _ in range(pairs):
        method.tell(method.ask(), value)
    return (time.process_time() - start) / pairs
