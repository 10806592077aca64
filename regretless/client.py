"""A client of `regretless serve`, of the standard library alone: it may be copied into any program.

study = RemoteStudy("http://127.0.0.1:8765", "mine", client="node-7")
study.create({"lr": {"type": "float", "low": 1e-5, "high": 0.1, "log": True}}, budget=80)
for trial in study.work(80):
    study.tell(trial["number"], train(**trial["params"]))
print(study.best()["params"])
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote


class ServiceError(Exception):
    """What the service answered when it did not do what was asked; `status` is that of HTTP, 0 where none answered."""

    def __init__(self, words: str, status: int = 0) -> None:
        super().__init__(words)
        self.status = status


class RemoteStudy:
    """One study of a service. A call that gets no answer is sent again for `patience` seconds: no ask or tell counts
    twice."""

    def __init__(self, url: str, name: str, *, client: str = "", token: str = "", patience: float = 60.0) -> None:
        self.url, self.name, self.token, self.patience = url.rstrip("/"), name, token, patience
        self.client = client or uuid.uuid4().hex

    def create(self, space: dict[str, Any], **options: Any) -> Any:
        return json.loads(self._send("/studies", {"name": self.name, "space": space, **options}))

    def ask(self, n: int = 1) -> Any:
        return self._call("ask", {"client": self.client, "n": n})

    def tell(self, number: int, value: Any = None, **facts: Any) -> Any:
        return self._call("tell", {"client": self.client, "number": number, "value": value, **facts})

    def forget(self, number: int) -> Any:
        return self._call("forget", {"number": number})

    def work(self, trials: int) -> Iterator[dict[str, Any]]:
        """Trials one after the other, until the study has so many."""
        while (trial := self.ask()[0])["number"] < trials:
            yield trial
        self.forget(trial["number"])

    def heartbeat(self) -> Any:
        return self._call("heartbeat", {"client": self.client})

    def best(self) -> Any:
        return self._call("best")

    def outlook(self) -> Any:
        return self._call("outlook")

    def export(self) -> bytes:
        """The file of the study, for `regretless.Optimizer.load`."""
        return self._send(f"/studies/{quote(self.name, safe='')}/export")

    def _call(self, what: str, body: dict[str, Any] | None = None) -> Any:
        return json.loads(self._send(f"/studies/{quote(self.name, safe='')}/{what}", body))

    def _send(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(), headers)
        deadline = None
        while True:
            try:
                # 330.0: an ask waits for its trials for at most 300 seconds
                with urllib.request.urlopen(request, timeout=330.0) as answer:
                    return bytes(answer.read())
            except urllib.error.HTTPError as error:
                failure = ServiceError(_detail(error), error.code)
                if error.code not in (429, 502, 503, 504):
                    raise failure from None
            except (OSError, http.client.HTTPException) as error:  # it is away, or went in the middle of its answer
                failure = ServiceError(f"{self.url} does not answer: {error}")
            deadline = deadline or time.monotonic() + self.patience
            if time.monotonic() > deadline:
                raise failure
            time.sleep(0.1)


def _detail(error: urllib.error.HTTPError) -> str:
    """The sentence of a refusal; the status where it is none of the service's, but of something before it."""
    try:
        return str(json.load(error)["detail"])
    except (OSError, ValueError, TypeError, KeyError, http.client.HTTPException):
        return str(error)
