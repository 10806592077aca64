"""`auto` beside its parts and beside the peers: chosen on odd functions of COCO's suites, reported on even ones.

    python experiments/auto_choice.py --set choose --jobs 16 --out runs/auto      # our own methods, on odd functions
    python experiments/auto_choice.py --set report --jobs 16 --out runs/auto      # auto and the peers, on even ones
    python experiments/auto_choice.py --set report --out runs/auto --table        # the tables of what has been run

A suite is a kind of problem and its size: `clean-D` (bbob, 20 evaluations per dimension), `noise-S-D` (noise of S per
cent of the interquartile range, 50 per dimension), `mixint-D` (bbob-mixint, 20 per dimension), `batch-Q-D` (bbob, 256
evaluations, Q at a time), `wide-D` (bbob in 20 and 40 dimensions, 10 per dimension), `high-D` (formulas in 100 and 300
dimensions, 200 in all, two of them with an effective subspace), `deep-D` (turned formulas and effective subspaces in 30
to 1,000 dimensions, which had no part in any choice), `table-N` (trainings looked up, N evaluations), `long-D-N` (bbob,
N evaluations of something cheap; losses and costs are compared after 100, 300, 1,000 and so on). For peers that take
seconds per ask there are `few-S-D` (noise of S per cent, 20 per dimension), `fewint-D` (bbob-mixint, 10 per dimension),
`fewdeep-D` (the deep formulas, 100 in all) and `fewbatch-Q-D` (128 in all).

A function is a family: odd ones chose what `auto` does, even ones had no part in it. A case is a function with an
instance, which is also its seed; methods are ranked jointly within a case, by the noiseless value of the best point
evaluated and of the point recommended. Every run appends a line to OUT/outcomes.jsonl; a run that is there is not run
again, and after `--minutes` no further one begins.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from regretless_bench.peers import installed
from regretless_bench.peers.botorch import largest_mean
from regretless_bench.pool import Progress, work_in_processes
from regretless_bench.problems import make_problem
from regretless_bench.runner import method_named
from regretless_bench.stats import ranks, standard_error

from regretless.optimizer import Optimizer
from regretless.parameters import Array

OURS = ("auto", "gp-ucb", "gp-ei", "gp-ts", "turbo", "cma-es")
QUICK = ("auto", "optuna-tpe", "optuna-cmaes", "nevergrad-ngopt", "turbo")
"""The peers whose asks take milliseconds."""
SLOW = ("optuna-gp", "smac", "botorch-logei", "botorch-lognei", "botorch-saas", "hebo")
"""The peers whose asks take a tenth of a second to seconds: they run on fewer cases."""
SETS = {"choose": (range(1, 25, 2), OURS), "report": (range(2, 25, 2), QUICK + SLOW)}
"""The functions and the methods of each set."""
GROUPS = {"1-5": range(1, 6), "6-9": range(6, 10), "10-14": range(10, 15), "15-19": range(15, 20),
          "20-24": range(20, 25)}  # fmt: skip
"""The five groups of COCO's functions: separable, moderate, ill-conditioned, multi-modal, weakly structured."""
LEAST_CASES = 12
"""A kind of suite with fewer cases has no panel in the chart: its mean ranks would say nothing."""
FIRST = 21
"""The first instance; earlier ones were used for tuning the GP engine."""
TABLES = (("hpobench-mlp", "vehicle"), ("hpobench-mlp", "phoneme"), ("hpobench-mlp", "segment"),
          ("hpobench-mlp", "credit_g"), ("nasbench201", "cifar10"), ("nasbench201", "imagenet"))  # fmt: skip
FORMULAS = ("ackley", "levy", "ellipsoid", "rosenbrock", "camelback", "camelback")
"""Of the high dimensions: four that depend on all coordinates alike, and one, twice, in which two of them matter: those
that its instance hides, and the same two in all instances."""
TURNED: tuple[dict[str, Any], ...] = (
    {"formula": "griewank"}, {"formula": "powers"}, {"formula": "ellipsoid"}, {"formula": "largest"},
    {"formula": "waves", "effective": 6, "rotate": False}, {"formula": "griewank", "effective": 6, "rotate": False},
    {"formula": "ellipsoid", "effective": 6},
)  # fmt: skip
"""Of the deep suites: four formulas that depend on all turned axes, two on six of the coordinates, one on six turned
axes."""
FEW_DEEP = 100
"""Evaluations of the few-evaluation deep suites, for peers that take a second and more per ask."""
AFTER = (100, 300, 1000, 3000, 10000, 30000, 100000)
"""Numbers of evaluations after which a long run's loss and cost are written down."""
LONGEST = {"optuna-tpe": 1000, "optuna-cmaes": 3000}
"""Long runs of these methods end there, because an ask takes longer the more values there are: minutes for the rest."""
PER_PARAMETER = {30: 10.0, 50: 6.0, 100: 3.0, 200: 2.0, 1000: 0.3}
"""Evaluations per parameter of the deep suites: 300 to 400 in all."""
KINDS = {
    "clean": "no noise", "noise": "noise", "few": "noise, few evaluations", "mixint": "whole numbers",
    "fewint": "whole numbers, few evaluations", "wide": "20 and 40 parameters", "high": "100 and 300 parameters",
    "deep": "many parameters, turned formulas", "fewdeep": "many parameters, few evaluations",
    "table": "tables of trainings",
}  # fmt: skip
BBOB = ("clean", "noise", "few", "mixint", "fewint", "batch", "fewbatch", "wide", "long")
"""The kinds whose functions are COCO's."""


class Case(NamedTuple):
    """A problem, its options, and how it is run."""

    suite: str
    family: int
    instance: int
    problem: str
    options: dict[str, Any]
    budget: int
    at_once: int = 1


def cases_of(suite: str, functions: Iterable[int], instances: Iterable[int]) -> list[Case]:
    """The cases of a suite, instance by instance, so that an interrupted study has whole ones."""
    kind, *words = suite.split("-")
    numbers = [int(word) for word in words]
    found = []
    for i in instances:
        for f in functions:
            options: dict[str, Any] = {"function": f, "instance": i, "dim": numbers[-1]}
            case = Case(suite, f, i, "bbob", options, 20 * numbers[-1])
            if kind == "noise":
                case = case._replace(options={**options, "noise_iqr": numbers[0] / 100}, budget=50 * numbers[1])
            elif kind == "few":
                case = case._replace(options={**options, "noise_iqr": numbers[0] / 100})
            elif kind in ("mixint", "fewint"):
                case = case._replace(problem="bbob-mixint", budget=(20 if kind == "mixint" else 10) * numbers[0])
            elif kind in ("batch", "fewbatch"):
                case = case._replace(budget=256 if kind == "batch" else 128, at_once=numbers[0])
            elif kind == "wide":
                case = case._replace(budget=10 * numbers[0])
            elif kind == "long":
                case = case._replace(options={**options, "dim": numbers[0]}, budget=numbers[1])
            elif kind != "clean":
                break
            found.append(case)
        if kind == "table":
            rows = [(f, *TABLES[f]) for f in range(len(TABLES))]
            found += [Case(suite, f, i, name, {"data_set": data}, numbers[0]) for f, name, data in rows]
        elif kind in ("deep", "fewdeep"):
            dim = numbers[0]
            budget = FEW_DEEP if kind == "fewdeep" else round(PER_PARAMETER[dim] * dim)
            found += [Case(suite, f, i, "turned", {"dim": dim, **TURNED[f]}, budget) for f in range(len(TURNED))]
        elif kind == "high":
            found += [Case(suite, f, i, *formula(f, numbers[0]), 200) for f in range(len(FORMULAS))]
    return found


def formula(number: int, dim: int) -> tuple[str, dict[str, Any]]:
    """The problem and its options; optima lie off the centre."""
    name = FORMULAS[number]
    if name == "camelback":
        return name, {"dim": dim} if number == FORMULAS.index(name) else {"dim": dim, "seed": 1}
    return name, {"dim": dim, "shift": 0.6, **({"bound": 5.0} if name == "ackley" else {})}


# ---------------------------------------------------------------- running


def run_case(out: Path, deadline: float, job: tuple[Case, str], progress: Progress) -> None:
    """Runs a method on a case and appends what came of it; nothing when the time is over."""
    case, name = job
    if time.time() > deadline:
        return
    row: dict[str, Any] = {"suite": case.suite, "family": case.family, "instance": case.instance, "method": name}
    try:
        row |= outcome_of(case, name)
    except Exception:  # one broken run must not end the study
        row["error"] = traceback.format_exc()[-2000:]
    with open(out, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    progress(1)


def outcome_of(case: Case, name: str) -> dict[str, Any]:
    """Losses (noiseless, relative to the optimum where it is known) of the best point and of the recommended one, and
    milliseconds of an ask and tell. Suites of batches also have the mean loss of all evaluations and of those after the
    first batch; `few` suites that of the point which BoTorch's model recommends, whatever the method; a long run has
    the best loss and the milliseconds after some numbers of evaluations."""
    seed = 100 * case.instance
    long = case.suite.startswith("long")
    evaluations = min(case.budget, LONGEST.get(name, case.budget)) if long else case.budget
    problem = make_problem(case.problem, **{"seed": seed, **case.options})
    sign = -1.0 if problem.direction == "maximize" else 1.0
    method = method_named(name)
    opt = Optimizer(problem.space, method=method, direction=problem.direction, budget=case.budget, seed=seed)
    values: list[float] = []
    used, costs = 0.0, {}
    while len(values) < evaluations:
        begin = time.process_time()
        trials = [opt.ask() for _ in range(min(case.at_once, evaluations - len(values)))]
        used += time.process_time() - begin
        seen = [problem.observe(trial.params) for trial in trials]
        begin = time.process_time()
        for trial, (y, value) in zip(trials, seen, strict=True):
            opt.tell(trial, y)
            values.append(value)
        used += time.process_time() - begin
        if long and len(values) in AFTER:
            costs[len(values)] = round(1000 * used / len(values), 3)
    loss = sign * (np.array(values) - (problem.optimum or 0.0))
    after = {str(n): [float(loss[:n].min()), ms] for n, ms in costs.items()}
    more: dict[str, Any] = {"after": after} if after else {}

    def true_loss(params: dict[str, Any]) -> float:
        return float(sign * (problem.true(params) - (problem.optimum or 0.0)))

    if "batch" in case.suite:
        more |= {"mean": float(f"{loss.mean():.6g}"), "later": float(f"{loss[case.at_once :].mean():.6g}")}
    elif case.suite.startswith("few-") and installed("botorch-lognei"):
        more["modelled"] = true_loss(opt.space.decode(opt.method.X[largest_mean(opt.method.X, opt.method.y)]))
    found = {"best": float(loss.min()), "advised": true_loss(opt.recommend())}
    return found | more | {"ms": round(1000 * used / evaluations, 3)}


def run_jobs(jobs: Sequence[tuple[Case, str]], out: Path, processes: int, minutes: float) -> None:
    """Runs what has no line in the file yet; equal jobs once."""
    from tqdm import tqdm

    out.parent.mkdir(parents=True, exist_ok=True)
    there = {key_of(row) for row in rows_of(out)}
    missing = [job for job in jobs if (job[0].suite, job[0].family, job[0].instance, job[1]) not in there]
    work = functools.partial(run_case, out, time.time() + 60 * minutes)
    with tqdm(total=len(missing), unit="run", mininterval=5.0) as bar:

        def lose(job: tuple[Case, str], why: str, steps: int) -> None:
            print(f"{job[1]} on {job[0]}: {why}", file=sys.stderr)

        def advance(steps: int) -> None:
            bar.update(steps)

        work_in_processes(work, missing, processes, lost=lose, progress=advance, left=lambda number: None,
                          timeout=60 * minutes)  # fmt: skip


def key_of(row: Mapping[str, Any]) -> tuple[str, int, int, str]:
    return row["suite"], row["family"], row["instance"], row["method"]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The outcomes in a file, or in all files of a folder; failed runs are left out."""
    paths = sorted(path.glob("*.json*")) if path.is_dir() else [path] if path.exists() else []
    rows = [json.loads(line) for p in paths for line in p.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [row for row in rows if "error" not in row]


# ---------------------------------------------------------------- tables and the chart


def field_of(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], suites: Sequence[str]
             ) -> tuple[tuple[str, ...], list[tuple[str, int, int]], dict[str, Array]]:  # fmt: skip
    """The methods that ran, the cases that all of them finished, and losses and costs by name, cases x methods."""
    found: dict[str, dict[tuple[str, int, int], Mapping[str, Any]]] = {m: {} for m in methods}
    for row in rows:
        if row["method"] in found and row["suite"] in suites:
            found[row["method"]][row["suite"], row["family"], row["instance"]] = row
    ran = tuple(m for m in methods if found[m])
    cases = sorted(set.intersection(*(set(found[m]) for m in ran))) if ran else []
    names = ("best", "advised", "modelled", "ms")
    return ran, cases, {name: np.array([[found[m][c].get(name, np.nan) for m in ran] for c in cases]) for name in names}


def mean_ranks(losses: Array, cases: Sequence[tuple[str, int, int]]) -> tuple[Array, Array]:
    """Mean rank over cases (rows) and its standard error with functions as units, per method."""
    rank = ranks(losses)
    return rank.mean(axis=0), standard_error(rank, functions_of(cases))


def functions_of(cases: Iterable[tuple[str, int, int]]) -> list[int]:
    """The function of each case. Errors have functions as units, because a function in other dimensions, noises and
    instances is no new problem."""
    return [family for _, family, _ in cases]


def table(title: str, rows: Sequence[Mapping[str, Any]], methods: Sequence[str], suites: Sequence[str]) -> str:
    """Mean ranks with standard errors (functions are units) of all methods on the cases they share; then without those
    that ran the fewest cases, where that leaves half as many cases again. The first method is in every table."""
    lines, last = [], 0
    counts = {m: sum(r["method"] == m and r["suite"] in suites for r in rows) for m in methods}
    field = [m for m in methods if counts[m]]
    while len(field) > 1 and field[0] == methods[0]:
        ran, cases, values = field_of(rows, field, suites)
        if len(cases) > 1 and len(cases) >= 1.5 * last:
            lines += [*one_table(f"{title}: {len(cases)} cases", ran, cases, values), ""]
            last = len(cases)
        least = min(counts[m] for m in field)
        field = [m for m in field if counts[m] > least]
    return "\n".join(lines)


def one_table(title: str, ran: Sequence[str], cases: Sequence[tuple[str, int, int]], values: Mapping[str, Array]
              ) -> list[str]:  # fmt: skip
    rank = {name: mean_ranks(values[name], cases) for name in ("best", "advised")}
    each = ranks(values["advised"])
    behind = each - each[:, :1]
    error = standard_error(behind, functions_of(cases))
    lines = [title, "", f"| method | of the best point | of the recommendation | behind {ran[0]} | ms per ask |",
             "|" + " --- |" * 5]  # fmt: skip
    for i in np.argsort(rank["advised"][0]):
        cells = [f"{rank[name][0][i]:.2f} ± {rank[name][1][i]:.2f}" for name in ("best", "advised")]
        cells.append(f"{behind[:, i].mean():.2f} ± {error[i]:.2f}" if i else "")
        lines.append(f"| {ran[i]} | {' | '.join(cells)} | {np.median(values['ms'][:, i]):.3g} |")
    known = np.isfinite(values["modelled"]).all(axis=1)
    if known.any():
        mean, around = mean_ranks(values["modelled"][known], [cases[int(n)] for n in np.flatnonzero(known)])
        cells = [f"{ran[i]} {mean[i]:.2f} ± {around[i]:.2f}" for i in np.argsort(mean)]
        lines += ["", f"If one model recommended for all ({known.sum()} cases): {', '.join(cells)}"]
    words = []
    for group, members in GROUPS.items():
        at = [n for n, (suite, family, _) in enumerate(cases) if family in members and suite.split("-")[0] in BBOB]
        if at:
            means = each[at].mean(axis=0)
            other = 1 + int(np.argmin(means[1:]))
            gap = behind[at, other]
            spread = f" ± {gap.std(ddof=1) / len(gap) ** 0.5:.2f}" if len(gap) > 1 else ""
            words.append(f"f{group} {means[0]:.2f} ({ran[other]} {means[other]:.2f}; behind {gap.mean():.2f}{spread})")
    title = f"{ran[0]} by group, beside the best of the others (errors over cases: a group has few functions)"
    return [*lines, "", f"{title}: {', '.join(words)}"] if words else lines


def present(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], suites: Sequence[str]) -> list[str]:
    """The methods that ran at least half of the cases that `auto` ran."""
    counts = {m: sum(r["method"] == m and r["suite"] in suites for r in rows) for m in methods}
    return [m for m in methods if counts[m] >= max(1, 0.5 * counts.get("auto", 0))]


def in_order(suite: str) -> tuple[str, list[int]]:
    kind, *numbers = suite.split("-")
    return kind, [int(number) for number in numbers]


def suites_of(kind: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({r["suite"] for r in rows if r["suite"].split("-")[0] == kind}, key=in_order)


def summary(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> str:
    """A line per suite, one per kind, pooled, and one per kind with the methods that ran fewer of its cases: mean rank
    by the best point / by the recommendation ± its error."""
    groups: list[tuple[str, list[str], list[str]]] = []
    for kind in KINDS:
        groups += [(name, [name], present(rows, methods, [name])) for name in suites_of(kind, rows)]
    for kind in KINDS:
        suites = suites_of(kind, rows)
        usual = present(rows, methods, suites)
        if len(suites) > 1:
            groups.append((f"all {kind}", suites, usual))
        for other in (m for m in methods if m not in usual):
            ran, cases, _ = field_of(rows, [*usual, other], suites)
            if other in ran and len(cases) >= LEAST_CASES:
                groups.append((f"{kind}, with {other}", suites, [m for m in methods if m in (*usual, other)]))
    lines = [f"| suite | cases | {' | '.join(f'`{m}`' for m in methods)} |", "|" + " --- |" * (2 + len(methods))]
    for title, suites, field in groups:
        ran, cases, values = field_of(rows, field, suites)
        if len(cases) < 2 or len(ran) < 2:
            continue
        (best, _), (advised, error) = (mean_ranks(values[name], cases) for name in ("best", "advised"))
        cells = dict.fromkeys(methods, "")
        for i, m in enumerate(ran):
            text = f"{best[i]:.2f} / {advised[i]:.2f} ± {error[i]:.2f}"
            cells[m] = f"**{text}**" if advised[i] == advised.min() else text
        lines.append(f"| {title} | {len(cases)} | {' | '.join(cells.values())} |")
    return "\n".join(lines)


def batch_table(rows: Sequence[Mapping[str, Any]], methods: Sequence[str], kind: str = "batch") -> str:
    """What evaluations in batches cost: geometric means over cases of losses relative to the sequential run's."""
    rows = [r for r in rows if r["suite"].split("-")[0] == kind]
    sizes = sorted({int(r["suite"].split("-")[1]) for r in rows})
    lines = [f"| method, {kind} | at once | cases | mean regret | after the first batch | best |", "|" + " --- |" * 6]
    for method in methods:
        by = {(r["suite"], r["family"], r["instance"]): r for r in rows if r["method"] == method}
        for size in sizes[1:]:
            pairs = [(case, r, by.get((f"{kind}-{sizes[0]}-{case[0].split('-')[2]}", *case[1:])))
                     for case, r in by.items() if case[0].startswith(f"{kind}-{size}-")]  # fmt: skip
            logs = np.array([[np.log(max(r[k], 1e-8) / max(one[k], 1e-8)) for k in ("mean", "later", "best")]
                             for _, r, one in pairs if one is not None])  # fmt: skip
            if len(logs) > 1:
                error = standard_error(logs, functions_of(case for case, _, one in pairs if one is not None))
                pairs_of = zip(np.exp(logs.mean(axis=0)), np.exp(error), strict=True)
                cells = [f"{ratio:.2f} (times or by {spread:.2f})" for ratio, spread in pairs_of]
                lines.append(f"| {method} | {size} | {len(logs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def long_table(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> str:
    """Long runs: decades by which the best loss of `auto` lies below a peer's after n evaluations (losses below 1e-8
    count as that), on how many cases it is lower, and milliseconds of an ask and tell averaged over the run so far."""
    by = {key_of(row): row["after"] for row in rows if "after" in row}
    lines = ["| suite | peer | after | cases | decades | lower on | `auto`, ms | peer, ms |", "|" + " --- |" * 8]
    suites = sorted({key[0] for key in by}, key=in_order)
    peers = [m for m in methods if m != "auto"]
    for suite, peer, n in itertools.product(suites, peers, map(str, AFTER)):
        ours = {key[:3]: after[n] for key, after in by.items() if key[0] == suite and key[3] == "auto" and n in after}
        theirs = {key[:3]: after[n] for key, after in by.items() if key[0] == suite and key[3] == peer and n in after}
        pairs = np.array([[ours[case], theirs[case]] for case in sorted(set(ours) & set(theirs))])
        if len(pairs) > 1:
            losses, costs = np.log10(np.maximum(pairs[:, :, 0], 1e-8)), np.median(pairs[:, :, 1], axis=0)
            gain = losses[:, 1] - losses[:, 0]
            cells = [suite, peer, n, len(gain), f"{gain.mean():.2f} ± {gain.std(ddof=1) / len(gain) ** 0.5:.2f}",
                     int((gain > 0).sum()), *(f"{ms:.3g}" for ms in costs)]  # fmt: skip
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def chart(path: Path, rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> None:
    """One panel per kind of suite: the mean rank of the recommendation, with its standard error, against the
    milliseconds of an ask. A panel has the methods that ran at least half of its cases, on the cases of all of them."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    suites = {kind: suites_of(kind, rows) for kind in KINDS}
    shared = {kind: field_of(rows, present(rows, methods, suites[kind]), suites[kind])[1] for kind in KINDS}
    kinds = [kind for kind in KINDS if len(shared[kind]) >= LEAST_CASES]
    across = min(2, len(kinds))  # a page is some 800 pixels wide: three panels side by side have names of four pixels
    down = -(-len(kinds) // across)
    figure, panels = plt.subplots(down, across, figsize=(4.4 * across, 3.0 * down), squeeze=False, layout="constrained")
    for panel in panels.flat[len(kinds) :]:
        panel.axis("off")
    if len(kinds) < panels.size:
        panels.flat[len(kinds)].text(0, 0.5, "Up is better. A bar is a standard error\nwith functions as units.")
    placed: list[tuple[Any, tuple[str, ...], Array, Array, Array]] = []
    for panel, kind in zip(panels.flat, kinds, strict=False):
        ran, cases, values = field_of(rows, present(rows, methods, suites[kind]), suites[kind])
        (mean, error), cost = mean_ranks(values["advised"], cases), np.median(values["ms"], axis=0)
        for i, method in enumerate(ran):
            colour, mark = ("C3", "D") if method == "auto" else ("0.35", "o")
            panel.errorbar(cost[i], mean[i], yerr=error[i], fmt=mark, color=colour)
        units = len(set(functions_of(cases)))
        title = f"{KINDS[kind]}\n{len(cases)} cases, {units} {'tables' if kind == 'table' else 'functions'}"
        panel.set(xscale="log", xlabel="CPU ms per ask", title=title)
        panel.margins(x=0.5)
        panel.set_ylim(len(ran) + 0.2, 0.8)
        placed.append((panel, ran, cost, mean, error))
    for row in panels:
        row[0].set_ylabel("mean rank (1 is best)")
    figure.draw_without_rendering()  # names are placed by what lies where
    for panel, ran, cost, mean, error in placed:
        name_points(panel, ran, cost, mean, error)
    figure.savefig(path, dpi=110)


def name_points(panel: Any, names: Sequence[str], x: Array, y: Array, error: Array) -> None:
    """Writes each name on that side of its point where it lies on the fewest points, error bars and names."""
    from matplotlib.transforms import Bbox

    low, high = (panel.transData.transform(np.column_stack([x, end])) for end in (y + error, y - error))
    taken = [Bbox.from_extents(u - 5, v - 5, u + 5, w + 5) for (u, v), (_, w) in zip(low, high, strict=True)]
    for i, name in enumerate(names):
        found = []
        for right, up in itertools.product((1, -1), (4, -11, 12, -20)):
            side, colour = "left" if right > 0 else "right", "C3" if name == "auto" else "0.35"
            note = panel.annotate(name, (x[i], y[i]), xytext=(6 * right, up), textcoords="offset points", fontsize=8,
                                  color=colour, ha=side)  # fmt: skip
            box = note.get_window_extent()
            outside = not (panel.bbox.containsx(box.x0) and panel.bbox.containsx(box.x1))
            found.append((outside, sum(box.overlaps(other) for n, other in enumerate(taken) if n != i), note, box))
            note.remove()
        *_, note, box = min(found, key=lambda trial: trial[:2])
        panel.add_artist(note)
        taken.append(box)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--set", choices=SETS, default="report")
    parser.add_argument("--suites", default="clean-2,clean-3,clean-5,clean-10,noise-15-3,mixint-5")
    parser.add_argument("--functions", help="numbers separated by commas; by default all of the set")
    parser.add_argument("--instances", help=f"numbers separated by commas; {FIRST}, of tables all that were run")
    parser.add_argument("--methods", help="names separated by blanks, instead of the set's own")
    parser.add_argument("--out", type=Path, default=Path("runs/auto_choice"), help="the folder of the outcomes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e6, help="after these no further run begins")
    parser.add_argument("--chart", type=Path, help="a PNG file of the mean ranks of all suites")
    parser.add_argument("--table", action="store_true", help="only the tables of what has been run")
    options = parser.parse_args()
    functions, methods = SETS[options.set]
    chosen = [int(word) for word in options.functions.split(",")] if options.functions else list(functions)
    if any(f not in functions for f in chosen):
        parser.error(f"the set {options.set!r} has functions {list(functions)}")
    methods = tuple(options.methods.split()) if options.methods else methods
    instances = [int(word) for word in options.instances.split(",")] if options.instances else []
    if not options.table:
        instances = instances or [FIRST]
        cases = [case for suite in options.suites.split(",") for case in cases_of(suite, chosen, instances)]
        jobs = [(case, m) for case in cases for m in methods if installed(m)]
        run_jobs(jobs, options.out / "outcomes.jsonl", options.jobs, options.minutes)
    rows = [row for row in rows_of(options.out) if not instances or row["instance"] in instances]
    for suite in dict.fromkeys(r["suite"] for r in rows):
        print(f"\n{table(suite, rows, methods, [suite])}", flush=True)
    for kind in KINDS:
        if len(suites_of(kind, rows)) > 1:
            print(f"\n{table(f'all {kind}', rows, methods, suites_of(kind, rows))}")
    for kind in ("batch", "fewbatch"):
        if any(r["suite"].startswith(f"{kind}-") for r in rows):
            print(f"\n{batch_table(rows, methods, kind)}")
    if any("after" in row for row in rows):
        print(f"\n{long_table(rows, methods)}")
    print(f"\n{summary(rows, methods)}")
    if options.chart is not None:
        chart(options.chart, rows, methods)


if __name__ == "__main__":
    main()
