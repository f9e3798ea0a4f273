"""Who sent a request of a group, as far as the coordinator needs to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class RequestContext(NamedTuple):
    """One request's sender; the host is shown to admins as it is (Kafka writes `/127.0.0.1`)."""

    client_id: str
    client_host: str
    api_version: int
    #: Whether it may see a topic; None where it may see all.
    sees_topic: Callable[[str], bool] | None = None
