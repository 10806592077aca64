"""scikit-learn's door: `RegretlessSearchCV`, a drop-in for `RandomizedSearchCV` and scikit-optimize's `BayesSearchCV`
that learns from every cross-validation."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state

from regretless.auto.algorithm import LISTED, nearest_unknown
from regretless.basics.options import whole_number
from regretless.doors.sklearn.spaces import SearchSpace, read_search_space
from regretless.files.codec import MethodLike
from regretless.optimizer import Optimizer, Trial, is_exhausted, proposal
from regretless.outlook.probes import is_due
from regretless.outlook.stopping import StopRule, probes_for
from regretless.run.front import Front
from regretless.space import Space
from regretless.space.parameters import Array
from regretless.task import Direction, Task

EVERY_FIT_FAILED = "All the "
"""How scikit-learn begins to say that all fits of a round failed; it raises then, where a search that learns can go
on."""
AT_MOST_ONE = (
    "accuracy", "adjusted_", "average_precision", "balanced_accuracy", "completeness_score", "d2_",
    "explained_variance", "f1", "fowlkes_mallows_score", "homogeneity_score", "jaccard", "matthews_corrcoef",
    "normalized_mutual_info", "precision", "r2", "rand_score", "recall", "roc_auc", "top_k_accuracy", "v_measure_score",
)  # fmt: skip
"""How the names of scikit-learn's scorers begin whose best score is 1; that of "neg_..." is 0."""
SECONDS = ("fit_time", "score_time")
"""What scikit-learn measures beside the scores."""
N_TRIALS = 40
"""The settings evaluated when nothing else is said."""


class RegretlessSearchCV(BaseSearchCV):
    """Searches the parameters of an estimator by cross-validation, each setting chosen from the scores of those before.

        search = RegretlessSearchCV(SVC(), {"C": loguniform(1e-2, 1e3), "kernel": ["rbf", "linear"]}, n_trials=40,
        random_state=0) search.fit(X, y).best_params_

    Everything scikit-learn's own searches offer works here: `cv_results_`, `best_params_`, `refit`, pipelines with
    `step__parameter`, several metrics. A space of finitely many settings ends when all are evaluated. Settings
    whose fit fails or scores NaN are told to the method as infeasible, and are rows of `cv_results_` with
    `error_score`.

    Args:
        estimator: the estimator to tune.
        space: a mapping of parameter names to scipy distributions, lists of values (searched as a scale if they are
            numbers in order), or `Float`, `Int`, `Choice` of this library. Or a list of such mappings, of which each
            setting follows one. Or a `Space`, which can have conditions and rules.
        param_distributions, search_spaces: the space under the names of `RandomizedSearchCV` and `BayesSearchCV`; in
            the latter a tuple of two numbers is a range, and (low, high, "log-uniform") one on a log scale.
        n_trials: settings to evaluate; n_iter is another name of it.
        scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score: as in `RandomizedSearchCV`.
        method: a name (`regretless list` shows them), a recipe or "auto".
        metric: with several metrics, the name of the one to search by; left out, the one `refit` names, or the first. A
            list of names, or a callable `refit` beside several metrics, searches their front, which is `front_`; in the
            list "fit_time" and "score_time" are the seconds, and "score" is the only metric's.
        stop: a rule such as `GapBelow(0.01)` or `StopWhen(no_improvement=20)`, asked after every round; `stopped_` then
            says why the search ended, and "auto" takes a method whose certificate shrinks.
        probes: the share of the settings that are independent uniform draws; they prove how much of the space can be
            better (`certificate_.share`). None: 0, or 0.2 with a rule that speaks of a certificate.
        ceiling: a score that no setting can exceed; "scorer": that of scikit-learn's scorer, where it has one.
        noise_bound: how far noise can carry a score from the truth at most, where that is known.
        noisy: whether values are noisy, where that is known; None: the values have to show it.
        reference: of several metrics, the score that each has to be better than to be of interest, by name.
        fold_noise: tell the noise of each score, judged by how the folds differ (`FoldNoise`).
        batch, n_points: settings per round; `n_jobs` workers share the folds of a round. The result depends on `batch`,
            never on `n_jobs`.
        random_state: makes the search repeatable.

    After `fit`, `optimizer_` is the `Optimizer` with its model, `recommended_params_` the setting that the model
    recommends under the noise of the folds, and `certificate_` says how much better the best setting may be. In the
    settings of `optimizer_`, numbers of an ordered list and estimators stand as their position in it.
    """

    def __init__(
        self,
        estimator: Any,
        space: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Space | None = None,
        *,
        param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        search_spaces: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        n_trials: int = N_TRIALS,
        n_iter: int | None = None,
        scoring: Any = None,
        metric: str | Sequence[str] | None = None,
        method: MethodLike = "auto",
        fold_noise: bool = True,
        stop: StopRule | None = None,
        probes: float | None = None,
        ceiling: float | Literal["scorer"] | None = "scorer",
        noise_bound: float | None = None,
        noisy: bool | None = None,
        reference: Mapping[str, float] | None = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        batch: int = 1,
        n_points: int | None = None,
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
        self.param_distributions = param_distributions
        self.search_spaces = search_spaces
        self.n_trials = n_trials
        self.n_iter = n_iter
        self.metric = metric
        self.method = method
        self.fold_noise = fold_noise
        self.stop = stop
        self.probes = probes
        self.ceiling = ceiling
        self.noise_bound = noise_bound
        self.noisy = noisy
        self.reference = reference
        self.batch = batch
        self.n_points = n_points
        self.random_state = random_state

    def _run_search(self, evaluate_candidates: Callable[..., dict[str, Any]], *, callback_ctx: Any = None) -> None:
        """scikit-learn's hook: proposes settings round by round; the results of all rounds so far come back from
        each. `callback_ctx`: what tells callbacks of scikit-learn 1.9 where in the search a fit stands."""
        n_trials, batch = self._counts()
        searched = self._search_space()
        whole = isinstance(self.random_state, int | np.integer)
        seed = self.random_state if whole else check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        names = self._objectives()
        most = None if names else self._most()
        task = Task(
            searched.space, tuple(map(_direction, names)) or ("maximize",), n_trials, int(seed),
            probes=probes_for(self.stop, self.probes), ceiling=most if self.ceiling == "scorer" else self.ceiling,
            noise_bound=0.0 if self.noise_bound is None else self.noise_bound, objectives=names,
            noisy=self.noisy, reference=self.reference,
        )  # fmt: skip
        optimizer = Optimizer(task, self.method, certify=self.stop is not None and self.stop.asks_gap)
        noises, self.stopped_ = [FoldNoise() for _ in names or [""]], None
        self._rows = _Rows()
        rounds = _Rounds(self, evaluate_candidates, callback_ctx)
        results: dict[str, Any] = {}
        if self.stop is not None:
            self.stop.load({})
        while len(optimizer.trials) < n_trials and not is_exhausted(optimizer) and self.stopped_ is None:
            trials = _next_trials(optimizer, min(batch, n_trials - len(optimizer.trials)))
            settings = [searched.setting(trial.params) for trial in trials]
            began = time.perf_counter()
            try:
                results = rounds.evaluate(settings)
            except ValueError as error:
                if self.error_score == "raise" or not str(error).lstrip().startswith(EVERY_FIT_FAILED):
                    raise
                if len(optimizer.trials) >= n_trials and all(t.value is None for t in optimizer.trials):
                    raise
                warnings.warn(f"{settings}: {error}", FitFailedWarning, stacklevel=2)
                self._rows.failed_at[trials[0].number] = settings, time.perf_counter() - began
                for trial in trials:
                    optimizer.tell(trial, failed=True)
            else:
                found = [self._scores(results, name) for name in names or [None]]
                for trial, row in zip(trials, range(-len(trials), 0), strict=True):
                    values = [float(means[row]) for means, _ in found]
                    variances = [
                        noise.variance(folds[row]) if self.fold_noise else None
                        for noise, (_, folds) in zip(noises, found, strict=True)
                    ]
                    if names:
                        optimizer.tell(trial, values, var=variances)
                    else:
                        optimizer.tell(trial, values[0], var=variances[0])
            self.stopped_ = None if self.stop is None else self.stop(optimizer)
        rounds.end()
        final = super()._format_results(*self._completed())  # here its warnings are heard, once
        results.clear()
        results.update(final)
        del self._rows
        self.optimizer_ = optimizer
        self.certificate_ = optimizer.certificate
        if names:
            self.front_ = Front(optimizer)
        else:
            self.recommended_params_ = searched.setting(optimizer.recommend())

    def _format_results(
        self, candidate_params: list[Any], n_splits: int, out: list[Any], more_results: Any = None
    ) -> dict[str, Any]:
        """scikit-learn's table of the rounds so far, with a row for each setting whose fits all failed."""
        rows: _Rows | None = getattr(self, "_rows", None)
        if rows is None:
            table: dict[str, Any] = super()._format_results(candidate_params, n_splits, out, more_results)
            return table
        rows.settings, rows.n_splits, rows.out, rows.more = candidate_params, n_splits, out, more_results
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="One or more of the", category=UserWarning)
            table = super()._format_results(*self._completed())
        return table

    def _completed(self) -> tuple[list[Any], int, list[Any], Any]:
        """The arguments of `_format_results`, with failed settings at their places."""
        rows = self._rows
        for place, (settings, seconds) in sorted(rows.failed_at.items()):
            fits = len(settings) * rows.n_splits
            likes = [rows.out[i % rows.n_splits] for i in range(fits)]
            rows.settings[place:place] = settings
            rows.out[place * rows.n_splits : place * rows.n_splits] = [_failed(r, self, seconds / fits) for r in likes]
        rows.failed_at.clear()
        return rows.settings, rows.n_splits, rows.out, rows.more

    def _most(self) -> float | None:
        """The largest score of the metric that is searched by, where its name or the estimator's own score says it."""
        scoring = self.scoring
        if isinstance(scoring, Mapping):
            scoring = scoring.get(self._metric(list(scoring)))
        elif isinstance(scoring, list | tuple | set):
            if isinstance(scoring, set) and not self.metric and not isinstance(self.refit, str):
                return None  # the first of a set can be any
            scoring = self._metric(list(scoring))
        if scoring is None:
            own = getattr(type(self.estimator), "score", None)
            return 1.0 if own in (ClassifierMixin.score, RegressorMixin.score) else None
        if not isinstance(scoring, str):
            return None
        return 0.0 if scoring.startswith("neg_") else 1.0 if scoring.startswith(AT_MOST_ONE) else None

    def _counts(self) -> tuple[int, int]:
        """The settings to evaluate, and those per round."""
        if self.n_iter is not None and self.n_trials not in (N_TRIALS, self.n_iter):
            raise ValueError(f"n_iter is another name of n_trials: give one, got {self.n_iter!r} and {self.n_trials!r}")
        if self.n_points is not None and self.batch not in (1, self.n_points):
            raise ValueError(f"n_points is another name of batch: give one, got {self.n_points!r} and {self.batch!r}")
        name, per_round = (
            ("n_trials" if self.n_iter is None else "n_iter"),
            ("batch" if self.n_points is None else "n_points"),
        )
        n_trials, batch = getattr(self, name), getattr(self, per_round)
        whole_number(**{name: n_trials, per_round: batch})
        return int(n_trials), int(batch)

    def _search_space(self) -> SearchSpace:
        names = ("space", "param_distributions", "search_spaces")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"the search needs one of {', '.join(names)}, got {' and '.join(given) or 'none of them'}")
        return read_search_space(getattr(self, given[0]), pairs=given[0] == "search_spaces")

    def _objectives(self) -> tuple[str, ...]:
        """The names of several metrics that are searched together; empty where there is one."""
        if isinstance(self.metric, str) or self.metric is None:
            several = isinstance(self.scoring, Mapping | list | tuple | set) and len(self.scoring) > 1
            if self.metric is not None or not several or not callable(self.refit):
                return ()
            return tuple(sorted(self.scoring) if isinstance(self.scoring, set) else self.scoring)
        names = tuple(self.metric)
        if len(names) < 2 or len(set(names)) < len(names):
            raise ValueError(f"metric must be a name, or a list of several different ones, got {list(names)}")
        return names

    def _metric(self, metrics: Sequence[str], named: str | None = None) -> str:
        """The one of the metrics that is searched by, or the one that is named."""
        own = self.metric if isinstance(self.metric, str) else None
        named = named or own or (self.refit if isinstance(self.refit, str) and len(metrics) > 1 else metrics[0])
        if named not in metrics:
            raise ValueError(f"metric must be one of {metrics}, got {named!r}")
        return named

    def _scores(self, results: Mapping[str, Any], named: str | None = None) -> tuple[Array, Array]:
        """The mean scores that are searched by, or those of a metric, n, and those of the folds, n x folds."""
        if named in SECONDS:
            seconds = results[f"mean_{named}"]
            return seconds, np.empty((len(seconds), 0))
        metrics = [key.removeprefix("mean_test_") for key in results if key.startswith("mean_test_")]
        name = self._metric(metrics, named)
        folds = [scores for key, scores in results.items() if re.fullmatch(rf"split\d+_test_{re.escape(name)}", key)]
        return results[f"mean_test_{name}"], np.array(folds).T


def _direction(name: str) -> Direction:
    """Scores are to be large, and seconds small."""
    return "minimize" if name in SECONDS else "maximize"


class _Rows:
    """What scikit-learn keeps of the rounds of a search, in its own lists, and the settings that it left out: those of
    rounds in which every fit failed, by the row that each belongs to, with the seconds of the round."""

    def __init__(self) -> None:
        self.settings: list[Any] = []
        self.n_splits = 0
        self.out: list[Any] = []
        self.more: Any = None
        self.failed_at: dict[int, tuple[list[Any], float]] = {}


class _Rounds:
    """The rounds of one search, which are one task to callbacks of scikit-learn; its fits are numbered through."""

    def __init__(self, search: RegretlessSearchCV, evaluate: Callable[..., dict[str, Any]], context: Any) -> None:
        self._search, self._evaluate, self._context, self._begun = search, evaluate, context, 0
        if context is not None:
            self._context = context.subcontext(task_name="search", max_subtasks=None, sequential_subtasks=False)
            self._context.call_on_fit_task_begin(estimator=search)

    def evaluate(self, settings: list[Any]) -> dict[str, Any]:
        """scikit-learn's results of all rounds up to this one."""
        if self._context is None:
            return self._evaluate(settings)
        try:
            return self._evaluate(settings, callback_ctx=self)
        finally:
            self._begun += len(settings) * self._search.n_splits_

    def subcontext(self, task_name: str, task_id: int) -> Any:
        """What scikit-learn asks for each fit of a round, numbered from 0 in each."""
        return self._context.subcontext(task_name=task_name, task_id=self._begun + task_id)

    def end(self) -> None:
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._search)


def _failed(like: Mapping[str, Any], search: RegretlessSearchCV, seconds: float) -> dict[str, Any]:
    """What scikit-learn keeps of a fit that failed: `error_score` for each score of a fit that did not."""

    def failed(scores: Any) -> Any:
        return dict.fromkeys(scores, search.error_score) if isinstance(scores, Mapping) else search.error_score

    scores = {name: failed(like[name]) for name in ("test_scores", "train_scores") if name in like}
    return {**like, **scores, "fit_time": seconds, "score_time": 0.0}


def _next_trials(optimizer: Optimizer, n: int) -> list[Trial]:
    """The next n trials. On a small grid one that would repeat a setting takes the nearest new one instead: methods
    repeat what is noisy, but the folds would be the same again, and so would be the score."""
    if optimizer.method.cube.size > LISTED:
        return optimizer.ask(n)
    book, first = optimizer.book, len(optimizer.trials)
    settings = [optimizer.space.decode(u, optimizer.method.traits.choices) for u in _new_points(optimizer, n)]
    trials = [optimizer.adopt(setting) for setting in settings]
    book.probe_steps += [step for step in range(first, first + n) if is_due(step, optimizer.task)]
    book.record.overlapping |= n > 1
    return trials


def _new_points(optimizer: Optimizer, n: int) -> list[Array]:
    """The points of the next n trials on a small grid, d each."""
    asked, points = [t.unit for t in optimizer.trials], list[Array]()
    with optimizer.computing() as method:
        for step in range(len(asked), len(asked) + n):
            points.append(proposal(optimizer.task, method, optimizer.history.with_pending(points), step))
    for i, u in enumerate(points):
        if sum(np.array_equal(u, other) for other in [*asked, *points]) > 1:
            points[i] = nearest_unknown(optimizer.history.with_pending(points), optimizer.method.cube, u)
    return points


class FoldNoise:
    """The noise variance of mean scores over folds, judged by the settings so far.

    All settings are scored on the same folds, and a fold that is hard is hard for all of them. So a setting's scores
    are compared with the mean scores of the earlier settings fold by fold: what varies is the noise of their
    difference. One setting has few folds, so the variances of all settings so far are averaged. The first setting has
    none to be compared with: the variance of its own scores stands in.
    """

    def __init__(self) -> None:
        self._scores: list[Array] = []
        self._variances: list[float] = []

    def variance(self, scores: Array) -> float | None:
        """The variance of the mean of a new setting's scores; None when one fold, or a failed one, says nothing."""
        if len(scores) < 2 or not np.isfinite(scores).all():
            return None
        if self._scores:
            earlier = len(self._scores)
            difference = scores - np.mean(self._scores, axis=0)
            shrunk = earlier / (earlier + 1)  # the earlier settings' mean has noise of its own
            self._variances.append(float(difference.var(ddof=1)) / len(scores) * shrunk)
        self._scores.append(scores)
        return float(np.mean(self._variances)) if self._variances else float(scores.var(ddof=1)) / len(scores)
