"""The records of a topic in a real browser: tasks with their clicks, and attacks by content."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import ConsumerRecord
from barnabas_client.producer.producer import Producer
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Header
from tests.support.chromium import WatchedPage
from tests.support.console_process import WatchedCluster, run
from tests.support.scripted_api import ScriptedApi

TOPIC = "purchases"
LETTERS = "purchases-dead"
BIG = 9_007_199_254_740_993
HOUR_MS = 3_600_000
PICTURES = os.environ.get("PICTURES")


@pytest.fixture(scope="module")
def purchases(cluster: WatchedCluster) -> None:
    """A topic with 300 records of the last days, and one with three dead letters of it."""

    async def create(admin: Admin) -> None:
        await cluster.brokers.create_topics(
            admin,
            NewTopic(name=TOPIC, partition_count=3, replication_factor=3),
            NewTopic(name=LETTERS, partition_count=1, replication_factor=3),
        )

    async def write() -> None:
        async with Producer(cluster.brokers.bootstrap) as producer:
            for number in range(300):
                value = {
                    "id": BIG + number,
                    "amount": number,
                    "name": "<img src=x onerror=alert(1)>",
                }
                producer.send(
                    TOPIC,
                    None if number % 50 == 49 else json.dumps(value).encode(),
                    key=f"user-{number % 7}".encode(),
                    headers=[("trace", b"<script>alert(2)</script>"), ("none", None)],
                )
            for number in range(3):
                producer.send(
                    LETTERS,
                    b'{"letter":%d}' % number,
                    key=b"k",
                    headers=[("__dlq.errors.topic", TOPIC.encode()), ("trace", b"t")],
                )
            await producer.flush()

    cluster.run(create)
    run(write)


pytestmark = pytest.mark.usefixtures("purchases")


def seek_topic(page: Page, topic: str) -> None:
    """From the start page to a topic, by typing."""
    page.goto("/")
    page.get_by_role("heading").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type(topic)
    page.get_by_role("option", name=topic, exact=False).first.wait_for()
    page.keyboard.press("Enter")
    rows_of(page).first.wait_for()


def rows_of(page: Page) -> Any:
    return page.locator("main table.rows tbody tr.opens")


def test_newest_records_are_one_search_away(watched: WatchedPage) -> None:
    """T1 (CON-101): no click at all."""
    page = watched.page
    seek_topic(page, TOPIC)
    expect(rows_of(page)).to_have_count(100)
    assert watched.clicks() <= 1


def test_record_is_found_by_time_and_field(watched: WatchedPage) -> None:
    """T2 (CON-101, CON-114): to the last digit of a 64-bit integer."""
    page = watched.page
    seek_topic(page, TOPIC)
    page.get_by_label("Begin at").select_option("time")
    page.get_by_label("Time", exact=True).fill("1h")
    page.get_by_label("Filter").fill(f"json.id={BIG + 120}")
    page.keyboard.press("Enter")
    expect(rows_of(page)).to_have_count(1)
    expect(page.get_by_text("All of the range was read.")).to_be_visible()
    rows_of(page).first.click()
    expect(page.locator(".tree-number").first).to_have_text(str(BIG + 120))
    assert watched.clicks() <= 2


def test_record_is_produced(watched: WatchedPage) -> None:
    """T3 (CON-101, CON-116)."""
    page = watched.page
    seek_topic(page, TOPIC)
    page.get_by_role("button", name="Produce…").click()
    page.get_by_label("Value as text").fill('{"made": "by hand"}')
    page.get_by_role("button", name="Produce", exact=True).click()
    page.get_by_text("Written at").wait_for()
    assert watched.clicks() <= 3
    page.keyboard.press("Escape")
    expect(rows_of(page).first).to_contain_text("by hand")


def test_record_that_is_shown_decoded_is_produced_again_by_its_bytes(
    watched: WatchedPage, cluster: WatchedCluster
) -> None:
    """CON-116: a number, or what a schema reads, is not written as the text that it is shown as."""
    page, number = watched.page, 1 << 40
    stored = number.to_bytes(8)

    async def create(admin: Admin) -> None:
        new = NewTopic(name="measurements", partition_count=1, replication_factor=3)
        await cluster.brokers.create_topics(admin, new)

    async def write() -> None:
        async with Producer(cluster.brokers.bootstrap) as producer:
            await producer.send("measurements", stored)

    cluster.run(create)
    run(write)
    page.goto("/orders-prod/topics/measurements/records?record=0:0")
    page.get_by_role("button", name="Produce again…").click()
    expect(page.get_by_label("Value as hex")).to_have_value(stored.hex())
    page.get_by_role("button", name="Produce", exact=True).click()
    page.get_by_text("Written at").wait_for()
    page.goto("/orders-prod/topics/measurements/records")
    expect(rows_of(page)).to_have_count(2)
    for place in range(2):
        expect(rows_of(page).nth(place)).to_contain_text(str(number))


def test_record_is_produced_again_with_all_bytes_of_its_headers(
    watched: WatchedPage, cluster: WatchedCluster
) -> None:
    """CON-116: what is no text, or no line of the form, is kept as it is, where it stood."""
    page, topic = watched.page, "traces"
    headers: list[Header] = [
        ("trace", b"x"),
        ("id", b"\x00\xff"),
        ("id", b"y=z"),
        ("a=b", b"1"),
        ("none", None),
        ("lines", b"1\r\n2"),
        ("", b"unnamed"),
    ]

    async def create(admin: Admin) -> None:
        new = NewTopic(name=topic, partition_count=1, replication_factor=3)
        await cluster.brokers.create_topics(admin, new)

    async def write() -> None:
        async with Producer(cluster.brokers.bootstrap) as producer:
            await producer.send(topic, b"value", key=b"", headers=headers)

    async def written() -> list[ConsumerRecord]:
        async with Consumer(cluster.brokers.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            records = aiter(consumer)
            return [await anext(records) for _ in range(3)]

    cluster.run(create)
    run(write)
    for is_left_out in (False, True):
        page.goto(f"/orders-prod/topics/{topic}/records?record=0:0")
        page.get_by_role("button", name="Produce again…").click()
        kept = page.get_by_role("list", name="Headers that are kept as they are")
        expect(kept.get_by_role("listitem")).to_have_count(4)
        expect(kept).to_contain_text("id: bytes 00ff")
        if is_left_out:
            kept.get_by_role("button", name="Leave out id").click()
        page.get_by_role("button", name="Produce", exact=True).click()
        page.get_by_text("Written at").wait_for()
    _, again, without = run(written)
    assert [*again.headers] == headers
    assert again.key == b""
    assert [*without.headers] == [one for one in headers if one != ("id", b"\x00\xff")]


def test_dead_letters_go_back_to_their_topic(watched: WatchedPage) -> None:
    """T4 (CON-101, CON-116): all at once, to the topic that their headers name."""
    page = watched.page
    seek_topic(page, LETTERS)
    page.get_by_role("button", name="Send 3 dead letters back…").click()
    page.get_by_role("button", name="Send 3 records").click()
    expect(page.get_by_text("written at")).to_have_count(3)
    assert watched.clicks() <= 4
    page.goto(f"/orders-prod/topics/{TOPIC}/records?filter=value~letter")
    expect(rows_of(page)).to_have_count(3)


def test_markup_in_records_is_text(watched: WatchedPage) -> None:
    """CON-172: in values, keys and headers, in the list and beside it."""
    page = watched.page
    page.goto(f"/orders-prod/topics/{TOPIC}/records?filter=json.amount%3D5")
    rows_of(page).first.click()
    expect(page.get_by_text("<script>alert(2)</script>")).to_be_visible()
    expect(page.locator(".tree-text", has_text="<img src=x")).to_be_visible()
    assert page.locator("main img, main script, dialog img, dialog script").count() == 0


def test_tail_shows_what_comes_and_pauses(cluster: WatchedCluster, watched: WatchedPage) -> None:
    """CON-113, CON-124: Space holds it; nothing that came meanwhile is lost."""
    page = watched.page
    page.goto(f"/orders-prod/topics/{TOPIC}/records?tail=1")
    expect(page.get_by_text("live")).to_be_visible()

    def write(text: bytes) -> None:
        async def send() -> None:
            async with Producer(cluster.brokers.bootstrap) as producer:
                await producer.send(TOPIC, text)

        run(send)

    expect(page.locator(".reading-status")).to_contain_text("live")
    write(b"first of the tail")
    expect(rows_of(page)).to_have_count(1)
    page.keyboard.press(" ")
    expect(page.get_by_text("paused")).to_be_visible()
    write(b"second of the tail")
    expect(page.get_by_text("1 record held")).to_be_visible()
    expect(rows_of(page)).to_have_count(1)
    page.keyboard.press(" ")
    expect(rows_of(page)).to_have_count(2)


def test_partition_of_a_topic_that_is_not_read_at_once_is_typed(scripted: WatchedPage) -> None:
    """CON-113: above 500 partitions one is to be chosen, and no list of them has been read."""
    page = scripted.page
    words = "choose at most 500 of the 600 partitions"

    def records(query: Mapping[str, str]) -> Any:
        number = query.get("partition")
        if number is None:
            return 400, {"error": "BAD_REQUEST", "message": words, "hint": "", "broker": None}
        ranges = [{"partition": int(number), "start": 0, "end": 0, "read_from": 0, "read_to": 0}]
        return {
            "rows": [],
            "older": None,
            "newer": None,
            "direction": "backwards",
            "is_end": True,
            "ranges": ranges,
            "problems": [],
            "bytes_read": 0,
        }

    api = ScriptedApi(page)
    api.answers["topics/wide/records"] = records
    page.goto("/orders-prod/topics/wide/records")
    expect(page.get_by_text(words)).to_be_visible()
    page.get_by_role("spinbutton", name="Partition").fill("599")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No records there")).to_be_visible()
    expect(page).to_have_url("/orders-prod/topics/wide/records?partition=599")
    field = page.get_by_role("spinbutton", name="Partition")
    expect(field).to_have_value("599")
    field.fill("")
    page.keyboard.press("Enter")
    expect(page.get_by_text(words)).to_be_visible()
    scripted.forget_errors("400")


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("part", ["list", "record", "form", "letters"])
def test_records_are_accessible_and_fit(
    part: str, theme: Any, width: int, watched: WatchedPage
) -> None:
    """CON-171, CON-154: the list, and what opens beside it."""
    page = watched.page
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=theme)
    topic = LETTERS if part == "letters" else TOPIC
    seek = "?filter=json.amount%3D5" if part == "record" else ""
    page.goto(f"/orders-prod/topics/{topic}/records{seek}")
    rows_of(page).first.wait_for()
    match part:
        case "record":
            rows_of(page).first.click()
            page.locator(".tree-number").first.wait_for()
        case "form":
            page.get_by_role("button", name="Produce…").click()
        case "letters":
            page.get_by_role("button", name="dead letters back").click()
            page.locator(".letters td").first.wait_for()
    assert not watched.accessibility_violations()
    assert not watched.scrolls_sideways()
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"console-records-{part}-{theme}-{width}.png")
