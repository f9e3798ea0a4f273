"""The headers that every response of the console has (CON-142).

The page runs scripts and styles of its own files only, talks to its own origin only, and is shown
in no frame; nothing but its immutable files is kept by a browser or a proxy.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " form-action 'self'; img-src 'self' data:; font-src 'self'; frame-ancestors 'none';"
    " base-uri 'none'"
)
_ALWAYS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def secure(headers: MutableMapping[str, str]) -> None:
    """Add them; what a route has set about caching stays."""
    for name, value in _ALWAYS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")
