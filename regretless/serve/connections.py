"""Connections of the service that say nothing are closed, so that nobody can fill it with them.

The server that runs the application ends connections that are idle after an answer. It waits without end for the first
request, and for the rest of one whose head has begun.
"""

from __future__ import annotations

import contextlib
import heapq
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

MOST = 4096
"""Connections at once; a thousand workers have one each."""
RESERVED = 1200
"""Files that the service may have open beside them: it has at most a thousand studies, each with a lock. Where the
system allows few, at most a quarter of them."""


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type] # which parser it has depends on what is installed
    """A connection that asks in time, or is closed. Where there are too many, those go that have said nothing for
    longest, and first those that never asked anything; none is closed whose request is being answered."""

    first = 10.0
    """Seconds that a client has for the head of its first request."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.limit: Any = None
        self._await_request(self.first)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            silent = [other for other in self.connections if other.silent and other is not self]
            # 64: so many are closed at once, because finding them takes a look at all
            for other in heapq.nsmallest(64, silent, key=lambda other: (other.cycle is not None, other.since)):
                other.end()
                self.connections.discard(other)

    def connection_lost(self, exc: Exception | None) -> None:
        self.limit.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_request(self.timeout_keep_alive)

    @property
    def silent(self) -> bool:
        """Whether no request of it is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def end(self) -> None:
        """Closes it, unless a request is being answered: then it has time again after the answer."""
        if self.silent and not self.transport.is_closing():
            self.transport.close()

    def _await_request(self, seconds: float) -> None:
        if self.limit is not None:
            self.limit.cancel()
        self.since = self.loop.time()
        self.limit = self.loop.call_later(seconds, self.end)


def options() -> dict[str, Any]:
    """How the server is run, for `uvicorn.Config`."""
    return {
        "http": Connection,
        "ws": "none",
        "log_level": "error",  # strangers must not fill the log with what is no request
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,  # an address is the one that calls, whatever a header says
        "limit_concurrency": _most_connections(),
        "timeout_keep_alive": 120,  # evaluations take their time
        "timeout_graceful_shutdown": 3,  # a page that follows a study never ends by itself
    }


def _most_connections() -> int:
    """As many as the operating system lets this process have, at most `MOST`."""
    try:
        import resource
    except ImportError:  # not on this system
        return MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + RESERVED
    if 0 <= soft < wanted:
        soft = wanted if hard < 0 else min(hard, wanted)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if allowed < 0 else max(min(MOST, allowed - min(RESERVED, allowed // 4)), 1)
