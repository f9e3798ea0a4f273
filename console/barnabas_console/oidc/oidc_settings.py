"""Which OpenID provider people log in with, and what the console is for it. Pure.

Nothing of it comes from a browser. Invariant: neither a code nor a token ever goes over a network
unencrypted: addresses are of https, but for this machine's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from barnabas_console.loopback import is_loopback

CALLBACK_PATH: Final = "/oidc/callback"
"""Where the provider sends browsers back to, below the console's address."""

TokenKind = Literal["access", "id"]


class OidcSettingsError(ValueError):
    """Settings that nobody could log in with safely; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """One provider and one client that is registered with it.

    `address` is where browsers have the console, without its path prefix; only on the loopback
    address it may be empty, and is then what the browser called. `token` says which of the user's
    tokens the brokers see. `authority_file` has certificates that the provider's is signed with.
    """

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    address: str = ""
    scopes: tuple[str, ...] = ("openid",)
    token: TokenKind = "access"
    authority_file: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is not safe, or makes no log-in. Raises: OidcSettingsError."""
        if not self.client_id:
            raise OidcSettingsError("name the client that is registered, by --oidc-client-id")
        for option, url in (("--oidc-issuer", self.issuer), ("--oidc-address", self.address)):
            if (url or option == "--oidc-issuer") and not is_safe_url(url):
                raise OidcSettingsError(f"{option} {url!r}: write it as 'https://host'")
        if urlsplit(self.issuer).query or urlsplit(self.address).query:
            raise OidcSettingsError("--oidc-issuer and --oidc-address have no query")
        if urlsplit(self.address).path.strip("/"):
            raise OidcSettingsError("--oidc-address has no path: --path-prefix is added to it")
        if "openid" not in self.scopes:
            raise OidcSettingsError("the scopes of a log-in have 'openid' among them")

    @property
    def provider_name(self) -> str:
        """What people know the provider by."""
        return urlsplit(self.issuer).netloc

    @property
    def host(self) -> str:
        """The name that browsers call the console by; empty where that is not said."""
        return urlsplit(self.address).hostname or ""


def is_safe_url(url: str) -> bool:
    """Whether what goes there is encrypted, or stays on this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
