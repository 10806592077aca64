"""`Folder`: the studies of a service, a file for each."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from regretless.optimizer import Optimizer
from regretless.serve.lease import Lease
from regretless.serve.owner import Owner
from regretless.serve.study import Study

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What a study may be called: it is the name of its file."""
MOST_STUDIES = 1000
"""Studies of one service; each that is in use keeps two threads and its history."""
LINES = 1 << 26
"""Bytes of lines before a file is written anew: that takes as long as a proposal, and is done when a service begins."""


class Folder:
    """The studies in a folder; whoever has it open owns them all.

    Args:
        path: the folder.
        lost_after: see `Owner`.
        seconds: how long to wait for another service that owns it; None: as long as it takes, as a stand-by does.
    """

    def __init__(self, path: str | Path, *, lost_after: float = 3600.0, seconds: float | None = 0.0) -> None:
        self.path, self.lost_after = Path(path), lost_after
        self.path.mkdir(parents=True, exist_ok=True)
        self._lease = Lease(self.path, seconds)
        self._owners: dict[str, Owner] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Ends all studies and gives the folder back."""
        for owner in self._owners.values():
            owner.close()
        self._lease.close()

    def names(self) -> list[str]:
        """The names of the studies, in order."""
        return sorted(path.stem for path in self.path.glob("*.npz") if NAME.fullmatch(path.stem))

    def owner(self, name: str) -> Owner:
        """The study of a name; LookupError where there is none."""
        with self._lock:
            if name not in self._owners:
                if not NAME.fullmatch(name) or not self._file(name).is_file():
                    raise LookupError(f"there is no study {name[:64]!r}")
                self._owners[name] = Owner(Study(self._file(name), lines=LINES), lost_after=self.lost_after)
            return self._owners[name]

    def create(self, name: str, fresh: Optimizer, *, seeded: bool = True) -> Owner:
        """A study that begins; one that is there and asks for the same is that one. `seeded`: see `Study`."""
        if not NAME.fullmatch(name):
            raise ValueError(f"a study is called by up to 64 letters, digits, - and _, got {name[:80]!r}")
        with self._lock:
            known = self._owners.get(name)
            if known is None and not self._file(name).is_file() and len(self.names()) >= MOST_STUDIES:
                raise ValueError(f"this service has {MOST_STUDIES} studies, and takes no more")
            if known is None:
                study = Study(self._file(name), fresh, seeded=seeded, lines=LINES)
                known = self._owners[name] = Owner(study, lost_after=self.lost_after)
            else:
                known.study.check(fresh, seeded=seeded)
            return known

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.npz"
