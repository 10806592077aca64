"""Parameters with very many values: no ask enumerates them, in any method."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sizes import sizes

import regretless as rg
from regretless.auto import others

MOST_SECONDS = 0.2  # of processor time for one ask, the best of a few: others share the machine
TOLD, ASKS = 24, 4  # values told before the first timed ask, and timed asks
SAMPLE = ("neural-ucb", "gp-ts", "dngo")  # methods of the short form: one per way to read labels
SPACES = {
    "labels": {"c": rg.Choice([f"label {i}" for i in range(5000)]), "lr": rg.Float(1e-5, 1e-1, log=True)},
    "numbers": {"n": rg.Int(-3, 2**40), "m": rg.Int(0, 2**60, step=2**20), "lr": rg.Float(1e-5, 1e-1, log=True)},
}


def value(params: dict) -> float:
    """A valley in lr, and a value of its own for every label or number."""
    other = int(params["c"].split()[1]) % 97 / 97 if "c" in params else abs(params["n"] / 2**40 - 0.3)
    return float((np.log10(params["lr"]) + 3) ** 2 + other)


@sizes
@pytest.mark.parametrize("name", [*rg.METHODS, *rg.CLASSICS, *others()])
@pytest.mark.parametrize("kind", SPACES)
def test_an_ask_does_not_depend_on_how_many_values_there_are(kind: str, name: str, long: bool) -> None:
    if not long and name not in SAMPLE:
        pytest.skip("the short form takes a sample of the methods")
    optimizer = rg.Optimizer(SPACES[kind], method=name, seed=3, budget=TOLD + 16)
    rng, seconds = np.random.default_rng(5), []
    for u in optimizer.method.cube.snap(rng.random((TOLD, optimizer.method.dim))):
        trial = optimizer.adopt(optimizer.space.decode(u, optimizer.method.traits.choices))
        optimizer.tell(trial, value(trial.params))
    for i in range(1 + ASKS):
        before = time.process_time()
        trial = optimizer.ask()
        optimizer.tell(trial, value(trial.params))
        if i:  # the first ask after so many values also fits the model
            seconds.append(time.process_time() - before)
    assert min(seconds) < MOST_SECONDS
