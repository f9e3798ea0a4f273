"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

Topics come in the order of their names, partitions by their number; the cursor names the first
partition of the next page.
"""

from collections.abc import Mapping

from barnabas_broker.controller.topics import validate_topic_name
from barnabas_broker.handlers.authorized_operations import TOPIC_OPERATIONS
from barnabas_broker.handlers.replica_states import offline_replicas
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import BrokerImage, PartitionImage, TopicImage
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.partition import INTERNAL_TOPICS
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """One page from the cursor on."""
    by_name = services.image.topics.by_name
    names = sorted({topic.name for topic in request.topics} or by_name)
    first_partition = 0
    if request.cursor is not None:
        is_asked = not request.topics or request.cursor.topic_name in names
        if request.cursor.partition_index < 0 or not is_asked:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_partition = request.cursor.partition_index
    limit = services.config.max_request_partition_size_limit
    left = max(1, min(request.response_partition_limit, limit))
    # Names that a client invents take no partition's place, but a page holds so many of them only.
    absent_left = limit
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if left <= 0 or absent_left <= 0:
            response.next_cursor = _cursor(name, 0)
            return response
        topic = by_name.get(name)
        if topic is None:
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(
                    error_code=_why_absent(name),
                    name=name,
                    topic_authorized_operations=TOPIC_OPERATIONS,
                )
            )
            absent_left -= 1
            continue
        end = min(len(topic.partitions), first_partition + left)
        response.topics.append(_topic(topic, services.image.brokers, first_partition, end))
        left -= end - first_partition
        if end < len(topic.partitions):
            response.next_cursor = _cursor(name, end)
            return response
        first_partition = 0
    return response


def _why_absent(name: str) -> ErrorCode:
    try:
        validate_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _cursor(topic: str, partition: int) -> Cursor:
    return Cursor(topic_name=topic, partition_index=partition)


def _topic(
    topic: TopicImage, brokers: Mapping[int, BrokerImage], start: int, end: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(index, topic.partitions[index], brokers) for index in range(start, end)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    index: int, partition: PartitionImage, brokers: Mapping[int, BrokerImage]
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(partition, brokers),
    )


def failed(
    request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse:
    """The error for every requested topic."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name)
            for topic in request.topics
        ]
    )
