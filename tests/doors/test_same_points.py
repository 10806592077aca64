"""One space, one seed, one method: the same points through every door, in whatever order the parameters are written."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from processes import running_service
from random_spaces import random_space
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold

import regretless as rg
from regretless.doors.optuna.distributions import as_distributions
from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.sklearn.search import RegretlessSearchCV

TRIALS, SEED = 14, 5
OPTIONS: dict[str, Any] = {}
"""What a test gives every door besides."""

SPACES: dict[str, dict[str, Any]] = {
    "log and offset": {"lr": rg.Float(1e-5, 1e-1, log=True), "drop": rg.Float(0.1, 0.9)},
    "unsorted": {"z": rg.Float(-3.7, 11.2), "x10": rg.Float(1e3, 1e3 + 0.7), "x2": rg.Float(1e-8, 3e5, log=True),
    "B": rg.Int(2, 9)},
    "whole": {"n": rg.Int(3, 300, log=True), "m": rg.Int(-7, 50, step=3), "a": rg.Float(-0.3, 0.2)},
    "stepped": {"s": rg.Float(0.05, 2.0, step=0.15), "t": rg.Float(-1e-3, 7e-3, step=1e-3), "u": rg.Float(1.1, 1.3)},
    "fixed": {"k": rg.Int(3, 3), "x": rg.Float(-5, 10), "opt": rg.Choice(["adam"]), "w": rg.Float(1e3, 1e3 + 1)},
    "mixed": {"act": rg.Choice(["relu", "tanh", "gelu"]), "lr": rg.Float(3e-4, 0.7, log=True), "k": rg.Int(1, 12),
    "f": rg.Choice([True, False])},
}  # fmt: skip


def value(**params: Any) -> float:
    """Something smooth in every parameter, off the centre of each range."""
    total = 0.0
    for i, (_name, v) in enumerate(sorted(params.items())):
        word = v is None or isinstance(v, str | bool)
        number = float(len(str(v))) if word else math.asinh(1e3 * float(v)) / 7 - 0.3 * i
        total += (number - 0.4) ** 2
    return total


def by_minimize(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    return [
        t.params
        for t in rg.minimize(value, space, trials=TRIALS, method=method, seed=SEED, progress=False, **OPTIONS).trials
    ]


def by_ask_and_tell(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    own = rg.Space(space)
    other = rg.Space(dict(reversed(own.parameters.items())), where=own.where)
    opt = rg.Optimizer(other, method=method, budget=TRIALS, seed=SEED, **OPTIONS)
    for _ in range(TRIALS):
        trial = opt.ask()
        opt.tell(trial, value(**trial.params))
        opt.save(folder / "run")
        opt = rg.Optimizer.load(folder / "run")
    return [t.params for t in opt.trials]


def by_optuna(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    return by_sampler(rg.Sampler(method, seed=SEED, search_space=space, budget=TRIALS, **OPTIONS), space)


def by_sampler(sampler: rg.Sampler, space: Any) -> list[dict[str, Any]]:
    study, own = optuna.create_study(sampler=sampler), rg.Space(space)
    for _ in range(TRIALS):
        trial = study.ask()
        params: dict[str, Any] = {}
        for name in [*(n for n in reversed(own.names) if n not in own.conditional), *own.conditional]:
            if own.active(params)[name]:
                params[name] = suggest(trial, name, own.parameters[name])
        study.tell(trial, value(**params))
    return [t.params for t in study.trials]


def suggest(trial: optuna.Trial, name: str, p: Any) -> Any:
    if isinstance(p, rg.Choice):
        return trial.suggest_categorical(name, p.labels)
    known: Any = as_distributions({name: p})[name]  # Optuna wants a high that lies on the steps
    ask = trial.suggest_int if isinstance(p, rg.Int) else trial.suggest_float
    return ask(name, p.low, p.high, log=True) if p.log else ask(name, p.low, known.high, step=p.step)


def by_storage(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    study = tune_in_storage(
        value,
        space,
        storage=f"sqlite:///{folder}/s.db",
        study="s",
        trials=TRIALS,
        method=method,
        seed=SEED,
        progress=False,
        **OPTIONS,
    )
    return [t.params for t in study.trials]


def by_ray(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    ray_door = pytest.importorskip("regretless.doors.ray.searcher", reason="Ray is not installed")
    searcher = ray_door.Searcher(space, metric="loss", mode="min", method=method, seed=SEED, budget=TRIALS, **OPTIONS)
    points = []
    for i in range(TRIALS):
        points.append(searcher.suggest(str(i)))
        searcher.on_trial_complete(str(i), {"loss": value(**points[-1])})
    return points


def by_service(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    """The study of a service, opened anew for every second call."""
    from regretless.serve.study import Study, begin

    fresh: Any = begin(rg.Space(space), method=method, budget=TRIALS, seed=SEED, **OPTIONS)
    for _ in range(TRIALS):
        with Study(folder / "served", fresh) as study:
            (trial,) = study.ask(client="c")
            study.commit()
        with Study(folder / "served") as study:
            study.tell(trial.number, value(**trial.params))
            study.commit()
    with Study(folder / "served") as study:
        return [t.params for t in study.optimizer.trials]


def by_remote(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    points = []
    with running_service(folder) as url:
        study = rg.Optimizer.remote(url, "m", space, method, client="c", budget=TRIALS, seed=SEED, **OPTIONS)
        for trial in study.work(TRIALS):
            points.append(trial["params"])
            study.tell(trial["number"], value(**trial["params"]))
    return points


def by_optuna_over_a_service(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    with running_service(folder) as url:
        sampler = rg.Sampler(method, service=url, seed=SEED, search_space=space, budget=TRIALS, **OPTIONS)
        return by_sampler(sampler, space)


ABSENT = "not set"
"""What a parameter of the estimator is where a setting does not have it."""


class Scored(BaseEstimator):
    """An estimator whose score is minus the value of its parameters."""

    def __init__(self, /, **params: Any) -> None:
        self.given = params

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(self.given)

    def set_params(self, /, **params: Any) -> Scored:
        self.given.update(params)
        return self

    def fit(self, X: Any, y: Any = None) -> Scored:
        return self

    def score(self, X: Any, y: Any = None) -> float:
        return -value(**{name: v for name, v in self.given.items() if v != ABSENT})


def by_scikit_learn(space: Any, method: str, folder: Path) -> list[dict[str, Any]]:
    search = RegretlessSearchCV(
        Scored(**dict.fromkeys(rg.Space(space).names, ABSENT)),
        space,
        n_trials=TRIALS,
        method=method,
        random_state=SEED,
        cv=KFold(2),
        fold_noise=False,
        **OPTIONS,
    )
    search.fit(np.zeros((4, 1)), np.zeros(4))
    return list(search.cv_results_["params"])


DOORS = [
    by_ask_and_tell, by_optuna, by_storage, by_ray, by_scikit_learn, by_service, by_remote, by_optuna_over_a_service,
]  # fmt: skip


@pytest.mark.parametrize("method", ["auto", "turbo"])
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("door", DOORS)
def test_the_same_points_through_every_door(
    door: Callable[..., list[dict[str, Any]]], name: str, method: str, tmp_path: Path
) -> None:
    space = SPACES[name]
    expected = by_minimize(space, method, tmp_path)
    assert door(space, method, tmp_path) == expected
    different = len({tuple(sorted(map(repr, p.items()))) for p in expected})
    assert different >= TRIALS - (method == "auto")  # which looks for noise by evaluating one setting again


@pytest.mark.parametrize("name", ["unsorted", "mixed"])
@pytest.mark.parametrize("door", DOORS)
def test_the_same_probes_through_every_door(
    door: Callable[..., list[dict[str, Any]]], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIONS, "probes", 0.4)
    expected = by_minimize(SPACES[name], "sobol", tmp_path)
    assert door(SPACES[name], "sobol", tmp_path) == expected
    monkeypatch.setitem(OPTIONS, "probes", 0.0)
    plain = by_minimize(SPACES[name], "sobol", tmp_path)
    assert sum(a != b for a, b in zip(expected, plain, strict=True)) >= 5


def test_whole_numbers_that_optuna_cannot_keep_are_refused() -> None:
    """Optuna stores whole numbers as floats."""
    for exact in (rg.Int(-7, 2**51), rg.Int(0, 2**60, step=2**20), rg.Int(2**20, 2**60, step=3 * 2**20)):
        kept = as_distributions({"n": exact})["n"]
        assert kept.to_external_repr(kept.to_internal_repr(exact.from_unit(0.987))) == exact.from_unit(0.987)
    for inexact in (rg.Int(0, 10**17, step=101), rg.Int(1, 2**60, step=2**20)):
        with pytest.raises(ValueError, match="Optuna keeps whole numbers as floats"):
            as_distributions({"n": inexact})


RANDOM_SPACES = int(os.environ.get("REGRETLESS_RANDOM_SPACES", "6"))
"""How many random spaces each door is given; a hundred take minutes."""


@pytest.mark.parametrize("number", range(RANDOM_SPACES))
@pytest.mark.parametrize("door", DOORS)
def test_the_same_points_on_random_spaces(
    door: Callable[..., list[dict[str, Any]]], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each space is drawn over all that a space can say; one that a door cannot hold is refused by that door alone."""
    rng = random.Random(number)
    space, method = random_space(rng), rng.choice(["auto", "gp-ucb", "random", "turbo"])
    monkeypatch.setitem(OPTIONS, "probes", rng.choice([0.0, 0.0, 0.3]))
    expected = by_minimize(space, method, tmp_path)
    found = door(space, method, tmp_path)
    assert [dict(sorted(p.items())) for p in found] == [dict(sorted(p.items())) for p in expected]
