"""The examples of docs/how-to/compare.md and problems.md run."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "how-to"


def test_examples_run(tmp_path, monkeypatch, capsys):
    pages = "".join((DOCS / page).read_text() for page in ("compare.md", "problems.md"))
    blocks = re.findall(r"```python\n(.*?)```", pages, re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    comparison, kettle = blocks
    exec(comparison.replace("jobs=2", "jobs=0"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 6
    assert printed[0].startswith("random 0 ")
    exec(kettle, {})
