"""What tests that kill must know of processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


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


@contextlib.contextmanager
def running_service(folder: Path, rules: Any = None, **options: Any) -> Iterator[str]:
    """The URL of a service of studies in a thread of this process."""
    uvicorn: Any = pytest.importorskip("uvicorn")
    from regretless.serve import connections
    from regretless.serve.folder import Folder
    from regretless.serve.http import app_of

    studies = Folder(folder / "studies")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app_of(studies, rules), **(connections.options() | options)))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            studies.close()
