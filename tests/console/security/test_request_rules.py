"""Which requests the console takes for its own page's (CON-142)."""

import pytest

from barnabas_console.security.request_rules import (
    api_refusal,
    browser_of,
    host_names,
    host_refusal,
    page_refusal,
)
from barnabas_console.settings import ConsoleSettings

OWN = {"Host": "localhost:9640", "X-Barnabas-Console": "1"}


@pytest.mark.parametrize("host", ["127.0.0.1:9640", "localhost:1", "LOCALHOST", "[::1]:9640"])
def test_names_of_the_loopback_address_are_the_console_s(host: str) -> None:
    """A port is forwarded to any port, so the name alone counts."""
    assert host_refusal(host, host_names(ConsoleSettings())) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example:9640", "", "[", "localhost.evil.example", "a@evil:1"],
)
def test_a_name_that_resolves_here_is_not_the_console_s(host: str) -> None:
    """DNS rebinding: a page of evil.example may make its name resolve to 127.0.0.1."""
    assert host_refusal(host, host_names(ConsoleSettings())) is not None


def test_further_names_are_named_at_the_start() -> None:
    names = host_names(ConsoleSettings(allowed_hosts=("Kafka.Example",)))
    assert host_refusal("kafka.example", names) is None
    assert host_refusal("other.example", names) is not None


def test_a_foreign_page_is_refused_by_its_origin() -> None:
    assert page_refusal({"Host": "localhost:9640", "Origin": "http://localhost:9640"}) is None
    for origin in ("http://evil.example", "http://localhost:9641", "null", "", "http://["):
        assert page_refusal({"Host": "localhost:9640", "Origin": origin}) is not None
    for site in ("cross-site", "same-site"):
        assert page_refusal({"Host": "localhost:9640", "Sec-Fetch-Site": site}) is not None


def test_a_call_without_our_header_is_refused() -> None:
    """A form or an image of a foreign page cannot send it; `fetch` would have to ask (CORS)."""
    assert api_refusal(OWN) is None
    assert api_refusal({"Host": "localhost:9640"}) is not None
    assert api_refusal({**OWN, "X-Barnabas-Console": "0"}) is not None
    assert api_refusal({**OWN, "Origin": "http://evil.example"}) is not None


def test_browsers_are_told_apart_by_what_they_drew_or_by_their_address() -> None:
    """CON-160; a name is short, whoever sends it."""
    assert browser_of({"X-Barnabas-Browser": "1-2"}, "10.0.0.1") == "1-2"
    assert browser_of({}, "10.0.0.1") != browser_of({}, "10.0.0.2")
    assert len(browser_of({"X-Barnabas-Browser": "x" * 8_000}, None)) <= 64
