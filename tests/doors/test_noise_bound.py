"""`noise_bound` means the same through every door: the same share of the space that can be better, and one refusal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pytest
from click.testing import CliRunner
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold

import regretless as rg
from regretless.certificate import Certificate
from regretless.cli import main
from regretless.doors.optuna.export import result_of_study
from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.sklearn.search import RegretlessSearchCV

SPACE = {"x": rg.Float(-3.7, 11.2), "lr": rg.Float(1e-5, 1e-1, log=True)}
TRIALS, SEED = 24, 7
COMMON: dict[str, Any] = {"method": "random", "probes": 1.0}


def value(x: float, lr: float) -> float:
    """A bowl whose values are off by less than .1."""
    return (x - 4) ** 2 / 50 + (math.log10(lr) + 3) ** 2 / 20 + 0.05 * math.sin(1e4 * x)


def by_minimize(bound: float | None) -> Certificate:
    return rg.minimize(
        value, SPACE, trials=TRIALS, seed=SEED, progress=False, noise_bound=bound, **COMMON
    ).certificate  # fmt: skip


def by_optuna(bound: float | None) -> Certificate:
    sampler = rg.Sampler(seed=SEED, search_space=SPACE, budget=TRIALS, noise_bound=bound, **COMMON)
    study = optuna.create_study(sampler=sampler)
    study.optimize(
        lambda t: value(t.suggest_float("x", -3.7, 11.2), t.suggest_float("lr", 1e-5, 1e-1, log=True)), TRIALS
    )
    return sampler.certificate(study)


def by_storage(bound: float | None) -> Certificate:
    storage = optuna.storages.InMemoryStorage()
    options: dict[str, Any] = {"storage": storage, "study": "s", "seed": SEED, "progress": False, **COMMON}
    tune_in_storage(value, SPACE, trials=9, noise_bound=bound, **options)
    if bound is not None:
        with pytest.raises(ValueError, match=r"noise_bound 0\.1, not 0\.2"):
            tune_in_storage(value, SPACE, trials=12, noise_bound=0.2, **options)
    study = tune_in_storage(value, SPACE, trials=TRIALS, **options)  # which keeps what it was begun with
    return result_of_study(study).certificate


def by_ray(bound: float | None) -> Certificate:
    ray_door = pytest.importorskip("regretless.doors.ray.searcher", reason="Ray is not installed")
    searcher = ray_door.Searcher(SPACE, metric="loss", mode="min", seed=SEED, noise_bound=bound, **COMMON)
    for i in range(TRIALS):
        searcher.on_trial_complete(str(i), {"loss": value(**searcher.suggest(str(i)))})
    return searcher.optimizer.certificate


class Scored(BaseEstimator):
    def __init__(self, x: float = 0.0, lr: float = 1e-3) -> None:
        self.x, self.lr = x, lr

    def fit(self, X: Any, y: Any = None) -> Scored:
        return self

    def score(self, X: Any, y: Any = None) -> float:
        return -value(self.x, self.lr)


def by_scikit_learn(bound: float | None) -> Certificate:
    options: dict[str, Any] = {"n_trials": TRIALS, "random_state": SEED, "cv": KFold(2), "fold_noise": False, **COMMON}
    search = RegretlessSearchCV(Scored(), SPACE, noise_bound=bound, **options)
    return search.fit(np.zeros((4, 1)), np.zeros(4)).certificate_


@pytest.mark.parametrize("door", [by_optuna, by_storage, by_ray, by_scikit_learn])
def test_the_same_share_through_every_door(door: Callable[[float | None], Certificate]) -> None:
    bounded, plain = door(0.1), door(None)
    assert bounded.share == by_minimize(0.1).share
    assert plain.share == by_minimize(None).share
    assert bounded.share > plain.share


def test_a_study_of_uniform_draws_is_certified_under_bounded_noise() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3))
    study.optimize(lambda t: value(t.suggest_float("x", -3.7, 11.2), t.suggest_float("lr", 1e-5, 1e-1, log=True)), 40)
    exact, bounded = rg.certify(study, uniform=True), rg.certify(study, uniform=True, noise_bound=0.02)
    assert exact.share is not None
    assert bounded.share is not None
    assert bounded.share > exact.share
    wider = rg.certify(study, uniform=True, noise_bound=0.2)
    assert wider.share is not None
    assert wider.share > bounded.share


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, "0.1"])
def test_bounds_that_are_none_are_refused_at_once(bad: Any) -> None:
    with pytest.raises(ValueError, match="noise_bound must be"):
        rg.Sampler(noise_bound=bad)
    with pytest.raises(ValueError, match="noise_bound must be"):
        RegretlessSearchCV(Scored(), SPACE, noise_bound=bad).fit(np.zeros((4, 1)), np.zeros(4))
    with pytest.raises(ValueError, match="noise_bound must be"):
        tune_in_storage(value, SPACE, storage="sqlite://", study="s", trials=2, noise_bound=bad)
    ray_door = pytest.importorskip("regretless.doors.ray.searcher", reason="Ray is not installed")
    with pytest.raises(ValueError, match="noise_bound must be"):
        ray_door.Searcher(noise_bound=bad)


def test_the_command_keeps_it_in_a_storage(tmp_path: Any) -> None:
    (tmp_path / "f.py").write_text("def f(x):\n    return (x - 4) ** 2\n")
    (tmp_path / "space.toml").write_text('[x]\ntype = "float"\nlow = -3.7\nhigh = 11.2\n')
    command = ["tune", f"{tmp_path}/f.py:f", "--space", f"{tmp_path}/space.toml", "--trials", "6", "--method", "random"]
    command += ["--storage", f"sqlite:///{tmp_path}/s.db", "--seed", "1"]
    assert CliRunner().invoke(main, [*command, "--noise-bound", "0.1"]).exit_code == 0
    refused = CliRunner().invoke(main, [*command, "--noise-bound", "0.2"])
    assert refused.exit_code != 0
    assert "noise_bound 0.1, not 0.2" in refused.output


@pytest.mark.parametrize(("bound", "evaluated"), [(None, 6), (0.3, 14)])
def test_a_finite_space_is_used_up_unless_noise_is_stated(bound: float | None, evaluated: int) -> None:
    """Minimize and a storage agree: one value of each setting is enough, or further ones are worth having."""
    space = {"n": rg.Int(5, 9, step=2), "kind": rg.Choice(["a", "b"])}
    options: dict[str, Any] = {"trials": 14, "seed": SEED, "progress": False, "noise_bound": bound}
    result = rg.minimize(lambda n, kind: n + (kind == "b"), space, **options)
    storage = optuna.storages.InMemoryStorage()
    study = tune_in_storage(lambda n, kind: n + (kind == "b"), space, storage=storage, study="s", **options)
    assert len(result.trials) == len(study.trials) == evaluated
