"""Where the real data sets live: in a folder given by the user, in the one the environment names, or in ./data."""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regretless_bench.problems.catalogue import DATA_SETS, checksum

ENVIRONMENT = "REGRETLESS_DATA"
"""The variable of the environment that names the folder of the data sets."""
USUAL_PLACE = Path("data")
"""Where data sets are looked for, relative to the current folder, when neither an argument nor the environment names a
folder."""
COLUMNS = {"uci": ("class",), "amazon_reviews_hierarchical": ("Text", "Cat1", "Cat2", "Cat3")}
"""Data set -> the columns that its tables must have."""
DIGITS = {"train": 60_000, "t10k": 10_000}
"""Part of MNIST -> its number of digits."""


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


class BadDataError(ValueError):
    """A file of a data set that is damaged or holds something else; the message is one sentence on what to do."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Path]:
    """Turns whatever goes wrong while a file of a data set is read into one sentence that names it."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing: the data set {path.parent.name!r} is not whole; {_remedy(path)} brings it back"
        )
    try:
        yield path
    except BadDataError:
        raise
    except (EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
        raise BadDataError(f"{path} is damaged ({error}); {_remedy(path)} brings it back") from None
    except (ValueError, KeyError, IndexError, TypeError, struct.error, csv.Error) as error:
        why = f"no {error}" if isinstance(error, KeyError) else error
        raise BadDataError(f"{path} does not hold what it should ({why}); {_remedy(path)} brings it back") from None


def _remedy(path: Path) -> str:
    """The command that makes a file anew, or where it comes from."""
    known = DATA_SETS.get(path.parent.name)
    if known and (known.url or known.origins):
        return f"`regretless data fetch {known.name} {path.parent.parent}`"
    return f"a copy from {known.source}" if known else "another copy"


def whole_data(name: str, folder: str | Path | None = None) -> Path:
    """The folder of a data set whose files are all there and hold what they should; raises with one sentence otherwise.
    A file that is not the catalogued one is read, because the same table may be packed differently."""
    place = data_folder(name, folder)
    for file, expected in DATA_SETS[name].files.items() if name in DATA_SETS else ():
        with reading(place / file) as path:
            if checksum(path) != expected:
                _read_whole(name, path)
    return place


def _read_whole(name: str, path: Path) -> None:
    """Reads a file of a data set to its end as what it should be; raises when it is something else."""
    if name == "mnist":
        read_digits(path.parent, path.name.split("-")[0])
    elif name in COLUMNS:
        read_csv(path, COLUMNS[name])
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            for key in stored:
                stored[key]
    elif path.suffix == ".gz":
        with gzip.open(path, "rb") as stream:
            while stream.read(1 << 20):
                pass


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of a gzipped IDX file of bytes, the format of MNIST: two zero bytes, the type, the number of axes,
    their lengths, the bytes."""
    with reading(path):
        with gzip.open(path, "rb") as file:
            data = file.read()
        if len(data) < 4 or data[:3] != b"\0\0\x08":
            raise BadDataError(f"{path} is no IDX file of unsigned bytes; {_remedy(path)} brings it back")
        axes = data[3]
        lengths = struct.unpack_from(f">{axes}I", data, 4)
        return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(lengths)


def read_digits(place: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The images (n x 28 x 28) and labels (n) of a part of MNIST, "train" or "t10k"; files that do not belong together
    are bad data."""
    places = [place / f"{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    images, labels = (read_idx(path) for path in places)
    n = DIGITS[part]
    for path, found, wanted in zip(places, (images, labels), ((n, 28, 28), (n,)), strict=True):
        with reading(path):
            if found.shape != wanted:
                shapes = (" x ".join(str(length) for length in shape) for shape in (found.shape, wanted))
                raise ValueError("{} bytes, where {} are wanted".format(*shapes))
    return images, labels


def read_csv(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of a gzipped table with a line of names; a missing column or a row of another length is bad data."""
    with reading(path):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
        names = reader.fieldnames or ()
        if lacking := [name for name in columns if name not in names]:
            raise ValueError(f"no column {lacking[0]!r}; it has {', '.join(names) or 'none'}")
        for number, row in enumerate(rows, 2):
            if None in row or None in row.values():
                raise ValueError(f"row {number} has another number of cells than the first")
        if not rows:
            raise ValueError("no rows")
        return rows
