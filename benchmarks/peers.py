"""Our methods beside the peers: mean ranks of the final value and CPU milliseconds per ask, on seven suites of
problems.

    python -m benchmarks.peers --quick                       # a taste, some minutes
    python -m benchmarks.peers --jobs 16 --out runs/peers    # the standard size
    python -m benchmarks.peers --full --jobs 16              # ten seeds, the costly peers too
    python -m benchmarks.peers --tables                      # tables from the outcomes that are there

Every method of a suite gets the same seeds, instances, noise draws and budgets and chooses its own first points. A case
is a problem with a seed. The methods are ranked jointly within each case, by the noiseless value of what they evaluated
and of what they recommend. Peers whose asks take long run on the first seeds only, so a suite may have several tables:
the whole field on the cases that all of it finished, then smaller fields on more cases.

bbob: 24 functions, instances 1 to 5, 20 evaluations per dimension; the runs are those of experiments/gp_quality.py,
    whose records serve here with
`--records runs/gp_quality`. High-dimensional: 200 evaluations of which 20 are common initial points, the runs of
experiments/ms_ucb_fig1.py --full.

Runs are resumable. What a run came to is kept beside its record in OUT/SUITE/outcomes/METHOD.json: a run with an
outcome is not run again, and the tables need no records. Delete a method's file (and its records) to run it again.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from regretless_bench.peers import installed
from regretless_bench.problems.problem import RENAMED
from regretless_bench.record import SUFFIX, Record, Run, called, ended_well, read_record
from regretless_bench.runner import method_named, run_all
from regretless_bench.settings import file_name
from regretless_bench.stats import ranks
from regretless_bench.summary import ms_per_ask

from regretless.basics.statefile import write_whole
from regretless.report.page import Section, TableCell, html_page, table_section

OURS = ("gp-ucb", "gp-ei", "tangent-region")
"""`method="auto"` is made of these; it is measured by experiments/auto_choice.py, because near-ties with its own parts
would blur the ranks."""
PEERS = (
    "optuna-gp",
    "botorch-logei",
    "turbo",
    "nevergrad-ngopt",
    "optuna-tpe",
    "smac",
    "optuna-cmaes",
    "cma",
    "random",
)
HIGH_OURS = ("gp-ucb", "gp-ei", "tangent-region")
BOTORCH, TURBO = "botorch-logei:initial=20,quick=True", "turbo:initial=20"
HIGH_PEERS = ("optuna-gp", BOTORCH, TURBO, "nevergrad-ngopt", "optuna-tpe", "optuna-cmaes", "cma", "random")
"""TuRBO and BoTorch would add random points of their own to the 20 initial ones. BoTorch's model is fitted by our
minimiser, which is the same MAP in
a hundredth of the time (bench/regretless_bench/quick_fit.py). SMAC's forest takes seconds per ask in a hundred
dimensions."""
BEGIN, END = "<!-- made by python -m benchmarks.peers --tables --into -->", "<!-- end -->"
MORE = 1.5
"""A smaller field gets a table of its own where it has this many times the cases."""
COSTLY = ("optuna-gp", "botorch-logei", "smac")
"""A tenth of a second and more per ask: fewer seeds."""


@dataclass(frozen=True)
class Suite:
    """Problems of one kind and who runs on them."""

    problems: tuple[tuple[str, dict[str, Any], int], ...]
    """Name, options, budget."""
    methods: tuple[str, ...] = OURS + PEERS
    noisy: bool = False
    init: int = 0
    """Common initial points."""
    first: int = 0
    """The first seed, where earlier ones were used for tuning."""


def bbob(dim: int, functions: Sequence[int]) -> Suite:
    return Suite(tuple(("bbob", {"function": f, "dim": dim}, 20 * dim) for f in functions), first=1)


def suites(functions: Sequence[int]) -> dict[str, Suite]:
    noisy = (
        ("branin-threds", {"noise_sd": 0.1}, 60),
        ("hartmann6", {"noise_share": 0.3}, 100),
        ("levy", {"dim": 5, "shift": 0.6, "noise_share": 0.1}, 100),
        ("rosenbrock-threds", {"noise_sd": 0.5}, 60),
        ("styblinski-tang", {"dim": 5, "shift": 0.6, "noise_share": 0.3}, 100),
    )
    high: tuple[tuple[str, dict[str, Any], int], ...] = tuple(
        (name, {"dim": dim, "shift": 0.6, **({"bound": 5.0} if name == "ackley" else {})}, 200)
        for dim in (50, 100) for name in ("ackley", "levy", "ellipsoid", "rosenbrock")
    )  # fmt: skip
    tables = (
        *(("hpobench-mlp", {"data_set": name}, 60) for name in ("vehicle", "phoneme", "segment", "credit_g")),
        *(("nasbench201", {"data_set": name}, 60) for name in ("cifar10", "imagenet")),
    )
    tasks: tuple[tuple[str, dict[str, Any], int], ...] = (
        ("svm-digits", {}, 40),
        ("boosting-diabetes", {}, 40),
        ("mlp-breast-cancer", {}, 40),
    )
    return {
        "bbob-2": bbob(2, functions),
        "bbob-5": bbob(5, functions),
        "bbob-10": bbob(10, functions),
        "noisy": Suite(noisy, noisy=True),
        "high-dim": Suite(high, HIGH_OURS + HIGH_PEERS, init=20, first=3),
        "tabular": Suite(tables, noisy=True),
        "sklearn": Suite(tasks),
    }


# ---------------------------------------------------------------- outcomes


class Outcome(NamedTuple):
    """What a run came to; losses are noiseless values signed so that lower is better."""

    problem: str
    seed: int
    budget: int
    best: float
    """Of the points evaluated."""
    recommended: float
    ms: float
    """CPU milliseconds per ask and tell."""


Outcomes = dict[str, dict[tuple[str, int, int], Outcome]]
"""Method -> (problem, seed, budget) -> outcome."""


def outcome(record: Record) -> Outcome:
    best, advised = -record.sign * record.best()[-1], -record.sign * record.recommended
    return Outcome(
        record.problem,
        record.seed,
        int(record.settings["budget"]),
        float(best),
        float(advised),
        float(f"{ms_per_ask(record):.4g}"),
    )


def gathered(folder: Path, runs: Iterable[Run], elsewhere: Mapping[str, Path] = MappingProxyType({})) -> Outcomes:
    """Outcomes of the runs, from the files of earlier sweeps and from records, here or elsewhere; a record that is
    there counts."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder / "outcomes").glob("*.json"))]
    found = {stored["method"]: stored for stored in files}
    kept: Outcomes = {
        m: {(o.problem, o.seed, o.budget): o for o in (Outcome(current(o[0]), *o[1:]) for o in stored["outcomes"])}
        for m, stored in found.items()
    }
    made = {m: list(stored["made"]) for m, stored in found.items()}
    fresh = set()
    for run in runs:
        path = folder / f"{run.key}{SUFFIX}"
        path = path if ended_well(path) else elsewhere.get(same(run.settings), path)
        if ended_well(path):
            record = read_record(path)
            around = {"versions": record.facts["versions"], "commit": record.facts["commit"]}
            made.setdefault(run.title, [])
            made[run.title] += [around] if around not in made[run.title] else []
            kept.setdefault(run.title, {})[key_of(run)] = outcome(record)
            fresh.add(run.title)
    for method in fresh:
        stored = {"method": method, "made": made[method], "outcomes": sorted(kept[method].values())}
        write_whole(
            folder / "outcomes" / f"{file_name(method)}.json", json.dumps(stored, separators=(",", ":")).encode()
        )
    return kept


def current(problem: str) -> str:
    """The title of a problem with its options under their present names."""
    for former, present in RENAMED.items():
        problem = re.sub(rf"\b{former}=", f"{present}=", problem)
    return problem


def records_elsewhere(folders: Iterable[Path]) -> dict[str, Path]:
    """The records of other experiments by what they ran."""
    found = {}
    for path in (path for folder in folders for path in sorted(folder.glob(f"*{SUFFIX}"))):
        with open(path, encoding="utf-8") as file:
            settings = json.loads(file.readline())["settings"]
        options = {RENAMED.get(name, name): value for name, value in settings["options"].items()}
        found[same({**settings, "options": options})] = path
    return found


def same(settings: Mapping[str, Any]) -> str:
    """What makes two runs the same: all settings but how the method is called and when it was looked at."""
    method = {"name": settings["method"]["name"], "options": settings["method"]["options"]}
    return json.dumps(
        {**{k: v for k, v in settings.items() if k not in ("label", "checkpoints")}, "method": method},
        sort_keys=True,
        default=repr,
    )


def key_of(run: Run) -> tuple[str, int, int]:
    return called(run.problem, run.options), run.seed, run.budget


def runs_of(suite: Suite, methods: Sequence[str], seeds: int, costly_seeds: int, share: float) -> list[Run]:
    """Seed by seed, so that an interrupted sweep has whole cases."""
    return [
        Run(
            method_named(method),
            problem,
            *instance(problem, options, suite.first + n),
            max(8, round(share * budget)),
            init=suite.init,
            label=method,
        )
        for n in range(seeds)
        for problem, options, budget in suite.problems
        for method in methods
        if n < costly_seeds or method.partition(":")[0] not in COSTLY
    ]


def instance(problem: str, options: dict[str, Any], seed: int) -> tuple[dict[str, Any], int]:
    """The options and the seed of a repetition: bbob counts instances, the others seeds."""
    return ({**options, "instance": seed}, 100 * seed) if problem == "bbob" else (options, seed)


# ---------------------------------------------------------------- tables


class Row(NamedTuple):
    """A method's mean rank and its standard error by the best evaluated, its mean rank by the recommendation, and CPU
    ms per ask."""

    method: str
    rank: float
    error: float
    advised: float
    ms: float


def table(found: Outcomes, runs: Sequence[Run], field: Sequence[str]) -> tuple[int, list[Row]]:
    """The number of cases that the whole field finished, and its rows, best first; the seeds of a problem count as
    independent cases."""
    wanted = list(dict.fromkeys(key_of(run) for run in runs))
    cases = [case for case in wanted if all(case in found.get(method, {}) for method in field)]
    if not cases or len(field) < 2:
        return 0, []
    best = ranks(np.array([[found[m][case].best for m in field] for case in cases]))
    advised = ranks(np.array([[found[m][case].recommended for m in field] for case in cases]))
    error = best.std(axis=0, ddof=1) / len(cases) ** 0.5 if len(cases) > 1 else np.full(len(field), np.nan)
    rows = [
        Row(
            m,
            float(best[:, i].mean()),
            float(error[i]),
            float(advised[:, i].mean()),
            float(np.median([found[m][case].ms for case in cases])),
        )
        for i, m in enumerate(field)
    ]
    return len(cases), sorted(rows, key=lambda row: row.rank)


def tables(found: Outcomes, runs: Sequence[Run], methods: Sequence[str]) -> list[tuple[int, list[Row]]]:
    """The whole field on its shared cases, then without the methods that ran the fewest, as long as that gives many
    more cases."""
    wanted = {key_of(run) for run in runs}
    counts = {m: len(wanted & set(found.get(m, {}))) for m in methods}
    field = [m for m in methods if counts[m]]
    shown = [table(found, runs, field)]
    while len(field) > 2:
        fewest = min(counts[m] for m in field)
        field = [m for m in field if counts[m] > fewest]
        smaller = table(found, runs, field)
        if smaller[0] >= MORE * shown[-1][0] and len(field) > 2:
            shown.append(smaller)
    return [t for t in shown if t[1]]


def as_text(name: str, cases: int, rows: Sequence[Row]) -> str:
    lines = [
        f"== {name}: {cases} cases, {len(rows)} methods",
        f"{'method':<34}{'mean rank':>16}{'recommended':>13}{'CPU ms/ask':>12}",
    ]
    lines += [f"{r.method:<34}{r.rank:>9.2f} +-{r.error:>5.2f}{r.advised:>13.2f}{r.ms:>12.3g}" for r in rows]
    return "\n".join(lines)


def as_markdown(name: str, cases: int, rows: Sequence[Row]) -> str:
    lines = [
        f"### {name}: {cases} cases, {len(rows)} methods",
        "",
        "| method | mean rank | of the recommendation | CPU ms per ask |",
        "| --- | --- | --- | --- |",
    ]
    for r in rows:
        shown = f"**{r.method}**" if r.method in OURS + HIGH_OURS else r.method
        lines.append(f"| {shown} | {r.rank:.2f} ± {r.error:.2f} | {r.advised:.2f} | {r.ms:.3g} |")
    return "\n".join(lines)


def as_section(name: str, cases: int, rows: Sequence[Row], noisy: bool) -> Section:
    columns = ["method", "mean rank", "standard error", "mean rank of the recommendation", "CPU ms per ask"]
    note = f"{cases} cases; ranks are joint within a case, 1 is best." + (
        " Noisy: the recommendation is what counts." if noisy else ""
    )
    shown: list[list[TableCell]] = [[r.method, *(float(f"{v:.3g}") for v in r[1:])] for r in rows]
    return table_section(
        name, columns, shown, best={"mean rank": "min", "mean rank of the recommendation": "min"}, note=note
    )


# ---------------------------------------------------------------- the command


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=Path("runs/peers"), help="folder of the records, one folder per suite in it"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, help="seeds per problem (quick 2, standard 5, full 10)")
    parser.add_argument(
        "--costly-seeds", type=int, help=f"the same of {', '.join(COSTLY)} (quick 1, standard 2, full 10)"
    )
    parser.add_argument("--suites", help="comma-separated, of: " + ", ".join(suites(range(1, 25))))
    parser.add_argument("--functions", help="numbers of bbob's functions, comma-separated; all by default")
    parser.add_argument(
        "--records",
        type=Path,
        action="append",
        default=[],
        help="a folder of records of the same runs made by another experiment",
    )
    parser.add_argument(
        "--methods", help="names separated by spaces (options after a colon), instead of each suite's own field"
    )
    parser.add_argument("--quick", action="store_true", help="three bbob functions, half budgets, two seeds")
    parser.add_argument("--full", action="store_true", help="ten seeds for all")
    parser.add_argument("--tables", action="store_true", help="only the tables of what is there")
    parser.add_argument("--into", type=Path, help="a Markdown file that takes the tables between its markers")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds after which a single run is given up")
    options = parser.parse_args(arguments)
    if options.quick and options.full:
        parser.error("--quick and --full exclude each other")
    functions: Sequence[int] = (1, 8, 21) if options.quick else range(1, 25)
    functions = [int(word) for word in options.functions.split(",")] if options.functions else functions
    seeds = options.seeds or (2 if options.quick else 10 if options.full else 5)
    costly = min(seeds, options.costly_seeds or (1 if options.quick else 10 if options.full else 2))
    every = suites(functions)
    chosen = options.suites.split(",") if options.suites else list(every)
    if any(name not in every for name in chosen):
        parser.error(f"--suites takes {', '.join(every)}")
    sections, words = [], []
    elsewhere = records_elsewhere(options.records)
    for name in chosen:
        suite, folder = every[name], options.out / name
        methods = options.methods.split() if options.methods else suite.methods
        runs = runs_of(suite, methods, seeds, costly, 0.5 if options.quick else 1.0)
        if not options.tables:
            there = gathered(folder, runs, elsewhere)
            for method in sorted(m for m in methods if not installed(m.partition(":")[0])):
                print(f"left out: {method} is not installed here")
            todo = [
                run
                for run in runs
                if installed(run.title.partition(":")[0]) and key_of(run) not in there.get(run.title, {})
            ]
            for record in run_all(todo, folder, options.jobs, timeout=options.timeout):
                if record.error is not None:
                    why = record.error.strip().splitlines()[-1][:120]
                    print(f"failed: {record.label} on {record.problem}, seed {record.seed}: {why}")
        for cases, rows in tables(gathered(folder, runs, elsewhere), runs, methods):
            print(f"\n{as_text(name, cases, rows)}", flush=True)
            sections.append(as_section(name, cases, rows, suite.noisy))
            words.append(as_markdown(name, cases, rows))
    options.out.mkdir(parents=True, exist_ok=True)
    if options.into is not None:
        before, _, rest = options.into.read_text(encoding="utf-8").partition(BEGIN)
        shown = "\n\n".join(words)
        options.into.write_text(f"{before}{BEGIN}\n\n{shown}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    page = options.out / "peers.html"
    page.write_text(html_page("Our methods beside the peers", sections), encoding="utf-8")
    print(f"\npage: {page}")


if __name__ == "__main__":
    main()
