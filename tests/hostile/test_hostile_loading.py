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
from regretless.auto import others

ASKS, FACTORS = 10, 5
"""Beyond reading the trials, which random search does too, loading costs at most as much as so many asks or, where an
ask costs next to nothing, as so many factorisations of a matrix of 2,000 x 2,000: 0.4 s on an idle core."""
SPACE = {"a": rg.Float(1e-4, 10, log=True), "b": rg.Float(-3, 7), "n": rg.Int(2, 90)}
SAMPLE = ("gp-ucb",)  # methods of the short form
BY_DESIGN = ("neural-bo-authors",)
"""Their training goes on from the weights of the one before, so a load trains through the whole history."""


def value(a: float, b: float, n: int) -> float:
    return float((np.log10(a) + 1) ** 2 + 0.3 * (b - 1) ** 2 + np.sin(n / 9))


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    found = call()
    return time.process_time() - before, found


def factorisation() -> float:
    """The seconds of a factorisation, the best of three: it is as slow as the machine is busy."""
    A = np.full((2000, 2000), 0.5) + 0.5 * np.eye(2000)
    return min(seconds(lambda: np.linalg.cholesky(A))[0] for _ in range(3))


def filled(name: str, n: int) -> rg.Optimizer:
    """A run of n settings that the method did not choose; for a method on a grid they lie off it."""
    run = rg.Optimizer(SPACE, method=name, seed=1, budget=3 * n)
    for u in run.method.cube.snap(np.random.default_rng(0).random((n, run.method.dim))):
        trial = run.adopt(run.space.decode(u, run.method.traits.choices))
        run.tell(trial, value(**trial.params))
    return run


def loaded(path: Path) -> tuple[float, rg.Optimizer, Any]:
    """The seconds of a load and the ask after it, the run and its trial; the best of three: the first warms caches."""
    found = []
    for _ in range(3):
        loading, run = seconds(lambda: rg.Optimizer.load(path))
        asking, trial = seconds(run.ask)
        found.append((loading + asking, run, trial))
    return min(found, key=lambda each: each[0])


@sizes
@pytest.mark.parametrize("name", [n for n in (*rg.METHODS, *rg.CLASSICS, *others()) if n not in BY_DESIGN])
def test_loading_costs_a_few_asks(name: str, long: bool, tmp_path: Path) -> None:
    if not long and name not in SAMPLE:
        pytest.skip("the short form takes a sample of the methods")
    n = count(long, 150, 2000)
    first = filled(name, n)
    first.ask()
    warm = []
    for _ in range(5):
        cost, trial = seconds(first.ask)
        told, _ = seconds(lambda trial=trial: first.tell(trial, value(**trial.params)))
        warm.append(cost + told)
    first.save(tmp_path / "run")
    filled("random", n).save(tmp_path / "trials")
    reading, _, _ = loaded(tmp_path / "trials")
    loading, second, trial = loaded(tmp_path / "run")
    assert trial.params == first.ask().params
    assert loading - reading <= max(ASKS * float(np.median(warm)), FACTORS * factorisation())
    second.tell(trial, value(**trial.params))
    first.tell(first.pending[-1], value(**trial.params))
    assert second.ask().params == first.ask().params
