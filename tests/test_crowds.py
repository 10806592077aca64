"""Proposals beside a crowd of workers keep their distance; beside a few they are what the method proposed."""

from __future__ import annotations

import numpy as np
import pytest

import regretless.method as contract
from regretless.history import History
from regretless.optimizer import Optimizer
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int

DIM = 10
PEAK = np.linspace(0.2, 0.8, DIM)


def told(method: str, budget: int | None = None) -> Optimizer:
    """A run with 60 values that gather around an optimum."""
    opt = Optimizer([(0.0, 1.0)] * DIM, method=method, seed=0, budget=budget)
    rng = np.random.default_rng(0)
    for spread in np.geomspace(0.4, 0.05, 60):
        x = np.clip(PEAK + spread * rng.standard_normal(DIM), 0, 1)
        opt.tell(opt.adopt(list(x)), float(((x - PEAK) ** 2).sum() + 0.1 * np.sin(9 * x).sum()))
    return opt


def nearest(X: np.ndarray) -> np.ndarray:
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return np.sqrt(squares.min(axis=1))


@pytest.mark.parametrize(("method", "budget"), [("gp-ucb", None), ("auto", 400), ("ms-ucb", None)])
def test_a_hundred_points_under_way_are_a_hundred_experiments(method: str, budget: int | None) -> None:
    opt = told(method, budget)
    points = np.array([opt.ask().x for _ in range(100)])
    assert np.median(nearest(points)) >= 0.03


@pytest.mark.parametrize("method", ["gp-ucb", "gp-ei"])
def test_a_few_workers_get_what_the_method_proposes(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opt = told(method)
    few = [opt.ask().x for _ in range(16)]
    monkeypatch.setattr(contract, "SPREAD_FROM", 10**9)
    other = told(method)
    assert np.array_equal(few, [other.ask().x for _ in range(16)])


def test_room_shrinks_with_what_is_resolved_and_with_the_dimension() -> None:
    rng = np.random.default_rng(1)
    far = History(4).with_pending(rng.random((100, 4)))
    x = np.full(4, 0.5)
    assert contract.room_between(x, far, 4) > contract.room_between(x, far, 1) > 0
    assert contract.room_between(x, far, 0) == contract.room_between(x, History(4), 4) == 0
    close = far.with_values(0.5 + 1e-4 * rng.random((30, 4)), np.arange(30.0))
    assert contract.room_between(x, close, 4) < 1e-4


def test_moved_points_obey_the_space() -> None:
    space = Space(
        {"a": Float(1e-3, 1.0, log=True), "b": Float(-5.0, 5.0), "n": Int(3, 9, step=2), "c": Choice(["x", "y"]),
         "d": Float(0.0, 1.0, when={"c": "y"})},
        where=["b <= 4 * n - 12"],
    )  # fmt: skip
    opt = Optimizer(space, method="gp-ucb", seed=1)
    for _ in range(12):
        trial = opt.ask()
        opt.tell(trial, trial.params["b"] ** 2 + trial.params["n"] + trial.params["a"])
    for trial in opt.ask(60):
        space.check(trial.params)
        assert ("d" in trial.params) == (trial.params["c"] == "y")
    assert len({t.unit.tobytes() for t in opt.pending}) == 60
