"""A real Chromium for tests of the console: where it is, how it starts, what a page did wrong.

Debian's, unless `CHROME` names another. Not here: what pages must show (`tests/console/browser`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Playwright

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "console" / "front" / "node_modules" / "axe-core" / "axe.min.js"
#: Root in a container has no sandbox, no graphics and little shared memory.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
#: Rules of WCAG 2.2 AA and below.
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: Counts presses of the mouse, which alone have a detail; Enter on a button has none.
_COUNT_CLICKS = """
sessionStorage.clicks ??= 0;
addEventListener("click", (event) => {
  if (!event.isTrusted || event.detail === 0) return;
  sessionStorage.clicks = Number(sessionStorage.clicks) + 1;
}, { capture: true });
"""


def executable() -> str:
    """The browser's path."""
    return os.environ.get("CHROME", "/usr/bin/chromium")


@contextmanager
def running_browser(playwright: Playwright) -> Iterator[Browser]:
    """One browser, ended with the context."""
    browser = playwright.chromium.launch(executable_path=executable(), args=list(_FLAGS))
    try:
        yield browser
    finally:
        browser.close()


@contextmanager
def installed_browser() -> Iterator[Browser]:
    """The browser of this machine, for as long as the context; a test without one fails."""
    from playwright.sync_api import sync_playwright

    if not os.access(executable(), os.X_OK):
        pytest.fail(f"no browser at {executable()}: apt-get install chromium, or set CHROME")
    with sync_playwright() as playwright, running_browser(playwright) as running:
        yield running


class WatchedPage:
    """A page with everything that must not happen on it: errors, CSP reports, failed requests."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        context.add_init_script(_COUNT_CLICKS)
        self.page: Page = context.new_page()
        self.wrongs: list[str] = []
        self.page.on("pageerror", lambda error: self.wrongs.append(f"error: {error}"))
        self.page.on("console", self._on_console)

    def _on_console(self, message: Any) -> None:
        # An interface of this machine came or went, and the browser broke off what it loaded.
        if message.type in ("error", "warning") and "ERR_NETWORK_CHANGED" not in message.text:
            self.wrongs.append(f"{message.type}: {message.text}")

    def forget_errors(self, words: str) -> None:
        """Take off what the browser itself says about requests that the test made fail."""
        self.wrongs = [wrong for wrong in self.wrongs if words not in wrong]

    def until(self, holds: Callable[[], object]) -> None:
        """Take in what the browser tells, requests among it, until a condition holds."""
        for _ in range(1000):
            if holds():
                return
            self.page.wait_for_timeout(10)
        pytest.fail("what was waited for did not come within ten seconds")

    def clicks(self) -> int:
        """How often the mouse was pressed since the tab was opened."""
        return int(self.page.evaluate("Number(sessionStorage.clicks)"))

    def accessibility_violations(self) -> list[str]:
        """What axe finds: rule, element, help."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate(
            "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"
            ".then(result => result.violations.flatMap(({id, nodes}) =>"
            " nodes.map(node => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`)))",
            _RULES,
        )
        return list(found)

    def scrolls_sideways(self) -> bool:
        """Whether the page is wider than its window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


def window(browser: Any, address: str) -> Iterator[WatchedPage]:
    """A fresh window at a console; nothing may have gone wrong in it when it is closed."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, base_url=address)
    context.set_default_timeout(10_000)
    opened = WatchedPage(context)
    yield opened
    wrongs = list(opened.wrongs)
    context.close()
    assert not wrongs, wrongs
