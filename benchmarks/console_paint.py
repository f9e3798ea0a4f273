"""`python -m benchmarks.console_paint [TOPICS]`: how soon the console and its rows are painted.

Three brokers with so many topics (10,000), a console, Debian's Chromium. Each round opens Topics
in a new window without a cache, then types a name into its search. Told are the best and the median
of the rounds: the first paint with words in it, the rows on the screen, and the time from a key to
the rows that it finds. The best is what a machine without other work does. At the end a broker is
killed: how soon the overview, which is open, shows it (CON-173).
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.chromium import running_browser
from tests.support.console_process import ConsoleProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOPICS = 10_000
ROUNDS = 15
BATCH = 500
BROKERS = 3
SOUGHT = "00017"
#: Notes when the first rows are on the screen: after the frame that has them.
_WATCH_ROWS = """
window.rowsAt = 0;
new MutationObserver(() => {
  if (window.rowsAt || !document.querySelector("tbody tr.opens")) return;
  requestAnimationFrame(() => setTimeout(() => { window.rowsAt ||= performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
#: Types a letter and resolves after the frame with what it found.
_TYPE = """text => new Promise(resolve => {
  const field = document.querySelector("main input[type=search]");
  const status = document.querySelector(".page-head [role=status]");
  const before = status.textContent;
  const start = performance.now();
  const watch = new MutationObserver(() => {
    if (status.textContent === before) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
  });
  watch.observe(status, { subtree: true, childList: true, characterData: true });
  field.value = text;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
})"""
_FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


async def create_topics(bootstrap: str, count: int) -> None:
    """Topics of one partition, named by forty teams."""
    names = [f"team-{number % 40:02}.events.{number:05}" for number in range(count)]
    async with Admin(bootstrap_servers=bootstrap) as admin:
        for first in range(0, count, BATCH):
            topics = [
                NewTopic(name=name, partition_count=1, replication_factor=1)
                for name in names[first : first + BATCH]
            ]
            (await admin.topics.create(topics)).unwrap()


def opened(browser: Browser, address: str) -> Page:
    """Topics, in a window that has nothing in its cache, with its rows."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.add_init_script(_WATCH_ROWS)
    page.goto(f"{address}/local/topics")
    page.locator("tbody tr.opens").first.wait_for()
    return page


def measured(browser: Browser, address: str) -> dict[str, list[float]]:
    """Milliseconds by what they are of."""
    found: dict[str, list[float]] = {"first paint": [], "rows": [], "key to rows": []}
    for _ in range(ROUNDS):
        page = opened(browser, address)
        page.wait_for_timeout(300)
        found["first paint"].append(page.evaluate(_FIRST_PAINT))
        found["rows"].append(page.evaluate("window.rowsAt"))
        # The first letter alone finds all of them, and changes nothing that is seen.
        for length in range(3, len(SOUGHT) + 1):
            found["key to rows"].append(page.evaluate(_TYPE, SOUGHT[:length]))
        page.context.close()
    return found


def measured_death(browser: Browser, address: str, brokers: BarnabasCluster) -> float:
    """Seconds from the end of a broker until an open page shows it."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.goto(f"{address}/local/overview")
    page.get_by_role("heading", name="All is well").wait_for()
    lost = BROKERS - 1
    brokers.brokers[lost].kill()
    began = time.monotonic()
    page.get_by_role("heading", name=f"broker {lost} is fenced").wait_for()
    return time.monotonic() - began


def report(found: dict[str, list[float]], console: ConsoleProcess, topics: int) -> None:
    assert console.process is not None
    memory = console.process.resident_bytes() / 2**20
    print(f"{topics:,} topics; load {os.getloadavg()[0]:.1f}; console {memory:.0f} MiB")
    for name, values in found.items():
        print(f"{name}: best {min(values):.0f} ms, median {statistics.median(values):.0f} ms")


def main(topics: int) -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        with BarnabasCluster(folder) as brokers:
            asyncio.run(create_topics(brokers.bootstrap, topics))
            with ConsoleProcess(folder, brokers.bootstrap) as console:
                with sync_playwright() as playwright, running_browser(playwright) as browser:
                    found: Any = measured(browser, console.address)
                    death_seconds = measured_death(browser, console.address, brokers)
                report(found, console, topics)
                print(f"killed broker to its being shown: {death_seconds:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TOPICS)
