"""What each method's idea is worth: the method with its idea on and off, paired by function and seed.

    python experiments/idea_worth.py --jobs 16 --out runs/idea_worth              all studies
    python experiments/idea_worth.py --only ms-ucb neural-bo --jobs 16            some of them
    python experiments/idea_worth.py --choose --jobs 16 --out runs/idea_choose    what constants were chosen on
    python experiments/idea_worth.py --out runs/idea_worth --report               the tables from the results there are
    python experiments/idea_worth.py --out docs/results/idea-worth --report       those of the pages

Optima are shifted away from the centre. A result is log10 of the gap between the best point evaluated and the optimum
(its noiseless value); GP-ThreDS and GO-UCB have the regret summed over their samples instead. A table gives the mean
difference "off less on" in decades, over functions, with the standard error over functions: positive means that the
idea pays. Constants were chosen on the functions of `--choose` and seeds from 100 on; results are of other functions
and seeds from 0 on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.methods import RIVALS
from regretless_bench.methods.tangent_region.default import TangentRegion
from regretless_bench.peers import PEERS
from regretless_bench.problems import make_problem, mechanistic

import regretless as rg
from regretless.classics import CLASSICS
from regretless.method import Recipe
from regretless.methods import METHODS
from regretless.models.gp.surrogate import Surrogate
from regretless.space.parameters import Array
from regretless.testing import Loop

SHIFT = 0.6  # optima lie within this share of the half-width around the centre, as in the other studies
LEAST_GAP = 1e-8  # gaps below it count as it
NET_NOISE = 0.05  # the noise of the net methods' functions, as a share of the function's own deviation


# ---------------------------------------------------------------- functions


def griewank(Z: Array) -> Array:
    roots = np.sqrt(np.arange(1, Z.shape[1] + 1))
    return 1 + (Z**2).sum(1) / 4000 - np.cos(Z / roots).prod(1)


def alpine(Z: Array) -> Array:
    return np.abs(Z * np.sin(Z) + 0.1 * Z).sum(1)


def zakharov(Z: Array) -> Array:
    line = (0.5 * np.arange(1, Z.shape[1] + 1) * Z).sum(1)
    return (Z**2).sum(1) + line**2 + line**4


def salomon(Z: Array) -> Array:
    r = np.sqrt((Z**2).sum(1))
    return 1 - np.cos(2 * np.pi * r) + 0.1 * r


def powers(Z: Array) -> Array:
    return (np.abs(Z) ** (2 + 4 * np.linspace(0, 1, Z.shape[1]))).sum(1)


def turned_ellipsoid(Z: Array) -> Array:
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((Z.shape[1],) * 2))[0]
    return ((Z @ Q) ** 2 * 10 ** np.linspace(0, 3, Z.shape[1])).sum(1)


def three_directions(Z: Array) -> Array:
    """Ackley's function of three random directions: a net's first layer can learn them."""
    A = np.linalg.qr(np.random.default_rng(1).standard_normal((Z.shape[1], 3)))[0]
    U = Z @ A
    bowl = -20 * np.exp(-0.2 * np.sqrt((U**2).mean(1)))
    return bowl - np.exp(np.cos(2 * np.pi * U).mean(1)) + 20 + math.e


def stretched(Z: Array) -> Array:
    return (Z**2 * 10 ** np.linspace(0, 2, Z.shape[1])).sum(1)


def schwefel222(Z: Array) -> Array:
    return np.abs(Z).sum(1) + np.minimum(np.abs(Z), 3).prod(1)


def turned(Z: Array, key: int) -> Array:
    return Z @ np.linalg.qr(np.random.default_rng(key).standard_normal((Z.shape[1],) * 2))[0]


def ridge(Z: Array) -> Array:
    U = turned(Z, 5)
    return np.abs(U[:, 0]) * 10 + np.sqrt((U[:, 1:] ** 2).sum(1))


def cigar(Z: Array) -> Array:
    U = turned(Z, 6) ** 2
    return U[:, 0] + 100 * U[:, 1:4].sum(1) + 10 * U[:, 4:].sum(1)


def sparse(Z: Array) -> Array:
    return 4 * Z[:, 0] ** 2 + 2 * np.abs(Z[:, 1]) + (1 - np.cos(3 * Z[:, 2])) + Z[:, 2] ** 2


def schaffer(Z: Array) -> Array:
    r = np.sqrt(Z[:, :-1] ** 2 + Z[:, 1:] ** 2)
    return (np.sqrt(r) * (1 + np.sin(10 * r**0.2) ** 2)).mean(1) ** 2


def peaks(Z: Array) -> Array:
    rng = np.random.default_rng(11)
    centres, heights = rng.uniform(-4, 4, (20, Z.shape[1])), np.r_[10, np.linspace(2, 8, 19)]
    narrow = rng.uniform(0.02, 0.2, 20)
    centres[0], narrow[0] = 0, 0.08
    return 10 - (heights * np.exp(-narrow * ((Z[:, None, :] - centres) ** 2).sum(2))).max(1)


def wavy(Z: Array) -> Array:
    U = turned(Z, 7)
    return (U**2 + 1.5 * (1 - np.cos(2 * U))).sum(1)


def product(Z: Array) -> Array:
    return 1 - np.exp(-0.15 * (Z**2).sum(1)) * np.cos(Z).prod(1)


def bent_valley(Z: Array) -> Array:
    U = turned(Z, 8)
    return ((U[:, 1:] - 0.3 * U[:, :-1] ** 2) ** 2).sum(1) * 5 + (U**2).sum(1) * 0.3


def quartic(Z: Array) -> Array:
    return (np.arange(1, Z.shape[1] + 1) * Z**4).sum(1)


def two_directions(Z: Array) -> Array:
    U = Z @ np.linalg.qr(np.random.default_rng(9).standard_normal((Z.shape[1], 2)))[0]
    return (U**2 + 2 * (1 - np.cos(2 * U))).sum(1)


OWN: dict[str, tuple[Callable[[Array], Array], float]] = {
    "griewank": (griewank, 60.0),
    "alpine": (alpine, 10.0),
    "zakharov": (zakharov, 5.0),
    "salomon": (salomon, 10.0),
    "powers": (powers, 1.0),
    "turned-ellipsoid": (turned_ellipsoid, 5.0),
    "three-directions": (three_directions, 4.0),
    "stretched": (stretched, 5.0),
    "schwefel222": (schwefel222, 10.0),
    "ridge": (ridge, 5.0),
    "cigar": (cigar, 5.0),
    "sparse": (sparse, 4.0),
    "schaffer": (schaffer, 50.0),
    "peaks": (peaks, 5.0),
    "wavy": (wavy, 5.0),
    "product": (product, 3.0),
    "bent-valley": (bent_valley, 4.0),
    "quartic": (quartic, 3.0),
    "two-directions": (two_directions, 5.0),
}
"""Functions with the minimum 0 at the origin, and the half-width of their boxes."""


@dataclass(frozen=True)
class Task:
    """A function of the unit cube to be minimised: its true values, its optimum and the noise of what is told."""

    dim: int
    true: Callable[[Array], Array]
    optimum: float
    noise_sd: float


def task(name: str, options: dict[str, Any], seed: int, noise_share: float) -> Task:
    """The named function, its optimum moved by the seed; `noise_share` of its own deviation is the noise."""
    if name in OWN:
        f, half = OWN[name]
        dim = int(options["dim"])
        key = zlib.crc32(name.encode())
        where = np.random.default_rng([seed, key]).uniform(-SHIFT, SHIFT, dim) * half
        made = Task(dim, lambda U: f((2 * U - 1) * half - where), 0.0, 0.0)
    else:
        problem = make_problem(name, seed=seed, **options)
        made = Task(
            len(problem.space), lambda U: -problem.sign * problem.true_unit(U), -problem.sign * problem.optimum, 0.0
        )
    sd = float(np.std(made.true(np.random.default_rng(0).random((2000, made.dim))))) if noise_share else 0.0
    return Task(made.dim, made.true, made.optimum, noise_share * sd)


# ---------------------------------------------------------------- ideas switched off


class MaternModel:
    """An exact Gaussian process with a Matern-5/2 kernel, in the place of the tangent features."""

    def __init__(self, method: TangentRegion) -> None:
        self._surrogate = Surrogate(method.cube, quadratic=False)

    def refresh(self, X: Array, y: Array, yvar: Array) -> None:
        self._gp = self._surrogate.gp((X + 1) / 2, y, yvar)

    def draw(self, nu: float, rng: np.random.Generator) -> Callable[[Array], Array]:
        path = self._gp.path(rng)
        return lambda Z: path.values((Z + 1) / 2)

    def mean(self, Z: Array) -> Array:
        return self._gp.offset + self._gp.scale * self._gp.mean_at((Z + 1) / 2)


class MaternRegion(TangentRegion):
    """The same trust region, candidates and draws on an ordinary kernel."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._model = MaternModel(self)


# ---------------------------------------------------------------- studies


@dataclass(frozen=True)
class Study:
    """Functions, evaluations, and variants, the first of which has the idea on; kind "gap" or "sum" of regrets."""

    functions: dict[str, tuple[str, dict[str, Any]]]
    budget: int
    variants: dict[str, Recipe | Callable[[int], Recipe]]
    noise_share: float = 0.0
    kind: str = "gap"
    seeds: int = 5
    first_seed: int = 0
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By function: the options by which GO-UCB is given its family."""


def named(dim: int, *names: str, **more: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Functions of `dim` dimensions by their names with the dimension, shifted where the bench makes them."""
    out = {}
    for name in names:
        options: dict[str, Any] = {"dim": dim} if name in OWN else {"dim": dim, "shift": SHIFT}
        if name == "ackley":
            options["bound"] = 5.0
        if name in ("michalewicz", "styblinski-tang"):
            options = {"dim": dim, "turned": True} if name == "michalewicz" else {"dim": dim}
        out[f"{name}-{dim}"] = (name, options)
    return out | {key: (key.split("_")[0], value) for key, value in more.items()}


HIGH = {
    **named(30, "ackley", "rastrigin", "styblinski-tang", "michalewicz", "griewank", "alpine", "zakharov", "salomon"),
    **named(60, "ackley", "powers", "turned-ellipsoid"),
    "hartmann6-in-40": ("hartmann6", {"embed": 40}),
}
NETS = {
    **named(
        10, "ackley", "levy", "rosenbrock", "rastrigin", "michalewicz", "griewank", "alpine", "zakharov", "salomon"
    ),
    **named(10, "powers", "turned-ellipsoid", "three-directions"),
    "hartmann6": ("hartmann6", {}),
}
TENS = {name: how for name, how in NETS.items() if name.endswith("-10")}
PLANE = {
    **named(2, "ackley", "levy", "rosenbrock", "rastrigin", "michalewicz", "griewank", "alpine", "salomon", "powers"),
    "branin": ("branin", {}),
}
FAMILIES = {
    "hill": ("hill-temperature", {}),
    "michaelis": ("michaelis-inhibition", {}),
    "gompertz": ("gompertz-growth", {}),
    "drug": ("drug-timing", {}),
    "three-gaussians": ("three-gaussians", {}),
    "net-3": ("teacher-net", {"dim": 3, "width": 3}),
    "net-2": ("teacher-net", {"dim": 2, "width": 2}),
    "wrong: hill, bump": ("hill-temperature", {"bump": 0.15}),
    "wrong: levy-4, net": ("levy", {"dim": 4, "shift": SHIFT}),
    "wrong: ackley-4, quadratic": ("ackley", {"dim": 4, "shift": SHIFT, "bound": 5.0}),
}
NET: dict[str, Any] = {"model": "mlp", "width": 3}
MODELS: dict[str, dict[str, Any]] = {
    "hill": {"model": mechanistic.hill_temperature_model},
    "michaelis": {"model": mechanistic.michaelis_inhibition_model},
    "gompertz": {"model": mechanistic.gompertz_growth_model},
    "drug": {"model": mechanistic.drug_timing_model},
    "three-gaussians": {"model": mechanistic.three_gaussians_model},
    "net-3": NET,
    "net-2": {"model": "mlp", "width": 2},
    "wrong: hill, bump": {"model": mechanistic.hill_temperature_model},
    "wrong: levy-4, net": NET,
    "wrong: ackley-4, quadratic": {"model": "quadratic"},
}
TANGENT = RIVALS["tangent-region"]
REPORT = {
    "ms-ucb": Study(
        HIGH, 120,
        {
            "subspaces": rg.MSUCB, "all coordinates at once": lambda dim: rg.MSUCB(low_dim=dim),
            "as printed": METHODS["ms-ucb-printed"],
        },
    ),
    "tangent-region": Study(
        NETS, 120,
        {
            "tangent kernel in the region": TANGENT, "Matern kernel in the region": Recipe("m", MaternRegion),
            "no region": TANGENT(trust_region=False), "gp-ts": rg.GPTS,
        },
        noise_share=NET_NOISE,
    ),
    "neural-bo": Study(
        NETS, 120,
        {
            "trained": rg.NeuralBO, "not trained": rg.NeuralBO(training=0),
            "trained, no uncertainty": rg.NeuralBO(exploration=0.0), "as printed": METHODS["neural-bo-printed"],
        },
        noise_share=NET_NOISE,
    ),
    "neural-bo, noisy": Study(
        TENS, 150,
        {"neural-bo": rg.NeuralBO, "random": CLASSICS["random"], "optuna-tpe": PEERS["optuna-tpe"]},
        noise_share=0.1, seeds=5,
    ),
    "gp-threds": Study(
        PLANE, 1000,
        {"cells are dropped": rg.GPThreDS, "the whole grid (igp-ucb)": RIVALS["igp-ucb"]},
        noise_share=0.1, kind="sum",
    ),
    "go-ucb": Study(
        FAMILIES, 60, {"family": rg.GOUCB, "no family (gp-ei)": rg.GPEI}, noise_share=0.015, kind="sum", models=MODELS
    ),
}  # fmt: skip
DEV_HIGH = {
    **named(20, "levy"), **named(50, "ellipsoid"), **named(40, "rosenbrock"), "camelback-60": ("camelback", {"dim": 60})
}  # fmt: skip
DEV_NETS = {
    **named(7, "levy", "rosenbrock"), **named(8, "styblinski-tang", "stretched", "ridge", "cigar", "schaffer", "peaks"),
    **named(8, "wavy", "product"), **named(9, "schwefel222", "bent-valley", "quartic"),
    **named(12, "sparse", "two-directions"), "camelback-in-8": ("camelback", {"dim": 8}),
}  # fmt: skip
CHOOSE = {
    "ms-ucb": Study(
        DEV_HIGH, 120,
        {
            "5, width 1": rg.MSUCB, **{f"{d}, width 1": rg.MSUCB(low_dim=d) for d in (2, 10, 20)},
            "5, width 0.5": rg.MSUCB(kappa=0.5), "10, width 0.5": rg.MSUCB(low_dim=10, kappa=0.5),
            "5, width 2": rg.MSUCB(kappa=2.0), "all at once": lambda dim: rg.MSUCB(low_dim=dim),
            "all at once, width 0.5": lambda dim: rg.MSUCB(low_dim=dim, kappa=0.5),
        },
        seeds=3, first_seed=100,
    ),
    "neural-bo": Study(
        DEV_NETS, 130,
        {
            "nu 0.3": rg.NeuralBO, **{f"nu {nu:g}": rg.NeuralBO(exploration=nu) for nu in (0.1, 0.2, 0.5)},
            "not trained": rg.NeuralBO(training=0), "50 steps": rg.NeuralBO(training=50),
            "128 units": rg.NeuralBO(width=128), "depth 3": rg.NeuralBO(depth=3),
            "tanh": rg.NeuralBO(activation="tanh"), "softplus": rg.NeuralBO(activation="softplus"),
            "ReLU, 500 units, nu 0.1": rg.NeuralBO(activation="relu", width=500, exploration=0.1),
            "500 candidates": rg.NeuralBO(n_candidates=500), "random": CLASSICS["random"], "tpe": PEERS["optuna-tpe"],
            "tangent-region": TANGENT, "gp-ei": rg.GPEI, "gp-ts": rg.GPTS,
        },
        noise_share=0.1, seeds=3, first_seed=100,
    ),
}  # fmt: skip


def run_one(stage: str, study: str, function: str, seed: int, label: str) -> dict[str, Any]:
    """One run, as a line of the results."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    s = (CHOOSE if stage == "choose" else REPORT)[study]
    name, options = s.functions[function]
    f = task(name, options, seed, s.noise_share)
    recipe = s.variants[label]
    if not isinstance(recipe, Recipe):
        recipe = recipe(f.dim)
    if recipe.name == "go-ucb":
        recipe = recipe(**s.models[function])
    space: Any = make_problem(name, seed=seed, **options).space if s.models else f.dim
    loop = Loop(recipe.build(space, seed=seed, budget=s.budget))
    noise = np.random.default_rng([seed, 7])
    start, truth = time.process_time(), []
    for _ in range(s.budget):
        x = loop.ask()
        value = float(f.true(x)[0])
        loop.tell(x, [-(value + f.noise_sd * float(noise.standard_normal()))])
        truth.append(value - f.optimum)
    seconds = time.process_time() - start
    regret = np.array(truth)
    score = float(regret.min()) if s.kind == "gap" else float(regret.mean())
    return {
        "study": study, "function": function, "seed": seed, "label": label,
        "log10": math.log10(max(score, LEAST_GAP)), "ms": 1000 * seconds / s.budget,
    }  # fmt: skip


def jobs_of(studies: dict[str, Study], seeds: int | None) -> Iterator[tuple[str, str, int, str]]:
    """Seed by seed, so that what is cut short has few seeds of everything."""
    most = max(seeds or s.seeds for s in studies.values())
    for i in range(most):
        for study, s in studies.items():
            if i < (seeds or s.seeds):
                for function in s.functions:
                    yield from ((study, function, s.first_seed + i, label) for label in s.variants)


# ---------------------------------------------------------------- tables


def tables(rows: list[dict[str, Any]], studies: dict[str, Study]) -> str:
    """Per study: the differences with their standard errors, then the medians function by function."""
    out = []
    for study, s in studies.items():
        found = {(r["label"], r["function"], r["seed"]): r for r in rows if r["study"] == study}
        first, *others = s.variants
        out.append(
            f"### {study}\n\n| against `{first}` | off less on, decades | functions better, worse | ms per ask |"
        )
        out.append("| --- | --- | --- | --- |")
        out.append(f"| {first} | | | {_ms(found, first):.0f} |")
        for label in others:
            means, better, worse = [], 0, 0
            for function in s.functions:
                seeds = [k[2] for k in found if k[:2] == (label, function) and (first, function, k[2]) in found]
                if not seeds:
                    continue
                d = [found[label, function, q]["log10"] - found[first, function, q]["log10"] for q in seeds]
                means.append(float(np.mean(d)))
                error = float(np.std(d, ddof=1)) / math.sqrt(len(d)) if len(d) > 1 else math.inf
                better, worse = better + (means[-1] > 2 * error), worse + (means[-1] < -2 * error)
            if means:
                error = float(np.std(means, ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.nan
                cells = f"{np.mean(means):+.2f} ± {error:.2f} | {better}, {worse} of {len(means)}"
                out.append(f"| {label} | {cells} | {_ms(found, label):.0f} |")
        out.append(f"\n| median of log10 | {' | '.join(s.functions)} |\n|{' --- |' * (len(s.functions) + 1)}")
        for label in s.variants:
            cells = []
            for function in s.functions:
                values = [r["log10"] for k, r in found.items() if k[:2] == (label, function)]
                cells.append(f"{np.median(values):.2f} ({len(values)})" if values else "-")
            out.append(f"| {label} | {' | '.join(cells)} |")
        out.append("")
    return "\n".join(out)


def _ms(found: dict[tuple[str, str, int], dict[str, Any]], label: str) -> float:
    times = [r["ms"] for k, r in found.items() if k[0] == label]
    return float(np.median(times)) if times else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/idea_worth"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=None, help="seeds of every study; by default its own number")
    parser.add_argument("--only", nargs="+", default=None, help="names of studies")
    parser.add_argument("--functions", nargs="+", default=None, help="names of functions")
    parser.add_argument("--choose", action="store_true", help="the functions and seeds that constants are chosen on")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start nothing after so many minutes")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    stage = "choose" if options.choose else "report"
    studies = {n: s for n, s in (CHOOSE if options.choose else REPORT).items() if n in (options.only or [n])}
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{stage}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(r["study"], r["function"], r["seed"], r["label"]) for r in rows}
    wanted = [job for job in jobs_of(studies, options.seeds) if job not in done]
    wanted = [job for job in wanted if job[1] in (options.functions or [job[1]])]
    began = time.monotonic()
    if not options.report:
        with ProcessPoolExecutor(options.jobs) as pool, path.open("a") as file:
            running, left = set(), list(reversed(wanted))
            while running or left:
                while left and len(running) < options.jobs and time.monotonic() - began < 60 * options.minutes:
                    running.add(pool.submit(run_one, stage, *left.pop()))
                if not running:
                    break
                ended = next(as_completed(running))
                running.discard(ended)
                rows.append(ended.result())
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
    made = tables(rows, studies)
    (options.out / f"{stage}.md").write_text(made)
    print(made)


if __name__ == "__main__":
    main()
