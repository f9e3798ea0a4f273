"""Log directories: AlterReplicaLogDirs (34), DescribeLogDirs (35)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.log_dirs import LogDirDescription, TopicPartitionReplica
from barnabas_protocol.ids import TopicPartition


class LogDirs:
    """`admin.log_dirs`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        node_ids: Collection[int] | None = None,
        *,
        partitions: Collection[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[int, dict[str, LogDirDescription]]:
        """The directories of brokers, by path; all brokers and partitions if none are named."""
        raise NotImplementedError

    async def move_replicas(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Move replicas to another directory of their broker."""
        raise NotImplementedError
