"""How long a thousand clients wait for `regretless serve`, and what the service costs.

    python experiments/service_load.py                     # 1,000 clients, 9,000 evaluations of 10 s: three minutes
    python experiments/service_load.py --seconds 8         # the same clients ask 125 times a second

A client asks, evaluates Rosenbrock's function in five dimensions for a lognormal time (sd .5 of the logarithm), tells
and asks again, over a connection that stays open. All clients live in this process, the service in another; both are
on this machine, and the service writes each answer to the disk before it gives it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.problems import make_problem

HOST, DIM = "127.0.0.1", 5
WINDOWS = (0, 300, 600, 1000, 3000, 6000)
"""Asks are shown by how many values were known when they began."""


class Connection:
    """An open connection to the service."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> None:
        for _ in range(100):
            try:
                self._reader, self._writer = await asyncio.open_connection(HOST, self._port)
                return
            except OSError:
                await asyncio.sleep(0.1)
        raise SystemExit(f"no service answers at port {self._port}")

    async def post(self, path: str, body: dict[str, Any]) -> tuple[Any, float]:
        """The answer to a request, and the seconds that it took."""
        begun, content = time.perf_counter(), json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {HOST}:{self._port}\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.split("content-length:")[1].split("\r\n")[0])
        found = json.loads(await self._reader.readexactly(length))
        if answer.split()[1] != "200":
            raise SystemExit(f"the service answered {found}")
        return found, time.perf_counter() - begun


async def crowd(
    port: int, clients: int, evaluations: int, seconds: float
) -> tuple[list[tuple[int, float]], list[float]]:
    """The waits of all asks, each with the number of values known when it began, and those of all values."""
    asks: list[tuple[int, float]] = []
    tells: list[float] = []
    problem = make_problem("rosenbrock", dim=DIM, seed=0)
    first = Connection(port)
    await first.open()
    box = {name: {"type": "float", "low": p.low, "high": p.high} for name, p in problem.space.parameters.items()}
    await first.post("/studies", {"name": "load", "space": box, "seed": 1})

    async def client(number: int) -> None:
        draws, connection, name = random.Random(number), Connection(port), f"client-{number}"
        await asyncio.sleep(seconds * draws.random())
        await connection.open()
        while len(tells) < evaluations:
            known = len(tells)
            (trial,), wait = await connection.post("/studies/load/ask", {"client": name, "n": 1})
            asks.append((known, wait))
            await asyncio.sleep(seconds * math.exp(0.5 * draws.gauss(0, 1) - 0.125))
            told = {"client": name, "number": trial["number"], "value": problem.evaluate(trial["params"])}
            tells.append((await connection.post("/studies/load/tell", told))[1])

    await asyncio.gather(*map(client, range(clients)))
    return asks, tells


def spent(pid: int) -> tuple[float, int]:
    """Seconds of processor time of a process, and its largest memory in MB."""
    times = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), int(peak.split()[1]) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--evaluations", type=int, default=9000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of an evaluation, on average")
    parser.add_argument("--port", type=int, default=18941)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "regretless", "serve", "--storage", folder, "--port", str(given.port)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as service:
            try:
                asks, tells = asyncio.run(crowd(given.port, given.clients, given.evaluations, given.seconds))
                cost, memory = spent(service.pid)
            finally:
                service.terminate()
    known, waits = np.array(asks).T
    print(f"{len(asks)} asks, {len(asks) / cost:.0f} for a second of the service's processor time, {memory} MB")
    print(f"99 % of them wait at most {1000 * np.quantile(waits, 0.99):.0f} ms")
    print("\n| values known | asks | half wait at most, ms | 99 % | the longest |\n| --- | --- | --- | --- | --- |")
    for low, high in zip(WINDOWS, (*WINDOWS[1:], len(asks)), strict=True):
        some = waits[(known >= low) & (known < high)] * 1000
        if len(some):
            median, most, longest = np.quantile(some, [0.5, 0.99, 1.0])
            print(f"| {low} to {high} | {len(some)} | {median:.0f} | {most:.0f} | {longest:.0f} |")
    print(f"\nvalues: 99 % wait at most {1000 * np.quantile(tells, 0.99):.0f} ms")


if __name__ == "__main__":
    main()
