"""What stands where facts would: empty lists, errors, and old facts with their age (CON-153)."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.chromium import WatchedPage
from tests.support.scripted_api import ScriptedApi, listing, topic_rows

FAILED = {
    "error": "NOT_CONTROLLER",
    "message": "No broker says who leads.",
    "hint": "Look at the arbiter.",
    "broker": 2,
}


def test_empty_list_says_what_would_fill_it(scripted: WatchedPage) -> None:
    """CON-153: the first minute with a new cluster has a next step."""
    ScriptedApi(scripted.page)
    scripted.page.goto("/orders-prod/topics")
    expect(scripted.page.get_by_text("There is no topic yet.")).to_be_visible()
    expect(scripted.page.get_by_text("barnabas topic create orders")).to_be_visible()


def test_search_without_hits_is_no_empty_cluster(scripted: WatchedPage) -> None:
    """CON-153: nobody is told to create a topic that is only spelled otherwise."""
    api = ScriptedApi(scripted.page)
    api.answers["topics"] = listing(topic_rows(["orders"]), "topic")
    scripted.page.goto("/orders-prod/topics?q=nothing")
    expect(scripted.page.get_by_text("No topic has “nothing” in its name.")).to_be_visible()


def test_error_says_what_where_and_what_to_do(scripted: WatchedPage) -> None:
    """CON-153: with the broker's number and a way to try again."""
    api = ScriptedApi(scripted.page)
    api.answers["topics"] = lambda _: (503, FAILED)
    page = scripted.page
    page.goto("/orders-prod/topics")
    alert = page.get_by_role("alert")
    for words in ("No broker says who leads.", "Broker 2", "Look at the arbiter."):
        expect(alert.get_by_text(words)).to_be_visible()
    api.answers["topics"] = listing(topic_rows(["orders"]), "topic")
    alert.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    scripted.forget_errors("503")


def test_old_facts_stay_with_their_age(scripted: WatchedPage) -> None:
    """CON-153, CON-173: what cannot be read anew is greyed, dated, and comes back by itself."""
    api = ScriptedApi(scripted.page)
    api.answers["topics"] = listing(topic_rows(["orders"]), "topic")
    page = scripted.page
    page.goto("/orders-prod/topics")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    api.is_reachable = False
    expect(page.get_by_text("as of")).to_be_visible()
    expect(page.get_by_text("The console does not answer.")).to_be_visible()
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    api.is_reachable = True
    expect(page.get_by_text("as of")).to_have_count(0)
    scripted.forget_errors("ERR_CONNECTION_REFUSED")


def test_a_console_of_another_cluster_is_told_and_shows_nothing_as_new(
    scripted: WatchedPage,
) -> None:
    """CON-153: each call says which cluster the page shows, so that another one refuses it."""
    api = ScriptedApi(scripted.page)
    api.answers["topics"] = listing(topic_rows(["orders"]), "topic")
    page = scripted.page
    page.goto("/orders-prod/topics")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    with page.expect_request("**/api/v1/topics?**") as asked:
        pass
    assert asked.value.headers["x-barnabas-cluster"] == "orders-prod"
    words = "the page is of the cluster 'orders-prod', and this console is of 'dev'"
    api.answers["topics"] = lambda _: (409, {"error": "ANOTHER_CLUSTER", "message": words})
    expect(page.get_by_text(words)).to_be_visible()
    expect(page.get_by_text("as of")).to_be_visible()
    scripted.forget_errors("409")
