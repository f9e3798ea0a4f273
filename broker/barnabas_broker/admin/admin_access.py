"""Who may ask what of the admin HTTP: pure rules over a request's origin and its caller.

Without https and tokens, reading (probes, metrics, status) is for everybody who reaches the port.
What changes the broker is for whoever is on its machine, or in its pod: a POST over the loopback
address. A browser there runs programs of others, so a request that a web page could have sent is
refused: one that names an Origin, or, where it came over the loopback address or changes something,
a Host that is a foreign name (DNS rebinding).

With https or tokens, probes alone are for everybody, and what else there is for who has shown to be
somebody (SEC-63); a web page cannot. Who may open the Unix socket is on this machine or in this
pod, and has been let in by the rights of the file.
"""

from __future__ import annotations

import ipaddress

OPEN_PATHS = frozenset(("/live", "/ready"))
"""Probes of the kubelet show no certificate and no token."""
_LOCAL_NAMES = frozenset(("", "localhost", "localhost.localdomain", "ip6-localhost"))


def is_loopback(address: str) -> bool:
    """Whether an address, IPv4 in IPv6 included, is of this machine alone."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address in _LOCAL_NAMES and bool(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


def needs_caller(path: str, method: str) -> bool:
    """Whether a request has to be somebody's, where the admin HTTP tells callers apart."""
    return path not in OPEN_PATHS or method not in ("GET", "HEAD")


def bearer_token(authorization: str | None) -> str | None:
    """The token of an Authorization header; None where it has none."""
    kind, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    return token if kind.lower() == "bearer" and token else None


def refusal(*, changes: bool, peer: str, own: str, host: str, origin: str | None) -> str | None:
    """Why a request is refused; None where it may pass.

    `peer` is the address it comes from, `own` the one it came to; `host` and `origin` are headers.
    """
    if origin is not None:
        return "requests of web pages are not answered"
    if (changes or is_loopback(own)) and not _is_address_or_local(host):
        return "the Host header is neither an address nor localhost"
    if changes and peer != own and not is_loopback(peer):
        return "this is for the broker's own machine or pod: use 127.0.0.1 there"
    return None


def _is_address_or_local(host: str) -> bool:
    """Whether a Host header is one that no foreign DNS can make a browser send."""
    name = host.strip()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name.lower() in _LOCAL_NAMES:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def page_refusal(origin: str | None) -> str | None:
    """Why a request by a caller who is known is refused: a web page has no business here."""
    return None if origin is None else "requests of web pages are not answered"
