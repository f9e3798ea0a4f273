"""What is seen while brokers and the console die and come back, without loading the page anew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.producer.producer import Producer
from barnabas_protocol.ids import TopicPartition
from tests.support.chromium import WatchedPage
from tests.support.console_process import WatchedCluster

#: Machines of tests are busy.
SOON_MS = 20_000
TOPIC = "replicated"
LOST = 2
#: What the topic gets in a test: all of it fits on the page.
COUNT = 120


@pytest.fixture
def replicated(cluster: WatchedCluster) -> Iterator[WatchedCluster]:
    """Three brokers with a topic on all of them; whoever was killed is back at the end."""

    async def create(admin: Admin) -> None:
        if TOPIC not in {listing.name for listing in await admin.topics.list()}:
            topic = NewTopic(name=TOPIC, partition_count=6, replication_factor=3)
            await cluster.brokers.create_topics(admin, topic)

    async def recover(admin: Admin) -> None:
        await cluster.brokers.until_formed(admin)
        await cluster.brokers.until_in_sync(admin, [TOPIC])

    cluster.run(create)
    yield cluster
    cluster.brokers.start()
    cluster.run(recover)


def test_killed_broker_is_seen_and_so_is_its_return(
    replicated: WatchedCluster, watched: WatchedPage
) -> None:
    """CON-173, T8: the page tells by itself; one click says which partitions, and why."""
    page = watched.page
    page.goto("/orders-prod/overview")
    expect(page.get_by_role("heading", name="All is well")).to_be_visible(timeout=SOON_MS)
    replicated.brokers.brokers[LOST].kill()
    expect(page.get_by_role("heading", name="Degraded")).to_be_visible(timeout=SOON_MS)
    trouble = page.get_by_text(f"under-replicated: broker {LOST}")
    expect(trouble).to_be_visible(timeout=SOON_MS)
    trouble.click()
    # A few of them: other tests' topics have replicas there, too.
    expect(page.locator(".trouble-partitions").get_by_role("link").first).to_be_visible()
    assert watched.clicks() == 1
    replicated.brokers.start()
    expect(page.get_by_role("heading", name="All is well")).to_be_visible(timeout=3 * SOON_MS)


def mark(page: Page) -> None:
    """Loading the page anew would take this off."""
    page.evaluate("window.isTheSame = true")


def is_marked(page: Page) -> bool:
    return bool(page.evaluate("window.isTheSame === true"))


def test_tail_goes_on_when_the_leader_is_killed(
    replicated: WatchedCluster, watched: WatchedPage
) -> None:
    """CON-173: every record once, in order, on the page that was open all the time."""
    page = watched.page
    page.goto(f"/orders-prod/topics/{TOPIC}/records?tail=1&partition=0")
    expect(page.locator(".reading-status")).to_contain_text("live")
    mark(page)
    with ThreadPoolExecutor(1) as thread:
        written = thread.submit(asyncio.run, write_while_leader_dies(replicated))
        rows = page.locator("main table.rows tbody tr.opens")
        expect(rows.first).to_contain_text(f"number {COUNT - 1} of", timeout=3 * SOON_MS)
        written.result()
    numbers = [words.split("number ")[1].split(" of")[0] for words in texts_of(page, COUNT)]
    assert [int(number) for number in numbers] == list(reversed(range(COUNT)))
    expect(page.get_by_text("live")).to_be_visible()
    assert is_marked(page)


async def write_while_leader_dies(replicated: WatchedCluster) -> None:
    """Write numbers to a partition, one after the other, and kill its leader in between."""
    bootstrap = replicated.brokers.bootstrap
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        for number in range(COUNT):
            if number == COUNT // 3:
                described = (await admin.topics.describe([TOPIC])).unwrap()[TOPIC]
                leader = described.partitions[0].leader_id
                assert leader is not None
                replicated.brokers.brokers[leader].kill()
            await producer.send(TOPIC, b"number %d of the tail" % number, partition=0)


def texts_of(page: Page, count: int) -> list[str]:
    """All rows of a table of which the window has those that are seen, scrolled to the end."""
    expect(page.locator("main table.rows tbody tr.opens")).to_have_count(count)
    return page.locator("main table.rows tbody tr.opens").all_inner_texts()


def test_topic_deleted_under_a_scan_is_told(cluster: WatchedCluster, watched: WatchedPage) -> None:
    """CON-173, CON-136: not "no record passes", which would be a lie."""
    topic = "to-be-deleted"

    async def fill(admin: Admin) -> None:
        await cluster.brokers.create_topics(admin, NewTopic(name=topic, partition_count=2))
        async with Producer(cluster.brokers.bootstrap) as producer:
            values = [b'{"number":1,"more":"%s"}' % (b"x" * 200)] * 1_000
            for _ in range(150):
                await producer.send_many(topic, values)
            await producer.flush()

    async def delete(admin: Admin) -> None:
        (await admin.topics.delete([topic])).unwrap()

    cluster.run(fill)
    page = watched.page
    page.goto(f"/orders-prod/topics/{topic}/records?filter=json.number%3E1&at=oldest")
    expect(page.locator(".reading-status")).to_contain_text("searching")
    cluster.run(delete)
    # A scan that had read its share before goes on, and finds nothing to go on with.
    told = page.get_by_text("does not exist").or_(page.get_by_text("is not read"))
    more = page.get_by_role("button", name="Go on")
    expect(told.or_(more).first).to_be_visible(timeout=2 * SOON_MS)
    if not told.first.is_visible():
        more.click()
        expect(told.first).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_text("No record passes the filter")).to_have_count(0)
    watched.forget_errors("404")


def test_group_changed_after_the_preview_is_not_reset(
    cluster: WatchedCluster, watched: WatchedPage
) -> None:
    """CON-173, CON-120: nothing is done; the plan is shown as it would be now."""
    topic, group = "moved-under-preview", "moving-group"
    place = TopicPartition(topic, 0)

    async def fill(admin: Admin) -> None:
        await cluster.brokers.create_topics(admin, NewTopic(name=topic, partition_count=1))
        async with Producer(cluster.brokers.bootstrap) as producer:
            for _ in range(10):
                await producer.send(topic, b"x")
        (await admin.group_offsets.alter(group, {place: OffsetAndMetadata(7)})).unwrap()

    async def move(admin: Admin) -> None:
        (await admin.group_offsets.alter(group, {place: OffsetAndMetadata(8)})).unwrap()

    async def committed(admin: Admin) -> Any:
        found = (await admin.group_offsets.list([group])).unwrap()[group][place]
        return None if found is None else found.offset

    cluster.run(fill)
    page = watched.page
    page.goto(f"/orders-prod/groups/{group}")
    page.get_by_role("button", name="Reset offsets").click()
    page.get_by_label("To", exact=True).select_option("to_earliest")
    row = page.get_by_role("group", name="Preview").get_by_role("row", name=f"{topic}-0")
    expect(row).to_contain_text("70")
    cluster.run(move)
    page.get_by_role("button", name="Reset", exact=True).click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("has committed offsets since the preview")
    expect(row).to_contain_text("80")
    assert cluster.run(committed) == 8
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.get_by_text("Done: 1 item")).to_be_visible()
    assert cluster.run(committed) == 0
    watched.forget_errors("409")
    watched.forget_errors("404")  # of the history, which may not know the new group yet


def test_who_may_be_stopped_is_on_the_first_page(
    replicated: WatchedCluster, watched: WatchedPage
) -> None:
    """T7, CON-101, CON-110: no click; with one of three gone nobody may go, and why."""
    page = watched.page
    page.goto("/")
    safe = page.get_by_role("table", name="Brokers").get_by_text("yes", exact=True)
    expect(safe).to_have_count(3, timeout=SOON_MS)
    replicated.brokers.brokers[LOST].kill()
    brokers = page.get_by_role("table", name="Brokers")
    expect(brokers.get_by_text("no: it is fenced", exact=True)).to_have_count(1, timeout=SOON_MS)
    expect(brokers.get_by_text("no: ")).to_have_count(3, timeout=SOON_MS)
    assert watched.clicks() == 0
