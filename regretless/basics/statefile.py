"""Files that hold a run: nested mappings of arrays and plain values, written atomically, checked when read, and read
without ever running code.

The format is an uncompressed .npz (one entry per array) whose entry `json` holds everything else. The last bytes of the
file (the comment of the zip archive) are a digest of all bytes before them, so that a damaged file is refused.
"""

import errno
import glob
import hashlib
import io
import json
import math
import os
import secrets
import stat
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

State: TypeAlias = dict[str, Any]
"""Names to arrays, numbers, text, truth values, None or further states: what can be written without a pickle."""
DIGEST_BYTES = 16
"""Bytes of a digest: damage goes unnoticed with probability 2^-128."""


class StateError(ValueError):
    """A state cannot be written, or a file is not a whole state."""


def digest(content: bytes) -> str:
    """The digest of a file's content, as text."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def sealed(content: bytes) -> bytes:
    """The content, followed by its digest."""
    return content + digest(content).encode()


# ---------------------------------------------------------------- files


def write_state(path: str | Path, state: Mapping[str, Any]) -> bytes:
    """Writes a state: whole or not at all, whenever the process is killed; a link stays and its target is written.
    Returns the seal of the file."""
    content = pack(state)
    write_whole(os.path.realpath(path), content)
    return content[-2 * DIGEST_BYTES :]


def read_state(path: str | Path) -> dict[str, Any]:
    """Reads what `write_state` wrote; anything else raises StateError with one line."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a device may never end, and a pipe never begin
            raise StateError("it is no regular file")
        return unpack_state(Path(path).read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, StateError) as error:
        raise StateError(f"{path} is not a readable state file: {error}") from None


def write_whole(path: str | Path, content: bytes) -> None:
    """Writes a temporary file beside path and renames it over path, keeping permissions; a link is replaced, so that
    a stranger's folder cannot lead out of itself."""
    with _written_beside(Path(path), content) as temporary:
        os.replace(temporary, path)


def check_writable(path: str | Path) -> None:
    """Raises the OSError that writing path would raise, and leaves path as it is: better before a costly evaluation
    than after it. What killed writers left beside it is removed."""
    target = Path(os.path.realpath(path))
    with _written_beside(target, b""):
        pass
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        if _is_left_over(left):
            left.unlink(missing_ok=True)


@contextmanager
def _written_beside(path: Path, content: bytes) -> Iterator[Path]:
    """A temporary file with this content beside path, gone afterwards; errors name path itself.

    Its name is random and it is only ever created, so that no other writer and no link prepared by somebody else is
    written to. A device is not replaced by a file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}.tmp")
    try:
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "it is a directory")
            if path.exists() and not path.is_file() and not path.is_symlink():
                raise OSError(errno.EINVAL, "it is no regular file")
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
        # 86400.0: A temporary file of another machine is left over once it is a day old: no write takes that long
        if time.time() - temporary.stat().st_mtime > 86400.0:
            return True
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except (OSError, ValueError):
        pass
    return False


# ---------------------------------------------------------------- trees to bytes and back


def pack(tree: Any) -> bytes:
    """The bytes of a file that holds the tree (see `without_arrays` for what a tree may hold)."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    text = json.dumps(without_arrays(tree, "", arrays)).encode()
    buffer = io.BytesIO()
    np.savez(buffer, json=np.frombuffer(text, dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = bytes(2 * DIGEST_BYTES)  # holds the place of the digest
    return sealed(buffer.getvalue()[: -2 * DIGEST_BYTES])


def unpack(data: bytes) -> Any:
    """The tree that `pack` wrote; anything else raises StateError with one line."""
    if data != sealed(data[: -2 * DIGEST_BYTES]):
        raise StateError("its digest is wrong, so it is damaged, cut short or something else")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            arrays = {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in archive.infolist()}
        return with_arrays(json.loads(arrays.pop("json").tobytes()), arrays)
    except ImportError:
        raise StateError("it holds tensors, and torch is not installed: pip install torch") from None
    except Exception as error:  # damaged zip, npy and JSON streams each raise classes of their own
        raise StateError(f"{type(error).__name__}: {error}") from None


def unpack_state(data: bytes) -> dict[str, Any]:
    """The table that `pack` wrote; anything else raises StateError with one line."""
    state = unpack(data)
    if not isinstance(state, dict):
        raise StateError("it holds no table")
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
    """A copy of value that JSON can hold; its arrays are put into `arrays` and named where they stood.

    A tree is made of mappings with plain keys, lists, tuples, NumPy arrays and scalars, torch tensors, numbers, text,
    truth values and None. What JSON has no form for becomes an object with a single key that begins with "$".
    """
    if isinstance(value, np.ndarray | np.generic):
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": _moved(np.asarray(value), path, arrays)}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple):
        children = [without_arrays(v, f"{path}/{i}", arrays) for i, v in enumerate(value)]
        return children if isinstance(value, list) else {"$tuple": children}
    if isinstance(value, Mapping):
        if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: without_arrays(v, f"{path}/{k}", arrays) for k, v in value.items()}
        for key in value:
            if key is not None and (isinstance(key, np.generic) or not isinstance(key, str | int | float | bool)):
                raise StateError(f"state entry {path!r} has the key {key!r}, which is no plain text or number")
        return {"$map": [[k, without_arrays(v, f"{path}/{k}", arrays)] for k, v in value.items()]}
    torch = sys.modules.get("torch")  # who has a tensor has imported torch
    if torch is not None and isinstance(value, torch.Tensor):
        tensor = value.detach().cpu().contiguous()
        if tensor.dtype == torch.bfloat16:  # NumPy has no such type: its bits travel as whole numbers
            return {"$bfloat16": _moved(tensor.view(torch.int16).numpy(), path, arrays)}
        return {"$tensor": _moved(tensor.numpy(), path, arrays)}
    raise StateError(
        f"state entry {path!r} is a {type(value).__name__}, which cannot be written without a pickle; states hold "
        "arrays, tensors, numbers, text, truth values and None"
    )


def _moved(array: np.ndarray[Any, Any], path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    """Puts an array among the others and returns its name there."""
    if array.dtype.hasobject:
        raise StateError(f"state entry {path!r} is an array of objects, which cannot be written without a pickle")
    name = f"array{len(arrays)}"
    arrays[name] = array
    return name


def with_arrays(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """What `without_arrays` took apart, together again."""
    if isinstance(value, list):
        return [with_arrays(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value), "")
    if not kind.startswith("$"):
        return {k: with_arrays(v, arrays) for k, v in value.items()}
    content = value[kind]
    if kind == "$tuple":
        return tuple(with_arrays(v, arrays) for v in content)
    if kind == "$map":
        return {k: with_arrays(v, arrays) for k, v in content}
    array = arrays[content]
    if kind in ("$array", "$scalar"):
        return array if kind == "$array" else array[()]
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if kind == "$bfloat16" else tensor
