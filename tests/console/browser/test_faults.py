"""What is seen while brokers of Barnabas and the console die and come back."""

from __future__ import annotations

from playwright.sync_api import expect

from barnabas_client.producer.producer import Producer
from tests.console.browser.faults_of_any_cluster import (
    LOST,
    SOON_MS,
    TOPIC,
    is_marked,
    mark,
    replicated,
    test_group_changed_after_the_preview_is_not_reset,
    test_killed_broker_is_seen_and_so_is_its_return,
    test_tail_goes_on_when_the_leader_is_killed,
    test_topic_deleted_under_a_scan_is_told,
    test_who_may_be_stopped_is_on_the_first_page,
)
from tests.support.chromium import WatchedPage
from tests.support.console_process import WatchedCluster, run

__all__ = [
    "replicated",
    "test_group_changed_after_the_preview_is_not_reset",
    "test_killed_broker_is_seen_and_so_is_its_return",
    "test_tail_goes_on_when_the_leader_is_killed",
    "test_topic_deleted_under_a_scan_is_told",
    "test_who_may_be_stopped_is_on_the_first_page",
]


def test_killed_broker_is_shown_on_the_open_page(
    replicated: WatchedCluster, watched: WatchedPage
) -> None:
    """CON-173: which one, without loading anew; `benchmarks.console_paint` measures how soon."""
    page = watched.page
    page.goto("/orders-prod/overview")
    expect(page.get_by_role("heading", name="All is well")).to_be_visible(timeout=SOON_MS)
    mark(page)
    replicated.brokers.brokers[LOST].kill()
    away = page.get_by_role("heading", name=f"broker {LOST} is fenced")
    expect(away).to_be_visible(timeout=SOON_MS)
    assert is_marked(page)


def test_console_killed_under_a_tail_is_told_and_goes_on(
    replicated: WatchedCluster, watched: WatchedPage
) -> None:
    """CON-173: what came stays, with words on it; one button follows again, without a reload."""
    page = watched.page
    page.goto(f"/orders-prod/topics/{TOPIC}/records?tail=1")
    expect(page.locator(".reading-status")).to_contain_text("live")
    mark(page)
    write(replicated, b"before the end")
    rows = page.locator("main table.rows tbody tr.opens")
    expect(rows).to_have_count(1)
    replicated.console.kill()
    expect(page.get_by_role("alert")).to_contain_text("The connection to the console is lost.")
    expect(rows).to_have_count(1)
    replicated.console.start()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".reading-status")).to_contain_text("live")
    write(replicated, b"after the return")
    expect(rows.first).to_contain_text("after the return")
    assert is_marked(page)
    watched.forget_errors("ERR_")


def write(replicated: WatchedCluster, value: bytes) -> None:
    async def send() -> None:
        async with Producer(replicated.brokers.bootstrap) as producer:
            await producer.send(TOPIC, value)

    run(send)


def test_killed_console_leaves_old_facts_and_comes_back(
    cluster: WatchedCluster, watched: WatchedPage
) -> None:
    """CON-173, CON-153: greyed with their age, and anew without a reload."""
    console = cluster.console
    page = watched.page
    page.goto("/orders-prod/brokers")
    expect(page.get_by_role("link", name="1", exact=False).first).to_be_visible()
    page.evaluate("window.isTheSame = true")
    console.kill()
    expect(page.get_by_text("as of")).to_be_visible(timeout=SOON_MS)
    expect(page.get_by_role("table", name="Brokers")).to_be_visible()
    console.start()
    expect(page.get_by_text("as of")).to_have_count(0, timeout=SOON_MS)
    assert page.evaluate("window.isTheSame")
    watched.forget_errors("ERR_")
