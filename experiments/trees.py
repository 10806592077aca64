"""Conditional spaces: one model over the tree beside TPE, random search and one model per branch (docs/lab/spaces.md).

    python experiments/trees.py --seeds 20 --jobs 16 --out runs/trees          # all tasks and searches
    python experiments/trees.py --tasks bowls,deep --searches "sampler;tpe" --seeds 4

Each search has 60 evaluations. `sampler` is `rg.Sampler`, which learns the tree from the trials; `space` is
`rg.minimize` with the tree given; `branches` is one Gaussian process per branch, the branch chosen by its largest
expected improvement over the best value of all.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
import optuna
from regretless_bench.cells import run_cells

import regretless as rg
from regretless.models.gp.acquisition import log_expected_improvement
from regretless.optimizer import Optimizer

TRIALS = 60
"""Evaluations of a run."""

Setting: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """A space that is a tree, the value of a setting, and the best value there is (NaN: not known)."""

    space: dict[str, Any]
    value: Callable[[Setting], float]
    best: float = 0.0


# ---------------------------------------------------------------- tasks


def bowls() -> Task:
    """Three branches of three floats each, with a bowl each, whose best values are 0, .04 and .08. Its sizes
    were set so that random search and TPE have the values of the review that asked for trees (.069 and .026)."""
    centres = {"a": (0.31, 0.72, 0.44), "b": (0.63, 0.22, 0.81), "c": (0.17, 0.55, 0.38)}
    shapes = {"a": (1.6, 0.0), "b": (1.6, 0.04), "c": (1.6, 0.08)}
    space: dict[str, Any] = {"kind": rg.Choice(list(centres))}
    for branch in centres:
        space |= {f"{branch}{i}": rg.Float(0.0, 1.0, when={"kind": branch}) for i in range(3)}

    def value(s: Setting) -> float:
        branch = s["kind"]
        steepness, offset = shapes[branch]
        return offset + steepness * sum((s[f"{branch}{i}"] - c) ** 2 for i, c in enumerate(centres[branch]))

    return Task(space, value)


def mixed(steepness: float = 1.0) -> Task:
    """Three branches with a log range, a whole number and a float each; their best values are .02, .06 and 0."""
    offsets = {"a": 0.02, "b": 0.06, "c": 0.0}
    space: dict[str, Any] = {"kind": rg.Choice(list(offsets))}
    for branch in offsets:
        space |= {
            f"{branch}_rate": rg.Float(1e-4, 1e1, log=True, when={"kind": branch}),
            f"{branch}_size": rg.Int(1, 30, when={"kind": branch}),
            f"{branch}_share": rg.Float(-2.0, 3.0, when={"kind": branch}),
        }
    places = {"a": (-1.3, 21, 1.1), "b": (-2.9, 6, -0.7), "c": (0.2, 13, 2.2)}

    def value(s: Setting) -> float:
        branch = s["kind"]
        rate, size, share = places[branch]
        away = (math.log10(s[f"{branch}_rate"]) - rate) / 5, (s[f"{branch}_size"] - size) / 30
        bowl = away[0] ** 2 + away[1] ** 2 + ((s[f"{branch}_share"] - share) / 5) ** 2
        return offsets[branch] + steepness * bowl

    return Task(space, value)


def deep() -> Task:
    """Four levels of choices, 14 parameters; the best branch (0) is four choices deep, the second best (.1) two."""
    space: dict[str, Any] = {
        "model": rg.Choice(["linear", "net", "trees"]),
        "l2": rg.Float(1e-5, 1e2, log=True, when={"model": "linear"}),
        "ratio": rg.Float(0.0, 1.0, when={"model": "linear"}),
        "depth": rg.Int(1, 20, when={"model": "trees"}),
        "rate": rg.Float(1e-3, 1.0, log=True, when={"model": "trees"}),
        "width": rg.Int(4, 512, log=True, when={"model": "net"}),
        "optimiser": rg.Choice(["adam", "sgd"], when={"model": "net"}),
        "adam_rate": rg.Float(1e-5, 1e-1, log=True, when={"optimiser": "adam"}),
        "sgd_rate": rg.Float(1e-4, 1.0, log=True, when={"optimiser": "sgd"}),
        "schedule": rg.Choice(["constant", "cosine"], when={"optimiser": "sgd"}),
        "warmup": rg.Float(0.0, 0.5, when={"schedule": "cosine"}),
        "restarts": rg.Choice([False, True], when={"schedule": "cosine"}),
        "period": rg.Int(1, 40, when={"restarts": [True]}),
        "factor": rg.Float(1.0, 4.0, when={"restarts": [True]}),
    }

    def value(s: Setting) -> float:
        if s["model"] == "linear":
            return 0.18 + 0.02 * (math.log10(s["l2"]) + 1.4) ** 2 + 0.1 * (s["ratio"] - 0.3) ** 2
        if s["model"] == "trees":
            return 0.1 + 0.001 * (s["depth"] - 7) ** 2 + 0.04 * (math.log10(s["rate"]) + 1.2) ** 2
        found = 0.02 * (math.log2(s["width"]) - 6.6) ** 2 / 4
        if s["optimiser"] == "adam":
            return 0.12 + found + 0.03 * (math.log10(s["adam_rate"]) + 3.1) ** 2
        found += 0.02 * (math.log10(s["sgd_rate"]) + 1.2) ** 2
        if s["schedule"] == "constant":
            return 0.11 + found
        found += 0.2 * (s["warmup"] - 0.12) ** 2
        if not s["restarts"]:
            return 0.06 + found
        return found + 0.0002 * (s["period"] - 14) ** 2 + 0.02 * (s["factor"] - 2.1) ** 2

    return Task(space, value)


def pipeline() -> Task:
    """With or without PCA, then an SVM, nearest neighbours or logistic regression on digits: the error on others."""
    space: dict[str, Any] = {
        "reduce": rg.Choice([False, True]),
        "components": rg.Int(5, 60, when={"reduce": [True]}),
        "model": rg.Choice(["svm", "neighbours", "logistic"]),
        "kernel": rg.Choice(["rbf", "poly", "linear"], when={"model": "svm"}),
        "C": rg.Float(1e-3, 1e3, log=True, when={"model": "svm"}),
        "gamma": rg.Float(1e-5, 1e1, log=True, when={"kernel": ["rbf", "poly"]}),
        "degree": rg.Int(2, 5, when={"kernel": "poly"}),
        "k": rg.Int(1, 40, when={"model": "neighbours"}),
        "p": rg.Float(1.0, 4.0, when={"model": "neighbours"}),
        "penalty": rg.Float(1e-4, 1e3, log=True, when={"model": "logistic"}),
    }
    return Task(space, _digits_error, math.nan)


def _digits_error(s: Setting) -> float:
    return _error(_reduced(s, classifier(s)), *_digits(7), 400)


@functools.cache
def _digits(seed: int) -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))[:1300]
    return X[order] / 16.0, y[order]


def classifier(s: Setting, rounds: int = -1) -> Any:
    """The model of a setting, without what stands before it; an SVM is given up after so many rounds."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    if s["model"] == "svm":
        options = {"gamma": s.get("gamma", "scale"), "degree": s.get("degree", 3), "max_iter": rounds}
        return SVC(C=s["C"], kernel=s["kernel"], **options)
    if s["model"] == "neighbours":
        return KNeighborsClassifier(s["k"], p=s["p"])
    if s["model"] == "logistic":
        return LogisticRegression(C=1.0 / s["penalty"], max_iter=60)
    if s["model"] == "bayes":
        return GaussianNB(var_smoothing=s["smoothing"])
    if s["model"] == "discriminant":
        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=s["shrinkage"])
    return RandomForestClassifier(20, max_depth=s["depth"], max_features=s["features"], random_state=0)


def _reduced(s: Setting, model: Any) -> Any:
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline

    return make_pipeline(PCA(s["components"], random_state=0), model) if s["reduce"] else model


def _scaled(s: Setting, model: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler

    if s["scale"] == "none":
        return model
    if s["scale"] == "quantile":
        kind = "normal" if s["normal"] else "uniform"
        return make_pipeline(QuantileTransformer(n_quantiles=s["quantiles"], output_distribution=kind), model)
    return make_pipeline(StandardScaler() if s["scale"] == "standard" else MinMaxScaler(), model)


def _error(model: Any, X: Any, y: Any, train: int) -> float:
    """The share of errors on the rows after the first `train`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return 1.0 - float(model.fit(X[:train], y[:train]).score(X[train:], y[train:]))


def fewer() -> Task:
    """The pipeline's space on other digits: 200 of them, the error on 600 others."""
    return Task(pipeline().space, _fewer_error, math.nan)


def _fewer_error(s: Setting) -> float:
    X, y = _digits(11)
    return _error(_reduced(s, classifier(s)), X[:800], y[:800], 200)


SCALES: dict[str, Any] = {
    "scale": rg.Choice(["none", "standard", "range", "quantile"]),
    "quantiles": rg.Int(5, 200, log=True, when={"scale": "quantile"}),
    "normal": rg.Choice([False, True], when={"scale": "quantile"}),
}


def cancer() -> Task:
    """How columns are scaled, then one of four models on breast cancers: the error in three folds."""
    before = ("reduce", "components", "model")
    space = SCALES | {"model": rg.Choice(["svm", "neighbours", "logistic", "forest"])}
    space |= {name: p for name, p in pipeline().space.items() if name not in before}
    space |= {"depth": rg.Int(1, 15, when={"model": "forest"}), "features": rg.Float(0.05, 1, when={"model": "forest"})}
    return Task(space, _cancer_error, math.nan)


def _cancer_error(s: Setting) -> float:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return _folds(_scaled(s, classifier(s, 5000)), X, y)


def _folds(model: Any, X: Any, y: Any, scoring: str = "accuracy", best: float = 1.0) -> float:
    from sklearn.model_selection import cross_val_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return best - float(np.mean(cross_val_score(model, X, y, cv=3, scoring=scoring)))


def loss() -> Task:
    """With or without PCA, then one of four models with probabilities on other digits: the logarithmic loss."""
    space = {
        "reduce": rg.Choice([False, True]),
        "components": rg.Int(5, 60, when={"reduce": [True]}),
        "model": rg.Choice(["neighbours", "logistic", "bayes", "discriminant"]),
        "k": rg.Int(1, 40, when={"model": "neighbours"}),
        "p": rg.Float(1.0, 4.0, when={"model": "neighbours"}),
        "penalty": rg.Float(1e-4, 1e3, log=True, when={"model": "logistic"}),
        "smoothing": rg.Float(1e-9, 1.0, log=True, when={"model": "bayes"}),
        "shrinkage": rg.Float(0.0, 1.0, when={"model": "discriminant"}),
    }
    return Task(space, _log_loss, math.nan)


def _log_loss(s: Setting) -> float:
    from sklearn.metrics import log_loss

    X, y = _digits(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _reduced(s, classifier(s)).fit(X[:300], y[:300])
        return float(log_loss(y[300:], model.predict_proba(X[300:])))


def diabetes() -> Task:
    """How columns are scaled, then one of four regressions: the mean absolute error in three folds."""
    space = SCALES | {
        "model": rg.Choice(["ridge", "svr", "neighbours", "boosting"]),
        "penalty": rg.Float(1e-4, 1e4, log=True, when={"model": "ridge"}),
        "kernel": rg.Choice(["rbf", "poly", "linear"], when={"model": "svr"}),
        "C": rg.Float(1e-2, 1e3, log=True, when={"model": "svr"}),
        "epsilon": rg.Float(1e-2, 1e2, log=True, when={"model": "svr"}),
        "gamma": rg.Float(1e-4, 1e1, log=True, when={"kernel": ["rbf", "poly"]}),
        "k": rg.Int(1, 60, when={"model": "neighbours"}),
        "p": rg.Float(1.0, 4.0, when={"model": "neighbours"}),
        "rate": rg.Float(1e-3, 1.0, log=True, when={"model": "boosting"}),
        "depth": rg.Int(1, 5, when={"model": "boosting"}),
    }
    return Task(space, _regression_error, math.nan)


def _regression_error(s: Setting) -> float:
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.svm import SVR

    if s["model"] == "ridge":
        model: Any = Ridge(s["penalty"])
    elif s["model"] == "svr":
        model = SVR(C=s["C"], epsilon=s["epsilon"], kernel=s["kernel"], gamma=s.get("gamma", "scale"), max_iter=20_000)
    elif s["model"] == "neighbours":
        model = KNeighborsRegressor(s["k"], p=s["p"])
    else:
        model = GradientBoostingRegressor(
            learning_rate=s["rate"], max_depth=s["depth"], n_estimators=30, random_state=0
        )
    X, y = load_diabetes(return_X_y=True)
    return _folds(_scaled(s, model), X, y, "neg_mean_absolute_error", 0.0)


def flat() -> Task:
    """No tree: two choices, two floats, a log range and a whole number, all of which always exist."""
    space: dict[str, Any] = {
        "act": rg.Choice(["relu", "tanh", "gelu"]),
        "norm": rg.Choice([False, True]),
        "rate": rg.Float(1e-5, 1e-1, log=True),
        "layers": rg.Int(1, 9),
        "drop": rg.Float(0.0, 0.6),
        "momentum": rg.Float(0.5, 0.99),
    }

    def value(s: Setting) -> float:
        base = {"relu": 0.03, "tanh": 0.0, "gelu": 0.02}[s["act"]] + (0.02 if s["norm"] else 0.0)
        away = 0.03 * (math.log10(s["rate"]) + 2.7) ** 2 + 0.004 * (s["layers"] - 4) ** 2
        return base + away + 0.6 * (s["drop"] - 0.17) ** 2 + (s["momentum"] - 0.91) ** 2

    return Task(space, value)


def steep() -> Task:
    """The same with steeper bowls: few settings of the best branch beat the second best."""
    return mixed(3.5)


TASKS = {task.__name__: task for task in (bowls, mixed, steep, deep, pipeline, flat, fewer, loss, diabetes, cancer)}


# ---------------------------------------------------------------- searches


def exists(parameter: Any, setting: Setting) -> bool:
    return all(parent in setting and setting[parent] in values for parent, values in parameter.when)


def suggested(space: Mapping[str, Any], trial: optuna.Trial) -> dict[str, Any]:
    """The setting of a trial, which suggests what exists and nothing else."""
    setting: dict[str, Any] = {}
    for name, p in space.items():
        if not exists(p, setting):
            continue
        if isinstance(p, rg.Choice):
            setting[name] = trial.suggest_categorical(name, list(p.labels))
        elif isinstance(p, rg.Int):
            setting[name] = trial.suggest_int(name, p.low, p.high, log=p.log)
        else:
            setting[name] = trial.suggest_float(name, p.low, p.high, log=p.log)
    return setting


def through_optuna(task: Task, sampler: Any) -> list[float]:
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: task.value(suggested(task.space, trial)), n_trials=TRIALS)
    return [t.value for t in study.trials]


def without_margin(search: Callable[[Task, int], list[float]], task: Task, seed: int) -> list[float]:
    """A search of ours in which every ask goes for the largest expected improvement."""
    with mock.patch("regretless.auto.algorithm.TREE_MARGIN", 0.0):
        return search(task, seed)


def by_sampler(task: Task, seed: int) -> list[float]:
    return through_optuna(task, rg.Sampler(seed=seed))


def with_the_space(task: Task, seed: int) -> list[float]:
    found = rg.minimize(lambda **s: task.value(s), rg.Space(task.space), trials=TRIALS, seed=seed, progress=False)
    return [t.value for t in found.trials]


def leaves(space: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The branches of a tree: the values of the choices that others depend on, as far as they exist."""
    parents = [name for name in space if any(name == parent for p in space.values() for parent, _ in p.when)]
    found: list[dict[str, Any]] = [{}]
    for name in parents:
        longer = []
        for branch in found:
            values = space[name].labels if exists(space[name], branch) else ()
            longer += [{**branch, name: value} for value in values] or [branch]
        found = longer
    return found


def one_model_per_branch(task: Task, seed: int) -> list[float]:
    """Each branch has a flat space and a gp-ei of its own, which begins with as many points as it has parameters and
    one more, but not more than half of the evaluations for all branches together. Then the branch with the largest
    expected improvement over the best value of all is asked."""
    branches, searches = leaves(task.space), []
    for number, branch in enumerate(branches):
        names = [n for n, p in task.space.items() if n not in branch and exists(p, branch)]
        space = {n: replace(task.space[n], when=()) for n in names}
        searches.append(Optimizer(space, method="gp-ei", seed=1000 * seed + number) if space else None)
    share = TRIALS // 2 // len(branches)
    first = [min(share, len(s.space) + 1) if s is not None else 1 for s in searches]
    values: list[float] = []
    told = [0] * len(branches)
    for _ in range(TRIALS):
        fresh = [i for i, n in enumerate(told) if n < first[i]]
        at = min(fresh, key=lambda i: told[i]) if fresh else _most_promising(searches, told, min(values))
        search = searches[at]
        trial = None if search is None else search.ask()
        value = task.value({**branches[at], **({} if trial is None else trial.params)})
        if search is not None and trial is not None:
            search.tell(trial, value)
        values.append(value)
        told[at] += 1
    return values


def _most_promising(searches: list[Optimizer | None], told: list[int], best: float) -> int:
    """The branch whose next proposal has the largest expected improvement over the best value of all."""
    gains = []
    for search in searches:
        if search is None:
            gains.append(-math.inf)
            continue
        point = search.propose(len(search.trials))
        gp = search.method._posterior()  # type: ignore[attr-defined]
        gain = log_expected_improvement(gp, (-best - gp.offset) / gp.scale).value(point[None])
        gains.append(float(gain[0]) + math.log(gp.scale))
    return int(np.argmax(gains))


TPE = optuna.samplers.TPESampler
SEARCHES: dict[str, Callable[[Task, int], list[float]]] = {
    "random": lambda task, seed: through_optuna(task, optuna.samplers.RandomSampler(seed=seed)),
    "tpe": lambda task, seed: through_optuna(task, TPE(seed=seed)),
    "group": lambda task, seed: through_optuna(task, TPE(seed=seed, multivariate=True, group=True)),
    "sampler": by_sampler,
    "space": with_the_space,
    "sampler, no margin": functools.partial(without_margin, by_sampler),
    "space, no margin": functools.partial(without_margin, with_the_space),
    "branches": one_model_per_branch,
}


def run(task: str, search: str, seed: int) -> list[float]:
    """The best value after each evaluation."""
    values = SEARCHES[search](TASKS[task](), seed)
    return [float(v) for v in np.minimum.accumulate(values)]


def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")


def table(results: list[tuple[Any, Any]]) -> str:
    lines = ["| task | search | seeds | median | quartiles | worst |", "| --- | --- | --- | --- | --- | --- |"]
    for task in TASKS:
        for search in SEARCHES:
            ends = [curve[-1] for (t, s, _), curve in results if (t, s) == (task, search)]
            if ends:
                low, middle, high = np.quantile(ends, (0.25, 0.5, 0.75))
                cells = f"{middle:.4f} | {low:.4f} to {high:.4f} | {max(ends):.4f}"
                lines.append(f"| {task} | {search} | {len(ends)} | {cells} |")
    return "\n".join(lines)


def command(
    text: str | None,
    run: Callable[[str, str, int], list[float]],
    table: Callable[[list[tuple[Any, Any]]], str],
    *,
    tasks: Iterable[str],
    kind: str,
    names: Iterable[str],
    seeds: int,
) -> None:
    """The command line of an experiment that runs every name of a kind (searches, ideas) on every task and seed."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(tasks))
    parser.add_argument(f"--{kind}", dest="names", default=";".join(names), help="names, separated by ;")
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    script = Path(sys.argv[0]).stem
    parser.add_argument("--out", type=Path, default=Path("runs") / script)
    options = parser.parse_args()
    all_seeds = range(options.first, options.first + options.seeds)
    cells = [(t, n, s) for s in all_seeds for t in options.tasks.split(",") for n in options.names.split(";")]
    print(table(run_cells(run, cells, options.out / f"{script}.jsonl", jobs=options.jobs, initializer=quiet)))


if __name__ == "__main__":
    command(__doc__, run, table, tasks=TASKS, kind="searches", names=SEARCHES, seeds=20)
