"""Connections that say nothing cannot fill the service."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest

from regretless.client import RemoteStudy

pytest.importorskip("fastapi")

from processes import running_service

from regretless.serve.connections import Connection

TABLES = {"x": {"type": "float", "low": 3e-5, "high": 0.7, "log": True}}
HEAD = b"GET /studies HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@contextlib.contextmanager
def opened(url: str, count: int, words: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections that have said these words."""
    with contextlib.ExitStack() as stack:
        place = urlparse(url)
        found = [stack.enter_context(socket.create_connection((place.hostname, place.port), 20)) for _ in range(count)]
        for connection in found:
            connection.sendall(words)
        yield found


def is_closed(connection: socket.socket, seconds: float = 0.0) -> bool:
    """Whether the service has closed a connection, or does so within these seconds."""
    connection.settimeout(max(seconds, 0.01))
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("words", [b"", HEAD, HEAD + b"\r\n", b"\x16\x03\x01"])
def test_silent_connections_do_not_keep_others_out(tmp_path: Path, words: bytes) -> None:
    with running_service(tmp_path, limit_concurrency=100) as url:
        study = RemoteStudy(url, "m", client="c", patience=0.0)  # the first answer counts
        study.create(TABLES)
        with opened(url, 300, words) as silent:
            begun = time.monotonic()
            for _ in range(20):
                (trial,) = study.ask()
                study.tell(trial["number"], 1.0)
            assert time.monotonic() - begun < 8.0
            assert sum(map(is_closed, silent)) >= 200


def test_a_request_that_is_being_answered_is_never_closed(tmp_path: Path) -> None:
    with running_service(tmp_path, limit_concurrency=100) as url:
        RemoteStudy(url, "m").create(TABLES)
        events = HEAD.replace(b"/studies", b"/studies/m/events") + b"\r\n"
        with opened(url, 20, events) as followers:
            for follower in followers:
                assert follower.recv(100).startswith(b"HTTP/1.1 200 OK")
            with opened(url, 300):
                RemoteStudy(url, "m", patience=0.0).ask()
                assert not any(map(is_closed, followers))


def test_a_head_that_does_not_end_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "first", 0.6)
    with (
        running_service(tmp_path, timeout_keep_alive=1) as url,
        opened(url, 1) as (silent,),
        opened(url, 1, HEAD) as (slow,),
        opened(url, 1, HEAD + b"\r\n") as (patient,),
    ):
        for letter in b"X-Slow: 0123456789":
            with contextlib.suppress(ConnectionError):
                slow.sendall(bytes([letter]))
            time.sleep(0.05)
        assert is_closed(slow, 0.5)
        assert is_closed(silent)
        assert not is_closed(patient)  # it has asked, and may ask again
        assert is_closed(patient, 3.0)
