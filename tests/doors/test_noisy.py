"""`noisy=` means the same through every door: the model decides, and known settings may be evaluated again."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
import pytest
from scipy.stats import randint
from sklearn.tree import DecisionTreeClassifier

import regretless as rg
from regretless.doors.optuna.export import result_of_study
from regretless.doors.optuna.runner import tune_in_storage

optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = {"n": rg.Int(3, 9), "kind": rg.Choice(["a", "b"])}


def loss(n: int, kind: str) -> float:
    return (n - 6) ** 2 + (kind == "b")


def test_a_storage_keeps_it() -> None:
    storage = optuna.storages.InMemoryStorage()
    options: dict[str, Any] = {"storage": storage, "study": "s", "seed": 0, "progress": False}
    study = tune_in_storage(loss, SPACE, trials=20, noisy=True, **options)
    assert len(study.trials) == 20  # more than there are settings: good ones are evaluated again
    assert study.sampler.task.noisy is True
    whole = rg.minimize(loss, SPACE, trials=20, seed=0, noisy=True, progress=False)
    assert [t.params for t in study.trials] == [t.params for t in whole.trials]
    assert result_of_study(study).optimizer.task.noisy is True
    with pytest.raises(ValueError, match="noisy True, not False"):
        tune_in_storage(loss, SPACE, trials=22, noisy=False, **options)


def test_a_sampler_believes_it() -> None:
    values = {}
    for noisy in (True, None):
        sampler = rg.Sampler(seed=0, noisy=noisy, search_space=SPACE)
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda t: loss(t.suggest_int("n", 3, 9), t.suggest_categorical("kind", ["a", "b"])), n_trials=9)
        values[noisy] = sampler.task.noisy
    assert values == {True: True, None: None}


def test_a_search_of_scikit_learn_believes_it() -> None:
    X = np.random.default_rng(0).standard_normal((60, 3))
    search = rg.RegretlessSearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": randint(2, 9)}, n_trials=4, cv=2, random_state=0,
        noisy=True,
    )  # fmt: skip
    search.fit(X, X[:, 0] > 0)
    assert search.optimizer_.task.noisy is True
    assert search.get_params()["noisy"] is True


def test_ray_s_searcher_believes_it() -> None:
    ray = pytest.importorskip("ray")
    from regretless.doors.ray.searcher import Searcher

    searcher = Searcher(metric="loss", mode="min", seed=0, budget=5, noisy=True)
    assert searcher.set_search_properties("loss", "min", {"x": ray.tune.uniform(-3, 9)})
    searcher.suggest("a")
    assert searcher.optimizer.task.noisy is True
    wrong: Any = "yes"
    with pytest.raises(ValueError, match="noisy must be one of"):
        Searcher(metric="loss", mode="min", noisy=wrong)
