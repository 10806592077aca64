"""Storages of every kind for the tests of the doors, PostgreSQL and the gRPC proxy among them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest
from postgres import PostgresServer, find_binaries, install_binaries

optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    binaries = find_binaries()
    if binaries is None and os.environ.get("CI"):
        binaries = install_binaries()
        if binaries is None:
            pytest.fail(
                "continuous integration must test PostgreSQL, and its server is neither installed nor installable: "
                "apt-get install postgresql"
            )
    if binaries is None:
        pytest.skip(
            "no PostgreSQL server on this machine; `apt-get install postgresql` (or your system's package) brings one"
        )
    server = PostgresServer(binaries)
    yield server
    server.close()


@pytest.fixture(scope="session")
def grpc_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A gRPC proxy in front of a SQLite storage."""
    from optuna.storages import RDBStorage, get_storage
    from optuna.storages._grpc.server import make_server
    from postgres import free_port

    port = free_port()
    storage = get_storage(
        RDBStorage(
            f"sqlite:///{tmp_path_factory.mktemp('grpc')}/proxied.db", engine_kwargs={"connect_args": {"timeout": 60}}
        )
    )
    server = make_server(storage, "localhost", port)
    server.start()
    yield port
    server.stop(None).wait()


@pytest.fixture
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """kind -> the URL of an empty storage of that kind."""

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/study.db"
        if kind == "journal":
            return f"journal:{tmp_path}/study.log"
        if kind == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres")
            return server.url(f"db{uuid.uuid4().hex[:12]}")
        return f"grpc://localhost:{request.getfixturevalue('grpc_port')}"

    return make
