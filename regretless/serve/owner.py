"""`Owner`: a study that many clients ask and tell at once.

Two threads share the work. The writer takes the requests in the order in which they came, writes what they change in
one line of the file, waits until the disk has it, and only then answers all of them: the more requests wait, the more
share one write. The thinker makes proposals, while values go on coming in. Where several clients work at once it also
makes some ahead of the asks, so that a client does not wait for a model that is being fitted. To the method these are
asks like all others.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from regretless.optimizer import Optimizer
from regretless.serve.live import View
from regretless.serve.study import Study, ToldValue
from regretless.trial import Trial


@dataclass(eq=False)
class WaitingClient:
    """A client that waits for trials."""

    client: str
    n: int
    future: Future[Any]
    found: list[Trial] = field(default_factory=list)


class Owner:
    """A study and the two threads that serve it.

    Args:
        study: what it owns; it closes it, too.
        lost_after: seconds without a word after which a client counts as lost, and its trials go to others.
    """

    def __init__(self, study: Study, *, lost_after: float = 3600.0) -> None:
        # 0.001: how long one thread may hold the interpreter while others wait for it: a proposal must not hold up an
        # answer
        sys.setswitchinterval(min(sys.getswitchinterval(), 0.001))
        self.study, self.lost_after = study, lost_after
        self.heard: dict[str, float] = {}
        """When each client was last heard of, by this process's clock."""
        self.since: dict[int, float] = {}
        """When each pending trial was given to its client, as far as this process has seen it."""
        self.changes = 0
        """How often something was written: those who watch wait for the next time."""
        self.view: View | None = None
        """What those who watch see, where somebody does."""
        self._requests: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._waiting: deque[WaitingClient] = deque()
        self._wanted, self._looked = 0, time.monotonic()
        self._making = 0
        """Proposals that were begun and that the writer has not taken in."""
        self._stopped = False
        self._writer_wakes, self._thinker_wakes = threading.Condition(), threading.Condition()
        now = time.monotonic()
        for client in study.open:
            self.heard[client] = now
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._think)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Answers what was asked, then gives the file back."""
        with self._writer_wakes:
            self._stopped = True
            self._writer_wakes.notify()
        with self._thinker_wakes:
            self._thinker_wakes.notify()
        for thread in self._threads:
            thread.join()
        self.study.close()

    @property
    def ended(self) -> bool:
        """Whether it answers no more."""
        return self._stopped

    def under_way(self) -> dict[int, tuple[str, float | None]]:
        """Each trial that somebody evaluates, with its client and since how many seconds, where that is known."""
        now, since = time.monotonic(), dict(self.since)
        clients = dict(self.study.clients)
        return {n: (client, now - since[n] if n in since else None) for n, client in clients.items()}

    # -- what clients want

    def ask(self, client: str, n: int = 1) -> Future[list[dict[str, Any]]]:
        """n trials for a client; those that it holds already come first."""
        future: Future[Any] = Future()
        request = WaitingClient(client, n, future)
        self._submit(lambda: self._begin(request), future, late=True)
        return future

    def tell(self, number: int, value: ToldValue = None, client: str = "", **facts: Any) -> Future[dict[str, Any]]:
        """What came of a trial."""

        def told() -> dict[str, Any]:
            self._hear(client)
            trial = self.study.tell(number, value, **facts)
            self.since.pop(number, None)
            return self.study.trial_json(trial)

        return self.do(told)

    def forget(self, number: int) -> Future[None]:
        """Gives up a trial that nobody will tell."""
        return self.do(lambda: self.study.forget(number))

    def heartbeat(self, client: str) -> Future[list[int]]:
        """A sign of life; the numbers of the trials that the client holds."""

        def heard() -> list[int]:
            self._hear(client)
            return list(self.study.open.get(client, []))

        return self.do(heard)

    def do(self, work: Callable[[], Any]) -> Future[Any]:
        """Something else that the writer is to do between two requests."""
        future: Future[Any] = Future()
        self._submit(work, future)
        return future

    # -- the writer

    def _submit(self, work: Callable[[], Any], future: Future[Any], *, late: bool = False) -> None:
        with self._writer_wakes:
            if self._stopped:
                future.set_exception(OSError("the study is closed"))
                return
            self._requests.append((work, Future() if late else future))
            self._writer_wakes.notify()

    def _write(self) -> None:
        while True:
            with self._writer_wakes:
                while not self._requests and not self._stopped:
                    self._writer_wakes.wait()
                batch = list(self._requests)
                self._requests.clear()
                if not batch and self._stopped:
                    return
            answers = [(future, *_outcome(work)) for work, future in batch]
            answers += [(ask.future, list(map(self.study.trial_json, ask.found)), None) for ask in self._served()]
            try:
                self.study.commit()
            except Exception as error:  # nothing that is not on the disk may be answered
                traceback.print_exc()
                self._reload()
                answers = [(future, None, error) for future, _, _ in answers]
            self.changes += 1
            for future, answer, wrong in answers:
                if wrong is not None:
                    future.set_exception(wrong)
                else:
                    future.set_result(answer)
            self._tell_thinker()

    def _begin(self, ask: WaitingClient) -> None:
        under_way = len(self.study.clients)
        # 10_000: trials that may be under way; each makes the next proposals a little slower
        if under_way + ask.n - len(self.study.open.get(ask.client, [])) > 10_000:
            ask.future.set_exception(ValueError(f"{under_way} trials are under way: tell or forget some, then ask"))
            return
        self._hear(ask.client, asks=True)
        self._waiting.append(ask)

    def _served(self) -> list[WaitingClient]:
        """The asks that have all their trials, in the order in which they came: those that the client holds, those of
        lost clients, those that were made for nobody yet."""
        served = []
        while self._waiting:
            ask = self._waiting[0]
            found = self.study.held(ask.client, ask.n) or ask.found
            while len(found) < ask.n and (trial := self._lost(ask.client) or self.study.hand(ask.client)) is not None:
                self.since[trial.number] = time.monotonic()
                found.append(trial)
            ask.found = found
            if len(found) < ask.n:
                break
            served.append(self._waiting.popleft())
        return served

    def _lost(self, client: str) -> Trial | None:
        """A trial of a client that is lost, given to another one."""
        now = time.monotonic()
        # 1.0: how often it is looked whether a client is lost
        if now - self._looked < 1.0:
            return None
        limit = now - self.lost_after
        for other, numbers in self.study.open.items():
            if other and other != client and self.heard.get(other, now) < limit:
                return self.study.give_again(numbers[0], client)
        self._looked = now
        return None

    def _hear(self, client: str, *, asks: bool = False) -> None:
        if client and (asks or client in self.study.open):
            self.heard[client] = time.monotonic()

    def _reload(self) -> None:
        """Goes back to what is on the disk; who waits is answered with the error, too."""
        for ask in self._waiting:
            ask.future.set_exception(OSError("the study could not be written"))
        self._waiting.clear()
        try:
            self.study.reload()
        except (OSError, ValueError):
            traceback.print_exc()
            self._stopped = True

    def _tell_thinker(self) -> None:
        missing = sum(ask.n - len(ask.found) for ask in self._waiting)
        # 4096, 256: with p trials under way p * p / 4096 proposals are made ahead, at most so many: fewer than 64
        # clients get each proposal with all values that are known, and a thousand do not wait for a model that is
        # fitted for a second or two
        ahead = min(len(self.study.clients) ** 2 // 4096, 256)
        with self._thinker_wakes:
            self._wanted = missing + ahead - len(self.study.ready) - self._making
            self._thinker_wakes.notify()

    # -- the thinker

    def _think(self) -> None:
        while True:
            with self._thinker_wakes:
                while self._wanted <= 0 and not self._stopped:
                    self._thinker_wakes.wait()
                if self._stopped:
                    return
                # with the next one it does not wait until this one is on the disk
                self._wanted, self._making = self._wanted - 1, self._making + 1
            optimizer = self.study.optimizer
            try:
                made = functools.partial(self._is_ready, optimizer.ask().number, optimizer)
            except Exception as error:
                traceback.print_exc()
                made = functools.partial(self._give_up, error)
            self._submit(made, Future())

    def _is_ready(self, number: int, optimizer: Optimizer) -> None:
        self._taken_in()
        if optimizer is self.study.optimizer:  # and not one that a failed write has replaced
            self.study.ready.append(number)

    def _give_up(self, error: Exception) -> None:
        self._taken_in()
        for ask in self._waiting:
            ask.future.set_exception(error)
        self._waiting.clear()

    def _taken_in(self) -> None:
        with self._thinker_wakes:
            self._making -= 1


def _outcome(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What some work comes to: an answer or an error."""
    try:
        return work(), None
    except Exception as error:
        return None, error
