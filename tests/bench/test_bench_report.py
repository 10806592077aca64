"""Pages and figures: self-contained, safe, small; and in a real browser they load, toggle and switch."""

import json
import re

import numpy as np
import pytest
from regretless_bench.plots import plot_folder, regret_figure
from regretless_bench.record import Run, by_problem, load_records
from regretless_bench.report import report_folder
from regretless_bench.runner import run_all

from regretless.report.page import (
    Band,
    Curve,
    charts_section,
    curves_section,
    html_page,
    table_section,
    text_section,
    thinned,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep")
    runs = [
        Run(method, "levy", {"dim": 2, "shift": 0.6}, seed=seed, budget=12, init=3)
        for method in ("random", "sobol", "random-mutation")
        for seed in range(3)
    ]
    failing = Run("random", "levy", {"dims": 2}, budget=3)
    run_all(
        [*runs, failing, *(Run("random", "branin", {}, seed=s, budget=12) for s in range(3))],
        out,
        jobs=0,
        progress=False,
    )
    return out


def chart_data(page: str) -> list[dict]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)]


def test_report_of_a_folder(folder):
    page = report_folder(folder).read_text()
    charts = chart_data(page)
    assert len(charts) == 2
    levy = next(chart for chart in charts if len(chart["series"]) == 3)
    assert [axis["name"] for axis in levy["x"]] == ["evaluations", "seconds in the method"]
    assert [quantity["name"] for quantity in levy["y"]] == ["simple regret", "average regret", "cumulative regret"]
    records = by_problem(load_records(folder))["levy(dim=2, shift=0.6)"]
    for series in levy["series"]:
        median = np.median([record.simple_regret() for record in records[series["name"]]], axis=0)
        np.testing.assert_allclose(series["y"][0]["mid"], median, rtol=1e-4)
    assert "Failed runs: 1" in page
    assert "no option" in page
    assert "Commit:" in page
    assert "None" not in page
    with pytest.raises(ValueError, match="no folder"):
        report_folder(folder / "nothing")


def test_page_needs_no_network_and_is_safe(folder):
    page = report_folder(folder).read_text()
    links = [
        link
        for link in re.findall(r'(?:https?:)?//[^\s"\')]+', page)
        if "www.w3.org/2000/svg" not in link and "://" in link
    ]
    assert links == []
    assert not re.search(r"<(link|img|iframe)\b|<script[^>]+src=|@import|url\(", page)
    assert len(page) < 200_000
    nasty = "</script><b>&"
    curve = Curve(nasty, {"n": [1, 2]}, {nasty: [1.0, np.nan]})
    page = html_page(
        nasty,
        [
            curves_section(nasty, [curve]),
            text_section(nasty, nasty),
            table_section(nasty, [nasty], [[nasty]]),
        ],
    )
    assert nasty not in page
    assert chart_data(page)[0]["series"][0]["name"] == nasty
    assert chart_data(page)[0]["series"][0]["y"][0]["mid"] == [1.0, None]


def test_sections_and_their_errors():
    section = table_section("t", ["m", "v"], [["a", 2.0], ["b", "1.5 (1 to 2)"], ["c", None]], best={"v": "min"})
    assert re.search(r'<td class="mark long"[^>]*>1.5 \(1 to 2\)', section.body)
    assert section.body.count("mark") == 1
    with pytest.raises(ValueError, match="axes"):
        curves_section("c", [Curve("a", {"n": [1]}, {"y": [1]}), Curve("b", {"m": [1]}, {"y": [1]})])
    with pytest.raises(ValueError, match="at least one curve"):
        curves_section("c", [])
    assert len(thinned(100)) == 100
    keep = thinned(50_000)
    assert len(keep) <= 240
    assert (keep[0], keep[-1]) == (0, 49_999)


def test_figures_are_written_as_png_and_svg(folder):
    pytest.importorskip("matplotlib")
    paths = plot_folder(folder)
    assert sorted(path.suffix for path in paths) == [".png", ".png", ".svg", ".svg"]
    assert all(path.stat().st_size > 5000 for path in paths)
    assert paths[0].read_bytes()[:4] == b"\x89PNG"
    methods = by_problem(load_records(folder))["levy(dim=2, shift=0.6)"]
    axes = regret_figure(methods).axes
    assert len(axes) == 6
    line = next(line for line in axes[0].get_lines() if line.get_label() == "sobol")
    np.testing.assert_allclose(line.get_ydata(), np.median([r.simple_regret() for r in methods["sobol"]], axis=0))
    assert axes[0].get_yscale() == "log"


# ---------------------------------------------------------------- in a browser

ACTIONS = """
<pre id="seen"></pre><script>
window.addEventListener("load", () => {
  const figure = document.querySelector("figure.chart"), seen = {};
  const button = (text) => [...figure.querySelectorAll("button")].find((b) => b.textContent === text);
  const curves = () => figure.querySelectorAll("path.curve").length;
  const path = () => figure.querySelector("path.curve").getAttribute("d");
  const words = () => [...figure.querySelectorAll("svg text")].map((t) => t.textContent);
  const bands = figure.querySelectorAll("path.band").length;
  seen.first = [curves(), bands, words().includes("evaluations"), words().includes("simple regret")];
  button("alpha").click(); seen.hidden = [curves(), button("alpha").getAttribute("aria-pressed")];
  button("alpha").click(); seen.again = curves();
  button("beta").dispatchEvent(new MouseEvent("dblclick", { bubbles: true })); seen.alone = curves();
  button("beta").dispatchEvent(new MouseEvent("dblclick", { bubbles: true })); seen.all = curves();
  const before = path();
  button("seconds").click(); seen.seconds = [words().includes("seconds"), path() !== before];
  button("evaluations").click(); button("average regret").click(); seen.average = words().includes("average regret");
  button("simple regret").click(); seen.restored = path() === before;
  button("log y").click(); seen.linear = path() !== before;
  button("log y").click(); button("log x").click(); seen.logx = path() !== before;
  button("log x").click();
  const box = figure.querySelector("svg").getBoundingClientRect();
  const place = { clientX: box.right - 16, clientY: box.top + 60, bubbles: true };
  figure.querySelector("svg").dispatchEvent(new PointerEvent("pointermove", place));
  seen.tip = figure.querySelector(".tip").textContent; seen.shown = !figure.querySelector(".tip").hidden;
  const theme = document.documentElement.dataset.theme;
  document.getElementById("theme").click(); seen.theme = document.documentElement.dataset.theme !== theme;
  document.querySelectorAll("th button")[1].click();
  seen.sorted = [...document.querySelectorAll("tbody tr td:first-child")].map((c) => c.textContent);
  seen.dots = Number(document.querySelectorAll("figure.chart .stage")[1].dataset.dots);
  seen.wide = document.documentElement.scrollWidth;
  const many = [...document.querySelectorAll("figure.chart")].at(-1);
  const look = (p) => p.getAttribute("stroke") + p.getAttribute("stroke-dasharray");
  seen.leaders = [...many.querySelectorAll("path.curve")].map((p) => p.dataset.name);
  [...many.querySelectorAll("button")].find((b) => b.textContent === "all 25 lines").click();
  seen.looks = [...many.querySelectorAll("path.curve")].map(look);
  seen.swatches = [...many.querySelectorAll(".legend line")].map(look);
  many.remove();
  seen.colours = [...document.querySelectorAll("path.curve")].map((p) => p.dataset.name + p.getAttribute("stroke"));
  document.getElementById("seen").textContent = JSON.stringify(seen);
});
window.addEventListener("error", (e) => { document.title = "error: " + e.message; });
</script>
"""


def test_in_a_browser(seen_in_browser):
    n = np.arange(1.0, 31.0)
    curves = [
        Curve(
            name,
            {"evaluations": n, "seconds": n**2 / 100},
            {"simple regret": Band(c / n, c / n / 2, 2 * c / n), "average regret": c / np.sqrt(n)},
        )
        for name, c in (("alpha", 1.0), ("beta", 3.0))
    ]
    trials = {"name": "trials", "kind": "dots", "x": [[1e-3, 1e-2]], "y": [{"mid": [1.0, 2.0]}]}
    dots = {"x": [{"name": "rate", "log": True}], "y": [{"name": "value", "log": False}], "series": [trials]}
    table = table_section("Table", ["method", "value"], [["a", 3.0], ["b", 1.0], ["c", 20.0]])
    swapped = curves_section("Swapped", curves[::-1])
    many = curves_section("Many", [Curve(f"m{i}", {"n": n}, {"regret": 30.0 - i + n}) for i in range(25)])
    sections = [
        curves_section("Curves", curves, log_y=["simple regret"]),
        charts_section("Dots", [dots]),
        table,
        swapped,
        many,
    ]
    seen = seen_in_browser(html_page("Browser", sections), ACTIONS, "Browser")
    assert seen["first"] == [2, 2, True, True]
    assert seen["hidden"] == [1, "false"]
    assert (seen["again"], seen["alone"], seen["all"]) == (2, 1, 2)
    assert seen["seconds"] == [True, True]
    assert seen["average"]
    assert seen["restored"]
    assert seen["linear"]
    assert seen["logx"]
    assert seen["shown"]
    assert re.search(r"evaluations 30\n● beta: 0.1 \(0.05 to 0.2\)\n● alpha: 0.03333", seen["tip"])
    assert seen["theme"]
    assert seen["sorted"] == ["b", "a", "c"]
    assert seen["dots"] == 2
    assert sorted(set(seen["colours"])) == [
        "alphavar(--c0)",
        "betavar(--c1)",
    ]  # the same in both charts, whatever their order
    assert sorted(seen["leaders"]) == sorted(f"m{i}" for i in range(24, 16, -1))  # those that end smallest
    assert len(set(seen["looks"])) == 25  # no two curves of a chart look the same
    assert seen["swatches"] == seen["looks"]
    assert seen["wide"] <= 390  # nothing sticks out on a phone


CORNERS = """
<pre id="seen"></pre><script>
window.addEventListener("load", () => {
  const paths = [...document.querySelectorAll("path.curve")].map((p) => p.getAttribute("d").match(/[MLH]/g).join(""));
  document.getElementById("seen").textContent = JSON.stringify({ paths });
});
</script>
"""


def test_the_best_so_far_is_drawn_in_steps(seen_in_browser):
    """A value holds until the next evaluation; slopes between them would show what nobody measured."""
    curves = [
        Curve(f"steps {steps}", {"n": [1, 2, 3]}, {"value": [3.0, 3.0, 1.0]}, steps=steps) for steps in (True, False)
    ]
    assert seen_in_browser(html_page("Steps", [curves_section("Curves", curves)]), CORNERS, "Steps")["paths"] == [
        "MHLHL",
        "MLL",
    ]
