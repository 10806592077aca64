"""Runs the pages of the guide as a reader would, from top to bottom.

    python tests/guide.py docs/tutorials/first-run.md     runs the page, writes what each block printed under it,
                                                          and makes the notebook of a tutorial

A page is made of fences. `python` is executed, all blocks of a page in one namespace. A fence with a title, such as
```toml title="space.toml", is a file. `sh` is a shell command when a `text` fence follows. A `text` fence directly
after a block is what that block prints. The page `parallel.md` and others need servers; they are run by tests/doors.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

NOTEBOOKS = Path(__file__).parent.parent / "examples" / "notebooks"
ELSEWHERE = {
    *("training-steps", "steps-in-optuna", "compare", "problems", "reproduce"),
    *("optuna", "trackers", "sklearn", "botorch", "ray", "parallel"),
}
"""Pages whose examples need data or servers; tests/test_docs.py, tests/bench and tests/doors run them."""
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d[\d_,]*\.?\d*(e[+-]?\d+)?")


class Block(NamedTuple):
    """One fence of a page that is run, and what the page says it prints (None: the page does not say)."""

    kind: str
    title: str
    code: str
    printed: str | None
    end: int
    """Where the fence ends in the page."""


def blocks(page: str) -> Iterator[Block]:
    fences = list(FENCE.finditer(page))
    for index, fence in enumerate(fences):
        kind, rest, code = fence.groups()
        if kind == "text":
            continue
        after = fences[index + 1] if index + 1 < len(fences) else None
        shown = after is not None and after[1] == "text" and not page[fence.end() : after.start()].strip()
        title = re.search(r'title="([^"]+)"', rest)
        printed = after[3] if shown and after is not None else None
        yield Block(kind, title[1] if title else "", code, printed, fence.end())


def run(path: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    """Runs a page inside the folder; yields each block that prints, with what it printed."""
    module = types.ModuleType("page")
    sys.modules["page"] = module
    path_of_programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = patch.dict(os.environ, PATH=path_of_programs)  # also where the virtual environment is not activated
    with contextlib.chdir(folder), warnings.catch_warnings(), environment:
        warnings.simplefilter("ignore")  # a page may show what is warned of
        for block in blocks(path.read_text()):
            if block.title:
                Path(block.title).write_text(block.code)
            elif block.kind == "python":
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile(block.code, str(path), "exec"), module.__dict__)
                yield block, out.getvalue()
            elif block.kind == "sh" and block.printed is not None:
                done = subprocess.run(["bash", "-ec", block.code], capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{path}: {block.code}{done.stdout}{done.stderr}")
                yield block, done.stdout


def shape(text: str) -> str:
    """A text without its numbers and its spacing: what must be the same on another machine."""
    return re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip()


def write(path: Path, folder: Path) -> None:
    """Puts what the blocks print under them, where the page shows an output."""
    page = path.read_text()
    for block, printed in reversed(list(run(path, folder))):
        if block.printed is not None:
            start = page.index("```text\n", block.end) + len("```text\n")
            page = page[:start] + printed + page[page.index("```\n", start) :]
    path.write_text(page)


def notebook(path: Path) -> str:
    """A page as a Jupyter notebook: its prose, its Python and what it prints; files and commands become cell magics."""
    cells: list[dict[str, object]] = []
    page, end = path.read_text(), 0
    for fence in FENCE.finditer(page):
        kind, rest, code = fence.groups()
        title = re.search(r'title="([^"]+)"', rest)
        if kind == "text":
            cells[-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": code}]
        elif kind in ("python", "sh") or title:
            prose = page[end : fence.start()].strip()
            cells += [{"cell_type": "markdown", "metadata": {}, "source": prose}] if prose else []
            magic = f"%%writefile {title[1]}\n" if title else "%%bash\n" if kind == "sh" else ""
            source = magic + code.rstrip()
            cells.append(
                {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
            )
        else:
            continue
        end = fence.end()
    if page[end:].strip():
        cells.append({"cell_type": "markdown", "metadata": {}, "source": page[end:].strip()})
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:]:
        page = Path(name).resolve()
        if page.stem in ELSEWHERE:
            sys.exit(f"{page.stem} needs data or servers: its outputs are written by hand")
        with tempfile.TemporaryDirectory() as folder:
            write(page, Path(folder))
        if page.parent.name == "tutorials":
            (NOTEBOOKS / f"{page.stem}.ipynb").write_text(notebook(page))
