"""Pages in a real browser, at the widths of a phone, a laptop and a large screen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import AXE, BROKEN, CLIPPED, COLLIDING, Browser, Page
from regretless_bench.finding import PAPERS, Finding, Table, findings_page
from regretless_bench.record import Run
from regretless_bench.report import report_folder
from regretless_bench.runner import run_all

import regretless as rg
from regretless.report.page import Band, Curve, curves_chart
from regretless.report.run_page import run_page
from regretless.run.result import Result

WIDTHS = (400, 1200, 1920)
NAMES = ["learning_rate", "units", "act", "dropout", "a_parameter_with_quite_a_long_name", "steps", "solver"]


def run_of(n: int, method: str = "random") -> Result:
    """A run with failures, an outlier, and axes of all kinds."""
    space = {
        "learning_rate": rg.Float(1e-6, 0.8, log=True),
        "units": rg.Int(3, 4000, log=True),
        "act": rg.Choice(["relu", "a label that is far too long", None]),
        "dropout": rg.Float(-0.25, 0.6),
        "a_parameter_with_quite_a_long_name": rg.Float(90.0, 1000.0, log=True),
        "steps": rg.Int(0, 9, step=3),
        "solver": rg.Choice([f"solver {i}" for i in range(12)]),
    }
    optimizer = rg.Optimizer(space, method=method, seed=0, budget=n)
    optimizer.book.record.name = "an objective"
    for i in range(n):
        trial = optimizer.ask()
        value = abs(np.log10(trial.params["learning_rate"]) + 2.5) + 0.1 * trial.params["dropout"] + 1e-3
        lost = trial.params["steps"] == 9 and i % 3 == 0
        optimizer.tell(trial, 1e9 if i == 5 else float(value), failed=lost, error="MemoryError: no room" * lost)
    return Result.of(optimizer, "all trials were evaluated", success=True)


def tree_run() -> Result:
    """A run with a condition, a constraint, probes and durations."""
    space = {
        "solver": rg.Choice(["sgd", "adam"]),
        "momentum": rg.Float(0.1, 0.99, when={"solver": "sgd"}),
        "rate": rg.Float(1e-5, 0.3, log=True),
        "layers": rg.Int(2, 9),
    }
    optimizer = rg.Optimizer(space, method="random", seed=1, budget=30, constraints=["memory_gb"], probes=0.2)
    for _ in range(30):
        trial = optimizer.ask()
        p = trial.params
        value = (np.log10(p["rate"]) + 2.6) ** 2 + 0.02 * (p["layers"] - 4) ** 2 + 0.3 * p.get("momentum", 1.0)
        optimizer.tell(trial, float(value), constraints=[0.4 * p["layers"] - 2.5], seconds=0.02 * p["layers"])
    return Result.of(optimizer, "stopped after 30 evaluations: what was asked for holds", success=True)


def measured_run() -> Result:
    """A run under way of values with told errors, all alike in their first digits, and a label without letters."""
    space = {"dose": rg.Float(0.3, 7), "additive": rg.Choice(["", "salt"])}
    optimizer = rg.Optimizer(space, method="random", seed=2, budget=30)
    for i in range(12):
        trial = optimizer.ask()
        value = -0.0149123 + 1e-6 * abs(trial.params["dose"] - 2)
        optimizer.tell(trial, value, var=None if i == 3 else 1e-14)
    optimizer.ask()
    return Result.of(optimizer)


INKED = """
(() => {
  const canvas = document.querySelector("figure.chart canvas"), { width, height } = canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const rows = (x) => [...Array(height).keys()].filter((y) => data[4 * (y * width + x) + 3] > 0).length;
  return [...Array(width).keys()].map(rows).filter((n) => n > 0);
})()
"""
"""How many pixels of each column of the first chart have ink, where any has."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "run.html").write_text(run_page(run_of(60)))
    (folder / "tree.html").write_text(run_page(tree_run()))
    (folder / "measured.html").write_text(run_page(measured_run()))
    methods = ("random", "sobol", "random-mutation", "stay-at-best")
    runs = [Run(m, "levy", {"dim": 2, "shift": 0.6}, seed=s, budget=6) for m in methods for s in range(2)]
    run_all(runs, folder / "bench", jobs=0, progress=False)
    n = np.arange(1.0, 20.0)
    lines = [Curve(m, {"evaluations": n}, {"regret": Band(3 / n, 2 / n, 4 / n)}) for m in methods]
    columns = ("method", *(f"a column number {i}" for i in range(9)))
    rows = tuple((m, *(f"{i + k}.25 ({i}.1 to {i + k}.5)" for i in range(9))) for k, m in enumerate(methods))
    finding = {
        "charts": (("bowl", curves_chart(lines, log_y=True)),),
        "tables": (Table("finals", columns, rows), Table("more", columns, rows)),
    }
    findings = [Finding(paper, "fig1", "a title", "a claim", "holds", "so.", **finding) for paper in PAPERS]  # type: ignore[arg-type]
    (folder / "reproduce.html").write_text(findings_page(findings))
    kinds = {kind: f"{kind}.html" for kind in ("run", "tree", "measured", "reproduce")}
    return {**{kind: folder / name for kind, name in kinds.items()}, "bench": report_folder(folder / "bench")}


@pytest.fixture
def opened(browser: Browser, pages: dict[str, Path]) -> Any:
    tabs = []

    def open_page(kind: str, width: int = 1200, **looks: Any) -> Page:
        tabs.append(browser.page(width, **looks))
        tabs[-1].open(pages[kind])
        return tabs[-1]

    yield open_page
    for tab in tabs:
        tab.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["run", "tree", "measured", "bench", "reproduce"])
def test_nothing_is_broken_clipped_or_laid_over(kind: str, width: int, opened: Callable[..., Page]) -> None:
    page = opened(kind, width)
    page.run('document.querySelectorAll("details").forEach((d) => { d.open = true; })')
    assert page.errors == []
    assert page.run(CLIPPED) == []
    assert page.run(BROKEN) == []
    assert page.run(COLLIDING) == []
    wide = '[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1).length'
    assert width < 1200 or page.run(wide) == 0, "the last column is cut"
    shares = (
        '[...document.querySelectorAll("table.importance")].filter((t) => t.offsetWidth > t.parentNode.clientWidth)'
    )
    assert page.run(f"{shares}.length") == 0, "the shares of the variance fit on a phone"


@pytest.mark.parametrize("width", [400, 1920])
@pytest.mark.parametrize("kind", ["run", "bench", "reproduce"])
def test_pages_pass_the_check_for_accessibility(kind: str, width: int, opened: Callable[..., Page]) -> None:
    if not AXE.is_file():
        pytest.skip("needs axe-core: npm install --no-save axe-core")
    page = opened(kind, width)
    page.run('document.querySelectorAll("details").forEach((d) => { d.open = true; })')
    assert page.violations() == []


@pytest.mark.parametrize("kind", ["run", "bench", "reproduce"])
def test_dark_pages_have_contrast(kind: str, opened: Callable[..., Page]) -> None:
    if not AXE.is_file():
        pytest.skip("needs axe-core: npm install --no-save axe-core")
    page = opened(kind, 1200, dark=True)
    assert page.run("document.documentElement.dataset.theme") == "dark"
    assert page.violations() == []


COLUMN = '[...document.querySelectorAll("{} tbody tr")].map((r) => r.cells[{}].textContent)'


def test_tables_sort_by_keys(opened: Callable[..., Page]) -> None:
    page = opened("run")
    page.run('document.querySelector(".trials th:nth-child(2) button").focus()')
    page.key("Enter")
    values = [float(v) for v in page.run(COLUMN.format(".trials", 1)) if not v.startswith("failed")]
    assert values == sorted(values)
    assert page.run('document.querySelector(".trials th:nth-child(2)").ariaSort') == "ascending"
    page.key("Enter")
    falling = [float(v) for v in page.run(COLUMN.format(".trials", 1)) if not v.startswith("failed")]
    assert falling[0] == 1e9
    assert falling == sorted(falling, reverse=True)


def test_the_reproduce_page_sorts(opened: Callable[..., Page]) -> None:
    page = opened("reproduce")
    page.run('document.querySelector("#s1 th button").click()')
    assert page.run(COLUMN.format("#s1 table", 0))[:4] == ["random", "random-mutation", "sobol", "stay-at-best"]


def test_the_table_has_pages_and_finds_the_best(opened: Callable[..., Page]) -> None:
    page = opened("run")
    state = 'document.querySelector(".trials [role=status]").textContent'
    press = "document.evaluate(\"//div[@class='trials']//button[.='{}']\", document).iterateNext().click()"
    assert page.run(state) == "rows 1 to 50 of 60"
    page.run(press.format("next"))
    assert page.run(state) == "rows 51 to 60 of 60"
    assert page.run('document.querySelectorAll(".trials tbody tr").length') == 10
    page.run(press.format("best trial"))
    assert page.run('document.querySelectorAll(".trials tr.mark").length') == 1


def test_charts_answer_to_buttons_pointer_and_keys(opened: Callable[..., Page]) -> None:
    page = opened("run")
    stage, first = 'document.querySelector("figure.chart .stage")', 'document.querySelector("figure.chart")'
    ended = json.loads(page.run('document.getElementById("trials").textContent'))["columns"]["value"]
    assert page.run(f"{stage}.dataset.dots") == str(sum(v is not None for v in ended))
    assert page.run(f'{first}.querySelectorAll(".best").length') == 1
    assert page.run(f'{first}.querySelectorAll(".failed").length') == sum(v is None for v in ended)
    tick = f'{first}.querySelector("svg text").textContent'
    before = page.run(tick)
    page.run(f'[...{first}.querySelectorAll("button")].find((b) => b.textContent === "all values").click()')
    assert page.run(tick) != before, "the outlier is in scale"
    page.run(f"{stage}.focus()")
    page.key("ArrowRight")
    assert page.run(f'{first}.querySelector(".tip").textContent').startswith("trial 0: ")
    page.key("ArrowRight")
    assert page.run(f'{first}.querySelector(".tip").textContent').startswith("trial 1: ")
    x, y = page.run(f"(() => {{ const b = {stage}.getBoundingClientRect(); return [b.left + 200, b.top + 90]; }})()")
    page.move(x, y)
    assert page.run(f'{first}.querySelector(".tip").hidden') is False


def test_hints_say_what_a_trial_was(opened: Callable[..., Page]) -> None:
    page = opened("tree")
    trials = json.loads(page.run('document.getElementById("trials").textContent'))
    broken = [i for i, layers in enumerate(trials["columns"]["p:layers"]) if 0.4 * layers > 2.5]
    assert trials["broken"] == broken
    assert len(trials["probes"]) == 6
    page.run('document.querySelector("figure.chart .stage").focus()')
    last = max(broken[0], trials["probes"][0])
    for i in range(last + 1):
        page.key("ArrowRight")
        words = page.run('document.querySelector("figure.chart .tip").textContent').split("\n")[0]
        assert words.startswith(f"trial {i}: ")
        assert (", breaks a constraint" in words, ", a probe" in words) == (i in broken, i in trials["probes"])
    assert "Hollow dots break a constraint." in page.run("document.body.textContent")


def test_told_errors_are_drawn_and_named(opened: Callable[..., Page]) -> None:
    page = opened("measured")
    page.run('document.querySelector("figure.chart .stage").focus()')
    words = []
    for _ in range(4):
        page.key("ArrowRight")
        words.append(page.run('document.querySelector("figure.chart .tip").textContent').split("\n")[0])
    assert [" ± 1e-7" in line for line in words] == [True, True, True, False], "the fourth was told without one"
    heights = page.run(INKED)
    assert sorted(heights)[0] < 12 < sorted(heights)[-1], "a bar is higher than a dot"


TEXTS = """
(() => {
  const svg = document.querySelector("figure.chart svg"), low = (t) => t.getBoundingClientRect().top;
  const below = svg.getBoundingClientRect().bottom - 40;
  return [...svg.querySelectorAll("text")].filter((t) => low(t) SIDE below).map((t) => t.textContent);
})()
"""
"""The texts of the first chart below its picture (>), or beside it (<)."""


def test_values_alike_in_their_first_digits_can_be_told_apart(opened: Callable[..., Page]) -> None:
    page = opened("measured")
    beside = [text for text in page.run(TEXTS.replace("SIDE", "<")) if text != "value"]
    assert len(set(beside)) == len(beside) >= 4
    assert len(set(page.run(COLUMN.format(".trials", 1)))) >= 10
    ends = page.run('[...document.querySelectorAll("figure.surface .legend span")].map((e) => e.textContent)')
    assert len({text for text in ends if text.startswith("-0.0149")}) == 2


def test_whole_numbers_have_whole_ticks(opened: Callable[..., Page]) -> None:
    below = [text for text in opened("bench", 1920).run(TEXTS.replace("SIDE", ">")) if text != "evaluations"]
    assert below == ["1", "2", "3", "4", "5", "6"]


def test_slices_share_their_buttons(opened: Callable[..., Page]) -> None:
    page = opened("run")
    group = 'document.querySelector(".shared")'
    curves = f'{group}.querySelectorAll("path.curve").length'
    before = page.run(curves)
    assert before == len(NAMES) - 2  # the model has a line for each parameter but the choices
    page.run(f'{group}.previousElementSibling.querySelectorAll("button")[1].click()')
    assert page.run(curves) == 0


def test_any_two_parameters_have_a_contour(opened: Callable[..., Page]) -> None:
    page = opened("run")
    boxes = 'document.querySelectorAll("figure.surface select")'
    picked = f"[...{boxes}].map((b) => b.selectedOptions[0].textContent)"
    names = page.run(f"[...{boxes}[0].options].map((o) => o.textContent)")
    assert sorted(names) == sorted(NAMES)
    look = 'document.querySelector("figure.surface canvas.picture").toDataURL()'
    seen = {page.run(look)}
    for a, b in [(0, 2), (3, 1), (2, 5), (4, 3)]:
        for box, value in ((0, a), (1, b)):
            page.run(f'{boxes}[{box}].value = "{value}"; {boxes}[{box}].dispatchEvent(new Event("change"))')
        assert page.run(picked) == [names[a], names[b]]
        seen.add(page.run(look))
    assert len(seen) == 5
    page.run(f'{boxes}[0].value = "3"; {boxes}[0].dispatchEvent(new Event("change"))')
    assert page.run(picked) == [names[3], names[4]], "two equal ones change places"
    assert page.errors == []


def test_keys_choose_the_contour_and_walk_through_it(opened: Callable[..., Page]) -> None:
    page = opened("run")
    figure = 'document.querySelector("figure.surface")'
    boxes, tip = f'{figure}.querySelectorAll("select")', f'{figure}.querySelector(".tip")'
    names = page.run(f"[...{boxes}[0].options].map((o) => o.textContent)")
    page.run(f"{boxes}[0].focus()")
    page.key("ArrowDown")
    page.key("ArrowDown")
    picked = page.run(f"[...{boxes}].map((b) => b.selectedOptions[0].textContent)")
    assert picked == [names[2], names[0]], "the second press leaves the pair that had changed places"
    for _ in range(3):  # the other box, the button for trials, the picture
        page.key("Tab")
    assert page.run("document.activeElement.className") == "stage"
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is seen"
    page.key("ArrowRight")
    told = [page.run(f"{tip}.textContent")]
    assert told[0].startswith(names[2])
    ring = f'{figure}.querySelector(".cursor").cx.baseVal.value'
    for _ in range(60):
        page.key("ArrowRight")
    right = page.run(ring)
    page.key("ArrowLeft")
    assert page.run(ring) < right, "it stopped at the last point"
    for key in ("ArrowUp", "ArrowDown", "ArrowLeft"):
        page.key(key)
        told.append(page.run(f"{tip}.textContent"))
    assert len(set(told)) == 4
    assert page.run(f'{figure}.querySelector("[role=status]").textContent') == told[-1].replace("\n", ", ")
    page.key("Home")
    assert page.run(f"{tip}.textContent") == told[0], "back at the recommended setting"
    page.key("Escape")
    assert page.run(f"{tip}.hidden")
    assert page.errors == []


def test_lines_can_be_narrowed_to_the_best(opened: Callable[..., Page]) -> None:
    page = opened("run")
    look = 'document.querySelector("figure.parallel canvas").toDataURL()'
    before = page.run(look)
    page.run('document.querySelectorAll("figure.parallel button")[2].click()')
    assert page.run(look) != before
    assert page.run('document.querySelectorAll("figure.parallel .axis").length') == len(NAMES) + 1


@pytest.mark.slow
def test_a_log_range_as_wide_as_the_floats_is_drawn(browser: Browser, tmp_path: Path) -> None:
    """The ratio of its ends is no float."""
    space = {"wide": rg.Float(1e-290, 1e280, log=True), "n": rg.Int(3, 9)}
    result = rg.minimize(lambda wide, n: n - np.log10(wide) / 100, space, trials=9, method="random", progress=False)
    tab = browser.page(1200)
    tab.open(result.report(tmp_path / "wide.html"))
    assert (tab.errors, tab.run(CLIPPED), tab.run(COLLIDING)) == ([], [], [])
    tab.close()


def test_ten_thousand_trials_load_in_two_seconds(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "many.html"
    path.write_text(run_page(run_of(10_000)))
    assert path.stat().st_size < 3_000_000
    page = browser.page()
    assert min(page.open(path) for _ in range(3)) < 2.0
    assert page.run('document.querySelectorAll(".trials tbody tr").length') == 50
    page.run('document.querySelector(".shared").scrollIntoView()')
    page.run("new Promise((done) => setTimeout(done, 500))")
    assert page.run('document.querySelector(".shared .stage").dataset.dots') == "2000"
    assert int(page.run('document.querySelector("figure.chart .stage").dataset.dots')) > 9000
    assert page.errors == []
