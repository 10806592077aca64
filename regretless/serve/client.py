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


class ServiceError(Exception):
    """What the service answered when it did not do what was asked."""


class RemoteStudy:
    """One study of a service. A call that gets no answer is sent again: no ask or tell counts twice."""

    def __init__(self, url: str, name: str, *, client: str = "", token: str = "", patience: float = 60.0) -> None:
        self.url, self.name, self.token, self.patience = url.rstrip("/"), name, token, patience
        self.client = client or uuid.uuid4().hex

    def create(self, space: dict[str, Any], **options: Any) -> Any:
        return self._call("/studies", {"name": self.name, "space": space, **options})

    def ask(self, n: int = 1) -> Any:
        return self._call(f"/studies/{self.name}/ask", {"client": self.client, "n": n})

    def tell(self, number: int, value: Any = None, **facts: Any) -> Any:
        body = {"client": self.client, "number": number, "value": value, **facts}
        return self._call(f"/studies/{self.name}/tell", body)

    def work(self, trials: int) -> Iterator[dict[str, Any]]:
        """Trials one after the other, until the study has so many."""
        while (trial := self.ask()[0])["number"] < trials:
            yield trial
        self._call(f"/studies/{self.name}/forget", {"number": trial["number"]})

    def heartbeat(self) -> Any:
        return self._call(f"/studies/{self.name}/heartbeat", {"client": self.client})

    def best(self) -> Any:
        return self._call(f"/studies/{self.name}/best")

    def outlook(self) -> Any:
        return self._call(f"/studies/{self.name}/outlook")

    def _call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        data = None if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + self.patience
        while True:
            try:
                with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers)) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503):
                    raise ServiceError(json.load(error).get("detail", str(error))) from None
            except (OSError, http.client.HTTPException) as error:  # it is away, or went in the middle of its answer
                if time.monotonic() > deadline:
                    raise ServiceError(f"{self.url} does not answer: {error}") from None
            time.sleep(0.1)
