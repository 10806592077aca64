"""Three tuning tasks on data sets that scikit-learn bundles, with mixed spaces; each evaluation is a cross-validation.

Folds and model seeds are fixed, so a setting has one value; the optimum is not known.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int
from regretless_bench.problems.problem import Direction, Problem

Build: TypeAlias = Callable[[dict[str, Any]], Any]
"""A setting to an unfitted estimator."""

FOLDS = 3
DIGITS_ROWS = 600
"""Digits used by the SVM task: enough to tell settings apart, and an evaluation stays below a tenth of a second."""


class CrossValidated(Problem):
    """The mean cross-validated score of the estimator that `build` makes of a setting."""

    def __init__(
        self,
        name: str,
        space: Space,
        build: Build,
        data: tuple[Any, Any],
        *,
        scoring: str,
        sign: float,
        direction: Direction,
    ) -> None:
        super().__init__(name, space, direction=direction)
        self._build, self._data, self._scoring, self._sign = build, data, scoring, sign

    def _true(self, params: dict[str, Any]) -> float:
        from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

        X, y = self._data
        folds = (KFold if np.issubdtype(y.dtype, np.floating) else StratifiedKFold)(FOLDS, shuffle=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # trainings that stop before they converge are part of the search
            scores = cross_val_score(self._build(params), X, y, cv=folds, scoring=self._scoring)
        return self._sign * float(np.mean(scores))


@functools.cache
def _bundled(name: str) -> tuple[Any, Any]:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, y


def svm_digits() -> Problem:
    """Support vector machine on 600 of scikit-learn's digits: accuracy; kernel, C, gamma, degree, coef0 and scaling."""
    X, y = _bundled("digits")
    space = Space(
        {
            "kernel": Choice(["rbf", "poly", "sigmoid"]),
            "C": Float(1e-3, 1e3, log=True),
            "gamma": Float(1e-6, 1e0, log=True),
            "degree": Int(2, 5),
            "coef0": Float(0.0, 2.0),
            "scaling": Choice(["none", "standard"]),
        }
    )

    def build(params: dict[str, Any]) -> Any:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        options = {key: params[key] for key in ("kernel", "C", "gamma", "degree", "coef0")}
        return make_pipeline(
            StandardScaler() if params["scaling"] == "standard" else "passthrough", SVC(**options, max_iter=20_000)
        )

    return CrossValidated(
        "svm-digits",
        space,
        build,
        (X[:DIGITS_ROWS], y[:DIGITS_ROWS]),
        scoring="accuracy",
        sign=1.0,
        direction="maximize",
    )


def boosting_diabetes() -> Problem:
    """Gradient boosting on scikit-learn's diabetes data: root mean squared error; rate, trees, depth, leaves,
    subsampling, loss."""
    space = Space(
        {
            "learning_rate": Float(1e-3, 1.0, log=True),
            "n_estimators": Int(5, 100, log=True),
            "max_depth": Int(1, 6),
            "min_samples_leaf": Int(1, 60, log=True),
            "subsample": Float(0.3, 1.0),
            "max_features": Float(0.1, 1.0),
            "loss": Choice(["squared_error", "absolute_error", "huber"]),
        }
    )

    def build(params: dict[str, Any]) -> Any:
        from sklearn.ensemble import GradientBoostingRegressor

        return GradientBoostingRegressor(**params, random_state=0)

    return CrossValidated(
        "boosting-diabetes",
        space,
        build,
        _bundled("diabetes"),
        scoring="neg_root_mean_squared_error",
        sign=-1.0,
        direction="minimize",
    )


def mlp_breast_cancer() -> Problem:
    """Neural network on scikit-learn's breast-cancer data: log loss; rate, penalty, width, depth, activation, batch,
    momentum terms."""
    space = Space(
        {
            "learning_rate_init": Float(1e-4, 1e-1, log=True),
            "alpha": Float(1e-7, 1e1, log=True),
            "width": Int(4, 64, log=True),
            "depth": Int(1, 3),
            "activation": Choice(["relu", "tanh", "logistic"]),
            "batch_size": Int(16, 256, log=True),
            "beta_1": Float(0.5, 0.99),
            "epochs": Int(2, 25, log=True),
        }
    )

    def build(params: dict[str, Any]) -> Any:
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        options = {key: params[key] for key in ("learning_rate_init", "alpha", "activation", "batch_size", "beta_1")}
        layers = (params["width"],) * params["depth"]
        return make_pipeline(
            StandardScaler(), MLPClassifier(layers, **options, max_iter=params["epochs"], random_state=0)
        )

    return CrossValidated(
        "mlp-breast-cancer",
        space,
        build,
        _bundled("breast_cancer"),
        scoring="neg_log_loss",
        sign=-1.0,
        direction="minimize",
    )
