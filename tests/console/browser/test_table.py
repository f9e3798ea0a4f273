"""Tables: many rows are few elements, keys walk them, and the focus stays where it is."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.chromium import WatchedPage
from tests.support.scripted_api import ScriptedApi, listing, topic_rows

MANY = [f"team-{number:05}" for number in range(10_000)]
ROWS_MAX = 90


def opened(watched: WatchedPage, names: list[str]) -> ScriptedApi:
    """The topics' page with these."""
    api = ScriptedApi(watched.page)
    api.answers["topics"] = listing(topic_rows(names), "topic")
    watched.page.goto("/orders-prod/topics")
    watched.page.locator("tbody tr.opens").first.wait_for()
    return api


def focused(watched: WatchedPage) -> str:
    """The text of what has the focus."""
    return str(watched.page.evaluate("document.activeElement.textContent"))


def test_ten_thousand_rows_are_few_elements(scripted: WatchedPage) -> None:
    """CON-112, CON-174: the page has the rows that are seen, at the top and far below."""
    page = scripted.page
    opened(scripted, MANY)
    assert page.locator("tbody tr").count() < ROWS_MAX
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("link", name=MANY[-1])).to_be_visible()
    assert page.locator("tbody tr").count() < ROWS_MAX
    assert page.locator("table").get_attribute("aria-rowcount") == str(len(MANY) + 1)


def test_keys_walk_the_rows_as_fast_as_they_come(scripted: WatchedPage) -> None:
    """CON-124: `j` and `k` move the focus by one row each, beyond what is seen, too."""
    page = scripted.page
    opened(scripted, MANY)
    for _ in range(61):
        page.keyboard.press("j")
    page.keyboard.press("k")
    row = page.get_by_role("link", name=MANY[59])
    expect(row).to_be_focused()
    expect(row).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"/orders-prod/topics/{MANY[59]}")


def test_focus_stays_over_refreshes_and_scrolling(scripted: WatchedPage) -> None:
    """CON-154: nobody who reads by keyboard is thrown to the top by a poll."""
    page = scripted.page
    api = opened(scripted, MANY)
    for _ in range(3):
        page.keyboard.press("j")
    row = page.get_by_role("link", name=MANY[2])
    expect(row).to_be_focused()
    before = len(api.asked)
    api.answers["topics"] = listing(topic_rows(["a-new-one", *MANY]), "topic")
    expect(page.get_by_text("10,001 topics")).to_be_visible(timeout=15_000)
    assert len(api.asked) > before
    expect(row).to_be_focused()
    page.evaluate("scrollTo(0, 32 * 6_300)")
    expect(page.get_by_role("link", name=MANY[6300])).to_be_visible()
    assert focused(scripted) == MANY[2]


def test_search_and_sorting_are_in_the_address(scripted: WatchedPage) -> None:
    """CON-124: what is seen can be sent to somebody else."""
    page = scripted.page
    opened(scripted, MANY)
    page.keyboard.press("/")
    page.keyboard.type("00017")
    expect(page.get_by_text("1 found")).to_be_visible()
    page.get_by_role("button", name="Size").click()
    expect(page).to_have_url("/orders-prod/topics?q=00017&sort=-size_bytes")
    page.reload()
    expect(page.get_by_text("1 found")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Size")).to_have_attribute(
        "aria-sort", "descending"
    )


def test_search_finds_what_the_next_reading_brings(scripted: WatchedPage) -> None:
    """CON-114: a topic made just now is not said to be missing for long, and nobody types anew."""
    page = scripted.page
    api = opened(scripted, ["orders"])
    page.get_by_role("combobox", name="Search topics and groups").click()
    page.keyboard.type("invoices")
    hits = page.get_by_role("listbox", name="Topics and groups")
    expect(hits).to_contain_text("No topic and no group")
    api.answers["topics"] = listing(topic_rows(["orders", "invoices"]), "topic")
    expect(hits).to_contain_text("invoices")


def test_single_keys_can_be_switched_off(scripted: WatchedPage) -> None:
    """CON-124, WCAG 2.1.4: dictation must not send somebody to another page."""
    page = scripted.page
    opened(scripted, MANY[:3])
    page.keyboard.press("?")
    page.get_by_label("Single keys do this").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("o")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.url.endswith("/topics")


def test_markup_in_names_is_text(scripted: WatchedPage) -> None:
    """CON-172: a name is shown as it is, and nothing of it runs."""
    name = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>'
    opened(scripted, [name])
    expect(scripted.page.get_by_text(name)).to_be_visible()
    assert not scripted.page.evaluate("'ran' in window")


def test_partition_of_a_topic_with_a_long_name_keeps_its_number(scripted: WatchedPage) -> None:
    """CON-111, CON-118: two partitions of one topic looked the same, cut before what differs."""
    page = scripted.page
    page.set_viewport_size({"width": 390, "height": 844})
    api = ScriptedApi(page)
    api.answers["brokers/0"] = lambda _: {
        "id": 0,
        "host": "127.0.0.1",
        "port": 9092,
        "rack": None,
        "leaders": 1,
        "under_replicated": 0,
        "is_controller": True,
        "loop_lag_ms": 1_682.0,
        "safe": True,
        "reason": "",
        "state": "fine",
        "drain": None,
        "directories": None,
        "as_of_ms": 0,
    }
    rows = [
        {
            "topic": "orders-of-a-country." * 10,
            "partition": number,
            "role": "leader",
            "leader": 0,
            "in_sync": True,
            "size_bytes": 1,
        }
        for number in range(2)
    ]
    api.answers["brokers/0/partitions"] = lambda _: {"total": 2, "rows": rows, "as_of_ms": 0}
    page.goto("/orders-prod/brokers/0")
    names = page.locator(".partition-name")
    expect(names).to_have_count(2)
    for number, name in enumerate(names.all()):
        expect(name).to_contain_text(f"-{number}")
        is_whole = "one => one.scrollWidth <= one.clientWidth && one.clientWidth < innerWidth"
        assert name.evaluate(is_whole)
    expect(page.get_by_text("1.7 s")).to_be_visible()
