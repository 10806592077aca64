"""`regretless serve`, `watch` and `mcp`: runs for other programs, for eyes and for agents."""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path
from typing import Any

import click

from regretless import __version__
from regretless.basics.extras import masked, optional
from regretless.cli.group import POSITIVE, STORAGES, main

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Where nobody but this machine can call."""


@main.command()
@click.option("--storage", required=True, help=f"Folder of the studies, or an Optuna storage: {STORAGES}.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="Port to listen at.")
@click.option("--tokens", type=click.Path(exists=True, dir_okay=False), help="File with a TOKEN or TOKEN STUDY a line.")
@click.option("--lost-after", default=3600.0, show_default=True, type=POSITIVE, help="Seconds until a client is lost.")
@click.option("--rate", default=2000.0, show_default=True, type=POSITIVE, help="Requests a second of one address.")
@click.option("--standby", is_flag=True, help="Wait until the service that owns the folder ends, then take over.")
def serve(
    storage: str, host: str, port: int, tokens: str | None, lost_after: float, rate: float, standby: bool
) -> None:
    """Serves studies over HTTP: create, ask, tell, heartbeat, forget, best, outlook, certificate, export.

    The calls are described at /docs. What is answered is on the disk. Beyond this machine it serves only with --tokens.

    \b
    Examples:
      regretless serve --storage studies
      regretless serve --storage sqlite:///study.db
      regretless serve --storage studies --host 0.0.0.0 --tokens tokens.txt
    """
    server: Any = optional("uvicorn", "serve")
    http: Any = optional("regretless.serve.http", "serve")
    connections: Any = optional("regretless.serve.connections", "serve")
    from regretless.serve.folder import Folder

    known = read_tokens(tokens)
    if host not in LOOPBACK and not known:
        raise click.UsageError(f"--host {host} can be called from elsewhere: say who may by --tokens FILE")
    if standby:
        click.echo(f"standing by for {masked(storage)}", err=True)
    folder = Folder(storage, lost_after=lost_after, seconds=None if standby else 0.0)
    hosts = (*LOOPBACK, "[::1]") if host in LOOPBACK else ()
    app = http.app_of(folder, http.Rules(known, hosts, rate), version=__version__)
    click.echo(f"serving {masked(storage)} at http://{host}:{port} (calls: /docs)", err=True)
    try:
        server.run(app, host=host, port=port, **connections.options())
    finally:
        folder.close()


@main.command()
@click.option("--storage", required=True, type=click.Path(file_okay=False), help="Folder of the studies.")
@click.option("--port", type=click.IntRange(1, 65535), help="Serve HTTP at this port of this machine, not stdio.")
def mcp(storage: str, port: int | None) -> None:
    """Serves studies to agents as tools of the Model Context Protocol: create_study, ask, tell, status, compare,
    front, advise, best, export, verify. An agent's program starts it and talks to it through stdin and stdout.

    \b
    Examples:
      regretless mcp --storage studies
      regretless mcp --storage studies --port 8767
    """
    agents: Any = optional("regretless.serve.agents", "mcp")
    server = agents.server_of(storage, version=__version__)
    if port is None:
        server.run("stdio")
        return
    click.echo(f"serving {storage} at http://127.0.0.1:{port}/mcp", err=True)
    server.run("streamable-http", host="127.0.0.1", port=port)


def read_tokens(path: str | None) -> dict[str, str]:
    """The tokens of a file, each with the study that it opens, or "" for all."""
    found = {}
    for number, line in enumerate(Path(path).read_text().splitlines() if path else (), start=1):
        words = line.split()
        if words and not line.startswith("#"):
            if len(words) > 2 or len(words[0]) < 16:
                example = secrets.token_urlsafe(24)
                raise click.UsageError(
                    f"{path}, line {number}: a line is TOKEN, or TOKEN STUDY, of at least 16 letters, such as {example}"
                )
            found[words[0]] = words[1] if len(words) == 2 else ""
    return found


@main.command()
@click.argument("run", metavar="FILE|STUDY|URL")
@click.option("--storage", help=f"The Optuna storage of a STUDY: {STORAGES}.")
@click.option("--browser", is_flag=True, help="Serve a live page instead of lines.")
@click.option("--port", default=8766, show_default=True, type=click.IntRange(0, 65535), help="Port of that page.")
@click.option("--token", envvar="REGRETLESS_TOKEN", help="Token of the service; REGRETLESS_TOKEN is read, too.")
@click.option("--once", is_flag=True, help="Print the present state and end.")
def watch(run: str, storage: str | None, browser: bool, port: int, token: str | None, once: bool) -> None:
    """Follows a run: the file of `tune --checkpoint` or `minimize(checkpoint=)`, a study of an Optuna storage, or
    http://HOST:PORT/studies/NAME of a service, whose live page is at its end /live.

    \b
    Examples:
      regretless watch run.npz
      regretless watch run.npz --browser
      regretless watch mine --storage sqlite:///study.db
      regretless watch http://127.0.0.1:8765/studies/mine
    """
    from regretless.serve import live

    if run.startswith(("http://", "https://")):
        if browser:
            raise click.UsageError(f"the service has the page: open {run}/live")
        lines = service_lines(run, token, once)
    else:
        followed = live.Followed.file(run) if storage is None else live.Followed.study(storage, run)
        view = live.View(followed.optimizer, Path(run).stem, followed.under_way)
        if browser:
            watch_in_browser(followed, view, port)
            return
        lines = file_lines(followed, view, once)
    interactive, shown = sys.stdout.isatty(), ""
    for line in lines:
        if interactive:
            click.echo("\r" + line.ljust(len(shown)), nl=False)
        elif line != shown:
            click.echo(line)
        shown = line
    if interactive:
        click.echo()


def file_lines(followed: Any, view: Any, once: bool) -> Any:
    """A line whenever the file has news, until the planned number of trials has ended."""
    from regretless.serve.live import terminal_line

    while True:
        state = view.state()
        yield terminal_line(state)
        ended = state["done"] + state["failed"] + state["forgotten"]
        if once or (state["planned"] and ended >= state["planned"]):
            return
        while not followed.news():
            time.sleep(0.5)


def service_lines(url: str, token: str | None, once: bool) -> Any:
    """A line for each state that a service tells."""
    import json
    import urllib.request

    from regretless.serve.live import terminal_line

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    call = urllib.request.Request(f"{url.rstrip('/')}/{'state' if once else 'events'}", headers=headers)
    with urllib.request.urlopen(call) as answer:
        if once:
            yield terminal_line(json.load(answer))
            return
        for line in answer:
            if line.startswith(b"data: "):
                yield terminal_line(json.loads(line[6:]))


def watch_in_browser(followed: Any, view: Any, port: int) -> None:
    """Serves the live page of a file on this machine, until it is interrupted."""
    server: Any = optional("uvicorn", "serve")
    http: Any = optional("regretless.serve.http", "serve")
    click.echo(f"http://127.0.0.1:{port} (Ctrl-C ends it)", err=True)
    app = http.page_app_of(followed, view)
    server.run(app, host="127.0.0.1", port=port, log_level="warning", server_header=False, timeout_graceful_shutdown=1)
