"""The commands that pages offer to copy: all are collected, and run on the same cluster (CON-102).

What would go on for ever, or write, is only parsed by the command line's own parser. Those of plans
are run in `tests/console/api/test_plan_commands.py`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.chromium import WatchedPage
from tests.support.console_commands import parsed
from tests.support.console_process import WatchedCluster
from tests.support.console_tasks import TaskNames, fill
from tests.support.kubectl import needs_kubectl, run_kubectl

NAMES = TaskNames(
    topic="copied-payments",
    dead="copied-payments.dead",
    read="--copied-invoices",  # looks like an option
    group="copied by Jo's shop; $(x)",
    spark="spark-kafka-source-11cc33d0-driver-0",
)
TOPIC = f"topics/{NAMES.topic}"
#: What has one, by its address; the timeline and lists of each are on them.
PAGES = (
    "overview",
    "brokers",
    "brokers/1",
    "topics",
    f"{TOPIC}/records",
    f"{TOPIC}/records?at=oldest&partition=1",
    f"{TOPIC}/records?at=offset:-3",
    f"{TOPIC}/records?at=offset:7&filter=json.amount%3E1%20value~%22it's%20EUR%22",
    f"{TOPIC}/records?at=time:2026-01-02 03:04:05",
    f"{TOPIC}/records?at=time:2h",
    f"{TOPIC}/records?tail=1",
    f"{TOPIC}/records?record=0:0",
    f"{TOPIC}/records?filter=value~nothing-of-that",
    f"{TOPIC}/partitions",
    f"{TOPIC}/settings",
    f"{TOPIC}/groups",
    f"{TOPIC}/traffic",
    *(f"topics/{NAMES.read}/{tab}" for tab in ("records", "partitions", "settings", "groups")),
    f"topics/{NAMES.read}/records?record=0:0",
    "groups",
    "groups?q=none-of-that",
    f"groups/{NAMES.spark}",
    "groups/copied by Jo's shop; $(x)",
    "cluster",
    *(f"cluster/{tab}" for tab in ("reassignments", "transactions", "quotas", "users")),
    *(f"cluster/{tab}" for tab in ("acls", "features")),
)
#: So many there are at least; fewer would mean that the test looks in the wrong place.
COMMANDS_MIN = 18
#: The plan, its approval, and a list for each other tab.
KUBECTL_MIN = 5


@pytest.fixture(scope="module")
def filled(cluster: WatchedCluster) -> None:
    """Records, and groups that are behind."""
    fill(cluster, NAMES)


def commands_of(watched: WatchedPage) -> set[str]:
    """What the page has to copy, also where it shows a word in its place."""
    texts = watched.page.locator(".copy button").evaluate_all("all => all.map(one => one.title)")
    return {text for text in texts if text.startswith(("barnabas ", "kubectl ", "kcat "))}


def runs_for_ever_or_writes(words: list[str]) -> bool:
    """Whether it is only parsed."""
    is_reading = words[0] == "consume" and not {"--follow", "--group"} & set(words)
    changes = {"create", "set", "delete", "reset", "alter", "produce", "rotate"} & set(words[:2])
    return bool(changes) or (words[0] == "consume" and not is_reading)


@pytest.mark.usefixtures("filled")
@pytest.mark.timeout(600)
def test_no_command_that_a_page_offers_is_wrong(
    watched: WatchedPage, cluster: WatchedCluster, tmp_path: Path
) -> None:
    """CON-102: each as a shell takes it apart."""
    page = watched.page
    offered: dict[str, str] = {}
    for place in PAGES:
        page.goto(f"/orders-prod/{place}")
        expect(page.locator("main h1, main .notice").first).to_be_visible()
        if "tail=1" not in place:
            page.wait_for_load_state("networkidle")
        for command in commands_of(watched):
            offered.setdefault(command, place)
    watched.forget_errors("501")  # no ACLs without an authorizer
    assert len(offered) >= COMMANDS_MIN, sorted(offered)
    wrong = []
    for command, place in offered.items():
        program, *words = shlex.split(command)
        assert program == "barnabas", command
        if runs_for_ever_or_writes(words):
            parsed(command)
            continue
        done = subprocess.run(
            [sys.executable, "-m", "barnabas_cli.main", *words],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "BARNABAS_BOOTSTRAP_SERVERS": cluster.brokers.bootstrap,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            wrong.append(f"{command} (of {place}): {done.stderr or done.stdout}")
    assert not wrong, "\n".join(wrong)


@needs_kubectl
def test_no_command_of_kubectl_that_a_page_offers_is_wrong(
    operated: WatchedPage, operator_api: str, tmp_path: Path
) -> None:
    """CON-102, CON-122: what it lists is what the page lists."""
    page = operated.page
    offered: set[str] = set()
    for tab in ("plan", "resources", "pods", "events"):
        page.goto(f"/orders-prod/kubernetes/{tab}")
        expect(page.locator(".copy button").first).to_be_visible()
        offered |= commands_of(operated)
    assert len(offered) >= KUBECTL_MIN, offered
    wrote = {one: run_kubectl(one, operator_api, tmp_path) for one in sorted(offered)}
    (resources,) = (text for one, text in wrote.items() if "users.barnabas.dev" in one)
    for name in ("demo", "orders", "refunds"):
        assert name in resources
