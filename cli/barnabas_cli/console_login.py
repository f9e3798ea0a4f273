"""The options of `barnabas console` that say with which OpenID provider people log in.

The client's secret comes from a file: what stands in a command is seen by everybody on the machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from barnabas_console.oidc.oidc_settings import OidcSettings

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS: Final = (
    click.option("--oidc-issuer", metavar="URL", help="The OpenID provider, for --login oidc."),
    click.option("--oidc-client-id", metavar="ID", help="What the console is registered as there."),
    click.option(
        "--oidc-client-secret-file", type=_FILE, help="Its secret, where the provider gave one."
    ),
    click.option(
        "--oidc-address",
        default="",
        metavar="URL",
        help="Where browsers have the console, as in 'https://console.example'; the provider sends"
        " them back to PATH-PREFIX/oidc/callback there.  [default: what the browser called]",
    ),
    click.option(
        "--oidc-scope",
        "oidc_scopes",
        multiple=True,
        metavar="NAME",
        help="What to ask for besides 'openid'; 'offline_access' for a token that is renewed.",
    ),
    click.option(
        "--oidc-token",
        type=click.Choice(["access", "id"]),
        default="access",
        show_default=True,
        help="Which of the user's tokens the brokers see.",
    ),
    click.option(
        "--oidc-ca-file", type=_FILE, help="Certificates that the provider's is signed with."
    ),
)


def with_provider(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options, and their values as one argument: `provider`."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        names = [name for name in given if name.startswith("oidc_")]
        return command(provider={name: given.pop(name) for name in names}, **given)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def oidc_settings(provider: dict[str, Any]) -> OidcSettings | None:
    """What the options say; None where no provider is named. Raises: OidcSettingsError, OSError."""
    from barnabas_console.oidc.oidc_settings import OidcSettings

    if provider["oidc_issuer"] is None:
        return None
    secret, authority = provider["oidc_client_secret_file"], provider["oidc_ca_file"]
    return OidcSettings(
        issuer=provider["oidc_issuer"],
        client_id=provider["oidc_client_id"] or "",
        client_secret=None if secret is None else secret.read_text("utf-8").strip(),
        address=provider["oidc_address"],
        scopes=tuple(dict.fromkeys(("openid", *provider["oidc_scopes"]))),
        token=provider["oidc_token"],
        authority_file=None if authority is None else str(authority),
    )
