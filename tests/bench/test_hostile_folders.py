"""Folders of strangers: `regretless report` writes inside them only, and answers damaged files with one line."""

import json
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from regretless_bench.finding import FILE, Finding, find_all, findings_page
from regretless_bench.record import SUFFIX
from regretless_bench.report import report_folder
from regretless_bench.reproduce import report_findings
from regretless_bench.runner import run_from_names

from regretless.cli import main

SPITE = [None, True, -1, 0, 1e308, float("nan"), float("inf"), 2**70, "", "x" * 50, "../../up", [], {}, [[]], [1, "a"]]
"""Values of the wrong kind, put anywhere."""
MUTATIONS = 300
"""Damaged files of each kind; four hundred find nothing that these do not."""


def spoiled(tree: Any, rng: random.Random) -> Any:
    """A tree with one value replaced, dropped or added."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        key = rng.choice(list(tree))
        kind = rng.randrange(8)
        if kind == 0:
            return {k: v for k, v in tree.items() if k != key}
        if kind == 1:
            return {**tree, rng.choice(["kind", "x", "error", ""]): rng.choice(SPITE)}
        return {**tree, key: spoiled(tree[key], rng)}
    if isinstance(tree, list) and tree and rng.random() < 0.8:
        i = rng.randrange(len(tree))
        return [*tree[:i], spoiled(tree[i], rng), *tree[i + 1 :]]
    return rng.choice(SPITE)


def cut(text: str, rng: random.Random) -> str:
    """A text that lost or gained some signs."""
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(["", "[" * 2000, '"', "}", "1e999", "\0"]) + text[at + rng.randrange(30) :]


def finding() -> Finding:
    line = {
        "name": "ours", "kind": "line", "dash": False, "x": [[1.0, 2.0], [0.1, None]],
        "y": [{"mid": [3.0, 2.0], "low": [2.0, 1.0], "high": [4.0, 3.0]}],
    }  # fmt: skip
    axes = [{"name": "evaluations", "log": False}, {"name": "seconds", "log": True}]
    chart = {"x": axes, "y": [{"name": "regret", "log": True}], "series": [line]}
    table = {"title": "t", "columns": ["a", "b"], "rows": [["x", 1.0], ["y", None]], "best": {"b": "min"}}
    return Finding("ms-ucb", "fig1", "t", "c", "holds", "s", {"seeds": 5}, [("bowl", chart)], [table], 1.0)


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("records")
    run_from_names(["random", "sobol"], ["branin", "sphere:dim=2"], 2, 4, out, jobs=0, progress=False)
    return out


def answers(write: Any, folder: Path) -> str | None:
    """What the page's writer says against a folder, which must be a ValueError of one line; None where it is fine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numbers near the largest overflow in means and quartiles
            write(folder)
    except ValueError as error:
        message = str(error)
    else:
        return None
    assert message
    assert "\n" not in message
    return message


@pytest.mark.timeout(120)
def test_damaged_records_are_refused_in_one_line(records, tmp_path) -> None:
    rng, refused = random.Random(1), 0
    folder = tmp_path / "copy"
    shutil.copytree(records, folder)
    victim = sorted(folder.glob(f"*{SUFFIX}"))[0]
    valid = victim.read_text()
    lines = [json.loads(line) for line in valid.splitlines()]
    assert answers(report_folder, folder) is None
    for number in range(MUTATIONS):
        i = rng.randrange(len(lines)) if number % 3 else 0
        changed = [*lines[:i], spoiled(lines[i], rng), *lines[i + 1 :]]
        victim.write_text("\n".join(map(json.dumps, changed)) if number % 5 else cut(valid, rng))
        refused += answers(report_folder, folder) is not None
    assert MUTATIONS / 4 < refused < MUTATIONS


@pytest.fixture
def quick_figures(monkeypatch) -> None:
    monkeypatch.setattr("regretless_bench.plots.DPI", 20)


@pytest.mark.timeout(120)
def test_damaged_findings_are_refused_in_one_line(tmp_path, quick_figures) -> None:
    rng, refused = random.Random(2), 0
    valid = finding().write(tmp_path).read_text()
    tree = json.loads(valid)
    assert answers(report_findings, tmp_path) is None
    for number in range(MUTATIONS):
        (tmp_path / FILE).write_text(json.dumps(spoiled(tree, rng)) if number % 5 else cut(valid, rng))
        if answers(lambda folder: findings_page(find_all(folder)), tmp_path) is not None:
            refused += 1
        elif number % 40 == 1:
            assert answers(report_findings, tmp_path) is None
    assert MUTATIONS / 4 < refused < MUTATIONS


@pytest.mark.parametrize("content", ["", "[]", '{"paper": "ms-ucb"}', "\0\0", "[" * 5000])
@pytest.mark.parametrize("name", [FILE, f"a{SUFFIX}"])
def test_the_command_answers_in_one_line(content, name, tmp_path) -> None:
    (tmp_path / name).write_text(content)
    result = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize("figure", ["/../../../outside/x", "/outside", "..", "x" * 400])
def test_names_in_findings_stay_inside_their_folder(figure, tmp_path, quick_figures) -> None:
    folder = tmp_path / "a" / "b" / "theirs"
    folder.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    finding().write(folder)
    stored = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**stored, "figure": figure}))
    before = {path for path in tmp_path.rglob("*") if folder not in path.parents}
    report_findings(folder)
    assert {path for path in tmp_path.rglob("*") if folder not in path.parents} == before
    assert len(list((folder / "figures").glob("ms-ucb-*.svg"))) == 2


def test_links_in_a_folder_are_not_followed(records, tmp_path) -> None:
    precious, folder = tmp_path / "precious.txt", tmp_path / "theirs"
    precious.write_text("mine")
    shutil.copytree(records, folder)
    (folder / "report.html").unlink(missing_ok=True)
    (folder / "report.html").symlink_to(precious)
    report_folder(folder)
    assert precious.read_text() == "mine"
    assert "<html" in (folder / "report.html").read_text()

    drawn, outside = tmp_path / "findings", tmp_path / "outside"
    outside.mkdir()
    drawn.mkdir()
    finding().write(drawn)
    shutil.rmtree(drawn / "figures")
    (drawn / "figures").symlink_to(outside)
    with pytest.raises(ValueError, match="is a link"):
        report_findings(drawn)
    assert not list(outside.iterdir())
