"""Long histories: loading a file, and the first ask after it, costs no more than a few asks of the run itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sizes import count, sizes

import regretless as rg

ASKS, SECONDS = 10, 1.0
"""Loading costs at most as much as so many asks, or so many seconds of processor time where an ask costs next to
nothing: reading the file is then most of it."""
SPACE = {"a": rg.Float(1e-4, 10, log=True), "b": rg.Float(-3, 7), "n": rg.Int(2, 90)}
SAMPLE = ("gp-ucb",)  # methods of the short form
AWAY = ("igp-ucb", "grid-ei", "grid-pi", "adaptive-discretization")
"""Posteriors of rows on a grid: told so many points that lie off it, they are made again from all of them."""


def value(a: float, b: float, n: int) -> float:
    return float((np.log10(a) + 1) ** 2 + 0.3 * (b - 1) ** 2 + np.sin(n / 9))


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    found = call()
    return time.process_time() - before, found


@sizes
@pytest.mark.parametrize("name", [n for n in (*rg.METHODS, *rg.BASELINES) if n not in AWAY])
def test_loading_costs_a_few_asks(name: str, long: bool, tmp_path: Path) -> None:
    if not long and name not in SAMPLE:
        pytest.skip("the short form takes a sample of the methods")
    n = count(long, 150, 2000)
    first = rg.Optimizer(SPACE, method=name, seed=1, budget=3 * n)
    for u in first.method.cube.snap(np.random.default_rng(0).random((n, first.method.dim))):
        trial = first.adopt(first.space.decode(u, first.method.choices))
        first.tell(trial, value(**trial.params))
    first.ask()
    warm = []
    for _ in range(5):
        cost, trial = seconds(first.ask)
        told, _ = seconds(lambda trial=trial: first.tell(trial, value(**trial.params)))
        warm.append(cost + told)
    first.save(tmp_path / "run")
    loading, second = seconds(lambda: rg.Optimizer.load(tmp_path / "run"))
    asking, trial = seconds(second.ask)
    assert trial.params == first.ask().params
    assert loading + asking <= max(ASKS * float(np.median(warm)), SECONDS)
