"""What kind a route is: whether it changes something, whether it goes on, which right it needs.

By GET nothing is changed; of other methods a handler says so with `reads`, a scan for example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from aiohttp import web

from barnabas_console.rights.needed import Need
from barnabas_protocol.acl import AclOperation, AclResourceType

Handler = TypeVar("Handler", bound=Callable[..., Any])

_READS: Final = "barnabas_console_reads"
_STREAM: Final = "barnabas_console_stream"
_DOWNLOAD: Final = "barnabas_console_download"
_NEEDED: Final = "barnabas_console_needed"


def reads(handler: Handler) -> Handler:
    """Mark a handler that changes nothing in the cluster, whatever its method (CON-143)."""
    setattr(handler, _READS, True)
    return handler


def stream(handler: Handler) -> Handler:
    """Mark a handler whose response goes on: such are counted apart (CON-160, CON-161)."""
    setattr(handler, _STREAM, True)
    return handler


def download(handler: Handler) -> Handler:
    """Mark a stream that the browser saves by itself: no page waits for it (CON-124)."""
    setattr(handler, _DOWNLOAD, True)
    return stream(handler)


def changes(method: str, handler: object) -> bool:
    """Whether a route changes something in the cluster."""
    return method not in ("GET", "HEAD") and not getattr(handler, _READS, False)


def is_stream(handler: object) -> bool:
    """Whether its responses go on."""
    return getattr(handler, _STREAM, False)


def is_of_a_page(handler: object) -> bool:
    """Whether it is a stream that a page reads, of which a browser has few (CON-160)."""
    return is_stream(handler) and not getattr(handler, _DOWNLOAD, False)


def needs(
    operation: AclOperation, resource_type: AclResourceType, part: str = ""
) -> Callable[[Handler], Handler]:
    """Mark a handler with the right that brokers want for it, to be told where it is missing.

    `part` is the part of the path that names the resource; none is the cluster.
    """

    def mark(handler: Handler) -> Handler:
        setattr(handler, _NEEDED, (operation, resource_type, part))
        return handler

    return mark


def needed_by(request: web.Request) -> Need | None:
    """The right that a request needs, where its handler says so."""
    found = getattr(request.match_info.handler, _NEEDED, None)
    if found is None:
        return None
    operation, resource_type, part = found
    if resource_type is AclResourceType.CLUSTER:
        return Need.of_cluster(operation)
    return Need(operation, resource_type, request.match_info[part])
