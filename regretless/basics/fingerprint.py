"""Fingerprints: a short text for a value, equal for equal contents in every process.

Recipes, studies and records use them to say whether two options, objectives or studies are the same. They follow from
the contents of a value, never from its address or its printed form, which may leave out the middle of an array.
"""

import functools
import hashlib
import inspect
import tokenize
import types
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

LENGTH = 16
"""Bytes of a fingerprint: two different values share one with probability 2^-128."""
DEEPEST = 32
"""Nested values are followed this far, so that one that contains itself comes to an end."""

EMPTY = types.CellType()
"""The cell of a variable that a function closes over and that has no value yet."""


def fingerprint(value: Any) -> str:
    """A digest of plain values, arrays, containers, functions (source, defaults and closure) and objects with
    attributes."""
    digest = hashlib.blake2b(digest_size=LENGTH)
    for piece in _pieces(value, 0):
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()


def is_plain(value: Any) -> bool:
    """Whether a file can hold a value as it is: nothing, text, a number or a truth value."""
    return value is None or type(value) in (str, int, float, bool)


def in_plain(value: Any) -> Any:
    """A value as a file holds it: itself or, to be compared with, its fingerprint."""
    return value if is_plain(value) else {"fingerprint": fingerprint(value)}


def source_fingerprint(function: Any) -> str:
    """A digest of the text of a function and of the functions it closes over, whatever data it closes over; "" for what
    has no text, such as a built-in. A decorator's function closes over the one it decorates; what is no Python says its
    text in `__source__`."""
    if isinstance(text := getattr(function, "__source__", None), str):
        return hashlib.blake2b(text.encode(), digest_size=LENGTH).hexdigest()
    texts: list[bytes] = []
    try:
        _texts(function, texts, set())
        return hashlib.blake2b(b"\0".join(texts), digest_size=LENGTH).hexdigest()
    except AttributeError:
        return ""


def _texts(function: Any, texts: list[bytes], seen: set[int]) -> None:
    """Appends the text of a callable, then those of the callables that it holds, each once."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    if id(function) in seen or len(seen) > DEEPEST:
        return
    seen.add(id(function))
    if inspect.isfunction(function):
        held = [cell.cell_contents for cell in function.__closure__ or () if cell != EMPTY]
    else:
        held = [] if inspect.isclass(function) else list(getattr(function, "__dict__", {}).values())
    texts.append(_source(function if inspect.isfunction(function) or inspect.isclass(function) else type(function)))
    for inner in held:
        if isinstance(inner, functools.partial) or inspect.isfunction(inner) or inspect.ismethod(inner):
            _texts(inner, texts, seen)


def same_content(a: Any, b: Any) -> bool:
    """Whether two options mean the same: arrays and containers by content, functions and other objects by `==` or
    identity."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_content(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(same_content, a, b))
    if callable(a) or callable(b) or type(a) is not type(b):
        return False
    try:
        return bool(a == b) or (a != a and b != b)
    except (TypeError, ValueError, RuntimeError):  # objects whose == has no single answer, such as tensors
        return fingerprint(a) == fingerprint(b)


def _pieces(value: Any, depth: int) -> Iterator[bytes]:
    yield type(value).__qualname__.encode()
    if depth > DEEPEST:
        return
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
    elif isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        yield f"{array.dtype}{array.shape}".encode()
        yield array.tobytes() if array.dtype.kind != "O" else repr(array.tolist()).encode()
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            yield from _pieces(key, depth + 1)
            yield from _pieces(value[key], depth + 1)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _pieces(item, depth + 1)
    elif isinstance(value, Set):
        yield from sorted(fingerprint(item).encode() for item in value)
    elif isinstance(value, functools.partial):
        yield from _pieces((value.func, value.args, value.keywords), depth + 1)
    elif inspect.ismethod(value):
        yield from _pieces((value.__func__, value.__self__), depth + 1)
    elif inspect.isfunction(value):
        yield _source(value)
        inner = [cell.cell_contents for cell in value.__closure__ or () if cell != EMPTY]
        yield from _pieces((value.__defaults__, value.__kwdefaults__, inner), depth + 1)
    elif inspect.isclass(value) or inspect.isbuiltin(value):
        yield f"{value.__module__}.{value.__qualname__}".encode()
    elif callable(getattr(value, "detach", None)) and callable(getattr(value, "numpy", None)):  # a tensor
        yield from _pieces(np.asarray(value.detach().cpu().numpy()), depth + 1)
    elif callable(getattr(value, "state_dict", None)):
        yield from _pieces(dict(value.state_dict()), depth + 1)
    elif hasattr(value, "__dict__") and vars(value):
        yield _source(type(value))
        yield from _pieces(vars(value), depth + 1)
    else:  # dates, paths, patterns, objects with slots: what would be needed to make another one
        try:
            parts = value.__reduce_ex__(4)
        except TypeError:
            raise ValueError(f"{value!r} has no content that could be compared") from None
        yield from _pieces(list(parts[1:]) if isinstance(parts, tuple) else parts, depth + 1)


def _source(thing: Any) -> bytes:
    """The text of a function or class; its compiled form where there is no text."""
    try:
        if getattr(thing, "__name__", "") == "<lambda>":
            return _lambda_text(thing)
        return inspect.getsource(thing).encode()
    except (OSError, TypeError, IndexError, SyntaxError, tokenize.TokenError):  # a file may have been edited since
        code = getattr(thing, "__code__", None)
        if code is None:
            return f"{thing.__module__}.{thing.__qualname__}".encode()
        return _compiled(code)


def _compiled(code: Any) -> bytes:
    """What a code object does: its instructions, names and constants, those of functions inside it too."""
    constants = [_compiled(c) if inspect.iscode(c) else repr(c).encode() for c in code.co_consts]
    return b"\0".join([bytes(code.co_code), repr(code.co_names).encode(), *constants])


def _lambda_text(function: Any) -> bytes:
    """The arguments and the body of a lambda: the text of its line may hold other lambdas too."""
    lines, code = inspect.findsource(function)[0], function.__code__
    spans = [(p[0], p[2], p[1], p[3]) for p in code.co_positions() if None not in p and p[0::2] != p[1::2]]
    if not spans:  # Python runs without columns
        raise OSError("no columns")
    first, begin = min((line, column) for line, column, _, _ in spans)
    last, end = max((line, column) for _, _, line, column in spans)
    text = [line.encode() for line in lines[first - 1 : last]]
    text[-1] = text[-1][:end]
    text[0] = text[0][begin:]
    return repr(code.co_varnames).encode() + b"".join(text)
