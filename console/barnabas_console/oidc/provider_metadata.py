"""What an OpenID provider says of itself, as far as a log-in needs it. Pure.

Source: OpenID Connect Discovery 1.0, section 3; RFC 8414; RFC 9207.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas_console.oidc.oidc_settings import is_safe_url


class MetadataError(ValueError):
    """A provider is not the one that was meant, or no log-in can be had there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMetadata:
    """Addresses of one provider; those that it does not have are empty."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    revocation_endpoint: str = ""
    end_session_endpoint: str = ""
    names_itself: bool = False
    """Whether it says who it is when it sends a browser back (RFC 9207)."""
    takes_secret_in_body: bool = False
    """Whether a client's secret goes into the body, not into the header of basic authentication."""

    @staticmethod
    def parse(document: Mapping[str, Any], issuer: str) -> ProviderMetadata:
        """What a document says. Raises: MetadataError."""
        if document.get("issuer") != issuer:
            raise MetadataError("it calls itself another issuer")
        methods = document.get("code_challenge_methods_supported")
        if isinstance(methods, list) and "S256" not in methods:
            raise MetadataError("it has no PKCE by S256")
        logins = document.get("token_endpoint_auth_methods_supported")
        return ProviderMetadata(
            authorization_endpoint=_needed(document, "authorization_endpoint"),
            token_endpoint=_needed(document, "token_endpoint"),
            jwks_uri=_needed(document, "jwks_uri"),
            revocation_endpoint=_address(document, "revocation_endpoint"),
            end_session_endpoint=_address(document, "end_session_endpoint"),
            names_itself=document.get("authorization_response_iss_parameter_supported") is True,
            takes_secret_in_body=isinstance(logins, list)
            and "client_secret_basic" not in logins
            and "client_secret_post" in logins,
        )


def _needed(document: Mapping[str, Any], name: str) -> str:
    url = _address(document, name)
    if not url:
        raise MetadataError(f"it names no {name}")
    return url


def _address(document: Mapping[str, Any], name: str) -> str:
    url = document.get(name)
    if url is None:
        return ""
    if not isinstance(url, str) or not is_safe_url(url):
        raise MetadataError(f"its {name} is no address of https")
    return url
