"""From records to verdicts: checks hold and fail where they should, findings survive the disk, and their page works in
a browser."""

import argparse
import csv
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pytest
from made_records import BAD, GOOD, WORSE, record, study
from regretless_bench.claims import (
    charts,
    core_seconds,
    experiment_options,
    fewest,
    final_loss,
    gather,
    grouped,
    keep_results,
    medians_table,
)
from regretless_bench.compact import CSV, JSON, by_column, by_row, compact, read_records
from regretless_bench.finding import (
    FILE,
    MOST_BANDS,
    PAPERS,
    Finding,
    Table,
    draw_missing,
    find_all,
    findings_page,
    legible,
)
from regretless_bench.plots import charts_figure, regret_figure
from regretless_bench.record import Record, Run, stamped, surroundings
from regretless_bench.reproduce import FIGURES, read_times
from regretless_bench.runner import run_all
from regretless_bench.verdicts import checks_table, judged, leads

from regretless.report.page import Band, Curve, curves_chart


def test_folds_are_repetitions_of_one_problem() -> None:
    runs = [record("a", f"task-{fold}", fold, [1.0]) for fold in range(3)]
    assert fewest(grouped(runs)) == 1
    assert fewest(grouped(runs, lambda r: "task")) == 3


def test_problems_come_in_the_order_of_their_numbers() -> None:
    names = ["levy(dim=5, shift=0.6)", "levy(dim=20, shift=0.25)", "levy(dim=20, shift=0.6)", "levy(dim=100)"]
    assert list(grouped([record("a", name, 0, [1.0]) for name in reversed(names)])) == names
    assert list(grouped([record("a", name, 0, [1.0]) for name in ("mlp", "boosting")])) == ["boosting", "mlp"]


def test_tables_and_charts_show_the_records() -> None:
    cases = grouped(study({"ours": GOOD, "rival": BAD}))
    table = medians_table(cases, what="regret", order=["rival"])
    assert [row[0] for row in table.rows] == ["rival", "ours"]
    assert table.rows[1][:3] == ["ours", 5, "1.2 (1.1 to 1.3)"]
    assert table.rows[1][-1] == 1.0
    assert table.best == {"bowl": "min"}
    ((name, chart),) = charts(cases, {"simple regret": Record.simple_regret})
    series = {s["name"]: s for s in chart["series"]}
    assert (name, [axis["name"] for axis in chart["x"]]) == ("bowl", ["evaluations", "CPU seconds in the method"])
    assert series["ours"]["y"][0]["mid"] == [9.0, 8.0, 1.2]
    assert series["ours"]["x"][1] == [0.001, 0.002, 0.003]
    assert core_seconds(cases) == pytest.approx(10 * 3 * 1e-3)


def test_options_of_experiments(tmp_path, monkeypatch, capsys) -> None:
    def read(*words: str, **more) -> argparse.Namespace:
        return experiment_options(argparse.ArgumentParser("study"), str(tmp_path / "out"), words=words, **more)

    assert (read().seeds, read("--full").seeds, read("--full", "--seeds", "3").seeds) == (5, 10, 3)
    assert read("--out", str(tmp_path / "here")).out.is_dir()
    monkeypatch.setenv("REGRETLESS_DATA", "somewhere")
    (tmp_path / "sets" / "digits").mkdir(parents=True)
    assert read("--data", str(tmp_path / "sets"), data="digits").data == tmp_path / "sets"
    with pytest.raises(SystemExit) as end:
        read("--data", str(tmp_path / "sets"), data="uci")
    assert re.fullmatch(
        r"study: the data set 'uci' is not there \(looked in .*\): it holds .*, "
        r"and pass --data DIR or set REGRETLESS_DATA",
        end.value.code,
    )
    for words in (["--seeds", "0"], ["--quick", "--full"]):
        with pytest.raises(SystemExit):
            read(*words)
    assert "--seeds" in capsys.readouterr().err


def halved(number: float) -> dict[str, float]:
    """What a worker returns; of zero it fails."""
    return {"half": 1 / number * number**2 / 2}


def test_results_of_workers_are_kept_where_others_fail(tmp_path) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = {pool.submit(halved, n): tmp_path / f"{n}.json" for n in (0, 4)}
        with pytest.raises(SystemExit, match=r"^failed: 0: ZeroDivisionError: "):
            keep_results(running, "run")
    stored = json.loads((tmp_path / "4.json").read_text())
    assert stored["half"] == 2.0
    assert stored["made"] == surroundings()
    assert not (tmp_path / "0.json").exists()


def test_gather_runs_once_and_reports_what_is_there(tmp_path, capfd) -> None:
    runs = [Run("random", "branin", {}, seed=seed, budget=4) for seed in range(2)]
    failing = Run("random", "branin", {"dims": 3}, budget=4)
    options = experiment_options(argparse.ArgumentParser(), str(tmp_path), words=["--jobs", "0"])
    assert [r.seed for r in gather([*runs, failing], options)] == [0, 1]
    assert "failed: random on branin" in capfd.readouterr().err
    options.report = True
    more = Run("random", "branin", {}, seed=2, budget=4)
    assert [r.seed for r in gather([*runs, failing, more], options)] == [0, 1]
    with pytest.raises(SystemExit, match="there are no records of the quick size in"):
        gather([more], options)


# ---------------------------------------------------------------- findings


def finding(paper: str = "ms-ucb", figure: str = "fig1", sentence: str = "Because.") -> Finding:
    cases = grouped([*study({"ours": GOOD, "rival": WORSE}), *study({"ours": WORSE, "rival": GOOD}, "hill")])
    checks = leads(cases, "ours", ["rival"], final_loss, quote="it leads")
    drawn = charts(cases, {"simple regret": Record.simple_regret, "average regret": Record.average_regret})
    verdict, tables = judged(checks, 5)[0], [checks_table(checks)]
    return Finding(paper, figure, "a title", "a claim", verdict, sentence, {"seeds": 5}, drawn, tables, 1.5)


def test_findings_are_written_with_their_figure_and_read_back(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    first = finding()
    assert first.write(tmp_path) == tmp_path / FILE
    assert (tmp_path / "figures" / "ms-ucb-fig1.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in (tmp_path / "figures" / "ms-ucb-fig1.svg").read_bytes()
    again = Finding.read(tmp_path / FILE)
    assert (again.verdict, again.sentence, again.around) == ("does not hold", "Because.", first.around)
    assert json.dumps(again.charts) == json.dumps(first.charts)
    assert isinstance(again.tables[0], Table)


def test_findings_are_gathered_in_the_order_of_the_papers(tmp_path) -> None:
    for paper, figure in (("ms-ucb", "fig2"), ("go-ucb", "fig5"), ("ms-ucb", "fig1"), ("go-ucb", "fig2")):
        (tmp_path / f"{paper}-{figure}").mkdir()
        Finding(paper, figure, "t", "c", "not decided", "s").write(tmp_path / f"{paper}-{figure}")
    assert [(f.paper, f.figure) for f in find_all(tmp_path)] == [
        ("go-ucb", "fig2"),
        ("go-ucb", "fig5"),
        ("ms-ucb", "fig1"),
        ("ms-ucb", "fig2"),
    ]


def test_without_matplotlib_the_finding_is_kept_and_drawn_later(tmp_path, monkeypatch, capsys) -> None:
    def missing(*_):
        raise ImportError("plots need matplotlib")

    with monkeypatch.context() as without:
        without.setattr("regretless_bench.finding.charts_figure", missing)
        finding("ms-ucb", "fig1").write(tmp_path)
    assert "no figure of ms-ucb fig1: plots need matplotlib" in capsys.readouterr().err
    assert not (tmp_path / "figures").exists()
    draw_missing(tmp_path)
    drawn = [tmp_path / "figures" / f"ms-ucb-fig1.{end}" for end in ("png", "svg")]
    times = [path.stat().st_mtime_ns for path in drawn]
    draw_missing(tmp_path)
    assert [path.stat().st_mtime_ns for path in drawn] == times  # what is drawn stays


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"paper": "unheard of"}', "nonsense"])
def test_what_is_no_finding_is_said(tmp_path, text) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match="is not a finding"):
        Finding.read(tmp_path / FILE)


def test_wrong_words_are_refused() -> None:
    with pytest.raises(ValueError, match="paper must be one of go-ucb"):
        Finding("mine", "fig1", "t", "c", "holds", "s")
    with pytest.raises(ValueError, match="verdict must be one of"):
        Finding("ms-ucb", "fig1", "t", "c", "wonderful", "s")  # type: ignore[arg-type]


ACTIONS = """
<pre id="seen"></pre><script>
window.addEventListener("error", (e) => { document.title = "error: " + e.message; });
window.addEventListener("load", () => {
  const figures = [...document.querySelectorAll("figure.chart")], seen = { charts: figures.length, titles: [] };
  for (const f of figures) seen.titles.push(f.querySelector("figcaption").textContent);
  const figure = figures[0];
  const button = (text) => [...figure.querySelectorAll("button")].find((b) => b.textContent === text);
  const curves = () => figure.querySelectorAll("path.curve").length;
  const path = () => figure.querySelector("path.curve").getAttribute("d");
  seen.curves = curves();
  button("rival").click(); seen.hidden = curves(); button("rival").click();
  const before = path();
  button("CPU seconds in the method").click(); seen.seconds = path() !== before; button("evaluations").click();
  button("average regret").click(); seen.average = path() !== before; button("simple regret").click();
  button("log y").click(); seen.linear = path() !== before;
  const theme = document.documentElement.dataset.theme;
  document.getElementById("theme").click(); seen.theme = document.documentElement.dataset.theme !== theme;
  seen.wide = document.documentElement.scrollWidth;
  document.getElementById("seen").textContent = JSON.stringify(seen);
});
</script>
"""


def test_the_page_of_findings_in_a_browser(seen_in_browser) -> None:
    page = findings_page([finding(paper, figure) for paper in PAPERS for figure in ("fig1", "fig2")])
    assert len(page) < 1_000_000
    assert not re.search(r"<(link|img|iframe)\b|<script[^>]+src=|@import|url\(", page)
    seen = seen_in_browser(page, ACTIONS, "Reproducing the papers")
    assert (seen["charts"], seen["curves"], seen["hidden"]) == (20, 2, 1)
    assert seen["titles"][:2] == ["bowl", "hill"]
    assert all(seen[what] for what in ("seconds", "average", "linear", "theme"))
    assert seen["wide"] <= 500  # nothing sticks out on a phone


def test_a_chart_of_many_lines_has_no_bands() -> None:
    lines = [Curve(str(i), {"n": [1, 2]}, {"gap": Band([3.0, i], [2.0, i], [4.0, i])}) for i in range(MOST_BANDS + 1)]
    many, few = curves_chart(lines), curves_chart(lines[:-1])
    assert legible(few) is few
    assert [s["y"] for s in legible(many)["series"]] == [[{"mid": s["y"][0]["mid"]}] for s in many["series"]]
    assert many["series"][0]["y"][0]["low"] == [2.0, 0.0]  # the finding itself keeps them
    shown = findings_page([replace(finding(), charts=[("many", many)])])
    assert "quartiles are in the tables alone" in shown
    assert "quartiles are in the tables alone" not in findings_page([finding()])


LOOK = """
<pre id="seen"></pre><script>
window.addEventListener("error", (e) => { document.title = "error: " + e.message; });
window.addEventListener("load", () => {
  const count = (f) => f.querySelectorAll("path.curve, circle").length;
  const drawn = [...document.querySelectorAll("figure.chart")].map(count), wide = document.documentElement.scrollWidth;
  const links = [...document.querySelectorAll("#s0 a")].every((a) => document.querySelector(a.getAttribute("href")));
  document.getElementById("seen").textContent = JSON.stringify({ drawn, links, wide });
});
</script>
"""


def test_the_committed_report_in_a_browser(seen_in_browser) -> None:
    page = (Path(__file__).parents[2] / "docs" / "results" / "report.html").read_text()
    seen = seen_in_browser(page, LOOK, "Reproducing the papers")
    assert len(seen["drawn"]) > 10
    assert all(seen["drawn"])  # every chart shows something
    assert seen["links"]
    assert seen["wide"] <= 500


def test_committed_findings_are_whole() -> None:
    """What docs/results keeps is every figure, names its makers, took no more than was promised, can be read and stays
    small."""
    folder = Path(__file__).parents[2] / "docs" / "results"
    found = [Finding.read(path) for path in sorted((folder / "findings").glob("*.json"))]
    assert {(one.paper, one.figure) for one in found} == {(figure.paper, figure.name) for figure in FIGURES}
    assert all(one.around["commit"] and one.around["versions"]["python"] for one in found)
    open_ones = [one.sentence for one in found if one.verdict == "not decided"]
    assert all("tie" in sentence or "Not run: " in sentence for sentence in open_ones)  # says why
    times = read_times(folder)
    assert set(times) == {f"{figure.paper}-{figure.name}" for figure in FIGURES}
    assert sum(took.seconds for took in times.values()) < 90 * 60  # what `regretless reproduce all` may take
    assert {took.cores for took in times.values()} == {2}
    whole = [one for one in found if "," not in str(one.around["commit"])]
    assert len({str(one.around["commit"]) for one in whole if not one.around["commit"].endswith("+")}) == 1
    assert all(took.size == "quick" and took.jobs <= 2 and not took.open for took in times.values())
    assert sum(one.seconds for one in found if one.size == 0) <= 2 * 90 * 60  # of one core; the promise is for two
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 5_000_000
    page = (folder / "report.html").read_text()
    for one in found:
        assert escape(one.verdict) in page
        assert f"{PAPERS[one.paper].split(':')[0]}, {one.figure}" in page


@pytest.mark.parametrize("values", [[np.nan] * 4, [0.0] * 4, [-1.0] * 4, [3.0, -2.0, 0.0, np.nan], [5.0] * 4], ids=str)
def test_figures_of_whatever_was_found(values) -> None:
    """Nothing to see on a logarithmic axis is no error: tasks without a noiseless value, exact hits, methods that take
    no time."""
    y = np.array(values)
    axes = [np.zeros(4), np.arange(4.0), np.arange(1.0, 5.0)]
    found = [
        (str(x), curves_chart([Curve("random", {"n": x}, {"v": Band(y, y - 1, y + 1)})], log_x=True, log_y=True))
        for x in axes
    ]
    charts_figure(found, "t").draw_without_rendering()
    for optimum in (0.0, None):
        runs = [record("random", "p", seed, values, optimum=optimum) for seed in range(3)]
        regret_figure({"random": runs}, "t").draw_without_rendering()


def test_a_finding_names_what_made_its_records(tmp_path) -> None:
    for number, (version, commit) in enumerate((("2.4", "abc"), ("2.5", "abc+"), ("2.4", "abc"))):
        (tmp_path / f"{number}.jsonl").write_text(
            json.dumps({"facts": {"versions": {"numpy": version}, "commit": commit}}) + "\n"
        )
    finding("ms-ucb", "fig1").write(tmp_path)
    assert Finding.read(tmp_path / FILE).around == {"versions": {"numpy": "2.4 and 2.5"}, "commit": "abc, abc+"}
    (tmp_path / "bare").mkdir()
    finding("ms-ucb", "fig1").write(tmp_path / "bare")
    assert "python" in Finding.read(tmp_path / "bare" / FILE).around["versions"]


def test_records_in_one_small_file(tmp_path) -> None:
    runs = [Run("random", "levy", {"dim": 2, "noise_sd": 0.1}, seed=s, budget=8, init=2) for s in range(2)]
    records = run_all(runs, tmp_path, jobs=0, progress=False)
    path = compact(tmp_path)
    assert path == tmp_path / CSV
    lines = list(csv.DictReader(path.open()))
    assert [(line["method"], line["seed"], line["evaluations"], line["initial"]) for line in lines] == [
        ("random", str(s), "8", "2") for s in range(2)
    ]
    for line, one in zip(lines, records, strict=True):
        assert float(line["best after 100 %"]) == pytest.approx(one.best()[-1], rel=1e-5)
        assert float(line["best after 25 %"]) == pytest.approx(one.best()[1], rel=1e-5)
        assert float(line["mean value"]) == pytest.approx(one.value.mean(), rel=1e-5)


def test_json_records_in_one_small_file(tmp_path) -> None:
    assert compact(tmp_path) is None
    (tmp_path / "quick" / "cache").mkdir(parents=True)
    (tmp_path / "quick" / "cache" / "1.json").write_text("1.0")
    curve = list(range(80, 0, -2))  # of 40 evaluations, as COCO's rows have it
    row = json.dumps({"seed": 3, "scores": [0.123456789, 1e-12], "name": "x", "rows": [{"precision": curve}]})
    (tmp_path / "quick" / "a.json").write_text(row)
    finding("ms-ucb", "fig1").write(tmp_path)
    path = compact(tmp_path)
    assert path == tmp_path / JSON
    assert json.loads(path.read_text()) == {
        "made": [],
        "records": {
            "quick/a": {
                "seed": 3,
                "scores": [0.123457, 1e-12],
                "name": "x",
                "rows": [{"precision": [62, 42, 22, 2]}],  # after 10, 20, 30 and 40
            }
        },
    }
    assert compact(tmp_path) == path  # it does not take itself for a record


def test_rows_by_column_are_the_same_rows(tmp_path) -> None:
    rows = [{"method": "cma", "unit": [0.1 * n, 0.2], "n": n, "ok": True} for n in range(3)]
    record = {
        "rows": rows,
        "twice": [{"a": 1}] * 2,
        "mixed": [{"a": 1}, {"b": 1}],
        "none": [],
        "one": [{"a": {"b": 2}}],
    }
    stored = json.loads(json.dumps(by_column(record)))
    assert stored["rows"] == {
        "in all": {"method": "cma", "ok": True},
        "by column": {"unit": [[0.0, 0.2], [0.1, 0.2], [0.2, 0.2]], "n": [0, 1, 2]},
    }
    assert by_row(stored) == record
    kinds = [{"a": 1, "b": 0}, {"a": 1.0, "b": 1}, {"a": True, "b": 2}]  # equal to Python, not to a reader
    assert repr(by_row(by_column(kinds))) == repr(kinds)
    (tmp_path / "a.json").write_text(json.dumps(record))
    compact(tmp_path)
    assert read_records(tmp_path / JSON) == {"a": record}


def test_json_records_say_what_made_them(tmp_path, monkeypatch) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json").write_bytes(stamped({"seed": 3}))
    (tmp_path / "c.json").write_text(json.dumps({"seed": 4, "made": {"versions": {"numpy": "0.1"}, "commit": "abc"}}))
    finding("ms-ucb", "fig1").write(tmp_path)
    around, here = Finding.read(tmp_path / FILE).around, surroundings()
    assert around["versions"]["python"] == here["versions"]["python"]
    assert around["versions"]["numpy"] == f"{here['versions']['numpy']} and 0.1"
    assert around["commit"].split(", ") == [here["commit"], "abc"]
    stored = json.loads(compact(tmp_path).read_text())
    assert stored["made"] == [here, {"versions": {"numpy": "0.1"}, "commit": "abc"}]
    assert [stored["records"][name]["made"] for name in "abc"] == [0, 0, 1]


def test_a_copy_without_history_is_told_its_commit(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")  # no git
    monkeypatch.delenv("REGRETLESS_COMMIT", raising=False)
    assert surroundings.__wrapped__()["commit"] is None
    monkeypatch.setenv("REGRETLESS_COMMIT", "abc+")
    assert surroundings.__wrapped__()["commit"] == "abc+"


def test_verdicts_are_counted_in_words() -> None:
    words = ["does not hold", "does not hold", "holds", "not decided"]
    page = findings_page(
        [Finding("ms-ucb", f"fig{i}", "t", "c", word, "s") for i, word in enumerate(words)], "It took a minute."
    )
    assert "Of 4 figures and tables: 1 holds, 2 do not hold, 1 is not decided." in page
    assert "It took a minute." in page
