"""From records to a finding: what the experiments behind the papers' figures share.

    options = experiment_options(parser, "runs/ms_ucb_fig1", seeds=(5, 10))
    ...
    cases = grouped(gather(runs, options))
    checks = leads(cases, "ms-ucb (paper)", RIVALS, final_loss, quote="our method does better than all the baselines")
    Finding("ms-ucb", "fig1", ..., *judged(checks, fewest(cases)), ...).write(options.out)

What a claim comes to is decided in `verdicts`; here are options, records, tables and charts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from regretless.basics.statefile import write_whole
from regretless.report.page import Curve, TableCell, curves_chart, thinned
from regretless.space.parameters import Array
from regretless_bench.finding import Table, legible
from regretless_bench.problems.data import ENVIRONMENT, BadDataError, whole_data
from regretless_bench.record import SUFFIX, Record, Run, by_problem, ended_well, failures, read_record, stamped
from regretless_bench.runner import run_all
from regretless_bench.stats import quartiles
from regretless_bench.summary import band, median_text, ms_per_ask

CHART_POINTS = 40
"""Points of a curve in a finding: all figures of all papers together stay below 5 MB."""
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
    beside: str | None = None,
    words: Sequence[str] | None = None,
) -> argparse.Namespace:
    """Adds what every experiment understands to a parser and reads the command line.

    Args:
        parser: may already hold options of the experiment's own.
        out: the folder of the results unless --out names one.
        seeds: repetitions of the quick and of the full size, unless --seeds names a number.
        data: the data set the experiment needs, if any; when it is missing or damaged, one line says so and the
            process ends.
        beside: a data set that is used where it is there; when it is damaged, the process ends likewise.
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
    for name in filter(None, (data, beside)):
        try:
            whole_data(name)
        except BadDataError as error:
            sys.exit(f"{parser.prog}: {error}")
        except FileNotFoundError as error:
            if name == data:
                sys.exit(f"{parser.prog}: {error}")
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def chosen(named: str, known: Collection[str], separator: str = ",") -> list[str]:
    """The labels that --methods names; when one of them is not known, the process ends with one line."""
    labels = named.split(separator)
    if unknown := [label for label in labels if label not in known]:
        sys.exit(f"--methods: unknown method {unknown[0]!r}; known are {f'{separator} '.join(known)}")
    return labels


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


def stored(paths: Iterable[Path]) -> list[Any]:
    """The JSON records of an experiment's own kind that are there; when one is damaged, the process ends with one line,
    and the others are kept."""
    found = []
    for path in paths:
        if path.is_file():
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                if not isinstance(record, dict):
                    raise ValueError(f"it holds a {type(record).__name__}")
            except (ValueError, RecursionError) as error:
                sys.exit(f"{path} is no record ({error}); delete it, and the same command makes it again")
            found.append(record)
    return found


def needed(found: list[T], options: argparse.Namespace) -> list[T]:
    """What was found; when that is nothing, the process ends with one line."""
    if not found:
        size = "full" if options.full else "quick"
        what = "run the same command without --report first" if options.report else "no run ended well"
        sys.exit(f"there are no records of the {size} size in {options.out}: {what}")
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


def fewest(cases: Cases) -> int:
    """The smallest number of repetitions of any method on any problem."""
    return min((len(records) for methods in cases.values() for records in methods.values()), default=0)


def core_seconds(cases: Cases) -> float:
    """Seconds of one core that the records took: processor time in the methods, and evaluations."""
    runs = [r for methods in cases.values() for records in methods.values() for r in records]
    return float(sum(r.cpu.sum() + r.seconds_evaluate.sum() for r in runs))


# ---------------------------------------------------------------- tables and charts


def medians_table(
    cases: Cases, loss: Loss = final_loss, what: str = "best value", sign: float = 1.0, order: Sequence[str] = ()
) -> Table:
    """Medians with quartiles over seeds, methods by rows and problems by columns, and CPU time; `sign` -1 shows
    maximised values."""
    found = list(dict.fromkeys(label for methods in cases.values() for label in methods))
    labels = [label for label in order if label in found] + [label for label in found if label not in order]
    rows: list[list[TableCell]] = []
    for label in labels:
        row: list[TableCell] = [label, min(len(methods[label]) for methods in cases.values() if label in methods)]
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
        found.append((problem, legible(curves_chart(lines, log_x=[SECONDS], log_y=log_y))))
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
