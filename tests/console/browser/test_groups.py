"""Groups in a real browser: what is wrong is one click away, and every page of them fits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.sync_api import expect

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.producer.producer import Producer
from barnabas_protocol.ids import TopicPartition
from tests.support.chromium import WatchedPage
from tests.support.console_process import WatchedCluster

GROUP = "settlement-of-a-country-with-a-very-long-name.v2.retry <b>bold</b>"
TOPIC = "group-orders"
#: Other tests' groups may be behind, too; hundreds are well.
WORST = 8
PAGES = {
    "groups": "groups",
    "nothing found": "groups?q=nothing",
    "readers": f"topics/{TOPIC}/groups",
    "traffic": f"topics/{TOPIC}/traffic",
}


@pytest.fixture(scope="module")
def groups(cluster: WatchedCluster) -> None:
    """A topic with records, a group that left three of them, and hundreds that are well."""
    place = TopicPartition(TOPIC, 0)

    async def create(admin: Admin) -> None:
        new = NewTopic(name=TOPIC, partition_count=3, replication_factor=3)
        await cluster.brokers.create_topics(admin, new)
        async with Producer(cluster.brokers.bootstrap) as producer:
            for number in range(10):
                producer.send(TOPIC, b"%d" % number, partition=0)
        (await admin.group_offsets.alter(GROUP, {place: OffsetAndMetadata(7)})).unwrap()
        done = {place: OffsetAndMetadata(10)}
        await asyncio.gather(
            *(admin.group_offsets.alter(f"worker-{number:03}", done) for number in range(300))
        )

    cluster.run(create)


def open_list(watched: WatchedPage) -> Any:
    """The list once the console has looked at the groups."""
    watched.page.goto("/orders-prod/groups")
    told = watched.page.get_by_text("3 records wait", exact=False)
    told.first.wait_for(timeout=60_000)
    return told.first


@pytest.mark.usefixtures("groups")
def test_why_a_group_does_not_get_on_is_in_the_list_and_one_click_tells_all(
    watched: WatchedPage,
) -> None:
    """CON-101 (T5), CON-118, CON-119: the worst comes first among hundreds."""
    open_list(watched)
    page = watched.page
    # Those of other tests are among them.
    count, noun = page.get_by_role("status").first.inner_text().split()
    assert int(count) >= 301 and noun == "groups"
    worst = page.locator("tbody tr").all()[:WORST]
    first = next(row for row in worst if GROUP in row.inner_text())
    clicks = watched.clicks()
    first.get_by_role("link").click()
    finding = page.locator(".findings")
    finding.wait_for()
    assert f"No members: 3 records wait in {TOPIC}-0." in finding.inner_text()
    assert page.locator("h1").inner_text() == GROUP, "markup in a name is text (CON-172)"
    assert watched.clicks() - clicks == 1
    page.get_by_role("table", name="Partitions").get_by_text(f"{TOPIC}-0").wait_for()


@pytest.mark.usefixtures("groups")
def test_the_search_finds_groups_and_an_empty_list_says_so(watched: WatchedPage) -> None:
    """CON-153."""
    open_list(watched)
    watched.page.get_by_label("Search groups").fill("nothing-of-that")
    watched.page.get_by_text("No group has “nothing-of-that” in its name.").wait_for()


GONE = "left-behind"


@pytest.fixture
def left_behind(cluster: WatchedCluster) -> None:
    """A group without members, at offset 3 of a topic."""

    async def commit(admin: Admin) -> None:
        place = TopicPartition(TOPIC, 1)
        (await admin.group_offsets.alter(GONE, {place: OffsetAndMetadata(0)})).unwrap()

    cluster.run(commit)


def names(cluster: WatchedCluster) -> set[str]:
    """The groups that there are."""

    async def listed(admin: Admin) -> set[str]:
        return {one.group_id for one in await admin.groups.list()}

    found: set[str] = cluster.run(listed)
    return found


@pytest.mark.usefixtures("groups", "left_behind")
def test_a_group_is_deleted_once_its_name_is_typed_and_comes_back_by_the_undo(
    cluster: WatchedCluster, watched: WatchedPage
) -> None:
    """CON-120: what would be gone is shown first; who deletes it for good comes to the list."""
    page = watched.page
    page.goto(f"/orders-prod/groups/{GONE}")
    page.locator("summary", has_text="⋯").click()
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{TOPIC}-1")
    button = dialog.get_by_role("button", name="Delete", exact=True)
    expect(button).to_be_disabled()
    assert GONE in names(cluster)
    dialog.get_by_label(f"Type {GONE} to confirm").fill(GONE)
    button.click()
    expect(dialog).to_contain_text("Done: 1 item")
    assert GONE not in names(cluster)
    dialog.get_by_role("button", name="Undo…").click()
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(dialog).to_contain_text("Done: 1 item")
    assert GONE in names(cluster)
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(GONE)
    watched.forget_errors("404")  # while it was gone


@pytest.mark.usefixtures("groups", "left_behind")
def test_who_has_deleted_a_group_comes_to_the_list(
    cluster: WatchedCluster, watched: WatchedPage
) -> None:
    """CON-120: its page is not there any more."""
    page = watched.page
    page.goto(f"/orders-prod/groups/{GONE}")
    page.locator("summary", has_text="⋯").click()
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(f"Type {GONE} to confirm").fill(GONE)
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("Done: 1 item")
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("heading", name="Groups")).to_be_visible()
    assert GONE not in names(cluster)
    watched.forget_errors("404")


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", [*PAGES, "group"])
@pytest.mark.usefixtures("groups")
def test_pages_of_groups_are_accessible_and_fit(
    name: str, theme: Any, width: int, watched: WatchedPage
) -> None:
    """CON-171, CON-154: axe is clean, no report, no error, and nothing scrolls sideways."""
    page = watched.page
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=theme)
    if name == "group":
        open_list(watched)
        page.locator("tbody tr").first.get_by_role("link").click()
        page.locator(".findings").wait_for()
    else:
        page.goto(f"/orders-prod/{PAGES[name]}")
        page.locator("main table, main .notice").first.wait_for()
    assert not watched.accessibility_violations()
    assert not watched.scrolls_sideways()
