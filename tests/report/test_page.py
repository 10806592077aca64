"""The script of a page, run on a stand-in for a browser: it leaves no table or chart undone."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless.report
from regretless.report.page import Band, Curve, Points, curves_chart, scatter_chart

PAGE_JS = Path(regretless.report.__file__).parent / "page.js"
DOM_JS = Path(__file__).parent / "dom.js"


def run_script(tables: list[dict[str, Any]], charts: list[dict[str, Any]], column: int = 0) -> Any:
    """What page.js makes of tables and charts: it clicks on a column's head, and draws each chart twice."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    given = json.dumps({"tables": tables, "charts": charts, "column": column})
    done = subprocess.run(["node", DOM_JS, PAGE_JS], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_table_without_a_head_does_not_stop_the_others() -> None:
    headless = {"head": None, "rows": [["only", "words"]]}
    sortable = {"head": ["method", "error"], "rows": [["b", "10"], ["a", "9"], ["c", "-1"]]}
    rows = run_script([headless, sortable], [], column=1)["rows"]
    assert rows[0] == [["only", "words"]]
    assert [row[1] for row in rows[1]] == ["-1", "9", "10"], "numbers sort as numbers"


def test_charts_are_drawn_with_their_bands_dots_and_hints() -> None:
    n = np.arange(1, 6)
    band = Band(1.0 / n, 0.5 / n, 2.0 / n)
    lines = curves_chart(
        [Curve("ours", {"steps": n}, {"loss": band}), Curve("peer", {"steps": n}, {"loss": 3.0 / n}, dash=True)]
    )
    dots = scatter_chart(
        [Points("value", ["a", "b", "a"], [1.0, 2.0, 3.0], ["one", "two", "three"])], x_name="kind", y_name="y"
    )
    curves, scatter = run_script([], [lines, dots])["charts"]
    drawn = [shape[1].get("class") for shape in curves["first"] if shape[0] == "path"]
    assert drawn == ["band", "curve", "curve"]
    assert "steps 2" in curves["tip"]
    assert "ours: 0.5 (0.25 to 1)" in curves["tip"]
    assert curves["first"] != curves["log"], "the button changes the scale"
    assert sum(shape[0] == "circle" for shape in scatter["first"]) == 3
    ticks = [shape[2] for shape in scatter["first"] if shape[0] == "text"]
    assert {"a", "b"} <= set(ticks)
