"""What a console may be started with for log-ins with a provider (CON-140)."""

from typing import Any

import pytest

from barnabas_console.oidc.oidc_settings import OidcSettings, OidcSettingsError
from barnabas_console.security.request_rules import host_names
from barnabas_console.settings import ConsoleSettings, ConsoleSettingsError

GOOD: dict[str, Any] = {"issuer": "https://login.example/realms/shop", "client_id": "console"}


@pytest.mark.parametrize(
    "bent",
    [
        {"issuer": ""},
        {"issuer": "http://login.example"},
        {"issuer": "https://"},
        {"issuer": "https://login.example?realm=shop"},
        {"issuer": "https://login.example#x"},
        {"issuer": "https://user:secret@login.example"},
        {"issuer": "https://login.example:x"},
        {"issuer": "ftp://127.0.0.1"},
        {"client_id": ""},
        {"address": "http://console.example"},
        {"address": "https://console.example/console"},
        {"address": "https://console.example?x"},
        {"scopes": ("profile",)},
    ],
)
def test_settings_that_are_not_safe_are_refused(bent: dict[str, Any]) -> None:
    with pytest.raises(OidcSettingsError):
        OidcSettings(**{**GOOD, **bent})


def test_a_provider_of_this_machine_needs_no_tls() -> None:
    for host in ("127.0.0.1:8080", "localhost", "[::1]:1"):
        OidcSettings(issuer=f"http://{host}/realms/shop", client_id="console")


def test_a_console_that_others_reach_names_its_address() -> None:
    """Where the code goes is never what a request says, beyond this machine."""
    provider = OidcSettings(**GOOD)
    ConsoleSettings(login="oidc", oidc=provider)
    for settings in ({"host": "0.0.0.0"}, {"allowed_hosts": ("console.example",)}):
        with pytest.raises(ConsoleSettingsError, match="--oidc-address"):
            ConsoleSettings(login="oidc", oidc=provider, **settings)  # type: ignore[arg-type]
    named = OidcSettings(**GOOD, address="https://Console.example")
    settings = ConsoleSettings(login="oidc", oidc=named, host="0.0.0.0")
    assert "console.example" in host_names(settings)


@pytest.mark.parametrize("settings", [{"login": "oidc"}, {"oidc": OidcSettings(**GOOD)}])
def test_the_login_and_its_provider_go_together(settings: dict[str, Any]) -> None:
    with pytest.raises(ConsoleSettingsError, match="--oidc-issuer"):
        ConsoleSettings(**settings)


def test_a_secret_is_in_no_text() -> None:
    """SEC-114."""
    assert "geheim" not in repr(OidcSettings(**GOOD, client_secret="geheim"))
