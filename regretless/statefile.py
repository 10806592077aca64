"""Files that hold a run: nested dicts of arrays and plain values, written atomically and read without ever running
code.

The format is an uncompressed .npz (one entry per array) whose entry `json` holds everything else.
"""

from __future__ import annotations

import errno
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

LARGEST = 8 * 2**30
"""Bytes a file may claim to unpack to; more is refused as damaged or hostile."""


def write_state(path: str | Path, state: Mapping[str, Any]) -> None:
    """Writes a state: whole or not at all, whenever the process is killed."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    plain = without_arrays(state, "", arrays)
    buffer = io.BytesIO()
    np.savez(buffer, json=np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def write_whole(path: str | Path, content: bytes) -> None:
    """Writes a temporary file beside path and renames it over path."""
    with _written_beside(Path(path), content) as temporary:
        os.replace(temporary, path)


def check_writable(path: str | Path) -> None:
    """Raises the OSError that writing path would raise, and leaves path as it is: better before a costly evaluation
    than after it."""
    with _written_beside(Path(path), b""):
        if Path(path).is_dir():
            raise IsADirectoryError(errno.EISDIR, "cannot write: it is a directory", str(path))


@contextmanager
def _written_beside(path: Path, content: bytes) -> Iterator[Path]:
    """A temporary file with this content beside path, gone afterwards; errors name path itself."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_state(path: str | Path) -> dict[str, Any]:
    """Reads what `write_state` wrote; anything else raises ValueError with one line."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
                raise ValueError("it claims to be larger than any run")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        plain = json.loads(arrays.pop("json").tobytes().decode())
        state = with_arrays(plain, arrays)
    except FileNotFoundError:
        raise
    except Exception as error:  # damaged zip, zlib, lzma, npy and JSON streams each raise classes of their own
        raise ValueError(f"{path} is not a readable state file: {type(error).__name__}: {error}") from None
    if not isinstance(state, dict):
        raise ValueError(f"{path} is not a readable state file: it holds no table")
    return state


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
