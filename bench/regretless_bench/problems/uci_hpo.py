"""The hyper-parameter tuning tasks of the GO-UCB paper (App. D.2): three classifiers on three small UCI tables,
accuracy on one fold of five.

Every parameter is a number in [0, 10]: choices own equal shares of it, numbers are mapped linearly and whole numbers
rounded. The tables are those of the LIBSVM collection ("breast-cancer" is the original Wisconsin set without its 16
incomplete rows), features scaled to [-1, 1] as there. A fold is a function of the setting alone (`random_state=0`), so
evaluations are kept on disk and never repeated: in the folder named by REGRETLESS_CACHE, else in ~/.cache/regretless.
With `fold=None` the value is the mean over the five folds, evaluated in parallel.

    problem = make_problem("uci-hpo", classifier="boosting", data="diabetes", fold=2)
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regretless.space import Space
from regretless.space.parameters import Array, Float
from regretless_bench.problems.data import COLUMNS, data_folder, read_csv, reading
from regretless_bench.problems.problem import Problem

FOLDS = 5
SIDE = 10.0
"""Every parameter ranges over [0, SIDE]."""
CACHE = "REGRETLESS_CACHE"
VERSION = 1
"""Part of the key of a kept evaluation; grows when the tasks change."""
OPEN = 1e-3
"""How far the ends of an open interval such as (0, 1) are kept from its bounds, as a share."""
FILES = {"breast-cancer": "breast_cancer_wisconsin_original", "australian": "australian", "diabetes": "diabetes"}

Data = Literal["breast-cancer", "australian", "diabetes"]
Classifier = Literal["forest", "mlp", "boosting"]


@dataclass(frozen=True)
class Setting:
    """One hyper-parameter: its name in scikit-learn and either labels, or the ends of a range."""

    name: str
    labels: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    open: bool = False

    def value(self, x: float) -> Any:
        """The value at x in [0, SIDE]."""
        share = min(max(x / SIDE, 0.0), 1.0)
        if self.labels:
            return self.labels[min(int(share * len(self.labels)), len(self.labels) - 1)]
        if self.open:
            share = OPEN + (1 - 2 * OPEN) * share
        number = (1 - share) * self.low + share * self.high
        return round(number) if self.whole else number


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "forest": (
        Setting("n_estimators", low=20, high=200, whole=True),
        Setting("criterion", labels=("gini", "entropy", "log_loss")),
        Setting("max_depth", low=1, high=10, whole=True),
        Setting("min_samples_split", low=2, high=10, whole=True),
        Setting("min_samples_leaf", low=1, high=10, whole=True),
        Setting("max_features", labels=("sqrt", "log2")),
        Setting("bootstrap", labels=(True, False)),
    ),
    "mlp": (
        Setting("activation", labels=("identity", "logistic", "tanh", "relu")),
        Setting("alpha", low=1e-6, high=1e-2),
        Setting("learning_rate_init", low=1e-6, high=1e-2),
        Setting("max_iter", low=100, high=300, whole=True),
        Setting("shuffle", labels=(True, False)),
        Setting("beta_1", low=0, high=1, open=True),
        Setting("beta_2", low=0, high=1, open=True),
        Setting("n_iter_no_change", low=1, high=10, whole=True),
    ),
    "boosting": (
        Setting("loss", labels=("log_loss", "exponential")),
        Setting("learning_rate", low=0, high=1, open=True),
        Setting("n_estimators", low=20, high=200, whole=True),
        Setting("subsample", low=0, high=1, open=True),
        Setting("criterion", labels=("friedman_mse", "squared_error")),
        Setting("min_samples_split", low=2, high=10, whole=True),
        Setting("min_samples_leaf", low=1, high=10, whole=True),
        Setting("min_weight_fraction_leaf", low=0, high=0.5, open=True),
        Setting("max_depth", low=1, high=10, whole=True),
        Setting("max_features", labels=("sqrt", "log2")),
        Setting("max_leaf_nodes", low=2, high=10, whole=True),
    ),
}  # fmt: skip
"""(App. D.2) Parameter lists, with the names scikit-learn uses today ("logloss" is "log_loss")."""


class Tuning(Problem):
    """Test accuracy of a classifier on one fold, or its mean over all; maximised, deterministic, best value unknown."""

    def __init__(self, classifier: Classifier, data: Data, fold: int | None, folder: str | None) -> None:
        if classifier not in SETTINGS:
            raise ValueError(f"classifier must be one of {', '.join(SETTINGS)}, got {classifier!r}")
        if data not in FILES:
            raise ValueError(f"data must be one of {', '.join(FILES)}, got {data!r}")
        if fold is not None and fold not in range(FOLDS):
            raise ValueError(f"fold must be 0 to {FOLDS - 1}, or None for the mean over all, got {fold!r}")
        space = Space({setting.name: Float(0, SIDE) for setting in SETTINGS[classifier]})
        super().__init__(
            f"{classifier} on {data}, {'mean of folds' if fold is None else f'fold {fold}'}",
            space,
            direction="maximize",
        )
        self.classifier, self.data, self.fold, self._folder = classifier, data, fold, folder

    def settings(self, params: dict[str, Any]) -> dict[str, Any]:
        """The classifier's arguments at a point."""
        return {setting.name: setting.value(params[setting.name]) for setting in SETTINGS[self.classifier]}

    def _true(self, params: dict[str, Any]) -> float:
        arguments = self.settings(params)
        if self.fold is not None:
            return kept_accuracy(self.classifier, self.data, self.fold, arguments, self._folder)
        with ThreadPoolExecutor(min(FOLDS, os.cpu_count() or 1)) as pool:
            scores = pool.map(
                lambda fold: kept_accuracy(self.classifier, self.data, fold, arguments, self._folder), range(FOLDS)
            )
            return float(np.mean(list(scores)))


def uci_hpo(
    *,
    classifier: Classifier = "forest",
    data: Data = "breast-cancer",
    fold: int | None = None,
    folder: str | None = None,
) -> Tuning:
    """Tuning a random forest, an MLP or gradient boosting on a UCI table (GO-UCB, Sec. 6.2)."""
    return Tuning(classifier, data, fold, folder)


# ---------------------------------------------------------------- evaluation


def kept_accuracy(classifier: str, data: str, fold: int, arguments: dict[str, Any], folder: str | None = None) -> float:
    """The accuracy of a setting on a fold, from the cache where it is known."""
    key = json.dumps([VERSION, classifier, data, fold, sorted(arguments.items())])
    with contextlib.closing(_cache()) as cache:
        row = cache.execute("SELECT value FROM accuracy WHERE key = ?", (key,)).fetchone()
        if row is not None:
            return float(row[0])
        value = accuracy(classifier, data, fold, arguments, folder)
        with cache:
            cache.execute("INSERT OR REPLACE INTO accuracy VALUES (?, ?)", (key, value))
    return value


def accuracy(classifier: str, data: str, fold: int, arguments: dict[str, Any], folder: str | None = None) -> float:
    """Trains on four folds and scores on the fifth."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold
    from sklearn.neural_network import MLPClassifier

    X, y = table(data, folder)
    train, test = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y))[fold]
    build = {"forest": RandomForestClassifier, "mlp": MLPClassifier, "boosting": GradientBoostingClassifier}[classifier]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # an MLP stopped early says so every time, and criterion names come and go between versions
        with np.errstate(all="ignore"):
            model = build(**arguments, random_state=0).fit(X[train], y[train])
            return float(model.score(X[test], y[test]))


@lru_cache(maxsize=8)
def table(data: str, folder: str | None = None) -> tuple[Array, Array]:
    """Features in [-1, 1] (n x k) and classes (n) of a table; rows with empty cells are dropped."""
    path = data_folder("uci", folder) / f"{FILES[data]}.csv.gz"
    rows = read_csv(path, COLUMNS["uci"])
    kept = [name for name in rows[0] if name not in ("id", "class")]
    full = [row for row in rows if all(row[name] != "" for name in kept)]
    with reading(path):
        X = np.array([[float(row[name]) for name in kept] for row in full])
        y = np.array([float(row["class"]) for row in full])
    low, high = X.min(axis=0), X.max(axis=0)
    return 2 * (X - low) / np.where(high > low, high - low, 1.0) - 1, y


def _cache() -> sqlite3.Connection:
    place = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "regretless")
    place.mkdir(parents=True, exist_ok=True)
    cache = sqlite3.connect(place / "uci_hpo.sqlite", timeout=60)
    cache.execute("CREATE TABLE IF NOT EXISTS accuracy (key TEXT PRIMARY KEY, value REAL)")
    return cache
