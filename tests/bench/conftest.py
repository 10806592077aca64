"""Experiments by name, and looking at a page in headless Chromium."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from browser import Browser
from regretless_bench.reproduce import EXPERIMENTS


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports an experiment by name."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module


@pytest.fixture
def seen_in_browser(browser: Browser, tmp_path: Path) -> Callable[[str, str, str], dict[str, Any]]:
    """Loads a page on a phone's screen with a script of the test's, which leaves JSON in `<pre id="seen">`."""

    def look(page: str, script: str, title: str) -> dict[str, Any]:
        path = tmp_path / "page.html"
        path.write_text(page.replace("</body>", script + "</body>"))
        tab = browser.page(width=390)
        tab.open(path)
        assert tab.errors == []
        assert tab.run("document.title") == title
        seen: dict[str, Any] = json.loads(tab.run('document.getElementById("seen").textContent'))
        tab.close()
        return seen

    return look
