"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

Topics come in the order of their names, partitions by their number; the cursor names the first
partition of the next page.
"""

from collections.abc import Mapping, Sequence, Set

from barnabas_broker.controller.topics import validate_topic_name
from barnabas_broker.handlers.authorization import may
from barnabas_broker.handlers.authorized_operations import OPERATIONS_SLICE, authorized_operations
from barnabas_broker.handlers.replica_states import offline_replicas
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import BrokerImage, PartitionImage, TopicImage
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.partition import INTERNAL_TOPICS
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """One page from the cursor on, of what the client may see."""
    names = sorted({topic.name for topic in request.topics} or services.image.topics.by_name)
    if request.cursor is not None:
        is_asked = not request.topics or request.cursor.topic_name in names
        if request.cursor.partition_index < 0 or not is_asked:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        names = [name for name in names if name >= request.cursor.topic_name]
    hidden: set[str] = set()
    if services.authorizer is not None:
        hidden = {
            name
            async for name in services.heavy_work.each(in_flight, names)
            if not may(
                services,
                in_flight,
                AclOperation.DESCRIBE,
                AclResourceType.TOPIC,
                name,
                is_filter=not request.topics,
            )
        }
        if not request.topics:
            names = [name for name in names if name not in hidden]
    return await _page(services, in_flight, request, names, hidden)


async def _page(
    services: Services,
    in_flight: InFlightRequest,
    request: DescribeTopicPartitionsRequest,
    names: Sequence[str],
    hidden: Set[str],
) -> DescribeTopicPartitionsResponse:
    """The page; what the client has named and may not see is an error there."""
    by_name, cursor, first_partition = services.image.topics.by_name, request.cursor, 0
    if cursor is not None and names and names[0] == cursor.topic_name:
        first_partition = cursor.partition_index
    limit = services.config.max_request_partition_size_limit
    left = max(1, min(request.response_partition_limit, limit))
    # Names that a client invents take no partition's place, but a page holds so many of them only.
    absent_left = limit
    response = DescribeTopicPartitionsResponse()
    size = SLICE if services.authorizer is None else OPERATIONS_SLICE
    async for name in services.heavy_work.each(in_flight, names, size):
        if left <= 0 or absent_left <= 0:
            response.next_cursor = _cursor(name, 0)
            return response
        topic = None if name in hidden else by_name.get(name)
        if topic is None:
            response.topics.append(_absent(services, in_flight, name, is_hidden=name in hidden))
            absent_left -= 1
            first_partition = 0
            continue
        first_partition = min(first_partition, len(topic.partitions))
        end = min(len(topic.partitions), first_partition + left)
        described = _topic(topic, services.image.brokers, first_partition, end)
        described.topic_authorized_operations = authorized_operations(
            services, in_flight, AclResourceType.TOPIC, name
        )
        response.topics.append(described)
        left -= end - first_partition
        if end < len(topic.partitions):
            response.next_cursor = _cursor(name, end)
            return response
        first_partition = 0
    return response


def _absent(
    services: Services, in_flight: InFlightRequest, name: str, *, is_hidden: bool
) -> DescribeTopicPartitionsResponseTopic:
    """What is said of a topic that is not there, or that the client may not see."""
    if is_hidden:
        return DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
        )
    return DescribeTopicPartitionsResponseTopic(
        error_code=_why_absent(name),
        name=name,
        topic_authorized_operations=authorized_operations(
            services, in_flight, AclResourceType.TOPIC, name
        ),
    )


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
