"""What shows noise, and what is recommended without it: the best value seen, never a worse one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import regretless as rg
from regretless.auto import others
from regretless.basics.noise import shows_noise
from regretless.optimizer import Optimizer
from regretless.run.result import observed


def test_known_variances_and_repetitions_settle_it() -> None:
    X = np.random.default_rng(0).random((60, 2))
    y = X.sum(axis=1)
    assert shows_noise(X, y, np.where(np.arange(60) == 7, 0.1, np.nan))
    assert not shows_noise(X, y, np.zeros(60))
    again = np.concatenate([X, X[:1]])
    assert not shows_noise(again, np.append(y, y[0]), np.full(61, np.nan))
    assert shows_noise(again, np.append(y, y[0] + 1e-6), np.full(61, np.nan))


def test_ripples_and_neighbours_that_differ_are_no_noise() -> None:
    """A search that closes in on a ripple it cannot resolve: nothing but a repetition tells it from noise."""
    rng = np.random.default_rng(0)
    X = np.clip(0.3 + rng.standard_normal((60, 2)) * np.geomspace(0.1, 1e-4, 60)[:, None], 0, 1)
    y = np.cos(1e6 * X).sum(axis=1)
    assert not shows_noise(X, y, np.full(60, np.nan))


QUICK = ["random", "gp-ei", "gp-ucb", "ms-ucb", "tangent-region", "neural-bo", "bilevel", "turbo"]
QUICK += ["gp-threds", *(name for name in ("grid-ei", "linebo") if name in others())]


@pytest.mark.parametrize("name", QUICK)
def test_every_method_recommends_the_best_value_seen(name: str) -> None:
    """A rough function, of which models see less than there is: the model's choice would often be a worse one."""
    opt = Optimizer([(-5.1, 4.7), (2.0, 30.0)], method=name, seed=1, direction="maximize")
    peak = None
    for i in range(16):
        trial = opt.ask()
        peak = trial.params if i == 5 else peak  # a peak of its own, which every later visit finds again
        rough = -float(np.sum(trial.x**2 + 10 * np.cos(2 * math.pi * trial.x))) / 100
        opt.tell(trial, 7.0 if trial.params == peak else rough)
    assert opt.recommend() == opt.best.params
    assert observed(opt, opt.recommend()) == 7.0


def test_with_noise_the_model_chooses() -> None:
    def told(noisy: bool) -> Optimizer:
        opt = Optimizer({"x": rg.Float(1.0, 4.0)}, method="gp-ucb", seed=0)
        for x in np.linspace(1.0, 4.0, 21):
            value = (x - 3) ** 2 - 3 * (abs(x - 1.45) < 0.1)  # one lucky value far from the minimum at 3
            opt.tell(opt.adopt({"x": float(x)}), value, var=0.5 if noisy else None)
        return opt

    assert told(False).recommend()["x"] == pytest.approx(1.45)
    assert told(True).recommend()["x"] == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize(("options", "noisy"), [({"noise_var": 0.1}, True), ({"noise_var": 0.0}, False), ({}, False)])
def test_options_that_state_the_noise_settle_it(options: dict, noisy: bool) -> None:
    opt = Optimizer([(0.5, 2.5)], method=rg.GPUCB(**options), seed=0)
    for _ in range(4):
        opt.tell(opt.ask(), 1.0)
    assert opt.method.noise(opt.history).shows is noisy
