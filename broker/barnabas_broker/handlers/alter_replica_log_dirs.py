"""AlterReplicaLogDirs (34), versions 1 and 2: replicas are moved to other log directories.

The response confirms that a move was begun; DescribeLogDirs shows how far it is. Source: KIP-113.
"""

from collections import defaultdict

from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin the moves, each judged by itself."""
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                code = _move(services, TopicPartition(topic.name, index), directory.path)
                results[topic.name].append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def _move(services: Services, topic_partition: TopicPartition, path: str) -> int:
    try:
        services.replicas.future_logs.move(topic_partition, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def failed(request: AlterReplicaLogDirsRequest, error: KafkaError) -> AlterReplicaLogDirsResponse:
    """The same error for every partition."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error.code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )
