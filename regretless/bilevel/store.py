"""Where the inner states of a bilevel study live: a tree of arrays written without a pickle, in a bounded store that
survives a kill.

Two jobs. `pack` and `unpack` turn a tree (mappings, lists, tuples, arrays, tensors, numbers, text) into the bytes of a
safetensors file: a JSON header, then the raw arrays; the tree's shape travels in the header's metadata, so any
safetensors reader opens the file. `Store` keeps one packed state per name, in memory or in a folder. In a folder a file
is written aside, flushed to the disk and renamed: a reader sees the old state or the new one, never a part. A store
holds at most `most` states and `most_bytes` bytes; its caller says which go first.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.statefile import write_whole

Tree: TypeAlias = Any
"""Mappings, lists, tuples, NumPy arrays, torch tensors, numbers, text, truth values and None, nested as one likes."""

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
"""The safetensors names of the dtypes; BF16 travels as 16 raw bits and only torch reads it back."""
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
MOST_HEADER = 100_000_000
"""A longer header is taken for damage (the limit of the safetensors format)."""


class StateError(ValueError):
    """A state cannot be written, or a file is not a whole state."""


# ---------------------------------------------------------------- trees to bytes


def pack(tree: Tree, note: Mapping[str, Any] | None = None) -> bytes:
    """The bytes of a safetensors file that holds the tree; `note` (plain JSON) is kept beside it."""
    arrays: list[tuple[str, list[int], bytes]] = []
    shape = _flatten(tree, arrays, "state")
    header: dict[str, Any] = {
        "__metadata__": {"format": "regretless-state-1", "tree": json.dumps(shape), "note": json.dumps(note or {})}
    }
    at = 0
    for i, (dtype, size, raw) in enumerate(arrays):
        header[f"a{i}"] = {"dtype": dtype, "shape": size, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the arrays start on a multiple of eight bytes
    return b"".join([struct.pack("<Q", len(text)), text, *(raw for _, _, raw in arrays)])


def unpack(data: bytes) -> tuple[Tree, dict[str, Any]]:
    """The tree and the note of `pack`'s bytes; raises StateError when they are damaged or something else."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > min(MOST_HEADER, len(data) - 8):
            raise StateError("the file is cut short")
        header = json.loads(data[8 : 8 + length])
        meta = header.pop("__metadata__")
        if meta["format"] != "regretless-state-1":
            raise StateError(f"unknown format {meta['format']!r}")
        arrays = {name: _array(entry, data, 8 + length) for name, entry in header.items()}
        return _build(json.loads(meta["tree"]), arrays), json.loads(meta["note"])
    except StateError:
        raise
    except (struct.error, KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(f"not a state: {error!r}") from None


def _flatten(node: Tree, arrays: list[tuple[str, list[int], bytes]], where: str) -> Any:
    """The JSON shape of a tree: plain values as [value], the rest as objects with one key; arrays are moved out."""
    if node is None or isinstance(node, bool | int | float | str):
        return [node]
    if isinstance(node, Mapping):
        for key in node:
            if not (key is None or isinstance(key, bool | int | float | str)):
                raise StateError(f"{where}: the key {key!r} is no text or number")
        return {"map": [[key, _flatten(value, arrays, f"{where}[{key!r}]")] for key, value in node.items()]}
    if isinstance(node, list | tuple):
        kind = "list" if isinstance(node, list) else "tuple"
        return {kind: [_flatten(value, arrays, f"{where}[{i}]") for i, value in enumerate(node)]}
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(node, torch.Tensor):
        tensor = node.detach().cpu().contiguous()
        if tensor.dtype == torch.bfloat16:
            arrays.append(("BF16", list(tensor.shape), tensor.view(torch.int16).numpy().tobytes()))
        else:
            arrays.append(_raw(tensor.numpy(), where))
        return {"tensor": f"a{len(arrays) - 1}"}
    if isinstance(node, np.ndarray | np.generic):
        arrays.append(_raw(np.asarray(node), where))
        return {"array" if isinstance(node, np.ndarray) else "scalar": f"a{len(arrays) - 1}"}
    raise StateError(
        f"{where}: a {type(node).__name__} cannot be written without a pickle; give the problem save= and load=, which turn it into arrays"
    )


def _raw(array: NDArray[Any], where: str) -> tuple[str, list[int], bytes]:
    name = NAMES.get(array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype)
    if name is None:
        raise StateError(f"{where}: arrays of {array.dtype} cannot be written; use numbers or truth values")
    return name, list(array.shape), np.ascontiguousarray(array, dtype=DTYPES[name]).tobytes()


def _array(entry: Mapping[str, Any], data: bytes, start: int) -> tuple[str, NDArray[Any]]:
    name, size, (a, b) = entry["dtype"], [int(n) for n in entry["shape"]], entry["data_offsets"]
    dtype = np.dtype("<i2" if name == "BF16" else DTYPES[name])
    if b - a != math.prod(size) * dtype.itemsize or not 0 <= a <= b <= len(data) - start:
        raise StateError("the file is cut short or its header is damaged")
    return name, np.frombuffer(data, dtype=dtype, count=math.prod(size), offset=start + a).reshape(size).copy()


def _build(node: Any, arrays: Mapping[str, tuple[str, NDArray[Any]]]) -> Tree:
    if isinstance(node, list):
        return node[0]
    ((kind, value),) = node.items()
    if kind == "map":
        return {key: _build(child, arrays) for key, child in value}
    if kind in ("list", "tuple"):
        children = [_build(child, arrays) for child in value]
        return children if kind == "list" else tuple(children)
    name, array = arrays[value]
    if kind == "tensor":
        import torch

        tensor = torch.from_numpy(array)
        return tensor.view(torch.bfloat16) if name == "BF16" else tensor
    if kind == "scalar":
        return array[()]
    if kind == "array":
        return array
    raise StateError(f"unknown part {kind!r}")


# ---------------------------------------------------------------- the store


class Store:
    """Packed states by name, at most `most` of them and `most_bytes` together; in memory, or in `folder` so that they
    survive a kill.

    `surplus` says what has to go, given what may go, least useful first; a state that may not go is kept even beyond
    the bounds.
    """

    def __init__(self, folder: str | Path | None = None, *, most: int = 64, most_bytes: int = 2 * 2**30) -> None:
        if most < 1:
            raise ValueError(f"most must be at least 1 state, got {most!r}")
        if most_bytes < 1:
            raise ValueError(f"most_bytes must be at least 1, got {most_bytes!r}")
        self.folder = None if folder is None else Path(folder)
        self.most, self.most_bytes = int(most), int(most_bytes)
        self._memory: dict[str, bytes] = {}
        self.sizes: dict[str, int] = {}
        """The bytes of each stored state, by name."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(self.folder.iterdir()):
                if path.name.startswith(".") and path.name.endswith(".tmp"):
                    path.unlink()  # a write that a kill cut off
                elif path.suffix == ".safetensors":
                    self.sizes[path.stem] = path.stat().st_size

    def __contains__(self, name: object) -> bool:
        return name in self.sizes

    def put(self, name: str, tree: Tree, note: Mapping[str, Any] | None = None) -> None:
        """Writes a state; when this returns it is on the disk, whole."""
        data = pack(tree, note)
        if self.folder is None:
            self._memory[name] = data
        else:
            write_whole(self._path(name), data)
        self.sizes[name] = len(data)

    def read(self, name: str) -> tuple[Tree, dict[str, Any]]:
        """The state and its note; KeyError when there is none, StateError when the file is damaged."""
        if name not in self.sizes:
            raise KeyError(name)
        try:
            return unpack(self._memory[name] if self.folder is None else self._path(name).read_bytes())
        except StateError as error:
            raise StateError(f"{self._path(name) if self.folder else name}: {error}") from None

    def drop(self, name: str) -> None:
        """Removes a state; one that is not there is ignored."""
        if self.sizes.pop(name, None) is not None:
            if self.folder is None:
                del self._memory[name]
            else:
                self._path(name).unlink(missing_ok=True)

    def surplus(self, may_go: Iterable[str], beside: Collection[str] = ()) -> list[str]:
        """The first names of `may_go` without which the store is within its bounds, all of them when even that is not
        enough.

        States named in `beside` do not count.
        """
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
        return self.folder / f"{name}.safetensors"


class Journal:
    """Lines of JSON, each flushed to the disk before `append` returns; a last line cut off by a kill is dropped on
    opening."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self.lines: list[dict[str, Any]] = []
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def append(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with open(self.path, "ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        self.lines.append(line)

    def _read(self, path: Path) -> None:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        for number, text in enumerate(whole.splitlines(), 1):
            try:
                self.lines.append(json.loads(text))
            except ValueError:
                raise StateError(
                    f"{path}, line {number}, is damaged; restore the file or start in a new folder"
                ) from None
        if len(whole) < len(data):
            os.truncate(path, len(whole))
