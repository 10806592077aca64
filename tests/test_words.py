"""Every constant of the package says what it is: by the text below it, or by a remark beside or above it."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "regretless"
FILES = sorted(PACKAGE.rglob("*.py"))


def silent_constants(path: Path) -> list[str]:
    """Names of the module's constants without a word."""
    text = path.read_text()
    body, lines, silent = ast.parse(text).body, text.splitlines(), []
    for i, statement in enumerate(body):
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        if not names or not all(name.isupper() and len(name) > 1 for name in names):
            continue
        if isinstance(statement.value, ast.Subscript):  # another name of something that has its own text
            continue
        below = body[i + 1] if i + 1 < len(body) else None
        told_below = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        told_beside = "  # " in lines[(statement.end_lineno or 1) - 1] or "  # " in lines[statement.lineno - 1]
        told_above = lines[statement.lineno - 2].lstrip().startswith("# ") if statement.lineno > 1 else False
        if not (told_below or told_beside or told_above):
            silent += names
    return silent


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_constant_says_what_it_is(path: Path) -> None:
    assert silent_constants(path) == []


def test_the_product_speaks_of_itself_in_the_present() -> None:
    """Its history is in git: no page and no module tells what it was, or who found fault with it."""
    history = re.compile(
        r"\b(complaints?|attacked|mend(s|ed)?|formerly|former (rule|default|recommendation))\b", re.IGNORECASE
    )
    root = PACKAGE.parent
    pages = [root / "README.md", root / "CHANGELOG.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]
    found = [(path.name, hit[0]) for path in [*pages, *FILES] for hit in history.finditer(path.read_text())]
    assert found == []
