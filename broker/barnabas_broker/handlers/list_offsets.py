"""ListOffsets (2), versions 1 to 11: offsets by timestamp or by name.

v2: isolation level. v4: leader epochs. v7: max timestamp (-3). v8: earliest local (-4). v9: last
tiered (-5). v10: time-out. v11: earliest pending upload (-6). Without tiered storage -4 is the log
start offset, -5 and -6 are unknown (-1). Source: REQ-11.
"""

from collections.abc import Iterator

from barnabas_broker.handlers.authorization import may
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.heavy_work import each_and_held
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
READ_COMMITTED = 1
CONSUMER = -1

NOT_AVAILABLE_SINCE = 5
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


async def handle(
    services: Services, in_flight: InFlightRequest, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """Answer each partition on its own."""
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    each = services.heavy_work.each
    async for topic, partition in each(in_flight, _topics_and_partitions(request)):
        if partition is not None:
            key = (topic.name, partition.partition_index)
            (twice if key in seen else seen).add(key)
    topics: list[ListOffsetsTopicResponse] = []
    is_visible = False
    async for topic, partition in each(in_flight, _topics_and_partitions(request)):
        if partition is None:
            is_visible = may(
                services, in_flight, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name
            )
            topics.append(ListOffsetsTopicResponse(name=topic.name))
            continue
        index, partitions = partition.partition_index, topics[-1].partitions
        key = (topic.name, index)
        if not is_visible:
            partitions.append(_unknown(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif key in twice:  # refused, and once in the response
            if key in seen:
                seen.remove(key)
                partitions.append(_unknown(index, ErrorCode.INVALID_REQUEST))
        else:
            try:
                found = await _find(services, in_flight, request, topic.name, partition)
            except KafkaError as error:
                found = _unknown(index, error.code)
            partitions.append(found)
    return ListOffsetsResponse(
        topics=[
            answered
            for answered, topic in zip(topics, request.topics, strict=True)
            if answered.partitions or not topic.partitions
        ]
    )


def _topics_and_partitions(
    request: ListOffsetsRequest,
) -> Iterator[tuple[ListOffsetsTopic, ListOffsetsPartition | None]]:
    return each_and_held(request.topics, lambda topic: topic.partitions)


def _unknown(index: int, code: int = ErrorCode.NONE) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=code, timestamp=-1, offset=-1, leader_epoch=-1
    )


async def _find(
    services: Services,
    in_flight: InFlightRequest,
    request: ListOffsetsRequest,
    topic: str,
    requested: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    partition = services.replicas.find(TopicPartition(topic, requested.partition_index))
    partition.check_leader(requested.current_leader_epoch)
    timestamp = requested.timestamp
    if timestamp < EARLIEST_PENDING_UPLOAD or in_flight.api_version < _SINCE.get(timestamp, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    limit = partition.limit_offset(
        is_follower=request.replica_id != CONSUMER,
        read_committed=request.isolation_level == READ_COMMITTED,
    )
    index, log = requested.partition_index, partition.log
    if (
        request.replica_id == CONSUMER
        and not partition.is_end_known
        and timestamp not in (EARLIEST, EARLIEST_LOCAL)
    ):
        is_told = in_flight.api_version >= NOT_AVAILABLE_SINCE
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE if is_told else ErrorCode.LEADER_NOT_AVAILABLE
        )
    if timestamp == LATEST:
        return _answer(partition, index, -1, limit, limit)
    if timestamp == EARLIEST:
        return _answer(partition, index, -1, log.log_start_offset, limit)
    if timestamp == EARLIEST_LOCAL:
        return _answer(partition, index, -1, log.local_log_start_offset, limit)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _unknown(index)
    async with services.replicas.client_reads:
        if timestamp == MAX_TIMESTAMP:
            found = await log.max_timestamp_offset(limit)
        else:
            found = await log.offset_for_timestamp(timestamp, limit)
    if found is None:
        return _unknown(index)
    found_timestamp, offset, leader_epoch = found
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=found_timestamp, offset=offset, leader_epoch=leader_epoch
    )


def _answer(
    partition: Partition, index: int, timestamp: int, offset: int, limit: int
) -> ListOffsetsPartitionResponse:
    """An offset with the leader epoch that it was, or will be, written in."""
    if offset >= limit:
        leader_epoch = partition.leader_epoch
    else:
        leader_epoch = partition.log.leader_epochs.epoch_for(offset)
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=timestamp, offset=offset, leader_epoch=leader_epoch
    )


def failed(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    """The same error for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _unknown(partition.partition_index, error.code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
