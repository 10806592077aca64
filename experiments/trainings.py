"""Real trainings of three kinds, numbered: odd ones decide what `auto` does, even ones have no part in any choice.

    scikit-learn    eight estimators on eight tables, each evaluation a cross-validation (`sklearn_tasks`)
    tables          HPOBench's networks and NAS-Bench-201, looked up: one training seed is drawn per evaluation
    rpart           decision trees on OpenML's tables by YAHPO's surrogate of real trainings (Pfisterer et al. 2021)

The estimators, tables and OpenML tasks of odd trainings differ from those of even ones. `auto_choice.py` runs them as
the suites `train-N`: N evaluations per parameter.
"""

from __future__ import annotations

import functools
import gzip
import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from regretless_bench.problems import make_problem
from regretless_bench.problems.data import data_folder, whole_data
from regretless_bench.problems.problem import Direction, Problem

from regretless.basics.extras import optional
from regretless.space import Space
from regretless.space.parameters import Array, Choice, Float, Int

ROWS = 240
"""Rows of a table that a cross-validation uses: enough to tell settings apart, and a training takes milliseconds."""
FOLDS = 3
LOG = {"log": True}


class Evaluated(Problem):
    """A problem that is a function of the setting."""

    def __init__(self, name: str, space: Space, value: Callable[[dict[str, Any]], float], direction: Direction) -> None:
        super().__init__(name, space, direction=direction)
        self._value = value

    def _true(self, params: dict[str, Any]) -> float:
        return self._value(params)


# ---------------------------------------------------------------- scikit-learn


@functools.cache
def table(name: str) -> tuple[Array, Array]:
    """Standardised features (ROWS x k) and classes or targets (ROWS) of a table, in a fixed order."""
    from sklearn import datasets

    if name.startswith("uci-"):
        from regretless_bench.problems.uci_hpo import table as uci

        X, y = uci(name[4:])
    elif name == "mnist":
        folder = whole_data("mnist")
        with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as images, \
                gzip.open(folder / "t10k-labels-idx1-ubyte.gz") as labels:  # fmt: skip
            pixels = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 7, 4, 7, 4)
            X, y = pixels.mean(axis=(2, 4)).reshape(-1, 49), np.frombuffer(labels.read(), np.uint8, offset=8)
    else:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.Generator(np.random.Philox(key=7)).permutation(len(y))[:ROWS]
    X = np.asarray(X, dtype=np.float64)[order]
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9), np.asarray(y, dtype=np.float64)[order]


def svm(params: dict[str, Any], regression: bool) -> Any:
    from sklearn.svm import SVC, SVR

    return (SVR if regression else SVC)(**params, max_iter=5000)


def tree(params: dict[str, Any], regression: bool) -> Any:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    return (DecisionTreeRegressor if regression else DecisionTreeClassifier)(**params, random_state=0)


def net(params: dict[str, Any], regression: bool) -> Any:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    options = {name: value for name, value in params.items() if name not in ("width", "depth")}
    kind = MLPRegressor if regression else MLPClassifier
    return kind((params["width"],) * params["depth"], **options, random_state=0)


def support_regression(params: dict[str, Any], regression: bool) -> Any:
    from sklearn.svm import SVR

    return SVR(**params, max_iter=5000)


def boosting(params: dict[str, Any], regression: bool) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    return (GradientBoostingRegressor if regression else GradientBoostingClassifier)(**params, random_state=0)


def neighbours(params: dict[str, Any], regression: bool) -> Any:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

    return (KNeighborsRegressor if regression else KNeighborsClassifier)(**params)


def linear(params: dict[str, Any], regression: bool) -> Any:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    options = {"penalty": "elasticnet", "learning_rate": "invscaling", "max_iter": 10, "random_state": 0, "tol": None}
    options |= params
    return SGDRegressor(**options) if regression else SGDClassifier(**options, loss="log_loss")


def forest(params: dict[str, Any], regression: bool) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    return (ExtraTreesRegressor if regression else ExtraTreesClassifier)(**params, random_state=0)


class Estimator(NamedTuple):
    """What is trained, its parameters, and what is measured of classes."""

    build: Callable[[dict[str, Any], bool], Any]
    space: dict[str, Any]
    scoring: str = "accuracy"


CHOOSE = (
    Estimator(svm, {"C": Float(1e-3, 1e3, **LOG), "gamma": Float(1e-5, 1e1, **LOG), "coef0": Float(0.0, 3.0),
                    "kernel": Choice(["rbf", "poly", "sigmoid"])}),
    Estimator(tree, {"max_depth": Int(1, 20), "min_samples_split": Int(2, 40), "min_samples_leaf": Int(1, 40),
                     "max_features": Float(0.1, 1.0), "ccp_alpha": Float(1e-5, 0.1, **LOG)}, "neg_log_loss"),
    Estimator(net, {"learning_rate_init": Float(1e-4, 1.0, **LOG), "alpha": Float(1e-7, 1e1, **LOG),
                    "width": Int(2, 32, **LOG), "depth": Int(1, 3), "beta_1": Float(0.5, 0.99),
                    "batch_size": Int(16, 128, **LOG), "max_iter": Int(1, 12)}, "neg_log_loss"),
    Estimator(support_regression, {"C": Float(1e-3, 1e3, **LOG), "gamma": Float(1e-5, 1e1, **LOG),
                                   "epsilon": Float(1e-4, 1.0, **LOG)}, "neg_root_mean_squared_error"),
)  # fmt: skip
REPORT = (
    Estimator(boosting, {"learning_rate": Float(1e-3, 1.0, **LOG), "n_estimators": Int(2, 30, **LOG),
                         "max_depth": Int(1, 5), "min_samples_leaf": Int(1, 40, **LOG), "subsample": Float(0.3, 1.0),
                         "max_features": Float(0.1, 1.0)}, "neg_log_loss"),
    Estimator(neighbours, {"n_neighbors": Int(1, 60, **LOG), "p": Float(1.0, 4.0),
                           "weights": Choice(["uniform", "distance"])}),
    Estimator(linear, {"alpha": Float(1e-7, 1e1, **LOG), "l1_ratio": Float(0.0, 1.0), "eta0": Float(1e-5, 1.0, **LOG),
                       "power_t": Float(0.0, 1.0)}, "neg_log_loss"),
    Estimator(forest, {"n_estimators": Int(2, 20), "max_depth": Int(1, 12), "min_samples_split": Int(2, 30),
                       "max_features": Float(0.1, 1.0), "ccp_alpha": Float(1e-5, 0.1, **LOG)}),
)  # fmt: skip
TABLES = (
    ("digits", "breast_cancer", "wine", "uci-australian"),
    ("mnist", "uci-breast-cancer", "diabetes", "uci-diabetes"),
)
"""The tables of odd and of even trainings."""


def trained(estimator: Estimator, name: str) -> Problem:
    """The cross-validated score of an estimator on a table, maximised."""
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    X, y = table(name)
    regression = name == "diabetes"
    scoring = "neg_root_mean_squared_error" if regression else estimator.scoring
    folds = (KFold if regression else StratifiedKFold)(FOLDS, shuffle=True, random_state=0)

    def value(params: dict[str, Any]) -> float:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # trainings that stop before they converge are part of the search
            scores = cross_val_score(estimator.build(params, regression), X, y, cv=folds, scoring=scoring)
        # 1e6: a training that diverges is this bad, so that its value is a number
        return float(np.clip(np.nan_to_num(scores, nan=-1e6), -1e6, 1e6).mean())

    return Evaluated(f"{estimator.build.__name__} on {name}", Space(estimator.space), value, "maximize")


# ---------------------------------------------------------------- rpart


@functools.cache
def surrogate() -> tuple[Any, dict[str, int], dict[str, int]]:
    """YAHPO's model of rpart, and the codes of its tasks and of the ways to impute."""
    onnxruntime = optional("onnxruntime", "surrogates", "regretless-bench")

    folder, options = data_folder("yahpo_rpart"), onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    codes = json.loads((folder / "encoding.json").read_text(encoding="utf-8"))
    return session, codes["task_id"], codes["num.impute.selected.cpo"]


RPART = {"cp": Float(1e-3, 1.0, **LOG), "maxdepth": Int(1, 30), "minbucket": Int(1, 100), "minsplit": Int(1, 100)}
MEASURES = (0, 5, 2)
"""The outputs of the model that are tuned in turn: accuracy, log loss, area under the curve."""


def predicted(task: int, output: int, impute: int, rows: Array) -> Array:
    """An output of the surrogate, to be maximised, at settings in the order of RPART (n x 4), n."""
    whole = np.column_stack([rows, np.ones(len(rows)), np.full(len(rows), 10.0)]).astype(np.float32)
    labels = np.tile(np.array([[task, impute]], dtype=np.int32), (len(rows), 1))
    found = surrogate()[0].run(None, {"x_cat": labels, "x_cont": whole})[0][:, output]
    return np.asarray(-found if output == 5 else found, dtype=np.float64)


def grown(task: str, output: int) -> Problem:
    """What a decision tree reaches on an OpenML task, maximised."""
    _, tasks, imputed = surrogate()
    space = Space({**RPART, "impute": Choice(sorted(set(imputed) - {"#na#"}))})

    def value(params: dict[str, Any]) -> float:
        row = np.array([[params[name] for name in RPART]], dtype=np.float64)
        return float(predicted(tasks[task], output, imputed[params["impute"]], row)[0])

    return Evaluated(f"rpart on {task}", space, value, "maximize")


@functools.cache
def open_tasks() -> tuple[str, ...]:
    """OpenML's tasks on which 60 settings drawn at random neither pass an accuracy of .993 nor are all alike."""
    _, tasks, imputed = surrogate()
    U = np.random.Generator(np.random.Philox(key=3)).random((60, 4))
    space, kept = Space(RPART), []
    rows = np.array([[space.decode(u)[name] for name in RPART] for u in U], dtype=np.float64)
    for name in sorted(set(tasks) - {"#na#"}, key=int):
        values = predicted(tasks[name], 0, imputed["impute.mean"], rows)
        # 0.01: a difference in accuracy below this is no tuning problem
        if values.max() <= 0.993 and np.ptp(values) >= 0.01:
            kept.append(name)
    return tuple(kept)


# ---------------------------------------------------------------- all of them

LOOKED_UP = (
    (("hpobench-mlp", "car"), ("hpobench-mlp", "australian"), ("hpobench-mlp", "kc1"),
     ("hpobench-mlp", "blood_transfusion"), ("nasbench201", "cifar100")),
    (("hpobench-mlp", "vehicle"), ("hpobench-mlp", "phoneme"), ("hpobench-mlp", "segment"),
     ("hpobench-mlp", "credit_g"), ("nasbench201", "cifar10"), ("nasbench201", "imagenet")),
)  # fmt: skip
GROWN = 13
"""Tasks of rpart among the odd and among the even trainings."""
NUMBERS = range(70)
"""The trainings; 68 is the last even one, because 21 tables are divided as the report of tables divides them."""


def source_of(number: int) -> str:
    """The source of a training."""
    at = number // 2
    return "scikit-learn" if at < 16 else "tables" if at < 16 + len(LOOKED_UP[1 - number % 2]) else "rpart"


def training(number: int, *, seed: int) -> Problem:
    """A training by its number; `seed` draws which repetition of a table is looked up."""
    odd, at = number % 2, number // 2
    if source_of(number) == "scikit-learn":
        return trained((CHOOSE if odd else REPORT)[at % 4], TABLES[1 - odd][at // 4])
    looked_up = LOOKED_UP[1 - odd]
    if source_of(number) == "tables":
        name, data = looked_up[at - 16]
        return make_problem(name, data_set=data, seed=seed)
    which = at - 16 - len(looked_up)
    # 5: every fifth open task, so that they come from all of OpenML's numbers
    names = open_tasks()
    return grown(names[(5 * (2 * which + odd)) % len(names)], MEASURES[which % len(MEASURES)])
