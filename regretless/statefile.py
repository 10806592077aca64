"""Files that hold a run: nested dicts of arrays and plain values, written atomically and read without ever running
code.

The format is an uncompressed .npz (one entry per array) whose entry `json` holds everything else.
"""

from __future__ import annotations

import errno
import glob
import io
import json
import math
import os
import secrets
import stat
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

STALE_SECONDS = 86400.0
"""A temporary file of another machine is left over once it is a day old: no write takes that long."""


def write_state(path: str | Path, state: Mapping[str, Any]) -> None:
    """Writes a state: whole or not at all, whenever the process is killed."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    plain = without_arrays(state, "", arrays)
    buffer = io.BytesIO()
    np.savez(buffer, json=np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def write_whole(path: str | Path, content: bytes) -> None:
    """Writes a temporary file beside path and renames it over path; links are followed, permissions kept."""
    target = Path(os.path.realpath(path))
    with _written_beside(target, content) as temporary:
        os.replace(temporary, target)


def check_writable(path: str | Path) -> None:
    """Raises the OSError that writing path would raise, and leaves path as it is: better before a costly evaluation
    than after it. What killed writers left beside it is removed."""
    target = Path(os.path.realpath(path))
    with _written_beside(target, b""):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "cannot write: it is a directory", str(path))
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        if _is_left_over(left):
            left.unlink(missing_ok=True)


@contextmanager
def _written_beside(path: Path, content: bytes) -> Iterator[Path]:
    """A temporary file with this content beside path, gone afterwards; errors name path itself.

    Its name is random and it is only ever created, so that no other writer and no link prepared by somebody else is
    written to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}.tmp")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
            with os.fdopen(descriptor, "wb") as file:
                if path.is_file() and hasattr(os, "fchmod"):
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _is_left_over(temporary: Path) -> bool:
    """Whether the process that wrote a temporary file has ended, or the file is too old to be in use."""
    pid = temporary.name.split(".")[-2].partition("-")[0]
    try:
        if time.time() - temporary.stat().st_mtime > STALE_SECONDS:
            return True
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except (OSError, ValueError):
        pass
    return False


def read_state(path: str | Path) -> dict[str, Any]:
    """Reads what `write_state` wrote; anything else raises ValueError with one line."""
    try:
        content = Path(path).read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            arrays = {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in archive.infolist()}
        plain = json.loads(arrays.pop("json").tobytes().decode())
        state = with_arrays(plain, arrays)
    except FileNotFoundError:
        raise
    except Exception as error:  # damaged zip, npy and JSON streams each raise classes of their own
        raise ValueError(f"{path} is not a readable state file: {type(error).__name__}: {error}") from None
    if not isinstance(state, dict):
        raise ValueError(f"{path} is not a readable state file: it holds no table")
    return state


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """The array of an entry; it takes no more memory than the file has bytes, whatever its header claims."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        raise ValueError("an entry is compressed, which no state file is")
    stream = io.BytesIO(archive.read(entry))
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("an entry holds objects, which only a pickle can")
    data = stream.read()
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an entry claims the shape {shape} and has {len(data)} bytes")
    array = np.frombuffer(bytearray(data), dtype=dtype)  # a copy that may be written to
    return array.reshape(shape, order="F" if fortran else "C")


def without_arrays(value: Any, path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """A copy of value that JSON can hold; its arrays are put into `arrays` and named where they stood."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"state entry {path!r} is an array of objects, which cannot be written without a pickle")
        arrays[f"array{len(arrays)}"] = value
        return {"$array": f"array{len(arrays) - 1}"}
    if isinstance(value, Mapping):
        return {str(k): without_arrays(v, f"{path}/{k}", arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [without_arrays(v, f"{path}/{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(
        f"state entry {path!r} is a {type(value).__name__}; states hold arrays, numbers, text, truth values and None"
    )


def with_arrays(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """What `without_arrays` took apart, together again."""
    if isinstance(value, dict):
        if set(value) == {"$array"}:
            return arrays[value["$array"]]
        return {k: with_arrays(v, arrays) for k, v in value.items()}
    if isinstance(value, list):
        return [with_arrays(v, arrays) for v in value]
    return value
