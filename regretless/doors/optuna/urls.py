"""Opening Optuna storages by URL, and waiting for those that are away."""

import contextlib
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import optuna
from optuna.storages import BaseStorage
from tqdm.auto import tqdm

from regretless.basics.extras import masked

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds a storage may be away before a worker gives up."""
CREATION_PATIENCE = 60.0
"""Seconds for which the creation of a storage's tables is tried again: another process may be making them."""
FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0
"""Seconds between two tries to reach a storage: doubled from the first to the longest."""


def open_storage(url: str, *, create: bool = True) -> BaseStorage:
    """The storage of a URL: `sqlite:///file.db`, `postgresql://...`, `mysql://...`, `journal:FILE` (a shared file
    system) or `grpc://HOST:PORT`. With create=False a file that does not exist is refused.

    A process killed while it writes to a journal leaves Optuna's lock behind: the others wait for it for 30 seconds.
    """
    if not create:
        _check_exists(url)
    if url.startswith("journal:"):
        from optuna.storages.journal import JournalFileBackend

        return optuna.storages.JournalStorage(JournalFileBackend(url.removeprefix("journal:").removeprefix("//")))
    if url.startswith("grpc://"):
        host, _, port = url.removeprefix("grpc://").partition(":")
        if not host or not port.isdigit():
            raise ValueError(f"a gRPC storage is written grpc://HOST:PORT, got {masked(url)!r}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return optuna.storages.GrpcStorageProxy(host=host, port=int(port))
    if "://" not in url:
        forms = "sqlite:///FILE, postgresql://..., mysql://..., journal:FILE or grpc://HOST:PORT"
        raise ValueError(f"a storage is written {forms}, got {masked(url)!r}")
    return _open_database(url)


def only_study(url: str) -> optuna.Study:
    """The study of a storage that holds one; a file that does not exist is not made."""
    storage = open_storage(url, create=False)
    names = optuna.study.get_all_study_names(storage)
    if len(names) != 1:
        held = ", ".join(names) or "none"
        raise ValueError(f"{masked(url)} holds the studies {held}; load the one you mean and pass it")
    return optuna.load_study(study_name=names[0], storage=storage)


def _open_database(url: str) -> BaseStorage:
    import sqlalchemy.exc

    options: dict[str, Any] = {"pool_pre_ping": True}  # connections that a restarted server dropped are replaced
    if url.startswith("sqlite"):
        options["connect_args"] = {"timeout": 60}  # seconds to wait for another worker's lock
    else:  # a process keeps one connection; the renewal of its lease may take another for a moment
        options |= {"pool_size": 1, "max_overflow": 1}
    name, deadline, wait = masked(url), time.monotonic() + CREATION_PATIENCE, FIRST_WAIT
    tries = 0
    while True:
        tries += 1
        # 4: the least number of such tries: on a machine with too much to do, one of them may take longer than the
        # patience
        last = tries >= 4 and time.monotonic() > deadline
        try:
            with quiet():
                return optuna.storages.get_storage(_connected(url, options))
        except (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.NoSuchModuleError, ImportError) as error:
            raise ValueError(f"the storage {name!r} cannot be opened: {_unsaid(error, url)}") from None
        except (sqlalchemy.exc.DatabaseError, optuna.exceptions.StorageInternalError) as error:
            if not _in_the_making(error) or last:
                words = _unsaid(error.__cause__ or error, url)
                raise ConnectionError(f"the storage {name!r} cannot be reached: {words}") from None
        except (AssertionError, RuntimeError) as error:  # tables of another version, or half of them
            if isinstance(error, RuntimeError) or last:
                raise ValueError(f"the storage {name!r} cannot be used: {_unsaid(error, url)}") from None
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _connected(url: str, options: dict[str, Any]) -> optuna.storages.RDBStorage:
    """A database's storage. Optuna's own look at the version of the tables takes a second connection while it holds the
    first, so that processes that have one each would wait for each other."""
    storage = optuna.storages.RDBStorage(url, engine_kwargs=options, skip_compatibility_check=True)
    _complete(storage.engine)
    held, wanted = storage.get_current_version(), storage.get_head_version()
    if held != wanted:
        storage.engine.dispose()
        raise RuntimeError(
            f"its tables have version {held} and Optuna {optuna.__version__} has {wanted}; `optuna storage upgrade` or "
            "another release of Optuna fits them"
        )
    return storage


def _complete(engine: Any) -> None:
    """Makes the index that keeps names of studies apart, where a process was killed between the table and its index."""
    import sqlalchemy

    name, table = "ix_studies_study_name", "studies"
    if name not in {index["name"] for index in sqlalchemy.inspect(engine).get_indexes(table)}:
        studies = sqlalchemy.Table(table, sqlalchemy.MetaData(), autoload_with=engine)
        sqlalchemy.Index(name, studies.c.study_name, unique=True).create(engine)


def _in_the_making(error: BaseException) -> bool:
    """Whether an error says that another process is creating the same tables at this moment."""
    text = f"{error} {error.__cause__ or ''}".lower()
    return any(words in text for words in ("already exists", "unique", "duplicate", "locked", "no such table"))


def _check_exists(url: str) -> None:
    path = re.sub(r"^(sqlite(\+\w+)?:///|journal:(//)?)", "", url)
    if path != url and not Path(path.partition("?")[0]).is_file():
        raise ValueError(f"there is no storage {masked(url)!r}: the file {path} does not exist")


def _unsaid(error: BaseException, url: str) -> str:
    """An error's text without the URL's password."""
    text = str(error).replace(url, masked(url))
    found = re.search(r"(?:://|^(?:journal:)?)[^:/@]*:(.*)@", url)
    for piece in sorted(found[1].split("@"), key=len, reverse=True) if found else ():
        text = text.replace(piece, "***") if piece else text
    return text


def patiently(call: Callable[[], T]) -> T:
    """Calls until the storage answers, for `PATIENCE` seconds at most; the call must be harmless to repeat. After a
    second it says what it waits for."""
    import sqlalchemy.exc

    away: list[type[BaseException]] = [
        optuna.exceptions.StorageInternalError,
        sqlalchemy.exc.OperationalError,
        sqlalchemy.exc.InterfaceError,
        ConnectionError,
    ]
    with contextlib.suppress(ImportError):
        import grpc  # type: ignore[import-untyped]

        away.append(grpc.RpcError)
    began, wait, said = time.monotonic(), FIRST_WAIT, False
    while True:
        try:
            return call()
        except tuple(away) as error:
            if time.monotonic() + wait > began + PATIENCE:
                raise
            if not said and time.monotonic() > began + 1.0:
                said = True
                tqdm.write(f"waiting for up to {PATIENCE:.0f} s for the storage: {_why(error)}", file=sys.stderr)
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def _why(error: BaseException) -> str:
    """The first line of what a storage or its driver says."""
    inner = error.__cause__ or error
    lines = str(getattr(inner, "orig", None) or inner).splitlines()
    return lines[0] if lines else type(inner).__name__


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps Optuna from announcing studies it creates or finds."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(level, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(level)
