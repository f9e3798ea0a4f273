"""Which requests come from the console's own page: pure rules over their headers (CON-142).

A page of somebody else may reach the console through its visitor's browser: by a name that is made
to resolve to the loopback address (DNS rebinding), or by a request from a foreign origin (CSRF).
The first shows in `Host`, the second in `Origin` and in the lack of a header of our own, which no
foreign page can send without a permission (CORS) that the console never gives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from barnabas_console.loopback import is_loopback
from barnabas_console.settings import ConsoleSettings

OWN_HEADER: Final = "X-Barnabas-Console"
OWN_HEADER_VALUE: Final = "1"
BROWSER_HEADER: Final = "X-Barnabas-Browser"
CLUSTER_HEADER: Final = "X-Barnabas-Cluster"
_BROWSER_CHARACTERS_MAX: Final = 64
_SAME_SITE: Final = ("same-origin", "none")


def host_names(settings: ConsoleSettings) -> frozenset[str]:
    """The names that browsers may call the console by, besides those of the loopback address."""
    named = "" if settings.oidc is None else settings.oidc.host
    names = (settings.host, named, *settings.allowed_hosts)
    return frozenset(name.lower() for name in names if name)


def host_refusal(host: str, names: Collection[str]) -> str | None:
    """Why a request for this `Host` is refused; None where it is not.

    The port is not looked at: `kubectl port-forward` may have chosen another.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    if is_loopback(name) or name in names:
        return None
    return f"the console is not called {host!r}: name it with --allowed-host"


def page_refusal(headers: Mapping[str, str]) -> str | None:
    """Why a request that another page has sent is refused; None where it is the console's own."""
    origin = headers.get("Origin")
    if origin is not None and _place(origin) != headers.get("Host", "").lower():
        return "the request comes from a page of somebody else"
    if headers.get("Sec-Fetch-Site", "none") not in _SAME_SITE:
        return "the request comes from a page of somebody else"
    return None


def _place(origin: str) -> str | None:
    """The host and the port of an origin; None where it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def api_refusal(headers: Mapping[str, str]) -> str | None:
    """Why a call of the API is refused; None where it is the console's own page that calls."""
    if headers.get(OWN_HEADER) != OWN_HEADER_VALUE:
        return f"calls of the API carry the header {OWN_HEADER}: {OWN_HEADER_VALUE}"
    return page_refusal(headers)


def cluster_refusal(headers: Mapping[str, str], name: str) -> str | None:
    """Why a page is refused that shows another cluster than the one of this name; None for others.

    A port that is forwarded may lead to another console than the one that the page came from.
    """
    shown = unquote(headers.get(CLUSTER_HEADER, name))
    if shown == name:
        return None
    return f"the page is of the cluster {shown[:100]!r}, and this console is of {name!r}"


def browser_of(headers: Mapping[str, str], address: str | None) -> str:
    """What tells browsers apart: what the page drew by lot, else where the request comes from."""
    return headers.get(BROWSER_HEADER, "")[:_BROWSER_CHARACTERS_MAX] or f"address {address}"
