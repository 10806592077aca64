"""The Python examples of the pages run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
RUNNABLE = ["index.md", "spaces.md", "ask-tell.md", "writing-a-method.md", "certificates.md"]


@pytest.mark.parametrize("page", RUNNABLE)
def test_examples_run(page: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S))
    name = f"example_{page.split('.')[0].replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__(name)
