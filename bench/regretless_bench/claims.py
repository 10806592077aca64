"""From records to a finding: what the experiments behind the papers' figures share.

    options = experiment_options(parser, "runs/ms_ucb_fig1", seeds=(5, 10))
    ...
    cases = grouped(gather(runs, options))
    checks = leads(cases, "ms-ucb (paper)", RIVALS, final_loss)
    Finding("ms-ucb", "fig1", ..., *judged(checks, fewest(cases), leads(cases, "ms-ucb", RIVALS, final_loss)),
    ...).write(options.out)

A claim is a list of checks, each computed from the records; the verdict counts how many hold.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from regretless.parameters import Array
from regretless.report.page import Cell, Curve, curves_chart, thinned
from regretless.statefile import write_whole
from regretless_bench.finding import Table, Verdict
from regretless_bench.problems.data import ENVIRONMENT, data_folder
from regretless_bench.record import SUFFIX, Record, Run, by_problem, ended_well, failures, read_record, stamped
from regretless_bench.runner import run_all
from regretless_bench.stats import paired, quartiles
from regretless_bench.summary import band, median_text, ms_per_ask

LEAST_SEEDS = 5
"""With fewer repetitions of any method nothing is decided."""
IN_PART = 0.5
"""A claim reproduces in part when at least this share of its checks holds, and in full when all do."""
CHART_POINTS = 40
"""Points of a curve in a finding: all figures of all papers together stay below 5 MB."""
CLEAR = 0.01
"""Where equal is not enough, a median must be lower by more than this share of the rival's."""
WORST = 1e300
"""The loss of a run that found nothing; finite, so that losses have differences."""
NAMED = 4
"""A verdict's sentence names at most this many checks that fail."""
PARENT = "REGRETLESS_PARENT"
"""Names the process of `regretless reproduce` to the experiment it starts."""
WATCH_SECONDS = 0.3
SAMPLES, SECONDS = "evaluations", "CPU seconds in the method"

T = TypeVar("T")
Cases: TypeAlias = Mapping[str, Mapping[str, Sequence[Record]]]
"""Problem -> method label -> records ordered by seed."""
Loss: TypeAlias = Callable[[Record], float]
"""What a run is judged by; lower is better."""


# ---------------------------------------------------------------- options


def experiment_options(
    parser: argparse.ArgumentParser,
    out: str,
    *,
    seeds: tuple[int, int] = (5, 10),
    data: str | None = None,
    words: Sequence[str] | None = None,
) -> argparse.Namespace:
    """Adds what every experiment understands to a parser and reads the command line.

    Args:
        parser: may already hold options of the experiment's own.
        out: the folder of the results unless --out names one.
        seeds: repetitions of the quick and of the full size, unless --seeds names a number.
        data: the data set the experiment needs, if any; when it is missing, one line says so and the process ends.
        words: the command line, by default the process's.
    """
    parser.add_argument("--out", type=Path, default=Path(out), help="folder of the results")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument(
        "--seeds", type=int, help=f"repetitions; {seeds[0]} in the quick size, {seeds[1]} in the full one"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="the quick size, which is the default")
    size.add_argument("--full", action="store_true", help="the paper's size")
    parser.add_argument("--data", type=Path, help="the folder that holds the data sets")
    parser.add_argument("--timeout", type=float, help="seconds after which a single run is given up")
    parser.add_argument(
        "--report", action="store_true", help="run nothing: the finding from the records that are there"
    )
    options = parser.parse_args(words)
    if PARENT in os.environ:
        threading.Thread(target=_end_without, args=(int(os.environ[PARENT]),), daemon=True).start()
    options.seeds = seeds[options.full] if options.seeds is None else options.seeds
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}")
    if options.data is not None:
        os.environ[ENVIRONMENT] = str(options.data.resolve())  # for the workers as well
    if data is not None:
        try:
            data_folder(data)
        except FileNotFoundError as error:
            sys.exit(f"{parser.prog}: {error}")
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def _end_without(parent: int) -> None:
    """Ends this process when the command that started it was killed, so that the same command can resume what is
    there."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)


# ---------------------------------------------------------------- records


def gather(runs: Sequence[Run], options: argparse.Namespace) -> list[Record]:
    """The finished records of these runs; what is missing is run first, unless --report was given."""
    if options.report:
        places = [options.out / f"{run.key}{SUFFIX}" for run in runs]
        return needed([read_record(path) for path in places if ended_well(path)], options)
    records = run_all(runs, options.out, options.jobs, timeout=options.timeout)
    for line in failures(records):
        print(line, file=sys.stderr)
    return needed([record for record in records if record.error is None], options)


def keep_results(running: Mapping[Future[Mapping[str, Any]], Path], unit: str) -> None:
    """Writes what each worker returns to its place as a record; when all are through and some failed, the process ends
    with a line for each."""
    from tqdm import tqdm

    failed = []
    for future in tqdm(as_completed(running), total=len(running), unit=unit):
        error = future.exception()
        if error is None:
            write_whole(running[future], stamped(future.result()))
        else:
            failed.append(f"failed: {running[future].stem}: {type(error).__name__}: {error}")
    if failed:
        sys.exit("\n".join(failed))


def needed(found: list[T], options: argparse.Namespace) -> list[T]:
    """What was found; when that is nothing, the process ends with one line."""
    if not found:
        size = "full" if options.full else "quick"
        sys.exit(
            f"there are no records of the {size} size in {options.out}: run the same command without --report first"
        )
    return found


def grouped(
    records: Iterable[Record], problem: Callable[[Record], str] | None = None
) -> dict[str, dict[str, list[Record]]]:
    """Records by problem and method; `problem` names a record's problem where its options would split what belongs
    together (folds, say)."""
    return by_problem(records) if problem is None else by_problem(records, problem)


def final_loss(record: Record) -> float:
    """The best noiseless value evaluated, signed so that lower is better."""
    return float(-record.sign * record.best()[-1])


def common(methods: Mapping[str, Sequence[Record]], labels: Sequence[str], loss: Loss) -> dict[str, Array]:
    """Losses over the seeds that all these methods ran, label -> one per seed; methods without records are left out.

    A run that found nothing (NaN) has lost: its loss is WORST. Where no run has a loss, the loss is not one of these
    records, which raises.
    """
    values = {label: {r.seed: loss(r) for r in methods[label]} for label in labels if methods.get(label)}
    if values and all(math.isnan(value) for of in values.values() for value in of.values()):
        raise ValueError(f"no run of {', '.join(values)} has a loss: these records hold no noiseless values?")
    values = {
        label: {seed: WORST if math.isnan(value) else value for seed, value in of.items()}
        for label, of in values.items()
    }
    shared = sorted(set.intersection(*(set(v) for v in values.values()))) if values else []
    return {label: np.array([of[seed] for seed in shared]) for label, of in values.items()}


def fewest(cases: Cases) -> int:
    """The smallest number of repetitions of any method on any problem."""
    return min((len(records) for methods in cases.values() for records in methods.values()), default=0)


def core_seconds(cases: Cases) -> float:
    """Seconds of one core that the records took: processor time in the methods, and evaluations."""
    runs = [r for methods in cases.values() for records in methods.values() for r in records]
    return float(sum(r.cpu.sum() + r.seconds_evaluate.sum() for r in runs))


# ---------------------------------------------------------------- verdicts


class Check(NamedTuple):
    """One thing a claim says, whether it holds in our records, and the numbers it was judged by."""

    what: str
    held: bool
    found: str


def leads(
    cases: Cases,
    label: str,
    rivals: Sequence[str],
    loss: Loss = final_loss,
    what: str = "loss",
    *,
    strict: bool = False,
) -> list[Check]:
    """Per problem that `label` and a rival ran: has it the lowest median of all? Over common seeds; a tie counts;
    strict: lower by CLEAR."""
    found = (
        (problem, common(methods, [label, *(r for r in rivals if r != label)], loss))
        for problem, methods in cases.items()
    )
    usable = [
        (problem, losses) for problem, losses in found if label in losses and len(losses) > 1 and len(losses[label])
    ]
    return [lowest(problem, losses, label, what, strict=strict) for problem, losses in usable]


def lowest(problem: str, losses: Mapping[str, Array], label: str, what: str = "loss", *, strict: bool = False) -> Check:
    """Is the median of `label` the lowest of all methods? `losses` has one value per seed and method; a tie counts;
    strict: lower by CLEAR."""
    medians = {name: float(np.median(values)) for name, values in losses.items()}
    rival = min((name for name in medians if name != label), key=medians.__getitem__)
    against = paired(losses[label], losses[rival])
    found = (
        f"{label} {medians[label]:.4g}, best of the others {rival} {medians[rival]:.4g}; "
        f"better on {against.wins} of {len(losses[label])} paired seeds (p {against.p:.2g})"
    )
    held = medians[label] < medians[rival] - CLEAR * abs(medians[rival]) if strict else medians[label] <= medians[rival]
    return Check(f"{problem}: lowest median {what}", held, found)


def improves(cases: Cases, better: str, worse: str, loss: Loss = final_loss, what: str = "loss") -> list[Check]:
    """Per problem that both ran: is the median of `better` below that of `worse`? Over common seeds."""
    checks = []
    for problem, methods in cases.items():
        losses = common(methods, [better, worse], loss)
        if len(losses) < 2 or not len(losses[better]):
            continue
        a, b = float(np.median(losses[better])), float(np.median(losses[worse]))
        against = paired(losses[better], losses[worse])
        found = (
            f"median {what} {a:.4g} against {b:.4g}; "
            f"better on {against.wins} of {len(losses[better])} paired seeds (p {against.p:.2g})"
        )
        checks.append(Check(f"{problem}: {better} below {worse}", a < b, found))
    return checks


def judged(checks: Sequence[Check], seeds: int, ours: Sequence[Check] = ()) -> tuple[Verdict, str]:
    """The verdict on a claim and its reason in one sentence.

    Args:
        checks: what the claim says of the method as printed.
        seeds: repetitions behind every check.
        ours: the same checks of our default; where these hold and the printed method's do not, the claim reproduces
            only with our default. Half of either is a claim in part.
    """
    if not checks or seeds < LEAST_SEEDS:
        found = f"there are {seeds} and {len(checks)}"
        return (
            "not decided yet",
            f"At least {LEAST_SEEDS} repetitions of every method and one check are needed; {found}.",
        )
    printed, mine = _share(checks), _share(ours)
    failing = [check.what for check in checks if not check.held]
    whole = f"{_held(checks)} checks hold"
    whole += f" for the method as printed, {_held(ours)} for our default" if ours else ""
    if failing:
        whole += f". What fails{' as printed' if ours else ''}: {'; '.join(failing[:NAMED])}"
        whole += f"; and {len(failing) - NAMED} more" if len(failing) > NAMED else ""
    whole += "."
    if printed == 1:
        return "reproduces", whole
    if mine == 1:
        return "reproduces only with our default", whole
    if max(printed, mine) >= IN_PART:
        return "reproduces only in part", whole
    return "does not reproduce", whole


def _held(checks: Sequence[Check]) -> str:
    return f"{sum(check.held for check in checks)} of {len(checks)}"


def _share(checks: Sequence[Check]) -> float:
    return sum(check.held for check in checks) / len(checks) if checks else 0.0


# ---------------------------------------------------------------- tables and charts


def checks_table(checks: Sequence[Check], title: str = "checks") -> Table:
    """What was checked and found."""
    return Table(title, ["check", "holds", "found"], [[c.what, "yes" if c.held else "no", c.found] for c in checks])


def medians_table(
    cases: Cases, loss: Loss = final_loss, what: str = "best value", sign: float = 1.0, order: Sequence[str] = ()
) -> Table:
    """Medians with quartiles over seeds, methods by rows and problems by columns, and CPU time; `sign` -1 shows
    maximised values."""
    found = list(dict.fromkeys(label for methods in cases.values() for label in methods))
    labels = [label for label in order if label in found] + [label for label in found if label not in order]
    rows: list[list[Cell]] = []
    for label in labels:
        row: list[Cell] = [label, min(len(methods[label]) for methods in cases.values() if label in methods)]
        for methods in cases.values():
            values = np.array([sign * loss(r) for r in methods.get(label, ())])
            row.append(median_text(quartiles(values[:, None])[:, 0]) if len(values) else None)
        cost = float(np.median([ms_per_ask(r) for methods in cases.values() for r in methods.get(label, ())]))
        rows.append([*row, float(f"{cost:.3g}")])
    best = dict.fromkeys(cases, "min" if sign > 0 else "max")
    return Table(f"{what}: median (quartiles)", ["method", "seeds", *cases, "CPU ms per ask"], rows, best)


def charts(
    cases: Cases,
    quantities: Mapping[str, Callable[[Record], Array]],
    *,
    log_y: bool | Sequence[str] = True,
    published: Mapping[str, Sequence[Curve]] | None = None,
) -> list[tuple[str, dict[str, Any]]]:
    """A chart per problem: medians with quartiles of each quantity against evaluations and seconds; what others
    published is dashed."""
    found = []
    for problem, methods in cases.items():
        lines = [_curve(label, records, quantities) for label, records in methods.items()]
        lines += (published or {}).get(problem, ())
        found.append((problem, curves_chart(lines, log_x=[SECONDS], log_y=log_y)))
    return found


def _curve(label: str, records: Sequence[Record], quantities: Mapping[str, Callable[[Record], Array]]) -> Curve:
    n = min(len(record.value) for record in records)
    rows = {name: np.array([of(record)[:n] for record in records]) for name, of in quantities.items()}
    return curve(label, rows, np.array([np.cumsum(record.cpu)[:n] for record in records]))


def curve(label: str, rows: Mapping[str, Array], seconds: Array, *, dash: bool = False) -> Curve:
    """A chart's line from seeds x n values of each quantity and seeds x n seconds: medians and quartiles, thinned."""
    keep = thinned(seconds.shape[1], CHART_POINTS)
    x = {SAMPLES: keep + 1.0, SECONDS: np.median(seconds[:, keep], axis=0)}
    return Curve(label, x, {name: band(values[:, keep]) for name, values in rows.items()}, dash=dash)
