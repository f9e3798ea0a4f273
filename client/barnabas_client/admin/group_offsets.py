"""What groups have committed: OffsetCommit (8), OffsetFetch (9), OffsetDelete (47)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_protocol.ids import TopicPartition


class GroupOffsets:
    """`admin.group_offsets`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self,
        groups: Iterable[str] | Mapping[str, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """The committed offsets of groups, of all partitions or of those that a mapping names; None where there is none."""
        raise NotImplementedError

    async def alter(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group without members."""
        raise NotImplementedError

    async def delete(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Forget committed offsets of topics that the group does not read."""
        raise NotImplementedError
