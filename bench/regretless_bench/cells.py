"""Runs the cells of a study: independent small runs in several processes, each kept as a line of JSON when it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Cell = tuple[Any, ...]
"""What one run is: plain values, such as a task, a method and a seed."""


def run_cells(
    work: Callable[..., Any], cells: Sequence[Cell], path: Path, *, jobs: int, initializer: Callable[[], None]
) -> list[tuple[Cell, Any]]:
    """The results of `work(*cell)` for all cells, as plain values; those that the file has already are not run again.

    A cell that raises is kept with its error and counted as missing. `initializer` runs once in every process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {cell for cell, _ in read_cells(path)}
    waiting = [cell for cell in cells if cell not in known]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=initializer) as pool:
        running = {pool.submit(_timed, work, cell): cell for cell in waiting}
        for future in as_completed(running):
            cell = running[future]
            try:
                result, seconds = future.result()
                line = {"cell": cell, "result": result, "seconds": round(seconds, 2)}
            except Exception as error:  # one failed cell must not cost the others
                line = {"cell": cell, "error": repr(error)}
                print(f"{cell}: {error!r}", flush=True)
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    wanted = set(cells)
    return [(cell, result) for cell, result in read_cells(path) if cell in wanted]


def read_cells(path: Path) -> list[tuple[Cell, Any]]:
    """The cells of a file that have a result, and their results."""
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(tuple(line["cell"]), line["result"]) for line in lines if "result" in line]


def _timed(work: Callable[..., Any], cell: Cell) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(*cell), time.perf_counter() - start
