"""Every page, light and dark, wide and narrow: accessible, within its window, nothing refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.producer.producer import Producer
from tests.support.chromium import WatchedPage
from tests.support.console_process import WatchedCluster, run

LONG = "payments.settled-by-the-bank-of-a-country-with-a-very-long-name.v2.retry.dead-letter"
RECORDS = 60
CUSTOMERS = ("alice", "bob", "dave", "erin")
#: A folder for screenshots: `make console PICTURES=docs/images`.
PICTURES = os.environ.get("PICTURES")
PAGES = {
    "overview": "overview",
    "brokers": "brokers",
    "broker": "brokers/1",
    "topics": "topics",
    "records": "topics/orders/records",
    "record": "topics/orders/records?record=0:0",
    "partitions": "topics/orders/partitions",
    "settings": "topics/orders/settings",
    "groups": "groups",
    "cluster": "cluster",
}


@pytest.fixture(scope="module")
def topics(cluster: WatchedCluster) -> None:
    """A few topics, one with as long a name as somebody would give."""

    async def create(admin: Admin) -> None:
        await cluster.brokers.create_topics(
            admin,
            NewTopic(
                name="orders",
                partition_count=12,
                replication_factor=3,
                configs={"retention.ms": "604800000"},
            ),
            NewTopic(name=LONG, partition_count=3, replication_factor=3),
        )

    async def produce() -> None:
        async with Producer(cluster.brokers.bootstrap) as producer:
            for number in range(RECORDS):
                customer = CUSTOMERS[number % len(CUSTOMERS)]
                value = {"order": 88_000 + number, "customer": customer, "amount": number * 7 % 240}
                await producer.send(
                    "orders",
                    json.dumps(value).encode(),
                    key=customer.encode(),
                    partition=number % 12,
                    headers=[("trace", b"4bf92f3577b34da6")],
                )

    cluster.run(create)
    run(produce)


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("topics")
def test_page_is_accessible_and_fits(
    page: str, theme: Any, width: int, watched: WatchedPage
) -> None:
    """CON-171, CON-154: axe is clean, no report, no error, and nothing scrolls sideways."""
    window = watched.page
    window.set_viewport_size({"width": width, "height": 800})
    window.emulate_media(color_scheme=theme)
    window.goto(f"/orders-prod/{PAGES[page]}")
    window.locator("main table, main .notice.empty").first.wait_for()
    assert not watched.accessibility_violations()
    assert not watched.scrolls_sideways()
    if PICTURES:
        window.screenshot(path=Path(PICTURES) / f"console-{page}-{theme}-{width}.png")


def test_frame_is_there_before_the_modules(watched: WatchedPage) -> None:
    """CON-174: the first paint waits for no script, and the page takes over what is there."""
    page = watched.page
    held: list[Any] = []
    page.route("**/main.js", lambda route: held.append(route))
    page.goto("/orders-prod/topics", wait_until="commit")
    brand = page.get_by_role("link", name="Barnabas", exact=True)
    expect(brand).to_be_visible()
    place = brand.bounding_box()
    watched.until(lambda: held)
    for route in held:
        route.continue_()
    expect(page.get_by_role("searchbox", name="Search topics")).to_be_visible()
    assert brand.bounding_box() == place
    expect(page.locator("header.top")).to_have_count(1)
    expect(page.locator("main")).to_have_count(1)
