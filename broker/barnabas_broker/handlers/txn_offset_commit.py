"""TxnOffsetCommit (28), versions 0 to 6: offsets that a transaction commits.

Sent to the group coordinator, which verifies the transaction with its coordinator (up to v4) or
adds the partition of the offsets to it (from v5, transactions of version 2). v3: membership. v6:
topic ids. Source: TXN-4.
"""

from __future__ import annotations

from barnabas_broker.coordinator.group.errors import append_error
from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_broker.coordinator.transaction.shard import Producer
from barnabas_broker.coordinator.transaction.verification import Guard, Kind, Question
from barnabas_broker.handlers.authorization import parted, require
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE = 4
ADDS_SINCE = 5
IDS_SINCE = 6


async def handle(
    services: Services, in_flight: InFlightRequest, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Store the offsets; they show when the transaction commits."""
    require(
        services,
        in_flight,
        AclOperation.WRITE,
        AclResourceType.TRANSACTIONAL_ID,
        request.transactional_id,
    )
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    version = in_flight.api_version
    refused = _resolve_ids(services, request) if version >= IDS_SINCE else []
    refused += await _take_out_unreadable(services, in_flight, request)
    if refused and not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    producer = Producer(request.producer_id, request.producer_epoch)
    group_partition = TopicPartition(
        OFFSETS_TOPIC, services.groups.runtime.partition_for(request.group_id)
    )
    try:
        partition = services.replicas.find(group_partition)
        partition.check_leader()
    except KafkaError as error:
        # What a leader says means nothing to a client that looks for its coordinator.
        raise KafkaError(append_error(error.code)) from None
    question = Question(group_partition, partition.leader_epoch)
    guard: Guard | None = None
    if not partition.log.producer_state.is_in_transaction(*producer):
        kind = Kind(adds=version >= ADDS_SINCE, knows_abortable=version >= ABORTABLE_SINCE)
        outcome = await services.verification.ask(
            request.transactional_id, producer, [question], kind
        )
        given = outcome[group_partition]
        if isinstance(given, ErrorCode):
            raise KafkaError(_told(given))
        guard = given

    def check() -> None:
        is_here = services.replicas.partitions.get(group_partition) is partition
        if not is_here or question.leader_epoch != partition.leader_epoch:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if partition.log.producer_state.is_in_transaction(*producer):
            return
        if guard is None:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction has ended meanwhile")
        services.verification.check(question, producer, guard)

    response = await services.groups.txn_offset_commit(request, group_context(in_flight), check)
    response.topics += refused
    return response


def _told(code: ErrorCode) -> ErrorCode:
    """Return what a client is told that looks for its coordinator again."""
    if code is ErrorCode.NOT_ENOUGH_REPLICAS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _resolve_ids(
    services: Services, request: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Name the topics of a request; those of an unknown id are taken out and answered."""
    unknown = []
    named = []
    for topic in request.topics:
        image = services.image.topics.by_id.get(topic.topic_id)
        if image is None:
            unknown.append(
                TxnOffsetCommitResponseTopic(
                    topic_id=topic.topic_id,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                        )
                        for partition in topic.partitions
                    ],
                )
            )
        else:
            topic.name = image.name
            named.append(topic)
    request.topics = named
    return unknown


async def _take_out_unreadable(
    services: Services, in_flight: InFlightRequest, request: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Take out the topics that the client may not read, and refuse them."""
    request.topics, unreadable = await parted(
        services,
        in_flight,
        AclOperation.READ,
        AclResourceType.TOPIC,
        request.topics,
        lambda topic: topic.name,
    )
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return failed(TxnOffsetCommitRequest(topics=unreadable), error).topics


def failed(request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    """The same error for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error.code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
