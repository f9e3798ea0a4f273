"""`admin.log_dirs`: AlterReplicaLogDirs (34) and DescribeLogDirs (35), asked of each broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from barnabas_client.admin.destinations import Brokers, Destination
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.refusals import Refusal, refusal_error, refused
from barnabas_client.admin.routing import AdminRouting, Asked, Call
from barnabas_client.admin.values.log_dirs import (
    LogDirDescription,
    ReplicaSize,
    TopicPartitionReplica,
)
from barnabas_client.cluster.partitions import by_topic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas_protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)


class LogDirs:
    """What can be done about log directories."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        node_ids: Collection[int] | None = None,
        *,
        partitions: Collection[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[int, dict[str, LogDirDescription]]:
        """The directories of brokers, by path; of all brokers, with all replicas, by default."""
        topics = None
        if partitions is not None:
            topics = [
                DescribableLogDirTopic(topic=topic, partitions=[one.partition for one in some])
                for topic, some in by_topic(partitions).items()
            ]

        def call(to: Destination[int]) -> Call[int, dict[str, LogDirDescription]]:
            return Call(
                action="describe log directories of broker",
                api=ApiKey.DESCRIBE_LOG_DIRS,
                to=to,
                build=lambda asked: DescribeLogDirsRequest(topics=topics),
                read=lambda answer, asked: {
                    asked.node_id: refused(answer)
                    or {one.log_dir: _described(one) for one in answer.results}
                },
            )

        if node_ids is None:
            return await self._routing.every_broker(call, timeout_ms)
        return await self._routing.each(node_ids, call(Brokers(int)), timeout_ms)

    async def move_replicas(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Begin to move replicas to other directories of their brokers; `describe` has the lag."""
        call = Call[TopicPartitionReplica, None](
            action="move replica",
            api=ApiKey.ALTER_REPLICA_LOG_DIRS,
            to=Brokers(lambda replica: replica.broker_id),
            build=lambda asked: _moves(asked, targets),
            read=_moved,
            is_change=True,
        )
        return await self._routing.each(targets, call, timeout_ms)


def _described(one: Any) -> LogDirDescription:
    refusal = refused(one)
    return LogDirDescription(
        path=one.log_dir,
        error=None if refusal is None else refusal_error(f"log directory {one.log_dir}", refusal),
        total_bytes=one.total_bytes if one.total_bytes >= 0 else None,
        usable_bytes=one.usable_bytes if one.usable_bytes >= 0 else None,
        is_cordoned=one.is_cordoned,
        replicas={
            TopicPartition(topic.name, replica.partition_index): ReplicaSize(
                size_bytes=replica.partition_size,
                offset_lag=replica.offset_lag,
                is_future=replica.is_future_key,
            )
            for topic in one.topics
            for replica in topic.partitions
        },
    )


def _moves(
    asked: Asked[TopicPartitionReplica], targets: Mapping[TopicPartitionReplica, str]
) -> AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = defaultdict(list)
    for replica in asked.keys:
        by_path[targets[replica]].append(TopicPartition(replica.topic, replica.partition))
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(
                        name=topic, partitions=[one.partition for one in partitions]
                    )
                    for topic, partitions in by_topic(some).items()
                ],
            )
            for path, some in by_path.items()
        ]
    )


def _moved(
    answer: Any, asked: Asked[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, Refusal | None]:
    return {
        TopicPartitionReplica(topic.topic_name, one.partition_index, asked.node_id): refused(one)
        for topic in answer.results
        for one in topic.partitions
    }
