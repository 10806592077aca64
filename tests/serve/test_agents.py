"""The tools of agents, by the official client: an agent finds what `minimize` finds, and wrong calls get a sentence."""

from __future__ import annotations

import json
import math
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.client import Client as AnyClient

import regretless as rg
from regretless.optimizer import Optimizer
from regretless.serve.agents import server_of
from regretless.serve.status import status

SPACE = {
    "lr": {"type": "float", "low": 3e-5, "high": 0.7, "log": True},
    "width": {"type": "int", "low": 17, "high": 900, "log": True},
    "act": {"type": "choice", "labels": ["relu", 'a "b" $(c)']},
}
OWN = {
    "lr": rg.Float(3e-5, 0.7, log=True),
    "width": rg.Int(17, 900, log=True),
    "act": rg.Choice(["relu", 'a "b" $(c)']),
}


def cost(lr: float, width: int, act: str) -> float:
    return abs(lr - 0.01) + width / 900 + len(act) / 10


class Agent:
    """A scripted agent."""

    def __init__(self, client: AnyClient) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers."""
        said = await self.client.call_tool(tool, arguments)
        assert not said.is_error, said.content[0].text
        assert json.loads(said.content[0].text) == said.structured_content
        return said.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The sentence that a wrong call gets."""
        said = await self.client.call_tool(tool, arguments)
        assert said.is_error
        return said.content[0].text


def test_an_agent_over_stdio_gets_the_points_of_minimize(tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "regretless", "mcp", "--storage", str(tmp_path / "s")],
        env=dict(os.environ),
    )  # fmt: skip

    async def script() -> None:
        async with Client(stdio_client(server)) as client:
            agent = Agent(client)
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"create_study", "ask", "tell", "status", "compare", "front", "advise", "export"} <= set(tools)
            assert all(tool.description for tool in tools.values())
            begun = await agent("create_study", study="m", space=SPACE, budget=8, seed=3)
            assert "3 parameters and 0 trials" in begun["words"]
            for _ in range(8):
                (trial,) = (await agent("ask", study="m"))["trials"]
                assert (await agent("ask", study="m"))["trials"] == [trial]
                told = await agent("tell", study="m", number=trial["number"], value=cost(**trial["params"]))
                assert ("best so far" in told["words"]) != ("no improvement" in told["words"])
            state = await agent("status", study="m")
            assert (state["done"], state["planned"]) == (8, 8)
            assert state["words"].startswith(state["reason"])
            compared = await agent("compare", study="m", a=0, b=1)
            assert 0 <= compared["chance_b_is_better"] <= 1
            assert "trial 1" in compared["words"]
            back = await agent("compare", study="m", a=1, b=0)
            assert compared["gain_of_b"] == pytest.approx(-back["gain_of_b"])
            advice = await agent("advise", study="m")
            assert len(advice["advice"]) == 0 or advice["advice"][0]["sentence"] in advice["words"]
            best = await agent("best", study="m")
            assert best["params"] == state["params"]
            assert "8 of 8 proposals" in (await agent("verify", study="m"))["words"]
            exported = await agent("export", study="m")
            assert [t["number"] for t in exported["trials"]] == list(range(8))
            assert Path(exported["page"]).read_text().startswith("<!doctype html>")

    anyio.run(script)
    whole = rg.minimize(cost, OWN, trials=8, seed=3, progress=False)
    assert [t.params for t in Optimizer.load(tmp_path / "s" / "m.npz").trials] == [t.params for t in whole.trials]


def with_agent(folder: Path, script: Any) -> None:
    """Runs a script of an agent on a server in this process."""

    async def run() -> None:
        async with Client(server_of(folder)) as client:
            await script(Agent(client))

    anyio.run(run)


def test_wrong_calls_get_the_sentence_that_helps(tmp_path: Path) -> None:
    async def script(agent: Agent) -> None:
        assert "there is no study 'm'; there are: none yet" in await agent.refused("ask", study="m")
        await agent("create_study", study="m", space=SPACE, seed=1)
        assert "it holds seed = 1, this run asks for 2" in await agent.refused(
            "create_study", study="m", space=SPACE, seed=2
        )
        assert "there is no trial 5" in await agent.refused("tell", study="m", number=5, value=1.0)
        assert "tell a value, or say in error" in await agent.refused("tell", study="m", number=0)
        assert "a must be the number of a trial" in await agent.refused("compare", study="m", a=3, b=0)
        assert "up to 64 letters" in await agent.refused("ask", study="../m")
        assert "one objective has no front" in await agent.refused("front", study="m")
        assert "type must be one of" in await agent.refused("create_study", study="n", space={"x": {"type": "os"}})
        assert "low" in await agent.refused("create_study", study="n", space={"x": {"type": "float", "low": 1}})
        await agent.refused("ask", study="m", n=1000)
        assert sorted(p.name for p in tmp_path.glob("*.npz")) == ["m.npz"]
        (trial,) = (await agent("ask", study="m", fixed={"act": "relu"}))["trials"]
        assert trial["params"]["act"] == "relu"
        failed = await agent("tell", study="m", number=trial["number"], error="out of memory")
        assert failed["trial"]["state"] == "failed"
        assert "out of memory" in (await agent("status", study="m"))["words"]

    with_agent(tmp_path, script)


def test_several_objectives_have_a_front(tmp_path: Path) -> None:
    async def script(agent: Agent) -> None:
        goals = {"loss": "minimize", "acc": "maximize"}
        await agent("create_study", study="two", space=SPACE, objectives=goals, budget=3, seed=1)
        for loss, acc in ((2.0, 0.5), (3.0, 0.75), (4.0, 0.25)):
            (trial,) = (await agent("ask", study="two"))["trials"]
            await agent("tell", study="two", number=trial["number"], value={"loss": loss, "acc": acc})
        assert sorted(m["number"] for m in (await agent("front", study="two"))["front"]) == [0, 1]
        assert (await agent("status", study="two"))["reason"] == "Stop: 3 of 3 planned trials have ended."

    with_agent(tmp_path, script)


def run_of(fun: Any, trials: int, **options: Any) -> Optimizer:
    return rg.minimize(fun, {"x": rg.Float(1e-3, 8.0, log=True), "n": rg.Int(3, 90)}, trials=trials, seed=2,
                       progress=False, **options).optimizer  # fmt: skip


def test_status_goes_on_at_the_beginning_and_stops_at_the_end() -> None:
    def bowl(x: float, n: int) -> float:
        return math.log(x / 0.3) ** 2 + (n / 40 - 1) ** 2

    early, late = run_of(bowl, 3), run_of(bowl, 60)
    assert status(early)["go_on"] is True
    assert "nothing can be said yet, because 3 values are too few" in status(early)["words"]
    found = status(late)
    assert found["go_on"] is False
    assert found["reason"].startswith("Stop: a gain of ")
    assert "show no noise" in found["words"]
    assert status(run_of(bowl, 8), gain=1e-12)["go_on"] is True
    assert status(late, gain=100.0)["chance"] < 0.1
    with pytest.raises(ValueError, match="gain must be a number above 0"):
        status(late, gain=-1.0)


def test_status_names_the_noise_and_takes_no_gain_below_it() -> None:
    draws = random.Random(1)

    def noisy(x: float, n: int) -> rg.Value:
        return rg.Value((n / 40 - 1) ** 2 + draws.gauss(0, 0.5), var=0.25)

    found = status(run_of(noisy, 25))
    assert found["noise"] == pytest.approx(0.5)
    assert found["gain"] >= 0.05
    assert "One value has an error of about 0.5" in found["words"]
    assert "which may be luck" in found["words"]
