"""Where the real data sets live: in a folder given by the user, in the one the environment names, or in ./data."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regretless_bench.problems.catalogue import DATA_SETS

ENVIRONMENT = "REGRETLESS_DATA"
"""The variable of the environment that names the folder of the data sets."""
USUAL_PLACE = Path("data")
"""Where data sets are looked for, relative to the current folder, when neither an argument nor the environment names a
folder."""


def data_folder(name: str, folder: str | Path | None = None) -> Path:
    """The folder of the data set `name` (such as "mnist"); raises FileNotFoundError with one line on what to do."""
    place = Path(folder or os.environ.get(ENVIRONMENT) or USUAL_PLACE) / name
    if place.is_dir():
        return place
    known = DATA_SETS.get(name)
    what = f"it holds {', '.join(known.files)}, from {known.source}; " if known else ""
    get = f"`regretless data fetch {name} DIR` or " if known and (known.url or known.origins) else ""
    raise FileNotFoundError(
        f"the data set {name!r} is not there (looked in {place}): {what}{get}put its files into DIR/{name}, "
        f"and pass --data DIR or set {ENVIRONMENT}"
    )


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of a gzipped IDX file of bytes, the format of MNIST: two zero bytes, the type, the number of axes,
    their lengths, the bytes."""
    with gzip.open(path, "rb") as file:
        data = file.read()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is no IDX file of unsigned bytes")
    axes = data[3]
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(struct.unpack_from(f">{axes}I", data, 4))
