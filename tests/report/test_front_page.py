"""The page of a run with several objectives: the front and the fainter rest, pairs of three, linked pictures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import AXE, CLIPPED, Browser

import regretless as rg
from regretless.report.run_page import run_page
from regretless.run.result import Result

SPACE = {
    "learning_rate": rg.Float(1e-6, 0.8, log=True),
    "a_parameter_with_quite_a_long_name": rg.Int(3, 4000, log=True),
    "act": rg.Choice(["relu", "a label that is far too long", None]),
}


def run_of(goals: dict[str, Any], n: int = 30, *, noisy: bool = False) -> Result:
    """A run with a failure."""
    opt = rg.Optimizer(SPACE, "sms-emoa", objectives=goals, seed=2, budget=n)
    for i in range(n):
        p = (trial := opt.ask()).params
        x, size = np.log10(p["learning_rate"]) + 3.0, np.log10(p["a_parameter_with_quite_a_long_name"])
        values = [float(x**2 + 0.2 * (p["act"] is None)), float(50 - (x - 2) ** 2 - size), float(size - x)]
        told = dict(zip(goals, values, strict=False))
        if i == 4:
            opt.tell(trial, failed=True, error="MemoryError: no room")
        else:
            opt.tell(trial, told, var=dict.fromkeys(goals, 0.04) if noisy else None)
    return Result.of(opt, "all trials were evaluated", success=True)


TWO: dict[str, Any] = {"loss": "minimize", "speed": "maximize"}
THREE: dict[str, Any] = {**TWO, "size in kB": "minimize"}


def scripts(text: str) -> list[Any]:
    return [json.loads(found) for found in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text)]


def test_the_page_draws_the_runs_own_front() -> None:
    result = run_of(TWO)
    text = run_page(result)
    trials, pair, *_ = scripts(text)
    assert trials["objectives"] == ["loss", "speed"]
    assert [trials["columns"]["number"][i] for i in trials["front"]] == [m.number for m in result.front]
    told = [t.values if t.values else (None, None) for t in result.trials]
    drawn, speeds = (np.array(v, dtype=float) for v in (trials["columns"]["v:speed"], [v for _, v in told]))
    assert np.allclose(drawn, speeds, equal_nan=True, rtol=1e-4)
    assert pair["x"][0]["name"] == "loss"
    assert pair["series"][0]["only"] == trials["front"]
    stairs = pair["series"][2]
    loss, speed = stairs["x"][0], stairs["y"][0]["mid"]
    assert loss == sorted(loss)
    assert speed == sorted(speed)
    assert result.trials[trials["best"]].params == result.params
    assert "MemoryError: no room" in text
    assert "maximize speed" in text
    assert str(result.front.exchange("speed", "loss")) in text


def test_three_objectives_are_pairs() -> None:
    text = run_page(run_of(THREE))
    found = [s for s in scripts(text) if "series" in s and s["series"][0].get("only")]
    names = [(s["x"][0]["name"], s["y"][0]["name"]) for s in found]
    assert names[:3] == [("loss", "speed"), ("loss", "size in kB"), ("speed", "size in kB")]


def test_noise_draws_both_ends_of_the_front() -> None:
    result = run_of(TWO, noisy=True)
    pair = scripts(run_page(result))[1]
    assert [s["name"] for s in pair["series"][3:]] == ["at the worst ends", "at the best ends"]
    worst, best = pair["series"][3:]
    lows = min(m.intervals["loss"][0] for m in result.front)
    assert best["x"][0][0] == pytest.approx(lows, rel=1e-4)
    assert max(best["y"][0]["mid"]) > max(worst["y"][0]["mid"])


def test_a_run_without_values_has_a_page() -> None:
    opt = rg.Optimizer(SPACE, objectives=TWO, seed=0)
    assert "0 evaluations" in run_page(Result.of(opt))
    opt.tell(opt.ask(), failed=True, error="ValueError: no")
    assert "ValueError: no" in run_page(Result.of(opt))


@pytest.mark.parametrize("unit", [0.0, 1e200])
def test_values_that_are_all_equal_or_huge_have_a_page(unit: float) -> None:
    opt = rg.Optimizer({"x": rg.Float(-3, 5)}, objectives=TWO, seed=0)
    for _ in range(14):
        x = (trial := opt.ask()).params["x"]
        opt.tell(trial, {"loss": unit * (x - 1) ** 2, "speed": unit * x})
    found = Result.of(opt)
    assert len(scripts(run_page(found))) > 1
    if unit:
        assert "more hypervolume" in str(found.outlook)


@pytest.mark.parametrize(("width", "dark"), [(400, False), (400, True), (1200, False), (1200, True)])
@pytest.mark.parametrize(("goals", "noisy"), [(TWO, True), (THREE, False)])
def test_nothing_is_broken_or_hard_to_reach(
    browser: Browser, tmp_path: Path, width: int, dark: bool, goals: dict[str, Any], noisy: bool
) -> None:
    path = run_of(goals, noisy=noisy).report(tmp_path / "run.html")
    page = browser.page(width=width, dark=dark)
    page.open(path)
    assert page.errors == []
    assert page.run(CLIPPED) == []
    if AXE.exists():
        assert page.violations() == []
    page.close()


def test_a_trial_that_is_looked_at_is_marked_in_the_other_pictures(browser: Browser, tmp_path: Path) -> None:
    page = browser.page()
    page.open(run_of(THREE).report(tmp_path / "run.html"))
    assert page.run("document.querySelectorAll('.chosen').length") == 0
    page.run("document.querySelector('.chart .stage').focus()")
    for _ in range(3):
        page.key("ArrowRight")
    said = page.run("document.querySelector('.chart .tip').textContent")
    assert re.match(r"trial \d+: loss .*, speed .*, size in kB", said)
    # two other pairs, three parameters, and the line over all of them
    assert page.run("document.querySelectorAll('circle.chosen').length") == 5
    assert page.run("document.querySelectorAll('polyline.chosen').length") == 1
    number = int(re.findall(r"trial (\d+)", said)[0])
    trials = json.loads(page.run("document.getElementById('trials').textContent"))
    assert number in [trials["columns"]["number"][i] for i in trials["front"]]  # the keys walk along the front
    page.run("document.querySelector('.chart .stage').blur()")
    assert page.run("document.querySelectorAll('.chosen').length") == 0
    page.close()
