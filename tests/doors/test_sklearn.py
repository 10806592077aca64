"""`RegretlessSearchCV` inside scikit-learn: the estimator contract, spaces, and a drop-in comparison with
`RandomizedSearchCV`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import estimator_checks_generator

from regretless.classics import CLASSICS
from regretless.doors.sklearn.search import FoldNoise, RegretlessSearchCV
from regretless.doors.sklearn.spaces import read_search_space
from regretless.outlook.stopping import GapBelow, StopWhen
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int

X, Y = make_classification(n_samples=120, n_features=5, random_state=0)
C = {"C": stats.loguniform(1e-3, 1e3)}


def search(estimator: Any = None, space: Any = None, **options: Any) -> RegretlessSearchCV:
    return RegretlessSearchCV(
        estimator or LogisticRegression(),
        space or C,
        **{"n_trials": 4, "cv": 2, "method": "random", "random_state": 0, **options},
    )


ALPHA = {"alpha": stats.loguniform(1e-3, 1.0)}
OF_MULTI_OUTPUT_ESTIMATORS = "check_supervised_y_2d"
"""Demands a warning that no search over an estimator with several outputs gives: scikit-learn's own searches fail it,
and say so."""


def checks_of(estimator: Any) -> list[Any]:
    """scikit-learn's checks of a search over the estimator, without those of array libraries that are not installed."""
    searched = search(estimator, ALPHA, n_trials=1, error_score="raise")
    return [
        (checked, check)
        for checked, check in estimator_checks_generator(searched)
        if not check.func.__name__.startswith("check_array_api")
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "check"),
    checks_of(RidgeClassifier())
    + [pair for pair in checks_of(Ridge()) if pair[1].func.__name__ != OF_MULTI_OUTPUT_ESTIMATORS],
    ids=lambda part: getattr(getattr(part, "func", None), "__name__", ""),
)
def test_estimator_contract(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore")
def test_the_check_that_searches_over_several_outputs_fail_is_failed_by_randomized_search_too() -> None:
    for searched in (
        RandomizedSearchCV(Ridge(), ALPHA, n_iter=1, cv=2, random_state=0),
        search(Ridge(), ALPHA, n_trials=1),
    ):
        (check,) = (
            check
            for _, check in estimator_checks_generator(searched)
            if check.func.__name__ == OF_MULTI_OUTPUT_ESTIMATORS
        )
        with pytest.raises(AssertionError, match="expected 1 DataConversionWarning"):
            check(clone(searched))


def test_clone_and_parameters() -> None:
    original = search(method=CLASSICS["gp-ei"], n_trials=7)
    copied = clone(original)
    assert copied.get_params(deep=False).keys() == original.get_params(deep=False).keys()
    assert copied.n_trials == 7
    assert copied.method == CLASSICS["gp-ei"]
    assert copied.set_params(n_trials=3, estimator__tol=0.5).estimator.tol == 0.5
    assert copied.n_trials == 3


def test_results_have_the_columns_of_scikit_learn() -> None:
    ours = search(n_trials=5, return_train_score=True).fit(X, Y)
    theirs = RandomizedSearchCV(LogisticRegression(), C, n_iter=5, cv=2, random_state=0, return_train_score=True).fit(
        X, Y
    )
    assert ours.cv_results_.keys() == theirs.cv_results_.keys()
    assert len(ours.cv_results_["params"]) == 5
    assert ours.best_params_ == ours.cv_results_["params"][ours.best_index_]
    assert ours.best_score_ == max(ours.cv_results_["mean_test_score"])
    assert ours.best_score_ == pytest.approx(
        cross_val_score(LogisticRegression(**ours.best_params_), X, Y, cv=2).mean()
    )
    assert ours.predict(X).shape == Y.shape
    assert ours.score(X, Y) == ours.best_estimator_.score(X, Y)
    assert ours.optimizer_.best.value == ours.best_score_
    assert ours.certificate_.reason


def test_without_refit_there_is_no_estimator() -> None:
    fitted = search(refit=False).fit(X, Y)
    assert fitted.best_params_
    assert not hasattr(fitted, "best_estimator_")


def test_pipelines_and_nested_parameters() -> None:
    space = {
        "svc__C": stats.loguniform(1e-2, 1e2),
        "svc__kernel": ["linear", "rbf"],
        "standardscaler": [StandardScaler(), MinMaxScaler(), "passthrough"],
    }
    fitted = search(make_pipeline(StandardScaler(), SVC()), space, n_trials=6).fit(X, Y)
    assert fitted.best_params_.keys() == space.keys()
    assert fitted.best_params_["svc__C"] == fitted.best_estimator_.named_steps["svc"].C


def test_lists_of_labels_are_labels_to_the_optimizer_too() -> None:
    space = {"C": stats.loguniform(1e-3, 1e3), "class_weight": ["balanced", None], "max_iter": [200, 150, 300]}
    fitted = search(space=space, method="auto", n_trials=6).fit(X, Y)
    assert [t.params for t in fitted.optimizer_.trials] == fitted.cv_results_["params"]
    assert fitted.optimizer_.predict(fitted.best_params_).low <= fitted.optimizer_.predict(fitted.best_params_).high
    assert fitted.recommended_params_ == fitted.optimizer_.recommend()


def test_the_recommendation_is_in_the_values_of_the_estimator() -> None:
    space = [{"solver": ["lbfgs"], "C": [0.01, 0.3, 2, 50]}, {"solver": ["saga"], "max_iter": [300, 400, 500]}]
    fitted = search(space=space, n_trials=5).fit(X, Y)
    assert fitted.recommended_params_ in fitted.cv_results_["params"]
    LogisticRegression(**fitted.recommended_params_).fit(X, Y)


def test_several_metrics_are_searched_by_the_one_refit_names() -> None:
    scoring = ["roc_auc", "accuracy"]
    fitted = search(scoring=scoring, refit="roc_auc").fit(X, Y)
    assert fitted.optimizer_.best.value == pytest.approx(max(fitted.cv_results_["mean_test_roc_auc"]))
    assert "rank_test_accuracy" in fitted.cv_results_
    with pytest.raises(ValueError, match=r"metric must be one of \['roc_auc', 'accuracy'\], got 'f1'"):
        search(scoring=scoring, refit=False, metric="f1").fit(X, Y)


def test_several_metrics_without_refit_are_searched_by_the_first_and_with_a_callable_one_by_all() -> None:
    """The pattern of a refit that takes the simplest setting close to the best one."""
    scoring = {"auc": "roc_auc", "hits": "accuracy"}

    def smallest_good(results: dict[str, Any]) -> int:
        good = results["mean_test_hits"] >= results["mean_test_hits"].max() - 0.02
        return int(np.where(good, [p["C"] for p in results["params"]], np.inf).argmin())

    by_first = search(scoring=scoring, refit=False, fold_noise=False).fit(X, Y)
    assert by_first.optimizer_.best.value == pytest.approx(max(by_first.cv_results_["mean_test_auc"]))
    assert by_first.optimizer_.best.var is None
    assert not hasattr(by_first, "best_estimator_")
    by_all = search(scoring=scoring, refit=smallest_good, fold_noise=False).fit(X, Y)
    assert by_all.optimizer_.task.objectives == ("auc", "hits")
    assert by_all.best_params_ == by_all.cv_results_["params"][smallest_good(by_all.cv_results_)]
    assert hasattr(by_all, "best_estimator_")
    by_hits = search(scoring=scoring, refit=False, metric="hits").fit(X, Y)
    assert by_hits.optimizer_.best.value == pytest.approx(max(by_hits.cv_results_["mean_test_hits"]))


def test_the_names_of_other_searches() -> None:
    """A call of `RandomizedSearchCV` and one of `BayesSearchCV`, with another class name."""
    with parallel_config(backend="threading"):
        randomized = RegretlessSearchCV(
            estimator=LogisticRegression(), param_distributions=C, n_iter=3, cv=2, n_jobs=-1, random_state=0
        ).fit(X, Y)
    assert len(randomized.cv_results_["params"]) == 3
    assert clone(randomized).get_params()["n_iter"] == 3
    plain = search(space=C, n_trials=3, method="auto").fit(X, Y)
    assert plain.cv_results_["params"] == randomized.cv_results_["params"]

    bayes = RegretlessSearchCV(
        SVC(),
        search_spaces={"C": (1e-2, 1e3, "log-uniform"), "degree": (1, 8), "kernel": ["linear", "poly"]},
        n_iter=2,
        cv=2,
    )
    space = bayes._search_space().space
    assert list(space.parameters.values()) == [Float(1e-2, 1e3, log=True), Int(1, 8), Choice(["linear", "poly"])]
    assert len(bayes.fit(X, Y).cv_results_["params"]) == 2


class Real:
    """As scikit-optimize's dimension of this name."""

    def __init__(self, low: float, high: float, prior: str = "uniform") -> None:
        self.low, self.high, self.prior = low, high, prior


def test_dimensions_of_scikit_optimize() -> None:
    parameters = read_search_space({"a": Real(1, 100, "log-uniform"), "b": Real(-3, 2)}).space.parameters
    assert list(parameters.values()) == [Float(1.0, 100.0, log=True), Float(-3.0, 2.0)]
    with pytest.raises(ValueError, match=r"parameter 'a': the scale of a range is .* got 'normal'"):
        read_search_space({"a": Real(1, 2, "normal")})


KERNELS = [
    {"svc__kernel": ["rbf"], "svc__C": [1.0, 10.0, 100.0], "svc__gamma": [1e-3, 1e-4]},
    {"svc__kernel": ["linear"], "svc__C": [1.0, 10.0, 100.0]},
]
"""As in scikit-learn's example on digits: a grid for each kernel."""


def test_lists_of_mappings_are_searched_as_one_space() -> None:
    searched = read_search_space(KERNELS)
    assert len(searched.space) == 5  # which mapping, two kernels, one C that both share, gamma
    model = make_pipeline(StandardScaler(), SVC())
    fitted = search(model, KERNELS, n_trials=20, method="gp-ei").fit(X, Y)
    settings = [frozenset(params.items()) for params in fitted.cv_results_["params"]]
    assert len(settings) == len(set(settings)) == 9
    grid = GridSearchCV(model, KERNELS, cv=2).fit(X, Y)
    assert set(settings) == {frozenset(params.items()) for params in grid.cv_results_["params"]}
    assert fitted.best_score_ == grid.best_score_
    assert set(fitted.cv_results_) == set(grid.cv_results_)  # absent parameters are masked, as there


def test_steps_of_a_pipeline_may_be_swapped() -> None:
    """As in scikit-learn's example on reductions: steps and their parameters in a list of mappings."""
    space = [
        {"standardscaler": [MinMaxScaler(), "passthrough"], "svc__C": stats.loguniform(1e-2, 1e2)},
        {"svc": [LogisticRegression(max_iter=500)], "svc__tol": [1e-4, 1e-3]},
    ]
    fitted = search(make_pipeline(StandardScaler(), SVC()), space, n_trials=8).fit(X, Y)
    kinds = {"svc" in params for params in fitted.cv_results_["params"]}
    assert kinds == {True, False}
    for bad in ([], [{}], [{"C": [1]}, 3]):
        with pytest.raises(ValueError, match="space must be a mapping"):
            search(space=bad or [{}]).fit(X, Y)


def test_a_finite_grid_ends_when_it_is_exhausted() -> None:
    grid = {"C": [0.01, 1.0, 30.0], "fit_intercept": [True, False]}
    fitted = search(space=grid, n_trials=20, method="auto").fit(X, Y)
    settings = [tuple(params.items()) for params in fitted.cv_results_["params"]]
    assert len(settings) == len(set(settings)) == 6
    assert fitted.best_score_ == GridSearchCV(LogisticRegression(), grid, cv=2).fit(X, Y).best_score_


def test_a_space_has_conditions_and_rules() -> None:
    kernel, gamma = Choice(["linear", "rbf"]), Float(1e-4, 1e1, log=True, when={"kernel": "rbf"})
    space = Space({"kernel": kernel, "C": Float(1e-2, 1e2, log=True), "gamma": gamma}, where=["gamma * C <= 1"])
    fitted = search(SVC(), space, n_trials=9).fit(X, Y)
    for params in fitted.cv_results_["params"]:
        assert ("gamma" in params) == (params["kernel"] == "rbf")
        assert params.get("gamma", 0.0) * params["C"] <= 1


def test_no_setting_of_a_grid_is_scored_twice() -> None:
    """A method repeats noisy settings, but the same folds would give the same score: the whole grid is evaluated."""
    grid = {"C": np.logspace(-4, 1, 8).tolist(), "max_iter": [3, 7, 20, 60]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = search(space=grid, n_trials=32, method="auto", batch=2).fit(X, Y)
    settings = {tuple(params.items()) for params in fitted.cv_results_["params"]}
    assert len(settings) == len(fitted.cv_results_["params"]) == 32
    assert len(fitted.optimizer_.history) == 32


def test_a_rule_ends_the_search_and_brings_its_probes() -> None:
    """A score of 1 is the ceiling of accuracy: no setting is better, and nothing else need be tried."""
    X, y = make_classification(60, 4, class_sep=4.0, n_informative=3, n_redundant=0, random_state=0)
    space = {"C": stats.loguniform(1e-2, 1e3), "kernel": ["rbf", "linear"]}
    options: dict[str, Any] = {"n_trials": 12, "method": "random", "cv": 2, "fold_noise": False, "random_state": 0}
    search = RegretlessSearchCV(SVC(), space, stop=GapBelow(0.2) | StopWhen(target=0.999), **options)
    for _ in range(2):  # a second fit starts afresh
        fitted = clone(search).fit(X, y)
        assert len(fitted.optimizer_.trials) < 12
        assert fitted.optimizer_.task.probes == 0.2
        assert "stopped after" in fitted.stopped_
    plain = RegretlessSearchCV(SVC(), space, **options).fit(X, y)
    assert (plain.stopped_, plain.optimizer_.task.probes, len(plain.optimizer_.trials)) == (None, 0.0, 12)


def test_fold_scores_are_told_as_noise() -> None:
    """A fold that is hard for every setting is no noise; what remains is."""
    rng = np.random.default_rng(0)
    hard, noise = np.array([0.2, 0.0, -0.1, 0.05]), FoldNoise()
    assert noise.variance(0.8 + hard) == pytest.approx(hard.var(ddof=1) / 4)
    assert noise.variance(0.9 + hard) == pytest.approx(0.0, abs=1e-30)
    drawn, noise = 0.03 * rng.standard_normal((400, 4)), FoldNoise()
    variances = [noise.variance(0.8 + hard + row) for row in drawn]
    assert variances[-1] == pytest.approx(0.03**2 / 4, rel=0.1)
    assert noise.variance(np.array([0.5])) is None
    told = search(n_trials=4).fit(X, Y).optimizer_.trials
    assert all(t.var is not None and t.var >= 0 for t in told)


def test_the_result_depends_on_the_seed_and_the_batch_not_on_the_jobs() -> None:
    with parallel_config(backend="threading"):
        runs = [
            search(method="gp-ei", n_trials=8, batch=2, n_jobs=jobs, random_state=seed).fit(X, Y)
            for jobs, seed in ((1, 3), (2, 3), (1, 4))
        ]
    assert runs[0].cv_results_["params"] == runs[1].cv_results_["params"]
    assert runs[0].cv_results_["params"] != runs[2].cv_results_["params"]


class Fragile(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fails for half of its settings."""

    def __init__(self, a: float = 0.0) -> None:
        self.a = a

    def fit(self, X: Any, y: Any) -> Fragile:
        if self.a > 0.5:
            raise ValueError("a is too large")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_failed_fits_are_told_as_failures() -> None:
    for batch in (1, 4):
        with pytest.warns(FitFailedWarning, match="a is too large"):
            fitted = search(Fragile(), {"a": stats.uniform(0, 1)}, n_trials=8, batch=batch).fit(X, Y)
        states = {(t.params["a"] > 0.5, t.state) for t in fitted.optimizer_.trials}
        assert states == {(True, "failed"), (False, "done")}
        assert fitted.best_params_["a"] <= 0.5
    with pytest.raises(ValueError, match="a is too large"):
        search(Fragile(), {"a": stats.uniform(0, 1)}, n_trials=8, error_score="raise").fit(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_a_search_in_which_everything_fails_says_so() -> None:
    with pytest.raises(ValueError, match="All the 2 fits failed"):
        search(Fragile(), {"a": stats.uniform(0.6, 0.3)}, n_trials=3).fit(X, Y)


def test_spaces_are_read_as_scikit_learn_means_them() -> None:
    searched = read_search_space({
        "uniform": stats.uniform(2, 3), "log": stats.loguniform(1e-3, 10), "whole": stats.randint(2, 9),
        "normal": stats.norm(5, 2),
        "counts": stats.poisson(4), "list": [1, [2, 3], None], "array": np.array([0.5, 1.5]), "own": Int(1, 4),
    })  # fmt: skip
    space, readers = searched.space, searched.readers
    assert space.parameters["uniform"] == Float(2.0, 5.0)
    assert space.parameters["log"] == Float(1e-3, 10.0, log=True)
    assert space.parameters["whole"] == Int(2, 8)
    assert space.parameters["own"] == Int(1, 4)
    assert space.parameters["list"] == Choice(range(3))
    assert readers["list"](1) == [2, 3]
    assert readers["array"](1) == 1.5
    assert readers["normal"](0.5) == pytest.approx(5.0)
    assert np.isfinite(readers["normal"](0.0))
    assert np.isfinite(readers["normal"](1.0))
    assert readers["counts"](0.5) == 4
    assert isinstance(readers["counts"](0.9), int)


@pytest.mark.parametrize(
    ("values", "parameter"),
    [
        ([1e-3, 1e-1, 1e2], Int(0, 2)),
        (np.logspace(2, -3, 6), Int(0, 5)),
        ([3, 1, 2], Choice([3, 1, 2])),
        ([1, 2], Choice([1, 2])),
        ([1, 1, 2], Choice(range(3))),
        ([False, True, True], Choice(range(3))),
        ([None, 1, 2], Choice([None, 1, 2])),
        ([1, 2, "auto"], Choice([1, 2, "auto"])),
        ([1.0, 2.0, np.nan], Choice([1.0, 2.0, np.nan])),
        ([(1, 2), [3], "a"], Choice(range(3))),
    ],
    ids=str,
)
def test_numbers_in_order_are_a_scale(values: Any, parameter: Any) -> None:
    searched = read_search_space({"p": values})
    assert searched.space.parameters["p"] == parameter
    second = searched.space.decode([0.5 if len(values) == 3 else 0.75 if len(values) == 2 else 0.25])["p"]
    assert searched.setting({"p": second})["p"] == values[1]


@pytest.mark.parametrize("space", [{}, [("C", [1])], {"C": 3.0}, {"C": "abc"}, {"C": []}])
def test_bad_spaces_are_named(space: Any) -> None:
    with pytest.raises(ValueError, match=r"space must be|parameter 'C'"):
        RegretlessSearchCV(LogisticRegression(), space, n_trials=2, cv=2).fit(X, Y)


def test_bad_counts_are_named() -> None:
    with pytest.raises(ValueError, match="n_iter is another name of n_trials: give one, got 3 and 4"):
        search(n_trials=4, n_iter=3).fit(X, Y)
    with pytest.raises(ValueError, match="needs one of space, param_distributions, search_spaces, got none of them"):
        RegretlessSearchCV(LogisticRegression(), n_trials=2).fit(X, Y)
    with pytest.raises(ValueError, match="got space and param_distributions"):
        search(param_distributions=C).fit(X, Y)
    for options in ({"n_trials": 0}, {"batch": 0}, {"n_iter": 0, "n_trials": 40}):
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            search(**options).fit(X, Y)


def test_drop_in_for_randomized_search() -> None:
    """The same call with another class name: an SVM on real data, no worse in the median than random search with as
    many fits."""
    data, target = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVC())
    space = {"svc__C": stats.loguniform(1e-4, 1e4), "svc__gamma": stats.loguniform(1e-6, 1e1)}
    grid = (
        GridSearchCV(model, {"svc__C": np.logspace(-4, 4, 9), "svc__gamma": np.logspace(-6, 1, 8)}, cv=2)
        .fit(data[::2], target[::2])
        .best_score_
    )
    ours, theirs = [], []
    for seed in range(3):
        ours.append(
            RegretlessSearchCV(model, space, n_trials=15, cv=2, method="gp-ei", random_state=seed)
            .fit(data[::2], target[::2])
            .best_score_
        )
        theirs.append(
            RandomizedSearchCV(model, space, n_iter=15, cv=2, random_state=seed).fit(data[::2], target[::2]).best_score_
        )
    assert np.median(ours) >= np.median(theirs)
    assert np.median(ours) >= grid - 0.01


@pytest.mark.parametrize(
    ("scoring", "refit", "ceiling"),
    [
        ("accuracy", True, 1.0), ("roc_auc_ovr", True, 1.0), ("neg_log_loss", True, 0.0),
        ("mutual_info_score", True, None),
        (None, True, 1.0), ({"a": "neg_brier_score", "b": "f1"}, "a", 0.0), (["f1", "neg_log_loss"], "f1", 1.0),
        (lambda model, X, y: 7.0, True, None),
    ],
)  # fmt: skip
def test_scorers_bring_their_own_ceiling(scoring: Any, refit: Any, ceiling: float | None) -> None:
    search = RegretlessSearchCV(LogisticRegression(), {"C": [1.0]}, scoring=scoring, refit=refit)
    assert search._most() == ceiling


def test_a_score_never_promises_more_than_its_metric() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    search = RegretlessSearchCV(
        RidgeClassifier(), {"alpha": stats.loguniform(1e-3, 1e3)}, n_trials=6, random_state=0, probes=0.5,
        fold_noise=False, noisy=False,
    ).fit(X, y)  # fmt: skip
    assert search.certificate_.upper <= 1.0
    assert search.certificate_.gap <= 1.0 - search.best_score_ + 1e-12
    assert search.certificate_.probes == 3


class FailsAbove(LogisticRegression):
    """Cannot be fitted where C is large."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FailsAbove:
        if self.C > 1.0:
            raise ValueError("C is large")
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(("error_score", "batch"), [(np.nan, 1), (-1.0, 1), (np.nan, 3)])
def test_failed_settings_are_rows_and_are_warned_of_once(error_score: float, batch: int) -> None:
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search = RegretlessSearchCV(
            FailsAbove(max_iter=2000), {"C": [1e-3, 3e-2, 0.5, 2.0, 40.0, 900.0]}, n_trials=6, random_state=1,
            error_score=error_score, batch=batch, return_train_score=True, scoring=["accuracy"], refit="accuracy",
        ).fit(X, y)  # fmt: skip
    results = search.cv_results_
    scale = [1e-3, 3e-2, 0.5, 2.0, 40.0, 900.0]
    assert [row["C"] for row in results["params"]] == [scale[t.params["C"]] for t in search.optimizer_.trials]
    failed = np.array([row["C"] > 1 for row in results["params"]])
    assert failed.sum() == 3
    assert np.array_equal(results["mean_test_accuracy"][failed], [error_score] * 3, equal_nan=True)
    assert (results["mean_test_accuracy"][~failed] > 0.5).all()
    assert (results["mean_fit_time"] > 0).all()
    assert search.best_params_["C"] <= 1
    assert sum("non-finite" in str(w.message) for w in told) <= 2 * np.isnan(error_score)  # test and train scores
    assert [t.state for t in search.optimizer_.trials] == ["failed" if f else "done" for f in failed]


def test_rounds_tell_callbacks_which_fit_they_are() -> None:
    callback = pytest.importorskip("sklearn.callback.tests._utils")
    X, y = load_iris(return_X_y=True)
    seen = callback.RecordingCallback()
    search = RegretlessSearchCV(LogisticRegression(max_iter=2000), {"C": [1e-3, 3e-2, 0.5]}, n_points=2, n_iter=3, cv=4)
    search.set_callbacks(seen).fit(X, y)
    assert seen.count_hooks("on_fit_task_begin") == seen.count_hooks("on_fit_task_end") == 1 + 1 + 1 + 3 * 4
    assert search.optimizer_.book.record.overlapping


def test_n_points_is_batch() -> None:
    X, y = load_iris(return_X_y=True)
    found = [
        RegretlessSearchCV(
            LogisticRegression(max_iter=2000), {"C": stats.uniform(0.1, 3.0)}, n_iter=5, random_state=2, **words
        ).fit(X, y)
        for words in ({"n_points": 3}, {"batch": 3})
    ]
    assert found[0].cv_results_["params"] == found[1].cv_results_["params"]
    with pytest.raises(ValueError, match="n_points is another name of batch"):
        RegretlessSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, n_points=3, batch=2).fit(X, y)
