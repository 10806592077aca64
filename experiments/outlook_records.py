"""Runs of many kinds, for the forecaster of `regretless.outlook`: how good the recommended setting was after each
trial, and what the features of a forecast said at checkpoints.

    python experiments/outlook_records.py --grids .carry/data/sklearn_grids.npz      # once, with scikit-learn
    python experiments/outlook_records.py --jobs 16 --minutes 9 --out runs/outlook/records.npz [--families f,g]

Every run is drawn from its number: the family, the instance, the optimiser, and whether there is noise, a batch, a
constraint or a part of the space that fails. Runs are worked off in the order of their numbers, families in turn, so a
run that is cut by the clock holds every family equally often. Data sets are read from REGRETLESS_DATA and, first, from
.carry/data where that is there.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.problems import make_problem
from regretless_bench.problems.data import data_folder, read_csv
from regretless_bench.problems.families import FAMILIES, family_case, interquartile_range
from regretless_bench.problems.families.discrete import TASKS, _grid
from regretless_bench.problems.families.fields import field
from regretless_bench.problems.problem import Problem
from regretless_bench.problems.tabular import MLP_DATA, NAS_DATA, Tabular

from regretless.basics.extras import optional
from regretless.basics.streams import keyed_generator
from regretless.method import Recipe
from regretless.optimizer import Optimizer
from regretless.outlook.progress import CURVE, NAMES, Seen, features, levels, own_model, posterior_of, reach
from regretless.space import Space
from regretless.space.parameters import Array, Choice, Float, Int

STREAM = 401
"""Keys what is drawn to make a run."""
CARRIED = Path(".carry/data")
CHECKPOINTS = (4, 6, 8, 10, 12, 15, 18, 22, 26, 31, 37, 44, 52, 62, 74, 88, 105, 125)
"""The numbers of values after which features are taken, and with noise the recommendation is judged."""
HORIZONS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Features are taken for these horizons; most of them do not depend on it."""
OPTIMISERS = ("auto",) * 10 + ("gp-ei", "gp-ucb", "turbo", "cma-es", "random", "gp-ts")
PEERS = {"tpe": Recipe("tpe", "regretless_bench.peers.optuna:OptunaPeer")}
"""Samplers of other libraries, which run only where those are installed."""
NOISE = (0.03, 0.1, 0.3)
"""Standard deviations as shares of the interquartile range."""

Setting = dict[str, Any]
Make = Callable[[int, np.random.Generator], Problem]


class Formula(Problem):
    """A problem whose noiseless value is a function of the setting; to be minimised."""

    def __init__(self, name: str, space: Space, value: Callable[[Setting], float]) -> None:
        super().__init__(name, space)
        self._value = value

    def _true(self, params: Setting) -> float:
        return float(self._value(params))


# ---------------------------------------------------------------- families


def made(name: str) -> Make:
    """A family of the bench, in low dimensions."""
    dims = [d for d in FAMILIES[name].dims if d <= 6]
    return lambda seed, rng: family_case(name, seed=seed, dim=int(rng.choice(dims)))


def turned(seed: int, rng: np.random.Generator) -> Problem:
    formula = str(rng.choice(["griewank", "powers", "ellipsoid", "largest", "waves"]))
    return make_problem("turned", formula=formula, dim=int(rng.integers(2, 9)), seed=seed)


def wide(seed: int, rng: np.random.Generator) -> Problem:
    """Many dimensions, of which a few matter."""
    formula = str(rng.choice(["griewank", "powers", "ellipsoid", "largest", "waves"]))
    dim = int(rng.integers(12, 41))
    return make_problem("turned", formula=formula, dim=dim, effective=int(rng.integers(3, dim)), seed=seed)


def valleys(seed: int, rng: np.random.Generator) -> Problem:
    """Rosenbrock, Levy, Styblinski-Tang, Michalewicz, an ellipsoid and the camel's back, moved."""
    names = ("rosenbrock", "rosenbrock", "levy", "styblinski-tang", "ellipsoid", "michalewicz")
    name = str(rng.choice(names))
    dim = 5 if name == "michalewicz" else int(rng.integers(2, 7))
    return make_problem(name, dim=dim, seed=seed, shift=0.0 if name == "michalewicz" else 0.4)


def mechanistic(seed: int, rng: np.random.Generator) -> Problem:
    names = ("hill-temperature", "michaelis-inhibition", "gompertz-growth", "drug-timing", "three-gaussians")
    return make_problem(str(rng.choice(names)), seed=seed)


def teachers(seed: int, rng: np.random.Generator) -> Problem:
    """Nets that another net has to be found for."""
    return make_problem("teacher-net", dim=int(rng.integers(2, 7)), width=int(rng.integers(3, 12)), seed=seed)


def trees(seed: int, rng: np.random.Generator) -> Problem:
    """Branches of a choice, each with a field of its own on its own parameters, on log scales and whole numbers."""
    kinds = [f"kind-{i}" for i in range(int(rng.integers(2, 5)))]
    parameters: dict[str, Any] = {"shared": Float(1e-4, 1e1, log=True), "kind": Choice(kinds)}
    fields, heights = {}, 0.6 * rng.standard_normal(len(kinds))
    for i, kind in enumerate(kinds):
        own = int(rng.integers(1, 4))
        for j in range(own):
            whole = bool(rng.integers(2))
            parameters[f"{kind}-{j}"] = (
                Int(1, int(rng.integers(5, 300)), log=True, when={"kind": kind})
                if whole
                else Float(-1.0, 3.0, when={"kind": kind})
            )
        scales = rng.uniform(0.3, 0.8, own + 1) * math.sqrt(own + 1)
        fields[kind] = field(rng, own + 1, scales, 5.0), own, float(heights[i])

    def value(s: Setting) -> float:
        rows, own, height = fields[s["kind"]]
        u = [(math.log10(s["shared"]) + 4) / 5]
        for j in range(own):
            name = f"{s['kind']}-{j}"
            p = parameters[name]
            u.append(math.log(s[name]) / math.log(p.high) if isinstance(p, Int) else (s[name] + 1.0) / 4.0)
        return -float(rows(np.array([u]))[0]) - height

    return Formula(f"trees-{seed}", Space(parameters), value)


def mlp_tables(seed: int, rng: np.random.Generator) -> Problem:
    return make_problem("hpobench-mlp", data_set=MLP_DATA[seed % len(MLP_DATA)], single=bool(rng.integers(3) == 0))


def nas_tables(seed: int, rng: np.random.Generator) -> Problem:
    return make_problem("nasbench201", data_set=NAS_DATA[seed % len(NAS_DATA)], single=bool(rng.integers(3) == 0))


def grids(seed: int, rng: np.random.Generator) -> Problem:
    """Grids of scikit-learn's models, cross-validated beforehand (`--grids` writes them)."""
    name, size = TASKS[seed % len(TASKS)]
    path = CARRIED / "sklearn_grids.npz"
    if path.exists():
        with np.load(path) as stored:
            scores = stored[name]
    else:
        scores = _grid(name)
    space = Space({f"p{i}": Int(0, length - 1) for i, length in enumerate(scores.shape)})
    return Tabular(f"grid-{name}-{size}", space, scores[..., None], single=False)


@functools.cache
def _rpart() -> tuple[Any, dict[str, int], dict[str, int]]:
    onnxruntime = optional("onnxruntime", "surrogates", "regretless-bench")

    folder = data_folder("yahpo_rpart")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    codes = json.loads((folder / "encoding.json").read_text())
    return session, codes["task_id"], codes["num.impute.selected.cpo"]


def tree_surrogate(seed: int, rng: np.random.Generator) -> Problem:
    """Decision trees on 117 tables by a surrogate (YAHPO): log loss, area under the curve or accuracy."""
    session, tasks, imputed = _rpart()
    names = sorted(name for name in tasks if name != "#na#")
    task, output = tasks[names[seed % len(names)]], (0, 2, 5)[int(rng.integers(3))]
    sign = 1.0 if output == 5 else -1.0
    labels = sorted(name for name in imputed if name != "#na#")
    space = Space({
        "cp": Float(0.00092, 1.0, log=True), "maxdepth": Int(1, 30), "minbucket": Int(1, 100), "minsplit": Int(1, 100),
        "impute": Choice(labels),
    })  # fmt: skip

    def value(s: Setting) -> float:
        x_cat = np.array([[task, imputed[s["impute"]]]], dtype=np.int32)
        numbers = [s["cp"], s["maxdepth"], s["minbucket"], s["minsplit"], 1.0, 10.0]
        found = session.run(None, {"x_cat": x_cat, "x_cont": np.array([numbers], dtype=np.float32)})[0]
        return sign * float(found[0][output])

    return Formula(f"rpart-{task}-{output}", space, value)


@functools.cache
def _table(name: str) -> tuple[Array, Array]:
    """A table of numbers with classes or targets, standardised and in a fixed order."""
    if name.startswith("made"):
        rng = keyed_generator(int(name[4:]), 5, stream=STREAM)
        X = rng.standard_normal((300, 6))
        y = (np.sin(X[:, 0] * 2) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(300) > 0).astype(float)
        return X, y
    rows = read_csv(data_folder("uci") / f"{name}.csv.gz", ("class",))
    columns = [c for c in rows[0] if c != "class"]
    X = np.array([[float(row[c] or "nan") for c in columns] for row in rows])
    X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    classes = sorted({row["class"] for row in rows})
    y = np.array([float(row["class"] == classes[-1]) for row in rows])
    order = keyed_generator(0, 6, stream=STREAM).permutation(len(y))[:400]
    X = X[order]
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9), y[order]


UCI = ("australian", "breast_cancer_wisconsin_original", "diabetes", "made1", "made2", "made3", "made4")


def nets(seed: int, rng: np.random.Generator) -> Problem:
    """Trainings of small nets by stochastic gradients on UCI tables: the validation loss or error that the learning
    curve ends in, or its lowest point."""
    name, data_seed = UCI[seed % len(UCI)], int(rng.integers(5))
    X, y = _table(name)
    error, lowest = bool(rng.integers(3) == 0), bool(rng.integers(2))
    space = Space({
        "rate": Float(1e-3, 3.0, log=True), "width": Int(2, 48, log=True), "momentum": Float(0.0, 0.98),
        "decay": Float(1e-6, 1e-1, log=True), "batch": Int(8, 128, log=True), "epochs": Int(2, 20, log=True),
        "act": Choice(["relu", "tanh"]),
    })  # fmt: skip

    def value(s: Setting) -> float:
        curve = learning_curve(X, y, s, data_seed, error=error)
        found = float(min(curve) if lowest else curve[-1])
        return found if math.isfinite(found) else 10.0

    return Formula(f"nets-{name}-{data_seed}-{error}-{lowest}", space, value)


def learning_curve(X: Array, y: Array, s: Setting, seed: int, *, error: bool) -> list[float]:
    """The validation loss, or error, after each epoch of one training; a quarter of the rows validate."""
    draws = keyed_generator(seed, 7, stream=STREAM)
    order = draws.permutation(len(y))
    cut = len(y) // 4
    held, rest = order[:cut], order[cut:]
    W1 = draws.standard_normal((X.shape[1], s["width"])) / math.sqrt(X.shape[1])
    W2 = draws.standard_normal(s["width"]) / math.sqrt(s["width"])
    weights = [W1, np.zeros(s["width"]), W2, np.zeros(1)]
    speed = [np.zeros_like(w) for w in weights]
    curve: list[float] = []
    with np.errstate(all="ignore"):
        for _ in range(s["epochs"]):
            rows = draws.permutation(rest)
            for i in range(0, len(rows), s["batch"]):
                part = rows[i : i + s["batch"]]
                H, out = _forward(X[part], weights, s["act"])
                slope = (1.0 / (1.0 + np.exp(-out)) - y[part]) / len(part)
                back = np.outer(slope, weights[2]) * ((H > 0) if s["act"] == "relu" else 1.0 - H**2)
                parts = [X[part].T @ back, back.sum(axis=0), H.T @ slope, np.array([slope.sum()])]
                for w, v, g in zip(weights, speed, parts, strict=True):
                    v *= s["momentum"]
                    v -= s["rate"] * (g + s["decay"] * w)
                    w += v
            out = _forward(X[held], weights, s["act"])[1]
            loss = ((out > 0) != (y[held] > 0)).mean() if error else (np.logaddexp(0.0, out) - y[held] * out).mean()
            curve.append(min(float(loss), 10.0) if math.isfinite(float(loss)) else 10.0)
    return curve


def _forward(X: Array, weights: list[Array], act: str) -> tuple[Array, Array]:
    H = X @ weights[0] + weights[1]
    H = np.maximum(H, 0.0) if act == "relu" else np.tanh(H)
    return H, H @ weights[2] + weights[3][0]


def kernels(seed: int, rng: np.random.Generator) -> Problem:
    """Kernel ridge regression on UCI tables, cross-validated: penalty, width, power of the distance and column
    weights."""
    name, folds_seed = UCI[seed % len(UCI)], int(rng.integers(5))
    X, y = _table(name)
    X, y = X[:200], y[:200]
    order = keyed_generator(folds_seed, 8, stream=STREAM).permutation(len(y))
    space = Space({
        "penalty": Float(1e-5, 1e2, log=True), "gamma": Float(1e-4, 1e1, log=True), "power": Float(0.5, 2.0),
        "linear": Float(1e-4, 1e1, log=True),
    })  # fmt: skip
    far = np.abs(X[:, None] - X[None]).astype(np.float64)
    gram = X @ X.T

    def value(s: Setting) -> float:
        K = np.exp(-s["gamma"] * (far ** s["power"]).sum(axis=2)) + s["linear"] * gram
        losses = []
        for fold in range(3):
            held = order[fold::3]
            rest = np.setdiff1d(order, held)
            A = K[np.ix_(rest, rest)] + (s["penalty"] + 1e-9) * np.eye(len(rest))
            guess = K[np.ix_(held, rest)] @ np.linalg.solve(A, y[rest] - y[rest].mean()) + y[rest].mean()
            losses.append(float(np.mean((guess - y[held]) ** 2)))
        return float(np.mean(losses))

    return Formula(f"kernels-{name}-{folds_seed}", space, value)


def boosting(seed: int, rng: np.random.Generator) -> Problem:
    """Boosted stumps on UCI tables, on our own few lines: rate, rounds, share of rows and columns, bins, smoothing;
    validation log loss."""
    name, data_seed = UCI[seed % len(UCI)], int(rng.integers(5))
    X, y = _table(name)
    order = keyed_generator(data_seed, 9, stream=STREAM).permutation(len(y))
    held, rest = order[: len(y) // 3], order[len(y) // 3 :]
    space = Space({
        "rate": Float(0.01, 1.5, log=True), "rounds": Int(3, 60, log=True), "rows": Float(0.2, 1.0),
        "columns": Float(0.2, 1.0), "bins": Int(2, 16), "smooth": Float(0.1, 100.0, log=True),
    })  # fmt: skip

    def value(s: Setting) -> float:
        draws = keyed_generator(data_seed, 10, stream=STREAM)
        cuts = np.quantile(X[rest], np.linspace(0, 1, s["bins"] + 2)[1:-1], axis=0)
        above = X[rest][:, :, None] > cuts.T[None]
        f, g = np.zeros(len(rest)), np.zeros(len(held))
        for _ in range(s["rounds"]):
            p = 1.0 / (1.0 + np.exp(-f))
            rows = draws.random(len(rest)) < s["rows"]
            columns = np.flatnonzero(draws.random(X.shape[1]) < s["columns"])
            columns = columns if len(columns) else np.arange(X.shape[1])
            slope, curve = np.where(rows, y[rest] - p, 0.0), np.where(rows, p * (1 - p), 0.0)
            A = above[:, columns]
            right, weight = np.einsum("i,ijk->jk", slope, A), np.einsum("i,ijk->jk", curve, A)
            left, other = slope.sum() - right, curve.sum() - weight
            gain = right**2 / (weight + s["smooth"]) + left**2 / (other + s["smooth"])
            j, k = np.unravel_index(int(np.argmax(gain)), gain.shape)
            up, down = right[j, k] / (weight[j, k] + s["smooth"]), left[j, k] / (other[j, k] + s["smooth"])
            f += s["rate"] * np.where(A[:, j, k], up, down)
            g += s["rate"] * np.where(X[held, columns[j]] > cuts[k, columns[j]], up, down)
        return float(np.mean(np.logaddexp(0.0, g) - y[held] * g))

    return Formula(f"boosting-{name}-{data_seed}", space, value)


def subsets(seed: int, rng: np.random.Generator) -> Problem:
    """Which columns of a UCI table a ridge regression is given: labels alone, judged by the cross-validated error."""
    name, folds_seed = UCI[seed % 3], int(rng.integers(50))
    X, y = _table(name)
    order = keyed_generator(folds_seed, 13, stream=STREAM).permutation(len(y))
    columns = rng.permutation(X.shape[1])[: int(rng.integers(6, X.shape[1] + 1))]
    space = Space({f"column-{j}": Choice(["in", "out"]) for j in columns})

    def value(s: Setting) -> float:
        A = np.column_stack([np.ones(len(y)), X[:, [j for j in columns if s[f"column-{j}"] == "in"]]])
        losses = []
        for fold in range(5):
            held, rest = order[fold::5], np.setdiff1d(order, order[fold::5])
            w = np.linalg.solve(A[rest].T @ A[rest] + 0.1 * np.eye(A.shape[1]), A[rest].T @ y[rest])
            losses.append(float(np.mean((A[held] @ w - y[held]) ** 2)))
        return float(np.mean(losses))

    return Formula(f"subsets-{name}-{folds_seed}", space, value)


def interactions(seed: int, rng: np.random.Generator) -> Problem:
    """Kauffman's NK landscapes: each label counts together with a few others, by a table of random numbers."""
    labels, count = int(rng.integers(2, 6)), int(rng.integers(5, 10))
    partners = [[i, *rng.permutation([j for j in range(count) if j != i])[: rng.integers(1, 4)]] for i in range(count)]
    tables = [rng.random((labels,) * len(own)) for own in partners]
    space = Space({f"site-{i}": Choice([f"kind-{k}" for k in range(labels)]) for i in range(count)})

    def value(s: Setting) -> float:
        at = [int(s[f"site-{i}"].rpartition("-")[2]) for i in range(count)]
        return -float(np.mean([own[tuple(at[i] for i in who)] for own, who in zip(tables, partners, strict=True)]))

    return Formula(f"interactions-{seed}", space, value)


SKLEARN = ("svc", "logistic", "tree", "neighbours", "elastic", "forest", "ridge", "sgd")
SKLEARN_DATA = ("wine", "breast_cancer", "iris")


def sklearn_tasks(seed: int, rng: np.random.Generator) -> Problem:
    """Cross-validations by scikit-learn in mixed spaces, on its bundled data; only where it is installed."""
    from sklearn import ensemble, linear_model, neighbors, svm, tree
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model, data = SKLEARN[seed % len(SKLEARN)], SKLEARN_DATA[seed // len(SKLEARN) % len(SKLEARN_DATA)]
    X, y = {"wine": load_wine, "breast_cancer": load_breast_cancer, "iris": load_iris}[data](return_X_y=True)
    X, y = X[:300], y[:300]
    C, share, whole = Float(1e-4, 1e3, log=True), Float(0.05, 1.0), Int(1, 40, log=True)
    few, weight = Int(2, 12), Choice(["uniform", "distance"])
    spaces: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
        "svc": ({"C": C, "gamma": C, "shrinking": Choice([True, False])}, svm.SVC),
        "logistic": ({"C": C, "tol": Float(1e-5, 1e-1, log=True), "max_iter": whole}, linear_model.LogisticRegression),
        "tree": ({"max_depth": few, "min_samples_leaf": whole, "max_features": share}, tree.DecisionTreeClassifier),
        "neighbours": ({"n_neighbors": whole, "p": Float(1.0, 4.0), "weights": weight}, neighbors.KNeighborsClassifier),
        "elastic": ({"alpha": C, "l1_ratio": share}, lambda **o: linear_model.SGDClassifier(
            loss="log_loss", penalty="elasticnet", max_iter=15, **o)),
        "forest": ({"n_estimators": few, "max_depth": few, "max_features": share}, ensemble.ExtraTreesClassifier),
        "ridge": ({"alpha": C, "tol": Float(1e-5, 1.0, log=True)}, linear_model.RidgeClassifier),
        "sgd": ({"alpha": C, "eta0": Float(1e-4, 1e1, log=True), "power_t": share, "max_iter": few},
                lambda **o: linear_model.SGDClassifier(loss="log_loss", learning_rate="invscaling", **o)),
    }  # fmt: skip
    space, build = spaces[model]
    folds = StratifiedKFold(3, shuffle=True, random_state=int(rng.integers(100)))
    fixed = {} if model in ("neighbours", "svc", "ridge") else {"random_state": 0}

    def value(s: Setting) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = make_pipeline(StandardScaler(), build(**s, **fixed))
            loss = model not in ("svc", "ridge")
            scores = cross_val_score(estimator, X, y, cv=folds, scoring="neg_log_loss" if loss else "accuracy")
        return -max(float(np.mean(scores)), -20.0)

    return Formula(f"sklearn-{model}-{data}", Space(space), value)


@dataclass(frozen=True)
class Kind:
    """A family of runs."""

    source: str
    make: Make
    aside: bool = False
    """Whether it is left out unless asked for: it has no part in any choice, and is reported once."""


KINDS: dict[str, Kind] = {
    **{name: Kind("formulas", made(name)) for name in ("classics", "bowls")},
    "turned": Kind("formulas", turned),
    "wide": Kind("formulas", wide),
    "valleys": Kind("formulas", valleys),
    "mechanistic": Kind("mechanisms", mechanistic),
    "teachers": Kind("mechanisms", teachers),
    **{
        name: Kind("made", made(name))
        for name in (
            "gp-smooth", "gp-rough", "warped", "additive", "networks", "peaks", "steps", "rough", "labels", "mixed",
            "needles", "narrow-peaks", "gkls", "facets",
        )
    },
    "trees": Kind("made", trees),
    "mlp-tables": Kind("tables of nets", mlp_tables),
    "nas-tables": Kind("tables of nets", nas_tables),
    "grids": Kind("scikit-learn", grids),
    "rpart": Kind("surrogates of trees", tree_surrogate),
    "nets": Kind("learning curves", nets),
    "kernels": Kind("kernel machines", kernels),
    "boosting": Kind("boosting", boosting),
    "aside": Kind("scikit-learn, aside", sklearn_tasks, aside=True),
    "subsets": Kind("labels, aside", subsets, aside=True),
    "interactions": Kind("labels, aside", interactions, aside=True),
}  # fmt: skip


# ---------------------------------------------------------------- one run


@dataclass
class Drawn:
    """What a run is made of."""

    family: str
    optimiser: str
    problem: Problem
    budget: int
    batch: int
    noise: float
    told: bool
    """Whether the noise variance is told."""
    forbidden: str
    """"", "failures" or "constraint": what a random part of the cube does."""


def drawn(family: str, number: int, optimisers: tuple[str, ...]) -> Drawn:
    """The run of a number; problems of one family differ, and so does how they are searched."""
    rng = keyed_generator(number, sum(family.encode()), stream=STREAM)
    optimiser = str(rng.choice(optimisers))
    problem = KINDS[family].make(number, rng)
    d = problem.space.cube().dim
    budget = int(np.clip(d * rng.uniform(12, 30), 40, 80 if d > 10 else 120))
    noise = float(rng.choice(NOISE)) if rng.random() < 0.25 and not getattr(problem, "single", False) else 0.0
    told, batch = bool(rng.random() < 0.3), int(rng.choice([1] * 7 + [2, 4, 8]))
    forbidden = str(rng.choice([""] * 8 + ["failures", "constraint"]))
    if noise:
        problem.noise_sd = noise * _spread(problem)
        problem.seed = number
    return Drawn(family, optimiser, problem, budget, batch, problem.noise_sd, told, forbidden)


def _spread(problem: Problem) -> float:
    """The interquartile range of the values; of slow problems over few settings."""
    if isinstance(problem, Formula):
        cube = problem.space.cube()
        rng = keyed_generator(0, 11, stream=STREAM)
        values = [problem.true(problem.space.decode(cube.draw(rng))) for _ in range(24)]
        low, high = np.quantile(values, [0.25, 0.75])
        return float(high - low) or float(np.ptp(values)) or 1.0
    return interquartile_range(problem)


def record(family: str, number: int, optimisers: tuple[str, ...]) -> dict[str, Any] | None:
    """One run: its values, the truth of what it would have recommended, and features at the checkpoints."""
    os.environ["REGRETLESS_DATA"] = str(CARRIED) if CARRIED.is_dir() else os.environ.get("REGRETLESS_DATA", "data")
    began = time.perf_counter()
    warnings.simplefilter("ignore")
    run = drawn(family, number, optimisers)
    problem, rng = run.problem, keyed_generator(number, 12, stream=STREAM)
    opt = Optimizer(
        problem.space, PEERS.get(run.optimiser, run.optimiser), direction=problem.direction, budget=run.budget,
        seed=number, constraints=1 if run.forbidden == "constraint" else 0,
    )  # fmt: skip
    cube, sign = opt.method.cube, problem.sign
    normal, level = rng.standard_normal(cube.dim), rng.uniform(-0.1, 0.4)
    normal /= np.linalg.norm(normal)
    noisy = run.noise > 0 or bool(getattr(problem, "single", False))
    model = own_model(cube, noisy=noisy)
    best, y, recommended, at, reaches, rows = -math.inf, [], [], [], [], []
    while len(opt.trials) < run.budget:
        for trial in opt.ask(min(run.batch, run.budget - len(opt.trials))):
            side = float(normal @ (trial.unit - 0.5)) - level
            seen = problem.observe(trial.params)
            value = sign * float(problem.true(trial.params))
            if run.forbidden == "failures" and side > 0:
                opt.tell(trial, failed=True)
            else:
                opt.tell(
                    trial, seen.y, var=run.noise**2 if run.told and run.noise else None,
                    constraints=[side] if run.forbidden == "constraint" else None,
                )  # fmt: skip
            counts = math.isfinite(value) and (not run.forbidden or side <= 0)
            best = max(best, value) if counts else best
            y.append(sign * seen.y if counts else math.nan)
            recommended.append(math.nan if noisy else best)
            history, due = opt.history, [c for c in CHECKPOINTS if c <= len(y)]
            if not due or (at and due[-1] <= at[-1]) or not len(history) or not history.feasible.any():
                continue
            past = Seen.of(history, cube, noisy=noisy)
            gp = posterior_of(past, model)
            if len(past.y) > 2 and reach(levels(past, gp)) > 0:
                at.append(len(y))
                rows.append(packed(features(past, gp, HORIZONS)))
                reaches.append(reach(levels(past, gp)))
                if noisy:
                    recommended[-1] = sign * float(problem.true(opt.recommend()))
    if len(at) < 3:
        return None
    if noisy:
        recommended[-1] = sign * float(problem.true(opt.recommend()))
    meta = {
        "family": family, "source": KINDS[family].source, "problem": problem.name, "optimiser": run.optimiser,
        "number": number, "dim": cube.dim, "noise": run.noise, "noisy": noisy, "batch": run.batch,
        "forbidden": run.forbidden, "seconds": time.perf_counter() - began,
    }  # fmt: skip
    ahead = recommended[-1] - np.array(recommended)
    return {
        "meta": meta, "y": np.array(y, dtype=np.float32), "ahead": ahead.astype(np.float32), "at": np.array(at),
        "reach": np.array(reaches), "features": np.array(rows, dtype=np.float16),
    }  # fmt: skip


def packed(rows: Array) -> Array:
    """The features of the first horizon, then the gain of the last m trials for the others, which the rest of a row
    does not give."""
    return np.concatenate([rows[0], rows[1:, CURVE.index("last m")]])


def unpacked(row: Array, n: int, dim: int, horizons: Array) -> Array:
    """The features for any horizons, from a packed row of a checkpoint after n trials."""
    rows = np.tile(row[: len(NAMES)].astype(np.float64), (len(horizons), 1))
    known = np.concatenate([row[[CURVE.index("last m")]], row[len(NAMES) :]]).astype(np.float64)
    rows[:, CURVE.index("m/n")] = np.log10(horizons / n)
    rows[:, CURVE.index("m/d")] = np.log10(horizons / dim)
    rows[:, CURVE.index("since/m")] = rows[0, CURVE.index("since/m")] - np.log10(horizons / HORIZONS[0])
    rows[:, CURVE.index("last m")] = np.interp(np.log10(horizons), np.log10(HORIZONS), known)
    return rows


# ---------------------------------------------------------------- all runs


def write(path: Path, found: list[dict[str, Any]]) -> None:
    """All runs in one file: arrays one behind the other with the lengths of their parts."""
    content: dict[str, Any] = {"meta": json.dumps([run["meta"] for run in found])}
    for name in ("y", "ahead", "at", "reach", "features"):
        content[name] = np.concatenate([run[name] for run in found])
        content[f"{name}_lengths"] = np.array([len(run[name]) for run in found])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/outlook/records.npz"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--families", default=",".join(name for name, kind in KINDS.items() if not kind.aside))
    parser.add_argument("--optimisers", default=",".join(OPTIMISERS))
    parser.add_argument("--first", type=int, default=0, help="the number of the first run of each family")
    parser.add_argument("--runs", type=int, default=100_000, help="runs of each family at most")
    parser.add_argument("--grids", type=Path, help="write the grids of scikit-learn's models there and end")
    options = parser.parse_args()
    if options.grids:
        options.grids.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(options.grids, **{name: _grid(name) for name, _ in TASKS})
        return
    families, optimisers = options.families.split(","), tuple(options.optimisers.split(","))
    work = ((family, n) for n in range(options.first, options.first + options.runs) for family in families)
    found: list[dict[str, Any]] = []
    broken: dict[str, str] = {}
    until = time.monotonic() + 60.0 * options.minutes
    pool = ProcessPoolExecutor(options.jobs)
    running: dict[Any, tuple[str, int]] = {}
    over = False
    while running or not over:
        while not over and len(running) < 3 * options.jobs:
            task = next(work, None)
            over = task is None or time.monotonic() > until
            if task is not None and not over:
                running[pool.submit(record, *task, optimisers)] = task
        over = over or time.monotonic() > until
        done = wait(running, timeout=5.0, return_when=FIRST_COMPLETED).done if running else set()
        for future in done:
            task = running.pop(future)
            try:
                run = future.result()
            except Exception as error:  # a family that cannot run here is named at the end
                broken.setdefault(task[0], f"{type(error).__name__}: {error}")
                continue
            if run is not None:
                found.append(run)
        if over and time.monotonic() > until + 25.0:
            break
    write(options.out, found)
    counts = {f: sum(run["meta"]["family"] == f for run in found) for f in families}
    print(f"{len(found)} runs in {options.out}: {counts}")
    for family, why in broken.items():
        print(f"{family} could not run: {why}")
    pool.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    main()
