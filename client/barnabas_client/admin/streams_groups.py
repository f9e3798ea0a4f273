"""Streams groups: StreamsGroupDescribe (89)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.streams_groups import StreamsGroupDescription


class StreamsGroups:
    """`admin.streams_groups`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, StreamsGroupDescription]:
        """Streams groups with their topology, members and tasks."""
        raise NotImplementedError
