"""The everyday tasks, in no more clicks from the start page than `console.md` allows (CON-101).

Typing and Enter are free; a click is a press of the mouse that the browser counted. T7 and T8 are
in `faults_of_any_cluster.py`.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.chromium import WatchedPage
from tests.support.console_process import WatchedCluster
from tests.support.console_tasks import LAG, LETTERS, STANDS_AT, TaskNames, committed, fill

NAMES = TaskNames(
    topic="payments",
    dead="payments.dead",
    read="invoices",
    group="billing-of-customers",
    spark="spark-kafka-source-41b2c7d0-driver-0",
)
#: The console looks at groups every ten seconds, and machines of tests are busy.
LOOKED_MS = 60_000


@pytest.fixture(scope="module")
def payments(cluster: WatchedCluster) -> None:
    """A topic with records, one with dead letters of it, and groups that are behind."""
    fill(cluster, NAMES)


@pytest.fixture
def start(payments: None, watched: WatchedPage) -> WatchedPage:
    """The start page, as somebody sees it who has typed the console's address."""
    watched.page.goto("/")
    watched.page.get_by_role("heading", level=1).wait_for()
    return watched


def open_topic(page: Page, name: str) -> None:
    """One click and Enter."""
    page.get_by_role("combobox", name="Search topics and groups").click()
    page.keyboard.type(name)
    expect(page.get_by_role("option").first).to_contain_text(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("table", name=f"Records of {name}")).to_be_visible()


def open_group(page: Page, name: str) -> None:
    """One click and Enter."""
    page.get_by_role("combobox", name="Search topics and groups").click()
    page.keyboard.type(name)
    expect(page.get_by_role("option").first).to_contain_text(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)


def test_newest_records_are_one_click_away(start: WatchedPage) -> None:
    """T1: the search, and the newest is above."""
    open_topic(start.page, NAMES.topic)
    expect(start.page.get_by_text('{"amount":199,"currency":"EUR"}')).to_be_visible()
    assert start.clicks() <= 1


def test_record_is_found_by_time_and_field_in_two_clicks(start: WatchedPage) -> None:
    """T2: one filter for both, and only what passes is shown."""
    page = start.page
    open_topic(page, NAMES.topic)
    page.get_by_role("searchbox", name="Filter").click()
    page.keyboard.type("time>1h json.amount=42")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr.opens")).to_have_count(1)
    expect(page.get_by_text('{"amount":42,"currency":"EUR"}')).to_be_visible()
    assert start.clicks() <= 2


def test_test_record_is_produced_in_three_clicks(start: WatchedPage) -> None:
    """T3: the form has the cursor where the value goes."""
    page = start.page
    open_topic(page, NAMES.topic)
    page.get_by_role("button", name="Produce…").click()
    page.keyboard.type('{"amount":1000000}')
    page.get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_text("Written at")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text('{"amount":1000000}')).to_be_visible(timeout=LOOKED_MS)
    assert start.clicks() <= 3


def test_dead_letters_go_back_in_four_clicks(start: WatchedPage, cluster: WatchedCluster) -> None:
    """T4: all at once, to the topic that their headers name; each with its result."""
    page = start.page
    open_topic(page, NAMES.dead)
    page.get_by_role("button", name=f"Send {LETTERS} dead letters back…").click()
    page.get_by_role("button", name=f"Send {LETTERS} records").click()
    expect(page.get_by_role("dialog").get_by_text("written at")).to_have_count(LETTERS)
    assert start.clicks() <= 4
    page.goto(
        f"{cluster.console.address}/orders-prod/topics/{NAMES.topic}/records?filter=value~letter"
    )
    expect(page.locator("tbody tr.opens")).to_have_count(LETTERS)


def test_why_a_consumer_is_stuck_is_one_click_away(start: WatchedPage) -> None:
    """T5: the cause in words, with its evidence and a command."""
    page = start.page
    open_group(page, NAMES.group)
    findings = page.locator(".findings")
    expect(findings).to_contain_text(
        f"No members: {LAG} records wait in {NAMES.read}-0.", timeout=LOOKED_MS
    )
    assert start.clicks() <= 1


def test_offsets_are_reset_in_four_clicks_and_brought_back(
    start: WatchedPage, cluster: WatchedCluster
) -> None:
    """T6: what will be is shown before; what was is offered after, as a plan of its own."""
    page = start.page
    open_group(page, NAMES.group)
    page.get_by_role("button", name="Reset offsets").click()
    to = page.get_by_label("To", exact=True)
    expect(to).to_be_focused()  # the cursor is where one says where to
    to.select_option("to_earliest")
    preview = page.get_by_role("group", name="Preview")
    expect(preview.get_by_role("row", name=f"{NAMES.read}-0")).to_contain_text(f"{STANDS_AT}0")
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.get_by_text("Done: 1 item")).to_be_visible()
    assert committed(cluster, NAMES) == 0
    assert start.clicks() <= 3
    page.get_by_role("button", name="Undo…").click()
    expect(preview.get_by_role("row", name=f"{NAMES.read}-0")).to_contain_text(f"0{STANDS_AT}")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Done: 1 item")).to_be_visible()
    assert committed(cluster, NAMES) == STANDS_AT
    assert start.clicks() <= 4
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Reset offsets")).to_be_focused()


def test_lag_of_a_spark_job_over_the_last_hour_is_one_click_away(start: WatchedPage) -> None:
    """T10: in records and in time; what it is an application of is told beside its name."""
    page = start.page
    open_group(page, NAMES.spark)
    expect(page.get_by_role("heading", level=1)).to_contain_text("spark")
    lag = page.get_by_role("img", name=f"Lag; now: lag {LAG}")
    expect(lag).to_be_visible(timeout=LOOKED_MS)
    expect(page.get_by_text("Behind, time")).to_be_visible()
    expect(page.get_by_role("img", name="Behind; now: behind")).not_to_have_accessible_name(
        "Behind; now: behind unknown"
    )
    expect(lag.locator("canvas")).to_be_visible()
    assert start.clicks() <= 1
