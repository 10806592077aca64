"""Functions of the user's files: loading them, and showing where in them an error arose."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from regretless.run.evaluation import ObjectiveError


@contextmanager
def traced(target: str) -> Iterator[None]:
    """Shows where in the file of "FILE.py:FUNCTION" an error arose: its line alone would not say."""
    try:
        with spoken_warnings():
            yield
    except ObjectiveError as error:
        _, found, where = error.error.partition(f'  File "{Path(target.rpartition(":")[0]).resolve()}"')
        click.echo(f"{found}{where}".rstrip().rpartition("\n")[0], err=True)
        raise click.ClickException(f"{target}: {error.message}") from error
    except Exception as error:
        frames, file = traceback.extract_tb(error.__traceback__), Path(target.rpartition(":")[0]).resolve()
        first = next((i for i, frame in enumerate(frames) if Path(frame.filename).resolve() == file), None)
        if first is None:
            raise
        click.echo("".join(traceback.format_list(frames[first:])), err=True, nl=False)
        raise click.ClickException(f"{target} raised {type(error).__name__}: {error}") from error


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Shows warnings of a run as lines of the command."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = lambda message, *_: click.echo(f"regretless: {message}", err=True)
        yield


FUNCTION = re.compile(r"[^{}]*\.py:\w*|[^{}\s]*:\w+|[^{}\s]*\.py")
"""What is written FILE.py:FUNCTION, well or nearly so; anything else is a command."""


def is_function(target: str) -> bool:
    """Whether a text names a function of a file, and is no command."""
    return FUNCTION.fullmatch(target) is not None


class FileFunction:
    """A function of a file whose name belongs to another module: other processes load it from the file again."""

    def __init__(self, target: str, function: Callable[..., Any]) -> None:
        self._target, self._function = target, function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return load_function, (self._target,)


def load_function(target: str) -> Callable[..., Any]:
    """The function of a "FILE.py:FUNCTION" text.

    The file becomes a module under its own name, which other processes can import. Where that name belongs to another
    module already (types.py, say), the file gets a name of its own and the function pickles as a `FileFunction`.
    """
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise ValueError(f"the objective must be written FILE.py:FUNCTION, or as a command, got {target!r}")
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"there is no file {file}")
    taken = _is_taken(path)
    if taken:  # processes that start in its folder must not find it under the name of the other module either
        os.environ["PYTHONSAFEPATH"] = "1"
    title = f"regretless_file_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    if str(path.parent) not in sys.path:  # files beside it can be imported; a taken name must not hide its owner
        sys.path.insert(len(sys.path) if taken else 0, str(path.parent))
    module = sys.modules[title] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ValueError(f"{file} is not valid Python: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{file} has no function {name!r}")
    return FileFunction(f"{path}:{name}", function) if taken else function


def _is_taken(path: Path) -> bool:
    """Whether the name of a file belongs to a module from elsewhere, loaded or not."""
    module = sys.modules.get(path.stem)
    try:
        spec = importlib.util.find_spec(path.stem) if module is None else module.__spec__
    except (ImportError, ValueError):  # a module without a description of its own
        return True
    if spec is None:
        return module is not None
    return spec.origin is None or not Path(spec.origin).exists() or Path(spec.origin).resolve() != path
