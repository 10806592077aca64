"""Where the real data sets live: a folder given by the user, the environment, or one of the usual places."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT = "REGRETLESS_DATA"
USUAL_PLACES = (Path("data"), Path("..") / "shared" / "data")
"""Tried in order, relative to the current folder, when neither an argument nor the environment names a folder."""


def data_folder(name: str, folder: str | Path | None = None) -> Path:
    """The folder of the data set `name` (such as "mnist"); raises FileNotFoundError with one line on what to do."""
    given = folder or os.environ.get(ENVIRONMENT)
    places = (Path(given),) if given else USUAL_PLACES
    for place in places:
        if (place / name).is_dir():
            return place / name
    looked = ", ".join(str(place / name) for place in places)
    raise FileNotFoundError(f"the data set {name!r} is not there (looked in {looked}); put it there, pass --data DIR or set {ENVIRONMENT}")
