"""The service over HTTP: studies that any program can ask and tell.

`app_of` makes an ASGI application of a `Folder`; `regretless serve` runs it. An answer to an ask or a tell is given
when it is on the disk. Nothing in a request is code, a module or a path; what goes wrong inside is written to the log,
and strangers get a sentence.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from io import BytesIO
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, QueryParams
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regretless.run.result import Result
from regretless.serve.folder import Folder
from regretless.serve.live import Followed, View, live_page
from regretless.serve.owner import Owner
from regretless.serve.study import begin
from regretless.serve.words import front_json, outlook_json, summary

MOST_BYTES = 1 << 20
"""Bytes of a request: a space of a few thousand parameters has some hundred thousand."""
MOST_TRIALS = 1000
"""Trials of one ask, and pending trials of one client."""
MOST_PARAMETERS = 2000
"""Parameters of a space: its model takes seconds for an ask beyond."""
RATE = 2000.0
"""Requests a second that one address may send, on average over a second."""

Number = Annotated[float, Field(allow_inf_nan=False)]
Variance = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=2000)]
Client = Annotated[str, Field(max_length=200, description="who evaluates; it is given its open trials again")]


class Body(BaseModel):
    """A request; entries that it does not know are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NewStudy(Body):
    """What a study is begun with."""

    name: str
    space: dict[str, Any] = Field(description='{"lr": {"type": "float", "low": 1e-5, "high": 0.1, "log": true}, ...}')
    method: Annotated[str, Field(max_length=64)] = "auto"
    direction: Literal["minimize", "maximize"] = "minimize"
    budget: Annotated[int, Field(ge=1, le=10**9)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    constraints: Annotated[int, Field(ge=0, le=100)] | list[Text] = 0
    cost: Literal["told", "seconds"] | None = None
    probes: Annotated[float, Field(ge=0, le=1)] = 0.0
    floor: Number | None = None
    ceiling: Number | None = None
    noise_bound: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    noisy: bool | None = None
    objectives: list[Text] | dict[Text, Literal["minimize", "maximize"]] | None = None
    reference: dict[Text, Number] | list[Number | None] | None = None


class Asked(Body):
    """An ask."""

    client: Client = ""
    n: Annotated[int, Field(ge=1, le=MOST_TRIALS)] = 1


class Ending(Body):
    """What came of a trial: a value, or an error."""

    number: Annotated[int, Field(ge=0)]
    value: float | list[float] | dict[str, float] | None = Field(
        None, description="null when the evaluation failed; of several objectives by name, or in their order"
    )
    var: Variance | list[Variance] | dict[str, Variance] | None = None
    constraints: list[Number] | dict[str, Number] | None = None
    cost: Number | None = None
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    error: Text = ""
    client: Client = ""


class Alive(Body):
    """A sign of life."""

    client: Client


class Given(Body):
    """The number of a trial."""

    number: Annotated[int, Field(ge=0)]


class Refusal(BaseModel):
    """Why a request was not done, in a sentence."""

    detail: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "it is no request of HTTP, or comes under a wrong name of the host"},
    401: {"model": Refusal, "description": "a token is needed"},
    404: {"model": Refusal, "description": "there is no such study"},
    408: {"model": Refusal, "description": "it did not arrive in time"},
    409: {"model": Refusal, "description": "it contradicts what is known"},
    413: {"model": Refusal, "description": "it is too large, or does not say how large it is"},
    422: {"model": Refusal, "description": "it is not as it should be"},
    429: {"model": Refusal, "description": "too many requests; send it again later"},
    500: {"model": Refusal, "description": "the service failed"},
    503: {"model": Refusal, "description": "send it again later; nothing was recorded"},
}
"""How requests are answered that are not done."""


@dataclass
class Rules:
    """What the service demands of requests.

    Args:
        tokens: each with the name of the study that it is for, or "" for all; none: everybody may do everything.
        hosts: the names by which the service may be called; none: any.
        rate: requests a second that one address may send.
    """

    tokens: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    rate: float = RATE
    _spent: dict[str, tuple[float, float]] = field(default_factory=dict)

    def allows(self, token: str, study: str) -> bool:
        """Whether a token opens a study; "" for the list of all of them."""
        found = False
        for known, of in self.tokens.items():  # each is compared, so that the time says nothing
            same = hmac.compare_digest(known.encode(), token.encode())
            found |= same and (not of or of == study)
        return found or not self.tokens

    def in_time(self, address: str) -> bool:
        """Whether an address has not sent too much."""
        now = time.monotonic()
        left, last = self._spent.get(address, (self.rate, now))
        left = min(self.rate, left + (now - last) * self.rate)
        if len(self._spent) > 10_000:
            self._spent.clear()
        self._spent[address] = (max(left - 1.0, 0.0), now)
        return left >= 1.0


class FileResponse(Response):
    """The bytes of a file."""

    media_type = "application/octet-stream"


class EventsResponse(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"


def app_of(folder: Folder, rules: Rules | None = None, *, version: str = "1") -> FastAPI:
    """The application that serves a folder of studies."""
    rules = rules or Rules()
    app = FastAPI(
        title="regretless", version=version, description="Ask for settings, tell their values.", responses=REFUSALS
    )
    app.state.folder, app.state.rules = folder, rules
    if rules.hosts:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(rules.hosts))
    app.add_middleware(RequestGuard, rules=rules)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(Exception)(_broken)
    _add_studies(app, folder)
    _add_trials(app)
    _add_pages(app)
    return app


async def _owner(name: str, request: Request) -> Owner:
    folder: Folder = request.app.state.folder
    try:
        known = folder.opened(name)
        return known if known is not None else await run_in_threadpool(folder.owner, name)  # it may read a long file
    except LookupError as error:
        raise HTTPException(404, str(error)) from None


Named = Annotated[Owner, Depends(_owner)]
"""The study of a path."""


def _add_studies(app: FastAPI, folder: Folder) -> None:
    @app.get("/studies")
    def list_studies() -> list[str]:
        """The names of all studies."""
        return folder.names()

    @app.post("/studies")
    def create_study(new: NewStudy) -> dict[str, Any]:
        """Begins a study; one that is there and asks for the same is answered with itself."""
        if len(new.space) > MOST_PARAMETERS:
            raise HTTPException(422, f"a study has at most {MOST_PARAMETERS} parameters, got {len(new.space)}")
        rules = new.space.get("where")
        if isinstance(rules, list) and len(rules) > 1000:  # each is tried on thousands of draws
            raise HTTPException(422, f"a space has at most 1000 rules, got {len(rules)}")
        try:
            json.dumps(new.space, ensure_ascii=False).encode()  # half of a letter could never be answered
            fresh = begin(**new.model_dump(exclude={"name"}))
            owner = folder.create(new.name, fresh, seeded=new.seed is not None)
        except (ValueError, TypeError) as error:
            raise HTTPException(409 if "another run" in str(error) else 422, _sentence(error)) from None
        return {"name": new.name, "seed": owner.study.optimizer.seed, "method": str(owner.study.optimizer.recipe)}


def _add_trials(app: FastAPI) -> None:
    @app.post("/studies/{name}/ask")
    async def ask(owner: Named, asked: Asked) -> list[dict[str, Any]]:
        """The next trials; those that the client holds come first, so an ask may be sent again."""
        return await _answer(owner.ask(asked.client, asked.n))  # type: ignore[no-any-return]

    @app.post("/studies/{name}/tell")
    async def tell(owner: Named, told: Ending) -> dict[str, Any]:
        """What came of a trial. The same may be told again; another value for it is refused."""
        facts = told.model_dump(exclude={"number", "value", "client"}, exclude_none=True)
        return await _answer(owner.tell(told.number, told.value, told.client, **facts))  # type: ignore[no-any-return]

    @app.post("/studies/{name}/heartbeat")
    async def heartbeat(owner: Named, alive: Alive) -> list[int]:
        """Says that a client is at work; the numbers of the trials that it holds."""
        return await _answer(owner.heartbeat(alive.client))  # type: ignore[no-any-return]

    @app.post("/studies/{name}/forget")
    async def forget(owner: Named, given: Given) -> dict[str, Any]:
        """Gives up a trial that nobody will tell, without holding it against its setting."""
        await _answer(owner.forget(given.number))
        return {"number": given.number}

    @app.get("/studies/{name}/best")
    def best(owner: Named) -> dict[str, Any]:
        """The recommended setting, and what is known of it."""
        return summary(Result.of(owner.study.optimizer))

    @app.get("/studies/{name}/front")
    def front(owner: Named) -> dict[str, Any]:
        """The settings of which none is better in all objectives, of a study that has several."""
        if not owner.study.optimizer.task.several:
            raise HTTPException(409, "this study has one objective: its best setting is /best")
        return front_json(Result.of(owner.study.optimizer))

    @app.get("/studies/{name}/outlook")
    def outlook(owner: Named) -> dict[str, Any]:
        """What can still be gained, in numbers and a sentence."""
        return outlook_json(owner.study.optimizer)

    @app.get("/studies/{name}/certificate")
    def certificate(owner: Named, delta: Annotated[float, Field(gt=0, lt=1)] = 0.05) -> dict[str, Any]:
        """What is proven, or measured, of the recommended setting."""
        return owner.study.optimizer.certificate_at(delta).to_json()

    @app.get("/studies/{name}/export", response_class=FileResponse)
    def export(owner: Named) -> Response:
        """The file of the study, for `Optimizer.load` and all commands."""
        content = BytesIO()
        owner.study.optimizer.save(content)
        return FileResponse(content.getvalue())


def _add_pages(app: FastAPI) -> None:
    @app.get("/studies/{name}/state")
    def state(owner: Named) -> dict[str, Any]:
        """What the live page shows."""
        return view_of(owner).state()

    @app.get("/studies/{name}/live", response_class=HTMLResponse)
    def live(name: str, owner: Named) -> str:
        """The study as a page that follows it."""
        return live_page(name)

    @app.get("/studies/{name}/events", response_class=EventsResponse)
    async def events(owner: Named, request: Request) -> StreamingResponse:
        """The state of the study, whenever it changes, as server-sent events."""

        def changes() -> int | None:
            return None if owner.ended else owner.changes

        return watched(_news(changes, view_of(owner), request))


def view_of(owner: Owner) -> View:
    """What those who watch a study see."""
    if owner.view is None:
        owner.view = View(lambda: owner.study.optimizer, owner.study.name, owner.under_way)
    return owner.view


def page_app_of(followed: Followed, view: View) -> FastAPI:
    """The application that serves the live page of a file alone, for this machine."""
    app = FastAPI(openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])

    @app.get("/", response_class=HTMLResponse)
    def live() -> str:
        return live_page(view.name)

    @app.get("/events")
    async def events(request: Request) -> StreamingResponse:
        def changes() -> int:
            followed.news()
            return followed.changes

        return watched(_news(changes, view, request))

    return app


_watchers: list[None] = []
"""One entry for each client that watches."""


def watched(news: AsyncIterator[str]) -> StreamingResponse:
    """News as server-sent events, where not too many watch already."""
    if len(_watchers) >= 200:  # each keeps a connection open, and has the page made anew for it
        raise HTTPException(503, f"{len(_watchers)} clients watch already")

    async def counted() -> AsyncIterator[str]:
        _watchers.append(None)
        try:
            async for piece in news:
                yield piece
        finally:
            _watchers.pop()

    return EventsResponse(counted())


async def _news(changes: Callable[[], int | None], view: View, request: Request) -> AsyncIterator[str]:
    """The state whenever there are changes; None: there will be no more."""
    seen: int | None = -1
    while not await request.is_disconnected() and (now := await asyncio.to_thread(changes)) is not None:
        if now != seen:
            seen = now
            yield f"data: {json.dumps(await asyncio.to_thread(view.state))}\n\n"
        # 1.0: how often those who watch are told of news
        await asyncio.sleep(1.0)


async def _answer(future: Future[Any]) -> Any:
    """What the owner of a study answers; what was wrong in the request is said in its sentence."""
    try:
        # 300.0: how long an ask waits for its trials before it says that it should be sent again
        return await asyncio.wait_for(asyncio.wrap_future(future), 300.0)
    except TimeoutError:
        raise HTTPException(503, "no trial was ready in time; send the ask again") from None
    except (ValueError, TypeError) as error:
        raise HTTPException(409 if "was told before" in str(error) else 422, _sentence(error)) from None
    except OSError:
        raise HTTPException(503, "the study could not be written; nothing was recorded") from None


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:1000]


# ---------------------------------------------------------------- what is let in


class RequestGuard:
    """Lets in only requests that have a token, are not too many, and say how long they are."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app, self.rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = self._refusal(scope, headers)
            if refusal is None and headers.get("content-length", "0") != "0":
                try:
                    async with asyncio.timeout(30.0):  # a megabyte by the slowest line
                        receive = await _arrived(receive)
                except TimeoutError:
                    refusal = _refused(408, "the request did not arrive in time")
        await (self.app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if not self.rules.in_time(scope["client"][0] if scope.get("client") else ""):
            return _refused(429, "too many requests; wait a second")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        parts = scope["path"].split("/")
        study = parts[2] if parts[1:2] == ["studies"] and len(parts) > 2 else ""
        given = token if scheme.lower() == "bearer" else QueryParams(scope["query_string"]).get("token", "")
        if not self.rules.allows(given, study):
            return _refused(401, "a token that opens this is needed: send the header Authorization: Bearer TOKEN")
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdecimal() or int(length) > MOST_BYTES:
            return _refused(413, f"a request has at most {MOST_BYTES} bytes, and says how many")
        return None


async def _arrived(receive: Receive) -> Receive:
    """Reads a request to its end; gives it again, and then what comes behind it."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return again


def _refused(status: int, words: str) -> JSONResponse:
    return JSONResponse({"detail": words}, status)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    found = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    where = ".".join(str(part) for part in found.get("loc", ())[1:])
    return _refused(422, f"{where or 'the request'}: {str(found.get('msg', 'it is not as it should be'))[:500]}")


async def _broken(request: Request, error: Exception) -> JSONResponse:
    traceback.print_exception(error, file=sys.stderr)
    return _refused(500, "the service failed; its log says why")
