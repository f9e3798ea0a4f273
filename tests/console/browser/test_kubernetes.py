"""What Kubernetes plans and waits for: drains with the time left, and every tab fits (CON-122)."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.chromium import WatchedPage
from tests.support.scripted_api import SESSION, ScriptedApi

PICTURES = os.environ.get("PICTURES")
TABS = ("plan", "resources", "pods", "events")
LONG = "payments-settled-by-the-bank-of-a-country-with-a-very-long-name"
MINUTE_MS = 60_000


def member(node_id: int, **facts: Any) -> dict[str, Any]:
    """A broker of the Broker."""
    return {
        "id": node_id,
        "phase": "Ready",
        "message": None,
        "pod": f"demo-{node_id}",
        "node": f"node-{'abc'[node_id]}",
        "rack": None,
        "leaders": 138,
        "safe": "yes",
        "reason": None,
        "drain": None,
        "drain_requested_ms": None,
        "drain_deadline_ms": None,
        "waiting_on": None,
        "last_restart_reason": None,
        **facts,
    }


def facts(now_ms: int) -> dict[str, Any]:
    """A Broker that rolls while a node is drained, and others with long names."""
    kept = {
        "safe": "no",
        "reason": "orders-0 cannot spare it",
        "waiting_on": "orders-0 in sync, 1.2 GiB left",
        "drain_requested_ms": now_ms - 47 * MINUTE_MS,
        "drain_deadline_ms": now_ms + 13 * MINUTE_MS - 1_000,
    }
    broker = {
        "namespace": "shop",
        "name": "demo",
        "state": "working",
        "sentence": "rolling, 1 of 3",
        "conditions": [],
        "ready_brokers": "3/3",
        "plan": {
            "summary": "restart 2, 0, then 1",
            "waiting_on": "broker 2: orders-0 in sync, 1.2 GiB left",
            "restarts": [{"broker": one, "reasons": ["image"]} for one in (2, 0, 1)],
        },
        "approve_command": "kubectl -n shop annotate --overwrite brokers.barnabas.dev demo"
        " barnabas.dev/approve=9f3c",
        "restarting": {"broker": 2, "reason": "image"},
        "decommission": None,
        "security": None,
        "brokers": [member(0), member(1, **kept), member(2, phase="Restarting")],
    }
    topic = {
        "namespace": "shop",
        "name": LONG,
        "state": "warning",
        "sentence": "",
        "drift": "x" * 90,
    }
    pod = {
        "namespace": "shop",
        "name": "demo-1",
        "phase": "Running",
        "reason": None,
        "ready": True,
        "restarts": 0,
        "node": "node-b",
        "started_ms": now_ms - 90 * MINUTE_MS,
    }
    event = {
        "time_ms": now_ms - MINUTE_MS,
        "type": "Warning",
        "reason": "EvictionDeferred",
        "about": "Broker demo",
        "namespace": "shop",
        "message": "broker 1 is to leave its node and waits: orders-0 cannot spare it",
        "count": 1,
    }
    return {
        "namespace": "shop",
        "brokers": {"rows": [broker]},
        "topics": {"rows": [topic]},
        "consumergroups": {"rows": []},
        "users": {"rows": []},
        "pods": {"rows": [pod]},
        "events": [event],
    }


def opened(watched: WatchedPage, tab: str) -> None:
    """The tab, of a console that reads Kubernetes."""
    now_ms = round(time.time() * 1000)
    api = ScriptedApi(watched.page)
    api.answers["session"] = lambda _: {**SESSION, "kubernetes": True}
    api.answers["kubernetes"] = lambda _: facts(now_ms)
    watched.page.goto(f"/orders-prod/kubernetes/{tab}")
    watched.page.locator("main table").first.wait_for()


def test_a_drain_says_until_when_the_pod_is_kept(scripted: WatchedPage) -> None:
    """CON-121, CON-122: who asks, since when, for which pod; and the time that is left counts."""
    opened(scripted, "plan")
    drain = scripted.page.get_by_text("node-b asks since")
    expect(drain).to_have_text(
        re.compile(r"^node-b asks since \d\d:\d\d for demo-1; let go by \d\d:\d\d, in 12 min$")
    )


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tab", TABS)
def test_pages_of_kubernetes_are_accessible_and_fit(
    tab: str, theme: Any, width: int, scripted: WatchedPage
) -> None:
    """CON-171, CON-154: axe is clean, no report, no error, and nothing scrolls sideways."""
    window = scripted.page
    window.set_viewport_size({"width": width, "height": 800})
    window.emulate_media(color_scheme=theme)
    opened(scripted, tab)
    assert not scripted.accessibility_violations()
    assert not scripted.scrolls_sideways()
    if PICTURES:
        name = f"kubernetes-{tab}-{theme}-{width}.png"
        window.screenshot(path=Path(PICTURES) / name, full_page=True)
