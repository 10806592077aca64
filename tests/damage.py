"""Damage for valid files: bytes flipped, cut and spliced, trees with values of the wrong kind; what must come of it."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SPITE = [
    None,
    True,
    -1,
    0,
    1e308,
    math.nan,
    math.inf,
    2**70,
    "",
    "x" * 50,
    "__import__('os').abort()",
    [],
    {},
    [[]],
    {"$array": "json"},
    {"type": {}},
    [1, "a", None],
]
"""Values of the wrong kind, put anywhere."""


def damaged(valid: bytes, rng: random.Random) -> bytes:
    """A valid file with one to four wounds."""
    data = bytearray(valid)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randint(1, 40)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 20))
        elif kind == 3:
            data[at:at] = data[: rng.randint(1, 60)]
        elif kind == 4:
            data = data[:at]
        else:
            data[at:at] = rng.choice(
                [b"\xff\xfe", b"\0" * 9, b"[" * 500, b'"', b"}", b"1e999", b"\n[a]\n", b"\x80\x04c", b"PK\x03\x04"]
            )
    return bytes(data)


def spoiled(tree: Any, rng: random.Random) -> Any:
    """A tree with one value replaced, dropped or moved to where it does not belong."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        key = rng.choice(list(tree))
        kind = rng.randrange(8)
        out = dict(tree)
        if kind == 0:
            del out[key]
        elif kind == 1:
            out[rng.choice(["kind", "low", "x", "__class__", ""])] = rng.choice(SPITE)
        else:
            out[key] = spoiled(tree[key], rng)
        return out
    if isinstance(tree, list) and tree and rng.random() < 0.7:
        i = rng.randrange(len(tree))
        return [*tree[:i], spoiled(tree[i], rng), *tree[i + 1 :]]
    return rng.choice(SPITE)


def survives(load: Callable[[Path], Any], path: Path, inputs: list[bytes]) -> int:
    """How many inputs were refused; anything but a ValueError of one readable message fails the test."""
    messages = []
    for content in inputs:
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(path)
        except ValueError as error:
            messages.append(str(error).strip())
    assert all(messages)
    return len(messages)


def spoiled_array(array: np.ndarray, rng: random.Random) -> Any:
    """An array of another shape, another type, or with wrong numbers in it."""
    kind, out = rng.randrange(10), array.astype(np.float64)
    if kind <= 2 and out.size:
        worst = [math.nan, math.inf, -math.inf, -1.0, 2.0, 1e308, -1e308, 5e-324, 0.5, 1e9]
        out.reshape(-1)[rng.randrange(out.size)] = rng.choice(worst)
        return out
    if kind == 3:
        return array[: rng.randrange(len(array) + 1)] if array.ndim else np.array([array])
    if kind == 4:
        return np.concatenate([array, array]) if array.ndim else array
    if kind == 5:
        return array.T if array.ndim > 1 else array.reshape(-1, 1)
    if kind == 6:
        return array.reshape(-1)
    if kind == 7:
        with np.errstate(all="ignore"):
            return np.nan_to_num(out).astype(
                rng.choice([np.int8, np.float32, np.complex128, np.bool_, np.str_, np.uint64])
            )
    if kind == 8:
        return np.empty(rng.choice([(0,), (0, 0), (1, 0), (0, 7), (3, 3, 3)]))
    return rng.choice(SPITE)


def spoiled_state(tree: Any, rng: random.Random) -> Any:
    """A state with one leaf or one branch changed, arrays among them."""
    if isinstance(tree, np.ndarray):
        return spoiled_array(tree, rng)
    if isinstance(tree, dict) and tree and rng.random() < 0.95:
        key = rng.choice(list(tree))
        if rng.random() < 0.08:
            return {k: v for k, v in tree.items() if k != key}
        return {**tree, key: spoiled_state(tree[key], rng)}
    return spoiled(tree, rng)
