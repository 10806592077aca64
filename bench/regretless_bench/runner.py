"""Runs comparisons: (methods x problems x seeds) on a pool of single-threaded processes, resumable, one record per run.

    levy = {"dim": 20, "shift": 0.6}
    runs = [Run(method, "levy", levy, seed, budget=200) for method in ("random", "gp-ucb") for seed in range(10)]
    records = run_all(runs, Path("runs/levy"), jobs=2)

A run whose record exists is not run again. A run that raises, or whose process dies, leaves a failed record with the
traceback and does not stop the others; it is tried again the next time. Processes are spawned, so a script must call
this under `if __name__ == "__main__"`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regretless.auto import choose_method, find_recipe
from regretless.method import Recipe, keyed_generator
from regretless.models.gp.sobol import sobol_points
from regretless.optimizer import Optimizer
from regretless.space.parameters import Array
from regretless.testing import Loop
from regretless_bench.peers import PEERS
from regretless_bench.pool import Progress, work_in_processes
from regretless_bench.problems import PROBLEMS, Problem, make_problem
from regretless_bench.record import (
    SUFFIX,
    Record,
    RecordWriter,
    Run,
    ended_well,
    load_records,
    read_record,
    surroundings,
)
from regretless_bench.streams import BenchStream

LOG_SECONDS = 10.0
"""The bar is drawn this often where it goes to a file instead of a terminal."""


# ---------------------------------------------------------------- one run


def do_run(run: Run, out: Path, around: Mapping[str, Any], progress: Progress = lambda steps: None) -> Path:
    """Runs one cell and writes its record; errors end up in the record. Returns its path."""
    writer = None
    try:
        problem = make_problem(run.problem, **{"seed": run.seed, **run.options})
        writer = RecordWriter(run, out, {**facts(problem), **around})
        start = time.perf_counter()
        _drive(run, problem, writer, progress)
        writer.finish(time.perf_counter() - start)
    except Exception:  # one broken cell must not end the study: its traceback is the record
        writer = writer or RecordWriter(run, out, {**UNKNOWN, **around})
        writer.fail(traceback.format_exc())
    return writer.path


UNKNOWN = {"title": "?", "direction": "minimize", "optimum": None, "noise_sd": 0.0, "dim": 0}
"""Stands for a problem that could not even be made."""


def facts(problem: Problem) -> dict[str, Any]:
    """What a record says about its problem."""
    dim = len(problem.space)
    return {
        "title": problem.name,
        "direction": problem.direction,
        "optimum": problem.optimum,
        "noise_sd": problem.noise_sd,
        "dim": dim,
    }


def initial_points(run: Run, problem: Problem) -> Array:
    """The common initial points of a problem and seed, init x d (choices as equal shares): scrambled Sobol, the same
    for every method."""
    cube = problem.space.cube()
    rng = keyed_generator(run.seed, 0, stream=BenchStream.INITIAL_POINTS)
    return cube.snap(sobol_points(run.init, cube.dim, rng)) if run.init else sobol_points(1, cube.dim, rng)[:0]


def _drive(run: Run, problem: Problem, writer: RecordWriter, progress: Progress) -> None:
    clock, processor = time.perf_counter, time.process_time
    space = problem.space
    recipe = _resolved(run, problem)
    _warm_up(recipe)
    begin, cpu_begin = clock(), processor()
    optimizer = Optimizer(space, method=recipe, direction=problem.direction, budget=run.budget, seed=run.seed)
    building, cpu = clock() - begin, processor() - cpu_begin
    initial = initial_points(run, problem)
    for n in range(run.budget):
        begin, cpu_begin = clock(), processor()
        if n < len(initial):
            trial, asked = optimizer.adopt(space.decode(initial[n])), 0.0
        else:
            trial = optimizer.ask()
            asked, building = clock() - begin + building, 0.0
        cpu += processor() - cpu_begin
        begin = clock()
        y, value = problem.observe(trial.params)
        evaluated = clock() - begin
        begin, cpu_begin = clock(), processor()
        optimizer.tell(trial, y)
        told = clock() - begin
        cpu += processor() - cpu_begin
        x = trial.unit if optimizer.method.traits.choices == "shares" else space.encode(trial.params)
        writer.step(x, y, value, asked, evaluated, told, cpu)
        cpu = 0.0
        if n + 1 == run.budget or n + 1 in run.checkpoints:
            _check(n + 1, optimizer, problem, writer)
        progress(1)


def _resolved(run: Run, problem: Problem) -> Recipe:
    recipe = method_named(run.method) if isinstance(run.method, str) else run.method
    return choose_method(problem.space)[0] if isinstance(recipe, str) else recipe


@functools.cache
def _warm_up(recipe: Recipe) -> None:
    """Lets imports, compilers and caches of a method have their say before its clock starts, once per process."""
    with contextlib.suppress(Exception):  # what is wrong with a method shows in its run
        X = keyed_generator(0, 0, stream=BenchStream.WARM_UP).random((12, 2))
        loop = Loop(recipe.build(2, seed=0, budget=20))
        loop.tell(X, X.sum(axis=1))
        loop.ask()


def _check(n: int, optimizer: Optimizer, problem: Problem, writer: RecordWriter) -> None:
    """Records the recommendation and the certificate; a run in which everything failed has neither."""
    if len(optimizer.history) == 0:
        return
    begin = time.perf_counter()
    params = optimizer.recommend()
    certificate = optimizer.certificate
    seconds = time.perf_counter() - begin
    writer.checkpoint(n, problem.space.encode(params), problem.true(params), certificate, seconds)


# ---------------------------------------------------------------- many runs


def run_all(
    runs: Iterable[Run], out: str | Path, jobs: int = 2, progress: bool = True, timeout: float | None = None
) -> list[Record]:
    """Runs what has no record yet and returns the records of all runs, in their order.

    Args:
        runs: the cells; equal ones are run once.
        out: the folder of the records, made when missing.
        jobs: worker processes; 0 runs in this process, for debugging.
        progress: shows a bar with the time left.
        timeout: seconds after which a single run is given up and recorded as failed.
    """
    from tqdm import tqdm

    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    distinct = {run.key: run for run in runs}
    missing = [
        run for key, run in distinct.items() if not ended_well(out / f"{key}{SUFFIX}")
    ]  # what failed is tried again
    around = surroundings()
    pause = 0.1 if sys.stderr.isatty() else LOG_SECONDS
    with tqdm(
        total=sum(run.budget for run in missing), unit="eval", disable=not progress, smoothing=0.02, mininterval=pause
    ) as bar:

        def advance(steps: int) -> None:
            bar.update(steps)

        def remain(number: int) -> None:
            bar.set_description(f"{number} of {len(distinct)} runs to do", refresh=False)

        work = functools.partial(_do, out, dict(around))
        lose = functools.partial(_write_failure, out, around, advance)
        remain(len(missing))
        if jobs == 0:
            for number, run in enumerate(missing):
                work(run, advance)
                remain(len(missing) - number - 1)
        else:
            work_in_processes(work, missing, jobs, lost=lose, progress=advance, left=remain, timeout=timeout)
    return [read_record(out / f"{key}{SUFFIX}") for key in distinct]


def _do(out: Path, around: Mapping[str, Any], run: Run, progress: Progress) -> None:
    """Does one run; one that fails half-way counts all its steps, so that the bar comes to its end."""
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        progress(steps)

    do_run(run, out, around, advance)
    progress(run.budget - done)


def _write_failure(out: Path, around: Mapping[str, Any], advance: Progress, run: Run, why: str, steps: int) -> None:
    """A failed record on behalf of a worker that could not write it."""
    RecordWriter(run, out, {**UNKNOWN, **around}).fail(why)
    advance(run.budget - steps)


# ---------------------------------------------------------------- names


def method_named(name: str) -> Recipe | str:
    """The recipe of a method, baseline or peer; "auto" is left to the Optimizer. Options may follow: gp-ucb:kappa=2."""
    word, options = with_options(name)
    if word == "auto":
        return word
    try:
        recipe = PEERS[word] if word in PEERS else find_recipe(word)
    except ValueError as error:
        raise ValueError(f"{error}, and the peers {', '.join(PEERS)}") from None
    return recipe(**options) if options else recipe


def with_options(text: str) -> tuple[str, dict[str, Any]]:
    """Splits "levy:dim=20,shift=0.6" into the name and its options; values are Python literals or else plain text."""
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{text!r}: options are written name:key=value,key=value, got {part!r}")
        try:
            options[key.strip()] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[key.strip()] = value.strip()
    return name, options


def _rejoined(names: Sequence[str]) -> list[str]:
    """Pieces that are only key=value belong to the name before them."""
    joined: list[str] = []
    for name in names:
        if joined and "=" in name and ":" not in name.partition("=")[0]:
            joined[-1] += f",{name}"
        else:
            joined.append(name)
    return joined


def run_from_names(
    methods: Sequence[str],
    problems: Sequence[str],
    seeds: int | Sequence[int],
    budget: int,
    out: str | Path,
    jobs: int = 2,
    *,
    init: int = 0,
    progress: bool = True,
) -> list[Record]:
    """The comparison behind `regretless bench run`: every method on every problem with every seed.

    Names may carry options after a colon (levy:dim=20,shift=0.6), also when the list was split at every comma.
    """
    chosen = [(name, method_named(name)) for name in _rejoined(methods)]
    places = [with_options(name) for name in _rejoined(problems)]
    for name, options in places:
        if name not in PROBLEMS:
            raise ValueError(f"no problem is called {name!r}; there are {', '.join(sorted(PROBLEMS))}")
        make_problem(name, **options)
    numbers = range(seeds) if isinstance(seeds, int) else seeds
    runs = [
        Run(recipe, problem, options, seed=seed, budget=budget, init=init, label=label)
        for problem, options in places
        for seed in numbers
        for label, recipe in chosen
    ]
    return run_all(runs, out, jobs, progress)


__all__ = [
    "Record",
    "Run",
    "do_run",
    "initial_points",
    "load_records",
    "method_named",
    "run_all",
    "run_from_names",
    "with_options",
]
