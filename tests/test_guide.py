"""Every page of the guide runs, prints what it shows, is short, and can be reached."""

from pathlib import Path

import pytest
from guide import ELSEWHERE, NOTEBOOKS, notebook, run, shape

DOCS = Path(__file__).parent.parent / "docs"
PARTS = ("tutorials", "how-to", "explanation")
GUIDE = [DOCS / "index.md", *(page for part in PARTS for page in sorted((DOCS / part).glob("*.md")))]
REFERENCE = [page for page in sorted((DOCS / "reference").glob("*.md")) if "```python" in page.read_text()]
RUN = [DOCS.parent / "README.md", *(page for page in GUIDE if page.stem not in ELSEWHERE)]
WORDS = 1200
"""No page of the guide is longer than this, code and outputs included."""


@pytest.mark.parametrize("page", [*RUN, *REFERENCE], ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    for block, printed in run(page, tmp_path):
        if block.printed is not None:
            assert shape(printed) == shape(block.printed), f"python tests/guide.py {page} writes the present output"


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text().split()) <= WORDS


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((DOCS.parent / "README.md").read_text().split()) <= 450


@pytest.mark.parametrize("page", [page for page in RUN if page.parent.name == "tutorials"], ids=lambda page: page.stem)
def test_a_tutorial_has_its_notebook(page: Path) -> None:
    """The notebook is the page; the page is run above."""
    assert (NOTEBOOKS / f"{page.stem}.ipynb").read_text() == notebook(page), f"python tests/guide.py {page} writes it"
