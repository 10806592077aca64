"""Black-box constraints: four designs and Gramacy's toy, ours beside GPSampler, TPE, SCBO, COBYLA and random search.

    python experiments/constraints.py --seeds 10 --jobs 16 --out runs/constraints
    python experiments/constraints.py --problems spring,beam --searches ours,tpe --seeds 3
    python experiments/constraints.py --problems coco-2,coco-5 --searches ours,tpe,cobyla,random --seeds 1

`coco-D` stands for 27 functions of COCO's suite bbob-constrained in D dimensions: nine objectives, each with 1, 9 and
10 or more constraints; `coco-D-F` is one of them. A second table has the shares of the targets 10^2, 10^1.8, ..., 10^-6
above the optimum that feasible points reach, with the objectives as units. Nothing that ours does was chosen on them.

Each search has 50 evaluations and sees all values of constraints (docs/lab/spaces.md). `--limit` gives a run up after
so many seconds; its last best value counts, with the number of evaluations that it had.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import optuna
from regretless_bench.cells import run_cells
from regretless_bench.problems.bbob import coco_problem
from scipy.optimize import NonlinearConstraint, minimize

import regretless as rg

TRIALS = 50
"""Evaluations of a run."""
SLOW = {"gpsampler": 3, "scbo": 3}
"""Seeds at most of the searches whose single runs take minutes."""

Setting: TypeAlias = Mapping[str, Any]
Outcome: TypeAlias = tuple[float, list[float]]
"""The value of a setting, and those of its constraints, at most 0 where they hold."""


@dataclass(frozen=True)
class Design:
    """A problem: its space, its outcomes, and the best feasible value known."""

    space: dict[str, Any]
    outcome: Callable[[Setting], Outcome]
    best: float


# ---------------------------------------------------------------- problems


def toy(s: Setting) -> Outcome:
    """Gramacy et al. (2016): a linear value, a wavy constraint and a disc."""
    x, y = s["x"], s["y"]
    wave = 1.5 - x - 2 * y - 0.5 * math.sin(2 * math.pi * (x**2 - 2 * y))
    return x + y, [wave, x**2 + y**2 - 1.5]


def spring(s: Setting) -> Outcome:
    """The weight of a tension spring: wire and coil diameter, number of coils."""
    d, D, n = s["wire"], s["coil"], s["coils"]
    with np.errstate(all="ignore"):
        shear = (4 * D**2 - d * D) / (12566 * (D * d**3 - d**4)) if d != D else math.inf
    g = [1 - D**3 * n / (71785 * d**4), shear + 1 / (5108 * d**2) - 1, 1 - 140.45 * d / (D**2 * n), (D + d) / 1.5 - 1]
    return (n + 2) * D * d**2, [min(max(v, -1e6), 1e6) for v in g]


def beam(s: Setting) -> Outcome:
    """The cost of a welded beam."""
    h, l, t, b = s["h"], s["l"], s["t"], s["b"]  # noqa: E741
    load, length, young, shear = 6000.0, 14.0, 30e6, 12e6
    half = (h + t) / 2
    radius = math.sqrt(l**2 / 4 + half**2)
    direct = load / (math.sqrt(2) * h * l)
    twist = load * (length + l / 2) * radius / (2 * math.sqrt(2) * h * l * (l**2 / 12 + half**2))
    tau = math.sqrt(direct**2 + direct * twist * l / radius + twist**2)
    buckling = 4.013 * young * math.sqrt(t**2 * b**6 / 36) / length**2
    buckling *= 1 - t / (2 * length) * math.sqrt(young / (4 * shear))
    constraints = [
        tau - 13600, 6 * load * length / (b * t**2) - 30000, h - b,
        0.10471 * h**2 + 0.04811 * t * b * (14 + l) - 5, 0.125 - h,
        4 * load * length**3 / (young * t**3 * b) - 0.25, load - buckling,
    ]  # fmt: skip
    return 1.10471 * h**2 * l + 0.04811 * t * b * (14 + l), constraints


def vessel(s: Setting) -> Outcome:
    """The cost of a pressure vessel, whose two walls come in sixteenths of an inch."""
    shell, head, r, length = 0.0625 * s["shell"], 0.0625 * s["head"], s["radius"], s["length"]
    cost = 0.6224 * shell * r * length + 1.7781 * head * r**2 + 3.1661 * shell**2 * length + 19.84 * shell**2 * r
    volume = 1296000 - math.pi * r**2 * length - 4 / 3 * math.pi * r**3
    return cost, [0.0193 * r - shell, 0.00954 * r - head, volume, length - 240]


def reducer(s: Setting) -> Outcome:
    """The weight of a speed reducer: face, module, teeth, two shafts with lengths and diameters."""
    f, m, z, l1, l2, d1, d2 = (s[name] for name in ("face", "module", "teeth", "l1", "l2", "d1", "d2"))
    weight = (
        0.7854 * f * m**2 * (3.3333 * z**2 + 14.9334 * z - 43.0934) - 1.508 * f * (d1**2 + d2**2)
        + 7.4777 * (d1**3 + d2**3) + 0.7854 * (l1 * d1**2 + l2 * d2**2)
    )  # fmt: skip
    constraints = [
        27 / (f * m**2 * z) - 1, 397.5 / (f * m**2 * z**2) - 1,
        1.93 * l1**3 / (m * z * d1**4) - 1, 1.93 * l2**3 / (m * z * d2**4) - 1,
        math.sqrt((745 * l1 / (m * z)) ** 2 + 16.9e6) / (110 * d1**3) - 1,
        math.sqrt((745 * l2 / (m * z)) ** 2 + 157.5e6) / (85 * d2**3) - 1,
        m * z / 40 - 1, 5 * m / f - 1, f / (12 * m) - 1, (1.5 * d1 + 1.9) / l1 - 1, (1.1 * d2 + 1.9) / l2 - 1,
    ]  # fmt: skip
    return weight, constraints


def g04(s: Setting) -> Outcome:
    """Himmelblau's problem."""
    a, b, c, d, e = (s[name] for name in "abcde")
    u = 85.334407 + 0.0056858 * b * e + 0.0006262 * a * d - 0.0022053 * c * e
    v = 80.51249 + 0.0071317 * b * e + 0.0029955 * a * b + 0.0021813 * c**2
    w = 9.300961 + 0.0047026 * c * e + 0.0012547 * a * c + 0.0019085 * c * d
    value = 5.3578547 * c**2 + 0.8356891 * a * e + 37.293239 * a - 40792.141
    return value, [u - 92, -u, v - 110, 90 - v, w - 25, 20 - w]


def g06(s: Setting) -> Outcome:
    """A cubic on a thin crescent."""
    x, y = s["x"], s["y"]
    rings = [100 - (x - 5) ** 2 - (y - 5) ** 2, (x - 6) ** 2 + (y - 5) ** 2 - 82.81]
    return (x - 10) ** 3 + (y - 20) ** 3, rings


def g08(s: Setting) -> Outcome:
    x, y = s["x"], s["y"]
    bottom = x**3 * (x + y)
    wave = math.sin(2 * math.pi * x) ** 3 * math.sin(2 * math.pi * y)
    return -wave / bottom if bottom else 0.0, [x**2 - y + 1, 1 - x + (y - 4) ** 2]


def g09(s: Setting) -> Outcome:
    a, b, c, d, e, f, g = (s[name] for name in "abcdefg")
    value = (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2 + 10 * e**6 + 7 * f**2 + g**4
    value += -4 * f * g - 10 * f - 8 * g
    constraints = [
        2 * a**2 + 3 * b**4 + c + 4 * d**2 + 5 * e - 127, 7 * a + 3 * b + 10 * c**2 + d - e - 282,
        23 * a + b**2 + 6 * f**2 - 8 * g - 196, 4 * a**2 + b**2 - 3 * a * b + 2 * c**2 + 5 * f - 11 * g,
    ]  # fmt: skip
    return value, constraints


def truss(s: Setting) -> Outcome:
    """The volume of a truss of three bars."""
    a, b = s["a"], s["b"]
    root, bottom = math.sqrt(2), math.sqrt(2) * a**2 + 2 * a * b
    first = (root * a + b) / bottom * 2 - 2
    return (2 * root * a + b) * 100, [first, b / bottom * 2 - 2, 2 / (root * b + a) - 2]


def gas(s: Setting) -> Outcome:
    """The cost of a compressor for gas."""
    a, b, c, d = (s[name] for name in "abcd")
    value = 8.61e5 * math.sqrt(a / d) * b * c ** (-2 / 3) + 3.69e4 * c + 7.72e8 / a * b**0.219 - 765.43e6 / a
    return value, [d / b**2 + 1 / b**2 - 1]


PROBLEMS = {
    "toy": Design({"x": rg.Float(0, 1), "y": rg.Float(0, 1)}, toy, 0.59979),
    "spring": Design(
        {"wire": rg.Float(0.05, 2), "coil": rg.Float(0.25, 1.3), "coils": rg.Float(2, 15)}, spring, 0.012665
    ),
    "beam": Design(
        {"h": rg.Float(0.1, 2), "l": rg.Float(0.1, 10), "t": rg.Float(0.1, 10), "b": rg.Float(0.1, 2)}, beam, 1.7249
    ),
    "vessel": Design(
        {
            "shell": rg.Int(1, 99), "head": rg.Int(1, 99),
            "radius": rg.Float(10, 200), "length": rg.Float(10, 240),
        },
        vessel, 5850.38,
    ),
    "reducer": Design(
        {
            "face": rg.Float(2.6, 3.6), "module": rg.Float(0.7, 0.8), "teeth": rg.Int(17, 28),
            "l1": rg.Float(7.3, 8.3), "l2": rg.Float(7.3, 8.3), "d1": rg.Float(2.9, 3.9), "d2": rg.Float(5.0, 5.5),
        },
        reducer, 2994.47,
    ),
    "g04": Design(
        {
            "a": rg.Float(78, 102), "b": rg.Float(33, 45), "c": rg.Float(27, 45), "d": rg.Float(27, 45),
            "e": rg.Float(27, 45),
        },
        g04, -30665.54,
    ),
    "g06": Design({"x": rg.Float(13, 100), "y": rg.Float(0, 100)}, g06, -6961.81),
    "g08": Design({"x": rg.Float(0, 10), "y": rg.Float(0, 10)}, g08, -0.095825),
    "g09": Design({name: rg.Float(-10, 10) for name in "abcdefg"}, g09, 680.63),
    "truss": Design({"a": rg.Float(0.01, 1), "b": rg.Float(0.01, 1)}, truss, 263.8958),
    "gas": Design(
        {"a": rg.Float(20, 50), "b": rg.Float(1, 10), "c": rg.Float(20, 50), "d": rg.Float(0.1, 60)}, gas, 2964895.4
    ),
}  # fmt: skip
OBJECTIVES, KINDS = 9, 6
"""In bbob-constrained each objective comes with six numbers of constraints."""
TARGETS = 10.0 ** np.arange(2.0, -6.1, -0.2)
REPORTED = ("toy", "spring", "beam", "vessel", "reducer")
"""The problems of the report; what ours does is chosen on the others."""


@functools.lru_cache(maxsize=64)
def design_named(name: str) -> Design:
    """A problem by its name."""
    if not name.startswith("coco-"):
        return PROBLEMS[name]
    dim, number = (int(word) for word in name.split("-")[1:])
    problem, _, best = coco_problem("bbob-constrained", number, dim, 1)

    def outcome(s: Setting) -> Outcome:
        x = np.array([s[f"x{i}"] for i in range(dim)])
        return float(problem(x)), [float(c) for c in problem.constraint(x)]

    return Design({f"x{i}": rg.Float(-5, 5) for i in range(dim)}, outcome, best)


def with_parts(name: str) -> list[str]:
    """The problems that a name stands for."""
    if not name.startswith("coco-") or name.count("-") > 1:
        return [name]
    # 1, 3, 4: the kinds with 1, 9 and 10 or more constraints
    return [f"{name}-{KINDS * objective + kind}" for objective in range(OBJECTIVES) for kind in (1, 3, 4)]


# ---------------------------------------------------------------- searches


def constraints_of(trial: optuna.trial.FrozenTrial) -> list[float]:
    found: list[float] = trial.user_attrs["constraints"]
    return found


def through_optuna(sampler: Callable[[int], Any]) -> Callable[[Design, int, float], list[Outcome]]:
    def search(design: Design, seed: int, limit: float) -> list[Outcome]:
        outcomes: list[Outcome] = []

        def objective(trial: optuna.Trial) -> float:
            setting: dict[str, Any] = {}
            for name, p in design.space.items():
                suggest = trial.suggest_int if isinstance(p, rg.Int) else trial.suggest_float
                setting[name] = suggest(name, p.low, p.high)  # type: ignore[operator]
            value, constraints = design.outcome(setting)
            trial.set_user_attr("constraints", constraints)
            outcomes.append((value, constraints))
            return value

        study = optuna.create_study(sampler=sampler(seed))
        study.optimize(objective, n_trials=TRIALS, timeout=limit)
        return outcomes

    return search


def scbo(design: Design, seed: int, limit: float) -> list[Outcome]:
    """SCBO (Eriksson and Poloczek, 2021) as BoTorch's tutorial has it, four points at a time: Thompson draws of
    the objective and of every constraint at candidates of a trust region, which doubles after successes and halves
    after failures. It begins with ten points; whole numbers are rounded where the problem is evaluated."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.generation.sampling import ConstrainedMaxPosteriorSampling
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.models.transforms.outcome import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood
    from torch.quasirandom import SobolEngine

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(seed)
    dim, start = len(design.space), time.monotonic()

    def evaluated(x: Any) -> Outcome:
        setting = {}
        for u, (name, p) in zip(x.tolist(), design.space.items(), strict=True):
            number = p.low + u * (p.high - p.low)
            setting[name] = round(number) if isinstance(p, rg.Int) else number
        return design.outcome(setting)

    X = SobolEngine(dim, scramble=True, seed=seed).draw(10).to(torch.float64)
    outcomes = [evaluated(x) for x in X]
    batch = 4  # as in the tutorial; ten rounds of fits instead of forty
    length, successes, failures, patience = 0.8, 0, 0, math.ceil(max(4, dim) / batch)
    while len(outcomes) < TRIALS and time.monotonic() - start < limit:
        if length < 0.5**7:  # the tutorial ends here; a new region around the best point is kinder to it
            length, successes, failures = 0.8, 0, 0
        Y = torch.tensor([[-value] for value, _ in outcomes])
        C = torch.tensor([constraints for _, constraints in outcomes])
        centre = X[_best(outcomes)]
        models = []
        for column in [Y, *(C[:, [j]] for j in range(C.shape[1]))]:
            model = SingleTaskGP(X, column, outcome_transform=Standardize(1))
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            models.append(model)
        low, high = (centre - length / 2).clamp(0, 1), (centre + length / 2).clamp(0, 1)
        candidates = low + (high - low) * SobolEngine(dim, scramble=True, seed=len(outcomes)).draw(2000).to(X)
        moved = torch.rand(2000, dim) <= min(20.0 / dim, 1.0)
        moved[torch.arange(2000), torch.randint(dim, (2000,))] = True
        candidates = torch.where(moved, candidates, centre)
        with torch.no_grad():
            draw = ConstrainedMaxPosteriorSampling(
                model=models[0], constraint_model=ModelListGP(*models[1:]), replacement=False
            )
            chosen = draw(candidates, num_samples=batch)
        before = _best(outcomes)
        X = torch.cat([X, chosen])
        outcomes += [evaluated(x) for x in chosen]
        better = _best(outcomes) != before
        successes, failures = (successes + 1, 0) if better else (0, failures + 1)
        if successes == 10:
            length, successes = min(2 * length, 1.6), 0
        elif failures == patience:
            length, failures = length / 2, 0
    return outcomes[:TRIALS]


def cobyla(design: Design, seed: int, limit: float) -> list[Outcome]:
    """SciPy's COBYLA from a drawn point, with linear models of the value and of all constraints; where it ends early it
    begins anew at another point."""
    names, rng, outcomes = list(design.space), np.random.default_rng(seed), list[Outcome]()
    seen: dict[bytes, Outcome] = {}

    def outcome(u: Any) -> Outcome:
        u = np.clip(u, 0.0, 1.0)
        if u.tobytes() not in seen:
            if len(outcomes) == TRIALS:
                raise StopIteration
            ends = [(design.space[name].low, design.space[name].high) for name in names]
            numbers = [a + x * (b - a) for x, (a, b) in zip(u.tolist(), ends, strict=True)]
            whole = [isinstance(design.space[name], rg.Int) for name in names]
            rounded = [round(x) if w else x for x, w in zip(numbers, whole, strict=True)]
            seen[u.tobytes()] = design.outcome(dict(zip(names, rounded, strict=True)))
            outcomes.append(seen[u.tobytes()])
        return seen[u.tobytes()]

    with contextlib.suppress(StopIteration):
        while True:
            start = rng.random(len(names))
            held = NonlinearConstraint(lambda u: np.array(outcome(u)[1]), -np.inf, 0.0)
            minimize(lambda u: outcome(u)[0], start, method="COBYLA", bounds=[(0.0, 1.0)] * len(names),
                     constraints=[held], options={"rhobeg": 0.2, "maxiter": TRIALS})  # fmt: skip
    return outcomes


def _best(outcomes: list[Outcome]) -> int:
    """The best feasible outcome, or the one that breaks its constraints least."""
    broken = [sum(max(c, 0.0) for c in constraints) for _, constraints in outcomes]
    return min(range(len(outcomes)), key=lambda i: (broken[i], outcomes[i][0]))


SEARCHES: dict[str, Callable[[Design, int, float], list[Outcome]]] = {
    "random": through_optuna(lambda seed: optuna.samplers.RandomSampler(seed=seed)),
    "tpe": through_optuna(lambda seed: optuna.samplers.TPESampler(seed=seed, constraints_func=constraints_of)),
    "gpsampler": through_optuna(lambda seed: optuna.samplers.GPSampler(seed=seed, constraints_func=constraints_of)),
    "scbo": scbo,
    "cobyla": cobyla,
    "ours": through_optuna(lambda seed: rg.Sampler(seed=seed, constraints_func=constraints_of)),
}


def run(problem: str, search: str, seed: int, limit: float) -> list[float | None]:
    """The best feasible value after each evaluation; None: nothing feasible was found."""
    best: float | None = None
    curve: list[float | None] = []
    for value, constraints in SEARCHES[search](design_named(problem), seed, limit):
        if max(constraints) <= 0 and (best is None or value < best):
            best = value
        curve.append(best)
    return curve


def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")


def table(results: list[tuple[Any, Any]]) -> str:
    lines = [
        "| problem | search | seeds | evaluations | median | best | worst | feasible runs |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for problem in sorted({p for (p, *_), _ in results if p in PROBLEMS}, key=list(PROBLEMS).index):
        for search in SEARCHES:
            curves = [curve for (p, s, *_), curve in results if (p, s) == (problem, search) and curve]
            if curves:
                ends = np.array([math.inf if curve[-1] is None else curve[-1] for curve in curves])
                cells = f"{np.median(ends):.6g} | {ends.min():.6g} | {ends.max():.6g} | {np.isfinite(ends).sum()}"
                lines.append(f"| {problem} | {search} | {len(ends)} | {min(map(len, curves))} | {cells} |")
    return "\n".join(lines)


def shares(results: list[tuple[Any, Any]]) -> str:
    """Which share of the targets the runs on COCO's problems reach in the end, and averaged over the evaluations."""
    found: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = {}
    for (problem, search, *_), curve in results:
        if not problem.startswith("coco-") or not curve:
            continue
        _, dim, number = problem.split("-")
        gaps = np.array([np.inf if value is None else value for value in curve]) - design_named(problem).best
        reached = (gaps[:, None] <= TARGETS).mean(axis=1)
        units = found.setdefault((f"coco-{dim}", search), {})
        units.setdefault((int(number) - 1) // KINDS, []).append((float(reached[-1]), float(reached.mean())))
    lines = ["| problems | search | runs | reached in the end | on average |", "| --- | --- | --- | --- | --- |"]
    for (problems, search), units in sorted(
        found.items(), key=lambda item: (item[0][0], list(SEARCHES).index(item[0][1]))
    ):
        means = np.array([np.mean(runs, axis=0) for runs in units.values()])
        errors = means.std(axis=0, ddof=1) / math.sqrt(len(means)) if len(means) > 1 else np.full(2, math.nan)
        cells = " | ".join(f"{m:.3f} ± {e:.3f}" for m, e in zip(means.mean(axis=0), errors, strict=True))
        lines.append(f"| {problems} | {search} | {sum(map(len, units.values()))} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(REPORTED))
    parser.add_argument("--searches", default=",".join(SEARCHES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which a run is given up")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/constraints"))
    options = parser.parse_args()
    problems = [part for name in options.problems.split(",") for part in with_parts(name)]
    searches = options.searches.split(",")
    # the slow ones first, so that no core is left alone with one of them at the end
    order = sorted(searches, key=lambda s: (s not in SLOW, list(SEARCHES).index(s)))
    cells = [
        (p, s, seed, options.limit)
        for s in order for p in reversed(problems) for seed in range(min(options.seeds, SLOW.get(s, options.seeds)))
    ]  # fmt: skip
    results = run_cells(run, cells, options.out / "constraints.jsonl", jobs=options.jobs, initializer=quiet)
    print(table(results))
    print(shares(results))


if __name__ == "__main__":
    main()
