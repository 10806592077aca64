"""scikit-learn's door: `RegretlessSearchCV`, a drop-in for `RandomizedSearchCV` that learns from every
cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state

from regretless.optimizer import MethodLike, Optimizer
from regretless.parameters import Choice, Float, Int, Parameter
from regretless.space import Space

Reader: TypeAlias = Callable[[Any], Any]
"""From a value of our space to the value the estimator gets."""

EVERY_FIT_FAILED = "All the "
"""How scikit-learn begins to say that all fits of a round failed; it raises then, where a search that learns can go
on."""
AT_MOST_ONE = (
    "accuracy", "adjusted_", "average_precision", "balanced_accuracy", "completeness_score", "d2_",
    "explained_variance", "f1", "fowlkes_mallows_score", "homogeneity_score", "jaccard", "matthews_corrcoef",
    "normalized_mutual_info", "precision", "r2", "rand_score", "recall", "roc_auc", "top_k_accuracy", "v_measure_score",
)  # fmt: skip
"""How the names of scikit-learn's scorers begin whose best score is 1; that of "neg_..." is 0."""
TAIL = 1e-6
"""How far quantiles of unbounded distributions keep from 0 and 1."""


class RegretlessSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Searches the parameters of an estimator by cross-validation, each setting chosen from the scores of those before.

        search = RegretlessSearchCV(SVC(), {"C": loguniform(1e-2, 1e3), "kernel": ["rbf", "linear"]}, n_trials=40,
        random_state=0) search.fit(X, y).best_params_

    Everything scikit-learn's own searches offer works here: `cv_results_`, `best_params_`, `refit`, pipelines with
    `step__parameter`, several metrics (`refit` then names the one to search by). Settings whose fit fails or scores NaN
    are told to the method as infeasible; those of a round in which every single fit failed are not listed in
    `cv_results_`, because scikit-learn gives no results for them.

    Args:
        estimator: the estimator to tune.
        space: parameter name -> a scipy distribution, a list of values (searched as a scale if they are numbers in
            order), or `Float`, `Int`, `Choice` of this library.
        n_trials: settings to evaluate.
        scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score: as in `RandomizedSearchCV`.
        method: a name (`regretless list` shows them), a recipe or "auto".
        probes: the share of the settings that are independent uniform draws; they prove how much of the space can be
            better (`certificate_.share`).
        ceiling: a score that no setting can exceed; "scorer": that of scikit-learn's scorer, where it has one.
        batch: settings per round; `n_jobs` workers share the folds of a round. The result depends on `batch`, never on
            `n_jobs`.
        random_state: makes the search repeatable.

    After `fit`, `optimizer_` is the `Optimizer` with its model, and `certificate_` says how much better the best
    setting may be.
    """

    def __init__(
        self,
        estimator: Any,
        space: Mapping[str, Any],
        *,
        n_trials: int = 40,
        scoring: Any = None,
        method: MethodLike = "auto",
        probes: float = 0.0,
        ceiling: float | Literal["scorer"] | None = "scorer",
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        batch: int = 1,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
    ) -> None:
        super().__init__(
            estimator=estimator, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv, verbose=verbose,
            pre_dispatch=pre_dispatch, error_score=error_score, return_train_score=return_train_score,
        )  # fmt: skip
        self.space = space
        self.n_trials = n_trials
        self.method = method
        self.probes = probes
        self.ceiling = ceiling
        self.batch = batch
        self.random_state = random_state

    def _run_search(self, evaluate_candidates: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> None:
        """scikit-learn's hook: proposes settings round by round; the results of all rounds so far come back from
        each."""
        for name in ("n_trials", "batch"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
        space, readers = read_space(self.space)
        whole = isinstance(self.random_state, int | np.integer)
        seed = self.random_state if whole else check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        n_trials = int(self.n_trials)
        optimizer = Optimizer(
            space, method=self.method, direction="maximize", budget=n_trials, seed=int(seed), probes=self.probes,
            ceiling=self._most() if self.ceiling == "scorer" else self.ceiling,
        )  # fmt: skip
        while len(optimizer.trials) < n_trials and not optimizer.exhausted:
            trials = optimizer.ask(min(int(self.batch), n_trials - len(optimizer.trials)))
            settings = [{name: readers[name](value) for name, value in trial.params.items()} for trial in trials]
            try:
                results = evaluate_candidates(settings)
            except ValueError as error:
                if self.error_score == "raise" or not str(error).lstrip().startswith(EVERY_FIT_FAILED):
                    raise
                if len(optimizer.trials) >= n_trials and all(t.value is None for t in optimizer.trials):
                    raise
                warnings.warn(f"{settings}: {error}", FitFailedWarning, stacklevel=2)
                for trial in trials:
                    optimizer.tell(trial, failed=True)
                continue
            for trial, score in zip(trials, results[self._score_name(results)][-len(trials) :], strict=True):
                optimizer.tell(trial, float(score))
        self.optimizer_ = optimizer
        self.certificate_ = optimizer.certificate

    def _most(self) -> float | None:
        """The largest score of the metric that is searched by, where its name or the estimator's own score says it."""
        scoring = self.scoring
        if isinstance(scoring, Mapping):
            scoring = scoring.get(self.refit)
        elif isinstance(scoring, list | tuple | set):
            scoring = self.refit
        if scoring is None:
            own = getattr(type(self.estimator), "score", None)
            return 1.0 if own in (ClassifierMixin.score, RegressorMixin.score) else None
        if not isinstance(scoring, str):
            return None
        return 0.0 if scoring.startswith("neg_") else 1.0 if scoring.startswith(AT_MOST_ONE) else None

    def _score_name(self, results: Mapping[str, Any]) -> str:
        if "mean_test_score" in results:
            return "mean_test_score"
        name = f"mean_test_{self.refit}"
        if not isinstance(self.refit, str) or name not in results:
            raise ValueError(f"with several metrics, refit must be the name of one of them, got refit={self.refit!r}")
        return name


# ---------------------------------------------------------------- spaces


def read_space(space: Mapping[str, Any]) -> tuple[Space, dict[str, Reader]]:
    """The search space, and for each parameter the way back to what the estimator gets."""
    if not isinstance(space, Mapping) or not space:
        raise ValueError(f"space must be a mapping of names to distributions or lists of values, got {space!r}")
    parameters: dict[str, Parameter] = {}
    readers: dict[str, Reader] = {}
    for name, values in space.items():
        try:
            parameters[str(name)], readers[str(name)] = _read(values)
        except ValueError as error:
            raise ValueError(f"parameter {name!r}: {error}") from None
    return Space(parameters), readers


def _read(values: Any) -> tuple[Parameter, Reader]:
    if isinstance(values, Float | Int | Choice):
        return values, _as_is
    if hasattr(values, "ppf") and hasattr(values, "rvs"):
        return _from_distribution(values)
    if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str):
        listed = list(values)  # searched by position: values may be unhashable, such as lists and estimators
        return (Int(0, len(listed) - 1) if _is_scale(listed) else Choice(range(len(listed)))), listed.__getitem__
    raise ValueError(f"expected a scipy distribution, a list of values, Float, Int or Choice, got {values!r}")


def _is_scale(values: Sequence[Any]) -> bool:
    """Whether values are three or more numbers that rise or fall throughout, as those of a grid do: neighbours then
    score alike."""
    numbers = all(isinstance(v, int | float | np.number) and not isinstance(v, bool | np.bool_) for v in values)
    if len(values) < 3 or not numbers:
        return False
    steps = np.diff(np.asarray(values, dtype=np.float64))
    return bool((steps > 0).all() or (steps < 0).all())


def _from_distribution(distribution: Any) -> tuple[Parameter, Reader]:
    """Uniform kinds become ranges; any other distribution is searched by its quantiles, so that likely values have the
    most room."""
    kind = getattr(getattr(distribution, "dist", None), "name", "")
    low, high = (float(end) for end in distribution.support())
    if kind == "uniform":
        return Float(low, high), _as_is
    if kind in ("loguniform", "reciprocal"):
        return Float(low, high, log=True), _as_is
    if kind == "randint" and high > low:
        return Int(int(low), int(high)), _as_is
    whole = hasattr(distribution, "pmf") or hasattr(getattr(distribution, "dist", None), "pmf")

    def quantile(u: float) -> float | int:
        value = float(distribution.ppf(min(max(u, TAIL), 1 - TAIL)))
        return int(value) if whole else value

    return Float(0.0, 1.0), quantile


def _as_is(value: Any) -> Any:
    return value
