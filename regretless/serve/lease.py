"""`Lease`: one owner at a time for the file of a run, or for a folder of them.

The lock is the operating system's: it ends with the process that holds it, however that ends, so whoever waits for it
takes over at once and nothing has to be cleaned up.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import IO, Any


class Lease:
    """Holds the lock of a path until it is closed; raises BlockingIOError when somebody else holds it for too long.

    Args:
        path: the file or folder that is to have one owner; the lock is a file beside it, or in the folder.
        seconds: how long to wait for it; None: as long as it takes.
    """

    def __init__(self, path: str | Path, seconds: float | None = 0.0) -> None:
        path = Path(path)
        self.path = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            file = open(self.path, "a+b")  # noqa: SIM115
            if _locked(file):
                if _same(file, self.path):
                    break
                file.close()  # it was given back in this moment
                continue
            owner = _owner(file)
            file.close()
            if deadline is not None and time.monotonic() >= deadline:
                raise BlockingIOError(f"{path} is in use by process {owner}; end that one first, or work through it")
            # 0.05: how often a process that waits looks whether the lock is free
            time.sleep(0.05)
        self._file = file
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the lock back; its file goes, so that refused names leave nothing behind."""
        with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed already
            if _same(self._file, self.path):
                self.path.unlink()
        self._file.close()


def _locked(file: IO[bytes]) -> bool:
    """Whether the lock could be taken."""
    try:
        import fcntl
    except ImportError:  # Windows
        windows: Any = __import__("msvcrt")
        file.seek(0)  # where it locks a byte: the file may hold the number of a process
        try:
            windows.locking(file.fileno(), windows.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _same(file: IO[bytes], path: Path) -> bool:
    """Whether the file that is locked is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


def _owner(file: IO[bytes]) -> str:
    try:
        file.seek(0)
        return file.read(20).decode(errors="replace") or "?"
    except OSError:
        return "?"
