"""Libraries that only some installations have, and passwords in text that is printed.

`optional` imports such a library where it is used, and answers a missing one with the command that installs it.
`masked` hides the passwords of addresses.
"""

import re
from importlib import import_module
from typing import Any

DISTRIBUTIONS = {"sklearn": "scikit-learn", "cocoex": "coco-experiment", "psycopg": "psycopg[binary]", "grpc": "grpcio"}
"""What pip calls a library whose modules have another name."""


def optional(module: str, extra: str, distribution: str = "regretless") -> Any:
    """The module; where a library is missing, ImportError with a command that installs it.

    Args:
        module: the name of a module, which may import the missing library itself.
        extra: the group of optional dependencies (pyproject.toml) that has the library.
        distribution: whose group it is.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        if missing in ("regretless", "regretless_bench"):
            raise
        raise ImportError(
            f"{missing} is not installed: pip install '{requirement(missing, extra, distribution)}'", name=error.name
        ) from None


def requirement(library: str, extra: str, distribution: str = "regretless") -> str:
    """What pip is told to install a library: its name and the versions that the group of dependencies asks for.

    The library itself is named, not the group, because that works for an installation from any source.
    """
    import importlib.metadata  # it brings the parser of e-mails along

    wanted = DISTRIBUTIONS.get(library, library)
    try:
        listed = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:  # a source tree that was never installed
        listed = []
    for text in listed:
        needed, _, condition = text.partition(";")
        name = re.split(r"[\s<>=!~\[]", needed.strip(), maxsplit=1)[0]
        if f'"{extra}"' in condition.replace("'", '"') and name.lower() == wanted.partition("[")[0].lower():
            return needed.strip()
    return wanted


PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):\S*@", re.IGNORECASE)
"""Scheme, user and password of an address; a password may hold any sign but a blank, so it ends at the last @."""
PASSWORD_WITH_BLANKS = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):[^@/\n]*\s[^@/\n]*@", re.IGNORECASE)
"""The same with blanks in the password, which then holds no slash: a sentence may go on after an address."""
PASSWORD_WITHOUT_SCHEME = re.compile(r"(?<![\w:/@.+-])((?:journal:)?[^\s:/@'\"(]+):[^\s@/]*(?:@[^\s@/]*)*@(?=[^\s@])")
"""User and password of an address that was written without its scheme, or as a journal."""
PASSWORD_OPTION = re.compile(r"([?&](?:ssl)?(?:password|passwd|pwd)=)[^&\s'\"]*", re.IGNORECASE)
"""A password among the options of an address."""


def masked(text: str) -> str:
    """The text with the password of every address in it replaced, so that it may be printed: user:***@host."""
    for pattern in (PASSWORD, PASSWORD_WITH_BLANKS, PASSWORD_WITHOUT_SCHEME):
        text = pattern.sub(r"\1:***@", text)
    return PASSWORD_OPTION.sub(r"\1***", text)
