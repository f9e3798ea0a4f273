"""`admin.log_dirs`: AlterReplicaLogDirs (34) and DescribeLogDirs (35), sent to each broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from barnabas_client.admin.api_errors import ApiError, error_of, exception_for
from barnabas_client.admin.lookup_strategies import LookupStrategy, StaticBrokerStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext
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

        def call(to: LookupStrategy[int]) -> Call[int, dict[str, LogDirDescription]]:
            return Call(
                action="describe log directories of broker",
                api=ApiKey.DESCRIBE_LOG_DIRS,
                to=to,
                build=lambda context: DescribeLogDirsRequest(topics=topics),
                read=lambda response, context: {
                    context.node_id: error_of(response)
                    or {one.log_dir: _described(one) for one in response.results}
                },
            )

        if node_ids is None:
            return await self._routing.every_broker(call, timeout_ms)
        return await self._routing.each(node_ids, call(StaticBrokerStrategy(int)), timeout_ms)

    async def move_replicas(
        self, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int | None = None
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Begin to move replicas to other directories of their brokers; `describe` has the lag."""
        call = Call[TopicPartitionReplica, None](
            action="move replica",
            api=ApiKey.ALTER_REPLICA_LOG_DIRS,
            to=StaticBrokerStrategy(lambda replica: replica.broker_id),
            build=lambda context: _moves(context, targets),
            read=_moved,
            is_change=True,
        )
        return await self._routing.each(targets, call, timeout_ms)


def _described(one: Any) -> LogDirDescription:
    api_error = error_of(one)
    return LogDirDescription(
        path=one.log_dir,
        error=None
        if api_error is None
        else exception_for(f"log directory {one.log_dir}", api_error),
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
    context: RequestContext[TopicPartitionReplica], targets: Mapping[TopicPartitionReplica, str]
) -> AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = defaultdict(list)
    for replica in context.keys:
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
    response: Any, context: RequestContext[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, ApiError | None]:
    return {
        TopicPartitionReplica(topic.topic_name, one.partition_index, context.node_id): error_of(one)
        for topic in response.results
        for one in topic.partitions
    }
