"""A service in a process of its own, which tests may kill."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Service:
    """`regretless serve` on a folder, or a storage; `kill` ends it as a power cut does, `start` begins it again."""

    def __init__(self, folder: Path, *options: str, port: int = 0, storage: str = "") -> None:
        self.port, self.options, self.storage = port or free_port(), options, storage or str(folder)
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = open(folder.parent / f"{folder.name}-{self.port}.log", "ab")  # noqa: SIM115

    def start(self, *options: str, wait: bool = True) -> Service:
        line = [sys.executable, "-m", "regretless", "serve", "--storage", self.storage, "--port", str(self.port)]
        self.process = subprocess.Popen([*line, *self.options, *options], stderr=self.log, env=dict(os.environ))
        until = time.monotonic() + 240
        while wait and not self.answers():
            assert self.process.poll() is None, "the service ended"
            assert time.monotonic() < until, "the service did not begin"
            time.sleep(0.05)
        return self

    def answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/docs", timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Service:
        return self.start()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.kill()
        self.log.close()
