"""The login form: who is let in, who is not, and that nothing stays for the next one (CON-140)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playwright.sync_api import Route, expect

from tests.support.chromium import WatchedPage
from tests.support.scripted_api import SESSION, ScriptedApi, listing, topic_rows

REFUSED = {"error": "LOGIN_FAILED", "message": "the cluster does not let in this user", "hint": ""}


class Door:
    """A session that a password opens."""

    def __init__(self, watched: WatchedPage) -> None:
        self.principal: str | None = None
        self.api = ScriptedApi(watched.page)
        self.api.answers["session"] = self._session
        self.api.answers["topics"] = listing(topic_rows(["orders"]), "topic")
        watched.page.route("**/api/v1/login", self._log_in)
        watched.page.route("**/api/v1/logout", self._log_out)

    def _session(self, _: Mapping[str, str]) -> dict[str, Any]:
        return {**SESSION, "login": "sasl", "principal": self.principal}

    def _log_in(self, route: Route) -> None:
        given = route.request.post_data_json
        if given == {"username": "alice", "password": "secret"}:
            self.principal = "User:alice"
            route.fulfill(status=204)
        else:
            route.fulfill(status=401, json=REFUSED)

    def _log_out(self, route: Route) -> None:
        self.principal = None
        route.fulfill(status=204)


def log_in(watched: WatchedPage, password: str) -> None:
    page = watched.page
    page.get_by_label("User", exact=True).fill("alice")
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")


def test_page_is_there_after_the_login_and_gone_after_the_logout(scripted: WatchedPage) -> None:
    """CON-140: the address that was asked for is shown once somebody is known."""
    Door(scripted)
    page = scripted.page
    page.goto("/orders-prod/topics")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert not scripted.accessibility_violations()
    log_in(scripted, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("does not let in this user")
    log_in(scripted, "secret")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    expect(page.get_by_text("orders", exact=True)).to_have_count(0)
    scripted.forget_errors("401")


def test_session_that_has_ended_asks_again(scripted: WatchedPage) -> None:
    """CON-140: after thirty idle minutes the page says so by the form, without a reload."""
    door = Door(scripted)
    door.principal = "User:alice"
    page = scripted.page
    page.goto("/orders-prod/topics")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    ended = {"error": "LOGIN_REQUIRED", "message": "log in to see this cluster", "hint": ""}
    door.api.answers["topics"] = lambda _: (401, ended)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible(timeout=15_000)
    scripted.forget_errors("401")
