"""The console of secure brokers in a real Chromium, reached as its users reach it: by `kubectl
port-forward`. What the browser shows of records and groups elsewhere: `tests/console/browser`.
"""

import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.client_pods import ClientPod
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.console_pod import PORT, ConsolePod
from tests.e2e.support.declared_brokers import SPARE_CONFIG, ended
from tests.e2e.support.documented import run_line
from tests.e2e.support.images import Images
from tests.e2e.support.release import Release
from tests.e2e.support.secure_brokers import SecureBrokers
from tests.support.chromium import WatchedPage, executable, installed_browser, window

sync_api = pytest.importorskip("playwright.sync_api", reason="`make console` installs playwright")
expect = sync_api.expect
pytestmark = pytest.mark.skipif(
    not os.access(executable(), os.X_OK), reason=f"no browser at {executable()}"
)

TOPIC = "orders.secure"
# Read once by brokers, when they start.
READ_ONCE = {**SPARE_CONFIG, "queued.max.request.bytes": 100_000_000}
# Kubernetes is looked at every four seconds, and a restart of three brokers takes its time.
LOOKED_MS = 60_000
ROLLED_MS = 300_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium."""
    with installed_browser() as running:
        yield running


@pytest.fixture(scope="module")
def console(release: Release, secure: SecureBrokers) -> Iterator[ConsolePod]:
    """As the chart makes it: read only, no login, by a User of its own."""
    pod = ConsolePod(release, secure, "seen")
    try:
        yield pod.start()
    finally:
        pod.remove()


@pytest.fixture
def watched(browser: Any, console: ConsolePod) -> Iterator[WatchedPage]:
    """A window at it."""
    with console.forwarded() as address:
        yield from window(browser, address)


@pytest.fixture
def declared(secure: SecureBrokers) -> Iterator[SecureBrokers]:
    """The brokers, which the test may declare otherwise."""
    yield secure
    patch(secure, config=None, updatePolicy=None, maintenance=None)
    secure.secure()
    secure.until_settled()


def patch(brokers: SecureBrokers, **spec: Any) -> None:
    """Change parts of the declaration."""
    brokers.kubectl.patch("broker", brokers.name, {"spec": spec})


def open_page(watched: WatchedPage, name: str) -> None:
    """The start page, and one click."""
    watched.page.goto("/")
    watched.page.get_by_role("navigation").get_by_role("link", name=name).click()
    assert watched.clicks() <= 1


def test_a_plan_is_seen_approved_by_the_copied_command_and_carried_out(
    cluster: Cluster, watched: WatchedPage, declared: SecureBrokers
) -> None:
    """T9, CON-122: what would be restarted and why, that it waits, the command; then the restarts,
    and that nothing is left of them."""
    before = declared.uids()
    patch(declared, config=READ_ONCE, updatePolicy="OnApproval")
    plan = declared.until_told(lambda told: bool(told.get("plan", {}).get("restarts")))["plan"]
    open_page(watched, "Kubernetes")
    page = watched.page
    planned = page.locator("dd", has_text="setting queued.max.request.bytes changed")
    expect(planned).to_contain_text("restart ", timeout=LOOKED_MS)
    waits = page.locator("dd", has_text=f"approval of plan {plan['hash']}")
    expect(waits).to_be_visible()
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".approve").get_by_role("button").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("kubectl -n ") and copied.endswith(plan["hash"])

    run_line(cluster, copied)
    expect(page.get_by_text("Restarting", exact=True)).to_be_visible(timeout=LOOKED_MS)
    expect(page.locator(".approve")).to_have_count(0, timeout=LOOKED_MS)
    expect(planned).to_have_count(0, timeout=ROLLED_MS)
    declared.until_settled()
    after = declared.uids()
    assert all(after[node_id] != uid for node_id, uid in before.items())
    page.get_by_role("link", name="Pods").click()
    expect(page.get_by_role("table", name="Pods")).to_contain_text("secure-2")
    page.get_by_role("link", name="Events").click()
    expect(page.get_by_role("table", name="Events")).to_contain_text("Broker secure")


def test_a_drain_that_waits_is_seen_with_its_reason_until_it_goes_through(
    watched: WatchedPage, declared: SecureBrokers
) -> None:
    """T9: with another broker parked none may go, and the one that is asked for is named."""
    page = watched.page
    open_page(watched, "Kubernetes")
    brokers = page.get_by_role("table", name=f"Brokers of {declared.name}")
    # The console's own User may not see all topics, so the operator's word stands beside it.
    may_go = brokers.get_by_text(re.compile("^yes"))
    expect(may_go).to_have_count(3, timeout=LOOKED_MS)
    patch(declared, maintenance={"park": [2]})
    expect(brokers).to_contain_text("Parked", timeout=LOOKED_MS)
    expect(brokers.get_by_text(re.compile("^no:")).nth(1)).to_be_visible(timeout=LOOKED_MS)
    uid = declared.uids()[0]
    with declared.draining(0) as drain:
        asked = page.get_by_text(re.compile(f" asks since .* for {declared.name}-0;"))
        expect(asked).to_be_visible(timeout=LOOKED_MS)
        assert drain.poll() is None, drain.communicate()
        assert declared.uids()[0] == uid
        patch(declared, maintenance=None)
        expect(asked).to_have_count(0, timeout=ROLLED_MS)
        ended(drain)
    declared.until_replaced(0, uid)
    page.get_by_role("link", name="Events").click()
    expect(page.get_by_role("table", name="Events")).to_contain_text("EvictionDeferred")


def test_only_the_forwarded_port_reaches_it(
    console: ConsolePod, secure: SecureBrokers, images: Images
) -> None:
    """CON-132: it listens on its pod's loopback address; the port of probes is another one."""
    stranger = ClientPod(secure.kubectl, images.broker, "", name="console-stranger").start()
    try:
        address = console.pod["status"]["podIP"]
        assert stranger.reaches(address, 9641)
        assert not stranger.reaches(address, PORT)
    finally:
        stranger.remove()


@pytest.fixture
def door(browser: Any, release: Release, secure: SecureBrokers) -> Iterator[WatchedPage]:
    """A window at a console that asks who is there, and lets them change what they may."""
    pod = ConsolePod(release, secure, "door", login="sasl", readOnly="false")
    try:
        with pod.start().forwarded() as address:
            yield from window(browser, address)
    finally:
        pod.remove()


def log_in(watched: WatchedPage, user: str, password: str) -> None:
    page = watched.page
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")


def test_a_user_logs_in_and_does_what_its_rights_let_it(
    door: WatchedPage, secure: SecureBrokers
) -> None:
    """T1, T3, CON-140, CON-141: the password of its Secret opens the page, TLS carries it to the
    brokers; one topic is seen and written to, and Kubernetes is not shown by another's account."""
    secure.add_user("visitor", {"type": "scram-sha-512"})
    page = door.page
    page.goto("/")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(door, "visitor", "guessed")
    expect(page.get_by_role("alert")).to_be_visible()
    log_in(door, "visitor", secure.kubectl.secret("visitor")["password"])
    page.get_by_role("navigation").get_by_role("link", name="Topics").click()
    expect(page.get_by_role("link", name=TOPIC)).to_be_visible(timeout=LOOKED_MS)
    expect(page.get_by_role("link", name="__consumer_offsets")).to_have_count(0)
    page.get_by_role("link", name=TOPIC).click()
    page.get_by_role("button", name="Produce…").click()
    value = f'{{"written":{time.time_ns()}}}'
    page.keyboard.type(value)
    page.get_by_role("button", name="Produce", exact=True).click()
    expect(page.get_by_text("Written at")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text(value)).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Kubernetes").click()
    expect(page.get_by_text("an account of its own")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    door.forget_errors("401")
    door.forget_errors("501")
