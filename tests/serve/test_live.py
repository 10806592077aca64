"""The live page in a real browser: it follows a service and a file of another terminal, at the widths of a phone, a
laptop and a large screen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from browser import AXE, BROKEN, CHROMIUM, CLIPPED, COLLIDING, Browser
from service import Service, free_port

import regretless as rg
from regretless.client import RemoteStudy
from regretless.serve.live import View, terminal_line

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
TABLES = {
    "learning_rate": {"type": "float", "low": 3e-5, "high": 0.7, "log": True},
    "a_parameter_with_quite_a_long_name": {"type": "int", "low": 17, "high": 900, "log": True},
    "act": {"type": "choice", "labels": ["relu", "a label <b>that</b> is far too long"]},
}
SHOWN = 'document.querySelector("main").innerText'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a study of one objective and one of two, under way."""
    with Service(tmp_path_factory.mktemp("live") / "s") as running:
        for name, options in (("one", {}), ("two", {"objectives": {"loss": "minimize", "speed": "maximize"}})):
            study = RemoteStudy(running.url, name, client="node-7")
            study.create(TABLES, seed=1, budget=40, **options)
            for k in range(12):
                (trial,) = study.ask()
                value = abs(trial["params"]["learning_rate"] - 0.02) + k / 90
                if k == 4:
                    study.tell(trial["number"], error="Traceback ...\\nMemoryError: no <b>room</b>")
                else:
                    study.tell(trial["number"], value if name == "one" else [value, k * 1.5])
            study.ask(3)
        yield running


def until(page: Any, condition: str) -> None:
    """Waits until a condition holds in a page."""
    deadline = time.monotonic() + 60
    while not page.run(condition):
        assert time.monotonic() < deadline, f"{condition} never held; the page says {page.run(SHOWN)}"
        time.sleep(0.2)


def test_of_several_objectives_each_is_drawn_and_the_front_is_forecast() -> None:
    opt = rg.Optimizer(
        {"rate": rg.Float(3e-4, 0.9, log=True)}, objectives={"loss": "minimize", "speed": "maximize"}, seed=3
    )
    speeds = []
    for _ in range(9):
        trial = opt.ask()
        speeds.append(round(7 / trial.params["rate"], 3))
        opt.tell(trial, {"loss": 9 * trial.params["rate"] - 40, "speed": -speeds[-1]})
    shown = View(lambda: opt, "two").state()["html"]
    assert "20 more trials: " in shown
    assert "gap" not in shown
    assert "Best seen" not in shown
    chart = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', shown)[0])
    assert [axis["name"] for axis in chart["y"]] == ["loss", "speed"]
    values, best = (series["y"][1]["mid"] for series in chart["series"])
    assert np.allclose(values, np.negative(speeds), rtol=1e-4)
    assert np.allclose(best, np.maximum.accumulate(np.negative(speeds)), rtol=1e-4)


def test_a_run_that_a_rule_has_ended_says_so(tmp_path: Path) -> None:
    rule, path = rg.StopWhen(no_improvement=2), tmp_path / "run.npz"
    result = rg.minimize(lambda x: 5.0, {"x": rg.Float(-3, 9)}, trials=30, seed=1, stop=rule, checkpoint=path)
    ended = rg.Optimizer.load(path)
    state = View(lambda: ended, "run").state()
    assert terminal_line(state).endswith(f"0 under way, best 5, {result.message}")
    assert result.message in state["html"]
    ended.ask()  # somebody goes on
    assert result.message not in View(lambda: ended, "run").state()["html"]


@needs_browser
@pytest.mark.parametrize("width", [400, 1200, 1920])
@pytest.mark.parametrize("name", ["one", "two"])
def test_the_live_page_is_whole_at_every_width(browser: Browser, service: Service, name: str, width: int) -> None:
    page = browser.page(width)
    page.open(f"{service.url}/studies/{name}/live")
    last = "What further trials would bring" if name == "one" else "The front"
    until(page, f"{SHOWN}.includes({last!r})")
    text = page.run(SHOWN)
    assert "12 of 40 ended, 3 under way, 1 failed" in text
    assert "MemoryError: no <b>room</b>" in text
    assert "node-7" in text
    assert ("Best seen" in text) == (name == "one")
    assert page.errors == []
    assert page.run(CLIPPED) == []
    assert page.run(BROKEN) == []
    assert page.run(COLLIDING) == []
    if AXE.is_file():
        assert page.violations() == []
    page.close()


@needs_browser
def test_the_page_follows_the_study_without_being_loaded_again(browser: Browser, service: Service) -> None:
    page = browser.page()
    page.open(f"{service.url}/studies/one/live")
    until(page, f"{SHOWN}.includes('ended')")
    page.run("window.loadedOnce = true")
    study = RemoteStudy(service.url, "one", client="node-7")
    (trial,) = study.ask()
    study.tell(trial["number"], -7.5)
    until(page, f"{SHOWN}.includes('-7.5')")
    assert page.run("window.loadedOnce") is True
    turn = 'Object.defineProperty(document, "hidden", {value: %s, configurable: true});'
    turn += 'document.dispatchEvent(new Event("visibilitychange"))'
    page.run(turn % "true")
    study.tell(study.ask()[0]["number"], -8.5)
    time.sleep(2.5)  # news are sent once a second
    assert "-8.5" not in page.run(SHOWN)
    page.run(turn % "false")
    until(page, f"{SHOWN}.includes('-8.5')")
    page.close()


@needs_browser
def test_a_file_that_another_terminal_writes_is_followed(browser: Browser, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, time\nimport regretless as rg\n"
        "def slow(x):\n    time.sleep(0.3)\n    return x\n"
        "rg.minimize(slow, {'x': rg.Float(2.0, 9.0)}, trials=300, seed=1, method='random', progress=False,"
        " checkpoint='run.npz')\n"
    )
    port = free_port()
    other = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "run.npz").is_file() and time.monotonic() < deadline:
            time.sleep(0.1)
        line = [sys.executable, "-m", "regretless", "watch", "run.npz", "--browser", "--port", str(port)]
        watching = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE)
        assert watching.stderr is not None
        watching.stderr.readline()
        time.sleep(1.0)
        page = browser.page()
        page.open(f"http://127.0.0.1:{port}/")
        until(page, f"/[0-9]+ of 300 ended/.test({SHOWN})")
        first = int(page.run(f"{SHOWN}.match(/([0-9]+) of 300 ended/)[1]"))
        until(page, f"Number({SHOWN}.match(/([0-9]+) of 300 ended/)[1]) > {first + 2}")
        line = [sys.executable, "-m", "regretless", "watch", "run.npz", "--once"]
        said = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert said.startswith("run: ")
        assert "of 300 ended" in said
        assert "best 2." in said
        watching.terminate()
        assert watching.wait(60) in (0, -15, 143)
        page.close()
    finally:
        other.kill()
        other.wait()
