"""What a viewer may not do is shown locked, and says which right is missing (CON-141)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from barnabas_console.rights.needed import acts_on_cluster, acts_on_group, acts_on_topic, lock_of
from tests.support.chromium import WatchedPage
from tests.support.scripted_api import SESSION, ScriptedApi

PICTURES = os.environ.get("PICTURES")
ACTS = {**acts_on_topic("orders"), **acts_on_group("billing"), **acts_on_cluster()}
LOCKS = {act: lock_of("User:alice", needed) for act, needed in ACTS.items()}
ACL = {
    "principal": "User:bob",
    "permission": "allow",
    "operation": "read",
    "resource_type": "topic",
    "resource_name": "orders",
    "pattern": "literal",
    "host": "*",
}
SETTING = {"name": "retention.ms", "value": "1000", "source": "dynamic-topic", "unit": "ms"}
GROUP = {
    "group": "billing",
    "state": "Empty",
    "type": "Consumer",
    "protocol": "consumer",
    "assignor": None,
    "coordinator": 0,
    "member_count": 0,
    "lag": 0,
    "lag_known": 0,
    "lag_seconds": 0,
    "arriving": None,
    "reading": None,
    "diagnosis": [],
    "members": [],
    "partition_list": [
        {
            "topic": "orders",
            "partition": 0,
            "committed": 1,
            "start_offset": 0,
            "end_offset": 1,
            "lag": 0,
            "lag_seconds": 0,
        }
    ],
}
RECORDS = {
    "rows": [],
    "older": None,
    "newer": None,
    "direction": "backwards",
    "is_end": True,
    "ranges": [{"partition": 0, "start": 0, "end": 0, "read_from": 0, "read_to": 0}],
    "problems": [],
    "damaged": [],
    "bytes_read": 0,
    "record_count": 0,
}
#: By the page: the buttons there, and what each of them needs.
BUTTONS = {
    "topics/orders/records": {"Produce…": "produce"},
    "groups/billing": {"Reset offsets…": "reset-offsets"},
    "cluster/acls": {"Give a right…": "change-acls"},
    "cluster/quotas": {"Set a quota…": "change-quotas"},
}
MENUS = {
    "topics/orders/records": {
        "Partitions and replicas…": "alter-partitions",
        "Remove records…": "delete-records",
        "Delete…": "delete-topic",
    },
    "groups/billing": {"Delete…": "delete-group"},
}


def answers(watched: WatchedPage, locks: dict[str, Any]) -> ScriptedApi:
    """A cluster where everything is shown, and `locks` may not be done."""
    api = ScriptedApi(watched.page)
    api.answers["rights"] = lambda _: {"locks": locks}
    api.answers["groups/billing"] = lambda _: GROUP
    api.answers["series"] = lambda _: {"t": [], "columns": [None] * 4}
    api.answers["topics/orders/records"] = lambda _: RECORDS
    api.answers["acls"] = lambda _: {"total": 1, "rows": [ACL]}
    api.answers["topics/orders/settings"] = lambda _: {
        "total": 1,
        "rows": [SETTING],
        "command": "barnabas config describe topic orders --all",
    }
    return api


@pytest.mark.parametrize("page", BUTTONS)
def test_each_button_of_a_change_is_locked_and_says_why(page: str, scripted: WatchedPage) -> None:
    """CON-141: the sentence and the command that gives the right; the change is not offered."""
    api = answers(scripted, LOCKS)
    window = scripted.page
    window.goto(f"/orders-prod/{page}")
    for name, act in BUTTONS[page].items():
        window.get_by_role("button", name=f"{name} (locked)").click()
        says_why(scripted, act)
    for name, act in MENUS.get(page, {}).items():
        menu = window.locator("summary", has_text="⋯")
        if not window.locator("details.menu[open]").count():
            menu.click()
        window.get_by_role("button", name=f"{name} (locked)").click()
        says_why(scripted, act)
    assert "plans" not in api.asked


def says_why(watched: WatchedPage, act: str) -> None:
    """The dialog that is open names the missing right."""
    dialog = watched.page.get_by_role("dialog", name="Locked")
    expect(dialog).to_contain_text(LOCKS[act]["words"])
    expect(dialog).to_contain_text(LOCKS[act]["command"])
    assert not watched.accessibility_violations()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_lists_whose_rows_open_a_change_do_not_open_it(scripted: WatchedPage) -> None:
    """CON-141: settings and ACLs."""
    answers(scripted, LOCKS)
    page = scripted.page
    page.goto("/orders-prod/topics/orders/settings")
    expect(page.get_by_text(LOCKS["alter-settings"]["words"])).to_be_visible()
    expect(page.locator("tbody tr.opens")).to_have_count(0)
    page.goto("/orders-prod/cluster/acls")
    page.get_by_role("button", name="Give a right… (locked)").wait_for()
    expect(page.locator("tbody tr.opens")).to_have_count(0)


def test_who_may_everything_finds_nothing_locked(scripted: WatchedPage) -> None:
    """CON-141: buttons open their dialogs."""
    answers(scripted, {})
    page = scripted.page
    page.goto("/orders-prod/cluster/acls")
    page.get_by_role("button", name="Give a right…").click()
    page.get_by_role("dialog", name="Give a right").wait_for()
    expect(page.locator(".locked")).to_have_count(0)
    page.goto("/orders-prod/topics/orders/settings")
    expect(page.locator("tbody tr.opens")).to_have_count(1)


def test_a_read_only_console_gives_commands_instead(scripted: WatchedPage) -> None:
    """CON-143: buttons become commands, and no right is asked for."""
    api = answers(scripted, LOCKS)
    api.answers["session"] = lambda _: {**SESSION, "read_only": True}
    page = scripted.page
    wanted = {
        "topics/orders/records": ("Produce…", "barnabas produce orders"),
        "groups/billing": ("Reset offsets…", "barnabas group reset billing --to-latest"),
        "cluster/acls": ("Give a right…", "barnabas acl create User:alice read"),
        "topics/orders/settings": ("Change a setting…", "barnabas topic alter orders --config"),
    }
    for path, (name, command) in wanted.items():
        page.goto(f"/orders-prod/{path}")
        page.get_by_role("button", name=name).click()
        dialog = page.get_by_role("dialog", name="This console is read-only")
        expect(dialog).to_contain_text(command)
        assert not scripted.accessibility_violations()
        dialog.get_by_role("button", name="Close").click()
    page.goto("/orders-prod/groups/billing")
    page.locator("summary", has_text="⋯").click()
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_role("dialog")).to_contain_text("barnabas group delete billing")
    assert not any(one.startswith("rights") for one in api.asked)


def test_a_page_that_is_denied_says_which_right_it_takes(scripted: WatchedPage) -> None:
    """CON-141: reading, too."""
    api = answers(scripted, {})
    lock = LOCKS["change-acls"]
    denied = {"error": "CLUSTER_AUTHORIZATION_FAILED", "message": lock["words"], "lock": lock}
    api.answers["acls"] = lambda _: (403, denied)
    page = scripted.page
    page.goto("/orders-prod/cluster/acls")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text(lock["words"])
    expect(alert).to_contain_text(lock["command"])
    assert not scripted.accessibility_violations()
    scripted.forget_errors("403")


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["groups/billing", "topics/orders/settings", "cluster/acls"])
def test_locked_pages_are_accessible_and_fit(
    page: str, theme: Any, width: int, scripted: WatchedPage
) -> None:
    """CON-171, CON-154: axe is clean, no error, and nothing scrolls sideways."""
    answers(scripted, LOCKS)
    window = scripted.page
    window.set_viewport_size({"width": width, "height": 800})
    window.emulate_media(color_scheme=theme)
    window.goto(f"/orders-prod/{page}")
    window.locator(".locked:visible, .lock-note").first.wait_for()
    assert not scripted.accessibility_violations()
    assert not scripted.scrolls_sideways()
    name = page.replace("/", "-")
    if page != "topics/orders/settings":
        window.locator("button.locked:visible").first.click()
        window.get_by_role("dialog", name="Locked").wait_for()
        assert not scripted.scrolls_sideways()
    if PICTURES:
        window.screenshot(path=Path(PICTURES) / f"locked-{name}-{theme}-{width}.png")
