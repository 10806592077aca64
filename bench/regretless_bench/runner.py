"""Runs comparisons: (methods x problems x seeds) on a pool of single-threaded processes, resumable, one record per run.

    runs = [Run(method, "levy", {"dim": 20, "shift": 0.6}, seed, budget=200, init=20) for method in ("random", "gp-ucb")
    for seed in range(10)] records = run_all(runs, Path("runs/levy"), jobs=2)

A run whose record exists is not run again. A run that raises, or whose process dies, leaves a failed record with the
traceback and does not stop the others; it is tried again the next time. Processes are spawned, so a script must call
this under `if __name__ == "__main__"`.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from regretless.auto import choose_method, find_recipe
from regretless.gp.sobol import sobol_points
from regretless.method import Recipe, keyed_generator
from regretless.optimizer import Optimizer
from regretless.parameters import Array
from regretless_bench.peers import PEERS
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

INITIAL_POINTS = 201
"""Stream of the generator that scrambles the common initial points."""
WARM_UP = 202
"""Stream of the generator of the points a method is warmed up with."""
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""Variables that keep a worker on one core, set before its libraries load."""
NEWS_SECONDS = 0.3
"""A worker reports its progress at most this often."""

LOG_SECONDS = 10.0
"""The bar is drawn this often where it goes to a file instead of a terminal."""

Progress = Callable[[int], None]


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


UNKNOWN = {"title": "?", "direction": "minimize", "optimum": None, "noise": 0.0, "dim": 0}
"""Stands for a problem that could not even be made."""


def facts(problem: Problem) -> dict[str, Any]:
    """What a record says about its problem."""
    dim = len(problem.space)
    return {
        "title": problem.name,
        "direction": problem.direction,
        "optimum": problem.optimum,
        "noise": problem.noise,
        "dim": dim,
    }


def initial_points(run: Run, problem: Problem) -> Array:
    """The common initial points of a problem and seed, init x d (choices as equal shares): scrambled Sobol, the same
    for every method."""
    cube = problem.space.cube()
    rng = keyed_generator(run.seed, 0, stream=INITIAL_POINTS)
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
        x = trial.unit if optimizer.method.choices == "shares" else space.encode(trial.params)
        writer.step(x, y, value, asked, evaluated, told, cpu)
        cpu = 0.0
        if n + 1 == run.budget or n + 1 in run.checkpoints:
            _check(n + 1, optimizer, problem, writer)
        progress(1)


def _resolved(run: Run, problem: Problem) -> Recipe:
    recipe = method_named(run.method) if isinstance(run.method, str) else run.method
    return choose_method(problem.space, run.budget)[0] if isinstance(recipe, str) else recipe


@functools.cache
def _warm_up(recipe: Recipe) -> None:
    """Lets imports, compilers and caches of a method have their say before its clock starts, once per process."""
    with contextlib.suppress(Exception):  # what is wrong with a method shows in its run
        X = keyed_generator(0, 0, stream=WARM_UP).random((12, 2))
        method = recipe.build(2, seed=0, budget=20)
        method.tell(X, X.sum(axis=1))
        method.ask(1)


def _check(n: int, optimizer: Optimizer, problem: Problem, writer: RecordWriter) -> None:
    """Records the recommendation and the certificate; a run in which everything failed has neither."""
    if len(optimizer.method.y) == 0:
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

        remain(len(missing))
        if jobs == 0:
            for number, run in enumerate(missing):
                do_run(run, out, around, advance)
                remain(len(missing) - number - 1)
        else:
            with contextlib.closing(_Pool(min(jobs, len(missing)), out, around, timeout)) as pool:
                pool.work(missing, advance, remain)
    return [read_record(out / f"{key}{SUFFIX}") for key in distinct]


class _Worker:
    """A process that does runs one after another, and the pipe to it."""

    def __init__(self, out: Path, around: Mapping[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, out, dict(around)), daemon=True)
        with _one_thread():
            self.process.start()
        theirs.close()
        self.run: Run | None = None
        self.steps = 0
        self.since = 0.0

    def take(self, run: Run) -> None:
        self.run, self.steps, self.since = run, 0, time.monotonic()
        self.pipe.send(run)

    def stop(self) -> None:
        """Ends the process, whatever threads a library may have left in it."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Pool:
    """Workers, the runs they are at, and what to do when one dies."""

    def __init__(self, size: int, out: Path, around: Mapping[str, Any], timeout: float | None) -> None:
        self._size, self._out, self._around, self._timeout = size, out, around, timeout
        self._workers: list[_Worker] = []

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers = []

    def work(self, runs: Sequence[Run], progress: Progress, left: Progress) -> None:
        waiting = deque(runs)
        while waiting or self._workers:
            while waiting and len(self._workers) < self._size:
                self._start(_Worker(self._out, self._around), waiting, progress)
            ready = wait([worker.pipe for worker in self._workers], timeout=1.0 if self._timeout else None)
            for worker in [w for w in self._workers if w.pipe in ready]:
                self._hear(worker, waiting, progress)
            for worker in [w for w in self._workers if self._timeout and time.monotonic() - w.since > self._timeout]:
                self._lose(worker, f"given up after {self._timeout} seconds", progress)
            left(len(waiting) + len(self._workers))

    def _start(self, worker: _Worker, waiting: deque[Run], progress: Progress) -> None:
        """Gives the worker the next run, or ends it when there is none."""
        if worker not in self._workers:
            self._workers.append(worker)
        while waiting:
            run = waiting.popleft()
            try:
                worker.take(run)
                return
            except Exception:  # a run that cannot be sent to a worker: its traceback is the record
                _write_failure(run, self._out, self._around, traceback.format_exc())
                progress(run.budget)
        self._drop(worker)

    def _hear(self, worker: _Worker, waiting: deque[Run], progress: Progress) -> None:
        try:
            steps, over = worker.pipe.recv()
        except (EOFError, ConnectionError):
            worker.process.join()
            self._lose(worker, f"the worker process died with exit code {worker.process.exitcode}", progress)
            return
        worker.steps += steps
        progress(steps)
        if over:
            assert worker.run is not None
            progress(worker.run.budget - worker.steps)
            self._start(worker, waiting, progress)

    def _lose(self, worker: _Worker, why: str, progress: Progress) -> None:
        self._drop(worker)
        if worker.run is not None:
            _write_failure(worker.run, self._out, self._around, why)
            progress(worker.run.budget - worker.steps)

    def _drop(self, worker: _Worker) -> None:
        worker.stop()
        self._workers.remove(worker)


def _serve(pipe: Connection, out: Path, around: dict[str, Any]) -> None:
    """The life of a worker: takes runs, does them, tells how far it is. An interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    steps, last = 0, time.monotonic()

    def news(more: int) -> None:
        nonlocal steps, last
        steps += more
        if time.monotonic() - last > NEWS_SECONDS:
            pipe.send((steps, False))
            steps, last = 0, time.monotonic()

    while True:
        try:
            run = pipe.recv()
        except EOFError:
            return
        do_run(run, out, around, news)
        pipe.send((steps, True))
        steps = 0


def _end_with_parent() -> None:
    """Ends this process as soon as its parent is gone, so that a killed sweep that is resumed does not find its old
    runs still going."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _write_failure(run: Run, out: Path, around: Mapping[str, Any], why: str) -> None:
    """A failed record on behalf of a worker that could not write it."""
    RecordWriter(run, out, {**UNKNOWN, **around}).fail(why)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
