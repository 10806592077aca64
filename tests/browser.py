"""A real browser for the tests: headless Chromium, spoken to through a pipe in its own protocol (CDP).

    with Browser() as browser:
        page = browser.page(width=400)
        page.open(Path("page.html"))
        assert page.errors == []
        page.run("document.title")

Nothing but Chromium is needed. The check for accessibility needs axe-core too: `npm install --no-save axe-core` in the
checkout, or the path of its `axe.min.js` in AXE_CORE.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(os.environ.get("AXE_CORE", Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"))
PATIENCE = 60.0
"""Seconds to wait for an answer: machines under test may be busy."""
CLIPPED = """
[...document.querySelectorAll(
  "h1, h2, p, dt, dd, th, td, button, summary, figcaption, label, .legend span")].filter((e) => {
  const box = e.getBoundingClientRect(), scroll = e.closest(".scroll, pre");
  if (!box.width || getComputedStyle(e).visibility === "hidden") return false;
  const out = !scroll && (box.right > innerWidth + 1 || box.left < -1);
  return out || e.scrollWidth > e.clientWidth + 2 && getComputedStyle(e).display !== "inline";
}).map((e) => e.tagName + ": " + e.textContent.trim().slice(0, 60)).concat(
  document.documentElement.scrollWidth > innerWidth ? ["the page scrolls sideways"] : [],
  [...document.querySelectorAll("svg text")].filter((t) => {
    const box = t.getBoundingClientRect(), home = t.closest("svg").getBoundingClientRect();
    return box.width && (box.left < home.left - 2 || box.right > home.right + 2 || box.bottom > home.bottom + 2);
  }).map((t) => "svg: " + t.textContent))
"""
"""Texts that are cut off or stick out of the window."""
BROKEN = """
[...document.querySelectorAll("td, th, p, dd, .verdict")].flatMap((e) =>
  [...e.childNodes].filter((n) => n.nodeType === 3).flatMap((n) =>
    [...n.data.matchAll(/[A-Za-z]{3,}/g)].filter((word) => {
    const range = document.createRange();
    range.setStart(n, word.index);
    range.setEnd(n, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1;
  }).map((word) => word[0])))
"""
"""Words that are broken across lines without a hyphen."""
COLLIDING = """
[...document.querySelectorAll("svg")].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll("text")].map((t) => [t.getBoundingClientRect(), t.textContent]);
  return boxes.flatMap(([a, s], i) => boxes.slice(i + 1).filter(([b]) =>
    a.width && b.width && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3
  ).map(([, t]) => s + " | " + t));
})
"""
"""Labels of a chart that lie over each other."""


class Browser:
    """One process of Chromium; pages in it are cheap."""

    def __init__(self) -> None:
        if CHROMIUM is None:
            raise FileNotFoundError("no Chromium here")
        self._home = tempfile.TemporaryDirectory()
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]

        def take_pipes() -> None:  # Chromium reads from 3 and writes to 4
            high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *flags, f"--user-data-dir={self._home.name}", "about:blank"],
            preexec_fn=take_pipes, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out, self._left, self._number = ours_in, ours_out, b"", 0
        self.pages: dict[str, Page] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._home.name, ignore_errors=True)

    def page(self, width: int = 1200, height: int = 900, *, dark: bool = False) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.call("Emulation.setEmulatedMedia", features=scheme)
        return page

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for answer in self.messages():
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
        raise AssertionError("unreachable")

    def messages(self) -> Iterator[dict[str, Any]]:
        """What Chromium says, as it comes; errors and events of pages are kept by these."""
        deadline = time.monotonic() + PATIENCE
        while True:
            while b"\0" not in self._left:
                if not select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise TimeoutError("Chromium does not answer")
                piece = os.read(self._in, 1 << 20)
                if not piece:
                    raise ConnectionError("Chromium ended")
                self._left += piece
            text, _, self._left = self._left.partition(b"\0")
            message = json.loads(text)
            if message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].heard(message)
            yield message


class Page:
    """A tab of a `Browser`."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self.errors: list[str] = []
        """Errors of scripts since the page was opened."""
        self.requests: list[str] = []
        self._loaded = False

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def heard(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            case "Page.loadEventFired":
                self._loaded = True

    def resize(self, width: int, height: int = 900) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, path: Path | str) -> float:
        """Loads a file, or the page of an address; returns the seconds until everything was drawn once."""
        self.errors, self._loaded, start = [], False, time.monotonic()
        self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        messages = self._browser.messages()
        while not self._loaded:
            next(messages)
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")
        return time.monotonic() - start

    def run(self, script: str) -> Any:
        """The value of an expression in the page, or of a promise."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", answer))
        return answer["result"].get("value")

    def key(self, name: str) -> None:
        """Presses a key, such as "Tab", "Enter" or "ArrowRight"."""
        text = {"Enter": "\r", "Space": " "}.get(name)
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "Home": 36}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        common = {"key": " " if name == "Space" else name, "code": name, "windowsVirtualKeyCode": codes[name]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def shot(self, path: Path, *, whole: bool = True) -> None:
        """A picture of the page as PNG."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        path.write_bytes(base64.b64decode(picture["data"]))

    def violations(self) -> list[str]:
        """What axe-core finds against WCAG 2 A and AA."""
        self.run(AXE.read_text(encoding="utf-8") + "; 0")
        rules = '{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], resultTypes: ["violations"]}'
        found = self.run(
            f"axe.run(document, {rules}).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes[0].target.join(' ')"
            " + ' ' + v.nodes[0].failureSummary))"
        )
        return list(found)

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)
        self._browser.pages.pop(self._session, None)
