"""Log-in with an OpenID provider in a real browser, on a real broker that verifies its tokens.

CON-140, CON-172: the page that was asked for, no code in the address, two browsers, and log-out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.acls import AclBinding
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from tests.support.barnabas_process import BarnabasProcess
from tests.support.chromium import WatchedPage, window
from tests.support.console_process import ConsoleProcess, run
from tests.support.openid_provider import CLIENT_ID, OpenIdProvider, served_provider
from tests.support.processes import free_port

#: A folder for screenshots: `make console PICTURES=docs/images`.
PICTURES = os.environ.get("PICTURES")


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdProvider]:
    """A provider that knows everybody but `nobody`."""
    with served_provider() as served:
        yield served


@pytest.fixture(scope="module")
def console(
    provider: OpenIdProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A broker where alice may see `orders`, and a console that one logs in to."""
    directory = tmp_path_factory.mktemp("oidc")
    keys, properties = directory / "keys.json", directory / "client.properties"
    keys.write_bytes(provider.keys())
    port = free_port()
    broker = BarnabasProcess(directory / "broker")
    listeners = f"PLAINTEXT://127.0.0.1:{broker.port},SASL://127.0.0.1:{port}"
    listeners += f",REPLICATION://127.0.0.1:{broker.replication_port}"
    broker.properties |= provider.broker_settings(keys.as_uri()) | {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "barnabas.allow.plain.without.tls": "true",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "barnabas.broker.principals": "User:ANONYMOUS",
    }
    # Who starts the console lends nobody its rights; the sampler is let in by nobody here.
    properties.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n")
    options = ("--login", "oidc", "--oidc-issuer", provider.issuer, "--oidc-client-id", CLIENT_ID)
    with broker:
        run(lambda: prepared(broker.bootstrap))
        with ConsoleProcess(
            directory,
            f"127.0.0.1:{port}",
            *("--command-config", str(properties), *options),
        ) as running:
            yield running


async def prepared(bootstrap: str) -> None:
    """Two topics, of which alice may see one."""
    right = AclBinding(
        resource_type=AclResourceType.TOPIC,
        resource_name="orders",
        pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=AclOperation.DESCRIBE,
        permission=AclPermission.ALLOW,
    )
    async with Admin(bootstrap_servers=bootstrap) as admin:
        (await admin.topics.create([NewTopic(name="orders"), NewTopic(name="salaries")])).unwrap()
        (await admin.acls.create([right])).unwrap()


@pytest.fixture
def opened(browser: Any, console: ConsoleProcess) -> Iterator[WatchedPage]:
    """A window at that console."""
    yield from window(browser, console.address)


def log_in(page: Page, user: str) -> None:
    """By keyboard alone: the button has the focus, and so has the provider's field."""
    button = page.get_by_role("button", name="Log in at 127.0.0.1")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Provider")).to_be_visible()
    page.keyboard.type(user)
    page.keyboard.press("Enter")


def test_page_that_was_asked_for_is_there_after_the_log_in(
    opened: WatchedPage, provider: OpenIdProvider
) -> None:
    """CON-140: by the user's own token, and neither code nor state stays in the address."""
    page = opened.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/orders-prod/topics?sort=-topic")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert not opened.accessibility_violations()
    log_in(page, "alice")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page.get_by_text("salaries")).to_have_count(0)
    expect(page).to_have_url("/orders-prod/topics?sort=-topic")
    expect(page.get_by_title("Logged in as")).to_have_text("User:alice")
    (back,) = [url for url in asked if "/oidc/callback" in url]
    code = back.partition("code=")[2].partition("&")[0]
    assert code not in page.evaluate("JSON.stringify([history.state, sessionStorage])")
    assert not page.evaluate("document.cookie")
    page.go_back()
    assert "code=" not in page.url
    page.go_forward()
    # The same answer a second time is worth nothing, here and in another browser.
    page.goto(back)
    expect(page.get_by_title("Logged in as")).to_have_text("User:alice")
    opened.forget_errors("400")
    before = provider.code_requests
    other = page.context.browser.new_context().new_page()  # type: ignore[union-attr]
    other.goto(back)
    expect(other.get_by_role("alert")).to_contain_text("was not begun in this browser")
    assert provider.code_requests == before
    other.context.close()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert provider.revoked[-1] == "alice"
    assert provider.ended[-1]["client_id"] == CLIENT_ID
    expect(page.get_by_text("orders", exact=True)).to_have_count(0)
    opened.forget_errors("401")


def test_two_browsers_are_two_people(browser: Any, console: ConsoleProcess) -> None:
    """CON-141: and one whom the provider does not let in is told so."""
    windows = [window(browser, console.address) for _ in range(3)]
    alice, bob, nobody = (next(one) for one in windows)
    for opened, user in ((alice, "alice"), (bob, "bob"), (nobody, "nobody")):
        opened.page.goto("/orders-prod/topics")
        log_in(opened.page, user)
    expect(alice.page.get_by_role("link", name="orders")).to_be_visible()
    expect(bob.page.get_by_title("Logged in as")).to_have_text("User:bob")
    expect(bob.page.get_by_role("link", name="orders")).to_have_count(0)
    expect(nobody.page.get_by_role("alert")).to_contain_text("let nobody in: access_denied")
    assert not nobody.accessibility_violations()
    for opened in (alice, bob, nobody):
        opened.forget_errors("401")
    for one in windows:
        assert next(one, None) is None


def test_nobody_is_sent_elsewhere_or_made_somebody(opened: WatchedPage) -> None:
    """CON-172: open redirect, markup and words of others in the answer, log-in CSRF."""
    page = opened.page
    attacks = (
        {"code": "x", "state": "y", "return_to": "//evil.example"},
        {"error": "<img src=x onerror=alert(1)>", "error_description": "call 555"},
        {"error": "call_555_" * 9},
        {"code": "<script>alert(1)</script>", "state": "'\"><svg onload=alert(1)>"},
    )
    for place in ("//evil.example/x", "https://evil.example", "http://[", "/oidc/callback?code=x"):
        page.goto("/orders-prod/topics")
        page.evaluate("place => sessionStorage.setItem('barnabas.place', place)", place)
        page.goto(f"/oidc/callback?{urlencode(attacks[0])}")
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page).to_have_url("/orders-prod/overview")
    for attack in attacks:
        page.goto(f"/oidc/callback?{urlencode(attack)}")
        expect(page.get_by_role("alert")).to_be_visible()
        expect(page.get_by_text("555")).to_have_count(0)
        expect(page.get_by_title("Logged in as")).to_have_count(0)
    opened.forget_errors("400")
    opened.forget_errors("401")


def test_log_in_fits_a_phone(opened: WatchedPage) -> None:
    """CON-154, CON-171."""
    page = opened.page
    for width, height in ((1280, 480), (360, 740), (320, 256)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto("/orders-prod/topics")
        expect(page.get_by_role("button", name="Log in at 127.0.0.1")).to_be_visible()
        assert not opened.scrolls_sideways()
        assert not opened.accessibility_violations()
        if PICTURES:
            page.screenshot(path=Path(PICTURES) / f"console-login-light-{width}.png")
    opened.forget_errors("401")
