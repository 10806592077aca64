"""The verdicts of the published findings again, by the present rules, from the compact records beside them.

    python experiments/rejudge.py            all that can be judged from what is stored
    python experiments/publish.py            then the page and the table

Nothing is run. Charts and tables of medians stay as they are; checks, verdict and sentence are made anew by the same
functions that the experiments use. GP-ThreDS's Fig. 4 (a, b) compares at equal times, which compact records do not
hold: the finding has them in tables of its own, by seed.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import bilevel_tables
import go_ucb_fig2
import go_ucb_fig3
import gp_threds_cnn
import gp_threds_fig4
import ms_ucb_fig1
import ms_ucb_fig2
import ms_ucb_fig3
import ms_ucb_real
import neural_bo_coco
import neural_bo_fig1
import neural_bo_fig6
import neural_bo_pushing
import neural_bo_reviews
import neural_bo_sensitive
import numpy as np
from publish import RESULTS, coarse
from regretless_bench.compact import Line, read_lines, read_records
from regretless_bench.finding import SIZES, Finding, Table
from regretless_bench.problems import PROBLEMS, make_problem
from regretless_bench.record import naturally
from regretless_bench.verdicts import Check, both_columns, checks_table, judged

from regretless.basics.statefile import write_whole

IMAGES = neural_bo_sensitive.IMAGES
Cases: TypeAlias = dict[str, dict[str, list[Line]]]


def is_full(finding: Finding) -> bool:
    return SIZES[finding.size] == "full"


def sized(finding: Finding) -> argparse.Namespace:
    """What an experiment is told of a finding's size."""
    return argparse.Namespace(full=is_full(finding), quick=SIZES[finding.size] == "quick")


def least(line: Line) -> float:
    """The best value of a task that is minimised."""
    return line.best[-1]


def gap(line: Line) -> float:
    """How far the best value is from the optimum of a function of the catalogue; Camelback is maximised."""
    return abs(line.best[-1] - optimum(line.problem))


@functools.cache
def optimum(problem: str) -> float:
    """Of a function with its options, such as michalewicz(dim=20): some optima depend on the dimension."""
    name, _, words = problem.removesuffix(")").partition("(")
    options = dict(word.split("=") for word in words.split(", ") if word)
    return float(make_problem(name, seed=0, **{k: ast.literal_eval(v) for k, v in options.items()}).optimum)


def grouped(lines: Sequence[Line], name: Callable[[Line], str] = lambda line: line.problem) -> Cases:
    """Lines by problem and method, ordered by seed."""
    groups: Cases = {}
    for line in sorted(lines, key=lambda line: (naturally(name(line)), line.label, line.seed)):
        groups.setdefault(name(line), {}).setdefault(line.label, []).append(line)
    return groups


def rejudged(
    old: Finding,
    checks: list[Check],
    good: list[Check],
    ours: list[Check],
    seeds: int,
    beside: Sequence[Table] = (),
    prefix: str = "",
    called: str = "our default",
    bound: Check | None = None,
) -> Finding:
    """The finding with new checks, verdict and sentence; the tables of numbers stay."""
    verdict, sentence = judged(checks, seeds, good, bound=bound)
    words = ("check", "holds", "found")
    numbers = [table for table in old.tables if tuple(table.columns[:3]) != words or table.title.startswith("Table 2")]
    made = [*both_columns(checks, good), checks_table(ours, f"beside the claim: the same checks of {called}")]
    return replace(old, verdict=verdict, sentence=f"{prefix}{sentence}", tables=[*made, *beside, *numbers])


def runs_of(cases: Mapping[str, Mapping[str, Sequence[Any]]]) -> int:
    return min(len(lines) for methods in cases.values() for lines in methods.values())


# ---------------------------------------------------------------- one function per paper


def go_ucb(old: Finding, lines: list[Line]) -> Finding:
    if old.figure == "fig2":
        names = {problem: name for name, (problem, *_) in go_ucb_fig2.PROBLEMS.items()}
        cases = grouped(lines, lambda line: names[line.problem.partition("(")[0]])
        tops = {name: float(PROBLEMS[problem](seed=0).optimum) for problem, name in names.items()}
        top = {line.problem: tops[names[line.problem.partition("(")[0]]] for line in lines}
        start, checks, good, ours, beside = go_ucb_fig2.claimed(
            cases, lambda r: r.evaluations * (top[r.problem] - r.mean)
        )
        prefix = f"{go_ucb_fig2.STARTED.format(start=start)}: "
    else:
        cases = grouped(lines, lambda line: line.problem.partition("classifier=")[2].partition(",")[0])
        top = {line.problem: max(r.best[-1] for r in lines if r.problem == line.problem) for line in lines}
        start, checks, good, ours, beside = go_ucb_fig3.claimed(
            cases, old.figure, lambda r: r.evaluations * (top[r.problem] - r.mean)
        )
        prefix = f"{start.capitalize()}: "
    called = go_ucb_fig2.OURS
    return rejudged(old, checks, good, ours, runs_of(cases), [beside], prefix, called)


def ms_ucb(old: Finding, lines: list[Line]) -> Finding:
    cases, long = grouped(lines), min(line.evaluations for line in lines)
    if old.figure == "fig1":
        printed = ms_ucb_fig1.PAPER
        checks, ours = (ms_ucb_fig1.leading(cases, label, long, gap) for label in (printed, "ms-ucb"))
        good = ms_ucb_fig1.leading(cases, printed, long, gap, ms_ucb_fig1.GOOD)
        beside = ms_ucb_fig1.beside(cases, gap)
    elif old.figure in ("fig2", "fig3"):
        study = ms_ucb_fig2 if old.figure == "fig2" else ms_ucb_fig3
        checks, ours = (
            ms_ucb_fig1.ordered(cases, p, study.ORDERS, study.QUOTE, long, gap) for p in ("paper", "default")
        )
        good, beside = [], []
    else:
        task = "mnist-net" if old.figure == "fig4" else "ramp-loss"
        checks, ours = (ms_ucb_real.claimed(cases, label, task, long, least) for label in ("ms-ucb (paper)", "ms-ucb"))
        good, beside = ms_ucb_real.claimed(cases, "ms-ucb (paper)", task, long, least, ms_ucb_real.GOOD), []
    bound = ms_ucb_fig1.bound(old.figure, cases, gap)
    return rejudged(old, checks, good, ours, runs_of(cases), beside, bound=bound)


def neural_bo(old: Finding, lines: list[Line]) -> Finding:
    cases = grouped(lines)
    labels, tail = ("neural-bo (paper)", "neural-bo"), ""
    if old.figure == "fig1":
        evaluations = min(line.evaluations for line in lines)
        checks, ours = (neural_bo_fig1.claimed(cases, label, evaluations, gap) for label in labels)
        good = neural_bo_fig1.claimed(cases, labels[0], evaluations, gap, neural_bo_fig1.GOOD)
        beside = [neural_bo_fig1.one_by_one(cases, gap), *neural_bo_fig1.authors_tables(cases, gap)]
        beside += [checks_table(neural_bo_fig1.beside(cases, gap), "beside the claim: shifted functions")]
        beside += [table for table in old.tables if table.title == neural_bo_fig1.ONE_BY_ONE]
        prefix, tail = "", "".join(old.sentence.partition(neural_bo_fig1.TABLE_2)[1:])
    elif old.figure == "fig5":
        evaluations = lines[0].evaluations
        checks, ours = (neural_bo_pushing.claimed(cases, label, evaluations, lambda r: -r.best[-1]) for label in labels)
        good = list[Check]()
        beside, prefix = [neural_bo_pushing.beside(cases, evaluations, lambda r: -r.best[-1])], ""
    else:
        titles = (neural_bo_sensitive.RATES, neural_bo_sensitive.ALONE)
        tables = [next((table for table in old.tables if table.title == title), None) for title in titles]
        if None in tables:
            return old
        rates, alone = (
            {str(row[0]): np.array(row[1:], dtype=float) for row in table.rows} for table in tables if table is not None
        )
        judged_by = IMAGES if IMAGES in alone else labels[0]
        checks, printed, ours = (neural_bo_sensitive.claimed(rates, alone, m) for m in (judged_by, *labels))
        good = neural_bo_sensitive.claimed(rates, alone, judged_by, neural_bo_sensitive.GOOD)
        beside = [checks_table(printed, "beside the claim: as printed, on the box")]
        beside, prefix = [*beside, neural_bo_sensitive.beside(cases, lambda r: -r.best[-1])], ""
    found = rejudged(old, checks, good, ours, runs_of(cases), beside, prefix)
    return replace(found, sentence=found.sentence + tail)


def gp_threds(old: Finding, lines: list[Line]) -> Finding | None:
    """Fig. 4 (a, b); None where the finding does not hold its losses by seed."""
    names = {name: problem for problem, (name, *_) in gp_threds_fig4.PROBLEMS.items()}
    cases = grouped(lines, lambda line: names[line.problem.partition("(")[0]])
    then: dict[str, dict[str, tuple[float, dict[str, np.ndarray]]]] = {}
    for label in gp_threds_fig4.JUDGED:
        found = {problem: gp_threds_fig4.from_tables(old.tables, problem, label) for problem in cases}
        then[label] = {problem: of for problem, of in found.items() if of is not None}
        if len(then[label]) < len(found):
            return None
    times = next(table for table in old.tables if table.title == gp_threds_fig4.TIMES)
    checks, good, ours = gp_threds_fig4.judgements(then, gp_threds_fig4.costs(times.rows))
    kept = [t for t in old.tables if t.title.startswith("beside the claim") and "same checks" not in t.title]
    new = rejudged(old, checks, good, ours, runs_of(cases), kept)
    return replace(new, sentence=f"{new.sentence} Per sample{old.sentence.partition(' Per sample')[2]}")


def from_json(old: Finding, records: list[dict[str, Any]]) -> Finding:
    """Experiments that keep records of their own: the whole finding again, from these."""
    if old.paper == "bilevel":
        ts = tuple(int(t) for t in str(old.settings["T"]).split(", "))
        is_quick = str(old.settings["size"]).startswith("quick")
        made = bilevel_tables.finding(records, bilevel_tables.REDUCED if is_quick else 1, ts, not is_quick)
    elif old.paper == "gp-threds":
        made = gp_threds_cnn.finding(records, None, gp_threds_cnn.FULL if is_full(old) else gp_threds_cnn.SMALL)
    elif old.figure == "fig2":
        made = neural_bo_coco.finding([row for block in records for row in block["rows"]], old.seconds)
    elif old.figure == "fig6":
        made = neural_bo_fig6.finding(records, sized(old))
    else:
        return old
    return replace(made, around=old.around, seconds=old.seconds, charts=old.charts)


def reviews(old: Finding, records: dict[str, dict[str, Any]]) -> Finding:
    """Document retrieval: a record's name holds its method and its seed."""
    found: dict[str, list[list[float]]] = {}
    took: dict[str, list[float]] = {}
    evaluations = min(len(record["scores"]) for record in records.values())
    for name, record in sorted(records.items(), key=lambda item: naturally(item[0])):
        method = name.rpartition("-n")[0].rpartition("-s")[0]
        found.setdefault(method, []).append(record["scores"][:evaluations])
        took.setdefault(method, []).append(record["seconds"] * evaluations / len(record["scores"]))
    curves = {m: np.maximum.accumulate(np.array(runs), axis=1) for m, runs in found.items()}
    made = neural_bo_reviews.finding(curves, {m: float(np.mean(s)) for m, s in took.items()})
    return replace(made, around=old.around, seconds=old.seconds, charts=coarse(made.charts))


def again(name: str) -> tuple[Finding, Finding] | None:
    """A published finding and what it comes to now; None where its records do not hold what its checks need."""
    old = Finding.read(RESULTS / "findings" / f"{name}.json")
    place = RESULTS / "records" / name
    if place.with_suffix(".csv").is_file():
        by_paper = {"go-ucb": go_ucb, "ms-ucb": ms_ucb, "neural-bo": neural_bo, "gp-threds": gp_threds}
        made = by_paper[old.paper](old, read_lines(place.with_suffix(".csv")))
        return None if made is None else (old, made)
    stored = read_records(place.with_suffix(".json"))
    if (old.paper, old.figure) == ("neural-bo", "fig4"):
        return old, reviews(old, stored)
    return old, from_json(old, list(stored.values()))


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    for path in sorted((RESULTS / "findings").glob("*.json")):
        pair = again(path.stem)
        if pair is None:
            print(f"{path.stem}: its records do not hold what its checks need")
            continue
        old, new = pair
        write_whole(path, json.dumps(asdict(new), separators=(",", ":")).encode())
        print(f"{path.stem}: {old.verdict} -> {new.verdict}: {new.sentence}")


if __name__ == "__main__":
    main()
