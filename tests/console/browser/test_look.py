"""How the page looks, where it can be measured: type, rows, charts, the narrowest window."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.chromium import WatchedPage
from tests.support.console_process import ConsoleProcess
from tests.support.keyboard_user import STOPS_MAX, KeyboardUser
from tests.support.scripted_api import ScriptedApi, listing, topic_rows

#: A folder for screenshots: `make console PICTURES=docs/images`.
PICTURES = os.environ.get("PICTURES")
#: 1280 px at a zoom of 400 %.
ZOOMED = {"width": 320, "height": 256}
T = [1_795_694_640_000 + 10_000 * place for place in range(6)]
LAG = [5, 7, None, None, 2, 1]


def style(watched: WatchedPage, place: str, name: str) -> str:
    """One property of the first element of a place, as the browser has worked it out."""
    element = watched.page.locator(place).first
    return str(element.evaluate("(element, name) => getComputedStyle(element)[name]", name))


def topics(watched: WatchedPage) -> None:
    """The list of a few topics."""
    api = ScriptedApi(watched.page)
    api.answers["topics"] = listing(topic_rows(["orders", "payments"]), "topic")
    watched.page.goto("/orders-prod/topics")
    watched.page.locator("tbody tr.opens").first.wait_for()


def row_height(watched: WatchedPage) -> float:
    """Pixels of the first row."""
    box = watched.page.locator("tbody tr.opens").first.bounding_box()
    assert box is not None
    return float(box["height"])


def test_type_is_the_system_s_with_figures_of_one_width(scripted: WatchedPage) -> None:
    """CON-150."""
    topics(scripted)
    assert style(scripted, "body", "fontFamily").startswith("system-ui")
    assert style(scripted, "body", "fontSize") == "14px"
    assert style(scripted, "body", "lineHeight") == "20px"
    assert style(scripted, "tbody td", "fontVariantNumeric") == "tabular-nums"
    assert 32 <= row_height(scripted) <= 33  # with its line


@pytest.fixture
def touched(browser: Any, lonely_console: ConsoleProcess) -> Iterator[WatchedPage]:
    """A tablet: wide, and touched by fingers."""
    context = browser.new_context(
        viewport={"width": 1024, "height": 768},
        base_url=lonely_console.address,
        has_touch=True,
        is_mobile=True,
    )
    context.set_default_timeout(10_000)
    opened = WatchedPage(context)
    yield opened
    context.close()
    assert not opened.wrongs


def test_rows_and_buttons_are_large_enough_for_fingers(touched: WatchedPage) -> None:
    """CON-150: 44 px."""
    topics(touched)
    assert row_height(touched) >= 44
    field = touched.page.get_by_role("searchbox", name="Search topics").bounding_box()
    assert field is not None
    assert field["height"] >= 44


def group_with_a_gap(watched: WatchedPage, series: dict[str, Any] | None = None) -> None:
    """A group's page whose history has a gap of two looks, if no other is given."""
    api = ScriptedApi(watched.page)
    partition = {"topic": "orders", "partition": 0, "committed": 1, "end_offset": 2}
    api.answers["groups/billing"] = lambda _: {
        "group": "billing",
        "state": "Stable",
        "type": "Consumer",
        "protocol": "consumer",
        "assignor": None,
        "coordinator": 0,
        "member_count": 0,
        "lag": 1,
        "lag_known": 1,
        "lag_seconds": 1,
        "arriving": 1,
        "reading": 1,
        "diagnosis": [],
        "members": [],
        "partition_list": [{**partition, "start_offset": 0, "lag": 1, "lag_seconds": 1}],
    }
    api.answers["series"] = lambda _: series or {"t": T, "columns": [LAG] * 4}
    watched.page.goto("/orders-prod/groups/billing")
    expect(watched.page.locator("figure.chart")).to_have_count(3)


def test_charts_name_their_unit_and_are_tables_with_their_gaps(scripted: WatchedPage) -> None:
    """CON-152: what is not known is no zero, and no line goes over it."""
    page = scripted.page
    group_with_a_gap(scripted)
    titles = page.locator("figcaption .chart-title")
    expect(titles).to_have_text(["Lag, records", "Behind, time", "Traffic, records/s"])
    lag = page.locator("figure.chart").first
    lag.get_by_role("button", name="Table").click()
    cells = lag.locator("tbody td")
    expect(cells).to_have_text(["1", "2", "\N{EN DASH}", "\N{EN DASH}", "7", "5"])
    assert not scripted.accessibility_violations()


#: Keeps what is written on each canvas since it was last wiped.
_KEEP_CANVAS_TEXT = """
window.drawn = new Map();
const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  window.drawn.set(this.canvas, []);
  return clearRect.apply(this, box);
};
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
  window.drawn.get(this.canvas)?.push(text);
  return fillText.call(this, text, ...place);
};
"""


@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_no_two_ticks_of_a_chart_say_the_same_time(scripted: WatchedPage, minutes: int) -> None:
    """CON-152: an axis whose ticks are seconds apart does not call them all by one minute."""
    page = scripted.page
    page.add_init_script(_KEEP_CANVAS_TEXT)
    times = [T[0] + 10_000 * place for place in range(6 * minutes)]
    series = {"t": times, "columns": [list(range(len(times)))] * 4}
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        group_with_a_gap(scripted, series)
        expect(page.locator(".drawing canvas")).to_have_count(3)
        for drawn in page.evaluate("[...drawn.values()]"):
            ticks = [text for text in drawn if re.fullmatch(r"\d\d:\d\d(:\d\d)?", text)]
            assert len(ticks) >= 2, drawn
            assert len(ticks) == len(set(ticks)), ticks
        if PICTURES:
            page.screenshot(path=Path(PICTURES) / f"console-charts-{minutes}-{width}.png")


def test_crosshair_is_shared_by_the_charts_of_a_page(scripted: WatchedPage) -> None:
    """CON-152: who points at a moment in one chart reads it in all."""
    page = scripted.page
    group_with_a_gap(scripted)
    expect(page.locator(".drawing canvas")).to_have_count(3)
    others = page.locator("figure.chart .u-legend .u-value")
    before = others.all_inner_texts()
    first = page.locator("figure.chart .u-over").first
    box = first.bounding_box()
    assert box is not None
    first.hover(position={"x": 2, "y": box["height"] / 2})
    # Time and line of each chart; the last has two lines.
    expect(others.nth(1)).to_have_text("5")
    expect(others.nth(3)).to_have_text("5 s")
    expect(others.nth(5)).to_contain_text("5")
    assert others.all_inner_texts() != before


def test_nothing_scrolls_sideways_at_a_zoom_of_400_percent(scripted: WatchedPage) -> None:
    """CON-154 (WCAG 1.4.10): reflow."""
    page = scripted.page
    page.set_viewport_size(ZOOMED)  # type: ignore[arg-type]
    topics(scripted)
    assert not scripted.scrolls_sideways()
    group_with_a_gap(scripted)
    assert not scripted.scrolls_sideways()


def test_pages_of_a_cluster_reflow_at_a_zoom_of_400_percent(watched: WatchedPage) -> None:
    """CON-154: the same with three brokers."""
    page = watched.page
    page.set_viewport_size(ZOOMED)  # type: ignore[arg-type]
    for place in ("overview", "brokers", "brokers/1", "groups", "cluster"):
        page.goto(f"/orders-prod/{place}")
        page.locator("main table, main .notice.empty").first.wait_for()
        assert not watched.scrolls_sideways(), place


@pytest.mark.parametrize(
    "place", ["overview", "brokers", "brokers/1", "topics", "groups", "cluster"]
)
def test_every_stop_of_tab_is_seen_at_a_zoom_of_400_percent(
    watched: WatchedPage, place: str
) -> None:
    """CON-154 (WCAG 2.4.11): nothing that can be used is hidden or covered, on the way or back."""
    page = watched.page
    page.set_viewport_size(ZOOMED)  # type: ignore[arg-type]
    page.goto(f"/orders-prod/{place}")
    page.locator("main table, main .notice.empty").first.wait_for()
    user = KeyboardUser(page)
    shown = page.locator("a, button, input, select, summary").locator("visible=true").count()
    for key in ("Tab", "Shift+Tab"):
        steps = [user.step(key) for _ in range(min(shown, STOPS_MAX))]
        assert steps.count(False) <= 1, "the focus was lost"
    assert not watched.accessibility_violations()


def test_phone_has_rows_of_two_lines_and_the_navigation_below(scripted: WatchedPage) -> None:
    """CON-154: at 360 px; each page's name is read, and each is a target for a finger."""
    page = scripted.page
    page.set_viewport_size({"width": 360, "height": 740})
    topics(scripted)
    row = page.locator("tbody tr.opens").first
    lines = row.locator(".line")
    expect(lines).to_have_count(2)
    above, below = (lines.nth(index).bounding_box() for index in (0, 1))
    assert above is not None and below is not None
    assert above["y"] + above["height"] <= below["y"] + 1
    navigation = page.get_by_role("navigation", name="Pages")
    box = navigation.bounding_box()
    assert box is not None
    assert (box["x"], box["y"] + box["height"]) == (0, 740)
    assert box["width"] >= 340  # a scrollbar may be beside it
    for link in navigation.get_by_role("link").all():
        target = link.bounding_box()
        assert target is not None and target["width"] >= 44 and target["height"] >= 44
        words = link.locator("span")
        assert words.evaluate("one => one.scrollWidth <= one.parentElement.clientWidth")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    last = page.locator("main").locator("p, tr").last.bounding_box()
    assert last is not None and last["y"] + last["height"] <= box["y"]
