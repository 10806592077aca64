"""Libraries that only some installations have: asked for where they are used, and named with the words that install
them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, extra: str) -> Any:
    """The module, or ImportError with the group of optional dependencies (pyproject.toml) that brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{error.name} is not installed: pip install 'regretless[{extra}]'", name=error.name
        ) from None
