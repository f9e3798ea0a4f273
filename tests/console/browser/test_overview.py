"""Traffic of the start page, what a broker holds, and counts that are no more than a bound."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.chromium import WatchedPage
from tests.support.scripted_api import ScriptedApi

PICTURES = os.environ.get("PICTURES")
#: What was before the console was started is a gap.
TREND = [None] * 12 + [float(20 + number * number % 17) for number in range(18)]
HELD = 1_200


def broker(node_id: int, **facts: Any) -> dict[str, Any]:
    """A row of a broker."""
    return {
        "id": node_id,
        "host": f"broker-{node_id}.example",
        "port": 9092,
        "rack": None,
        "state": "ready",
        "safe": "yes",
        "reason": None,
        "leaders": 138,
        "under_replicated": 0,
        "disk_used_bytes": 61 << 30,
        "disk_total_bytes": 100 << 30,
        "loop_lag_ms": 0.4,
        "is_controller": node_id == 0,
        "is_fenced": False,
        "drain": None,
        "load": TREND,
        "load_unit": "bytes",
        **facts,
    }


def overview(_: Mapping[str, str]) -> dict[str, Any]:
    """A cluster with traffic, one of whose brokers drains."""
    drained = broker(1, drain="draining", leaders=12, safe="no", reason="orders-0 cannot spare it")
    return {
        "health": {"state": "fine", "sentence": "All is well: 3 brokers"},
        "brokers": [broker(0), drained, broker(2)],
        "troubles": [],
        "groups": [],
        "traffic": [
            {
                "direction": "in",
                "records_per_second": 1204.0,
                "records_trend": TREND,
                "bytes_per_second": 3.1 * (1 << 20),
                "bytes_trend": TREND,
            },
            {
                "direction": "out",
                "records_per_second": 900.0,
                "records_trend": TREND,
                "bytes_per_second": None,
                "bytes_trend": None,
            },
        ],
        "command": "barnabas cluster status",
        "as_of_ms": 0,
    }


def partitions(query: Mapping[str, str]) -> dict[str, Any]:
    """A page of what a broker holds."""
    first = int(query.get("offset", 0))
    rows = [
        {
            "topic": f"orders.of.a.country.with.a.long.name.{number:04}",
            "partition": 0,
            "role": "leader" if number % 3 == 0 else "follower",
            "leader": 1 if number % 3 == 0 else 2,
            "in_sync": number % 5 != 1,
            "size_bytes": number * 4096,
        }
        for number in range(first, min(HELD, first + int(query.get("limit", 100))))
    ]
    return {"total": HELD, "rows": rows, "as_of_ms": 0}


def answers(watched: WatchedPage) -> ScriptedApi:
    api = ScriptedApi(watched.page)
    api.answers["overview"] = overview
    api.answers["brokers/1"] = lambda _: {
        **broker(1, drain="draining", leaders=12),
        "directories": None,
    }
    api.answers["brokers/1/partitions"] = partitions
    return api


def test_traffic_in_and_out_is_on_the_start_page(scripted: WatchedPage) -> None:
    """CON-110: now, and the last hour as a line; what nobody tells is left out."""
    answers(scripted)
    page = scripted.page
    page.goto("/orders-prod/overview")
    lines = page.locator(".traffic > div")
    expect(lines).to_have_count(2)
    expect(lines.nth(0)).to_contain_text("1,204 records/s written")
    expect(lines.nth(0)).to_contain_text("3.1 MiB/s with replication")
    expect(lines.nth(0).get_by_role("img")).to_have_count(2)
    expect(lines.nth(1)).to_contain_text("900 records/s read by groups")
    expect(lines.nth(1).get_by_role("img", name="Records read by groups")).to_be_visible()
    expect(lines.nth(1)).not_to_contain_text("with replication")
    load = page.get_by_role("table", name="Brokers").get_by_role("img", name="Load of broker 0")
    expect(load).to_be_visible()


def test_a_broker_that_drains_says_what_is_left(scripted: WatchedPage) -> None:
    """CON-111, CON-121."""
    answers(scripted)
    scripted.page.goto("/orders-prod/overview")
    table = scripted.page.get_by_role("table", name="Brokers")
    expect(table).to_contain_text("draining, 12 leaders left")


def test_partitions_of_a_broker_come_by_pages(scripted: WatchedPage) -> None:
    """CON-111: more than a thousand of them, of which the page asks for those that are seen."""
    api = answers(scripted)
    page = scripted.page
    page.goto("/orders-prod/brokers/1")
    expect(page.get_by_text("1,200 partitions")).to_be_visible()
    table = page.get_by_role("table", name="Partitions")
    first = table.locator("tbody tr.opens").first
    expect(first).to_contain_text("name.0000-0")
    expect(first).to_contain_text("leader")
    expect(table.locator("tbody tr.opens").nth(1)).to_contain_text("out of sync")
    page.mouse.wheel(0, 20_000)
    expect(table.get_by_text("name.0620-0")).to_be_visible()
    asked = {one for one in api.asked if one.startswith("brokers/1/partitions")}
    assert any("offset=0&" in one for one in asked)
    assert any("offset=600&" in one for one in asked)
    assert not any("offset=300&" in one for one in asked)
    page.get_by_role("searchbox", name="Search partitions").fill("orders")
    expect(page.get_by_text("1,200 found")).to_be_visible()


def test_counts_of_offsets_are_bounds(scripted: WatchedPage) -> None:
    """CON-112: not every offset is a record, unless there are none."""
    api = answers(scripted)
    place = {
        "leader": 0,
        "leader_epoch": 3,
        "replicas": [0, 1],
        "in_sync": [0, 1],
        "start_offset": 0,
        "size_bytes": 10,
    }
    rows = [
        {**place, "partition": 0, "end_offset": 1204, "records": 1204, "records_exact": False},
        {**place, "partition": 1, "end_offset": 0, "records": 0, "records_exact": True},
    ]
    api.answers["topics/orders"] = lambda _: {"partition_list": rows, "command": "barnabas"}
    page = scripted.page
    page.goto("/orders-prod/topics/orders/partitions")
    expect(page.get_by_text("2 partitions, ≤ 1,204 records")).to_be_visible()
    cells = page.get_by_role("table", name="Partitions").locator("tbody tr")
    expect(cells.nth(0)).to_contain_text("≤ 1,204")
    expect(cells.nth(1)).not_to_contain_text("≤")


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["overview", "brokers/1", "brokers/1/settings"])
def test_pages_with_traffic_and_partitions_fit(
    page: str, theme: Any, width: int, scripted: WatchedPage
) -> None:
    """CON-171, CON-154: axe is clean, no error, and nothing scrolls sideways."""
    answers(scripted)
    window = scripted.page
    window.set_viewport_size({"width": width, "height": 800})
    window.emulate_media(color_scheme=theme)
    window.goto(f"/orders-prod/{page}")
    window.locator("main table, main .check").first.wait_for()
    assert not scripted.accessibility_violations()
    assert not scripted.scrolls_sideways()
    if PICTURES:
        name = f"traffic-{page.replace('/', '-')}-{theme}-{width}.png"
        window.screenshot(path=Path(PICTURES) / name)
