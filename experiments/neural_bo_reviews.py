"""NeuralBO, Fig. 4: retrieving a document like a hidden one, hierarchical F1 against evaluations, over 9045 real
reviews.

    python experiments/neural_bo_reviews.py --jobs 2 --out runs/neural_bo_reviews
        5 targets, 60 evaluations
    python experiments/neural_bo_reviews.py --jobs 16 --out runs/neural_bo_reviews --full
        10 targets, 200 evaluations

Every method scores all rows that were not yet asked and takes the best: what its acquisition becomes on a finite pool.
The GPs have the squared exponential kernel on the word counts with length-scale and noise by marginal likelihood, as
the paper's have; UCB's kappa is sqrt(0.1), the authors' constant for this task. TPE, which knows no features, searches
the row numbers, and may ask a row twice. Each seed hides another document; all methods begin with the same five random
rows. A method may have run for more hidden documents than another (--first-seed, --methods): two methods are compared
over the documents that both have, and all over as many evaluations as the shortest run has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from regretless_bench.claims import SAMPLES, chosen, experiment_options, keep_results, needed, stored
from regretless_bench.finding import Finding, Table
from regretless_bench.methods.dngo import BATCH, EPOCHS, HIDDEN, MOST_STEPS, RATE, integrated_regression
from regretless_bench.methods.small_nets import epoch_batches, fresh_net, train_with_adam
from regretless_bench.peers import PEERS
from regretless_bench.problems.reviews import Reviews
from regretless_bench.verdicts import Check, both_columns, checks_table, hardest, judged, not_run
from scipy.special import ndtr

from regretless.basics.streams import keyed_generator
from regretless.method import Recipe
from regretless.methods import METHODS
from regretless.models.tangent.ridge import log_evidence
from regretless.report.page import Band, Curve, curves_chart
from regretless.testing import Loop

OURS, PRINTED, INITIAL = "neural-bo", "neural-bo (paper)", 5
GPS, THERE = ("gp-ucb", "gp-ei", "gp-ts"), ("neural-greedy", "gp-ucb", "gp-ts", "gp-ei", "dngo", "rf-ei")
"""Methods with a GP, and what the paper compares with."""
LENGTHS, NOISES = np.geomspace(0.1, 4.0, 9), (1e-4, 1e-2, 1e-1, 1.0)
KAPPA, XI = 0.1**0.5, 0.01
QUICK, LENGTH = 60, 200
"""Evaluations of the quick size, and of the paper's runs."""
Scorer = Callable[[np.ndarray, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""Features and standardised values of the rows told, features of the others, generator -> scores of the others."""


def improvement(mean: np.ndarray, sd: np.ndarray, best: float) -> np.ndarray:
    """Expected improvement over best."""
    sd = np.maximum(sd, 1e-12)
    z = (mean - best - XI) / sd
    return sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi))


def gaussian_process(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd at Z of the GP with the likeliest length-scale and noise."""
    squares = (X**2).sum(1)
    apart = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0)
    tried = [
        (*log_evidence(np.exp(-apart / (2 * length**2)), y[:, None], noise), length, noise)
        for length in LENGTHS
        for noise in NOISES
    ]
    _, (variance,), length, noise = max(tried, key=lambda case: float(case[0][0]))
    cross = np.exp(-np.maximum((Z**2).sum(1)[:, None] + squares - 2 * Z @ X.T, 0) / (2 * length**2))
    half = np.linalg.solve(
        np.linalg.cholesky(np.exp(-apart / (2 * length**2)) + noise * np.eye(len(y))), np.column_stack([y, cross.T])
    )
    return half[:, 1:].T @ half[:, 0], np.sqrt(np.maximum(variance * (1 - (half[:, 1:] ** 2).sum(0)), 0))


def gp_ucb(X: np.ndarray, y: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean, sd = gaussian_process(X, y, Z)
    return mean + KAPPA * sd


def gp_ei(X: np.ndarray, y: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean, sd = gaussian_process(X, y, Z)
    return improvement(mean, sd, float(y.max()))


def gp_ts(X: np.ndarray, y: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Independent draws per row, as the authors' code takes them."""
    mean, sd = gaussian_process(X, y, Z)
    return mean + sd * rng.standard_normal(len(Z))


def rf_ei(X: np.ndarray, y: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(100, max_features=1.0, random_state=int(rng.integers(2**31))).fit(X, y)
    rows = Z.astype(np.float32)
    values = np.stack([tree.tree_.predict(rows)[:, 0] for tree in forest.estimators_])
    return improvement(values.mean(0), values.std(0), float(forest.predict(X).max()))


def dngo(X: np.ndarray, y: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    net = train_with_adam(
        fresh_net(rng, X.shape[1], HIDDEN, "tanh"),
        X,
        y,
        epoch_batches(rng, len(y), BATCH, EPOCHS)[:MOST_STEPS],
        rate=RATE,
    )
    w, C = integrated_regression(net.last_hidden(X), y)
    phi = net.last_hidden(Z)
    return improvement(phi @ w, np.sqrt(np.maximum(((phi @ C) * phi).sum(1), 0)), float(y.max()))


def neural_greedy(X: np.ndarray, y: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    targets = (y + 0.1 * rng.standard_normal(len(y))) / 0.1
    net = train_with_adam(
        fresh_net(rng, X.shape[1], (100,), "relu"),
        X,
        targets,
        epoch_batches(rng, len(y), 32, 300)[:1000],
        rate=1e-2,
        decay=0.01,
    )
    return net.outputs(Z)


def random(X: np.ndarray, y: np.ndarray, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.random(len(Z))


NAMED = {"all methods of the paper": THERE, "methods with a GP": GPS}
GOOD = ("optuna-tpe", "random", *GPS)
"""Who stands for good rivals: the GPs with fitted hyper-parameters, and methods that see no features."""
QUOTES = {
    "all methods of the paper": "our method shows a better performance for the Amazon product review dataset in "
    "comparison with other approaches",
    "methods with a GP": "NeuralBO performs comparably and much better than GP-based baselines",
}
SCORERS: dict[str, Scorer] = {
    "random": random,
    "gp-ucb": gp_ucb,
    "gp-ei": gp_ei,
    "gp-ts": gp_ts,
    "rf-ei": rf_ei,
    "dngo": dngo,
    "neural-greedy": neural_greedy,
}


ASKED = (OURS, PRINTED, "optuna-tpe")
"""Methods of the library, or a peer, that are asked for row numbers."""


def asked(name: str, problem: Reviews) -> Recipe:
    """The recipe behind a label of ASKED: NeuralBO reads the pool's features, TPE the row numbers alone."""
    if name == "optuna-tpe":
        return PEERS[name]
    pool = {"candidates": problem.features, "n_candidates": len(problem.scores)}
    return METHODS["neural-bo-printed" if name == PRINTED else "neural-bo"](**pool)


def one_run(name: str, seed: int, budget: int) -> dict[str, object]:
    """The scores of the documents asked, in order, and the seconds it took to choose them."""
    begin = time.process_time()
    return {"scores": _chosen(name, seed, budget), "seconds": time.process_time() - begin}


def _chosen(name: str, seed: int, budget: int) -> list[float]:
    problem = Reviews(seed=seed)
    axis = problem.space.cube().axes[0]
    start = keyed_generator(seed, 0, stream=91).permutation(len(problem.scores))[:INITIAL]
    rows = list(start)
    if name in ASKED:
        cube = problem.space.cube()
        loop = Loop(asked(name, problem).build(cube, seed=seed, budget=budget))
        loop.tell(axis.centre(start)[:, None], problem.scores[start])
        while len(rows) < budget:
            x = loop.ask()
            rows.append(int(axis.index(x[:, 0])[0]))
            loop.tell(x, problem.scores[rows[-1:]])
        return problem.scores[rows].tolist()
    left = np.ones(len(problem.scores), dtype=bool)
    left[rows] = False
    while len(rows) < budget:
        y = problem.scores[rows]
        if np.ptp(y) == 0:
            scores = keyed_generator(seed, len(rows), stream=92).random(int(left.sum()))
        else:
            rng = keyed_generator(seed, len(rows), stream=92)
            scores = SCORERS[name](problem.features[rows], (y - y.mean()) / y.std(), problem.features[left], rng)
        rows.append(int(np.flatnonzero(left)[np.argmax(scores)]))
        left[rows[-1]] = False
    return problem.scores[rows].tolist()


def finding(curves: dict[str, np.ndarray], seconds: dict[str, float]) -> Finding:
    """Is the mean over the budget of the best F1 so far the highest of the paper's methods, and higher than with a
    GP?"""
    evaluations = min(best.shape[1] for best in curves.values())
    curves = {method: best[:, :evaluations] for method, best in curves.items()}
    losses = {method: -best.mean(axis=1) for method, best in curves.items()}
    targets = [len(of) for of in losses.values()]
    what = "loss (minus the mean of the best F1 so far)"

    def first(label: str, rivals: Mapping[str, Sequence[str]] = NAMED) -> list[Check]:
        checks = []
        for who, of in rivals.items():
            ran = [m for m in of if m in losses and m != label]
            both = {m: min(len(losses[label]), len(losses[m])) for m in ran} if label in losses else {}
            pairs = {m: (losses[label][:n], losses[m][:n]) for m, n in both.items()}
            quote = QUOTES.get(who, QUOTES["all methods of the paper"])
            if pairs:
                checks.append(hardest(f"among {who}: {what} of {label}", pairs, quote))
        short = checks and evaluations < LENGTH
        return checks + [not_run(f"{LENGTH} evaluations", f"these runs have {evaluations}", checks[0].quote)] * bool(
            short
        )

    checks, ours, good = first(PRINTED), first(OURS), first(PRINTED, {"good methods": GOOD})
    verdict, sentence = judged(checks, min(targets), good)
    n = np.arange(1, next(iter(curves.values())).shape[1] + 1)
    lines = [
        Curve(
            method,
            {SAMPLES: n},
            {"best hierarchical F1": Band(np.median(best, axis=0), *np.quantile(best, (0.25, 0.75), axis=0))},
        )
        for method, best in curves.items()
    ]
    columns = ["method", "targets", "mean over the budget", "at the end", "CPU ms per evaluation"]
    rows = [
        [m, len(b), float(b.mean()), float(b[:, -1].mean()), float(round(1000 * seconds[m] / b.shape[1], 1))]
        for m, b in curves.items()
    ]
    return Finding(
        "neural-bo",
        "fig4",
        "document retrieval",
        "NeuralBO finds a document like the hidden one sooner than the others, and much sooner than methods with a GP.",
        verdict,
        sentence,
        settings={
            "size": "full" if evaluations >= LENGTH else "between" if evaluations > QUICK else "quick",
            "targets": f"{min(targets)} to {max(targets)}" if min(targets) < max(targets) else targets[0],
            "evaluations": evaluations,
            "initial documents": INITIAL,
            "documents": "9045 of the 37738 the paper has",
        },
        charts=[("best F1 so far: median, quartiles", curves_chart(lines))],
        tables=[
            *both_columns(checks, good),
            checks_table(ours, "beside the claim: the same checks of our default"),
            Table("best F1 so far", columns, rows, dict.fromkeys(columns[2:4], "max")),
        ],
        seconds=sum(s * len(curves[m]) for m, s in seconds.items()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", type=int)
    parser.add_argument("--methods", default=",".join([*ASKED, *SCORERS]))
    parser.add_argument("--first-seed", type=int, default=0)
    options = experiment_options(parser, "runs/neural_bo_reviews", data="amazon_reviews_hierarchical")
    budget = options.budget or (LENGTH if options.full else QUICK)
    labels = chosen(options.methods, [*ASKED, *SCORERS])
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    files = {(m, s): options.out / f"{m}-s{s}-n{budget}.json" for s in seeds for m in labels}
    if not options.report:
        with ProcessPoolExecutor(options.jobs) as pool:
            futures = {pool.submit(one_run, *key, budget): path for key, path in files.items() if not path.exists()}
            keep_results(futures, "run")
    found: dict[str, list[list[float]]] = {}
    took: dict[str, list[float]] = {}
    for (method, _), path in files.items():
        for run in stored([path]):
            found.setdefault(method, []).append(run["scores"])
            took.setdefault(method, []).append(run["seconds"])
    needed(list(found), options)
    marks = [n for n in (10, 25, 50, 100, 200) if n <= budget]
    print("| method | runs | " + " | ".join(f"mean best F1 at {n}" for n in marks) + " | mean evaluations to F1 = 1 |")
    print("| --- | --- |" + " --- |" * (len(marks) + 1))
    curves = {m: np.maximum.accumulate(np.array(runs), axis=1) for m, runs in found.items()}
    for method, best in sorted(curves.items(), key=lambda item: -item[1].mean()):
        when = np.where(best[:, -1] >= 1, np.argmax(best >= 1, axis=1) + 1, budget)
        cells = " | ".join(f"{best[:, n - 1].mean():.3f} +- {best[:, n - 1].std():.3f}" for n in marks)
        print(f"| {method} | {len(best)} | {cells} | {when.mean():.0f} |")
    result = finding(curves, {m: float(np.mean(s)) for m, s in took.items()})
    result.write(options.out)
    print(f"{result.verdict}: {result.sentence}")


if __name__ == "__main__":
    main()
