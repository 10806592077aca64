"""`Folder`: the studies of a service."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from regretless.optimizer import Optimizer
from regretless.serve.logs import shelf_at
from regretless.serve.owner import Owner
from regretless.serve.study import Study

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What a study may be called: it is the name of its file."""


class Folder:
    """The studies of a folder or an Optuna storage; whoever has it open owns them all.

    Args:
        place: the path of the folder, or the URL of the storage.
        lost_after: see `Owner`.
        seconds: how long to wait for another service that owns it; None: as long as it takes, as a stand-by does.
    """

    def __init__(self, place: str | Path, *, lost_after: float = 3600.0, seconds: float | None = 0.0) -> None:
        self.shelf, self.lost_after = shelf_at(place, seconds), lost_after
        self._owners: dict[str, Owner] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Ends all studies and gives the place back."""
        for owner in self._owners.values():
            owner.close()
        self.shelf.close()

    def names(self) -> list[str]:
        """The names of the studies, in order."""
        return [name for name in self.shelf.names() if NAME.fullmatch(name)]

    def opened(self, name: str) -> Owner | None:
        """The study of a name where it is in use already."""
        return self._owners.get(name)

    def owner(self, name: str) -> Owner:
        """The study of a name; LookupError where there is none."""
        with self._lock:
            if name not in self._owners:
                if not NAME.fullmatch(name) or name not in self.shelf.names():
                    raise LookupError(f"there is no study {name[:64]!r}")
                self._owners[name] = Owner(Study(self.shelf.log(name)), lost_after=self.lost_after)
            return self._owners[name]

    def create(self, name: str, fresh: Optimizer, *, seeded: bool = True) -> Owner:
        """A study that begins; one that is there and asks for the same is that one. `seeded`: see `Study`."""
        most_studies = 1000  # studies of one service; each that is in use keeps two threads and its history
        if not NAME.fullmatch(name):
            raise ValueError(f"a study is called by up to 64 letters, digits, - and _, got {name[:80]!r}")
        with self._lock:
            known = self._owners.get(name)
            if known is not None:
                known.study.check(fresh, seeded=seeded)
                return known
            names = self.names()
            if name not in names and len(names) >= most_studies:
                raise ValueError(f"this service has {most_studies} studies, and takes no more")
            study = Study(self.shelf.log(name), fresh, seeded=seeded)
            self._owners[name] = Owner(study, lost_after=self.lost_after)
            return self._owners[name]
