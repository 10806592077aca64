"""Where runs are kept: in files, or as studies of an Optuna storage.

A `Shelf` holds many runs and has one owner; a `Log` is one of them. What was written is on the disk when `write`
returns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from regretless.basics.extras import optional
from regretless.files.checkpoint import LEAST_LINES, Checkpoint
from regretless.optimizer import Optimizer
from regretless.serve.lease import Lease


class Log(Protocol):
    """One run that is kept."""

    name: str

    def read(self) -> Optimizer | None:
        """The run; None where there is none yet."""

    def begin(self, optimizer: Optimizer) -> Optimizer:
        """Begins a run, and returns it as it is kept."""

    def write(self, optimizer: Optimizer) -> None:
        """Writes what has happened."""

    def check_corrections(self) -> None:
        """Raises ValueError where nothing that was told can be taken back."""

    def close(self) -> None:
        """Gives it back."""


class Shelf(Protocol):
    """The runs of one place, which this process owns."""

    def names(self) -> list[str]:
        """The names of the runs, in order."""

    def log(self, name: str) -> Log:
        """The log of a run, which need not be there."""

    def close(self) -> None:
        """Gives the place back."""


class FileLog:
    """A run in a file.

    Args:
        path: the file.
        seconds: how long to wait for another process that owns it.
        lines: see `Checkpoint`.
    """

    def __init__(self, path: str | Path, *, seconds: float | None = 10.0, lines: int = LEAST_LINES) -> None:
        self.path, self.name, self._lines = Path(path), Path(path).stem, lines
        self._lease = Lease(self.path, seconds)
        self._file = Checkpoint(self.path, lines=lines)

    def read(self) -> Optimizer | None:
        if not self.path.is_file():
            return None
        optimizer = Optimizer.load(self.path)
        self._file = Checkpoint(self.path, lines=self._lines)
        self._file.go_on_from(optimizer.book)
        return optimizer

    def begin(self, optimizer: Optimizer) -> Optimizer:
        optimizer.save(self._file)
        return optimizer

    def write(self, optimizer: Optimizer) -> None:
        optimizer.save(self._file)

    def check_corrections(self) -> None:
        pass

    def close(self) -> None:
        self._lease.close()


class Files:
    """The runs in a folder, a file for each.

    Args:
        path: the folder.
        seconds: how long to wait for another process that owns it; None: as long as it takes.
    """

    def __init__(self, path: str | Path, seconds: float | None = 0.0) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self._lease = Lease(self.path, seconds)

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.path.glob("*.npz"))

    def log(self, name: str) -> Log:
        # 1 << 26: bytes of lines before the file of a service is written anew: that takes as long as a proposal, and is
        # done when the service begins
        return FileLog(self.path / f"{name}.npz", lines=(1 << 26))

    def close(self) -> None:
        self._lease.close()


def is_storage(place: str) -> bool:
    """Whether a place is the URL of an Optuna storage, and no path."""
    return "://" in place or place.startswith("journal:")


def shelf_at(place: str | Path, seconds: float | None = 0.0) -> Shelf:
    """The shelf at a path or a URL."""
    if not is_storage(str(place)):
        return Files(place, seconds)
    shelf: Shelf = optional("regretless.doors.optuna.log", "optuna").Storage(str(place), seconds)
    return shelf
