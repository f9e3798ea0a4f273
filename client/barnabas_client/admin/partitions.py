"""Partitions: ListOffsets (2), DeleteRecords (21), ElectLeaders (43), reassignments (45, 46)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.partitions import (
    ElectionType,
    OffsetSpec,
    PartitionOffset,
    Reassignment,
)
from barnabas_protocol.ids import TopicPartition


class Partitions:
    """`admin.partitions`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, PartitionOffset]:
        """Offsets by spec or by timestamp in milliseconds (the first record not older)."""
        raise NotImplementedError

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartition, int]:
        """Delete the records before an offset, -1 for all; the value is the new log start offset."""
        raise NotImplementedError

    async def elect_leaders(
        self,
        election_type: ElectionType = ElectionType.PREFERRED,
        partitions: Collection[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Elect leaders, of all partitions if none are named."""
        raise NotImplementedError

    async def reassign(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Move partitions to other brokers; None cancels a move under way."""
        raise NotImplementedError

    async def list_reassignments(
        self, partitions: Collection[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Which partitions are on the move. Raises: what went wrong."""
        raise NotImplementedError
