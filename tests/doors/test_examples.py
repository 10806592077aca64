"""The examples of the doors run as they stand, and so does the Python of their pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("doors_*.py"))
PAGES = [ROOT / "docs" / "doors" / f"{name}.md" for name in ("optuna", "sklearn", "botorch")]


def run(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "RAY_TRAIN_V2_ENABLED": "0"}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    printed = run([str(example)], tmp_path)
    assert "best" in printed or "SearchCV" in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_page(page: Path, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S)))
    run(["page.py"], tmp_path)
