"""Beside many workers `auto` draws every second ask of the evolution from a model of few values."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from regretless.auto import table
from regretless.auto.draws import narrowed
from regretless.models.gp.surrogate import Surrogate
from regretless.optimizer import Optimizer, proposal
from regretless.serve.verify import verify
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int

VALLEY = Space({"a": Float(3e-3, 30.0, log=True), "b": Float(-11.0, 5.0), "c": Float(7.0, 12.5)})
MIXED = Space(
    {"lr": Float(1e-5, 0.3, log=True), "n": Int(3, 303, step=4), "act": Choice(["relu", 'a "b"', None])},
    where=["n <= 280"],
)


def valley(a: float, b: float, c: float) -> float:
    u, v, w = math.log10(a), b / 4 + 0.5, c - 9.2
    return 100 * (v - u * u) ** 2 + (1 - u) ** 2 + 50 * (w - u * v) ** 2


def worked(
    space: Space, fun: Callable[..., float | None], workers: int, trials: int, method: str = "auto", seed: int = 1
) -> Optimizer:
    """The beginning of a long run by workers that take lognormal times; None: the evaluation failed."""
    opt = Optimizer(space, method, seed=seed, budget=10_000)
    took, now, running = np.random.default_rng(seed).lognormal(0.0, 0.5, trials), 0.0, list[tuple[float, int]]()
    for k in range(trials + workers):
        if len(running) == workers or k >= trials:
            now, number = heapq.heappop(running)
            value = fun(**opt.trials[number].params)
            opt.tell(number, value, failed=value is None)
        if k < trials:
            heapq.heappush(running, (now + took[k], opt.ask().number))
        if not running:
            break
    return opt


@pytest.mark.parametrize("seed", [1, 2])
def test_many_workers_end_a_decade_below_random(seed: int) -> None:
    ours, random = (worked(VALLEY, valley, 60, 300, method, seed) for method in ("auto", "random"))
    assert ours.best.value < random.best.value / 10  # type: ignore[operator]


def test_every_ask_follows_from_the_history() -> None:
    found = verify(worked(VALLEY, valley, 40, 160))
    assert (found.equal, found.different) == (160, ())


def test_rules_and_labels_are_kept_beside_failures() -> None:
    def fun(lr: float, n: int, act: Any) -> float | None:
        return None if lr > 0.01 else abs(math.log10(lr) + 2.4) + n / 100 + (act is None)

    opt = worked(MIXED, fun, 24, 140)
    for trial in opt.trials:
        MIXED.check(trial.params)
    assert opt.best.value < 0.3  # type: ignore[operator]


def test_beside_hundreds_of_points_an_ask_is_made_anew_from_its_history() -> None:
    opt = Optimizer({"x": Float(1e-4, 30.0, log=True), "n": Int(3, 77), "z": Float(-3.5, 11.0)}, seed=3)
    for trial in opt.ask(340)[:40]:
        opt.tell(trial, math.log10(trial.params["x"]) ** 2 + trial.params["n"] / 50)
    history = opt.history
    points = [t.unit.tobytes() for t in (opt.ask(), opt.ask())]
    for k in (1, 0):  # in another order, from caches that know nothing
        fresh = Optimizer(opt.task, opt.recipe).method
        before = history.with_pending([t.unit for t in opt.trials[340 : 340 + k]])
        assert proposal(opt.task, fresh, before, 340 + k).tobytes() == points[k]


def test_who_draws() -> None:
    many = table.Situation(5, 5, False, False, True, None, values=300, evaluations=1300, pending=1000)
    assert {table.proposer(table.replace(many, step=k)) for k in range(8)} == {table.DRAWS, table.EVOLUTION}
    for other in (
        {"pending": 16, "values": 700}, {"values": 31}, {"noisy_at": 9}, {"pending": 20, "values": 1000},
        {"dim": 21}, {"stated": True},
    ):  # fmt: skip
        changed = table.replace(many, **other)
        assert table.DRAWS not in {table.proposer(table.replace(changed, step=k)) for k in range(8)}


def test_a_narrowed_draw_is_the_draw_or_the_mean_at_the_ends() -> None:
    rng = np.random.default_rng(3)
    gp = Surrogate(Cube.box(4)).gp(rng.random((30, 4)), rng.standard_normal(30))
    path, X = gp.path(rng), rng.random((7, 4))
    for factor, (value, gradient) in ((1.0, path(X)), (0.0, gp.mean_grad(X))):
        ours = narrowed(path, factor)
        np.testing.assert_allclose(ours.value_and_gradient(X)[0], value, atol=1e-10)
        np.testing.assert_allclose(ours.value_and_gradient(X)[1], gradient, atol=1e-8)
        np.testing.assert_allclose(ours.value(X), value, atol=1e-10)
