"""Looking at a page in headless Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def seen_in_browser(tmp_path: Path) -> Callable[[str, str, str], dict[str, Any]]:
    """Loads a page on a phone's screen with a script of the test's, which leaves JSON in `<pre id="seen">`; an error
    changes the title."""
    if BROWSER is None:
        pytest.skip("no Chromium here")

    def look(page: str, script: str, title: str) -> dict[str, Any]:
        path = tmp_path / "page.html"
        path.write_text(page.replace("</body>", script + "</body>"))
        command = [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--window-size=390,900"),
            *("--virtual-time-budget=8000", "--dump-dom", path.as_uri()),
        ]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        assert f"<title>{title}</title>" in dom
        found = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL)
        assert found is not None, "the script left nothing"
        return json.loads(html.unescape(found[1]))

    return look
