"""What tests that kill must know of processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path


def bounded(script: Path, *arguments: object, seconds: float) -> str:
    """What a script of tests prints; it and whatever it started and left behind end after so many seconds."""
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONSAFEPATH": ""},  # the script imports its neighbours
        start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, errors[-6000:]
    return output


def children(pid: int) -> list[int]:
    """The living children of a process, without multiprocessing's own tracker."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            words = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z" and b"resource_tracker" not in words:
            found.append(int(stat.parent.name))
    return found
