"""scikit-learn's door to bilevel tuning: any estimator with `partial_fit` becomes an inner training problem.

    problem = sklearn_bilevel(SGDClassifier(loss="log_loss"), X, y, X_val, y_val)
    result = minimize_bilevel(problem, {"alpha": Float(1e-6, 1, log=True)}, budget_steps=5000)
    result.state.estimator                                # the fitted estimator

A step is one `partial_fit` on a mini-batch. What the estimator has learnt is copied out by `regretless.bilevel.freeze`
and on thawing put into a fresh estimator that has seen one batch, which also has the parts that cannot be taken apart,
such as the compiled loss of `SGDClassifier`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.metrics import log_loss

from regretless.bilevel.freeze import freeze, thaw
from regretless.bilevel.problem import Bilevel, StepRule, step_sizes
from regretless.bilevel.run import keyed_batches


@dataclass(eq=False)
class SklearnRun:
    """A training run: the estimator and how many batches it has seen."""

    estimator: Any
    params: dict[str, Any]
    seed: int
    steps: int = 0


def sklearn_bilevel(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    X_val: ArrayLike,
    y_val: ArrayLike,
    *,
    batch: int = 32,
    loss: Callable[[Any, Any, Any], float] | None = None,
    step_size: StepRule = "raw",
    step_parameter: str = "eta0",
    horizon: int | None = None,
) -> Bilevel:
    """An inner training problem from an estimator and data.

    Args:
        estimator: one with partial_fit, cloned and given the hyper-parameters by set_params; or a function of (params,
            seed) that makes one.
        X, y, X_val, y_val: training and validation data (n x features, n).
        batch: examples per step.
        loss: loss(estimator, X_val, y_val); by default the log loss, the error rate of classifiers without
            probabilities, or the mean squared error.
        step_size, horizon: "raw" leaves the step size alone; see `step_sizes` for the paper's rules.
        step_parameter: the estimator's parameter that a rule sets before every step.
    """
    X, y, X_val, y_val = (np.asarray(part) for part in (X, y, X_val, y_val))
    if len(X) != len(y) or len(X_val) != len(y_val) or not len(X) or not len(X_val):
        raise ValueError(
            f"X and y must have equally many rows, at least one: {len(X)} and {len(y)}, {len(X_val)} and {len(y_val)}"
        )
    if not callable(estimator) and not hasattr(estimator, "partial_fit"):
        raise TypeError(f"{type(estimator).__name__} has no partial_fit and cannot be trained step by step")
    rule = step_sizes(step_size, horizon)
    classes = np.unique(y)

    def init(params: dict[str, Any], seed: int) -> SklearnRun:
        if hasattr(estimator, "partial_fit"):
            made = clone(estimator).set_params(**params)
            if "random_state" in made.get_params(deep=False):
                made.set_params(random_state=seed)
        else:
            made = estimator(dict(params), seed)
        return SklearnRun(made, dict(params), seed)

    def steps(run: SklearnRun, n: int) -> SklearnRun:
        options = {"classes": classes} if is_classifier(run.estimator) else {}
        for rows in keyed_batches(len(y), batch, run.seed, run.steps, n):
            if rule is not None:
                run.estimator.set_params(**{step_parameter: rule(run.params, run.steps)})
            run.estimator.partial_fit(X[rows], y[rows], **options)
            run.steps += 1
        return run

    def validate(run: SklearnRun) -> float:
        if loss is not None:
            return float(loss(run.estimator, X_val, y_val))
        if not is_classifier(run.estimator):
            return float(np.mean((run.estimator.predict(X_val) - y_val) ** 2))
        if hasattr(run.estimator, "predict_proba"):
            return float(log_loss(y_val, run.estimator.predict_proba(X_val), labels=classes))
        return float(np.mean(run.estimator.predict(X_val) != y_val))

    def save(run: SklearnRun) -> Any:
        return {"steps": run.steps, "estimator": freeze(run.estimator, strict=False)}

    def load(fresh: SklearnRun, saved: Any) -> SklearnRun:
        if saved["steps"]:
            fresh = steps(fresh, 1)  # makes the parts that the contents are put into
            fresh.estimator = thaw(fresh.estimator, saved["estimator"])
        fresh.steps = saved["steps"]
        return fresh

    return Bilevel(init, lambda run: steps(run, 1), validate, save, load, steps)
