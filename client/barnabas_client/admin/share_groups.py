"""Share groups: ShareGroupDescribe (77), offsets (90-92)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.share_groups import ShareGroupDescription, ShareGroupOffset
from barnabas_protocol.ids import TopicPartition


class ShareGroups:
    """`admin.share_groups`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, ShareGroupDescription]:
        """Share groups with their members."""
        raise NotImplementedError

    async def list_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Collection[TopicPartition] | None],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, dict[TopicPartition, ShareGroupOffset | None]]:
        """Where share groups are in their partitions."""
        raise NotImplementedError

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Set where a group without members begins."""
        raise NotImplementedError

    async def delete_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Forget where a group without members is in topics."""
        raise NotImplementedError
