"""The ten tasks by keyboard alone, with the focus seen all the way (CON-171, CON-154).

No press of the mouse; after each dialog the focus is back where it was.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.support.chromium import WatchedPage
from tests.support.console_process import WatchedCluster
from tests.support.console_tasks import LAG, LETTERS, STANDS_AT, TaskNames, committed, fill
from tests.support.keyboard_user import KeyboardUser
from tests.support.scripted_api import ScriptedApi

NAMES = TaskNames(
    topic="keyed-payments",
    dead="keyed-payments.dead",
    read="keyed-invoices",
    group="keyed-billing",
    spark="spark-kafka-source-77aa22c0-driver-0",
)
#: The console looks at groups every ten seconds, and machines of tests are busy.
LOOKED_MS = 60_000


@pytest.fixture(scope="module")
def filled(cluster: WatchedCluster) -> None:
    """What the tasks are about."""
    fill(cluster, NAMES)


@pytest.fixture
def user(filled: None, watched: WatchedPage) -> KeyboardUser:
    """Somebody at the start page."""
    watched.page.goto("/")
    watched.page.get_by_role("heading", level=1).wait_for()
    return KeyboardUser(watched.page)


def open_by_search(user: KeyboardUser, name: str) -> None:
    """`/`, a part of the name, Enter."""
    user.press("/")
    field = user.page.get_by_role("combobox", name="Search topics and groups")
    expect(field).to_be_focused()
    user.type(name)
    expect(user.page.get_by_role("option").first).to_contain_text(name)
    user.press("Enter")


def open_records(user: KeyboardUser, topic: str) -> Locator:
    open_by_search(user, topic)
    table = user.page.get_by_role("table", name=f"Records of {topic}")
    expect(table).to_be_visible()
    return table


def open_group(user: KeyboardUser, group: str) -> None:
    open_by_search(user, group)
    expect(user.page.get_by_role("heading", level=1)).to_contain_text(group)


def test_newest_record_is_read_by_keys(user: KeyboardUser, watched: WatchedPage) -> None:
    """T1: also what is in it; the drawer gives the focus back to the row."""
    page = user.page
    open_records(user, NAMES.topic)
    user.press("j")
    user.see_focus()
    row = page.locator("tbody .row-name").first
    expect(row).to_be_focused()
    user.press("Enter")
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text('currency: "EUR"')
    assert not watched.accessibility_violations()
    user.tab_to(drawer.get_by_role("button", name="Close"), "Shift+Tab")
    user.press("Escape")
    expect(drawer).to_have_count(0)
    expect(row).to_be_focused()
    user.see_focus()
    assert watched.clicks() == 0


def test_record_is_found_by_keys(user: KeyboardUser, watched: WatchedPage) -> None:
    """T2: on this page `/` is its own filter."""
    page = user.page
    open_records(user, NAMES.topic)
    user.press("/")
    expect(page.get_by_role("searchbox", name="Filter")).to_be_focused()
    user.see_focus()
    user.type("time>1h json.amount=42")
    user.press("Enter")
    expect(page.locator("tbody tr.opens")).to_have_count(1)
    expect(page.get_by_text('{"amount":42,"currency":"EUR"}')).to_be_visible()
    assert watched.clicks() == 0


def test_record_is_produced_by_keys(user: KeyboardUser, watched: WatchedPage) -> None:
    """T3."""
    page = user.page
    open_records(user, NAMES.topic)
    opener = page.get_by_role("button", name="Produce…")
    user.tab_to(opener)
    user.press("Enter")
    expect(page.get_by_label("Value as text")).to_be_focused()
    user.type('{"amount":1000000}')
    assert not watched.accessibility_violations()
    user.tab_to(page.get_by_role("button", name="Produce", exact=True))
    user.press("Enter")
    expect(page.get_by_text("Written at")).to_be_visible()
    user.see_focus()
    user.press("Escape")
    expect(opener).to_be_focused()
    user.see_focus()
    expect(page.get_by_text('{"amount":1000000}')).to_be_visible()
    assert watched.clicks() == 0


def test_dead_letters_go_back_by_keys(user: KeyboardUser, watched: WatchedPage) -> None:
    """T4."""
    page = user.page
    open_records(user, NAMES.dead)
    opener = page.get_by_role("button", name=f"Send {LETTERS} dead letters back…")
    user.tab_to(opener)
    user.press("Enter")
    user.tab_to(page.get_by_role("button", name=f"Send {LETTERS} records"))
    user.press("Enter")
    expect(page.get_by_role("dialog").get_by_text("written at")).to_have_count(LETTERS)
    user.see_focus()
    user.press("Escape")
    expect(opener).to_be_focused()
    assert watched.clicks() == 0


def test_why_a_consumer_is_stuck_is_told_by_keys(user: KeyboardUser, watched: WatchedPage) -> None:
    """T5: and what can be done about it is in the way of Tab."""
    open_group(user, NAMES.group)
    findings = user.page.locator(".findings")
    words = f"No members: {LAG} records wait in {NAMES.read}-0."
    expect(findings).to_contain_text(words, timeout=LOOKED_MS)
    user.tab_to(user.page.get_by_role("button", name="Reset offsets"))
    assert watched.clicks() == 0


def test_offsets_are_reset_by_keys(
    user: KeyboardUser, watched: WatchedPage, cluster: WatchedCluster
) -> None:
    """T6: there and back."""
    page = user.page
    open_group(user, NAMES.group)
    opener = page.get_by_role("button", name="Reset offsets")
    user.tab_to(opener)
    user.press("Enter")
    expect(page.get_by_label("To", exact=True)).to_be_focused()
    user.type("the first")
    preview = page.get_by_role("group", name="Preview")
    expect(preview.get_by_role("row", name=f"{NAMES.read}-0")).to_contain_text(f"{STANDS_AT}0")
    assert not watched.accessibility_violations()
    user.tab_to(page.get_by_role("button", name="Reset", exact=True))
    user.press("Enter")
    expect(page.get_by_text("Done: 1 item")).to_be_visible()
    assert committed(cluster, NAMES) == 0
    user.see_focus()
    user.tab_to(page.get_by_role("button", name="Undo…"), "Shift+Tab")
    user.press("Enter")
    expect(page.get_by_role("button", name="Undo", exact=True)).to_be_focused()
    user.press("Enter")
    expect(page.get_by_text("Done: 1 item")).to_be_visible()
    assert committed(cluster, NAMES) == STANDS_AT
    user.press("Escape")
    expect(opener).to_be_focused()
    user.see_focus()
    assert watched.clicks() == 0


def test_who_may_be_stopped_needs_no_key(user: KeyboardUser, watched: WatchedPage) -> None:
    """T7."""
    safe = user.page.get_by_role("table", name="Brokers").get_by_text("yes", exact=True)
    expect(safe).to_have_count(3, timeout=LOOKED_MS)
    assert watched.clicks() == 0


def test_what_is_under_replicated_is_opened_by_keys(scripted: WatchedPage) -> None:
    """T8: the list of partitions opens, and each is a link."""
    api = ScriptedApi(scripted.page)
    cause = "1 partition under-replicated: broker 2 catches up"
    why = "needs 1.2 GiB"
    api.answers["overview"] = lambda _: {
        "health": {"state": "warning", "sentence": "Degraded"},
        "brokers": [],
        "troubles": [
            {
                "cause": cause,
                "count": 1,
                "state": "warning",
                "partitions": [{"topic": "orders", "partition": 0, "why": why}],
            }
        ],
        "groups": [],
        "traffic": [],
        "command": "barnabas cluster describe",
        "as_of_ms": 0,
    }
    user = KeyboardUser(scripted.page)
    user.page.goto("/orders-prod/overview")
    user.tab_to(user.page.locator("summary").filter(has_text=cause))
    user.press("Enter")
    expect(user.page.get_by_text(why)).to_be_visible()
    user.tab_to(user.page.get_by_role("link", name="orders-0"))
    assert not scripted.accessibility_violations()
    assert scripted.clicks() == 0


def test_what_the_operator_waits_for_is_shown_by_keys(operated: WatchedPage) -> None:
    """T9: `g k`; the approving command is copied by its own button."""
    user = KeyboardUser(operated.page)
    user.page.goto("/")
    user.page.get_by_role("heading", level=1).wait_for()
    user.press("g", "k")
    expect(user.page.get_by_text("restart 2 (image)")).to_be_visible()
    expect(user.page.get_by_text("approval", exact=True)).to_be_visible()
    approval = user.page.locator(".copy").filter(has_text="barnabas.dev/approve=9f3c")
    user.tab_to(approval.get_by_role("button"))
    assert operated.clicks() == 0


def test_lag_of_a_spark_job_is_a_table_by_keys(user: KeyboardUser, watched: WatchedPage) -> None:
    """T10: a drawing says nothing to who cannot see it; the same numbers are a table."""
    open_group(user, NAMES.spark)
    chart = user.page.locator("figure.chart").first
    chart.wait_for(timeout=LOOKED_MS)
    user.tab_to(chart.get_by_role("button", name="Table"))
    user.press("Enter")
    expect(chart.locator("tbody td").first).to_have_text(str(LAG))
    user.see_focus()
    assert not watched.accessibility_violations()
    assert watched.clicks() == 0
