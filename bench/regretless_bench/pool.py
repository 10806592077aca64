"""A pool of spawned, single-threaded processes that survives the death of any of them.

`concurrent.futures` gives up all work when one process dies. Here the pool knows which item a process was at: an item
whose process died or took too long is handed to `lost`, another process is started, and the rest goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

T = TypeVar("T")

Progress = Callable[[int], None]
"""Called with a number of steps that were done."""
Work = Callable[[T, Progress], object]
"""Does one item and reports its steps. It runs in another process, so it must be picklable; it must not raise."""
Lost = Callable[[T, str, int], None]
"""Called in this process with an item that was not done, the reason, and the steps of it that were reported."""

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
"""Variables that keep a process on one core, set before its libraries load."""
SAFE_PATH = "PYTHONSAFEPATH"
"""Keeps the current folder off the path of a starting process: a types.py there would replace Python's own."""
NEWS_SECONDS = 0.3
"""A process reports its progress at most this often, because a message per step would cost more than a cheap step."""
LOOK_SECONDS = 1.0
"""How often the clock is looked at where items have a time limit."""


def work_in_processes(
    work: Work[T],
    items: Sequence[T],
    size: int,
    *,
    lost: Lost[T],
    progress: Progress,
    left: Progress,
    timeout: float | None = None,
) -> None:
    """Does all items with `size` processes.

    Args:
        work: does one item.
        items: what there is to do, in this order.
        size: processes at once.
        lost: is told of an item that could not be sent, whose process died, or that took longer than `timeout`.
        progress: is told of steps as they are done.
        left: is told how many items are not done yet.
        timeout: seconds that a single item may take.
    """
    with closing(_Pool(work, min(size, len(items)), lost, progress, timeout)) as pool:
        pool.run(items, left)


class _Process(Generic[T]):
    """A process that does items one after another, and the pipe to it."""

    def __init__(self, work: Work[T]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with _environment({**dict.fromkeys(THREADS, "1"), SAFE_PATH: "1"}):
            self.process.start()
        theirs.close()
        self.item: T | None = None
        self.steps = 0
        self.since = 0.0

    def take(self, item: T) -> None:
        self.item, self.steps, self.since = item, 0, time.monotonic()
        self.pipe.send(item)

    def stop(self) -> None:
        """Ends the process, whatever threads a library may have left in it."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Pool(Generic[T]):
    """The processes and the items they are at."""

    def __init__(self, work: Work[T], size: int, lost: Lost[T], progress: Progress, timeout: float | None) -> None:
        self._work, self._size, self._lost, self._progress, self._timeout = work, size, lost, progress, timeout
        self._processes: list[_Process[T]] = []

    def close(self) -> None:
        for process in list(self._processes):
            self._drop(process)

    def run(self, items: Sequence[T], left: Progress) -> None:
        waiting = deque(items)
        while waiting or self._processes:
            while waiting and len(self._processes) < self._size:
                self._processes.append(_Process(self._work))
                self._employ(self._processes[-1], waiting)
            ready = wait([p.pipe for p in self._processes], timeout=LOOK_SECONDS if self._timeout else None)
            for process in [p for p in self._processes if p.pipe in ready]:
                self._hear(process, waiting)
            for process in [p for p in self._processes if self._timeout and time.monotonic() - p.since > self._timeout]:
                self._lose(process, f"given up after {self._timeout} seconds")
            left(len(waiting) + len(self._processes))

    def _employ(self, process: _Process[T], waiting: deque[T]) -> None:
        """Gives the process the next item, or ends it when there is none."""
        while waiting:
            item = waiting.popleft()
            try:
                process.take(item)
                return
            except Exception:  # an item that cannot be sent
                self._lost(item, traceback.format_exc(), 0)
        self._drop(process)

    def _hear(self, process: _Process[T], waiting: deque[T]) -> None:
        try:
            steps, over = process.pipe.recv()
        except (EOFError, ConnectionError):
            process.process.join()
            self._lose(process, f"the worker process died with exit code {process.process.exitcode}")
            return
        process.steps += steps
        self._progress(steps)
        if over:
            self._employ(process, waiting)

    def _lose(self, process: _Process[T], why: str) -> None:
        self._drop(process)
        if process.item is not None:
            self._lost(process.item, why, process.steps)

    def _drop(self, process: _Process[T]) -> None:
        process.stop()
        self._processes.remove(process)


def _serve(pipe: Connection, work: Work[T]) -> None:
    """The life of a process: takes items, does them, tells how far it is. An interrupt is the parent's to handle."""
    os.environ.pop(SAFE_PATH, None)  # programs that the work starts find their folders as usual
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
            item = pipe.recv()
        except EOFError:
            return
        work(item, news)
        pipe.send((steps, True))
        steps = 0


def _end_with_parent() -> None:
    """Ends this process as soon as its parent is gone, so that whoever resumes the work does not find it still
    going."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
