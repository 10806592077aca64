"""`regretless reproduce`: every figure has its experiment, names and missing data are answered in one line, and one
figure runs end to end."""

import ast
import json
import os
import runpy
import sys
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner
from regretless_bench.finding import FILE, PAPERS, Finding
from regretless_bench.problems.uci_hpo import FOLDS
from regretless_bench.reproduce import (
    EXPERIMENTS,
    FIGURES,
    TIMES,
    Figure,
    find_figures,
    listing,
    read_times,
    report_findings,
    reproduce,
    reproduce_many,
    script_options,
)

from regretless.cli import main

QUICK_MINUTES = 90
"""The quick set of all papers must fit this on two cores."""
SCRIPTS = sorted({figure.script for figure in FIGURES})


def call(*arguments: str):
    return CliRunner().invoke(main, arguments)


def test_listing_names_every_figure() -> None:
    result = call("reproduce")
    assert result.exit_code == 0
    assert result.output.strip() == listing()
    rows = result.output.splitlines()[1:-1]
    assert [row.split()[:2] for row in rows] == [[f.paper, f.name] for f in FIGURES]
    assert {f.paper for f in FIGURES} == set(PAPERS)
    assert sum(f.minutes[0] for f in FIGURES) <= QUICK_MINUTES


@pytest.mark.parametrize(
    ("paper", "names"),
    [
        ("go-ucb", ["fig2", "fig3", "fig4", "fig5"]),
        ("gp-threds", ["fig4a", "fig4b", "fig4c", "fig4d"]),
        ("bilevel", [f"table{i}" for i in range(1, 7)]),
        ("neural-bo", ["fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "table1", "table2"]),
        ("ms-ucb", ["fig1", "fig2", "fig3", "fig4", "fig5"]),
    ],
)
def test_every_figure_and_table_of_the_papers_is_there(paper, names) -> None:
    assert find_figures(paper, None) == [f for f in FIGURES if f.paper == paper]
    for name in names:
        assert find_figures(paper, name)
    assert [f.name for f in find_figures("gp-threds", "fig4")] == ["fig4ab", "fig4cd"]
    assert [f.name for f in find_figures("gp-threds", "fig4d")] == ["fig4ab", "fig4cd"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_experiments_are_scripts_that_write_findings(script) -> None:
    """Read, not run: each has a docstring with its commands, the common options, and writes a Finding."""
    tree = ast.parse((EXPERIMENTS / script).read_text())
    assert f"python experiments/{script}" in (ast.get_docstring(tree) or "")
    called = {
        getattr(node.func, "id", getattr(node.func, "attr", ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    assert {"experiment_options", "write"} <= called or {"experiment_options", "variants_finding"} <= called
    assert {"judged", "variants_finding"} & called


@pytest.mark.parametrize("script", SCRIPTS)
def test_at_least_five_repetitions_quick_and_ten_full(script) -> None:
    tree = ast.parse((EXPERIMENTS / script).read_text())
    (call,) = (
        n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "experiment_options"
    )
    given = {word.arg: ast.unparse(word.value) for word in call.keywords}
    pairs = [n for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Tuple)]
    named = {ast.unparse(n.targets[0]): n.value for n in pairs}
    seeds = given.get("seeds", "(5, 10)")
    quick, full = ast.literal_eval(named[seeds]) if seeds in named else eval(seeds, {"FOLDS": FOLDS})
    assert quick >= 5
    assert full >= 10


def started(script: Path, words: list[str], monkeypatch) -> object:
    """What a script ends with when it is run as a program in this process: the argument of its sys.exit."""
    monkeypatch.setattr(sys, "argv", [str(script), *words])
    monkeypatch.syspath_prepend(script.parent)
    with mock.patch.dict(os.environ), pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    return ended.value.code


@pytest.mark.parametrize("full", [False, True], ids=["quick", "full"])
@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f"{f.paper}-{f.name}")
def test_every_figure_starts(figure, full, tmp_path, monkeypatch) -> None:
    """With the command's own options its script is imported, reads them, plans its runs and, told to run none, finds no
    record of them."""
    monkeypatch.setattr(
        "regretless_bench.claims.whole_data", lambda name: tmp_path
    )  # no data set is read before a run needs it
    words = script_options(figure, tmp_path / "out", full=full, seeds=6, jobs=1, data=tmp_path)
    ended = started(EXPERIMENTS / figure.script, [*words, "--report"], monkeypatch)
    size = "full" if full else "quick"
    assert (
        ended
        == f"there are no records of the {size} size in {tmp_path / 'out'}: run the same command without --report first"
    )


PROGRAMS = [path for path in sorted(EXPERIMENTS.glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("script", PROGRAMS, ids=lambda path: path.name)
def test_every_experiment_explains_itself(script, monkeypatch, capsys) -> None:
    assert started(script, ["--help"], monkeypatch) == 0
    options = ("--out", "--jobs", "--seeds", "--full", "--data", "--report") if script.name in SCRIPTS else ("--help",)
    said = capsys.readouterr().out
    assert [option for option in options if option not in said] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody"], "unknown paper 'nobody'; known are go-ucb, gp-threds"),
        (["ms-ucb", "fig9"], "ms-ucb has no figure 'fig9'; it has fig1, fig2, fig3, fig4, fig5"),
        (["neural-bo", "fig10"], "no figure 'fig10'"),
        (
            ["all", "fig2"],
            "unknown paper 'all'; known are go-ucb, gp-threds, bilevel, neural-bo, ms-ucb, and all without a figure",
        ),
        (
            ["go-ucb", "fig3", "--data", "."],
            "the data set 'uci' is not there (looked in uci): it holds australian.csv.gz",
        ),
        (["ms-ucb", "fig1", "--seeds", "0"], "--seeds"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, arguments, words) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("reproduce", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "runs").exists()


def test_a_report_needs_findings(tmp_path) -> None:
    with pytest.raises(ValueError, match="there is no finding in"):
        report_findings(tmp_path)
    Finding("go-ucb", "fig2", "t", "c", "not decided", "Too few seeds.").write(tmp_path)
    result = call("report", str(tmp_path))
    assert result.exit_code == 0
    assert "Too few seeds." in (tmp_path / "report.html").read_text()


def test_a_figure_end_to_end(tmp_path) -> None:
    """GP-ThreDS' Fig. 4 (a) and (b) with one seed of 100 samples: records, a figure, a page; what is there is not run
    again."""
    (figure,) = find_figures("gp-threds", "fig4ab")
    folder = reproduce(figure, tmp_path, seeds=1, extra=["--samples", "100"])
    assert folder == tmp_path / "gp-threds-fig4ab"
    found = Finding.read(folder / FILE)
    assert found.verdict == "not decided"
    assert [title for title, _ in found.charts] == ["branin", "rosenbrock"]
    assert {series["name"] for series in found.charts[0][1]["series"]} >= {
        "GP-ThreDS (paper)",
        "GP-ThreDS",
        "IGP-UCB",
        "random",
    }
    assert found.settings["seeds"] == 1
    assert found.seconds > 0
    assert all((folder / "figures" / f"gp-threds-fig4ab.{end}").stat().st_size > 5000 for end in ("png", "svg"))
    assert "not decided" in (folder / "report.html").read_text()
    records = {path: path.stat().st_mtime_ns for path in folder.glob("*.jsonl")}
    next(iter(records)).unlink()
    reproduce(figure, tmp_path, seeds=1, extra=["--samples", "100"])
    assert (
        sum(path.stat().st_mtime_ns == then for path, then in records.items()) == len(records) - 1
    )  # the last one was run again, and only it


def test_a_measured_process_of_fig6_runs_below_the_command(tmp_path) -> None:
    """NeuralBO's Fig. 6 starts a process for each point; each watches the experiment that started it, not the command
    above that."""
    (figure,) = find_figures("neural-bo", "fig6")
    folder = tmp_path / "neural-bo-fig6"
    folder.mkdir()
    sizes = {"neural-bo": (100, 300, 1000, 3000, 10_000), "gp-ucb": (300, 1000, 3000)}
    for method, n in ((m, n) for m, ns in sizes.items() for n in ns):
        row = {"method": method, "n": n, "dim": 14, "first_s": 1.0, "ask_s": 0.1, "peak_mb": n / 100, "held_mb": 0.0}
        (folder / f"{method}-n{n}-d14.json").write_text(json.dumps(row))
    assert reproduce(figure, tmp_path, extra=["--methods", "neural-bo,gp-ucb"]) == folder
    measured = json.loads((folder / "gp-ucb-n100-d14.json").read_text())
    assert measured["n"] == 100
    assert measured["ask_s"] > 0
    shown = {(method, n) for method, n, *_ in Finding.read(folder / FILE).tables[2].rows}
    assert shown == {(m, n) for m, ns in sizes.items() for n in ns} | {("gp-ucb", 100)}


def test_an_experiment_that_fails_says_how_to_go_on(tmp_path) -> None:
    (figure,) = find_figures("gp-threds", "fig4ab")
    with pytest.raises(
        RuntimeError, match=r"gp_threds_fig4.py ended with exit code 2; run the same command again to resume"
    ):
        reproduce(figure, tmp_path, extra=["--no-such-option"])


SCRIPT = """
import sys, time
from pathlib import Path
from regretless_bench.finding import Finding
out = Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
if (out / "broken").exists():
    sys.exit(3)
Finding("go-ucb", out.name[-4:], "t", "c", "not decided", "Because.").write(out)
"""


def test_all_goes_on_after_a_failure_and_knows_what_it_took(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.setattr("regretless_bench.reproduce.EXPERIMENTS", tmp_path)
    figures = [Figure("go-ucb", name, "t", "script.py") for name in ("fig2", "fig3", "fig4")]
    out = tmp_path / "out"
    (out / "go-ucb-fig3").mkdir(parents=True)
    (out / "go-ucb-fig3" / "broken").touch()
    with pytest.raises(
        RuntimeError, match=r"go-ucb fig3: script.py ended with exit code 3; run the same command again to resume"
    ):
        reproduce_many(figures, out)
    assert {name: (took.sittings, took.cut, took.open) for name, took in read_times(out).items()} == {
        f"go-ucb-{name}": (1, 0, False) for name in ("fig2", "fig3", "fig4")
    }
    assert "2 figures" in capsys.readouterr().err
    (out / "go-ucb-fig3" / "broken").unlink()
    noted = json.loads((out / TIMES).read_text())
    noted["go-ucb-fig3"]["open"] = True  # as a kill leaves it
    (out / TIMES).write_text(json.dumps(noted))
    page = reproduce_many(figures, out, jobs=3)
    assert all(f"fig{i}" in page.read_text() for i in (2, 3, 4))
    times = read_times(out)
    assert (
        times["go-ucb-fig3"].sittings,
        times["go-ucb-fig3"].cut,
        times["go-ucb-fig3"].open,
        times["go-ucb-fig3"].jobs,
    ) == (2, 1, False, 3)
    assert all(0 < took.seconds < 120 for took in times.values())
    assert "and the time of 1 interrupted call" in capsys.readouterr().err


def test_all_begins_with_the_papers_that_are_done_soonest() -> None:
    order = find_figures("all", None)
    assert sorted(order, key=FIGURES.index) == list(FIGURES)
    papers = list(dict.fromkeys(f.paper for f in order))
    minutes = [sum(f.minutes[0] for f in FIGURES if f.paper == paper) for paper in papers]
    assert len(papers) == len(PAPERS)
    assert minutes == sorted(minutes)
