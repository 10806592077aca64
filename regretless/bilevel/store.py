"""The files of a bilevel study: `Store` keeps the states of training, `Journal` keeps a line for each stretch of it.

A study that is killed at any moment goes on from these files, and damaged files are refused. A state is written to a
temporary file, flushed to the disk and renamed, so a reader sees the old state or the new one. Each line of the journal
holds its number and the checksum of the line before, so a changed, doubled, missing or moved line is found. Both hold
the checksum of the study they belong to.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from regretless.basics.statefile import StateError, digest, pack, unpack, write_whole
from regretless.bilevel.freeze import Nested

CHECKSUM = ', "checksum": "'
"""What stands between a journal line's content and its checksum; the line then ends with a quote and a brace."""


class Store:
    """States by name, at most `most` of them and `most_bytes` together, in memory or in `folder`; a state that may not
    go is kept even beyond the bounds. `study` is the checksum of the study that the states belong to."""

    def __init__(
        self, folder: str | Path | None = None, *, most: int = 64, most_bytes: int = 2 * 2**30, study: str = ""
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.most, self.most_bytes, self.study = most, most_bytes, study
        self._memory: dict[str, bytes] = {}
        self.sizes: dict[str, int] = {}
        """The bytes of each stored state, by name."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self.folder.iterdir()):
                if path.name.startswith(".") and path.name.endswith(".tmp"):
                    path.unlink()  # a write that a kill cut off
                elif path.suffix == ".npz":
                    self.sizes[path.stem] = path.stat().st_size

    def __contains__(self, name: object) -> bool:
        return name in self.sizes

    def put(self, name: str, tree: Nested, note: Mapping[str, Any] | None = None) -> None:
        """Writes a state, with a note beside it; when this returns it is on the disk, whole."""
        data = pack({"study": self.study, "name": name, "state": tree, "note": note or {}})
        if self.folder is None:
            self._memory[name] = data
        else:
            write_whole(self._path(name), data)
        self.sizes[name] = len(data)

    def read(self, name: str) -> tuple[Nested, dict[str, Any]]:
        """The state and its note; StateError when it is missing, damaged or that of another run or study."""
        where = name if self.folder is None else self._path(name)
        if name not in self.sizes:
            raise StateError(f"the state {where} is missing")
        try:
            content = unpack(self._memory[name] if self.folder is None else self._path(name).read_bytes())
            if (content["study"], content["name"]) != (self.study, name):
                raise StateError("it is the state of another run or study")
            return content["state"], content["note"]
        except (OSError, KeyError, TypeError, StateError) as error:
            raise StateError(f"{where}: {error}; restore the file or start in a new folder") from None

    def drop(self, name: str) -> None:
        """Removes a state; one that is not there is ignored."""
        if self.sizes.pop(name, None) is not None:
            if self.folder is None:
                del self._memory[name]
            else:
                self._path(name).unlink(missing_ok=True)

    def surplus(self, may_go: Iterable[str], beside: Collection[str] = ()) -> list[str]:
        """The first names of `may_go` without which the store, but for the states in `beside`, is within its bounds."""
        counted = [size for name, size in self.sizes.items() if name not in beside]
        count, total, gone = len(counted), sum(counted), []
        for name in may_go:
            if count <= self.most and total <= self.most_bytes:
                break
            count, total = count - 1, total - self.sizes[name]
            gone.append(name)
        return gone

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}.npz"


class Journal:
    """Lines of JSON, each flushed to the disk before `append` returns; a last line cut off by a kill is dropped on
    opening, other damage raises StateError. `study`, its checksum, stands in the place of a line before the first."""

    def __init__(self, path: str | Path | None, study: str = "") -> None:
        self.path = None if path is None else Path(path)
        self.lines: list[dict[str, Any]] = []
        self._last = study
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def append(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            content = json.dumps({"number": len(self.lines), "previous": self._last, "line": line})[:-1]
            self._last = digest(content.encode())
            with open(self.path, "ab") as file:
                file.write(f'{content}{CHECKSUM}{self._last}"}}\n'.encode())
                file.flush()
                os.fsync(file.fileno())
        self.lines.append(line)

    def _read(self, path: Path) -> None:
        data = path.read_bytes()
        *whole, torn = data.split(b"\n")
        for number, text in enumerate(whole):
            content, _, end = text.rpartition(CHECKSUM.encode())
            checksum = digest(content)
            if end != f'{checksum}"}}'.encode():
                raise self._damage(number, "is damaged")
            entry = json.loads(content + b"}")
            if (entry["number"], entry["previous"]) != (number, self._last):
                raise self._damage(number, "does not follow from the line before, or belongs to another study")
            self.lines.append(entry["line"])
            self._last = checksum
        if torn:
            os.truncate(path, len(data) - len(torn))

    def _damage(self, number: int, what: str) -> StateError:
        return StateError(f"{self.path}, line {number + 1}, {what}; restore the file or start in a new folder")
